package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Workers returns the registered workers in the order of their IDs, with the number of
// leases that each holds. A worker that has not been heard of for its TTL is listed as
// offline.
//
// A worker at rest gives a sign of life only every few minutes. Workers asks each that was
// not heard of for 20 s for one, and waits for the answer. That takes a moment if the
// worker lives. If it was killed, it takes up to half a minute (as long as the worker's
// polls take; see worker.Poll), and then the worker is listed as offline. Counting the
// leases may read all active runs.
func (e *Engine) Workers(ctx context.Context) ([]store.Worker, error) {
	if _, err := e.alive(ctx, true, func(*store.Worker) bool { return true }); err != nil {
		return nil, err
	}
	return e.listWorkers(ctx, false)
}

// WorkersNow is [Engine.Workers] without waiting for answers. A worker at rest that was
// killed is listed as offline half a minute after the first call that asked it for a sign
// of life. It is for programs that look again and again.
func (e *Engine) WorkersNow(ctx context.Context) ([]store.Worker, error) {
	list, err := e.listWorkers(ctx, false)
	if err == nil && slices.ContainsFunc(list, func(w store.Worker) bool { return w.Status != store.Offline && w.Answers > 0 }) {
		e.ask(ctx)
	}
	return list, err
}

// silent is for how long a worker at rest was not heard of when it is asked for a sign of
// life.
const silent = 20 * time.Second

// ask asks the workers at rest for a sign of life. Where that cannot be written (by a token
// that reads alone, say), what is known of them has to do.
func (e *Engine) ask(ctx context.Context) {
	if e.root != nil {
		return // in a transaction, before whose end nobody would see it
	}
	if _, err := e.store.AskWorkers(ctx, store.AskWorkersParams{Namespace: e.namespace, Silent: silent}); err != nil {
		e.log.Debug("failed to ask idle workers whether they are alive", "error", err)
	}
}

// alive lists workers when it is known which of those that matter are alive, or of one that
// it is, if all need not be known. Those at rest are asked, and their answers waited for.
func (e *Engine) alive(ctx context.Context, all bool, matters func(*store.Worker) bool) ([]store.Worker, error) {
	list, err := e.listWorkers(ctx, true)
	asked := e.root != nil
	for wait := 5 * time.Millisecond; err == nil && !settled(list, asked, all, matters); wait = min(2*wait, time.Second) {
		if !asked {
			e.ask(ctx)
			asked = true
		} else if !e.pause(ctx, wait) {
			return nil, cmp.Or(context.Cause(ctx), ErrClosed)
		}
		list, err = e.listWorkers(ctx, true)
	}
	return list, err
}

// settled reports whether enough is known of the workers that matter; asked: those at rest
// that were not heard of lately were asked.
func settled(list []store.Worker, asked, all bool, matters func(*store.Worker) bool) bool {
	open := false
	for i := range list {
		w := &list[i]
		if w.Status == store.Offline || !matters(w) {
			continue
		}
		known := w.Answers == 0 || asked && w.AskedAt.IsZero()
		if known && !all {
			return true
		}
		open = open || !known
	}
	return !open
}

// pause waits; false: the context ended or the engine was closed.
func (e *Engine) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-e.ctx.Done():
	}
	return false
}

func (e *Engine) listWorkers(ctx context.Context, noHeld bool) (list []store.Worker, err error) {
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		list, err = store.AllWorkers(ctx, e.store, store.ListWorkersParams{Namespace: e.namespace, NoHeld: noHeld})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("workers of namespace %q: %w", e.namespace, err)
	}
	return list, nil
}

// Workflows returns the workflows that workers have ever registered, in the order of their
// names.
func (e *Engine) Workflows(ctx context.Context) ([]store.Workflow, error) {
	list, err := e.listWorkflow(ctx)
	if err != nil {
		return nil, fmt.Errorf("workflows of namespace %q: %w", e.namespace, err)
	}
	return list, nil
}

// onlineFor is how long it counts that a workflow was seen to be served in a queue.
const onlineFor = 2 * time.Second

// pair is a workflow in a queue.
type pair struct{ queue, workflow string }

// online remembers which pairs are served.
type online struct {
	mu    sync.Mutex
	seen  map[pair]time.Time // when
	looks map[pair]*onlineLook
}

// manyPairs bounds how many are remembered.
const manyPairs = 1000

// onlineLook is one that is under way.
type onlineLook struct {
	done chan struct{}
	err  error // once it is done
}

// checkOnline says whether a start may count on a worker that takes the workflow from the
// queue. Concurrent starts of a pair share a look.
func (e *Engine) checkOnline(ctx context.Context, queue, workflow string) error {
	on, p := &e.base().online, pair{queue, workflow}
	if e.root != nil {
		return e.lookOnline(ctx, p)
	}
	for {
		look, mine := on.look(p)
		switch {
		case look == nil:
			return nil
		case mine:
			err := e.lookOnline(ctx, p)
			on.end(p, look, err)
			return err
		}
		select {
		case <-look.done:
			if errors.Is(look.err, ErrNoWorker) {
				return look.err
			}
		case <-ctx.Done():
			return startError(workflow, ctx.Err())
		}
	}
}

