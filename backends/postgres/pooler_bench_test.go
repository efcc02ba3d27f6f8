package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// BenchmarkExecModes measures the hot verbs in each mode in which statements can be sent, for
// batches of one run and of a hundred.
func BenchmarkExecModes(b *testing.B) {
	through := bouncer(b)
	for _, at := range []struct {
		name  string
		url   func(string) string
		modes []string
	}{
		{"direct", func(url string) string { return url }, []string{"cache_statement", "cache_describe", "exec", "simple_protocol"}},
		{"pooler", through, []string{"cache_describe", "exec", "simple_protocol"}},
	} {
		for _, mode := range at.modes {
			for _, batch := range []int{1, 100} {
				b.Run(fmt.Sprintf("%s/%s/%d", at.name, mode, batch), func(b *testing.B) {
					location, schema := pgtest.Schema(b)
					benchVerbs(b, open(b, set(b, at.url(location), "default_query_exec_mode", mode), schema), batch)
				})
			}
		}
	}
	b.Run("pooler/as noticed/1", func(b *testing.B) {
		location, schema := pgtest.Schema(b)
		s, err := postgres.Open(b.Context(), through(location), postgres.WithSchema(schema), newLines().option())
		require.NoError(b, err)
		defer s.Close()
		benchVerbs(b, s, 1)
	})
}

func benchVerbs(b *testing.B, s store.Store, batch int) {
	verbs := map[string]time.Duration{}
	timed := func(verb string, f func() error) {
		begin := time.Now()
		require.NoError(b, f())
		verbs[verb] += time.Since(begin)
	}
	for b.Loop() {
		runs := make([]store.NewRun, batch)
		for i := range runs {
			runs[i] = store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Input: []byte("{}")}
		}
		timed("create", func() error {
			_, err := s.Create(b.Context(), store.CreateParams{Namespace: "n", Runs: runs})
			return err
		})
		var got store.Claimed
		timed("claim", func() (err error) {
			got, err = s.Claim(b.Context(), store.ClaimParams{Namespace: "n", Worker: "w", Max: batch, LeaseFor: time.Minute,
				Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: batch}}})
			return err
		})
		require.Len(b, got.Runs, batch)
		commits := make([]store.Commit, batch)
		for i, r := range got.Runs {
			commits[i] = store.Commit{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}, Steps: []store.StepRecord{{
				StepKey: store.StepKey{Name: "s", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: 1, Attempt: 1,
			}}}
		}
		timed("commit", func() error {
			res, err := s.Commit(b.Context(), store.CommitParams{Namespace: "n", Commits: commits})
			for _, r := range res {
				require.NoError(b, r.Err)
			}
			return err
		})
	}
	for verb, d := range verbs {
		b.ReportMetric(float64(d.Microseconds())/float64(b.N), verb+"-µs/batch")
	}
	b.ReportMetric(0, "ns/op")
}
