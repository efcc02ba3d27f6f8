package store

import (
	"cmp"
	"slices"
	"time"
)

// Lease is a worker's temporary exclusive right to a run. It is given by Claim
// (or by Create) and named in every Extend and Commit.
type Lease struct {
	Run    ID
	Worker string
	Epoch  int64
}

// ClaimParams is the input of Claim, which leases runs to a worker.
//
// Claimable is a run that is pending, running, sleeping or canceling, whose
// VisibleAt is not after the store's clock, and whose queue and workflow are not
// paused. A claimed run is running (a canceling one stays canceling), its epoch
// is one higher, and it is visible again when the lease ends.
//
// P1: of concurrent claims, one gets a run. No more runs come back than Max, nor
// for a demand more than its own Max. Cases: claim/leases-a-run,
// claim/one-holder, claim/epoch-grows, claim/never-more-than-asked,
// claim/asked-for-only, claim/pairs-queue-and-workflow,
// claim/queues-of-one-demand, claim/overlapping-demands, claim/race, claim/race-for-expired. A claim waits for no
// other call: a run that one is writing to may be passed over, for a later claim.
//
// P4: the runs that a claim took whose answer was lost are found by sending it with
// Again: it returns those that the claim of that ClaimID has leased to that worker, as
// long as their leases stand, with what their replay needs, and takes none. A lease
// is counted from when the claim took it, not from when it was found. A run whose state
// was set since, or that was canceled, may be left out. Cases: claim/again,
// claim/again-takes-none, claim/again-while-leased, claim/again-of-its-own.
//
// P6: a run whose lease ran out is claimed like any other; its Crashes count one
// more and Recovered says so. Cases: claim/takeover-after-expiry,
// claim/own-expired-lease, claim/crashes-counted, claim/crashes-reset-by-commit.
//
// P7: higher priority first, then earlier VisibleAt, then lower ID. Cases:
// claim/priority-first, claim/priority-needs-due, claim/due-time-next,
// claim/fifo, claim/order-in-a-batch, claim/order-over-demands,
// claim/order-of-woken, claim/order-of-recovered.
//
// P13: nothing is claimed before its time. Cases: claim/not-early,
// claim/not-early-by-a-nanosecond,
// claim/other-statuses-never.
//
// P15: a claim sees its own namespace. Case: claim/namespaces-apart.
//
// P18: a claim reads an index of what is claimable; runs that sleep, are final,
// paused, or belong to other queues or workflows add nothing. Cases:
// claim/cost-follows-claimable, claim/among-scheduled, claim/among-leased,
// claim/among-priorities.
type ClaimParams struct {
	Namespace string
	Worker    string
	Demands   []Demand
	Max       int // bound over all demands; 0: the sum of the demands' Max
	LeaseFor  time.Duration
	// MaxBytes bounds what comes along, in bytes; 0: [DefaultClaimBytes]. It is a
	// bound over all runs of the claim for each of these on its own:
	//
	//   - inputs, metas and failures of the runs: the claim takes fewer runs, in the
	//     order of P7, and one at least. What is left is due, as NextDue says. Case:
	//     claim/inputs-bounded-in-bytes.
	//   - outputs and failures of steps: MoreSteps says that a run's steps were cut
	//     off. Case: claim/bounded-in-bytes.
	//   - payloads of unread signals: Inbox.MoreSignals says so. Case:
	//     claim/signals-bounded-in-bytes.
	//   - state values: Inbox.MoreState says so. Case: claim/state-bounded-in-bytes.
	//
	// A bound is filled in the order of the runs: the first ones come whole, and where
	// it has cut off something of one run, nothing of that kind may come with those
	// behind it. Of each run no more than MaxPage steps, signals, entries and groups
	// come. A backend whose database takes less than MaxBytes in an answer may cut
	// earlier. A failure, and a step's earlier ones, count as they are stored, which may be
	// somewhat more than their fields.
	MaxBytes int
	// Bare leaves everything of a size unread: runs come with [Run.Omitted] set,
	// without Steps (MoreSteps says whether there are any) and without an Inbox
	// (its three More are set). It is how a worker gets past a run that
	// cannot be read. Case: claim/bare.
	Bare bool
	// ClaimID names the claim: a random number above zero. Zero: what it takes cannot
	// be found again.
	ClaimID int64
	// Again asks for what that claim took, all of it: MaxBytes does not bound the runs.
	Again bool
	Now   time.Time
}

