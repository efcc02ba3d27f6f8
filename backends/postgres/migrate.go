package postgres

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/store"
)

// parameters removes this package's own parameters from a URL.
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
	if q.Has("default_query_exec_mode") { // the user has chosen a mode
		opts = append([]Option{WithPreparedStatements()}, opts...)
	}
	// The rest stays unchanged: pgx parses it by rules other than those of net/url.
	rest := slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		return name == "schema" || name == "migrate" || name == "listen"
	})
	u.RawQuery = strings.Join(rest, "&")
	return u.String(), opts, nil
}

// migrate brings the schema up to date if necessary.
func migrate(ctx context.Context, pool *pgxpool.Pool, c *config, pooled bool) error {
	list, err := readMigrations()
	if err != nil {
		return err
	}
	newest := newest(list)
	look, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	version, err := schemaVersion(look, pool, c.schema)
	switch {
	case err != nil:
		return &setupError{reading, err}
	case version > newest:
		return mayUse(look, pool, c.schema, version, newest)
	case version == newest:
		return nil
	case !c.migrate && version == 0:
		return store.Invalid("database", fmt.Sprintf("schema %s has no Pawl tables; run pawl migrate up, or open the store once without WithoutMigration and migrate=false, "+
			"or have the SQL of postgres.SchemaSQL applied; if the tables are elsewhere, name their schema", c.schema))
	case !c.migrate:
		return store.Invalid("database", fmt.Sprintf("schema %s has version %d, but this program needs %d; run pawl migrate up, or open the store once without WithoutMigration "+
			"and migrate=false", c.schema, version, newest))
	}
	m := &migrator{pool: pool, pooled: pooled, config: c, list: list}
	return m.run(ctx)
}

// mayUse reports whether a program that knows migrations up to newest may use a schema that has had
// later ones.
func mayUse(ctx context.Context, db querier, schema string, version, newest int) error {
	minimum, err := minimumVersion(ctx, db, schema)
	switch {
	case err != nil:
		return &setupError{reading, err}
	case newest < minimum:
		return store.Invalid("database", fmt.Sprintf("schema %s has version %d, which needs programs that know version %d or later, and this program knows versions up to %d; "+
			"run a newer program", schema, version, minimum, newest))
	}
	return nil
}

const (
	createSchema = `CREATE SCHEMA IF NOT EXISTS "pawl"`
	createTable  = `CREATE TABLE IF NOT EXISTS pawl.migrations (version integer NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`
)

// qualifyName is qualify for statements that name the schema itself. It reads the text
// once: the schema's name may contain the placeholder.
func qualifyName(text, schema string) string {
	name := pgx.Identifier{schema}.Sanitize()
	return strings.NewReplacer(`"pawl"`, name, "pawl.", name+".").Replace(text)
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// minimumVersion returns the oldest schema version that a program must know to use a schema that
// has had migration 7.
func minimumVersion(ctx context.Context, db querier, schema string) (minimum int, err error) {
	err = db.QueryRow(ctx, qualify(`SELECT max(minimum) FROM pawl.compatibility`, schema), pgx.QueryExecModeExec).Scan(&minimum)
	return minimum, err
}

// schemaVersion returns the version of the last migration that was applied; 0 for a new schema.
func schemaVersion(ctx context.Context, db querier, schema string) (int, error) {
	var there bool
	// Do not use to_regclass: its cache may be older than the lock.
	err := db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid=c.relnamespace
		WHERE n.nspname=$1::text AND c.relname='migrations')`, pgx.QueryExecModeExec, schema).Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	var version int
	err = db.QueryRow(ctx, qualify(`SELECT coalesce(max(version), 0) FROM pawl.migrations`, schema), pgx.QueryExecModeExec).Scan(&version)
	return version, err
}
