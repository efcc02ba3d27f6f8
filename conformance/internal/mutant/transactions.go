package mutant

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// ofStep is a step's transaction with another commit.
type ofStep struct {
	store.Transaction
	tx     *model.Tx
	commit func(ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error)
}

func (t ofStep) Commit(ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
	return t.commit(ctx, namespace, c)
}

// stepEnds replaces how a step's transaction is committed.
func stepEnds(end func(s *faulty, t ofStep, ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		begin := s.begin
		s.begin = func(ctx context.Context, target any) (store.Transaction, error) {
			in, err := begin(ctx, target)
			if err != nil {
				return nil, err
			}
			t := ofStep{Transaction: in, tx: *target.(**model.Tx)}
			t.commit = func(ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
				return end(s, t, ctx, namespace, c)
			}
			return t, nil
		}
	})
}

// joins replaces the store inside a program's transaction.
func joins(in func(s *faulty, inside store.Store, tx *model.Tx) store.Store) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		join := s.join
		s.join = func(tx store.Tx) (store.Store, error) {
			inside, err := join(tx)
			if err != nil {
				return nil, err
			}
			return in(s, inside, tx.(*model.Tx)), nil
		}
	})
}

// creator is a store in a transaction that creates runs in another way.
type creator struct {
	store.Store
	create verb[store.CreateParams, []store.CreateResult]
}

func (c creator) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	return c.create(ctx, p)
}

// blindToOwn is a store in a transaction that does not read the transaction's own writes.
type blindToOwn struct {
	store.Store
	outer *faulty
}

func (b blindToOwn) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return b.outer.get(ctx, p)
}

// closes is a store in a transaction whose Close closes more than itself.
type closes struct {
	store.Store
	close func() error
}

func (c closes) Close() error { return c.close() }

// asks replaces Recorded.
func asks(recorded func(s *faulty, yes bool, err error, l store.Lease, seq int64) (bool, error)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		ask := s.recorded
		s.recorded = func(ctx context.Context, namespace string, l store.Lease, seq int64) (bool, error) {
			yes, err := ask(ctx, namespace, l, seq)
			return recorded(s, yes, err, l, seq)
		}
	})
}

