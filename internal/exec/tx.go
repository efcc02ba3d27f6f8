package exec

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A transactional step holds the right to commit while it runs: another branch's commit
// could wait for a lock of the transaction, or overtake its number. What other branches
// record meanwhile is committed after it.

// holdLocked waits for the right to commit and takes it.
func (inv *Invocation) holdLocked() {
	for inv.outbox.busy() {
		inv.changed.Wait()
		inv.exitIfClosedLocked()
	}
	inv.outbox.held = true
}

func (inv *Invocation) letGoLocked() {
	inv.outbox.held = false
	inv.changed.Broadcast()
	if len(inv.outbox.records) > 0 && !inv.ending.closed {
		inv.lingerLocked()
	}
}

// callInTx calls the user's function in a transaction and commits the transaction with
// the step's record. If the store refuses temporarily, all of it is repeated, because
// nothing has taken effect.
func (o *op) callInTx(ctx context.Context, target any, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	inv := o.b.inv
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		out, again, err := o.callInTxOnce(ctx, target, fn)
		if !again {
			return out, err
		}
		inv.Logger().Warn("a step's transaction was lost; calling its function again", "step", o.key.String(), "in", wait, "error", err)
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
	info.writes, info.streams = nil, nil // discard those of an earlier attempt
	if out, err = o.call(ctx, fn); err == nil {
		err = context.Cause(ctx) // its writes are lost with the context
	}
	if err == nil {
		err = inv.checkSize("the output of step "+o.key.String(), out)
	}
	if err != nil {
		return nil, false, err
	}
	var streams []store.StreamWrite
	inv.locked(func() { streams = info.stagedLocked() })
	return o.commitTx(ctx, tx, info.writes, streams, out)
}

// commitTx commits a transaction with the step's record. Again means that nothing has
// taken effect, and all of it may be repeated.
func (o *op) commitTx(ctx context.Context, tx store.Transaction, writes []store.StateWrite, streams []store.StreamWrite, out []byte) (_ []byte, again bool, err error) {
	inv := o.b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.ending.closed {
		return nil, false, context.Cause(ctx) // the caller finds the reason
	}
	r := o.record(store.StepCompleted)
	r.Output, r.Took = out, time.Since(o.began)
	c := store.Commit{Lease: inv.lease, Seq: inv.outbox.next(), Steps: []store.StepRecord{r}, State: writes, Streams: streams, Seen: inv.inbox.seen}
	inv.keep(&c)
	inv.outbox.sending = true
	var res store.CommitResult
	inv.unlocked(func() { res, err = inv.host.CommitTx(inv, tx, c) })
	inv.outbox.sending = false
	inv.changed.Broadcast()
	if err != nil {
		return nil, store.Retryable(err), err
	}
	if !inv.answeredLocked(&c, res, true) {
		return nil, false, res.Err
	}
	return out, false, nil
}
