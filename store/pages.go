package store

import "context"

// AllWorkers lists all workers: it reads all pages of ListWorkers, each as large as possible, from
// p.Cursor on.
func AllWorkers(ctx context.Context, r Registry, p ListWorkersParams) ([]Worker, error) {
	p.Limit = MaxPage
	return allPages(p.Cursor, func(cursor string) ([]Worker, string, error) {
		p.Cursor = cursor
		page, err := r.ListWorkers(ctx, p)
		return page.Workers, page.Next, err
	})
}

// AllWorkflows lists all workflows that p selects: it reads all pages of ListWorkflows, each as
// large as possible, from p.Cursor on.
func AllWorkflows(ctx context.Context, r Registry, p ListWorkflowsParams) ([]Workflow, error) {
	p.Limit = MaxPage
	return allPages(p.Cursor, func(cursor string) ([]Workflow, string, error) {
		p.Cursor = cursor
		page, err := r.ListWorkflows(ctx, p)
		return page.Workflows, page.Next, err
	})
}

// AllPaused lists everything that is paused: it reads all pages of ListPaused, each as large as
// possible, from p.Cursor on.
func AllPaused(ctx context.Context, r Registry, p ListPausedParams) ([]PausedTarget, error) {
	p.Limit = MaxPage
	return allPages(p.Cursor, func(cursor string) ([]PausedTarget, string, error) {
		p.Cursor = cursor
		page, err := r.ListPaused(ctx, p)
		return page.Paused, page.Next, err
	})
}

// AllBuilds lists all builds: it reads all pages of ListBuilds, each as large as possible, from
// p.Cursor on.
func AllBuilds(ctx context.Context, r Registry, p ListBuildsParams) ([]Build, error) {
	p.Limit = MaxPage
	return allPages(p.Cursor, func(cursor string) ([]Build, string, error) {
		p.Cursor = cursor
		page, err := r.ListBuilds(ctx, p)
		return page.Builds, page.Next, err
	})
}

// allPages reads pages up to the last one.
func allPages[T any](cursor string, read func(cursor string) (rows []T, next string, err error)) (all []T, err error) {
	for {
		rows, next, err := read(cursor)
		if err != nil {
			return nil, err
		}
		if all = append(all, rows...); next == "" {
			return all, nil
		}
		cursor = next
	}
}
