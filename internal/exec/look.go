package exec

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Look says what to read from the inbox.
type Look struct {
	Signal string // only signals with this name; empty: all names
	After  int64  // only signals of a Position above it
	Group  string // only this group of children, and no signals; empty: all groups
	State  bool   // the whole flow state
}

// Heard returns the count of the run's events that the invocation knows of.
func (inv *Invocation) Heard() int64 {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.inbox.seen
}

// News tells the invocation how many events its run has had. The events are read when
// something waits for them.
func (inv *Invocation) News(events int64) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if events > inv.inbox.seen && !inv.ending.closed && inv.presence.waitsForEvent() {
		go inv.lookAtInbox()
	}
}

// lookAtInbox reads the run's inbox and wakes the goroutines that wait for its content.
// It reads the state if a goroutine needs it.
func (inv *Invocation) lookAtInbox() {
	for range lookTries {
		if inv.lookOnce() {
			return
		}
	}
	inv.Logger().Error("giving up the run's lease: the store has lost events of the run")
	inv.Lose()
}

// lookTries is how many reads in a row may be overtaken by the run's own writes.
const lookTries = 10

// lookOnce reads once; done means that no further read is needed.
func (inv *Invocation) lookOnce() (done bool) {
	look, at := Look{}, int64(0)
	inv.locked(func() {
		inv.inbox.looked = time.Now()
		at = inv.outbox.durable
		look.State = inv.inbox.readers > 0
	})
	box, ok := inv.host.Inbox(inv, look)
	if !ok || box.MoreGroups && !inv.addAwaited(&box) {
		return true
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	n := &inv.inbox
	if inv.ending.closed {
		return true
	}
	if n.readers > 0 && !look.State {
		return false // a goroutine needs it since
	}
	if box.Events < n.seen { // overtaken by a later read
		return n.readers == 0 || n.state != nil
	}
	changed := box.Events > n.seen || n.unsure
	n.seen = box.Events
	inv.takeInLocked(box, look, at)
	if box.Status == store.Canceling && !inv.interruption.canceled {
		inv.cancelLocked()
	}
	if changed {
		inv.stirLocked(^store.WakeOn(0))
	}
	for w := range inv.presence.waits {
		if n.met(w) {
			w.wake()
		}
	}
	return true
}

// addAwaited adds awaited groups to an inbox that had too many groups for one answer. It
// returns false if the run was given up.
func (inv *Invocation) addAwaited(box *store.Inbox) bool {
	missing := map[string]bool{}
	inv.locked(func() {
		for w := range inv.presence.waits {
			for _, a := range w.await {
				missing[a.Group] = true
			}
		}
	})
	for _, g := range box.Groups {
		delete(missing, g.Name)
	}
	for name := range missing {
		one, ok := inv.host.Inbox(inv, Look{Group: name})
		if !ok {
			return false
		}
		box.Groups = append(box.Groups, one.Groups...)
	}
	return true
}

// takeInLocked stores a box's content in the inbox. at is how many entries of the outbox
// were durable when the box was requested.
func (inv *Invocation) takeInLocked(box store.Inbox, look Look, at int64) {
	own := inv.outbox.ownWrites()
	inv.inbox.takeIn(box, look, own, len(inv.outbox.sent) > 0, at)
	if len(own) > 0 {
		inv.stirLocked(store.WakeState)
	}
}

// stirLocked wakes the goroutines that wait for such an event.
func (inv *Invocation) stirLocked(by store.WakeOn) {
	inv.inbox.changes++
	inv.presence.stir(by)
}

// learnLocked applies the run's own writes.
func (inv *Invocation) learnLocked(writes ...store.StateWrite) {
	inv.inbox.apply(writes)
	inv.stirLocked(store.WakeState)
}

// writeLocked adds a write of flow state to the next commit.
func (inv *Invocation) writeLocked(w store.StateWrite) {
	inv.outbox.write(w)
	inv.learnLocked(w)
}

// wroteLocked records that a commit with writes of flow state was applied.
func (inv *Invocation) wroteLocked(c *store.Commit, res store.CommitResult, inTx bool) {
	learn := inv.inbox.wrote(c, res, inTx)
	if learn {
		inv.learnLocked(c.State...)
	}
	if !inTx {
		inv.outbox.sent = nil
	}
	inv.lookIfUnsureLocked()
}

// lookIfUnsureLocked reads the inbox if the known content may be old and a goroutine
// waits for events.
func (inv *Invocation) lookIfUnsureLocked() {
	if inv.inbox.unsure && inv.presence.waitsForEvent() {
		go inv.lookAtInbox()
	}
}

// lookLocked reads the inbox now.
func (inv *Invocation) lookLocked() {
	inv.unlocked(inv.lookAtInbox)
	inv.exitIfClosedLocked()
}

// pollInbox reads the inbox repeatedly, until stop is called or the run leaves memory.
func (inv *Invocation) pollInbox(every time.Duration) (stop func()) {
	over := make(chan struct{})
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-inv.ending.done:
				return
			case <-ticker.C:
				just := false // for another one that waits
				inv.locked(func() { just = time.Since(inv.inbox.looked) < every/2 })
				if !just {
					inv.lookAtInbox()
				}
			}
		}
	}()
	return func() { close(over) }
}

