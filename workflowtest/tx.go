package workflowtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// Tx runs f in a transaction on the environment's database, SQLite in memory: to create and
// read the tables that steps in transactions (workflow.StepTx with *sql.Tx) write to. An
// error of f rolls the transaction back and ends the test.
//
// [Stub] steps in transactions of another type, such as pgx.Tx.
func (e *Env) Tx(f func(tx *sql.Tx) error) {
	e.Helper()
	e.NoError(e.store.Tx(e.ctx, f))
}

// Join implements store.Transactor.
func (w *wire) Join(tx store.Tx) (store.Store, error) { return w.transactor().Join(tx) }

// Recorded implements store.Transactor.
func (w *wire) Recorded(ctx context.Context, namespace string, lease store.Lease, seq int64) (bool, error) {
	if w.dead() {
		return false, errCut
	}
	return w.transactor().Recorded(ctx, namespace, lease, seq)
}

// Begin implements store.Transactor. A transaction of a type that SQLite does not have is
// one that the step's stub alone can do with: see foreign.
func (w *wire) Begin(ctx context.Context, target any) (store.Transaction, error) {
	if w.dead() {
		return nil, errCut
	}
	begun, err := w.transactor().Begin(ctx, target)
	if errors.Is(err, store.ErrUnsupported) {
		var tx *sql.Tx
		if begun, err = w.transactor().Begin(ctx, &tx); err == nil {
			w.foreign.Store(ctx, fmt.Sprintf("%T", target)[1:])
		}
	}
	if err != nil {
		return nil, err
	}
	return &wiredTx{begun, w, ctx}, nil
}

func (w *wire) transactor() store.Transactor { return w.Store.(store.Transactor) }

// unstubbed is the error of a step's own function that wants a transaction which the
// store of tests does not have; nil for any other.
func (w *wire) unstubbed(ctx context.Context, step string) error {
	want, ok := w.foreign.Load(ctx)
	if !ok {
		return nil
	}
	return workflow.Permanent(fmt.Errorf("step %q uses a %s, but tests run on SQLite; stub it with workflowtest.Stub: %w", step, want, store.ErrUnsupported))
}

// wiredTx is a transaction behind the wire: its commit is a call at which the worker may
// die.
type wiredTx struct {
	store.Transaction
	wire *wire
	step context.Context
}

// Commit implements store.Transaction.
func (t *wiredTx) Commit(ctx context.Context, namespace string, c store.Commit) (res store.CommitResult, err error) {
	err = t.wire.call("transaction: "+describe([]store.Commit{c}), func() (err error) {
		res, err = t.Transaction.Commit(ctx, namespace, c)
		return err
	})
	return res, err
}

// Rollback implements store.Transaction.
func (t *wiredTx) Rollback() {
	t.wire.foreign.Delete(t.step)
	t.Transaction.Rollback()
}
