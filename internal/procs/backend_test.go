package procs

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/internal/pgtest"
)

// A backend is a database on which the real processes are tried.
type backend struct {
	name string
	// fresh makes an empty database in or beside the directory and returns its URL.
	fresh func(t *testing.T, dir string) string
	// check looks at the tables themselves, past the code that wrote them, when
	// every run is final.
	check func(ctx context.Context, url string) error
}

var allBackends = []backend{
	{name: "sqlite", fresh: func(_ *testing.T, dir string) string { return "sqlite:" + filepath.Join(dir, "pawl.db") }, check: checkSQLite},
	{name: "postgres", fresh: func(t *testing.T, _ string) string { return pgtest.Database(t) }, check: checkPostgres},
}
