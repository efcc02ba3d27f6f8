package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Causes with which a step's context is canceled.
var (
	ErrCanceled  = errors.New("the run was canceled")
	ErrDeadline  = errors.New("the run's deadline has passed")
	ErrShutdown  = errors.New("the worker is shutting down")
	ErrLeaseLost = errors.New("the run was taken over by another worker")
	errEnded     = errors.New("the run's function has returned")
)

// Host is what an invocation needs of its worker.
type Host interface {
	// Commit makes one commit durable. It repeats the commit while the store is
	// out of reach; an error says that it can never be applied.
	Commit(c *store.Commit) store.CommitResult
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
	Inbox(inv *Invocation, look Look) (box store.Inbox, ok bool)
	// Ask makes a call of the store, and makes it again while the store is out of
	// reach. It fails with [ErrShutdown] when it was given up, and otherwise with why the
	// store refuses.
	Ask(inv *Invocation, what string, call func(ctx context.Context, st store.Store, namespace string) error) error
	// Callee returns what workers have registered of a workflow. It waits while the store is out
	// of reach; false: the run was given up.
	Callee(inv *Invocation, workflow string) (found Callee, ok bool)
	// Declare registers limits, unless the worker has done so. It waits while the store is out of
	// reach; false: the run was given up.
	Declare(inv *Invocation, limits []store.Limit) (ok bool)
	// Ready returns once a side effect may begin: the lease is not known to have
	// run out. False: the lease is lost.
	Ready(inv *Invocation) bool
	// ReleaseSlot says that the run needs no slot any more: its goroutines only wait, or
	// no user code of it runs. AcquireSlot says that a goroutine of a run without a slot
	// goes on; it may wait for one.
	ReleaseSlot(inv *Invocation)
	AcquireSlot(inv *Invocation)
	// Closed says that the lease has ended: the last commit is durable or lost.
	Closed(inv *Invocation, end End)
}

// End tells how an invocation ended.
type End struct {
	Status store.Status // of the run afterwards
	// Transition is what was committed; its Kind is zero when the lease was lost.
	Transition store.Transition
	Pin        *store.Pin // of a run that was given back to another build
	// At is the operation at which the history does not fit the code; empty: it fits.
	At string
	// Undecoded is the first error that the code was told of a recorded payload, which does
	// not fit its type; nil: there was none.
	Undecoded error
	Err       error
}

