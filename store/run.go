package store

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Status is where a run is in its life.
type Status uint8

// The statuses of a run. Completed, failed and canceled are final.
const (
	Pending   Status = 1 + iota // waits for a worker
	Running                     // leased
	Sleeping                    // waits for its time or an event
	Paused                      // waits for a person
	Canceling                   // canceled; who holds it, or claims it next, is to clean up and to end it
	Completed
	Failed
	Canceled
)

var statusNames = [...]string{Pending: "pending", Running: "running", Sleeping: "sleeping", Paused: "paused", Canceling: "canceling", Completed: "completed", Failed: "failed", Canceled: "canceled"}

// Statuses lists every status in order.
func Statuses() []Status {
	return []Status{Pending, Running, Sleeping, Paused, Canceling, Completed, Failed, Canceled}
}

// Final reports whether a run of this status will never change by itself again.
func (s Status) Final() bool { return s >= Completed }

func (s Status) String() string {
	if int(s) < len(statusNames) && s != 0 {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// MarshalText writes the status's name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a status's name.
func (s *Status) UnmarshalText(b []byte) error {
	for i, name := range statusNames {
		if i > 0 && name == string(b) {
			*s = Status(i)
			return nil
		}
	}
	return Invalid("status", fmt.Sprintf("%q is none of pending, running, sleeping, paused, canceling, completed, failed, canceled", clip(string(b))))
}

// Failure is why a run or a step did not succeed. The store keeps it as it is; of
// text that is not valid UTF-8 it may replace what is not.
type Failure struct {
	Code    string `json:"code"`              // what kind: "error", "panic", "canceled", ...
	Message string `json:"message"`           // for people
	Type    string `json:"type,omitempty"`    // the Go type of the error
	Stack   string `json:"stack,omitempty"`   // of a panic
	Details []byte `json:"details,omitempty"` // of the engine's own
	// Permanent says that trying again is of no use.
	Permanent bool `json:"permanent,omitempty"`
}

// FailureCanceled is the code of the failure that Cancel writes; its message is
// the reason given.
const FailureCanceled = "canceled"

// CanceledWithParent is the reason of a child that is canceled because its parent
// was canceled or is final.
const CanceledWithParent = "canceled with its parent"

func (f *Failure) Error() string { return f.Message }

// ClosePolicy says what becomes of a child when its parent is final.
//
// P11: what is canceled with its parent is canceled in the same write. Cases:
// children/follow-a-final-parent, children/final-ones-stay,
// children/spawned-by-the-last-commit, children/grandchildren-follow,
// children/abandoned-go-on.
type ClosePolicy uint8

// The policies.
const (
	CloseCancel  ClosePolicy = iota // the child is canceled, as [Runs.Cancel] would
	CloseAbandon                    // the child goes on
)

// Run is one execution of a workflow, as it is stored.
type Run struct {
	ID         ID
	Namespace  string
	Workflow   string
	Queue      string
	Status     Status
	Priority   int // higher is claimed first
	ExternalID string
	Suffix     string
	Reuse      Reuse  // when another run may have the external id
	Digest     []byte // of what the run was started with: [NewRun.Digest]; nil: none

	Parent  ID     // zero: none
	Group   string // the parent's group that counts this child; empty: none
	Ordinal int64  // the child's place in its group
	OnClose ClosePolicy

	Input   []byte
	Output  []byte   // of a completed run
	Failure *Failure // of a failed or canceled run; of the last attempt while a retry waits
	Meta    []byte   // of the engine's own, given at creation

	Attempt    int    // 1, and one more for each retry of the run
	Crashes    int    // leases that ran out since the last progress, as [Commit] says; engine.Crashes reads what a worker has noted there
	Generation int    // how often the run has continued as new
	Epoch      int64  // raised by every claim
	Worker     string // the lease holder; of a final run, the holder that ended it; empty: none
	Events     int64  // events that have reached the run: signals, state changes, awaited children, cancel
	Pausing    bool   // pause was asked for while the run is leased

	VisibleAt  time.Time // when it may be claimed; zero when final
	CreatedAt  time.Time
	StartedAt  time.Time // first claim; zero: never
	FinishedAt time.Time // zero unless final
	Deadline   time.Time // zero: none
	ForkedFrom ID

	// Omitted says that Input, Output, Meta and Failure were left out, because the
	// bound of the call in bytes was reached: ask for the run alone.
	Omitted bool
}

// NewRun describes a run to be made.
type NewRun struct {
	ID         ID // required; see [NewID] and [DeriveID]
	Workflow   string
	Queue      string
	Input      []byte
	Meta       []byte
	Priority   int // from MinPriority to MaxPriority; 0 is usual
	ExternalID string
	Suffix     string
	// Reuse says when another run may have the external id.
	Reuse Reuse
	// MustBeNew makes the external id of another run an error, ErrAlreadyExists,
	// instead of giving that run back.
	MustBeNew bool
	// Digest stands for what the run is started with: a few bytes that say how it was
	// made, then a hash, say. A start that meets a run of another workflow, or of a
	// digest made alike that differs, conflicts: see [NewRun.Meets]. Empty compares
	// nothing. The run keeps it for good, also when it continues as new.
	Digest []byte

	// After delays the run by the store's clock; At names an absolute time. The
	// later of both counts. Case: create/later-of-delay-and-time.
	After time.Duration
	At    time.Time
	// Timeout sets the run's deadline, counted from creation; 0: none. A run
	// that is not leased becomes claimable at its deadline at the latest, so
	// that a worker can end it. Cases: create/timeout-sets-deadline,
	// create/deadline-makes-claimable.
	Timeout time.Duration

	// Group, Ordinal and OnClose belong to children, in [Commit.Spawn] alone.
	// Case: children/spawned.
	Group   string
	Ordinal int64
	OnClose ClosePolicy

	// Worker and LeaseFor, when set, take the run's first lease in the same
	// write: the run is made running with epoch 1, and the lease comes back in
	// the result. Not together with After, At or a parent. Where the queue or
	// the workflow is paused the run is made pending, without a lease. Cases:
	// create/eager-lease, create/eager-lease-runs-out,
	// create/eager-on-paused-queue.
	Worker   string
	LeaseFor time.Duration
}

// Priorities lie in this range. Each distinct priority in use costs a claim one
// index lookup.
const (
	MinPriority = -100
	MaxPriority = 100
)

// CreateParams is the input of [Runs.Create].
type CreateParams struct {
	Namespace string
	Runs      []NewRun
	Now       time.Time
}

// CreateResult is the outcome of one [NewRun].
//
// Create makes runs, each independent of the others, in one durable write.
//
// P4: an ID that exists already in the namespace is the same request sent again:
// Created is true, nothing changes, and no lease is given back unless the run
// still has the very lease that the request asked for (epoch 1, that worker).
// Cases: create/repeat-is-one-run, create/repeat-in-one-batch,
// create/repeat-after-finish, create/repeat-of-eager-lease, create/repeat-race.
//
// P8: when a run holds the same namespace, external id and suffix (see [Reuse]), no
// run is made; ID is that run's and Created is false. Concurrent creates agree on one.
// Cases: create/external-id-active, create/external-id-in-one-batch,
// create/external-id-race, create/external-id-free-after-finish,
// create/suffix-makes-another, create/external-id-is-exact,
// create/no-external-id-never-meets, create/eager-without-lease-on-conflict.
//
// An item's Err matches ErrInvalid, ErrTooLarge, ErrAlreadyExists (that ID exists in
// another namespace, or MustBeNew was asked for), or ErrConflict (what was met was
// started otherwise: [NewRun.Meets]). Cases: create/makes-a-pending-run,
// create/batch-in-order, create/empty-batch, create/id-of-another-namespace.
type CreateResult struct {
	ID      ID
	Created bool
	// Repeated says that the run existed already, so that this call made none: of any
	// number of calls with one ID, one at most has Created without Repeated. Where the
	// answer to that one was lost, none has. Case: create/made-once.
	Repeated bool
	Lease    Lease // of a run made with Worker; zero otherwise
	// CreatedAt is when a run with a Lease was made, by the store's clock.
	CreatedAt time.Time
	Err       error
}

// GetParams is the input of Get, which returns the runs of the given IDs, in the
// order of the IDs; those that do not exist in the namespace are left out.
// Cases: get/in-order-without-missing, get/final-only, get/no-input,
// get/bounded-in-bytes, get/seen-by-every-handle.
type GetParams struct {
	Namespace string
	IDs       []ID
	// FinalOnly leaves out the runs that are not final: what a waiter asks.
	FinalOnly bool
	// NoInput leaves Input and Meta unread.
	NoInput bool
	// MaxBytes bounds the inputs, outputs, metas and failures together; 0: no bound.
	// Runs beyond it come with [Run.Omitted] set; the first one is always whole.
	MaxBytes int
}

// FindParams is the input of Find, which returns the run that holds that external id
// and suffix (see [Reuse]), or else the one created last, or ErrNotFound. Case:
// get/find-by-external-id.
type FindParams struct {
	Namespace  string
	ExternalID string
	Suffix     string
}

// RunFilter selects runs. Zero fields select everything.
type RunFilter struct {
	Statuses      []Status
	Workflow      string
	Queue         string
	Parent        ID
	ExternalID    string
	IDPrefix      string // of the ID's text
	CreatedAfter  time.Time
	CreatedBefore time.Time
	// FinishedAfter and FinishedBefore select runs by their end, and so only
	// those that are final.
	FinishedAfter  time.Time
	FinishedBefore time.Time
	// FailureCode selects runs whose Failure has that code, FailureText those in
	// whose failure's message the text occurs, as it is.
	FailureCode string
	FailureText string
	// FailedStep selects runs that have a failed step of that name, in whatever
	// branch. Case: list/by-failure.
	FailedStep string
	// MinAttempt selects runs whose Attempt, or that of a step of theirs that is
	// pending or running, is that high. Case: list/by-attempt.
	MinAttempt int
}

// ListParams is the input of List, which pages through runs in the order of their
// creation, those of one moment in the order of their IDs; newest first unless
// OldestFirst. Input, Output and Meta are left out of the rows. A page ends before the
// run whose failure would bring its failures above [PageBytes]: it may hold fewer runs
// than Limit and have a Next. Cases: list/by-creation, list/bounded-in-bytes.
//
// A page is read by an index on the status and the time of the order. All else that the
// filter asks is looked up in each run, in no more than MaxScan of them: a page ends
// behind the last one looked at, and holds the runs selected so far, if any. The listing
// ends where Next is empty, and not before. A filter by Parent, ExternalID, or an IDPrefix
// of [FewIDs] characters has an index of its own, and no such bound. Case:
// list/bounded-in-scans.
//
// With ByEnd it pages through final runs in the order of their ends, those of
// one end by ID. It reads no run that ended before FinishedAfter or after
// FinishedBefore. Cases: list/by-end, list/by-end-pages.
//
// P14: rows that exist during the whole listing come exactly once, whatever is
// made, changed or purged meanwhile. A cursor of another query is refused with
// ErrInvalid. By their ends, a run that is restarted meanwhile may be left out, or
// come once more when it has ended again. Cases: list/pages-are-exact, list/default-page, list/rows,
// list/empty, list/pages-under-writes, list/pages-under-concurrent-writes,
// list/filters, list/id-prefix, list/foreign-cursor,
// list/cursor-of-the-other-handle.
type ListParams struct {
	Namespace   string
	Filter      RunFilter
	OldestFirst bool
	ByEnd       bool
	Cursor      string
	Limit       int // 0: 100; at most MaxPage
	MaxScan     int // runs that a page may look at; 0: DefaultScan
}

// DefaultScan is how many runs a page of List looks at, and Count of each status, where a
// call names no number of its own.
const DefaultScan = 10_000

// ScanAll is a MaxScan that bounds nothing.
const ScanAll = math.MaxInt

// MaxPage bounds the rows of a page.
const MaxPage = 1000

// PageBytes bounds what the rows of a page hold together, in bytes, where a call names
// no bound of its own: the failures of List, the inputs and metas of ListSchedules, the metas
// of ListWorkflows, the texts of ListWorkers. The first row always comes.
const PageBytes = 2 << 20

// RunPage is a page of runs; Next is empty on the last one.
type RunPage struct {
	Runs []Run
	Next string
}

// CountParams is the input of Count, which counts the runs that the filter
// selects, by queue, workflow and status. Rows of zero are left out; rows come
// in the order of queue, workflow, status, failure code. Cases: list/count,
// list/count-by-failure.
//
// Count looks at no more than MaxScan runs of a status, selected or not: those that were
// made last, or with FinishedAfter or FinishedBefore those of that time that ended last.
// A status of which it looked at so many is capped: its rows have Capped set and are
// lower bounds, and if none of its runs was selected it has a row of zero with Capped
// set, without a queue and a workflow. The rows of all other statuses are exact. A backend
// may look at the statuses that are not final together, and with FinishedAfter or
// FinishedBefore at the final ones; in a namespace of fewer than MaxScan runs, no status
// is capped. A filter by Parent, ExternalID, or an IDPrefix of [FewIDs] characters has an
// index of its own, and its counts are exact. Case: list/count-capped.
type CountParams struct {
	Namespace string
	Filter    RunFilter
	// ByFailure counts runs with different codes of failure apart.
	ByFailure bool
	MaxScan   int // runs of a status that are looked at; 0: DefaultScan
}

// RunCount is a row of Count.
type RunCount struct {
	Queue       string
	Workflow    string
	Status      Status
	FailureCode string // with ByFailure; empty: no failure
	Count       int64
	Capped      bool // there may be more: see [CountParams]
}

// Tally adds n runs to the counts of a call's answer, which stand in the order of queue,
// workflow and status. They have no FailureCode.
func Tally(counts []RunCount, queue, workflow string, status Status, n int64) []RunCount {
	if n == 0 {
		return counts
	}
	at, found := slices.BinarySearchFunc(counts, RunCount{Queue: queue, Workflow: workflow, Status: status}, func(a, b RunCount) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status))
	})
	if !found {
		counts = slices.Insert(counts, at, RunCount{Queue: queue, Workflow: workflow, Status: status})
	}
	counts[at].Count += n
	return counts
}

