package exec

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

// Sleep waits durably: until a time of the store's clock, or for a duration from
// the first time that the run comes here.
func (b *Branch) Sleep(name string, d time.Duration, until time.Time) error {
	_, err := durable(b, store.KindSleep, name, isDone, func(o *op) (none, error) {
		w := o.sleepLocked(d, until)
		if err := b.waitLocked(w); err != nil {
			return none{}, err
		}
		r := o.since(store.StepCompleted)
		r.DueAt = w.storeDue
		o.appendLocked(r)
		return none{}, nil
	})
	return err
}

// sleepLocked makes the wait of a sleep, and records that it has begun.
func (o *op) sleepLocked(d time.Duration, until time.Time) *wait {
	inv := o.b.inv
	if o.recorded != nil {
		return &wait{storeDue: o.recorded.DueAt, due: inv.clock.local(o.recorded.DueAt)}
	}
	w, counted := &wait{storeDue: until, due: inv.clock.local(until)}, time.Time{}
	if until.IsZero() {
		w.due = o.began.Add(d)
		counted = w.due
	}
	if !w.over() {
		r := o.since(store.StepRunning)
		r.DueAt = until
		inv.outbox.add(r, counted)
	}
	return w
}

// Value records what fn returns, once. fn must be quick and have no side effect.
func (b *Branch) Value(name string, fn func() ([]byte, error)) ([]byte, error) {
	inv := b.inv
	return durable(b, store.KindValue, name, func(o *op) ([]byte, error) { return o.recorded.Output, nil }, func(o *op) (out []byte, err error) {
		inv.unlocked(func() {
			if out, err = fn(); err == nil {
				err = inv.checkSize("the value of "+o.key.String(), out)
			}
		})
		inv.exitIfClosedLocked()
		if err != nil {
			o.forgetLocked()
			return out, err
		}
		inv.makeRoomLocked(len(out))
		r := o.record(store.StepCompleted)
		r.Output = out
		o.appendLocked(r)
		return out, nil
	})
}
