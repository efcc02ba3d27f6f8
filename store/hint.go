package store

import (
	"context"
	"sync"
)

// Hinter is implemented by backends that can tell at once that something
// happened. Hints are lossy and may come for nothing: polling is the truth,
// hints make it fast.
type Hinter interface {
	// Hints returns a channel on which hints arrive in batches until ctx is done
	// or the store is closed, when it is closed. Each call is a subscription of
	// its own, to what is written after Hints has returned. Cases: hints/queue,
	// hints/woken-queue, hints/canceled-queue, hints/event, hints/state, hints/final,
	// hints/schedule, hints/each-subscriber, hints/unread-hinders-nobody,
	// hints/other-handle, hints/end-with-context.
	Hints(ctx context.Context) (<-chan []Hint, error)
}

// HintKind is what a hint tells.
type HintKind uint8

// The kinds.
const (
	// HintQueue: a queue has a run that is due or has a new due time.
	HintQueue HintKind = 1 + iota
	// HintEvent: an event has reached a run.
	HintEvent
	// HintFinal: a run is final.
	HintFinal
	// HintRescan: anything may have happened; look at everything again.
	HintRescan
	// HintState: the holder of a run has changed its flow state. (Of a change from
	// outside, HintEvent tells.)
	HintState
)

// Hint tells that something happened.
type Hint struct {
	Kind      HintKind
	Namespace string
	Queue     string // HintQueue
	Run       ID     // HintEvent, HintFinal, HintState
}

// hubBacklog is how many hints may wait for a slow subscriber before they
// shrink to one HintRescan.
const hubBacklog = 4096

// Hub spreads hints inside a process: a helper for backends. The zero Hub is
// ready.
type Hub struct {
	mu     sync.Mutex
	subs   map[*subscription]struct{}
	closed bool
	feeds  sync.WaitGroup
}

type subscription struct {
	wake    chan struct{} // holds one token when pending is not empty
	done    chan struct{} // closed with the hub
	pending []Hint
}

// Publish hands hints to all subscribers and never waits.
func (h *Hub) Publish(hints ...Hint) {
	if len(hints) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		switch {
		case len(s.pending) == 1 && s.pending[0].Kind == HintRescan:
		case len(s.pending)+len(hints) > hubBacklog:
			s.pending = append(s.pending[:0], Hint{Kind: HintRescan})
		default:
			s.pending = append(s.pending, hints...)
		}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Subscribe is [Hinter.Hints] for a backend.
func (h *Hub) Subscribe(ctx context.Context) (<-chan []Hint, error) {
	s := &subscription{wake: make(chan struct{}, 1), done: make(chan struct{})}
	out := make(chan []Hint)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(out)
		return out, nil
	}
	if h.subs == nil {
		h.subs = map[*subscription]struct{}{}
	}
	h.subs[s] = struct{}{}
	h.feeds.Go(func() { h.feed(ctx, s, out) })
	return out, nil
}

func (h *Hub) feed(ctx context.Context, s *subscription, out chan<- []Hint) {
	defer close(out)
	defer func() {
		h.mu.Lock()
		delete(h.subs, s)
		h.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.done:
			return
		case <-s.wake:
		}
		h.mu.Lock()
		batch := s.pending
		s.pending = nil
		h.mu.Unlock()
		if len(batch) == 0 { // a hint came after its wake, and left with the batch before
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.done:
			return
		case out <- batch:
		}
	}
}

// Close ends all subscriptions. No hint arrives once it has returned.
func (h *Hub) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		for s := range h.subs {
			close(s.done)
		}
	}
	h.mu.Unlock()
	h.feeds.Wait()
}
