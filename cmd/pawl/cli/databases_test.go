package cli

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
)

// databases makes a new database on each backend.
func databases(testing.TB) map[string]func(t *testing.T) string {
	return map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return file(t) },
		"postgres": func(t *testing.T) string { return pgtest.Database(t) },
		"turso": func(t *testing.T) string {
			srv := sqldtest.Start(t)
			srv.NamespaceNamed(t, "127") // the first label of the host
			return "http://" + srv.Addr()
		},
	}
}

func pgExec(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.PgConn().Exec(context.Background(), sql).ReadAll()
	require.NoError(t, err)
}

// with adds a parameter to a URL.
func with(url, param string, args ...any) string {
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	return url + sep + fmt.Sprintf(param, args...)
}

// raw opens a SQLite file as a tool would, and returns what runs SQL in it.
func raw(t *testing.T, s *shell) func(sql string) {
	t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(s.db, "sqlite:"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return func(text string) {
		t.Helper()
		_, err := db.Exec(text)
		require.NoError(t, err)
	}
}
