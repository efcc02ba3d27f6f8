package store

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// Runs creates runs, reads them, and controls them from outside a lease. The rules at [Store] hold
// for every method.
type Runs interface {
	// Create creates runs, all in one durable write, and returns one result per run, in the order
	// of p.Runs. An empty list is not an error. A reader sees all runs that a call created, or none
	// of them. The runs are independent of each other: one that is refused does not affect the
	// others.
	//
	// P13: a new run is pending, with Attempt 1 and Epoch 0, and CreatedAt is the store's
	// clock. It is due at CreatedAt, at CreatedAt plus After, or at At, whichever is the
	// latest, and is not claimed before. With a Timeout its Deadline is CreatedAt plus
	// Timeout. A run with a deadline that is not leased becomes claimable at the deadline at
	// the latest, so that a worker can end it.
	//
	// A run with Worker and LeaseFor is running from the start (an eager start): the same write
	// creates it and gives that worker its first lease, of epoch 1, which the result returns with
	// CreatedAt. P6: that lease expires like any other. If the queue or the workflow is paused, the
	// run is created pending, without a lease; so is a run that is under limits ([NewRun.Under]).
	//
	// P4: a request whose ID the namespace already has is the same request sent again, also within
	// one call and after the run has finished. Nothing changes, and the result has Created and
	// Repeated set. It has the Lease only if the run still has the lease that the request asked
	// for: epoch 1, of that worker. Of any number of calls with one ID, at most one has Created
	// without Repeated; if the answer to that one was lost, none has.
	//
	// P8: if another run holds the same namespace, external id and suffix (see [Reuse]), no run is
	// created and no lease is granted. The result has that run's ID, and Created is false.
	// Concurrent creates agree on one run. Runs without an external id do not conflict. A request
	// with MustBeNew or a Digest may fail instead of returning the run that it found;
	// [NewRun.Meets] decides that, also for a run of the same ID.
	//
	// P28: of a namespace, a workflow and a key of [NewRun.Debounce], at most one run can be replaced:
	// the last one that was created, as long as it is pending or paused and its Epoch is 0: it has
	// never been leased, and not been restarted. A start with the key replaces that run's Input, Meta,
	// Under and Tags with its own, and its due time and deadline with those that its own After, At and
	// Timeout give now; the due time is at most AtMost after the run's CreatedAt. Everything else of the run stays. The result has the
	// run's ID, and Created is false. If no run can be replaced, the start creates one. Concurrent
	// starts agree on one run, and the last of them decides its input. A claim has the input of all
	// starts before it, and a start that comes later creates another run: no input is lost, and none
	// is executed twice. P4: for [DebounceMemory], and as long as the run is kept, the store knows
	// a start that has replaced by its ID; sent again it changes nothing, and its result is the same.
	//
	// A request with a Signal delivers that signal in the same write: to the active run that holds
	// the external id and suffix, or to the run that the request creates because none holds them. P8:
	// of concurrent requests for one external id, one creates the run, and the signals of all reach
	// it. P17: the run has the signal in its inbox from its creation on; in every other respect the
	// signal is one of [Coordination.Signal]: an event of the run, which wakes a sleeping run that
	// asked for signals and sends a hint, in every status that is not final. It is never stored
	// without a run that is active, and no run is created without it. P4: a request whose signal a
	// stored run that holds the external id, or has held it, has received is the same request sent
	// again: nothing changes, and the result names that run, also after its end.
	// [NewRun.Reaches] decides what becomes of a run that is in the way. Of several items of a call with
	// one external id, a store may take those with a Signal before the others or after them, and those
	// with a Signal whose ID another run has after those that create a run.
	//
	// A call takes at most [MaxBatch] runs; with more, the whole call is ErrInvalid. It takes
	// at least [CallBytes] of inputs, metas and payloads of signals. P12: a run over a limit of [Limits] is
	// not stored.
	//
	// An item's Err matches ErrInvalid, ErrTooLarge, ErrAlreadyExists (the ID exists in another
	// namespace, or MustBeNew found another run), or ErrConflict (the run that it found was started
	// differently); with a Signal also ErrFinished (the run that holds the external id is final). If
	// Err is set, ID names the run that was found, or is zero; all other fields are zero. If the answer to a call is lost, send the same call again.
	Create(ctx context.Context, p CreateParams) ([]CreateResult, error)

	// Get returns the runs of the given IDs, in the order of the IDs. It leaves out IDs
	// that do not exist in the namespace, and with FinalOnly the runs that are not final.
	//
	// P3: all runs are read at one moment: if a write changes several of them, Get shows all of its
	// changes or none. Every later Get, through any handle, sees a write that has returned.
	//
	// MaxBytes limits the inputs, outputs, metas and failures together. Runs beyond it are returned
	// with [Run.Omitted] set; the first run is always complete. With NoInput, Input and Meta are
	// not read. A call takes at most [MaxBatch] IDs.
	Get(ctx context.Context, p GetParams) ([]Run, error)

	// Find returns the run that holds the external id and suffix (see [Reuse]), or else
	// the run of that external id and suffix that was created last. It returns ErrNotFound if
	// there is none.
	//
	// P8: it reads at one moment. A run that ends and is restarted in the meantime is found.
	Find(ctx context.Context, p FindParams) (Run, error)

	// List returns a page of the runs that a filter selects, in the order of their creation, and by
	// ID if those times are equal: newest first, or oldest first with OldestFirst. With ByEnd it
	// returns final runs, in the order of their ends, and by ID if those times are equal. Rows are
	// runs as Get returns them, without Input, Output and Meta. A page shows the runs as they were
	// at one moment.
	//
	// Next is the cursor of the next page, and empty on the last page. The listing ends when Next
	// is empty, and not before: a page may have fewer runs than Limit, or none, and still have a
	// Next.
	//
	// P14: rows that exist during the whole listing are returned exactly once, whatever is created,
	// changed or purged in the meantime. With ByEnd, a run that is restarted in the meantime may be
	// left out, or returned once more when it has ended again. A cursor stands for a place in the
	// order. It is valid at every handle, and stays valid when the run at that place is purged. A
	// cursor of another query, listing or namespace is ErrInvalid.
	//
	// A page ends before the run whose failure would bring the failures of the page above
	// [PageBytes]; the first run is always returned.
	//
	// P18: a page reads an index on the status and the time of the order. All other conditions of
	// the filter are checked for each run, for at most MaxScan runs: the page ends after the last
	// run looked at, with the runs selected so far. A filter by Parent, by ExternalID, or by an
	// IDPrefix of [FewIDs] characters has an index of its own and no such limit. Of the runs that
	// are not final, a filter by PinnedTo with at most [FewBuilds] builds looks only at those that
	// are pinned to one of them; an index on the build has them. A filter by Tags, of which one has
	// Values, looks only at runs that have one of these values; an index on the tag has them in the
	// order of their creation (P26). With ByEnd, Tags are checked for each run. With ByEnd, no run
	// is read that ended before FinishedAfter or after FinishedBefore.
	List(ctx context.Context, p ListParams) (RunPage, error)

	// Count counts the runs that a filter selects, by queue, workflow and status, and with
	// ByFailure also by failure code. Rows are in the order of queue, workflow, status and failure
	// code; rows of zero are left out. All rows are read at one moment: a run whose status changes
	// in the meantime is counted once.
	//
	// Count looks at no more than MaxScan runs of a status, selected or not: those created last,
	// or, with FinishedAfter or FinishedBefore, those in that period that ended last. A status of
	// which it looked at that many runs is capped. The rows of a capped status have Capped set and
	// are lower bounds. If none of its runs was selected, the status has one row of zero with
	// Capped set, without a queue and a workflow. The rows of all other statuses are exact.
	//
	// A backend may share MaxScan among the statuses that are not final, and, with
	// FinishedAfter or FinishedBefore, among the final ones. In a namespace of fewer than
	// MaxScan runs, no status is capped. A filter by Parent, by ExternalID, or by an IDPrefix
	// of [FewIDs] characters has an index of its own, and its counts are exact. Of the runs that are
	// not final, a filter by PinnedTo looks at the same runs as in List. So does a filter by Tags of
	// which one has Values, unless it has FinishedAfter or FinishedBefore; then MaxScan is shared
	// among all statuses.
	Count(ctx context.Context, p CountParams) ([]RunCount, error)

	// Children returns the children in one group of a parent, in the order of their ordinals: those
	// with an Ordinal above After, at most Limit of them. They come with their outputs and
	// failures, without Input and Meta. A page of Limit children has a Next, which is the After of
	// the next page; on a shorter page, the last one, Next is zero. A parent or a group that does
	// not exist has no children, which is not an error.
	//
	// MaxBytes limits the outputs and failures together. Children beyond it are returned with
	// [Run.Omitted] set; the first one is always complete. P14: After need not name a child that
	// still exists.
	Children(ctx context.Context, p ChildrenParams) (ChildPage, error)

	// Steps returns a page of a run's steps, in the order of Position, whatever the order
	// in which they were recorded: those with a Position above After. If further steps follow,
	// Next is the After of the next page; on the last page it is zero. It returns ErrNotFound
	// if there is no such run.
	//
	// A page ends after Limit steps, or before the step whose output and failures would bring those
	// of the page above MaxBytes; it contains at least one step. A store whose answers have a limit of
	// their own may end a page before a step that would bring it above a mebibyte. P14: After need
	// not name a step that still exists.
	Steps(ctx context.Context, p StepsParams) (StepPage, error)

	// Cancel cancels runs and returns one result per run, in the order of p.IDs: its
	// status afterwards, and the runs that the cancel made final.
	//
	// P11: a run that no worker holds and that has recorded nothing becomes canceled at once,
	// with a failure of code [FailureCanceled] and the reason.
	//
	// P11: a leased run becomes canceling, which is an event. Its failure is kept on the run. The
	// holder learns of the cancel by Extend and Commit. It keeps its lease, may still commit, and
	// decides how the run ends: a completion or a failure that was already being committed counts.
	// If the holder dies, the run stays canceling, and the worker that claims it next ends it. A
	// pending pause ([Run.Pausing]) is cleared, because a canceled run has to end.
	//
	// P11: a run that was claimed before and has the record of a step, whatever it records, may
	// have something to clean up. It becomes canceling although no worker holds it, and is
	// claimable at once, whatever it waited for, and also if it was paused. The worker that claims
	// it gets its history, cleans up, and ends it. It is not claimed while its queue or workflow is
	// paused. Until it is final it counts as open in its parent's group, holds its external id, and
	// receives signals, state and the ends of children; these change neither its status nor its
	// time. Records that were deleted do not count, nor do those that a fork began with.
	//
	// P11: descendants whose close policy is [CloseCancel] are canceled in the same write, each as
	// if it were canceled itself, with the reason [CanceledWithParent]. They are canceled at once,
	// even if the run itself is only canceling. Children with [CloseAbandon] continue, and so do
	// their own children.
	//
	// Force ends the runs themselves at once, whoever holds them and whatever they have recorded,
	// canceling ones included. A leased run loses its lease, its epoch is increased, and it becomes
	// canceled with this reason. P2: its holder can no longer change it, even if the holder is
	// alive. What the holder does outside the store is not undone, and no cleanup runs. Descendants
	// are canceled as they are without Force.
	//
	// P4: Cancel of a canceled run, or without Force of a canceling one, succeeds and changes
	// nothing. If the answer to a call is lost, send the same call again; the ends that the lost
	// answer reported are not reported again.
	//
	// A call takes at most [MaxBatch] IDs. An item's Err matches ErrNotFound, or ErrFinished for a
	// run that has completed or failed, with that run's Status.
	Cancel(ctx context.Context, p CancelParams) ([]ControlResult, error)

	// Pause pauses runs, or resumes them with Resume, and returns one result per run, in
	// the order of p.IDs.
	//
	// A run that is not leased becomes paused at once. It keeps its time and its events, and is not
	// claimed until it is resumed. A leased run is marked Pausing; its holder learns of this from
	// Extend and Commit. It becomes paused by its holder's next commit with a transition that is
	// not final; a final transition ends it. The mark stays when the lease expires and another
	// worker claims the run.
	//
	// Resume gives a paused run the status and the time that it had (P13: it is not claimed
	// earlier). P5: if an event or an end of children that it slept for happened in the meantime,
	// the run is awake. Resume of a run that is marked Pausing clears the mark.
	//
	// Both succeed and change nothing on a run that is already paused, or not paused. P11: the same
	// holds for a canceling run, whether a worker holds it or not, because it has to end. P4: if
	// the answer is lost, send the call again.
	//
	// A call takes at most [MaxBatch] IDs. An item's Err matches ErrNotFound, or ErrFinished for a
	// final run, with that run's Status.
	Pause(ctx context.Context, p PauseParams) ([]ControlResult, error)

	// Unpin removes the pins of runs, so that claims of any build take them (P19), and returns one
	// result per run, in the order of p.IDs. Nothing else of a run changes: its status, its times
	// and its lease, if a worker holds it, stay.
	//
	// A call takes at most [MaxBatch] IDs. An item's Err matches ErrNotFound, ErrFinished for a
	// final run, or ErrConflict for a run that is not pinned; with the last two, Status is that of
	// the run. A run that is named twice in a call is unpinned once, and the second item's Err
	// matches ErrConflict.
	//
	// P4: if a call is sent again after a lost answer, it changes no run that the first call unpinned.
	// The Err of such an item matches ErrConflict, which says that the run is not pinned and not which
	// call unpinned it. A caller that knows of the lost answer treats it as success.
	Unpin(ctx context.Context, p UnpinParams) ([]ControlResult, error)

	// Restart makes failed and canceled runs pending again, and returns one result per run, in the
	// order of p.IDs. A restarted run is due at once, with Attempt 1, no Crashes, no Pin, and its
	// epoch increased by one.
	//
	// P3: its completed steps stay, and failed ones are deleted as by a [Retry]. Its failure and
	// its deadline are cleared. A reader sees each run restarted completely or not at all. P2: the
	// previous holder has lost its lease: even a commit that it sends again gets ErrLeaseLost.
	//
	// P24: it holds no permit, and waits for none of a step.
	//
	// P9: a restarted child keeps its Parent and leaves its group, which has counted its
	// end. It has no Group and no Ordinal, is not among the children of the group, and does
	// not count or wake there any more.
	//
	// P8: a restarted run holds its external id again. Of several runs of a call that have
	// one external id and suffix, the first that can be restarted gets it.
	//
	// A call takes at most [MaxBatch] IDs. An item's Err matches ErrNotFound, ErrConflict for a run
	// that is neither failed nor canceled, also one that an earlier item of the call has restarted,
	// or ErrAlreadyExists if another run holds the external id. With ErrConflict and
	// ErrAlreadyExists, Status is that run's. Restart is not repeatable: if the answer was lost and
	// the same call is sent again, the items that the first call restarted are ErrConflict.
	Restart(ctx context.Context, p RestartParams) ([]ControlResult, error)

	// Fork creates a run, p.New, with the workflow, queue, priority, limits, tags, input and meta of an old run, and with the
	// completed steps of the old run that were recorded before p.Before: those with a lower Position. The new run is
	// pending and due at once. It has no parent, external id, deadline or pin; its Build is that of the old run, and
	// ForkedFrom names the old run. The old run, which may be active or itself a fork, does not change.
	//
	// P3: the fork is created completely, from the state of the old run at one moment.
	//
	// P4: if New exists in the namespace, this is the same fork sent again: it succeeds with Created and Repeated, and
	// changes nothing, even if the old run is gone.
	//
	// It returns ErrNotFound if there is no such run or no such step, and ErrAlreadyExists if another namespace has
	// New. If it returns an error, the result is zero; the result's own Err is never set.
	Fork(ctx context.Context, p ForkParams) (CreateResult, error)

	// Purge deletes up to Limit final runs that ended OlderThan or longer ago, with everything that
	// belongs to them, those that ended first. It returns how many it deleted.
	//
	// P9: a child whose parent is not final is kept, because its parent may still read it. P29: a store
	// with [TreeReader] also keeps a child that has groups of its own as long as a run is not final whose tree
	// it is in. P3: a
	// run is deleted together with everything that belongs to it; a reader sees it completely until
	// then. A run that another call is writing to, or considers for a claim or a purge, may be
	// left for a later purge. P8: an external id that the run held is free. If the answer to a call
	// is lost, send it again; it deletes what is left.
	Purge(ctx context.Context, p PurgeParams) (int, error)
}

