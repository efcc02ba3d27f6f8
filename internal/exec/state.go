package exec

import (
	"context"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/store"
)

// What an invocation knows of the run's flow state is what it read last, with its
// own writes on top of it: those that wait for a commit, and those that are in one. It is
// read while somebody waits for it.

// CodeCoordination is the failure code of a wait that coord.error has ended.
const CodeCoordination = "coordination"

// View is a run's flow state at one moment, by key.
type View = map[string]store.StateEntry

// StateWait says for what a wait for flow state waits, and how long.
type StateWait struct {
	Holds   func(View) (bool, error)
	Timeout time.Duration // negative: none
	Poll    time.Duration // how often to look though nothing was heard
}

func applyWrite(state View, w *store.StateWrite) {
	if w.Delete {
		delete(state, w.Key)
		return
	}
	state[w.Key] = store.StateEntry{Key: w.Key, Value: w.Value}
}

// putWrite adds a write to a list, which holds one for a key.
func putWrite(list []store.StateWrite, w store.StateWrite) []store.StateWrite {
	list = slices.DeleteFunc(list, func(o store.StateWrite) bool { return o.Key == w.Key })
	return append(list, w)
}

// learnLocked takes in what the run itself has written.
func (inv *Invocation) learnLocked(writes ...store.StateWrite) {
	if inv.state != nil {
		for i := range writes {
			applyWrite(inv.state, &writes[i])
		}
	}
	inv.stirLocked(store.WakeState)
}

// needStateLocked says that the calling goroutine needs the state, until it calls
// doneStateLocked.
func (inv *Invocation) needStateLocked() { inv.readers++ }

func (inv *Invocation) doneStateLocked() {
	if inv.readers--; inv.readers == 0 {
		inv.state = nil
	}
}

// stirLocked lets those look again who wait for such an event.
func (inv *Invocation) stirLocked(by store.WakeOn) {
	inv.stirred++
	for w := range inv.waits {
		if w.wakes&by != 0 {
			w.news = true
			w.wake()
		}
	}
	for w := range inv.watchers {
		w.wake()
	}
}

// writeLocked adds a write to what the next commit carries.
func (inv *Invocation) writeLocked(w store.StateWrite) {
	inv.writes = putWrite(inv.writes, w)
	inv.unsent += len(w.Value)
	inv.appended++
	inv.learnLocked(w)
}

// unsentLocked returns the latest write of a key by the run itself that may not be in
// the store yet.
func (inv *Invocation) unsentLocked(key string) (w store.StateWrite, ok bool) {
	for _, list := range [][]store.StateWrite{inv.writes, inv.sent} {
		for _, w := range list {
			if w.Key == key {
				return w, true
			}
		}
	}
	return w, false
}

// wroteLocked takes in that a commit's writes were applied. Its own events count
// as seen when everything before them was.
func (inv *Invocation) wroteLocked(c *store.Commit, res store.CommitResult, inTx bool) {
	n := int64(len(c.State))
	if n == 0 {
		return
	}
	overtaken := res.Events != 0 && res.Events <= inv.seen // by a look that was later
	if inTx {
		if !overtaken {
			inv.learnLocked(c.State...)
		}
	} else {
		inv.sent = nil
		if !res.Repeated && inv.seen <= res.Events-n {
			inv.unsure = false // what was read meanwhile was of before
		}
	}
	switch {
	case res.Events == 0: // when it was applied is not known
		inv.unsure = true
	case res.Events > inv.seen && (c.Seen+n == res.Events || !res.Repeated && res.Events-n <= inv.seen):
		inv.seen = res.Events
	}
	if inv.unsure && inv.waitsForEventLocked() {
		go inv.lookAtInbox()
	}
}

func (inv *Invocation) checkWrite(w *store.StateWrite) error {
	if err := store.ValidateName("state key", w.Key); err != nil {
		return err
	}
	return inv.checkSize("state "+strconv.Quote(w.Key), w.Value)
}

