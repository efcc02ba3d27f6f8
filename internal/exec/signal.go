package exec

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	_, payload, timedOut, err = o.awaitSignalLocked([]string{name}, timeout, func(_ int, payload []byte, timedOut bool) store.StepRecord {
		r := o.since(store.StepCompleted)
		r.Output = payload
		if timedOut {
			r.Failure = &store.Failure{Code: CodeTimeout, Message: "no signal came in time"}
		}
		return r
	})
	o.endLocked()
	inv.mu.Unlock()
	return payload, timedOut, err
}

// awaitSignalLocked waits until a signal of one of the names is there, the first in
// their order, or the time is up, and records what came of it. Signals go first. With an
// empty name a place of the list is no signal.
func (o *op) awaitSignalLocked(names []string, timeout time.Duration, result func(which int, payload []byte, timedOut bool) store.StepRecord) (which int, payload []byte, timedOut bool, err error) {
	inv := o.b.inv
	w := &wait{wakes: store.WakeSignal}
	switch {
	case o.recorded != nil && !o.recorded.DueAt.IsZero():
		w.storeDue = o.recorded.DueAt
		w.due = inv.local(w.storeDue)
	case o.recorded == nil && timeout >= 0:
		w.due = o.began.Add(timeout)
	}
	shown := o.recorded != nil
	for {
		which, at := inv.findSignalLocked(names)
		if at >= 0 && !inv.hasRoomLocked(len(inv.signals[at].Payload)) {
			inv.flushLocked()
			continue // it may stand elsewhere now
		}
		if at >= 0 {
			s := inv.signals[at]
			inv.signals = append(inv.signals[:at:at], inv.signals[at+1:]...)
			if inv.taken == nil {
				inv.taken = make(map[store.SignalID]bool)
			}
			inv.taken[s.ID] = true
			inv.consumed = append(inv.consumed, s.ID)
			inv.appendLocked(result(which, s.Payload, false), time.Time{})
			return which, s.Payload, false, nil
		}
		if w.over() {
			r := result(-1, nil, true)
			r.DueAt = w.storeDue
			inv.appendLocked(r, time.Time{})
			return -1, nil, true, nil
		}
		if !shown {
			inv.appendLocked(o.since(store.StepRunning), w.due)
			shown = true
		}
		if err := o.b.waitLocked(w); err != nil {
			return -1, nil, false, err
		}
	}
}

// findSignalLocked finds the first unread signal of the first of the names that has
// one. It may give up the lock meanwhile.
func (inv *Invocation) findSignalLocked(names []string) (which, at int) {
	for which, name := range names {
		is := func(s store.Signal) bool { return s.Name == name }
		at := slices.IndexFunc(inv.signals, is)
		if at < 0 && inv.cut && name != "" {
			inv.seekSignalLocked(name)
			at = slices.IndexFunc(inv.signals, is)
		}
		if at >= 0 {
			return which, at
		}
	}
	return -1, -1
}

// SelectCase is one thing that a [Branch.Select] waits for: a signal, or a time.
type SelectCase struct {
	Signal string // empty: a timer
	After  time.Duration
}

// Select waits for the first of several cases and records which it was: the head of the
// record is the number of the case and the signal's name, and its payload follows.
func (b *Branch) Select(name string, cases []SelectCase) (chosen int, payload []byte, err error) {
	names, first := make([]string, len(cases)), -1
	for i, c := range cases {
		if names[i] = c.Signal; c.Signal == "" && (first < 0 || c.After < cases[first].After) {
			first = i // the timer that is due first; later ones never are
		}
	}
	timeout := time.Duration(-1)
	if first >= 0 {
		timeout = max(cases[first].After, 0)
	}
	inv := b.inv
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindSignal, name)
	if err != nil {
		inv.mu.Unlock()
		return -1, nil, err
	}
	if s := o.recorded; s != nil && s.Status == store.StepCompleted {
		head, payload, ok := bytes.Cut(s.Output, []byte("\n"))
		number, signal, _ := strings.Cut(string(head), " ")
		chosen, err := strconv.Atoi(number)
		if !ok || err != nil || chosen < 0 || chosen >= len(cases) || names[chosen] != signal {
			inv.failLocked(nondeterministic(inv, "select %q was recorded with case %q, which the code does not have", o.key, head))
			inv.exitIfClosedLocked()
		}
		o.endLocked()
		inv.mu.Unlock()
		return chosen, payload, nil
	}
	chosen, payload, _, err = o.awaitSignalLocked(names, timeout, func(which int, payload []byte, timedOut bool) store.StepRecord {
		head := fmt.Sprintf("%d\n", first)
		if !timedOut {
			head = fmt.Sprintf("%d %s\n", which, names[which])
		}
		r := o.since(store.StepCompleted)
		r.Output = append([]byte(head), payload...)
		return r
	})
	if err == nil && chosen < 0 {
		chosen = first
	}
	o.endLocked()
	inv.mu.Unlock()
	return chosen, payload, err
}
