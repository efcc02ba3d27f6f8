package engine_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Welcome is the workflow that is traced.
var Welcome = workflow.New("welcome", func(ctx workflow.Context, name string) (string, error) {
	return workflow.Step(ctx, "write", func(ctx context.Context) (string, error) { return "Hello, " + name, nil })
})

// Run runs Welcome once on an engine with the options.
func Run(opts ...engine.Option) {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, append(opts, engine.Logger(slog.New(slog.DiscardHandler)))...)
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(Welcome); err != nil {
		log.Fatal(err)
	}
	if _, err := Welcome.Start(ctx, eng, "Ann"); err != nil {
		log.Fatal(err)
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
}

// Spans of a start, of a run and of its steps. A program would have an exporter of OTLP
// in the place of the one in memory, or set OpenTelemetry's global provider.
func ExampleTracing() {
	spans := tracetest.NewInMemoryExporter()
	Run(engine.Tracing(trace.NewTracerProvider(trace.WithSyncer(spans))))

	var names []string
	for _, s := range spans.GetSpans() {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	fmt.Println(names)
	// Output:
	// [run welcome start welcome step write]
}

// Metrics of the engine and its workers. docs/telemetry.md lists them.
func ExampleMetrics() {
	ctx := context.Background()
	reader := metric.NewManualReader()
	Run(engine.Metrics(metric.NewMeterProvider(metric.WithReader(reader))))

	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		log.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "pawl.run.finished" {
				fmt.Println(m.Name, sum.DataPoints[0].Value)
			}
		}
	}
	// Output:
	// pawl.run.finished 1
}
