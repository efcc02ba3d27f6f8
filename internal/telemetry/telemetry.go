// Package telemetry holds the spans and instruments of engine and worker, and
// carries a trace from the start of a run to its execution.
package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/store"
)

// scope is the module, and the name of its instrumentation scope.
const scope = "github.com/pawlhq/pawl"

// version is the module's as the program was built with it; empty: not known.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != scope {
			continue
		}
		if m.Replace != nil && m.Replace.Version != "" {
			return m.Replace.Version
		}
		return m.Version
	}
	return ""
})

// Attribute keys, beside error.type of the semantic conventions: the code of a failure.
// Those that name a run, its parent or a worker are for spans alone.
const (
	Namespace = attribute.Key("pawl.namespace")
	Workflow  = attribute.Key("pawl.workflow")
	Queue     = attribute.Key("pawl.queue")
	Run       = attribute.Key("pawl.run.id")
	Parent    = attribute.Key("pawl.run.parent")
	Attempt   = attribute.Key("pawl.attempt")
	Epoch     = attribute.Key("pawl.lease.epoch")
	Step      = attribute.Key("pawl.step")
	Status    = attribute.Key("pawl.status")
	WorkerID  = attribute.Key("pawl.worker.id")
	StoreName = attribute.Key("pawl.store")
	Existing  = attribute.Key("pawl.run.existing")
	Origin    = attribute.Key("pawl.run.origin")
	Build     = attribute.Key("pawl.build")
)

// Origins of runs: why one that is not final was added.
const (
	FromStart    = "start"
	FromParent   = "child"
	FromSchedule = "schedule"
	FromFork     = "fork"
	FromImport   = "import"
	FromRestart  = "restart"
)

// unset is the global provider of a program that has set none.
var unset = otel.GetTracerProvider()

// Telemetry makes the spans of a namespace and holds its instruments.
type Telemetry struct {
	global bool // the tracer is the global provider's
	tracer trace.Tracer
	meter  metric.Meter
	base   []attribute.KeyValue

	started, finished, lost            metric.Int64Counter
	startTime, claimTime, commitTime   metric.Float64Histogram
	runTime, stepTime                  metric.Float64Histogram
	startBatch, claimBatch, commitSize metric.Int64Histogram

	mu            sync.Mutex
	registrations []metric.Registration
	observing     bool // the workers

	// What is collected takes no lock under which a callback is registered: a collection
	// in progress holds up those.
	workersMu sync.Mutex
	workers   map[*Worker]struct{}
}

// Worker is what metrics tell of a worker of this process. They add up those that have
// the same engine: no metric names a worker.
type Worker struct {
	// Slots are the runs that it may execute at the same time, and those of them that
	// are free.
	Slots func() (total, free int64)
	// Lags are the ages of the oldest due runs that it could not take yet.
	Lags func() []Lag
}

// Lag is the age of the oldest due run of a workflow in a queue.
type Lag struct {
	Queue, Workflow string
	Age             time.Duration
}

// short are the bounds of histograms of the store's calls, long those of runs and
// steps, both in seconds; sizes those of batches.
var (
	short = metric.WithExplicitBucketBoundaries(.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10)
	long  = metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300, 1800, 3600, 6*3600, 24*3600)
	sizes = metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
)

