package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// Unpin lets workers of any build claim a run that is pinned to one: a worker of another build
// tries the run, and gives it back if its history does not fit. Nothing else of the run
// changes.
//
// It fails with [store.ErrConflict] if the run is not pinned, with [store.ErrFinished] if it
// is final, and with [store.ErrNotFound] if there is no such run. If an answer of the store
// is lost, Unpin repeats the request, and a repetition that finds the run not pinned
// succeeds: the run is as it was asked for. If Unpin itself fails with
// [store.ErrOutcomeUnknown], call it again; ErrConflict then means that nothing is left to do.
func (e *Engine) Unpin(ctx context.Context, id store.ID) error {
	res, err := e.unpin(ctx, []store.ID{id})
	if err == nil {
		err = res[0].Err
	}
	if err != nil {
		return fmt.Errorf("unpin of run %s in namespace %q: %w", id, e.namespace, err)
	}
	return nil
}

// UnpinMany unpins the runs that a filter selects, each as [Engine.Unpin] does. Otherwise it
// is like [Engine.CancelMany]. Of the runs that the filter selects, it takes those that are
// pinned; a filter without statuses selects runs that are not final.
func (e *Engine) UnpinMany(ctx context.Context, filter store.RunFilter, opts ...BulkOption) (Bulk, error) {
	if !selectsAll(filter) {
		filter.Pinned = true
	}
	return e.bulk(ctx, "unpin", filter, active(), opts, func(ctx context.Context, ids []store.ID, done *Bulk) error {
		results, err := e.unpin(ctx, ids)
		if err != nil {
			return err
		}
		return done.addAll(ids, results)
	})
}

// unpin unpins runs. A run that is not pinned is no error after a lost answer.
func (e *Engine) unpin(ctx context.Context, ids []store.ID) (results []store.ControlResult, err error) {
	if e.fault != nil {
		return nil, e.fault
	}
	record := e.acts(ctx, "unpin", "", "", ids...)
	doubt := false // whether a request whose answer was lost may have unpinned runs
	err = e.retry(ctx, func(ctx context.Context) (err error) {
		results, err = e.store.Unpin(ctx, store.UnpinParams{Namespace: e.namespace, IDs: ids, Record: record})
		doubt = doubt || errors.Is(err, store.ErrOutcomeUnknown)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range results {
		if res := &results[i]; doubt && errors.Is(res.Err, store.ErrConflict) {
			res.Err = nil
		}
	}
	e.acted(ctx, record, func(i int) error { return results[i].Err })
	return results, nil
}

// Builds lists the builds of the namespace, by name, each with its workers, the unfinished
// runs that are pinned to it, and those whose last step it recorded. The workers of a build
// may be stopped for good when nothing is pinned to it: workers of other builds continue
// its other runs, unless their history does not fit.
//
// Like [Engine.Workers], it asks workers at rest for a sign of life and waits for the
// answer, so that a worker that was killed is not counted as online.
func (e *Engine) Builds(ctx context.Context) (list []store.Build, err error) {
	if _, err := e.alive(ctx, true, func(*store.Worker) bool { return true }); err != nil {
		return nil, err
	}
	err = e.retry(ctx, func(ctx context.Context) error {
		list, err = store.AllBuilds(ctx, e.store, store.ListBuildsParams{Namespace: e.namespace})
		return err
	})
	return list, err
}
