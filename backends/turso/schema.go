package turso

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// SchemaOf reports which migrations a database has had. It changes nothing. It takes the same
// arguments as Open.
func SchemaOf(ctx context.Context, location string, opts ...Option) (store.Schema, error) {
	s, err := connect(location, opts)
	if err != nil {
		return store.Schema{}, err
	}
	defer func() { _ = s.Close() }()
	applied, minimum, err := s.applied(ctx)
	switch {
	case ctx.Err() != nil:
		return store.Schema{}, ctx.Err()
	case err != nil:
		return store.Schema{}, openError(&s.config, err)
	}
	return sqlitecore.SchemaOf(s.config.host(), applied, minimum)
}

// applied reads which migrations the database has had, and which version a program must
// know.
func (s *Store) applied(ctx context.Context) (applied map[int64]time.Time, minimum int64, err error) {
	version, err := schemaVersion(ctx, s.runner, new(string))
	if err != nil || version == 0 {
		return nil, 0, err
	}
	if version >= sqlitecore.WithMinimum {
		if minimum, err = minimumVersion(ctx, s.runner); err != nil {
			return nil, 0, err
		}
	}
	applied = map[int64]time.Time{}
	err = s.runner.Read(ctx, []sqlitecore.Stmt{{
		SQL: sqlitecore.Applied,
		Rows: func(scan func(...any) error) error {
			var version, at int64
			if err := scan(&version, &at); err != nil {
				return err
			}
			applied[version] = time.Unix(at, 0).UTC()
			return nil
		},
	}})
	return applied, minimum, err
}

// plannedRows is the largest number of rows of a table that PlanOf counts, because rows that are
// read cost money.
const plannedRows = 10_000

// PlanOf reports what migrating a database would do. It changes nothing. It takes the same
// arguments as Open, and counts up to 10,000 rows of each table concerned.
func PlanOf(ctx context.Context, location string, opts ...Option) (store.SchemaPlan, error) {
	schema, err := SchemaOf(ctx, location, opts...)
	if err != nil {
		return store.SchemaPlan{}, err
	}
	s, err := connect(location, opts)
	if err != nil {
		return store.SchemaPlan{}, err
	}
	defer func() { _ = s.Close() }()
	return sqlitecore.Plan(schema.Place, schema.Version, plannedRows, func(table string) (int64, error) {
		n, err := s.count(ctx, table)
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case err != nil:
			err = openError(&s.config, err)
		}
		return n, err
	})
}

// count returns the number of rows of a table; -1 if the table does not exist.
func (s *Store) count(ctx context.Context, table string) (n int64, err error) {
	one := func(scan func(...any) error) error { return scan(&n) }
	err = s.runner.Read(ctx, []sqlitecore.Stmt{{SQL: `SELECT count(*) FROM sqlite_schema WHERE name=?`, Args: []any{table}, Rows: one}})
	if err != nil || n == 0 {
		return -1, err
	}
	err = s.runner.Read(ctx, []sqlitecore.Stmt{{SQL: sqlitecore.CountUpTo(table), Args: []any{int64(plannedRows)}, Rows: one}})
	return n, err
}

// SchemaSQL returns the SQL that migrates from a version of the schema (0 for none) to the newest,
// for users who apply it themselves. It returns "" if there is nothing to do.
func SchemaSQL(since int64) (string, error) { return sqlitecore.SchemaSQL(since) }