// New makes the instruments. What cannot be made is reported, and does nothing.
func New(tp trace.TracerProvider, mp metric.MeterProvider, namespace, storeName string) (*Telemetry, error) {
	t := &Telemetry{
		global: tp == unset,
		tracer: tp.Tracer(scope, trace.WithInstrumentationVersion(version()), trace.WithSchemaURL(semconv.SchemaURL)),
		meter:  mp.Meter(scope, metric.WithInstrumentationVersion(version()), metric.WithSchemaURL(semconv.SchemaURL)),
		base:   []attribute.KeyValue{Namespace.String(namespace), StoreName.String(storeName)},
	}
	var errs []error
	counter := func(name, unit, about string) metric.Int64Counter {
		c, err := t.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
		return c
	}
	seconds := func(name, about string, bounds metric.HistogramOption) metric.Float64Histogram {
		h, err := t.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), bounds)
		errs = append(errs, err)
		return h
	}
	size := func(name, unit, about string) metric.Int64Histogram {
		h, err := t.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about), sizes)
		errs = append(errs, err)
		return h
	}
	t.started = counter("pawl.run.started", "{run}", "Runs that were made, imported or restarted and were not final.")
	t.finished = counter("pawl.run.finished", "{run}", "Runs that became final.")
	t.lost = counter("pawl.lease.lost", "{lease}", "Leases that were lost: the run was taken over, or ended by force.")
	t.startTime = seconds("pawl.start.duration", "How long writes of new runs took.", short)
	t.claimTime = seconds("pawl.claim.duration", "How long claims took.", short)
	t.commitTime = seconds("pawl.commit.duration", "How long writes of commits took.", short)
	t.runTime = seconds("pawl.run.duration", "From the creation of a run to its end, of runs that a worker ended.", long)
	t.stepTime = seconds("pawl.step.duration", "How long attempts of steps took.", long)
	t.startBatch = size("pawl.start.batch_size", "{run}", "New runs that shared a write.")
	t.claimBatch = size("pawl.claim.batch_size", "{run}", "Runs that a claim brought.")
	t.commitSize = size("pawl.commit.batch_size", "{commit}", "Commits that shared a write.")
	return t, errors.Join(errs...)
}

// Close ends what observes on its own.
func (t *Telemetry) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.registrations {
		_ = r.Unregister()
	}
}

// dark says that spans go nowhere, so that none need be made.
func (t *Telemetry) dark() bool { return t.global && otel.GetTracerProvider() == unset }

// with makes the attributes of a measurement.
func (t *Telemetry) with(attrs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(attrs, t.base...)...)
}

// carried is what a run's Meta holds.
type carried struct {
	Trace propagation.MapCarrier `json:"trace,omitempty"`
}

// Inject makes a run's Meta: the trace that ctx belongs to. Nil: none.
func Inject(ctx context.Context) []byte {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	c := carried{Trace: propagation.MapCarrier{}}
	propagation.TraceContext{}.Inject(ctx, c.Trace)
	meta, err := json.Marshal(c)
	if err != nil {
		return nil
	}
	return meta
}

// extract makes ctx belong to the trace that a run's Meta names.
func extract(ctx context.Context, meta []byte) context.Context {
	if len(meta) == 0 {
		return ctx
	}
	var c carried
	if json.Unmarshal(meta, &c) != nil || c.Trace == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, c.Trace)
}

// StartRun begins the span of a start. end takes the run that came of it.
func (t *Telemetry) StartRun(ctx context.Context, workflow string) (_ context.Context, end func(id store.ID, existing bool, err error)) {
	if t.dark() {
		return ctx, func(store.ID, bool, error) {}
	}
	ctx, span := t.tracer.Start(ctx, "start "+workflow, trace.WithSpanKind(trace.SpanKindProducer))
	if !span.IsRecording() {
		return ctx, func(store.ID, bool, error) {}
	}
	span.SetAttributes(append(t.base, Workflow.String(workflow))...)
	return ctx, func(id store.ID, existing bool, err error) {
		if !id.IsZero() {
			span.SetAttributes(Run.String(id.String()))
		}
		if existing {
			span.SetAttributes(Existing.Bool(true))
		}
		endWith(span, err)
	}
}

// StartMany begins the span of a start of many.
func (t *Telemetry) StartMany(ctx context.Context, workflow string, n int) (_ context.Context, end func(error)) {
	if t.dark() {
		return ctx, func(error) {}
	}
	ctx, span := t.tracer.Start(ctx, "start "+workflow, trace.WithSpanKind(trace.SpanKindProducer))
	if !span.IsRecording() {
		return ctx, func(error) {}
	}
	span.SetAttributes(append(t.base, Workflow.String(workflow), attribute.Int("pawl.runs", n))...)
	return ctx, func(err error) { endWith(span, err) }
}

