package workflow

import (
	"context"
	"errors"
	"sync"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Handle refers to a run whose output is an Out. The zero Handle refers to none.
type Handle[Out any] struct {
	eng      *engine.Engine
	id       store.ID
	existing bool
}

// ID is the run's.
func (h Handle[Out]) ID() store.ID { return h.id }

// Existing says that the start found a run of the same external id (see engine.ID) and
// made no new one.
func (h Handle[Out]) Existing() bool { return h.existing }

// Result waits until the run is final and returns its output, or an
// [*engine.RunError] that matches engine.ErrFailed or engine.ErrCanceled, or a
// [*DecodeError] if the output is no Out. Other errors are those of [engine.Engine.Wait].
func (h Handle[Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	if h.eng == nil {
		return out, store.Invalid("handle", "it is zero: its run was not started")
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

// Status returns where the run is now.
func (h Handle[Out]) Status(ctx context.Context) (store.Status, error) {
	if h.eng == nil {
		return 0, store.Invalid("handle", "it is zero: its run was not started")
	}
	run, err := h.eng.Get(ctx, h.id)
	return run.Status, err
}

// Results waits for many runs and returns their outputs in the order of the
// handles. The error joins those of all runs that did not complete; their outputs
// are zero.
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