var txMutants = []Mutant{
	{"zombie-effects-commit", "P2", "commits what a step wrote although its lease was lost", stepEnds(func(_ *faulty, t ofStep, ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
		res, err := t.tx.Inside().Commit(ctx, store.CommitParams{Namespace: namespace, Commits: []store.Commit{c}})
		if err != nil {
			return store.CommitResult{}, err
		}
		t.tx.Commit()
		return res[0], nil
	})},
	{"zombie-effects-of-one-worker", "P2", "compares the worker of a step's lease, and not its epoch", stepEnds(func(s *faulty, t ofStep, ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
		if r, ok := s.row(c.Lease.Run); ok && r.Worker == c.Lease.Worker {
			c.Lease.Epoch = r.Epoch
		}
		return t.Transaction.Commit(ctx, namespace, c)
	})},
	{"zombie-effects-of-the-ended", "P2", "takes the lease of a run that was canceled by force for good", stepEnds(func(s *faulty, t ofStep, ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
		if r, ok := s.row(c.Lease.Run); ok && r.Status == store.Canceled {
			t.tx.Commit()
			return store.CommitResult{Err: store.ErrLeaseLost}, nil
		}
		return t.Transaction.Commit(ctx, namespace, c)
	})},
	{"zombie-effects-across-namespaces", "P2", "finds the run of a step's lease in whatever namespace it is", stepEnds(func(s *faulty, t ofStep, ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
		if r, ok := s.row(c.Lease.Run); ok {
			namespace = r.Namespace
		}
		return t.Transaction.Commit(ctx, namespace, c)
	})},
	{"step-effects-before-a-refusal", "P3", "commits what a step wrote before it looks at its record", stepEnds(func(s *faulty, t ofStep, ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
		if c.Transition != nil {
			return t.Transaction.Commit(ctx, namespace, c)
		}
		t.tx.Commit()
		res, err := s.commit(ctx, store.CommitParams{Namespace: namespace, Commits: []store.Commit{c}})
		if err != nil {
			return store.CommitResult{}, err
		}
		return res[0], nil
	})},
	{"step-effects-lost", "P3", "records a step beside its transaction, which it rolls back", stepEnds(func(s *faulty, t ofStep, ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
		t.Rollback()
		res, err := s.commit(ctx, store.CommitParams{Namespace: namespace, Commits: []store.Commit{c}})
		if err != nil {
			return store.CommitResult{}, err
		}
		return res[0], nil
	})},
	{"step-record-lost", "P3", "commits what a step wrote without its record", stepEnds(func(_ *faulty, t ofStep, _ context.Context, _ string, _ store.Commit) (store.CommitResult, error) {
		t.tx.Commit()
		return store.CommitResult{Status: store.Running}, nil
	})},
	{"step-with-an-end", "P3", "takes a commit with a transition in a step's transaction", stepEnds(func(_ *faulty, t ofStep, ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
		c.Transition = nil
		return t.Transaction.Commit(ctx, namespace, c)
	})},
	{"step-hints-early", "", "sends the hints of a step's commit whether it is applied or not", stepEnds(func(s *faulty, t ofStep, ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
		s.Store.Tell(store.Hint{Kind: store.HintState, Namespace: namespace, Run: c.Lease.Run})
		return t.Transaction.Commit(ctx, namespace, c)
	})},
	{"recorded-always-yes", "P4", "says of every commit of a lease that it was applied", asks(func(_ *faulty, _ bool, err error, _ store.Lease, _ int64) (bool, error) { return err == nil, err })},
	{"recorded-always-no", "P4", "says of no commit that it was applied", asks(func(_ *faulty, _ bool, err error, _ store.Lease, _ int64) (bool, error) { return false, err })},
	{"recorded-of-a-lost-lease", "P4", "answers for a lease that was lost", asks(func(_ *faulty, yes bool, err error, _ store.Lease, _ int64) (bool, error) {
		if errors.Is(err, store.ErrLeaseLost) {
			return false, nil
		}
		return yes, err
	})},
	{"recorded-any-step", "P4", "says of a commit that it was applied when any was", asks(func(s *faulty, yes bool, err error, l store.Lease, seq int64) (bool, error) {
		return yes || err == nil && len(s.steps(l.Run)) > 0, err
	})},
	{"recorded-the-last-alone", "P4", "knows of the last commit alone, and not of those before it", wrap(func(s *faulty) {
		ask := s.recorded
		s.recorded = func(ctx context.Context, namespace string, l store.Lease, seq int64) (bool, error) {
			yes, err := ask(ctx, namespace, l, seq)
			if err != nil || !yes {
				return yes, err
			}
			later, err := ask(ctx, namespace, l, seq+1)
			return !later, err
		}
	})},
	{"join-outside", "P3", "makes new runs beside the program's transaction, and not in it", joins(func(s *faulty, inside store.Store, tx *model.Tx) store.Store {
		return creator{inside, func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			tx.Beside(func() { _, _ = s.create(ctx, p) })
			return inside.Create(ctx, p)
		}}
	})},
	{"join-commits-early", "P3", "commits the program's transaction with the first new run", joins(func(_ *faulty, inside store.Store, tx *model.Tx) store.Store {
		return creator{inside, func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			res, err := inside.Create(ctx, p)
			tx.Commit()
			return res, err
		}}
	})},
	{"join-forgets", "P3", "drops the runs that were made in a program's transaction", joins(func(_ *faulty, inside store.Store, _ *model.Tx) store.Store {
		return creator{inside, func(_ context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			var res []store.CreateResult
			for _, r := range p.Runs {
				res = append(res, store.CreateResult{ID: r.ID, Created: true})
			}
			return res, nil
		}}
	})},
	{"join-blind", "P3", "does not see in a program's transaction what was written in it", joins(func(s *faulty, inside store.Store, _ *model.Tx) store.Store { return blindToOwn{inside, s} })},
	{"join-closes", "P16", "closes the whole store with the one in a program's transaction", joins(func(s *faulty, inside store.Store, _ *model.Tx) store.Store {
		return closes{inside, s.Store.Close}
	})},
	{"join-hints-early", "", "sends the hints of what is written in a program's transaction at once", joins(func(s *faulty, inside store.Store, _ *model.Tx) store.Store {
		return creator{inside, func(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
			for _, r := range p.Runs {
				s.Store.Tell(store.Hint{Kind: store.HintQueue, Namespace: p.Namespace, Queue: r.Queue})
			}
			return inside.Create(ctx, p)
		}}
	})},
	{"join-of-anything", "P16", "joins a transaction of another backend as if it had none", wrap(func(s *faulty) {
		join := s.join
		s.join = func(tx store.Tx) (store.Store, error) {
			if tx.Backend() != "model" {
				return s, nil
			}
			return join(tx)
		}
	})},
}
