// Package batch lets concurrent callers share one call: the first goes out at
// once, what arrives while it is under way goes together in the next. Idle costs
// no latency, load costs few calls.
//
// A call that fails is not simply made again. It is made smaller, until it is known
// which item it fails for; that one is then tried on its own, and stops no other.
package batch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Config says how items of type T are handled, each with a result of type R.
type Config[T, R any] struct {
	Items    int              // the most items of a call
	Bytes    int              // the most bytes of a call of several items; 0: no bound
	Size     func(item T) int // an item's bytes; used if Bytes is set
	InFlight int              // calls that may be under way at the same time; 0: 1

	// Call handles at least one item and returns a result for each, in order. An error
	// says that the call failed as a whole.
	Call func(items []T) ([]R, error)
	// Failed decides about each item of a call that failed. If done, the item's result
	// is r; otherwise r is kept for the next failure, which gets it as before, and the
	// item is sent again. nil: no item of a failed call is sent again, and its result is
	// the zero R.
	Failed func(item T, before R, f Failure) (r R, done bool)
	// Stop ends pauses between calls that fail; nil: nothing does.
	Stop <-chan struct{}
}

// Failure is what happened to an item.
type Failure struct {
	Err   error
	Alone bool          // the item was the only one of its call
	Apart bool          // and others succeed
	Since time.Time     // when it was handed in
	Next  time.Duration // the pause before the next call
}

// Group gathers items of concurrent callers.
type Group[T, R any] struct {
	cfg Config[T, R]

	mu      sync.Mutex
	pending []*call[T, R]
	running int
	size    int           // the most items of a call now: less than Items after failures
	pause   time.Duration // after the call that failed last; 0: the last call succeeded
	good    int64         // calls that succeeded
}

type call[T, R any] struct {
	item   T
	result R
	since  time.Time
	taken  bool
	gone   bool  // nobody waits for it
	alone  bool  // a call of this item alone has failed
	good   int64 // calls that had succeeded then
	done   chan struct{}
}

// Pauses between calls that fail.
const (
	pauseMin = 5 * time.Millisecond
	pauseMax = time.Second
)

// New makes a group.
func New[T, R any](cfg Config[T, R]) *Group[T, R] {
	cfg.InFlight = max(1, cfg.InFlight)
	if cfg.Failed == nil {
		cfg.Failed = func(_ T, r R, _ Failure) (R, bool) { return r, true }
	}
	return &Group[T, R]{cfg: cfg, size: cfg.Items}
}

// Do hands in an item and waits for its result. When ctx ends first, sent says
// whether the item had gone out: its outcome is unknown then, and result is what Failed
// has kept; otherwise it was taken back.
func (g *Group[T, R]) Do(ctx context.Context, item T) (result R, sent bool, err error) {
	return g.do(ctx, nil, item)
}

// DoWithin is Do with a limit to the wait, after which it fails with
// context.DeadlineExceeded. It costs less than a context with a timeout.
func (g *Group[T, R]) DoWithin(ctx context.Context, limit time.Duration, item T) (result R, sent bool, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	return g.do(ctx, timer.C, item)
}

func (g *Group[T, R]) do(ctx context.Context, limit <-chan time.Time, item T) (result R, sent bool, err error) {
	c := &call[T, R]{item: item, since: time.Now(), done: make(chan struct{})}
	g.mu.Lock()
	g.pending = append(g.pending, c)
	if g.running < g.cfg.InFlight {
		g.running++
		go g.drain()
	}
	g.mu.Unlock()
	select {
	case <-c.done:
		return c.result, true, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit:
		err = context.DeadlineExceeded
	}
	g.mu.Lock()
	result, sent, c.gone = c.result, c.taken, true
	for i, p := range g.pending { // also one that waits to be sent again
		if p == c {
			g.pending = slices.Delete(g.pending, i, i+1)
			break
		}
	}
	g.mu.Unlock()
	return result, sent, err
}

