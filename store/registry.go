package store

import (
	"slices"
	"time"
)

// WorkerStatus says whether a worker takes work.
type WorkerStatus uint8

// The statuses.
const (
	Online   WorkerStatus = 1 + iota
	Draining              // takes no new runs
	Offline               // has not been heard of for its TTL, or has not answered in time
)

func (s WorkerStatus) String() string {
	names := [...]string{"unknown", "online", "draining", "offline"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[0]
}

// Worker is a process that runs workflows.
type Worker struct {
	ID        string
	Host      string
	PID       int
	Queues    []string
	Workflows []string
	// Takes has the pairs that the worker serves: by queue, the workflows whose runs it
	// takes from there. One that was put without it serves each of Workflows in each of
	// Queues.
	Takes  map[string][]string
	Labels map[string]string
	Slots  int
	Limits map[string]int // by workflow: how many of its runs execute at the same time
	Status WorkerStatus   // Online or Draining as it was put; Offline is worked out by ListWorkers
	TTL    time.Duration  // how long it counts as alive after it was heard of
	// Answers is how long it takes at most to give a sign of life when it is asked for
	// one (see [AskWorkersParams]). Zero: it is not asked, for it gives them often.
	Answers time.Duration

	StartedAt time.Time // when it was first put
	SeenAt    time.Time // when it was last put or extended
	AskedAt   time.Time // when it was asked for a sign of life; zero: it has given one since
	Held      int64     // runs that it holds leases of
}

// Serves reports whether the worker takes runs of a workflow from a queue, now: one that
// is not online takes none.
func (w *Worker) Serves(queue, workflow string) bool {
	return w.Status == Online && w.Pairs(queue, workflow)
}

// Pairs reports whether the worker is registered for a workflow in a queue, whatever its
// status.
func (w *Worker) Pairs(queue, workflow string) bool {
	if len(w.Takes) == 0 {
		return slices.Contains(w.Queues, queue) && slices.Contains(w.Workflows, workflow)
	}
	return slices.Contains(w.Takes[queue], workflow)
}

// PutWorkerParams is the input of PutWorker, which registers a worker or changes
// it; a put is a sign of life. StartedAt, SeenAt, AskedAt and Held are the store's.
// Cases: workers/put-and-list, workers/held, workers/offline-after-ttl,
// workers/put-again, workers/pairs, workers/not-needed.
type PutWorkerParams struct {
	Namespace string
	Worker    Worker
	Now       time.Time
}

// RemoveWorkerParams is the input of RemoveWorker; a worker that does not exist
// is no error. Its leases stand until they end. Case: workers/remove.
type RemoveWorkerParams struct {
	Namespace string
	ID        string
}

// AskWorkersParams is the input of AskWorkers, which asks workers for a sign of life: those
// that answer (Answers above zero), that were not heard of for Silent, that are not offline,
// and that are not asked already. It returns how many it has asked. It is for whoever wants
// to know who is alive: a worker at rest writes nothing until somebody asks.
//
// P13: a worker that was asked and has not given a sign of life within its Answers is
// listed as offline, and not a moment earlier. Each sign of life (PutWorker, Extend) is an
// answer, whenever it comes. Cases: workers/asked, workers/asked-once,
// workers/asked-whom, workers/asked-answers.
//
// P18: where nobody is to be asked, nothing is written. A worker learns by its claims that
// it is asked (Claimed.Asked); one that nobody asks reads no more for it. A store with hints
// tells of it by HintRescan. Case: workers/asked-is-told.
//
// Further cases: hints/asked.
type AskWorkersParams struct {
	Namespace string
	Silent    time.Duration // above zero
	Now       time.Time
}

// ListWorkersParams is the input of ListWorkers, which pages through workers by ID. A page
// ends before the worker whose Host, Queues, Workflows, Labels, Limits and Takes would bring
// those of the page above [PageBytes]; all but Host count as JSON. [AllWorkers] reads all
// pages. Cases: workers/without-held, workers/bounded-in-bytes.
//
// P14: workers that are there during the whole listing come exactly once, whatever is put
// and removed meanwhile. A cursor of another query is refused with ErrInvalid. Case:
// workers/pages.
type ListWorkersParams struct {
	Namespace string
	// NoHeld leaves Held zero: to count it may read all active runs.
	NoHeld bool
	Cursor string
	Limit  int // 0: 100; at most MaxPage
	Now    time.Time
}

// WorkerPage is a page of workers; Next is empty on the last one.
type WorkerPage struct {
	Workers []Worker
	Next    string
}

// Workflow is a definition that some worker has registered.
type Workflow struct {
	Name      string
	Queue     string
	Meta      []byte // of the engine's own: options, graph
	UpdatedAt time.Time
}

// PutWorkflowsParams is the input of PutWorkflows, which registers definitions
// or replaces those of the same name, all or none. Cases:
// workflows/put-and-list, workflows/replace, workflows/all-or-none,
// workflows/race.
type PutWorkflowsParams struct {
	Namespace string
	Workflows []Workflow
	Now       time.Time
}

// ListWorkflowsParams is the input of ListWorkflows, which pages through workflows by name.
// A page ends before the workflow whose Meta would bring those of the page above
// [PageBytes]. [AllWorkflows] reads all pages. Case: workflows/bounded-in-bytes.
//
// P14: workflows that are there during the whole listing come exactly once, whatever is
// registered meanwhile. A cursor of another query is refused with ErrInvalid. Case:
// workflows/pages.
type ListWorkflowsParams struct {
	Namespace string
	Names     []string // empty: all
	Cursor    string
	Limit     int // 0: 100; at most MaxPage
}

// WorkflowPage is a page of workflows; Next is empty on the last one.
type WorkflowPage struct {
	Workflows []Workflow
	Next      string
}

// SetPausedParams is the input of SetPaused: runs of a paused queue or a paused
// workflow are not claimed; their leases and times go on. Exactly one of Queue
// and Workflow is set. Cases: pause/queue, pause/workflow,
// pause/queue-and-workflow.
type SetPausedParams struct {
	Namespace string
	Queue     string
	Workflow  string
	Paused    bool
	Now       time.Time
}

// ListPausedParams is the input of ListPaused, which pages through what is paused by
// queue, then workflow. A target is not longer than a name ([MaxName]), so that MaxPage of
// them stay below [PageBytes]. [AllPaused] reads all pages. Case: pause/listed.
//
// P14: what is paused during the whole listing comes exactly once, whatever is paused and
// resumed meanwhile. A cursor of another query is refused with ErrInvalid. Case:
// pause/pages.
type ListPausedParams struct {
	Namespace string
	Cursor    string
	Limit     int // 0: 100; at most MaxPage
}

// PausedPage is a page of what is paused; Next is empty on the last one.
type PausedPage struct {
	Paused []PausedTarget
	Next   string
}

// PausedTarget is a paused queue or workflow: one of the two is set.
type PausedTarget struct {
	Queue    string
	Workflow string
	Since    time.Time
}

// LockParams is the input of Lock: a named lock for housekeeping, held by one
// owner until it runs out. The owner extends it by locking again, and gives it
// back with For 0. Cases: lock/one-owner, lock/expires, lock/release,
// lock/extend, lock/race.
type LockParams struct {
	Namespace string
	Name      string
	Owner     string
	For       time.Duration
	Now       time.Time
}

// LockResult tells whether the caller holds the lock, and if not, who does.
type LockResult struct {
	Held  bool
	Owner string
	Until time.Time
}
