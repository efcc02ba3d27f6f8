package exec

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Signal waits for a signal and consumes it: one commit records its payload and removes
// it from the inbox. A timeout of 0 or more counts from the first time that the run
// reaches the operation; then it may end without a signal.
//
// A payload that take cannot decode is not consumed. A failure is recorded, so that the
// code continues without the signal, also in a replay. When the record is forgotten, the
// signal is received again.
func (b *Branch) Signal(name string, timeout time.Duration, take func(payload []byte) error) (timedOut bool, err error) {
	replay := func(o *op) (timedOut bool, err error) {
		s := o.recorded
		switch {
		case s.Status == store.StepFailed:
			return false, recordedBad(s).err()
		case s.Failure != nil:
			return true, nil
		}
		return false, b.inv.Check(take(s.Output))
	}
	return durable(b, store.KindSignal, name, replay, func(o *op) (bool, error) {
		_, timedOut, err := o.awaitSignalLocked([]SelectCase{{Signal: name}}, timeout, func(_ int, payload []byte) error { return take(payload) },
			func(_ int, payload []byte, timedOut bool) store.StepRecord {
				r := o.since(store.StepCompleted)
				r.Output = payload
				if timedOut {
					r.Failure = &store.Failure{Code: CodeTimeout, Message: "no signal arrived in time"}
				}
				return r
			})
		return timedOut, err
	})
}

// awaitSignalLocked waits until a signal of one of the cases arrives (earlier cases
// first) or the time is up, and records the outcome. Signals take precedence over the
// time. take decodes the payload, without the lock. An ask that is refused does not end the
// wait.
func (o *op) awaitSignalLocked(cases []SelectCase, timeout time.Duration, take func(which int, payload []byte) error,
	result func(which int, payload []byte, timedOut bool) store.StepRecord) (which int, timedOut bool, err error) {
	inv := o.b.inv
	w := o.newWait(store.WakeSignal, timeout)
	shown := o.recorded != nil
	for {
		if s, which := inv.findSignalLocked(cases); which >= 0 {
			if cases[which].Asks {
				if refused := o.receiveAskLocked(s, which, &cases[which], take, result); refused {
					continue
				}
				return which, false, nil
			}
			return which, false, o.receiveLocked(s, which, take, result)
		}
		if w.over() {
			r := result(-1, nil, true)
			r.DueAt = w.storeDue
			o.appendLocked(r)
			return -1, true, nil
		}
		if !shown {
			inv.outbox.add(o.since(store.StepRunning), w.due)
			shown = true
		}
		if err := o.b.waitLocked(w); err != nil {
			return -1, false, err
		}
	}
}

// receiveLocked takes a signal out of the inbox, or skips it if it cannot be decoded. It
// releases the lock meanwhile. If the codec cannot open the payload, it ends the
// goroutine and leaves the signal unchanged.
func (o *op) receiveLocked(s store.Signal, which int, take func(which int, payload []byte) error,
	result func(which int, payload []byte, timedOut bool) store.StepRecord) (err error) {
	inv := o.b.inv
	inv.inbox.take(s.ID)
	inv.unlocked(func() {
		err = take(which, s.Payload)
		if unopened(err) && !errors.Is(err, ErrPlain) {
			_ = inv.Check(err) // ends the goroutine
		}
	})
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
		inv.inbox.passed = append(inv.inbox.passed, s.ID)
	} else {
		inv.outbox.consume(s.ID)
	}
	o.appendLocked(r)
	return err
}

// findSignalLocked finds the first unread signal of the first name that has one; which is
// negative if there is none. It may release the lock meanwhile.
func (inv *Invocation) findSignalLocked(cases []SelectCase) (s store.Signal, which int) {
	for which := range cases {
		name := cases[which].Signal
		s, ok := inv.inbox.signal(name)
		if !ok && inv.inbox.signalsCut && name != "" {
			inv.seekSignalLocked(name)
			s, ok = inv.inbox.signal(name)
		}
		if ok {
			return s, which
		}
	}
	return s, -1
}

// SelectCase is a case of a [Branch.Select]: a signal or a time.
type SelectCase struct {
	Signal string // empty: a timer
	After  time.Duration
	// Asks says that the signal asks for an answer. Its ID precedes its payload: see [SplitAsk].
	Asks bool
	// Check, if set, may refuse an ask that was just decoded. It is not called in a replay.
	Check func() error
}

// Select waits for the first of several cases and records it. The record begins with the
// number of the case and the signal's name; the payload follows. take decodes it, as for
// [Branch.Signal].
func (b *Branch) Select(name string, cases []SelectCase, take func(chosen int, payload []byte) error) (chosen int, err error) {
	names, first := make([]string, len(cases)), -1
	for i, c := range cases {
		if names[i] = c.Signal; c.Signal == "" && (first < 0 || c.After < cases[first].After) {
			first = i // the timer that is due first; the others can never be chosen
		}
	}
	timeout := time.Duration(-1)
	if first >= 0 {
		timeout = max(cases[first].After, 0)
	}
	replay := func(o *op) (int, error) { return o.replaySelect(names, take) }
	return durable(b, store.KindSignal, name, replay, func(o *op) (int, error) {
		chosen, timedOut, err := o.awaitSignalLocked(cases, timeout, take, func(which int, payload []byte, timedOut bool) store.StepRecord {
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
		return chosen, err
	})
}

// replaySelect returns the outcome of a recorded Select.
func (o *op) replaySelect(names []string, take func(chosen int, payload []byte) error) (chosen int, err error) {
	inv, s := o.b.inv, o.recorded
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
		inv.locked(func() {
			inv.mismatchLocked(misfit{o.key.String(), fmt.Sprintf("one of the cases %q", names), fmt.Sprintf("case %q", fmt.Sprintf("%d %s", chosen, signal))}, "select %q was recorded with case %q, which the code does not have", o.key, fmt.Sprintf("%d %s", chosen, signal))
		})
	}
	switch {
	case s.Status == store.StepFailed:
		return chosen, bad.err()
	case signal == "":
		return chosen, nil
	}
	return chosen, inv.Check(take(chosen, payload))
}
