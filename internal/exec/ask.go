package exec

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// ErrAnswered means that a request was answered before.
var ErrAnswered = errors.New("the request is already answered")

// CodeAnswered is the failure code in the record of an answer that came second.
const CodeAnswered = "answered"

// answerPrefix precedes the name of the request in the name of the step that answers it.
const answerPrefix = "answer "

// MaxAsk limits the length of a request's name.
const MaxAsk = store.MaxName - len(answerPrefix)

// frameAsk returns the payload of a signal that asks for an answer, after its ID.
func frameAsk(s store.Signal) []byte {
	return append([]byte(s.ID.String()+"\n"), s.Payload...)
}

// SplitAsk returns the ID and the payload of a signal that asks for an answer.
func SplitAsk(framed []byte) (id store.SignalID, payload []byte, err error) {
	head, payload, ok := bytes.Cut(framed, []byte("\n"))
	if !ok {
		return id, nil, store.Invalid("request", "its record has no signal id")
	}
	id, err = store.ParseID(string(head))
	return id, payload, err
}

// Receive waits for a signal that asks for an answer, as [Branch.Signal] does, and consumes it. take
// gets the signal's ID with its payload: see [SplitAsk].
//
// A signal that take cannot decode, or that the case refuses, is consumed and answered with a
// failure, and the wait continues. The run's code does not see it, and no step records it.
func (b *Branch) Receive(c SelectCase, timeout time.Duration, take func(framed []byte) error) (timedOut bool, err error) {
	replay := func(o *op) (timedOut bool, err error) {
		if o.recorded.Failure != nil {
			return true, nil
		}
		return false, b.inv.Check(take(o.recorded.Output))
	}
	c.Asks = true
	return durable(b, store.KindSignal, c.Signal, replay, func(o *op) (bool, error) {
		_, timedOut, err := o.awaitSignalLocked([]SelectCase{c}, timeout, func(_ int, payload []byte) error { return take(payload) },
			func(_ int, payload []byte, timedOut bool) store.StepRecord {
				r := o.since(store.StepCompleted)
				r.Output = payload
				if timedOut {
					r.Failure = &store.Failure{Code: CodeTimeout, Message: "no request arrived in time"}
				}
				return r
			})
		return timedOut, err
	})
}

// receiveAskLocked takes a signal that asks for an answer out of the inbox, or refuses it. It
// releases the lock meanwhile. If the codec cannot open the payload, it ends the goroutine and leaves
// the signal unchanged.
func (o *op) receiveAskLocked(s store.Signal, which int, c *SelectCase, take func(which int, payload []byte) error,
	result func(which int, payload []byte, timedOut bool) store.StepRecord) (refused bool) {
	inv := o.b.inv
	inv.inbox.take(s.ID)
	framed := frameAsk(s)
	var why error
	inv.unlocked(func() {
		why = take(which, framed)
		if unopened(why) && !errors.Is(why, ErrPlain) {
			_ = inv.Check(why) // ends the goroutine
		}
		if why == nil && c.Check != nil {
			why = c.Check()
		}
	})
	inv.exitIfClosedLocked()
	if why != nil {
		a := store.Answer{Signal: s.ID, Failure: Fail(why)}
		inv.makeRoomLocked(a.Size())
		inv.outbox.consume(s.ID)
		inv.outbox.answer(a)
		inv.lingerLocked()
		return true
	}
	r := result(which, framed, false)
	inv.makeRoomLocked(r.Size())
	inv.outbox.consume(s.ID)
	o.appendLocked(r)
	return false
}

// Answer answers a request, once: the commit that records the operation contains the answer. It
// returns [ErrAnswered], which is recorded, if the code has answered the request before.
func (b *Branch) Answer(name string, a store.Answer) error {
	inv := b.inv
	if err := inv.checkSize(fmt.Sprintf("the answer to %q", name), a.Output); err != nil {
		return err
	}
	replay := func(o *op) (none, error) {
		if o.recorded.Failure != nil {
			return none{}, ErrAnswered
		}
		inv.locked(func() { inv.answeredAskLocked(a.Signal) })
		return none{}, nil
	}
	_, err := durable(b, store.KindSignal, answerPrefix+name, replay, func(o *op) (none, error) {
		inv.makeRoomLocked(a.Size())
		r := o.record(store.StepCompleted)
		if inv.answeredAskLocked(a.Signal) {
			r.Failure = &store.Failure{Code: CodeAnswered, Message: ErrAnswered.Error()}
			o.finishLocked(r)
			return none{}, ErrAnswered
		}
		r.Output = []byte(a.Signal.String())
		inv.outbox.answer(a)
		o.finishLocked(r)
		return none{}, nil
	})
	return err
}

// answeredAskLocked notes that the code has answered a request, and reports whether it had before.
func (inv *Invocation) answeredAskLocked(id store.SignalID) (before bool) {
	if before = inv.answered[id]; !before {
		if inv.answered == nil {
			inv.answered = make(map[store.SignalID]bool)
		}
		inv.answered[id] = true
	}
	return before
}
