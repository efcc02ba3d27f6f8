package engine

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// Tracing sets where spans go: those of starts and, on its workers, of runs, one
// for each lease under which a run executes, and of attempts of steps. A run belongs
// to the trace of the context that started it, in whatever process it executes.
// Default: the global provider of OpenTelemetry.
func Tracing(tp trace.TracerProvider) Option { return func(e *Engine) { e.tracing = tp } }

// Metrics sets where the metrics of the engine and of its workers go, whose names
// begin with "pawl."; docs/telemetry.md lists them. Default: the global provider of
// OpenTelemetry.
func Metrics(mp metric.MeterProvider) Option { return func(e *Engine) { e.metrics = mp } }

// MeasureRuns adds the number of runs that are not final to the metrics, by queue,
// workflow and status: pawl.run.count. To count them reads each of them, so it is done when metrics
// are collected, at most once in the time given; and one engine of the namespace is
// enough. Default: they are not counted.
func MeasureRuns(every time.Duration) Option { return func(e *Engine) { e.measure = every } }

// Telemetry returns the engine's spans and instruments, for its workers.
func (e *Engine) Telemetry() *telemetry.Telemetry { return e.base().tel }

// instrument makes the engine's telemetry. What cannot be had is left out aloud.
func (e *Engine) instrument() {
	var err error
	e.tel, err = telemetry.New(e.tracing, e.metrics, e.namespace, e.store.Features().Name)
	if c, ok := e.store.(store.Counter); ok && err == nil {
		err = e.tel.ObserveStore(c)
	}
	if e.measure > 0 && err == nil {
		err = e.tel.ObserveRuns(e.countRuns())
	}
	if err != nil {
		e.log.Warn("some metrics cannot be had", "error", err)
	}
}

// measured is how many runs a measurement looks at.
const measured = 100_000

// countRuns counts the runs that are not final, and remembers the answer for a while.
func (e *Engine) countRuns() func(context.Context) ([]store.RunCount, error) {
	var mu sync.Mutex
	var counted time.Time
	var counts []store.RunCount
	return func(ctx context.Context) ([]store.RunCount, error) {
		mu.Lock()
		defer mu.Unlock()
		if !counted.IsZero() && time.Since(counted) < e.measure {
			return counts, nil
		}
		fresh, err := e.store.Count(ctx, store.CountParams{Namespace: e.namespace, MaxScan: measured, Filter: store.RunFilter{
			Statuses: []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}}})
		if err == nil {
			counts, counted = fresh, time.Now()
		}
		return counts, err
	}
}
