package model

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawlhq/pawl/store"
)

// Tx is a transaction: a copy of everything that is stored, which replaces the original when the
// transaction commits. While a transaction is open, other writers wait.
type Tx struct {
	store *Store
	inner *Store // the copy
	hints []store.Hint
	once  sync.Once
}

// Backend implements store.Tx.
func (*Tx) Backend() string { return "model" }

// BeginTx begins a transaction of the program.
func (s *Store) BeginTx(ctx context.Context) (*Tx, error) {
	if err := s.enter(ctx, nil); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.open = make(chan struct{})
	tx := &Tx{store: s, inner: s.copyLocked()}
	tx.inner.limits, tx.inner.later = s.limits, &tx.hints
	return tx, nil
}

// Mark adds a row of the program, with a marker.
func (tx *Tx) Mark(marker string) {
	tx.inner.mu.Lock()
	defer tx.inner.mu.Unlock()
	tx.inner.markers[marker]++
}

// Marked returns how many rows have a marker.
func (s *Store) Marked(marker string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.markers[marker]
}

// Commit writes the transaction's contents to the store, and then sends its hints.
func (tx *Tx) Commit() {
	tx.end(func() {
		tx.store.takeLocked(tx.inner)
		tx.store.hub.Publish(tx.hints...)
	})
}

// Rollback discards what was written. After Commit it does nothing.
func (tx *Tx) Rollback() { tx.end(func() {}) }

func (tx *Tx) end(do func()) {
	tx.once.Do(func() {
		tx.store.mu.Lock()
		defer tx.store.mu.Unlock()
		do()
		close(tx.store.open)
		tx.store.open = nil
	})
}

var errNoTransactions = fmt.Errorf("the model was made without transactions: %w", store.ErrUnsupported)

// Join implements store.Transactor.
func (s *Store) Join(tx store.Tx) (store.Store, error) {
	t, ok := tx.(*Tx)
	switch {
	case !s.transactions:
		return nil, errNoTransactions
	case !ok:
		return nil, store.Invalid("transaction", fmt.Sprintf("it is a transaction of %s, but the store is the model", tx.Backend()))
	}
	return t.Inside(), nil
}

// Inside returns the store inside the transaction.
func (tx *Tx) Inside() store.Store { return joined{tx.inner} }

// Beside calls do, which may write to the store outside the transaction while it is open. Like
// Tamper, it exists for the faulty stores of package mutant.
func (tx *Tx) Beside(do func()) {
	tx.store.mu.Lock()
	open := tx.store.open
	tx.store.open = nil
	tx.store.mu.Unlock()
	do()
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	tx.store.open = open
}

// joined is the store inside a transaction.
type joined struct{ *Store }

func (joined) Close() error { return nil }

// stepTx implements store.Transaction.
type stepTx struct{ *Tx }

// Begin implements store.Transactor. It offers *Tx.
func (s *Store) Begin(ctx context.Context, target any) (store.Transaction, error) {
	out, ok := target.(**Tx)
	if !s.transactions || !ok {
		return nil, fmt.Errorf("a step's transaction is a *model.Tx, not what %T points to: %w", target, store.ErrUnsupported)
	}
	tx, err := s.BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	*out = tx
	return stepTx{tx}, nil
}

// Commit implements store.Transaction.
func (tx stepTx) Commit(ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
	defer tx.Rollback()
	if c.Transition != nil {
		return store.CommitResult{}, store.Invalid("commit", "a commit inside a step's transaction cannot have a transition")
	}
	res, err := tx.inner.Commit(ctx, store.CommitParams{Namespace: namespace, Commits: []store.Commit{c}})
	if err != nil {
		return store.CommitResult{}, err
	}
	if res[0].Err == nil {
		tx.Tx.Commit()
	}
	return res[0], nil
}

// Recorded implements store.Transactor.
func (s *Store) Recorded(ctx context.Context, namespace string, lease store.Lease, seq int64) (bool, error) {
	if !s.transactions {
		return false, errNoTransactions
	}
	if err := s.enter(ctx, nil); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	r := s.find(namespace, lease.Run)
	switch {
	case r == nil || !r.leased() || r.Epoch != lease.Epoch || r.Worker != lease.Worker:
		return false, leaseLost(lease)
	case r.seq < seq-1:
		return false, store.CommitsMissing(lease, seq, r.seq)
	}
	return r.seq >= seq, nil
}
