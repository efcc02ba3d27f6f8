package exec

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Codec returns the codec of the workflow's payloads.
func (i *StepInfo) Codec() Codec { return i.Inv.def.Codec }

// refuseLocked returns why a step may no longer use the run's state.
func (i *StepInfo) refuseLocked(ctx context.Context) error {
	switch inv := i.Inv; {
	case inv.ending.lost():
		return ErrLeaseLost
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case inv.ending.over():
		return errEnded
	case i.over:
		return store.Invalid("step "+i.Key.String(), "it has ended; write state while its function runs")
	}
	return nil
}

// SetState writes a key of the run's flow state and returns when the write is durable. In
// a step's transaction the write is part of the transaction.
func (i *StepInfo) SetState(ctx context.Context, w store.StateWrite) error {
	inv := i.Inv
	if err := inv.checkWrite(&w); err != nil {
		return err
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if err := i.refuseLocked(ctx); err != nil {
		return err
	}
	if i.inTx {
		i.writes = putWrite(i.writes, w)
		return nil
	}
	for !inv.outbox.hasRoom(len(w.Value)) {
		if err := i.settleLocked(ctx); err != nil {
			return err
		}
	}
	inv.writeLocked(w)
	return i.settleLocked(ctx)
}

// settleLocked waits until everything recorded so far is durable.
func (i *StepInfo) settleLocked(ctx context.Context) error {
	inv := i.Inv
	stop := context.AfterFunc(ctx, func() {
		inv.mu.Lock()
		defer inv.mu.Unlock()
		inv.changed.Broadcast()
	})
	defer stop()
	sending := false
	for target := inv.outbox.appended; inv.outbox.durable < target; {
		if err := i.refuseLocked(ctx); err != nil {
			return err
		}
		if !sending && !inv.outbox.busy() {
			sending = true
			go func() { // on its own, because the store may be unreachable for longer than ctx lasts
				inv.mu.Lock()
				defer inv.mu.Unlock()
				if !inv.outbox.busy() && !inv.ending.over() {
					inv.commitLocked()
				}
				sending = false
				inv.changed.Broadcast()
			}()
		}
		inv.changed.Wait()
	}
	return nil
}

// State reads the present value of a key of the run's flow state.
func (i *StepInfo) State(ctx context.Context, key string) (e store.StateEntry, ok bool, err error) {
	if err := store.ValidateName("state key", key); err != nil {
		return e, false, err
	}
	inv := i.Inv
	own := false
	inv.locked(func() { e, ok, own, err = i.ownStateLocked(ctx, key) })
	if own || err != nil {
		return e, ok, err
	}
	entries, err := inv.host.State(ctx, inv, key)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil || len(entries) == 0 {
		return e, false, err
	}
	return entries[0], true, nil
}

// ownStateLocked reads a key that the step has written in its own transaction. Own is
// false if the store has the value; then the store also has the run's own writes.
func (i *StepInfo) ownStateLocked(ctx context.Context, key string) (e store.StateEntry, ok, own bool, err error) {
	if err := i.refuseLocked(ctx); err != nil {
		return e, false, false, err
	}
	for _, w := range i.writes {
		if w.Key == key {
			return store.StateEntry{Key: key, Value: w.Value}, !w.Delete, true, nil
		}
	}
	if i.inTx { // a store with one connection cannot read outside the transaction
		return e, false, false, store.Invalid("state "+strconv.Quote(key), "a transactional step can read only the state that it has written; read the state before the step")
	}
	if _, unsent := i.Inv.outbox.unsent(key); unsent {
		err = i.settleLocked(ctx)
	}
	return e, false, false, err
}

// CompareState applies a write that compares versions, at once.
func (i *StepInfo) CompareState(ctx context.Context, w store.StateWrite) (version int64, err error) {
	inv := i.Inv
	if err := inv.checkWrite(&w); err != nil {
		return 0, err
	}
	inv.locked(func() { err = i.settleForCompareLocked(ctx, &w) })
	if err != nil {
		return 0, err
	}
	if !inv.host.Ready(inv) {
		inv.Lose()
		return 0, ErrLeaseLost
	}
	e, err := inv.host.SetState(ctx, inv, w)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, err
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.inbox.compared(e.Version) {
		inv.learnLocked(w)
	}
	inv.lookIfUnsureLocked()
	return e.Version, nil
}

// settleForCompareLocked makes the run's writes durable before a write that compares
// versions, unless the step may not make such a write.
func (i *StepInfo) settleForCompareLocked(ctx context.Context, w *store.StateWrite) error {
	if err := i.refuseLocked(ctx); err != nil {
		return err
	}
	if i.inTx {
		return store.Invalid("state "+strconv.Quote(w.Key), "a transactional step cannot compare versions of its run's state; use another step for that")
	}
	return i.settleLocked(ctx)
}

// WaitState waits in memory until a predicate on the run's flow state holds, or ctx ends.
func (i *StepInfo) WaitState(ctx context.Context, sw StateWait) (timedOut bool, err error) {
	inv := i.Inv
	if i.inTx {
		return false, store.Invalid("step "+i.Key.String(), "a transactional step cannot wait; wait before it or in another step")
	}
	var timeIsUp <-chan time.Time
	if sw.Timeout >= 0 {
		timer := time.NewTimer(max(sw.Timeout, 1))
		defer timer.Stop()
		timeIsUp = timer.C
	}
	poll := time.NewTicker(sw.Poll)
	defer poll.Stop()
	w := &wait{interrupt: make(chan struct{}, 1)}
	inv.locked(func() {
		inv.presence.watch(w)
		inv.inbox.need()
	})
	defer inv.locked(func() {
		delete(inv.presence.watchers, w)
		inv.inbox.release()
	})
	look, last := true, sw.Timeout == 0
	for {
		if look {
			inv.lookAtInbox()
		}
		var view View
		inv.locked(func() {
			err = i.refuseLocked(ctx)
			view = maps.Clone(inv.inbox.state)
		})
		if err != nil {
			return false, err
		}
		if holds, err := sw.Holds(view); holds || err != nil || last {
			return !holds && err == nil, err
		}
		look = true
		select {
		case <-timeIsUp:
			last = true
		case <-poll.C:
		case <-w.interrupt:
			look = false
		case <-inv.ending.done:
		case <-ctx.Done():
		}
	}
}
