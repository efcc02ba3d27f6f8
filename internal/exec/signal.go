package exec

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

// Signal waits for a signal and consumes it: what it carries is recorded in the
// commit that takes it out of the inbox. With a timeout of 0 or more, counted from
// the first time that the run comes here, it may end without one.
func (b *Branch) Signal(name string, timeout time.Duration) (payload []byte, timedOut bool, err error) {
	inv := b.inv
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindSignal, name)
	if err != nil {
		inv.mu.Unlock()
		return nil, false, err
	}
	if s := o.recorded; s != nil && s.Status == store.StepCompleted {
		o.endLocked()
		inv.mu.Unlock()
		return s.Output, s.Failure != nil, nil
	}
	w := &wait{wakes: store.WakeSignal}
	began := time.Now()
	switch {
	case o.recorded != nil && !o.recorded.DueAt.IsZero():
		w.storeDue = o.recorded.DueAt
		w.due = inv.local(w.storeDue)
	case o.recorded == nil && timeout >= 0:
		w.due = began.Add(timeout)
	}
	shown := o.recorded != nil
	for err == nil {
		if inv.cut && inv.findSignalLocked(name) < 0 {
			inv.flushLocked() // what was taken makes room for the rest
			inv.mu.Unlock()
			inv.lookAtInbox()
			inv.mu.Lock()
			inv.exitIfClosedLocked()
		}
		if i := inv.findSignalLocked(name); i >= 0 {
			s := inv.signals[i]
			inv.signals = append(inv.signals[:i:i], inv.signals[i+1:]...)
			if inv.taken == nil {
				inv.taken = make(map[store.SignalID]bool)
			}
			inv.taken[s.ID] = true
			inv.consumed = append(inv.consumed, s.ID)
			r := o.record(store.StepCompleted)
			r.Output, r.Took = s.Payload, time.Since(began)
			inv.appendLocked(r, time.Time{})
			payload = s.Payload
			break
		}
		if w.over() {
			r := o.record(store.StepCompleted)
			r.Failure = &store.Failure{Code: CodeTimeout, Message: "no signal came in time"}
			r.Took, r.DueAt = time.Since(began), w.storeDue
			inv.appendLocked(r, time.Time{})
			timedOut = true
			break
		}
		if !shown {
			inv.appendLocked(o.record(store.StepRunning), w.due)
			shown = true
		}
		err = b.waitLocked(w)
	}
	o.endLocked()
	inv.mu.Unlock()
	return payload, timedOut, err
}

// findSignalLocked finds the first unread signal of a name.
func (inv *Invocation) findSignalLocked(name string) int {
	for i := range inv.signals {
		if inv.signals[i].Name == name {
			return i
		}
	}
	return -1
}
