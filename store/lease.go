package store

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Leases is the hot path: the three batch verbs that workers use all the time. The rules at [Store]
// hold for every method.
type Leases interface {
	// Claim leases due runs to a worker, and returns them with what their replay needs, in the
	// order of P7.
	//
	// A run is claimable if it is pending, running, sleeping or canceling, its VisibleAt is not
	// after the store's clock (P13), and its queue and workflow are not paused. Paused and final
	// runs are never claimable. A claimed run is running (a canceling one stays canceling), its
	// Worker is p.Worker, its epoch is one higher, and it is visible again when the lease ends:
	// LeaseFor after the store's clock. The claim clears what its sleep waited for. The worker need
	// not be registered.
	//
	// P1: of concurrent claims, only one gets a run, and nobody else can claim a leased run until
	// its lease ends. A claim takes only runs of its demands: runs whose queue and workflow are in
	// the same demand. It returns at most Max runs, and for each demand at most the demand's own
	// Max, over all of its queues. A run that several demands ask for is returned once. A demand
	// without workflows gets no runs. A claim does not wait for other calls: a run that another
	// call is writing to, or considers for a claim or a purge, may be left to a later claim.
	//
	// P19: a claim takes runs that are not pinned, and runs that are pinned to p.Build (see
	// [Run.Pin]). The claim ignores all other runs: they are not in NextDue and not in Waiting, and
	// add nothing to what the claim reads.
	//
	// P6: a run whose lease expired is claimed like any other, by any worker, including the one
	// that held it. Its Crashes increases by one. Recovered says that Crashes is above zero.
	//
	// P7: higher priority comes first, then earlier VisibleAt, then lower ID, over all demands of
	// the call. The VisibleAt of a run that was woken is the time of its waking; that of a
	// recovered run is the end of its lease.
	//
	// P21: a claim takes a run that is under limits ([NewRun.Under], [Transition.Under]) only if each of
	// them permits it. A limit permits the run while fewer leases than its Concurrency are under the limit
	// and the run's key. Leases that expired count. P24: what counts is the runs that have a lease, and
	// nothing else. A run whose lease expired is always permitted: the new lease inherits the permits, and
	// takes no tokens.
	//
	// P22: a limit with a rate permits the run if the key has as many tokens as the run takes; the claim
	// takes them. A run takes the tokens of its own limits once per attempt, in the first claim of the
	// attempt; claims after a sleep, a release, a pause or a give back take none. An attempt begins with
	// the creation of the run, a Retry, a Restart, a Continue, a fork and an import. The tokens of a step's
	// limits are taken by each claim that takes the step's permits. Each key has one time, T, which is in
	// the past at first. With a time e between two tokens ([LimitRule.Every]) and a burst b, n tokens are
	// permitted at a time t if max(T, t) + min(n, b) e - b e is not after t; then T becomes max(T, t) + n e.
	// So more tokens than the burst are permitted when the burst is complete, and count in full.
	//
	// P23: the keys of a fair limit take turns. A key has a virtual time, which is zero at first, and each
	// claim of a run of the key begins at the greater of it and of the limit's virtual clock; the clock
	// becomes that, and the virtual time of the key becomes 1,000,000 x tokens / weight more, rounded
	// down, where the tokens are those that the run takes, at least 1. So a key that was idle begins at the
	// present, without credit. If a run is under several fair limits, the first one by name decides. A
	// takeover changes nothing.
	//
	// P7 with limits: the claim repeats the following until it is full. The candidates are: the first run,
	// by P7, of those that are under no fair limit or whose lease expired; and, for each fair limit, the
	// first run by P7 of the key whose claim would begin earliest, and of several such keys of the lowest.
	// All runs that a limit does not permit are left out of this. It takes the first candidate by P7, and
	// its permits and tokens count at once. The answer is in the order of P7.
	//
	// P5: the steps, signals, state and groups of a run are read at one moment: an event that its
	// Inbox counts is in it, and one that it does not count ends the run's next sleep.
	//
	// P12: MaxBytes limits the size of the answer, over all runs of the claim, separately for each
	// of these:
	//
	//   - inputs, metas and failures of the runs: the claim takes fewer runs, in the order of P7,
	//     but at least one. The others are still due, as NextDue says.
	//   - outputs and failures of steps: MoreSteps says that a run's steps were cut
	//     off. [Runs.Steps] has the rest.
	//   - payloads of unread signals: Inbox.MoreSignals says so. [Coordination.Inbox] has
	//     the rest.
	//   - state values: Inbox.MoreState says so. [Coordination.GetState] has the rest.
	//
	// The limit is used up in the order of the runs: the first runs are complete, and once the
	// limit has cut off something of one run, the runs after it may come without anything of that
	// kind. For each run, at most [MaxPage] steps, signals, state entries and groups are returned.
	// A backend whose database returns less than MaxBytes in one answer may cut earlier. A failure,
	// and a step's earlier ones, count with their stored size, which may be somewhat larger than
	// that of their fields.
	//
	// With Bare, no payloads are read: runs are returned with [Run.Omitted] set, without Steps
	// (MoreSteps says whether there are any), and with an Inbox that has only Status and Events,
	// and whose three More fields are set. A worker uses Bare to get past a run that cannot be
	// read. The lease is like any other.
	//
	// NextDue is the earliest VisibleAt among runs of the demands that were not returned: of start,
	// wake and retry times, deadlines and ends of leases. It is in the past if more runs are due
	// now, and zero if there are none. Runs that are paused, or whose queue or workflow is paused,
	// do not count. Of the runs that are the same in queue, workflow, priority, pin, limits, keys and
	// tokens, only the first counts. If it is due but a rate does not permit it, it counts with the time at
	// which the rates will permit it, or an earlier one; if a concurrency does not permit it, it does not
	// count, and is not in Waiting, and neither is a run that a rate does not permit. Waiting lists the
	// lanes, each a queue and a workflow of the demands, with due
	// runs that were not returned; for a claim of no runs it is empty. Asked says that the worker
	// is asked for a sign of life: see [Registry.AskWorkers].
	//
	// P4: if the answer to a claim was lost, send the claim again with the same ClaimID and with
	// Again set. That call takes no runs. It returns the runs that the claim of that ClaimID leased
	// to that worker and whose leases are still valid, with what their replay needs, all of them
	// whatever MaxBytes is. A lease counts from when the claim took it, not from when it was found.
	// A run whose state was set since, or that was canceled, may be left out.
	//
	// A ClaimID belongs to its worker. The claim of another worker with the same id is another
	// claim: it takes runs, finds them again and returns NextDue and Waiting as it would with a
	// different id, and the runs that it takes get an epoch of their own.
	//
	// P15: a claim sees only its own namespace. P18: a claim reads an index of the claimable runs.
	// Runs that sleep, that others hold, that are scheduled for later, final or paused, or that
	// belong to other queues or workflows, add nothing. Each priority in use costs one lookup in
	// the index. Neither do keys at their limits, and runs that wait for them.
	//
	// A claim for no runs is not an error; it returns NextDue and Asked.
	Claim(ctx context.Context, p ClaimParams) (Claimed, error)

	// Extend renews leases and returns one state per lease, in order. Each renewed lease ends
	// LeaseFor after the store's clock. P6: a lease that expired but was not taken over is renewed
	// too.
	//
	// Extend is also the worker's sign of life, with or without leases; see [Registry.PutWorker].
	// It does not register a worker.
	//
	// P2: a lease that is not the run's present one (another epoch, worker, run or namespace, or
	// one that any transition has ended) is reported Lost, and nothing of its run changes. An
	// extension that is concurrent with a takeover either keeps the run or has lost it.
	//
	// The state of a lease that is held tells its holder whether the run is canceling or is to
	// pause (P11), and how many events have reached it (P5). For a lost lease, only Lost is set. A
	// call takes at most [MaxBatch] leases. If the answer is lost, send the call again.
	Extend(ctx context.Context, p ExtendParams) ([]LeaseState, error)

	// Commit applies commits for different runs in one durable write and returns one result per
	// commit, in order. The commits are independent: one that is refused does not affect the
	// others. If one commit of the list affects another, as the end of a child affects its parent
	// and the end of a parent its children, they apply in the order of the list. Of two commits for
	// one run, the later one gets ErrInvalid.
	//
	// A commit records steps, writes flow state, consumes signals, spawns children, and makes the
	// transition. Each [StepRecord] of a key that the run does not have creates a step; a later one
	// replaces everything except its Position, unless the stored step is final: then it is ignored
	// (P4). The steps have the epoch of the lease, and their times are from the store's clock: see
	// [StepRecord]. A state write is an event, like a write of [Coordination.SetState]. A consumed
	// signal is removed from the inbox for good (P17). [TransitionKind] describes each transition.
	//
	// P25: an answer is stored with the signal that it answers, and stays for as long as the run,
	// through retries, continuations and restarts. The first answer to a signal counts: a retry may
	// delete the record of the step that gave it, and the code then gives another one, which is
	// ignored. See [Coordination.Answers].
	//
	// P27: the items of Streams become visible with the rest of the commit: see [Streamer].
	//
	// P3: a commit is applied completely or not at all. A reader sees the steps, the state, the
	// consumed signals, the answers, the items of streams, the children and the transition of a commit together. A commit without any
	// of them is valid.
	//
	// P2: a lease that is not the run's present one changes nothing and gets ErrLeaseLost, whatever
	// the commit contains. A commit that is concurrent with a takeover is applied completely before
	// the takeover, or not at all. A lease that expired but was not taken over can still commit. A
	// commit without a transition keeps the lease and does not extend it; every transition ends it.
	//
	// Commits under a lease are numbered: Seq is 1 for the first one and then one more for
	// each that is applied. A commit that is refused has not used its Seq.
	//
	// P4: a Seq that is not above the last one applied under this lease was applied already,
	// however late it arrives, even if it ended the lease: nothing changes, and the result says
	// Repeated. A commit whose answer was lost can therefore be sent again.
	//
	// P2: a Seq that skips a number changes nothing and gets ErrLeaseLost: the store has lost
	// commits that the holder believes applied ([CommitsMissing]), which happens if a database
	// fails over to a replica that lagged. What the holder would record next depends on the lost
	// commits. The lease stays valid until it expires; then the run is claimed with the history
	// that the store has.
	//
	// P24: a transition ends the permits of the lease in the same write; so does Free those of the run's
	// step.
	//
	// P21: a store may pass the permits of a run that ends on to another one if [Transition.PassOn] asks for it.
	// Then it leases, in the same write, the run that comes first by P7 of those of the same namespace, queue,
	// workflow, priority, pin, limits, keys and tokens. The lease is like one from a claim by the same worker,
	// for PassOn, with the build of the lease that ends. The run must be claimable, pending, and without steps,
	// state, signals and groups. The permits end instead, and claims decide, if the run is pinned to another
	// build than that of the lease, if one of the limits has a rate or is fair, if more leases are under it than
	// it permits, and if a claim has left a run that differs in one of these because of one of the keys. So a
	// run that a claim has left is not overtaken by one that comes later. One that was started since the last
	// claim may be, as if it had been started after the end.
	// P12: the inputs, metas and failures of the runs that a call leases have no more than [DefaultClaimBytes]
	// together. P4: the result of a Repeated commit has the run for as long as that lease is valid. As of a claim
	// that is sent again, a run whose state was set since, or that was canceled, may be left out.
	//
	// P6: every commit but a [GiveBack] sets the run's Crashes: to zero, which says that the run
	// has made progress, or to the number that the commit gives.
	//
	// P19: a commit with steps sets the run's [Run.Build] to the build of its lease. A commit with
	// a Pin pins the run, in the same write.
	//
	// P9: a spawned child is a pending run with its parent, group and close policy, created as
	// Create would create it, and is counted in its [Group]. A child that exists already, spawned
	// under any lease, is the same child and counts once. A child counts as final once, however it
	// ends and however often that is reported; one that is canceling is still open. A parent that
	// sleeps with an [Await] becomes claimable, with one event, in the write that meets the
	// condition; never before, and only once. The end of a child that nobody awaits is counted and
	// is not an event.
	//
	// P11: when a run becomes final, the close policies of its children that are not final are
	// applied in the same write, also those of children that the commit spawns: a child with
	// [CloseCancel] is canceled as by [Runs.Cancel], with the reason [CanceledWithParent] and
	// together with its own descendants, and a child with [CloseAbandon] continues.
	//
	// The result contains the run's status, events and time, whether it is to pause, and the runs
	// that the commit created and ended. Events is the count after the commit, including its own
	// state writes, so that the holder may pass it as Seen.
	//
	// A call takes at most [MaxBatch] commits, each with as many steps, children, consumed
	// signals and answers; it takes at least [CallBytes] of payloads, and a single commit more. An item's Err
	// matches ErrLeaseLost (also for a run that does not exist or was never claimed), ErrInvalid
	// (also for two steps of one commit at one Position, and for a child whose ID is another
	// run's) or ErrTooLarge (P12). A store may also refuse, with ErrInvalid, a new step at the Position of
	// a step that is stored, which no holder may send. On ErrInvalid and ErrTooLarge nothing is stored
	// and the lease stays valid. If Err is set, all other fields are zero.
	Commit(ctx context.Context, p CommitParams) ([]CommitResult, error)
}

