package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// closeLocked lets no operation continue: from now on each operation ends its goroutine,
// and waiting goroutines end at once.
func (inv *Invocation) closeLocked(why reason) {
	if inv.ending.close(why) {
		inv.changed.Broadcast()
	}
}

// failLocked closes the invocation with the run's failure, unless it was already closed.
func (inv *Invocation) failLocked(f *store.Failure) {
	if !inv.ending.closed {
		inv.ending.failure = f
		inv.closeLocked(byFailure)
		inv.cancel(errEnded)
	}
}

// fail fails the run and ends the goroutine.
func (inv *Invocation) fail(f *store.Failure) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.failLocked(f)
	inv.exitIfClosedLocked()
}

// leave is deferred by every goroutine of the run; the last one ends the lease.
func (inv *Invocation) leave(b *Branch) {
	last := false
	inv.locked(func() { last = inv.leaveBranchLocked(b) })
	if last {
		inv.conclude()
	}
}

// leaveBranchLocked ends a branch whose goroutine is about to end. last means that this
// goroutine must conclude the invocation.
func (inv *Invocation) leaveBranchLocked(b *Branch) (last bool) {
	if !b.returned && !inv.ending.closed {
		what := fmt.Sprintf("the function of %s called runtime.Goexit; a workflow must return", b.describe())
		if b.exited != "" {
			what = fmt.Sprintf("the function of step %s called runtime.Goexit; a step must return", b.exited)
		}
		inv.failLocked(&store.Failure{Code: CodeExited, Message: what})
	}
	inv.presence.live--
	b.endLocked()
	inv.checkIdleLocked()
	return inv.presence.live == 0 || inv.ending.closed && inv.ending.reason == byReturn && b.path == ""
}

// conclude ends the lease with the outcome of the execution.
func (inv *Invocation) conclude() {
	var e ending
	var why interruption
	inv.locked(func() { e, why = inv.ending, inv.interruption })
	inv.cancel(errEnded)
	switch e.reason {
	case byLoss:
		inv.give(End{Err: ErrLeaseLost})
	case byRelease:
		inv.finish(inv.release())
	case bySuspend:
		inv.finish(inv.sleep())
	case byMisfit:
		inv.giveBack(e.pin)
	case byFailure:
		inv.finish(store.Transition{Kind: store.FailRun, Failure: e.failure})
	case byReturn:
		inv.finish(inv.transition(e.result, why))
	}
}

// transition makes the transition of a run whose function has returned.
func (inv *Invocation) transition(result *outcome, why interruption) store.Transition {
	var next *Continuation
	switch {
	case result.err == nil:
		if err := inv.checkSize("the run's output", result.output); err != nil {
			return inv.failed(Fail(err), false, 0)
		}
		return store.Transition{Kind: store.CompleteRun, Output: result.output}
	case why.expired:
		return store.Transition{Kind: store.FailRun, Failure: deadlineFailure(inv.run.Deadline)}
	case why.canceled:
		return store.Transition{Kind: store.CancelRun} // with the reason of the cancel
	case errors.As(result.err, &next) && next.Data != nil:
		if err := inv.checkSize("the input to continue with", next.Data); err != nil {
			return inv.failed(Fail(err), false, 0)
		}
		inv.dropPassed()
		return store.Transition{Kind: store.Continue, Input: next.Data}
	}
	return inv.failed(Fail(result.err), Retryable(inv.def.Retry, result.err), later(result.err))
}

// failed makes the transition of a run whose function returned an error; after is the
// delay that the error asks for.
func (inv *Invocation) failed(f *store.Failure, retry bool, after time.Duration) store.Transition {
	if retry {
		if wait, ok := inv.def.Retry.next(inv.run.Attempt, after); ok {
			return store.Transition{Kind: store.Retry, Failure: f, After: wait}
		}
	}
	return store.Transition{Kind: store.FailRun, Failure: f}
}

// sleep makes the transition of a run in which everything waits.
func (inv *Invocation) sleep() store.Transition {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	tr, unread := inv.presence.sleep()
	if unread {
		inv.inbox.seen = 0 // the sleep ends at once
	}
	return tr
}

// finish commits pending entries together with the transition.
func (inv *Invocation) finish(tr store.Transition) {
	var c *store.Commit
	first, lost, at := false, false, ""
	var undecoded error
	inv.locked(func() {
		at, undecoded = inv.ending.at, inv.undecoded
		if first = inv.ending.finish(); first {
			c, lost = inv.lastCommitLocked(&tr)
		}
	})
	switch {
	case !first:
		return
	case lost:
		inv.host.Closed(inv, End{Err: ErrLeaseLost})
		return
	}
	res := inv.host.Commit(c)
	if rejected(res.Err) {
		tr = store.Transition{Kind: store.FailRun, Failure: Fail(res.Err)}
		res = inv.host.Commit(&store.Commit{Lease: inv.lease, Seq: c.Seq, Transition: &tr})
	}
	inv.host.Closed(inv, End{Status: res.Status, Transition: tr, At: at, Undecoded: undecoded, Err: res.Err})
}