// Demand asks for runs of some workflows in one queue, or in several: Max bounds those
// of all its queues together, and P7 is their order.
type Demand struct {
	Queue      string
	MoreQueues []string // further queues
	Workflows  []string
	Max        int
}

// Queues lists the demand's queues, Queue first.
func (d *Demand) Queues() []string { return append([]string{d.Queue}, d.MoreQueues...) }

// DefaultClaimBytes is the bound of a claim that names none.
const DefaultClaimBytes = 2 << 20

// CallBytes is how much a call that carries many items holds at least: a backend
// takes commits, new runs or signals whose payloads have so many bytes together,
// whatever its own bounds are. Callers fill their calls up to it. A single item may be
// larger, as the payload limit allows; a call of several that is larger may be refused,
// with [ErrTooLarge] for the whole call, and then nothing of it was applied. Cases:
// payload/call-of-commits, payload/large-commit, payload/call-of-runs,
// payload/call-of-signals.
const CallBytes = 4 << 20

// Claimed is the result of a claim.
type Claimed struct {
	Runs []ClaimedRun // in the order of P7
	// NextDue is the earliest VisibleAt among runs of these demands that were
	// not returned. It may lie in the past: more is due now. Zero: there are
	// none. Cases: claim/next-due, claim/next-due-of-the-rest,
	// claim/next-due-of-sleepers, claim/next-due-without-paused.
	NextDue time.Time
	// Waiting tells of the lanes, each a queue and a workflow of the demands, in which
	// runs are due that were not returned, by queue and workflow. A claim for no runs
	// leaves it empty. Case: claim/tells-what-waits.
	Waiting []Waiting
	// Now is the store's clock at the claim, against which the DueAt of steps is
	// to be read.
	Now time.Time
	// Asked says that the worker is asked for a sign of life (AskWorkers): it gives one by
	// Extend, of no lease if it holds none. It may be false once for what was asked while
	// the claim was under way, and a claim that names no workflow does not tell it.
	Asked bool
}

// Waiting is a lane in which runs are due: Since is the earliest of their VisibleAt.
type Waiting struct {
	Queue    string
	Workflow string
	Since    time.Time
}

// Waits adds a due run of a lane to the list that a claim answers with.
func Waits(list []Waiting, queue, workflow string, since time.Time) []Waiting {
	at, found := slices.BinarySearchFunc(list, Waiting{Queue: queue, Workflow: workflow}, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow))
	})
	if !found {
		return slices.Insert(list, at, Waiting{queue, workflow, since})
	}
	if since.Before(list[at].Since) {
		list[at].Since = since
	}
	return list
}

// ClaimedRun is a leased run with what its replay needs.
type ClaimedRun struct {
	Run       Run
	Lease     Lease
	Recovered bool // Crashes is above zero: the lease before ran out, or Crashes was kept since one did
	// Steps are the run's checkpoints by Position, at most MaxPage. MoreSteps says
	// that the claim's bound, or MaxPage, cut them off; Steps has the rest. Cases:
	// claim/brings-replay, claim/brings-each-its-own, claim/brings-one-moment,
	// claim/steps-bounded.
	Steps     []Step
	MoreSteps bool
	Inbox     Inbox
}

// ExtendParams is the input of Extend: it renews leases and is the worker's
// heartbeat (a worker that was never registered is not made by it). A lease
// that ran out but was not taken over is renewed.
//
// P2: a lease that is not the run's present one is reported lost and nothing of
// its run changes. Cases: extend/lost-after-takeover, extend/lost-after-finish,
// extend/lost-of-others, extend/each-its-own, extend/races-takeover.
//
// Further cases: extend/keeps-lease, extend/expired-but-not-taken,
// extend/heartbeat, extend/tells-canceling, extend/tells-pausing,
// extend/tells-events.
type ExtendParams struct {
	Namespace string
	Worker    string
	Leases    []Lease
	LeaseFor  time.Duration
	Now       time.Time
}

// LeaseState is the outcome for one lease.
type LeaseState struct {
	Lost      bool
	Canceling bool
	Pausing   bool
	Events    int64 // the run's event count
}

