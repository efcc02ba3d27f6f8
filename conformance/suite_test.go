package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

func newModel(testing.TB) store.Store { return model.New(model.Options{}) }

func TestModel(t *testing.T) {
	Run(t, Harness{New: newModel})
}

func TestModelWithASmallLimit(t *testing.T) {
	Run(t, Harness{New: func(testing.TB) store.Store { return model.New(model.Options{PayloadLimit: 4096}) }})
}

// try runs one case as the suite would, and observes what it would report.
func try(t *testing.T, h Harness, s store.Store, name string) *recorder {
	t.Helper()
	for _, cs := range Cases() {
		if cs.Name == name {
			rec := &recorder{TB: t}
			rec.do(func() { runCase(rec, h, s, s, cs) })
			return rec
		}
	}
	t.Fatalf("there is no case %s", name)
	return nil
}

func wantReport(t *testing.T, rec *recorder, parts ...string) {
	t.Helper()
	if !rec.Failed() {
		t.Errorf("the suite passed, expected it to fail")
	}
	for _, part := range parts {
		if !strings.Contains(rec.output(), part) {
			t.Errorf("the suite reported:\n%s\nexpected it to contain %q", rec.output(), part)
		}
	}
}

// The faults that a backend may have, each with a case that finds it.

// anyEpoch commits under whatever lease the run has.
type anyEpoch struct{ store.Store }

func (s anyEpoch) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	for i := range p.Commits {
		l := &p.Commits[i].Lease
		runs, err := s.Get(ctx, store.GetParams{Namespace: p.Namespace, IDs: []store.ID{l.Run}})
		if err == nil && len(runs) == 1 {
			l.Worker, l.Epoch = runs[0].Worker, runs[0].Epoch
		}
	}
	return s.Store.Commit(ctx, p)
}

// freshSignals takes every signal for a new one.
type freshSignals struct{ store.Store }

func (s freshSignals) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	for i := range p.Signals {
		p.Signals[i].ID = store.NewID()
	}
	return s.Store.Signal(ctx, p)
}

// fastClock is a millisecond ahead when it claims.
type fastClock struct{ store.Store }

func (s fastClock) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	p.Now = p.Now.Add(time.Millisecond)
	return s.Store.Claim(ctx, p)
}

// emptyIsNil reads an empty input as none.
type emptyIsNil struct{ store.Store }

func (s emptyIsNil) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	runs, err := s.Store.Get(ctx, p)
	for i := range runs {
		if len(runs[i].Input) == 0 {
			runs[i].Input = nil
		}
	}
	return runs, err
}

// blindSleep takes all events for seen.
type blindSleep struct{ store.Store }

func (s blindSleep) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	for i := range p.Commits {
		p.Commits[i].Seen = 1 << 40
	}
	return s.Store.Commit(ctx, p)
}

// oneNamespace knows no others.
type oneNamespace struct{ store.Store }

func (s oneNamespace) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	p.Namespace = strings.TrimSuffix(p.Namespace, "/other")
	return s.Store.Claim(ctx, p)
}

// panics is what a half-written backend does.
type panics struct{ store.Store }

func (panics) Count(context.Context, store.CountParams) ([]store.RunCount, error) { panic("not yet") }

