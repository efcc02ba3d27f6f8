package linearizable

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/mutant"
	"github.com/pawlhq/pawl/conformance/internal/ops"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

func TestFocusesOnTheModel(t *testing.T) {
	s := suitetest.NewModel(t)
	runFocuses(t, [2]store.Store{s, s})
}

// storyOf runs a seed's story on a store in a bubble, where the seed alone decides which calls
// overlap. It returns what no order explains.
func storyOf(t *testing.T, wrap func(*model.Store) store.Store, f focus, seed uint64) (report string) {
	synctest.Test(t, func(t *testing.T) {
		s := wrap(model.New(model.Options{PayloadLimit: suitetest.MutantLimit}))
		st := newStory(t.Context(), f, [2]store.Store{s, s}, f.name, seed)
		st.bubble = true
		st.tell()
		report = st.check()
	})
	return report
}

// between lets the simulated time between two statements pass. Other calls proceed meanwhile.
func between() { time.Sleep(time.Millisecond) } // the bubble's clock, not the machine's

// These stores have faults that only concurrent callers can see.
type (
	workflowsOneByOne  struct{ *model.Store }
	pauseWrittenLater  struct{ *model.Store }
	removalWrittenLate struct{ *model.Store }
	deletedLate        struct{ *model.Store }
	lockLooksFirst     struct{ *model.Store }
	compareLooksFirst  struct{ *model.Store }
	cancelLooksFirst   struct{ *model.Store }
	stepsInTwo         struct{ *model.Store }
	inboxInTwo         struct{ *model.Store }
	firingsInTwo       struct{ *model.Store }
	signalLooksFirst   struct{ *model.Store }
	claimReadsLater    struct{ *model.Store }
	unpinWrittenLater  struct{ *model.Store }
	canceledOneByOne   struct{ *model.Store }
)

func (s canceledOneByOne) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	var out []store.ControlResult
	for _, id := range p.IDs {
		one := p
		one.IDs = []store.ID{id}
		results, err := s.Store.Cancel(ctx, one)
		if err != nil {
			return nil, err
		}
		out = append(out, results...)
		between()
	}
	return out, nil
}

func (s unpinWrittenLater) Unpin(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
	runs, err := s.Get(ctx, store.GetParams{Namespace: p.Namespace, IDs: p.IDs})
	if err != nil || len(runs) != 1 || runs[0].Pin == nil || runs[0].Status.Final() {
		return s.Store.Unpin(ctx, p)
	}
	go func() {
		between()
		_, _ = s.Store.Unpin(context.WithoutCancel(ctx), p)
	}()
	return []store.ControlResult{{Status: runs[0].Status}}, nil
}

func (s workflowsOneByOne) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	for i := range p.Workflows {
		q := p
		q.Workflows = p.Workflows[i : i+1]
		if err := s.Store.PutWorkflows(ctx, q); err != nil {
			return err
		}
		between()
	}
	return nil
}

func (s pauseWrittenLater) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	go func() {
		between()
		_ = s.Store.PauseTarget(context.WithoutCancel(ctx), p)
	}()
	return nil
}

func (s removalWrittenLate) RemoveWorker(ctx context.Context, p store.RemoveWorkerParams) error {
	go func() {
		between()
		_ = s.Store.RemoveWorker(context.WithoutCancel(ctx), p)
	}()
	return nil
}

func (s deletedLate) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	page, err := s.ListSchedules(ctx, store.ListSchedulesParams{Namespace: p.Namespace, Names: []string{p.Name}})
	if err != nil || len(page.Schedules) == 0 {
		return s.Store.DeleteSchedule(ctx, p)
	}
	between()
	_ = s.Store.DeleteSchedule(ctx, p) // which another one may have deleted
	return nil
}

func (s lockLooksFirst) Lock(ctx context.Context, p store.LockParams) (store.LockResult, error) {
	was, err := s.Store.Lock(ctx, store.LockParams{Namespace: p.Namespace, Name: p.Name, Owner: "nobody", Now: p.Now})
	if err != nil || was.Owner != "" || p.For == 0 {
		return s.Store.Lock(ctx, p)
	}
	between()
	if _, err := s.Store.Lock(ctx, p); err != nil {
		return store.LockResult{}, err
	}
	return store.LockResult{Held: true, Owner: p.Owner, Until: p.Now.Add(p.For)}, nil
}

func (s compareLooksFirst) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	held, err := s.GetState(ctx, store.GetStateParams{Namespace: p.Namespace, Run: p.Run})
	p.Writes = slices.Clone(p.Writes)
	for i, w := range p.Writes {
		version := int64(0)
		for _, e := range held {
			if e.Key == w.Key {
				version = e.Version
			}
		}
		if err != nil || w.IfVersion == nil || *w.IfVersion != version {
			return s.Store.SetState(ctx, p)
		}
		p.Writes[i].IfVersion = nil
	}
	between()
	return s.Store.SetState(ctx, p)
}

