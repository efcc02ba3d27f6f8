package sqlite_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewind copies the contents of a file. The function that it returns restores them in one
// transaction, while other processes may have the file open.
func rewind(t testing.TB, path string) (back func()) {
	ctx := context.Background()
	conn, err := raw(t, path).Conn(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	exec := func(query string) {
		_, err := conn.ExecContext(ctx, query)
		require.NoError(t, err, query)
	}
	exec("PRAGMA busy_timeout=10000")
	exec("ATTACH ':memory:' AS before")
	var tables, columns []string // without generated columns; tables that triggers of runs change come after it
	rows, err := conn.QueryContext(ctx, `SELECT name, (SELECT group_concat(name) FROM pragma_table_info(t.name)) FROM main.sqlite_master t
		WHERE type='table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var name, list string
		require.NoError(t, rows.Scan(&name, &list))
		tables, columns = append(tables, name), append(columns, list)
	}
	require.NoError(t, rows.Err())
	exec("BEGIN")
	for i, name := range tables {
		exec("CREATE TABLE before." + name + " AS SELECT " + columns[i] + " FROM main." + name)
	}
	exec("COMMIT")
	return func() {
		exec("BEGIN IMMEDIATE")
		for i, name := range tables {
			exec("DELETE FROM main." + name)
			exec("INSERT INTO main." + name + " (" + columns[i] + ") SELECT * FROM before." + name)
		}
		exec("COMMIT")
	}
}
