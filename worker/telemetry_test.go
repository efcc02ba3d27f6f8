package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// process is an engine with telemetry of its own.
type process struct {
	eng    *engine.Engine
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
	reader *metric.ManualReader
}

func newProcess(t *testing.T, path string, opts ...engine.Option) *process {
	db, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	p := &process{spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(p.spans))
	p.tracer = tp.Tracer("test")
	p.eng = engine.New(db, append([]engine.Option{engine.Tracing(tp), engine.Metrics(metric.NewMeterProvider(metric.WithReader(p.reader))),
		engine.Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))}, opts...)...)
	t.Cleanup(p.eng.Close)
	return p
}

func (p *process) work(t *testing.T, wf workflow.Definition, opts ...worker.Option) {
	w := worker.New(p.eng, opts...)
	require.NoError(t, w.Register(wf))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
}

// find returns the spans of a name, in the order of their end.
func (p *process) find(name string) (list []tracetest.SpanStub) {
	for _, s := range p.spans.GetSpans() {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}

func attr(s tracetest.SpanStub, key string) string {
	for _, kv := range s.Attributes {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return ""
}

// A run is in the trace of the request that started it, in whatever process it
// executes; each lease's execution and each attempt is a span.
func TestTrace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	client, other := newProcess(t, path, engine.Require(engine.RequireNothing)), newProcess(t, path)
	goOn := workflow.NewSignal[int]("go-on")
	wf := workflow.New("traced", func(ctx workflow.Context, n int) (int, error) {
		n, err := workflow.Step(ctx, "flaky", func(ctx context.Context) (int, error) {
			_, inner := client.tracer.Start(ctx, "inside")
			inner.End()
			if workflow.Attempt(ctx) == 1 {
				return 0, errors.New("not yet")
			}
			return n + 1, nil
		}, workflow.Backoff(time.Millisecond, 1, 0))
		if err != nil {
			return 0, err
		}
		_, err = goOn.Receive(ctx)
		return n, err
	})
	ctx, root := client.tracer.Start(t.Context(), "request")
	h, err := wf.Start(ctx, client.eng, 1)
	require.NoError(t, err)
	root.End()
	other.work(t, wf, worker.Park(time.Millisecond))
	for {
		run, err := client.eng.Get(t.Context(), h.ID())
		require.NoError(t, err)
		if run.Status == store.Sleeping {
			break
		}
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, goOn.Send(t.Context(), client.eng, h.ID(), 1))
	out, err := h.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, out)
	require.Eventually(t, func() bool { return len(other.find("run traced")) == 2 }, 10*time.Second, time.Millisecond)

	traceID := root.SpanContext().TraceID()
	start := client.find("start traced")
	require.Len(t, start, 1)
	require.Equal(t, root.SpanContext().SpanID(), start[0].Parent.SpanID())
	require.Equal(t, trace.SpanKindProducer, start[0].SpanKind)
	require.Equal(t, h.ID().String(), attr(start[0], "pawl.run.id"))
	runs := other.find("run traced")
	for _, r := range runs {
		require.Equal(t, traceID, r.SpanContext.TraceID())
		require.Equal(t, start[0].SpanContext.SpanID(), r.Parent.SpanID())
		require.Equal(t, h.ID().String(), attr(r, "pawl.run.id"))
	}
	require.Equal(t, "sleeping", attr(runs[0], "pawl.status"))
	require.Equal(t, "completed", attr(runs[1], "pawl.status"))
	steps := other.find("step flaky")
	require.Len(t, steps, 2, "one of each attempt")
	require.Equal(t, codes.Error, steps[0].Status.Code)
	require.Equal(t, "not yet", steps[0].Status.Description)
	require.Equal(t, "error", attr(steps[0], "error.type"))
	require.Equal(t, codes.Unset, steps[1].Status.Code)
	require.Empty(t, attr(steps[1], "error.type"))
	for i, s := range steps {
		require.Equal(t, runs[0].SpanContext.SpanID(), s.Parent.SpanID())
		require.Equal(t, fmt.Sprint(i+1), attr(s, "pawl.attempt"))
		require.Equal(t, h.ID().String(), attr(s, "pawl.run.id"))
	}
	inside := client.find("inside")
	require.Len(t, inside, 2)
	require.Equal(t, steps[0].SpanContext.SpanID(), inside[0].Parent.SpanID(), "the step's own spans are below its attempt")
}

