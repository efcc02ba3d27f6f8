package exec

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// batchLinger is how long an item waits for others to fill a batch.
const batchLinger = 50 * time.Millisecond

// failureLook is how often a generator that never waits for room checks for failed items.
const failureLook = time.Second

// Generator receives the items of one attempt of a generator. A goroutine of its own
// spawns them in batches while the generator produces others.
type Generator struct {
	step   *itemStep
	opts   *GenerateOptions
	ctx    context.Context
	cancel context.CancelCauseFunc
	cursor []byte // where the attempt begins

	mu      sync.Mutex
	news    sync.Cond // uses mu; signaled when any field below changes
	place   int64     // of the last item
	skip    int64     // places up to here were spawned by an earlier attempt
	buf     []yielded
	bytes   int
	full    int         // goroutines that wait for room in buf
	due     bool        // what is in buf has waited long enough
	timer   *time.Timer // sets due
	look    bool        // it is time to look for failed items
	tick    *time.Timer // sets look
	ended   bool        // the generator has returned err
	err     error
	refused error // why nothing is spawned any longer
	lost    bool  // the reason is that too many items have failed
	counts  store.Group

	sent chan struct{} // closed when the last batch is durable or was given up
}

type yielded struct {
	run    store.NewRun
	cursor []byte
}

// Cursor returns where the generator resumes: the cursor of the last spawned item, or nil
// for the beginning.
func (g *Generator) Cursor() []byte { return g.cursor }

func (g *Generator) wake() {
	g.mu.Lock()
	g.news.Broadcast()
	g.mu.Unlock()
}

// name returns the name of a place in the stream, for messages.
func (g *Generator) name(place int64) string {
	return fmt.Sprintf("item %d of generator %s", place, g.step.op.key)
}

// Yield adds an item. It waits while the buffer is full.
func (g *Generator) Yield(input ChildInput, key string, cursor []byte) error {
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
	}{{g.name(g.place + 1), input.Data}, {"the cursor of " + g.name(g.place+1), cursor}} {
		if err := inv.checkSize(p.what, p.data); err != nil {
			return err
		}
	}
	if g.opts.Open && !inv.cfg.Check {
		var err error
		if input.Under, err = CompleteUses(g.step.opts.Workflow, g.step.needs, input.Under); err != nil {
			return &Coded{Permanent: true, Err: fmt.Errorf("%s: %w", g.name(g.place+1), err)}
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
	g.bytes += len(input.Data)
	if len(g.buf) == 1 {
		g.lingerLocked()
	}
	g.news.Broadcast()
	return nil
}

// stoppedLocked returns why no more items are accepted.
func (g *Generator) stoppedLocked() error {
	switch {
	case g.refused != nil:
		return fmt.Errorf("%s was not accepted: %w", g.name(g.place+1), g.refused)
	case g.ended:
		return fmt.Errorf("%s was yielded after the generator's end: %w", g.name(g.place+1), ErrYieldEnded)
	case g.ctx.Err() != nil:
		return fmt.Errorf("%s was not accepted because the generator's context has ended: %w", g.name(g.place+1), context.Cause(g.ctx))
	}
	return nil
}

// lingerLocked ensures that buffered items are sent even if the generator does not yield
// the next one soon.
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

// end records that the generator has returned.
func (g *Generator) end(err error) {
	g.mu.Lock()
	g.ended, g.err = true, err
	g.news.Broadcast()
	g.mu.Unlock()
}

// refuse stops accepting items.
func (g *Generator) refuse(why error) {
	g.mu.Lock()
	if g.refused == nil {
		g.refused, g.lost = why, why == errItemsFailed
	}
	g.news.Broadcast()
	g.mu.Unlock()
	g.cancel(why)
}

// next waits for a batch, or until it is time to check the items (then the batch is
// empty). Last means that the generator has completed and no batch follows. Ok is false
// if there is no further batch.
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

// send spawns the yielded items until the generator has ended.
func (g *Generator) send() {
	s, inv := g.step, g.step.op.b.inv
	complete := false
	defer close(g.sent)
	defer func() {
		if g.tick != nil {
			g.tick.Stop()
		}
		if !complete { // also if this goroutine ends because the run was closed
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
		g.spawn(batch, last)
	}
}

// spawn spawns a batch and returns when it is durable. Last means that the generator has
// completed with it.
func (g *Generator) spawn(batch []yielded, last bool) {
	s, inv := g.step, g.step.op.b.inv
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.exitIfClosedLocked()
	inv.flushLocked()
	ids := make(map[store.ID]bool, len(batch))
	for _, y := range batch {
		s.note.Spawned++
		if !ids[y.run.ID] {
			ids[y.run.ID] = true
			inv.children.spawnLocked(y.run)
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
	s.spawned = inv.outbox.appended
	inv.flushLocked()
	if inv.presence.draining && g.opts.Cursored && !last && inv.presence.blocked >= inv.presence.live-1 {
		inv.closeLocked(byRelease) // it resumes elsewhere, after the cursor
	}
	inv.exitIfClosedLocked()
}

// lookSoon makes the sender check the items from time to time.
func (g *Generator) lookSoon() {
	g.mu.Lock()
	g.look = true
	g.news.Broadcast()
	g.mu.Unlock()
}

// room waits until n more items fit into the window. It returns false if no more items
// may be spawned.
func (g *Generator) room(n int64) bool {
	s, inv := g.step, g.step.op.b.inv
	n = min(n, s.opts.AtOnce)
	look, pinned := g.lookDue(), false
	for pause := lookSoon; s.open+n > s.opts.AtOnce || look; pause = min(2*pause, lookMax) {
		if look && g.tick != nil {
			look = false
			g.looked()
		}
		if ok, tooMany := g.count(); !ok {
			if pinned {
				inv.unpin()
			}
			if tooMany {
				g.refuse(errItemsFailed)
			}
			return false
		}
		if s.open+n <= s.opts.AtOnce {
			continue
		}
		if !pinned && g.stuck() {
			pinned = true
			inv.pin() // the run holds a slot that its items may need
		}
		g.sleep(pause)
	}
	if pinned {
		inv.unpin()
	}
	return inv.ctx.Err() == nil
}

// count reads how many items are not final. If ok is false, no more items may be spawned,
// perhaps because too many have failed.
func (g *Generator) count() (ok, tooMany bool) {
	s, inv := g.step, g.step.op.b.inv
	box, ok := inv.host.Inbox(inv, Look{Group: s.note.Group})
	if !ok || inv.ctx.Err() != nil {
		return false, false
	}
	if box.Status == store.Canceling {
		inv.Cancel() // the reason why its items are canceled
		return false, false
	}
	for _, c := range box.Groups { // the group, if it has children
		s.open = c.Open
		if c.Failed+c.Canceled > s.opts.Failures {
			g.counts = c
			return false, true
		}
	}
	return true, false
}

// sleep waits for d, or until the run is canceled. It ends the goroutine when the run is
// closed.
func (g *Generator) sleep(d time.Duration) {
	inv := g.step.op.b.inv
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-inv.ending.done:
	case <-inv.ctx.Done():
	}
	inv.exitIfClosed()
}

// lookDue reports whether it is time to check for failed items; looked records a check.
func (g *Generator) lookDue() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.look
}

func (g *Generator) looked() {
	g.mu.Lock()
	g.look = false
	g.mu.Unlock()
	g.tick.Reset(failureLook)
}

// stuck reports whether the generator can only wait for room.
func (g *Generator) stuck() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.full > 0 || g.ended
}
