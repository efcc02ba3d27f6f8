package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Causes with which a step's context is canceled.
var (
	ErrCanceled  = errors.New("the run was canceled")
	ErrDeadline  = errors.New("the run's deadline has passed")
	ErrShutdown  = errors.New("the worker shuts down")
	ErrLeaseLost = errors.New("the run was taken over by another worker")
	errEnded     = errors.New("the run's function has returned")
)

// Host is what an invocation needs of its worker.
type Host interface {
	// Commit makes one commit durable. It repeats the commit while the store is
	// out of reach; an error says that it can never be applied.
	Commit(c store.Commit) store.CommitResult
	// Ready returns once a side effect may begin: the lease is not known to have
	// run out. False: the lease is lost.
	Ready(inv *Invocation) bool
	// Parked and Unparked say that no goroutine of the run does anything but
	// wait, and that one goes on. Unparked may wait for a slot.
	Parked(inv *Invocation)
	Unparked(inv *Invocation)
	// Ended says that no user code of the run runs any more, or that it was given
	// up; parked: at a moment when it held no slot.
	Ended(inv *Invocation, parked bool)
	// Begin begins a transaction for a step and leaves it where target points to. It
	// waits while the store is out of reach; an error says that it cannot be had.
	Begin(ctx context.Context, inv *Invocation, target any) (store.Transaction, error)
	// CommitTx ends such a transaction with the step's record in it, and returns
	// once it is known what came of it. An error says that nothing was applied.
	CommitTx(inv *Invocation, tx store.Transaction, c store.Commit) (store.CommitResult, error)
	// State reads keys of the run's flow state, and SetState makes a write that
	// compares versions. They wait while the store is out of reach, until ctx ends or
	// the run is given up.
	State(ctx context.Context, inv *Invocation, keys ...string) ([]store.StateEntry, error)
	SetState(ctx context.Context, inv *Invocation, w store.StateWrite) (store.StateEntry, error)
	// Inbox reads what has reached the run; false: it was given up.
	Inbox(inv *Invocation, look Look) (store.Inbox, bool)
	// Ask makes a call of the store, and makes it again while the store is out of
	// reach. It fails with [ErrShutdown] when it was given up, and otherwise with why the
	// store refuses.
	Ask(inv *Invocation, what string, call func(ctx context.Context, st store.Store, namespace string) error) error
	// Closed says that the lease has ended: the last commit is durable or lost.
	Closed(inv *Invocation, end End)
}

// End tells how an invocation ended.
type End struct {
	Status store.Status // of the run afterwards
	// Transition is what was committed; its Kind is zero when the lease was lost.
	Transition store.Transition
	Err        error
}

// Config is what a worker decides about its invocations.
type Config struct {
	// Park is how long a run that only waits stays in memory.
	Park time.Duration
	// Linger is how long a step's record may wait for the run's next operation
	// before it is written on its own.
	Linger time.Duration
	// ShowAfter is how long a step runs before its start is recorded.
	ShowAfter time.Duration
	// Aside is about how long a run waits that this worker cannot read or open.
	Aside time.Duration
	// MaxCrashes is how many leases in a row may run out; see [Config.Suspicion].
	MaxCrashes int
	// Wrap, when set, is called in place of a step's function, which is next.
	Wrap func(ctx context.Context, step *StepInfo, next func(context.Context) ([]byte, error)) ([]byte, error)
	// Meta, when set, makes what a child's record carries for the engine of the context
	// that its parent has.
	Meta func(ctx context.Context) []byte
	// Ended, when set, is told of the runs that a cancel of children has ended.
	Ended func([]store.RunCount)
	// PayloadLimit bounds outputs, PayloadWarn says when to log one.
	PayloadLimit, PayloadWarn int
	Logger                    *slog.Logger
}

