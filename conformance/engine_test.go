package conformance_test

import (
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// The engine tier on the model store, in a bubble.
func TestEngineOnModel(t *testing.T) {
	conformance.RunEngine(t, conformance.Harness{Bubble: true, New: func(t testing.TB) store.Store {
		s := model.New(model.Options{})
		t.Cleanup(func() { _ = s.Close() })
		return s
	}})
}