// CreateParams is the input of [Runs.Create].
type CreateParams struct {
	Namespace string
	Runs      []NewRun
	Now       time.Time // zero: the store's clock
}

// CreateResult is the outcome of one [NewRun].
type CreateResult struct {
	ID      ID   // of the run, or of the one that was found
	Created bool // the run of the request exists: this call created it, or an earlier one did
	// Repeated says that the run existed already, so that this call created none.
	Repeated bool
	Lease    Lease // of a run made with Worker; zero otherwise
	// CreatedAt is when a run with a Lease was created, by the store's clock.
	CreatedAt time.Time
	Err       error
}

// GetParams is the input of [Runs.Get].
type GetParams struct {
	Namespace string
	IDs       []ID
	FinalOnly bool // leave out the runs that are not final, as callers do that wait for runs
	NoInput   bool // do not read Input and Meta
	// MaxBytes limits the inputs, outputs, metas and failures together; 0: no limit.
	MaxBytes int
}

// FindParams is the input of [Runs.Find].
type FindParams struct {
	Namespace  string
	ExternalID string // required
	Suffix     string
}

// RunFilter selects runs: those that match every field that is set. The zero filter
// selects all.
type RunFilter struct {
	Statuses   []Status
	Workflow   string
	Queue      string
	Parent     ID
	ExternalID string
	IDPrefix   string // a prefix of the ID's text, in either case, with or without dashes
	// CreatedAfter and CreatedBefore select runs by their creation. These limits, and those of the
	// end, are exclusive: they leave out the runs of that very microsecond. Limits are truncated to
	// microseconds.
	CreatedAfter  time.Time
	CreatedBefore time.Time
	// FinishedAfter and FinishedBefore select runs by their end, and therefore only final runs.
	FinishedAfter  time.Time
	FinishedBefore time.Time
	// FailureCode selects runs whose Failure has that code; FailureText those whose failure's
	// message contains the text, byte by byte.
	FailureCode string
	FailureText string
	// FailedStep selects runs that have a failed step of that name, in any branch.
	FailedStep string
	// MinAttempt selects runs that have at least that Attempt, or a pending or running step that
	// does.
	MinAttempt int
	// Pinned selects runs that have a Pin; PinnedTo those pinned to one of these builds.
	Pinned   bool     `json:",omitempty"`
	PinnedTo []string `json:",omitempty"`
	// Tags selects runs that all of these matches select, at most [MaxTags].
	Tags []TagMatch `json:",omitempty"`
}

