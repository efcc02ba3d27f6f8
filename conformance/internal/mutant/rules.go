package mutant

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// aroundCommit gets the run before a commit, and the result of the commit.
func (s *faulty) aroundCommit(do func(c *store.Commit, before store.Run, now time.Time, res *store.CommitResult)) {
	s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
		before, _ := s.row(c.Lease.Run)
		res, err := next(c)
		if err == nil && res.Err == nil && !res.Repeated {
			do(&c, before, clock(p.Now), &res)
		}
		return res, err
	})
}

// eachStep changes the steps of a commit before it is applied.
func (s *faulty) eachStep(do func(st *store.StepRecord)) {
	s.beforeCommit(func(c *store.Commit) {
		c.Steps = slices.Clone(c.Steps)
		for i := range c.Steps {
			do(&c.Steps[i])
		}
	})
}

// online lists workers as online if a condition on their times holds.
func (s *faulty) online(while func(w *store.Worker, now time.Time) bool) {
	reads(workersOf, nil, func(p *store.ListWorkersParams, page *store.WorkerPage) {
		for i := range page.Workers {
			if w := &page.Workers[i]; w.Status == store.Offline && while(w, clock(p.Now)) {
				w.Status = store.Online
			}
		}
	})(s)
}

// These mutants break rules that the contract states in a few words.
var ruleMutants = []Mutant{
	{"took-rounded-up", "P13", "Took is rounded up to microseconds, so that a step begins before it did", wrap(func(s *faulty) {
		s.eachStep(func(st *store.StepRecord) { st.Took = (st.Took + time.Microsecond - 1).Truncate(time.Microsecond) })
	})},
	{"due-at-goes-first", "P13", "of a record with DueIn and DueAt, DueAt counts", wrap(func(s *faulty) {
		s.eachStep(func(st *store.StepRecord) {
			if !st.DueAt.IsZero() {
				st.DueIn = 0
			}
		})
	})},
	{"earlier-due-goes-first", "P13", "of a record with DueIn and DueAt, the earlier counts", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, _ *store.CommitResult) {
			s.Tamper(c.Lease.Run, func(r model.Row) {
				for _, rec := range c.Steps {
					for i := range *r.Steps {
						if st := &(*r.Steps)[i]; st.StepKey == rec.StepKey && rec.DueIn > 0 && !rec.DueAt.IsZero() && rec.DueAt.Before(st.DueAt) {
							st.DueAt = clock(rec.DueAt)
						}
					}
				}
			})
		})
	})},
	{"pause-marks-the-canceling", "P11", "a pause marks a canceling run that somebody holds", wrap(func(s *faulty) {
		pause := s.pause
		s.pause = func(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
			out, err := pause(ctx, p)
			for i := range out {
				s.Tamper(p.IDs[i], func(r model.Row) { r.Pausing = r.Pausing || out[i].Status == store.Canceling && !p.Resume })
			}
			return out, err
		}
	})},
	{"pause-of-the-canceling-refused", "P11", "a pause of a canceling run is refused as if it were final", wrap(func(s *faulty) {
		reads(func(s *faulty) *verb[store.PauseParams, []store.ControlResult] { return &s.pause }, nil, func(_ *store.PauseParams, out *[]store.ControlResult) {
			for i := range *out {
				if r := &(*out)[i]; r.Status == store.Canceling {
					r.Err = fmt.Errorf("a canceling run: %w", store.ErrFinished)
				}
			}
		})(s)
	})},
	{"cancel-keeps-the-mark", "P11", "a canceled run that was to pause is paused by its holder's next transition", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			marked := map[store.ID]bool{}
			for _, id := range p.IDs {
				r, _ := s.row(id)
				marked[id] = r.Pausing
			}
			out, err := cancel(ctx, p)
			for i := range out {
				s.Tamper(p.IDs[i], func(r model.Row) { r.Pausing = marked[r.ID] && r.Status == store.Canceling })
			}
			return out, err
		}
	})},
	{"canceling-run-waits-for-its-retry", "P11", "a canceling run that is retried waits for the delay", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, res *store.CommitResult) {
			if at := due(orNone(c.Transition), now); ended(c, store.Retry) && res.Status == store.Canceling && !at.IsZero() {
				s.setDue(c.Lease.Run, at, res)
			}
		})
	})},
	{"canceling-run-continues-with-its-lease", "P11", "a canceling run that continues as new is due when its lease would have ended", wrap(func(s *faulty) {
		s.aroundCommit(func(c *store.Commit, before store.Run, _ time.Time, res *store.CommitResult) {
			if ended(c, store.Continue) && res.Status == store.Canceling {
				s.setDue(c.Lease.Run, before.VisibleAt, res)
			}
		})
	})},
	{"retry-of-the-canceling-takes-its-failure", "P11", "a canceling run that is retried has the failure of the retry", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, res *store.CommitResult) {
			if ended(c, store.Retry) && res.Status == store.Canceling {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Failure = c.Transition.Failure })
			}
		})
	})},
	{"continue-keeps-the-failure", "P3", "a run that continues as new keeps the failure of the attempt before", wrap(func(s *faulty) {
		s.aroundCommit(func(c *store.Commit, before store.Run, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Continue) {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Failure = before.Failure })
			}
		})
	})},
	{"continue-keeps-children-in-their-group", "P9", "the children of a run that continues as new count in a group of the same name", wrap(func(s *faulty) {
		s.eachCommit(func(ctx context.Context, p store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			var before []store.Run
			if ended(&c, store.Continue) {
				page, _ := s.Store.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Parent: c.Lease.Run}, Limit: store.MaxPage})
				before = page.Runs
			}
			res, err := next(c)
			for _, k := range before {
				s.Tamper(k.ID, func(r model.Row) { r.Group, r.Ordinal = k.Group, k.Ordinal })
			}
			return res, err
		})
	})},
	{"restart-keeps-the-ordinal", "P9", "a restarted child leaves its group and keeps its ordinal", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			before, _ := s.row(p.ID)
			err := restart(ctx, p)
			if err == nil {
				s.Tamper(p.ID, func(r model.Row) { r.Ordinal = before.Ordinal })
			}
			return err
		})
	})},
	{"met-await-hears-on", "P9", "an await that was met when its run fell asleep is armed, and counts the next end as an event", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Sleep) {
				s.Tamper(c.Lease.Run, func(r model.Row) {
					if len(*r.Awaits) == 0 {
						*r.Awaits = slices.Clone(c.Transition.Await)
					}
				})
			}
		})
	})},
	{"met-await-is-an-event", "P9", "an await that is met when its run falls asleep is an event of the run", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, res *store.CommitResult) {
			if ended(c, store.Sleep) && len(c.Transition.Await) > 0 {
				s.Tamper(c.Lease.Run, func(r model.Row) {
					if len(*r.Awaits) == 0 {
						r.Events++
						res.Events = r.Events
					}
				})
			}
		})
	})},
	{"created-after-is-inclusive", "P14", "CreatedAfter selects the runs of that moment, too", wrap(calls(listOf, func(p *store.ListParams) {
		if t := p.Filter.CreatedAfter; !t.IsZero() {
			p.Filter.CreatedAfter = clock(t).Add(-time.Microsecond)
		}
	}))},
	{"finished-before-is-inclusive", "P14", "FinishedBefore counts the runs of that moment, too", wrap(calls(countOf, func(p *store.CountParams) {
		if t := p.Filter.FinishedBefore; !t.IsZero() {
			p.Filter.FinishedBefore = clock(t).Add(time.Microsecond)
		}
	}))},
	{"refused-commit-tells-of-the-run", "P16", "a commit that is refused tells the run's status beside its error", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			if r, ok := s.row(c.Lease.Run); ok && res.Err != nil {
				res.Status = r.Status
			}
			return res, err
		})
	})},
	{"refused-create-tells-its-id", "P16", "a create that is refused tells the ID that it was to make", wrap(reads(createOf, nil, func(p *store.CreateParams, out *[]store.CreateResult) {
		for i := range *out {
			if r := &(*out)[i]; r.Err != nil && r.ID.IsZero() {
				r.ID = p.Runs[i].ID
			}
		}
	}))},
	{"ttl-in-milliseconds", "P13", "a worker's TTL is kept in milliseconds", wrapRegistrar(func(s *registrar) {
		put := s.putWorker
		s.putWorker = func(ctx context.Context, p store.PutWorkerParams) error {
			p.Worker.TTL = (p.Worker.TTL + time.Millisecond - 1).Truncate(time.Millisecond)
			return put(ctx, p)
		}
	})},
	{"answers-in-whole-seconds", "P13", "a worker's Answers are kept in seconds", wrapRegistrar(func(s *registrar) {
		put := s.putWorker
		s.putWorker = func(ctx context.Context, p store.PutWorkerParams) error {
			p.Worker.Answers = (p.Worker.Answers + time.Second - 1).Truncate(time.Second)
			return put(ctx, p)
		}
	})},
	{"online-at-its-ttl", "P13", "a worker is online at the moment of its TTL", wrap(func(s *faulty) {
		s.online(func(w *store.Worker, now time.Time) bool { return now.Equal(w.SeenAt.Add(w.TTL)) })
	})},
	{"online-at-its-answer", "P13", "a worker that was asked is online at the moment when it must have answered", wrap(func(s *faulty) {
		s.online(func(w *store.Worker, now time.Time) bool {
			return !w.AskedAt.IsZero() && now.Equal(w.AskedAt.Add(w.Answers))
		})
	})},
	{"repeat-to-nobody", "P4", "a signal to an external id that is sent again when its run has ended finds nobody", wrap(func(s *faulty) {
		reads(signalOf, nil, func(p *store.SignalParams, out *[]store.SignalResult) {
			for i := range *out {
				r, ok := s.row((*out)[i].Run)
				if ok && r.Status.Final() && p.Signals[i].ExternalID != "" && r.Reuse == store.ReuseAfterEnd {
					(*out)[i] = store.SignalResult{Err: fmt.Errorf("external id: %w", store.ErrNotFound)}
				}
			}
		})(s)
	})},
	{"child-loses-its-external-id", "P16", "a child with an external id is made without one", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Spawn = slices.Clone(c.Spawn)
			for i := range c.Spawn {
				c.Spawn[i].ExternalID = ""
			}
		})
	})},
}

// orNone is a transition, or one without a time.
func orNone(t *store.Transition) *store.Transition {
	if t == nil {
		return &store.Transition{}
	}
	return t
}