func (s cancelLooksFirst) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	runs, err := s.Get(ctx, store.GetParams{Namespace: p.Namespace, IDs: p.IDs})
	if err != nil || len(runs) != 1 || runs[0].Status.Final() || len(p.IDs) != 1 {
		return s.Store.Cancel(ctx, p)
	}
	between()
	out, err := s.Store.Cancel(ctx, p)
	if err == nil && out[0].Err != nil {
		out[0] = store.ControlResult{Status: store.Canceling}
	}
	return out, err
}

func (s stepsInTwo) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	before, err := s.Store.Steps(ctx, p)
	if err != nil || len(before.Steps) < 2 {
		return before, err
	}
	between()
	after, err := s.Store.Steps(ctx, p)
	if err == nil && len(after.Steps) > 0 {
		after.Steps = append(before.Steps[:1], after.Steps[1:]...)
	}
	return after, err
}

func (s inboxInTwo) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	before, err := s.Store.Inbox(ctx, p)
	if err != nil {
		return before, err
	}
	between()
	after, err := s.Store.Inbox(ctx, p)
	after.Signals = before.Signals
	return after, err
}

func (s firingsInTwo) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
	page, err := s.ListSchedules(ctx, store.ListSchedulesParams{Namespace: p.Namespace, Names: []string{p.Schedule}})
	if err != nil || len(page.Schedules) == 0 {
		return s.Store.ListFirings(ctx, p)
	}
	between()
	out, err := s.Store.ListFirings(ctx, p)
	if err != nil {
		return store.FiringPage{}, nil // it was there when the schedule was read
	}
	return out, nil
}

func (s signalLooksFirst) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	runs, err := s.Get(ctx, store.GetParams{Namespace: p.Namespace, IDs: []store.ID{p.Signals[0].Run}})
	if err != nil || len(runs) == 0 || runs[0].Status.Final() {
		return s.Store.Signal(ctx, p)
	}
	between()
	out, err := s.Store.Signal(ctx, p)
	if err == nil && out[0].Err != nil {
		out[0] = store.SignalResult{Run: p.Signals[0].Run} // it was there, and stores nothing now
	}
	return out, err
}

func (s claimReadsLater) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	out, err := s.Store.Claim(ctx, p)
	if err != nil || len(out.Runs) == 0 {
		return out, err
	}
	between()
	for i := range out.Runs {
		in, err := s.Inbox(ctx, store.InboxParams{Namespace: p.Namespace, Run: out.Runs[i].Run.ID})
		if err != nil {
			return store.Claimed{}, err
		}
		out.Runs[i].Inbox.Signals, out.Runs[i].Inbox.State = in.Signals, in.State
	}
	return out, nil
}

// claimReadsPausesFirst is not faulty: a claim may see what was paused when it began.
type claimReadsPausesFirst struct {
	*model.Store
	differed *atomic.Int64 // claims whose answer depended on it
}

func (s claimReadsPausesFirst) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	o := &orders{story: &story{ctx: ctx}}
	paused := func() (list []store.PauseTargetParams) {
		page, _ := s.ListPaused(ctx, store.ListPausedParams{Namespace: p.Namespace})
		for _, is := range page.Paused {
			list = append(list, store.PauseTargetParams{Namespace: p.Namespace, Queue: is.Queue, Workflow: is.Workflow, Now: is.Since})
		}
		return list
	}
	was := paused()
	between()
	is := paused()
	other, _ := s.Copy().Claim(ctx, p)
	o.flip(s.Store, is)
	o.flip(s.Store, was)
	out, err := s.Store.Claim(ctx, p)
	o.flip(s.Store, was)
	o.flip(s.Store, is)
	if len(out.Runs) != len(other.Runs) {
		s.differed.Add(1)
	}
	return out, err
}

// A claim that is in progress while a target is paused or resumed may go either way.
func TestFocusesAllowClaimsThatReadPausesFirst(t *testing.T) {
	f := focuses[slices.IndexFunc(focuses, func(f focus) bool { return f.name == "pause" })]
	var differed atomic.Int64
	for seed := range uint64(300) {
		if report := storyOf(t, func(m *model.Store) store.Store { return claimReadsPausesFirst{m, &differed} }, f, seed); report != "" {
			t.Fatalf("seed %d: %s", seed, report)
		}
	}
	if differed.Load() == 0 {
		t.Error("no claim depended on when it read what is paused")
	}
}

