// Package migrations holds the schemas of the backends as goose migrations.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed sqlite/*.sql
var files embed.FS

// SQLite returns the migrations of the SQLite schema, which Turso shares.
func SQLite() fs.FS {
	sub, err := fs.Sub(files, "sqlite")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}
