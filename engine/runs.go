package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/store"
)

// Get returns a run as it is now. It fails with store.ErrNotFound. Like [Engine.Find], [Engine.List],
// [Engine.Count] and [Engine.Steps], it asks the store once: [RetryFor] does not apply.
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

// FindOption configures [Engine.Find].
type FindOption func(*store.FindParams)

// FindSuffix looks for a run that was started with [Suffix]. Without it, and with an empty suffix,
// Find looks for one that was started without.
func FindSuffix(s string) FindOption { return func(p *store.FindParams) { p.Suffix = s } }

// Find returns the run that holds an external id (see [ExternalID]), or else the run of that id that
// was created last. It fails with store.ErrNotFound, and with store.ErrInvalid for
// an empty external id.
func (e *Engine) Find(ctx context.Context, externalID string, opts ...FindOption) (store.Run, error) {
	if e.fault != nil {
		return store.Run{}, e.fault
	}
	p := store.FindParams{ExternalID: externalID}
	for _, opt := range opts {
		opt(&p)
	}
	p.Namespace = e.namespace
	run, err := e.store.Find(ctx, p)
	if errors.Is(err, store.ErrNotFound) {
		err = store.ErrNotFound // the rest says no more than what stands before it
	}
	if err != nil {
		return store.Run{}, fmt.Errorf("run of external id %q in namespace %q: %w", externalID, e.namespace, err)
	}
	return run, nil
}

// List returns a page of runs, newest first. Cursor is empty for the first page, and then
// the Next of the page before. A page may hold fewer runs than limit and still have a Next,
// if the filter selects few of many (see [store.Runs.List]); List continues until it
// has found a run. A page without runs is the last one. A limit of 0 means 100; at most
// [store.MaxPage] is allowed. Runs come without Input, Output and Meta. It fails with
// store.ErrInvalid for another limit, or a cursor of another query. [Engine.ListEnded] lists by the
// end of runs.
func (e *Engine) List(ctx context.Context, filter store.RunFilter, cursor string, limit int) (store.RunPage, error) {
	if e.fault != nil {
		return store.RunPage{}, e.fault
	}
	return e.list(ctx, store.ListParams{Filter: filter, Cursor: cursor, Limit: limit})
}

// ListEnded returns a page of final runs, those that ended last first. With FinishedAfter
// it reads no run that ended before. See [Engine.List] for cursors and [store.Runs.List].
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

// CountFailures is [Engine.Count] with separate counts for each failure code.
func (e *Engine) CountFailures(ctx context.Context, filter store.RunFilter) ([]store.RunCount, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	return e.store.Count(ctx, store.CountParams{Namespace: e.namespace, Filter: filter, ByFailure: true})
}

// Count counts runs by queue, workflow and status. For each status it looks at the
// [store.DefaultScan] latest runs, and says so if there are more: see [store.Runs.Count].
// To look at another number, call Count of the engine's Store.
func (e *Engine) Count(ctx context.Context, filter store.RunFilter) ([]store.RunCount, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	return e.store.Count(ctx, store.CountParams{Namespace: e.namespace, Filter: filter})
}

// Steps returns all recorded steps of a run, in the order in which they were first
// recorded. It fails with store.ErrNotFound.
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
		if page.Next == 0 {
			return steps, nil
		}
		after = page.Next
	}
}
