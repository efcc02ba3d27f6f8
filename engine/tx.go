package engine

import (
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// InTx returns a view of the engine that acts inside a transaction of the program's own.
// The backend's InTx makes a store.Tx of a driver's transaction:
//
//	tx, err := pool.Begin(ctx)
//	defer tx.Rollback(ctx)
//	// ... the program's own writes ...
//	run, err := ship.Start(ctx, eng.InTx(postgres.InTx(tx)), order)
//	err = tx.Commit(ctx)
//
// What is started, sent or set through the view exists once the transaction commits, and
// not otherwise. Workers learn of it then. Nothing is retried: after an error that the
// database reports, roll the transaction back. When the answer to the commit is lost, the
// program does not know whether it was applied, whatever the driver says. It then begins
// again with the same [RunID], which creates no second run, and looks in that transaction
// whether its own writes are there. To wait for a run, use the engine itself, once the
// transaction has committed.
//
// Calls on the view fail with store.ErrUnsupported if the store has no such transactions,
// and with store.ErrInvalid if the transaction is of another backend.
func (e *Engine) InTx(tx store.Tx) *Engine {
	root := e.base()
	v := &Engine{
		root: root, store: root.store, namespace: root.namespace, codec: root.codec, log: root.log,
		require: root.require, actor: root.actor, from: root.from, ctx: root.ctx, cancel: func() {},
	}
	t, ok := root.store.(store.Transactor)
	switch {
	case tx == nil:
		v.fault = store.Invalid("transaction", "it is nil")
	case !ok:
		v.fault = fmt.Errorf("the %s backend cannot join a transaction that the program has begun: %w", root.store.Features().Name, store.ErrUnsupported)
	default:
		if inner, err := t.Join(tx); err != nil {
			v.fault = err
		} else {
			v.store = inner
		}
	}
	return v
}

// base is the engine itself, of a view the one that it is of.
func (e *Engine) base() *Engine {
	if e.root != nil {
		return e.root
	}
	return e
}
