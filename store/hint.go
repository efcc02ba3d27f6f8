package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Hinter is implemented by backends that can report changes at once. Hints may be lost and may be
// unnecessary: polling finds everything, hints make it fast. A backend without it is polled.
type Hinter interface {
	// Hints subscribes to the writes after it has returned. The channel delivers hints in batches
	// until ctx is done or the store is closed; then it is closed. Each call is a subscription of
	// its own. A subscriber that does not read blocks neither writers nor other subscribers.
	//
	// [HintKind] lists the writes that send hints. Once a write is durable, its hints reach the
	// subscribers of this handle and, if Features().Hints is set, those of all processes. There is
	// one exception: a store may announce work in a queue to only as many of the workers registered
	// for it as the work needs. If they do not take the work, the store announces it to all of them
	// within a second.
	//
	// The topics say which hints the subscriber wants; without any, it gets all. It may get
	// others too. HintRescan is of every topic.
	//
	// Hints returns ctx's error if ctx is done, and fails with ErrUnavailable on a closed
	// store.
	Hints(ctx context.Context, topics ...HintTopic) (<-chan []Hint, error)
}

// HintTopic is a selection of hints. A subscriber that names its topics saves the database and its
// own process the delivery of the others.
type HintTopic uint8

// The topics.
const (
	// HintsOfWork is what a worker needs: HintQueue, and HintEvent of a run that has a
	// holder.
	HintsOfWork HintTopic = 1 + iota
	// HintsOfRuns is what waiters for runs need: HintEvent, HintFinal, HintState, HintAnswer and
	// HintStream.
	HintsOfRuns
)

// Has reports whether hints of kind k belong to the topic.
func (t HintTopic) Has(k HintKind) bool {
	switch k {
	case HintQueue:
		return t == HintsOfWork
	case HintFinal, HintState, HintAnswer, HintStream:
		return t == HintsOfRuns
	}
	return true
}

// HintKind is what a hint reports. The writes below send hints once they are durable, to the
// handles of all processes if Features().Hints is set. HintRescan may replace any of them. A call
// may omit a hint that it has sent already.
//
//	Create, of a run that is not leased                      queue
//	Create, that makes a debounced run due earlier           queue
//	Commit, Spawn                                            queue of the child
//	Commit, State                                            state
//	Commit, State with CompleteRun                           state, final
//	Commit, Answers                                          answer
//	Commit, Answers with CompleteRun                         answer, final
//	Commit, Streams                                          stream
//	Append                                                   stream
//	Commit, CompleteRun                                      final
//	Commit, FailRun                                          final
//	Commit, CancelRun                                        final
//	Commit, Sleep to a time                                  queue
//	Commit, Retry at once or at a time                       queue
//	Commit, Release                                          queue
//	Commit, GiveBack                                         queue
//	Unpin                                                    queue
//	Commit, Continue                                         queue
//	the end of a child that its parent's sleep awaits        queue and event of the parent
//	the end of a parent, for each child that it cancels      as Cancel
//	Signal                                                   event
//	Signal, to a sleeper that it wakes                       event, queue
//	Create with a signal, to a run that exists               as Signal
//	SetState                                                 event
//	SetState, of a sleeper that it wakes                     event, queue
//	Cancel, of a run that is then final                      final
//	Cancel, of a run that is leased                          event
//	Cancel, of a run that is to clean up                     event, queue
//	Cancel with Force                                        event, final
//	Cancel, for each child that it reaches                   as Cancel
//	Cancel, of a child that its parent's sleep awaits        queue and event of the parent
//	Pause, of a run that is leased                           event
//	Pause with Resume, of a run that has a time              queue
//	Restart                                                  queue
//	Fork                                                     queue
//	Fire, of a run                                           queue
//	PutSchedule                                              rescan
//	PauseTarget with Resume, of a queue                      queue
//	PauseTarget with Resume, of a workflow                   rescan
//	AskWorkers, that asks one                                rescan
//	Commit, Free, of a run that has permits of a step        queue
//	the end of a lease under limits, however                 queue
//	Commit, CompleteRun, of a run under limits               final, queue
//	PutLimits, that changes a rule                           rescan
//	SetLimit, that changes a rule                            rescan
//
// The hints event, final, state, answer and stream name the run; queue names its queue. "As Signal" means
// the hints of that signal. "As Cancel" means: final for a child that is then final; otherwise event, and
// also queue unless the child is leased. A lease
// that ends under limits may let a run of any queue go: the write that ends it sends queue for the queue
// of its own run, and the next claim sends queue for the other queues whose runs it finds permitted then. No
// other write sends a hint; to notice other changes, poll. Examples are a claim, an extension, a
// start with a lease, a Pause of a run that is not leased, a Lock, a purge, the registration of
// workers and workflows, the deletion of a schedule, and an import, whose run is final or paused.
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
	// HintState: the holder of a run has changed its flow state. (A change from outside sends
	// HintEvent.)
	HintState
	// HintAnswer: a run has answered a signal.
	HintAnswer
	// HintStream: items of streams of a run have become visible. One hint stands for all items of a call.
	HintStream
)

// Hint tells that something happened.
type Hint struct {
	Kind      HintKind
	Namespace string
	Queue     string // HintQueue
	Run       ID     // HintEvent, HintFinal, HintState, HintAnswer, HintStream
}

// hubBacklog is how many hints may wait for a slow subscriber before they are replaced by one
// HintRescan.
const hubBacklog = 4096

// Hub distributes hints inside a process: a helper for backends. The zero Hub is ready to use.
type Hub struct {
	mu     sync.Mutex
	subs   map[*subscription]struct{}
	closed bool
	feeds  sync.WaitGroup
}

type subscription struct {
	topics  []HintTopic
	wake    chan struct{} // holds one token when pending is not empty
	done    chan struct{} // closed with the hub
	pending []Hint
}

// Publish passes hints to all subscribers and never blocks.
func (h *Hub) Publish(hints ...Hint) {
	if len(hints) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		hints := s.wanted(hints)
		switch {
		case len(hints) == 0:
			continue
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

// wanted returns the hints of the subscription's topics.
func (s *subscription) wanted(hints []Hint) []Hint {
	unwanted := func(h Hint) bool {
		return !slices.ContainsFunc(s.topics, func(t HintTopic) bool { return t.Has(h.Kind) })
	}
	if len(s.topics) == 0 || !slices.ContainsFunc(hints, unwanted) {
		return hints
	}
	return slices.DeleteFunc(slices.Clone(hints), unwanted)
}

// Subscribe implements [Hinter.Hints] for a backend. It fails with ErrUnavailable on a closed hub.
func (h *Hub) Subscribe(ctx context.Context, topics ...HintTopic) (<-chan []Hint, error) {
	s := &subscription{topics: topics, wake: make(chan struct{}, 1), done: make(chan struct{})}
	out := make(chan []Hint)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("subscribe to hints of a closed store: %w", ErrUnavailable)
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
		if len(batch) == 0 { // the hint arrived after its wake and was delivered with the previous batch
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