// ListParams is the input of [Runs.List].
type ListParams struct {
	Namespace   string
	Filter      RunFilter
	OldestFirst bool
	ByEnd       bool   // final runs, in the order of their ends
	Cursor      string // Next of the previous page; empty: from the beginning
	Limit       int    // 0: 100; at most MaxPage
	MaxScan     int    // runs that a page may look at; 0: DefaultScan
}

// DefaultScan is how many runs a page of List looks at, and Count for each status, if a call sets
// no number of its own.
const DefaultScan = 10_000

// ScanAll is a MaxScan without a limit.
const ScanAll = math.MaxInt

// MaxPage limits the rows of a page.
const MaxPage = 1000

// PageBytes limits the size of the rows of a page together, in bytes, if a call sets no limit of
// its own: the failures of List, the inputs and metas of ListSchedules, the metas of ListWorkflows,
// the texts of ListWorkers. The first row is always returned.
const PageBytes = 2 << 20

// RunPage is a page of runs; Next is empty on the last one.
type RunPage struct {
	Runs []Run
	Next string
}

// CountParams is the input of [Runs.Count].
type CountParams struct {
	Namespace string
	Filter    RunFilter
	ByFailure bool // count runs with different failure codes separately
	MaxScan   int  // how many runs of a status to look at; 0: DefaultScan
}