// Lease is a worker's temporary exclusive right to a run. [Leases.Claim] (or [Runs.Create]) grants
// it, and every Extend and Commit names it.
type Lease struct {
	Run    ID
	Worker string
	Epoch  int64 // from 1; a lease with a number that was never given is lost (P2)
}

// ClaimParams is the input of [Leases.Claim].
type ClaimParams struct {
	Namespace string
	Worker    string // required
	Demands   []Demand
	Max       int           // limit over all demands; 0: the sum of the demands' Max
	LeaseFor  time.Duration // above zero
	// MaxBytes limits the size of the answer, in bytes; 0: [DefaultClaimBytes].
	MaxBytes int
	// Bare leaves all payloads unread.
	Bare bool
	// Build is the worker's build. If it is empty, the worker has none, and takes no pinned runs.
	Build string
	// ClaimID identifies the claim among those of its Worker: a random number above zero, different
	// for each claim. If it is zero, the runs that the claim takes cannot be found again.
	ClaimID int64
	// Again asks for the runs that the claim of that ClaimID took, and takes none.
	Again bool
	Now   time.Time
}

// Demand asks for runs of some workflows in one queue, or in several. Max limits the runs of all
// its queues together, in the order of P7.
type Demand struct {
	Queue      string
	MoreQueues []string // further queues
	Workflows  []string
	Max        int
}

