package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/store"
)

// migrationPatience is for how many busy timeouts a process waits for the migrations of another one.
const migrationPatience = 6

// migrate brings the schema up to date. Goose has no lock for SQLite, so when several
// processes open a new file, all but one fail at some statement. Each migration is a
// transaction, so a process that failed checks again. A migration of a large file, or on a
// busy machine, takes longer than the busy timeout: a process waits several times as long for
// the progress of another one.
func migrate(ctx context.Context, db *sqlx.DB, c *config) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.DB, migrations.SQLite(), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("sqlite: migrations: %w", err)
	}
	sources := provider.ListSources()
	newest := sources[len(sources)-1].Version
	waits, progress := int64(-1), time.Now()
	for before := int64(-1); ; {
		version, err := schemaVersion(ctx, db)
		switch {
		case err != nil:
			return err
		case version == newest:
			return nil
		case version > newest:
			var minimum int64
			if err := db.GetContext(ctx, &minimum, sqlitecore.Minimum); err != nil {
				return err
			}
			return sqlitecore.MayUse(c.path, version, minimum, newest)
		case !c.migrate:
			return store.Invalid("database", fmt.Sprintf("%s: its schema has version %d, but this program needs %d; run pawl migrate up, or open the database without WithoutMigration and migrate=false",
				c.path, version, newest))
		}
		// An error is ignored if another process has made progress, or has the lock and may make some.
		_, err = provider.Up(ctx)
		if isBusy(err) {
			if version != waits {
				waits, progress = version, time.Now()
			}
			if time.Since(progress) < migrationPatience*c.busyTimeout {
				continue
			}
		}
		if err != nil && (isBusy(err) || version == before) {
			return fmt.Errorf("migration from schema version %d: %w", version, err)
		}
		before = version
	}
}

// schemaVersion returns the version of the last migration that was applied; 0 for a new database.
func schemaVersion(ctx context.Context, db *sqlx.DB) (int64, error) {
	var table string
	err := db.GetContext(ctx, &table, `SELECT name FROM sqlite_schema WHERE name='goose_db_version'`)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var version sql.NullInt64
	err = db.GetContext(ctx, &version, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`)
	return version.Int64, err
}