// RunCount is a row of [Runs.Count].
type RunCount struct {
	Queue       string
	Workflow    string
	Status      Status
	FailureCode string // with ByFailure; empty: no failure
	Count       int64
	Capped      bool // Count is a lower bound: see [Runs.Count]
}

// Tally adds n runs to the counts of a call's answer, which are in the order of queue, workflow and
// status, and returns them in that order. They have no FailureCode. For an n of 0 it returns counts
// unchanged.
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

// ChildrenParams is the input of [Runs.Children].
type ChildrenParams struct {
	Namespace string
	Parent    ID
	Group     string
	After     int64 // Next of the previous page; 0: from the beginning
	Limit     int   // 0: 100; at most MaxPage
	MaxBytes  int   // limits the outputs and failures together; 0: no limit
}

// ChildPage is a page of children; Next is zero on the last one.
type ChildPage struct {
	Children []Run
	Next     int64 // the Ordinal of the last child of a full page
}

// PageOf makes the page of the children that p has selected.
func (p *ChildrenParams) PageOf(children []Run) ChildPage {
	page := ChildPage{Children: children}
	if limit, err := Page(p.Limit); err == nil && len(children) == limit {
		page.Next = children[limit-1].Ordinal
	}
	return page
}

// StepsParams is the input of [Runs.Steps].
type StepsParams struct {
	Namespace string
	Run       ID
	After     int64 // Next of the previous page, or any Position; 0: from the beginning
	Limit     int   // 0: 100; at most MaxPage
	MaxBytes  int   // 0: no limit but the store's own
}

