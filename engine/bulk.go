package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// bulkBatch limits the runs that one write of a bulk action changes.
const bulkBatch = 500

// Bulk is the progress, and at the end the result, of an action on many runs.
type Bulk struct {
	// Done counts the runs that are now in the requested state, including those that
	// already were.
	Done int64
	// Canceling counts the runs of Done that are not final yet, because they still have
	// to clean up.
	Canceling int64
	// Skipped counts the runs that the action no longer applies to, for example because
	// they have ended in the meantime.
	Skipped int64
}

// BulkOption configures an action on many runs.
type BulkOption func(*bulk)

type bulk struct {
	limit    int64
	progress func(Bulk)
}

// AtMost ends the action after n runs; runs that are skipped do not count. The default, also for 0
// or less, is no limit.
func AtMost(n int64) BulkOption { return func(b *bulk) { b.limit = n } }

// Report sets a function that is called with the progress after each batch, in the calling goroutine.
func Report(f func(Bulk)) BulkOption { return func(b *bulk) { b.progress = f } }

// active are the statuses of runs that are not final.
func active() []store.Status {
	return []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}
}

// CancelMany cancels the runs that a filter selects, oldest first, as [Engine.Cancel] does,
// up to 500 with each write. A filter without statuses selects runs that are not final.
// Runs that are created meanwhile may be left out.
//
// If it fails, the runs that were already canceled stay so, and Bulk counts them; call it again
// for the rest. A filter without any field set fails with store.ErrInvalid, so that it does not
// select every run by accident; to select every run, set Statuses.
func (e *Engine) CancelMany(ctx context.Context, filter store.RunFilter, reason string, opts ...BulkOption) (Bulk, error) {
	return e.bulk(ctx, "cancel", filter, active(), opts, e.batched("cancel", reason, func(ctx context.Context, ids []store.ID, record []store.Action) ([]store.ControlResult, error) {
		return e.store.Cancel(ctx, store.CancelParams{Namespace: e.namespace, IDs: ids, Reason: reason, Record: record})
	}))
}

// ForceCancelMany ends the runs that a filter selects, each as [Engine.ForceCancel] does.
// Otherwise it is like [Engine.CancelMany].
func (e *Engine) ForceCancelMany(ctx context.Context, filter store.RunFilter, reason string, opts ...BulkOption) (Bulk, error) {
	return e.bulk(ctx, "forced cancel", filter, active(), opts, e.batched("forced cancel", reason, func(ctx context.Context, ids []store.ID, record []store.Action) ([]store.ControlResult, error) {
		return e.store.Cancel(ctx, store.CancelParams{Namespace: e.namespace, IDs: ids, Reason: reason, Force: true, Record: record})
	}))
}

// PauseMany pauses the runs that a filter selects, each as [Engine.Pause] does. Otherwise
// it is like [Engine.CancelMany]. To hold back new runs, use [Engine.PauseQueue] or
// [Engine.PauseWorkflow].
func (e *Engine) PauseMany(ctx context.Context, filter store.RunFilter, opts ...BulkOption) (Bulk, error) {
	return e.bulk(ctx, "pause", filter, active(), opts, e.batched("pause", "", func(ctx context.Context, ids []store.ID, record []store.Action) ([]store.ControlResult, error) {
		return e.store.Pause(ctx, store.PauseParams{Namespace: e.namespace, IDs: ids, Record: record})
	}))
}

// ResumeMany resumes the runs that a filter selects, each as [Engine.Resume] does.
// Otherwise it is like [Engine.CancelMany]. A filter without statuses selects runs that are
// paused or running: of these, some may be about to pause.
func (e *Engine) ResumeMany(ctx context.Context, filter store.RunFilter, opts ...BulkOption) (Bulk, error) {
	return e.bulk(ctx, "resume", filter, []store.Status{store.Paused, store.Running}, opts, e.batched("resume", "", func(ctx context.Context, ids []store.ID, record []store.Action) ([]store.ControlResult, error) {
		return e.store.Pause(ctx, store.PauseParams{Namespace: e.namespace, IDs: ids, Resume: true, Record: record})
	}))
}

// RestartMany restarts the runs that a filter selects, each as [Engine.Restart] does.
// Otherwise it is like [Engine.CancelMany]. A filter without statuses selects failed runs.
// A run whose external id another run holds is skipped.
func (e *Engine) RestartMany(ctx context.Context, filter store.RunFilter, opts ...BulkOption) (Bulk, error) {
	return e.bulk(ctx, "restart", filter, []store.Status{store.Failed}, opts, e.restartAll)
}

