// Package upgrade gives tests databases with an earlier version of the schema: empty ones,
// and ones with the runs that the program of commit 5e1c7c8 made (see testdata).
package upgrade

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	"github.com/tursodatabase/libsql-client-go/libsql"
	_ "modernc.org/sqlite"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/store"
)

var (
	//go:embed testdata/sqlite.sql
	sqliteFixture string
	//go:embed testdata/postgres.sql
	postgresFixture string
)

// Place is a database.
type Place struct {
	URL    string                                         // of the database
	Turso  []turso.Option                                 // that the URL needs
	Open   func(ctx context.Context) (store.Store, error) // brings the schema up to date
	Schema func(ctx context.Context) (store.Schema, error)
	// Objects describes the tables, columns, indexes and views, in order.
	Objects func(t testing.TB) []string
	// Newer applies a migration that expands the schema, as a newer program would: it has
	// the version after the last one, and the minimum stays.
	Newer func(t testing.TB)
}

// Backend makes databases of one kind.
type Backend struct {
	Name string
	// At makes a database with that version of the schema; 0: without tables. With runs,
	// of version 1 at least, it has the fixture's.
	At    func(t testing.TB, version int64, runs bool) Place
	files fs.FS
}

// Backends are all of them.
func Backends() []Backend {
	return []Backend{
		{"sqlite", onSQLite, migrations.SQLite()},
		{"turso", onTurso, migrations.SQLite()},
		{"postgres", onPostgres, migrations.Postgres()},
	}
}

// Versions are the versions of the schema, in order.
func (b Backend) Versions(t testing.TB) (list []int64) {
	names, err := fs.Glob(b.files, "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		list = append(list, versionOf(t, name))
	}
	return list
}

func versionOf(t testing.TB, name string) (version int64) {
	_, err := fmt.Sscanf(name, "%d_", &version)
	require.NoError(t, err, name)
	return version
}

