package exec

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Bounds of what one commit of a run carries, but for a single record or child that is
// larger: more would make a transaction long, or a request larger than a server takes.
const (
	commitRecords = 500
	commitBytes   = store.CallBytes / 2
)

// makeRoomLocked sees to it that a record of so many bytes fits into the next commit,
// by making durable what it carries already. It ends the calling goroutine when the
// invocation was closed meanwhile.
func (inv *Invocation) makeRoomLocked(bytes int) {
	for !inv.hasRoomLocked(bytes) {
		inv.flushLocked()
	}
}

func (inv *Invocation) hasRoomLocked(bytes int) bool {
	if inv.flushed == inv.appended { // nothing waits for a commit
		return true
	}
	return inv.unsent+bytes <= commitBytes && len(inv.pending) < commitRecords && len(inv.spawn) < commitRecords && len(inv.writes) < commitRecords
}

// appendLocked adds a record to what the next commit carries. A record of the
// same key that has not gone out yet is replaced: it was never seen.
func (inv *Invocation) appendLocked(r store.StepRecord, due time.Time) {
	inv.appended++
	inv.unsent += r.Size()
	if !due.IsZero() {
		if inv.dues == nil {
			inv.dues = make(map[store.StepKey]time.Time)
		}
		inv.dues[r.StepKey] = due
	}
	for i := range inv.pending {
		if inv.pending[i].StepKey == r.StepKey {
			inv.unsent -= inv.pending[i].Size()
			inv.pending[i] = r
			return
		}
	}
	inv.pending = append(inv.pending, r)
}

// takeLocked makes a commit of what is pending. Commits go out one at a time, so that
// each has the number after that of the last one applied: one that is refused uses
// none.
func (inv *Invocation) takeLocked() store.Commit {
	for i := range inv.pending {
		r := &inv.pending[i]
		if due, ok := inv.dues[r.StepKey]; ok {
			if !r.Status.Final() {
				r.DueIn = max(time.Until(due), time.Microsecond)
			}
			delete(inv.dues, r.StepKey)
		}
	}
	c := store.Commit{Lease: inv.lease, Seq: inv.applied + 1, Steps: inv.pending, State: inv.writes, Consumed: inv.consumed, Spawn: inv.spawn, Seen: inv.seen}
	if !isProgress(&c) {
		c.Crashes = inv.crashes
	}
	inv.pending, inv.writes, inv.sent, inv.consumed, inv.spawn, inv.unsent = nil, nil, inv.writes, nil, nil, 0
	return c
}

// flushLocked makes durable what has been recorded so far. It ends the calling
// goroutine when the invocation was closed meanwhile.
func (inv *Invocation) flushLocked() {
	for target := inv.appended; inv.flushed < target; {
		inv.exitIfClosedLocked()
		if inv.flushing || inv.held {
			inv.durable.Wait()
			continue
		}
		inv.commitLocked()
	}
}

// commitLocked sends one commit of what is pending.
func (inv *Invocation) commitLocked() store.CommitResult {
	inv.flushing = true
	upTo := inv.appended
	c := inv.takeLocked()
	inv.mu.Unlock()
	res := inv.host.Commit(c)
	inv.mu.Lock()
	inv.flushing = false
	if inv.answeredLocked(&c, res, false) {
		inv.flushed = upTo
	}
	inv.durable.Broadcast()
	return res
}

// answeredLocked takes in what the store says of the run to a commit; applied: it
// was.
func (inv *Invocation) answeredLocked(c *store.Commit, res store.CommitResult, inTx bool) (applied bool) {
	if rejected(res.Err) {
		inv.failLocked(Fail(res.Err))
		return false
	} else if res.Err != nil {
		inv.Logger().Warn("the run is given up: the store refuses its commit", "seq", c.Seq, "error", res.Err)
		inv.closeLocked(byLoss)
		inv.cancel(ErrLeaseLost)
		return false
	}
	inv.applied, inv.crashes = c.Seq, c.Crashes
	inv.wroteLocked(c, res, inTx)
	if res.Status == store.Canceling && !inv.canceling {
		inv.cancelLocked()
	}
	if res.Pausing {
		inv.draining = true
	}
	if res.Events > inv.seen && inv.waitsForEventLocked() {
		go inv.lookAtInbox()
	}
	return true
}

// lingerLocked sees to it that what is pending goes out even when the run's code
// takes its time until the next operation.
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
	case inv.flushed >= inv.appended || inv.closed || inv.finished:
	case inv.flushing || inv.held:
		inv.lingering.Reset(inv.cfg.Linger) // the commit under way carries what was there before
	default:
		inv.commitLocked()
	}
}

func (inv *Invocation) exitIfClosed() {
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	inv.mu.Unlock()
}

func (inv *Invocation) exitIfClosedLocked() {
	if inv.closed {
		inv.mu.Unlock()
		exit()
	}
}

// rejected reports that the store will never take a commit as it is, though the
// lease stands: the run cannot go on.
func rejected(err error) bool {
	return errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrTooLarge)
}
