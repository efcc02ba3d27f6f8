package engine

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// Signal sends a signal to a run, or to the active run of an external id. A signal without
// an ID gets one, so that it arrives once even if the request is retried. It fails with
// store.ErrNotFound, store.ErrFinished, store.ErrInvalid or store.ErrTooLarge. Most
// programs use the typed Send of package workflow.
//
// It does not check that the payload is encrypted where the run's workers insist on it: it
// does not know the run's workflow, and would have to read the run first
// ([Engine.CheckPayload] does). Such a signal is sent, and the code that receives it gets a
// workflow.DecodeError.
func (e *Engine) Signal(ctx context.Context, s store.NewSignal) error {
	_, err := e.signal(ctx, s)
	return err
}

// signal sends a signal and returns the run that has received it.
func (e *Engine) signal(ctx context.Context, s store.NewSignal) (run store.ID, err error) {
	if s.ID.IsZero() {
		s.ID = store.NewID()
	}
	e.weigh("a signal "+s.Name, s.Payload)
	target, runs := "run of external id "+s.ExternalID, []store.ID(nil)
	if !s.Run.IsZero() {
		runs = []store.ID{s.Run}
	}
	if e.fault != nil {
		return run, e.fault
	}
	p := store.SignalParams{Namespace: e.namespace, Signals: []store.NewSignal{s}, Record: e.acts(ctx, "signal", target, s.Name, runs...)}
	err = e.retry(ctx, func(ctx context.Context) error {
		res, err := e.store.Signal(ctx, p)
		if err == nil {
			run, err = res[0].Run, res[0].Err
		}
		return err
	})
	e.actedOn(ctx, p.Record, err)
	if err == nil {
		return run, nil
	}
	if s.ExternalID != "" {
		return store.ID{}, fmt.Errorf("signal %q to the run of external id %q: %w", s.Name, s.ExternalID, err)
	}
	return store.ID{}, fmt.Errorf("signal %q to run %s: %w", s.Name, s.Run, err)
}
