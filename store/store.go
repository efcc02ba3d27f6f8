package store

import (
	"context"
	"time"
)

// Store is what a backend implements. All methods may be called by many
// goroutines and many processes at once. A method that gets a canceled context
// returns that context's error and, for a write, has either applied it or not:
// where the store cannot tell, the error also matches [ErrOutcomeUnknown].
//
// P15: no method shows or changes anything of another namespace than the one it
// is given. Cases: namespaces/runs, namespaces/leases, namespaces/coordination,
// namespaces/registry, namespaces/schedules, namespaces/external-ids,
// namespaces/exact.
type Store interface {
	Runs
	Leases
	Coordination
	Registry
	Schedules

	// Clock returns the store's time.
	Clock(ctx context.Context) (time.Time, error)
	// Features says what this backend can do beyond the contract and what it
	// cannot, each gap with its reason.
	Features() Features
	// Limits returns the sizes that the backend enforces.
	Limits() Limits
	// Close releases what the store holds: connections, goroutines, and the
	// channels of [Hinter]. Calls under way may fail with ErrUnavailable, later
	// ones do; closing again does nothing. Hints of what was written before go out
	// first, unless that takes long. Cases: close/ends-hints,
	// close/then-unavailable, close/under-way, close/tells-first,
	// close/leaves-the-data.
	Close() error
}

// Runs makes, reads and steers runs from outside a lease.
type Runs interface {
	Create(ctx context.Context, p CreateParams) ([]CreateResult, error)
	Get(ctx context.Context, p GetParams) ([]Run, error)
	Find(ctx context.Context, p FindParams) (Run, error)
	List(ctx context.Context, p ListParams) (RunPage, error)
	Count(ctx context.Context, p CountParams) ([]RunCount, error)
	Children(ctx context.Context, p ChildrenParams) ([]Run, error)
	Steps(ctx context.Context, p StepsParams) (StepPage, error)
	Cancel(ctx context.Context, p CancelParams) ([]ControlResult, error)
	Pause(ctx context.Context, p PauseParams) ([]ControlResult, error)
	Restart(ctx context.Context, p RestartParams) error
	Fork(ctx context.Context, p ForkParams) (CreateResult, error)
	Purge(ctx context.Context, p PurgeParams) (int, error)
}

// Leases is the hot path: the three batch verbs by which workers live.
type Leases interface {
	Claim(ctx context.Context, p ClaimParams) (Claimed, error)
	Extend(ctx context.Context, p ExtendParams) ([]LeaseState, error)
	Commit(ctx context.Context, p CommitParams) ([]CommitResult, error)
}

// Coordination is how a run hears from the rest of the world.
type Coordination interface {
	Signal(ctx context.Context, p SignalParams) ([]SignalResult, error)
	SetState(ctx context.Context, p SetStateParams) ([]StateEntry, error)
	GetState(ctx context.Context, p GetStateParams) ([]StateEntry, error)
	Inbox(ctx context.Context, p InboxParams) (Inbox, error)
}

// Registry keeps who works and on what.
type Registry interface {
	PutWorker(ctx context.Context, p PutWorkerParams) error
	RemoveWorker(ctx context.Context, p RemoveWorkerParams) error
	ListWorkers(ctx context.Context, p ListWorkersParams) (WorkerPage, error)
	AskWorkers(ctx context.Context, p AskWorkersParams) (asked int, err error)
	PutWorkflows(ctx context.Context, p PutWorkflowsParams) error
	ListWorkflows(ctx context.Context, p ListWorkflowsParams) (WorkflowPage, error)
	SetPaused(ctx context.Context, p SetPausedParams) error
	ListPaused(ctx context.Context, p ListPausedParams) (PausedPage, error)
	Lock(ctx context.Context, p LockParams) (LockResult, error)
}

// Schedules keeps cron rules and what they fired.
type Schedules interface {
	PutSchedule(ctx context.Context, p PutScheduleParams) (Schedule, error)
	DeleteSchedule(ctx context.Context, p DeleteScheduleParams) error
	ListSchedules(ctx context.Context, p ListSchedulesParams) (SchedulePage, error)
	Fire(ctx context.Context, p FireParams) (FireResult, error)
	ListFirings(ctx context.Context, p ListFiringsParams) (FiringPage, error)
}

// Features describes a backend. Case: features/as-declared.
type Features struct {
	// Name is the backend's name: "sqlite".
	Name string
	// Hints says that the backend implements [Hinter], for the writes of all
	// processes. False leaves those of this process, or none.
	Hints bool
	// SharedClock says that all processes see one clock, the database's. False
	// means the clock of each process's machine.
	SharedClock bool
	// Processes says that several processes may work on the same data.
	Processes bool
	// Transactions says that the backend implements [Transactor].
	Transactions bool
	// Gaps lists what the contract asks for and this backend cannot give.
	Gaps []Gap
}

// Gap is one ability that a backend lacks. The conformance suite holds the gap
// to its word: a case that is excepted for it must fail.
type Gap struct {
	Ability string
	Reason  string
}