// look gives the look that is under way, or begins one that is the caller's to make; nil:
// the pair was seen to be served.
func (on *online) look(p pair) (look *onlineLook, mine bool) {
	on.mu.Lock()
	defer on.mu.Unlock()
	if seen, ok := on.seen[p]; ok && time.Since(seen) < onlineFor {
		return nil, false
	}
	if look = on.looks[p]; look != nil {
		return look, false
	}
	if on.looks == nil {
		on.looks = make(map[pair]*onlineLook)
	}
	look = &onlineLook{done: make(chan struct{})}
	on.looks[p] = look
	return look, true
}

func (on *online) end(p pair, look *onlineLook, err error) {
	on.mu.Lock()
	defer on.mu.Unlock()
	delete(on.looks, p)
	if err == nil {
		if on.seen == nil || len(on.seen) >= manyPairs {
			on.seen = make(map[pair]time.Time)
		}
		on.seen[p] = time.Now()
	}
	look.err = err
	close(look.done)
}

func (e *Engine) lookOnline(ctx context.Context, p pair) error {
	serves := func(w *store.Worker) bool { return w.Serves(p.queue, p.workflow) }
	list, err := e.alive(ctx, false, serves)
	switch {
	case err != nil:
		return startError(p.workflow, err)
	case slices.ContainsFunc(list, func(w store.Worker) bool { return serves(&w) }):
		return nil
	}
	return e.noWorker(p, list)
}

// noWorker is the error of a start for which no worker is online.
func (e *Engine) noWorker(p pair, list []store.Worker) error {
	if queues := queuesServed(list, p.workflow); len(queues) > 0 {
		return fmt.Errorf("start of workflow %q in queue %q of namespace %q: %w that takes it from that queue; workers take it from %s: leave out the queue or name one of these, run a worker with worker.Queues(%q), or let starts wait for one with engine.Require(engine.RequireRegistered)",
			p.workflow, p.queue, e.namespace, ErrNoWorker, quoted(queues), p.queue)
	}
	return fmt.Errorf("start of workflow %q in queue %q of namespace %q: %w that serves it; start a worker that registers it%s, or let starts wait for one with engine.Require(engine.RequireRegistered)",
		p.workflow, p.queue, e.namespace, ErrNoWorker, e.elsewhere(p))
}

// elsewhere is what a worker needs besides the workflow, to take it from a queue that is
// not the workflow's own.
func (e *Engine) elsewhere(p pair) string {
	if v, ok := e.base().known.Load(p.workflow); ok && v.(knownQueue).queue != p.queue {
		return fmt.Sprintf(" and has worker.Queues(%q)", p.queue)
	}
	return ""
}

// queuesServed lists the queues from which workers that are online take a workflow.
func queuesServed(list []store.Worker, workflow string) (queues []string) {
	for i := range list {
		for _, q := range list[i].Queues {
			if list[i].Serves(q, workflow) {
				queues = append(queues, q)
			}
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// quoted lists names, the first few of many.
func quoted(names []string) string {
	const most = 10
	var list []string
	for i, n := range names {
		if i == most {
			list = append(list, fmt.Sprintf("%d more", len(names)-most))
			break
		}
		list = append(list, fmt.Sprintf("%q", n))
	}
	return strings.Join(list, ", ")
}

// Health is what [Engine.Health] finds.
type Health struct {
	Backend string        // "postgres", "sqlite", ...
	Latency time.Duration // of a read of the store
	// Skew is by how much the store's clock is before this machine's, give or take
	// half the Latency. Nothing of the engine depends on it; times that are worked out
	// here and handed over, as for a start at a time, do.
	Skew time.Duration
	// Online and Draining count the workers of the namespace.
	Online, Draining int
}

// healthTimeout bounds a health check whose caller has no deadline of its own.
const healthTimeout = 5 * time.Second

// Health asks the store, once, whether it answers and its tables can be read. Nothing is
// retried or written. If the store does not answer before the context's deadline, or within
// 5 s if there is none, the error matches store.ErrUnavailable.
//
// It suits the readiness probe of a program that starts runs and waits for them. For a
// program that executes runs, see worker.Worker.Healthy.
func (e *Engine) Health(ctx context.Context) (Health, error) {
	h := Health{Backend: e.store.Features().Name}
	if e.fault != nil {
		return h, e.fault
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, healthTimeout)
		defer cancel()
	}
	began := time.Now()
	clock, err := e.store.Clock(ctx)
	h.Latency = time.Since(began)
	if err == nil {
		h.Skew = clock.Sub(began.Add(h.Latency / 2)).Round(time.Microsecond)
		began = time.Now()
		var workers []store.Worker
		workers, err = store.AllWorkers(ctx, e.store, store.ListWorkersParams{Namespace: e.namespace, NoHeld: true})
		h.Latency = max(h.Latency, time.Since(began)) // a clock at hand tells nothing of the database
		for i := range workers {
			switch workers[i].Status {
			case store.Online:
				h.Online++
			case store.Draining:
				h.Draining++
			}
		}
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrUnavailable) {
		err = fmt.Errorf("no answer within %v: %w", time.Since(began).Round(time.Millisecond), store.ErrUnavailable)
	}
	if err != nil {
		return h, fmt.Errorf("health of the %s store: %w", h.Backend, err)
	}
	return h, nil
}
