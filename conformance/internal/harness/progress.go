package harness

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/faults"
	"github.com/pawlhq/pawl/conformance/internal/relay"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/store"
)

// Met is what a case has met of verbs that are not written yet.
type Met struct {
	Rec   *runner.Recorder
	All   bool // every verb is noted, not just those that are not written
	mu    sync.Mutex
	verbs []string
	sound bool // the case had not failed when it met the first
}

// Note remembers a verb that is not written.
func (m *Met) Note(verb string, err error) {
	if !m.All && !errors.Is(err, store.ErrUnsupported) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.verbs) == 0 {
		m.sound = m.Rec == nil || !m.Rec.Failed()
	}
	if !slices.Contains(m.verbs, verb) {
		m.verbs = append(m.verbs, verb)
	}
}

// Waits lists the verbs, if what the case says of the backend is due to them alone.
func (m *Met) Waits() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.sound {
		return nil
	}
	return slices.Clone(m.verbs)
}

// Probed is the harness with stores that note which verbs are not written.
func (h Harness) Probed(m *Met) Harness {
	p := h
	p.New = func(t testing.TB) store.Store { return NewVerbProbe(h.New(t), m) }
	if h.Reopen != nil {
		p.Reopen = func(t testing.TB, s store.Store) store.Store {
			return NewVerbProbe(h.Reopen(t, s.(*VerbProbe).Store), m)
		}
	}
	if h.Rewind != nil {
		p.Rewind = func(t testing.TB, s store.Store) func() { return h.Rewind(t, s.(*VerbProbe).Store) }
	}
	if h.Restart != nil {
		p.Restart = func(t testing.TB, s store.Store) store.Store {
			return NewVerbProbe(h.Restart(t, s.(*VerbProbe).Store), m)
		}
	}
	if h.Faults != nil {
		p.Faults = func(t testing.TB, s store.Store) faults.Store {
			f := h.Faults(t, s.(*VerbProbe).Store)
			f.Store = NewVerbProbe(f.Store, m)
			return f
		}
	}
	p.Transactions = slices.Clone(h.Transactions)
	for i, kind := range h.Transactions {
		if kind.Begin != nil {
			p.Transactions[i].Begin = func(ctx context.Context, s store.Store) (ProgramTx, error) {
				return kind.Begin(ctx, s.(*VerbProbe).Store)
			}
		}
		p.Transactions[i].Marked = func(ctx context.Context, s store.Store, marker string) (int, error) {
			return kind.Marked(ctx, s.(*VerbProbe).Store, marker)
		}
	}
	return p
}

// InProgress runs a case of a backend that is being written, or leaves it waiting for
// verbs that are not written.
func InProgress(t testing.TB, h Harness, name string, excepted bool, run func(rec testing.TB, m *Met)) {
	t.Helper()
	rec := &runner.Recorder{TB: t}
	m := &Met{Rec: rec}
	rec.Do(func() { run(rec, m) })
	verbs := m.Waits()
	switch {
	case len(verbs) > 0:
		h.Tier.Wait(name, verbs)
		t.Skipf("not run: it waits for %s", strings.Join(verbs, ", ")) // only in Harness.Progress, and counted in the summary
	case excepted:
		MustFail(t, h, rec, name)
	case rec.Failed():
		t.Fatal(rec.Text())
	case rec.Skipped():
		t.Skip(rec.Text()) // what the case itself has said
	case rec.Text() != "":
		t.Log(rec.Text())
	}
}

// WaitsWholly leaves out a case in which engine and worker work on the store, as long as
// a verb is not written: they try again, each at its own pace, what fails.
func (h Harness) WaitsWholly(t testing.TB, s store.Store, name string) {
	t.Helper()
	if verbs := UnwrittenVerbs(t.Context(), s); len(verbs) > 0 {
		h.Tier.Wait(name, verbs)
		t.Skipf("not run: it waits for %s", strings.Join(verbs, ", ")) // only in Harness.Progress, and counted in the summary
	}
}

