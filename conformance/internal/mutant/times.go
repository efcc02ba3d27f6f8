package mutant

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// These mutants break P13: they act too early or too late.
var timeMutants = []Mutant{
	{"timer-early", "P13", "a run may be claimed a millisecond before its time", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			p.Now = clock(p.Now).Add(time.Millisecond)
			return claim(ctx, p)
		}
	})},
	{"sleeps-in-whole-milliseconds", "P13", "a sleep is cut to milliseconds and ends up to one early", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if c.Transition != nil && c.Transition.After > 0 {
				c.Transition.After = c.Transition.After.Truncate(time.Millisecond)
			}
		})
	})},
	{"delays-in-whole-milliseconds", "P13", "the delay of a new run is cut to milliseconds", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			runs := make([]store.NewRun, len(p.Runs))
			for i, n := range p.Runs {
				if n.After > 0 {
					n.After = n.After.Truncate(time.Millisecond)
				}
				runs[i] = n
			}
			p.Runs = runs
			return create(ctx, p)
		}
	})},
	{"next-due-too-late", "P13", "NextDue is rounded up to the next second", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			if up := got.NextDue.Truncate(time.Second); !got.NextDue.IsZero() && up.Before(got.NextDue) {
				got.NextDue = up.Add(time.Second)
			}
			return got, err
		}
	})},
	{"next-due-forgets-leases", "P13", "NextDue does not count the runs that are leased, so that their end is seen late", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			page, _ := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Running}}})
			for _, r := range page.Runs {
				if r.VisibleAt.Equal(got.NextDue) {
					got.NextDue = time.Time{}
				}
			}
			return got, err
		}
	})},
	{"deadline-ignored", "P13", "a deadline is kept and makes nothing claimable", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			if err == nil && res.Err == nil && !res.Repeated && ended(&c, store.Sleep) {
				if r, ok := s.row(c.Lease.Run); ok && r.VisibleAt.Equal(r.Deadline) {
					s.setDue(r.ID, due(c.Transition, clock(p.Now)), &res)
				}
			}
			return res, err
		})
	})},
	{"deadline-of-a-waiting-run-ignored", "P13", "the deadline of a run that has not begun makes it claimable no earlier than its delay", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				n := p.Runs[i]
				s.Tamper(out[i].ID, func(r model.Row) {
					if at := r.CreatedAt.Add(n.After); out[i].Created && r.Epoch == 0 && n.After > n.Timeout {
						r.VisibleAt = at
					}
				})
			}
			return out, err
		}
	})},
	{"paused-queue-claimed", "P13", "a claim takes runs of a paused queue", wrap(func(s *faulty) { s.unpaused(func(t store.PausedTarget) bool { return t.Queue != "" }) })},
	{"paused-workflow-claimed", "P13", "a claim takes runs of a paused workflow", wrap(func(s *faulty) { s.unpaused(func(t store.PausedTarget) bool { return t.Workflow != "" }) })},
	{"worker-never-offline", "P13", "a worker that is not heard of stays online", wrap(func(s *faulty) {
		list := s.listWorkers
		s.listWorkers = func(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
			page, err := list(ctx, p)
			out := page.Workers
			for i := range out {
				if out[i].Status == store.Offline {
					out[i].Status = store.Online
				}
			}
			return page, err
		}
	})},
	{"asked-worker-never-offline", "P13", "a worker that was asked for a sign of life and gives none is offline after its TTL alone", wrap(func(s *faulty) {
		list := s.listWorkers
		s.listWorkers = func(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
			page, err := list(ctx, p)
			out := page.Workers
			for i := range out {
				if w := &out[i]; w.Status == store.Offline && w.SeenAt.Add(w.TTL).After(clock(p.Now)) {
					w.Status = store.Online
				}
			}
			return page, err
		}
	})},
	{"asked-again-has-longer", "P13", "who asks a worker again gives it time anew", wrap(func(s *faulty) {
		ask, list := s.askWorkers, s.listWorkers
		var again time.Time
		s.askWorkers = func(ctx context.Context, p store.AskWorkersParams) (int, error) {
			again = clock(p.Now)
			return ask(ctx, p)
		}
		s.listWorkers = func(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
			page, err := list(ctx, p)
			out := page.Workers
			for i := range out {
				if w := &out[i]; !w.AskedAt.IsZero() && again.Add(w.Answers).After(clock(p.Now)) {
					w.AskedAt, w.Status = again, store.Online
				}
			}
			return page, err
		}
	})},
	{"asks-whoever-is-there", "P13", "who asks for a sign of life asks those, too, that were heard of lately", wrap(func(s *faulty) {
		ask := s.askWorkers
		s.askWorkers = func(ctx context.Context, p store.AskWorkersParams) (int, error) {
			p.Silent = time.Microsecond
			return ask(ctx, p)
		}
	})},
	{"answer-by-extend-lost", "P13", "a worker that was asked answers by a put alone, not by an extension", wrap(func(s *faulty) {
		extend, list := s.extend, s.listWorkers
		silent := map[string]store.Worker{}
		s.extend = func(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
			before, err := list(ctx, store.ListWorkersParams{Namespace: p.Namespace, NoHeld: true, Now: p.Now})
			for _, w := range before.Workers {
				if err == nil && w.ID == p.Worker && !w.AskedAt.IsZero() {
					silent[w.ID] = w
				}
			}
			return extend(ctx, p)
		}
		s.listWorkers = func(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
			page, err := list(ctx, p)
			out := page.Workers
			for i := range out {
				if w, ok := silent[out[i].ID]; ok {
					out[i].AskedAt, out[i].Status = w.AskedAt, w.Status
				}
			}
			return page, err
		}
	})},
	{"lock-ends-early", "P13", "a lock is free a second before it runs out", wrap(func(s *faulty) {
		lock := s.lock
		s.lock = func(ctx context.Context, p store.LockParams) (store.LockResult, error) {
			if p.For > time.Second {
				p.For -= time.Second
				res, err := lock(ctx, p)
				if res.Held {
					res.Until = res.Until.Add(time.Second)
				}
				return res, err
			}
			return lock(ctx, p)
		}
	})},
	{"purge-ignores-age", "P13", "purge deletes what is final, however lately", wrap(func(s *faulty) {
		purge := s.purge
		s.purge = func(ctx context.Context, p store.PurgeParams) (int, error) {
			if p.OlderThan > 0 {
				p.OlderThan = 0
			}
			return purge(ctx, p)
		}
	})},
	{"purge-counts-from-creation", "P13", "purge takes a run's age from its creation", wrap(func(s *faulty) {
		purge := s.purge
		s.purge = func(ctx context.Context, p store.PurgeParams) (int, error) {
			ends := map[store.ID]time.Time{}
			page, _ := s.List(ctx, store.ListParams{Namespace: p.Namespace, Limit: store.MaxPage})
			for _, run := range page.Runs {
				if run.Status.Final() {
					ends[run.ID] = run.FinishedAt
					s.Tamper(run.ID, func(r model.Row) { r.FinishedAt = r.CreatedAt })
				}
			}
			n, err := purge(ctx, p)
			for id, at := range ends {
				s.Tamper(id, func(r model.Row) { r.FinishedAt = at })
			}
			return n, err
		}
	})},
	{"eager-lease-on-a-paused-queue", "P13", "a create takes the first lease although the queue is paused", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) (out []store.CreateResult, err error) {
			s.withoutPauses(ctx, p.Namespace, func(store.PausedTarget) bool { return true }, func() { out, err = create(ctx, p) })
			return out, err
		}
	})},
	{"due-except-ignored", "P13", "the names that are to be left out of what is due are listed", wrap(func(s *faulty) {
		list := s.listSchedules
		s.listSchedules = func(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
			if p.Due {
				p.Except = nil
			}
			return list(ctx, p)
		}
	})},
	{"paused-schedule-is-due", "P13", "a paused schedule is listed as due", wrap(func(s *faulty) {
		list := s.listSchedules
		s.listSchedules = func(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
			page, err := list(ctx, p)
			if err == nil && p.Due {
				all, _ := list(ctx, store.ListSchedulesParams{Namespace: p.Namespace, Now: p.Now})
				for _, sc := range all.Schedules {
					if sc.Paused && !sc.NextAt.IsZero() && !sc.NextAt.After(clock(p.Now)) {
						page.Schedules = append(page.Schedules, sc)
					}
				}
			}
			return page, err
		}
	})},
}

// unpaused makes claims ignore the pause of some targets.
func (s *faulty) unpaused(which func(store.PausedTarget) bool) {
	var mu sync.Mutex
	claim := s.claim
	s.claim = func(ctx context.Context, p store.ClaimParams) (got store.Claimed, err error) {
		mu.Lock()
		defer mu.Unlock()
		s.withoutPauses(ctx, p.Namespace, which, func() { got, err = claim(ctx, p) })
		return got, err
	}
}

// withoutPauses removes pauses while it calls a function, and restores them.
func (s *faulty) withoutPauses(ctx context.Context, namespace string, which func(store.PausedTarget) bool, do func()) {
	paused, _ := store.AllPaused(ctx, s, store.ListPausedParams{Namespace: namespace})
	set := func(on bool) {
		for _, t := range paused {
			if which(t) {
				_ = s.PauseTarget(ctx, store.PauseTargetParams{Namespace: namespace, Queue: t.Queue, Workflow: t.Workflow, Resume: !on, Now: t.Since})
			}
		}
	}
	set(false)
	defer set(true)
	do()
}
