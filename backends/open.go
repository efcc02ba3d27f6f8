package backends

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// Open opens the store that the URL names, by its scheme:
//
//	postgres://user:password@host:5432/database    see package postgres
//	sqlite:pawl.db                                 see package sqlite
//	libsql://name-org.turso.io?authToken=...       see package turso; also http and https
//
// [Register] adds schemes. An unknown one is an error that matches store.ErrInvalid.
func Open(ctx context.Context, url string, opts ...Option) (store.Store, error) {
	b, err := find(url)
	if err != nil {
		return nil, err
	}
	return b.Open(ctx, url, apply(opts))
}

// SchemaOf reports which migrations the database at the URL has had. It changes nothing. [Open]
// applies the missing ones, unless the URL says migrate=false. The error of a backend that has no
// schema matches store.ErrUnsupported.
func SchemaOf(ctx context.Context, url string) (store.Schema, error) {
	b, err := find(url)
	if err != nil {
		return store.Schema{}, err
	}
	if b.SchemaOf == nil {
		return store.Schema{}, noSchema(url)
	}
	return b.SchemaOf(ctx, url)
}

// PlanOf reports what [Open] would do to the schema of the database at the URL: the statements,
// what they lock, and roughly for how long. It changes nothing. The error of a backend that has no
// plans matches store.ErrUnsupported.
func PlanOf(ctx context.Context, url string) (store.SchemaPlan, error) {
	b, err := find(url)
	if err != nil {
		return store.SchemaPlan{}, err
	}
	if b.PlanOf == nil {
		return store.SchemaPlan{}, noSchema(url)
	}
	return b.PlanOf(ctx, url)
}

// SchemaSQL returns the SQL that migrates from a version of the schema (0 for none) to the newest,
// in the dialect of the backend that the URL names. It returns "" if there is nothing to do. It
// does not connect to anything. The error of a backend that has no SQL schema matches
// store.ErrUnsupported.
func SchemaSQL(url string, since int64) (string, error) {
	b, err := find(url)
	if err != nil {
		return "", err
	}
	if b.SchemaSQL == nil {
		return "", noSchema(url)
	}
	return b.SchemaSQL(url, since)
}

func noSchema(url string) error {
	scheme, _, _ := strings.Cut(url, ":")
	return fmt.Errorf("databases of scheme %q have no schema to migrate: %w", scheme, store.ErrUnsupported)
}