// UnwrittenVerbs lists the verbs that are not written: those that find nothing else wrong with
// a request in which everything is.
func UnwrittenVerbs(ctx context.Context, s store.Store) []string {
	m := &Met{}
	p := NewVerbProbe(s, m)
	_, _ = p.Create(ctx, store.CreateParams{})
	_, _ = p.Get(ctx, store.GetParams{})
	_, _ = p.Find(ctx, store.FindParams{})
	_, _ = p.List(ctx, store.ListParams{})
	_, _ = p.Count(ctx, store.CountParams{})
	_, _ = p.Children(ctx, store.ChildrenParams{})
	_, _ = p.Steps(ctx, store.StepsParams{})
	_, _ = p.Cancel(ctx, store.CancelParams{})
	_, _ = p.Pause(ctx, store.PauseParams{})
	_, _ = p.Restart(ctx, store.RestartParams{})
	_, _ = p.Fork(ctx, store.ForkParams{})
	_, _ = p.Purge(ctx, store.PurgeParams{})
	_, _ = p.Claim(ctx, store.ClaimParams{})
	_, _ = p.Extend(ctx, store.ExtendParams{})
	_, _ = p.Commit(ctx, store.CommitParams{})
	_, _ = p.Signal(ctx, store.SignalParams{})
	_, _ = p.SetState(ctx, store.SetStateParams{})
	_, _ = p.GetState(ctx, store.GetStateParams{})
	_, _ = p.Inbox(ctx, store.InboxParams{})
	_, _ = p.Answers(ctx, store.AnswersParams{})
	_ = p.PutWorker(ctx, store.PutWorkerParams{})
	_ = p.RemoveWorker(ctx, store.RemoveWorkerParams{})
	_, _ = p.ListWorkers(ctx, store.ListWorkersParams{})
	_, _ = p.ListBuilds(ctx, store.ListBuildsParams{})
	_, _ = p.Unpin(ctx, store.UnpinParams{})
	_, _ = p.AskWorkers(ctx, store.AskWorkersParams{})
	_ = p.PutWorkflows(ctx, store.PutWorkflowsParams{})
	_, _ = p.ListWorkflows(ctx, store.ListWorkflowsParams{})
	_ = p.PauseTarget(ctx, store.PauseTargetParams{})
	_, _ = p.ListPaused(ctx, store.ListPausedParams{})
	_, _ = p.Lock(ctx, store.LockParams{})
	_, _ = p.PutSchedule(ctx, store.PutScheduleParams{})
	_ = p.DeleteSchedule(ctx, store.DeleteScheduleParams{})
	_, _ = p.ListSchedules(ctx, store.ListSchedulesParams{})
	_, _ = p.Fire(ctx, store.FireParams{})
	_, _ = p.ListFirings(ctx, store.ListFiringsParams{})
	_ = p.PutLimits(ctx, store.PutLimitsParams{})
	_ = p.SetLimit(ctx, store.SetLimitParams{})
	_, _ = p.ListLimits(ctx, store.ListLimitsParams{})
	_, _ = p.LimitKeys(ctx, store.LimitKeysParams{})
	_ = p.SetWeight(ctx, store.SetWeightParams{})
	return m.Waits()
}

// VerbProbe is a store under way. It has all optional interfaces; a verb of one that the
// store does not implement is one that is not written.
type VerbProbe struct {
	relay.Relay
	met *Met
}

// NewVerbProbe notes the verbs of s that are not written. Those that s lacks are as good as not written.
func NewVerbProbe(s store.Store, m *Met, lacks ...string) *VerbProbe {
	p := &VerbProbe{met: m}
	p.Store = s
	p.Pass = func(_ context.Context, verb string, _ any, call func() error) error {
		if slices.Contains(lacks, verb) {
			return p.unwritten(verb)
		}
		err := call()
		m.Note(verb, err)
		return err
	}
	return p
}

// unwritten answers for a verb that the store does not implement.
func (s *VerbProbe) unwritten(verb string) error {
	err := relay.Unsupported(verb)
	s.met.Note(verb, err)
	return err
}

func (s *VerbProbe) Hints(ctx context.Context, topics ...store.HintTopic) (<-chan []store.Hint, error) {
	h, ok := s.Store.(store.Hinter)
	if !ok {
		return nil, s.unwritten("Hints")
	}
	ch, err := h.Hints(ctx, topics...)
	s.met.Note("Hints", err)
	return ch, err
}

// Join, Begin and Recorded answer with ErrUnsupported for a type that the backend does
// not offer, too: that is not noted.
func (s *VerbProbe) Join(tx store.Tx) (store.Store, error) {
	if t, ok := s.Store.(store.Transactor); ok {
		return t.Join(tx)
	}
	return nil, s.unwritten("Join")
}

func (s *VerbProbe) Begin(ctx context.Context, target any) (store.Transaction, error) {
	if t, ok := s.Store.(store.Transactor); ok {
		return t.Begin(ctx, target)
	}
	return nil, s.unwritten("Begin")
}

func (s *VerbProbe) Recorded(ctx context.Context, namespace string, lease store.Lease, seq int64) (bool, error) {
	if t, ok := s.Store.(store.Transactor); ok {
		return t.Recorded(ctx, namespace, lease, seq)
	}
	return false, s.unwritten("Recorded")
}
