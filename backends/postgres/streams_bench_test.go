package postgres_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
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

// BenchmarkStreams measures how long an item takes from the call of Append to a reader on another handle, on SQLite
// and PostgreSQL: the median, in milliseconds.
func BenchmarkStreams(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "bench.db")
		benchStreams(b, func() (store.Store, error) { return sqlite.Open(b.Context(), path) })
	})
	b.Run("postgres", func(b *testing.B) {
		location, schema := pgtest.Schema(b)
		benchStreams(b, func() (store.Store, error) {
			return postgres.Open(b.Context(), location, postgres.WithSchema(schema))
		})
	})
}

func benchStreams(b *testing.B, open func() (store.Store, error)) {
	var engines []*engine.Engine
	for range 2 {
		s, err := open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, s.Close()) })
		eng := engine.New(s, engine.Logger(slog.New(slog.DiscardHandler)))
		b.Cleanup(eng.Close)
		engines = append(engines, eng)
	}
	stream, seen := workflow.NewStream[time.Time]("ticks"), make(chan struct{}, 1)
	ticks := workflow.New("ticks", func(ctx workflow.Context, n int) (int, error) {
		return n, workflow.Do(ctx, "tick", func(ctx context.Context) error {
			for range n {
				if err := stream.Append(ctx, time.Now()); err != nil {
					return err
				}
				select {
				case <-seen:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
	})
	w := worker.New(engines[0])
	require.NoError(b, w.Register(ticks))
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(b, <-done)
	}()
	n := min(b.N, store.MaxStreamItems)
	h, err := ticks.Start(ctx, engines[0], n)
	require.NoError(b, err)
	var took []time.Duration
	for item, err := range stream.Read(ctx, engines[1], h.ID(), "") {
		require.NoError(b, err)
		took = append(took, time.Since(item.Value))
		seen <- struct{}{}
	}
	require.Len(b, took, n)
	slices.Sort(took)
	b.ReportMetric(float64(took[n/2])/1e6, "ms-p50")
	b.ReportMetric(float64(took[n*99/100])/1e6, "ms-p99")
}