// Config is what a worker decides about its invocations.
type Config struct {
	// Build is the build of the code; empty: it has none, and gives no run back.
	Build string
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
	// Whole says that the history is that of a finished run, to which nothing is added: a
	// mark that it does not have is one that it is past.
	Whole bool
	// Check says that the history is only to be checked: see front.
	Check bool
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

// Invocation is one lease's execution of a run. It ties together small types, each of which
// has one responsibility. They take no lock; mu guards them.
type Invocation struct {
	cfg    Config
	host   Host
	def    *Definition
	run    store.Run
	lease  store.Lease
	log    func() *slog.Logger
	clock  clock
	weight int // bytes that came with the claim

	ctx    context.Context // of steps
	cancel context.CancelCauseFunc

	mu           sync.Mutex
	changed      sync.Cond    // on mu: a commit or a read has ended, or the invocation was closed
	history      history      // what is recorded
	outbox       outbox       // what the next commit carries
	inbox        inbox        // what has reached the run
	presence     presence     // whether the run must stay in memory
	permits      permits      // of its step
	front        front        // whether something new may begin
	interruption interruption // whether it is canceled or past its deadline
	ending       ending       // how the execution ends

	tags      tags                    // of the run
	children  children                // the run's child runs
	undecoded error                   // the first error that the code was told of a recorded payload
	answered  map[store.SignalID]bool // the requests that the code has answered
	lingering *time.Timer             // sends what is pending
	deadline  *time.Timer
}

// New prepares an invocation of a claimed run. claimed is when the claim was
// answered, now what the store's clock said then; base carries what steps'
// contexts inherit.
func New(base context.Context, cfg Config, host Host, def *Definition, cr store.ClaimedRun, claimed, now time.Time) *Invocation {
	inv := &Invocation{
		cfg: cfg, host: host, def: def.forRun(cr.Run.Meta), run: cr.Run, lease: cr.Lease,
		clock: clock{claimed: claimed, answered: now}, weight: weigh(&cr),
	}
	inv.ending.done = make(chan struct{})
	inv.permits.granted = cr.Run.StepUnder
	inv.tags.set(cr.Run.Tags)
	inv.history.loose = inv.def.Graph != nil
	inv.children.inv = inv
	inv.outbox.lease, inv.outbox.crashes = cr.Lease, cr.Run.Crashes
	inv.takeInLocked(cr.Inbox, Look{}, 0) // of the claim's own moment
	inv.inbox.seen = cr.Run.Events
	inv.changed.L = &inv.mu
	inv.log = sync.OnceValue(func() *slog.Logger { // it must not refer to cr, which would then be kept too
		return inv.cfg.Logger.With("run", inv.run.ID.String(), "workflow", inv.run.Workflow)
	})
	inv.interruption.canceled = cr.Run.Status == store.Canceling
	inv.ctx, inv.cancel = context.WithCancelCause(base)
	inv.addStepsLocked(cr.Steps, cr.MoreSteps)
	return inv
}

// weigh is how many bytes of payload come with a claim.
func weigh(cr *store.ClaimedRun) int {
	weight := len(cr.Run.Input) + len(cr.Run.Meta)
	for i := range cr.Steps {
		weight += len(cr.Steps[i].Output)
	}
	for i := range cr.Inbox.Signals {
		weight += len(cr.Inbox.Signals[i].Payload)
	}
	return weight
}

// Weight is how many bytes of payload came with the claim.
func (inv *Invocation) Weight() int { return inv.weight }

// Run is the run as it was claimed.
func (inv *Invocation) Run() *store.Run { return &inv.run }

// Context is that of the run's code, from which those of its steps come.
func (inv *Invocation) Context() context.Context { return inv.ctx }

// Closing returns a channel that closes when no operation of the run goes on.
func (inv *Invocation) Closing() <-chan struct{} { return inv.ending.done }

// Lease is the lease under which the invocation runs.
func (inv *Invocation) Lease() store.Lease { return inv.lease }

// Logger logs with the run's attributes.
func (inv *Invocation) Logger() *slog.Logger { return inv.log() }

// Now is the store's clock as this process can tell it.
func (inv *Invocation) Now() time.Time { return inv.clock.now() }

// Execute runs the workflow's function on the calling goroutine and returns when
// that goroutine is done with it; the lease may end later, when the run's other
// branches have ended.
func (inv *Invocation) Execute() {
	if f := inv.refuse(); f != nil {
		inv.finish(store.Transition{Kind: store.FailRun, Failure: f})
		return
	}
	if !inv.start() {
		inv.conclude()
		return
	}
	main := newBranch(inv, "")
	defer inv.leave(main)
	defer inv.catch("the workflow's function")
	inv.children.cancelForgotten()
	input := inv.run.Input
	inv.run.Input = nil // not kept beside what the code makes of it
	out, err := inv.def.Invoke(main, input)
	main.returned = true
	inv.locked(func() { inv.returnLocked(main, outcome{out, err}) })
}

// start begins the execution; false: it was closed before.
func (inv *Invocation) start() bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.ending.closed {
		return false
	}
	inv.presence.live = 1
	inv.guardLocked()
	if !inv.run.Deadline.IsZero() && !inv.interruption.canceled {
		if left := inv.run.Deadline.Sub(inv.Now()); left > 0 {
			inv.deadline = time.AfterFunc(left, inv.expire)
		} else {
			inv.interruption.expired = true // what it has recorded is to be cleaned up
		}
	}
	if inv.interruption.any() {
		inv.cancel(inv.interruption.err())
	}
	return true
}

// returnLocked takes in what the workflow's function has returned.
func (inv *Invocation) returnLocked(main *Branch, result outcome) {
	key, ok := main.unvisitedLocked()
	if !ok {
		inv.awaitFrontLocked(false) // other branches may not have come to what is recorded of them
	}
	if inv.ending.closed {
		return
	}
	var bad *DecodeError // of the input, say: the code cannot have come further
	if ok && !inv.interruption.any() && !errors.As(result.err, &bad) {
		inv.returnedEarlyLocked("the code", key)
		return
	}
	inv.ending.result = &result
	inv.closeLocked(byReturn)
}

// refuse says why the run is to fail without being executed.
func (inv *Invocation) refuse() *store.Failure {
	if inv.cfg.Suspicion(&inv.run) == Guilty {
		n, _ := Crashes(&inv.run)
		return &store.Failure{Code: CodeCrashed, Message: fmt.Sprintf(
			"the run's lease expired %d times in a row without progress, the last time while its worker executed nothing else: it kills or blocks its worker; check the workers' logs of that time, then restart the run", n)}
	}
	begun := false
	inv.locked(func() { // its lease is being renewed, which may tell that it is canceled
		begun = inv.interruption.canceled || !inv.history.empty()
	})
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
		f := panicFailure(where, v, debug.Stack())
		inv.locked(func() { inv.failLocked(f) })
	}
}

func panicFailure(where string, v any, stack []byte) *store.Failure {
	const maxStack = 16 << 10
	if len(stack) > maxStack {
		stack = stack[:maxStack]
	}
	return &store.Failure{Code: CodePanic, Message: fmt.Sprintf("%s panicked: %v", where, v), Type: fmt.Sprintf("%T", v), Stack: string(stack)}
}

// Load completes a run that was claimed without what has a size.
func (inv *Invocation) Load(run *store.Run) {
	inv.run.Input, inv.run.Meta, inv.run.Failure, inv.run.Omitted = run.Input, run.Meta, run.Failure, false
}