// Invocation is one lease's execution of a run.
type Invocation struct {
	cfg   Config
	host  Host
	def   *Definition
	run   store.Run
	lease store.Lease
	log   func() *slog.Logger

	ctx    context.Context // of steps
	cancel context.CancelCauseFunc

	weight    int       // bytes that came with the claim
	claimed   time.Time // when the claim was answered, by this process's clock
	storeTime time.Time // the store's clock in that answer

	mu        sync.Mutex
	durable   sync.Cond // on mu: a flush has ended
	recorded  map[string][]store.Step
	loadedTo  int64 // position of the last step that was read
	moreSteps bool  // others follow it
	loading   bool  // they are being read
	nextPos   int64
	live      int // goroutines of the run
	blocked   int // of them: those that wait for time or for each other
	parked    bool
	waits     map[*wait]struct{}
	joining   map[*Branch]*Branch // branches that wait for the end of another one, or of a promise
	pending   []store.StepRecord
	dues      map[store.StepKey]time.Time // local due times of pending records
	appended  int64                       // records ever appended
	flushed   int64                       // of them: those that are durable
	flushing  bool                        // a commit is under way
	held      bool                        // a step in a transaction of its own is under way: others wait with their commits
	applied   int64                       // number of the last commit that was applied
	crashes   int                         // that a commit keeps which is no progress
	seen      int64                       // the run's event count that what follows includes
	state     View                        // the run's flow state; nil: it was not read
	readers   int                         // goroutines that need it
	groups    map[string]store.Group      // of the run's children
	groupsCut bool                        // there are more than were read
	signals   []store.Signal              // unread
	cut       bool                        // there are more than were read
	consumed  []store.SignalID
	writes    []store.StateWrite      // of state, that the next commit carries
	sent      []store.StateWrite      // of them: those in the commit that is under way
	unsure    bool                    // state may be older than a write of another, and that unseen
	stirred   int64                   // changes of state that the invocation has learned of
	looked    time.Time               // when the inbox was asked for last
	watchers  map[*wait]struct{}      // steps that wait for state
	spawn     []store.NewRun          // children that it spawns
	unsent    int                     // bytes that the next commit carries
	groupsAt  int64                   // records that were durable when groups was read
	watching  bool                    // a goroutine looks for the ends of children
	watchWait time.Duration           // until its next look
	pinned    int                     // goroutines that wait, and cannot be suspended
	taken     map[store.SignalID]bool // signals that this lease has consumed, or passed over
	passed    []store.SignalID        // unread signals that could not be decoded, and were passed over
	undecoded error                   // the first error that the code was told of a recorded payload
	aside     *store.Failure          // why the lease is given back for a while
	lingering *time.Timer
	deadline  *time.Timer

	draining  bool
	canceling bool
	expired   bool
	closed    bool // no operation goes on; see reason
	reason    reason
	failure   *store.Failure // reason fail
	done      chan struct{}  // closed with closed
	result    *outcome       // of the main function
	finished  bool
	ended     bool
}

type outcome struct {
	output []byte
	err    error
}

// reason is why an invocation was closed.
type reason uint8

const (
	byReturn  reason = iota // the main function returned
	bySuspend               // everything waits
	byRelease               // the worker shuts down, or the run is to pause
	byFailure               // a panic, a history that does not fit
	byLoss                  // the lease is lost
)

// New prepares an invocation of a claimed run. claimed is when the claim was
// answered, now what the store's clock said then; base carries what steps'
// contexts inherit.
func New(base context.Context, cfg Config, host Host, def *Definition, cr store.ClaimedRun, claimed, now time.Time) *Invocation {
	inv := &Invocation{
		cfg: cfg, host: host, def: def.forRun(cr.Run.Meta), run: cr.Run, lease: cr.Lease,
		claimed: claimed, storeTime: now,
		nextPos: 1,
		done:    make(chan struct{}),
	}
	inv.takeInLocked(cr.Inbox, Look{}, 0) // of the claim's own moment
	inv.seen, inv.crashes = cr.Run.Events, cr.Run.Crashes
	inv.durable.L = &inv.mu
	inv.log = sync.OnceValue(func() *slog.Logger {
		return cfg.Logger.With("run", cr.Run.ID.String(), "workflow", cr.Run.Workflow)
	})
	inv.canceling = cr.Run.Status == store.Canceling
	inv.ctx, inv.cancel = context.WithCancelCause(base)
	inv.addStepsLocked(cr.Steps, cr.MoreSteps)
	inv.weight = len(cr.Run.Input) + len(cr.Run.Meta)
	for i := range cr.Steps {
		inv.weight += len(cr.Steps[i].Output)
	}
	for i := range cr.Inbox.Signals {
		inv.weight += len(cr.Inbox.Signals[i].Payload)
	}
	return inv
}

