package worker

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// signing maintains the worker's row in the store.
type signing struct {
	// turn holds a token while the row is written or removed. Renewals of leases must not
	// wait for it.
	turn  chan struct{}
	mu    sync.Mutex  // guards the fields below
	tried bool        // a write of the row was tried: a row with this name may be the worker's own
	last  time.Time   // when the row was written
	rest  bool        // written as the row of an idle worker
	given time.Time   // when the last report was seen to be written
	owed  bool        // a report was asked for and is being written
	off   atomic.Bool // the row was removed permanently
}

// ofThisProcess are the ids of workers that this process has run.
var ofThisProcess sync.Map

// signOn registers the worker. It removes what a former process has left: a registration
// with the same name, and those with the same host and process id, which no other live
// process can have. Each call has the full timeout.
func (w *Worker) signOn(ctx context.Context, timeout time.Duration) error {
	ofThisProcess.Store(w.id, nil)
	row := w.row(store.Online)
	var others []store.Worker
	err := limited(ctx, timeout, func(ctx context.Context) (err error) {
		others, err = store.AllWorkers(ctx, w.store, store.ListWorkersParams{Namespace: w.namespace, NoHeld: true})
		return err
	})
	if err != nil {
		return err
	}
	for _, o := range others {
		_, ours := ofThisProcess.Load(o.ID)
		if o.ID == w.id && !w.sign.tried || !ours && o.Host == row.Host && o.PID == row.PID {
			err := limited(ctx, timeout, func(ctx context.Context) error {
				return w.store.RemoveWorker(ctx, store.RemoveWorkerParams{Namespace: w.namespace, ID: o.ID})
			})
			if err != nil {
				return err
			}
		}
	}
	w.sign.mu.Lock()
	w.sign.tried, w.sign.last = true, time.Now()
	w.sign.mu.Unlock()
	w.mu.Lock()
	w.worked = time.Now()
	w.mu.Unlock()
	return limited(ctx, timeout, func(ctx context.Context) error {
		return w.store.PutWorker(ctx, store.PutWorkerParams{Namespace: w.namespace, Worker: row})
	})
}

// row returns the worker's registration.
func (w *Worker) row(status store.WorkerStatus) store.Worker {
	names, queues := w.served()
	host, _ := os.Hostname()
	return store.Worker{
		ID: w.id, Host: host, PID: os.Getpid(), Queues: queues, Workflows: names, Takes: w.takes(), Labels: w.ramp.labels(w.labels), Build: w.cfg.Build,
		Slots: w.concurrency, Limits: w.limits, Status: status, TTL: 2 * w.leaseFor,
	}
}

// signAgain writes the row again when the worker becomes idle or busy, and from time to
// time. The row may have been removed as that of a dead worker, by a worker on a machine
// with the same name, or by housekeeping while this machine was asleep. failed means that
// the store was unreachable and may have lost the row and those of the workflows.
func (w *Worker) signAgain(ctx context.Context, failed bool) {
	rest := w.atRest()
	w.sign.mu.Lock()
	due := time.Since(w.sign.last) >= 4*w.leaseFor || rest != w.sign.rest
	w.sign.mu.Unlock()
	if !due && !failed {
		return
	}
	select {
	case w.sign.turn <- struct{}{}:
	default:
		return // it is being written
	}
	defer func() { <-w.sign.turn }()
	w.mu.Lock()
	status := store.Online
	if w.draining {
		status = store.Draining
	}
	w.mu.Unlock()
	_ = limited(ctx, w.callTimeout(), func(ctx context.Context) error {
		w.put(ctx, status, rest)
		return nil
	})
	if err := limited(ctx, 2*w.callTimeout(), w.registerAgain); err != nil && ctx.Err() == nil {
		w.log.Warn("failed to register the worker's workflows again", "error", err)
	}
}

