package mutant

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// counts counts repetitions, by key.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

// next counts one more and returns how many there were before.
func (c *counts) next(of ...any) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	key := fmt.Sprintln(of...)
	c.n[key]++
	return c.n[key]
}

// endsBehindGone makes a list end at a cursor whose row was deleted. It remembers the last row of
// each page by its cursor, and looks whether the row exists.
func endsBehindGone[P, R any](of func(s *faulty) *verb[P, R], cursor func(p *P) string, next func(got *R) (string, any), there func(s *faulty, p *P, row any) bool) func(*faulty) {
	return func(s *faulty) {
		var mu sync.Mutex
		rows := map[string]any{}
		at := of(s)
		read := *at
		*at = func(ctx context.Context, p P) (R, error) {
			mu.Lock()
			row, known := rows[cursor(&p)]
			mu.Unlock()
			if known && !there(s, &p, row) {
				var none R
				return none, nil
			}
			got, err := read(ctx, p)
			if behind, last := next(&got); err == nil && behind != "" {
				mu.Lock()
				rows[behind] = last
				mu.Unlock()
			}
			return got, err
		}
	}
}

// fromTheThird changes the commits of a kind of transition from a run's third on.
func fromTheThird(kind store.TransitionKind, change func(c *store.Commit)) func(*faulty) {
	return func(s *faulty) {
		var n counts
		s.beforeCommit(func(c *store.Commit) {
			r, ok := s.row(c.Lease.Run)
			if ok && ended(c, kind) && r.Epoch == c.Lease.Epoch && n.next(c.Lease.Run) > 2 {
				change(c)
			}
		})
	}
}

