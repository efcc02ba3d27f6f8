package mutant

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// upTo returns the first items of a list.
func upTo[T any](list []T, n int) []T { return list[:min(len(list), n)] }

// entrance changes the params of methods that faulty does not replace.
type entrance struct {
	*faulty
	putWorker    func(*store.PutWorkerParams)
	putWorkflows func(*store.PutWorkflowsParams)
	pauseTarget  func(*store.PauseTargetParams)
	record       func(*store.RecordParams)
	listActions  func(*store.ListActionsParams)
	listFirings  func(*store.ListFiringsParams, *store.FiringPage)
}

// enters is a mutant that changes params.
func enters(e entrance) func(*model.Store) store.Store {
	return func(m *model.Store) store.Store {
		e := e
		e.faulty, _ = wrap(func(*faulty) {})(m).(*faulty)
		return &e
	}
}

func edit[P any](p P, by func(*P)) P {
	if by != nil {
		by(&p)
	}
	return p
}

func (e *entrance) PutWorker(ctx context.Context, p store.PutWorkerParams) error {
	return e.faulty.PutWorker(ctx, edit(p, e.putWorker))
}
func (e *entrance) PutWorkflows(ctx context.Context, p store.PutWorkflowsParams) error {
	return e.faulty.PutWorkflows(ctx, edit(p, e.putWorkflows))
}
func (e *entrance) PauseTarget(ctx context.Context, p store.PauseTargetParams) error {
	return e.faulty.PauseTarget(ctx, edit(p, e.pauseTarget))
}
func (e *entrance) Record(ctx context.Context, p store.RecordParams) error {
	return e.faulty.Record(ctx, edit(p, e.record))
}
func (e *entrance) ListActions(ctx context.Context, p store.ListActionsParams) (store.ActionPage, error) {
	return e.faulty.ListActions(ctx, edit(p, e.listActions))
}
func (e *entrance) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
	page, err := e.faulty.ListFirings(ctx, p)
	if e.listFirings != nil {
		e.listFirings(&p, &page)
	}
	return page, err
}

// forgets applies a method to the first n items only, and reports the others as done.
func forgets[P, R, T any](of func(*faulty) *verb[P, []R], items func(*P) *[]T, n int, done func(T) R) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		at := of(s)
		do := *at
		*at = func(ctx context.Context, p P) ([]R, error) {
			list := *items(&p)
			*items(&p) = upTo(list, n)
			out, err := do(ctx, p)
			*items(&p) = list
			for i := n; i < len(list) && err == nil; i++ {
				out = append(out, done(list[i]))
			}
			return out, err
		}
	})
}

// stepsAs changes a part of each step record before it is stored.
func stepsAs(change func(*store.StepRecord)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i := range c.Steps {
				change(&c.Steps[i])
			}
		})
	})
}

// importsAs changes a part of each import before it is stored.
func importsAs(change func(*store.RunRecord)) func(*model.Store) store.Store {
	return wrap(reads(importOf, func(p *store.ImportParams) {
		r := &p.Record
		r.State, r.Groups = slices.Clone(r.State), slices.Clone(r.Groups)
		change(r)
	}, nil))
}

// sparing ends a run, but does not cancel the children that it selects.
func (s *faulty) sparing(ctx context.Context, namespace string, root store.ID, spared func(generation, place int) bool, do func()) {
	var list []store.ID
	generation := []store.ID{root}
	for g := 1; len(generation) > 0; g++ {
		var next []store.ID
		for _, id := range generation {
			place := 0
			for p := (store.ListParams{Namespace: namespace, Filter: store.RunFilter{Parent: id}, OldestFirst: true, Limit: store.MaxPage}); ; {
				page, err := s.Store.List(ctx, p)
				if err != nil {
					break
				}
				for _, r := range page.Runs {
					if place++; r.OnClose == store.CloseCancel && spared(g, place) {
						list = append(list, r.ID)
					}
					next = append(next, r.ID)
				}
				if p.Cursor = page.Next; p.Cursor == "" {
					break
				}
			}
		}
		generation = next
	}
	policy := func(to store.ClosePolicy) {
		for _, id := range list {
			s.Tamper(id, func(r model.Row) { r.OnClose = to })
		}
	}
	policy(store.CloseAbandon)
	do()
	policy(store.CloseCancel)
}

