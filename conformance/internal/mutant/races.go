package mutant

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// later removes a run's steps and signals for the time of a round trip.
func (s *faulty) later(id store.ID) {
	var steps []store.Step
	var signals []store.Signal
	s.Tamper(id, func(r model.Row) { steps, signals, *r.Steps, *r.Signals = *r.Steps, *r.Signals, nil, nil })
	roundTrip()
	s.Tamper(id, func(r model.Row) { *r.Steps, *r.Signals = steps, signals })
}

// halves reads a page in two statements: the first rows as of one moment, the others as of a later
// one.
func halves[T any](read func() ([]T, error), key func(T) store.ID) ([]T, error) {
	before, err := read()
	if err != nil || len(before) < 2 {
		return before, err
	}
	roundTrip()
	after, err := read()
	if err != nil {
		return nil, err
	}
	out := slices.Clone(before[:len(before)/2])
	for _, row := range before[len(before)/2:] {
		i := slices.IndexFunc(after, func(r T) bool { return key(r) == key(row) })
		if i >= 0 {
			out = append(out, after[i])
		}
	}
	return out, nil
}

// alone separates a run from its children during do, and returns those that had to follow it.
func (s *faulty) alone(namespace string, parent store.ID, do func()) (followers []store.ID) {
	page, _ := s.Store.List(context.Background(), store.ListParams{Namespace: namespace, Filter: store.RunFilter{Parent: parent}, OldestFirst: true, Limit: store.MaxPage})
	for _, k := range page.Runs {
		s.Tamper(k.ID, func(r model.Row) {
			if r.OnClose == store.CloseCancel && !r.Status.Final() {
				followers, r.OnClose = append(followers, k.ID), store.CloseAbandon
			}
		})
	}
	do()
	for _, id := range followers {
		s.Tamper(id, func(r model.Row) { r.OnClose = store.CloseCancel })
	}
	return followers
}

// follow cancels children in a transaction of its own, and returns what that ended.
func (s *faulty) follow(namespace string, ids []store.ID, now time.Time) (ended []store.RunCount) {
	if len(ids) == 0 {
		return nil
	}
	roundTrip()
	res, _ := s.Store.Cancel(context.Background(), store.CancelParams{Namespace: namespace, IDs: ids, Reason: store.CanceledWithParent, Now: now})
	for _, r := range res {
		for _, c := range r.Ended {
			ended = store.Tally(ended, c.Queue, c.Workflow, c.Status, c.Count)
		}
	}
	return ended
}

// finished finds the runs that a purge may delete.
func (s *faulty) finished(ctx context.Context, namespace string) []store.Run {
	page, _ := s.Store.List(ctx, store.ListParams{Namespace: namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Completed, store.Failed, store.Canceled}}, Limit: store.MaxPage})
	return page.Runs
}

