package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var (
	benchTell = workflow.NewSignal[int]("told")
	benchAsk  = workflow.NewUpdate[int, int]("asked")
)

// BenchmarkUpdates measures requests with an answer beside signals, on SQLite and PostgreSQL: many
// callers, and a run for each of some of them.
func BenchmarkUpdates(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"))
		require.NoError(b, err)
		defer s.Close()
		benchUpdates(b, s)
	})
	b.Run("postgres", func(b *testing.B) {
		location, schema := pgtest.Schema(b)
		s, err := postgres.Open(b.Context(), location, postgres.WithSchema(schema))
		require.NoError(b, err)
		defer s.Close()
		benchUpdates(b, s)
	})
}

func benchUpdates(b *testing.B, s store.Store) {
	ctx, cancel := context.WithCancel(b.Context())
	eng := engine.New(s, engine.Logger(slog.New(slog.DiscardHandler)))
	hears := workflow.New("hears", func(ctx workflow.Context, n int) (sum int, err error) {
		for range n {
			v, err := benchTell.Receive(ctx)
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	})
	answers := workflow.New("answers", func(ctx workflow.Context, n int) (sum int, err error) {
		for range n {
			err := benchAsk.Handle(ctx, func(_ workflow.Context, v int) (int, error) { sum += v; return sum, nil })
			if err != nil {
				return 0, err
			}
		}
		return sum, nil
	})
	w := worker.New(eng, worker.Concurrency(200), worker.Park(10*time.Second)) // no replays
	require.NoError(b, w.Register(hears, answers))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() { cancel(); <-done; eng.Close() }()
	const runs, each = 20, 10 // of callers for each run, and of messages for each caller
	for _, callers := range []int{1, 20} {
		rate := func(wf *workflow.Workflow[int, int], send func(h workflow.Handle[int]) error) float64 {
			hs := make([]workflow.Handle[int], runs)
			for i := range hs {
				h, err := wf.Start(ctx, eng, callers*each)
				require.NoError(b, err)
				hs[i] = h
			}
			begin := time.Now()
			var wg sync.WaitGroup
			for i := range runs * callers {
				wg.Go(func() {
					for range each {
						if err := send(hs[i%runs]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			_, err := workflow.Results(ctx, hs)
			require.NoError(b, err)
			return float64(runs*callers*each) / time.Since(begin).Seconds()
		}
		b.Run(fmt.Sprintf("%d callers", runs*callers), func(b *testing.B) {
			signals, asks := 0.0, 0.0
			for b.Loop() {
				signals += rate(hears, func(h workflow.Handle[int]) error { return benchTell.Send(ctx, eng, h.ID(), 1) })
				asks += rate(answers, func(h workflow.Handle[int]) error { _, err := benchAsk.Ask(ctx, h, 1); return err })
			}
			b.ReportMetric(signals/float64(b.N), "signals/s")
			b.ReportMetric(asks/float64(b.N), "asks/s")
		})
	}
}
