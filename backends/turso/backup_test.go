package turso

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// TestRestoredDirectory restores a copy of a server's data directory under workers that have
// continued since the copy. Every run completes, with the outputs that are recorded.
func TestRestoredDirectory(t *testing.T) {
	t.Parallel()
	const runs, steps, times = 40, 5, 2
	srv := sqldtest.Start(t)
	url := srv.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	// No two executions of a step return the same number.
	var work atomic.Int64
	gates := make(chan struct{}, runs*steps)
	unique := workflow.New("unique", func(ctx workflow.Context, _ int) (list []int64, err error) {
		for i := range steps {
			v, err := workflow.Step(ctx, fmt.Sprintf("step-%d", i), func(ctx context.Context) (int64, error) {
				select {
				case <-gates:
					return work.Add(1), nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	})
	work30 := func() { // lets 30 steps proceed, and waits for them
		before := work.Load()
		for range 30 {
			gates <- struct{}{}
		}
		for work.Load() < before+30 {
			require.True(t, pause(ctx, 5*time.Millisecond), "the work has come to a stand")
		}
	}

	engines, stop := twoWorkers(ctx, t, unique, runs, func() *Store { return openOn(t, srv, url) })
	defer stop()
	var in []workflow.Each[int]
	for n := range runs {
		in = append(in, workflow.Each[int]{In: n})
	}
	handles, err := unique.StartMany(ctx, engines[0], in)
	require.NoError(t, err)

	for range times {
		work30()
		back := srv.Copy(t)
		work30()
		back() // what was written after the copy is lost
	}
	go func() {
		for ctx.Err() == nil {
			select {
			case gates <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	// An engine without a worker knows of no end that the restored server has lost.
	reader := engine.New(openOn(t, srv, url), engine.Logger(quiet))
	defer reader.Close()
	for _, h := range handles {
		out, err := unique.Handle(reader, h.ID()).Result(ctx)
		require.NoError(t, err)
		recorded, err := reader.Steps(ctx, h.ID())
		require.NoError(t, err)
		require.Len(t, recorded, steps)
		for i, s := range recorded {
			require.Equal(t, fmt.Sprint(out[i]), string(s.Output), "run %s returned what it has not recorded", h.ID())
		}
	}
	require.Greater(t, work.Load(), int64(runs*steps), "nothing was lost: the test shows nothing")
	t.Logf("%d steps done again", work.Load()-runs*steps)
}

// twoWorkers lets two workers, each with a store of its own, execute a workflow. It returns their
// engines. Stop ends the workers and returns when they have ended.
func twoWorkers(ctx context.Context, t *testing.T, def workflow.Definition, slots int, open func() *Store) (engines []*engine.Engine, stop func()) {
	var workers sync.WaitGroup
	working, cancel := context.WithCancel(ctx)
	for range 2 {
		eng := engine.New(open(), engine.Logger(quiet))
		engines = append(engines, eng)
		w := worker.New(eng, worker.Concurrency(slots), worker.Lease(3*time.Second))
		require.NoError(t, w.Register(def))
		workers.Go(func() {
			if err := w.Run(working); err != nil {
				t.Errorf("worker.Run: %v", err)
			}
			eng.Close()
		})
	}
	return engines, func() {
		cancel()
		workers.Wait()
	}
}
