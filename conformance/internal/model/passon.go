package model

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// endLease makes a transition, and passes the permits of the run on if it asks for that.
func (s *Store) endLease(r *run, t *store.Transition, unseen bool, now time.Time) *store.ClaimedRun {
	if t == nil {
		return nil
	}
	plain := len(r.StepUnder) == 0 // the permits of a step end
	s.transition(r, t, unseen, now)
	if t.PassOn == 0 || !plain {
		return nil
	}
	return s.passOn(r, t, now)
}

// passOn leases the next run of the flow of a run that has ended, in its place (P21). It passes permits on whenever
// the contract permits it, with one exception: it takes each claimable run of another flow that has one of the keys
// for one that a claim has left.
func (s *Store) passOn(ended *run, t *store.Transition, now time.Time) *store.ClaimedRun {
	if len(ended.Under) == 0 && s.breaks != PassWithoutLimits {
		return nil
	}
	s.at = now
	s.countPermits()
	defer func() { s.counted = nil }()
	next := s.heir(ended, now)
	if next == nil || !s.passing.take(next.claimBytes()) && s.breaks != PassAnySize {
		return nil
	}
	switch s.breaks {
	case PassLeaks:
		s.leak(next, 1)
	case PassUncounted:
		s.leak(next, -1)
	}
	span := t.PassOn
	if s.breaks == PassShort {
		span /= 2
	}
	ended.passed = next.lease(ended.holder, ended.build, span, now)
	next.claim = 0
	return s.passedTo(next, ended.passed)
}

// passedAgain returns the run that a repeated commit has passed permits on to, while its lease is valid (P4).
func (s *Store) passedAgain(ended *run, c *store.Commit, now time.Time) *store.ClaimedRun {
	if c.Transition == nil || c.Transition.PassOn == 0 {
		return nil
	}
	if s.breaks == PassTwice {
		return s.passOn(ended, c.Transition, now)
	}
	r := s.runs[ended.passed.Run]
	valid := r != nil && r.leased() && r.Epoch == ended.passed.Epoch && r.VisibleAt.After(now)
	switch {
	case s.breaks == PassForgets, r == nil, !valid && s.breaks != PassStale:
		return nil
	}
	return s.passedTo(r, ended.passed)
}

// passedTo is a run that has got permits, as a claim returns it.
func (s *Store) passedTo(r *run, lease store.Lease) *store.ClaimedRun {
	steps, signals, state := &bound{left: store.DefaultClaimBytes}, &bound{left: store.DefaultClaimBytes}, &bound{left: store.DefaultClaimBytes}
	c := store.ClaimedRun{Run: r.row(), Lease: lease, Recovered: r.Crashes > 0, Inbox: r.inbox(&store.InboxParams{}, signals, state)}
	c.Steps, c.MoreSteps = upTo(r.steps, store.MaxPage, steps, stepBytes, cloneStep)
	return &c
}

// heir returns the run to which an ended one may pass its permits on; nil: there is none.
func (s *Store) heir(ended *run, now time.Time) *run {
	pin := ended.PinnedTo()
	if s.held(ended) && s.breaks != PassIgnoresPause || pin != "" && pin != ended.build && s.breaks != PassAnyBuild {
		return nil
	}
	for _, u := range ended.Under {
		rule := s.rule(ended.Namespace, u.Limit)
		if rule.Every() > 0 && s.breaks != PassIgnoresRate || rule.Fair && s.breaks != PassIgnoresFair {
			return nil
		}
	}
	var flow []*run
	for _, r := range s.live {
		switch {
		case r.Namespace != ended.Namespace || r.leased() || r.Status == store.Paused || r.VisibleAt.IsZero() || r.VisibleAt.After(now) && s.breaks != PassEarly:
		case s.sameFlow(r, ended):
			flow = append(flow, r)
		case s.contends(r, ended) && s.breaks != PassJumpsFlows:
			return nil
		}
	}
	if len(flow) == 0 {
		return nil
	}
	slices.SortFunc(flow, before)
	if s.breaks == PassUnordered {
		slices.Reverse(flow)
	}
	if i := slices.IndexFunc(flow, (*run).fresh); i > 0 && s.breaks == PassOvertakes {
		flow = flow[i:]
	}
	r := flow[0]
	if !r.fresh() && s.breaks != PassHistory || s.full(r) && s.breaks != PassIgnoresLowered && s.breaks != PassTwice && s.breaks != PassZombie {
		return nil
	}
	return r
}

// sameFlow reports whether a waiting run differs from one that has ended in nothing that claims distinguish.
func (s *Store) sameFlow(r, ended *run) bool {
	if s.breaks == PassAnyFlow && r.Queue == ended.Queue && slices.Equal(r.demands(), ended.Under) {
		return true
	}
	return r.Queue == ended.Queue && r.Workflow == ended.Workflow && r.Priority == ended.Priority && r.PinnedTo() == ended.PinnedTo() && slices.Equal(r.demands(), ended.Under)
}

// contends reports whether a claim may have left a run because of a key that another one has held.
func (s *Store) contends(r, ended *run) bool {
	return !s.held(r) && slices.ContainsFunc(r.demands(), func(u store.LimitUse) bool {
		return slices.ContainsFunc(ended.Under, func(v store.LimitUse) bool { return u.Limit == v.Limit && u.Key == v.Key })
	})
}

// fresh reports whether a run is pending and has nothing that a replay needs.
func (r *run) fresh() bool {
	return r.Status == store.Pending && len(r.steps)+len(r.state)+len(r.signals)+len(r.groups) == 0
}