// lastCommitLocked makes the commit with the run's transition, which the store's answer
// to pending entries may change. lost means that there is none, because the lease is
// lost.
func (inv *Invocation) lastCommitLocked(tr *store.Transition) (c *store.Commit, lost bool) {
	if !inv.ending.closed {
		inv.closeLocked(byRelease)
	}
	for inv.outbox.sending {
		inv.changed.Wait()
	}
	if inv.ending.reason != byLoss && inv.outbox.bytes > 0 && inv.outbox.bytes+tr.Size() > commitBytes {
		if res := inv.commitLocked(); rejected(res.Err) {
			*tr = store.Transition{Kind: store.FailRun, Failure: Fail(res.Err)}
		}
	}
	if inv.inbox.unsure {
		inv.inbox.seen = 0 // a sleep ends at once
	}
	lost = inv.ending.reason == byLoss
	c = inv.outbox.take(inv.inbox.seen)
	inv.endedLocked()
	c.Transition = tr
	inv.keep(c)
	switch {
	case isProgress(c):
		c.Crashes = 0
	case tr.Kind == store.Release, len(tr.Under) > 0:
		c.Crashes %= aloneMark // the next lease has no mark
	}
	return c, lost
}

// give gives the lease up without a commit. The host knows of the lease until the commit in
// progress, if there is one, is answered.
func (inv *Invocation) give(end End) {
	first := false
	inv.locked(func() {
		if first = inv.ending.finish(); first {
			inv.endedLocked()
		}
		for first && inv.outbox.sending {
			inv.changed.Wait()
		}
	})
	if first {
		inv.host.Closed(inv, end)
	}
}

// endedLocked tells the host, once, that user code has ended.
func (inv *Invocation) endedLocked() {
	if inv.deadline != nil {
		inv.deadline.Stop()
	}
	if inv.lingering != nil {
		inv.lingering.Stop()
	}
	if inv.front.timer != nil {
		inv.front.timer.Stop()
	}
	if !inv.ending.told {
		inv.ending.told = true
		if !inv.presence.parked {
			inv.host.ReleaseSlot(inv)
		}
	}
}

// Lose ends the invocation because its lease is lost. Nothing is recorded.
func (inv *Invocation) Lose() {
	finished := false
	inv.locked(func() {
		if finished = inv.ending.finished; !finished {
			inv.closeLocked(byLoss)
			inv.changed.Broadcast()
		}
	})
	if !finished {
		inv.cancel(ErrLeaseLost)
	}
}

// Lost reports whether the invocation was given up because its lease is lost. Code of the
// run may continue for a while, but the lease must not be kept for it.
func (inv *Invocation) Lost() bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.ending.lost()
}

// Cancel tells the running code that the run is canceled: its contexts end, and
// its further operations return [ErrCanceled].
func (inv *Invocation) Cancel() { inv.locked(inv.cancelLocked) }

func (inv *Invocation) cancelLocked() {
	inv.interruption.canceled = true
	inv.cancel(ErrCanceled)
	inv.presence.wakeAll()
	inv.openLocked()
}

// expire tells the running code that the run's deadline has passed, unless the run was
// interrupted before: the first interruption counts.
func (inv *Invocation) expire() {
	expired := false
	inv.locked(func() {
		if expired = !inv.interruption.canceled; expired {
			inv.interruption.expired = true
			inv.presence.wakeAll()
			inv.openLocked()
		}
	})
	if expired {
		inv.cancel(ErrDeadline)
	}
}

// Drain lets the run's current steps finish and releases the lease before the next one
// begins.
func (inv *Invocation) Drain() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.presence.draining = true
	if inv.presence.idle() {
		inv.leaveMemoryLocked(inv.presence.leave())
	}
}

// Abandon releases the lease at once, even while steps run. What running steps return is
// not recorded.
func (inv *Invocation) Abandon() {
	ending := false // the invocation is already ending
	inv.locked(func() {
		if ending = inv.ending.closed && inv.ending.reason != byRelease; !ending {
			inv.closeLocked(byRelease)
		}
	})
	inv.cancel(ErrShutdown)
	if !ending {
		inv.finish(inv.release())
	}
}

// PutOff releases the lease for a delay, before the run was executed. The run's crashes
// stay counted.
func (inv *Invocation) PutOff(after time.Duration) {
	inv.locked(func() { inv.closeLocked(byRelease) })
	inv.cancel(ErrShutdown)
	inv.finish(store.Transition{Kind: store.Release, After: after})
}
