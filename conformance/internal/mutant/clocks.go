package mutant

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// registrar is a faulty store of which a mutant can also replace the registration of workers,
// workflows and pauses, and the journal.
type registrar struct {
	*faulty
	putWorker    func(context.Context, store.PutWorkerParams) error
	putWorkflows func(context.Context, store.PutWorkflowsParams) error
	pauseTarget  func(context.Context, store.PauseTargetParams) error
	record       func(context.Context, store.RecordParams) error
	listActions  verb[store.ListActionsParams, store.ActionPage]
	listFirings  verb[store.ListFiringsParams, store.FiringPage]
}

func wrapRegistrar(spoil func(s *registrar)) func(*model.Store) store.Store {
	return func(m *model.Store) store.Store {
		base, _ := wrap(func(*faulty) {})(m).(*faulty)
		s := &registrar{faulty: base, putWorker: m.PutWorker, putWorkflows: m.PutWorkflows, pauseTarget: m.PauseTarget, record: m.Record, listActions: m.ListActions, listFirings: m.ListFirings}
		spoil(s)
		return s
	}
}

func (s *registrar) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	return s.putWorker(ctx, p)
}
func (s *registrar) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	return s.putWorkflows(ctx, p)
}
func (s *registrar) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	return s.pauseTarget(ctx, p)
}
func (s *registrar) Record(ctx context.Context, p store.RecordParams) error { return s.record(ctx, p) }
func (s *registrar) ListActions(ctx context.Context, p store.ListActionsParams) (store.ActionPage, error) {
	return s.listActions(ctx, p)
}
func (s *registrar) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
	return s.listFirings(ctx, p)
}

// calls changes the params of a call.
func calls[P, R any](of func(s *faulty) *verb[P, R], change func(p *P)) func(*faulty) {
	return reads(of, change, nil)
}

// late is a store's own clock that is wrong by a duration. It does not change a Now that is set.
func late(now time.Time, by time.Duration) time.Time {
	if now.IsZero() {
		return clock(now).Add(by)
	}
	return now
}

// newRuns changes the runs of a create by the store's own clock.
func newRuns(change func(n *store.NewRun)) func(*faulty) {
	return calls(createOf, func(p *store.CreateParams) {
		if !p.Now.IsZero() {
			return
		}
		runs := make([]store.NewRun, len(p.Runs))
		for i, n := range p.Runs {
			change(&n)
			runs[i] = n
		}
		p.Runs = runs
	})
}

// ownCommits changes the commits of a call by the store's own clock. held is the run as its holder
// knows it.
func ownCommits(change func(c *store.Commit, held store.Run, now time.Time)) func(*faulty) {
	return func(s *faulty) {
		s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			if held, ok := s.row(c.Lease.Run); ok && p.Now.IsZero() {
				if c.Transition != nil {
					t := *c.Transition
					c.Transition = &t
				}
				steps := make([]store.StepRecord, len(c.Steps))
				copy(steps, c.Steps)
				c.Steps = steps
				change(&c, held, clock(p.Now))
			}
			return next(c)
		})
	}
}

// OfTheClock lists the mutants whose own clock is wrong.
func OfTheClock() []Mutant { return clockMutants }

