package turso

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// SchemaOf tells which migrations a database has had, and changes nothing. It
// takes what Open takes.
func SchemaOf(ctx context.Context, location string, opts ...Option) (store.Schema, error) {
	s, err := connect(location, opts)
	if err != nil {
		return store.Schema{}, err
	}
	defer func() { _ = s.Close() }()
	applied, err := s.applied(ctx)
	switch {
	case ctx.Err() != nil:
		return store.Schema{}, ctx.Err()
	case err != nil:
		return store.Schema{}, openError(&s.config, err)
	}
	return sqlitecore.SchemaOf(s.config.host(), applied)
}

func (s *Store) applied(ctx context.Context) (map[int64]time.Time, error) {
	version, err := schemaVersion(ctx, s.runner)
	if err != nil || version == 0 {
		return nil, err
	}
	applied := map[int64]time.Time{}
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
	return applied, err
}

// SchemaSQL returns the SQL that leads from a version of the schema, 0 for none,
// to the newest, for those who apply it themselves; empty when there is nothing
// to do.
func SchemaSQL(since int64) (string, error) { return sqlitecore.SchemaSQL(since) }
