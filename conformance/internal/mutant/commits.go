package mutant

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// one applies a single commit.
type one = func(store.Commit) (store.CommitResult, error)

// keepSteps makes a kind of transition keep the steps that keep returns. It commits the steps first
// and the transition afterwards, and restores those steps.
func (s *faulty) keepSteps(kind store.TransitionKind, keep func([]store.Step) []store.Step) {
	s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
		if c.Seq < 1 || !ended(&c, kind) {
			return next(c)
		}
		first, last := c, store.Commit{Lease: c.Lease, Seq: c.Seq, Seen: c.Seen, Transition: c.Transition}
		first.Transition = nil
		if res, err := next(first); err != nil || res.Err != nil || res.Repeated {
			return res, err
		}
		s.unnumber(c.Lease.Run)
		kept := keep(s.steps(c.Lease.Run))
		res, err := next(last)
		if err == nil && res.Err == nil {
			s.Tamper(c.Lease.Run, func(r model.Row) { *r.Steps = kept })
		}
		return res, err
	})
}

// unnumber undoes the number of a run's last commit, so that another commit can have it.
func (s *faulty) unnumber(run store.ID) {
	s.Tamper(run, func(r model.Row) { *r.Seq-- })
}

// acceptGaps accepts commits although earlier ones are missing.
func (s *faulty) acceptGaps(which func(*store.Commit) bool) {
	s.beforeCommit(func(c *store.Commit) {
		s.Tamper(c.Lease.Run, func(r model.Row) {
			if which(c) && c.Seq > *r.Seq && r.Worker == c.Lease.Worker && r.Epoch == c.Lease.Epoch {
				*r.Seq = c.Seq - 1
			}
		})
	})
}

// eachCall changes the commits of each call.
func (s *faulty) eachCall(change func([]store.Commit)) {
	next := s.commit
	s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
		p.Commits = slices.Clone(p.Commits)
		change(p.Commits)
		return next(ctx, p)
	}
}