// ChildrenParams is the input of Children, which returns the children in a
// group of a parent by ordinal, those above After, with their outputs and
// failures, without Input and Meta. Cases: children/list-by-ordinal,
// children/bounded-in-bytes.
type ChildrenParams struct {
	Namespace string
	Parent    ID
	Group     string
	After     int64 // ordinals start at 1; 0 begins
	Limit     int   // 0: 100; at most MaxPage
	// MaxBytes bounds the outputs and failures together; 0: no bound. Children beyond it
	// come with [Run.Omitted] set; the first one is always whole.
	MaxBytes int
}

// CancelParams is the input of Cancel.
//
// P11: a run that has recorded nothing and that no worker holds becomes canceled at
// once, with a failure of code [FailureCanceled] and the reason. A leased run becomes
// canceling, which is an event; the failure is kept on the run until its holder, who
// learns of it by Extend and Commit and may still commit, ends the run as it sees fit: a
// completion that was on its way stands. Descendants get [CanceledWithParent]
// for a reason. Descendants whose close policy is CloseCancel follow in the same
// write, each as a cancel of its own would have it. Cancel of a canceled or canceling
// run succeeds and changes nothing.
// Cases: cancel/pending-is-final, cancel/sleeping-is-final,
// cancel/running-is-canceling, cancel/reason-is-kept, cancel/completion-wins,
// cancel/holder-crashes, cancel/tree, cancel/tree-of-a-leased-root,
// cancel/abandoned-child-lives, cancel/races-claim, cancel/races-completion.
//
// P11: a run that was claimed before and has a step's record, whatever it records,
// may have something to clean up. It becomes canceling also where no worker holds it:
// it is claimable at once, whatever it waited for and though it was paused, and whoever
// claims it gets its history, cleans up, and ends it. A paused queue or workflow holds it
// back as any other run. Until it is final it counts as open in its parent's group, it
// holds its external id, and what is sent to it reaches it. Records that were forgotten do
// not count, nor do those that a fork began with. Cases: cancel/recorded-is-canceling,
// cancel/unrecorded-is-final, cancel/recorded-tree, cancel/recorded-many,
// cancel/recorded-deadline, cancel/recorded-races-claim.
//
// Force ends the runs themselves at once, whoever holds them: a leased run, canceling
// ones included, loses its lease, its epoch is raised, and it becomes canceled with
// this reason. Its holder cannot change it any more (P2), also when it lives; what it
// does outside the store is not undone, and no cleanup runs. Descendants follow as
// they do without Force. Cases: cancel/force, cancel/force-fences-the-holder,
// cancel/force-counts-once, cancel/recorded-force.
//
// An item's Err matches ErrNotFound or ErrFinished (completed or failed). Cases:
// cancel/finished, cancel/repeat. Further cases: cancel/recorded-repeat,
// cancel/recorded-hears, cancel/recorded-held-back,
// cancel/recorded-child-wakes-at-its-end.
type CancelParams struct {
	Namespace string
	IDs       []ID
	Reason    string
	Force     bool
	Now       time.Time
}

