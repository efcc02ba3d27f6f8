// Package engine is the client of Pawl: it starts runs, waits for their results,
// and reads and steers them. It runs no workflow; a worker does.
//
//	st, err := backends.Open(ctx, "sqlite:pawl.db")
//	eng := engine.New(st)
//	defer eng.Close()
//
// An Engine may be used by many goroutines. Typed starts and results are in
// package workflow.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/internal/batch"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// DefaultNamespace is where an engine works that was not told another.
const DefaultNamespace = "default"

// Engine is a client of one namespace of a store.
type Engine struct {
	store       store.Store
	namespace   string
	codec       Codec
	log         *slog.Logger
	trigger     Trigger
	retryFor    time.Duration
	poll        time.Duration        // 0: as waiting sees fit
	retention   map[string]Retention // by workflow; of "": the others
	keepFirings time.Duration

	starts  *batch.Group[newStart, store.CreateResult]
	lookups *batch.Group[string, lookup]
	waiters waiters
	watches watches
	known   sync.Map // workflow name -> its queue
	local   localWorkers
	online  online

	tracing trace.TracerProvider
	metrics metric.MeterProvider
	measure time.Duration // 0: runs are not counted for the metrics
	tel     *telemetry.Telemetry

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	actor string  // who the engine acts for; empty: nothing is recorded
	root  *Engine // of a view inside a transaction
	fault error   // of such a view: why no call can succeed
}

// Option configures an engine.
type Option func(*Engine)

// Namespace makes the engine work in another namespace than [DefaultNamespace].
func Namespace(name string) Option { return func(e *Engine) { e.namespace = name } }

// Logger sets where the engine, and workers on it, log. Default: slog.Default().
func Logger(l *slog.Logger) Option { return func(e *Engine) { e.log = l } }

// Encoding sets the codec of all payloads. Default: [JSON]. All engines and
// workers of a namespace need the same one.
func Encoding(c Codec) Option { return func(e *Engine) { e.codec = c } }

// Trigger says what a start requires of its workflow.
type Trigger uint8

// The trigger policies.
const (
	// TriggerRegistered: some worker has registered the workflow, once.
	TriggerRegistered Trigger = iota
	// TriggerAny: nothing; the run waits until a worker knows its workflow.
	TriggerAny
	// TriggerOnline: some worker that takes the workflow from the run's queue is online now.
	// The store is asked, and the answer counts for two seconds: a worker that was killed may
	// still be counted on for a minute. Where all such workers are at rest and none was heard
	// of for 20 s, they are asked for a sign of life, which takes a moment if one lives (see
	// [Engine.Workers]); in a transaction they are taken at their word. It holds for starts
	// and for schedules that are put. Children and items are started without it: of those
	// that wait in a queue that nobody serves, [Engine.Explain] tells.
	TriggerOnline
)

// TriggerCheck sets the trigger policy. Default: [TriggerRegistered].
func TriggerCheck(t Trigger) Option { return func(e *Engine) { e.trigger = t } }

// RetryFor sets how long a request is repeated while the store is out of reach,
// within its context. Default: 10 s.
func RetryFor(d time.Duration) Option { return func(e *Engine) { e.retryFor = d } }

// Poll sets the longest time between looks at runs that are waited for, where no hint
// tells of their end. Default: 5 s where the store gives hints, 1 s otherwise.
func Poll(d time.Duration) Option { return func(e *Engine) { e.poll = d } }

// New makes an engine on a store. The caller keeps the store and closes it after
// the engine.
func New(st store.Store, opts ...Option) *Engine {
	e := &Engine{store: st, namespace: DefaultNamespace, codec: JSON{}, log: slog.Default(), retryFor: 10 * time.Second,
		tracing: otel.GetTracerProvider(), metrics: otel.GetMeterProvider(), retention: make(map[string]Retention), keepFirings: DefaultKeepFirings}
	for _, opt := range opts {
		opt(e)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.starts = e.newStarts()
	e.lookups = batch.New(batch.Config[string, lookup]{Items: store.MaxPage, Call: e.lookUp})
	e.waiters.engine, e.watches.engine = e, e
	e.instrument()
	return e
}

// Close ends what the engine does in the background. Waiting calls return with
// [ErrClosed]. Runs are not touched.
func (e *Engine) Close() {
	e.cancel()
	if e.root == nil {
		e.tel.Close()
	}
}

// Store returns the engine's store.
func (e *Engine) Store() store.Store { return e.store }

// Namespace returns the engine's namespace.
func (e *Engine) Namespace() string { return e.namespace }

// Codec returns the codec of payloads.
func (e *Engine) Codec() Codec { return e.codec }

// Logger returns the engine's logger.
func (e *Engine) Logger() *slog.Logger { return e.log }

// retry repeats a call while the store is out of reach; inside a transaction
// nothing is repeated. Once an answer was lost, no later failure tells that nothing
// was applied.
func (e *Engine) retry(ctx context.Context, call func(ctx context.Context) error) error {
	if e.fault != nil {
		return e.fault
	}
	if e.root != nil {
		return call(ctx)
	}
	patience, cancel := context.WithTimeout(ctx, e.retryFor)
	defer cancel()
	var before error
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := call(patience)
		if patience.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) { // the end of patience, not of ctx
			err = e.outOfPatience(err)
		}
		if !store.Retryable(err) {
			return err
		}
		err = afterLost(before, err)
		before = err
		timer := time.NewTimer(wait)
		select {
		case <-patience.Done():
			timer.Stop()
			return err
		case <-e.ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}