// These mutants break P2, P3 and P4: what a commit writes, and what a repeated commit does.
var commitMutants = []Mutant{
	{"commit-half-applied", "P3", "a commit is two transactions: steps, state and consumed signals, then children and the transition", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			if c.Seq < 1 {
				return next(c)
			}
			a, b := c, c
			a.Spawn, a.Transition = nil, nil
			b.Steps, b.State, b.Consumed = nil, nil, nil
			if res, err := next(a); err != nil || res.Err != nil || res.Repeated {
				return res, err
			}
			s.unnumber(c.Lease.Run)
			roundTrip()
			b.Seen += int64(len(c.State))
			return next(b)
		})
	})},
	{"batch-from-behind", "P3", "the commits of a batch are applied from the last to the first", wrap(func(s *faulty) {
		next := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			p.Commits = slices.Clone(p.Commits)
			slices.Reverse(p.Commits)
			res, err := next(ctx, p)
			slices.Reverse(res)
			return res, err
		}
	})},
	{"state-written-key-by-key", "P3", "each key of a commit's state is a transaction of its own", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			const keys = 8
			if len(c.State) < 2 || len(c.State) > keys || c.Seq < 1 {
				return next(c)
			}
			state := c.State
			for i := range len(state) - 1 {
				res, err := next(store.Commit{Lease: c.Lease, Seq: c.Seq, State: state[i : i+1]})
				if err != nil || res.Err != nil || res.Repeated {
					return res, err
				}
				s.unnumber(c.Lease.Run)
				roundTrip()
			}
			c.State, c.Seen = state[len(state)-1:], c.Seen+int64(len(state))-1
			return next(c)
		})
	})},
	{"state-of-the-first-commit-for-all", "P3", "each commit of a call that sets a key sets it to what the first one does", wrap(func(s *faulty) {
		s.eachCall(func(list []store.Commit) {
			first := map[string][]byte{}
			for i := range list {
				list[i].State = slices.Clone(list[i].State)
				for k := range list[i].State {
					w := &list[i].State[k]
					if v, ok := first[w.Key]; ok && !w.Delete {
						w.Value = v
					} else if !w.Delete {
						first[w.Key] = w.Value
					}
				}
			}
		})
	})},
	{"state-beside-an-end-is-lost", "P3", "if a commit of the call ends its run, the others write no state", wrap(func(s *faulty) {
		s.eachCall(func(list []store.Commit) {
			ends := func(c store.Commit) bool { return c.Transition != nil && c.Transition.Kind.Final() }
			if len(list) > 1 && slices.ContainsFunc(list, ends) {
				for i := range list {
					list[i].State = nil
				}
			}
		})
	})},
	{"transition-loses-steps", "P3", "a commit with a transition does not store its steps", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if c.Transition != nil {
				c.Steps = nil
			}
		})
	})},
	{"bad-commit-stops-the-batch", "P3", "the commits behind one that is refused are refused with it", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			var out []store.CommitResult
			for i := range p.Commits {
				q := p
				q.Commits = p.Commits[i : i+1]
				res, err := commit(ctx, q)
				if err != nil {
					return nil, err
				}
				if out = append(out, res[0]); res[0].Err != nil {
					for range p.Commits[i+1:] {
						out = append(out, res[0])
					}
					return out, nil
				}
			}
			return out, nil
		}
	})},
	{"named-start-ignored", "P3", "a step's start is counted back from its commit, though its record names it", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i := range c.Steps {
				c.Steps[i].StartedAt = time.Time{}
			}
		})
	})},
	{"first-start-stays", "P3", "a record that replaces another one cannot change its start", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for _, old := range s.steps(c.Lease.Run) {
				for i := range c.Steps {
					if c.Steps[i].StepKey == old.StepKey {
						c.Steps[i].StartedAt = old.StartedAt
					}
				}
			}
		})
	})},
	{"earlier-attempts-with-failures-only", "P3", "a step without a failure of its own keeps no earlier attempts", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i := range c.Steps {
				if c.Steps[i].Failure == nil {
					c.Steps[i].Earlier = nil
				}
			}
		})
	})},
	{"earlier-attempts-make-a-failure", "P3", "a step that succeeds in a later attempt has an empty failure", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i := range c.Steps {
				if c.Steps[i].Failure == nil && len(c.Steps[i].Earlier) > 0 {
					c.Steps[i].Failure = &store.Failure{}
				}
			}
		})
	})},
	{"earlier-attempts-of-the-first-record", "P3", "a record that replaces another one leaves its earlier attempts", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for _, old := range s.steps(c.Lease.Run) {
				for i := range c.Steps {
					if c.Steps[i].StepKey == old.StepKey {
						c.Steps[i].Earlier = old.Earlier
					}
				}
			}
		})
	})},
	{"ahead-counts-one-priority", "P7", "what is ahead of a run is counted among the runs of its own priority", wrap(func(s *faulty) {
		next := s.ahead
		s.ahead = func(ctx context.Context, p store.AheadParams) (int, error) {
			n, err := next(ctx, p)
			me, _ := s.row(p.Run)
			page, _ := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Queue: me.Queue, Workflow: me.Workflow}, Limit: store.MaxPage})
			for _, r := range page.Runs {
				if n > 0 && r.Priority > me.Priority && r.Status != store.Paused && !r.VisibleAt.IsZero() && !r.VisibleAt.After(clock(p.Now)) {
					n--
				}
			}
			return n, err
		}
	})},
	{"ahead-counts-what-is-not-due", "P7", "what is ahead of a run counts runs of a higher priority that are not due", wrap(func(s *faulty) {
		next := s.ahead
		s.ahead = func(ctx context.Context, p store.AheadParams) (int, error) {
			n, err := next(ctx, p)
			me, _ := s.row(p.Run)
			page, _ := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Queue: me.Queue, Workflow: me.Workflow}, Limit: store.MaxPage})
			for _, r := range page.Runs {
				if r.Priority > me.Priority && r.VisibleAt.After(clock(p.Now)) {
					n++
				}
			}
			return n, err
		}
	})},
	{"ahead-without-a-cap", "P7", "what is ahead of a run is counted without end", wrap(func(s *faulty) {
		next := s.ahead
		s.ahead = func(ctx context.Context, p store.AheadParams) (int, error) {
			n, err := next(ctx, p)
			if n > store.MaxAhead {
				counts, _ := s.Count(ctx, store.CountParams{Namespace: p.Namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Pending}}})
				for n = -1; len(counts) > 0; counts = counts[1:] {
					n += int(counts[0].Count)
				}
			}
			return n, err
		}
	})},
	{"end-forgets-its-worker", "P3", "a run that is final names no worker", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			s.Tamper(c.Lease.Run, func(r model.Row) {
				if r.Status.Final() {
					r.Worker = ""
				}
			})
			return res, err
		})
	})},
	{"cancel-names-the-last-worker", "P3", "a run that is canceled in its sleep names the worker that had it last", wrap(func(s *faulty) {
		last := map[store.ID]string{}
		var mu sync.Mutex
		s.onClaim(func(c *store.ClaimedRun, _ *store.Run) {
			mu.Lock()
			defer mu.Unlock()
			last[c.Run.ID] = c.Lease.Worker
		})
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			res, err := cancel(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			for _, id := range p.IDs {
				s.Tamper(id, func(r model.Row) {
					if r.Status == store.Canceled && !p.Force {
						r.Worker = last[id]
					}
				})
			}
			return res, err
		}
	})},
	{"continue-keeps-steps", "P3", "a run that continues as new keeps the steps of before", wrap(func(s *faulty) {
		s.keepSteps(store.Continue, func(st []store.Step) []store.Step { return st })
	})},
	{"compare-then-set", "P3", "SetState compares versions in one statement and writes in the next, which does not", wrap(func(s *faulty) {
		set := s.setState
		s.setState = func(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
			held := map[string]int64{}
			entries, err := s.GetState(ctx, store.GetStateParams{Namespace: p.Namespace, Run: p.Run})
			for _, e := range entries {
				held[e.Key] = e.Version
			}
			p.Writes = slices.Clone(p.Writes)
			for i, w := range p.Writes {
				if err != nil || w.IfVersion != nil && *w.IfVersion != held[w.Key] {
					return set(ctx, p)
				}
				p.Writes[i].IfVersion = nil
			}
			roundTrip()
			return set(ctx, p)
		}
	})},
	{"run-made-before-the-firing", "P3", "a firing's run is made in a transaction of its own, before the firing is recorded", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			if p.Run != nil {
				run := *p.Run
				if len(run.Input) > s.Limits().Payload {
					run.Input = nil
				}
				_, _ = s.Store.Create(ctx, store.CreateParams{Namespace: p.Namespace, Runs: []store.NewRun{run}, Now: p.Now})
			}
			return fire(ctx, p)
		}
	})},

	{"repeat-applied-again", "P4", "a commit sent again is applied again", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			s.Tamper(c.Lease.Run, func(r model.Row) {
				if c.Seq >= 1 && c.Seq <= *r.Seq && r.Worker != "" {
					c.Seq = *r.Seq + 1
				}
			})
		})
	})},
	{"repeat-of-transition-is-lost", "P4", "a transition sent again, its answer having been lost, gets ErrLeaseLost", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			if r, _ := s.row(c.Lease.Run); res.Repeated && r.Worker == "" {
				return store.CommitResult{Err: store.ErrLeaseLost}, nil
			}
			return res, err
		})
	})},
	{"late-commit-overwrites-state", "P4", "of a commit with an older Seq that comes late the state is written all the same", wrap(func(s *faulty) {
		s.eachCommit(func(ctx context.Context, p store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			if err == nil && res.Repeated {
				_, _ = s.Store.SetState(ctx, store.SetStateParams{Namespace: p.Namespace, Run: c.Lease.Run, Writes: c.State, Now: p.Now})
			}
			return res, err
		})
	})},
	{"seq-counted-over-leases", "P4", "the first commits of a new lease are taken for repeats of the old one's", wrap(func(s *faulty) {
		var mu sync.Mutex
		last := map[store.ID]int64{}
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			r, _ := s.row(c.Lease.Run)
			mu.Lock()
			old := c.Seq <= last[c.Lease.Run] && r.Worker != "" && r.Epoch == c.Lease.Epoch
			mu.Unlock()
			if old {
				return store.CommitResult{Repeated: true, Status: r.Status, Events: r.Events, VisibleAt: r.VisibleAt}, nil
			}
			res, err := next(c)
			if err == nil && res.Err == nil {
				mu.Lock()
				last[c.Lease.Run] = max(last[c.Lease.Run], c.Seq)
				mu.Unlock()
			}
			return res, err
		})
	})},
	{"refused-commit-uses-its-seq", "P4", "a commit that is sent again, corrected, after it was refused is taken for a repeat", wrap(func(s *faulty) {
		var mu sync.Mutex
		refused := map[store.Lease]int64{}
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			if c.Seq <= refused[c.Lease] {
				r, _ := s.row(c.Lease.Run)
				return store.CommitResult{Repeated: true, Status: r.Status, Events: r.Events, VisibleAt: r.VisibleAt}, nil
			}
			res, err := next(c)
			if errors.Is(res.Err, store.ErrInvalid) || errors.Is(res.Err, store.ErrTooLarge) {
				refused[c.Lease] = c.Seq
			}
			return res, err
		})
	})},
	{"gap-applied", "P2", "a commit is applied when its Seq is above the last one's, whatever is missing between", wrap(func(s *faulty) {
		s.acceptGaps(func(*store.Commit) bool { return true })
	})},
	{"gap-applied-at-the-end", "P2", "a commit that ends its lease is applied though commits before it are missing", wrap(func(s *faulty) {
		s.acceptGaps(func(c *store.Commit) bool { return c.Transition != nil })
	})},
	{"gap-applied-first", "P2", "the first commit that a lease sees is applied, whatever its Seq", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			s.Tamper(c.Lease.Run, func(r model.Row) {
				if *r.Seq == 0 && r.Worker == c.Lease.Worker && r.Epoch == c.Lease.Epoch {
					*r.Seq = max(0, c.Seq-1)
				}
			})
		})
	})},
	{"gap-of-one-applied", "P2", "a commit is applied when one Seq before it is missing", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			s.Tamper(c.Lease.Run, func(r model.Row) {
				if c.Seq == *r.Seq+2 && r.Worker == c.Lease.Worker && r.Epoch == c.Lease.Epoch {
					*r.Seq = c.Seq - 1
				}
			})
		})
	})},
	{"gap-is-a-repeat", "P2", "a commit whose Seq leaves one out is answered as a repeat", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			r, _ := s.row(c.Lease.Run)
			res, err := next(c)
			if errors.Is(res.Err, store.ErrLeaseLost) && r.Worker == c.Lease.Worker && r.Epoch == c.Lease.Epoch {
				return store.CommitResult{Repeated: true, Status: r.Status, Events: r.Events}, nil
			}
			return res, err
		})
	})},
	{"gap-takes-its-seq", "P2", "a commit that was refused for a gap counts as the last one", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			s.Tamper(c.Lease.Run, func(r model.Row) {
				if errors.Is(res.Err, store.ErrLeaseLost) && r.Worker == c.Lease.Worker && r.Epoch == c.Lease.Epoch {
					*r.Seq = max(*r.Seq, c.Seq)
				}
			})
			return res, err
		})
	})},
	{"gap-ends-the-lease", "P2", "a commit that was refused for a gap ends its lease", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			s.Tamper(c.Lease.Run, func(r model.Row) {
				if errors.Is(res.Err, store.ErrLeaseLost) && r.Worker == c.Lease.Worker && r.Epoch == c.Lease.Epoch {
					r.Worker, r.Status, r.VisibleAt = "", store.Pending, clock(p.Now)
				}
			})
			return res, err
		})
	})},
	{"refused-commit-moves-on", "P4", "a commit that was refused has used its Seq: the one above it is the next", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			res, err := next(c)
			s.Tamper(c.Lease.Run, func(r model.Row) {
				if (errors.Is(res.Err, store.ErrInvalid) || errors.Is(res.Err, store.ErrTooLarge)) && c.Seq == *r.Seq+1 {
					*r.Seq = c.Seq
				}
			})
			return res, err
		})
	})},
	{"next-seq-refused-after-repeat", "P4", "once a commit has been repeated the next one gets ErrLeaseLost", wrap(func(s *faulty) {
		var mu sync.Mutex
		repeated := map[store.Lease]bool{}
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next one) (store.CommitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			r, _ := s.row(c.Lease.Run)
			var last int64
			s.Tamper(c.Lease.Run, func(r model.Row) { last = *r.Seq })
			if repeated[c.Lease] && c.Seq == last+1 && r.Worker != "" {
				return store.CommitResult{Err: store.ErrLeaseLost}, nil
			}
			res, err := next(c)
			repeated[c.Lease] = repeated[c.Lease] || res.Repeated
			return res, err
		})
	})},
	{"final-step-overwritten", "P4", "a later record replaces a step that is final", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			s.Tamper(c.Lease.Run, func(r model.Row) {
				for _, rec := range c.Steps {
					for i, st := range *r.Steps {
						if st.StepKey == rec.StepKey && st.Status.Final() {
							st.Status, st.Attempt, st.Output, st.Failure = rec.Status, rec.Attempt, rec.Output, rec.Failure
							(*r.Steps)[i] = st
						}
					}
				}
			})
		})
	})},
	{"create-repeat-is-a-conflict", "P4", "a create sent again says that nothing was created", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			had := make([]bool, len(p.Runs))
			for i, n := range p.Runs {
				_, had[i] = s.row(n.ID)
			}
			out, err := create(ctx, p)
			for i := range out {
				out[i].Created = out[i].Created && !had[i]
			}
			return out, err
		}
	})},
	{"eager-lease-for-another", "P4", "a create repeated by another worker hands it the lease of the first", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				if r, ok := s.row(out[i].ID); ok && out[i].Created && p.Runs[i].Worker != "" && r.Status == store.Running && r.Epoch == 1 {
					out[i].Lease, out[i].CreatedAt = store.Lease{Run: r.ID, Worker: p.Runs[i].Worker, Epoch: 1}, r.CreatedAt
				}
			}
			return out, err
		}
	})},
	{"signal-repeat-is-another", "P4", "a signal sent again is a second signal", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			p.Signals = slices.Clone(p.Signals)
			for i := range p.Signals {
				if !p.Signals[i].ID.IsZero() {
					p.Signals[i].ID = store.NewID()
				}
			}
			return signal(ctx, p)
		}
	})},
	{"consumed-signal-comes-back", "P4", "a signal is known as a repeat only while it is unread", wrap(func(s *faulty) {
		var mu sync.Mutex
		consumed := map[store.SignalID]bool{}
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range c.Consumed {
				consumed[id] = true
			}
		})
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			p.Signals = slices.Clone(p.Signals)
			mu.Lock()
			for i := range p.Signals {
				if consumed[p.Signals[i].ID] {
					p.Signals[i].ID = store.NewID()
				}
			}
			mu.Unlock()
			return signal(ctx, p)
		}
	})},
}
