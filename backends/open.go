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

// schemes maps a URL's scheme to its backend.
var schemes = map[string]func(context.Context, string) (store.Store, error){
	"postgres":   openPostgres,
	"postgresql": openPostgres,
	"sqlite": func(ctx context.Context, url string) (store.Store, error) {
		s, err := sqlite.Open(ctx, url)
		if err != nil {
			return nil, err // not a *sqlite.Store that is nil
		}
		return s, nil
	},
	"libsql": openTurso,
	"https":  openTurso,
	"http":   openTurso,
}

func openTurso(ctx context.Context, url string) (store.Store, error) {
	s, err := turso.Open(ctx, url)
	if err != nil {
		return nil, err // not a *turso.Store that is nil
	}
	return s, nil
}

func openPostgres(ctx context.Context, url string) (store.Store, error) {
	s, err := postgres.Open(ctx, url)
	if err != nil {
		return nil, err // not a *postgres.Store that is nil
	}
	return s, nil
}

// Open opens the store that the URL names, by its scheme:
//
//	postgres://user:password@host:5432/database    see package postgres
//	sqlite:pawl.db                                 see package sqlite
//	libsql://name-org.turso.io?authToken=...       see package turso; also http and https
//
// An unknown scheme is an error that matches store.ErrInvalid.
func Open(ctx context.Context, url string) (store.Store, error) {
	scheme, _, ok := strings.Cut(url, ":")
	known := strings.Join(slices.Sorted(maps.Keys(schemes)), ", ")
	if !ok {
		return nil, store.Invalid("database URL", fmt.Sprintf("it has no scheme; known are: %s", known))
	}
	open := schemes[scheme]
	if scheme == "ws" || scheme == "wss" {
		open = openTurso // which says why not
	}
	if open == nil {
		return nil, store.Invalid("database URL", fmt.Sprintf("scheme %q is unknown; known are: %s", scheme, known))
	}
	return open(ctx, url)
}
