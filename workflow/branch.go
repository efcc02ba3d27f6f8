package workflow

import (
	"errors"

	"github.com/pawlhq/pawl/internal/exec"
)

// Future is the outcome of a branch that [Go] started.
type Future[T any] struct {
	child *exec.Branch
	err   error // the branch could not be started
}

// Go runs fn in a branch of its own, at the same time as the rest of the workflow.
// fn must use the Context that it gets. The name, with its number of use, is part
// of the key of the branch's steps; it may not contain "/" or "#".
//
// All branches of a run share its lease and its slot. When the workflow's function
// returns while a branch still runs, the branch is left off at its next operation.
func Go[T any](ctx Context, name string, fn func(ctx Context) (T, error)) *Future[T] {
	child, err := ctx.branch.Fork(name, func(b *exec.Branch) (any, error) {
		return fn(Context{branch: b, codec: ctx.codec})
	})
	return &Future[T]{child: child, err: err}
}

// Get waits for the branch and returns what it returned. It may be called by any
// branch of the run, and more than once.
func (f *Future[T]) Get(ctx Context) (T, error) {
	var zero T
	if f.err != nil {
		return zero, f.err
	}
	v, err := ctx.branch.Join(f.child)
	if t, ok := v.(T); ok {
		return t, err
	}
	return zero, err
}

// Group runs branches that have no result but an error.
type Group struct {
	ctx     Context
	futures []*Future[struct{}]
}

// NewGroup makes a group of branches below the one of ctx.
func NewGroup(ctx Context) *Group { return &Group{ctx: ctx} }

// Go runs fn in a branch of its own, as the function [Go] does.
func (g *Group) Go(name string, fn func(ctx Context) error) {
	g.futures = append(g.futures, Go(g.ctx, name, func(ctx Context) (struct{}, error) { return struct{}{}, fn(ctx) }))
}

// Wait waits for all branches of the group and returns their errors, joined in the
// order of the Go calls.
func (g *Group) Wait() error {
	errs := make([]error, len(g.futures))
	for i, f := range g.futures {
		_, errs[i] = f.Get(g.ctx)
	}
	return errors.Join(errs...)
}