// StepPage is a page of steps; Next is zero on the last one.
type StepPage struct {
	Steps []Step
	Next  int64 // the Position of the last step, if further steps follow
}

// PageOf makes the page of the steps that p has selected. more says that further steps follow.
func (p *StepsParams) PageOf(steps []Step, more bool) StepPage {
	page := StepPage{Steps: steps}
	if more && len(steps) > 0 {
		page.Next = steps[len(steps)-1].Position
	}
	return page
}

// CancelParams is the input of [Runs.Cancel].
type CancelParams struct {
	Namespace string
	IDs       []ID
	Reason    string // the message of the failure
	Force     bool   // end the runs at once, whoever holds them
	Now       time.Time
	Record    []Action // of each run; see [Journal]
}

// ControlResult is the outcome of [Runs.Cancel], [Runs.Pause], [Runs.Unpin] or [Runs.Restart]
// for one run.
type ControlResult struct {
	Status Status // of the run afterwards; with an Err other than ErrNotFound, as it was found
	// Ended counts the runs that Cancel made final for this item, including the run itself, by
	// queue and workflow, in the order of [Tally]. Runs that became canceling are not counted: the
	// commits that end them count them. Thus the end of each run is reported once, by the call that
	// made the run final.
	Ended []RunCount
	Err   error
}

// PauseParams is the input of [Runs.Pause].
type PauseParams struct {
	Namespace string
	IDs       []ID
	Resume    bool // resume the runs instead
	Now       time.Time
	Record    []Action // of each run; see [Journal]
}

// RestartParams is the input of [Runs.Restart].
type RestartParams struct {
	Namespace string
	IDs       []ID
	Now       time.Time
	Record    []Action // of each run; see [Journal]
}

// ForkParams is the input of [Runs.Fork].
type ForkParams struct {
	Namespace string
	ID        ID       // the old run
	New       ID       // the fork; required
	Before    *StepKey // nil: keep every completed step
	Now       time.Time
	Record    []Action // see [Journal]
}

// PurgeParams is the input of [Runs.Purge].
type PurgeParams struct {
	Namespace string
	Workflow  string        // empty: any
	Statuses  []Status      // empty: any final status; others are ErrInvalid
	OlderThan time.Duration // since FinishedAt, by the store's clock
	Limit     int           // 0: 1000; at most MaxBatch
	Now       time.Time
	Record    []Action // see [Journal]
}
