package procs

import (
	"context"
	"testing"
)

// A backend is a database on which the real processes are tried.
type backend struct {
	name string
	// fresh makes an empty database in or beside the directory and returns its URL.
	// network is nil where nothing is between the processes and the database.
	fresh func(t *testing.T, dir string, seed uint64) (url string, n *network)
	// check looks at the tables themselves, past the code that wrote them, when
	// every run is final.
	check func(ctx context.Context, url string) error
}

var allBackends = []backend{
	{name: "sqlite", fresh: freshSQLite, check: checkSQLite},
	{name: "postgres", fresh: freshPostgres, check: checkPostgres},
}