// SetState writes a key of the run's flow state, once: the write is part of the
// commit that records it.
func (b *Branch) SetState(w store.StateWrite) error {
	inv := b.inv
	if err := inv.checkWrite(&w); err != nil {
		return err
	}
	name := "set " + w.Key
	if w.Delete {
		name = "delete " + w.Key
	}
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindState, name)
	if err != nil {
		inv.mu.Unlock()
		return err
	}
	if o.recorded == nil {
		inv.makeRoomLocked(len(w.Value))
		inv.writeLocked(w)
		inv.appendLocked(o.record(store.StepCompleted), time.Time{})
		inv.lingerLocked()
	}
	o.endLocked()
	inv.mu.Unlock()
	return nil
}

// State reads a key of the run's flow state as it is now, and records what it read. That
// take could not decode the value is recorded as a failure, and the value read again when
// that is forgotten.
func (b *Branch) State(key string, take func(value []byte) error) (ok bool, err error) {
	inv := b.inv
	if err := store.ValidateName("state key", key); err != nil {
		return false, err
	}
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindState, "get "+key)
	if err != nil {
		inv.mu.Unlock()
		return false, err
	}
	if s := o.recorded; s != nil {
		o.endLocked()
		inv.mu.Unlock()
		switch {
		case s.Status == store.StepFailed:
			return true, recordedBad(s).err()
		case s.Output == nil:
			return false, nil
		}
		return true, inv.Check(take(s.Output))
	}
	var value []byte
	if w, own := inv.unsentLocked(key); own {
		value, ok = w.Value, !w.Delete
	} else {
		inv.mu.Unlock()
		entries, err := inv.host.State(inv.ctx, inv, key)
		inv.mu.Lock()
		inv.exitIfClosedLocked()
		switch {
		case err != nil && (inv.canceling || inv.expired):
			err = inv.interruptionLocked()
			b.forgetLocked(o)
			inv.mu.Unlock()
			return false, err
		case err != nil:
			inv.mu.Unlock()
			inv.Lose() // the store will never answer
			exit()
		case len(entries) > 0:
			value, ok = entries[0].Value, true
		}
	}
	if ok && value == nil {
		value = []byte{} // in the record, nil is a key that does not exist
	}
	r := o.record(store.StepCompleted)
	r.Output = value
	if ok {
		inv.mu.Unlock()
		if err = take(value); unopened(err) {
			_ = inv.Check(err) // ends the goroutine
		}
		inv.mu.Lock()
		inv.exitIfClosedLocked()
	}
	if err != nil {
		bad := newBadPayload(err)
		r, err = bad.record(o), bad.err()
	}
	inv.makeRoomLocked(r.Size())
	inv.appendLocked(r, time.Time{})
	inv.lingerLocked()
	o.endLocked()
	inv.mu.Unlock()
	return ok, err
}

// forgetLocked ends an operation of which nothing is recorded.
func (b *Branch) forgetLocked(o *op) {
	b.next--
	b.uses[o.key.Name]--
	o.endLocked()
}

