package engine

import (
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
)

// localWorkers knows the worker of this process that takes eager starts.
type localWorkers struct {
	worker atomic.Pointer[attached]
}

type attached struct{ bridge.LocalWorker }

func (e *Engine) attach(w bridge.LocalWorker) {
	if w == nil {
		e.local.worker.Store(nil)
		return
	}
	e.local.worker.Store(&attached{w})
}

// holds reports whether a worker of this process executes the run; [Engine.settle] will
// announce its end.
func (l *localWorkers) holds(id store.ID) bool {
	w := l.worker.Load()
	return w != nil && w.Holds(id)
}

// reserve makes a start eager if possible. A run under limits is always claimed.
func (l *localWorkers) reserve(run *store.NewRun) bridge.LocalWorker {
	w := l.worker.Load()
	if w == nil || run.Worker != "" || len(run.Under) > 0 || run.Debounce != "" || run.After > 0 || !run.At.IsZero() || !w.Reserve(run.Queue, run.Workflow) {
		return nil
	}
	run.Worker, run.Build, run.LeaseFor = w.Identity()
	return w.LocalWorker
}

// adopt passes a started run to the worker, or returns its slot. A lease whose state is
// unknown, or that may have expired before the answer arrived, is left to expire.
func (e *Engine) adopt(w bridge.LocalWorker, run store.NewRun, asked time.Time, res store.CreateResult, err error) {
	if err != nil || !res.Created || res.Lease.Epoch == 0 || time.Since(asked) >= run.LeaseFor {
		w.Release(run.Workflow)
		return
	}
	stored := store.Run{
		ID: res.ID, Namespace: e.namespace, Workflow: run.Workflow, Queue: run.Queue, Status: store.Running,
		Priority: run.Priority, ExternalID: run.ExternalID, Suffix: run.Suffix, Reuse: run.Reuse, Digest: run.Digest, Input: run.Input, Meta: run.Meta, Tags: run.Tags,
		Attempt: 1, Epoch: res.Lease.Epoch, Worker: run.Worker,
		CreatedAt: res.CreatedAt, StartedAt: res.CreatedAt, VisibleAt: res.CreatedAt.Add(run.LeaseFor),
	}
	if run.Timeout > 0 {
		stored.Deadline = res.CreatedAt.Add(run.Timeout)
	}
	w.Adopt(&store.ClaimedRun{Run: stored, Lease: res.Lease, Inbox: store.Inbox{Status: store.Running}}, asked)
}
