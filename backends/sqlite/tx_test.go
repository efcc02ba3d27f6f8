package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/txtest"
	"github.com/pawlhq/pawl/store"
)

// dsn returns how a program should open the file for transactions that it shares with Pawl.
func dsn(path string) string {
	return fmt.Sprintf("file:%s?_txlock=immediate&_pragma=busy_timeout(%d)", path, patience.Milliseconds())
}

func database(t testing.TB, path string) *sql.DB {
	db, err := sql.Open("sqlite", dsn(path))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestInTx(t *testing.T) {
	t.Parallel()
	path := file(t)
	s, db := open(t, path), database(t, path)
	_, err := db.Exec("CREATE TABLE orders (n integer)")
	require.NoError(t, err)
	var tx *sql.Tx
	txtest.Test(t, txtest.Program{
		Store: s,
		Begin: func(ctx context.Context) (t txtest.Tx, err error) {
			if tx, err = db.BeginTx(ctx, nil); err != nil {
				return t, err
			}
			return txtest.Tx{Tx: sqlite.InTx(tx), Commit: tx.Commit, Rollback: tx.Rollback}, nil
		},
		Exec: func(ctx context.Context, query string, args ...any) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		},
		Count: func(ctx context.Context) (n int, err error) {
			err = db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&n)
			return n, err
		},
	})
}

// orderAndStart is what the process does that is killed before its transaction commits.
func orderAndStart(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO orders VALUES (1)")
	eng := engine.New(s, engine.Require(engine.RequireNothing))
	_, started := eng.InTx(sqlite.InTx(tx)).Start(ctx, "ship", nil)
	return errors.Join(err, started)
}

func TestKilledBeforeCommit(t *testing.T) {
	t.Parallel()
	path := file(t)
	s, db := open(t, path), database(t, path)
	_, err := db.Exec("CREATE TABLE orders (n integer)")
	require.NoError(t, err)
	txtest.Killed(t, path)
	var orders int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM orders").Scan(&orders))
	require.Zero(t, orders, "orders")
	counts, err := s.Count(t.Context(), store.CountParams{Namespace: engine.DefaultNamespace})
	require.NoError(t, err)
	require.Empty(t, counts, "runs")
}
