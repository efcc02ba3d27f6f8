package engine

import (
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// LocalWorker is a worker in the engine's own process. A start whose workflow it
// serves and for which it has a free slot takes the lease in the same write that
// makes the run (an eager start), which saves the claim.
type LocalWorker interface {
	// Reserve keeps a slot for a run of that queue and workflow; false: none is
	// free, or others wait for it already.
	Reserve(queue, workflow string) bool
	// Identity is what the lease is taken with.
	Identity() (worker string, leaseFor time.Duration)
	// Holds reports whether the worker executes a run. It must not call the engine.
	Holds(id store.ID) bool
	// Adopt hands over the run that was leased for the slot; asked is when the start
	// went out.
	Adopt(run *store.ClaimedRun, asked time.Time)
	// Release gives back the slot that was kept for a run of that workflow.
	Release(workflow string)
}

type localWorkers struct {
	worker atomic.Pointer[attached]
}

type attached struct{ LocalWorker }

// Attach makes a worker of this process known for eager starts; nil ends that.
func (e *Engine) Attach(w LocalWorker) {
	if w == nil {
		e.local.worker.Store(nil)
		return
	}
	e.local.worker.Store(&attached{w})
}

// holds reports whether a worker of this process executes the run; its end will
// be told by [Engine.Settle].
func (l *localWorkers) holds(id store.ID) bool {
	w := l.worker.Load()
	return w != nil && w.Holds(id)
}

// reserve makes a start eager where it can be.
func (l *localWorkers) reserve(run *store.NewRun) LocalWorker {
	w := l.worker.Load()
	if w == nil || run.Worker != "" || run.After > 0 || !run.At.IsZero() || !w.Reserve(run.Queue, run.Workflow) {
		return nil
	}
	run.Worker, run.LeaseFor = w.Identity()
	return w.LocalWorker
}

// adopt hands a started run over, or its slot back. A lease whose fate is not
// known, or that may have run out before the answer came, is left to run out.
func (e *Engine) adopt(w LocalWorker, run store.NewRun, asked time.Time, res store.CreateResult, err error) {
	if err != nil || !res.Created || res.Lease.Epoch == 0 || time.Since(asked) >= run.LeaseFor {
		w.Release(run.Workflow)
		return
	}
	stored := store.Run{
		ID: res.ID, Namespace: e.namespace, Workflow: run.Workflow, Queue: run.Queue, Status: store.Running,
		Priority: run.Priority, ExternalID: run.ExternalID, Suffix: run.Suffix, Reuse: run.Reuse, Digest: run.Digest, Input: run.Input, Meta: run.Meta,
		Attempt: 1, Epoch: res.Lease.Epoch, Worker: run.Worker,
		CreatedAt: res.CreatedAt, StartedAt: res.CreatedAt, VisibleAt: res.CreatedAt.Add(run.LeaseFor),
	}
	if run.Timeout > 0 {
		stored.Deadline = res.CreatedAt.Add(run.Timeout)
	}
	w.Adopt(&store.ClaimedRun{Run: stored, Lease: res.Lease, Inbox: store.Inbox{Status: store.Running}}, asked)
}
