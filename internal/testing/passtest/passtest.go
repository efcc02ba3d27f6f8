// Package passtest tests that a backend passes permits on where it can. The conformance suite does not ask for that.
package passtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// Store is what the test calls.
type Store interface {
	store.Runs
	store.Leases
	store.Limiter
}

// Run ends runs under limits, one or two in a call, and checks which permits are passed on.
func Run(t *testing.T, s Store) {
	t.Helper()
	ctx := t.Context()
	create := func(namespace, key string, n int) (ids []store.ID) {
		runs := make([]store.NewRun, n)
		for i := range runs {
			runs[i] = store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Under: []store.LimitUse{{Limit: "l", Key: key}}}
		}
		made, err := s.Create(ctx, store.CreateParams{Namespace: namespace, Runs: runs})
		require.NoError(t, err)
		for _, res := range made {
			require.NoError(t, res.Err)
			ids = append(ids, res.ID)
		}
		return ids
	}
	claim := func(namespace string) []store.ClaimedRun {
		got, err := s.Claim(ctx, store.ClaimParams{Namespace: namespace, Worker: "w1", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 10}}})
		require.NoError(t, err)
		return got.Runs
	}
	for _, namespace := range []string{"other", "n"} {
		require.NoError(t, s.PutLimits(ctx, store.PutLimitsParams{Namespace: namespace, Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 2}}}}))
	}
	// Runs of another key and of another namespace, which wait.
	create("other", "fourth", 4)
	require.Len(t, claim("other"), 2)
	require.Empty(t, claim("other"))
	create("n", "another", 4)
	create("n", "k", 8)
	require.Len(t, claim("n"), 4)
	require.Empty(t, claim("n"))
	create("n", "third", 1)
	one := claim("n")
	require.Len(t, one, 1)

	ends := func(runs ...store.ClaimedRun) (next []store.ClaimedRun) {
		var commits []store.Commit
		for _, run := range runs {
			commits = append(commits, store.Commit{Lease: run.Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun, PassOn: time.Minute}})
		}
		res, err := s.Commit(ctx, store.CommitParams{Namespace: "n", Commits: commits})
		require.NoError(t, err)
		for i := range res {
			require.NoError(t, res[i].Err)
			if res[i].Next != nil {
				next = append(next, *res[i].Next)
			}
		}
		return next
	}
	require.Empty(t, ends(one...), "no run of its key waits")
	create("n", "fourth", 2)
	runs := claim("n")
	require.Len(t, runs, 2)
	_, err := s.Pause(ctx, store.PauseParams{Namespace: "n", IDs: create("n", "fourth", 1)})
	require.NoError(t, err)
	create("n", "fourth", 3)
	next := ends(runs[0])
	require.Len(t, next, 1, "one end")
	next = ends(runs[1], next[0])
	require.Len(t, next, 2, "two ends in one call")
	require.Empty(t, claim("n"))
	require.Empty(t, ends(next...), "none is left")
}
