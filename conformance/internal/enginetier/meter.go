package enginetier

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meter is a metrics provider that only sums counters.
type meter struct {
	noop.MeterProvider
	mu     sync.Mutex
	counts []increment
}

// increment is an increment of a counter.
type increment struct {
	name  string
	n     int64
	attrs attribute.Set
}

// Meter implements [metric.MeterProvider].
func (m *meter) Meter(string, ...metric.MeterOption) metric.Meter { return counters{m: m} }

// sum returns the sum of a counter over the series with these attributes: pairs of key and value.
func (m *meter) sum(name string, attrs ...string) (sum int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
next:
	for _, c := range m.counts {
		for i := 0; i < len(attrs); i += 2 {
			if v, _ := c.attrs.Value(attribute.Key(attrs[i])); v.AsString() != attrs[i+1] {
				continue next
			}
		}
		if c.name == name {
			sum += c.n
		}
	}
	return sum
}

// keys are the attributes with which a counter was ever incremented.
func (m *meter) keys(name string) map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := map[string]bool{}
	for _, c := range m.counts {
		for _, kv := range c.attrs.ToSlice() {
			if c.name == name {
				keys[string(kv.Key)] = true
			}
		}
	}
	return keys
}

type counters struct {
	noop.Meter
	m *meter
}

// Int64Counter implements [metric.Meter].
func (c counters) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{name: name, m: c.m}, nil
}

type counter struct {
	noop.Int64Counter
	name string
	m    *meter
}

// Enabled implements [metric.Int64Counter].
func (c counter) Enabled(context.Context) bool { return true }

// Add implements [metric.Int64Counter].
func (c counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.counts = append(c.m.counts, increment{c.name, n, metric.NewAddConfig(opts).Attributes()})
}
