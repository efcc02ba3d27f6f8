// Package migrations holds the schemas of the backends as goose migrations.
package migrations

import (
	"embed"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// SQLite returns the migrations of the SQLite schema, which Turso shares.
func SQLite() fs.FS { return folder("sqlite") }

// Postgres returns the migrations of the PostgreSQL schema, which they call
// pawl.
func Postgres() fs.FS { return folder("postgres") }

// Newest is the version of the schema that the newest migration makes. The backends'
// versions go together.
func Newest() (newest int64) {
	names, err := fs.Glob(SQLite(), "*.sql")
	if err != nil {
		panic(err) // the pattern is a good one
	}
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		if v, err := strconv.ParseInt(number, 10, 64); err == nil {
			newest = max(newest, v)
		}
	}
	return newest
}

func folder(name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}
