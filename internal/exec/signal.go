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
	w := &wait{signal: true}
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

func (inv *Invocation) waitsForSignalLocked() bool {
	for w := range inv.waits {
		if w.signal {
			return true
		}
	}
	return false
}

// News tells the invocation that its run has had so many events. What came is
// fetched when something waits for it.
func (inv *Invocation) News(events int64) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if events > inv.seen && !inv.closed && inv.waitsForSignalLocked() {
		go inv.lookAtInbox()
	}
}

// lookAtInbox reads the run's inbox and lets those go on who wait for what it
// brings.
func (inv *Invocation) lookAtInbox() {
	box, ok := inv.host.Inbox(inv)
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if !ok || inv.closed || box.Events < inv.seen { // too late, or overtaken by a later look
		return
	}
	inv.seen = box.Events
	inv.cut = len(box.Signals) >= store.MaxPage
	inv.signals = inv.signals[:0:0]
	for _, s := range box.Signals {
		if !inv.taken[s.ID] {
			inv.signals = append(inv.signals, s)
		}
	}
	for w := range inv.waits {
		if w.signal {
			w.news = true
			select {
			case w.interrupt <- struct{}{}:
			default:
			}
		}
	}
}
