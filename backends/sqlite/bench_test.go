package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/store"
)

const (
	ns   = "default"
	flow = "flow"
	line = "line"
)

var lease = time.Minute

func newRuns(n int) []store.NewRun {
	runs := make([]store.NewRun, n)
	for i := range runs {
		runs[i] = store.NewRun{ID: store.NewID(), Workflow: flow, Queue: line, Input: []byte(`{"order":42,"cents":1999}`)}
	}
	return runs
}

func create(t testing.TB, s store.Store, runs ...store.NewRun) []store.CreateResult {
	t.Helper()
	res, err := s.Create(context.Background(), store.CreateParams{Namespace: ns, Runs: runs})
	require.NoError(t, err)
	return res
}

func claim(t testing.TB, s store.Store, n int) store.Claimed {
	t.Helper()
	got, err := s.Claim(context.Background(), claimParams(n))
	require.NoError(t, err)
	return got
}

func claimParams(n int) store.ClaimParams {
	return store.ClaimParams{Namespace: ns, Worker: "w", LeaseFor: lease, Demands: []store.Demand{{Queue: line, Workflows: []string{flow}, Max: n}}}
}

func commit(t testing.TB, s store.Store, commits ...store.Commit) []store.CommitResult {
	t.Helper()
	res, err := s.Commit(context.Background(), store.CommitParams{Namespace: ns, Commits: commits})
	require.NoError(t, err)
	return res
}

func stepRecord(position int64) store.StepRecord {
	return store.StepRecord{
		StepKey: store.StepKey{Name: fmt.Sprintf("step-%d", position), Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted,
		Position: position, Attempt: 1, Output: []byte(`{"charge":"ch_1"}`),
	}
}

// BenchmarkBatch measures the three hot verbs in batches of 100, where each batch is a durable
// write: commits of a step alone, and commits that also complete the run.
func BenchmarkBatch(b *testing.B) {
	const batch = 100
	verbs := map[string]time.Duration{}
	for _, mode := range []struct {
		name string
		sync sqlite.Synchronous
	}{{"full", sqlite.Full}, {"normal", sqlite.Normal}} {
		b.Run(mode.name, func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "pawl.db"), sqlite.WithSynchronous(mode.sync))
			clear(verbs)
			timed := func(verb string, f func()) {
				begin := time.Now()
				f()
				verbs[verb] += time.Since(begin)
			}
			for b.Loop() {
				runs := newRuns(batch)
				timed("create", func() { create(b, s, runs...) })
				var got store.Claimed
				timed("claim", func() { got = claim(b, s, batch) })
				require.Len(b, got.Runs, batch)
				commits := make([]store.Commit, batch)
				for i, r := range got.Runs {
					commits[i] = store.Commit{Lease: r.Lease, Seq: 1, Steps: []store.StepRecord{stepRecord(1)}}
				}
				timed("step", func() { commit(b, s, commits...) })
				for i := range commits {
					commits[i].Seq, commits[i].Steps = 2, []store.StepRecord{stepRecord(2)}
					commits[i].Transition = &store.Transition{Kind: store.CompleteRun, Output: []byte(`{}`)}
				}
				timed("complete", func() {
					for _, r := range commit(b, s, commits...) {
						require.NoError(b, r.Err)
					}
				})
			}
			for verb, d := range verbs {
				b.ReportMetric(float64(d.Microseconds())/float64(b.N*batch), verb+"-µs/run")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIdlePoll measures a claim that finds nothing among 100,000 sleepers.
func BenchmarkIdlePoll(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "pawl.db"))
	for range 10 {
		runs := newRuns(10_000)
		for i := range runs {
			runs[i].After = time.Hour
		}
		create(b, s, runs...)
	}
	for b.Loop() {
		require.Empty(b, claim(b, s, 100).Runs)
	}
}

func BenchmarkOneByOne(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "pawl.db"))
	for b.Loop() {
		create(b, s, newRuns(1)...)
		r := claim(b, s, 1).Runs[0]
		commit(b, s, store.Commit{Lease: r.Lease, Seq: 1, Steps: []store.StepRecord{stepRecord(1)}, Transition: &store.Transition{Kind: store.CompleteRun}})
	}
}
