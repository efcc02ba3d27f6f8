package engine

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/pawlhq/pawl/store"
)

// WatchState returns the entries that a key of a run's flow state has: first the present one, if there
// is one, then each later one. Entries that are replaced before the caller asks for the next one are
// skipped, but never the last one; deletions are not reported. The sequence ends when the run is
// final, after the last entry, or with an error: store.ErrNotFound, store.ErrInvalid, [ErrClosed] or
// the context's error. Most programs use workflow.View.
//
// A change wakes it at once if the store gives hints. In any case it looks every poll. While the store
// cannot be reached it continues to wait. On a view inside a transaction it fails with
// store.ErrInvalid.
func (e *Engine) WatchState(ctx context.Context, run store.ID, key string, poll time.Duration) iter.Seq2[store.StateEntry, error] {
	return func(yield func(store.StateEntry, error) bool) {
		if err := e.mayWatch(key, poll); err != nil {
			yield(store.StateEntry{}, err)
			return
		}
		w := e.watches.add(run)
		defer e.watches.remove(w)
		ticker := time.NewTicker(poll)
		defer ticker.Stop()
		for seen := int64(0); ; {
			entry, final, err := e.lookAtKey(ctx, run, key)
			if err != nil {
				yield(store.StateEntry{}, err)
				return
			}
			if entry.Version > seen {
				seen = entry.Version
				if !yield(entry, nil) {
					return
				}
			}
			if final {
				return
			}
			select {
			case <-w.news:
			case <-ticker.C:
			case <-ctx.Done():
				yield(store.StateEntry{}, fmt.Errorf("watching state of run %s: %w", run, ctx.Err()))
				return
			case <-e.ctx.Done():
				yield(store.StateEntry{}, fmt.Errorf("watching state of run %s: %w", run, ErrClosed))
				return
			}
		}
	}
}

func (e *Engine) mayWatch(key string, poll time.Duration) error {
	switch {
	case e.fault != nil:
		return e.fault
	case e.root != nil:
		return store.Invalid("watching state", "it is not possible inside a transaction; watch after the transaction has committed")
	case poll <= 0:
		return store.Invalid("poll", fmt.Sprintf("%v is not positive", poll))
	}
	return store.ValidateName("state key", key)
}

// lookAtKey reads an entry of a run's state. final says that it is the last one.
func (e *Engine) lookAtKey(ctx context.Context, run store.ID, key string) (entry store.StateEntry, final bool, err error) {
	callCtx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	// The status first: what a run that is final has published is read after its end.
	found, err := e.store.Get(callCtx, store.GetParams{Namespace: e.namespace, IDs: []store.ID{run}, FinalOnly: true, NoInput: true})
	var entries []store.StateEntry
	if err == nil {
		entries, err = e.store.GetState(callCtx, store.GetStateParams{Namespace: e.namespace, Run: run, Keys: []string{key}})
	}
	switch {
	case err == nil && len(entries) > 0:
		return entries[0], len(found) > 0, nil
	case err == nil:
		return entry, len(found) > 0, nil
	case ctx.Err() != nil:
		return entry, false, nil // the caller finds it
	case store.Retryable(err) || callCtx.Err() != nil:
		e.log.Warn("failed to read a run's state; retrying", "run", run.String(), "error", err)
		return entry, false, nil
	}
	return entry, false, fmt.Errorf("watching state of run %s in namespace %q: %w", run, e.namespace, err)
}
