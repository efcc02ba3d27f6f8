package enginetier

import (
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/mutant"
)

// The model is the definition of limits, and in a bubble its times are exact.
func TestLimitsOnTheModel(t *testing.T) {
	for _, cs := range limitEngineCases {
		t.Run(cs.Name, func(t *testing.T) {
			inBubble(t, func(t testing.TB) { runCase(t, mutantHarness(mutant.Mutant{Wrap: unchanged}), cs) })
		})
	}
}
