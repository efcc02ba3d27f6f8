package procs

import (
	"context"
	"testing"
)

// A backend is a database on which the tests run real processes.
type backend struct {
	name string
	// fresh makes an empty database in or beside the directory and returns its URL.
	// network is nil where nothing is between the processes and the database.
	fresh func(t *testing.T, dir string, seed uint64) (url string, n *network)
	// check reads the tables directly, bypassing the code that wrote them, when every run is final.
	check func(ctx context.Context, url string) error
	// backups are the ways to back the database up and to restore it.
	backups []backup
}

// A backup is a way to back a database up.
type backup struct {
	name string
	live bool // processes may work while it is restored
	// take begins a backup. The function that mark returns restores the database to the moment of
	// mark; it reports false if that has to be tried again.
	take func(d *driver) (mark func() (restore func() bool))
}

var allBackends = []backend{
	{name: "sqlite", fresh: freshSQLite, check: checkSQLite, backups: sqliteBackups},
	{name: "postgres", fresh: freshPostgres, check: checkPostgres, backups: postgresBackups},
}