// These mutants break P13 by the store's own clock. They do not change calls whose Now is set.
var clockMutants = []Mutant{
	{"own-clock-in-milliseconds", "P13", "the store's own clock tells a new run milliseconds", wrap(calls(createOf, func(p *store.CreateParams) {
		if p.Now.IsZero() {
			p.Now = clock(p.Now).Truncate(time.Millisecond)
		}
	}))},
	{"own-clock-stands", "P13", "the store reads its own clock at the first create and remembers it", wrap(func(s *faulty) {
		var mu sync.Mutex
		var first time.Time
		calls(createOf, func(p *store.CreateParams) {
			mu.Lock()
			defer mu.Unlock()
			if p.Now.IsZero() {
				if first.IsZero() {
					first = clock(p.Now)
				}
				p.Now = first
			}
		})(s)
	})},
	{"claim-ahead-of-the-clock", "P13", "a claim takes the store's own clock to be ten milliseconds later", wrap(calls(claimOf, func(p *store.ClaimParams) { p.Now = late(p.Now, 10*time.Millisecond) }))},
	{"extension-half-as-long", "P13", "by the store's own clock an extension is half as long", wrap(calls(extendOf, func(p *store.ExtendParams) {
		if p.Now.IsZero() {
			p.LeaseFor = max(p.LeaseFor/2, 1)
		}
	}))},
	{"extension-of-the-first-lease-alone", "P13", "by the store's own clock, leases behind the first are extended by a minute", wrap(func(s *faulty) {
		extend := s.extend
		s.extend = func(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
			out, err := extend(ctx, p)
			if err == nil && p.Now.IsZero() && len(out) > 1 {
				short := p
				short.Leases, short.LeaseFor = p.Leases[1:], time.Minute
				_, err = extend(ctx, short)
			}
			return out, err
		}
	})},
	{"extension-from-the-lease-s-end", "P13", "by the store's own clock an extension is added to the end of the lease", wrap(func(s *faulty) {
		extend := s.extend
		s.extend = func(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
			ends := map[store.ID]time.Time{}
			for _, l := range p.Leases {
				if r, ok := s.row(l.Run); ok && p.Now.IsZero() {
					ends[l.Run] = r.VisibleAt
				}
			}
			out, err := extend(ctx, p)
			for id, end := range ends {
				s.Tamper(id, func(r model.Row) { r.VisibleAt = end.Add(p.LeaseFor) })
			}
			return out, err
		}
	})},
	{"lease-in-whole-seconds", "P13", "by the store's own clock a lease of more than a second is cut to seconds", wrap(calls(claimOf, func(p *store.ClaimParams) {
		if p.Now.IsZero() && p.LeaseFor > time.Second {
			p.LeaseFor = p.LeaseFor.Truncate(time.Second)
		}
	}))},
	{"deadline-a-hundredfold", "P13", "by the store's own clock a deadline is a hundred times as far", wrap(newRuns(func(n *store.NewRun) {
		if n.Timeout < time.Hour*24*365 {
			n.Timeout *= 100
		}
	}))},
	{"start-delay-in-32-bits", "P13", "by the store's own clock a start is delayed by 32 bits of milliseconds at most", wrap(newRuns(func(n *store.NewRun) { n.After = min(n.After, (1<<31-1)*time.Millisecond) }))},
	{"eager-lease-short", "P13", "by the store's own clock the lease of a run that is leased as it is made is a tenth", wrap(newRuns(func(n *store.NewRun) {
		if n.Worker != "" {
			n.LeaseFor = max(n.LeaseFor/10, 1)
		}
	}))},
	{"delay-from-the-claim", "P13", "by the store's own clock a sleep, a retry or a release counts its delay from the claim", wrap(ownCommits(func(c *store.Commit, held store.Run, _ time.Time) {
		if ended(c, store.Sleep, store.Retry, store.Release) && c.Transition.After > 0 && c.Transition.At.IsZero() {
			c.Transition.At, c.Transition.After = held.StartedAt.Add(c.Transition.After), 0
		}
	}))},
	{"retry-in-32-bits", "P13", "by the store's own clock a retry is delayed by 32 bits of microseconds at most", wrap(ownCommits(func(c *store.Commit, _ store.Run, _ time.Time) {
		if ended(c, store.Retry) {
			c.Transition.After = min(c.Transition.After, (1<<31-1)*time.Microsecond)
		}
	}))},
	{"step-due-from-its-start", "P13", "by the store's own clock a step's DueIn counts from when it began", wrap(ownCommits(func(c *store.Commit, _ store.Run, now time.Time) {
		for i := range c.Steps {
			if st := &c.Steps[i]; st.DueIn > 0 {
				st.DueAt, st.DueIn = now.Add(st.DueIn-st.Took), 0
			}
		}
	}))},
	{"step-begins-at-its-end", "P13", "by the store's own clock a step's Took does not count", wrap(ownCommits(func(c *store.Commit, _ store.Run, _ time.Time) {
		for i := range c.Steps {
			c.Steps[i].Took = 0
		}
	}))},
	{"child-delayed-from-its-parent", "P13", "by the store's own clock a child's delay counts from the creation of its parent", wrap(ownCommits(func(c *store.Commit, held store.Run, now time.Time) {
		spawn := make([]store.NewRun, len(c.Spawn))
		for i, n := range c.Spawn {
			if n.After > 0 {
				n.After = max(0, n.After-now.Sub(held.CreatedAt)-time.Microsecond)
			}
			spawn[i] = n
		}
		c.Spawn = spawn
	}))},
	{"signal-an-hour-ago", "P13", "the store's own clock is an hour behind for signals, as that of another zone", wrap(calls(signalOf, func(p *store.SignalParams) { p.Now = late(p.Now, -time.Hour) }))},
	{"state-of-tomorrow", "P13", "the store's own clock is a day ahead for state", wrap(calls(setStateOf, func(p *store.SetStateParams) { p.Now = late(p.Now, 24*time.Hour) }))},
	{"cancel-late", "P13", "the store's own clock is two seconds ahead for cancels", wrap(calls(cancelOf, func(p *store.CancelParams) { p.Now = late(p.Now, 2*time.Second) }))},
	{"fork-late", "P13", "the store's own clock is two seconds ahead for forks", wrap(calls(forkOf, func(p *store.ForkParams) { p.Now = late(p.Now, 2*time.Second) }))},
	{"restart-late", "P13", "the store's own clock is two seconds ahead for restarts", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			p.Now = late(p.Now, 2*time.Second)
			return restart(ctx, p)
		})
	})},
	{"purges-at-half-the-age", "P13", "by the store's own clock runs are purged at half their age", wrap(calls(purgeOf, func(p *store.PurgeParams) {
		if p.Now.IsZero() {
			p.OlderThan /= 2
		}
	}))},
	{"fires-early", "P13", "by the store's own clock a schedule fires up to two hours before its time", wrap(calls(fireOf, func(p *store.FireParams) { p.Now = late(p.Now, 2*time.Hour) }))},
	{"schedule-due-early", "P13", "by the store's own clock a schedule is listed as due ten milliseconds before its time", wrap(calls(schedulesOf, func(p *store.ListSchedulesParams) {
		p.Now = late(p.Now, 10*time.Millisecond)
	}))},
	{"schedule-put-yesterday", "P13", "the store's own clock is a day behind where schedules are put", wrap(calls(putScheduleOf, func(p *store.PutScheduleParams) { p.Now = late(p.Now, -24*time.Hour) }))},
	{"ttl-doubled", "P13", "by the store's own clock a worker is online for twice its TTL", wrap(func(s *faulty) {
		list := s.listWorkers
		s.listWorkers = func(ctx context.Context, p store.ListWorkersParams) (store.WorkerPage, error) {
			page, err := list(ctx, p)
			for i := range page.Workers {
				if w := &page.Workers[i]; p.Now.IsZero() && w.Status == store.Offline && w.AskedAt.IsZero() && w.SeenAt.Add(2*w.TTL).After(clock(p.Now)) {
					w.Status = store.Online
				}
			}
			return page, err
		}
	})},
	{"worker-put-long-ago", "P13", "the store's own clock is two seconds behind where workers are put", wrapRegistrar(func(s *registrar) {
		put := s.putWorker
		s.putWorker = func(ctx context.Context, p store.PutWorkerParams) error {
			p.Now = late(p.Now, -2*time.Second)
			return put(ctx, p)
		}
	})},
	{"silence-halved", "P13", "by the store's own clock workers are asked after half the silence", wrap(calls(askOf, func(p *store.AskWorkersParams) {
		if p.Now.IsZero() {
			p.Silent = max(p.Silent/2, 1)
		}
	}))},
	{"short-locks", "P13", "by the store's own clock a lock is half as long as it says", wrap(func(s *faulty) {
		lock := s.lock
		s.lock = func(ctx context.Context, p store.LockParams) (store.LockResult, error) {
			half := p.For / 2
			if p.Now.IsZero() && half > 0 {
				p.For -= half
				res, err := lock(ctx, p)
				if res.Held {
					res.Until = res.Until.Add(half)
				}
				return res, err
			}
			return lock(ctx, p)
		}
	})},
	{"locks-doubled", "P13", "by the store's own clock a lock is twice as long", wrap(calls(lockOf, func(p *store.LockParams) {
		if p.Now.IsZero() {
			p.For *= 2
		}
	}))},
	{"workflows-put-at-the-epoch", "P13", "by the store's own clock workflows have no time", wrapRegistrar(func(s *registrar) {
		put := s.putWorkflows
		s.putWorkflows = func(ctx context.Context, p store.PutWorkflowsParams) error {
			if p.Now.IsZero() {
				p.Now = time.Unix(0, 0)
			}
			return put(ctx, p)
		}
	})},
	{"paused-tomorrow", "P13", "the store's own clock is a day ahead for pauses", wrapRegistrar(func(s *registrar) {
		set := s.pauseTarget
		s.pauseTarget = func(ctx context.Context, p store.PauseTargetParams) error {
			p.Now = late(p.Now, 24*time.Hour)
			return set(ctx, p)
		}
	})},
	{"actions-forgotten-early", "P13", "by the store's own clock actions are forgotten at half their age", wrapRegistrar(func(s *registrar) {
		record := s.record
		s.record = func(ctx context.Context, p store.RecordParams) error {
			if p.Now.IsZero() {
				p.KeepFor /= 2
			}
			return record(ctx, p)
		}
	})},
	{"import-due-late", "P13", "the store's own clock is two seconds ahead for imports", wrap(calls(importOf, func(p *store.ImportParams) { p.Now = late(p.Now, 2*time.Second) }))},
	{"ranks-of-tomorrow", "P13", "the store's own clock is a day ahead where it counts what is ahead of a run", wrap(calls(aheadOf, func(p *store.AheadParams) { p.Now = late(p.Now, 24*time.Hour) }))},
}
