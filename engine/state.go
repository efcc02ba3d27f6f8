package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// SetState changes a run's flow state from outside, with all of the writes or none. It
// returns the entries as written, with their versions. It fails with store.ErrConflict if
// an IfVersion does not hold, store.ErrNotFound, store.ErrFinished, store.ErrInvalid or
// store.ErrTooLarge.
//
// A request whose outcome is unknown is retried, unless it compares versions: then SetState
// fails with store.ErrOutcomeUnknown. If the run has ended before the retry, the state that
// it left decides: if it has the values that were written, the write counts as applied (the
// version of a deletion is then 0); otherwise SetState fails with store.ErrOutcomeUnknown.
//
// Like [Engine.Signal], it does not check that the values are encrypted where the run's
// workers insist on it; [Engine.CheckPayload] does.
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
	if e.fault != nil {
		return nil, e.fault
	}
	record := e.acts(ctx, "set state", "", strings.Join(keys, ", "), run)
	var entries []store.StateEntry
	var doubt error
	lost := false
	err := e.retry(ctx, func(ctx context.Context) (err error) {
		entries, err = e.store.SetState(ctx, store.SetStateParams{Namespace: e.namespace, Run: run, Writes: writes, Record: record})
		switch {
		case errors.Is(err, store.ErrOutcomeUnknown):
			if lost = true; compares {
				doubt, err = err, nil
			}
		case lost && (errors.Is(err, store.ErrFinished) || errors.Is(err, store.ErrNotFound)):
			var applied bool
			end := err
			if entries, applied, err = e.written(ctx, run, keys, writes); err == nil && !applied {
				doubt = fmt.Errorf("%v, after an answer was lost: %w", end, store.ErrOutcomeUnknown)
			}
		}
		return err
	})
	e.actedOn(ctx, record, errors.Join(err, doubt))
	if err = errors.Join(err, doubt); err != nil {
		return nil, fmt.Errorf("state of run %s: %w", run, err)
	}
	return entries, nil
}

// written asks whether the state of a run that has ended is what the writes make it, and
// returns their entries.
func (e *Engine) written(ctx context.Context, run store.ID, keys []string, writes []store.StateWrite) (entries []store.StateEntry, applied bool, err error) {
	found, err := e.store.GetState(ctx, store.GetStateParams{Namespace: e.namespace, Run: run, Keys: keys})
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, nil // purged: nothing tells any more
	}
	if err != nil {
		return nil, false, err
	}
	for _, w := range writes {
		i := slices.IndexFunc(found, func(s store.StateEntry) bool { return s.Key == w.Key })
		switch {
		case i < 0 && w.Delete:
			entries = append(entries, store.StateEntry{Key: w.Key})
		case i < 0 || w.Delete || !bytes.Equal(found[i].Value, w.Value):
			return nil, false, nil
		default:
			entries = append(entries, found[i])
		}
	}
	return entries, true, nil
}

// GetState returns the entries of a run's flow state, in the order of their keys: those of
// the given keys that exist or, without keys, all. It fails with store.ErrNotFound.
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
