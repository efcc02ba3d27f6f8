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
	var sides [2]struct {
		st    *postgres.Store
		done  atomic.Int64
		spent atomic.Int64 // nanoseconds
	}
	schema, drop := srv.schema()
	defer drop()
	for i, at := range []*server{srv, control} {
		if sides[i].st, err = at.open(ctx, schema, 8); err != nil {
			return err
		}
		defer sides[i].st.Close()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	var failed atomic.Pointer[error]
	for n := range 2 {
		wg.Go(func() {
			for i := n; ctx.Err() == nil; i++ {
				side := &sides[i%2]
				from := time.Now()
				err := turn(ctx, side.st, fmt.Sprint("worker", n), 0, &side.done)
				side.spent.Add(int64(time.Since(from)))
				if err != nil && ctx.Err() == nil {
					failed.Store(&err)
					stop()
				}
			}
		})
	}
	// windows passes n runs, in ten parts, and gives the rates of both databases.
	windows := func(n int64) (list [][2]float64, err error) {
		for range 10 {
			var done, spent [2]int64
			for i := range sides {
				done[i], spent[i] = sides[i].done.Load(), sides[i].spent.Load()
			}
			for sides[0].done.Load()-done[0] < n/10 {
				if err := rest(ctx, 5*time.Millisecond); err != nil {
					if err := failed.Load(); err != nil {
						return nil, *err
					}
					return nil, err
				}
			}
			var rates [2]float64
			for i := range sides {
				rates[i] = 2 * float64(sides[i].done.Load()-done[i]) / time.Duration(sides[i].spent.Load()-spent[i]).Seconds()
			}
			list = append(list, rates)
			fmt.Fprintf(os.Stderr, "  %.0f/s, without a snapshot %.0f/s, ratio %.2f\n", rates[0], rates[1], rates[0]/rates[1])
		}
		return list, nil
	}
	size := int64(b.churned)
	if _, err := windows(size / 20); err != nil { // warming up
		return err
	}
	before, err := windows(size / 4)
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
	during, err := windows(size)
	if err != nil {
		return err
	}
	held := time.Since(began)
	if _, err := other.Exec(ctx, `COMMIT`); err != nil {
		return err
	}
	ended := time.Now()
	after, err := windows(size / 4)
	if err != nil {
		return err
	}
	var rates, both []float64
	for _, w := range before {
		rates, both = append(rates, w[0]), append(both, w[0]/w[1])
	}
	name := fmt.Sprintf("churn of %d runs", size)
	b.add(name+": before the snapshot", "/s", rates...)
	for i, w := range during {
		b.add(fmt.Sprintf("%s: under it, tenth %2d of %.0f s, to before", name, i+1, held.Seconds()), "x", w[0]/median(rates))
		b.add(fmt.Sprintf("%s: under it, tenth %2d of %.0f s, to the other database", name, i+1, held.Seconds()), "x", w[0]/w[1]/median(both))
	}
	for _, i := range []int{0, len(after) - 1} {
		b.add(fmt.Sprintf("%s: after it, tenth %2d of %.0f s, to the other database", name, i+1, time.Since(ended).Seconds()), "x", after[i][0]/after[i][1]/median(both))
	}
	return nil
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
				commits[i].Transition = &store.Transition{Kind: store.Complete, Output: []byte("7")}
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
