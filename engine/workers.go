package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Workers lists the registered workers by ID, with how many leases each holds. One
// that has not been heard of for its TTL is listed as offline. To count the leases
// may read all active runs.
func (e *Engine) Workers(ctx context.Context) ([]store.Worker, error) {
	return e.listWorkers(ctx, false)
}

func (e *Engine) listWorkers(ctx context.Context, noHeld bool) (list []store.Worker, err error) {
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		list, err = e.store.ListWorkers(ctx, store.ListWorkersParams{Namespace: e.namespace, NoHeld: noHeld})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("workers of namespace %q: %w", e.namespace, err)
	}
	return list, nil
}

// Workflows lists the workflows that workers have ever registered, by name.
func (e *Engine) Workflows(ctx context.Context) ([]store.Workflow, error) {
	list, err := e.listWorkflow(ctx)
	if err != nil {
		return nil, fmt.Errorf("workflows of namespace %q: %w", e.namespace, err)
	}
	return list, nil
}

// serves reports whether a worker takes runs of a workflow now.
func serves(w *store.Worker, workflow string) bool {
	return w.Status == store.Online && slices.Contains(w.Workflows, workflow)
}

// onlineFor is how long it counts that a workflow was seen to be served.
const onlineFor = 2 * time.Second

// online remembers which workflows are served.
type online struct {
	mu   sync.Mutex
	seen map[string]time.Time // by workflow, when
}

// checkOnline says whether a start may count on a worker of the workflow.
func (e *Engine) checkOnline(ctx context.Context, workflow string) error {
	on := &e.base().online
	on.mu.Lock()
	seen, ok := on.seen[workflow]
	on.mu.Unlock()
	if ok && time.Since(seen) < onlineFor {
		return nil
	}
	asked := time.Now()
	list, err := e.listWorkers(ctx, true)
	if err != nil {
		return startError(workflow, err)
	}
	now := make(map[string]time.Time)
	for i := range list {
		for _, name := range list[i].Workflows {
			if serves(&list[i], name) {
				now[name] = asked
			}
		}
	}
	on.mu.Lock()
	on.seen = now
	on.mu.Unlock()
	if _, ok := now[workflow]; ok {
		return nil
	}
	return fmt.Errorf("start of workflow %q in namespace %q: %w that serves it; start a worker that registers it, or let starts wait for one with engine.TriggerCheck(engine.TriggerRegistered)",
		workflow, e.namespace, ErrNoWorker)
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

// Health asks the store, once, whether it answers and its tables can be read; nothing
// is repeated or written. A store that cannot be reached within the context's time, or
// 5 s, gives an error that matches store.ErrUnavailable. It suits a readiness probe of
// a program that starts and awaits runs; for one that executes them see
// worker.Healthy.
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
		workers, err = e.store.ListWorkers(ctx, store.ListWorkersParams{Namespace: e.namespace, NoHeld: true})
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
