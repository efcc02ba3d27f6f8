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
//
// A run fails with [CodeDeadlock] as soon as each of its branches waits for another one or
// for a [Promise]: nothing could wake it. The failure names the branches. A run in which
// one branch waits for time, a signal, flow state or children is not deadlocked.
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

// Promise is a result that branches of a run wait for and that one of them gives. It
// is kept in memory alone: at a replay the code comes to it again.
//
// Which of several branches is the first to give it is a matter of chance, and may be
// another one at a replay. A workflow that goes different ways by it records what was
// decided, with [Value] or in a [Step].
type Promise[T any] struct{ end *exec.Branch }

// NewPromise makes a promise of the run of ctx.
func NewPromise[T any](ctx Context) *Promise[T] {
	return &Promise[T]{end: ctx.branch.Promise()}
}

// Resolve gives the result. The first call counts and returns true; later ones change
// nothing. It must not be called from within a step.
func (p *Promise[T]) Resolve(v T, err error) bool { return p.end.Resolve(v, err) }

// Get waits for the result. It may be called by any branch of the run, and more than
// once. A run that waits for nothing but promises fails; see [Future.Get].
func (p *Promise[T]) Get(ctx Context) (T, error) {
	return (&Future[T]{child: p.end}).Get(ctx)
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
