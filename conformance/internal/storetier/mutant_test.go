package storetier

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/mutant"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
)

// fullHarness is harness with transactions and a network that has faults. The mutant is on the
// other side of that network.
func fullHarness(m mutant.Mutant) suite {
	return suite{Harness: suitetest.ModelHarness(model.Options{PayloadLimit: suitetest.MutantLimit, Transactions: true}, m.Wrap), simulated: true}
}

// findings runs a case on a new store in a bubble, where waiting costs no time, and returns what it
// would report; empty: it passes.
func findings(t *testing.T, m mutant.Mutant, cs Case) (report string) {
	synctest.Test(t, func(t *testing.T) {
		h := fullHarness(m)
		rec, s := &runner.Recorder{TB: t}, h.New(t)
		rec.Do(func() { runCase(rec, h, s, s, cs) })
		if rec.Failed() {
			report = cmp.Or(rec.Text(), "failed")
		}
	})
	return report
}

// TestMutants checks that the suite finds every mutant with a case of the promise that it breaks,
// and nothing in the model behind the same layer. With -v it lists all cases of the promise that
// find it, not just the first.
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
	for n := range 24 {
		if p := fmt.Sprint("P", n+1); promises[p] == 0 {
			t.Errorf("no mutant breaks %s: nothing shows that its cases can fail", p)
		}
	}
	if len(names) < 30 {
		t.Errorf("%d mutants, expected at least 30", len(names))
	}
}
