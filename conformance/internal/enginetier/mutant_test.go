package enginetier

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/mutant"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

// harness makes stores with a mutant's fault.
func mutantHarness(m mutant.Mutant) harness.Harness {
	return harness.Harness{
		Bubble: true, Unmeasured: "the model looks at all that it holds",
		New: func(t testing.TB) store.Store {
			s := m.Wrap(model.New(model.Options{PayloadLimit: suitetest.MutantLimit}))
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
}

// The engine tier also detects these faulty stores. Only the store tier detects the others, because
// the worker does not depend on them as long as it runs in a bubble: it counts its leases itself
// (no-epoch-check), each of its commits can be split or repeated without harm (commit-half-applied,
// repeat-applied-again), and its next look finds a lost wake-up (wake-up-lost).
func TestMutantsInTheEngine(t *testing.T) {
	for _, tt := range []struct{ mutant, by string }{
		{"timer-early", "sleep/not-early"},
		{"lease-not-extended", "crash/long-step-is-none"},
		{"transition-loses-steps", "step/runs-once"},
		{"crash-not-counted", "crash/poison"},
		{"crashes-not-kept", "suspect/explained"},
		{"crashes-kept-by-release-alone", "suspect/healthy-neighbors"},
		{"running-run-claimed-again", "workers/share"},
		{"external-id-never-freed", "start/external-id"},
		{"gap-applied", "lost/commit"},
		{"gap-of-one-applied", "lost/commit-of-a-branch"},
		{"cancel-ends-what-waits", "cleanup/waiting"},
		{"canceled-children-clean-up-never", "cleanup/children"},
		{"last-claim-without-history", "cleanup/waiting"},
		{"claim-ignores-pins", "build/share"},
		{"pin-forgets-its-share", "build/share-lapses"},
		{"outbox-loses-restarts", "outbox/steered"},
		{"outbox-loses-forks", "outbox/steered"},
		{"outbox-loses-children", "outbox/lives"},
		{"outbox-tells-of-claims", "outbox/lives"},
		{"outbox-delete-keeps", "outbox/unsubscribed"},
	} {
		t.Run(tt.mutant, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(Cases(), func(cs Case) bool { return cs.Name == tt.by })
			if i < 0 {
				t.Fatalf("there is no engine case %s", tt.by)
			}
			for _, m := range []mutant.Mutant{suitetest.ByName(t, tt.mutant), mutant.None()} {
				failed, report := false, ""
				synctest.Test(t, func(t *testing.T) {
					rec := &runner.Recorder{TB: t}
					rec.Do(func() { runCase(rec, mutantHarness(m), Cases()[i]) })
					failed, report = rec.Failed(), rec.Text()
				})
				if failed != (m.Name != "none") {
					t.Errorf("%s behind mutant %s: saw it fail %v: %s", tt.by, m.Name, failed, report)
				}
			}
		})
	}
}
