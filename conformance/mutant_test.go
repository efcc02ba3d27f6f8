package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/mutant"
	"github.com/pawlhq/pawl/store"
)

// mutantLimit is the payload limit of mutants: large payloads prove no more.
const mutantLimit = 4096

// harness makes stores with a mutant's fault.
func harness(m mutant.Mutant) Harness {
	return Harness{Bubble: true, New: func(t testing.TB) store.Store {
		s := m.Wrap(model.New(model.Options{PayloadLimit: mutantLimit}))
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}
}

// findings runs a case on a fresh store in a bubble, where waiting costs no
// time, and returns what it would report; empty: it passes.
func findings(t *testing.T, m mutant.Mutant, cs Case) (report string) {
	synctest.Test(t, func(t *testing.T) {
		h := harness(m)
		rec, s := &recorder{TB: t}, h.New(t)
		rec.do(func() { runCase(rec, h, s, s, cs) })
		if rec.Failed() {
			report = cmp.Or(rec.output(), "failed")
		}
	})
	return report
}

// The suite finds every mutant by a case of the promise that it breaks, and
// nothing in the model behind the same layer. With -v it lists all cases of the
// promise that find it, not just the first.
func TestMutants(t *testing.T) {
	mutants := mutant.All()
	killers := make([][]string, len(mutants))
	t.Run("each", func(t *testing.T) {
		for i, m := range mutants {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				tried := 0
				for _, cs := range Cases() {
					if cs.Promise != m.Promise {
						continue
					}
					tried++
					report := findings(t, m, cs)
					if found, _, panics := strings.Cut(report, "panic: "); panics && strings.Count(found, "\n") < 2 { // no more than the rule
						t.Fatalf("%s panics in %s: that is no fault of the kind it stands for:\n%s", m.Name, cs.Name, report)
					}
					if report != "" {
						killers[i] = append(killers[i], cs.Name)
						if !testing.Verbose() {
							break
						}
					}
				}
				if len(killers[i]) == 0 {
					t.Errorf("%s survives all %d cases of %s: no backend that does this would be found out:\n%s", m.Name, tried, cmp.Or(m.Promise, "no promise"), m.Fault)
				}
			})
		}
		t.Run("none", func(t *testing.T) {
			for _, cs := range Cases() {
				t.Run(cs.Name, func(t *testing.T) {
					t.Parallel()
					if report := findings(t, mutant.None(), cs); report != "" {
						t.Errorf("the model fails behind the layer of the mutants:\n%s", report)
					}
				})
			}
		})
	})
	var table strings.Builder
	dead := 0
	for i, m := range mutants {
		by := strings.Join(killers[i], ", ")
		if by != "" {
			dead++
		}
		fmt.Fprintf(&table, "%-34s %-4s %s\n", m.Name, cmp.Or(m.Promise, "-"), cmp.Or(by, "SURVIVES"))
	}
	t.Logf("%d of %d mutants killed\n%-34s %-4s %s\n%s", dead, len(mutants), "mutant", "of", "killed by", table.String())
}

func TestMutantsAreWellFormed(t *testing.T) {
	names, promises := map[string]bool{}, map[string]int{}
	for _, m := range mutant.All() {
		if names[m.Name] || m.Name == "" || m.Fault == "" || m.Wrap == nil {
			t.Errorf("mutant %q needs a name of its own, a sentence and a fault", m.Name)
		}
		names[m.Name] = true
		promises[m.Promise]++
	}
	for n := range 18 {
		if p := fmt.Sprint("P", n+1); promises[p] == 0 {
			t.Errorf("no mutant breaks %s: nothing shows that its cases can fail", p)
		}
	}
	if len(names) < 30 {
		t.Errorf("%d mutants, expected at least 30", len(names))
	}
}

// What the engine tier sees of a faulty store, too. The others of its faults are
// the store tier's alone, for the worker does not depend on them as long as it
// runs in a bubble: it counts its leases itself (no-epoch-check), each of its
// commits can be split or repeated without harm (commit-half-applied,
// repeat-applied-again), and a wake-up that is lost is made up for by its next look
// (wake-up-lost).
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
	} {
		t.Run(tt.mutant, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(EngineCases(), func(cs EngineCase) bool { return cs.Name == tt.by })
			if i < 0 {
				t.Fatalf("there is no engine case %s", tt.by)
			}
			for _, m := range []mutant.Mutant{byName(t, tt.mutant), mutant.None()} {
				failed, report := false, ""
				synctest.Test(t, func(t *testing.T) {
					rec := &recorder{TB: t}
					rec.do(func() { runEngineCase(rec, harness(m), EngineCases()[i]) })
					failed, report = rec.Failed(), rec.output()
				})
				if failed != (m.Name != "none") {
					t.Errorf("%s behind mutant %s: saw it fail %v: %s", tt.by, m.Name, failed, report)
				}
			}
		})
	}
}

// byName finds a mutant.
func byName(t *testing.T, name string) mutant.Mutant {
	t.Helper()
	i := slices.IndexFunc(mutant.All(), func(m mutant.Mutant) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("there is no mutant %s", name)
	}
	return mutant.All()[i]
}
