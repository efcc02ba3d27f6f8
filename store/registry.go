package store

import (
	"context"
	"slices"
	"time"
)

// Registry stores which workers there are and what they work on, the workflows, what is paused, and
// locks. The rules at [Store] hold for every method.
type Registry interface {
	// PutWorker registers a worker, or replaces the one of that ID, except for its StartedAt. It is
	// a sign of life. The store sets StartedAt, SeenAt, AskedAt and Held. A worker need not be
	// registered to claim.
	//
	// P13: from SeenAt plus TTL on, exact to the microsecond, a worker is offline, until it gives a
	// sign of life again. TTL and Answers are kept in whole microseconds, rounded up.
	//
	// P4: if the answer is lost, send the call again. It returns ErrInvalid for a TTL that
	// is not above zero, or a Status that is neither Online nor Draining.
	PutWorker(ctx context.Context, p PutWorkerParams) error

	// RemoveWorker removes a worker. Its leases stay valid until they end. P4: removing a worker
	// that does not exist is not an error.
	RemoveWorker(ctx context.Context, p RemoveWorkerParams) error

	// ListWorkers returns a page of the workers, by ID, with their Status at the store's clock and
	// the number of leases that they hold. Next is the cursor of the next page, and empty on the
	// last page. [AllWorkers] reads all pages.
	//
	// A page ends before the worker whose Host, Queues, Workflows, Labels, Limits and Takes would
	// bring those of the page above [PageBytes]; all but Host count as JSON. The first worker is
	// always returned. NoHeld leaves Held zero: counting may read all active runs.
	//
	// P14: workers that exist during the whole listing are returned exactly once, whatever is put
	// and removed in the meantime, even if the worker that the cursor names is removed. A cursor of
	// another query is ErrInvalid.
	ListWorkers(ctx context.Context, p ListWorkersParams) (WorkerPage, error)

	// AskWorkers asks workers for a sign of life, and returns how many it has asked: those that
	// answer (Answers above zero), that gave no sign of life for Silent or longer, that are not
	// offline, and that are not asked already. Use it to find out which workers are alive: an idle
	// worker writes nothing until it is asked.
	//
	// P13: a worker that was asked and has not given a sign of life within its Answers is listed as
	// offline from AskedAt plus Answers on, and not earlier. Asking it again gives it no more time.
	// Each sign of life ([Registry.PutWorker], [Leases.Extend]) is an answer, whenever it arrives;
	// after it the worker may be asked again. Of two concurrent calls, only one asks a given
	// worker.
	//
	// P18: if there is no worker to ask, nothing is written. A worker learns from its claims that
	// it is asked ([Claimed.Asked]), whether there is work or not, until it has given a sign of
	// life. It gives one with Extend, without leases if it holds none. Asked may be false once if
	// the worker was asked while the claim was in progress, and a claim that names no workflow does
	// not report it. Claims of a worker that is not asked read nothing more for this. A store with
	// hints sends a HintRescan.
	//
	// P4: if the answer is lost, send the call again. It asks no worker twice, and does not count
	// those that the first call asked.
	AskWorkers(ctx context.Context, p AskWorkersParams) (asked int, err error)

	// ListBuilds returns a page of the builds, by name: those of the workers that are not
	// offline, those that unfinished runs are pinned to, and those that recorded the last step of
	// an unfinished run. Next is the cursor of the next page, and empty on the last page.
	// [AllBuilds] reads all pages.
	//
	// P18: Pinned is exact; an index of the pinned runs is read for it. For Runs, a page looks at
	// no more than MaxScan unfinished runs, those created last. If there are more, its builds are
	// Capped, and a build that only the other runs name may be left out.
	//
	// P14: builds that have a worker or a pinned run during the whole listing are returned exactly
	// once, whatever is put, pinned and unpinned in the meantime. A cursor of another query is
	// ErrInvalid.
	ListBuilds(ctx context.Context, p ListBuildsParams) (BuildPage, error)

	// PutWorkflows registers definitions, or replaces those of the same name, all or none (P3). The
	// store sets UpdatedAt. P4: a repeated call registers the same definitions. If several calls
	// register the same workflows concurrently, in any order, all succeed. A call takes at most
	// [MaxBatch] workflows. It returns ErrInvalid or ErrTooLarge.
	PutWorkflows(ctx context.Context, p PutWorkflowsParams) error

	// ListWorkflows returns a page of the workflows, of the given names or all, by name. Next is
	// the cursor of the next page, and empty on the last page. [AllWorkflows] reads all pages. A
	// page ends before the workflow whose Meta would bring those of the page above [PageBytes]; the
	// first workflow is always returned.
	//
	// P14: workflows that exist during the whole listing are returned exactly once, whatever is
	// registered in the meantime. A cursor of another query is ErrInvalid.
	ListWorkflows(ctx context.Context, p ListWorkflowsParams) (WorkflowPage, error)

	// PauseTarget pauses a queue or a workflow, or resumes it with Resume. Runs of a paused queue,
	// and runs of a paused workflow in any queue, are not claimed (P13); their leases and times
	// continue. A run whose queue and workflow are both paused waits for both. This holds for claims
	// that begin after PauseTarget has returned. A claim, or a create with a lease, that is in
	// progress meanwhile may still see what was paused before. P4: pausing what is paused, or
	// resuming what is not, changes nothing and is not an error.
	PauseTarget(ctx context.Context, p PauseTargetParams) error

	// ListPaused returns a page of what is paused, by queue, then workflow, each with the time at
	// which it was paused. Next is the cursor of the next page, and empty on the last page.
	// [AllPaused] reads all pages. A target is not longer than a name ([MaxName]), so that MaxPage
	// of them stay below [PageBytes].
	//
	// P14: what is paused during the whole listing is returned exactly once, whatever else is
	// paused and resumed in the meantime. A cursor of another query is ErrInvalid.
	ListPaused(ctx context.Context, p ListPausedParams) (PausedPage, error)

	// Lock takes a named housekeeping lock for an owner, until the lock expires, and reports
	// whether the owner holds it.
	//
	// P1: a lock has one owner. Of concurrent callers one gets it; the others are told who holds it
	// and until when, which is not an error. P13: the lock expires For after the store's clock, not
	// before. The owner extends it by locking again, which starts a new period (P4), and releases
	// it with For 0. Nobody else can release it.
	Lock(ctx context.Context, p LockParams) (LockResult, error)
}

