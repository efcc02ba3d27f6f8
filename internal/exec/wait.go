package exec

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

// wait is one goroutine's wait for a time or an event.
type wait struct {
	due       time.Time        // by this process's clock; zero: none
	storeDue  time.Time        // by the store's clock, if it is fixed
	wakes     store.WakeOn     // events that may end it
	await     []store.Await    // groups of children that may end it; they wake only a sleeping run
	spawned   int64            // entries of the outbox that must be durable before the groups' counts include their children
	permits   []store.LimitUse // of a step, which only a claim gives
	turn      int64            // of the waits for permits, the order
	news      bool             // something has arrived that the waiting goroutine has not seen
	interrupt chan struct{}
}

// newWait makes the wait of an operation for an event. The timeout, unless negative,
// counts from the first time that the run reached the operation.
func (o *op) newWait(wakes store.WakeOn, timeout time.Duration) *wait {
	w := &wait{wakes: wakes}
	switch {
	case o.recorded != nil && !o.recorded.DueAt.IsZero():
		w.storeDue = o.recorded.DueAt
		w.due = o.b.inv.clock.local(w.storeDue)
	case o.recorded == nil && timeout >= 0:
		w.due = o.began.Add(timeout)
	}
	return w
}

// wake makes the waiting goroutine check again.
func (w *wait) wake() {
	select {
	case w.interrupt <- struct{}{}:
	default:
	}
}

func (w *wait) over() bool { return !w.due.IsZero() && time.Until(w.due) <= 0 }

// pause waits until the due time, or until the wait is woken or done is closed.
func (w *wait) pause(done <-chan struct{}) {
	var timeIsUp <-chan time.Time
	if !w.due.IsZero() {
		timer := time.NewTimer(max(time.Until(w.due), 1))
		defer timer.Stop()
		timeIsUp = timer.C
	}
	select {
	case <-timeIsUp:
	case <-w.interrupt:
	case <-done:
	}
}

// waitLocked waits until the due time, or until something arrives that may end the wait.
// It ends the goroutine when the run is suspended or closed, and returns an error when
// the run is canceled or past its deadline.
func (b *Branch) waitLocked(w *wait) error {
	inv := b.inv
	for {
		if w.over() {
			return nil
		}
		inv.exitIfClosedLocked()
		if b.interruptedLocked() {
			return inv.interruption.err()
		}
		w.interrupt, w.news = make(chan struct{}, 1), false // everything so far has been seen
		if len(w.await) > 0 {
			inv.children.watchLocked()
		}
		inv.presence.enter(w)
		inv.checkIdleLocked()
		inv.unlocked(func() { w.pause(inv.ending.done) })
		inv.exitIfClosedLocked() // the waits of a suspended run stay, because they determine when it is due
		delete(inv.presence.waits, w)
		inv.unblockLocked()
		if b.interruptedLocked() {
			return inv.interruption.err()
		}
		if b.shield == nil || w.over() || w.wakes != 0 || len(w.await) > 0 {
			return nil
		}
		// A cancel has woken it, which a cleanup ignores.
	}
}

// checkIdleLocked suspends or parks the run when all its goroutines wait. It fails a run
// whose goroutines wait only for each other.
func (inv *Invocation) checkIdleLocked() {
	if inv.ending.closed || inv.missedLocked() {
		return
	}
	v := inv.presence.judge(inv.cfg.Park)
	switch v {
	case deadlock:
		inv.failLocked(inv.presence.deadlockFailure())
	case suspend, giveBack:
		inv.leaveMemoryLocked(v)
	case park, parkBriefly:
		inv.presence.parked = true
		inv.host.ReleaseSlot(inv)
		if v == parkBriefly {
			time.AfterFunc(inv.cfg.Park, inv.endPark)
		}
	}
}

// leaveMemoryLocked ends the lease of a run that only waits.
func (inv *Invocation) leaveMemoryLocked(v verdict) {
	if v == giveBack {
		inv.closeLocked(byRelease)
	} else {
		inv.closeLocked(bySuspend)
	}
}

// endPark suspends a parked run for which no event has arrived in time.
func (inv *Invocation) endPark() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	p := &inv.presence
	if !p.parked || inv.ending.closed || p.pinned > 0 || p.wakesWithin(inv.cfg.Park) {
		return
	}
	inv.closeLocked(bySuspend)
}

// blockLocked records that the calling goroutine waits for something that sends no
// wake-up.
func (inv *Invocation) blockLocked() {
	inv.presence.blocked++
	inv.checkIdleLocked()
}

// unblockLocked records that the calling goroutine no longer waits. The goroutine may
// have to wait for a slot.
func (inv *Invocation) unblockLocked() {
	inv.presence.blocked--
	if !inv.presence.parked {
		return
	}
	inv.presence.parked = false
	inv.unlocked(func() { inv.host.AcquireSlot(inv) })
	inv.exitIfClosedLocked()
}

// pin records that the generator's goroutine waits for something that sends no wake-up,
// and unpin that it continues.
func (inv *Invocation) pin() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	inv.presence.pinned++
	inv.blockLocked()
}

func (inv *Invocation) unpin() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.presence.pinned--
	inv.unblockLocked()
}

// leaveLocked is called by a goroutine that is about to begin something in a run that is
// to be released. It waits until the other goroutines have finished their current work,
// and ends the calling goroutine.
func (inv *Invocation) leaveLocked() {
	inv.exitIfClosedLocked()
	inv.presence.pinned++
	inv.stayLocked()
}

// stayLocked waits until the execution has ended, and ends the calling goroutine.
func (inv *Invocation) stayLocked() {
	inv.blockLocked()
	inv.unlocked(func() { <-inv.ending.done })
	exit()
}

// Stay makes the calling goroutine of the run wait until the execution has ended, and
// then ends it. A host calls it when nothing new may begin.
func (inv *Invocation) Stay() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	inv.stayLocked()
}
