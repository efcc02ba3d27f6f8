package store

import "time"

// CommitParams is the input of [Leases.Commit].
type CommitParams struct {
	Namespace string
	Commits   []Commit // no two for the same run: ErrInvalid for the later one
	Now       time.Time
}

// CallBytes is the size of payloads that every backend accepts in a call of several items, whatever
// its own limits are: commits, new runs or signals whose payloads have up to this many bytes
// together. Callers fill their calls up to it. A single item may be larger, as the payload limit
// allows. A call of several items that is larger may be refused with [ErrTooLarge] for the whole
// call; then nothing of it was applied.
const CallBytes = 4 << 20

// Commit is everything that a lease holder changes about its run in one write; see [Leases.Commit].
type Commit struct {
	Lease    Lease
	Seq      int64 // 1 more than that of the last commit applied under this lease; the first is 1
	Steps    []StepRecord
	State    []StateWrite // IfVersion unset
	Consumed []SignalID   // signals that a recorded step has read
	// Answers are given to signals that this commit or an earlier one has consumed. The first
	// answer to a signal stays; a later one changes nothing, and neither does an answer to a signal
	// that the run has not consumed (P25). Two for one signal are ErrInvalid, as is an answer with
	// both an output and a failure.
	Answers []Answer
	// Streams become visible with the commit (P27): [Streamer] says how, and which are refused. A write whose
	// numbers were skipped, or after which a later attempt has written, is ErrInvalid here; one that is
	// stored already changes nothing. Two writes of one step to one stream are ErrInvalid. A GiveBack
	// has none.
	Streams []StreamWrite
	// Spawn creates children, which are counted in their Group; see [Group]. A child is identified
	// by its parent: it has no ExternalID, Suffix, Reuse, MustBeNew, Digest or Debounce, and no Worker.
	// With any of them the commit is ErrInvalid, and nothing of it is stored.
	Spawn []NewRun
	// Seen is the run's event count that the holder has taken into account. A negative value is
	// ErrInvalid.
	Seen int64
	// Crashes is the value of the run's Crashes after the commit. It is for a commit that is not
	// progress: one that keeps the lease, one that releases the run, or one whose step waits for
	// permits ([Transition.Under]). The holder chooses the value, up to 1<<30; the next lease that
	// expires adds one to it.
	Crashes int
	// Pin binds the run to a build from this commit on (P19), and replaces a pin that the run has.
	// Nil leaves the run's pin unchanged. A GiveBack requires a Pin. With a final transition, or a
	// Continue, the commit is ErrInvalid.
	Pin *Pin
	// Tags replaces the run's tags (P26); empty but not nil: the run has none afterwards; nil: they
	// stay. With a GiveBack, the commit is ErrInvalid.
	Tags Tags
	// Free ends the permits of the run's step, [Run.StepUnder], while the run keeps its lease and its own
	// permits. It changes nothing if the run has none.
	Free       bool
	Transition *Transition // nil: the run keeps running under this lease
}

// TransitionKind is what a commit does to the status of a run. Every transition ends the lease, and with it
// its permits (P24).
//
// The run's Worker is cleared, unless the transition is final: a final run names the worker
// that ended it. A final run has no VisibleAt. A run that is not final and has a Deadline
// becomes claimable at the deadline at the latest, whatever the transition says.
//
// A run that is marked Pausing becomes paused by a transition that is not final. It keeps the time
// that the transition gave it, and when it is resumed, it gets the status that the transition gave
// it (see [Runs.Pause]).
//
// P11: a canceling run stays canceling after a transition that is not final, and its failure stays
// that of the cancel. It is claimable at once, whatever time the transition names; only the time of
// a Release counts. A Retry still adds an attempt, and a Continue still sets the run's Input and
// Generation.
type TransitionKind uint8

// The transitions.
const (
	// CompleteRun makes the run completed with Output.
	CompleteRun TransitionKind = 1 + iota
	// FailRun makes it failed with Failure, which is kept as it is.
	FailRun
	// CancelRun makes it canceled with Failure; nil keeps that of the cancel.
	CancelRun
	// Sleep makes it sleeping until its time, if it has one, or until an event. With neither After
	// nor At it has no time, unless the run has a deadline. A time that has passed ends the sleep
	// at once. An event of a kind in Wakes wakes the run, as does an [Await] that is met: the run
	// stays sleeping, and VisibleAt becomes the time of the event, unless VisibleAt is earlier.
	// Further events do not change VisibleAt. The next claim clears what the sleep waited for.
	//
	// P5: the run is claimable at once if an event of any kind has reached it that the holder had
	// not Seen, if an Await is already met, or if the run is canceling. The state that the commit
	// itself writes counts as seen, and does not make another event seen.
	//
	// P9: if an Await is already met when its run falls asleep, the sleep ends without an event,
	// and no later end of a child is an event of that sleep. Children that the same commit spawns
	// count for its Await.
	Sleep
	// Retry makes it pending with Attempt one higher and Failure kept. Each failed step is deleted
	// together with the steps that followed it: those of a higher Position in the same branch, in a
	// branch above it or below it (see [StepKey.Related]). This includes a failed step that the
	// same commit records.
	Retry
	// Release makes it pending, at once or at its time. Nothing else changes, except that Failure
	// replaces the run's if it is set. A worker uses Release to give back its runs when it shuts
	// down, to postpone a run, and to give back a run that it cannot execute, with the reason. No
	// step is deleted, and Attempt stays. P6: it is not a crash.
	Release
	// Continue starts the run again with Input: steps and groups are deleted, state and unread
	// signals stay, Generation is one higher, Attempt is 1, and there is no Failure. P9: the
	// children that were spawned before keep their Parent, and lose Group and Ordinal: they are in
	// no list of children, and their ends are not counted and wake nobody. P19: it has no Pin and
	// no Build.
	Continue
	// GiveBack makes it pending at once, or at its deadline if that is earlier, and pinned as the
	// commit's Pin says. A worker uses it to give a run whose history does not fit its code back to
	// a build whose code it fits, and to leave a new run to another build (see [Pin]).
	//
	// P20: nothing else of the run changes: Attempt, Crashes, Failure and Events stay, as do its
	// steps, state, signals, groups and children. The commit has none of them, and sets no Crashes
	// and no time; otherwise it is ErrInvalid.
	GiveBack
)

