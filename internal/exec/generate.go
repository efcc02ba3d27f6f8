package exec

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/store"
)

// GenerateOptions configure a generator. AtOnce is its window: the number of items that
// may be spawned and not final.
type GenerateOptions struct {
	ItemOptions
	Step     StepOptions
	Batch    int  // maximum number of items in one commit
	Keyed    bool // items have keys
	Cursored bool // items have cursors
}

// ErrYieldEnded means that an item was yielded after its generator had ended.
var ErrYieldEnded = errors.New("the generator has ended")

var errItemsFailed = errors.New("too many items have failed")

// Generate runs a generator and its items. fn passes items to the Generator until the
// stream ends. If the visitor has a Result, it gets the outputs of the items when all are
// final; otherwise they are not read.
func (b *Branch) Generate(name string, opts GenerateOptions, v Visitor, fn func(ctx context.Context, g *Generator) error) (*ItemsEnd, error) {
	replay := func(s *itemStep) (*ItemsEnd, error) {
		if v.Result != nil && s.note.Result == nil && s.op.recorded.Status == store.StepCompleted {
			key := s.op.key.String()
			b.inv.locked(func() {
				b.inv.mismatchLocked(misfit{key, "a generator with a fold", "a generator without a fold"}, "generator %s was recorded without a fold, but the code now folds its items", key)
			})
		}
		return s.result(s.op.recorded.Failure), nil
	}
	return b.items(store.KindGenerator, name, opts.ItemOptions, 0, replay, func(s *itemStep) (end *ItemsEnd, err error) {
		if err := s.op.awaitRetryLocked(); err != nil {
			return nil, err
		}
		for {
			if s.note.Status == GeneratorStarted {
				if err := s.generateLocked(&opts, fn); err != nil {
					return nil, err
				}
			}
			g, anew, err := s.drainLocked()
			if err != nil {
				return nil, err
			}
			if !anew {
				b.inv.unlocked(func() { end = s.fold(g, v) })
				return end, nil
			}
			s.beginAnewLocked()
		}
	})
}

// fold passes the outputs of a generator's items to the visitor, if it wants them, and
// records the step's end.
func (s *itemStep) fold(g store.Group, v Visitor) *ItemsEnd {
	if v.Result == nil || s.note.Failure != nil {
		return s.close(g, s.note.Failure)
	}
	return s.collect(g, v)
}

// beginAnewLocked discards the progress of a generator whose items were canceled together
// with the run, which has been restarted since.
func (s *itemStep) beginAnewLocked() {
	s.op.attempt, s.op.earlier = 1, nil
	s.renewLocked(store.KindGenerator, 0)
}

// generateLocked runs the generator until it completes or may not be retried.
func (s *itemStep) generateLocked(opts *GenerateOptions, fn func(ctx context.Context, g *Generator) error) error {
	for {
		if g, known := s.countsLocked(); known && s.judgeLocked(g) {
			s.renewLocked(store.KindGenerator, 0)
		}
		if s.tooMany {
			s.endGeneratorLocked(GeneratorFailed)
			return nil
		}
		if again, err := s.tryGeneratorLocked(opts, fn); !again {
			return err
		}
	}
}

// endGeneratorLocked records that the generator itself has ended.
func (s *itemStep) endGeneratorLocked(status GeneratorStatus) {
	s.note.Status = status
	s.noteLocked(store.StepRunning)
}

// tryGeneratorLocked makes one attempt of the generator and records its outcome. Again
// means that another attempt is due.
func (s *itemStep) tryGeneratorLocked(opts *GenerateOptions, fn func(ctx context.Context, g *Generator) error) (again bool, err error) {
	o, inv := s.op, s.op.b.inv
	s.findCalleeLocked()
	s.noteLocked(store.StepRunning)
	o.readyLocked()
	if inv.interruption.any() {
		return false, inv.interruption.err()
	}
	var g *Generator
	var failure *attemptFailure
	var took time.Duration
	inv.unlocked(func() { g, failure, took = s.attempt(opts, fn) })
	inv.exitIfClosedLocked()
	switch {
	case inv.interruption.any():
		return false, inv.interruption.err()
	case g.lost:
		if s.judgeLocked(g.counts) {
			s.beginAnewLocked()
			return true, nil
		}
		if inv.interruption.any() {
			return false, inv.interruption.err()
		}
		s.endGeneratorLocked(GeneratorFailed)
		return false, nil
	case failure == nil:
		if s.note.Status != GeneratorComplete { // the last batch did not include the end
			s.endGeneratorLocked(GeneratorComplete)
		}
		return false, nil
	}
	delay, again := failure.next(opts.Step.Retry, o.attempt)
	if !again {
		s.note.Failure = failure.Failure
		s.endGeneratorLocked(GeneratorFailed)
		return false, nil
	}
	r := o.record(store.StepPending)
	r.Failure, r.Took, r.Output = failure.Failure, took, writeNote(s.note)
	err = o.retryLocked("generator", r, delay, inv.Now().Add(-took))
	return err == nil, err
}

// attempt calls the generator once and spawns what it yields.
func (s *itemStep) attempt(opts *GenerateOptions, fn func(ctx context.Context, g *Generator) error) (g *Generator, failure *attemptFailure, took time.Duration) {
	o, inv := s.op, s.op.b.inv
	inv.awaitReady()
	ctx := context.WithValue(inv.ctx, stepInfoKey{}, &StepInfo{Inv: inv, Key: o.key, Attempt: o.attempt})
	if opts.Step.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Step.Timeout, errTimeout)
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(ErrYieldEnded)
	g = &Generator{step: s, opts: opts, ctx: ctx, cancel: cancel, sent: make(chan struct{})}
	g.news.L = &g.mu
	if !opts.Keyed && !opts.Cursored {
		g.skip = s.note.Spawned // its items are yielded again from the first one, with the same ids
	} else {
		g.place = s.note.Spawned
	}
	g.cursor = s.note.Cursor.Bytes()
	defer context.AfterFunc(ctx, g.wake)()
	go g.send()
	returned := false
	defer func() {
		if !returned { // user code called runtime.Goexit
			g.end(ErrYieldEnded)
			<-g.sent
		}
	}()
	began := time.Now()
	_, err := o.call(ctx, func(ctx context.Context) ([]byte, error) { return nil, fn(ctx, g) })
	returned = true
	took = time.Since(began)
	g.end(err)
	<-g.sent
	if err == nil {
		err = g.refused // accepted items could not be spawned
	}
	if err == nil || g.lost {
		return g, nil, took
	}
	return g, failedAttempt(ctx, opts.Step, err), took
}