// WaitState waits until a predicate on the run's flow state holds, and records
// that it did; or that it failed, which gives a [*FailedStep].
func (b *Branch) WaitState(name string, sw StateWait) (timedOut bool, err error) {
	inv := b.inv
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindState, name)
	if err != nil {
		inv.mu.Unlock()
		return false, err
	}
	if s := o.recorded; s != nil && s.Status.Final() {
		o.endLocked()
		inv.mu.Unlock()
		if s.Status == store.StepFailed {
			return false, &FailedStep{Key: o.key, Attempts: s.Attempt, Failure: s.Failure}
		}
		return s.Failure != nil, nil
	}
	w := &wait{wakes: store.WakeState}
	switch {
	case o.recorded != nil && !o.recorded.DueAt.IsZero():
		w.storeDue = o.recorded.DueAt
		w.due = inv.local(w.storeDue)
	case o.recorded == nil && sw.Timeout >= 0:
		w.due = o.began.Add(sw.Timeout)
	}
	var stop func()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	shown, last := o.recorded != nil, false
	inv.needStateLocked()
	inv.lookLocked()
	for err == nil {
		changes, view := inv.stirred, maps.Clone(inv.state)
		inv.mu.Unlock()
		holds, failed := o.evaluate(sw.Holds, view)
		inv.mu.Lock()
		inv.exitIfClosedLocked()
		if failed != nil {
			r := o.since(store.StepFailed)
			r.Failure = Fail(failed)
			inv.appendLocked(r, time.Time{})
			inv.lingerLocked()
			err = &FailedStep{Key: o.key, Attempts: o.attempt, Failure: r.Failure}
			break
		}
		if holds || last {
			r := o.since(store.StepCompleted)
			if timedOut = !holds; timedOut {
				r.Failure = &store.Failure{Code: CodeTimeout, Message: "what was waited for did not come in time"}
			}
			r.DueAt = w.storeDue
			inv.appendLocked(r, time.Time{})
			inv.lingerLocked()
			break
		}
		if inv.stirred != changes {
			continue
		}
		if !w.over() {
			if !shown {
				inv.appendLocked(o.since(store.StepRunning), w.due)
				shown = true
			}
			if stop == nil {
				stop = inv.pollInbox(sw.Poll)
			}
			if err = b.waitLocked(w); err != nil {
				break
			}
		}
		if w.over() { // what has come in time counts, also if nothing was heard of it
			inv.lookLocked()
			last = true
		}
	}
	inv.doneStateLocked()
	o.endLocked()
	inv.mu.Unlock()
	return timedOut, err
}

// lookLocked looks at the inbox now.
func (inv *Invocation) lookLocked() {
	inv.mu.Unlock()
	inv.lookAtInbox()
	inv.mu.Lock()
	inv.exitIfClosedLocked()
}

// pollInbox looks at the inbox again and again, until stop is called or the run
// leaves memory.
func (inv *Invocation) pollInbox(every time.Duration) (stop func()) {
	over := make(chan struct{})
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-inv.done:
				return
			case <-ticker.C:
				inv.mu.Lock()
				just := time.Since(inv.looked) < every/2 // for another one that waits
				inv.mu.Unlock()
				if !just {
					inv.lookAtInbox()
				}
			}
		}
	}()
	return func() { close(over) }
}

// evaluate calls a predicate of the workflow's code. A panic fails the run.
func (o *op) evaluate(holds func(View) (bool, error), view View) (bool, error) {
	defer func() {
		if v := recover(); v != nil {
			inv := o.b.inv
			inv.mu.Lock()
			inv.failLocked(panicFailure("the predicate of wait "+strconv.Quote(o.key.String()), v, debug.Stack()))
			inv.mu.Unlock()
			exit()
		}
	}()
	return holds(view)
}

// Codec is that of the workflow's payloads.
func (i *StepInfo) Codec() Codec { return i.Inv.def.Codec }

// refuseLocked says why a step may not touch the run's state any more.
func (i *StepInfo) refuseLocked(ctx context.Context) error {
	switch inv := i.Inv; {
	case inv.closed && inv.reason == byLoss:
		return ErrLeaseLost
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case inv.closed || inv.finished:
		return errEnded
	case i.over:
		return store.Invalid("step "+i.Key.String(), "it has ended; state is written while its function runs")
	}
	return nil
}

// SetState writes a key of the run's flow state and returns once that is durable.
// In a step's transaction the write is part of it.
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
	for !inv.hasRoomLocked(len(w.Value)) {
		if err := i.settleLocked(ctx); err != nil {
			return err
		}
	}
	inv.writeLocked(w)
	return i.settleLocked(ctx)
}

