package storetier

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

func TestModel(t *testing.T) {
	Run(t, suitetest.ModelHarness(model.Options{Transactions: true}, func(m *model.Store) store.Store { return model.NewRemote(m) }))
}

func TestModelWithASmallLimit(t *testing.T) {
	Run(t, harness.Harness{Unmeasured: "the model looks at all that it holds", New: func(testing.TB) store.Store { return model.New(model.Options{PayloadLimit: 4096}) }})
}

// try runs one case as the suite would, and returns what it would report.
func try(t *testing.T, h harness.Harness, s store.Store, name string) *runner.Recorder {
	t.Helper()
	for _, cs := range Cases() {
		if cs.Name == name {
			rec := &runner.Recorder{TB: t}
			rec.Do(func() { runCase(rec, suite{Harness: h}, s, s, cs) })
			return rec
		}
	}
	t.Fatalf("there is no case %s", name)
	return nil
}

// The faults that a backend may have, each with a case that finds it.

// oneNamespace ignores namespaces.
type oneNamespace struct{ store.Store }

func (s oneNamespace) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	p.Namespace = strings.TrimSuffix(p.Namespace, "/other")
	return s.Store.Claim(ctx, p)
}

// panics is what a half-written backend does.
type panics struct{ store.Store }

func (panics) Count(context.Context, store.CountParams) ([]store.RunCount, error) { panic("not yet") }

// withoutHints is a store without hints.
type withoutHints struct{ store.Store }

func (s withoutHints) Features() store.Features {
	f := s.Store.Features()
	f.Hints = false
	return f
}

func TestFaultsAreFound(t *testing.T) {
	for _, tt := range []struct {
		fault func(store.Store) store.Store
		name  string
		parts []string
	}{
		{func(s store.Store) store.Store { return suitetest.AnyEpoch{Store: s} }, "commit/old-epoch", []string{
			"commit/old-epoch breaks P2: a commit of an old epoch changes nothing", "saw no error, expected one that matches \"lease lost\""}},
		{func(s store.Store) store.Store { return suitetest.AnyEpoch{Store: s} }, "commit/other-worker", []string{"commit/other-worker breaks P2"}},
		{func(s store.Store) store.Store { return suitetest.FreshSignals{Store: s} }, "signal/repeat", []string{"signal/repeat breaks P4: a signal whose ID the run has already received"}},
		{func(s store.Store) store.Store { return suitetest.FastClock{Store: s} }, "claim/not-early", []string{"claim/not-early breaks P13: nothing is claimed before its time"}},
		{func(s store.Store) store.Store { return suitetest.EmptyIsNil{Store: s} }, "payload/run-input", []string{"payload/run-input breaks P12", "empty: saw nil bytes, expected 0 bytes"}},
		{func(s store.Store) store.Store { return suitetest.BlindSleep{Store: s} }, "sleep/unseen-event", []string{"sleep/unseen-event breaks P5"}},
		{func(s store.Store) store.Store { return suitetest.BlindSleep{Store: s} }, "sleep/signal-race", []string{"sleep/signal-race breaks P5"}},
		{func(s store.Store) store.Store { return oneNamespace{s} }, "claim/namespaces-apart", []string{"claim/namespaces-apart breaks P15"}},
		{func(s store.Store) store.Store { return panics{s} }, "list/count", []string{"list/count is broken: Count counts by queue", "panic: not yet"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := suitetest.NewModel(t)
			if rec := try(t, harness.Harness{New: suitetest.NewModel}, good, tt.name); rec.Failed() {
				t.Fatalf("the model fails: %s", rec.Text())
			}
			rec := try(t, harness.Harness{New: suitetest.NewModel}, tt.fault(suitetest.NewModel(t)), tt.name)
			suitetest.WantReport(t, rec, tt.parts...)
			if n := strings.Count(rec.Text(), " breaks "); n > 1 {
				t.Errorf("the rule is printed %d times, expected once:\n%s", n, rec.Text())
			}
			// The same fault, declared, passes.
			h := harness.Harness{New: suitetest.NewModel, Exceptions: map[string]string{tt.name: "known"}}
			if rec := try(t, h, tt.fault(suitetest.NewModel(t)), tt.name); rec.Failed() {
				t.Errorf("an exception that fails: saw the suite fail with %s", rec.Text())
			}
		})
	}
}

func TestExceptionThatPassesFailsTheSuite(t *testing.T) {
	h := harness.Harness{New: suitetest.NewModel, Exceptions: map[string]string{"claim/fifo": "too hard"}}
	suitetest.WantReport(t, try(t, h, suitetest.NewModel(t), "claim/fifo"), "claim/fifo is excepted (too hard) but passes")
}

func TestExceptionThatDoesNotApplyFailsTheSuite(t *testing.T) {
	h := harness.Harness{New: suitetest.NewModel, Exceptions: map[string]string{"hints/queue": "no hints"}}
	suitetest.WantReport(t, try(t, h, withoutHints{suitetest.NewModel(t)}, "hints/queue"), "hints/queue is excepted (no hints) but does not apply")
}

func TestExceptionsAreChecked(t *testing.T) {
	rec := &runner.Recorder{TB: t}
	rec.Do(func() {
		checkExceptions(rec, harness.Harness{Exceptions: map[string]string{"claim/nothing": "x", "claim/fifo": "", "claim/race": "x"}})
	})
	suitetest.WantReport(t, rec, `excepts "claim/nothing", which is no case`, `excepts "claim/fifo" without a reason`)
	if strings.Contains(rec.Text(), "claim/race") {
		t.Errorf("a sound exception is reported: %s", rec.Text())
	}
}

// promising is a store that promises what nothing proves.
type promising struct{ store.Store }

func (s promising) Features() store.Features { return store.Features{Name: "promising"} }

// A backend of another version of the contract is reported.
func TestContractVersionIsChecked(t *testing.T) {
	suitetest.WantReport(t, try(t, harness.Harness{New: suitetest.NewModel}, promising{suitetest.NewModel(t)}, "features/contract"), "features/contract is broken", fmt.Sprintf("Features().Contract: saw 0, expected %d", store.ContractVersion))
}

// A promise of durability needs a proof; a store that promises nothing needs none.
func TestDurabilityIsProven(t *testing.T) {
	suitetest.WantReport(t, try(t, harness.Harness{New: suitetest.NewModel}, promising{suitetest.NewModel(t)}, "durable/runs"), "durable/runs is broken", "Features().Durability: saw durable, which nothing proves")
	if rec := try(t, harness.Harness{New: suitetest.NewModel}, suitetest.NewModel(t), "durable/runs"); !rec.Skipped() || rec.Failed() {
		t.Errorf("a store that promises nothing: saw it not skipped: %s", rec.Text())
	}
	forgetful := harness.Harness{New: suitetest.NewModel, Reopen: func(t testing.TB, _ store.Store) store.Store { return suitetest.NewModel(t) }}
	suitetest.WantReport(t, try(t, forgetful, promising{suitetest.NewModel(t)}, "durable/runs"), "after Create and a restart", "saw nothing, expected")
}
