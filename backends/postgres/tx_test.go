package postgres_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/txtest"
	"github.com/pawlhq/pawl/store"
)

func pool(t testing.TB, url string) *pgxpool.Pool {
	p, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// program returns a program with a table of orders in a database of its own.
func program(t *testing.T, url string) (p txtest.Program, db *pgxpool.Pool) {
	db = pool(t, url)
	_, err := db.Exec(t.Context(), "CREATE TABLE orders (n integer)")
	require.NoError(t, err)
	s, err := postgres.New(t.Context(), db)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	p.Store = s
	p.Count = func(ctx context.Context) (n int, err error) {
		err = db.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&n)
		return n, err
	}
	return p, db
}

func TestInTx(t *testing.T) {
	t.Parallel()
	p, db := program(t, pgtest.Database(t))
	var tx pgx.Tx
	p.Begin = func(ctx context.Context) (t txtest.Tx, err error) {
		if tx, err = db.Begin(ctx); err != nil {
			return t, err
		}
		return txtest.Tx{Tx: postgres.InTx(tx), Commit: func() error { return tx.Commit(ctx) }, Rollback: func() error { return tx.Rollback(ctx) }}, nil
	}
	p.Exec = func(ctx context.Context, query string, args ...any) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	}
	txtest.Test(t, p)
}

func TestInSQLTx(t *testing.T) {
	t.Parallel()
	p, pool := program(t, pgtest.Database(t))
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	var tx *sql.Tx
	p.Begin = func(ctx context.Context) (t txtest.Tx, err error) {
		if tx, err = db.BeginTx(ctx, nil); err != nil {
			return t, err
		}
		return txtest.Tx{Tx: postgres.InSQLTx(tx), Commit: tx.Commit, Rollback: tx.Rollback}, nil
	}
	p.Exec = func(ctx context.Context, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}
	txtest.Test(t, p)
}

// A program's transaction may have the only connection, so Pawl must not need another.
func TestInTxOnTheOnlyConnection(t *testing.T) {
	t.Parallel()
	url := with1Conn(pgtest.Database(t))
	_, db := program(t, url)
	s, err := postgres.New(t.Context(), db)
	require.NoError(t, err)
	defer s.Close()
	eng := engine.New(s, engine.Require(engine.RequireNothing))
	defer eng.Close()
	tx, err := db.Begin(t.Context())
	require.NoError(t, err)
	started, err := eng.InTx(postgres.InTx(tx)).Start(t.Context(), "unheard-of", nil)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	_, err = eng.Get(t.Context(), started.ID)
	require.NoError(t, err)
}

func with1Conn(url string) string {
	if strings.Contains(url, "?") {
		return url + "&pool_max_conns=1"
	}
	return url + "?pool_max_conns=1"
}

// After each call, the planner's settings are those of the program again.
func TestInTxKeepsSettings(t *testing.T) {
	t.Parallel()
	p, db := program(t, pgtest.Database(t))
	eng := engine.New(p.Store, engine.Require(engine.RequireNothing))
	defer eng.Close()
	const ask = `SELECT concat_ws(' ', current_setting('enable_seqscan'), current_setting('enable_bitmapscan'), current_setting('plan_cache_mode'), current_setting('jit'))`
	for _, set := range []string{"SELECT true", "SET LOCAL enable_seqscan=off", "SET LOCAL plan_cache_mode=force_custom_plan"} {
		tx, err := db.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), set)
		require.NoError(t, err)
		var before, after string
		require.NoError(t, tx.QueryRow(t.Context(), ask).Scan(&before))
		_, err = eng.InTx(postgres.InTx(tx)).Start(t.Context(), "wf", nil)
		require.NoError(t, err)
		require.NoError(t, tx.QueryRow(t.Context(), ask).Scan(&after))
		require.Equal(t, before, after)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// The statements of a step in its transaction are planned with the settings of the database, unlike
// Pawl's own statements on the same connections.
func TestStepTxIsPlannedAsUsual(t *testing.T) {
	t.Parallel()
	const ask = `SELECT concat_ws(' ', current_setting('enable_seqscan'), current_setting('enable_bitmapscan'), current_setting('plan_cache_mode'))`
	url := pgtest.Database(t)
	_, db := program(t, url)
	var usual string
	require.NoError(t, db.QueryRow(t.Context(), ask).Scan(&usual))
	s, err := postgres.Open(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for range 3 {
		var tx pgx.Tx
		st, err := s.Begin(t.Context(), &tx)
		require.NoError(t, err)
		var got string
		require.NoError(t, tx.QueryRow(t.Context(), ask).Scan(&got))
		require.Equal(t, usual, got)
		st.Rollback()
		var other *sql.Tx
		st, err = s.Begin(t.Context(), &other)
		require.NoError(t, err)
		require.NoError(t, other.QueryRowContext(t.Context(), ask).Scan(&got))
		require.Equal(t, usual, got)
		st.Rollback()
		_, err = s.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "w", Queue: "q"}}})
		require.NoError(t, err)
	}
}

// orderAndStart is what the process does that is killed before its transaction commits.
func orderAndStart(ctx context.Context, url string) error {
	db, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	s, err := postgres.New(ctx, db)
	if err != nil {
		return err
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES (1)"); err != nil {
		return err
	}
	eng := engine.New(s, engine.Require(engine.RequireNothing))
	_, err = eng.InTx(postgres.InTx(tx)).Start(ctx, "ship", nil)
	return err
}

func TestKilledBeforeCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	p, _ := program(t, url)
	txtest.Killed(t, url)
	n, err := p.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, n, "orders")
	counts, err := p.Store.Count(t.Context(), store.CountParams{Namespace: engine.DefaultNamespace})
	require.NoError(t, err)
	require.Empty(t, counts, "runs")
}

func TestMain(m *testing.M) {
	txtest.Child(orderAndStart)
	conformance.DurableChild(openPlace)
	pgtest.Run(m)
}
