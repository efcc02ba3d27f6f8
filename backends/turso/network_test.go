package turso

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

var networkRuns = flag.Int("turso.runs", 400, "runs of TestBadNetwork, of ten steps each")

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// badNetwork cuts, delays and resets round trips; the fate of a round trip depends only on its
// number.
func badNetwork(n int64) fate {
	switch {
	case n%7 == 0:
		return fate{cut: true}
	case n%11 == 0:
		return fate{cut: true, half: true}
	case n%13 == 0:
		return fate{drop: true}
	case n%5 == 0:
		return fate{before: 3 * time.Millisecond, after: 2 * time.Millisecond}
	}
	return fate{}
}

// TestBadNetwork lets two processes work while a third of the answers are lost or late and the
// server is killed and restarted. No step is lost or recorded twice, and no step that has succeeded
// is reported as failed.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	const steps = 10
	srv := sqldtest.Start(t)
	url := srv.Namespace(t)
	p := newProxy(t, srv)
	judge := openOn(t, srv, url) // this store's network is good
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()

	var done [steps]sync.Map // for each step, how often it was executed for a run
	var work atomic.Int64
	count := workflow.New("count", func(ctx workflow.Context, n int) (int, error) {
		for i := range steps {
			v, err := workflow.Step(ctx, fmt.Sprintf("step-%d", i), func(context.Context) (int, error) {
				times, _ := done[i].LoadOrStore(n, new(atomic.Int64))
				times.(*atomic.Int64).Add(1)
				work.Add(1)
				return n + 1, nil
			})
			if err != nil {
				return 0, err
			}
			if v != n+1 {
				return 0, fmt.Errorf("step %d returned %d, not %d", i, v, n+1)
			}
		}
		return 2 * n, nil
	})

	engines, stop := twoWorkers(ctx, t, count, 50, func() *Store { return openOn(t, srv, url, WithDialer(p.dial)) })
	defer stop()
	p.set(badNetwork)

	handles := startPatiently(ctx, t, count, engines)
	for kills := range int64(2) {
		for work.Load() < (kills+1)*int64(*networkRuns*steps)/3 { // while work is under way
			require.True(t, pause(ctx, 5*time.Millisecond), "the work has come to a stand")
		}
		require.NoError(t, srv.Kill())
		require.NoError(t, srv.Restart())
	}

	clean := engine.New(judge, engine.Logger(quiet))
	defer clean.Close()
	again := 0
	for n, h := range handles {
		out, err := count.Handle(clean, h.ID()).Result(ctx)
		require.NoError(t, err, "run %d", n)
		require.Equal(t, 2*n, out)
		recorded, err := clean.Steps(ctx, h.ID())
		require.NoError(t, err)
		require.Len(t, recorded, steps)
		for i, s := range recorded {
			require.Equal(t, fmt.Sprintf("step-%d", i), s.Name)
			require.Equal(t, store.StepCompleted, s.Status)
			require.Equal(t, fmt.Sprint(n+1), string(s.Output))
			times, _ := done[i].Load(n)
			again += int(times.(*atomic.Int64).Load()) - 1
		}
	}
	counts, err := judge.Count(ctx, store.CountParams{Namespace: "default"})
	require.NoError(t, err)
	require.Len(t, counts, 1)
	require.Equal(t, store.RunCount{Queue: "count", Workflow: "count", Status: store.Completed, Count: int64(*networkRuns)}, counts[0], "a start made two runs")
	for what, n := range map[string]int64{"answers cut": p.cuts.Load(), "answers cut in half": p.resets.Load(), "requests lost": p.refusals.Load()} {
		require.NotZero(t, n, what)
		t.Logf("%6d %s", n, what)
	}
	t.Logf("%6d steps done again after a lease had run out", again)
}

// startPatiently starts the runs of TestBadNetwork, in turns on two engines. A start whose outcome is unknown, as it is on
// a slow machine, is repeated; the external ids make that safe.
func startPatiently(ctx context.Context, t *testing.T, count *workflow.Workflow[int, int], engines []*engine.Engine) (handles []workflow.Handle[int]) {
	for first := 0; first < *networkRuns; first += 50 {
		var in []workflow.Each[int]
		for n := first; n < min(first+50, *networkRuns); n++ {
			in = append(in, workflow.Each[int]{In: n, Options: []engine.StartOption{engine.ExternalID(fmt.Sprint(n))}})
		}
		hs, err := count.StartMany(ctx, engines[first/50%2], in)
		for errors.Is(err, store.ErrOutcomeUnknown) && ctx.Err() == nil {
			hs, err = count.StartMany(ctx, engines[first/50%2], in)
		}
		require.NoError(t, err)
		handles = append(handles, hs...)
	}
	return handles
}
