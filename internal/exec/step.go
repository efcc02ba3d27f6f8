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

// StepOptions configure a step.
type StepOptions struct {
	Retry   Policy
	Timeout time.Duration // of each attempt; 0 means none
	Limits  []StepLimit   // that it is under
	Err     error         // what is wrong with the options
}

// StepInfo is the value in a step's context.
type StepInfo struct {
	Inv     *Invocation
	Key     store.StepKey
	Attempt int

	inTx      bool
	publishes bool                   // the attempt has a commit of its own
	writes    []store.StateWrite     // committed with its transaction, or with its record
	streams   map[string]*stepStream // what the attempt has written to streams
	over      bool                   // the step's function has returned
}

type stepInfoKey struct{}

// Info returns the StepInfo of a step's context, or nil outside a step.
func Info(ctx context.Context) *StepInfo {
	info, _ := ctx.Value(stepInfoKey{}).(*StepInfo)
	return info
}

// IdempotencyKey is the same for every attempt of a step, and different for every other
// step.
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

// FailedStep is the error of a step that failed permanently. It contains only what is
// recorded, so that code sees the same error in a replay.
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

// Unwrap returns the recorded failure.
func (e *FailedStep) Unwrap() error { return e.Failure }

// Step runs a function step: fn is called with an attempt's context until it
// succeeds or its policy is exhausted, unless the history has its outcome.
//
// If tx is not nil, each attempt runs in a transaction of the store, which Begin
// leaves in the variable that tx points to, and the step's record commits with it.
func (b *Branch) Step(name string, opts StepOptions, tx any, fn func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	return durable(b, store.KindFunction, name, (*op).stepOutcome, func(o *op) ([]byte, error) {
		if err := o.awaitRetryLocked(); err != nil {
			return nil, err
		}
		for {
			out, again, err := o.tryLocked(opts, tx, fn)
			if !again {
				return out, err
			}
		}
	})
}

// stepOutcome returns the outcome that a step's record contains.
func (o *op) stepOutcome() ([]byte, error) {
	s := o.recorded
	if s.Status == store.StepCompleted {
		return s.Output, nil
	}
	return nil, &FailedStep{Key: o.key, Attempts: s.Attempt, Failure: s.Failure}
}

// tryLocked makes one attempt and records its outcome. Again means that another attempt
// is due.
func (o *op) tryLocked(opts StepOptions, tx any, fn func(ctx context.Context) ([]byte, error)) (out []byte, again bool, err error) {
	b, inv := o.b, o.b.inv
	o.readyLocked()
	if b.interruptedLocked() {
		return nil, false, inv.interruption.err()
	}
	held, err := o.permitLocked(opts.Limits)
	if err != nil {
		if o.recorded == nil && !inv.interruption.any() {
			o.forgetLocked()
		}
		return nil, false, err
	}
	if tx != nil {
		inv.holdLocked()
	}
	o.executing = true
	var failure *attemptFailure
	var took time.Duration
	inv.unlocked(func() { out, failure, took = o.attemptOnce(opts, tx, fn) })
	o.executing = false
	if tx != nil {
		inv.letGoLocked()
	}
	inv.exitIfClosedLocked()
	if held {
		inv.freeLocked()
	}
	switch {
	case failure == nil && tx != nil: // the record is in the transaction
		return out, false, nil
	case failure == nil:
		inv.makeStreamRoomLocked(len(out)+o.publishedBytes(), o.staged...)
		o.publishLocked()
		r := o.record(store.StepCompleted)
		r.Output, r.Took = out, took
		inv.outbox.stream(o.staged...)
		o.finishLocked(r)
		return out, false, nil
	case b.interruptedLocked():
		// The attempt was interrupted from outside, which is not a failure of the step.
		return nil, false, inv.interruption.err()
	}
	if delay, again := failure.next(opts.Retry, o.attempt); again {
		r := o.record(store.StepPending)
		r.Failure, r.Took = failure.Failure, took
		err = o.retryLocked("step", r, delay, inv.clock.stored(o.began))
		return nil, err == nil, err
	}
	r := o.record(store.StepFailed)
	r.Failure, r.Took = failure.Failure, took
	inv.makeRoomLocked(r.Size())
	o.finishLocked(r)
	return nil, false, &FailedStep{Key: o.key, Attempts: o.attempt, Failure: failure.Failure}
}

// readyLocked makes everything before an attempt durable, because its side effects must
// not begin earlier, and waits until the history is known to fit. It ends the goroutine if nothing new may begin in the run.
func (o *op) readyLocked() {
	inv := o.b.inv
	inv.awaitFrontLocked(o.recorded == nil)
	inv.flushLocked()
	if inv.presence.draining {
		inv.leaveLocked()
	}
	inv.exitIfClosedLocked()
}