// bulk lists the runs that a filter selects and calls act for each page.
func (e *Engine) bulk(ctx context.Context, verb string, filter store.RunFilter, statuses []store.Status, opts []BulkOption,
	act func(ctx context.Context, ids []store.ID, done *Bulk) error) (done Bulk, err error) {
	var b bulk
	for _, opt := range opts {
		opt(&b)
	}
	if e.fault != nil {
		return done, e.fault
	}
	if selectsAll(filter) {
		return done, fmt.Errorf("%s of many runs: %w", verb, store.Invalid("filter", fmt.Sprintf("it selects every run of namespace %q; name a workflow, a queue, a time, tags, or statuses", e.namespace)))
	}
	if len(filter.Statuses) == 0 {
		filter.Statuses = statuses
	}
	for cursor := ""; ; {
		limit := bulkBatch
		if b.limit > 0 {
			limit = int(min(int64(limit), b.limit-done.Done))
		}
		var page store.RunPage
		err := e.retry(ctx, func(ctx context.Context) (err error) {
			page, err = e.store.List(ctx, store.ListParams{Namespace: e.namespace, Filter: filter, OldestFirst: true, Cursor: cursor, Limit: limit})
			return err
		})
		if err == nil && len(page.Runs) > 0 {
			ids := make([]store.ID, len(page.Runs))
			for i := range page.Runs {
				ids[i] = page.Runs[i].ID
			}
			err = act(ctx, ids, &done)
			if b.progress != nil {
				b.progress(done)
			}
		}
		if err != nil {
			return done, fmt.Errorf("%s of many runs, stopped after %d: %w", verb, done.Done, err)
		}
		if cursor = page.Next; cursor == "" || b.limit > 0 && done.Done >= b.limit {
			return done, nil
		}
	}
}

func selectsAll(f store.RunFilter) bool {
	return len(f.Statuses) == 0 && f.Workflow == "" && f.Queue == "" && f.Parent.IsZero() && f.ExternalID == "" && f.IDPrefix == "" &&
		f.CreatedAfter.IsZero() && f.CreatedBefore.IsZero() && f.FinishedAfter.IsZero() && f.FinishedBefore.IsZero() &&
		f.FailureCode == "" && f.FailureText == "" && f.FailedStep == "" && f.MinAttempt == 0 && !f.Pinned && len(f.PinnedTo) == 0 && len(f.Tags) == 0
}

// batched performs the action on a page with one call for many runs.
func (e *Engine) batched(verb, details string, call func(ctx context.Context, ids []store.ID, record []store.Action) ([]store.ControlResult, error)) func(context.Context, []store.ID, *Bulk) error {
	return func(ctx context.Context, ids []store.ID, done *Bulk) error {
		record := e.acts(ctx, verb, "", details, ids...)
		var results []store.ControlResult
		err := e.retry(ctx, func(ctx context.Context) (err error) {
			results, err = call(ctx, ids, record)
			return err
		})
		if err != nil {
			return err
		}
		e.acted(ctx, record, func(i int) error { return results[i].Err })
		for i := range results {
			e.telemetry().Ended(results[i].Ended)
		}
		for i, res := range results {
			if err := done.add(ids[i], res.Err); err != nil {
				return err
			}
			if res.Err == nil && res.Status == store.Canceling && verb == "cancel" {
				done.Canceling++
			}
		}
		return nil
	}
}

// add counts the outcome of one run. An outcome that is neither done nor skipped is an
// error.
func (b *Bulk) add(id store.ID, err error) error {
	switch {
	case err == nil:
		b.Done++
	case errors.Is(err, store.ErrFinished), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrAlreadyExists):
		b.Skipped++
	default:
		return fmt.Errorf("run %s: %w", id, err)
	}
	return nil
}

// addAll counts the outcomes of a page.
func (b *Bulk) addAll(ids []store.ID, results []store.ControlResult) error {
	for i, res := range results {
		if err := b.add(ids[i], res.Err); err != nil {
			return err
		}
	}
	return nil
}

// restartAll restarts the runs of a page.
func (e *Engine) restartAll(ctx context.Context, ids []store.ID, done *Bulk) error {
	results, err := e.restart(ctx, ids)
	if err != nil {
		return err
	}
	return done.addAll(ids, results)
}
