// Package replay runs a workflow's code against a recorded history, without executing a step
// and without writing anything.
package replay

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// History is a run with its records, or with the first of them.
type History struct {
	Run   store.Run
	Steps []store.Step
	// More says that steps follow, which Read has.
	More bool
	// Read makes a call that reads from the run's store. Nil: the history is all there is.
	Read func(call func(ctx context.Context, st store.Store, namespace string) error) error
}

// Finished reports whether the run's function had returned.
func (h *History) Finished() bool {
	return h.Run.Status == store.Completed || h.Run.Status == store.Failed
}

// Outcome is what came of a replay.
type Outcome struct {
	End    exec.End
	Beyond string // the first thing that the code does, or records, beyond the history; empty: nothing
	Begins bool   // a step that is not recorded was about to begin
	Cut    string // what the replay could not read, so that it says nothing of what follows; empty: nothing
	// decode says that the history itself has a failure of code decode.
	decode bool
}

// Misfit returns why the history does not fit the code; nil: it fits.
func (o *Outcome) Misfit() *store.Failure {
	switch f := o.End.Transition.Failure; {
	case f == nil && o.End.Undecoded != nil && !o.decode: // the code has not returned it yet
		return &store.Failure{Code: exec.CodeDecode, Message: o.End.Undecoded.Error()}
	case f == nil:
		return nil
	case f.Code == exec.CodeDecode && o.decode:
		return nil
	default:
		switch f.Code {
		case exec.CodeNondeterministic, exec.CodeDeadlock, exec.CodeMark, exec.CodeCodec, exec.CodeDecode:
			return f
		}
		return nil
	}
}

// Run replays a history. It fails only if ctx ends.
func Run(ctx context.Context, def *exec.Definition, h History) (*Outcome, error) {
	run := h.Run
	run.Deadline, run.Crashes = time.Time{}, 0
	if run.Status != store.Canceling {
		run.Status = store.Running
	}
	r := &replayer{read: h.Read, ended: make(chan struct{})}
	r.out.decode = failedToDecode(h.Run.Failure)
	r.take(h.Steps)
	now := time.Now()
	for i := range h.Steps {
		if at := h.Steps[i].DueAt; at.After(now) {
			now = at // every wait that was recorded is over
		}
	}
	inv := exec.New(context.WithoutCancel(ctx), exec.Config{
		Park: -1, Linger: time.Hour, Aside: time.Minute, ShowAfter: time.Hour, MaxCrashes: 1, PayloadLimit: 1 << 30, PayloadWarn: 1 << 30,
		Whole: h.Finished(), Check: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, r, def, store.ClaimedRun{Run: run, Steps: h.Steps, MoreSteps: h.More}, time.Now(), now)
	go inv.Execute()
	select {
	case <-r.ended:
		return &r.out, nil
	case <-ctx.Done():
		inv.Abandon()
		return nil, context.Cause(ctx)
	}
}

func failedToDecode(f *store.Failure) bool { return f != nil && f.Code == exec.CodeDecode }

// replayer is the host of an invocation that must not do anything.
type replayer struct {
	read  func(call func(ctx context.Context, st store.Store, namespace string) error) error
	ended chan struct{}

	mu  sync.Mutex
	out Outcome
}

// take looks at steps of the history.
func (r *replayer) take(steps []store.Step) {
	bad := slices.ContainsFunc(steps, func(s store.Step) bool { return failedToDecode(s.Failure) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.decode = r.out.decode || bad
}

// beyond notes what the code does beyond the history.
func (r *replayer) beyond(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out.Beyond == "" {
		r.out.Beyond = what
	}
}

func (r *replayer) Commit(c *store.Commit) store.CommitResult {
	for _, s := range c.Steps {
		waits := s.Kind == store.KindSleep || s.Kind == store.KindSignal || s.Kind == store.KindState && s.Status == store.StepRunning
		if !waits {
			r.beyond(s.String())
		}
	}
	return store.CommitResult{Status: store.Running}
}

// Callee returns what nobody sees: a replay spawns nothing.
func (r *replayer) Callee(_ *exec.Invocation, workflow string) (exec.Callee, bool) {
	return exec.Callee{Queue: workflow}, true
}

// Declare holds a step that waits for a permit, as Ready holds one that begins.
func (r *replayer) Declare(inv *exec.Invocation, _ []store.Limit) bool { return r.Ready(inv) }

// Ready holds a step that is not recorded before it begins. Whether the code waits for
// it shows when the rest of the run has ended, or waits, too: in the recorded run it may
// have been cut short, or not have come that far.
func (r *replayer) Ready(inv *exec.Invocation) bool {
	r.mu.Lock()
	r.out.Begins = true
	r.mu.Unlock()
	inv.Stay()
	return false
}

// Begin is never reached: Ready refuses before.
func (r *replayer) Begin(context.Context, *exec.Invocation, any) (store.Transaction, error) {
	return nil, store.ErrUnsupported
}

func (r *replayer) CommitTx(*exec.Invocation, store.Transaction, store.Commit) (store.CommitResult, error) {
	return store.CommitResult{}, store.ErrUnsupported
}

// State holds a read that is not recorded, as Ready holds a step.
func (r *replayer) State(_ context.Context, inv *exec.Invocation, _ ...string) ([]store.StateEntry, error) {
	r.beyond("a read of flow state")
	inv.Stay()
	return nil, store.ErrUnsupported
}

// SetState is never reached: it is of steps.
func (r *replayer) SetState(context.Context, *exec.Invocation, store.StateWrite) (store.StateEntry, error) {
	return store.StateEntry{}, store.ErrUnsupported
}

func (r *replayer) Inbox(*exec.Invocation, exec.Look) (store.Inbox, bool) { return store.Inbox{}, true }

// Ask reads what the replay needs beside the steps that it was given: further steps, and
// large results that are kept with children. Without a store it refuses.
func (r *replayer) Ask(_ *exec.Invocation, what string, call func(context.Context, store.Store, string) error) error {
	var err error
	if r.read != nil {
		err = r.read(func(ctx context.Context, st store.Store, namespace string) error {
			return call(ctx, reader{real: st, took: r.take}, namespace)
		})
		if err == nil {
			return nil
		}
		what += ": " + err.Error()
	} else {
		r.beyond("the large results of a child, which the history does not have")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out.Cut == "" {
		r.out.Cut = what
	}
	return exec.ErrShutdown
}

func (r *replayer) ReleaseSlot(*exec.Invocation) {}
func (r *replayer) AcquireSlot(*exec.Invocation) {}

func (r *replayer) Closed(_ *exec.Invocation, end exec.End) {
	r.mu.Lock()
	r.out.End = end
	r.mu.Unlock()
	close(r.ended)
}

// reader is the part of a store that a replay reads. It has no method that writes: the
// embedded interface is nil.
type reader struct {
	store.Store
	real store.Store
	took func([]store.Step)
}

func (r reader) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	page, err := r.real.Steps(ctx, p)
	r.took(page.Steps)
	return page, err
}

func (r reader) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return r.real.Get(ctx, p)
}

func (r reader) Children(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
	return r.real.Children(ctx, p)
}

func (r reader) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	return r.real.Inbox(ctx, p)
}

// Cancel refuses: a replay cancels nothing.
func (r reader) Cancel(context.Context, store.CancelParams) ([]store.ControlResult, error) {
	return nil, store.ErrUnsupported
}
