package mutant

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// These mutants break P1, P2, P6, P7 and P18: which worker holds a run, and which run is claimed
// next.
var leaseMutants = []Mutant{
	{"claim-returns-too-many", "P1", "a claim returns one run more than was asked for", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			p.Demands = slices.Clone(p.Demands)
			for i := range p.Demands {
				p.Demands[i].Max++
			}
			if p.Max > 0 {
				p.Max++
			}
			return claim(ctx, p)
		}
	})},
	{"claim-ignores-max-over-all", "P1", "a claim heeds the Max of each demand, not the one over all", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			p.Max = 0
			return claim(ctx, p)
		}
	})},
	{"further-queues-ignored", "P1", "a claim takes from a demand's first queue alone", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			p.Demands = slices.Clone(p.Demands)
			for i := range p.Demands {
				p.Demands[i].MoreQueues = nil
			}
			return claim(ctx, p)
		}
	})},
	{"demand-bounds-each-queue", "P1", "a demand's Max bounds each of its queues on its own", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			var apart []store.Demand
			for _, d := range p.Demands {
				for _, q := range d.Queues() {
					apart = append(apart, store.Demand{Queue: q, Workflows: d.Workflows, Max: d.Max})
				}
			}
			p.Demands = apart
			return claim(ctx, p)
		}
	})},
	{"asked-is-not-told", "P18", "a claim that takes runs does not say that its worker is asked for a sign of life", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			got.Asked = got.Asked && len(got.Runs) == 0
			return got, err
		}
	})},
	{"asked-is-told-all", "P18", "all workers of a namespace are told that one of them is asked for a sign of life", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			all, listed := store.AllWorkers(ctx, s, store.ListWorkersParams{Namespace: p.Namespace, NoHeld: true, Now: p.Now})
			got.Asked = got.Asked || listed == nil && slices.ContainsFunc(all, func(w store.Worker) bool { return !w.AskedAt.IsZero() })
			return got, err
		}
	})},
	{"running-run-claimed-again", "P1", "a claim takes a run whose lease stands, once", wrap(func(s *faulty) {
		var mu sync.Mutex
		taken := map[store.ID]bool{}
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			page, err := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Running}}})
			if err != nil {
				return claim(ctx, p)
			}
			mu.Lock()
			for _, run := range page.Runs {
				if !taken[run.ID] && slices.ContainsFunc(p.Demands, func(d store.Demand) bool {
					return d.Queue == run.Queue && slices.Contains(d.Workflows, run.Workflow)
				}) {
					taken[run.ID] = true
					s.Tamper(run.ID, func(r model.Row) { r.VisibleAt = clock(p.Now) })
				}
			}
			mu.Unlock()
			return claim(ctx, p)
		}
	})},
	{"claims-at-once-share-runs", "P1", "two claims that read the queue at the same time lease the same runs", wrap(func(s *faulty) {
		type read struct {
			got  store.Claimed
			done chan struct{}
		}
		var mu sync.Mutex
		var under *read
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			mu.Lock()
			if r := under; r != nil {
				mu.Unlock()
				<-r.done
				got := r.got
				got.Runs = slices.Clone(got.Runs)
				got.Runs = got.Runs[:min(len(got.Runs), p.Wanted())]
				for i := range got.Runs {
					got.Runs[i].Run.Worker, got.Runs[i].Lease.Worker = p.Worker, p.Worker
				}
				return got, nil
			}
			r := &read{done: make(chan struct{})}
			under = r
			mu.Unlock()
			roundTrip()
			got, err := claim(ctx, p)
			mu.Lock()
			under, r.got = nil, got
			mu.Unlock()
			close(r.done)
			return got, err
		}
	})},
	{"lost-claim-not-found", "P4", "a claim that is sent again finds nothing: its runs wait for their leases", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			if p.Again {
				got.Runs = nil
			}
			return got, err
		}
	})},
	{"claim-again-takes-more", "P4", "a claim that is sent again is a claim like any other", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			p.Again = false
			return claim(ctx, p)
		}
	})},
	{"claim-again-raises-the-epoch", "P4", "a claim that is sent again finds its runs and leases them anew", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			for i := range got.Runs {
				if c := &got.Runs[i]; p.Again {
					s.Tamper(c.Run.ID, func(r model.Row) { r.Epoch++ })
					c.Run.Epoch++
					c.Lease.Epoch++
				}
			}
			return got, err
		}
	})},
	{"claim-again-of-all-its-worker-holds", "P4", "a claim that is sent again finds whatever its worker has leased", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			p.ClaimID = min(p.ClaimID, 1)
			return claim(ctx, p)
		}
	})},
	{"claim-again-finds-what-is-over", "P4", "a claim that is sent again finds runs whose leases have run out", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			if p.Again {
				p.Now = clock(p.Now).Add(-p.LeaseFor)
			}
			return claim(ctx, p)
		}
	})},
	{"epoch-not-raised", "P1", "the claim of a run that was claimed before leaves its epoch", wrap(func(s *faulty) {
		s.onClaim(func(_ *store.ClaimedRun, r *store.Run) {
			if r.Epoch > 1 {
				r.Epoch--
			}
		})
	})},
	{"lease-not-extended", "P1", "an extension says that the lease is held and leaves its end where it was", wrap(func(s *faulty) {
		extend := s.extend
		s.extend = func(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
			ends := map[store.ID]time.Time{}
			for _, l := range p.Leases {
				if r, ok := s.row(l.Run); ok {
					ends[l.Run] = r.VisibleAt
				}
			}
			out, err := extend(ctx, p)
			for i := range out {
				if !out[i].Lost {
					s.Tamper(p.Leases[i].Run, func(r model.Row) { r.VisibleAt = ends[r.ID] })
				}
			}
			return out, err
		}
	})},
	{"leases-in-whole-milliseconds", "P1", "a lease is cut to milliseconds, so that others may have the run before it ends", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			if d := p.LeaseFor.Truncate(time.Millisecond); d > 0 {
				p.LeaseFor = d
			}
			return claim(ctx, p)
		}
	})},
	{"signal-ends-a-lease", "P1", "a signal makes its run claimable although it is leased", wrap(func(s *faulty) {
		signal := s.signal
		s.signal = func(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
			out, err := signal(ctx, p)
			for _, res := range out {
				s.Tamper(res.Run, func(r model.Row) {
					if r.Worker != "" {
						r.VisibleAt = clock(p.Now)
					}
				})
			}
			return out, err
		}
	})},
	{"commit-lengthens-the-lease", "P1", "a commit without a transition renews the lease by a minute", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, res *store.CommitResult) {
			if c.Transition == nil {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.VisibleAt = now.Add(time.Minute); res.VisibleAt = r.VisibleAt })
			}
		})
	})},
	{"lock-held-by-two", "P1", "a lock is given to whoever asks", wrap(func(s *faulty) {
		lock := s.lock
		s.lock = func(ctx context.Context, p store.LockParams) (store.LockResult, error) {
			res, err := lock(ctx, p)
			if err == nil && p.For > 0 {
				res.Held, res.Owner = true, p.Owner
			}
			return res, err
		}
	})},
	{"lock-released-by-anyone", "P1", "For 0 frees a lock whoever holds it", wrap(func(s *faulty) {
		lock := s.lock
		s.lock = func(ctx context.Context, p store.LockParams) (store.LockResult, error) {
			res, err := lock(ctx, p)
			if err == nil && p.For == 0 && res.Owner != "" {
				p.Owner = res.Owner
				return lock(ctx, p)
			}
			return res, err
		}
	})},

	{"no-epoch-check", "P2", "a commit counts whatever lease it names, as long as somebody holds the run", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if r, ok := s.row(c.Lease.Run); ok && r.Worker != "" {
				c.Lease.Worker, c.Lease.Epoch = r.Worker, r.Epoch
			}
		})
	})},
	{"no-worker-check", "P2", "a commit of the right epoch counts whichever worker sends it", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if r, ok := s.row(c.Lease.Run); ok && r.Epoch == c.Lease.Epoch && r.Worker != "" {
				c.Lease.Worker = r.Worker
			}
		})
	})},
	{"epoch-checked-then-written", "P2", "a commit reads the epoch in one statement and writes in the next, which does not look at it", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			r, ok := s.row(c.Lease.Run)
			if !ok || r.Epoch != c.Lease.Epoch || r.Worker != c.Lease.Worker {
				return
			}
			roundTrip()
			if r, _ = s.row(c.Lease.Run); r.Worker != "" {
				c.Lease.Worker, c.Lease.Epoch = r.Worker, r.Epoch
			}
		})
	})},
	{"extended-after-takeover", "P2", "the holder of an old epoch may extend the lease of the one who took over", wrap(func(s *faulty) {
		extend := s.extend
		s.extend = func(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
			out, err := extend(ctx, p)
			for i := range out {
				s.Tamper(p.Leases[i].Run, func(r model.Row) {
					if out[i].Lost && r.Worker != "" && r.Epoch > p.Leases[i].Epoch && p.Leases[i].Epoch > 0 {
						r.VisibleAt = clock(p.Now).Add(p.LeaseFor)
						out[i] = store.LeaseState{Events: r.Events}
					}
				})
			}
			return out, err
		}
	})},
	{"extended-after-finish", "P2", "an extension of a lease that a transition has ended says held", wrap(func(s *faulty) {
		extend := s.extend
		s.extend = func(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
			out, err := extend(ctx, p)
			for i := range out {
				if r, ok := s.row(p.Leases[i].Run); ok && r.Worker == "" && r.Epoch == p.Leases[i].Epoch {
					out[i].Lost = false
				}
			}
			return out, err
		}
	})},

	{"crash-not-counted", "P6", "the takeover of an expired lease does not count a crash", wrap(func(s *faulty) {
		s.onClaim(func(c *store.ClaimedRun, r *store.Run) {
			if c.Recovered {
				r.Crashes--
			}
		})
	})},
	{"crashes-never-cleared", "P6", "a commit leaves the crashes counted so far", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
			before, _ := s.row(c.Lease.Run)
			res, err := next(c)
			s.Tamper(c.Lease.Run, func(r model.Row) { r.Crashes = before.Crashes })
			return res, err
		})
	})},
	{"crashes-not-kept", "P6", "a release clears the crashes that it names", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Release) {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Crashes = 0 })
			}
		})
	})},
	{"crashes-kept-by-release-alone", "P6", "a commit that keeps the lease clears the crashes that it names", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if c.Transition == nil {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Crashes = 0 })
			}
		})
	})},
	{"crashes-added-not-set", "P6", "the crashes that a commit names are added to those counted so far", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
			before, _ := s.row(c.Lease.Run)
			res, err := next(c)
			if c.Crashes > 0 && res.Err == nil {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Crashes = before.Crashes + c.Crashes })
			}
			return res, err
		})
	})},
	{"release-at-once", "P6", "a run that is given back for later is claimable at once", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
			if ended(&c, store.Release) {
				c.Transition = &store.Transition{Kind: store.Release}
			}
			return next(c)
		})
	})},
	{"release-past-deadline", "P6", "a run that is given back for later sleeps beyond its deadline", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, res *store.CommitResult) {
			if ended(c, store.Release) && c.Transition.After > 0 && res.Status == store.Pending {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.VisibleAt = now.Add(c.Transition.After) })
				res.VisibleAt = now.Add(c.Transition.After)
			}
		})
	})},
	{"release-counted-as-crash", "P6", "a lease that its holder gave back counts a crash at the next claim", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, store.Release) {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.Crashes++ })
			}
		})
	})},
	{"release-for-a-while-at-once", "P6", "a run that is released for a while is claimable at once", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, res *store.CommitResult) {
			if ended(c, store.Release) && res.Status == store.Pending && c.Transition.After > 0 {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.VisibleAt = now })
				res.VisibleAt = now
			}
		})
	})},
	{"release-loses-its-reason", "P6", "a release with a failure does not keep it", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
			if ended(&c, store.Release) {
				t := *c.Transition
				t.Failure, c.Transition = nil, &t
			}
			return next(c)
		})
	})},
	{"release-forgets-failed-steps", "P6", "a release forgets failed steps, as a retry does", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
			if ended(&c, store.Release) {
				t := *c.Transition
				t.Kind, c.Transition = store.Retry, &t
			}
			return next(c)
		})
	})},
	{"release-of-canceling-at-once", "P11", "a canceling run that is released for a while is claimable at once", wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, now time.Time, res *store.CommitResult) {
			if ended(c, store.Release) && res.Status == store.Canceling && c.Transition.After > 0 {
				s.Tamper(c.Lease.Run, func(r model.Row) { r.VisibleAt = now })
				res.VisibleAt = now
			}
		})
	})},
	{"expired-lease-is-dead", "P6", "a lease that ran out takes no commit, although nobody took over", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, p store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
			if r, ok := s.row(c.Lease.Run); ok && r.Worker != "" && !r.VisibleAt.After(clock(p.Now)) {
				return store.CommitResult{Err: store.ErrLeaseLost}, nil
			}
			return next(c)
		})
	})},
	{"recovered-only-by-its-worker", "P6", "a run whose lease ran out is given to the worker that had it alone", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			page, _ := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Running}}, Limit: store.MaxPage})
			ends := map[store.ID]time.Time{}
			for _, run := range page.Runs {
				if run.Worker != p.Worker {
					ends[run.ID] = run.VisibleAt
					s.Tamper(run.ID, func(r model.Row) { r.VisibleAt = clock(p.Now).Add(time.Hour) })
				}
			}
			got, err := claim(ctx, p)
			for id, end := range ends {
				s.Tamper(id, func(r model.Row) { r.VisibleAt = end })
			}
			return got, err
		}
	})},

	{"order-reversed", "P7", "the runs of a claim come last first", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			slices.Reverse(got.Runs)
			return got, err
		}
	})},
	{"priority-ignored", "P7", "runs are claimed by their time alone", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			p.Runs = slices.Clone(p.Runs)
			for i := range p.Runs {
				if p.Runs[i].Priority >= store.MinPriority && p.Runs[i].Priority <= store.MaxPriority {
					p.Runs[i].Priority = 0
				}
			}
			return create(ctx, p)
		}
	})},
	{"crashed-run-goes-first", "P7", "a run whose lease ran out is claimed before all others", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			slices.SortStableFunc(got.Runs, func(a, b store.ClaimedRun) int {
				rank := func(c store.ClaimedRun) int {
					if c.Recovered {
						return 0
					}
					return 1
				}
				return cmp.Compare(rank(a), rank(b))
			})
			return got, err
		}
	})},
	{"claim-looks-at-the-first-thousand", "P18", "a claim reads the thousand live runs of the highest priority and looks among them for what is due", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			var live []store.Run
			for q := (store.ListParams{Namespace: p.Namespace, Limit: store.MaxPage}); ; {
				page, err := s.List(ctx, q)
				if err != nil {
					return claim(ctx, p)
				}
				for _, r := range page.Runs {
					if !r.Status.Final() && r.Worker == "" {
						live = append(live, r)
					}
				}
				if q.Cursor = page.Next; page.Next == "" {
					break
				}
			}
			slices.SortFunc(live, func(a, b store.Run) int { return cmp.Compare(b.Priority, a.Priority) })
			if due := func(r store.Run) bool { return !r.VisibleAt.IsZero() && !r.VisibleAt.After(clock(p.Now)) }; len(live) > 1000 && !slices.ContainsFunc(live[:1000], due) {
				return store.Claimed{Now: clock(p.Now)}, nil
			}
			return claim(ctx, p)
		}
	})},
	{"claim-id-marks-the-run-for-all", "P4", "the ClaimID that took a run marks it whoever the worker is: a claim of that id leases it anew with the epoch it has", wrap(func(s *faulty) {
		var mu sync.Mutex
		marks := map[store.ID]int64{}
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			mu.Lock()
			defer mu.Unlock()
			got, err := claim(ctx, p)
			for i := range got.Runs {
				c := &got.Runs[i]
				if p.ClaimID != 0 && !p.Again && marks[c.Run.ID] == p.ClaimID {
					s.Tamper(c.Run.ID, func(r model.Row) { r.Epoch-- })
					c.Run.Epoch--
					c.Lease.Epoch--
				}
				marks[c.Run.ID] = p.ClaimID
			}
			return got, err
		}
	})},
	{"claim-id-hides-runs-of-others", "P4", "NextDue and Waiting leave out what another worker has claimed under the same ClaimID", wrap(func(s *faulty) {
		var mu sync.Mutex
		marks := map[int64]string{} // the first worker of each ClaimID
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			mu.Lock()
			defer mu.Unlock()
			got, err := claim(ctx, p)
			if first, used := marks[p.ClaimID]; !used {
				marks[p.ClaimID] = p.Worker
			} else if first != p.Worker && p.ClaimID != 0 {
				got.NextDue = time.Time{}
			}
			return got, err
		}
	})},
}