// withoutHints has none.
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
		{func(s store.Store) store.Store { return anyEpoch{s} }, "commit/old-epoch", []string{
			"commit/old-epoch breaks P2: a commit of an old epoch changes nothing", "saw no error, expected one that matches \"lease lost\""}},
		{func(s store.Store) store.Store { return anyEpoch{s} }, "commit/other-worker", []string{"commit/other-worker breaks P2"}},
		{func(s store.Store) store.Store { return freshSignals{s} }, "signal/repeat", []string{"signal/repeat breaks P4: a signal ID that the run has had"}},
		{func(s store.Store) store.Store { return fastClock{s} }, "claim/not-early", []string{"claim/not-early breaks P13: nothing is claimed before its time"}},
		{func(s store.Store) store.Store { return emptyIsNil{s} }, "payload/run-input", []string{"payload/run-input breaks P12", "empty: saw nil bytes, expected 0 bytes"}},
		{func(s store.Store) store.Store { return blindSleep{s} }, "sleep/unseen-event", []string{"sleep/unseen-event breaks P5"}},
		{func(s store.Store) store.Store { return blindSleep{s} }, "sleep/signal-race", []string{"sleep/signal-race breaks P5"}},
		{func(s store.Store) store.Store { return oneNamespace{s} }, "claim/namespaces-apart", []string{"claim/namespaces-apart breaks P15"}},
		{func(s store.Store) store.Store { return panics{s} }, "list/count", []string{"list/count is broken: Count counts by queue", "panic: not yet"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := newModel(t)
			if rec := try(t, Harness{New: newModel}, good, tt.name); rec.Failed() {
				t.Fatalf("the model fails: %s", rec.output())
			}
			rec := try(t, Harness{New: newModel}, tt.fault(newModel(t)), tt.name)
			wantReport(t, rec, tt.parts...)
			if n := strings.Count(rec.output(), " breaks "); n > 1 {
				t.Errorf("the rule is printed %d times, expected once:\n%s", n, rec.output())
			}
			// The same fault, declared, passes.
			h := Harness{New: newModel, Exceptions: map[string]string{tt.name: "known"}}
			if rec := try(t, h, tt.fault(newModel(t)), tt.name); rec.Failed() {
				t.Errorf("an exception that fails: saw the suite fail with %s", rec.output())
			}
		})
	}
}

func TestExceptionThatPassesFailsTheSuite(t *testing.T) {
	h := Harness{New: newModel, Exceptions: map[string]string{"claim/fifo": "too hard"}}
	wantReport(t, try(t, h, newModel(t), "claim/fifo"), "claim/fifo is excepted (too hard) but passes")
}

func TestExceptionThatDoesNotApplyFailsTheSuite(t *testing.T) {
	h := Harness{New: newModel, Exceptions: map[string]string{"hints/queue": "no hints"}}
	wantReport(t, try(t, h, withoutHints{newModel(t)}, "hints/queue"), "hints/queue is excepted (no hints) but does not apply")
}

func TestExceptionsAreChecked(t *testing.T) {
	rec := &recorder{TB: t}
	rec.do(func() {
		checkExceptions(rec, Harness{Exceptions: map[string]string{"claim/nothing": "x", "claim/fifo": "", "claim/race": "x"}})
	})
	wantReport(t, rec, `excepts "claim/nothing", which is no case`, `excepts "claim/fifo" without a reason`)
	if strings.Contains(rec.output(), "claim/race") {
		t.Errorf("a sound exception is reported: %s", rec.output())
	}
}

func TestRecorder(t *testing.T) {
	for name, tt := range map[string]struct {
		do              func(tb testing.TB)
		failed, skipped bool
		output          string
	}{
		"nothing": {func(testing.TB) {}, false, false, ""},
		"log":     {func(tb testing.TB) { tb.Log("a", 1) }, false, false, "a 1\n"},
		"error":   {func(tb testing.TB) { tb.Error("a"); tb.Log("b") }, true, false, "a\nb\n"},
		"fatal":   {func(tb testing.TB) { tb.Fatalf("a%d", 1); tb.Log("b") }, true, false, "a1\n"},
		"skip":    {func(tb testing.TB) { tb.Skip("a"); tb.Fail() }, false, true, "a\n"},
		"panic":   {func(testing.TB) { panic("a") }, true, false, "panic: a"},
	} {
		rec := &recorder{TB: t}
		rec.do(func() { tt.do(rec) })
		if rec.Failed() != tt.failed || rec.Skipped() != tt.skipped || !strings.HasPrefix(rec.output(), tt.output) {
			t.Errorf("%s: saw failed %v, skipped %v, output %q", name, rec.Failed(), rec.Skipped(), rec.output())
		}
	}
}