// Weight is how many bytes of payload came with the claim.
func (inv *Invocation) Weight() int { return inv.weight }

// Run is the run as it was claimed.
func (inv *Invocation) Run() *store.Run { return &inv.run }

// Context is that of the run's code, from which those of its steps come.
func (inv *Invocation) Context() context.Context { return inv.ctx }

// Closing returns a channel that closes when no operation of the run goes on.
func (inv *Invocation) Closing() <-chan struct{} { return inv.done }

// Lease is the lease under which the invocation runs.
func (inv *Invocation) Lease() store.Lease { return inv.lease }

// Logger logs with the run's attributes.
func (inv *Invocation) Logger() *slog.Logger { return inv.log() }

// Now is the store's clock as this process can tell it.
func (inv *Invocation) Now() time.Time { return inv.storeTime.Add(time.Since(inv.claimed)) }

// stored turns a time of this process's clock into one of the store's.
func (inv *Invocation) stored(t time.Time) time.Time { return inv.storeTime.Add(t.Sub(inv.claimed)) }

// local turns a time of the store's clock into one of this process's.
func (inv *Invocation) local(t time.Time) time.Time { return inv.claimed.Add(t.Sub(inv.storeTime)) }

// Execute runs the workflow's function on the calling goroutine and returns when
// that goroutine is done with it; the lease may end later, when the run's other
// branches have ended.
func (inv *Invocation) Execute() {
	if f := inv.refuse(); f != nil {
		inv.finish(store.Transition{Kind: store.Fail, Failure: f})
		return
	}
	inv.mu.Lock()
	if inv.closed {
		inv.mu.Unlock()
		inv.conclude()
		return
	}
	inv.live = 1
	if !inv.run.Deadline.IsZero() && !inv.canceling {
		if left := inv.run.Deadline.Sub(inv.Now()); left > 0 {
			inv.deadline = time.AfterFunc(left, inv.expire)
		} else {
			inv.expired = true // what it has recorded is to be cleaned up
		}
	}
	if inv.canceling || inv.expired {
		inv.cancel(inv.interruptionLocked())
	}
	inv.mu.Unlock()
	main := newBranch(inv, "")
	defer inv.leave(main)
	defer inv.catch("the workflow's function")
	inv.cancelForgotten()
	input := inv.run.Input
	inv.run.Input = nil // not kept beside what the code makes of it
	out, err := inv.def.Invoke(main, input)
	main.returned = true
	inv.mu.Lock()
	key, ok := store.StepKey{}, false
	if !inv.closed && !inv.canceling && !inv.expired {
		key, ok = main.unvisitedLocked()
	}
	if !inv.closed {
		var bad *DecodeError // of the input, say: the code cannot have come further
		if ok && !inv.canceling && !inv.expired && !errors.As(err, &bad) {
			inv.failLocked(nondeterministic(inv, "the code returned, but the history goes on with %s", key))
		} else {
			inv.result = &outcome{out, err}
			inv.closeLocked(byReturn)
		}
	}
	inv.mu.Unlock()
}