// A purge may leave a run that a claim holds locked although the claim returns without it: another
// call changed the run after the claim had chosen it.
func TestPurgeBesideAClaimThatReturnsNothing(t *testing.T) {
	call := func(client int, verb, saw string, from, to int64) event {
		return event{client: client, op: ops.Operation{Verb: verb}, saw: saw, from: from, to: to}
	}
	claim, purge := call(1, "Claim", "{}", 1, 6), call(3, "Purge", "0", 4, 5)
	commit, later, own := call(2, "Commit", "", 2, 3), call(2, "Commit", "", 7, 8), call(3, "Commit", "", 2, 3)
	for _, c := range []struct {
		name   string
		events []event
		proves bool
	}{
		{"alone", []event{purge}, true},
		{"beside a claim that no write meets", []event{claim, purge}, true},
		{"beside a claim that ends before the write", []event{claim, purge, later}, true},
		{"after a write", []event{commit, purge}, true},
		{"beside a claim that meets a write", []event{claim, commit, purge}, false},
		{"beside a claim that meets the client's own write", []event{claim, own, purge}, false},
		{"beside a read", []event{call(1, "Get", "", 1, 6), commit, purge}, true},
	} {
		if got := slices.ContainsFunc(conclusive(c.events), func(e event) bool { return e.op.Verb == "Purge" }); got != c.proves {
			t.Errorf("a purge %s proves something: %v, want %v", c.name, got, c.proves)
		}
	}
}

// at returns a function that sends a call and says when it was in progress.
func (st *story) at(s store.Store) func(client int, op ops.Operation, from, to int64) event {
	return func(client int, op ops.Operation, from, to int64) event {
		e := st.send(client, s, op)[0]
		e.from, e.to = from, to
		return e
	}
}

// A claim may return a run behind another one that a call has locked at the same time.
func TestClaimBesideALockedRun(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int64 // of the call that locks kid1; the claim is in progress from 10 to 20
		fits     bool
	}{
		{"at the same time", 12, 18, true},
		{"after the claim", 21, 25, false},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			m, st := twoKids(t)
			call := st.at(m)
			m.OfferOnly([]store.ID{st.id("kid2")})
			claim := call(1, st.claim("kid1", "w1"), 10, 20)
			m.OfferOnly(nil)
			if len(claim.took) != 1 || claim.took[0] != st.id("kid2") {
				t.Fatalf("the claim returned %s, expected kid2", claim.saw)
			}
			// A signal leaves kid1 first in line, so that no order of the two calls explains the claim.
			signal := call(2, st.signal(store.NewSignal{Run: st.id("kid1"), ID: st.signalID(1)}), c.from, c.to)
			st.rounds = append(st.rounds, []event{claim, signal})
			st.alone([]ops.Operation{st.claim("kid1", "w2")})
			if report := st.check(); (report == "") != c.fits {
				t.Errorf("the story fits: %v, want %v\n%s", report == "", c.fits, report)
			}
		})
	}
}

// twoKids begins a story with two runs, kid1 and kid2, of one lane.
func twoKids(t *testing.T) (*model.Store, *story) {
	m := model.New(model.Options{})
	st := newStory(t.Context(), focus{}, [2]store.Store{m, m}, "ns", 1)
	first, second := st.newRun("kid1"), st.newRun("kid2")
	second.Queue, second.Workflow = first.Queue, first.Workflow
	st.alone([]ops.Operation{st.create(first, second)})
	return m, st
}

// A purge of several runs may leave one that a call has locked at the same time, and does not say which.
func TestPurgeBesideALockedRun(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int64  // of the call that locks kid1; the purge is in progress from 10 to 20
		left     string // by the purge, as a later call sees it
		fits     bool
	}{
		{"at the same time", 12, 18, "kid1", true},
		{"after the purge", 21, 25, "kid1", false},
		{"but more is gone", 12, 18, "", false},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			m, st := twoKids(t)
			st.alone([]ops.Operation{st.cancel(true, "kid1", "kid2")})
			call := st.at(m)
			cancel := call(2, st.cancel(true, "kid1"), c.from, c.to)
			m.OfferOnly([]store.ID{st.id("kid2")})
			purge := call(1, st.purge("kid1"), 10, 20)
			m.OfferOnly(nil)
			if purge.saw != "1" {
				t.Fatalf("the purge deleted %s, expected one run", purge.saw)
			}
			st.rounds = append(st.rounds, []event{purge, cancel})
			if c.left == "" {
				st.send(0, m, st.purge("kid1"))
			}
			st.alone([]ops.Operation{st.get("kid1", "kid2")})
			if report := st.check(); (report == "") != c.fits {
				t.Errorf("the story fits: %v, want %v\n%s", report == "", c.fits, report)
			}
		})
	}
}