// WorkerStatus says whether a worker takes work.
type WorkerStatus uint8

// The statuses.
const (
	Online   WorkerStatus = 1 + iota
	Draining              // takes no new runs
	Offline               // has given no sign of life for its TTL, or has not answered in time
)

// String returns the status in lower case, or the type's name with the number if s is none of the
// statuses.
func (s WorkerStatus) String() string {
	names := [...]string{"unknown", "online", "draining", "offline"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[0]
}

// Worker is a process that runs workflows. Its PID, Slots and Limits are not negative and fit into
// 32 bits; otherwise PutWorker returns ErrInvalid.
type Worker struct {
	ID        string
	Host      string // the name of the machine
	PID       int    // the process id on it
	Queues    []string
	Workflows []string
	// Takes contains the pairs that the worker serves: for each queue, the workflows whose runs it
	// takes from there. A worker that was put without it serves each of Workflows in each of
	// Queues.
	Takes  map[string][]string
	Labels map[string]string
	Build  string // of the code that it runs; empty: it has none
	Slots  int
	Limits map[string]int // for each workflow, how many of its runs may execute concurrently
	Status WorkerStatus   // Online or Draining as it was put; ListWorkers determines Offline
	// TTL is how long the worker counts as alive after a sign of life: from SeenAt plus TTL on it
	// is offline. See [Registry.PutWorker].
	TTL time.Duration
	// Answers is the longest time that the worker takes to give a sign of life when it is asked for
	// one (see [Registry.AskWorkers]): from AskedAt plus Answers on it is offline. If it is zero,
	// the worker is not asked, because it gives signs of life often.
	Answers time.Duration

	StartedAt time.Time // when it was first put
	SeenAt    time.Time // when it was last put or extended
	AskedAt   time.Time // when it was asked for a sign of life; zero: it has given one since
	Held      int64     // number of runs that it holds leases of
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

// PutWorkerParams is the input of [Registry.PutWorker].
type PutWorkerParams struct {
	Namespace string
	Worker    Worker
	Now       time.Time
}

// RemoveWorkerParams is the input of [Registry.RemoveWorker].
type RemoveWorkerParams struct {
	Namespace string
	ID        string
}

// AskWorkersParams is the input of [Registry.AskWorkers].
type AskWorkersParams struct {
	Namespace string
	Silent    time.Duration // above zero
	Now       time.Time
}

// ListWorkersParams is the input of [Registry.ListWorkers].
type ListWorkersParams struct {
	Namespace string
	// NoHeld leaves Held zero: counting may read all active runs.
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
	Meta      []byte // for the engine: options, graph
	UpdatedAt time.Time
}

// PutWorkflowsParams is the input of [Registry.PutWorkflows].
type PutWorkflowsParams struct {
	Namespace string
	Workflows []Workflow
	Now       time.Time
}

// ListWorkflowsParams is the input of [Registry.ListWorkflows].
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

// PauseTargetParams is the input of [Registry.PauseTarget]. Exactly one of Queue and Workflow
// is set.
type PauseTargetParams struct {
	Namespace string
	Queue     string
	Workflow  string
	Resume    bool // resume the target instead
	Now       time.Time
	Record    []Action // see [Journal]
}

// ListPausedParams is the input of [Registry.ListPaused].
type ListPausedParams struct {
	Namespace string
	Cursor    string
	Limit     int // 0: 100; at most MaxPage
}

// PausedPage is a page of paused targets; Next is empty on the last one.
type PausedPage struct {
	Paused []PausedTarget
	Next   string
}

// PausedTarget is a paused queue or workflow: one of the two is set.
type PausedTarget struct {
	Queue    string
	Workflow string
	Since    time.Time // when it was paused
}

// LockParams is the input of [Registry.Lock].
type LockParams struct {
	Namespace string
	Name      string
	Owner     string
	For       time.Duration // 0: release it
	Now       time.Time
}

// LockResult says whether the caller holds the lock, and if not, who does.
type LockResult struct {
	Held  bool      // the caller holds the lock now
	Owner string    // who holds it
	Until time.Time // when it expires, unless its owner extends it
}