// Queues lists the demand's queues, Queue first.
func (d *Demand) Queues() []string { return append([]string{d.Queue}, d.MoreQueues...) }

// DefaultClaimBytes is the limit of a claim that sets none.
const DefaultClaimBytes = 2 << 20

// Claimed is the result of [Leases.Claim].
type Claimed struct {
	Runs []ClaimedRun // in the order of P7
	// NextDue is the earliest VisibleAt among runs of these demands that were
	// not returned; zero: there are none.
	NextDue time.Time
	// Waiting lists the lanes, by queue and workflow, with due runs that were not returned.
	Waiting []Waiting
	// Now is the store's clock at the claim. Compare the DueAt of steps with it.
	Now time.Time
	// Asked says that the worker is asked for a sign of life: see [Registry.AskWorkers].
	Asked bool
}

// Waiting is a lane in which runs are due: Since is the earliest of their VisibleAt.
type Waiting struct {
	Queue    string
	Workflow string
	Since    time.Time
}

// Waits adds a due run of a lane to the Waiting list of a claim's answer and returns the list, which it
// keeps in the order of queue and workflow. since is the run's VisibleAt.
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
	Recovered bool // Crashes is above zero: the previous lease expired, or Crashes was kept since one did
	// Steps are the run's checkpoints by Position, at most MaxPage. MoreSteps says that the claim's
	// limit, or MaxPage, cut them off; [Runs.Steps] has the rest.
	Steps     []Step
	MoreSteps bool
	Inbox     Inbox
}

// ExtendParams is the input of [Leases.Extend].
type ExtendParams struct {
	Namespace string
	Worker    string
	Leases    []Lease       // of that worker; empty: only a sign of life
	LeaseFor  time.Duration // above zero
	Now       time.Time
}

// LeaseState is the outcome of [Leases.Extend] for one lease; for a lost one, only Lost is set.
type LeaseState struct {
	Lost      bool  // the lease is not the run's present one
	Canceling bool  // the run is canceling: see [Runs.Cancel]
	Pausing   bool  // a pause was requested: see [Runs.Pause]
	Events    int64 // the run's event count
}
