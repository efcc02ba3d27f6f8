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

// signing keeps the worker's row in the store.
type signing struct {
	// turn holds a token while the row is put or removed: who would renew leases must
	// not wait for that.
	turn  chan struct{}
	mu    sync.Mutex  // on what follows
	tried bool        // to put the row: one of this name is perhaps its own
	last  time.Time   // when the row was put
	rest  bool        // as that of a worker at rest
	given time.Time   // when the last sign of life was seen to be given
	owed  bool        // one is asked for, and on its way
	off   atomic.Bool // it was removed for good
}

// ofThisProcess are the ids of workers that this process has run.
var ofThisProcess sync.Map

// signOn registers the worker anew. What a former process has left behind is taken
// away: a registration of the same name, and those of the same host and process id,
// which nobody else can have now. Each call gets as much time.
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

// row is how the worker registers.
func (w *Worker) row(status store.WorkerStatus) store.Worker {
	names, queues := w.served()
	host, _ := os.Hostname()
	return store.Worker{
		ID: w.id, Host: host, PID: os.Getpid(), Queues: queues, Workflows: names, Takes: w.takes(), Labels: w.labels,
		Slots: w.concurrency, Limits: w.limits, Status: status, TTL: 2 * w.leaseFor,
	}
}

// signAgain puts the row again when the worker has come to rest or to work, and from time
// to time: it may have been taken for that of a worker that is gone, by one of a machine
// that calls itself the same, or by housekeeping while this machine was asleep. failed: the
// store was out of reach, and may have lost that row and those of the workflows.
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
		return // it is being put
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
		w.log.Warn("worker could not register its workflows again", "error", err)
	}
}

// registerAgain puts the worker's workflows again when the store has lost one.
func (w *Worker) registerAgain(ctx context.Context) error {
	flows := w.flows()
	names, _ := w.served()
	there, err := store.AllWorkflows(ctx, w.store, store.ListWorkflowsParams{Namespace: w.namespace, Names: names})
	if err != nil || len(there) == len(flows) {
		return err
	}
	return w.store.PutWorkflows(ctx, store.PutWorkflowsParams{Namespace: w.namespace, Workflows: flows})
}

// signedAtRest: the worker is registered as one that gives few signs of life.
func (w *Worker) signedAtRest() bool {
	w.sign.mu.Lock()
	defer w.sign.mu.Unlock()
	return w.sign.rest
}

// answer gives a sign of life, which a claim that began then has asked for; once for all
// claims that are told before it is given.
func (w *Worker) answer(began time.Time) {
	w.sign.mu.Lock()
	defer w.sign.mu.Unlock()
	if !w.sign.owed && began.After(w.sign.given) {
		w.sign.owed = true
		signal(w.renew)
	}
}

// answered notes that a sign of life was given, or could not be.
func (w *Worker) answered(err error) {
	w.sign.mu.Lock()
	defer w.sign.mu.Unlock()
	if w.sign.owed = false; err == nil {
		w.sign.given = time.Now()
	}
}

// tellDraining shows that the worker takes no more runs.
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

// put tells of the worker's status, and whether it is at rest, in its turn. It is for
// people: what fails is told again later.
func (w *Worker) put(ctx context.Context, status store.WorkerStatus, rest bool) {
	if w.sign.off.Load() {
		return
	}
	row := w.row(status)
	if rest {
		row.TTL, row.Answers = 2*w.restBeat()+w.leaseFor, w.answers()
	}
	if err := w.store.PutWorker(ctx, store.PutWorkerParams{Namespace: w.namespace, Worker: row}); err != nil {
		w.log.Warn("worker could not renew its registration", "error", err)
		return
	}
	w.sign.mu.Lock()
	w.sign.last, w.sign.rest = time.Now(), rest
	w.sign.mu.Unlock()
}

// signOff removes the row for good.
func (w *Worker) signOff() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	w.sign.off.Store(true)
	select {
	case w.sign.turn <- struct{}{}: // a put that is under way has come to its end
		defer func() { <-w.sign.turn }()
	case <-ctx.Done():
	}
	if err := w.store.RemoveWorker(ctx, store.RemoveWorkerParams{Namespace: w.namespace, ID: w.id}); err != nil {
		w.log.Warn("worker could not sign off", "error", err)
	}
}

// What [Worker.Healthy] reports.
var (
	// ErrNotRunning: the worker does not run yet, has not reached the store yet, or
	// has stopped.
	ErrNotRunning = errors.New("the worker is not running")
	// ErrDraining: the worker shuts down and takes no new runs.
	ErrDraining = errors.New("the worker is shutting down")
	// ErrStale: the worker has not been able to renew its leases in time, so that it
	// begins nothing.
	ErrStale = errors.New("the worker's leases are not renewed: the store has not answered for the time of a lease")
)

// Healthy reports whether the worker takes work, for a readiness probe: nil, or
// [ErrNotRunning], [ErrDraining] or [ErrStale]. It asks nobody and returns at once.
// A worker that is stale recovers by itself when the store answers: a probe that
// restarts processes should ask whether they live, and not this.
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
