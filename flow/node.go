package flow

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// Kind says what a node does.
type Kind string

// The kinds.
const (
	KindStep    Kind = "step"
	KindSignal  Kind = "signal"
	KindSleep   Kind = "sleep"
	KindHandler Kind = "on-failure"
)

// Node is a node of a flow and, as an [Input], its result. A node that takes it depends on
// it.
type Node[T any] struct{ n *node }

// Name returns the node's name.
func (n *Node[T]) Name() string {
	if n == nil || n.n == nil {
		return ""
	}
	return n.n.name
}

func (n *Node[T]) needs() []need {
	if n == nil || n.n == nil {
		return []need{{wrong: "one of its inputs is a nil node"}}
	}
	return []need{{node: n.n}}
}

func (n *Node[T]) take(t *taking) (T, error) {
	v, _ := t.outcome(n.n).value.(T)
	return v, nil
}

func (n *Node[T]) ref() ref {
	if n == nil || n.n == nil {
		return ref{wrong: "a node that is nil"}
	}
	return ref{node: n.n}
}

// Ref refers to a node without taking its result. It is a [*Node], or a name by [Named].
type Ref interface{ ref() ref }

type ref struct {
	node  *node
	name  string
	wrong string
}

// Named refers to a node by its name. The node may be added later.
func Named(name string) Ref { return named(name) }

type named string

func (n named) ref() ref { return ref{name: string(n)} }

// node is a node, whatever its type.
type node struct {
	name    string
	kind    Kind
	inputs  []source
	missing []string // required arguments that are missing
	exec    func(t *taking) (any, error)
	item    string // the workflow of its children
	detail  string // for pictures

	after         []ref
	instead       []ref // of these that were skipped
	evenIfSkipped bool
	ignore        bool // its result is not recorded, and no node may take it
	void          bool // it has none
	whens         []condition
	steps         []workflow.StepOption
	children      []workflow.ChildOption
	maps          []workflow.MapOption
	generates     []workflow.GenerateOption
}

// condition is a condition under which a node runs.
type condition struct {
	text    string
	from    source
	missing bool // its function is nil
	take    func(t *taking) (test func() (bool, error), err error)
}

// record returns the name of its records.
func (c condition) record() string { return "when " + c.text }

// ending is an input whose node ends the flow.
type ending struct {
	from source
	take func(t *taking) (out any, ends bool, err error)
}

func newNode(name string, kind Kind, opts []Option) *node {
	n := &node{name: name, kind: kind}
	for _, opt := range opts {
		if opt != nil {
			opt(n)
		}
	}
	return n
}

// add makes a node and adds it to the flow.
func add[T any](b *builder, name string, kind Kind, missing bool, opts []Option, exec func(t *taking) (any, error), inputs ...source) *Node[T] {
	n := newNode(name, kind, opts)
	n.exec, n.inputs = exec, inputs
	if missing {
		n.missing = append(n.missing, "its function is nil")
	}
	b.nodes = append(b.nodes, n)
	return &Node[T]{n}
}

// Step adds a step that takes the flow's input. It is done once, tried again as [WithStep]
// says, and recorded under the node's name. See [workflow.Step].
func Step[In, Out, T any](f *Flow[In, Out], name string, fn func(ctx context.Context, in In) (T, error), opts ...Option) *Node[T] {
	return Then(f, name, f.Input(), fn, opts...)
}

// Then adds a step that takes one input.
func Then[In, Out, A, T any](f *Flow[In, Out], name string, a Input[A], fn func(ctx context.Context, a A) (T, error), opts ...Option) *Node[T] {
	return add[T](f.b, name, KindStep, fn == nil, opts, func(t *taking) (any, error) {
		va, err := a.take(t)
		if err != nil {
			return nil, err
		}
		return step(t, func(ctx context.Context) (T, error) { return fn(ctx, va) })
	}, a)
}