// ControlResult is the outcome for one run: its status afterwards.
type ControlResult struct {
	Status Status
	// Ended counts the runs that Cancel made final for this item, the run itself among
	// them, by queue and workflow; see [Tally]. Runs that became canceling are not among
	// them: the commits count that end those. So each end of a run is told once, by
	// the call that made the run final. Cases: cancel/tells-what-it-ended,
	// cancel/tells-ends-once.
	Ended []RunCount
	Err   error
}

// PauseParams is the input of Pause, which pauses or resumes runs.
//
// A run that is not leased becomes paused at once and keeps its time and its
// events. A leased run is marked Pausing; it becomes paused by its holder's next
// commit with a transition that is not final; the mark stays over a takeover.
// Resume makes a paused run what it was (an event that came meanwhile has woken
// it) and unmarks a Pausing one. Both succeed without effect on a run that is so
// already.
//
// An item's Err matches ErrNotFound or ErrFinished. Cases: pause/pending,
// pause/running-at-next-transition, pause/holder-crashes, pause/completion-wins,
// pause/unmark, pause/resume-keeps-time, pause/resume-keeps-retry,
// pause/event-while-paused, pause/children-end-while-paused, pause/finished.
type PauseParams struct {
	Namespace string
	IDs       []ID
	Resume    bool
	Now       time.Time
}

