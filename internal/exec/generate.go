package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// GenerateOptions say how a generator is run. AtOnce is its window: so many items
// may be spawned and not final.
type GenerateOptions struct {
	ItemOptions
	Step     StepOptions
	Batch    int  // items that are spawned by one commit
	Keyed    bool // items have keys
	Cursored bool // items have cursors
}

// ErrYieldEnded: an item was yielded after its generator had ended.
var ErrYieldEnded = errors.New("the generator has ended")

var errItemsFailed = errors.New("too many items have failed")

// batchLinger is how long an item waits for others to make up a batch.
const batchLinger = 50 * time.Millisecond

// failureLook is how often a generator that is never held up looks for failed items.
const failureLook = time.Second

// Generate runs a generator and its items. fn hands items to the Generator until the
// stream is at its end.
func (b *Branch) Generate(name string, opts GenerateOptions, fn func(ctx context.Context, g *Generator) error) (*ItemsEnd, error) {
	s, final, err := b.beginItems(store.KindGenerator, name, opts.ItemOptions, 0)
	if err != nil {
		return nil, err
	}
	if final != nil {
		defer s.end()
		return s.result(final.Failure), nil
	}
	inv := b.inv
	inv.mu.Lock()
	if r := s.op.recorded; r != nil && r.Status == store.StepPending && !r.DueAt.IsZero() {
		err = b.waitLocked(&wait{due: inv.local(r.DueAt), storeDue: r.DueAt})
	}
	inv.mu.Unlock()
	for {
		if err == nil && s.note.Status == GeneratorStarted {
			inv.mu.Lock()
			err = s.generateLocked(&opts, fn)
			inv.mu.Unlock()
		}
		if err != nil {
			s.end()
			return nil, err
		}
		g, anew, err := s.drain()
		if err != nil {
			s.end()
			return nil, err
		}
		if !anew {
			return s.close(g, s.note.Failure), nil
		}
		inv.mu.Lock()
		s.op.attempt, s.op.earlier = 1, nil
		s.renewLocked(store.KindGenerator, 0)
		inv.mu.Unlock()
	}
}

// generateLocked runs the generator until it has come to its end, or is not to be
// tried again.
func (s *itemStep) generateLocked(opts *GenerateOptions, fn func(ctx context.Context, g *Generator) error) error {
	o, inv := s.op, s.op.b.inv
	for {
		if g, known := s.countsLocked(); known && s.judgeLocked(g) {
			s.renewLocked(store.KindGenerator, 0)
		}
		if s.tooMany {
			s.note.Status = GeneratorFailed
			s.noteLocked(store.StepRunning)
			return nil
		}
		s.noteLocked(store.StepRunning)
		inv.flushLocked() // also what came before: it must be durable before side effects begin
		if inv.draining {
			inv.leaveLocked()
		}
		inv.exitIfClosedLocked()
		if inv.canceling || inv.expired {
			return inv.interruptionLocked()
		}
		inv.mu.Unlock()
		g, failure, took := s.attempt(opts, fn)
		inv.mu.Lock()
		inv.exitIfClosedLocked()
		switch {
		case inv.canceling || inv.expired:
			return inv.interruptionLocked()
		case g.lost:
			if s.judgeLocked(g.counts) {
				s.renewLocked(store.KindGenerator, 0)
				o.attempt, o.earlier = 1, nil
				continue
			}
			if inv.canceling || inv.expired {
				return inv.interruptionLocked()
			}
			s.note.Status = GeneratorFailed
			s.noteLocked(store.StepRunning)
			return nil
		case failure == nil:
			if s.note.Status != GeneratorComplete { // the last batch did not tell of it
				s.note.Status = GeneratorComplete
				s.noteLocked(store.StepRunning)
			}
			return nil
		}
		delay, again := time.Duration(0), false
		if failure.retry {
			delay, again = opts.Step.Retry.next(o.attempt, failure.after)
		}
		if !again {
			s.note.Status, s.note.Failure = GeneratorFailed, failure.Failure
			s.noteLocked(store.StepRunning)
			return nil
		}
		due := time.Now().Add(delay)
		r := o.record(store.StepPending)
		r.Failure, r.Took, r.Output = failure.Failure, took, writeNote(s.note)
		inv.appendLocked(r, due)
		inv.mu.Unlock()
		inv.Logger().Warn("generator failed, will be tried again", "step", o.key.String(), "attempt", o.attempt, "in", delay, "error", failure.Message)
		inv.mu.Lock()
		o.nextAttempt(failure.Failure, inv.Now().Add(-took))
		if err := o.b.waitLocked(&wait{due: due}); err != nil {
			return err
		}
	}
}