// These mutants show runs that are half-written, or read two moments in one call.
var tornMutants = []Mutant{
	{"tree-canceled-level-by-level", "P11", "the children of a canceled run are canceled in a transaction behind its own", wrap(func(s *faulty) {
		s.onCancel(func(p store.CancelParams, before store.Run, next func() ([]store.ControlResult, error)) (out []store.ControlResult, err error) {
			below := s.alone(p.Namespace, before.ID, func() { out, err = next() })
			ended := s.follow(p.Namespace, below, p.Now)
			if len(out) == 1 {
				for _, c := range ended {
					out[0].Ended = store.Tally(out[0].Ended, c.Queue, c.Workflow, c.Status, c.Count)
				}
			}
			return out, err
		})
	})},
	{"children-close-behind-their-parent", "P11", "the children of a run that ends are canceled in a transaction behind its end", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next one) (res store.CommitResult, err error) {
			if !ended(&c, store.CompleteRun, store.FailRun, store.CancelRun) {
				return next(c)
			}
			below := s.alone(p.Namespace, c.Lease.Run, func() { res, err = next(c) })
			if err == nil && res.Err == nil && !res.Repeated {
				res.Ended = s.follow(p.Namespace, below, p.Now)
			}
			return res, err
		})
	})},
	{"fork-without-its-steps-first", "P3", "the run of a fork is made in one transaction, its steps are copied in the next", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			res, err := fork(ctx, p)
			if err == nil && !res.Repeated {
				s.later(p.New)
			}
			return res, err
		}
	})},
	{"import-without-its-steps-first", "P3", "an imported run is made in one transaction, what belongs to it in the next", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			made, err := imports(ctx, p)
			if made {
				s.later(p.Record.Run.ID)
			}
			return made, err
		}
	})},
	{"import-with-its-inbox-later", "P3", "the signals of an imported run are stored in a transaction behind the one that makes it", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			made, err := imports(ctx, p)
			if made {
				var signals []store.Signal
				s.Tamper(p.Record.Run.ID, func(r model.Row) { signals, *r.Signals = *r.Signals, nil })
				roundTrip()
				s.Tamper(p.Record.Run.ID, func(r model.Row) { *r.Signals = signals })
			}
			return made, err
		}
	})},
	{"purge-deletes-steps-first", "P3", "a purge deletes the steps of runs in one transaction, the runs in the next", wrap(func(s *faulty) {
		purge := s.purge
		s.purge = func(ctx context.Context, p store.PurgeParams) (int, error) {
			if p.Validate() == nil && p.Limit == 0 {
				for _, r := range s.finished(ctx, p.Namespace) {
					if r.FinishedAt.After(clock(p.Now).Add(-p.OlderThan)) || len(p.Statuses) > 0 && !slices.Contains(p.Statuses, r.Status) || p.Workflow != "" && p.Workflow != r.Workflow || !r.Parent.IsZero() {
						continue
					}
					s.Tamper(r.ID, func(r model.Row) { *r.Steps = nil })
				}
				roundTrip()
			}
			return purge(ctx, p)
		}
	})},
	{"restart-clears-the-failure-later", "P3", "a restarted run is pending in one transaction, its failure is cleared in the next", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			before, _ := s.row(p.ID)
			err := restart(ctx, p)
			if err == nil {
				s.Tamper(p.ID, func(r model.Row) { r.Failure = before.Failure })
				roundTrip()
				s.Tamper(p.ID, func(r model.Row) { r.Failure = nil })
			}
			return err
		})
	})},
	{"restart-counts-attempts-later", "P3", "a restarted run has its old attempt for a moment", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			before, _ := s.row(p.ID)
			err := restart(ctx, p)
			if err == nil {
				s.Tamper(p.ID, func(r model.Row) { r.Attempt = before.Attempt })
				roundTrip()
				s.Tamper(p.ID, func(r model.Row) { r.Attempt = 1 })
			}
			return err
		})
	})},
	{"children-before-their-commit", "P3", "the children of a commit are visible before its steps and state are", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			if len(c.Spawn) == 0 || len(c.Steps)+len(c.State) == 0 || c.Seq < 1 {
				return next(c)
			}
			a := store.Commit{Lease: c.Lease, Seq: c.Seq, Spawn: c.Spawn, Seen: c.Seen}
			first, err := next(a)
			if err != nil || first.Err != nil || first.Repeated {
				return first, err
			}
			s.unnumber(c.Lease.Run)
			roundTrip()
			c.Spawn = nil
			res, err := next(c)
			res.Spawned = first.Spawned
			return res, err
		})
	})},
	{"signals-consumed-behind-their-commit", "P3", "the signals that a commit has consumed leave the inbox in a transaction behind it", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			var kept []store.Signal
			s.Tamper(c.Lease.Run, func(r model.Row) { kept = slices.Clone(*r.Signals) })
			res, err := next(c)
			if err != nil || res.Err != nil || res.Repeated || len(c.Consumed) == 0 {
				return res, err
			}
			var left []store.Signal
			s.Tamper(c.Lease.Run, func(r model.Row) { left, *r.Signals = *r.Signals, kept })
			roundTrip()
			s.Tamper(c.Lease.Run, func(r model.Row) { *r.Signals = left })
			return res, err
		})
	})},
	{"child-counts-behind-its-end", "P9", "the end of a child reaches its parent's group in a transaction behind it", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			k, ok := s.row(c.Lease.Run)
			if !ok || k.Group == "" || !ended(&c, store.CompleteRun) {
				return next(c)
			}
			var before, after store.Group
			read := func(into *store.Group) func(model.Row) {
				return func(p model.Row) {
					if g := p.Groups[k.Group]; g != nil {
						*into = *g
					}
				}
			}
			s.Tamper(k.Parent, read(&before))
			res, err := next(c)
			s.Tamper(k.Parent, read(&after))
			put := func(g store.Group) {
				s.Tamper(k.Parent, func(p model.Row) {
					if p.Groups[k.Group] != nil {
						*p.Groups[k.Group] = g
					}
				})
			}
			if err == nil && res.Err == nil && !res.Repeated {
				put(before)
				roundTrip()
				put(after)
			}
			return res, err
		})
	})},
	{"run-before-its-firing", "P3", "a firing's run is made in a transaction before the one that records the firing", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			made := false
			if p.Run != nil && p.Run.ExternalID == "" && s.mayFire(ctx, p) {
				_, there := s.row(p.Run.ID)
				res, err := s.Store.Create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{*p.Run}, Now: p.Now})
				made = err == nil && res[0].Err == nil && !there
				roundTrip()
			}
			res, err := fire(ctx, p)
			res.Made = res.Made || made && res.Fired
			return res, err
		}
	})},
	{"state-set-key-by-key", "P3", "each key that is set from outside is a transaction of its own", wrap(func(s *faulty) {
		set := s.setState
		s.setState = func(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
			conditional := slices.ContainsFunc(p.Writes, func(w store.StateWrite) bool { return w.IfVersion != nil })
			if len(p.Writes) < 2 || conditional || p.Validate(s.Limits()) != nil {
				return set(ctx, p)
			}
			var all []store.StateEntry
			for i := range p.Writes {
				q := p
				q.Writes = p.Writes[i : i+1]
				out, err := set(ctx, q)
				if err != nil {
					return nil, err
				}
				all = append(all, out...)
				roundTrip()
			}
			return all, nil
		}
	})},
	{"schedule-deleted-and-put", "P3", "a schedule that is put again is deleted in one transaction and made in the next", wrap(func(s *faulty) {
		put := s.putSchedule
		s.putSchedule = func(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
			if p.Validate(s.Limits()) == nil {
				if s.Store.DeleteSchedule(ctx, store.DeleteScheduleParams{Namespace: p.Namespace, Name: p.Schedule.Name}) == nil {
					roundTrip()
				}
			}
			return put(ctx, p)
		}
	})},
	{"batch-made-run-by-run", "", "each run of a create is a transaction of its own", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) (all []store.CreateResult, err error) {
			if len(p.Runs) < 2 || len(p.Runs) > 10 || p.Validate() != nil {
				return create(ctx, p)
			}
			for i := range p.Runs {
				q := p
				q.Runs = p.Runs[i : i+1]
				res, err := create(ctx, q)
				if err != nil {
					return nil, err
				}
				all = append(all, res...)
				roundTrip()
			}
			return all, nil
		}
	})},
	{"get-of-two-moments", "P3", "Get reads the first of its runs in one statement, the others in the next", wrap(func(s *faulty) {
		get := s.get
		s.get = func(ctx context.Context, p store.GetParams) ([]store.Run, error) {
			return halves(func() ([]store.Run, error) { return get(ctx, p) }, func(r store.Run) store.ID { return r.ID })
		}
	})},
	{"page-of-two-moments", "P14", "a page of runs is read in two statements", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (page store.RunPage, err error) {
			page.Runs, err = halves(func() ([]store.Run, error) {
				got, err := list(ctx, p)
				page.Next = got.Next
				return got.Runs, err
			}, func(r store.Run) store.ID { return r.ID })
			return page, err
		}
	})},
	{"page-status-by-status", "P14", "a page is read with one statement for each status: a run that changes its status comes twice or not at all", wrap(func(s *faulty) {
		list := s.list
		s.list = func(ctx context.Context, p store.ListParams) (store.RunPage, error) {
			whole, err := list(ctx, p)
			if err != nil || len(whole.Runs) < 2 || whole.Next != "" || p.Cursor != "" {
				return whole, err
			}
			var page store.RunPage
			for i, st := range store.Statuses() {
				if i > 0 {
					roundTrip()
				}
				q := p
				if q.Filter.Statuses = []store.Status{st}; len(p.Filter.Statuses) > 0 && !slices.Contains(p.Filter.Statuses, st) {
					continue
				}
				part, err := list(ctx, q)
				if err != nil {
					return store.RunPage{}, err
				}
				page.Runs = append(page.Runs, part.Runs...)
			}
			slices.SortStableFunc(page.Runs, func(a, b store.Run) int {
				c := p.PositionOf(&a).Compare(p.PositionOf(&b))
				if !p.OldestFirst {
					c = -c
				}
				return c
			})
			return page, nil
		}
	})},
	{"count-status-by-status", "", "the runs of each status are counted in a statement of their own", wrap(func(s *faulty) {
		count := s.count
		s.count = func(ctx context.Context, p store.CountParams) (all []store.RunCount, err error) {
			if len(p.Filter.Statuses) > 0 {
				return count(ctx, p)
			}
			for i, st := range store.Statuses() {
				if i > 0 {
					roundTrip()
				}
				p.Filter.Statuses = []store.Status{st}
				rows, err := count(ctx, p)
				if err != nil {
					return nil, err
				}
				all = append(all, rows...)
			}
			slices.SortFunc(all, func(a, b store.RunCount) int {
				return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status), cmp.Compare(a.FailureCode, b.FailureCode))
			})
			return all, nil
		}
	})},
	{"find-of-two-moments", "P8", "Find looks for an active run in one statement, and for one of the past in the next", wrap(func(s *faulty) {
		find := s.find
		s.find = func(ctx context.Context, p store.FindParams) (store.Run, error) {
			r, err := find(ctx, p)
			if err != nil || !r.Status.Final() {
				return r, err
			}
			roundTrip()
			if r, err = find(ctx, p); err == nil && !r.Status.Final() {
				return store.Run{}, store.ErrNotFound
			}
			return r, err
		}
	})},
}

