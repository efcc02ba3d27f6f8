package exec

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

// CleanupLimit names the record that begins each cleanup's branch. It says until when
// the cleanup of a canceled run may last.
const CleanupLimit = "cleanup-limit"

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

// interruptedLocked says that no operation of the branch goes on, for the run is
// canceled or past its deadline.
func (b *Branch) interruptedLocked() bool {
	return (b.inv.canceling || b.inv.expired) && (b.shield == nil || b.shield.over)
}

// stepContext is what the contexts of the branch's steps come from.
func (b *Branch) stepContext() context.Context {
	if b.shield != nil {
		return b.shield.ctx
	}
	return b.inv.ctx
}

// Cleanup runs fn in a branch whose operations go on when the run is canceled or past
// its deadline, for at most limit from when both are so: it has come here, and the
// run was interrupted. The limit is recorded, so that it outlasts a crash.
func (b *Branch) Cleanup(limit time.Duration, fn func(child *Branch) error) error {
	if b.shield != nil {
		return fn(b) // the time of the outer one counts
	}
	sh := &shield{limit: limit}
	sh.ctx, sh.cancel = context.WithCancelCause(context.WithoutCancel(b.inv.ctx))
	child, err := b.fork("cleanup", sh, func(child *Branch) (any, error) { return nil, child.cleanUp(fn) })
	if err != nil {
		sh.cancel(errEnded)
		return err
	}
	_, err = b.Join(child)
	return err
}

func (b *Branch) cleanUp(fn func(*Branch) error) error {
	inv, sh := b.inv, b.shield
	ended := make(chan struct{})
	defer close(ended)
	defer func() {
		inv.mu.Lock()
		if sh.timer != nil {
			sh.timer.Stop()
		}
		inv.mu.Unlock()
		sh.cancel(errEnded)
	}()
	go func() {
		select {
		case <-inv.done:
			// The run's own context may have ended with the cancel long ago.
			inv.mu.Lock()
			cause := errEnded
			switch inv.reason {
			case byLoss:
				cause = ErrLeaseLost
			case byRelease:
				cause = ErrShutdown
			}
			inv.mu.Unlock()
			sh.cancel(cause)
		case <-ended:
		}
	}()
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindSleep, CleanupLimit)
	if err != nil {
		inv.mu.Unlock()
		return err
	}
	o.endLocked()
	sh.op = o
	if o.recorded == nil {
		inv.appendLocked(o.since(store.StepRunning), time.Time{})
	}
	if inv.canceling || inv.expired {
		sh.beginLocked()
	}
	inv.mu.Unlock()
	stop := context.AfterFunc(inv.ctx, func() {
		inv.mu.Lock()
		defer inv.mu.Unlock()
		if (inv.canceling || inv.expired) && !inv.closed {
			sh.beginLocked()
		}
	})
	err = fn(b)
	stop()
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	defer inv.mu.Unlock()
	r := o.since(store.StepCompleted)
	if sh.began {
		inv.pinned--
		// What belongs to the course that was interrupted is forgotten by a restart.
		r.Status, r.Failure = store.StepFailed, &store.Failure{Code: CodeCanceled, Message: "the run was cleaned up: " + inv.interruptionLocked().Error()}
	}
	sh.began = true // nothing starts the limit any more
	inv.appendLocked(r, time.Time{})
	return err
}

// beginLocked starts the time of a cleanup whose run is interrupted. The run stays in
// memory meanwhile: asleep it would be claimable at once.
func (sh *shield) beginLocked() {
	if sh.began {
		return
	}
	sh.began = true
	inv := sh.op.b.inv
	inv.pinned++
	due := time.Now().Add(sh.limit)
	if s := sh.op.recorded; s != nil && !s.DueAt.IsZero() {
		due = inv.local(s.DueAt)
	} else {
		inv.appendLocked(sh.op.since(store.StepRunning), due)
	}
	left := time.Until(due)
	if left <= 0 { // over while nobody had the run: nothing of it begins any more
		sh.endLocked()
		return
	}
	sh.timer = time.AfterFunc(left, func() {
		inv.mu.Lock()
		sh.endLocked()
		inv.mu.Unlock()
	})
}

// endLocked ends the time of a cleanup.
func (sh *shield) endLocked() {
	sh.over = true
	sh.op.b.inv.wakeAllLocked()
	sh.cancel(sh.op.b.inv.interruptionLocked())
}
