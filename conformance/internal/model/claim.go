package model

import (
	"cmp"
	"context"
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
	want := p.Wanted()
	most := cmp.Or(p.MaxBytes, store.DefaultClaimBytes)
	runs, steps, signals, state := &bound{left: most, one: true}, &bound{left: most}, &bound{left: most}, &bound{left: most}
	taken := make([]int, len(p.Demands))
	for _, r := range s.candidates(&p) {
		mine := !r.VisibleAt.After(now)
		if p.Again {
			mine = r.leased() && r.VisibleAt.After(now) && r.claim == p.ClaimID && r.Worker == p.Worker
		}
		if d := room(p.Demands, r, taken); mine && len(out.Runs) < want && d >= 0 && (p.Bare || p.Again || runs.take(r.claimBytes())) {
			taken[d]++
			var c store.ClaimedRun
			if p.Again {
				c.Lease = store.Lease{Run: r.ID, Worker: p.Worker, Epoch: r.Epoch}
			} else {
				c.Lease = r.lease(p.Worker, p.Build, p.LeaseFor, now)
				r.claim = p.ClaimID
			}
			c.Run, c.Recovered = r.row(), r.Crashes > 0
			if p.Bare {
				omit(&c.Run)
				c.MoreSteps = len(r.steps) > 0
				c.Inbox = store.Inbox{Status: r.Status, Events: r.Events, MoreSignals: true, MoreState: true, MoreGroups: true}
			} else {
				c.Steps, c.MoreSteps = upTo(r.steps, store.MaxPage, steps, stepBytes, cloneStep)
				c.Inbox = r.inbox(&store.InboxParams{}, signals, state)
			}
			out.Runs = append(out.Runs, c)
			continue
		}
		out.NextDue = earliest(out.NextDue, r.VisibleAt)
		if want > 0 && !r.VisibleAt.After(now) {
			out.Waiting = store.Waits(out.Waiting, r.Queue, r.Workflow, r.VisibleAt)
		}
	}
	return out, nil
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
	return store.Lease{Run: r.ID, Worker: worker, Epoch: r.Epoch}
}
