package turso

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// steps makes a workflow of n steps that do nothing.
func steps(n int) *workflow.Workflow[int, int] {
	return workflow.New(fmt.Sprintf("steps-%d", n), func(ctx workflow.Context, in int) (int, error) {
		for i := range n {
			if _, err := workflow.Step(ctx, fmt.Sprintf("step-%d", i), func(context.Context) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		}
		return in, nil
	})
}

// BenchmarkRuns measures runs from start to result, one at a time and a hundred at a time, on the
// loopback and with 50 ms added to each round trip. It also reports what the server counts and
// bills.
func BenchmarkRuns(b *testing.B) {
	for _, delay := range []time.Duration{0, 50 * time.Millisecond} {
		for _, n := range []int{0, 3} {
			for _, at := range []int{1, 100} {
				b.Run(fmt.Sprintf("delay=%v/steps=%d/concurrent=%d", delay, n, at), func(b *testing.B) {
					p := newProxy(b, sqldtest.Shared(b))
					p.set(func(int64) fate { return fate{before: delay / 2, after: delay / 2} })
					s, err := Open(b.Context(), sqldtest.Namespace(b), WithDialer(p.dial))
					require.NoError(b, err)
					defer func() { require.NoError(b, s.Close()) }()
					eng := engine.New(s, engine.Logger(quiet))
					defer eng.Close()
					w := worker.New(eng, worker.Concurrency(at))
					flow := steps(n)
					require.NoError(b, w.Register(flow))
					ctx, cancel := context.WithCancel(b.Context())
					working := make(chan error, 1)
					go func() { working <- w.Run(ctx) }()
					defer func() {
						cancel()
						require.NoError(b, <-working)
					}()
					run := func(count int) {
						in := make(chan int)
						done := make(chan error, at)
						for range at {
							go func() {
								var failed error
								for i := range in {
									h, err := flow.Start(b.Context(), eng, i)
									if err == nil {
										_, err = h.Result(b.Context())
									}
									if err != nil {
										failed = err
									}
								}
								done <- failed
							}()
						}
						for i := range count {
							in <- i
						}
						close(in)
						for range at {
							require.NoError(b, <-done)
						}
					}
					run(at) // connections, caches
					b.ResetTimer()
					before := s.Counters()
					run(b.N)
					after := s.Counters()
					each := func(n int64) float64 { return float64(n) / float64(b.N) }
					b.ReportMetric(each(after.RoundTrips-before.RoundTrips), "trips/run")
					b.ReportMetric(each(after.RowsRead-before.RowsRead), "rows-read/run")
					b.ReportMetric(each(after.RowsWritten-before.RowsWritten), "rows-written/run")
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkIdle measures what a worker with nothing to do costs in an hour.
func BenchmarkIdle(b *testing.B) {
	s, err := Open(b.Context(), sqldtest.Namespace(b), WithDialer(sqldtest.Shared(b).Dial))
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	eng := engine.New(s, engine.Logger(quiet))
	defer eng.Close()
	w := worker.New(eng)
	require.NoError(b, w.Register(steps(0)))
	ctx, cancel := context.WithCancel(b.Context())
	working := make(chan error, 1)
	go func() { working <- w.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(b, <-working)
	}()
	pause(ctx, 2*time.Second) // until it is registered and idle
	before := s.Counters()
	b.ResetTimer()
	for b.Loop() {
		pause(ctx, 10*time.Second)
	}
	after := s.Counters()
	hour := func(n int64) float64 { return float64(n) / b.Elapsed().Hours() }
	b.ReportMetric(hour(after.RoundTrips-before.RoundTrips), "trips/h")
	b.ReportMetric(hour(after.RowsRead-before.RowsRead), "rows-read/h")
	b.ReportMetric(hour(after.RowsWritten-before.RowsWritten), "rows-written/h")
	b.ReportMetric(0, "ns/op")
}
