package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// A child that is created while a cancel takes its locks is not locked with the others. If a commit
// records a step of the child while the cancel waits for the child's row, the child has something
// to clean up.
func TestCancelOfAChildThatCommitsMeanwhile(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := open(t, server.URL(), "race")
	db := pool(t, server.URL())
	ctx := t.Context()
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := db.Exec(ctx, sql, args...)
		require.NoError(t, err, sql)
	}
	waits := func(what string) {
		t.Helper()
		require.Eventually(t, func() bool {
			var n int
			require.NoError(t, db.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type='Lock' AND query LIKE '%'||$1||'%' AND pid<>pg_backend_pid()`, what).Scan(&n))
			return n > 0
		}, time.Minute, 5*time.Millisecond, "nobody waits in %s", what)
	}
	parent, child := store.NewID(), store.NewID()
	_, err := s.Create(ctx, store.CreateParams{Namespace: "ns", Runs: []store.NewRun{
		{ID: parent, Workflow: "w", Queue: "parents"}, {ID: child, Workflow: "w", Queue: "children"},
	}})
	require.NoError(t, err)
	claimed, err := s.Claim(ctx, store.ClaimParams{
		Namespace: "ns", Worker: "w1", LeaseFor: time.Hour,
		Demands: []store.Demand{{Queue: "children", Workflows: []string{"w"}, Max: 1}},
	})
	require.NoError(t, err)
	require.Len(t, claimed.Runs, 1)

	holds, err := db.Begin(ctx)
	require.NoError(t, err)
	_, err = holds.Exec(ctx, `SELECT 1 FROM race.runs WHERE id=$1 FOR UPDATE`, [16]byte(parent))
	require.NoError(t, err)
	canceled := make(chan error, 1)
	go func() {
		results, err := s.Cancel(ctx, store.CancelParams{Namespace: "ns", IDs: []store.ID{parent}})
		if err == nil {
			err = results[0].Err
		}
		canceled <- err
	}()
	waits("FOR NO KEY UPDATE")
	exec(`UPDATE race.runs SET parent=$1 WHERE id=$2`, [16]byte(parent), [16]byte(child))
	commits, err := db.BeginTx(ctx, pgx.TxOptions{})
	require.NoError(t, err)
	inside, err := s.(store.Transactor).Join(postgres.InTx(commits))
	require.NoError(t, err)
	results, err := inside.Commit(ctx, store.CommitParams{Namespace: "ns", Commits: []store.Commit{{
		Lease: claimed.Runs[0].Lease, Seq: 1, Transition: &store.Transition{Kind: store.Release},
		Steps: []store.StepRecord{{StepKey: store.StepKey{Name: "charge", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: 1, Attempt: 1}},
	}}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.NoError(t, holds.Rollback(ctx))
	waits("tree")
	require.NoError(t, commits.Commit(ctx))
	require.NoError(t, <-canceled)

	runs, err := s.Get(ctx, store.GetParams{Namespace: "ns", IDs: []store.ID{child}})
	require.NoError(t, err)
	require.Equal(t, store.Canceling, runs[0].Status, "it has recorded a step, which it may have to compensate")
}

// A call that controls several runs sees the runs of one moment, also if they are created together
// while the call is between two of its statements.
func TestControlSeesOneMoment(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for _, verb := range []string{"cancel", "restart"} {
		t.Run(verb, func(t *testing.T) {
			s := open(t, server.URL(), verb)
			db := pool(t, server.URL())
			ctx := t.Context()
			exec := func(sql string) {
				t.Helper()
				_, err := db.Exec(ctx, sql)
				require.NoError(t, err, sql)
			}
			// An update of the run in the middle waits for the lock of the test.
			exec(`CREATE FUNCTION ` + verb + `.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$`)
			exec(`CREATE TRIGGER hold BEFORE UPDATE ON ` + verb + `.runs FOR EACH ROW WHEN (OLD.workflow='held') EXECUTE FUNCTION ` + verb + `.hold()`)
			first, held, last := store.NewID(), store.NewID(), store.NewID()
			record := func(id store.ID, workflow string) store.ImportParams {
				at := time.Now().Truncate(time.Microsecond)
				return store.ImportParams{Namespace: "ns", Record: store.RunRecord{Run: store.Run{ID: id, Namespace: "ns", Workflow: workflow, Queue: "q",
					Status: store.Failed, Attempt: 1, CreatedAt: at, FinishedAt: at, Failure: &store.Failure{Code: "error"}}}}
			}
			create := func(workflow string, ids ...store.ID) {
				t.Helper()
				var runs []store.NewRun
				for _, id := range ids {
					runs = append(runs, store.NewRun{ID: id, Workflow: workflow, Queue: "q"})
				}
				results, err := s.Create(ctx, store.CreateParams{Namespace: "ns", Runs: runs})
				require.NoError(t, err)
				for _, r := range results {
					require.True(t, r.Created && !r.Repeated)
				}
			}
			call := func() ([]store.ControlResult, error) {
				return s.Cancel(ctx, store.CancelParams{Namespace: "ns", IDs: []store.ID{first, held, last}})
			}
			prepare := func() { create("held", held) }
			if verb == "restart" {
				call = func() ([]store.ControlResult, error) {
					return s.Restart(ctx, store.RestartParams{Namespace: "ns", IDs: []store.ID{first, held, last}})
				}
				prepare = func() {
					_, err := s.(store.Importer).Import(ctx, record(held, "held"))
					require.NoError(t, err)
				}
			}
			prepare()

			a := meanwhile(t, db, call, func() { create("w", first, last) })
			require.NoError(t, a.err)
			require.ErrorIs(t, a.results[0].Err, store.ErrNotFound)
			require.NoError(t, a.results[1].Err)
			require.ErrorIs(t, a.results[2].Err, store.ErrNotFound)
			runs, err := s.Get(ctx, store.GetParams{Namespace: "ns", IDs: []store.ID{first, last}})
			require.NoError(t, err)
			require.Equal(t, store.Pending, runs[0].Status)
			require.Equal(t, store.Pending, runs[1].Status)
		})
	}
}

// controlled is the answer of a call that controls runs.
type controlled struct {
	results []store.ControlResult
	err     error
}

// meanwhile makes the call, waits until it waits for the advisory lock 1, does something, and lets the
// call proceed.
func meanwhile(t *testing.T, db *pgxpool.Pool, call func() ([]store.ControlResult, error), do func()) controlled {
	t.Helper()
	lock, err := db.Begin(t.Context())
	require.NoError(t, err)
	_, err = lock.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1)`)
	require.NoError(t, err)
	answers := make(chan controlled, 1)
	go func() {
		results, err := call()
		answers <- controlled{results, err}
	}()
	require.Eventually(t, func() bool {
		var waits bool
		err := lock.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND locktype='advisory')`).Scan(&waits)
		return err == nil && waits
	}, time.Minute, time.Millisecond)
	do()
	require.NoError(t, lock.Rollback(t.Context()))
	return <-answers
}
