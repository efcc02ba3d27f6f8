package exec

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A step in a transaction has the right to commit for as long as it runs: another
// branch's commit could wait for a lock of the transaction, or overtake its
// number. What other branches record meanwhile goes out after it.

// holdLocked waits for the right to commit and takes it.
func (inv *Invocation) holdLocked() {
	for inv.flushing || inv.held {
		inv.durable.Wait()
		inv.exitIfClosedLocked()
	}
	inv.held = true
}

func (inv *Invocation) letGoLocked() {
	inv.held = false
	inv.durable.Broadcast()
	if len(inv.pending) > 0 && !inv.closed {
		inv.lingerLocked()
	}
}

// callInTx calls the user's function in a transaction and commits that with the
// step's record. The store may refuse for a moment; then all of it is done again,
// for nothing of it has happened.
func (o *op) callInTx(ctx context.Context, target any, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	inv := o.b.inv
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		out, again, err := o.callInTxOnce(ctx, target, fn)
		if !again {
			return out, err
		}
		inv.Logger().Warn("the transaction of a step was lost, its function is called again", "step", o.key.String(), "in", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

func (o *op) callInTxOnce(ctx context.Context, target any, fn func(context.Context) ([]byte, error)) (out []byte, again bool, err error) {
	inv := o.b.inv
	tx, err := inv.host.Begin(ctx, inv, target)
	if err != nil {
		return nil, false, err
	}
	defer tx.Rollback()
	info := Info(ctx)
	info.writes = nil // of an attempt before
	if out, err = o.call(ctx, fn); err == nil {
		err = context.Cause(ctx) // its writes go with the context
	}
	if err == nil {
		err = inv.checkSize("the output of step "+o.key.String(), out)
	}
	if err != nil {
		return nil, false, err
	}
	inv.mu.Lock()
	if inv.closed {
		inv.mu.Unlock()
		return nil, false, context.Cause(ctx) // the caller finds out why
	}
	r := o.record(store.StepCompleted)
	r.Output, r.Took = out, time.Since(o.began)
	c := store.Commit{Lease: inv.lease, Seq: inv.applied + 1, Steps: []store.StepRecord{r}, State: info.writes, Seen: inv.seen}
	inv.flushing = true
	inv.mu.Unlock()
	res, err := inv.host.CommitTx(inv, tx, c)
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.flushing = false
	inv.durable.Broadcast()
	if err != nil {
		return nil, store.Retryable(err), err
	}
	if !inv.answeredLocked(&c, res, true) {
		return nil, false, res.Err
	}
	return out, false, nil
}
