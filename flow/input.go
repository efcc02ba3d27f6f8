package flow

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// Input is a value of type T that a node takes: the result of another node, on which it
// then depends; the flow's input ([Flow.Input]); a signal ([WaitFor]); or what [Optional],
// [Pick], [Both], [All] and [Const] make of these.
//
// A node begins when everything that it depends on is done, and is skipped when some of it
// was skipped. Nodes that take the same value share it: do not change what it refers to.
type Input[T any] interface {
	source
	take(t *taking) (T, error)
}

// source is an input whatever its type.
type source interface {
	needs() []need
}

// need is one thing that an input comes from.
type need struct {
	node     *node
	input    *builder // the input of this flow
	signal   string   // to wait for
	optional bool     // if the node was skipped, the value is absent, and the taking node is not skipped
	wrong    string   // why it cannot be taken
}

// taking is a node that takes its inputs.
type taking struct {
	ctx workflow.Context
	run *run
	in  any // the flow's input
	n   *checked
	own outcome // the node's own, once it is known
}

// outcome returns the outcome of a node that is known to have ended.
func (t *taking) outcome(n *node) outcome {
	if t.n != nil && n == t.n.node {
		return t.own
	}
	o, _ := t.run.futures[t.run.index[n]].Get(t.ctx)
	return o
}

// skipped reports whether an input that is not optional was skipped.
func (t *taking) skipped(needs []need) bool {
	for _, d := range needs {
		if d.node != nil && !d.optional && t.outcome(d.node).state == skipped {
			return true
		}
	}
	return false
}

type flowInput[T any] struct{ b *builder }

func (i flowInput[T]) needs() []need { return []need{{input: i.b}} }

func (flowInput[T]) take(t *taking) (T, error) {
	v, _ := t.in.(T)
	return v, nil
}

// Maybe is a value or nothing. The zero Maybe is nothing.
type Maybe[T any] struct {
	Value T    `json:"value"` // zero if OK is false
	OK    bool `json:"ok"`    // there is a value
}

// Some returns a [Maybe] with a value.
func Some[T any](v T) Maybe[T] { return Maybe[T]{Value: v, OK: true} }

// Nothing returns a [Maybe] without a value.
func Nothing[T any]() Maybe[T] { return Maybe[T]{} }

// Optional makes an input optional: it is [Nothing] if its node was skipped, or its signal
// did not arrive in time ([Within]). An optional input does not cause the node to be skipped.
func Optional[T any](in Input[T]) Input[Maybe[T]] { return optional[T]{in} }

type optional[T any] struct{ in Input[T] }

func (o optional[T]) needs() []need {
	all := needsOf(o.in)
	for i := range all {
		all[i].optional = true
	}
	return all
}

func (o optional[T]) take(t *taking) (Maybe[T], error) {
	if t.skipped(o.in.needs()) {
		return Nothing[T](), nil
	}
	v, err := o.in.take(t)
	switch {
	case errors.Is(err, workflow.ErrTimeout):
		return Nothing[T](), nil
	case err != nil:
		return Nothing[T](), err
	}
	return Some(v), nil
}

// Pick returns an input whose value is fn of another input. fn is part of the workflow's code: it
// is called at every replay, must return the same value each time, and must have no side effects.
func Pick[A, T any](in Input[A], fn func(A) T) Input[T] { return pick[A, T]{in, fn} }

type pick[A, T any] struct {
	in Input[A]
	fn func(A) T
}

func (p pick[A, T]) needs() []need {
	if p.fn == nil {
		return []need{{wrong: "the function of its Pick is nil"}}
	}
	return needsOf(p.in)
}

func (p pick[A, T]) take(t *taking) (T, error) {
	a, err := p.in.take(t)
	if err != nil {
		var zero T
		return zero, err
	}
	return p.fn(a), nil
}

// Pair is the value of [Both].
type Pair[A, B any] struct {
	First  A
	Second B
}

// Both combines two inputs into one, for nodes that take one. The node is skipped if either of them was
// skipped, unless that one is [Optional].
func Both[A, B any](a Input[A], b Input[B]) Input[Pair[A, B]] { return both[A, B]{a, b} }

type both[A, B any] struct {
	a Input[A]
	b Input[B]
}

func (p both[A, B]) needs() []need { return needsOf(p.a, p.b) }

func (p both[A, B]) take(t *taking) (v Pair[A, B], err error) {
	if v.First, err = p.a.take(t); err == nil {
		v.Second, err = p.b.take(t)
	}
	return v, err
}

// All combines several inputs of one type into a slice, in their order. The node is skipped if one of
// them was skipped, unless that one is [Optional].
func All[T any](ins ...Input[T]) Input[[]T] { return all[T](ins) }

type all[T any] []Input[T]

func (l all[T]) needs() []need {
	var n []need
	for _, in := range l {
		n = append(n, needsOf(in)...)
	}
	return n
}

func (l all[T]) take(t *taking) ([]T, error) {
	vs := make([]T, len(l))
	for i, in := range l {
		var err error
		if vs[i], err = in.take(t); err != nil {
			return nil, err
		}
	}
	return vs, nil
}

// Const is an input whose value is known when the flow is built.
func Const[T any](v T) Input[T] { return constant[T]{v} }

type constant[T any] struct{ v T }

func (constant[T]) needs() []need             { return nil }
func (c constant[T]) take(*taking) (T, error) { return c.v, nil }

// WaitOption configures [WaitFor].
type WaitOption func(*waitOptions)

type waitOptions struct{ within time.Duration }

// Within limits the wait, counted from when the node has everything else that it needs. With 0 the node
// takes only a signal that has already arrived; a negative d, and the default, is no limit. If no
// signal arrives in time, the node fails for good with [workflow.ErrTimeout]: the end of the wait is
// recorded. With [Optional], the node continues without the signal.
func Within(d time.Duration) WaitOption { return func(o *waitOptions) { o.within = d } }

// WaitFor is the payload of a signal. The node waits for the signal once it has everything
// else that it needs and its conditions hold. A node that takes several signals waits for
// one after the other. If several nodes take the same kind of signal, each signal goes to
// one of them.
func WaitFor[T any](s workflow.Signal[T], opts ...WaitOption) Input[T] {
	w := waitFor[T]{s: s, o: waitOptions{within: -1}}
	for _, opt := range opts {
		opt(&w.o)
	}
	return w
}

type waitFor[T any] struct {
	s workflow.Signal[T]
	o waitOptions
}

func (w waitFor[T]) needs() []need { return []need{{signal: w.s.Name()}} }

func (w waitFor[T]) take(t *taking) (T, error) {
	if w.o.within < 0 {
		return w.s.Receive(t.ctx)
	}
	v, err := w.s.ReceiveTimeout(t.ctx, w.o.within)
	if errors.Is(err, workflow.ErrTimeout) {
		err = workflow.Permanent(fmt.Errorf("within %v: %w", w.o.within, err))
	}
	return v, err
}

// needsOf joins the needs of inputs, which may be nil.
func needsOf(ins ...source) []need {
	var all []need
	for _, in := range ins {
		if in == nil {
			all = append(all, need{wrong: "one of its inputs is nil"})
			continue
		}
		all = append(all, in.needs()...)
	}
	return all
}