// awaitRetryLocked waits until a recorded retry is due.
func (o *op) awaitRetryLocked() error {
	s := o.recorded
	if s == nil || s.Status != store.StepPending || s.DueAt.IsZero() {
		return nil
	}
	return o.b.waitLocked(&wait{due: o.b.inv.clock.local(s.DueAt), storeDue: s.DueAt})
}

// retryLocked records that an attempt has failed, and waits until the next one is due.
func (o *op) retryLocked(what string, r store.StepRecord, delay time.Duration, startedAt time.Time) error {
	inv := o.b.inv
	due := time.Now().Add(delay)
	inv.outbox.add(r, due)
	inv.unlocked(func() {
		inv.Logger().Warn(what+" failed; retrying", "step", o.key.String(), "attempt", o.attempt, "in", delay, "error", r.Failure.Message)
	})
	o.nextAttempt(r.Failure, startedAt)
	return o.b.waitLocked(&wait{due: due})
}

// attemptFailure is the record of a failed attempt, with the data for the decision to
// retry.
type attemptFailure struct {
	*store.Failure
	retry bool
	after time.Duration // the delay that the error asks for; 0 means none
}

// next returns how long to wait before the next attempt; ok is false if there is none.
func (f *attemptFailure) next(p Policy, attempt int) (delay time.Duration, ok bool) {
	if !f.retry {
		return 0, false
	}
	return p.next(attempt, f.after)
}

// attemptOnce calls the user's function once. In a transaction, a success is recorded
// when attemptOnce returns.
func (o *op) attemptOnce(opts StepOptions, tx any, fn func(ctx context.Context) ([]byte, error)) (out []byte, failure *attemptFailure, took time.Duration) {
	inv := o.b.inv
	inv.awaitReady()
	inv.exitIfClosed() // the lease may have been lost in the meantime
	info := &StepInfo{Inv: inv, Key: o.key, Attempt: o.attempt, inTx: tx != nil, publishes: true}
	defer info.end()
	ctx := context.WithValue(o.b.stepContext(), stepInfoKey{}, info)
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, errTimeout)
		defer cancel()
	}
	inv.locked(func() { o.began = time.Now() })
	if opts.Timeout > 0 {
		defer info.warnIfOverdue(o.began, opts.Timeout).Stop()
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
		inv.locked(func() { o.published, o.staged = info.published(), info.stagedLocked() })
		return out, nil, took
	}
	return nil, failedAttempt(ctx, opts, err), took
}

// failedAttempt makes the failure of an attempt with context ctx.
func failedAttempt(ctx context.Context, opts StepOptions, err error) *attemptFailure {
	f := Fail(err)
	if code := StepCode(ctx, err); code != f.Code {
		f.Code = code
		f.Message = fmt.Sprintf("timed out after %v: %s", opts.Timeout, f.Message)
	}
	return &attemptFailure{Failure: f, retry: Retryable(opts.Retry, err), after: later(err)}
}

// awaitReady waits until a side effect may begin. It ends the goroutine if the lease is
// lost.
func (inv *Invocation) awaitReady() {
	if !inv.host.Ready(inv) {
		inv.Lose()
		exit()
	}
}

// warnIfOverdue logs once if the attempt runs far past its timeout, unless the timer is
// stopped.
func (i *StepInfo) warnIfOverdue(began time.Time, timeout time.Duration) *time.Timer {
	return time.AfterFunc(timeout+Patience(timeout), func() {
		i.Logger().Warn("step runs past its timeout; its function ignores its context", "timeout", timeout, "running", time.Since(began))
	})
}

// end keeps goroutines that the step's function has left behind from changing the run's
// state.
func (i *StepInfo) end() {
	i.Inv.mu.Lock()
	defer i.Inv.mu.Unlock()
	i.over = true
}

// Patience is how far past its timeout a step may run before a warning says that it
// ignores its context: the timeout again, at most 5 seconds. The warning is logged once
// for each attempt.
func Patience(timeout time.Duration) time.Duration { return min(timeout, 5*time.Second) }

var errTimeout = errors.New("the step's timeout has passed")

// show records that a long step is executing, so that it can be seen, and when its
// attempt's timeout ends, if it has one.
func (o *op) show(attempt int, timeout time.Duration) {
	inv := o.b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.ending.over() || inv.outbox.held || !o.executing || o.attempt != attempt {
		return // the timer was late; the attempt's outcome stands
	}
	r := o.record(store.StepRunning)
	r.StartedAt = inv.clock.stored(o.began)
	if timeout > 0 {
		r.DueAt = inv.clock.stored(o.began.Add(timeout))
	}
	o.appendLocked(r)
	if !inv.outbox.sending {
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
