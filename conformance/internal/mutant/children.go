package mutant

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// onEnd wraps every commit and cancel by which a counted child may become final. ended says whether
// it did.
func (s *faulty) onEnd(before func(child store.Run), after func(child store.Run, ended bool, now time.Time)) {
	around := func(ids []store.ID, now time.Time, do func()) {
		var kids []store.Run
		for _, id := range ids {
			if r, ok := s.row(id); ok && !r.Parent.IsZero() && r.Group != "" && !r.Status.Final() {
				kids = append(kids, r)
				before(r)
			}
		}
		do()
		for _, k := range kids {
			r, ok := s.row(k.ID)
			after(k, ok && r.Status.Final(), clock(now))
		}
	}
	s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next one) (res store.CommitResult, err error) {
		var ids []store.ID
		if c.Transition != nil && c.Transition.Kind.Final() {
			ids = append(ids, c.Lease.Run)
		}
		around(ids, p.Now, func() { res, err = next(c) })
		return res, err
	})
	cancel := s.cancel
	s.cancel = func(ctx context.Context, p store.CancelParams) (out []store.ControlResult, err error) {
		around(p.IDs, p.Now, func() { out, err = cancel(ctx, p) })
		return out, err
	}
}

func (s *faulty) afterEnd(after func(child store.Run, now time.Time)) {
	s.onEnd(func(store.Run) {}, func(child store.Run, ended bool, now time.Time) {
		if ended {
			after(child, now)
		}
	})
}

// onRepeatedEnd calls do when the end of a child is reported again.
func (s *faulty) onRepeatedEnd(do func(child store.Run, parent model.Row, now time.Time)) {
	s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
		res, err := next(c)
		if r, ok := s.row(c.Lease.Run); ok && res.Repeated && r.Status.Final() && r.Group != "" {
			s.Tamper(r.Parent, func(parent model.Row) { do(r, parent, clock(p.Now)) })
		}
		return res, err
	})
}