// sum adds up what the data points of a metric say that have these attributes: counts,
// and of histograms of durations the number of measurements.
func sum(rm metricdata.ResourceMetrics, name string, attrs ...attribute.KeyValue) (total int64) {
	matches := func(set attribute.Set) bool {
		for _, kv := range append(attrs, attribute.String("pawl.namespace", "default")) {
			if v, ok := set.Value(kv.Key); !ok || v != kv.Value {
				return false
			}
		}
		return true
	}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, d := range data.DataPoints {
					if matches(d.Attributes) {
						total += d.Value
					}
				}
			case metricdata.Histogram[float64]:
				for _, d := range data.DataPoints {
					if matches(d.Attributes) {
						total += int64(d.Count)
					}
				}
			case metricdata.Histogram[int64]:
				for _, d := range data.DataPoints {
					if matches(d.Attributes) {
						total += d.Sum
					}
				}
			}
		}
	}
	return total
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	p := newProcess(t, filepath.Join(t.TempDir(), "pawl.db"), engine.MeasureRuns(time.Nanosecond))
	wf := workflow.New("measured", func(ctx workflow.Context, n int) (int, error) {
		return n, workflow.Do(ctx, "work", func(context.Context) error {
			if n < 0 {
				return workflow.Permanent(errors.New("negative"))
			}
			return nil
		})
	})
	bridge.Of(p.eng).Know("measured", "measured")
	_, err := wf.Start(t.Context(), p.eng, 1, engine.Delay(time.Hour))
	require.NoError(t, err)
	p.work(t, wf, worker.Concurrency(7))
	for i := range 5 {
		h, err := wf.Start(t.Context(), p.eng, i-1)
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		require.Equal(t, i == 0, err != nil)
	}
	workflow, completed, failed := attribute.String("pawl.workflow", "measured"), attribute.String("pawl.status", "completed"), attribute.String("pawl.status", "failed")
	code := attribute.String("error.type", "error")
	var rm metricdata.ResourceMetrics
	require.Eventually(t, func() bool {
		require.NoError(t, p.reader.Collect(t.Context(), &rm))
		return sum(rm, "pawl.run.finished", workflow) == 5
	}, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 6, sum(rm, "pawl.run.started", workflow))
	require.EqualValues(t, 4, sum(rm, "pawl.run.finished", workflow, completed))
	require.EqualValues(t, 1, sum(rm, "pawl.run.finished", workflow, failed))
	require.EqualValues(t, 4, sum(rm, "pawl.run.duration", workflow, completed))
	require.EqualValues(t, 1, sum(rm, "pawl.run.finished", workflow, failed, code))
	require.EqualValues(t, 5, sum(rm, "pawl.step.duration", workflow, attribute.String("pawl.step", "work")))
	require.EqualValues(t, 1, sum(rm, "pawl.step.duration", workflow, code))
	require.EqualValues(t, 6, sum(rm, "pawl.start.batch_size"))
	require.EqualValues(t, 6, sum(rm, "pawl.start.duration"))
	require.GreaterOrEqual(t, sum(rm, "pawl.commit.batch_size"), int64(5))
	require.GreaterOrEqual(t, sum(rm, "pawl.claim.duration"), int64(1))
	require.EqualValues(t, 7, sum(rm, "pawl.worker.slot.limit"))
	require.EqualValues(t, 1, sum(rm, "pawl.run.count", workflow, attribute.String("pawl.queue", "measured"), attribute.String("pawl.status", "pending")))
}

// TestStrandedRunsMeasured counts stranded runs by workflow and build: those of builds with an
// online worker are not stranded, and those that the counts do not reach have no workflow.
func TestStrandedRunsMeasured(t *testing.T) {
	t.Parallel()
	p := newProcess(t, filepath.Join(t.TempDir(), "pawl.db"), engine.MeasureRuns(time.Nanosecond))
	st, ns := p.eng.Store(), p.eng.Namespace()
	pinned := func(workflow, build string) {
		res, err := st.Create(t.Context(), store.CreateParams{Namespace: ns, Runs: []store.NewRun{{
			ID: store.NewID(), Workflow: workflow, Queue: workflow, Worker: "gone", LeaseFor: time.Hour, Build: build}}})
		require.NoError(t, err)
		done, err := st.Commit(t.Context(), store.CommitParams{Namespace: ns, Commits: []store.Commit{{
			Lease: res[0].Lease, Seq: 1, Pin: &store.Pin{Build: build}, Transition: &store.Transition{Kind: store.GiveBack}}}})
		require.NoError(t, err)
		require.NoError(t, done[0].Err)
	}
	for range 3 {
		pinned("mail", "v1")
	}
	pinned("order", "v1")
	pinned("order", "v2")
	for i := range 21 {
		pinned("order", fmt.Sprintf("w%02d", i))
	}
	require.NoError(t, st.PutWorker(t.Context(), store.PutWorkerParams{Namespace: ns, Worker: store.Worker{ID: "w", Build: "v2", Status: store.Online, TTL: time.Hour}}))
	measured := func(workflow, build string) int64 {
		var rm metricdata.ResourceMetrics
		require.NoError(t, p.reader.Collect(t.Context(), &rm))
		return sum(rm, "pawl.run.stranded", attribute.String("pawl.workflow", workflow), attribute.String("pawl.build", build))
	}
	require.EqualValues(t, 3, measured("mail", "v1"))
	require.EqualValues(t, 1, measured("order", "v1"))
	require.EqualValues(t, 0, measured("order", "v2"))
	require.EqualValues(t, 1, measured("order", "w18"))
	require.EqualValues(t, 1, measured("", "w19"))
	require.NoError(t, st.PutWorker(t.Context(), store.PutWorkerParams{Namespace: ns, Worker: store.Worker{ID: "w", Build: "v1", Status: store.Online, TTL: time.Hour}}))
	require.EqualValues(t, 0, measured("mail", "v1"))
	require.EqualValues(t, 1, measured("order", "v2"))
}