// CommitParams is the input of Commit: commits for different runs, each atomic
// and independent of the others, in one durable write. Where one commit of the
// list changes what another finds, as a child's end reaches its parent, a parent's
// end its children, and a spawned run the one that is to have its external id, they
// come in the order of the list. Case: commit/batch-in-order.
type CommitParams struct {
	Namespace string
	Commits   []Commit // no two for the same run: ErrInvalid for the later one
	Now       time.Time
}

// Commit is everything that a lease holder changes about its run at once.
//
// P2: a lease that is not the run's present one changes nothing and gets
// ErrLeaseLost, even when it races the takeover. Cases: commit/old-epoch,
// commit/other-worker, commit/never-leased, commit/after-finish,
// commit/races-takeover.
//
// P3: of one commit, all or nothing. Cases: commit/keeps-the-worker, commit/all-or-nothing,
// commit/everything-at-once, commit/batch, commit/nothing, commit/seen-whole.
//
// Seq is 1 for the first commit under a lease and then one more for each that is
// applied. A commit is applied only if its Seq is that of the last one applied
// under the lease and one more.
//
// P4: a Seq that is not above the last one applied under this lease was applied
// already: nothing changes and the result says Repeated. Cases: commit/repeat,
// commit/repeat-of-transition, commit/repeat-keeps-state,
// commit/repeat-does-not-sleep-again, commit/late-repeat,
// commit/seq-begins-anew, commit/refused-takes-no-seq, commit/repeat-race.
//
// P2: a Seq that leaves a number out changes nothing and gets ErrLeaseLost: the
// store has lost commits that the holder believes applied ([CommitsMissing]), as a
// database does that fails over to a replica that lagged. What the holder would
// record next rests on what is gone. The lease stands until it runs out; then the
// run is claimed with the history that the store has. Cases: commit/gap,
// commit/gap-in-batch, commit/gap-of-any-kind, commit/gap-then-next.
//
// A commit sets the run's Crashes: to zero, which says that the run has made progress,
// or to what it names. An item's Err matches ErrLeaseLost, ErrInvalid or
// ErrTooLarge; on ErrInvalid and ErrTooLarge nothing is stored and the lease
// stands. Cases: commit/expired-but-not-taken, commit/keeps-the-lease,
// commit/one-run-twice.
type Commit struct {
	Lease    Lease
	Seq      int64 // of the last one applied under this lease, and one more
	Steps    []StepRecord
	State    []StateWrite // IfVersion unset
	Consumed []SignalID   // signals that a recorded step has read
	Spawn    []NewRun     // children, counted in their Group; see [Group]
	// Seen is the run's event count that the holder has taken into account.
	Seen int64
	// Crashes is what the run's Crashes are after the commit, for one that is no
	// progress: it keeps the lease, or it releases the run. The count is the holder's to
	// choose, up to 1<<30; the next lease that runs out adds one to it. Cases:
	// claim/crashes-kept-by-commit, claim/crashes-kept-by-release.
	Crashes    int
	Transition *Transition // nil: the run keeps running under this lease
}

// TransitionKind is what becomes of a run.
type TransitionKind uint8

