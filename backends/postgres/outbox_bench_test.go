package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// BenchmarkOutbox measures what a run costs from its creation to its end, a hundred in each call: in a database that has never
// had a subscription, with one in another namespace, and with one that selects all changes. The three take turns. Each is reported as the median of its rounds, in microseconds per run.
func BenchmarkOutbox(b *testing.B) {
	const calls = 100
	modes := []string{"none", "elsewhere", "one"}
	stores, took := map[string]store.Store{}, map[string][]time.Duration{}
	for _, mode := range modes {
		url := pgtest.Database(b)
		st := open(b, url, "pawl")
		stores[mode] = st
		put := store.PutSubscriptionParams{Namespace: "ns", Subscription: store.Subscription{Name: "all"}}
		switch mode {
		case "elsewhere":
			put.Namespace = "other"
			fallthrough
		case "one":
			_, err := st.(store.Outboxer).PutSubscription(b.Context(), put)
			require.NoError(b, err)
		}
	}
	round := func(st store.Store) time.Duration {
		runs := make([]store.NewRun, calls)
		for i := range runs {
			runs[i] = store.NewRun{ID: store.NewID(), Workflow: "wf", Queue: "q"}
		}
		begun := time.Now()
		_, err := st.Create(b.Context(), store.CreateParams{Namespace: "ns", Runs: runs})
		require.NoError(b, err)
		got, err := st.Claim(b.Context(), store.ClaimParams{Namespace: "ns", Worker: "w", LeaseFor: time.Minute, Max: calls, Demands: []store.Demand{{Queue: "q", Workflows: []string{"wf"}, Max: calls}}})
		require.NoError(b, err)
		require.Len(b, got.Runs, calls)
		commits := make([]store.Commit, calls)
		for i := range commits {
			commits[i] = store.Commit{Lease: got.Runs[i].Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}}
		}
		res, err := st.Commit(b.Context(), store.CommitParams{Namespace: "ns", Commits: commits})
		require.NoError(b, err)
		for _, r := range res {
			require.NoError(b, r.Err)
		}
		return time.Since(begun)
	}
	for n := 0; b.Loop(); n++ {
		for i := range modes {
			mode := modes[(i+n)%len(modes)]
			if d := round(stores[mode]); n > 0 { // the first one warms up
				took[mode] = append(took[mode], d)
			}
		}
	}
	for _, mode := range modes {
		if d := took[mode]; len(d) > 0 {
			slices.Sort(d)
			b.ReportMetric(float64(d[len(d)/2].Microseconds())/calls, mode+"-µs/run")
		}
	}
}
