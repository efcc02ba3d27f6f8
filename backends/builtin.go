package backends

import (
	"context"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/store"
)

// The backends that are part of the library.
var (
	onPostgres = Backend{
		Open: func(ctx context.Context, url string, c Config) (store.Store, error) {
			s, err := postgres.Open(ctx, url, of(c, postgres.WithLogger, postgres.WithLimits, postgres.WithoutMigration)...)
			return opened(s, err)
		},
		SchemaOf: func(ctx context.Context, url string) (store.Schema, error) { return postgres.SchemaOf(ctx, url) },
		PlanOf:   func(ctx context.Context, url string) (store.SchemaPlan, error) { return postgres.PlanOf(ctx, url) },
		SchemaSQL: func(url string, since int64) (string, error) {
			name, err := postgres.SchemaName(url)
			if err != nil {
				return "", err
			}
			return postgres.SchemaSQL(name, since)
		},
	}
	onSQLite = Backend{
		Open: func(ctx context.Context, url string, c Config) (store.Store, error) {
			s, err := sqlite.Open(ctx, url, of(c, sqlite.WithLogger, sqlite.WithLimits, sqlite.WithoutMigration)...)
			return opened(s, err)
		},
		SchemaOf:  func(ctx context.Context, url string) (store.Schema, error) { return sqlite.SchemaOf(ctx, url) },
		PlanOf:    func(ctx context.Context, url string) (store.SchemaPlan, error) { return sqlite.PlanOf(ctx, url) },
		SchemaSQL: func(_ string, since int64) (string, error) { return sqlite.SchemaSQL(since) },
	}
	onTurso = Backend{
		Open: func(ctx context.Context, url string, c Config) (store.Store, error) {
			s, err := turso.Open(ctx, url, of(c, turso.WithLogger, turso.WithLimits, turso.WithoutMigration)...)
			return opened(s, err)
		},
		SchemaOf:  func(ctx context.Context, url string) (store.Schema, error) { return turso.SchemaOf(ctx, url) },
		PlanOf:    func(ctx context.Context, url string) (store.SchemaPlan, error) { return turso.PlanOf(ctx, url) },
		SchemaSQL: func(_ string, since int64) (string, error) { return turso.SchemaSQL(since) },
	}
)

// opened returns a nil interface instead of a nil pointer if there is an error.
func opened(s store.Store, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
