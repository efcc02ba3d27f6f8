package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/internal/batch"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// DefaultNamespace is the namespace of an engine for which [Namespace] sets none.
const DefaultNamespace = "default"

// Engine is a client of one namespace of a store. Create one with [New]. It is safe for
// concurrent use.
type Engine struct {
	store       store.Store
	namespace   string
	codec       Codec
	log         *slog.Logger
	require     Requirement
	retryFor    time.Duration
	poll        time.Duration        // 0: chosen by the wait
	retention   map[string]Retention // by workflow; "" is for all others
	keepFirings time.Duration

	starts  *batch.Group[*newStart, store.CreateResult]
	lookups *batch.Group[string, lookup]
	waiters waiters
	askers  askers
	watches watches
	known   sync.Map // workflow name -> its queue
	local   localWorkers
	online  online

	tracing trace.TracerProvider
	metrics metric.MeterProvider
	measure time.Duration // 0: the metrics have no counts of runs
	tel     *telemetry.Telemetry

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	forgot atomic.Int64 // when the engine last deleted old actions
	actor  string       // on whose behalf the engine acts; empty: nothing is recorded
	from   string       // from where
	root   *Engine      // set for a view inside a transaction
	fault  error        // for such a view: why no call can succeed
}

// Option configures an engine.
type Option func(*Engine)

// Namespace sets the namespace that the engine works in. The default is [DefaultNamespace]. With a
// name that is not valid (see [store.ValidateName]), each call fails with store.ErrInvalid.
func Namespace(name string) Option { return func(e *Engine) { e.namespace = name } }

// Logger sets where the engine and its workers log. The default, also for nil, is
// slog.Default().
func Logger(l *slog.Logger) Option { return func(e *Engine) { e.log = cmp.Or(l, slog.Default()) } }

// PayloadCodec sets how the engine and its workers encode payloads: the inputs and outputs of
// runs and steps, signals and flow state. The default, also for nil, is [JSON]. Package codec has
// codecs that compress and encrypt.
//
// All programs of a namespace need codecs that can read each other's payloads. [Codec] says what
// happens to a payload that a codec cannot read.
func PayloadCodec(c Codec) Option {
	return func(e *Engine) {
		if e.codec = c; c == nil {
			e.codec = JSON{}
		}
	}
}

// Requirement is what a start requires of its workflow.
type Requirement uint8

// The policies of [Requirement].
const (
	// RequireRegistered requires that a worker has registered the workflow at any time.
	RequireRegistered Requirement = iota
	// RequireNothing requires nothing. The run waits until a worker registers its
	// workflow.
	RequireNothing
	// RequireOnline requires that a worker that takes the workflow from the run's queue is
	// online now. The engine asks the store and uses the answer for two seconds. A worker that was
	// killed may still count as online for a minute. If all such workers are at rest and
	// none was heard of for 20 s, the engine asks them for a sign of life, which takes a
	// moment if one lives (see [Engine.Workers]); in a transaction it does not ask and
	// counts them as online. The check is made for starts and for schedules that are put.
	// Children and items are started without it; [Engine.Explain] shows those that wait in
	// a queue that no worker serves.
	RequireOnline
)

// Require sets what a start requires of its workflow. The default is
// [RequireRegistered].
func Require(r Requirement) Option { return func(e *Engine) { e.require = r } }

// RetryFor sets how long a request is retried while the store cannot be reached, within its
// context. It also limits the requests themselves: one that gets no answer in that time fails with
// store.ErrUnavailable, or with store.ErrOutcomeUnknown if it may have been applied. The default,
// also for 0 or less, is 10 s.
func RetryFor(d time.Duration) Option {
	return func(e *Engine) { e.retryFor = cmp.Or(max(d, 0), defaultRetryFor) }
}

const defaultRetryFor = 10 * time.Second

// Poll sets how often the engine asks the store for the runs that calls of [Engine.Wait] wait for,
// if no hint reports their end: at the latest after d. The default, also for 0 or less, is 5 s if
// the store gives hints, and 1 s otherwise.
func Poll(d time.Duration) Option { return func(e *Engine) { e.poll = d } }

// New makes an engine on a store. It does not access the database. The caller keeps the store and
// closes it after the engine.
func New(st store.Store, opts ...Option) *Engine {
	e := &Engine{store: st, namespace: DefaultNamespace, codec: JSON{}, log: slog.Default(), retryFor: defaultRetryFor,
		tracing: otel.GetTracerProvider(), metrics: otel.GetMeterProvider(), retention: make(map[string]Retention), keepFirings: DefaultKeepFirings}
	for _, opt := range opts {
		opt(e)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.starts = e.newStarts()
	e.lookups = batch.New(batch.Config[string, lookup]{Items: store.MaxPage, Call: e.lookUp})
	e.waiters.engine, e.watches.engine, e.askers.engine = e, e, e
	e.instrument()
	return e
}

// Close ends the engine's background work. Calls of [Engine.Wait] and [Engine.WaitState] that are in
// progress, or begin later, return [ErrClosed]. Runs are not affected, and the store stays open.
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

// retry repeats a call while the store is unreachable; inside a transaction it repeats
// nothing. Once an answer was lost, a later failure does not prove that nothing was
// applied.
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
		if patience.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) { // RetryFor has passed, not ctx
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
