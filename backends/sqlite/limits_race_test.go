package sqlite_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/store"
)

// TestLimitsAcrossHandles: claims of several handles never have more leases under a key than its limit
// permits, each run is executed once, and no permit is left.
func TestLimitsAcrossHandles(t *testing.T) {
	t.Parallel()
	const total = 300
	path := file(t)
	handles := []*sqlite.Store{open(t, path), open(t, path), open(t, path)}
	ctx := t.Context()
	rules := []store.Limit{{Name: "all", Rule: store.LimitRule{Concurrency: 5}}, {Name: "key", Rule: store.LimitRule{Concurrency: 2, Fair: true}}}
	require.NoError(t, handles[0].PutLimits(ctx, store.PutLimitsParams{Namespace: ns, Limits: rules}))
	runs := newRuns(total)
	for i := range runs {
		runs[i].Under = []store.LimitUse{{Limit: "all"}, {Limit: "key", Key: fmt.Sprint(i % 4)}}
	}
	create(t, handles[0], runs...)

	var mu sync.Mutex
	held, most := map[store.LimitUse]int64{}, map[store.LimitUse]int64{}
	seen := map[store.ID]int{}
	count := func(run *store.Run, n int64) {
		mu.Lock()
		defer mu.Unlock()
		for _, u := range run.Under {
			held[u] += n
			most[u] = max(most[u], held[u])
		}
		if n > 0 {
			seen[run.ID]++
		}
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	for i, s := range handles {
		for j := range 2 {
			wg.Go(func() {
				for done.Load() < total && ctx.Err() == nil {
					p := claimParams(3)
					p.Worker = fmt.Sprintf("w%d%d", i, j)
					got, err := s.Claim(context.Background(), p)
					if err != nil {
						t.Error(err)
						return
					}
					for k := range got.Runs {
						count(&got.Runs[k].Run, 1)
					}
					for k := range got.Runs {
						count(&got.Runs[k].Run, -1) // before the end, so that the count is never too high
						if _, err := s.Commit(context.Background(), store.CommitParams{Namespace: ns, Commits: []store.Commit{
							{Lease: got.Runs[k].Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}}}}); err != nil {
							t.Error(err)
						}
						done.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	require.Len(t, seen, total)
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
	for u, n := range most {
		require.LessOrEqual(t, n, map[string]int64{"all": 5, "key": 2}[u.Limit], "%v", u)
	}
	for _, l := range rules {
		page, err := handles[1].LimitKeys(ctx, store.LimitKeysParams{Namespace: ns, Limit: l.Name})
		require.NoError(t, err)
		for _, k := range page.Keys {
			require.Zero(t, k.Held, "%s/%s", l.Name, k.Key)
		}
	}
}