// mayFire reports whether a firing would be recorded now.
func (s *faulty) mayFire(ctx context.Context, p store.FireParams) bool {
	page, err := s.Store.ListSchedules(ctx, store.ListSchedulesParams{Namespace: p.Namespace, Names: []string{p.Schedule}, Now: p.Now})
	return err == nil && p.Validate(s.Limits()) == nil && len(page.Schedules) == 1 && page.Schedules[0].NextAt.Equal(clock(p.At)) &&
		!clock(p.At).After(clock(p.Now)) && (p.Seen.IsZero() || page.Schedules[0].UpdatedAt.Equal(clock(p.Seen)))
}

// These mutants read first and write afterwards, and another call can come between.
var collisionMutants = []Mutant{
	{"restart-of-a-purged-run", "P3", "a restart looks at the run and then writes it: one that was purged meanwhile is back without its steps", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			before, ok := s.row(p.ID)
			if !ok || before.Status != store.Failed {
				return restart(ctx, p)
			}
			roundTrip()
			err := restart(ctx, p)
			if errors.Is(err, store.ErrNotFound) {
				n := store.NewRun{ID: p.ID, Workflow: before.Workflow, Queue: before.Queue, Input: before.Input}
				_, err = s.Store.Create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{n}, Now: p.Now})
			}
			return err
		})
	})},
	{"purge-of-a-restarted-run", "P3", "a purge chooses runs and then deletes them, whatever they have become", wrap(func(s *faulty) {
		purge := s.purge
		s.purge = func(ctx context.Context, p store.PurgeParams) (int, error) {
			chosen := s.finished(ctx, p.Namespace)
			if p.OlderThan > 0 || p.Limit > 0 || len(chosen) == 0 {
				return purge(ctx, p)
			}
			roundTrip()
			for _, r := range chosen {
				if now, ok := s.row(r.ID); ok && !now.Status.Final() {
					_, _ = s.Store.Cancel(ctx, store.CancelParams{Namespace: p.Namespace, IDs: []store.ID{r.ID}, Force: true, Now: p.Now})
				}
			}
			return purge(ctx, p)
		}
	})},
	{"restart-overlooks-a-create", "P8", "a restart looks whether the external id is free and then takes it: so does a create meanwhile", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, restart func(context.Context, oneRestart) error) error {
			before, ok := s.row(p.ID)
			if !ok || before.ExternalID == "" || before.Reuse != store.ReuseAfterEnd || before.Status < store.Failed {
				return restart(ctx, p)
			}
			if held, err := s.Store.Find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: before.ExternalID, Suffix: before.Suffix}); err != nil || !held.Status.Final() || held.Reuse == store.ReuseNever {
				return restart(ctx, p)
			}
			roundTrip()
			if held, err := s.Store.Find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: before.ExternalID, Suffix: before.Suffix}); err != nil || held.Status.Final() {
				return restart(ctx, p)
			}
			s.Tamper(p.ID, func(r model.Row) { r.ExternalID = "" })
			err := restart(ctx, p)
			s.Tamper(p.ID, func(r model.Row) { r.ExternalID = before.ExternalID })
			return err
		})
	})},
	{"create-overlooks-a-restart", "P8", "a create looks whether the external id is free and then takes it: so does a restart meanwhile", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			if len(p.Runs) != 1 || p.Runs[0].ExternalID == "" || p.Runs[0].Reuse != store.ReuseAfterEnd || p.Validate() != nil {
				return create(ctx, p)
			}
			n := p.Runs[0]
			held, err := s.Store.Find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: n.ExternalID, Suffix: n.Suffix})
			if _, there := s.row(n.ID); there || err != nil || !held.Status.Final() || held.Reuse != store.ReuseAfterEnd {
				return create(ctx, p)
			}
			roundTrip()
			if now, ok := s.row(held.ID); ok && now.Status.Final() {
				return create(ctx, p)
			}
			p.Runs = []store.NewRun{n}
			p.Runs[0].ExternalID, p.Runs[0].Suffix, p.Runs[0].MustBeNew = "", "", false
			out, err := create(ctx, p)
			s.Tamper(n.ID, func(r model.Row) { r.ExternalID, r.Suffix = n.ExternalID, n.Suffix })
			return out, err
		}
	})},
	{"import-overlooks-a-create", "P8", "an import looks whether the external id is free and then takes it: so does a create meanwhile", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			in := p.Record.Run
			if in.ExternalID == "" || in.Status.Final() {
				return imports(ctx, p)
			}
			held, err := s.Store.Find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: in.ExternalID, Suffix: in.Suffix})
			if err == nil && (!held.Status.Final() || held.Reuse == store.ReuseNever) {
				return imports(ctx, p)
			}
			roundTrip()
			if held, err = s.Store.Find(ctx, store.FindParams{Namespace: p.Namespace, ExternalID: in.ExternalID, Suffix: in.Suffix}); err != nil || held.Status.Final() {
				return imports(ctx, p)
			}
			p.Record.Run.ExternalID, p.Record.Run.Suffix = "", ""
			made, err := imports(ctx, p)
			s.Tamper(in.ID, func(r model.Row) { r.ExternalID, r.Suffix = in.ExternalID, in.Suffix })
			return made, err
		}
	})},
	{"imported-twice-at-once", "P4", "an import looks whether the run exists and then makes it: of two at once both say so", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			_, there := s.row(p.Record.Run.ID)
			if !there {
				roundTrip()
			}
			made, err := imports(ctx, p)
			return made || !there && err == nil, err
		}
	})},
	{"import-onto-a-created-run", "P4", "an import that meets a create of its ID writes its steps to that run", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			_, there := s.row(p.Record.Run.ID)
			if !there {
				roundTrip()
			}
			made, err := imports(ctx, p)
			if !made && !there && err == nil {
				s.Tamper(p.Record.Run.ID, func(r model.Row) {
					if len(*r.Steps) == 0 {
						*r.Steps = slices.Clone(p.Record.Steps)
					}
				})
			}
			return made, err
		}
	})},
	{"forked-twice-at-once", "P4", "a fork looks whether the new run exists and then makes it: of two at once both have made it", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			_, there := s.row(p.New)
			if !there {
				roundTrip()
			}
			res, err := fork(ctx, p)
			res.Repeated = res.Repeated && there
			return res, err
		}
	})},
	{"fork-of-a-purged-run", "P3", "a fork reads the run in one statement and copies its steps in the next: of one that was purged meanwhile there are none", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			old, there := s.row(p.ID)
			if !there || p.Before != nil || old.Namespace != p.Namespace {
				return fork(ctx, p)
			}
			roundTrip()
			if _, there = s.row(p.ID); there {
				return fork(ctx, p)
			}
			n := store.NewRun{ID: p.New, Workflow: old.Workflow, Queue: old.Queue, Input: old.Input}
			res, err := s.Store.Create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{n}, Now: p.Now})
			if err != nil {
				return store.CreateResult{}, err
			}
			return res[0], nil
		}
	})},
	{"fork-copies-page-by-page", "P3", "a fork copies steps one statement after the other: of a commit that comes between it has some", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			had := len(s.steps(p.ID))
			if had > 0 && p.Before == nil {
				roundTrip()
			}
			res, err := fork(ctx, p)
			if err == nil && !res.Repeated && p.Before == nil {
				s.Tamper(p.New, func(r model.Row) {
					if len(*r.Steps) > had+1 {
						*r.Steps = (*r.Steps)[:had+1]
					}
				})
			}
			return res, err
		}
	})},
	{"fire-of-a-deleted-schedule", "P10", "a firing makes its run and then finds that the schedule was deleted meanwhile", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			if p.Run == nil || p.Run.ExternalID != "" || !s.mayFire(ctx, p) {
				return fire(ctx, p)
			}
			roundTrip()
			res, err := fire(ctx, p)
			if errors.Is(err, store.ErrNotFound) {
				_, _ = s.Store.Create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{*p.Run}, Now: p.Now})
			}
			return res, err
		}
	})},
	{"fire-undoes-a-put", "P10", "a firing reads the schedule and writes it back: what was put meanwhile is gone", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			page, err := s.Store.ListSchedules(ctx, store.ListSchedulesParams{Namespace: p.Namespace, Names: []string{p.Schedule}, Now: p.Now})
			if err != nil || len(page.Schedules) != 1 || !s.mayFire(ctx, p) {
				return fire(ctx, p)
			}
			roundTrip()
			res, err := fire(ctx, p)
			if errors.Is(err, store.ErrConflict) {
				if _, err := s.Store.PutSchedule(ctx, store.PutScheduleParams{Namespace: p.Namespace, Schedule: page.Schedules[0], Now: p.Now}); err != nil {
					return store.FireResult{}, err
				}
				p.Seen = time.Time{}
				return fire(ctx, p)
			}
			return res, err
		}
	})},
	{"pause-of-a-run-that-was-leased", "P11", "a pause looks at the run and then marks it: one that gave up its lease meanwhile stays marked and is never paused", wrap(func(s *faulty) {
		pause := s.pause
		s.pause = func(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
			if len(p.IDs) != 1 || p.Resume {
				return pause(ctx, p)
			}
			if before, ok := s.row(p.IDs[0]); !ok || before.Status != store.Running {
				return pause(ctx, p)
			}
			roundTrip()
			if now, ok := s.row(p.IDs[0]); !ok || now.Status == store.Running || now.Status.Final() {
				return pause(ctx, p)
			}
			s.Tamper(p.IDs[0], func(r model.Row) { r.Pausing = true })
			return []store.ControlResult{{Status: store.Running}}, nil
		}
	})},
	{"children-of-a-canceled-run", "P11", "a commit looks at the lease and then spawns: the children of a run that was canceled meanwhile go on", wrap(func(s *faulty) {
		s.eachCommit(func(ctx context.Context, p store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			r, ok := s.row(c.Lease.Run)
			if len(c.Spawn) == 0 || !ok || r.Epoch != c.Lease.Epoch || r.Worker != c.Lease.Worker || r.Status.Final() {
				return next(c)
			}
			roundTrip()
			res, err := next(c)
			if errors.Is(res.Err, store.ErrLeaseLost) {
				for _, n := range c.Spawn {
					group, ordinal := n.Group, n.Ordinal
					n.Group, n.Ordinal, n.OnClose = "", 0, 0
					_, _ = s.Store.Create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{n}, Now: p.Now})
					s.Tamper(n.ID, func(k model.Row) { k.Parent, k.Group, k.Ordinal = c.Lease.Run, group, ordinal })
				}
			}
			return res, err
		})
	})},
	{"asked-twice-at-once", "P13", "who asks for signs of life looks who is silent and then writes: of two at once both have asked", wrap(func(s *faulty) {
		ask := s.askWorkers
		s.askWorkers = func(ctx context.Context, p store.AskWorkersParams) (int, error) {
			page, err := s.Store.ListWorkers(ctx, store.ListWorkersParams{Namespace: p.Namespace, NoHeld: true, Now: p.Now})
			silent := 0
			for _, w := range page.Workers {
				if w.Answers > 0 && w.AskedAt.IsZero() && w.Status != store.Offline && !w.SeenAt.After(clock(p.Now).Add(-p.Silent)) {
					silent++
				}
			}
			if err != nil || silent == 0 {
				return ask(ctx, p)
			}
			roundTrip()
			n, err := ask(ctx, p)
			if err != nil {
				return 0, err
			}
			return max(n, silent), nil
		}
	})},
}
