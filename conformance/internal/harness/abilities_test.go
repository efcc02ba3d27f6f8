package harness_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

// The declarations of harness and Features are held against each other.
func TestAbilitiesAreCompared(t *testing.T) {
	for name, tt := range map[string]struct {
		features store.Features
		lacks    map[store.Ability]string
		want     string // empty: nothing
	}{
		"agree":               {store.Features{Gaps: []store.Gap{{Ability: store.Journals, Reason: "r"}}}, map[store.Ability]string{store.Journals: "r"}, ""},
		"declared, no gap":    {store.Features{}, map[store.Ability]string{store.Journals: "r"}, "the harness lacks journal (r), which is not in Features().Gaps"},
		"gap, not declared":   {store.Features{Gaps: []store.Gap{{Ability: store.Journals, Reason: "r"}}}, nil, "Features().Gaps has journal (r), which the harness does not declare"},
		"no such gap":         {store.Features{Gaps: []store.Gap{{Ability: "speed", Reason: "r"}}}, nil, `saw the ability "speed"`},
		"no such ability":     {store.Features{}, map[store.Ability]string{"speed": "r"}, `the harness lacks "speed", which is no ability`},
		"no reason":           {store.Features{Gaps: []store.Gap{{Ability: store.Journals}}}, map[store.Ability]string{store.Journals: ""}, "the harness lacks journal without a reason"},
		"has it all the same": {store.Features{Hints: true, Gaps: []store.Gap{{Ability: store.Hints, Reason: "r"}}}, map[store.Ability]string{store.Hints: "r"}, "which Features says that the backend has"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &runner.Recorder{TB: t}
			rec.Do(func() {
				harness.CheckAbilities(rec, harness.Harness{Lacks: tt.lacks}, saying{suitetest.NewModel(t), tt.features})
			})
			if tt.want == "" {
				require.False(t, rec.Failed(), rec.Text())
				return
			}
			suitetest.WantReport(t, rec, tt.want)
		})
	}
}

type saying struct {
	store.Store
	features store.Features
}

func (s saying) Features() store.Features { return s.features }
