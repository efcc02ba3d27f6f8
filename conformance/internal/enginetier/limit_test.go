package enginetier

import (
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/mutant"
	"github.com/pawlhq/pawl/store"
)

// The model is the definition of limits, and in a bubble its times are exact.
func TestLimitsOnTheModel(t *testing.T) {
	sound := mutantHarness(mutant.Mutant{Wrap: func(m *model.Store) store.Store { return m }})
	for _, cs := range limitEngineCases {
		t.Run(cs.Name, func(t *testing.T) { inBubble(t, func(t testing.TB) { runCase(t, sound, cs) }) })
	}
}
