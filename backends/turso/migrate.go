package turso

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// split cuts SQL at the semicolons that are in neither quotes nor comments, and
// leaves comments out. Triggers would need more.
func split(sql string) []string {
	var list []string
	var b strings.Builder
	end := func() {
		if s := strings.TrimSpace(b.String()); s != "" {
			list = append(list, s)
		}
		b.Reset()
	}
	for len(sql) > 0 {
		switch c := sql[0]; {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
			b.WriteByte('\n')
			continue
		case c == '\'' || c == '"':
			n := strings.IndexByte(sql[1:], c)
			if n < 0 {
				n = len(sql) - 2
			}
			b.WriteString(sql[:n+2])
			sql = sql[n+2:]
			continue
		case c == ';':
			end()
		default:
			b.WriteByte(c)
		}
		sql = sql[1:]
	}
	end()
	return list
}

const (
	// stillAt raises an error if another starter has been faster.
	stillAt = `SELECT CASE WHEN (SELECT max(version_id) FROM goose_db_version WHERE is_applied)=? THEN 1 ELSE json('migrated meanwhile') END`
	nowAt   = `INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)`
)

// migrate brings the schema up to date. A migration and the look at the version
// before it are one transaction, so that it is applied once, however many start
// at a time. Whoever failed looks again.
func migrate(ctx context.Context, r link, c *config) error {
	list, err := sqlitecore.Migrations()
	if err != nil {
		return err
	}
	newest := list[len(list)-1].Version
	for before := int64(-1); ; {
		version, err := schemaVersion(ctx, r)
		switch {
		case err != nil:
			return err
		case version == newest:
			return nil
		case version > newest:
			return store.Invalid("database", fmt.Sprintf("%s: its schema has version %d and this program knows versions up to %d; run a newer program",
				c.host(), version, newest))
		case !c.migrate:
			return store.Invalid("database", fmt.Sprintf("%s: its schema has version %d and this program needs %d; run pawl migrate up, or open it without WithoutMigration and migrate=false",
				c.host(), version, newest))
		}
		err = nil
		for _, m := range list {
			if m.Version > version {
				err = r.migrate(ctx, m, version)
				break
			}
		}
		// A failure counts if it may not go away, and nobody else has gone on meanwhile.
		if err != nil && version == before {
			return fmt.Errorf("migration from schema version %d: %w", version, err)
		}
		before = version
	}
}

// statements apply a migration to the version before it.
func statements(m sqlitecore.Migration, from int64) []sqlitecore.Stmt {
	stmts := []sqlitecore.Stmt{{SQL: sqlitecore.VersionTable}, {SQL: sqlitecore.FirstVersion}, {SQL: stillAt, Args: []any{from}}}
	for _, sql := range split(m.SQL) {
		stmts = append(stmts, sqlitecore.Stmt{SQL: sql})
	}
	return append(stmts, sqlitecore.Stmt{SQL: nowAt, Args: []any{m.Version}})
}

// schemaVersion is the last migration that was applied; 0 for a new database.
func schemaVersion(ctx context.Context, r sqlitecore.Runner) (version int64, err error) {
	var there bool
	err = r.Read(ctx, []sqlitecore.Stmt{{
		SQL:  `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name='goose_db_version')`,
		Rows: func(scan func(...any) error) error { return scan(&there) },
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