// The transitions. All of them end the lease.
const (
	// Complete makes the run completed with Output. Case: commit/complete.
	Complete TransitionKind = 1 + iota
	// Fail makes it failed with Failure. Case: commit/fail.
	Fail
	// CancelRun makes it canceled with Failure; nil keeps that of the cancel.
	// Case: commit/cancel.
	CancelRun
	// Sleep makes it sleeping until its time or an event. P5: when an event has
	// reached the run that the holder had not Seen, or an Await is met already,
	// or the run is canceling, it is claimable at once. An event that wakes it
	// makes VisibleAt the time of the event, if it was later. Cases:
	// sleep/unseen-event, sleep/unseen-event-of-any-kind, sleep/seen-event,
	// sleep/own-state-is-seen, sleep/own-state-hides-nothing,
	// sleep/own-state-of-earlier-commit, sleep/signal-race, sleep/state-race,
	// sleep/canceling, sleep/wake-is-forgotten.
	//
	// Further cases: sleep/until-due, sleep/earlier-of-both, sleep/past-time,
	// sleep/without-time, sleep/deadline, sleep/wakes-once.
	Sleep
	// Retry makes it pending with Attempt one higher and Failure kept. Each
	// failed step is forgotten with what followed it: the steps of a higher
	// Position in the same branch, in a branch above it or below it (see
	// [StepKey.Related]). Cases: commit/retry, commit/retry-earlier-of-both,
	// commit/retry-forgets-failed-steps, commit/retry-forgets-what-it-records.
	Retry
	// Release makes it pending, at once or at its time; nothing else changes, but for
	// Failure, which replaces the run's when it is set: how a worker that shuts down
	// gives back its runs, how one puts off a run, and how one gives back a run that it
	// cannot execute, with the reason. No step is forgotten, and Attempt stays. A run that is canceling
	// stays so and keeps its failure, and the time counts for it, too. Cases:
	// claim/released-is-no-crash, claim/release-changes-nothing-else,
	// claim/release-for-a-while, claim/release-earlier-of-both,
	// claim/release-while-canceling, claim/release-for-later, claim/release-until-deadline.
	Release
	// Continue begins the run anew with Input: steps and groups are forgotten,
	// state and unread signals stay, Generation is one higher, Attempt 1. Case:
	// commit/continue-as-new.
	Continue
)

func (k TransitionKind) String() string {
	names := [...]string{"none", "complete", "fail", "cancel", "sleep", "retry", "release", "continue"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Final reports whether the transition ends the run.
func (k TransitionKind) Final() bool { return k >= Complete && k <= CancelRun }

// Transition ends a lease.
type Transition struct {
	Kind    TransitionKind
	Output  []byte   // Complete
	Failure *Failure // Fail, CancelRun, Retry, Release
	Input   []byte   // Continue

	// After and At say when a Sleep, Retry or Release is due: After by the store's
	// clock, At absolute. The earlier counts when both are set; neither means
	// by an event alone (Sleep) or at once (Retry, Release).
	After time.Duration
	At    time.Time
	// Wakes says which events end a Sleep; Await lists the groups of children
	// that do.
	Wakes WakeOn
	Await []Await
}

// WakeOn is a set of event kinds. Cancel always wakes.
type WakeOn uint8

// The kinds.
const (
	WakeSignal WakeOn = 1 << iota
	WakeState
)

// Await asks that a sleep end when a group of children has come so far: at most
// Open children of it are not final, or at least Failures of it have failed or
// were canceled (0: failures do not matter).
type Await struct {
	Group    string
	Open     int64
	Failures int64
}

// CommitResult is the outcome of one commit.
type CommitResult struct {
	Repeated  bool
	Status    Status    // of the run afterwards
	Events    int64     // the run's event count
	VisibleAt time.Time // of the run afterwards; zero when it is final or leased
	Pausing   bool
	// Spawned counts the runs of Spawn that the commit made, as pending; those that
	// existed already are not among them. Ended counts the runs that became final by it
	// beside its own: those that are canceled with their parent. Both are by queue,
	// workflow and status (see [Tally]), and empty where the commit is Repeated, so
	// that each run is told once. Cases: commit/tells-what-it-made,
	// commit/tells-what-it-ended.
	Spawned, Ended []RunCount
	Err            error
}

// Group counts the children of a run that were spawned under one name.
//
// P9: a child counts once, when it is spawned and when it becomes final, by
// whatever means and however often that is reported. The parent that sleeps with
// an [Await] becomes claimable, with one event, in the write by which the
// condition is met; never before, and once. Cases: children/last-one-wakes,
// children/not-before, children/wakes-once, children/finished-before-sleep,
// children/no-event-while-awake, children/canceled-counts,
// children/canceling-is-open, children/spawn-repeat, children/failures-wake,
// children/failures-do-not-matter, children/window,
// children/await-one-group-twice,
// children/spawned-into-met-await, children/await-of-nothing,
// children/await-any-of-several, children/other-group, children/await-with-time,
// children/detached, children/concurrent-ends, children/end-races-sleep,
// children/spawn-in-thousands, children/ends-in-one-batch,
// children/whole-family-in-one-batch,
// children/continue-keeps-them-running.
type Group struct {
	Name      string
	Total     int64
	Open      int64 // not final
	Completed int64
	Failed    int64
	Canceled  int64
}
