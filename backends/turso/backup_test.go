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
	"github.com/pawlhq/pawl/internal/sqldtest"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// A server's data directory is put back under workers that have gone on: every run
// completes, with the outputs that are recorded.
func TestRestoredDirectory(t *testing.T) {
	t.Parallel()
	const runs, steps, times = 40, 5, 2
	srv := sqldtest.Start(t)
	url := srv.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	// No execution of a step returns what another one has returned.
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
	open := func(n int) { // so many steps may go on
		for range n {
			gates <- struct{}{}
		}
	}
	reached := func(n int64) {
		for work.Load() < n {
			require.True(t, pause(ctx, 5*time.Millisecond), "the work has come to a stand")
		}
	}

	var workers sync.WaitGroup
	working, stop := context.WithCancel(ctx)
	defer workers.Wait()
	defer stop()
	var engines []*engine.Engine
	for range 2 {
		eng := engine.New(openOn(t, srv, url), engine.Logger(quiet))
		engines = append(engines, eng)
		w := worker.New(eng, worker.Concurrency(runs), worker.Lease(3*time.Second))
		require.NoError(t, w.Register(unique))
		workers.Go(func() {
			if err := w.Run(working); err != nil {
				t.Errorf("worker.Run: %v", err)
			}
			eng.Close()
		})
	}
	var in []workflow.Each[int]
	for n := range runs {
		in = append(in, workflow.Each[int]{In: n})
	}
	handles, err := unique.StartMany(ctx, engines[0], in)
	require.NoError(t, err)

	for range times {
		before := work.Load()
		open(30)
		reached(before + 30)
		back := srv.Copy(t)
		open(30)
		reached(before + 60)
		back() // what came after the copy is lost
	}
	go func() {
		for ctx.Err() == nil {
			select {
			case gates <- struct{}{}:
			case <-working.Done():
				return
			}
		}
	}()
	for _, h := range handles {
		out, err := unique.Handle(engines[1], h.ID()).Result(ctx)
		require.NoError(t, err)
		recorded, err := engines[1].Steps(ctx, h.ID())
		require.NoError(t, err)
		require.Len(t, recorded, steps)
		for i, s := range recorded {
			require.Equal(t, fmt.Sprint(out[i]), string(s.Output), "run %s returned what it has not recorded", h.ID())
		}
	}
	require.Greater(t, work.Load(), int64(runs*steps), "nothing was lost: the test shows nothing")
	t.Logf("%d steps done again", work.Load()-runs*steps)
}
