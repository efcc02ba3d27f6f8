package conformance_test

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// The engine's own cases, in simulated time on the model: what they find is the
// engine's fault, not a backend's.
func TestEngineOnModel(t *testing.T) {
	conformance.RunEngine(t, conformance.Harness{Bubble: true, New: func(t testing.TB) store.Store {
		s := model.New(model.Options{})
		t.Cleanup(func() { _ = s.Close() })
		return s
	}, Rewind: func(_ testing.TB, s store.Store) func() { return s.(*model.Store).Rewind() }})
}

// unhinted tells nobody of anything, as PostgreSQL behind a pooler.
type unhinted struct{ *model.Store }

func (s unhinted) Features() store.Features {
	f := s.Store.Features()
	f.Hints = false
	return f
}

func (s unhinted) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	ch := make(chan []store.Hint)
	context.AfterFunc(ctx, func() { close(ch) })
	return ch, ctx.Err()
}

// Polling must do: hints only make it faster.
func TestEngineWithoutHints(t *testing.T) {
	conformance.RunEngine(t, conformance.Harness{Bubble: true, New: func(t testing.TB) store.Store {
		s := model.New(model.Options{})
		t.Cleanup(func() { _ = s.Close() })
		return unhinted{s}
	}})
}
