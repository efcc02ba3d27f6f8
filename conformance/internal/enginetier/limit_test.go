package enginetier

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/mutant"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/store"
)

func limitHarness(fault model.LimitFault) harness.Harness {
	return mutantHarness(mutant.Mutant{Wrap: func(m *model.Store) store.Store {
		m.BreakLimits(fault)
		return m
	}})
}

// The model is the definition of limits, and in a bubble its times are exact.
func TestLimitsOnTheModel(t *testing.T) {
	for _, cs := range limitEngineCases {
		t.Run(cs.Name, func(t *testing.T) { inBubble(t, func(t testing.TB) { runCase(t, limitHarness(0), cs) }) })
	}
}

// The engine tier also finds these faults of limits.
func TestLimitCasesFindFaults(t *testing.T) {
	for _, tt := range []struct {
		fault model.LimitFault
		by    string
	}{
		{model.LimitOneMore, "limit/by-key"},
		{model.LimitIgnoresSteps, "limit/step-crash"},
		{model.LimitStepTokensFree, "limit/step-retry"},
		{model.LimitLeaksFree, "limit/step-record"},
		{model.LimitIgnoresRate, "limit/rate"},
		{model.LimitBurstIsTokens, "limit/rate"},
		{model.PassUncounted, "limit/pass-on"},
		{model.PassUnordered, "limit/pass-on"},
		{model.PassForgets, "limit/pass-on-answer"},
		{model.LimitUnfair, "limit/fair"},
		{model.LimitIgnoresSet, "limit/set"},
	} {
		t.Run(tt.by, func(t *testing.T) {
			i := slices.IndexFunc(limitEngineCases, func(cs Case) bool { return cs.Name == tt.by })
			failed := false
			synctest.Test(t, func(t *testing.T) {
				rec := &runner.Recorder{TB: t}
				rec.Do(func() { runCase(rec, limitHarness(tt.fault), limitEngineCases[i]) })
				failed = rec.Failed()
			})
			if !failed {
				t.Errorf("%s passes on a model with fault %d", tt.by, tt.fault)
			}
		})
	}
}
