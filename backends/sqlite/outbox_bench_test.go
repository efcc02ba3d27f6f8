package sqlite_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// BenchmarkOutbox measures the processor time that a run costs from its creation to its end, a hundred in each call: in a
// database without the triggers of the outbox, in one that never had a subscription, with one in another namespace, and with
// one that selects all changes. The four take turns. Each is reported as the median of its rounds, in microseconds per run.
func BenchmarkOutbox(b *testing.B) {
	const calls = 100
	modes := []string{"no-triggers", "none", "elsewhere", "one"}
	stores, took := map[string]store.Store{}, map[string][]time.Duration{}
	for _, mode := range modes {
		path := file(b)
		st := open(b, path)
		stores[mode] = st
		put := store.PutSubscriptionParams{Namespace: ns, Subscription: store.Subscription{Name: "all"}}
		switch mode {
		case "no-triggers":
			_, err := raw(b, path).Exec(`DROP TRIGGER runs_change_turned; DROP TRIGGER runs_change_made`)
			require.NoError(b, err)
		case "elsewhere":
			put.Namespace = "other"
			fallthrough
		case "one":
			_, err := st.PutSubscription(b.Context(), put)
			require.NoError(b, err)
		}
	}
	round := func(st store.Store) time.Duration {
		begun := cpu()
		create(b, st, newRuns(calls)...)
		got := claim(b, st, calls)
		require.Len(b, got.Runs, calls)
		commits := make([]store.Commit, calls)
		for i := range commits {
			commits[i] = store.Commit{Lease: got.Runs[i].Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}}
		}
		for _, r := range commit(b, st, commits...) {
			require.NoError(b, r.Err)
		}
		return cpu() - begun
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
