package exec

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// MaxSignals is the largest number of signals that one operation receives.
const MaxSignals = store.MaxPage

// Signals waits until a number of signals of one name has arrived, or until the time is up, and
// consumes those that are there, at most that number: one commit records their payloads and removes
// them from the inbox. The time counts from the first time that the run reaches the operation. take
// decodes the payloads in order, and begin is called before the first.
//
// A batch ends before a payload that would bring it above a mebibyte or half the payload limit, unless
// that is its first, and before one that take cannot decode. If the first one cannot be decoded, it is passed over, as by
// [Branch.Signal].
func (b *Branch) Signals(name string, most int, within time.Duration, begin func(), take func(payload []byte) error) error {
	type none = struct{}
	replay := func(o *op) (none, error) { return none{}, o.replaySignals(begin, take) }
	_, err := durable(b, store.KindSignal, name, replay, func(o *op) (none, error) {
		return none{}, o.awaitSignalsLocked(name, most, within, begin, take)
	})
	return err
}

func (o *op) awaitSignalsLocked(name string, most int, within time.Duration, begin func(), take func(payload []byte) error) error {
	inv := o.b.inv
	w := o.newWait(store.WakeSignal, within)
	shown := o.recorded != nil
	for {
		found, full := inv.findSignalsLocked(name, most)
		over := w.over()
		if full || over {
			return o.receiveManyLocked(found, w, over, begin, take)
		}
		if !shown {
			inv.outbox.add(o.since(store.StepRunning), w.due)
			shown = true
		}
		if err := o.b.waitLocked(w); err != nil {
			return err
		}
	}
}

// findSignalsLocked finds the first unread signals of a name. full says that no further one can be
// in their batch. It may release the lock meanwhile.
func (inv *Invocation) findSignalsLocked(name string, most int) (found []store.Signal, full bool) {
	limit := min(commitBytes/2, inv.cfg.PayloadLimit/2)
	for {
		size := 0
		found = found[:0]
		for _, s := range inv.inbox.signals {
			if s.Name != name {
				continue
			}
			if size += len(s.Payload); len(found) == most || len(found) > 0 && size > limit {
				return found, true
			}
			found = append(found, s)
		}
		if len(found) == most {
			return found, true
		}
		if !inv.inbox.signalsCut {
			return found, false
		}
		before := len(inv.inbox.signals)
		inv.seekSignalLocked(name)
		if len(inv.inbox.signals) == before {
			return found, false
		}
	}
}

// receiveManyLocked takes signals out of the inbox and records them, up to the first that cannot be
// decoded. It releases the lock meanwhile. If the codec cannot open a payload, it ends the
// goroutine and leaves the signals unchanged.
func (o *op) receiveManyLocked(found []store.Signal, w *wait, over bool, begin func(), take func(payload []byte) error) (err error) {
	inv := o.b.inv
	for _, s := range found {
		inv.inbox.take(s.ID)
	}
	n := 0
	inv.unlocked(func() {
		begin()
		for ; n < len(found) && err == nil; n++ {
			if err = take(found[n].Payload); err != nil {
				break
			}
		}
		if unopened(err) && !errors.Is(err, ErrPlain) {
			_ = inv.Check(err) // ends the goroutine
		}
	})
	inv.exitIfClosedLocked()
	if err != nil && n == 0 {
		bad := newBadPayload(err)
		bad.Signal, bad.Name = &found[0].ID, found[0].Name
		inv.inbox.untake(found[1:])
		inv.inbox.passed = append(inv.inbox.passed, found[0].ID)
		r := bad.record(o)
		inv.makeRoomLocked(r.Size())
		o.appendLocked(r)
		return bad.err()
	}
	inv.inbox.untake(found[n:])
	r := o.since(store.StepCompleted)
	r.Output = writeBatch(found[:n])
	if over {
		r.DueAt = w.storeDue
	}
	inv.makeRoomLocked(r.Size())
	for _, s := range found[:n] {
		inv.outbox.consume(s.ID)
	}
	o.appendLocked(r)
	return nil
}

// replaySignals passes the recorded payloads to take.
func (o *op) replaySignals(begin func(), take func(payload []byte) error) error {
	inv, s := o.b.inv, o.recorded
	if s.Status == store.StepFailed {
		return recordedBad(s).err()
	}
	payloads, ok := readBatch(s.Output)
	if !ok {
		inv.locked(func() {
			inv.mismatchLocked(misfit{o.key.String(), "a batch of signals", clipNote(s.Output)}, "signal %s was recorded as %s, but the code now receives a batch", o.key, clipNote(s.Output))
		})
	}
	begin()
	for _, p := range payloads {
		if err := inv.Check(take(p)); err != nil {
			return err
		}
	}
	return nil
}

// batchMark begins the record of a batch. A payload of JSON, as a single signal has it, never begins
// like this.
const batchMark = "batch"

// writeBatch makes the record of a batch: a line with the lengths of the payloads, and the payloads.
// A nil payload has the length -1.
func writeBatch(signals []store.Signal) []byte {
	var out []byte
	out = append(out, batchMark...)
	for _, s := range signals {
		n := len(s.Payload)
		if s.Payload == nil {
			n = -1
		}
		out = strconv.AppendInt(append(out, ' '), int64(n), 10)
	}
	out = append(out, '\n')
	for _, s := range signals {
		out = append(out, s.Payload...)
	}
	return out
}

func readBatch(record []byte) (payloads [][]byte, ok bool) {
	head, rest, found := bytes.Cut(record, []byte("\n"))
	sizes, marked := strings.CutPrefix(string(head), batchMark)
	if !found || !marked {
		return nil, false
	}
	for size := range strings.FieldsSeq(sizes) {
		n, err := strconv.Atoi(size)
		if err != nil || n < -1 || n > len(rest) {
			return nil, false
		}
		if n < 0 {
			payloads = append(payloads, nil)
			continue
		}
		payloads = append(payloads, slices.Clip(rest[:n]))
		rest = rest[n:]
	}
	return payloads, len(rest) == 0
}
