package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Limit names a limit.
const Limit = attribute.Key("pawl.limit")

// LimitLoad is what a limit holds back, the sums of its keys.
type LimitLoad struct {
	Limit         string
	Held, Waiting int64
	Oldest        time.Duration // since when the run that has waited longest is due
}

// ObserveLimits registers the load of limits, which count tells.
func (t *Telemetry) ObserveLimits(count func(context.Context) ([]LimitLoad, error)) error {
	held, err := t.meter.Int64ObservableUpDownCounter("pawl.limit.held", metric.WithUnit("{lease}"), metric.WithDescription("Leases under a limit."))
	waiting, err2 := t.meter.Int64ObservableUpDownCounter("pawl.limit.waiting", metric.WithUnit("{run}"), metric.WithDescription("Due runs under a limit that no worker holds."))
	oldest, err3 := t.meter.Float64ObservableGauge("pawl.limit.oldest", metric.WithUnit("s"), metric.WithDescription("How long the oldest due run under a limit has waited."))
	if err = errors.Join(err, err2, err3); err != nil {
		return err
	}
	return t.observe(func(ctx context.Context, o metric.Observer) error {
		loads, err := count(ctx)
		for _, l := range loads {
			with := t.with(Limit.String(l.Limit))
			o.ObserveInt64(held, l.Held, with)
			o.ObserveInt64(waiting, l.Waiting, with)
			o.ObserveFloat64(oldest, l.Oldest.Seconds(), with)
		}
		return err
	}, held, waiting, oldest)
}