// settleLocked waits until what is recorded so far is durable.
func (i *StepInfo) settleLocked(ctx context.Context) error {
	inv := i.Inv
	stop := context.AfterFunc(ctx, func() {
		inv.mu.Lock()
		defer inv.mu.Unlock()
		inv.durable.Broadcast()
	})
	defer stop()
	sending := false
	for target := inv.appended; inv.flushed < target; {
		if err := i.refuseLocked(ctx); err != nil {
			return err
		}
		if !sending && !inv.flushing && !inv.held {
			sending = true
			go func() { // on its own, for the store may be out of reach for longer than ctx lasts
				inv.mu.Lock()
				defer inv.mu.Unlock()
				if !inv.flushing && !inv.held && !inv.closed && !inv.finished {
					inv.commitLocked()
				}
				sending = false
				inv.durable.Broadcast()
			}()
		}
		inv.durable.Wait()
	}
	return nil
}

// State reads a key of the run's flow state as it is now.
func (i *StepInfo) State(ctx context.Context, key string) (e store.StateEntry, ok bool, err error) {
	if err := store.ValidateName("state key", key); err != nil {
		return e, false, err
	}
	inv := i.Inv
	inv.mu.Lock()
	if err := i.refuseLocked(ctx); err != nil {
		inv.mu.Unlock()
		return e, false, err
	}
	for _, w := range i.writes {
		if w.Key == key { // of its own transaction
			inv.mu.Unlock()
			return store.StateEntry{Key: key, Value: w.Value}, !w.Delete, nil
		}
	}
	if i.inTx { // a store with one connection could not read beside the transaction
		inv.mu.Unlock()
		return e, false, store.Invalid("state "+strconv.Quote(key), "a step in a transaction reads what it has itself written only; read the state before the step")
	}
	if _, own := inv.unsentLocked(key); own {
		if err := i.settleLocked(ctx); err != nil {
			inv.mu.Unlock()
			return e, false, err
		}
	}
	inv.mu.Unlock()
	entries, err := inv.host.State(ctx, inv, key)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil || len(entries) == 0 {
		return e, false, err
	}
	return entries[0], true, nil
}

// CompareState makes a write that compares versions, at once.
func (i *StepInfo) CompareState(ctx context.Context, w store.StateWrite) (version int64, err error) {
	inv := i.Inv
	if err := inv.checkWrite(&w); err != nil {
		return 0, err
	}
	inv.mu.Lock()
	err = i.refuseLocked(ctx)
	switch {
	case err != nil:
	case i.inTx:
		err = store.Invalid("state "+strconv.Quote(w.Key), "a step in a transaction cannot compare versions of its run's state; do it in a step of its own")
	default:
		err = i.settleLocked(ctx)
	}
	inv.mu.Unlock()
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
	if e.Version > inv.seen {
		if e.Version == inv.seen+1 {
			inv.seen = e.Version
		} else {
			inv.unsure = true
		}
		inv.learnLocked(w)
	}
	if inv.unsure && inv.waitsForEventLocked() {
		go inv.lookAtInbox()
	}
	return e.Version, nil
}

// WaitState waits in memory until a predicate on the run's flow state holds, or
// ctx ends.
func (i *StepInfo) WaitState(ctx context.Context, sw StateWait) (timedOut bool, err error) {
	inv := i.Inv
	if i.inTx {
		return false, store.Invalid("step "+i.Key.String(), "it is in a transaction, which must not wait; wait before it or in another step")
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
	inv.mu.Lock()
	if inv.watchers == nil {
		inv.watchers = make(map[*wait]struct{})
	}
	inv.watchers[w] = struct{}{}
	inv.needStateLocked()
	inv.mu.Unlock()
	defer func() {
		inv.mu.Lock()
		defer inv.mu.Unlock()
		delete(inv.watchers, w)
		inv.doneStateLocked()
	}()
	look, last := true, sw.Timeout == 0
	for {
		if look {
			inv.lookAtInbox()
		}
		inv.mu.Lock()
		err := i.refuseLocked(ctx)
		view := maps.Clone(inv.state)
		inv.mu.Unlock()
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
		case <-inv.done:
		case <-ctx.Done():
		}
	}
}