// armed adds the awaits of a run's earlier sleeps to its awaits, from its nth sleep on.
func armed(from int) func(*faulty) {
	return func(s *faulty) {
		var mu sync.Mutex
		before := map[store.ID][][]store.Await{}
		s.afterCommit(func(c *store.Commit, _ time.Time, res *store.CommitResult) {
			if !ended(c, store.Sleep) || res.Status != store.Sleeping {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			id := c.Lease.Run
			if len(before[id]) >= from-1 {
				s.Tamper(id, func(r model.Row) { *r.Awaits = append(slices.Clone(*r.Awaits), slices.Concat(before[id]...)...) })
			}
			before[id] = append(before[id], c.Transition.Await)
		})
	}
}

// These mutants keep a rule the first time and break it the third time, or end lists whose last row
// was deleted.
var againMutants = []Mutant{
	{"list-ends-at-a-purged-run", "P14", "a cursor whose run was purged ends the listing", wrap(endsBehindGone(listOf,
		func(p *store.ListParams) string { return p.Cursor },
		func(got *store.RunPage) (string, any) {
			if len(got.Runs) == 0 {
				return "", nil
			}
			return got.Next, got.Runs[len(got.Runs)-1].ID
		},
		func(s *faulty, _ *store.ListParams, row any) bool { _, ok := s.row(row.(store.ID)); return ok }))},
	{"list-by-end-starts-over-at-a-purged-run", "P14", "a cursor by the end whose run was purged begins the listing anew", wrap(func(s *faulty) {
		var mu sync.Mutex
		last := map[string]store.ID{}
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			mu.Lock()
			defer mu.Unlock()
			if id, ok := last[p.Cursor]; ok && p.ByEnd {
				if _, there := s.row(id); !there {
					p.Cursor = ""
				}
			}
			page, err := list(ctx, p)
			if page.Next != "" && len(page.Runs) > 0 {
				last[page.Next] = page.Runs[len(page.Runs)-1].ID
			}
			return page, err
		}
	})},
	{"schedules-end-at-a-deleted-one", "P14", "a cursor whose schedule was deleted ends the listing", wrap(endsBehindGone(schedulesOf,
		func(p *store.ListSchedulesParams) string { return p.Cursor },
		func(got *store.SchedulePage) (string, any) {
			if len(got.Schedules) == 0 {
				return "", nil
			}
			return got.Next, got.Schedules[len(got.Schedules)-1].Name
		},
		func(s *faulty, p *store.ListSchedulesParams, row any) bool {
			page, _ := s.Store.ListSchedules(context.Background(), store.ListSchedulesParams{Namespace: p.Namespace, Names: []string{row.(string)}})
			return len(page.Schedules) > 0
		}))},
	{"workers-end-at-a-removed-one", "P14", "a cursor whose worker was removed ends the listing", wrap(endsBehindGone(workersOf,
		func(p *store.ListWorkersParams) string { return p.Cursor },
		func(got *store.WorkerPage) (string, any) {
			if len(got.Workers) == 0 {
				return "", nil
			}
			return got.Next, got.Workers[len(got.Workers)-1].ID
		},
		func(s *faulty, p *store.ListWorkersParams, row any) bool {
			page, _ := s.Store.ListWorkers(context.Background(), store.ListWorkersParams{Namespace: p.Namespace, Limit: store.MaxPage})
			return slices.ContainsFunc(page.Workers, func(w store.Worker) bool { return w.ID == row.(string) })
		}))},
	{"paused-ends-at-a-resumed-one", "P14", "a cursor whose queue or workflow was resumed ends the listing", wrap(endsBehindGone(pausedOf,
		func(p *store.ListPausedParams) string { return p.Cursor },
		func(got *store.PausedPage) (string, any) {
			if len(got.Paused) == 0 {
				return "", nil
			}
			return got.Next, got.Paused[len(got.Paused)-1]
		},
		func(s *faulty, p *store.ListPausedParams, row any) bool {
			page, _ := s.Store.ListPaused(context.Background(), store.ListPausedParams{Namespace: p.Namespace, Limit: store.MaxPage})
			return slices.Contains(page.Paused, row.(store.PausedTarget))
		}))},
	{"state-ends-at-a-deleted-key", "P14", "a page of state behind a key that is deleted is empty", wrap(func(s *faulty) {
		get := s.getState
		s.getState = func(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
			if p.After != "" {
				if at, err := get(ctx, store.GetStateParams{Namespace: p.Namespace, Run: p.Run, Keys: []string{p.After}}); err != nil || len(at) == 0 {
					return nil, err
				}
			}
			return get(ctx, p)
		}
	})},
	{"steps-end-at-a-forgotten-one", "P14", "a page of steps behind a position that is forgotten is empty", wrap(func(s *faulty) {
		read := s.readSteps
		s.readSteps = func(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
			if p.After > 0 && !slices.ContainsFunc(s.steps(p.Run), func(st store.Step) bool { return st.Position == p.After }) {
				return store.StepPage{}, nil
			}
			return read(ctx, p)
		}
	})},
	{"children-end-at-a-purged-one", "P14", "a page of children behind one that is purged is empty", wrap(func(s *faulty) {
		read := s.children
		s.children = func(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
			if p.After > 0 {
				at, err := read(ctx, store.ChildrenParams{Namespace: p.Namespace, Parent: p.Parent, Group: p.Group, After: p.After - 1, Limit: 1})
				if err != nil || len(at.Children) == 0 || at.Children[0].Ordinal != p.After {
					return store.ChildPage{}, err
				}
			}
			return read(ctx, p)
		}
	})},
	{"inbox-ends-at-a-consumed-signal", "P17", "an inbox behind a signal that is consumed is empty", wrap(func(s *faulty) {
		read := s.inbox
		s.inbox = func(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
			in, err := read(ctx, p)
			if p.After > 0 && p.After != store.NoSignals {
				at, _ := read(ctx, store.InboxParams{Namespace: p.Namespace, Run: p.Run, After: p.After - 1})
				if len(at.Signals) == 0 || at.Signals[0].Position != p.After {
					in.Signals, in.MoreSignals = nil, false
				}
			}
			return in, err
		}
	})},
	{"lock-released-across-namespaces", "P15", "a lock that is given back is free in all namespaces in which its owner has it", wrap(func(s *faulty) { s.locksElsewhere(func(p store.LockParams) bool { return p.For == 0 }) })},
	{"lock-extended-across-namespaces", "P15", "a lock that is taken or extended lasts as long in all namespaces in which its owner has it", wrap(func(s *faulty) { s.locksElsewhere(func(p store.LockParams) bool { return p.For > 0 }) })},
	{"lock-known-by-its-name-alone", "P15", "a lock has one owner in all namespaces", wrap(calls(lockOf, func(p *store.LockParams) {
		if p.Validate() == nil {
			p.Namespace = "all"
		}
	}))},
	{"await-of-an-earlier-sleep", "P9", "a sleep awaits what earlier ones did, too", wrap(armed(2))},
	{"await-of-the-first-sleeps", "P9", "from its fourth sleep on, a run awaits what earlier ones did, too", wrap(armed(4))},
	{"third-sleep-is-deaf", "P5", "a run's third sleep is woken by its time alone", wrap(fromTheThird(store.Sleep, func(c *store.Commit) { c.Transition.Wakes = 0 }))},
	{"third-sleep-too-short", "P5", "a run's third sleep is over at once", wrap(fromTheThird(store.Sleep, func(c *store.Commit) { c.Transition.After = min(c.Transition.After, time.Microsecond) }))},
	{"third-retry-at-once", "P13", "a retry's delay is ignored from the third attempt on", wrap(fromTheThird(store.Retry, func(c *store.Commit) { c.Transition.After = 0 }))},
	{"far-retries-at-once", "P13", "a retry's delay is ignored from the twenty-fifth attempt on", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if r, ok := s.row(c.Lease.Run); ok && ended(c, store.Retry) && r.Attempt >= 25 {
				c.Transition.After = 0
			}
		})
	})},
	{"retries-wait-a-day-at-most", "P13", "a retry waits for a day at most", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if ended(c, store.Retry) {
				c.Transition.After = min(c.Transition.After, 24*time.Hour)
			}
		})
	})},
	{"third-release-is-a-retry", "P6", "a run that is released for the third time begins another attempt", wrap(func(s *faulty) {
		var n counts
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Release) && n.next(c.Lease.Run) > 2 {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Attempt++ })
			}
		})
	})},
	{"crashes-stop-at-three", "P6", "a run's crashes are counted up to three", wrap(func(s *faulty) {
		s.onClaim(func(_ *store.ClaimedRun, stored *store.Run) { stored.Crashes = min(stored.Crashes, 3) })
	})},
	{"third-extension-ignored", "P13", "a lease is extended twice", wrap(func(s *faulty) {
		var n counts
		extend := s.extend
		s.extend = func(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
			ends := map[store.ID]time.Time{}
			for _, l := range p.Leases {
				if r, ok := s.row(l.Run); ok && n.next(l) > 2 {
					ends[l.Run] = r.VisibleAt
				}
			}
			out, err := extend(ctx, p)
			for id, end := range ends {
				s.Tamper(id, func(r model.Row) { r.VisibleAt = end })
			}
			return out, err
		}
	})},
	{"third-generation-keeps-failure", "P3", "a run that continues as new for the third time keeps its failure", wrap(func(s *faulty) {
		s.aroundCommit(func(c *store.Commit, before store.Run, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Continue) && before.Generation >= 2 {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Failure = before.Failure })
			}
		})
	})},
	{"third-pause-does-nothing", "P11", "a run can be paused twice", wrap(func(s *faulty) {
		var n counts
		pause := s.pause
		s.pause = func(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
			if !p.Resume && len(p.IDs) == 1 && n.next(p.IDs[0]) > 2 {
				r, _ := s.row(p.IDs[0])
				return []store.ControlResult{{Status: r.Status}}, nil
			}
			return pause(ctx, p)
		}
	})},
	{"third-restart-keeps-the-attempt", "P6", "a run that is restarted for the third time keeps its attempt", wrap(func(s *faulty) {
		var n counts
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			before, _ := s.row(p.ID)
			err := restart(ctx, p)
			if err == nil && n.next(p.ID) > 2 {
				s.Tamper(p.ID, func(r model.Row) { r.Attempt = before.Attempt })
			}
			return err
		})
	})},
	{"fork-of-a-fork-has-no-steps", "P3", "a fork of a fork begins without steps", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			old, _ := s.row(p.ID)
			res, err := fork(ctx, p)
			if err == nil && !res.Repeated && !old.ForkedFrom.IsZero() {
				s.Tamper(p.New, func(r model.Row) { *r.Steps = nil })
			}
			return res, err
		}
	})},
	{"third-signal-of-a-name-is-a-repeat", "P17", "a signal of a name and payload that a run had twice is taken for a repeat", wrap(func(s *faulty) {
		var n counts
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			if len(p.Signals) == 1 && p.Validate() == nil {
				sig := p.Signals[0]
				if _, ok := s.row(sig.Run); ok && n.next(sig.Run, sig.Name, string(sig.Payload)) > 2 {
					return []store.SignalResult{{Run: sig.Run}}, nil
				}
			}
			return signal(ctx, p)
		}
	})},
	{"third-lock-extension-short", "P13", "a lock that is extended for the third time ends where it did", wrap(func(s *faulty) {
		var n counts
		lock := s.lock
		s.lock = func(ctx context.Context, p store.LockParams) (store.LockResult, error) {
			if p.For > time.Second && n.next(p.Namespace, p.Name, p.Owner) > 3 {
				p.For = time.Second
			}
			return lock(ctx, p)
		}
	})},
	{"third-firing-makes-no-run", "P10", "a schedule's third firing is recorded as skipped", wrap(func(s *faulty) {
		var n counts
		calls(fireOf, func(p *store.FireParams) {
			if p.Run != nil && n.next(p.Namespace, p.Schedule) > 4 {
				p.Run = nil
			}
		})(s)
	})},
	{"third-question-unasked", "P13", "nobody is asked for a sign of life for the third time", wrap(func(s *faulty) {
		var n counts
		ask := s.askWorkers
		s.askWorkers = func(ctx context.Context, p store.AskWorkersParams) (int, error) {
			if n.next(p.Namespace) > 2 {
				return 0, nil
			}
			return ask(ctx, p)
		}
	})},
}

// locksElsewhere repeats a call of Lock in all other namespaces in which the owner holds the lock.
func (s *faulty) locksElsewhere(which func(p store.LockParams) bool) {
	var mu sync.Mutex
	spaces := map[string]map[string]string{} // by name: the owners, by namespace
	lock := s.lock
	s.lock = func(ctx context.Context, p store.LockParams) (store.LockResult, error) {
		mu.Lock()
		defer mu.Unlock()
		res, err := lock(ctx, p)
		for space, owner := range spaces[p.Name] {
			if err == nil && space != p.Namespace && owner == p.Owner && which(p) {
				other := p
				other.Namespace = space
				_, _ = lock(ctx, other)
			}
		}
		if err == nil && res.Held {
			if spaces[p.Name] == nil {
				spaces[p.Name] = map[string]string{}
			}
			spaces[p.Name][p.Namespace] = p.Owner
		}
		return res, err
	}
}