// refuse says why the run is to fail without being executed.
func (inv *Invocation) refuse() *store.Failure {
	if inv.cfg.Suspicion(&inv.run) == Guilty {
		n, _ := Crashes(&inv.run)
		return &store.Failure{Code: CodeCrashed, Message: fmt.Sprintf(
			"the run's lease ran out %d times in a row without progress, the last time when its worker executed nothing else: it kills or blocks its worker; look at the workers' logs of that time, then restart it", n)}
	}
	inv.mu.Lock() // its lease is being renewed, which may tell that it is canceled
	begun := inv.canceling || len(inv.recorded) > 0 || inv.moreSteps
	inv.mu.Unlock()
	if !begun && !inv.run.Deadline.IsZero() && !inv.Now().Before(inv.run.Deadline) {
		return deadlineFailure(inv.run.Deadline)
	}
	return nil
}

func deadlineFailure(at time.Time) *store.Failure {
	return &store.Failure{Code: CodeDeadline, Message: "the run's deadline of " + at.Format(time.RFC3339) + " has passed"}
}

// catch turns a panic of user code into the run's failure. It must be deferred
// directly.
func (inv *Invocation) catch(where string) {
	if v := recover(); v != nil {
		inv.mu.Lock()
		inv.failLocked(panicFailure(where, v, debug.Stack()))
		inv.mu.Unlock()
	}
}

func panicFailure(where string, v any, stack []byte) *store.Failure {
	const maxStack = 16 << 10
	if len(stack) > maxStack {
		stack = stack[:maxStack]
	}
	return &store.Failure{Code: CodePanic, Message: fmt.Sprintf("%s panicked: %v", where, v), Type: fmt.Sprintf("%T", v), Stack: string(stack)}
}

// leave is deferred by every goroutine of the run; the last one ends the lease.
func (inv *Invocation) leave(b *Branch) {
	inv.mu.Lock()
	if !b.returned && !inv.closed {
		what := fmt.Sprintf("the function of %s ended its goroutine with runtime.Goexit; a workflow must return", b.describe())
		if b.exited != "" {
			what = fmt.Sprintf("the function of step %s ended its goroutine with runtime.Goexit; a step must return", b.exited)
		}
		inv.failLocked(&store.Failure{Code: CodeExited, Message: what})
	}
	inv.live--
	b.endLocked()
	inv.checkIdleLocked()
	last := inv.live == 0 || inv.closed && inv.reason == byReturn && b.path == ""
	inv.mu.Unlock()
	if last {
		inv.conclude()
	}
}

// conclude ends the lease by what became of the execution.
func (inv *Invocation) conclude() {
	inv.mu.Lock()
	why, result, failure := inv.reason, inv.result, inv.failure
	canceling, expired := inv.canceling, inv.expired
	inv.mu.Unlock()
	inv.cancel(errEnded)
	switch why {
	case byLoss:
		inv.give(End{Err: ErrLeaseLost})
	case byRelease:
		inv.finish(inv.release())
	case bySuspend:
		inv.finish(inv.sleep())
	case byFailure:
		inv.finish(store.Transition{Kind: store.Fail, Failure: failure})
	case byReturn:
		var next *Continuation
		switch {
		case result.err == nil:
			if err := inv.checkSize("the run's output", result.output); err != nil {
				inv.finish(inv.failed(Fail(err), false, 0))
				return
			}
			inv.finish(store.Transition{Kind: store.Complete, Output: result.output})
		case expired:
			inv.finish(store.Transition{Kind: store.Fail, Failure: deadlineFailure(inv.run.Deadline)})
		case canceling:
			inv.finish(store.Transition{Kind: store.CancelRun}) // with the reason of the cancel
		case errors.As(result.err, &next) && next.Data != nil:
			if err := inv.checkSize("the input to continue with", next.Data); err != nil {
				inv.finish(inv.failed(Fail(err), false, 0))
				return
			}
			inv.dropPassed()
			inv.finish(store.Transition{Kind: store.Continue, Input: next.Data})
		default:
			inv.finish(inv.failed(Fail(result.err), Retryable(inv.def.Retry, result.err), later(result.err)))
		}
	}
}

