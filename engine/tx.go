package engine

import (
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// InTx returns a view of the engine that acts inside a transaction of the
// program's own, which the backend's InTx makes of a driver's:
//
//	tx, err := pool.Begin(ctx)
//	defer tx.Rollback(ctx)
//	// ... the program's own writes ...
//	run, err := ship.Start(ctx, eng.InTx(postgres.InTx(tx)), order)
//	err = tx.Commit(ctx)
//
// What is started, sent or set exists when the transaction commits, and not
// otherwise; workers learn of it then. Nothing is repeated: an error that the
// database reports leaves the transaction to be rolled back. When the answer to the commit
// is lost, the program does not know whether it was applied, whatever the driver says: it
// begins again with the same [RunID], which makes no second run, and finds out in that transaction
// whether its own writes are there. Waiting for a run is
// done outside of the transaction, once it has committed.
//
// Calls on the view of a store that has no such transactions fail with
// store.ErrUnsupported, those with the transaction of another backend with
// store.ErrInvalid.
func (e *Engine) InTx(tx store.Tx) *Engine {
	root := e.base()
	v := &Engine{
		root: root, store: root.store, namespace: root.namespace, codec: root.codec, log: root.log,
		trigger: root.trigger, actor: root.actor, ctx: root.ctx, cancel: func() {},
	}
	t, ok := root.store.(store.Transactor)
	switch {
	case tx == nil:
		v.fault = store.Invalid("transaction", "it is nil")
	case !ok:
		v.fault = fmt.Errorf("the %s backend cannot act in a transaction of the program's own: %w", root.store.Features().Name, store.ErrUnsupported)
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
