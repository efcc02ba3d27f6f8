// Package backends opens a store by its URL. A program that imports one
// backend's package alone carries no other's driver.
package backends

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/store"
)

// backend is what a URL's scheme leads to.
type backend struct {
	open      func(ctx context.Context, url string, o options) (store.Store, error)
	schemaOf  func(ctx context.Context, url string) (store.Schema, error)
	schemaSQL func(url string, since int64) (string, error)
}

var (
	onPostgres = backend{
		open: func(ctx context.Context, url string, o options) (store.Store, error) {
			s, err := postgres.Open(ctx, url, of(o, postgres.WithLogger, postgres.WithLimits, postgres.WithoutMigration)...)
			if err != nil {
				return nil, err // not a *postgres.Store that is nil
			}
			return s, nil
		},
		schemaOf: func(ctx context.Context, url string) (store.Schema, error) { return postgres.SchemaOf(ctx, url) },
		schemaSQL: func(url string, since int64) (string, error) {
			name, err := postgres.SchemaName(url)
			if err != nil {
				return "", err
			}
			return postgres.SchemaSQL(name, since)
		},
	}
	onSQLite = backend{
		open: func(ctx context.Context, url string, o options) (store.Store, error) {
			s, err := sqlite.Open(ctx, url, of(o, sqlite.WithLogger, sqlite.WithLimits, sqlite.WithoutMigration)...)
			if err != nil {
				return nil, err // not a *sqlite.Store that is nil
			}
			return s, nil
		},
		schemaOf:  func(ctx context.Context, url string) (store.Schema, error) { return sqlite.SchemaOf(ctx, url) },
		schemaSQL: func(_ string, since int64) (string, error) { return sqlite.SchemaSQL(since) },
	}
	onTurso = backend{
		open: func(ctx context.Context, url string, o options) (store.Store, error) {
			s, err := turso.Open(ctx, url, of(o, turso.WithLogger, turso.WithLimits, turso.WithoutMigration)...)
			if err != nil {
				return nil, err // not a *turso.Store that is nil
			}
			return s, nil
		},
		schemaOf:  func(ctx context.Context, url string) (store.Schema, error) { return turso.SchemaOf(ctx, url) },
		schemaSQL: func(_ string, since int64) (string, error) { return turso.SchemaSQL(since) },
	}
)

// schemes maps a URL's scheme to its backend.
var schemes = map[string]backend{
	"postgres":   onPostgres,
	"postgresql": onPostgres,
	"sqlite":     onSQLite,
	"libsql":     onTurso,
	"https":      onTurso,
	"http":       onTurso,
}

// Open opens the store that the URL names, by its scheme:
//
//	postgres://user:password@host:5432/database    see package postgres
//	sqlite:pawl.db                                 see package sqlite
//	libsql://name-org.turso.io?authToken=...       see package turso; also http and https
//
// An unknown scheme is an error that matches store.ErrInvalid.
func Open(ctx context.Context, url string, opts ...Option) (store.Store, error) {
	b, err := find(url)
	if err != nil {
		return nil, err
	}
	return b.open(ctx, url, apply(opts))
}

// SchemaOf tells which migrations the database has had that the URL names, and
// changes nothing. [Open] applies those that are missing, unless the URL says
// migrate=false.
func SchemaOf(ctx context.Context, url string) (store.Schema, error) {
	b, err := find(url)
	if err != nil {
		return store.Schema{}, err
	}
	return b.schemaOf(ctx, url)
}

// SchemaSQL returns the SQL that leads from a version of the schema, 0 for none,
// to the newest, in the dialect of the backend that the URL names; empty when
// there is nothing to do. It connects to nothing.
func SchemaSQL(url string, since int64) (string, error) {
	b, err := find(url)
	if err != nil {
		return "", err
	}
	return b.schemaSQL(url, since)
}

func find(url string) (backend, error) {
	scheme, _, ok := strings.Cut(url, ":")
	known := strings.Join(slices.Sorted(maps.Keys(schemes)), ", ")
	if !ok {
		return backend{}, store.Invalid("database URL", fmt.Sprintf("it has no scheme; known are: %s", known))
	}
	b, ok := schemes[scheme]
	if scheme == "ws" || scheme == "wss" {
		b, ok = onTurso, true // which says why not
	}
	if !ok {
		return backend{}, store.Invalid("database URL", fmt.Sprintf("scheme %q is unknown; known are: %s", scheme, known))
	}
	return b, nil
}