// failed makes the transition of a run whose function returned an error; after: how long
// that asks to wait.
func (inv *Invocation) failed(f *store.Failure, retry bool, after time.Duration) store.Transition {
	if retry {
		if wait, ok := inv.def.Retry.next(inv.run.Attempt, after); ok {
			return store.Transition{Kind: store.Retry, Failure: f, After: wait}
		}
	}
	return store.Transition{Kind: store.Fail, Failure: f}
}

// sleep makes the transition of a run in which everything waits.
func (inv *Invocation) sleep() store.Transition {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	tr := store.Transition{Kind: store.Sleep}
	var first time.Time
	for w := range inv.waits {
		tr.Wakes |= w.wakes
		tr.Await = append(tr.Await, w.await...)
		if w.news { // what has come was not taken: the sleep is to end at once
			inv.seen = 0
			first = time.Now() // what the run has written itself, perhaps with this very commit, wakes nobody
		}
		if !w.storeDue.IsZero() {
			if tr.At.IsZero() || w.storeDue.Before(tr.At) {
				tr.At = w.storeDue
			}
		} else if !w.due.IsZero() && (first.IsZero() || w.due.Before(first)) {
			first = w.due
		}
	}
	if !first.IsZero() {
		tr.After = max(time.Until(first), time.Microsecond)
	}
	return tr
}

// finish commits what is pending together with the transition.
func (inv *Invocation) finish(tr store.Transition) {
	inv.mu.Lock()
	if inv.finished {
		inv.mu.Unlock()
		return
	}
	inv.finished = true
	if !inv.closed {
		inv.closeLocked(byRelease)
	}
	for inv.flushing {
		inv.durable.Wait()
	}
	if inv.reason != byLoss && inv.unsent > 0 && inv.unsent+tr.Size() > commitBytes {
		if res := inv.commitLocked(); rejected(res.Err) {
			tr = store.Transition{Kind: store.Fail, Failure: Fail(res.Err)}
		}
	}
	if inv.unsure {
		inv.seen = 0 // a sleep is to end at once
	}
	lost := inv.reason == byLoss
	c := inv.takeLocked()
	inv.endedLocked()
	inv.mu.Unlock()
	if lost {
		inv.host.Closed(inv, End{Err: ErrLeaseLost})
		return
	}
	c.Transition = &tr
	switch {
	case isProgress(&c):
		c.Crashes = 0
	case tr.Kind == store.Release:
		c.Crashes %= aloneMark // the next lease begins anew
	}
	res := inv.host.Commit(c)
	if rejected(res.Err) {
		tr = store.Transition{Kind: store.Fail, Failure: Fail(res.Err)}
		res = inv.host.Commit(store.Commit{Lease: inv.lease, Seq: c.Seq, Transition: &tr})
	}
	inv.host.Closed(inv, End{Status: res.Status, Transition: tr, Err: res.Err})
}

// give gives the lease up without a commit.
func (inv *Invocation) give(end End) {
	inv.mu.Lock()
	if inv.finished {
		inv.mu.Unlock()
		return
	}
	inv.finished = true
	inv.endedLocked()
	inv.mu.Unlock()
	inv.host.Closed(inv, end)
}

// endedLocked tells the host, once, that user code is done with.
func (inv *Invocation) endedLocked() {
	if inv.deadline != nil {
		inv.deadline.Stop()
	}
	if inv.lingering != nil {
		inv.lingering.Stop()
	}
	if !inv.ended {
		inv.ended = true
		inv.host.Ended(inv, inv.parked)
	}
}

// closeLocked lets no operation go on: each ends its goroutine from now on, and
// those that wait end at once.
func (inv *Invocation) closeLocked(why reason) {
	if !inv.closed {
		inv.closed, inv.reason = true, why
		close(inv.done)
		inv.durable.Broadcast()
	} else if why == byLoss {
		inv.reason = why // what was to be committed cannot be any more
	}
}

func (inv *Invocation) failLocked(f *store.Failure) {
	if !inv.closed {
		inv.failure = f
		inv.closeLocked(byFailure)
		inv.cancel(errEnded)
	}
}

