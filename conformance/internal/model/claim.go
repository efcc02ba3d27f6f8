package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return store.Claimed{}, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	out := store.Claimed{Now: now}
	asks := func(d store.Demand) bool { return len(d.Workflows) > 0 }
	if w := s.workers[name{p.Namespace, p.Worker}]; w != nil && slices.ContainsFunc(p.Demands, asks) {
		out.Asked = !w.AskedAt.IsZero()
	}
	most := cmp.Or(p.MaxBytes, store.DefaultClaimBytes)
	steps, signals, state := &bound{left: most}, &bound{left: most}, &bound{left: most}
	candidates := s.candidates(&p)
	chosen := s.choose(&p, candidates, now)
	for _, taken := range chosen {
		r := taken.run
		c := store.ClaimedRun{Run: r.row(), Lease: taken.lease, Recovered: r.Crashes > 0}
		if p.Bare {
			omit(&c.Run)
			c.MoreSteps = len(r.steps) > 0
			c.Inbox = store.Inbox{Status: r.Status, Events: r.Events, MoreSignals: true, MoreState: true, MoreGroups: true}
		} else {
			c.Steps, c.MoreSteps = upTo(r.steps, store.MaxPage, steps, stepBytes, cloneStep)
			c.Inbox = r.inbox(&store.InboxParams{}, signals, state)
		}
		out.Runs = append(out.Runs, c)
	}
	s.left(&out, candidates, chosen, p.Wanted() > 0, now)
	return out, nil
}

// chosen is a run that a claim has leased, with its place in the order of P7.
type chosen struct {
	run   *run
	was   run // before
	lease store.Lease
}

// choose leases the runs that the claim takes, or finds those that it took (P4). It returns them in the order of
// P7.
func (s *Store) choose(p *store.ClaimParams, candidates []*run, now time.Time) (out []chosen) {
	runs := &bound{left: cmp.Or(p.MaxBytes, store.DefaultClaimBytes), one: true}
	taken := make([]int, len(p.Demands))
	if p.Again {
		for _, r := range candidates {
			mine := r.leased() && r.VisibleAt.After(now) && r.claim == p.ClaimID && r.Worker == p.Worker
			if d := room(p.Demands, r, taken); mine && len(out) < p.Wanted() && d >= 0 {
				taken[d]++
				out = append(out, chosen{r, *r, store.Lease{Run: r.ID, Worker: p.Worker, Epoch: r.Epoch}})
			}
		}
		return out
	}
	s.at = now
	s.countPermits()
	defer func() { s.counted = nil }()
	if s.breaks == LimitFairForgets {
		clear(s.turns)
		for _, k := range s.keys {
			k.vtime = 0
		}
	}
	rest := slices.DeleteFunc(slices.Clone(candidates), func(r *run) bool { return r.VisibleAt.After(now) })
	for len(out) < p.Wanted() && len(rest) > 0 {
		r := rest[0]
		if room(p.Demands, r, taken) < 0 {
			rest = rest[1:] // for good
			continue
		}
		if slices.ContainsFunc(rest, (*run).waits) {
			r = s.next(slices.DeleteFunc(slices.Clone(rest), func(r *run) bool { return room(p.Demands, r, taken) < 0 }), now)
		}
		if s.breaks == LimitBytesAnew && len(out)%2 == 0 {
			runs.one = true
		}
		if r == nil || !p.Bare && !runs.take(r.claimBytes()) {
			break
		}
		taken[room(p.Demands, r, taken)]++
		rest = slices.DeleteFunc(rest, func(other *run) bool { return other == r })
		c := chosen{run: r, was: *r}
		if s.breaks == LimitTakeoverCounts && r.leased() {
			s.leak(r, 1)
		}
		s.charge(r, now)
		c.lease = r.lease(p.Worker, p.Build, p.LeaseFor, now)
		r.claim = p.ClaimID
		if !c.was.leased() && s.breaks != LimitCountsBefore {
			s.count(r, 1)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b chosen) int { return before(&a.was, &b.was) })
	return out
}

// left tells of the runs that the claim has not returned. Of runs that wait for the same permits, only the first
// one counts.
func (s *Store) left(out *store.Claimed, candidates []*run, taken []chosen, waiting bool, now time.Time) {
	s.countPermits()
	defer func() { s.counted = nil }()
	seen, gone := map[string]bool{}, map[*run]bool{}
	for _, c := range taken {
		gone[c.run] = true
	}
	for _, r := range candidates {
		if gone[r] {
			continue
		}
		at := r.VisibleAt
		if r.waits() {
			flow := fmt.Sprintf("%q %q %d %q %v", r.Queue, r.Workflow, r.Priority, r.PinnedTo(), fmt.Sprintf("%#v", r.demands()))
			if seen[flow] {
				continue
			}
			if seen[flow] = true; !at.After(now) {
				if s.full(r) && s.breaks != LimitNextDueHeld {
					continue
				}
				if rated := s.rated(r, now); rated.After(now) {
					if s.breaks == LimitNextDueLate {
						continue
					}
					at = rated
				}
			}
		}
		out.NextDue = earliest(out.NextDue, at)
		if waiting && !at.After(now) {
			out.Waiting = store.Waits(out.Waiting, r.Queue, r.Workflow, r.VisibleAt)
		}
	}
}

// claimBytes is the size of the run itself, as the bound of a claim counts it.
func (r *run) claimBytes() int { return len(r.Input) + len(r.Meta) + failureBytes(r.Failure) }

// candidates are the runs of the demands that are or will be claimable by the claim's build
// (P19), in the order of P7.
func (s *Store) candidates(p *store.ClaimParams) []*run {
	var out []*run
	for _, r := range s.live {
		if s.offered != nil && !slices.Contains(s.offered, r.ID) {
			continue
		}
		if r.Namespace != p.Namespace || r.Status == store.Paused || r.VisibleAt.IsZero() || s.held(r) || r.Pin != nil && r.Pin.Build != p.Build {
			continue
		}
		if slices.ContainsFunc(p.Demands, func(d store.Demand) bool { return asksFor(d, r) }) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, before)
	return out
}

// held reports whether the run's queue or workflow is paused.
func (s *Store) held(r *run) bool {
	_, queue := s.paused[target{r.Namespace, r.Queue, ""}]
	_, workflow := s.paused[target{r.Namespace, "", r.Workflow}]
	return queue || workflow
}

func asksFor(d store.Demand, r *run) bool {
	return slices.Contains(d.Queues(), r.Queue) && slices.Contains(d.Workflows, r.Workflow)
}

// room returns the first demand for the run that is not filled, or -1.
func room(demands []store.Demand, r *run, taken []int) int {
	for i, d := range demands {
		if asksFor(d, r) && taken[i] < d.Max {
			return i
		}
	}
	return -1
}

// lease gives the run to a worker. If the previous lease has expired, it counts a crash (P6).
func (r *run) lease(worker, build string, d time.Duration, now time.Time) store.Lease {
	if r.leased() {
		r.Crashes++
	}
	if r.Status != store.Canceling {
		r.Status = store.Running
	}
	r.Epoch++
	r.Worker, r.holder, r.build, r.seq = worker, worker, build, 0
	r.VisibleAt = after(now, d) // not cut by the deadline: that would be a second lease
	if r.StartedAt.IsZero() {
		r.StartedAt = now
	}
	r.wakes, r.awaits = 0, nil
	r.charged = true
	return store.Lease{Run: r.ID, Worker: worker, Epoch: r.Epoch}
}