func onSQLite(t testing.TB, version int64, runs bool) Place {
	path := filepath.Join(t.TempDir(), "pawl.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	migrateTo(t, db, goose.DialectSQLite3, version, runs)
	url := "sqlite:" + path
	return Place{
		URL:    url,
		Open:   func(ctx context.Context) (store.Store, error) { return backends.Open(ctx, url) },
		Schema: func(ctx context.Context) (store.Schema, error) { return backends.SchemaOf(ctx, url) },
		Objects: func(t testing.TB) []string {
			db, err := sql.Open("sqlite", path)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			return objectsOfSQLite(t, db)
		},
		Newer: func(t testing.TB) {
			db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			expandSQLite(t, db)
		},
	}
}

func expandSQLite(t testing.TB, db *sql.DB) {
	for _, stmt := range []string{
		`ALTER TABLE runs ADD COLUMN newer INTEGER NOT NULL DEFAULT 0`, `ALTER TABLE steps ADD COLUMN newer INTEGER NOT NULL DEFAULT 0`,
		`INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, 1 FROM goose_db_version`,
	} {
		_, err := db.ExecContext(t.Context(), stmt)
		require.NoError(t, err)
	}
}

func onTurso(t testing.TB, version int64, runs bool) Place {
	srv := sqldtest.Start(t)
	url := srv.Namespace(t)
	connector, err := libsql.NewConnector(url, libsql.WithProxy("http://"+srv.Addr()))
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(-1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	migrateTo(t, db, goose.DialectTurso, version, runs)
	return Place{
		URL:   url,
		Turso: []turso.Option{turso.WithDialer(srv.Dial)},
		Open: func(ctx context.Context) (store.Store, error) {
			return turso.Open(ctx, url, turso.WithDialer(srv.Dial))
		},
		Schema: func(ctx context.Context) (store.Schema, error) {
			return turso.SchemaOf(ctx, url, turso.WithDialer(srv.Dial))
		},
		Objects: func(t testing.TB) []string { return objectsOfSQLite(t, db) },
		Newer:   func(t testing.TB) { expandSQLite(t, db) },
	}
}

// migrateTo applies goose's files.
func migrateTo(t testing.TB, db *sql.DB, dialect goose.Dialect, version int64, runs bool) {
	if runs {
		_, err := db.ExecContext(t.Context(), sqliteFixture)
		require.NoError(t, err)
	}
	if version == 0 {
		return
	}
	provider, err := goose.NewProvider(dialect, db, migrations.SQLite(), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), version)
	require.NoError(t, err)
}

// comment is one of SQL; the backends keep them or leave them out.
var comment = regexp.MustCompile(`\s*--[^\n]*`)

func objectsOfSQLite(t testing.TB, db *sql.DB) (list []string) {
	rows, err := db.QueryContext(t.Context(), `SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND name NOT LIKE 'libsql_%' ORDER BY 1, 2`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var kind, name, text string
		require.NoError(t, rows.Scan(&kind, &name, &text))
		if name != "goose_db_version" { // goose and the backends write it differently
			list = append(list, kind+" "+name+": "+strings.Join(strings.Fields(comment.ReplaceAllString(text, "")), " "))
		}
	}
	require.NoError(t, rows.Err())
	return list
}

func onPostgres(t testing.TB, version int64, runs bool) Place {
	url := pgtest.Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	exec := func(sql string) {
		_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
		require.NoError(t, err)
	}
	done := int64(0)
	if runs {
		exec(postgresFixture)
		exec(`ANALYZE`) // so that what is estimated is the same each time
		done = 1
	} else if version > 0 {
		exec(`CREATE SCHEMA pawl; CREATE TABLE pawl.migrations (version integer NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`)
	}
	names, err := fs.Glob(migrations.Postgres(), "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		v := versionOf(t, name)
		if v <= done || v > version {
			continue
		}
		text, err := fs.ReadFile(migrations.Postgres(), name)
		require.NoError(t, err)
		_, up, _ := strings.Cut(string(text), "-- +goose Up")
		up, _, _ = strings.Cut(up, "-- +goose Down")
		exec(strings.ReplaceAll(up, " CONCURRENTLY", "")) // nobody uses the tables yet
		exec(fmt.Sprintf(`INSERT INTO pawl.migrations (version) VALUES (%d)`, v))
	}
	return Place{
		URL:     url,
		Open:    func(ctx context.Context) (store.Store, error) { return backends.Open(ctx, url) },
		Schema:  func(ctx context.Context) (store.Schema, error) { return backends.SchemaOf(ctx, url) },
		Objects: func(t testing.TB) []string { return objectsOfPostgres(t, url) },
		Newer: func(t testing.TB) {
			conn, err := pgx.Connect(t.Context(), url)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(t.Context())) }()
			_, err = conn.PgConn().Exec(t.Context(), `ALTER TABLE pawl.runs ADD COLUMN newer integer NOT NULL DEFAULT 0;
				ALTER TABLE pawl.steps ADD COLUMN newer integer NOT NULL DEFAULT 0; INSERT INTO pawl.migrations (version) SELECT max(version) + 1 FROM pawl.migrations`).ReadAll()
			require.NoError(t, err)
		},
	}
}

func objectsOfPostgres(t testing.TB, url string) []string {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	rows, err := conn.Query(t.Context(), `
		SELECT 'column ' || table_name || '.' || column_name || ': ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') || ' ' || coalesce(collation_name, '')
			FROM information_schema.columns WHERE table_schema='pawl'
		UNION ALL SELECT 'index ' || indexname || ': ' || indexdef FROM pg_indexes WHERE schemaname='pawl'
		UNION ALL SELECT 'not valid: ' || c.relname FROM pg_index i JOIN pg_class c ON c.oid=i.indexrelid WHERE NOT i.indisvalid
		UNION ALL SELECT 'table ' || relname || ': ' || coalesce(array_to_string(reloptions, ','), '') FROM pg_class WHERE relnamespace='pawl'::regnamespace AND relkind='r'
		UNION ALL SELECT 'view ' || viewname || ': ' || definition FROM pg_views WHERE schemaname='pawl' ORDER BY 1`)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}