// exit ends the calling goroutine of a closed invocation. User code cannot
// recover from it.
func exit() { runtime.Goexit() }

// Lose ends the invocation because its lease is lost: nothing of it is recorded.
func (inv *Invocation) Lose() {
	inv.mu.Lock()
	if inv.finished {
		inv.mu.Unlock()
		return
	}
	inv.closeLocked(byLoss)
	inv.durable.Broadcast()
	inv.mu.Unlock()
	inv.cancel(ErrLeaseLost)
}

// Lost reports whether the invocation was given up because its lease is lost. Code of
// the run may go on for a while, but the lease is not to be kept for that.
func (inv *Invocation) Lost() bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.closed && inv.reason == byLoss
}

// Stay lets the calling goroutine of the run wait until the execution has ended, and
// ends it then. It is for a host that begins nothing new.
func (inv *Invocation) Stay() {
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	inv.blocked++
	inv.checkIdleLocked()
	inv.mu.Unlock()
	<-inv.done
	exit()
}

// Cancel tells the running code that the run is canceled: its contexts end, and
// its further operations return [ErrCanceled].
func (inv *Invocation) Cancel() {
	inv.mu.Lock()
	inv.cancelLocked()
	inv.mu.Unlock()
}

func (inv *Invocation) cancelLocked() {
	inv.canceling = true
	inv.cancel(ErrCanceled)
	inv.wakeAllLocked()
}

func (inv *Invocation) expire() {
	inv.mu.Lock()
	if inv.canceling { // it is to end already, and what comes first counts
		inv.mu.Unlock()
		return
	}
	inv.expired = true
	inv.wakeAllLocked()
	inv.mu.Unlock()
	inv.cancel(ErrDeadline)
}

func (inv *Invocation) wakeAllLocked() {
	for w := range inv.waits {
		w.wake()
	}
}

// Drain lets the run's present steps finish and gives the lease back before the
// next one begins.
func (inv *Invocation) Drain() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.draining = true
	if inv.live > 0 && inv.blocked == inv.live {
		inv.leaveMemoryLocked()
	}
}

// Abandon gives the lease back at once, whatever still runs. What running steps
// return is not recorded.
func (inv *Invocation) Abandon() {
	inv.mu.Lock()
	if inv.closed && inv.reason != byRelease {
		inv.mu.Unlock()
		inv.cancel(ErrShutdown)
		return // its end is on the way
	}
	inv.closeLocked(byRelease)
	inv.mu.Unlock()
	inv.cancel(ErrShutdown)
	inv.finish(inv.release())
}

// PutOff gives the lease back, for so long, before the run was executed. Its crashes stay
// counted.
func (inv *Invocation) PutOff(after time.Duration) {
	inv.mu.Lock()
	inv.closeLocked(byRelease)
	inv.mu.Unlock()
	inv.cancel(ErrShutdown)
	inv.finish(store.Transition{Kind: store.Release, After: after})
}

// Load completes a run that was claimed without what has a size.
func (inv *Invocation) Load(run *store.Run) {
	inv.run.Input, inv.run.Meta, inv.run.Failure, inv.run.Omitted = run.Input, run.Meta, run.Failure, false
}

// nondeterministic makes the failure of a run whose history does not fit the code. The
// invocation is locked. When the code was told of a payload that cannot be decoded, that is
// why it has left the way that it took before.
func nondeterministic(inv *Invocation, format string, args ...any) *store.Failure {
	if inv.undecoded != nil {
		return &store.Failure{Code: CodeDecode, Message: fmt.Sprintf("%v; after that the recorded history does not fit the code: ", inv.undecoded) + fmt.Sprintf(format, args...) +
			". Run code whose type fits the payload, and restart the run"}
	}
	return &store.Failure{Code: CodeNondeterministic, Message: "the recorded history does not fit the code: " + fmt.Sprintf(format, args...) +
		". Run the code that recorded it, or give the changed workflow a new name or version"}
}
