package workflow

import (
	"errors"

	"github.com/pawlhq/pawl/internal/exec"
)

// Future is the outcome of a branch that [Go] has started.
type Future[T any] struct {
	child *exec.Branch
	err   error // the branch could not be started
}

// Go runs fn in a branch of its own, at the same time as the rest of the workflow. Fn must
// use the Context that it gets. The name, with the number of its use, is part of the key of
// the branch's steps. It may not contain "/" or "#".
//
// All branches of a run share its lease and its slot. When the workflow's function returns
// while a branch still runs, the branch ends at its next operation.
func Go[T any](ctx Context, name string, fn func(ctx Context) (T, error)) *Future[T] {
	child, err := ctx.branch.Fork(name, func(b *exec.Branch) (any, error) {
		return fn(Context{branch: b, codec: ctx.codec})
	})
	return &Future[T]{child: child, err: err}
}

// Get waits for the branch and returns what it returned. Any branch of the run may call it, more than
// once.
//
// A run fails with [CodeDeadlock] as soon as each of its branches waits for another one or
// for a [Promise], because nothing could wake it. The failure names the branches. A run in
// which one branch waits for time, a signal, flow state or children is not deadlocked.
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

// Promise is a result that branches of a run wait for and that one of them provides. It is kept
// only in memory: at a replay the code provides it again.
//
// Which of several branches provides it first is a matter of timing, and may differ at a replay. A
// workflow whose path depends on it must record the decision with [Value] or in a [Step].
type Promise[T any] struct{ end *exec.Branch }

// NewPromise returns a new promise of the run of ctx.
func NewPromise[T any](ctx Context) *Promise[T] {
	return &Promise[T]{end: ctx.branch.Promise()}
}

// Resolve sets the result. The first call counts and returns true; later calls change nothing and
// return false. It must not be called from within a step.
func (p *Promise[T]) Resolve(v T, err error) bool { return p.end.Resolve(v, err) }

// Get waits for the result. Any branch of the run may call it, more than once. A run that
// waits only for promises fails; see [Future.Get].
func (p *Promise[T]) Get(ctx Context) (T, error) {
	return (&Future[T]{child: p.end}).Get(ctx)
}

// Group runs branches that return only an error.
type Group struct {
	ctx     Context
	futures []*Future[struct{}]
}

// NewGroup returns a group of branches below the branch of ctx.
func NewGroup(ctx Context) *Group { return &Group{ctx: ctx} }

// Go runs fn in a branch of its own, as the function [Go] does.
func (g *Group) Go(name string, fn func(ctx Context) error) {
	g.futures = append(g.futures, Go(g.ctx, name, func(ctx Context) (struct{}, error) { return struct{}{}, fn(ctx) }))
}

// Wait waits for all branches of the group and returns their errors, joined in the order of
// the Go calls.
func (g *Group) Wait() error {
	errs := make([]error, len(g.futures))
	for i, f := range g.futures {
		_, errs[i] = f.Get(g.ctx)
	}
	return errors.Join(errs...)
}
