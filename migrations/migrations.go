package migrations

import (
	"embed"
	"io/fs"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// SQLite returns the migrations of the SQLite schema, which Turso shares.
func SQLite() fs.FS { return folder("sqlite") }

// Postgres returns the migrations of the PostgreSQL schema, which they call
// pawl.
func Postgres() fs.FS { return folder("postgres") }

func folder(name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}