// String returns the name of the kind, or the type's name with the number if k is none of the kinds.
func (k TransitionKind) String() string {
	names := [...]string{"none", "complete", "fail", "cancel", "sleep", "retry", "release", "continue", "give back"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Final reports whether the transition ends the run.
func (k TransitionKind) Final() bool { return k >= CompleteRun && k <= CancelRun }

// Transition ends a lease.
type Transition struct {
	Kind    TransitionKind
	Output  []byte   // CompleteRun
	Failure *Failure // FailRun, CancelRun, Retry, Release
	Input   []byte   // Continue

	// After and At say when a Sleep, Retry or Release is due: After by the store's clock, At
	// absolute. If both are set, the earlier one counts. If neither is set, a Sleep ends only by an
	// event, and a Retry or Release is due at once.
	After time.Duration
	At    time.Time
	// Wakes says which events end a Sleep; Await lists the groups of children
	// that do.
	Wakes WakeOn
	Await []Await
	// Under says that the step for which a Sleep or Release waits is under these limits, in addition to
	// those of the run: the claim that takes the run next takes their permits and tokens as well, and is
	// not permitted without. The time of the transition is as it would be otherwise. [Run.StepUnder] lists
	// them until a commit with Free, the end of the next lease, a cancel of the waiting run, or a restart.
	// A pause keeps them, and a lease that expires passes them on. With those of the run they are at most MaxLimits, and no two are of one limit; otherwise the commit
	// is ErrInvalid.
	Under []LimitUse
	// PassOn asks the store to pass the permits of a run that is under limits on to the next run, which the
	// holder gets a lease of for so long: see [Leases.Commit]. Only a CompleteRun or a FailRun has it. A store
	// need not do it.
	PassOn time.Duration
}

// WakeOn is a set of event kinds. Cancel always wakes.
type WakeOn uint8

// The kinds of events, to be combined with |. Zero: only a cancel, the run's time and an [Await] end
// the sleep.
const (
	WakeSignal WakeOn = 1 << iota // a signal to the run
	WakeState                     // a change of the run's flow state
)

// Await ends a sleep when a group of children meets a condition: at most Open of its children are
// not final, or at least Failures of them have failed or were canceled (0: failures do not matter).
// A group without children meets the condition. If there are several awaits, also of one group,
// each of them ends the sleep by itself.
type Await struct {
	Group    string // required
	Open     int64  // from 0
	Failures int64  // from 0
}

// CommitResult is the outcome of one commit.
type CommitResult struct {
	Repeated  bool      // the commit was applied before, and this call changed nothing
	Status    Status    // of the run afterwards
	Events    int64     // the run's event count
	VisibleAt time.Time // of the run afterwards; zero when it is final or leased
	Pausing   bool      // a pause was requested; see [Runs.Pause]
	// Spawned counts the runs of Spawn that the commit created, as pending; runs that existed
	// already are not counted. Ended counts the runs that the commit made final in addition to its
	// own: those that are canceled with their parent. Both are by queue, workflow and status (see
	// [Tally]), and empty if the commit is Repeated, so that each run is reported once.
	Spawned, Ended []RunCount
	// Next is the run that has got the permits, and its lease, as a claim returns them; nil: there is none. See
	// [Transition.PassOn].
	Next *ClaimedRun
	Err  error
}

// Group counts the children of a run that were spawned under one name.
//
// P9: a child counts once, when it is spawned and when it becomes final, by whatever means and
// however often that is reported. A parent that sleeps with an [Await] becomes claimable, with one
// event, in the write that meets the condition; never before, and only once: see [Leases.Commit]
// and [Sleep]. A reader that sees a child final also sees it counted. The awaits of an earlier
// sleep of the run do not count.
type Group struct {
	Name      string
	Total     int64 // children that were spawned
	Open      int64 // not final
	Completed int64
	Failed    int64
	Canceled  int64
}
