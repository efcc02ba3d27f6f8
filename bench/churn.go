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

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/store"
)

// churn makes and finishes runs by batches of a hundred, on two connections,
// while somebody else holds a snapshot: nothing that dies can be cleared away, and
// it dies where claims look first. A quarter as many runs go before the snapshot,
// and as many after it.
//
// Batches go in turns to a second database, in which no snapshot is held. The rate
// of each window is that of the time spent in batches of the first, as a ratio to
// that before the snapshot; and so is the ratio of both databases, in which the
// other load of the machine cancels out.
func (b *bench) churn(ctx context.Context, srv *server) error {
	control, drop, err := srv.database(ctx)
	if err != nil {
		return err
	}
	defer drop()
	var run churning
	schema, drop := srv.schema()
	defer drop()
	for i, at := range []*server{srv, control} {
		if run.sides[i].st, err = at.open(ctx, schema, 8); err != nil {
			return err
		}
		defer run.sides[i].st.Close()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for n := range 2 {
		wg.Go(func() { run.work(ctx, n, stop) })
	}
	size := int64(b.churned)
	if _, err := run.windows(ctx, size/20); err != nil { // warming up
		return err
	}
	before, err := run.windows(ctx, size/4)
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
	began := time.Now()
	during, err := run.windows(ctx, size)
	if err != nil {
		return err
	}
	held := time.Since(began)
	if _, err := other.Exec(ctx, `COMMIT`); err != nil {
		return err
	}
	ended := time.Now()
	after, err := run.windows(ctx, size/4)
	if err != nil {
		return err
	}
	b.addChurn(before, during, after, held, time.Since(ended))
	return nil
}

// churning is the work on both databases.
type churning struct {
	sides [2]struct {
		st    *postgres.Store
		done  atomic.Int64
		spent atomic.Int64 // nanoseconds
	}
	failed atomic.Pointer[error]
}

// work passes batches to both databases in turns, until ctx ends. If one fails, it calls stop.
func (c *churning) work(ctx context.Context, n int, stop func()) {
	for i := n; ctx.Err() == nil; i++ {
		side := &c.sides[i%2]
		from := time.Now()
		err := turn(ctx, side.st, fmt.Sprint("worker", n), 0, &side.done)
		side.spent.Add(int64(time.Since(from)))
		if err != nil && ctx.Err() == nil {
			c.failed.Store(&err)
			stop()
		}
	}
}

// windows waits until n runs have passed, in ten parts, and returns the rates of both databases for
// each part.
func (c *churning) windows(ctx context.Context, n int64) (list [][2]float64, err error) {
	for range 10 {
		var done, spent [2]int64
		for i := range c.sides {
			done[i], spent[i] = c.sides[i].done.Load(), c.sides[i].spent.Load()
		}
		for c.sides[0].done.Load()-done[0] < n/10 {
			if err := rest(ctx, 5*time.Millisecond); err != nil {
				if err := c.failed.Load(); err != nil {
					return nil, *err
				}
				return nil, err
			}
		}
		var rates [2]float64
		for i := range c.sides {
			rates[i] = 2 * float64(c.sides[i].done.Load()-done[i]) / time.Duration(c.sides[i].spent.Load()-spent[i]).Seconds()
		}
		list = append(list, rates)
		fmt.Fprintf(os.Stderr, "  %.0f/s, without a snapshot %.0f/s, ratio %.2f\n", rates[0], rates[1], rates[0]/rates[1])
	}
	return list, nil
}

// addChurn adds the rates before, during and after the snapshot, which was held so long and ended so
// long ago.
func (b *bench) addChurn(before, during, after [][2]float64, held, since time.Duration) {
	var rates, both []float64
	for _, w := range before {
		rates, both = append(rates, w[0]), append(both, w[0]/w[1])
	}
	name := fmt.Sprintf("churn of %d runs", b.churned)
	b.add(name+": before the snapshot", "/s", rates...)
	for i, w := range during {
		b.add(fmt.Sprintf("%s: under it, tenth %2d of %.0f s, to before", name, i+1, held.Seconds()), "x", w[0]/median(rates))
		b.add(fmt.Sprintf("%s: under it, tenth %2d of %.0f s, to the other database", name, i+1, held.Seconds()), "x", w[0]/w[1]/median(both))
	}
	for _, i := range []int{0, len(after) - 1} {
		b.add(fmt.Sprintf("%s: after it, tenth %2d of %.0f s, to the other database", name, i+1, since.Seconds()), "x", after[i][0]/after[i][1]/median(both))
	}
}

// turn makes, claims and completes a batch of runs with so many steps.
func turn(ctx context.Context, st store.Store, worker string, steps int, done *atomic.Int64) error {
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
	for step := range steps + 1 {
		commits := make([]store.Commit, len(c.Runs))
		for i, r := range c.Runs {
			commits[i] = store.Commit{Lease: r.Lease, Seq: int64(step) + 1}
			if step == steps {
				commits[i].Transition = &store.Transition{Kind: store.CompleteRun, Output: []byte("7")}
				continue
			}
			commits[i].Steps = []store.StepRecord{{
				StepKey: store.StepKey{Name: fmt.Sprint("step", step), Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted,
				Position: int64(step) + 1, Attempt: 1, Output: []byte("7"),
			}}
		}
		results, failed := st.Commit(ctx, store.CommitParams{Namespace: "default", Commits: commits})
		for _, r := range results {
			failed = errors.Join(failed, r.Err)
		}
		err = errors.Join(err, failed)
	}
	done.Add(int64(len(c.Runs)))
	return err
}
