package exec

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

// CleanupLimit names the record that begins each cleanup's branch. It says until when
// the cleanup of a canceled run may last.
const CleanupLimit = "cleanup-limit"

// cleanupBranch names the branches of cleanups.
const cleanupBranch = "cleanup"

// shield lets the operations of a branch, and of those below it, go on though the run
// is canceled or past its deadline, for a time.
type shield struct {
	limit  time.Duration
	op     *op // of its record
	began  bool
	over   bool
	timer  *time.Timer
	ctx    context.Context // of its steps
	cancel context.CancelCauseFunc
}

// interruptedLocked returns why no operation of the branch may continue: the run is
// canceled or past its deadline.
func (b *Branch) interruptedLocked() bool {
	return b.inv.interruption.any() && (b.shield == nil || b.shield.over)
}

// stepContext is the parent of the contexts of the branch's steps.
func (b *Branch) stepContext() context.Context {
	if b.shield != nil {
		return b.shield.ctx
	}
	return b.inv.ctx
}

// Cleanup runs fn in a branch whose operations continue when the run is canceled or past
// its deadline, for at most limit. The limit counts from the interruption or the call of
// Cleanup, whichever is later. It is recorded, so that it outlasts a crash.
func (b *Branch) Cleanup(limit time.Duration, fn func(child *Branch) error) error {
	if b.shield != nil {
		return fn(b) // the limit of the outer cleanup counts
	}
	sh := &shield{limit: limit}
	sh.ctx, sh.cancel = context.WithCancelCause(context.WithoutCancel(b.inv.ctx))
	child, err := b.fork(cleanupBranch, sh, func(child *Branch) (any, error) { return nil, child.cleanUp(fn) })
	if err != nil {
		sh.cancel(errEnded)
		return err
	}
	_, err = b.Join(child)
	return err
}

// cleanUp calls the cleanup's function in its branch.
func (b *Branch) cleanUp(fn func(*Branch) error) error {
	inv, sh := b.inv, b.shield
	ended := make(chan struct{})
	defer close(ended)
	defer sh.stop(inv)
	go sh.follow(inv, ended)
	if _, err := durable(b, store.KindSleep, CleanupLimit, nil, func(o *op) (none, error) {
		sh.op = o
		if o.recorded == nil {
			o.appendLocked(o.since(store.StepRunning))
		}
		if inv.interruption.any() {
			sh.beginLocked()
		}
		return none{}, nil
	}); err != nil {
		return err
	}
	stop := context.AfterFunc(inv.ctx, func() {
		inv.mu.Lock()
		defer inv.mu.Unlock()
		if inv.interruption.any() && !inv.ending.closed {
			sh.beginLocked()
		}
	})
	err := fn(b)
	stop()
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	sh.recordLocked()
	return err
}

// stop ends everything that the branch of a cleanup has begun.
func (sh *shield) stop(inv *Invocation) {
	inv.locked(func() {
		if sh.timer != nil {
			sh.timer.Stop()
		}
	})
	sh.cancel(errEnded)
}

// follow ends the contexts of a cleanup's steps when the execution is closed. The run's
// own context may have ended long ago, with the cancel.
func (sh *shield) follow(inv *Invocation, ended <-chan struct{}) {
	select {
	case <-inv.ending.done:
		cause := errEnded
		inv.locked(func() {
			switch inv.ending.reason {
			case byLoss:
				cause = ErrLeaseLost
			case byRelease:
				cause = ErrShutdown
			}
		})
		sh.cancel(cause)
	case <-ended:
	}
}

// recordLocked records the end of a cleanup.
func (sh *shield) recordLocked() {
	inv := sh.op.b.inv
	r := sh.op.since(store.StepCompleted)
	if sh.began {
		inv.presence.pinned--
		// A restart forgets what belongs to the interrupted course.
		r.Status, r.Failure = store.StepFailed, &store.Failure{Code: CodeCanceled, Message: "the run was cleaned up: " + inv.interruption.err().Error()}
	}
	sh.began = true // nothing starts the limit any longer
	sh.op.appendLocked(r)
}

// beginLocked starts the limit of a cleanup whose run is interrupted. The run stays in
// memory meanwhile: asleep it would be claimable at once.
func (sh *shield) beginLocked() {
	if sh.began {
		return
	}
	sh.began = true
	inv := sh.op.b.inv
	inv.presence.pinned++
	due := time.Now().Add(sh.limit)
	if s := sh.op.recorded; s != nil && !s.DueAt.IsZero() {
		due = inv.clock.local(s.DueAt)
	} else {
		inv.outbox.add(sh.op.since(store.StepRunning), due)
	}
	left := time.Until(due)
	if left <= 0 { // it expired while nobody had the run: no operation may begin
		sh.endLocked()
		return
	}
	sh.timer = time.AfterFunc(left, func() { inv.locked(sh.endLocked) })
}

// endLocked ends the limit of a cleanup.
func (sh *shield) endLocked() {
	sh.over = true
	sh.op.b.inv.presence.wakeAll()
	sh.cancel(sh.op.b.inv.interruption.err())
}