func endWith(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// Made counts the runs that a write has made, and how long it took.
func (t *Telemetry) Made(runs []store.NewRun, results []store.CreateResult, took time.Duration, err error) {
	t.wrote(t.startTime, t.startBatch, len(runs), took, err)
	if !t.Counting() {
		return
	}
	var made []store.RunCount
	for i := range results {
		if res := &results[i]; res.Err == nil && res.Created && !res.Repeated {
			made = store.Tally(made, runs[i].Queue, runs[i].Workflow, store.Pending, 1)
		}
	}
	t.Started(FromStart, made...)
}

// wrote notes a write of so many things.
func (t *Telemetry) wrote(duration metric.Float64Histogram, size metric.Int64Histogram, n int, took time.Duration, err error) {
	ctx := context.Background()
	if duration.Enabled(ctx) {
		duration.Record(ctx, took.Seconds(), t.with(failed(nil, err)...))
	}
	if err == nil && n > 0 && size.Enabled(ctx) {
		size.Record(ctx, int64(n), t.with())
	}
}

// failed adds what kind of error a call of the store has ended with.
func failed(attrs []attribute.KeyValue, err error) []attribute.KeyValue {
	if err == nil {
		return attrs
	}
	kind := semconv.ErrorTypeOther
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			kind = semconv.ErrorTypeKey.String(k.name)
			break
		}
	}
	return append(attrs, kind)
}

// kinds are the errors of calls, those first that come together with others.
var kinds = []struct {
	err  error
	name string
}{
	{store.ErrOutcomeUnknown, "outcome_unknown"}, {store.ErrUnavailable, "unavailable"}, {store.ErrTooLarge, "too_large"}, {store.ErrInvalid, "invalid"},
	{context.DeadlineExceeded, "timeout"}, {context.Canceled, "canceled"},
}

// Counting says that runs are counted, so that it is worth while to ask what they are.
func (t *Telemetry) Counting() bool { return t.started.Enabled(context.Background()) }

// Started counts runs that are not final and were added: those that a call has made
// ([store.CommitResult.Spawned]), imported, or restarted.
func (t *Telemetry) Started(origin string, counts ...store.RunCount) {
	if ctx := context.Background(); t.started.Enabled(ctx) {
		for _, n := range counts {
			t.started.Add(ctx, n.Count, t.with(Queue.String(n.Queue), Workflow.String(n.Workflow), Origin.String(origin)))
		}
	}
}

// Ended counts runs that a call of the store has made final beside the one that it
// committed for: see [store.ControlResult.Ended].
func (t *Telemetry) Ended(counts []store.RunCount) {
	if ctx := context.Background(); t.finished.Enabled(ctx) {
		for _, n := range counts {
			t.finished.Add(ctx, n.Count, t.with(append(ending(n.Status, store.FailureCanceled), Queue.String(n.Queue), Workflow.String(n.Workflow))...))
		}
	}
}

// ending are the attributes of an end.
func ending(status store.Status, code string) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 6)
	if attrs = append(attrs, Status.String(status.String())); status != store.Completed {
		attrs = append(attrs, semconv.ErrorTypeKey.String(code))
	}
	return attrs
}

// Claimed notes a claim.
func (t *Telemetry) Claimed(n int, took time.Duration, err error) {
	t.wrote(t.claimTime, t.claimBatch, n, took, err)
}

// Committed notes a write of commits: what they have made and ended beside the ends of
// their own runs, which [Telemetry.Executed] counts.
func (t *Telemetry) Committed(results []store.CommitResult, n int, took time.Duration, err error) {
	t.wrote(t.commitTime, t.commitSize, n, took, err)
	for i := range results {
		t.Started(FromParent, results[i].Spawned...)
		t.Ended(results[i].Ended)
	}
}

// Execute begins the span of a run's execution under one lease, in the trace of its
// start. The context that it returns is that of the run's steps.
func (t *Telemetry) Execute(ctx context.Context, run *store.Run, lease store.Lease) context.Context {
	if t.dark() {
		return ctx
	}
	ctx, span := t.tracer.Start(extract(ctx, run.Meta), "run "+run.Workflow, trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() {
		span.SetAttributes(append(t.base, Workflow.String(run.Workflow), Queue.String(run.Queue), Run.String(run.ID.String()),
			Attempt.Int(run.Attempt), Epoch.Int64(lease.Epoch), WorkerID.String(lease.Worker))...)
		if !run.Parent.IsZero() {
			span.SetAttributes(Parent.String(run.Parent.String()))
		}
	}
	return ctx
}

// Executed ends that span. status is the run's afterwards; err says that the lease
// was lost. What only an exporter needs is in functions of its own: every run comes
// through here with its stack at its deepest.
func (t *Telemetry) Executed(ctx context.Context, run *store.Run, status store.Status, failure *store.Failure, now time.Time, err error) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		endSpan(span, status, failure, err)
	}
	back := context.Background()
	switch {
	case err != nil:
		t.lostLease(run)
	case status.Final() && (t.finished.Enabled(back) || t.runTime.Enabled(back)):
		t.ran(run, status, failure, now)
	}
}

