package turso

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

const (
	// stillAt raises an error if another process has migrated in the meantime.
	stillAt = `SELECT CASE WHEN (SELECT max(version_id) FROM goose_db_version WHERE is_applied)=? THEN 1 ELSE json('migrated meanwhile') END`
	nowAt   = `INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)`
)

// migrate brings the schema up to date. A migration and the check of the version before it are one
// transaction, so that each migration is applied once, even if many processes start at a time. A
// process whose migration failed checks the version again.
func migrate(ctx context.Context, r link, c *config, library *string) error {
	list, err := sqlitecore.Migrations()
	if err != nil {
		return err
	}
	newest := list[len(list)-1].Version
	for failed := false; ; {
		version, err := schemaVersion(ctx, r, library)
		switch {
		case err != nil:
			return err
		case version == newest:
			return nil
		case version > newest:
			minimum, err := minimumVersion(ctx, r)
			if err != nil {
				return err
			}
			return sqlitecore.MayUse(c.host(), version, minimum, newest)
		case !c.migrate:
			return store.Invalid("database", fmt.Sprintf("%s: its schema has version %d, but this program needs %d; run pawl migrate up, or open the database without WithoutMigration and migrate=false",
				c.host(), version, newest))
		}
		err = nil
		for _, m := range list {
			if m.Version > version {
				err = r.migrate(ctx, m, version)
				break
			}
		}
		if err == nil {
			failed = false
			continue
		}
		// Report an error only if it may be permanent: it is the second one, and no other process has made progress.
		now, unread := schemaVersion(ctx, r, library)
		switch {
		case unread == nil && now > version:
			failed = false
		case failed:
			return fmt.Errorf("migration from schema version %d: %w", version, err)
		default:
			failed = true
		}
	}
}

// statements returns the statements that apply a migration to the version before it.
func statements(m sqlitecore.Migration, from int64) []sqlitecore.Stmt {
	stmts := []sqlitecore.Stmt{{SQL: sqlitecore.VersionTable}, {SQL: sqlitecore.FirstVersion}, {SQL: stillAt, Args: []any{from}}}
	for _, sql := range sqlkit.Split(m.SQL) {
		stmts = append(stmts, sqlitecore.Stmt{SQL: sql})
	}
	return append(stmts, sqlitecore.Stmt{SQL: nowAt, Args: []any{m.Version}})
}

// minimumVersion returns the oldest schema version that a program must know to use a database that
// has had migration 7.
func minimumVersion(ctx context.Context, r sqlitecore.Runner) (minimum int64, err error) {
	err = r.Read(ctx, []sqlitecore.Stmt{{
		SQL:  sqlitecore.Minimum,
		Rows: func(scan func(...any) error) error { return scan(&minimum) },
	}})
	return minimum, err
}

// schemaVersion returns the version of the last migration that was applied; 0 for a new database.
// It sets library to the server's version of SQLite.
func schemaVersion(ctx context.Context, r sqlitecore.Runner, library *string) (version int64, err error) {
	var there bool
	err = r.Read(ctx, []sqlitecore.Stmt{{
		SQL:  `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name='goose_db_version'), sqlite_version()`,
		Rows: func(scan func(...any) error) error { return scan(&there, library) },
	}})
	if err != nil || !there {
		return 0, err
	}
	var applied *int64
	err = r.Read(ctx, []sqlitecore.Stmt{{
		SQL:  `SELECT max(version_id) FROM goose_db_version WHERE is_applied`,
		Rows: func(scan func(...any) error) error { return scan(&applied) },
	}})
	if applied != nil {
		version = *applied
	}
	return version, err
}
