package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// TestLimitsHold: eight claimers, some of which lose their leases, and whose connections break now and
// then, never exceed a limit, lose no run, and leak no permit. The test counts in the table of runs.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	s := open(t, url, schema)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	require.NoError(t, s.PutLimits(ctx, store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{
		{Name: "all", Rule: store.LimitRule{Concurrency: 7}},
		{Name: "tenant", Rule: store.LimitRule{Concurrency: 2, Fair: true}},
		{Name: "doc", Rule: store.LimitRule{Concurrency: 1}},
	}}))
	const total = 600
	p := store.CreateParams{Namespace: "n"}
	for i := range total {
		r := store.NewRun{ID: store.NewID(), Workflow: fmt.Sprint("w", i%2), Queue: "q", Priority: i % 3, Under: []store.LimitUse{{Limit: "all"}}}
		if i%4 > 0 {
			r.Under = append(r.Under, store.LimitUse{Limit: "tenant", Key: fmt.Sprint(i % 5)})
		}
		if i%3 > 0 {
			r.Under = append(r.Under, store.LimitUse{Limit: "doc", Key: fmt.Sprint(i % 11)})
		}
		if i%10 == 0 {
			r.Under = nil
		}
		p.Runs = append(p.Runs, r)
	}
	_, err := s.Create(ctx, p)
	require.NoError(t, err)

	var done, over atomic.Int64
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() { work(t, ctx, open(t, url, schema), cutting(t, url, schema), w, &done, total) })
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		over.Store(watchLimits(ctx, url, schema, &done, total))
	}()
	wg.Wait()
	require.EqualValues(t, total, done.Load(), "every run ends")
	<-stopped
	require.Zero(t, over.Load(), "no snapshot shows more leases than a limit permits")
	for _, name := range []string{"all", "tenant", "doc"} {
		keys, err := s.LimitKeys(ctx, store.LimitKeysParams{Namespace: "n", Limit: name})
		require.NoError(t, err)
		require.Empty(t, keys.Keys, "no permit and no waiting run is left under %s", name)
	}
}

// cutting opens a store whose connections break now and then.
func cutting(t *testing.T, url, schema string) store.Store {
	c, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	var n atomic.Int64
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		return &brittle{Conn: conn, n: &n}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s, err := postgres.New(t.Context(), pool, postgres.WithSchema(schema))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	n.Store(1)
	return s
}

// brittle is a connection of which a write breaks now and then, before or after it arrives.
type brittle struct {
	net.Conn
	n *atomic.Int64
}

func (b *brittle) Write(p []byte) (int, error) {
	if b.n.Load() > 0 && rand.IntN(60) == 0 {
		if rand.IntN(2) == 0 {
			_, _ = b.Conn.Write(p)
		}
		_ = b.Conn.Close()
		return 0, errors.New("cut")
	}
	return b.Conn.Write(p)
}

// work claims and ends runs until all have ended. Of some it loses the lease.
func work(t *testing.T, ctx context.Context, good, bad store.Store, w int, done *atomic.Int64, total int64) {
	for done.Load() < total && ctx.Err() == nil {
		s := good
		if rand.IntN(3) == 0 {
			s = bad
		}
		c, err := s.Claim(ctx, store.ClaimParams{Namespace: "n", Worker: fmt.Sprint("worker", w), LeaseFor: 300 * time.Millisecond, ClaimID: rand.Int64() + 1,
			Demands: []store.Demand{{Queue: "q", Workflows: []string{"w0", "w1"}, Max: 1 + rand.IntN(5)}}})
		if err != nil {
			if s == good && ctx.Err() == nil {
				t.Errorf("claim: %v", err)
				return
			}
			continue
		}
		for _, r := range c.Runs {
			tr := &store.Transition{Kind: store.CompleteRun}
			switch rand.IntN(12) {
			case 0:
				continue // the lease expires
			case 1:
				tr = &store.Transition{Kind: store.Retry, Failure: &store.Failure{Message: "again"}}
			case 2:
				tr = &store.Transition{Kind: store.Sleep, After: time.Millisecond}
			case 3:
				tr = &store.Transition{Kind: store.Release, Under: []store.LimitUse{{Limit: "step", Key: "x"}}}
			}
			commit := store.CommitParams{Namespace: "n", Commits: []store.Commit{{Lease: r.Lease, Seq: 1, Transition: tr}}}
			for try := range 5 {
				res, err := s.Commit(ctx, commit)
				if err != nil {
					if s == good && ctx.Err() == nil {
						t.Errorf("commit: %v", err)
					}
					continue
				}
				if res[0].Err == nil && tr.Kind == store.CompleteRun && (try > 0 || !res[0].Repeated) {
					done.Add(1)
				}
				break
			}
		}
	}
}

// watchLimits counts the snapshots with more leases under a key than its limit permits.
func watchLimits(ctx context.Context, url, schema string, done *atomic.Int64, total int64) (over int64) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return -1
	}
	defer func() { _ = conn.Close(ctx) }()
	for done.Load() < total && ctx.Err() == nil {
		var n int64
		err := conn.QueryRow(ctx, `SELECT count(*) FROM (SELECT e->>0 AS name, e->>1 AS key, count(*) AS n FROM `+pgx.Identifier{schema, "runs"}.Sanitize()+`
				r CROSS JOIN LATERAL jsonb_array_elements(r.under::jsonb) e WHERE r.leased GROUP BY 1, 2) c
			WHERE c.n>CASE c.name WHEN 'all' THEN 7 WHEN 'tenant' THEN 2 ELSE 1 END`).Scan(&n)
		if err != nil {
			return -1
		}
		over += n
	}
	return over
}