// registerAgain registers the worker's workflows again if the store has lost one.
func (w *Worker) registerAgain(ctx context.Context) error {
	flows := w.flows()
	names, _ := w.served()
	there, err := store.AllWorkflows(ctx, w.store, store.ListWorkflowsParams{Namespace: w.namespace, Names: names})
	if err != nil || len(there) == len(flows) {
		return err
	}
	w.declared.forget()
	return errors.Join(
		w.declare(ctx, w.definedLimits()),
		w.store.PutWorkflows(ctx, store.PutWorkflowsParams{Namespace: w.namespace, Workflows: flows}))
}

// signedAtRest reports whether the worker is registered as idle, and so reports rarely.
func (w *Worker) signedAtRest() bool {
	w.sign.mu.Lock()
	defer w.sign.mu.Unlock()
	return w.sign.rest
}

// answer reports that the worker is alive, as asked by a claim that began at that time.
// One report answers all claims that were asked before it.
func (w *Worker) answer(began time.Time) {
	w.sign.mu.Lock()
	defer w.sign.mu.Unlock()
	if !w.sign.owed && began.After(w.sign.given) {
		w.sign.owed = true
		signal(w.renew)
	}
}

// answered records that a report was written or failed.
func (w *Worker) answered(err error) {
	w.sign.mu.Lock()
	defer w.sign.mu.Unlock()
	if w.sign.owed = false; err == nil {
		w.sign.given = time.Now()
	}
}

// tellDraining shows that the worker accepts no more runs.
func (w *Worker) tellDraining() {
	ctx, cancel := context.WithTimeout(w.stop, 5*time.Second)
	defer cancel()
	select {
	case w.sign.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-w.sign.turn }()
	w.put(ctx, store.Draining, false)
}

// put writes the worker's status, and whether it is idle. The row is for people: a failed
// write is repeated later.
func (w *Worker) put(ctx context.Context, status store.WorkerStatus, rest bool) {
	if w.sign.off.Load() {
		return
	}
	row := w.row(status)
	if rest {
		row.TTL, row.Answers = 2*w.restBeat()+w.leaseFor, w.answers()
	}
	if err := w.store.PutWorker(ctx, store.PutWorkerParams{Namespace: w.namespace, Worker: row}); err != nil {
		w.log.Warn("failed to renew the worker's registration", "error", err)
		return
	}
	w.sign.mu.Lock()
	w.sign.last, w.sign.rest = time.Now(), rest
	w.sign.mu.Unlock()
}

// signOff removes the row permanently.
func (w *Worker) signOff() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	w.sign.off.Store(true)
	select {
	case w.sign.turn <- struct{}{}: // a write in progress has ended
		defer func() { <-w.sign.turn }()
	case <-ctx.Done():
	}
	if err := w.store.RemoveWorker(ctx, store.RemoveWorkerParams{Namespace: w.namespace, ID: w.id}); err != nil {
		w.log.Warn("failed to remove the worker's registration", "error", err)
	}
}

// Errors that [Worker.Healthy] returns.
var (
	// ErrNotRunning: the worker does not run yet, has not reached the store yet, or
	// has stopped.
	ErrNotRunning = errors.New("the worker is not running")
	// ErrDraining: the worker shuts down and takes no new runs.
	ErrDraining = errors.New("the worker is shutting down")
	// ErrStale: the worker could not renew its leases in time, so that it begins no step.
	ErrStale = errors.New("the worker's leases are not renewed: the store has not answered for the duration of a lease")
)

// Healthy reports whether the worker takes work, for a readiness probe: it returns nil,
// [ErrNotRunning], [ErrDraining] or [ErrStale]. It makes no call to the store and returns
// at once.
//
// A worker that is stale recovers by itself when the store answers. Do not use Healthy for
// a probe that restarts the process.
func (w *Worker) Healthy() error {
	w.mu.Lock()
	draining := w.draining
	w.mu.Unlock()
	switch {
	case !w.registered.Load() || w.sign.off.Load():
		return ErrNotRunning
	case draining:
		return ErrDraining
	case !w.ledger.sound(time.Now()):
		return ErrStale
	}
	return nil
}
