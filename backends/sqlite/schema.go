package sqlite

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// SchemaOf reports which migrations a database has had. It changes nothing. It takes the same
// arguments as Open. A file that does not exist has had none.
func SchemaOf(ctx context.Context, location string, opts ...Option) (store.Schema, error) {
	c, err := newConfig(location, opts)
	if err != nil {
		return store.Schema{}, err
	}
	c.migrate = true // a missing file is no error
	if err := c.check(); err != nil {
		return store.Schema{}, err
	}
	if _, err := os.Stat(c.path); c.memory || errors.Is(err, os.ErrNotExist) {
		return sqlitecore.SchemaOf(c.path, nil, 0)
	}
	db, err := sqlx.Open("sqlite", c.dsn())
	if err != nil {
		return store.Schema{}, openError(c.path, err)
	}
	defer func() { _ = db.Close() }()
	applied := map[int64]time.Time{}
	var minimum int64
	err = c.patiently(ctx, func() error {
		clear(applied)
		version, err := schemaVersion(ctx, db)
		if err != nil || version == 0 {
			return err
		}
		if version >= sqlitecore.WithMinimum {
			if err := db.GetContext(ctx, &minimum, sqlitecore.Minimum); err != nil {
				return err
			}
		}
		var rows []struct {
			Version int64 `db:"version_id"`
			At      int64 `db:"at"`
		}
		if err := db.SelectContext(ctx, &rows, sqlitecore.Applied); err != nil {
			return err
		}
		for _, r := range rows {
			applied[r.Version] = time.Unix(r.At, 0).UTC()
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return store.Schema{}, ctx.Err()
	case err != nil:
		return store.Schema{}, openError(c.path, err)
	}
	return sqlitecore.SchemaOf(c.path, applied, minimum)
}

// plannedRows is the largest number of rows of a table that PlanOf counts.
const plannedRows = 1_000_000

// PlanOf reports what migrating a database would do. It changes nothing. It takes the same
// arguments as Open, and counts up to a million rows of each table concerned.
func PlanOf(ctx context.Context, location string, opts ...Option) (store.SchemaPlan, error) {
	s, err := SchemaOf(ctx, location, opts...)
	if err != nil {
		return store.SchemaPlan{}, err
	}
	if s.Version == 0 {
		return sqlitecore.Plan(s.Place, 0, plannedRows, func(string) (int64, error) { return -1, nil })
	}
	c, err := newConfig(location, opts)
	if err != nil {
		return store.SchemaPlan{}, err
	}
	db, err := sqlx.Open("sqlite", c.dsn())
	if err != nil {
		return store.SchemaPlan{}, openError(c.path, err)
	}
	defer func() { _ = db.Close() }()
	return sqlitecore.Plan(s.Place, s.Version, plannedRows, func(table string) (n int64, err error) {
		err = c.patiently(ctx, func() error {
			if err := db.GetContext(ctx, &n, `SELECT count(*) FROM sqlite_schema WHERE name=?`, table); err != nil || n == 0 {
				n = -1
				return err
			}
			return db.GetContext(ctx, &n, sqlitecore.CountUpTo(table), plannedRows)
		})
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case err != nil:
			err = openError(c.path, err)
		}
		return n, err
	})
}

// SchemaSQL returns the SQL that migrates from a version of the schema (0 for none) to the newest,
// for users who apply it themselves. It returns "" if there is nothing to do.
func SchemaSQL(since int64) (string, error) { return sqlitecore.SchemaSQL(since) }
