package store

import "time"

// WorkerStatus says whether a worker takes work.
type WorkerStatus uint8

// The statuses.
const (
	Online   WorkerStatus = 1 + iota
	Draining              // takes no new runs
	Offline               // has not been heard of for its TTL
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
	Labels    map[string]string
	Slots     int
	Limits    map[string]int // by workflow: how many of its runs execute at the same time
	Status    WorkerStatus   // Online or Draining as it was put; Offline is worked out by ListWorkers
	TTL       time.Duration  // how long it counts as alive after it was heard of

	StartedAt time.Time // when it was first put
	SeenAt    time.Time // when it was last put or extended
	Held      int64     // runs that it holds leases of
}

// PutWorkerParams is the input of PutWorker, which registers a worker or changes
// it; a put is a sign of life. StartedAt, SeenAt and Held are the store's.
// Cases: workers/put-and-list, workers/held, workers/offline-after-ttl,
// workers/put-again, workers/not-needed.
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

// ListWorkersParams is the input of ListWorkers, which lists by ID. Case:
// workers/without-held.
type ListWorkersParams struct {
	Namespace string
	// NoHeld leaves Held zero: to count it may read all active runs.
	NoHeld bool
	Now    time.Time
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

// ListWorkflowsParams is the input of ListWorkflows, which lists by name; Names
// empty: all.
type ListWorkflowsParams struct {
	Namespace string
	Names     []string
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

// ListPausedParams is the input of ListPaused, which lists by queue, then
// workflow. Case: pause/listed.
type ListPausedParams struct {
	Namespace string
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
