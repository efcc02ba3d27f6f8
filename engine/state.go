package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// SetState changes a run's flow state from outside: all writes or none. It
// returns the entries as written, with their versions. It fails with
// store.ErrConflict when an IfVersion does not hold, store.ErrNotFound,
// store.ErrFinished, store.ErrInvalid or store.ErrTooLarge. A request whose
// outcome is unknown is repeated, unless it compares versions: then
// store.ErrOutcomeUnknown comes back.
func (e *Engine) SetState(ctx context.Context, run store.ID, writes ...store.StateWrite) ([]store.StateEntry, error) {
	compares := false
	for _, w := range writes {
		compares = compares || w.IfVersion != nil
		e.weigh("the state "+w.Key, w.Value)
	}
	keys := make([]string, len(writes))
	for i, w := range writes {
		keys[i] = w.Key
	}
	if err := e.Record(ctx, "set state", "", strings.Join(keys, ", "), run); err != nil {
		return nil, err
	}
	var entries []store.StateEntry
	var doubt error
	err := e.retry(ctx, func(ctx context.Context) (err error) {
		entries, err = e.store.SetState(ctx, store.SetStateParams{Namespace: e.namespace, Run: run, Writes: writes})
		if compares && errors.Is(err, store.ErrOutcomeUnknown) {
			doubt, err = err, nil
		}
		return err
	})
	if err = errors.Join(err, doubt); err != nil {
		return nil, fmt.Errorf("state of run %s: %w", run, err)
	}
	return entries, nil
}

// GetState reads a run's flow state: the given keys that exist, or all, in the
// order of the keys. It fails with store.ErrNotFound.
func (e *Engine) GetState(ctx context.Context, run store.ID, keys ...string) ([]store.StateEntry, error) {
	var entries []store.StateEntry
	err := e.retry(ctx, func(ctx context.Context) (err error) {
		entries, err = e.store.GetState(ctx, store.GetStateParams{Namespace: e.namespace, Run: run, Keys: keys})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("state of run %s: %w", run, err)
	}
	return entries, nil
}
