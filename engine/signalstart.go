package engine

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// WithSignal makes a start deliver a signal (signal-with-start): to the active run that holds the
// [ExternalID], or to the run that the start creates because none does, in one durable write. A signal
// without an ID gets one. Most programs use workflow.Workflow.SignalWithStart.
//
// The start needs an ExternalID and cannot have the policy [Reject]. The input and the other options
// are for a run that the start creates; those of a run that it finds stay as they are, and inputs are
// not compared. Started.Existing says that the signal went to another run.
//
// A signal of the same ID is the same start sent again: if a run of the external id has received it,
// nothing changes, and the start returns that run, also after its end. If the run that holds the
// external id is final (see [Forever]), the start fails with store.ErrFinished.
func WithSignal(s store.StartSignal) StartOption {
	return func(r *store.NewRun) { r.Signal = &s }
}

// prepareSignal fills in the signal of a start, and checks and records it.
func (e *Engine) prepareSignal(ctx context.Context, run *store.NewRun) error {
	sig := *run.Signal
	if sig.ID.IsZero() {
		sig.ID = store.NewID()
	}
	run.Signal = &sig
	if err := e.checkStart(run.Workflow, sig.Payload); err != nil {
		return fmt.Errorf("signal %q: %w", sig.Name, err)
	}
	if err := run.Validate(e.store.Limits()); err != nil {
		return startError(run.Workflow, err)
	}
	e.weigh("a signal "+sig.Name, sig.Payload)
	return e.Record(ctx, "signal", "run of external id "+run.ExternalID, sig.Name)
}
