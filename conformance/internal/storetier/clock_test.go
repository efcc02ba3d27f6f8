package storetier

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/mutant"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
)

// The faults of a store's own clock are also found in real time, as for a server: the tolerances
// hide none of them. A busy machine may miss a moment, so each case gets several tries.
func TestClockMutantsInRealTime(t *testing.T) {
	found := func(t *testing.T, m mutant.Mutant) bool {
		s := m.Wrap(model.New(model.Options{PayloadLimit: suitetest.MutantLimit}))
		defer func() { _ = s.Close() }()
		return slices.ContainsFunc(clockCases, func(cs Case) bool {
			rec := &runner.Recorder{TB: t}
			rec.Do(func() { runCase(rec, suite{Harness: harness.Harness{New: suitetest.NewModel}}, s, s, cs) })
			return rec.Failed()
		})
	}
	for _, m := range mutant.OfTheClock() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for range 10 {
				if found(t, m) {
					return
				}
			}
			t.Errorf("%s survives the cases of the store's own clock in real time: %s", m.Name, m.Fault)
		})
	}
}
