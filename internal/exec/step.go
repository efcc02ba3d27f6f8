package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/pawlhq/pawl/store"
)

// StepOptions say how a step is run.
type StepOptions struct {
	Retry   Policy
	Timeout time.Duration // of an attempt; 0: none
}

// StepInfo is what a step's context carries.
type StepInfo struct {
	Inv     *Invocation
	Key     store.StepKey
	Attempt int

	inTx   bool
	writes []store.StateWrite // that go with its transaction
	over   bool               // its function has returned
}

type stepInfoKey struct{}

// Info returns what the step's context carries; nil outside a step.
func Info(ctx context.Context) *StepInfo {
	info, _ := ctx.Value(stepInfoKey{}).(*StepInfo)
	return info
}

// IdempotencyKey is the same for every attempt of a step, and no other step has
// it.
func (i *StepInfo) IdempotencyKey() string {
	id := i.Inv.run.ID.String()
	if g := i.Inv.run.Generation; g > 0 {
		id = fmt.Sprintf("%s~%d", id, g)
	}
	return id + "/" + i.Key.String()
}

// Logger logs with the step's attributes.
func (i *StepInfo) Logger() *slog.Logger {
	return i.Inv.Logger().With("step", i.Key.String(), "attempt", i.Attempt)
}

// FailedStep is the error of a step that failed for good. It holds what is
// recorded and nothing else, so that code sees the same when it is replayed.
type FailedStep struct {
	Key      store.StepKey
	Attempts int
	Failure  *store.Failure
}

func (e *FailedStep) Error() string {
	if e.Attempts == 1 {
		return fmt.Sprintf("step %s: %s", e.Key, e.Failure.Message)
	}
	return fmt.Sprintf("step %s failed after %d attempts: %s", e.Key, e.Attempts, e.Failure.Message)
}

// Unwrap gives the recorded failure.
func (e *FailedStep) Unwrap() error { return e.Failure }

// Step runs a function step: fn is called with an attempt's context until it
// succeeds or its policy is exhausted, unless the history has its outcome.
//
// If tx is not nil, each attempt runs in a transaction of the store, which Begin
// leaves in the variable that tx points to, and the step's record commits with it.
func (b *Branch) Step(name string, opts StepOptions, tx any, fn func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	inv := b.inv
	inv.mu.Lock()
	o, err := b.beginLocked(store.KindFunction, name)
	if err != nil {
		inv.mu.Unlock()
		return nil, err
	}
	if s := o.recorded; s != nil && s.Status.Final() {
		o.endLocked()
		inv.mu.Unlock()
		if s.Status == store.StepCompleted {
			return s.Output, nil
		}
		return nil, &FailedStep{Key: o.key, Attempts: s.Attempt, Failure: s.Failure}
	}
	if s := o.recorded; s != nil && s.Status == store.StepPending && !s.DueAt.IsZero() {
		err = b.waitLocked(&wait{due: inv.local(s.DueAt), storeDue: s.DueAt})
	}
	for err == nil {
		inv.flushLocked() // what came before must be durable before this side effect begins
		if inv.draining {
			inv.leaveLocked()
		}
		inv.exitIfClosedLocked()
		if b.interruptedLocked() {
			err = inv.interruptionLocked()
			break
		}
		if tx != nil {
			inv.holdLocked()
		}
		o.executing = true
		inv.mu.Unlock()
		out, failure, took := o.attemptOnce(opts, tx, fn)
		inv.mu.Lock()
		o.executing = false
		if tx != nil {
			inv.letGoLocked()
		}
		inv.exitIfClosedLocked()
		if failure == nil {
			if tx == nil {
				inv.makeRoomLocked(len(out))
				r := o.record(store.StepCompleted)
				r.Output, r.Took = out, took
				inv.appendLocked(r, time.Time{})
				inv.lingerLocked()
			}
			o.endLocked()
			inv.mu.Unlock()
			return out, nil
		}
		if b.interruptedLocked() {
			// The attempt was cut short from outside: it says nothing of the step.
			err = inv.interruptionLocked()
			break
		}
		delay, again := time.Duration(0), false
		if failure.retry {
			delay, again = opts.Retry.next(o.attempt, failure.after)
		}
		if !again {
			r := o.record(store.StepFailed)
			r.Failure, r.Took = failure.Failure, took
			inv.makeRoomLocked(r.Size())
			inv.appendLocked(r, time.Time{})
			inv.lingerLocked()
			attempts := o.attempt
			o.endLocked()
			inv.mu.Unlock()
			return nil, &FailedStep{Key: o.key, Attempts: attempts, Failure: failure.Failure}
		}
		due := time.Now().Add(delay)
		r := o.record(store.StepPending)
		r.Failure, r.Took = failure.Failure, took
		inv.appendLocked(r, due)
		inv.mu.Unlock()
		inv.Logger().Warn("step failed, will be tried again", "step", o.key.String(), "attempt", o.attempt, "in", delay, "error", failure.Message)
		inv.mu.Lock()
		o.nextAttempt(failure.Failure, inv.stored(o.began))
		err = b.waitLocked(&wait{due: due})
	}
	o.endLocked()
	inv.mu.Unlock()
	return nil, err
}