// attempt calls the generator once and spawns what it yields.
func (s *itemStep) attempt(opts *GenerateOptions, fn func(ctx context.Context, g *Generator) error) (g *Generator, failure *attemptFailure, took time.Duration) {
	o, inv := s.op, s.op.b.inv
	if !inv.host.Ready(inv) {
		inv.Lose()
		exit()
	}
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
		g.skip = s.note.Spawned // its items come again from the first one, under the same ids
	} else {
		g.place = s.note.Spawned
	}
	g.cursor = s.note.Cursor.Bytes()
	defer context.AfterFunc(ctx, g.wake)()
	go g.send()
	returned := false
	defer func() {
		if !returned { // user code has ended the goroutine
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
		err = g.refused // what was accepted could not be spawned
	}
	if err == nil || g.lost {
		return g, nil, took
	}
	f := Fail(err)
	if f.Code == CodeError && context.Cause(ctx) == errTimeout {
		f.Code = CodeTimeout
		f.Message = fmt.Sprintf("timed out after %v: %s", opts.Step.Timeout, f.Message)
	}
	return g, &attemptFailure{Failure: f, retry: Retryable(opts.Step.Retry, err), after: later(err)}, took
}

// Generator takes the items of one attempt of a generator. A goroutine of its own
// spawns them, in batches, while the generator makes others.
type Generator struct {
	step   *itemStep
	opts   *GenerateOptions
	ctx    context.Context
	cancel context.CancelCauseFunc
	cursor []byte // where the attempt begins

	mu      sync.Mutex
	news    sync.Cond // on mu: any of what follows has changed
	place   int64     // of the last item
	skip    int64     // places up to here were spawned by an earlier attempt
	buf     []yielded
	bytes   int
	full    int         // goroutines that wait for room in buf
	due     bool        // what is in buf has waited long enough
	timer   *time.Timer // sets due
	look    bool        // it is time to look for failed items
	tick    *time.Timer // sets look
	ended   bool        // the generator has returned, with err
	err     error
	refused error // why nothing is spawned any more
	lost    bool  // it is that too many items have failed, by these counts
	counts  store.Group

	sent chan struct{} // closed when the last batch is durable, or given up
}

type yielded struct {
	run    store.NewRun
	cursor []byte
}

// Cursor is where the generator is to go on: the cursor of the last item that was
// spawned; nil: at the beginning.
func (g *Generator) Cursor() []byte { return g.cursor }

func (g *Generator) wake() {
	g.mu.Lock()
	g.news.Broadcast()
	g.mu.Unlock()
}

// name names a place in the stream, for messages.
func (g *Generator) name(place int64) string {
	return fmt.Sprintf("item %d of generator %s", place, g.step.op.key)
}

// Yield takes an item. It waits while the buffer is full.
func (g *Generator) Yield(input []byte, key string, cursor []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	inv := g.step.op.b.inv
	if err := g.stoppedLocked(); err != nil {
		return err
	}
	if g.opts.Keyed && key == "" {
		return store.Invalid(g.name(g.place+1), "its key is empty")
	}
	for _, p := range []struct {
		what string
		data []byte
	}{{g.name(g.place + 1), input}, {"the cursor of " + g.name(g.place+1), cursor}} {
		if err := inv.checkSize(p.what, p.data); err != nil {
			return err
		}
	}
	if g.skip >= g.place+1 {
		g.place++
		return nil
	}
	for len(g.buf) >= 2*g.opts.Batch || g.bytes >= commitBytes {
		g.full++
		g.news.Broadcast()
		g.news.Wait()
		g.full--
		if err := g.stoppedLocked(); err != nil {
			return err
		}
	}
	g.place++
	g.buf = append(g.buf, yielded{g.step.item(g.place, key, input), cursor})
	g.bytes += len(input)
	if len(g.buf) == 1 {
		g.lingerLocked()
	}
	g.news.Broadcast()
	return nil
}

// stoppedLocked says why no item is taken any more.
func (g *Generator) stoppedLocked() error {
	switch {
	case g.refused != nil:
		return fmt.Errorf("%s was not taken: %w", g.name(g.place+1), g.refused)
	case g.ended:
		return fmt.Errorf("%s was yielded too late: %w", g.name(g.place+1), ErrYieldEnded)
	case g.ctx.Err() != nil:
		return fmt.Errorf("%s was not taken, for the generator's context has ended: %w", g.name(g.place+1), context.Cause(g.ctx))
	}
	return nil
}

// lingerLocked sees to it that the items in the buffer go out even when the
// generator takes its time until the next one.
func (g *Generator) lingerLocked() {
	g.due = false
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer = time.AfterFunc(batchLinger, func() {
		g.mu.Lock()
		g.due = true
		g.news.Broadcast()
		g.mu.Unlock()
	})
}

// end says that the generator has returned.
func (g *Generator) end(err error) {
	g.mu.Lock()
	g.ended, g.err = true, err
	g.news.Broadcast()
	g.mu.Unlock()
}

// refuse lets no further item in.
func (g *Generator) refuse(why error) {
	g.mu.Lock()
	if g.refused == nil {
		g.refused, g.lost = why, why == errItemsFailed
	}
	g.news.Broadcast()
	g.mu.Unlock()
	g.cancel(why)
}

