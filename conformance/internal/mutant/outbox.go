package mutant

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// lastSeq returns the number of the last change that was stored.
func (s *faulty) lastSeq(namespace string) (last int64) {
	s.Store.TamperOutbox(namespace, func(changes []model.Waiting, _ map[string]*store.Subscription) []model.Waiting {
		for i := range changes {
			last = max(last, changes[i].Seq)
		}
		return changes
	})
	return last
}

// forget removes changes that were stored after one.
func (s *faulty) forget(namespace string, after int64, which func(w *model.Waiting) bool) {
	s.Store.TamperOutbox(namespace, func(changes []model.Waiting, _ map[string]*store.Subscription) []model.Waiting {
		return slices.DeleteFunc(changes, func(w model.Waiting) bool { return w.Seq > after && which(&w) })
	})
}

// untold makes a store that loses changes of some writes.
func untold(which func(w *model.Waiting) bool) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		commit, pause, restart, create := s.commit, s.pause, s.restart, s.create
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			last := s.lastSeq(p.Namespace)
			defer s.forget(p.Namespace, last, which)
			return commit(ctx, p)
		}
		s.pause = func(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
			last := s.lastSeq(p.Namespace)
			defer s.forget(p.Namespace, last, which)
			return pause(ctx, p)
		}
		s.restart = func(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
			last := s.lastSeq(p.Namespace)
			defer s.forget(p.Namespace, last, which)
			return restart(ctx, p)
		}
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			last := s.lastSeq(p.Namespace)
			defer s.forget(p.Namespace, last, which)
			return create(ctx, p)
		}
	})
}

// eachChanges changes what Changes returns.
func eachChanges(do func(s *faulty, p *store.ChangesParams, page *store.ChangePage)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		changes := s.changes
		s.changes = func(ctx context.Context, p store.ChangesParams) (store.ChangePage, error) {
			page, err := changes(ctx, p)
			if err == nil {
				do(s, &p, &page)
			}
			return page, err
		}
	})
}

// waits returns the changes that wait in a subscription.
func (s *faulty) waits(namespace, subscription string) (list []model.Waiting) {
	s.Store.TamperOutbox(namespace, func(changes []model.Waiting, _ map[string]*store.Subscription) []model.Waiting {
		for i := range changes {
			if changes[i].In(namespace, subscription) {
				list = append(list, changes[i])
			}
		}
		return changes
	})
	return list
}

// settles changes the params of Settle.
func settles(spoil func(s *faulty, p *store.SettleParams)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		settle := s.settle
		s.settle = func(ctx context.Context, p store.SettleParams) error {
			if p.Validate() == nil {
				p.Failed, p.Delivered = slices.Clone(p.Failed), slices.Clone(p.Delivered)
				spoil(s, &p)
			}
			return settle(ctx, p)
		}
	})
}

// puts changes the params of PutSubscription.
func puts(spoil func(s *faulty, p *store.PutSubscriptionParams)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		put := s.putSubscription
		s.putSubscription = func(ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
			if p.Validate() == nil {
				spoil(s, &p)
			}
			return put(ctx, p)
		}
	})
}

// known returns the ID of the change of a number, or the zero ID.
func (s *faulty) known(p *store.SettleParams, seq int64) (id store.ID) {
	for _, w := range s.waits(p.Namespace, p.Subscription) {
		if w.Seq == seq {
			id = w.ID
		}
	}
	return id
}