// attemptFailure is a failed attempt's record, and whether another may follow.
type attemptFailure struct {
	*store.Failure
	retry bool
	after time.Duration // that the error asks to wait; 0: it does not say
}

// attemptOnce calls the user's function once. In a transaction, its success is
// recorded when attemptOnce returns.
func (o *op) attemptOnce(opts StepOptions, tx any, fn func(ctx context.Context) ([]byte, error)) (out []byte, failure *attemptFailure, took time.Duration) {
	inv := o.b.inv
	if !inv.host.Ready(inv) {
		inv.Lose()
		exit()
	}
	inv.mu.Lock()
	inv.exitIfClosedLocked() // the lease may have been found lost meanwhile
	inv.mu.Unlock()
	info := &StepInfo{Inv: inv, Key: o.key, Attempt: o.attempt, inTx: tx != nil}
	defer info.end()
	ctx := context.WithValue(o.b.stepContext(), stepInfoKey{}, info)
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, errTimeout)
		defer cancel()
	}
	inv.mu.Lock()
	o.began = time.Now()
	inv.mu.Unlock()
	began := o.began
	if opts.Timeout > 0 {
		overdue := time.AfterFunc(opts.Timeout+Patience(opts.Timeout), func() {
			info.Logger().Warn("step goes on past its timeout; its function does not heed its context", "timeout", opts.Timeout, "running", time.Since(began))
		})
		defer overdue.Stop()
	}
	attempt := o.attempt
	show := time.AfterFunc(inv.cfg.ShowAfter, func() { o.show(attempt, opts.Timeout) })
	defer show.Stop()
	var err error
	if tx == nil {
		out, err = o.call(ctx, fn)
		took = time.Since(o.began)
		if err == nil {
			err = inv.checkSize("the output of step "+o.key.String(), out)
		}
	} else {
		out, err = o.callInTx(ctx, tx, fn)
		took = time.Since(o.began)
	}
	if err == nil {
		return out, nil, took
	}
	f := Fail(err)
	if code := StepCode(ctx, err); code != f.Code {
		f.Code = code
		f.Message = fmt.Sprintf("timed out after %v: %s", opts.Timeout, f.Message)
	}
	return nil, &attemptFailure{Failure: f, retry: Retryable(opts.Retry, err), after: later(err)}, took
}

// end lets nothing of a goroutine that the step's function has left behind reach
// the run's state.
func (i *StepInfo) end() {
	i.Inv.mu.Lock()
	defer i.Inv.mu.Unlock()
	i.over = true
}

// Patience is how long past its timeout a step goes on before it is said not to heed its
// context: another timeout, 5 seconds at most. It is logged once for an attempt.
func Patience(timeout time.Duration) time.Duration { return min(timeout, 5*time.Second) }

var errTimeout = errors.New("the step's timeout has passed")

// show records that a long step is under way, so that it can be seen, and when its
// attempt's timeout passes, if it has one.
func (o *op) show(attempt int, timeout time.Duration) {
	inv := o.b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.closed || inv.finished || inv.held || !o.executing || o.attempt != attempt {
		return // the timer was late: what came of the attempt stands
	}
	r := o.record(store.StepRunning)
	r.StartedAt = inv.stored(o.began)
	if timeout > 0 {
		r.DueAt = inv.stored(o.began.Add(timeout))
	}
	inv.appendLocked(r, time.Time{})
	if !inv.flushing {
		inv.commitLocked()
	}
}

// call calls the user's function and turns a panic into an error.
func (o *op) call(ctx context.Context, fn func(ctx context.Context) ([]byte, error)) (out []byte, err error) {
	returned := false
	defer func() {
		v := recover()
		switch {
		case v != nil:
			err = &panicError{panicFailure("step "+o.key.String(), v, debug.Stack())}
		case !returned:
			o.b.exited = o.key.String()
		}
	}()
	if wrap := o.b.inv.cfg.Wrap; wrap != nil {
		out, err = wrap(ctx, Info(ctx), fn)
	} else {
		out, err = fn(ctx)
	}
	returned = true
	return out, err
}

type panicError struct{ failure *store.Failure }

func (e *panicError) Error() string { return e.failure.Message }
