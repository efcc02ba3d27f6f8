package exec

import (
	"maps"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/store"
)

// An invocation knows the run's flow state as it read it last, with its own writes
// applied: those that wait for a commit, and those in one. The state is read while a
// goroutine waits for it.

// CodeCoordination is the failure code of a wait ended by coord.error.
const CodeCoordination = "coordination"

// View is a run's flow state at one moment, by key.
type View = map[string]store.StateEntry

// StateWait is what a wait for flow state waits for, and how long.
type StateWait struct {
	Holds   func(View) (bool, error)
	Timeout time.Duration // negative: none
	Poll    time.Duration // how often to check without a hint
}

func (inv *Invocation) checkWrite(w *store.StateWrite) error {
	if err := store.ValidateName("state key", w.Key); err != nil {
		return err
	}
	return inv.checkSize("state "+strconv.Quote(w.Key), w.Value)
}

// SetState writes a key of the run's flow state once: the commit that records the
// operation contains the write.
func (b *Branch) SetState(w store.StateWrite) error {
	inv := b.inv
	if err := inv.checkWrite(&w); err != nil {
		return err
	}
	name := "set " + w.Key
	if w.Delete {
		name = "delete " + w.Key
	}
	_, err := durable(b, store.KindState, name, isDone, func(o *op) (none, error) {
		inv.makeRoomLocked(len(w.Value))
		inv.writeLocked(w)
		o.finishLocked(o.record(store.StepCompleted))
		return none{}, nil
	})
	return err
}

// State reads the present value of a key of the run's flow state, and records what it
// read. If take cannot decode the value, a failure is recorded, and the value is read
// again when that record is forgotten.
func (b *Branch) State(key string, take func(value []byte) error) (ok bool, err error) {
	if err := store.ValidateName("state key", key); err != nil {
		return false, err
	}
	replay := func(o *op) (bool, error) {
		switch s := o.recorded; {
		case s.Status == store.StepFailed:
			return true, recordedBad(s).err()
		case s.Output == nil:
			return false, nil
		default:
			return true, b.inv.Check(take(s.Output))
		}
	}
	return durable(b, store.KindState, "get "+key, replay, func(o *op) (ok bool, err error) {
		value, ok, err := o.readStateLocked(key)
		if err != nil {
			return false, err
		}
		return ok, o.recordStateLocked(value, ok, take)
	})
}

// readStateLocked reads a key of the run's flow state. After an error nothing of the
// operation is recorded.
func (o *op) readStateLocked(key string) (value []byte, ok bool, err error) {
	inv := o.b.inv
	if w, own := inv.outbox.unsent(key); own {
		return w.Value, !w.Delete, nil
	}
	var entries []store.StateEntry
	inv.unlocked(func() { entries, err = inv.host.State(inv.ctx, inv, key) })
	inv.exitIfClosedLocked()
	switch {
	case err != nil && inv.interruption.any():
		o.forgetLocked()
		return nil, false, inv.interruption.err()
	case err != nil:
		inv.unlocked(inv.Lose) // the store will never answer
		exit()
	case len(entries) == 0:
		return nil, false, nil
	}
	return entries[0].Value, true, nil
}

// recordStateLocked records what was read, or that take could not decode it.
func (o *op) recordStateLocked(value []byte, ok bool, take func(value []byte) error) (err error) {
	inv := o.b.inv
	if ok && value == nil {
		value = []byte{} // in the record, nil stands for a key that does not exist
	}
	r := o.record(store.StepCompleted)
	r.Output = value
	if ok {
		inv.unlocked(func() {
			if err = take(value); unopened(err) {
				_ = inv.Check(err) // ends the goroutine
			}
		})
		inv.exitIfClosedLocked()
	}
	if err != nil {
		bad := newBadPayload(err)
		r, err = bad.record(o), bad.err()
	}
	inv.makeRoomLocked(r.Size())
	o.finishLocked(r)
	return err
}

// WaitState waits until a predicate on the run's flow state holds, and records that. If
// the predicate fails, it records that and returns a [*FailedStep].
func (b *Branch) WaitState(name string, sw StateWait) (timedOut bool, err error) {
	replay := func(o *op) (timedOut bool, err error) {
		s := o.recorded
		if s.Status == store.StepFailed {
			return false, &FailedStep{Key: o.key, Attempts: s.Attempt, Failure: s.Failure}
		}
		return s.Failure != nil, nil
	}
	return durable(b, store.KindState, name, replay, func(o *op) (bool, error) {
		b.inv.inbox.need()
		timedOut, err := o.awaitStateLocked(sw)
		b.inv.inbox.release()
		return timedOut, err
	})
}

// awaitStateLocked waits until the predicate holds or fails, or the time is up, and
// records the outcome.
func (o *op) awaitStateLocked(sw StateWait) (timedOut bool, err error) {
	inv := o.b.inv
	w := o.newWait(store.WakeState, sw.Timeout)
	var stop func()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	inv.lookLocked()
	for shown, last := o.recorded != nil, false; ; {
		changes, view := inv.inbox.changes, maps.Clone(inv.inbox.state)
		var holds bool
		inv.unlocked(func() { holds, err = o.evaluate(sw.Holds, view) })
		inv.exitIfClosedLocked()
		switch {
		case err != nil:
			r := o.since(store.StepFailed)
			r.Failure = Fail(err)
			o.finishLocked(r)
			return false, &FailedStep{Key: o.key, Attempts: o.attempt, Failure: r.Failure}
		case holds || last:
			o.recordWaitLocked(w, !holds)
			return !holds, nil
		case inv.inbox.changes != changes:
			continue
		}
		if !w.over() {
			if !shown {
				inv.outbox.add(o.since(store.StepRunning), w.due)
				shown = true
			}
			if stop == nil {
				stop = inv.pollInbox(sw.Poll)
			}
			if err := o.b.waitLocked(w); err != nil {
				return false, err
			}
		}
		if w.over() { // a change in time counts, even if no hint of it arrived
			inv.lookLocked()
			last = true
		}
	}
}

// recordWaitLocked records that a wait for flow state has ended.
func (o *op) recordWaitLocked(w *wait, timedOut bool) {
	r := o.since(store.StepCompleted)
	if timedOut {
		r.Failure = &store.Failure{Code: CodeTimeout, Message: "the condition was not met in time"}
	}
	r.DueAt = w.storeDue
	o.finishLocked(r)
}

// evaluate calls a predicate of the workflow's code. A panic fails the run.
func (o *op) evaluate(holds func(View) (bool, error), view View) (bool, error) {
	defer func() {
		if v := recover(); v != nil {
			o.b.inv.fail(panicFailure("the predicate of wait "+strconv.Quote(o.key.String()), v, debug.Stack()))
		}
	}()
	return holds(view)
}