// These mutants break the outbox.
var outboxMutants = []Mutant{
	{"outbox-loses-restarts", "P31", "a restart is no change", untold(func(w *model.Waiting) bool { return w.Kind == store.RunRestarted })},
	{"outbox-loses-late-pauses", "P31", "a pause that a leased run carries out when it sleeps is no change", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			last := s.lastSeq(p.Namespace)
			defer s.forget(p.Namespace, last, func(w *model.Waiting) bool { return w.Kind == store.RunPaused })
			return commit(ctx, p)
		}
	})},
	{"outbox-loses-eager-starts", "P31", "the creation of a run that is leased at once is no change", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			last := s.lastSeq(p.Namespace)
			out, err := create(ctx, p)
			if len(p.Runs) == 1 && p.Runs[0].Worker != "" {
				s.forget(p.Namespace, last, func(*model.Waiting) bool { return true })
			}
			return out, err
		}
	})},
	{"outbox-loses-children", "P31", "a spawn of children is no change of them", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			last := s.lastSeq(p.Namespace)
			defer s.forget(p.Namespace, last, func(w *model.Waiting) bool { return w.Kind == store.RunCreated })
			return commit(ctx, p)
		}
	})},
	{"outbox-loses-forks", "P31", "the creation of a fork is no change", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			last := s.lastSeq(p.Namespace)
			defer s.forget(p.Namespace, last, func(*model.Waiting) bool { return true })
			return fork(ctx, p)
		}
	})},
	{"outbox-loses-firings", "P31", "the creation of a run by a schedule is no change", wrap(func(s *faulty) {
		fire := s.fire
		s.fire = func(ctx context.Context, p store.FireParams) (store.FireResult, error) {
			last := s.lastSeq(p.Namespace)
			defer s.forget(p.Namespace, last, func(*model.Waiting) bool { return true })
			return fire(ctx, p)
		}
	})},
	{"outbox-loses-cascades", "P31", "a cancel tells only of the runs that it names", wrap(func(s *faulty) {
		cancel := s.cancel
		s.cancel = func(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
			last := s.lastSeq(p.Namespace)
			defer s.forget(p.Namespace, last, func(w *model.Waiting) bool { return !slices.Contains(p.IDs, w.Run) })
			return cancel(ctx, p)
		}
	})},
	{"outbox-tells-of-claims", "P31", "a claim of a sleeper is told as a resumption", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			out, err := claim(ctx, p)
			for i := range out.Runs {
				if out.Runs[i].Run.Epoch > 1 {
					s.Store.TellOf(out.Runs[i].Run.ID, store.RunResumed, p.Now)
				}
			}
			return out, err
		}
	})},
	{"outbox-tells-of-repeats", "P31", "a pause of a paused run is told again", wrap(func(s *faulty) {
		pause := s.pause
		s.pause = func(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
			for _, id := range p.IDs {
				if r, ok := s.row(id); ok && r.Status == store.Paused && !p.Resume {
					s.Store.TellOf(id, store.RunPaused, p.Now)
				}
			}
			return pause(ctx, p)
		}
	})},
	{"outbox-tells-of-refused", "P31", "a commit that is refused is told as if it had ended its run", wrap(func(s *faulty) {
		commit := s.commit
		s.commit = func(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
			out, err := commit(ctx, p)
			for i := range out {
				if out[i].Err != nil && p.Commits[i].Transition != nil {
					s.Store.TellOf(p.Commits[i].Lease.Run, store.RunFailed, p.Now)
				}
			}
			return out, err
		}
	})},
	{"outbox-tells-of-replaced", "P31", "a debounced start that replaces is told as a creation", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			out, err := create(ctx, p)
			for i := range out {
				if out[i].Err == nil && p.Runs[i].Debounce != "" && !out[i].Created {
					s.Store.TellOf(out[i].ID, store.RunCreated, p.Now)
				}
			}
			return out, err
		}
	})},
	{"outbox-tells-of-undone", "P31", "a start with a signal that its run has had is told as a creation", wrap(func(s *faulty) {
		create := s.create
		s.create = func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			results, err := create(ctx, p)
			for i, res := range results {
				if p.Runs[i].Signal != nil && res.Err == nil && !res.Created {
					s.Store.TellOf(res.ID, store.RunCreated, p.Now)
				}
			}
			return results, err
		}
	})},
	{"outbox-tells-of-imports", "P31", "an imported run is told as created", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			made, err := imports(ctx, p)
			if made {
				s.Store.TellOf(p.Record.Run.ID, store.RunCreated, p.Now)
			}
			return made, err
		}
	})},
	{"outbox-of-the-present", "P31", "a change has the time at which it is read", eachChanges(func(_ *faulty, _ *store.ChangesParams, page *store.ChangePage) {
		for i := range page.Changes {
			page.Changes[i].At = page.Now
		}
	})},
	{"outbox-without-suffixes", "P31", "a change does not have the suffix of the external id", eachChanges(func(_ *faulty, _ *store.ChangesParams, page *store.ChangePage) {
		for i := range page.Changes {
			page.Changes[i].Suffix = ""
		}
	})},
	{"outbox-of-all-kinds", "P31", "a subscription of some kinds gets all", puts(func(_ *faulty, p *store.PutSubscriptionParams) { p.Subscription.Kinds = nil })},
	{"outbox-of-one-workflow", "P31", "a subscription of several workflows gets the changes of the first", puts(func(_ *faulty, p *store.PutSubscriptionParams) {
		p.Subscription.Workflows = slices.Clone(p.Subscription.Workflows[:min(1, len(p.Subscription.Workflows))])
	})},
	{"outbox-put-forgets", "P31", "a subscription that is put again loses what waits", puts(func(s *faulty, p *store.PutSubscriptionParams) {
		s.forget(p.Namespace, 0, func(w *model.Waiting) bool { return w.In(p.Namespace, p.Subscription.Name) })
	})},
	{"outbox-put-resets", "P31", "a subscription that is put again loses when a delivery last failed", puts(func(s *faulty, p *store.PutSubscriptionParams) {
		s.Store.TamperOutbox(p.Namespace, func(changes []model.Waiting, subs map[string]*store.Subscription) []model.Waiting {
			if sub := subs[p.Subscription.Name]; sub != nil {
				sub.FailedAt, sub.Error = time.Time{}, ""
			}
			return changes
		})
	})},
	{"outbox-delete-keeps", "P31", "the changes of a deleted subscription stay", wrap(func(s *faulty) {
		del := s.deleteSubscription
		s.deleteSubscription = func(ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
			kept := s.waits(p.Namespace, p.Name)
			more, err := del(ctx, p)
			s.Store.TamperOutbox(p.Namespace, func(changes []model.Waiting, _ map[string]*store.Subscription) []model.Waiting {
				if err == nil {
					changes = append(kept, changes...)
				}
				return changes
			})
			return more, err
		}
	})},
	{"outbox-purged-with-runs", "P31", "a purge deletes the changes of its runs", wrap(func(s *faulty) {
		purge := s.purge
		s.purge = func(ctx context.Context, p store.PurgeParams) (int, error) {
			final := map[store.ID]bool{}
			list := store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Completed, store.Failed, store.Canceled}}, Limit: store.MaxPage}
			page, _ := s.Store.List(context.Background(), list)
			for i := range page.Runs {
				final[page.Runs[i].ID] = true
			}
			n, err := purge(ctx, p)
			s.forget(p.Namespace, 0, func(w *model.Waiting) bool { return n > 0 && final[w.Run] })
			return n, err
		}
	})},
	{"outbox-overtakes", "P13", "a change is returned before the one of its run that failed", eachChanges(func(s *faulty, p *store.ChangesParams, page *store.ChangePage) {
		for _, w := range s.waits(p.Namespace, p.Subscription) {
			has := slices.ContainsFunc(page.Changes, func(ch store.Change) bool { return ch.Run == w.Run })
			if !has && !page.More && w.Attempts == 0 {
				page.Changes = append(page.Changes, w.Change)
			}
		}
	})},
	{"outbox-without-order", "P31", "all changes of a run are returned at once", eachChanges(func(s *faulty, p *store.ChangesParams, page *store.ChangePage) {
		limit, _ := store.Page(p.Limit)
		for _, w := range s.waits(p.Namespace, p.Subscription) {
			has := slices.ContainsFunc(page.Changes, func(ch store.Change) bool { return ch.ChangeKey == w.ChangeKey })
			if !has && !w.Due.After(page.Now) && len(page.Changes) < limit {
				page.Changes = append(page.Changes, w.Change)
			}
		}
	})},
	{"outbox-newest-first", "P31", "the newest changes are returned first", eachChanges(func(_ *faulty, _ *store.ChangesParams, page *store.ChangePage) { slices.Reverse(page.Changes) })},
	{"outbox-hides-more", "P31", "a page of changes does not say that there are more", eachChanges(func(_ *faulty, _ *store.ChangesParams, page *store.ChangePage) { page.More = false })},
	{"outbox-by-number", "P31", "changes that were tried come in the order of their numbers, whatever is due first", eachChanges(func(_ *faulty, _ *store.ChangesParams, page *store.ChangePage) {
		slices.SortFunc(page.Changes, func(a, b store.Change) int { return int(a.Seq - b.Seq) })
	})},
	{"outbox-stops-at-a-failure", "P13", "while a failed delivery waits, nothing else is returned", eachChanges(func(_ *faulty, _ *store.ChangesParams, page *store.ChangePage) {
		if !page.NextAt.IsZero() {
			page.Changes = nil
		}
	})},
	{"outbox-retries-at-once", "P13", "a failed delivery is due again at once", settles(func(_ *faulty, p *store.SettleParams) {
		for i := range p.Failed {
			p.Failed[i].After = 0
		}
	})},
	{"outbox-hides-the-next", "P13", "a page of changes does not say when the next one is due", eachChanges(func(_ *faulty, _ *store.ChangesParams, page *store.ChangePage) { page.NextAt = time.Time{} })},
	{"outbox-counts-attempts-twice", "P4", "an attempt that is settled again counts again", settles(func(s *faulty, p *store.SettleParams) {
		for i := range p.Failed {
			for _, w := range s.waits(p.Namespace, p.Subscription) {
				if w.ChangeKey == p.Failed[i].ChangeKey {
					p.Failed[i].Attempt = w.Attempts + 1
				}
			}
		}
	})},
	{"outbox-settles-by-number", "P4", "a change is settled by its number alone", settles(func(s *faulty, p *store.SettleParams) {
		for i := range p.Delivered {
			p.Delivered[i].ID = s.known(p, p.Delivered[i].Seq)
		}
	})},
	{"outbox-settles-anywhere", "P4", "a change is settled in whatever subscription it is", settles(func(_ *faulty, p *store.SettleParams) {
		if p.Subscription == "none" {
			p.Subscription = "sub"
		}
	})},
	{"outbox-drops-early", "P13", "changes are dropped before their time", wrap(func(s *faulty) {
		drop := s.dropChanges
		s.dropChanges = func(ctx context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
			if !p.Now.IsZero() {
				p.Now = p.Now.Add(time.Second)
			}
			return drop(ctx, p)
		}
	})},
	{"outbox-drops-uncounted", "P13", "dropped changes are not counted", wrap(func(s *faulty) {
		drop := s.dropChanges
		s.dropChanges = func(ctx context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
			out, err := drop(ctx, p)
			s.Store.TamperOutbox(p.Namespace, func(changes []model.Waiting, subs map[string]*store.Subscription) []model.Waiting {
				for _, sub := range subs {
					sub.Dropped = 0
				}
				return changes
			})
			return out, err
		}
	})},
	{"outbox-keeps-for-ever", "P13", "changes are never dropped", wrap(func(s *faulty) {
		s.dropChanges = func(_ context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
			return nil, p.Validate()
		}
	})},
	{"outbox-settles-what-it-has-not-seen", "P31", "a delivery deletes all changes of its run that wait by then", wrap(func(s *faulty) {
		settle := s.settle
		s.settle = func(ctx context.Context, p store.SettleParams) error {
			var runs []store.ID
			for _, w := range s.waits(p.Namespace, p.Subscription) {
				if slices.Contains(p.Delivered, w.ChangeKey) {
					runs = append(runs, w.Run)
				}
			}
			roundTrip()
			err := settle(ctx, p)
			s.forget(p.Namespace, 0, func(w *model.Waiting) bool { return w.In(p.Namespace, p.Subscription) && slices.Contains(runs, w.Run) })
			return err
		}
	})},
	{"outbox-of-all-namespaces", "P15", "a subscription can be deleted from another namespace", wrap(func(s *faulty) {
		del := s.deleteSubscription
		s.deleteSubscription = func(ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
			more, err := del(ctx, p)
			if err != nil && p.Validate() == nil && len(p.Namespace) > 6 && p.Namespace[len(p.Namespace)-6:] == "/other" {
				p.Namespace = p.Namespace[:len(p.Namespace)-6]
				return del(ctx, p)
			}
			return more, err
		}
	})},
	{"outbox-takes-too-many", "P16", "a page of changes may have any number", wrap(func(s *faulty) {
		changes := s.changes
		s.changes = func(ctx context.Context, p store.ChangesParams) (store.ChangePage, error) {
			p.Limit = min(p.Limit, store.MaxPage)
			return changes(ctx, p)
		}
	})},
	lost("subscriptions", "subscriptions", (*model.Disk).LoseSubscriptions),
	lost("changes", "the changes that wait", (*model.Disk).LoseChanges),
	lost("deliveries", "which deliveries have failed", (*model.Disk).LoseAttempts),
}
