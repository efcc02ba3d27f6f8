package telemetry

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/store"
)

// What telemetry costs where nobody has set a provider: a run of one step.
func BenchmarkOff(b *testing.B) {
	t, err := New(otel.GetTracerProvider(), otel.GetMeterProvider(), "default", "sqlite")
	require.NoError(b, err)
	run := &store.Run{ID: store.NewID(), Workflow: "w", Queue: "q"}
	key := store.StepKey{Name: "s", Occurrence: 1}
	b.ReportAllocs()
	for b.Loop() {
		ctx, end := t.StartRun(context.Background(), "w")
		Inject(ctx)
		end(run.ID, false, nil)
		ctx = t.Execute(context.Background(), run, store.Lease{})
		_, _ = t.Attempted(ctx, run, key, 1, nil, func(context.Context) ([]byte, error) { return nil, nil })
		t.Executed(ctx, run, store.Completed, nil, time.Time{}, nil)
	}
}

func TestMetaOfOthers(t *testing.T) {
	t.Parallel()
	for _, meta := range []string{"", "{}", "null", "[1]", "\x00\xff", `{"trace":null}`, `{"trace":{"traceparent":"nonsense"}}`, `{"other":1}`} {
		ctx := extract(context.Background(), []byte(meta))
		require.False(t, trace.SpanContextFromContext(ctx).IsValid(), "%q", meta)
	}
	require.Nil(t, Inject(context.Background()), "no trace, no bytes")
}
