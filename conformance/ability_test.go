package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/suitetest"
)

// A backend that lacks every ability, and says so, passes every tier: what needs one is
// left out.
func TestLacksInEveryTier(t *testing.T) {
	h := Harness{New: suitetest.NewBare, Lacks: suitetest.LacksAll(), Bubble: true, Unmeasured: "the model looks at all that it holds"}
	t.Run("store", func(t *testing.T) { Run(t, h) })
	t.Run("random", func(t *testing.T) { RunRandom(t, h) })
	t.Run("linearizable", func(t *testing.T) { RunLinearizable(t, h) })
	t.Run("engine", func(t *testing.T) { RunEngine(t, h) })

	in := reported(t, "TestLacksInEveryTier/store")
	require.Equal(t, suitetest.LacksAll(), in.Gaps)
	for _, cs := range Cases() {
		_, out := in.LeftOut[cs.Name]
		hooked := slices.ContainsFunc([]string{"faults/", "durable/", "cost/"}, func(group string) bool { return strings.HasPrefix(cs.Name, group) })
		require.Equal(t, len(cs.Needs) > 0 || hooked, out, "%s needs %v", cs.Name, cs.Needs)
	}
	in = reported(t, "TestLacksInEveryTier/engine")
	for _, cs := range EngineCases() {
		_, out := in.LeftOut[cs.Name]
		require.Equal(t, len(cs.Needs) > 0, out, "%s needs %v", cs.Name, cs.Needs)
	}
}
