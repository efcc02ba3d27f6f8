// Package telemetry holds the spans and instruments of engine and worker, and
// carries a trace from the start of a run to its execution.
package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/store"
)

const scope = "github.com/pawlhq/pawl"

// Attribute keys.
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
	Code      = attribute.Key("pawl.failure.code")
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
		global: tp == unset, tracer: tp.Tracer(scope), meter: mp.Meter(scope),
		base: []attribute.KeyValue{Namespace.String(namespace), StoreName.String(storeName)},
	}
	var errs []error
	counter := func(name, about string) metric.Int64Counter {
		c, err := t.meter.Int64Counter(name, metric.WithDescription(about))
		errs = append(errs, err)
		return c
	}
	seconds := func(name, about string, bounds metric.HistogramOption) metric.Float64Histogram {
		h, err := t.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), bounds)
		errs = append(errs, err)
		return h
	}
	size := func(name, about string) metric.Int64Histogram {
		h, err := t.meter.Int64Histogram(name, metric.WithDescription(about), sizes)
		errs = append(errs, err)
		return h
	}
	t.started = counter("pawl.runs.started", "Runs that were made, by workflow.")
	t.finished = counter("pawl.runs.finished", "Runs that became final in this process, by workflow and status.")
	t.lost = counter("pawl.leases.lost", "Leases that were lost, by workflow: the run was taken over.")
	t.startTime = seconds("pawl.start.duration", "How long it took to make runs durable.", short)
	t.claimTime = seconds("pawl.claim.duration", "How long claims took.", short)
	t.commitTime = seconds("pawl.commit.duration", "How long commits took.", short)
	t.runTime = seconds("pawl.run.duration", "From a run's creation to its end, by workflow and status.", long)
	t.stepTime = seconds("pawl.step.duration", "How long attempts of steps took, by workflow, step and status.", long)
	t.startBatch = size("pawl.start.batch", "Runs that were made together.")
	t.claimBatch = size("pawl.claim.batch", "Runs that were claimed together.")
	t.commitSize = size("pawl.commit.batch", "Commits that were written together.")
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

// Made counts runs that were made, and how long it took.
func (t *Telemetry) Made(runs []store.NewRun, results []store.CreateResult, took time.Duration) {
	ctx := context.Background()
	if t.startTime.Enabled(ctx) {
		t.startTime.Record(ctx, took.Seconds(), t.with())
	}
	if t.startBatch.Enabled(ctx) {
		t.startBatch.Record(ctx, int64(len(runs)), t.with())
	}
	if !t.started.Enabled(ctx) {
		return
	}
	made := map[string]int64{}
	for i := range results {
		if results[i].Created && results[i].Err == nil {
			made[runs[i].Workflow]++
		}
	}
	for workflow, n := range made {
		t.started.Add(ctx, n, t.with(Workflow.String(workflow)))
	}
}

// Claimed notes a claim.
func (t *Telemetry) Claimed(n int, took time.Duration) {
	ctx := context.Background()
	if t.claimTime.Enabled(ctx) {
		t.claimTime.Record(ctx, took.Seconds(), t.with())
	}
	if n > 0 && t.claimBatch.Enabled(ctx) {
		t.claimBatch.Record(ctx, int64(n), t.with())
	}
}

// Committed notes a write of commits.
func (t *Telemetry) Committed(n int, took time.Duration) {
	ctx := context.Background()
	if t.commitTime.Enabled(ctx) {
		t.commitTime.Record(ctx, took.Seconds(), t.with())
	}
	if t.commitSize.Enabled(ctx) {
		t.commitSize.Record(ctx, int64(n), t.with())
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
// was lost.
func (t *Telemetry) Executed(ctx context.Context, run *store.Run, status store.Status, failure *store.Failure, now time.Time, err error) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		switch {
		case err != nil:
			span.SetStatus(codes.Error, err.Error())
		case failure != nil:
			span.SetAttributes(Status.String(status.String()), Code.String(failure.Code))
			span.SetStatus(codes.Error, failure.Message)
		default:
			span.SetAttributes(Status.String(status.String()))
		}
		span.End()
	}
	back := context.Background()
	switch {
	case err != nil:
		if t.lost.Enabled(back) {
			t.lost.Add(back, 1, t.with(Workflow.String(run.Workflow)))
		}
	case status.Final():
		if t.finished.Enabled(back) {
			t.finished.Add(back, 1, t.with(Workflow.String(run.Workflow), Status.String(status.String())))
		}
		if t.runTime.Enabled(back) {
			t.runTime.Record(back, now.Sub(run.CreatedAt).Seconds(), t.with(Workflow.String(run.Workflow), Status.String(status.String())))
		}
	}
}

// Attempted puts a span around an attempt of a step.
func (t *Telemetry) Attempted(ctx context.Context, workflow string, key store.StepKey, attempt int, call func(context.Context) ([]byte, error)) (out []byte, err error) {
	span := noSpan
	if !t.dark() {
		ctx, span = t.tracer.Start(ctx, "step "+key.Name)
	}
	recording, measured := span.IsRecording(), t.stepTime.Enabled(ctx)
	if !recording && !measured {
		return call(ctx)
	}
	if recording {
		span.SetAttributes(append(t.base, Workflow.String(workflow), Step.String(key.String()), Attempt.Int(attempt))...)
	}
	began, ended := time.Now(), false
	done := func() {
		if ended {
			return
		}
		ended = true
		status := "completed"
		if err != nil {
			status = "failed"
		}
		if measured {
			t.stepTime.Record(context.WithoutCancel(ctx), time.Since(began).Seconds(), t.with(Workflow.String(workflow), Step.String(key.Name), Status.String(status)))
		}
		if recording {
			endWith(span, err)
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

// ObserveWorker registers what is asked when metrics are collected: a worker's slots
// and the age of what it cannot take yet.
func (t *Telemetry) ObserveWorker(worker string, slots func() (total, free int64), lag func() time.Duration) error {
	total, err1 := t.meter.Int64ObservableGauge("pawl.worker.slots", metric.WithDescription("Runs that the worker may execute at the same time."))
	used, err2 := t.meter.Int64ObservableGauge("pawl.worker.slots.used", metric.WithDescription("Runs that it executes now."))
	late, err3 := t.meter.Float64ObservableGauge("pawl.queue.lag", metric.WithUnit("s"), metric.WithDescription("Age of the oldest due run that waits for a slot, among those that the worker serves."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	with := t.with(WorkerID.String(worker))
	return t.observe(func(_ context.Context, o metric.Observer) error {
		n, free := slots()
		o.ObserveInt64(total, n, with)
		o.ObserveInt64(used, n-free, with)
		o.ObserveFloat64(late, lag().Seconds(), with)
		return nil
	}, total, used, late)
}

// ObserveStore registers what the store counts.
func (t *Telemetry) ObserveStore(c store.Counter) error {
	counts := c.Counts()
	instruments := make([]metric.Observable, len(counts))
	counters := make([]metric.Int64ObservableCounter, len(counts))
	for i, n := range counts {
		var err error
		if counters[i], err = t.meter.Int64ObservableCounter("pawl.store."+n.Name, metric.WithDescription(n.About)); err != nil {
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
	gauge, err := t.meter.Int64ObservableGauge("pawl.runs", metric.WithDescription("Runs that are not final, by queue, workflow and status. Of more than 100,000, the last made are counted."))
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

func (t *Telemetry) observe(f metric.Callback, instruments ...metric.Observable) error {
	r, err := t.meter.RegisterCallback(f, instruments...)
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.registrations = append(t.registrations, r)
	}
	return err
}
