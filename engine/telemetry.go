package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// Tracing sets where spans go: those of starts and, on the engine's workers, of runs (one
// span for each lease under which a run executes) and of attempts of steps. A run belongs
// to the trace of the context that started it, in whatever process it executes. The default
// is the global provider of OpenTelemetry.
func Tracing(tp trace.TracerProvider) Option { return func(e *Engine) { e.tracing = tp } }

// Metrics sets where the metrics of the engine and its workers go. Their names begin with
// "pawl."; docs/telemetry.md lists them. The default is the global provider of
// OpenTelemetry.
func Metrics(mp metric.MeterProvider) Option { return func(e *Engine) { e.metrics = mp } }

// MeasureRuns adds the number of runs that are not final to the metrics, by queue, workflow
// and status: pawl.run.count. Counting reads each of them, so it is done when metrics are
// collected, at most once in the given time. One engine of the namespace is enough. By
// default, and for 0 or less, they are not counted.
//
// It also adds pawl.run.stranded, by workflow and build: the runs that are pinned to a build
// without an online worker. See [Engine.Stranded]. And it adds pawl.limit.held, pawl.limit.waiting and
// pawl.limit.oldest, by limit: see [Engine.LimitLoads].
func MeasureRuns(every time.Duration) Option { return func(e *Engine) { e.measure = every } }

// telemetry returns the engine's spans and instruments.
func (e *Engine) telemetry() *telemetry.Telemetry { return e.base().tel }

// instrument makes the engine's telemetry. What cannot be had is left out aloud.
func (e *Engine) instrument() {
	var err error
	e.tel, err = telemetry.New(e.tracing, e.metrics, e.namespace, e.store.Features().Name)
	if c, ok := e.store.(store.Counter); ok && err == nil {
		err = e.tel.ObserveStore(c)
	}
	if e.measure > 0 && err == nil {
		err = errors.Join(e.tel.ObserveRuns(remembered(e.measure, e.countRuns)), e.tel.ObserveStranded(remembered(e.measure, e.countStranded)),
			e.tel.ObserveLimits(remembered(e.measure, e.loadOfLimits)))
	}
	if err != nil {
		e.log.Warn("skipping metrics that failed to register", "error", err)
	}
}

// measured is how many runs a measurement looks at.
const measured = 100_000

// remembered makes a count that remembers its answer for a while.
func remembered[T any](while time.Duration, count func(context.Context) ([]T, error)) func(context.Context) ([]T, error) {
	var mu sync.Mutex
	var counted time.Time
	var counts []T
	return func(ctx context.Context) ([]T, error) {
		mu.Lock()
		defer mu.Unlock()
		if !counted.IsZero() && time.Since(counted) < while {
			return counts, nil
		}
		fresh, err := count(ctx)
		if err == nil {
			counts, counted = fresh, time.Now()
		}
		return counts, err
	}
}

// countRuns counts the runs that are not final.
func (e *Engine) countRuns(ctx context.Context) ([]store.RunCount, error) {
	return e.store.Count(ctx, store.CountParams{Namespace: e.namespace, MaxScan: measured, Filter: store.RunFilter{Statuses: active()}})
}

// measuredBuilds bounds the builds whose stranded runs a measurement counts by workflow.
const measuredBuilds = 20

// countStranded counts the runs that are stranded, by workflow and build. It asks no worker for
// a sign of life. Runs of a build that a count by workflow does not find, because there are
// too many others or too many builds, are of the workflow "".
func (e *Engine) countStranded(ctx context.Context) (list []telemetry.Stranded, err error) {
	builds, err := store.AllBuilds(ctx, e.store, store.ListBuildsParams{Namespace: e.namespace, MaxScan: 1})
	if err != nil {
		return nil, err
	}
	looked := 0
	for _, b := range builds {
		if !stranded(&b) {
			continue
		}
		left, found := b.Pinned, map[string]int64{}
		if looked++; looked <= measuredBuilds {
			counts, err := e.store.Count(ctx, store.CountParams{Namespace: e.namespace, MaxScan: measured, Filter: store.RunFilter{Statuses: active(), PinnedTo: []string{b.Name}}})
			if err != nil {
				return nil, err
			}
			for _, c := range counts {
				found[c.Workflow] += c.Count
				left -= c.Count
			}
		}
		if found[""] += left; found[""] <= 0 {
			delete(found, "")
		}
		for workflow, n := range found {
			list = append(list, telemetry.Stranded{Workflow: workflow, Build: b.Name, Runs: n})
		}
	}
	return list, nil
}