// These mutants break P9 and P11: parents, children, and cancels that pass from parents to
// children.
var childMutants = []Mutant{
	{"parent-woken-early", "P9", "any child's end wakes the parent, with others still open", wrap(func(s *faulty) {
		s.afterEnd(func(child store.Run, now time.Time) {
			s.Tamper(child.Parent, func(p model.Row) {
				if p.Status == store.Sleeping && len(*p.Awaits) > 0 {
					p.VisibleAt, *p.Awaits = now, nil
					p.Events++
				}
			})
		})
	})},
	{"parent-woken-by-any-failure", "P9", "a child that fails wakes its parent, whether failures matter or not", wrap(func(s *faulty) {
		s.afterEnd(func(child store.Run, now time.Time) {
			if r, _ := s.row(child.ID); r.Status == store.Failed {
				s.Tamper(child.Parent, func(p model.Row) {
					if p.Status == store.Sleeping && len(*p.Awaits) > 0 {
						p.VisibleAt, *p.Awaits = now, nil
						p.Events++
					}
				})
			}
		})
	})},
	{"parent-woken-by-a-crash", "P9", "a parent is woken when its child's lease runs out", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			for _, c := range got.Runs {
				if c.Recovered && c.Run.Group != "" {
					s.Tamper(c.Run.Parent, func(parent model.Row) {
						if parent.Status == store.Sleeping {
							parent.VisibleAt = clock(p.Now)
						}
					})
				}
			}
			return got, err
		}
	})},
	{"parent-woken-twice", "P9", "a child's end reported again is one more event of the parent and wakes it again", wrap(func(s *faulty) {
		s.onRepeatedEnd(func(_ store.Run, parent model.Row, now time.Time) {
			parent.Events++
			if parent.Status == store.Sleeping {
				parent.VisibleAt = now
			}
		})
	})},
	{"parent-never-woken", "P9", "the last child's end does not wake the parent", wrap(func(s *faulty) {
		s.onEnd(func(child store.Run) {
			s.Tamper(child.Parent, func(p model.Row) { *p.Awaits = nil })
		}, func(store.Run, bool, time.Time) {})
	})},
	{"await-looks-forward-only", "P9", "an await that is met before the sleep does not end it", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			if !ended(&c, store.Sleep) || len(c.Transition.Await) == 0 {
				return next(c)
			}
			t := *c.Transition
			t.Await = nil
			awaits := c.Transition.Await
			c.Transition = &t
			res, err := next(c)
			if err == nil && res.Err == nil && !res.Repeated {
				s.Tamper(c.Lease.Run, func(r model.Row) { *r.Awaits = slices.Clone(awaits) })
			}
			return res, err
		})
	})},
	{"one-failure-before-the-sleep", "P9", "an await of one failure that is met before the sleep does not end it", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			if !ended(&c, store.Sleep) || len(c.Transition.Await) != 1 || c.Transition.Await[0].Failures != 1 {
				return next(c)
			}
			t := *c.Transition
			t.Await = nil
			awaits := c.Transition.Await
			c.Transition = &t
			res, err := next(c)
			if err == nil && res.Err == nil && !res.Repeated {
				s.Tamper(c.Lease.Run, func(r model.Row) { *r.Awaits = slices.Clone(awaits) })
			}
			return res, err
		})
	})},
	{"every-child-is-an-event", "P9", "a child that ends while its parent is awake counts as an event of the parent", wrap(func(s *faulty) {
		s.afterEnd(func(child store.Run, _ time.Time) {
			s.Tamper(child.Parent, func(p model.Row) {
				if p.Status == store.Running {
					p.Events++
				}
			})
		})
	})},
	{"child-counted-twice", "P9", "a child whose end is reported again is counted again", wrap(func(s *faulty) {
		s.onRepeatedEnd(func(child store.Run, parent model.Row, _ time.Time) {
			if g := parent.Groups[child.Group]; g != nil {
				g.Open--
				g.Completed++
			}
		})
	})},
	{"spawn-counted-twice", "P9", "a child spawned again is counted again", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			var again []store.Run
			for _, n := range c.Spawn {
				if r, ok := s.row(n.ID); ok && r.Parent == c.Lease.Run {
					again = append(again, r)
				}
			}
			res, err := next(c)
			if err == nil && res.Err == nil && !res.Repeated {
				s.Tamper(c.Lease.Run, func(r model.Row) {
					for _, k := range again {
						if g := r.Groups[k.Group]; g != nil {
							g.Total++
							g.Open++
						}
					}
				})
			}
			return res, err
		})
	})},
	{"canceled-child-not-counted", "P9", "a child that is canceled before it ran stays open in its group", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			groups := map[store.ID]string{}
			for _, id := range p.IDs {
				s.Tamper(id, func(r model.Row) {
					if !r.Parent.IsZero() && r.Worker == "" {
						groups[id], r.Group = r.Group, ""
					}
				})
			}
			out, err := cancel(ctx, p)
			for id, g := range groups {
				s.Tamper(id, func(r model.Row) { r.Group = g })
			}
			return out, err
		}
	})},
	{"canceling-child-counts", "P9", "a leased child that is canceled is counted at once, before its holder has ended it", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			out, err := cancel(ctx, p)
			for i := range out {
				if k, ok := s.row(p.IDs[i]); ok && out[i].Status == store.Canceling {
					s.Tamper(k.Parent, func(r model.Row) {
						if r.Status == store.Sleeping && len(*r.Awaits) > 0 {
							r.VisibleAt = clock(p.Now)
						}
					})
				}
			}
			return out, err
		}
	})},
	{"ends-at-once-lose-a-count", "P9", "a child's end reads its group, counts, and writes it back: of two at once one is lost", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			k, ok := s.row(c.Lease.Run)
			if !ok || k.Group == "" || !ended(&c, store.CompleteRun) {
				return next(c)
			}
			var read store.Group
			s.Tamper(k.Parent, func(p model.Row) {
				if g := p.Groups[k.Group]; g != nil {
					read = *g
				}
			})
			roundTrip()
			res, err := next(c)
			if err == nil && res.Err == nil && !res.Repeated {
				s.Tamper(k.Parent, func(p model.Row) {
					if g := p.Groups[k.Group]; g != nil {
						read.Open--
						read.Completed++
						*g = read
					}
				})
			}
			return res, err
		})
	})},
	{"continue-keeps-groups", "P9", "the children of before are counted in the groups of a run that has continued as new", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			groups := map[string]store.Group{}
			s.Tamper(c.Lease.Run, func(r model.Row) {
				for name, g := range r.Groups {
					groups[name] = *g
				}
			})
			res, err := next(c)
			if err == nil && res.Err == nil && !res.Repeated && ended(&c, store.Continue) {
				for _, n := range c.Spawn {
					g := groups[n.Group]
					g.Name, g.Total, g.Open = n.Group, g.Total+1, g.Open+1
					groups[n.Group] = g
				}
				s.Tamper(c.Lease.Run, func(r model.Row) {
					for name, g := range groups {
						r.Groups[name] = &g
					}
				})
			}
			return res, err
		})
	})},
	{"purge-takes-a-live-runs-child", "P9", "purge removes a final child whose parent may still read it", wrap(func(s *faulty) {
		var mu sync.Mutex
		gone := map[store.ID]bool{}
		purge, get := s.purge, s.get
		s.purge = func(ctx context.Context, p store.PurgeParams) (int, error) {
			n, err := purge(ctx, p)
			if err != nil {
				return n, err
			}
			page, err := s.List(ctx, store.ListParams{Namespace: p.Namespace, Limit: store.MaxPage})
			mu.Lock()
			defer mu.Unlock()
			for _, r := range page.Runs {
				if r.Status.Final() && !r.Parent.IsZero() && !gone[r.ID] && !r.FinishedAt.After(clock(p.Now).Add(-p.OlderThan)) {
					gone[r.ID] = true
					n++
				}
			}
			return n, err
		}
		s.get = func(ctx context.Context, p store.GetParams) ([]store.Run, error) {
			out, err := get(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			return slices.DeleteFunc(out, func(r store.Run) bool { return gone[r.ID] }), err
		}
	})},

	{"cancel-overwrites-completion", "P11", "a run that was canceled while its completion was on its way ends canceled", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if r, ok := s.row(c.Lease.Run); ok && r.Status == store.Canceling && ended(c, store.CompleteRun) {
				c.Transition = &store.Transition{Kind: store.CancelRun}
			}
		})
	})},
	{"second-cancel-changes-the-reason", "P4", "a cancel of what is canceled or canceling writes its own reason", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			out, err := cancel(ctx, p)
			for i := range out {
				s.Tamper(p.IDs[i], func(r model.Row) {
					if out[i].Err == nil && r.Failure != nil {
						r.Failure = &store.Failure{Code: store.FailureCanceled, Message: p.Reason}
					}
				})
			}
			return out, err
		}
	})},
	{"cancel-after-completion", "P11", "a cancel that comes after the completion makes the run canceled", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			out, err := cancel(ctx, p)
			for i := range out {
				s.Tamper(p.IDs[i], func(r model.Row) {
					if r.Namespace == p.Namespace && r.Status == store.Completed {
						r.Status = store.Canceled
						out[i] = store.ControlResult{Status: store.Canceled}
					}
				})
			}
			return out, err
		}
	})},
	{"cancel-takes-the-lease", "P11", "a leased run is final at its cancel, and its holder has lost it", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			for _, id := range p.IDs {
				s.Tamper(id, func(r model.Row) {
					if r.Namespace == p.Namespace && r.Status == store.Running {
						r.Worker = ""
					}
				})
			}
			return cancel(ctx, p)
		}
	})},
	{"cancel-spares-children", "P11", "a cancel leaves the run's children running", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			policies := map[store.ID]store.ClosePolicy{}
			for _, id := range p.IDs {
				page, _ := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Parent: id}})
				for _, k := range page.Runs {
					s.Tamper(k.ID, func(r model.Row) { policies[k.ID], r.OnClose = r.OnClose, store.CloseAbandon })
				}
			}
			out, err := cancel(ctx, p)
			for id, policy := range policies {
				s.Tamper(id, func(r model.Row) { r.OnClose = policy })
			}
			return out, err
		}
	})},
	{"last-children-outlive-their-parent", "P11", "children spawned by the commit that ends their parent are not closed with it", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if c.Transition != nil && c.Transition.Kind.Final() {
				c.Spawn = slices.Clone(c.Spawn)
				for i := range c.Spawn {
					c.Spawn[i].OnClose = store.CloseAbandon
				}
			}
		})
	})},
	{"parents-that-end-together", "P11", "children whose parents end in one call outlive them", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			ends := 0
			for i := range p.Commits {
				if t := p.Commits[i].Transition; t != nil && t.Kind.Final() {
					ends++
				}
			}
			for i := range p.Commits {
				if ends < 2 {
					break
				}
				page, _ := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Parent: p.Commits[i].Lease.Run}})
				for _, k := range page.Runs {
					s.Tamper(k.ID, func(r model.Row) { r.OnClose = store.CloseAbandon })
				}
			}
			return commit(ctx, p)
		}
	})},
	{"extension-hides-a-cancel", "P11", "an extension does not tell that the run is canceling", wrap(func(s *faulty) {
		extend := s.extend
		s.extend = func(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
			out, err := extend(ctx, p)
			for i := range out {
				out[i].Canceling = false
			}
			return out, err
		}
	})},
	{"takeover-forgets-the-cancel", "P11", "a canceling run whose holder died is running again for the next", wrap(func(s *faulty) {
		s.onClaim(func(c *store.ClaimedRun, r *store.Run) {
			if c.Recovered && r.Status == store.Canceling {
				r.Status, c.Run.Status = store.Running, store.Running
			}
		})
	})},
}
