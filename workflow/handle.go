package workflow

import (
	"context"
	"errors"
	"sync"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Handle refers to a run whose output is an Out. A start returns it, [Workflow.Find] and
// [Reference.Find] look it up by an external id, and [Workflow.Handle] and [Reference.Handle] make it
// from a run's ID.
//
// Its calls go through the engine that it was made with. If that is a view inside a transaction (see
// [engine.Engine.InTx]), Result still waits outside the transaction. All other calls are part of the
// transaction and fail once it has ended; make another handle from the ID then.
//
// What else can be done with a run takes its ID: [engine.Engine.Pause], [engine.Engine.Restart],
// [engine.Engine.Progress] and others. The zero Handle refers to no run; its calls fail with
// store.ErrInvalid.
type Handle[Out any] struct {
	eng      *engine.Engine
	id       store.ID
	existing bool
}

// ID returns the run's ID.
func (h Handle[Out]) ID() store.ID { return h.id }

// Existing reports whether the start found a run of the same external id (see [engine.ExternalID])
// and created none.
func (h Handle[Out]) Existing() bool { return h.existing }

// Result waits until the run is final and returns its output. For a run that did not complete, the
// error is an [*engine.RunError] that matches engine.ErrFailed or engine.ErrCanceled. If the output
// cannot be decoded into Out, it is a [*DecodeError]. Other errors are those of
// [engine.Engine.Wait].
func (h Handle[Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	if h.eng == nil {
		return out, errZeroHandle()
	}
	end, err := h.eng.Wait(ctx, h.id)
	if err != nil {
		return out, err
	}
	if err := end.Err(); err != nil {
		return out, err
	}
	return out, decodeInto(h.eng.Codec(), end.Output, &out, "the output of run %s of workflow %q", end.Run, end.Workflow)
}

// Status returns the run's status now.
func (h Handle[Out]) Status(ctx context.Context) (store.Status, error) {
	if h.eng == nil {
		return 0, errZeroHandle()
	}
	run, err := h.eng.Get(ctx, h.id)
	return run.Status, err
}

// Signal sends a signal to the run:
//
//	err := run.Signal(ctx, Approved.With(Approval{By: "Ann"}))
//
// It is like [Signal.Send].
func (h Handle[Out]) Signal(ctx context.Context, m Message, opts ...SendOption) error {
	if h.eng == nil {
		return errZeroHandle()
	}
	return m.send(ctx, h.eng, store.NewSignal{Run: h.id}, opts)
}

// State returns the run's flow state, as [OfRun] does. To read a key of it, pass it to [State.Get].
func (h Handle[Out]) State(ctx context.Context) LiveScope {
	if h.eng == nil {
		return nowhere{errZeroHandle()}
	}
	return OfRun(ctx, h.eng, h.id)
}

// Cancel cancels the run, and its children with it, as [engine.Engine.Cancel] does. It does not wait
// for the run's end: Result does.
func (h Handle[Out]) Cancel(ctx context.Context, reason string) error {
	if h.eng == nil {
		return errZeroHandle()
	}
	return h.eng.Cancel(ctx, h.id, reason)
}

func errZeroHandle() error {
	return store.Invalid("handle", "it is the zero Handle, which belongs to no run")
}

// Results waits for many runs and returns their outputs in the order of the handles. The
// error joins those of all runs that did not complete; their outputs are zero.
func Results[Out any](ctx context.Context, handles []Handle[Out]) ([]Out, error) {
	outs := make([]Out, len(handles))
	errs := make([]error, len(handles))
	var wg sync.WaitGroup
	for i, h := range handles {
		wg.Go(func() { outs[i], errs[i] = h.Result(ctx) })
	}
	wg.Wait()
	return outs, errors.Join(errs...)
}
