package conformance_test

import (
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// The simulation as a backend's author calls it; its seeds for Pawl's own stores
// are run by internal/sim.
func TestSimulationOfABackend(t *testing.T) {
	conformance.RunSimulation(t, conformance.Harness{Bubble: true, New: func(t testing.TB) store.Store {
		s := model.New(model.Options{})
		t.Cleanup(func() { _ = s.Close() })
		return s
	}})
}
