package mutant

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// eachAppend replaces how items are appended at once.
func eachAppend(do func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (store.AppendResult, error)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		next := s.append
		s.append = func(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
			if err := p.Validate(s.Limits()); err != nil {
				return next(ctx, p)
			}
			return do(ctx, s, p, next)
		}
	})
}

// eachItem changes what a reader gets.
func eachItem(do func(p *store.ReadStreamParams, it *store.StreamItem)) func(*model.Store) store.Store {
	return eachStreamPage(func(_ *faulty, p *store.ReadStreamParams, page *store.StreamPage) {
		for i := range page.Items {
			do(p, &page.Items[i])
		}
	})
}

func eachStreamPage(do func(s *faulty, p *store.ReadStreamParams, page *store.StreamPage)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		read := s.readStream
		s.readStream = func(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
			page, err := read(ctx, p)
			if err == nil {
				do(s, &p, &page)
			}
			return page, err
		}
	})
}

// itemsAfter changes the items of a run after a transition.
func itemsAfter(kind store.TransitionKind, do func(items *[]store.StreamItem)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		s.afterCommit(func(c *store.Commit, _ time.Time, _ *store.CommitResult) {
			if ended(c, kind) {
				s.Tamper(c.Lease.Run, func(r model.Row) { do(r.Items) })
			}
		})
	})
}

func noItems(items *[]store.StreamItem) { *items = nil }

// force appends items whatever the lease and the numbers are.
func (s *faulty) force(p *store.AppendParams) {
	s.Tamper(p.Lease.Run, func(r model.Row) {
		last := int64(1)
		if n := len(*r.Items); n > 0 {
			last = (*r.Items)[n-1].Position + 1
		}
		for i, payload := range p.Items {
			*r.Items = append(*r.Items, store.StreamItem{Position: last + int64(i), Stream: p.Stream, Step: p.Step, Attempt: p.Attempt, Epoch: p.Lease.Epoch, Number: p.First + int64(i), At: clock(p.Now), Payload: payload})
		}
	})
}

// keepsSuperseded restores the items that an append or a commit deletes.
func (s *faulty) keepsSuperseded(id store.ID, do func()) {
	var old, now []store.StreamItem
	s.Tamper(id, func(r model.Row) { old = slices.Clone(*r.Items) })
	do()
	s.Tamper(id, func(r model.Row) {
		now = *r.Items
		there := map[int64]bool{}
		for i := range now {
			there[now[i].Position] = true
		}
		kept := slices.DeleteFunc(old, func(it store.StreamItem) bool { return there[it.Position] })
		*r.Items = slices.Concat(kept, now)
		slices.SortFunc(*r.Items, func(a, b store.StreamItem) int { return int(a.Position - b.Position) })
	})
}

