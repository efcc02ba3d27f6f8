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

// SchemaOf tells which migrations a database has had, and changes nothing. It
// takes what Open takes. A file that does not exist has had none.
func SchemaOf(ctx context.Context, location string, opts ...Option) (store.Schema, error) {
	c, err := newConfig(location, opts)
	if err != nil {
		return store.Schema{}, err
	}
	c.migrate = true // a file that is not there is no error
	if err := c.check(); err != nil {
		return store.Schema{}, err
	}
	if _, err := os.Stat(c.path); c.memory || errors.Is(err, os.ErrNotExist) {
		return sqlitecore.SchemaOf(c.path, nil)
	}
	db, err := sqlx.Open("sqlite", c.dsn())
	if err != nil {
		return store.Schema{}, openError(c.path, err)
	}
	defer func() { _ = db.Close() }()
	applied := map[int64]time.Time{}
	err = c.patiently(ctx, func() error {
		clear(applied)
		version, err := schemaVersion(ctx, db)
		if err != nil || version == 0 {
			return err
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
	return sqlitecore.SchemaOf(c.path, applied)
}

// SchemaSQL returns the SQL that leads from a version of the schema, 0 for none,
// to the newest, for those who apply it themselves; empty when there is nothing
// to do.
func SchemaSQL(since int64) (string, error) { return sqlitecore.SchemaSQL(since) }
