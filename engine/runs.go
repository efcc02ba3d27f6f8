package engine

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// Get returns a run as it is now. store.ErrNotFound.
func (e *Engine) Get(ctx context.Context, id store.ID) (store.Run, error) {
	if e.fault != nil {
		return store.Run{}, e.fault
	}
	runs, err := e.store.Get(ctx, store.GetParams{Namespace: e.namespace, IDs: []store.ID{id}})
	if err == nil && len(runs) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Run{}, fmt.Errorf("run %s in namespace %q: %w", id, e.namespace, err)
	}
	return runs[0], nil
}

// Find returns the active run of an external id (see [ID] and [Suffix]), or else
// the one created last. store.ErrNotFound.
func (e *Engine) Find(ctx context.Context, externalID, suffix string) (store.Run, error) {
	if e.fault != nil {
		return store.Run{}, e.fault
	}
	run, err := e.store.Find(ctx, store.FindParams{Namespace: e.namespace, ExternalID: externalID, Suffix: suffix})
	if err != nil {
		return store.Run{}, fmt.Errorf("run of external id %q in namespace %q: %w", externalID, e.namespace, err)
	}
	return run, nil
}

// List pages through runs, newest first. [Engine.ListEnded] does so by their end. A page
// may hold fewer runs than limit and have a Next, where the filter selects few of many (see
// [store.ListParams]); List then looks on until it has found a run. A page without runs is
// the last one.
func (e *Engine) List(ctx context.Context, filter store.RunFilter, cursor string, limit int) (store.RunPage, error) {
	if e.fault != nil {
		return store.RunPage{}, e.fault
	}
	return e.list(ctx, store.ListParams{Filter: filter, Cursor: cursor, Limit: limit})
}

// ListEnded pages through final runs, those that ended last first. With FinishedAfter it
// reads no run that ended before. See [store.ListParams].
func (e *Engine) ListEnded(ctx context.Context, filter store.RunFilter, cursor string, limit int) (store.RunPage, error) {
	if e.fault != nil {
		return store.RunPage{}, e.fault
	}
	return e.list(ctx, store.ListParams{Filter: filter, ByEnd: true, Cursor: cursor, Limit: limit})
}

// list returns the next page that holds runs, or the last one.
func (e *Engine) list(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	p.Namespace = e.namespace
	for {
		page, err := e.store.List(ctx, p)
		if err != nil || len(page.Runs) > 0 || page.Next == "" {
			return page, err
		}
		p.Cursor = page.Next
	}
}

// CountFailures is [Engine.Count] with runs of different failure codes counted apart.
func (e *Engine) CountFailures(ctx context.Context, filter store.RunFilter) ([]store.RunCount, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	return e.store.Count(ctx, store.CountParams{Namespace: e.namespace, Filter: filter, ByFailure: true})
}

// Count counts runs by queue, workflow and status. It looks at the [store.DefaultScan] last
// runs of a status, and says so where there are more: see [store.CountParams]. For other
// numbers there is Count of the engine's Store.
func (e *Engine) Count(ctx context.Context, filter store.RunFilter) ([]store.RunCount, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	return e.store.Count(ctx, store.CountParams{Namespace: e.namespace, Filter: filter})
}

// Steps returns all recorded steps of a run, in the order in which they were
// first recorded.
func (e *Engine) Steps(ctx context.Context, id store.ID) ([]store.Step, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	var steps []store.Step
	for after := int64(0); ; {
		page, err := e.store.Steps(ctx, store.StepsParams{Namespace: e.namespace, Run: id, After: after, Limit: store.MaxPage})
		if err != nil {
			return steps, fmt.Errorf("steps of run %s: %w", id, err)
		}
		steps = append(steps, page.Steps...)
		if !page.More {
			return steps, nil
		}
		after = page.Steps[len(page.Steps)-1].Position
	}
}