// next waits for a batch, or until it is time to look at the items (an empty one).
// last: none follows, and the generator has come to its end. ok is false when there
// is no further batch.
func (g *Generator) next() (batch []yielded, last, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.buf) < g.opts.Batch && g.bytes < commitBytes/2 && !(g.due && len(g.buf) > 0) && !g.ended && !g.look {
		g.news.Wait()
	}
	if g.look && !g.ended {
		return nil, false, true
	}
	n, size := 0, 0
	for n < min(len(g.buf), g.opts.Batch) && size < commitBytes/2 {
		size += len(g.buf[n].run.Input)
		n++
	}
	batch = append(batch, g.buf[:n]...)
	g.buf = append(g.buf[:0:0], g.buf[n:]...)
	g.bytes -= size
	if g.timer != nil {
		g.timer.Stop()
	}
	if len(g.buf) > 0 {
		g.lingerLocked()
	}
	g.news.Broadcast()
	return batch, g.ended && len(g.buf) == 0 && g.err == nil, n > 0
}

// send spawns what is yielded, until the generator has ended.
func (g *Generator) send() {
	s, inv := g.step, g.step.op.b.inv
	complete := false
	defer close(g.sent)
	defer func() {
		if g.tick != nil {
			g.tick.Stop()
		}
		if !complete { // also when this goroutine is ended because the run was closed
			why := context.Cause(inv.ctx)
			if why == nil {
				why = ErrShutdown
			}
			g.refuse(why)
		}
	}()
	if s.opts.Failures < AnyFailures {
		g.tick = time.AfterFunc(failureLook, g.lookSoon)
	}
	for {
		batch, last, ok := g.next()
		if !ok {
			complete = true
			return
		}
		if !g.room(int64(len(batch))) {
			return
		}
		if len(batch) == 0 {
			continue
		}
		inv.mu.Lock()
		inv.exitIfClosedLocked()
		inv.flushLocked()
		ids := make(map[store.ID]bool, len(batch))
		for _, y := range batch {
			s.note.Spawned++
			if !ids[y.run.ID] {
				ids[y.run.ID] = true
				inv.spawnLocked(y.run)
			}
		}
		if g.opts.Cursored {
			s.note.Cursor = NewPayload(batch[len(batch)-1].cursor)
		}
		if last {
			s.note.Status = GeneratorComplete
		}
		s.open += int64(len(ids))
		s.noteLocked(store.StepRunning)
		s.spawned = inv.appended
		inv.flushLocked()
		if inv.draining && g.opts.Cursored && !last && inv.blocked >= inv.live-1 {
			inv.closeLocked(byRelease) // it goes on elsewhere, behind the cursor
		}
		inv.exitIfClosedLocked()
		inv.mu.Unlock()
	}
}

// lookSoon lets the sender look at the items, now and then.
func (g *Generator) lookSoon() {
	g.mu.Lock()
	g.look = true
	g.news.Broadcast()
	g.mu.Unlock()
}

// room waits until so many items more are within the window. False: no item is to be
// spawned any more.
func (g *Generator) room(n int64) bool {
	s, inv := g.step, g.step.op.b.inv
	pinned := false
	g.mu.Lock()
	look := g.look
	g.mu.Unlock()
	unpin := func() {
		if pinned {
			inv.mu.Lock()
			inv.pinned--
			inv.unblockLocked()
			inv.mu.Unlock()
		}
	}
	for pause := lookSoon; ; pause = min(2*pause, lookMax) {
		window := s.opts.AtOnce
		if s.open+min(n, window) <= window && !look {
			unpin()
			return inv.ctx.Err() == nil
		}
		if look && g.tick != nil {
			g.mu.Lock()
			look, g.look = false, false
			g.mu.Unlock()
			g.tick.Reset(failureLook)
		}
		box, ok := inv.host.Inbox(inv, Look{Group: s.note.Group})
		if !ok || inv.ctx.Err() != nil {
			unpin()
			return false
		}
		if box.Status == store.Canceling {
			inv.Cancel() // which is why its items are canceled
			unpin()
			return false
		}
		for _, c := range box.Groups { // it, if it has children
			s.open = c.Open
			if c.Failed+c.Canceled > s.opts.Failures {
				unpin()
				g.counts = c
				g.refuse(errItemsFailed)
				return false
			}
		}
		if s.open+min(n, window) <= window {
			continue
		}
		if !pinned && g.stuck() {
			// The run holds a slot that its items may need.
			inv.mu.Lock()
			inv.exitIfClosedLocked()
			pinned = true
			inv.pinned++
			inv.blocked++
			inv.checkIdleLocked()
			inv.mu.Unlock()
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-inv.done:
		case <-inv.ctx.Done():
		}
		timer.Stop()
		inv.mu.Lock()
		inv.exitIfClosedLocked()
		inv.mu.Unlock()
	}
}

// stuck reports whether the generator can do nothing but wait for room.
func (g *Generator) stuck() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.full > 0 || g.ended
}
