// Package batch lets concurrent callers share one call: the first goes out at
// once, what arrives while it is under way goes together in the next. Idle costs
// no latency, load costs few calls.
package batch

import (
	"context"
	"runtime"
	"sync"
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
	for {
		// Whoever got an answer just now has perhaps something to send again: let them
		// come along, rather than one alone and the others behind it.
		runtime.Gosched()
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
	}
}