// drain sends what is pending until nothing is.
func (g *Group[T, R]) drain() {
	answered := 0
	for {
		g.gather(answered)
		g.mu.Lock()
		calls := g.takeLocked()
		if len(calls) == 0 {
			g.running--
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		answered = 0
		results, err := g.cfg.Call(items(calls))
		if err == nil {
			g.answer(calls, results)
			answered = len(calls)
			continue
		}
		g.rest(g.failed(calls, err))
	}
}

func items[T, R any](calls []*call[T, R]) []T {
	out := make([]T, len(calls))
	for i, c := range calls {
		out[i] = c.item
	}
	return out
}

// takeLocked takes the items of the next call. One that has failed on its own spoils no
// other's call.
func (g *Group[T, R]) takeLocked() []*call[T, R] {
	n, bytes := 0, 0
	for n < min(len(g.pending), g.size) {
		if n > 0 && (g.pending[n].alone || g.pending[0].alone) {
			break
		}
		if g.cfg.Bytes > 0 {
			bytes += g.cfg.Size(g.pending[n].item)
			if n > 0 && bytes > g.cfg.Bytes {
				break
			}
		}
		g.pending[n].taken = true
		n++
	}
	calls := slices.Clone(g.pending[:n])
	g.pending = slices.Delete(g.pending, 0, n)
	return calls
}

// answer ends a call that succeeded. After failures, calls grow again.
func (g *Group[T, R]) answer(calls []*call[T, R], results []R) {
	g.mu.Lock()
	g.size, g.pause = min(2*g.size, g.cfg.Items), 0
	g.good++
	for i, r := range results {
		calls[i].result = r
	}
	g.mu.Unlock()
	for _, c := range calls {
		close(c.done)
	}
}

// failed lets the caller decide about each item of a call that failed. Those that are
// to be sent again go behind the others, in a call of half as many; one that fails
// on its own again, though another has succeeded in between, is sent apart from now on. It returns the pause before
// the next call.
func (g *Group[T, R]) failed(calls []*call[T, R], err error) time.Duration {
	g.mu.Lock()
	g.size = max(1, len(calls)/2)
	if len(calls) > 1 {
		g.pause = pauseMin // a smaller call may go through at once
	} else {
		g.pause = min(max(2*g.pause, pauseMin), pauseMax)
	}
	pause, good := g.pause, g.good
	g.mu.Unlock()
	var again []*call[T, R]
	for _, c := range calls {
		if g.decide(c, Failure{Err: err, Alone: len(calls) == 1, Since: c.since, Next: pause}) {
			continue
		}
		if len(calls) == 1 {
			if c.alone && good > c.good {
				go g.apart(c)
				return 0 // which is not the others' fault
			}
			c.alone, c.good = true, good
		}
		again = append(again, c)
	}
	g.mu.Lock()
	again = slices.DeleteFunc(again, func(c *call[T, R]) bool { return c.gone })
	g.pending = append(g.pending, again...)
	g.mu.Unlock()
	if len(again) == 0 {
		return 0
	}
	return pause
}

// decide asks what becomes of an item whose call failed; done: it has its result.
func (g *Group[T, R]) decide(c *call[T, R], f Failure) (done bool) {
	r, done := g.cfg.Failed(c.item, c.result, f)
	g.mu.Lock()
	c.result = r
	g.mu.Unlock()
	if done {
		close(c.done)
	}
	return done
}

// apart sends an item on its own until it has a result.
func (g *Group[T, R]) apart(c *call[T, R]) {
	for pause := pauseMin; ; {
		g.rest(pause)
		g.mu.Lock()
		gone := c.gone
		g.mu.Unlock()
		if gone {
			return
		}
		results, err := g.cfg.Call([]T{c.item})
		if err == nil {
			g.mu.Lock()
			c.result = results[0]
			g.mu.Unlock()
			close(c.done)
			return
		}
		pause = min(max(2*pause, pauseMin), pauseMax)
		if g.decide(c, Failure{Err: err, Alone: true, Apart: true, Since: c.since, Next: pause}) {
			return
		}
	}
}

// rest waits between two calls.
func (g *Group[T, R]) rest(d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.cfg.Stop:
	}
}

// gather lets those come along who got an answer just now and have perhaps something to
// send again, rather than one alone and the others behind it. Some of them need several
// turns of the processor until they are back; they are not waited for, beyond what is
// little beside a call.
func (g *Group[T, R]) gather(answered int) {
	runtime.Gosched()
	if answered < 2 {
		return
	}
	g.mu.Lock()
	want := min(len(g.pending)+answered, g.size)
	g.mu.Unlock()
	from := time.Now()
	for range maxTurns {
		runtime.Gosched()
		g.mu.Lock()
		have := len(g.pending)
		g.mu.Unlock()
		if have >= want || time.Since(from) > maxGather {
			return
		}
	}
}

// The bounds of gather: turns, and the time for them.
const (
	maxTurns  = 32
	maxGather = 100 * time.Microsecond
)
