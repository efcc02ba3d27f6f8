package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (s *Store) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	do := func(r *run, now time.Time) {
		if p.Force {
			s.force(r, p.Reason, now)
		} else {
			s.cancel(r, p.Reason, now)
		}
	}
	changes := func(r *run) bool { return !r.Status.Final() && (p.Force || r.Status != store.Canceling) }
	return s.control(ctx, p.Validate(), call{p.Namespace, p.IDs, p.Now, p.Record}, do, changes, store.Canceled)
}

// call is what the calls on runs have in common.
type call struct {
	namespace string
	ids       []store.ID
	now       time.Time
	record    []store.Action
}

// control applies do to each run that is not final. A final run is an error, unless it has the
// status that do would give it. changes says whether do changes a run.
func (s *Store) control(ctx context.Context, invalid error, p call, do func(*run, time.Time), changes func(*run) bool, goal store.Status) ([]store.ControlResult, error) {
	if err := s.enter(ctx, invalid); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.now)
	changed := make([]bool, len(p.ids)) // by the call: an item may change the run of a later one
	for i, id := range p.ids {
		r := s.find(p.namespace, id)
		changed[i] = r != nil && changes(r)
	}
	out := make([]store.ControlResult, len(p.ids))
	for i, id := range p.ids {
		r := s.find(p.namespace, id)
		switch {
		case r == nil:
			out[i].Err = notFound(id)
			continue
		case !r.Status.Final():
			s.ended = nil
			do(r, now)
			out[i].Ended = s.ended
		case r.Status != goal:
			out[i].Err = finished(r)
		}
		if out[i].Status = r.Status; out[i].Err == nil {
			s.note(p.namespace, p.record, i, changed[i], now)
		}
	}
	return out, nil
}

// force ends a run, whoever holds it.
func (s *Store) force(r *run, reason string, now time.Time) {
	if r.leased() {
		if len(r.Under)+len(r.StepUnder) > 0 {
			s.hintFreed(r)
		}
		if s.breaks == LimitLeaksForce {
			s.leak(r, 1)
		}
		r.holder, r.seq, r.Worker = "", 0, ""
		r.Epoch++
		s.hintRun(store.HintEvent, r) // its holder is to learn that it is none
	}
	r.Failure = &store.Failure{Code: store.FailureCanceled, Message: reason}
	s.ended = store.Tally(s.ended, r.Queue, r.Workflow, store.Canceled, 1)
	s.finish(r, store.Canceled, now)
}

// cancel cancels a run and the children that follow it (P11). A run that is canceling or final does
// not change.
func (s *Store) cancel(r *run, reason string, now time.Time) {
	switch {
	case r.Status.Final() || r.Status == store.Canceling:
	case r.leased() || r.hasBegun():
		if !r.leased() {
			r.VisibleAt = earliest(r.VisibleAt, now)
			r.wakes, r.awaits, r.resume, r.StepUnder = 0, nil, 0, nil
		}
		s.become(r, store.Canceling, now)
		r.Pausing = false // its end comes before a pause
		r.Failure = &store.Failure{Code: store.FailureCanceled, Message: reason}
		r.Events++
		s.hintRun(store.HintEvent, r)
		if !r.leased() {
			s.hintDue(r)
		}
		s.closeChildren(r, now)
	default:
		r.Failure = &store.Failure{Code: store.FailureCanceled, Message: reason}
		s.ended = store.Tally(s.ended, r.Queue, r.Workflow, store.Canceled, 1)
		s.finish(r, store.Canceled, now)
	}
}

// hasBegun reports whether the run may have something to clean up.
func (r *run) hasBegun() bool { return !r.StartedAt.IsZero() && len(r.steps) > 0 }

func (s *Store) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	do, changes := s.pause, func(r *run) bool {
		return r.Status == store.Pending || r.Status == store.Sleeping || r.Status == store.Running && !r.Pausing
	}
	if p.Resume {
		do, changes = s.resume, func(r *run) bool { return r.Status == store.Paused || r.Pausing }
	}
	return s.control(ctx, p.Validate(), call{p.Namespace, p.IDs, p.Now, p.Record}, do, changes, store.Paused)
}

func (s *Store) pause(r *run, now time.Time) {
	switch r.Status {
	case store.Pending, store.Sleeping:
		r.resume = r.Status
		s.become(r, store.Paused, now)
	case store.Running:
		r.Pausing = true
		s.hintRun(store.HintEvent, r) // not an event, but its holder wants to know
	}
	// A canceling run is not paused: it must end.
}

func (s *Store) resume(r *run, now time.Time) {
	r.Pausing = false
	if r.Status == store.Paused {
		s.become(r, r.resume, now)
		r.resume = 0
		s.hintDue(r)
	}
}

func (s *Store) Unpin(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	out := make([]store.ControlResult, len(p.IDs))
	for i, id := range p.IDs {
		r := s.find(p.Namespace, id)
		switch {
		case r == nil:
			out[i].Err = notFound(id)
			continue
		case r.Status.Final():
			out[i].Err = finished(r)
		case r.Pin == nil:
			out[i].Err = store.NotPinned(id, r.Status)
		default:
			if r.Pin = nil; !r.leased() {
				s.hintDue(r)
			}
			s.note(p.Namespace, p.Record, i, true, now)
		}
		out[i].Status = r.Status
	}
	return out, nil
}