func cancelSparing(spared func(generation, place int) bool) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) (out []store.ControlResult, err error) {
			if len(p.IDs) != 1 {
				return cancel(ctx, p)
			}
			s.sparing(ctx, p.Namespace, p.IDs[0], spared, func() { out, err = cancel(ctx, p) })
			return out, err
		}
	})
}

// shorter bounds a duration.
func shorter(d *time.Duration, most time.Duration) { *d = min(*d, most) }

const century = 100 * 365 * 24 * time.Hour

// These mutants keep rules only for few items and small numbers.
var sizeMutants = []Mutant{
	{"commit-stores-64-steps", "P3", "a commit stores the first 64 of its steps", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) { c.Steps = upTo(c.Steps, 64) })
	})},
	{"commit-stores-2000-steps", "P3", "a commit stores the first 2,000 of its steps", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) { c.Steps = upTo(c.Steps, 2000) })
	})},
	{"claim-brings-1000-steps-in-all", "P3", "a claim brings 1,000 steps of all its runs together, and does not say that it has cut off the others", wrap(func(s *faulty) {
		reads(claimOf, nil, func(p *store.ClaimParams, got *store.Claimed) {
			left := 1000
			for i := range got.Runs {
				c := &got.Runs[i]
				if len(c.Steps) > left {
					c.Steps, c.MoreSteps = c.Steps[:left], false
				}
				left -= len(c.Steps)
			}
		})(s)
	})},
	{"claim-hides-more-steps-of-many", "P3", "a claim of a run of more than 2,000 steps does not say that it has cut them off", wrap(claims(nil, func(_ *store.ClaimParams, c *store.ClaimedRun, _ *store.Run) {
		if len(c.Steps) == store.MaxPage {
			c.MoreSteps = false
		}
	}))},
	{"steps-end-at-2000", "P3", "the pages of Steps end at the step of position 2,000", wrap(reads(stepsOf, nil, func(_ *store.StepsParams, page *store.StepPage) {
		if n := len(page.Steps); n > 0 && page.Steps[n-1].Position >= 2000 {
			page.Next = 0
		}
	}))},
	{"fork-copies-1000-steps", "P3", "a fork begins with 1,000 steps at most", wrap(func(s *faulty) {
		reads(forkOf, nil, func(p *store.ForkParams, _ *store.CreateResult) {
			s.Tamper(p.New, func(r model.Row) { *r.Steps = upTo(*r.Steps, 1000) })
		})(s)
	})},
	{"retry-forgets-500-steps", "P3", "a retry forgets 500 steps at most", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			before := s.steps(c.Lease.Run)
			res, err := next(c)
			if err == nil && res.Err == nil && !res.Repeated && ended(&c, store.Retry) {
				s.Tamper(c.Lease.Run, func(r model.Row) {
					if kept := len(*r.Steps); len(before)-kept > 500 {
						*r.Steps = append(*r.Steps, before[kept+500:]...)
					}
				})
			}
			return res, err
		})
	})},
	{"call-applies-1000-commits", "P3", "of a call of commits the first 1,000 are applied, and all are reported so", forgets(commitOf, func(p *store.CommitParams) *[]store.Commit { return &p.Commits }, 1000,
		func(store.Commit) store.CommitResult { return store.CommitResult{Status: store.Completed} })},
	{"commit-replaces-100-records", "P3", "a commit replaces the first 100 records that there are already", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			known := map[store.StepKey]bool{}
			for _, st := range s.steps(c.Lease.Run) {
				known[st.StepKey] = true
			}
			n := 0
			c.Steps = slices.DeleteFunc(slices.Clone(c.Steps), func(r store.StepRecord) bool {
				if known[r.StepKey] {
					n++
				}
				return known[r.StepKey] && n > 100
			})
		})
	})},

	{"extend-stops-at-32", "P1", "an Extend ignores every lease after the 32nd", forgets(extendOf, func(p *store.ExtendParams) *[]store.Lease { return &p.Leases }, 32,
		func(store.Lease) store.LeaseState { return store.LeaseState{} })},
	{"extend-stops-at-1000", "P1", "an Extend ignores every lease after the 1,000th", forgets(extendOf, func(p *store.ExtendParams) *[]store.Lease { return &p.Leases }, 1000,
		func(store.Lease) store.LeaseState { return store.LeaseState{} })},
	{"claim-loses-what-is-over-1000", "P1", "a claim leases more than 1,000 runs and brings 1,000 of them", wrap(reads(claimOf, nil, func(_ *store.ClaimParams, got *store.Claimed) {
		got.Runs = upTo(got.Runs, 1000)
	}))},

	{"create-makes-1000", "", "of a call of new runs the first 1,000 are made, and all are reported so", forgets(createOf, func(p *store.CreateParams) *[]store.NewRun { return &p.Runs }, 1000,
		func(r store.NewRun) store.CreateResult { return store.CreateResult{ID: r.ID, Created: true} })},
	{"get-reads-500", "", "Get reads the first 500 IDs", wrap(reads(getOf, func(p *store.GetParams) { p.IDs = upTo(p.IDs, 500) }, nil))},
	{"pause-reaches-256", "", "Pause reaches the first 256 runs of a call", wrap(func(s *faulty) {
		pause := s.pause
		s.pause = func(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
			ids := p.IDs
			p.IDs = upTo(ids, 256)
			out, err := pause(ctx, p)
			for len(out) > 0 && len(out) < len(ids) {
				out = append(out, out[0])
			}
			return out, err
		}
	})},
	{"purge-deletes-1000", "", "Purge deletes 1,000 runs at most, whatever its Limit", wrap(reads(purgeOf, func(p *store.PurgeParams) {
		if p.Limit > 1000 && p.Limit <= store.MaxBatch {
			p.Limit = 1000
		}
	}, nil))},
	{"count-is-capped-at-1000", "", "Count looks at 1,000 runs and takes them for all", wrap(reads(countOf, nil, func(_ *store.CountParams, rows *[]store.RunCount) {
		for i := range *rows {
			(*rows)[i].Count = min((*rows)[i].Count, 1000)
		}
	}))},
	{"occurrence-of-16-bits", "", "a step's occurrence is kept in 16 bits", stepsAs(func(r *store.StepRecord) { r.Occurrence = int(uint16(r.Occurrence)) })},
	{"step-attempt-of-8-bits", "", "a step's attempt is kept in 8 bits", stepsAs(func(r *store.StepRecord) { r.Attempt = int(uint8(r.Attempt)) })},
	{"index-of-16-bits", "", "a step's index is kept in 16 bits", stepsAs(func(r *store.StepRecord) { r.Index = int(uint16(r.Index)) })},
	{"position-of-32-bits", "", "a step's position is kept in 32 bits", stepsAs(func(r *store.StepRecord) { r.Position = int64(uint32(r.Position)) })},
	{"ordinal-of-16-bits", "", "a child's ordinal is kept in 16 bits", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Spawn = slices.Clone(c.Spawn)
			for i := range c.Spawn {
				c.Spawn[i].Ordinal = int64(uint16(c.Spawn[i].Ordinal))
			}
		})
	})},
	{"crashes-of-16-bits", "", "a run's crashes are kept in 16 bits", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) { c.Crashes = int(uint16(c.Crashes)) })
	})},
	{"commit-number-of-8-bits", "", "of a commit's number 8 bits are compared, so that one in 256 is taken for a repeat", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			if c.Seq > 255 && uint8(c.Seq) == 0 {
				r, _ := s.row(c.Lease.Run)
				return store.CommitResult{Repeated: true, Status: r.Status, Events: r.Events}, nil
			}
			return next(c)
		})
	})},
	{"run-attempt-of-8-bits", "", "a run's attempt is imported in 8 bits", importsAs(func(r *store.RunRecord) { r.Run.Attempt = max(1, int(uint8(r.Run.Attempt))) })},
	{"generation-of-16-bits", "", "a run's generation is imported in 16 bits", importsAs(func(r *store.RunRecord) { r.Run.Generation = int(uint16(r.Run.Generation)) })},
	{"epoch-of-32-bits", "", "a run's epoch is imported in 32 bits", importsAs(func(r *store.RunRecord) { r.Run.Epoch = int64(uint32(r.Run.Epoch)) })},
	{"state-version-of-32-bits", "", "the versions of state are imported in 32 bits", importsAs(func(r *store.RunRecord) {
		for i := range r.State {
			r.State[i].Version = int64(uint32(r.State[i].Version))
		}
	})},
	{"group-counts-of-16-bits", "", "the counts of groups are imported in 16 bits", importsAs(func(r *store.RunRecord) {
		for i := range r.Groups {
			g := &r.Groups[i]
			g.Total, g.Open = int64(uint16(g.Total)), int64(uint16(g.Open))
		}
	})},
	{"epoch-compared-in-16-bits", "", "an Extend compares 16 bits of the epoch", wrap(func(s *faulty) {
		reads(extendOf, func(p *store.ExtendParams) {
			p.Leases = slices.Clone(p.Leases)
			for i := range p.Leases {
				l := &p.Leases[i]
				if r, ok := s.row(l.Run); ok && uint16(r.Epoch) == uint16(l.Epoch) {
					l.Epoch = r.Epoch
				}
			}
		}, nil)(s)
	})},
	{"worker-slots-of-16-bits", "", "a worker's slots are kept in 16 bits", enters(entrance{putWorker: func(p *store.PutWorkerParams) { p.Worker.Slots = int(uint16(p.Worker.Slots)) }})},
	{"events-cut-at-5000", "P5", "events above 5,000 are not told apart, and count as seen", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if r, ok := s.row(c.Lease.Run); ok && r.Events > 5000 {
				c.Seen = r.Events
			}
		})
	})},

	{"cancel-reaches-three-generations", "P11", "a cancel reaches three generations", cancelSparing(func(generation, _ int) bool { return generation > 3 })},
	{"cancel-reaches-eight-generations", "P11", "a cancel reaches eight generations", cancelSparing(func(generation, _ int) bool { return generation > 8 })},
	{"cancel-reaches-1000-children", "P11", "a cancel reaches the first 1,000 children of a run", cancelSparing(func(_, place int) bool { return place > 1000 })},
	{"end-reaches-eight-generations", "P11", "the end of a run reaches eight generations", wrap(func(s *faulty) {
		s.eachCommit(func(ctx context.Context, p store.CommitParams, c store.Commit, next one) (res store.CommitResult, err error) {
			if c.Transition == nil || !c.Transition.Kind.Final() || len(p.Commits) > 1 {
				return next(c)
			}
			s.sparing(ctx, p.Namespace, c.Lease.Run, func(generation, _ int) bool { return generation > 8 }, func() { res, err = next(c) })
			return res, err
		})
	})},

	{"claim-looks-into-8-lanes", "P7", "a claim looks into 8 queues and 8 workflows of a demand", wrap(reads(claimOf, func(p *store.ClaimParams) {
		p.Demands = slices.Clone(p.Demands)
		for i := range p.Demands {
			d := &p.Demands[i]
			d.MoreQueues, d.Workflows = upTo(d.MoreQueues, 7), upTo(d.Workflows, 8)
		}
	}, nil))},
	{"claim-of-1000-queues", "P7", "a claim looks into the first 1,000 queues of a demand", wrap(reads(claimOf, func(p *store.ClaimParams) {
		p.Demands = slices.Clone(p.Demands)
		for i := range p.Demands {
			p.Demands[i].MoreQueues = upTo(p.Demands[i].MoreQueues, 999)
		}
	}, nil))},
	{"claim-of-128-demands", "P7", "a claim hears the first 128 demands", wrap(reads(claimOf, func(p *store.ClaimParams) { p.Demands = upTo(p.Demands, 128) }, nil))},
	{"claim-tells-of-100-lanes", "P7", "a claim tells of 100 lanes that wait at most", wrap(reads(claimOf, nil, func(_ *store.ClaimParams, got *store.Claimed) { got.Waiting = upTo(got.Waiting, 100) }))},

	{"call-stores-500-signals", "P17", "of a call of signals the first 500 are stored, and all are reported so", forgets(signalOf, func(p *store.SignalParams) *[]store.NewSignal { return &p.Signals }, 500,
		func(n store.NewSignal) store.SignalResult { return store.SignalResult{Run: n.Run} })},
	{"commit-consumes-1000-signals", "P17", "a commit consumes the first 1,000 of its signals", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) { c.Consumed = upTo(c.Consumed, 1000) })
	})},

	{"write-stores-100-keys", "P14", "a SetState stores the first 100 of its keys, and reports all", forgets(setStateOf, func(p *store.SetStateParams) *[]store.StateWrite { return &p.Writes }, 100,
		func(w store.StateWrite) store.StateEntry {
			return store.StateEntry{Key: w.Key, Value: w.Value, Version: 1}
		})},
	{"commit-stores-1000-keys", "P14", "a commit stores the first 1,000 of its keys", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) { c.State = upTo(c.State, 1000) })
	})},
	{"state-of-1000-names", "P14", "GetState reads the first 1,000 of the keys asked for", wrap(reads(stateOf, func(p *store.GetStateParams) { p.Keys = upTo(p.Keys, 1000) }, nil))},
	{"workflows-put-up-to-1000", "P14", "PutWorkflows stores the first 1,000 workflows", enters(entrance{putWorkflows: func(p *store.PutWorkflowsParams) { p.Workflows = upTo(p.Workflows, 1000) }})},
	{"workflows-of-1000-names", "P14", "ListWorkflows reads the first 1,000 names", wrap(reads(workflowsOf, func(p *store.ListWorkflowsParams) { p.Names = upTo(p.Names, 1000) }, nil))},
	{"schedules-except-100", "P14", "ListSchedules leaves out the first 100 of the names to leave out", wrap(reads(schedulesOf, func(p *store.ListSchedulesParams) { p.Except = upTo(p.Except, 100) }, nil))},
	{"schedules-of-256-names", "P14", "ListSchedules reads the first 256 names", wrap(reads(schedulesOf, func(p *store.ListSchedulesParams) { p.Names = upTo(p.Names, 256) }, nil))},
	{"actions-recorded-up-to-1000", "P14", "Record keeps the first 1,000 actions", enters(entrance{record: func(p *store.RecordParams) { p.Actions = upTo(p.Actions, 1000) }})},
	{"firings-end-at-256", "P14", "the list of firings ends at the page that has the 256th", enters(entrance{listFirings: func(p *store.ListFiringsParams, page *store.FiringPage) {
		if p.Limit == 100 && p.Cursor != "" && len(page.Firings) == p.Limit {
			page.Next = ""
		}
	}})},
	{"worker-keeps-1000-queues", "P14", "a worker is put with its first 1,000 queues", enters(entrance{putWorker: func(p *store.PutWorkerParams) { p.Worker.Queues = upTo(p.Worker.Queues, 1000) }})},

	{"twenty-groups", "P9", "a run has 20 groups, and children of others are not counted", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			s.Tamper(c.Lease.Run, func(r model.Row) {
				var names []string
				for n := range r.Groups {
					names = append(names, n)
				}
				slices.Sort(names)
				for i, n := range names {
					if i >= 20 {
						delete(r.Groups, n)
					}
				}
			})
		})
	})},
	{"await-of-100-groups", "P9", "a sleep awaits the first 100 of its groups", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if c.Transition != nil {
				c.Transition.Await = upTo(c.Transition.Await, 100)
			}
		})
	})},
	{"group-counts-1000", "P9", "a group counts up to 1,000 children", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			s.Tamper(c.Lease.Run, func(r model.Row) {
				for _, g := range r.Groups {
					if over := g.Total - 2000; over > 0 {
						g.Total, g.Open = g.Total-over, g.Open-over
					}
				}
			})
		})
	})},

	{"sleep-of-a-century", "P13", "a sleep or a retry lasts 100 years at most", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if c.Transition != nil {
				shorter(&c.Transition.After, century)
			}
		})
	})},
	{"lease-of-a-century", "P13", "a claim's lease lasts 100 years at most", wrap(reads(claimOf, func(p *store.ClaimParams) { shorter(&p.LeaseFor, century) }, nil))},
	{"extension-of-a-century", "P13", "an extension lasts 100 years at most", wrap(reads(extendOf, func(p *store.ExtendParams) { shorter(&p.LeaseFor, century) }, nil))},
	{"lock-of-a-century", "P13", "a lock lasts 100 years at most", wrap(reads(lockOf, func(p *store.LockParams) { shorter(&p.For, century) }, nil))},
	{"delay-of-a-century", "P13", "a start is delayed by 100 years at most", wrap(reads(createOf, func(p *store.CreateParams) {
		p.Runs = slices.Clone(p.Runs)
		for i := range p.Runs {
			shorter(&p.Runs[i].After, century)
		}
	}, nil))},
	{"worker-of-a-century", "P13", "a worker counts as alive for 100 years at most", enters(entrance{putWorker: func(p *store.PutWorkerParams) { shorter(&p.Worker.TTL, century) }})},
}
