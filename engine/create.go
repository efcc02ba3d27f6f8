package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawlhq/pawl/internal/batch"
	"github.com/pawlhq/pawl/store"
)

// Limits of a write of new runs, in addition to [store.CallBytes].
const (
	startBatch = 500  // of concurrent starts
	manyBatch  = 1000 // of StartMany
)

// newStarts makes the group in which concurrent starts share writes. A start whose write
// fails is sent again within its caller's RetryFor; its ID ensures that it creates one
// run. A failed write is repeated with fewer starts, and a start that fails alone does
// not stop others.
func (e *Engine) newStarts() *batch.Group[*newStart, store.CreateResult] {
	return batch.New(batch.Config[*newStart, store.CreateResult]{
		Items: startBatch, Bytes: store.CallBytes, Size: func(s *newStart) int { return s.run.Size() },
		Call: e.create, Failed: e.startFailed, Stop: e.ctx.Done(),
	})
}

// newStart is one of several starts in a shared write.
type newStart struct {
	run   *store.NewRun
	until time.Time // end of the caller's RetryFor
}

// startOne creates a run together with other concurrent starts. It fails within RetryFor,
// whatever the other starts wait for.
func (e *Engine) startOne(ctx context.Context, run *store.NewRun) (store.CreateResult, error) {
	// Wait a little longer for the answer of a call that ends at the same time.
	patience := e.retryFor + max(e.retryFor/10, 100*time.Millisecond)
	res, sent, err := e.starts.DoWithin(ctx, patience, &newStart{run, time.Now().Add(e.retryFor)})
	switch {
	case err == nil:
		return res, res.Err
	case ctx.Err() == nil: // RetryFor has passed
		err = fmt.Errorf("no answer from the %s store within %v", e.store.Features().Name, e.retryFor)
		if res.Err != nil {
			err = fmt.Errorf("%w: %v", err, res.Err)
		}
		if !sent {
			err = fmt.Errorf("%w: %w", err, store.ErrUnavailable)
		}
	}
	if sent {
		err = fmt.Errorf("%w: %w", err, store.ErrOutcomeUnknown)
	}
	return store.CreateResult{}, err
}

// create sends one write of new runs.
func (e *Engine) create(starts []*newStart) ([]store.CreateResult, error) {
	runs := make([]store.NewRun, len(starts))
	until := time.Time{}
	for i := range starts {
		runs[i] = *starts[i].run
		if starts[i].until.After(until) {
			until = starts[i].until
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	began := time.Now()
	results, err := e.store.Create(ctx, store.CreateParams{Namespace: e.namespace, Runs: runs})
	if err != nil && ctx.Err() != nil {
		err = e.outOfPatience(err)
	}
	e.tel.Made(runs, results, time.Since(began), err)
	return results, err
}

// startFailed decides what to do with a start whose write failed. If there are several
// starts, any of them may be the cause. Once an answer was lost, a later failure does not
// prove that nothing was applied.
func (e *Engine) startFailed(_ *newStart, before store.CreateResult, f batch.Failure) (res store.CreateResult, done bool) {
	err := afterLost(before.Err, f.Err)
	waited := time.Since(f.Since)
	switch {
	case !store.Retryable(f.Err):
		return store.CreateResult{Err: err}, f.Alone
	case e.ctx.Err() != nil || waited+f.Next >= e.retryFor:
		err = fmt.Errorf("the %s store was unreachable for %v: %w", e.store.Features().Name, waited.Round(time.Millisecond), err)
		return store.CreateResult{Err: err}, true
	}
	return store.CreateResult{Err: err}, false
}

// outOfPatience returns the error of a call that was given up; err is the call's error.
func (e *Engine) outOfPatience(err error) error {
	kind := store.ErrUnavailable
	if errors.Is(err, store.ErrOutcomeUnknown) {
		kind = store.ErrOutcomeUnknown
	}
	return fmt.Errorf("no answer from the %s store within %v: %w", e.store.Features().Name, e.retryFor, kind)
}

// afterLost returns the error of a request whose last error is err and whose earlier
// error is before.
func afterLost(before, err error) error {
	if errors.Is(before, store.ErrOutcomeUnknown) && !errors.Is(err, store.ErrOutcomeUnknown) {
		return fmt.Errorf("%v, after an earlier answer was lost: %w", err, store.ErrOutcomeUnknown)
	}
	return err
}

// parts divides a list of runs into writes.
func parts(runs []store.NewRun) iter.Seq[[]store.NewRun] {
	return func(yield func([]store.NewRun) bool) {
		for len(runs) > 0 {
			n, bytes := 0, 0
			for n < min(len(runs), manyBatch) {
				bytes += runs[n].Size()
				if n > 0 && bytes > store.CallBytes {
					break
				}
				n++
			}
			if !yield(runs[:n]) {
				return
			}
			runs = runs[n:]
		}
	}
}

// createMany creates runs in one write, or in several if the store finds it too large.
func (e *Engine) createMany(ctx context.Context, runs []store.NewRun) (results []store.CreateResult, err error) {
	began := time.Now()
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		results, err = e.store.Create(ctx, store.CreateParams{Namespace: e.namespace, Runs: runs})
		return err
	})
	e.telemetry().Made(runs, results, time.Since(began), err)
	if n := len(runs); n < 2 || !errors.Is(err, store.ErrTooLarge) {
		return results, err
	}
	half := len(runs) / 2
	if results, err = e.createMany(ctx, runs[:half]); err != nil {
		return results, err
	}
	rest, err := e.createMany(ctx, runs[half:])
	return append(results, rest...), err
}