// RestartParams is the input of Restart: a failed or canceled run is pending
// again, with attempt 1 and a raised epoch; steps are forgotten as a [Retry]
// forgets them, its failure and its deadline are cleared. A restarted child no
// longer counts in its parent's group. ErrNotFound; ErrConflict when the run is
// not failed or canceled; ErrAlreadyExists when another run holds its external id.
// Cases: restart/keeps-completed-steps, restart/canceled,
// restart/zombie, restart/child-counts-once, restart/not-finished,
// restart/external-id-taken.
type RestartParams struct {
	Namespace string
	ID        ID
	Now       time.Time
}

// ForkParams is the input of Fork: a new run of the same workflow, queue,
// priority, input and meta, with the completed steps of the old one that were
// recorded before Before. It has no parent, external id or deadline. The old run
// is left alone. ErrNotFound when there is no such run or step; repeating the
// same New ID is one fork (P4). Cases: fork/keeps-steps-before, fork/keeps-all,
// fork/repeat, fork/unknown-step.
type ForkParams struct {
	Namespace string
	ID        ID
	New       ID
	Before    *StepKey // nil: keep every completed step
	Now       time.Time
}

// PurgeParams is the input of Purge, which deletes up to Limit final runs with
// all that belongs to them, oldest first, and returns how many. A child whose
// parent is not final is kept, for its parent may still read it. Cases:
// purge/only-final-and-old, purge/selects, purge/limit,
// purge/with-all-that-belongs, purge/keeps-children-of-live-parents.
type PurgeParams struct {
	Namespace string
	Workflow  string        // empty: any
	Statuses  []Status      // empty: any final status
	OlderThan time.Duration // since FinishedAt, by the store's clock
	Limit     int           // 0: 1000
	Now       time.Time
}
