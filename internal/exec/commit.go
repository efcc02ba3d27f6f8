package exec

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/store"
)

// makeRoomLocked ensures that a record of n bytes fits into the next commit, by making
// the earlier entries durable. It ends the calling goroutine if the invocation was closed
// in the meantime.
func (inv *Invocation) makeRoomLocked(bytes int) {
	for !inv.outbox.hasRoom(bytes) {
		inv.awaitFrontLocked(true)
		inv.flushLocked()
	}
}

// flushLocked makes everything recorded so far durable. It ends the calling goroutine if
// the invocation was closed in the meantime.
func (inv *Invocation) flushLocked() {
	for target := inv.outbox.appended; inv.outbox.durable < target; {
		inv.exitIfClosedLocked()
		if inv.outbox.busy() || inv.replayingLocked() {
			inv.changed.Wait()
			continue
		}
		inv.commitLocked()
	}
}

// commitLocked sends one commit of what is pending.
func (inv *Invocation) commitLocked() (res store.CommitResult) {
	inv.outbox.sending = true
	upTo := inv.outbox.appended
	c := inv.outbox.take(inv.inbox.seen)
	inv.keep(c)
	inv.unlocked(func() { res = inv.host.Commit(c) })
	inv.outbox.sending = false
	if inv.answeredLocked(c, res, false) {
		inv.outbox.durable = upTo
	}
	inv.changed.Broadcast()
	return res
}

// answeredLocked handles what the store's answer to a commit says about the run; applied
// says whether the commit was applied.
func (inv *Invocation) answeredLocked(c *store.Commit, res store.CommitResult, inTx bool) (applied bool) {
	if rejected(res.Err) {
		inv.failLocked(Fail(res.Err))
		return false
	} else if res.Err != nil {
		inv.Logger().Warn("giving up the run: the store refused its commit", "seq", c.Seq, "error", res.Err)
		inv.closeLocked(byLoss)
		inv.cancel(ErrLeaseLost)
		return false
	}
	inv.outbox.accept(c)
	if len(c.State) > 0 {
		inv.wroteLocked(c, res, inTx)
	}
	if res.Status == store.Canceling && !inv.interruption.canceled {
		inv.cancelLocked()
	}
	if res.Pausing {
		inv.presence.draining = true
	}
	if res.Events > inv.inbox.seen && inv.presence.waitsForEvent() {
		go inv.lookAtInbox()
	}
	return true
}

// rejected reports that the store will never accept a commit although the lease is valid:
// the run cannot continue.
func rejected(err error) bool {
	return errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrTooLarge)
}

// lingerLocked ensures that pending entries are sent even if the run's code takes a while
// until the next operation.
func (inv *Invocation) lingerLocked() {
	if inv.lingering == nil {
		inv.lingering = time.AfterFunc(inv.cfg.Linger, inv.linger)
	} else {
		inv.lingering.Reset(inv.cfg.Linger)
	}
}

func (inv *Invocation) linger() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	switch {
	case inv.outbox.settled() || inv.ending.over():
	case inv.outbox.busy() || inv.replayingLocked():
		inv.lingering.Reset(inv.cfg.Linger) // entries that were pending before are in the commit in progress, if there is one
	default:
		inv.commitLocked()
	}
}