// These mutants break P27, and what other promises say of streams.
var streamMutants = []Mutant{
	{"superseded-items-stay", "P27", "a later attempt does not delete what the earlier one has appended", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (res store.AppendResult, err error) {
		s.keepsSuperseded(p.Lease.Run, func() { res, err = next(ctx, p) })
		return res, err
	})},
	{"superseded-items-stay-with-a-commit", "P27", "the items of a commit do not delete those of an earlier attempt", wrap(func(s *faulty) {
		s.eachCommit(func(_ context.Context, _ store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (res store.CommitResult, err error) {
			s.keepsSuperseded(c.Lease.Run, func() { res, err = next(c) })
			return res, err
		})
	})},
	{"no-reset-mark", "P27", "readers are not told that items were superseded", eachItem(func(_ *store.ReadStreamParams, it *store.StreamItem) { it.Reset = false })},
	{"reset-mark-only-from-the-start", "P27", "a reader in the middle is not told that items were superseded", eachItem(func(p *store.ReadStreamParams, it *store.StreamItem) {
		it.Reset = it.Reset && p.After == 0
	})},
	{"reset-mark-on-every-item", "P27", "every item of a later attempt is marked", eachItem(func(_ *store.ReadStreamParams, it *store.StreamItem) { it.Reset = it.Reset || it.Attempt > 1 })},
	{"crash-supersedes-nothing", "P27", "the attempt of a later lease does not delete the items of the earlier lease", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (res store.AppendResult, err error) {
		if p.Lease.Epoch > 1 {
			s.keepsSuperseded(p.Lease.Run, func() { res, err = next(ctx, p) })
			return res, err
		}
		return next(ctx, p)
	})},
	{"takeover-drops-items", "P27", "a claim deletes what an earlier lease has appended", wrap(func(s *faulty) {
		claim := s.claim
		s.claim = func(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
			got, err := claim(ctx, p)
			for i := range got.Runs {
				if got.Runs[i].Lease.Epoch > 1 {
					s.Tamper(got.Runs[i].Run.ID, func(r model.Row) { *r.Items = nil })
				}
			}
			return got, err
		}
	})},
	{"positions-again", "P27", "the positions of superseded items are given again", eachItem(func(_ *store.ReadStreamParams, it *store.StreamItem) {
		if it.Reset {
			it.Position -= 3
		}
	})},
	{"stream-of-any-attempt", "P27", "an attempt writes after a later one has", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (store.AppendResult, error) {
		res, err := next(ctx, p)
		if errors.Is(err, store.ErrConflict) {
			s.force(&p)
			return res, nil
		}
		return res, err
	})},
	{"zombie-appends", "P2", "a lease that was lost appends", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (store.AppendResult, error) {
		res, err := next(ctx, p)
		if r, ok := s.row(p.Lease.Run); ok && errors.Is(err, store.ErrLeaseLost) && r.Epoch > p.Lease.Epoch {
			s.force(&p)
			return res, nil
		}
		return res, err
	})},
	{"items-skip", "P2", "an append that skips numbers is stored", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (store.AppendResult, error) {
		res, err := next(ctx, p)
		if r, ok := s.row(p.Lease.Run); ok && errors.Is(err, store.ErrLeaseLost) && r.Epoch == p.Lease.Epoch && r.Worker == p.Lease.Worker && p.First > 1 {
			s.force(&p)
			return res, nil
		}
		return res, err
	})},
	{"append-twice", "P4", "an append that is sent again is stored again", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (store.AppendResult, error) {
		res, err := next(ctx, p)
		if err == nil && res.Repeated {
			s.force(&p)
		}
		return res, err
	})},
	{"append-not-told-as-repeated", "P4", "an append that is sent again is told as new", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (store.AppendResult, error) {
		_, err := next(ctx, p)
		return store.AppendResult{}, err
	})},
	{"expired-cannot-append", "P2", "a lease that expired appends nothing, although nobody has taken the run over", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (store.AppendResult, error) {
		if r, ok := s.row(p.Lease.Run); ok && !r.VisibleAt.After(clock(p.Now)) {
			return store.AppendResult{}, store.ErrLeaseLost
		}
		return next(ctx, p)
	})},
	{"items-lost-with-a-sleep", "P27", "items that come with a sleep are not stored", wrap(func(s *faulty) {
		s.beforeCommit(func(c *store.Commit) {
			if ended(c, store.Sleep) {
				c.Streams = nil
			}
		})
	})},
	{"items-before-their-commit", "P27", "the items of a commit that is refused become visible", wrap(func(s *faulty) {
		s.eachCommit(func(ctx context.Context, p store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
			res, err := next(c)
			if err == nil && errors.Is(res.Err, store.ErrInvalid) && len(c.Streams) > 0 && c.Transition == nil && len(c.Steps) > 1 {
				s.force(&store.AppendParams{Namespace: p.Namespace, Lease: c.Lease, StreamWrite: c.Streams[0], Now: p.Now})
			}
			return res, err
		})
	})},
	{"continue-drops-items", "P27", "a run that continues as new forgets its items", itemsAfter(store.Continue, noItems)},
	{"retry-drops-items", "P27", "a retry forgets the run's items", itemsAfter(store.Retry, noItems)},
	{"end-drops-items", "P27", "a run that completes forgets its items", itemsAfter(store.CompleteRun, noItems)},
	{"generations-are-attempts", "P27", "a step of a later generation supersedes that of an earlier one", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (store.AppendResult, error) {
		res, err := next(ctx, p)
		if err == nil {
			s.Tamper(p.Lease.Run, func(r model.Row) {
				*r.Items = slices.DeleteFunc(*r.Items, func(it store.StreamItem) bool {
					return it.Generation < r.Generation && it.Stream == p.Stream && it.Step == p.Step
				})
			})
		}
		return res, err
	})},
	{"restart-drops-items", "P27", "a restart forgets the run's items", wrap(func(s *faulty) {
		s.eachRestart(func(ctx context.Context, p oneRestart, next func(context.Context, oneRestart) error) error {
			err := next(ctx, p)
			if err == nil {
				s.Tamper(p.ID, func(r model.Row) { *r.Items = nil })
			}
			return err
		})
	})},
	{"fork-takes-items", "P27", "a fork begins with the items of its original", wrap(func(s *faulty) {
		fork := s.fork
		s.fork = func(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
			res, err := fork(ctx, p)
			if err == nil && !res.Repeated {
				var items []store.StreamItem
				s.Tamper(p.ID, func(r model.Row) { items = slices.Clone(*r.Items) })
				s.Tamper(p.New, func(r model.Row) { *r.Items = items })
			}
			return res, err
		}
	})},
	{"import-forgets-items", "P27", "an imported run has no items", wrap(func(s *faulty) {
		imports := s.imports
		s.imports = func(ctx context.Context, p store.ImportParams) (bool, error) {
			if p.Validate(s.Limits()) == nil {
				p.Record.Streams = nil
			}
			return imports(ctx, p)
		}
	})},
	{"items-unbounded", "P27", "a run has any number of items", eachAppend(func(ctx context.Context, s *faulty, p store.AppendParams, next verb[store.AppendParams, store.AppendResult]) (store.AppendResult, error) {
		res, err := next(ctx, p)
		if errors.Is(err, store.ErrTooLarge) && p.Size() < 3 {
			s.force(&p)
			return res, nil
		}
		return res, err
	})},
	{"bytes-unbounded", "P27", "a run has items of any size together, by commits", wrap(func(s *faulty) {
		s.eachCommit(func(ctx context.Context, p store.CommitParams, c store.Commit, next func(store.Commit) (store.CommitResult, error)) (store.CommitResult, error) {
			res, err := next(c)
			if err == nil && errors.Is(res.Err, store.ErrTooLarge) && c.Validate(s.Limits()) == nil {
				c.Streams = nil
				return next(c)
			}
			return res, err
		})
	})},
	{"closed-early", "P27", "the status of a run is read before its items, of another moment", eachStreamPage(func(s *faulty, p *store.ReadStreamParams, page *store.StreamPage) {
		roundTrip()
		if r, ok := s.row(p.Run); ok {
			page.Status = r.Status
		}
	})},
	{"items-of-the-whole-run", "P27", "a reader of one stream gets the items of all", wrap(func(s *faulty) {
		read := s.readStream
		s.readStream = func(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
			if p.Validate() == nil {
				p.Stream = ""
			}
			return read(ctx, p)
		}
	})},
	{"stream-pages-repeat", "P14", "a page begins with the last item of the page before", wrap(func(s *faulty) {
		read := s.readStream
		s.readStream = func(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
			if p.After > 0 {
				p.After--
			}
			return read(ctx, p)
		}
	})},
	{"stream-page-over-bytes", "P12", "MaxBytes does not bound a page of items", wrap(func(s *faulty) {
		read := s.readStream
		s.readStream = func(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
			if p.Validate() == nil {
				p.MaxBytes = 0
			}
			return read(ctx, p)
		}
	})},
	{"empty-items-become-nil", "P12", "an empty item is read as nil", eachItem(func(_ *store.ReadStreamParams, it *store.StreamItem) {
		if len(it.Payload) == 0 {
			it.Payload = nil
		}
	})},
	{"streams-of-all-namespaces", "P15", "items of another namespace can be read", wrap(func(s *faulty) {
		read := s.readStream
		s.readStream = func(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
			if r, ok := s.row(p.Run); ok && p.Validate() == nil {
				p.Namespace = r.Namespace
			}
			return read(ctx, p)
		}
	})},
	{"no-hint-of-appends", "", "items that are appended at once are not hinted", wrap(func(s *faulty) {
		unhinted(s, &s.append, always, only(store.HintStream))
	})},
	{"no-hint-of-committed-items", "", "items of a commit are not hinted", wrap(func(s *faulty) {
		unhinted(s, &s.commit, always, only(store.HintStream))
	})},
}
