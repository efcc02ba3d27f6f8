// Package batch lets concurrent callers share one call: the first goes out at
// once, what arrives while it is under way goes together in the next. Idle costs
// no latency, load costs few calls.
package batch

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Group gathers items of type T for a function that handles many at once and
// gives a result of type R for each.
type Group[T, R any] struct {
	do       func(items []T) []R
	max      int
	inFlight int // calls that may be under way at the same time

	mu      sync.Mutex
	pending []*call[T, R]
	running int
}

type call[T, R any] struct {
	item   T
	result R
	taken  bool
	done   chan struct{}
}

// New makes a group. do gets at least one and at most max items and returns a
// result for each, in order; at most inFlight calls of it run at the same time.
func New[T, R any](maxItems, inFlight int, do func(items []T) []R) *Group[T, R] {
	return &Group[T, R]{do: do, max: maxItems, inFlight: inFlight}
}

// Do hands in an item and waits for its result. When ctx ends first, sent says
// whether the item had gone out: its outcome is unknown then; otherwise it was
// taken back.
func (g *Group[T, R]) Do(ctx context.Context, item T) (result R, sent bool, err error) {
	c := &call[T, R]{item: item, done: make(chan struct{})}
	g.mu.Lock()
	g.pending = append(g.pending, c)
	if g.running < g.inFlight {
		g.running++
		go g.drain()
	}
	g.mu.Unlock()
	select {
	case <-c.done:
		return c.result, true, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	sent = c.taken
	if !sent {
		for i, p := range g.pending {
			if p == c {
				g.pending = append(g.pending[:i], g.pending[i+1:]...)
				break
			}
		}
	}
	g.mu.Unlock()
	return result, sent, ctx.Err()
}

// drain sends what is pending until nothing is.
func (g *Group[T, R]) drain() {
	answered := 0
	for {
		g.gather(answered)
		g.mu.Lock()
		n := min(len(g.pending), g.max)
		if n == 0 {
			g.running--
			g.mu.Unlock()
			return
		}
		calls := make([]*call[T, R], n)
		items := make([]T, n)
		copy(calls, g.pending)
		g.pending = append(g.pending[:0], g.pending[n:]...)
		for i, c := range calls {
			c.taken = true
			items[i] = c.item
		}
		g.mu.Unlock()
		for i, r := range g.do(items) {
			calls[i].result = r
			close(calls[i].done)
		}
		answered = n
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
	want := min(len(g.pending)+answered, g.max)
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