// seekSignalLocked reads the first signals with a name, if the inbox is too large to be
// read as a whole. It releases the lock meanwhile.
func (inv *Invocation) seekSignalLocked(name string) {
	inv.flushLocked() // so that taken signals are not read again
	look := Look{Signal: name}
	for {
		var box store.Inbox
		var ok bool
		inv.unlocked(func() { box, ok = inv.host.Inbox(inv, look) })
		inv.exitIfClosedLocked()
		if !ok {
			return
		}
		before := len(inv.inbox.signals)
		inv.inbox.addSignals(box.Signals)
		if !box.MoreSignals || len(box.Signals) == 0 || len(inv.inbox.signals) > before {
			return
		}
		look.After = box.Signals[len(box.Signals)-1].Position // all of these were skipped
	}
}

// seekGroupLocked reads a group that was not read with the others because there are too
// many. It releases the lock meanwhile.
func (inv *Invocation) seekGroupLocked(name string) {
	if _, known := inv.inbox.groups[name]; known || !inv.inbox.groupsCut {
		return
	}
	var box store.Inbox
	var ok bool
	inv.unlocked(func() { box, ok = inv.host.Inbox(inv, Look{Group: name}) })
	inv.exitIfClosedLocked()
	if !ok {
		return
	}
	if len(box.Groups) == 0 { // the group has no children yet
		box.Groups = []store.Group{{Name: name}}
	}
	inv.inbox.addGroups(box.Groups)
}

// dropPassed consumes the signals that were skipped: the run begins anew, and their
// records are dropped.
func (inv *Invocation) dropPassed() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	n := min(len(inv.inbox.passed), max(0, store.MaxBatch-len(inv.outbox.consumed)))
	inv.outbox.consume(inv.inbox.passed[:n]...)
}

// ReadInbox reads what a Look asks for. State that is too large for one answer is read in
// pages. The pages are of one moment, unless the state keeps changing during the reads.
func ReadInbox(ctx context.Context, st store.Store, namespace string, run store.ID, look Look) (box store.Inbox, err error) {
	p := store.InboxParams{Namespace: namespace, Run: run, Name: look.Signal, After: look.After, Group: look.Group, NoState: !look.State, MaxBytes: store.DefaultClaimBytes}
	if look.Group != "" {
		p.After = store.NoSignals
	}
	for range wholeTries {
		if box, err = st.Inbox(ctx, p); err != nil || !box.MoreState {
			return box, err
		}
		for more := true; more; {
			page, err := st.GetState(ctx, store.GetStateParams{
				Namespace: namespace, Run: run, After: box.State[len(box.State)-1].Key, Limit: store.MaxPage, MaxBytes: store.DefaultClaimBytes,
			})
			if err != nil {
				return box, err
			}
			box.State = append(box.State, page...)
			more = len(page) > 0
		}
		box.MoreState = false
		again, err := st.Inbox(ctx, store.InboxParams{Namespace: namespace, Run: run, After: store.NoSignals, NoState: true})
		if err != nil || again.Events == box.Events {
			return box, err
		}
	}
	return box, nil
}

// wholeTries is how often state that changes during the reads is read again.
const wholeTries = 5