func endSpan(span trace.Span, status store.Status, failure *store.Failure, err error) {
	switch {
	case err != nil:
		span.SetStatus(codes.Error, err.Error())
	case failure != nil:
		span.SetAttributes(Status.String(status.String()), semconv.ErrorTypeKey.String(failure.Code))
		span.SetStatus(codes.Error, failure.Message)
	default:
		span.SetAttributes(Status.String(status.String()))
	}
	span.End()
}

func (t *Telemetry) lostLease(run *store.Run) {
	if back := context.Background(); t.lost.Enabled(back) {
		t.lost.Add(back, 1, t.with(Queue.String(run.Queue), Workflow.String(run.Workflow)))
	}
}

// ran counts a run that a worker ended.
func (t *Telemetry) ran(run *store.Run, status store.Status, failure *store.Failure, now time.Time) {
	back := context.Background()
	code := store.FailureCanceled
	if failure != nil {
		code = failure.Code
	}
	attrs := append(ending(status, code), Queue.String(run.Queue), Workflow.String(run.Workflow))
	if t.finished.Enabled(back) {
		t.finished.Add(back, 1, t.with(attrs...))
	}
	if t.runTime.Enabled(back) {
		t.runTime.Record(back, now.Sub(run.CreatedAt).Seconds(), t.with(attrs...))
	}
}

// Attempted puts a span around an attempt of a step. code is that of a failure.
func (t *Telemetry) Attempted(ctx context.Context, run *store.Run, key store.StepKey, attempt int, code func(context.Context, error) string, call func(context.Context) ([]byte, error)) (out []byte, err error) {
	span := noSpan
	if !t.dark() {
		ctx, span = t.tracer.Start(ctx, "step "+key.Name)
	}
	recording, measured := span.IsRecording(), t.stepTime.Enabled(ctx)
	if !recording && !measured {
		return call(ctx)
	}
	if recording {
		span.SetAttributes(append(t.base, Workflow.String(run.Workflow), Queue.String(run.Queue), Run.String(run.ID.String()), Step.String(key.String()), Attempt.Int(attempt))...)
	}
	began, ended := time.Now(), false
	done := func() {
		if ended {
			return
		}
		ended = true
		attrs := make([]attribute.KeyValue, 0, 6)
		switch {
		case err == errUnwound:
			attrs = append(attrs, semconv.ErrorTypeKey.String("panic"))
		case err != nil:
			attrs = append(attrs, semconv.ErrorTypeKey.String(code(ctx, err)))
		}
		if recording {
			span.SetAttributes(attrs...)
			endWith(span, err)
		}
		if measured {
			t.stepTime.Record(context.WithoutCancel(ctx), time.Since(began).Seconds(), t.with(append(attrs, Workflow.String(run.Workflow), Step.String(key.Name))...))
		}
	}
	defer func() {
		if !ended { // it panicked, or ended its goroutine
			err = errUnwound
			done()
		}
	}()
	out, err = call(ctx)
	done()
	return out, err
}

var noSpan = trace.SpanFromContext(context.Background())

var errUnwound = errors.New("the step panicked")

