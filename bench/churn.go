package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/store"
)

// churn makes and finishes runs by batches of a hundred, on two connections,
// while somebody else holds a snapshot: nothing that dies can be cleared away, and
// it dies where claims look first. The rate of each window stands as a ratio to
// that before the snapshot. A quarter as many runs go before the snapshot, and as
// many after it.
func (b *bench) churn(ctx context.Context, srv *server) error {
	schema, drop := srv.schema()
	defer drop()
	st, err := srv.open(ctx, schema, 8)
	if err != nil {
		return err
	}
	defer st.Close()
	var done atomic.Int64
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for n := range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := turn(ctx, st, fmt.Sprint("worker", n), &done); err != nil && ctx.Err() == nil {
					failed.Store(&err)
					stop()
				}
			}
		})
	}
	defer wg.Wait()
	defer stop()
	// rates passes n runs and gives the rate of each of ten windows.
	rates := func(n int64) (list []float64, err error) {
		for range 10 {
			from, at := time.Now(), done.Load()
			for done.Load()-at < n/10 {
				select {
				case <-ctx.Done():
					if err := failed.Load(); err != nil {
						return nil, *err
					}
					return nil, ctx.Err()
				case <-time.After(5 * time.Millisecond):
				}
				if time.Since(from) > time.Minute {
					break // far below anything to be measured
				}
			}
			list = append(list, float64(done.Load()-at)/time.Since(from).Seconds())
			fmt.Fprintf(os.Stderr, "  churn: %.0f/s\n", list[len(list)-1])
		}
		return list, nil
	}
	size := int64(b.churned)
	if _, err := rates(size / 20); err != nil { // warming up
		return err
	}
	before, err := rates(size / 4)
	if err != nil {
		return err
	}
	other, err := pgx.Connect(ctx, srv.url)
	if err != nil {
		return err
	}
	defer other.Close(context.Background())
	if _, err := other.PgConn().Exec(ctx, in(schema, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pawl.lanes`)).ReadAll(); err != nil {
		return err
	}
	during, err := rates(size)
	if err != nil {
		return err
	}
	if _, err := other.Exec(ctx, `COMMIT`); err != nil {
		return err
	}
	ended := time.Now()
	after, err := rates(size / 4)
	if err != nil {
		return err
	}
	base := median(before)
	b.add(fmt.Sprintf("churn of %d runs, before the snapshot", size), "/s", before...)
	for i, r := range during {
		b.add(fmt.Sprintf("churn under an open snapshot, tenth %d", i+1), "x", r/base)
	}
	for i, r := range after {
		if i == 0 || i == len(after)-1 {
			b.add(fmt.Sprintf("churn after the snapshot, window %d of %d in %.0f s", i+1, len(after), time.Since(ended).Seconds()), "x", r/base)
		}
	}
	return nil
}

// turn makes, claims and completes a batch.
func turn(ctx context.Context, st store.Store, worker string, done *atomic.Int64) error {
	runs := make([]store.NewRun, limitBatch)
	for i := range runs {
		runs[i] = store.NewRun{ID: store.NewID(), Workflow: "noop", Queue: "noop", Input: []byte("7")}
	}
	if _, err := st.Create(ctx, store.CreateParams{Namespace: "default", Runs: runs}); err != nil {
		return err
	}
	c, err := st.Claim(ctx, store.ClaimParams{Namespace: "default", Worker: worker, LeaseFor: 30 * time.Second,
		Demands: []store.Demand{{Queue: "noop", Workflows: []string{"noop"}, Max: limitBatch}}})
	if err != nil || len(c.Runs) == 0 {
		return err
	}
	commits := make([]store.Commit, len(c.Runs))
	for i, r := range c.Runs {
		commits[i] = store.Commit{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.Complete, Output: []byte("7")}}
	}
	results, err := st.Commit(ctx, store.CommitParams{Namespace: "default", Commits: commits})
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	done.Add(int64(len(commits)))
	return err
}
