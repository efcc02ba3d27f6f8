package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/store"
)

// parameters takes this package's own parameters out of a URL.
func parameters(location string, opts []Option) (string, []Option, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", nil, store.Invalid("database URL", "it does not look like postgres://user:password@host:5432/database")
	}
	q := u.Query()
	if q.Has("schema") {
		opts = append([]Option{WithSchema(q.Get("schema"))}, opts...)
	}
	switch v := q.Get("migrate"); v {
	case "", "true":
	case "false":
		opts = append([]Option{WithoutMigration()}, opts...)
	default:
		return "", nil, store.Invalid("database URL", fmt.Sprintf("parameter migrate=%s is not true or false", v))
	}
	if q.Has("listen") {
		opts = append([]Option{WithListenURL(q.Get("listen"))}, opts...)
	}
	if q.Has("default_query_exec_mode") { // somebody knows
		opts = append([]Option{WithPreparedStatements()}, opts...)
	}
	// The rest stays as it is written: pgx reads it by other rules than net/url.
	rest := slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		return name == "schema" || name == "migrate" || name == "listen"
	})
	u.RawQuery = strings.Join(rest, "&")
	return u.String(), opts, nil
}

// migrationLock is the key of the advisory lock of migrating, which is held by the
// transaction alone and so works behind a pooler too.
const migrationLock = 0x7061776c // "pawl"

// migrate brings the schema up to date, in one transaction. Whoever comes second
// waits and finds it done.
func migrate(ctx context.Context, pool *pgxpool.Pool, c *config) error {
	list, err := steps(c.schema)
	if err != nil {
		return err
	}
	newest := len(list)
	look, cancel := context.WithTimeout(ctx, c.timeout)
	version, err := schemaVersion(look, pool, c.schema)
	cancel()
	switch {
	case err != nil:
		return &setupError{reading, err}
	case version > newest:
		return store.Invalid("database", fmt.Sprintf("schema %s has version %d and this program knows versions up to %d; run a newer program",
			c.schema, version, newest))
	case version == newest:
		return nil
	case !c.migrate && version == 0:
		return store.Invalid("database", fmt.Sprintf("schema %s has no tables of Pawl's; run pawl migrate up, or open the store once without WithoutMigration and migrate=false, "+
			"or have the SQL of postgres.SchemaSQL applied; if the tables are elsewhere, name their schema", c.schema))
	case !c.migrate:
		return store.Invalid("database", fmt.Sprintf("schema %s has version %d and this program needs %d; run pawl migrate up, or open the store once without WithoutMigration "+
			"and migrate=false", c.schema, version, newest))
	}
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		exec := func(sql string) error {
			_, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll()
			return err
		}
		if err := exec(fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, migrationLock)); err != nil {
			return err
		}
		version, err := schemaVersion(ctx, tx, c.schema)
		if err != nil {
			return err
		}
		if version == 0 {
			var there bool // IF NOT EXISTS alone asks for the right to create schemas even then
			err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname=$1::text)`, pgx.QueryExecModeExec, c.schema).Scan(&there)
			if err != nil {
				return err
			}
			if !there {
				if err := exec(qualifyName(createSchema, c.schema)); err != nil {
					return &setupError{creating, err}
				}
			}
			if err := exec(qualifyName(createTable, c.schema)); err != nil {
				return &setupError{migrating, err}
			}
		}
		for _, up := range list[min(version, newest):] {
			if err := exec(up); err != nil {
				return &setupError{migrating, err}
			}
			version++
			if err := exec(qualify(fmt.Sprintf(`INSERT INTO pawl.migrations (version) VALUES (%d)`, version), c.schema)); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	createSchema = `CREATE SCHEMA IF NOT EXISTS "pawl"`
	createTable  = `CREATE TABLE IF NOT EXISTS pawl.migrations (version integer NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`
)

// qualifyName is qualify for statements that name the schema itself. It goes through
// the text once: the schema's own name may contain what it looks for.
func qualifyName(text, schema string) string {
	name := pgx.Identifier{schema}.Sanitize()
	return strings.NewReplacer(`"pawl"`, name, "pawl.", name+".").Replace(text)
}

// steps are the upward migrations in order, the first one for version 1.
func steps(schema string) ([]string, error) {
	names, texts, err := files()
	if err != nil {
		return nil, err
	}
	list := make([]string, len(names))
	for i := range texts {
		list[i] = qualify(texts[i], schema)
	}
	return list, nil
}

// files reads the upward migrations, which call the schema pawl.
func files() (names, texts []string, err error) {
	dir := migrations.Postgres()
	if names, err = fs.Glob(dir, "*.sql"); err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, nil, err
		}
		_, up, _ := strings.Cut(string(text), "-- +goose Up")
		up, _, _ = strings.Cut(up, "-- +goose Down")
		texts = append(texts, up)
	}
	return names, texts, nil
}

// schemaVersion is the last migration that was applied; 0 for a new schema.
func schemaVersion(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, schema string) (int, error) {
	var there bool
	// Not to_regclass: what it remembers may be older than the lock.
	err := db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid=c.relnamespace
		WHERE n.nspname=$1::text AND c.relname='migrations')`, pgx.QueryExecModeExec, schema).Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	var version int
	err = db.QueryRow(ctx, qualify(`SELECT coalesce(max(version), 0) FROM pawl.migrations`, schema), pgx.QueryExecModeExec).Scan(&version)
	return version, err
}
