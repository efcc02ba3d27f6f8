package model

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (s *Store) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	out := make([]store.SignalResult, len(p.Signals))
	for i := range p.Signals {
		var stored bool
		out[i].Run, stored, out[i].Err = s.signal(p.Namespace, &p.Signals[i], now)
		if !stored || len(p.Record) == 0 {
			continue
		}
		a := p.Record[i]
		if a.Run.IsZero() {
			a.Run = out[i].Run
		}
		s.note(p.Namespace, []store.Action{a}, 0, true, now)
	}
	return out, nil
}

// signal says whether it has stored the signal.
func (s *Store) signal(namespace string, n *store.NewSignal, now time.Time) (store.ID, bool, error) {
	if err := n.Validate(s.limits); err != nil {
		return store.ID{}, false, err
	}
	id := n.Run
	if n.ExternalID != "" {
		if r := s.lastWith(namespace, n.ExternalID, n.Suffix, func(r *run) bool { return r.had[n.ID] }); r != nil {
			return r.ID, false, nil // P4, also when that run has ended and another one holds the external id
		}
		var ok bool
		if id, ok = s.holders[external{namespace, n.ExternalID, n.Suffix}]; !ok {
			return store.ID{}, false, fmt.Errorf("active run of external id %q, suffix %q: %w", n.ExternalID, n.Suffix, store.ErrNotFound)
		}
	}
	r := s.find(namespace, id)
	switch {
	case r == nil:
		return store.ID{}, false, notFound(id)
	case r.had[n.ID]: // P4, also when the run has ended since
		return r.ID, false, nil
	case r.Status.Final():
		return store.ID{}, false, finished(r)
	}
	s.receive(r, n.ID, n.Name, n.Payload, now)
	s.stirred(r, store.WakeSignal, now)
	return r.ID, true, nil
}

// stirred handles an event of a kind that a sleeping run may wait for.
func (s *Store) stirred(r *run, by store.WakeOn, now time.Time) {
	if r.asleep() && r.wakes&by != 0 {
		s.wake(r, now)
	}
	s.hintRun(store.HintEvent, r)
}