// The check can fail: in every run, the story of one of these seeds finds each fault.
func TestFocusesFindFaults(t *testing.T) {
	faults := map[string]struct {
		focus string
		wrap  func(*model.Store) store.Store
	}{
		"limit permits one more":     {"limit", func(m *model.Store) store.Store { m.BreakLimits(model.LimitOneMore); return m }},
		"limit as it was set before": {"limit", func(m *model.Store) store.Store { m.BreakLimits(model.LimitIgnoresSet); return m }},
		"begun run replaced":         {"debounce", func(m *model.Store) store.Store { m.BreakDebounce(model.DebounceReplacesBegun); return m }},
		"replaced start forgotten":   {"debounce", func(m *model.Store) store.Store { m.BreakDebounce(model.DebounceForgetsStarts); return m }},
		"workflows put one by one":   {"registry", func(m *model.Store) store.Store { return workflowsOneByOne{m} }},
		"pause written later":        {"pause", func(m *model.Store) store.Store { return pauseWrittenLater{m} }},
		"worker removed later":       {"registry", func(m *model.Store) store.Store { return removalWrittenLate{m} }},
		"schedule deleted twice":     {"schedules", func(m *model.Store) store.Store { return deletedLate{m} }},
		"lock looks first":           {"registry", func(m *model.Store) store.Store { return lockLooksFirst{m} }},
		"compare looks first":        {"state", func(m *model.Store) store.Store { return compareLooksFirst{m} }},
		"cancel looks first":         {"tree", func(m *model.Store) store.Store { return cancelLooksFirst{m} }},
		"steps read in two":          {"fork", func(m *model.Store) store.Store { return stepsInTwo{m} }},
		"inbox read in two":          {"commit", func(m *model.Store) store.Store { return inboxInTwo{m} }},
		"firings of a gone schedule": {"schedules", func(m *model.Store) store.Store { return firingsInTwo{m} }},
		"signal looks first":         {"mail", func(m *model.Store) store.Store { return signalLooksFirst{m} }},
		"canceled one by one":        {"lists", func(m *model.Store) store.Store { return canceledOneByOne{m} }},
		"unpin written later":        {"pins", func(m *model.Store) store.Store { return unpinWrittenLater{m} }},
		"claim reads a later inbox":  {"mail", func(m *model.Store) store.Store { return claimReadsLater{m} }},
	}
	for name, focus := range map[string]string{
		"restart-of-a-purged-run": "restart", "purge-of-a-restarted-run": "restart", "restart-clears-the-failure-later": "restart",
		"restart-overlooks-a-create": "names", "create-overlooks-a-restart": "names", "import-overlooks-a-create": "names", "find-of-two-moments": "names",
		"fire-of-a-deleted-schedule": "schedules", "fire-undoes-a-put": "schedules", "schedule-deleted-and-put": "schedules", "run-before-its-firing": "schedules",
		"fork-without-its-steps-first": "fork", "forked-twice-at-once": "fork", "fork-of-a-purged-run": "fork",
		"imported-twice-at-once": "import", "import-onto-a-created-run": "import", "import-without-its-steps-first": "import",
		"tree-canceled-level-by-level": "tree", "children-of-a-canceled-run": "tree", "pause-of-a-run-that-was-leased": "pause", "asked-twice-at-once": "registry",
		"get-of-two-moments": "tree", "page-of-two-moments": "lists", "page-status-by-status": "lists", "count-status-by-status": "lists", "batch-made-run-by-run": "lists",
		"start-signal-by-a-look-first": "reach", "start-signal-in-two-writes": "reach", "start-signal-makes-a-second-run": "reach", "start-signal-lost-on-a-run": "reach",
		"start-signal-repeated-to-the-next-run": "reach", "answer-of-an-earlier-moment": "reach", "end-drops-answers": "reach",
		"signals-consumed-behind-their-commit": "commit", "children-before-their-commit": "commit", "state-set-key-by-key": "state",
	} {
		f := faults[name]
		f.focus, f.wrap = focus, suitetest.ByName(t, name).Wrap
		faults[name] = f
	}
	for name, fault := range faults {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			f := focuses[slices.IndexFunc(focuses, func(f focus) bool { return f.name == fault.focus })]
			for seed := range uint64(focusSeeds) {
				if report := storyOf(t, fault.wrap, f, seed); report != "" {
					t.Logf("seed %d: %s", seed, report)
					return
				}
			}
			t.Errorf("%d stories of %s saw no fault", focusSeeds, f.name)
		})
	}
}

// focusSeeds is the number of stories within which a fault must be found.
const focusSeeds = 150

// The same stories find nothing in the model.
func TestFocusesFindNothingInTheModel(t *testing.T) {
	for _, f := range focuses {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				if report := storyOf(t, mutant.None().Wrap, f, seed); report != "" {
					t.Fatalf("seed %d: %s", seed, report)
				}
			}
		})
	}
}
