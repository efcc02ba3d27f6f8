package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// While an old snapshot is open, claims do not read all entries that have died since, and a run
// that appears where they do not look is still found.
func TestClaimUnderOldSnapshot(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	s := watch(t, url, "cache_statement")
	claim := func() []store.ClaimedRun {
		c, err := s.Claim(t.Context(), store.ClaimParams{Namespace: "n", Worker: "worker", LeaseFor: time.Hour,
			Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 1000}}})
		require.NoError(t, err)
		return c.Runs
	}
	create := func(n int) (runs []store.NewRun) {
		for range n {
			runs = append(runs, store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"})
		}
		_, err := s.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: runs})
		require.NoError(t, err)
		return runs
	}
	// A paused run keeps its place before all others.
	paused := create(1)[0].ID
	pause := func(resume bool) {
		_, err := s.Pause(t.Context(), store.PauseParams{Namespace: "n", IDs: []store.ID{paused}, Resume: resume})
		require.NoError(t, err)
	}
	pause(false)
	other, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer other.Close(context.Background())
	_, err = other.PgConn().Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pawl.lanes`).ReadAll()
	require.NoError(t, err)
	for range 8 {
		create(1000)
		runs := claim()
		require.Len(t, runs, 1000)
		commits := make([]store.Commit, len(runs))
		for i, r := range runs {
			commits[i] = store.Commit{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}}
		}
		_, err := s.Commit(t.Context(), store.CommitParams{Namespace: "n", Commits: commits})
		require.NoError(t, err)
	}
	// Some looks begin where the last one found the first run, and pass little.
	for looks := 0; pages(s.planned(func() { claim() })) > 2000; looks++ {
		require.Less(t, looks, 1000, "looks in a row that passed all that is dead")
	}
	pause(true)
	for found := claim(); len(found) == 0 || found[0].Run.ID != paused; found = claim() {
		require.NoError(t, t.Context().Err())
	}
	_, err = other.Exec(t.Context(), `COMMIT`)
	require.NoError(t, err)
}

// Workers of one process may claim at the same time, with the same window.
func TestClaimsShareTheirWindow(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	s := open(t, url, schema)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				_, err := s.Claim(t.Context(), store.ClaimParams{Namespace: "n", Worker: "worker", LeaseFor: time.Hour,
					Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 1}}})
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
}
