package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// BenchmarkLimits claims and ends runs in batches of 100: under no limit, under one key, and under 10,000
// keys, with one claimer and with eight.
func BenchmarkLimits(b *testing.B) {
	for _, c := range []struct {
		name string
		keys int
		most int64
	}{{"none", 0, 0}, {"one-key", 1, 1000}, {"10000-keys", 10_000, 3}} {
		for _, claimers := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/claimers=%d", c.name, claimers), func(b *testing.B) {
				url, schema := pgtest.Schema(b)
				s := open(b, url, schema)
				rule := store.LimitRule{Concurrency: c.most}
				if c.keys > 0 {
					require.NoError(b, s.PutLimits(b.Context(), store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "l", Rule: rule}}}))
				}
				createMany(b, s, b.N, c.keys)
				b.ResetTimer()
				endAll(b, s, b.N, claimers)
			})
		}
	}
}

func createMany(t testing.TB, s store.Store, n, keys int) {
	for from := 0; from < n; from += 500 {
		p := store.CreateParams{Namespace: "n"}
		for i := from; i < min(n, from+500); i++ {
			r := store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}
			if keys > 0 {
				r.Under = []store.LimitUse{{Limit: "l", Key: fmt.Sprint("k", i%keys)}}
			}
			p.Runs = append(p.Runs, r)
		}
		_, err := s.Create(t.Context(), p)
		require.NoError(t, err)
	}
}

// endAll claims and completes n runs.
func endAll(t testing.TB, s store.Store, n, claimers int) {
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	var done atomic.Int64
	var wg sync.WaitGroup
	for w := range claimers {
		wg.Go(func() {
			for int(done.Load()) < n && ctx.Err() == nil {
				c, err := s.Claim(ctx, store.ClaimParams{Namespace: "n", Worker: fmt.Sprint("w", w), LeaseFor: time.Minute,
					Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 100}}})
				if err != nil {
					t.Error(err)
					return
				}
				var p store.CommitParams
				p.Namespace = "n"
				for _, r := range c.Runs {
					p.Commits = append(p.Commits, store.Commit{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}})
				}
				if len(p.Commits) == 0 {
					continue
				}
				res, err := s.Commit(ctx, p)
				if err != nil {
					t.Error(err)
					return
				}
				for i := range res {
					if res[i].Err != nil {
						t.Error(res[i].Err)
						return
					}
				}
				done.Add(int64(len(res)))
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, n, done.Load())
}