// ObserveWorker adds a worker to what is asked when metrics are collected. stop takes
// it out again.
func (t *Telemetry) ObserveWorker(w *Worker) (stop func(), err error) {
	t.workersMu.Lock()
	if t.workers == nil {
		t.workers = map[*Worker]struct{}{}
	}
	t.workers[w] = struct{}{}
	t.workersMu.Unlock()
	stop = func() {
		t.workersMu.Lock()
		defer t.workersMu.Unlock()
		delete(t.workers, w)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.observing {
		err = t.observeWorkersLocked()
		t.observing = err == nil
	}
	return stop, err
}

func (t *Telemetry) observeWorkersLocked() error {
	limit, err1 := t.meter.Int64ObservableUpDownCounter("pawl.worker.slot.limit", metric.WithUnit("{slot}"), metric.WithDescription("Runs that the process's workers may execute at the same time."))
	usage, err2 := t.meter.Int64ObservableUpDownCounter("pawl.worker.slot.usage", metric.WithUnit("{slot}"), metric.WithDescription("Runs that the process's workers execute."))
	late, err3 := t.meter.Float64ObservableGauge("pawl.queue.lag", metric.WithUnit("s"), metric.WithDescription("Age of the oldest due run that the process's workers could not take yet."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	return t.observeLocked(func(_ context.Context, o metric.Observer) error {
		var total, used int64
		lags := map[[2]string]time.Duration{}
		for _, w := range t.observed() {
			n, free := w.Slots()
			total, used = total+n, used+n-free
			for _, l := range w.Lags() {
				key := [2]string{l.Queue, l.Workflow}
				lags[key] = max(lags[key], l.Age)
			}
		}
		o.ObserveInt64(limit, total, t.with())
		o.ObserveInt64(usage, used, t.with())
		for key, age := range lags {
			o.ObserveFloat64(late, age.Seconds(), t.with(Queue.String(key[0]), Workflow.String(key[1])))
		}
		return nil
	}, limit, usage, late)
}

func (t *Telemetry) observed() (list []*Worker) {
	t.workersMu.Lock()
	defer t.workersMu.Unlock()
	for w := range t.workers {
		list = append(list, w)
	}
	return list
}

// ObserveStore registers what the store counts.
func (t *Telemetry) ObserveStore(c store.Counter) error {
	counts := c.Counts()
	instruments := make([]metric.Observable, len(counts))
	counters := make([]metric.Int64ObservableCounter, len(counts))
	for i, n := range counts {
		var err error
		if counters[i], err = t.meter.Int64ObservableCounter("pawl.store."+n.Name, metric.WithUnit(n.Unit), metric.WithDescription(n.About)); err != nil {
			return err
		}
		instruments[i] = counters[i]
	}
	with := t.with()
	return t.observe(func(_ context.Context, o metric.Observer) error {
		for i, n := range c.Counts() {
			o.ObserveInt64(counters[i], n.Value, with)
		}
		return nil
	}, instruments...)
}

// ObserveRuns registers the number of runs that are not final, which count tells.
func (t *Telemetry) ObserveRuns(count func(context.Context) ([]store.RunCount, error)) error {
	gauge, err := t.meter.Int64ObservableUpDownCounter("pawl.run.count", metric.WithUnit("{run}"), metric.WithDescription("Runs that are not final. Of more than 100,000, the last made are counted."))
	if err != nil {
		return err
	}
	return t.observe(func(ctx context.Context, o metric.Observer) error {
		counts, err := count(ctx)
		for _, n := range counts {
			if n.Count == 0 {
				continue // it says that the status is capped
			}
			o.ObserveInt64(gauge, n.Count, t.with(Queue.String(n.Queue), Workflow.String(n.Workflow), Status.String(n.Status.String())))
		}
		return err
	}, gauge)
}

// Stranded is how many runs of a workflow are pinned to a build that no online worker has.
type Stranded struct {
	Workflow, Build string
	Runs            int64
}

// ObserveStranded registers the number of stranded runs, which count tells.
func (t *Telemetry) ObserveStranded(count func(context.Context) ([]Stranded, error)) error {
	gauge, err := t.meter.Int64ObservableUpDownCounter("pawl.run.stranded", metric.WithUnit("{run}"), metric.WithDescription("Runs that are pinned to a build without an online worker."))
	if err != nil {
		return err
	}
	return t.observe(func(ctx context.Context, o metric.Observer) error {
		counts, err := count(ctx)
		for _, n := range counts {
			o.ObserveInt64(gauge, n.Runs, t.with(Workflow.String(n.Workflow), Build.String(n.Build)))
		}
		return err
	}, gauge)
}

func (t *Telemetry) observe(f metric.Callback, instruments ...metric.Observable) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.observeLocked(f, instruments...)
}

func (t *Telemetry) observeLocked(f metric.Callback, instruments ...metric.Observable) error {
	r, err := t.meter.RegisterCallback(f, instruments...)
	if err == nil {
		t.registrations = append(t.registrations, r)
	}
	return err
}
