// Command telemetry runs a workflow with a child and a step that fails at first, and
// exports its trace and its metrics over OTLP:
//
//	go run . -endpoint http://127.0.0.1:4318
//
// Any collector that takes OTLP over HTTP will do. What concerns Pawl is in main: set the
// global providers before the engine is made, and shut them down at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

type trip struct {
	From, To string
	Nights   int
}

var bookHotel = workflow.New("book-hotel", func(ctx workflow.Context, t trip) (string, error) {
	return workflow.Step(ctx, "reserve", func(ctx context.Context) (string, error) {
		if workflow.Attempt(ctx) == 1 {
			return "", errors.New("the hotel does not answer")
		}
		return fmt.Sprintf("%d nights in %s", t.Nights, t.To), nil
	}, workflow.Backoff(10*time.Millisecond, 2, time.Second))
})

var bookTrip = workflow.New("book-trip", func(ctx workflow.Context, t trip) (string, error) {
	flight, err := workflow.Step(ctx, "flight", func(context.Context) (string, error) {
		return "flight from " + t.From + " to " + t.To, nil
	})
	if err != nil {
		return "", err
	}
	hotel, err := workflow.Child(ctx, "hotel", bookHotel, t)
	if err != nil {
		return "", err
	}
	return flight + ", " + hotel, nil
})

func main() {
	endpoint := flag.String("endpoint", "http://127.0.0.1:4318", "of a collector that takes OTLP over HTTP")
	db := flag.String("db", "sqlite::memory:", "the store's URL")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out, err := run(ctx, *endpoint, *db)
	if err != nil {
		fmt.Fprintln(os.Stderr, "telemetry:", err)
		os.Exit(1)
	}
	fmt.Println(out)
}

func run(ctx context.Context, endpoint, db string) (out string, err error) {
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"))
	if err != nil {
		return "", err
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(endpoint+"/v1/metrics"))
	if err != nil {
		return "", err
	}
	tp := trace.NewTracerProvider(trace.WithBatcher(spans))
	mp := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metrics)))
	otel.SetTracerProvider(tp)
	otel.SetMeterProvider(mp)
	defer func() {
		last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, tp.Shutdown(last), mp.Shutdown(last))
	}()

	st, err := backends.Open(ctx, db)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	eng := engine.New(st)
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(bookTrip, bookHotel); err != nil {
		return "", err
	}
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(working) }()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()

	ctx, span := tp.Tracer("examples/telemetry").Start(ctx, "request")
	defer span.End()
	h, err := bookTrip.Start(ctx, eng, trip{From: "Porto", To: "Bergen", Nights: 3})
	if err != nil {
		return "", err
	}
	return h.Result(ctx)
}