func clonePin(p *store.Pin) *store.Pin {
	if p == nil {
		return nil
	}
	pin := *p
	return &pin
}

func (s *Store) Restart(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	out := make([]store.ControlResult, len(p.IDs))
	for i, id := range p.IDs {
		r := s.find(p.Namespace, id)
		if r == nil {
			out[i].Err = notFound(id)
			continue
		}
		if out[i].Err = s.restart(r, now); out[i].Err == nil {
			s.note(p.Namespace, p.Record, i, true, now)
		}
		out[i].Status = r.Status
	}
	return out, nil
}

func (s *Store) restart(r *run, now time.Time) error {
	if r.Status != store.Failed && r.Status != store.Canceled {
		return fmt.Errorf("run %s is %v; only a failed or canceled run can be restarted: %w", r.ID, r.Status, store.ErrConflict)
	}
	if r.ExternalID != "" {
		key := external{r.Namespace, r.ExternalID, r.Suffix}
		if id, taken := s.holders[key]; taken && id != r.ID {
			return fmt.Errorf("run %s holds external id %q: %w", id, r.ExternalID, store.ErrAlreadyExists)
		}
		s.holders[key] = r.ID
	}
	s.live[r.ID] = r
	s.become(r, store.Pending, now)
	r.VisibleAt, r.FinishedAt = now, time.Time{}
	r.Deadline = time.Time{}
	r.Attempt, r.Crashes, r.charged = 1, 0, false
	r.Output, r.Failure, r.Pin = nil, nil, nil
	r.Epoch++
	r.Worker, r.holder, r.seq, r.ended = "", "", 0, false
	r.Group, r.Ordinal = "", 0 // it was counted when it ended
	r.forget()
	s.hintDue(r)
	return nil
}

func (s *Store) Fork(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return store.CreateResult{}, err
	}
	defer s.mu.Unlock()
	if r := s.runs[p.New]; r != nil {
		if r.Namespace != p.Namespace {
			return store.CreateResult{}, fmt.Errorf("run %s: %w", p.New, store.ErrAlreadyExists)
		}
		return store.CreateResult{ID: p.New, Created: true, Repeated: true}, nil // P4, even if the old run is gone
	}
	old := s.find(p.Namespace, p.ID)
	if old == nil {
		return store.CreateResult{}, notFound(p.ID)
	}
	before := int64(math.MaxInt64)
	if p.Before != nil {
		i := old.step(*p.Before)
		if i < 0 {
			return store.CreateResult{}, fmt.Errorf("step %q of run %s: %w", p.Before, old.ID, store.ErrNotFound)
		}
		before = old.steps[i].Position
	}
	r := s.insert(p.Namespace, &store.NewRun{
		ID: p.New, Workflow: old.Workflow, Queue: old.Queue, Priority: old.Priority, Input: old.Input, Meta: old.Meta, Under: old.Under, Tags: old.Tags,
	}, clock(p.Now))
	s.note(p.Namespace, p.Record, 0, true, clock(p.Now))
	r.ForkedFrom, r.Build = old.ID, old.Build
	for _, st := range old.steps {
		if st.Status == store.StepCompleted && st.Position < before {
			r.steps = append(r.steps, cloneStep(st))
		}
	}
	s.hintDue(r)
	return store.CreateResult{ID: r.ID, Created: true}, nil
}

func (s *Store) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	until := now.Add(-whole(p.OlderThan))
	var old []*run
	for _, r := range s.runs {
		if r.Namespace == p.Namespace && r.Status.Final() && oneOf(p.Statuses, r.Status) && (s.offered == nil || slices.Contains(s.offered, r.ID)) &&
			(p.Workflow == "" || r.Workflow == p.Workflow) && !r.FinishedAt.After(until) && s.live[r.Parent] == nil && !s.inTree(r) {
			old = append(old, r)
		}
	}
	slices.SortFunc(old, func(a, b *run) int {
		return cmp.Or(a.FinishedAt.Compare(b.FinishedAt), compareIDs(a.ID, b.ID))
	})
	old = old[:min(len(old), cmp.Or(p.Limit, 1000))]
	for _, r := range old {
		delete(s.runs, r.ID)
		if r.ExternalID != "" && r.Reuse == store.ReuseNever {
			delete(s.holders, external{r.Namespace, r.ExternalID, r.Suffix})
		}
		maps.DeleteFunc(s.debounced, func(_ debounceKey, id store.ID) bool { return id == r.ID })
		maps.DeleteFunc(s.replaced, func(_ name, start replacement) bool { return start.run == r.ID })
		siblings := s.children[r.Parent]
		if i := slices.Index(siblings, r.ID); i >= 0 {
			s.children[r.Parent] = slices.Delete(siblings, i, i+1)
		}
	}
	s.note(p.Namespace, p.Record, 0, len(old) > 0, now)
	return len(old), nil
}