// Join2 adds a step that takes two inputs.
func Join2[In, Out, A, B, T any](f *Flow[In, Out], name string, a Input[A], b Input[B], fn func(ctx context.Context, a A, b B) (T, error), opts ...Option) *Node[T] {
	return add[T](f.b, name, KindStep, fn == nil, opts, func(t *taking) (any, error) {
		va, err := a.take(t)
		if err != nil {
			return nil, err
		}
		vb, err := b.take(t)
		if err != nil {
			return nil, err
		}
		return step(t, func(ctx context.Context) (T, error) { return fn(ctx, va, vb) })
	}, a, b)
}

// Join3 adds a step that takes three inputs. For more, combine inputs with [Both] and
// [All].
func Join3[In, Out, A, B, C, T any](f *Flow[In, Out], name string, a Input[A], b Input[B], c Input[C], fn func(ctx context.Context, a A, b B, c C) (T, error), opts ...Option) *Node[T] {
	return add[T](f.b, name, KindStep, fn == nil, opts, func(t *taking) (any, error) {
		va, err := a.take(t)
		if err != nil {
			return nil, err
		}
		vb, err := b.take(t)
		if err != nil {
			return nil, err
		}
		vc, err := c.take(t)
		if err != nil {
			return nil, err
		}
		return step(t, func(ctx context.Context) (T, error) { return fn(ctx, va, vb, vc) })
	}, a, b, c)
}

// Do adds a step that takes one input and has no result.
func Do[In, Out, A any](f *Flow[In, Out], name string, a Input[A], fn func(ctx context.Context, a A) error, opts ...Option) *Node[None] {
	n := add[None](f.b, name, KindStep, fn == nil, opts, func(t *taking) (any, error) {
		va, err := a.take(t)
		if err != nil {
			return nil, err
		}
		return step(t, func(ctx context.Context) (None, error) { return None{}, fn(ctx, va) })
	}, a)
	n.n.void = true
	return n
}

// ThenTx adds a step whose function gets a transaction on the database that holds Pawl's
// tables. What it writes there and the step's record become durable together, exactly once.
// See [workflow.StepTx].
func ThenTx[In, Out, Tx, A, T any](f *Flow[In, Out], name string, a Input[A], fn func(ctx context.Context, tx Tx, a A) (T, error), opts ...Option) *Node[T] {
	return add[T](f.b, name, KindStep, fn == nil, opts, func(t *taking) (any, error) {
		va, err := a.take(t)
		if err != nil {
			return nil, err
		}
		w := &turn{run: t.run}
		work := func(ctx context.Context, tx Tx) (T, error) {
			return attempt(ctx, w, func(ctx context.Context) (T, error) { return fn(ctx, tx, va) })
		}
		var v T
		if t.n.ignore {
			err = workflow.DoTx(t.ctx, name, func(ctx context.Context, tx Tx) error {
				_, err := work(ctx, tx)
				return err
			}, w.options(t.n)...)
		} else {
			v, err = workflow.StepTx(t.ctx, name, work, w.options(t.n)...)
		}
		w.end()
		return v, err
	}, a)
}

// Await adds a node that waits for a signal. Use it if several nodes need the signal's
// payload:
//
//	approved := flow.Await(f, "approved", flow.WaitFor(Approved, flow.Within(24*time.Hour)))
func Await[In, Out, T any](f *Flow[In, Out], name string, wait Input[T], opts ...Option) *Node[T] {
	return add[T](f.b, name, KindSignal, false, opts, func(t *taking) (any, error) { return wait.take(t) }, wait)
}

// Sleep adds a node that waits for d, counted from when everything that it comes after is
// done.
func Sleep[In, Out any](f *Flow[In, Out], name string, d time.Duration, opts ...Option) *Node[None] {
	n := add[None](f.b, name, KindSleep, false, opts, func(t *taking) (any, error) {
		return None{}, workflow.Sleep(t.ctx, name, d)
	})
	n.n.detail = d.String()
	return n
}
