package exec

import (
	"bytes"
	"errors"
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
//
// A payload that take cannot decode is not consumed. That is recorded as a failure, so that
// the code goes on without the signal, also when it is replayed; when the record is
// forgotten, the signal is received again.
func (b *Branch) Signal(name string, timeout time.Duration, take func(payload []byte) error) (timedOut bool, err error) {
	inv := b.inv
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindSignal, name)
	if err != nil {
		inv.mu.Unlock()
		return false, err
	}
	if s := o.recorded; s != nil && s.Status.Final() {
		o.endLocked()
		inv.mu.Unlock()
		switch {
		case s.Status == store.StepFailed:
			return false, recordedBad(s).err()
		case s.Failure != nil:
			return true, nil
		}
		return false, inv.Check(take(s.Output))
	}
	_, timedOut, err = o.awaitSignalLocked([]string{name}, timeout, func(_ int, payload []byte) error { return take(payload) },
		func(_ int, payload []byte, timedOut bool) store.StepRecord {
			r := o.since(store.StepCompleted)
			r.Output = payload
			if timedOut {
				r.Failure = &store.Failure{Code: CodeTimeout, Message: "no signal came in time"}
			}
			return r
		})
	o.endLocked()
	inv.mu.Unlock()
	return timedOut, err
}

// awaitSignalLocked waits until a signal of one of the names is there, the first in
// their order, or the time is up, and records what came of it. Signals go first. With an
// empty name a place of the list is no signal. Without the lock, take decodes the payload.
func (o *op) awaitSignalLocked(names []string, timeout time.Duration, take func(which int, payload []byte) error,
	result func(which int, payload []byte, timedOut bool) store.StepRecord) (which int, timedOut bool, err error) {
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
		if at >= 0 {
			return which, false, o.receiveLocked(inv.signals[at], which, take, result)
		}
		if w.over() {
			r := result(-1, nil, true)
			r.DueAt = w.storeDue
			inv.appendLocked(r, time.Time{})
			return -1, true, nil
		}
		if !shown {
			inv.appendLocked(o.since(store.StepRunning), w.due)
			shown = true
		}
		if err := o.b.waitLocked(w); err != nil {
			return -1, false, err
		}
	}
}

// receiveLocked takes a signal out of the inbox, or passes it over if it cannot be decoded.
// It gives up the lock meanwhile, and ends the goroutine if the codec cannot open the
// payload: then the signal is as it was.
func (o *op) receiveLocked(s store.Signal, which int, take func(which int, payload []byte) error,
	result func(which int, payload []byte, timedOut bool) store.StepRecord) error {
	inv := o.b.inv
	inv.takeSignalLocked(s.ID)
	inv.mu.Unlock()
	err := take(which, s.Payload)
	if unopened(err) && !errors.Is(err, ErrPlain) {
		_ = inv.Check(err) // ends the goroutine
	}
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	var r store.StepRecord
	if err != nil {
		bad := newBadPayload(err)
		bad.Signal, bad.Name, bad.Case = &s.ID, s.Name, which
		r, err = bad.record(o), bad.err()
	} else {
		r = result(which, s.Payload, false)
	}
	inv.makeRoomLocked(r.Size())
	if err != nil {
		inv.passed = append(inv.passed, s.ID)
	} else {
		inv.consumed = append(inv.consumed, s.ID)
	}
	inv.appendLocked(r, time.Time{})
	return err
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
// record is the number of the case and the signal's name, and its payload follows. take
// decodes it, as for [Branch.Signal].
func (b *Branch) Select(name string, cases []SelectCase, take func(chosen int, payload []byte) error) (chosen int, err error) {
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
		return -1, err
	}
	if s := o.recorded; s != nil && s.Status.Final() {
		return o.replaySelectLocked(s, names, take)
	}
	chosen, timedOut, err := o.awaitSignalLocked(names, timeout, take, func(which int, payload []byte, timedOut bool) store.StepRecord {
		head := fmt.Sprintf("%d\n", first)
		if !timedOut {
			head = fmt.Sprintf("%d %s\n", which, names[which])
		}
		r := o.since(store.StepCompleted)
		r.Output = append([]byte(head), payload...)
		return r
	})
	if timedOut {
		chosen = first
	}
	o.endLocked()
	inv.mu.Unlock()
	return chosen, err
}

// replaySelectLocked gives the outcome of a recorded Select, and up the lock.
func (o *op) replaySelectLocked(s *store.Step, names []string, take func(chosen int, payload []byte) error) (chosen int, err error) {
	inv := o.b.inv
	head, payload, ok := bytes.Cut(s.Output, []byte("\n"))
	number, signal, _ := strings.Cut(string(head), " ")
	bad := badPayload{}
	if s.Status == store.StepFailed {
		bad = recordedBad(s)
		chosen, signal = bad.Case, bad.Name
	} else if chosen, err = strconv.Atoi(number); err != nil {
		ok = false
	}
	if !ok && s.Status != store.StepFailed || chosen < 0 || chosen >= len(names) || names[chosen] != signal {
		inv.failLocked(nondeterministic(inv, "select %q was recorded with case %q, which the code does not have", o.key, fmt.Sprintf("%d %s", chosen, signal)))
		inv.exitIfClosedLocked()
	}
	o.endLocked()
	inv.mu.Unlock()
	switch {
	case s.Status == store.StepFailed:
		return chosen, bad.err()
	case signal == "":
		return chosen, nil
	}
	return chosen, inv.Check(take(chosen, payload))
}
