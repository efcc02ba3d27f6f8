package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// rewind copies the contents of a schema. The function that it returns restores them in one
// transaction, while other processes may be connected.
func rewind(t testing.TB, url, schema string) (back func()) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(ctx) })
	exec := func(query string) {
		_, err := conn.Exec(ctx, query)
		require.NoError(t, err, query)
	}
	rows, err := conn.Query(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema=$1 AND table_type='BASE TABLE' ORDER BY 1", schema)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	place := pgx.Identifier{schema}.Sanitize() + "."
	exec("SET application_name TO 'rewind'")
	exec("BEGIN ISOLATION LEVEL REPEATABLE READ")
	for _, name := range tables {
		exec("CREATE TEMP TABLE before_" + name + " AS TABLE " + place + name)
	}
	exec("COMMIT")
	lock := "LOCK TABLE " + place + strings.Join(tables, ", "+place) + " IN ACCESS EXCLUSIVE MODE"
	return func() {
		for {
			exec("BEGIN")
			_, err := conn.Exec(ctx, lock)
			if err == nil {
				break
			}
			var pg *pgconn.PgError
			require.True(t, errors.As(err, &pg) && pg.Code == "40P01", err) // a deadlock
			exec("ROLLBACK")
		}
		for _, name := range tables {
			exec("DELETE FROM " + place + name)
			exec("INSERT INTO " + place + name + " OVERRIDING SYSTEM VALUE TABLE before_" + name)
		}
		exec("COMMIT")
	}
}

// A database that fails over may have lost the row of a lane that a process believes to exist: runs
// that are created in it would never be claimed.
func TestLostLane(t *testing.T) {
	url, schema := pgtest.Database(t), "pawl"
	s := open(t, url, schema)
	start := func(id byte) {
		for {
			res, err := s.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: store.ID{id}, Workflow: "w", Queue: "q", Priority: 3}}})
			if err == nil {
				require.NoError(t, res[0].Err)
				return
			}
			require.True(t, store.Retryable(err), err) // another connection of the pool was lost, too
		}
	}
	claim := func(s store.Store) store.Claimed {
		for {
			got, err := s.Claim(t.Context(), store.ClaimParams{
				Namespace: "n", Worker: "a", Max: 1, LeaseFor: time.Minute,
				Demands: []store.Demand{{Queue: "q", Workflows: []string{"w", "v"}, Max: 1}},
			})
			if err == nil {
				return got
			}
			require.True(t, store.Retryable(err), err) // the server was lost
		}
	}
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	// loseServer ends the connections of a store, until a call notices.
	loseServer := func(s store.Store) {
		var lost error
		for lost == nil {
			_, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname=current_database() AND pid<>pg_backend_pid() AND application_name<>'rewind'")
			require.NoError(t, err)
			_, lost = s.Clock(t.Context())
		}
	}
	back := rewind(t, url, schema)
	start(1)
	require.Len(t, claim(s).Runs, 1)
	back()
	start(2) // the process believes that its lane exists
	another := open(t, url, schema)
	require.Len(t, claim(another).Runs, 1, "a worker that has not looked for a minute finds the lane's runs")

	// The process that has lost its server looks immediately.
	back()
	start(3)
	require.Empty(t, claim(s).Runs, "the row is lost, and this process has looked a moment ago")
	loseServer(s)
	require.Len(t, claim(s).Runs, 1)

	// Runs that it creates afterwards have their lane.
	back()
	loseServer(s)
	start(4)
	require.Len(t, claim(open(t, url, schema)).Runs, 1)
}

// Each lane that a database has lost is put again: of any priority, of a run in any status that is due,
// and whichever other lanes are there.
func TestLostLanes(t *testing.T) {
	url, schema := pgtest.Database(t), "pawl"
	s := open(t, url, schema)
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	_, err = s.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{
		{ID: store.ID{1}, Workflow: "w", Queue: "q", Priority: 3}, {ID: store.ID{2}, Workflow: "w", Queue: "q", Priority: 1},
	}})
	require.NoError(t, err)
	both := func(s store.Store, transition store.Transition) {
		t.Helper()
		got, err := s.Claim(t.Context(), store.ClaimParams{
			Namespace: "n", Worker: "a", Max: 2, LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 2}},
		})
		require.NoError(t, err)
		require.Len(t, got.Runs, 2)
		for _, r := range got.Runs {
			res, err := s.Commit(t.Context(), store.CommitParams{Namespace: "n", Commits: []store.Commit{{Lease: r.Lease, Seq: 1, Transition: &transition}}})
			require.NoError(t, err)
			require.NoError(t, res[0].Err)
		}
	}
	both(s, store.Transition{Kind: store.Sleep, After: time.Microsecond})
	for _, lost := range []string{"true", "priority=1", "priority=3"} {
		tag, err := admin.Exec(t.Context(), "DELETE FROM pawl.lanes WHERE "+lost)
		require.NoError(t, err)
		require.Positive(t, tag.RowsAffected())
		both(open(t, url, schema), store.Transition{Kind: store.Sleep, After: time.Microsecond})
	}
}
