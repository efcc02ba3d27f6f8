package storetier

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

// An exception for a case that is left out anyway does not apply.
func TestExceptionOfWhatIsLacked(t *testing.T) {
	h := harness.Harness{New: suitetest.NewBare, Lacks: suitetest.LacksAll(), Exceptions: map[string]string{"journal/repeat": "no journal"}}
	suitetest.WantReport(t, try(t, h, suitetest.NewBare(t), "journal/repeat"), "journal/repeat is excepted (no journal) but does not apply")
}

// The abilities that the cases declare are those that they use: each case runs on the model with
// all abilities, and the calls of optional interfaces are recorded.
func TestNeeds(t *testing.T) {
	verbs := map[string]store.Ability{
		"Hints": store.Hints, "Record": store.Journals, "ListActions": store.Journals, "Import": store.Imports, "Sent": store.Exports,
		"Diagnose": store.Diagnoses, "Ahead": store.Ranks,
	}
	for _, cs := range Cases() {
		t.Run(cs.Name, func(t *testing.T) {
			t.Parallel()
			h := suite{Harness: harness.Harness{New: suitetest.NewModel, Unmeasured: "the model looks at all that it holds"}} // the costs of journals need none
			h.Reopen = func(_ testing.TB, s store.Store) store.Store { return s }
			m := &harness.Met{All: true}
			p := h.probed(m)
			s := p.New(t)
			rec := &runner.Recorder{TB: t}
			rec.Do(func() { cs.Run(newC(rec, t, p, s, s, cs)) })
			needs := cs.Needs()
			for _, v := range m.Waits() {
				if a, optional := verbs[v]; optional && !slices.Contains(needs, a) {
					t.Errorf("%s uses %s, but Needs does not name %s", cs.Name, v, a)
				}
			}
			for v, a := range verbs {
				used := slices.ContainsFunc(m.Waits(), func(used string) bool { return verbs[used] == a })
				if slices.Contains(needs, a) && !used {
					t.Errorf("%s needs %s, but uses no verb of it such as %s", cs.Name, a, v)
				}
			}
		})
	}
}
