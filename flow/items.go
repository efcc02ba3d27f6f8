package flow

import (
	"context"
	"iter"

	"github.com/pawlhq/pawl/workflow"
)

// The kinds of nodes whose work is done by child runs.
const (
	KindChild    Kind = "child"
	KindMap      Kind = "map"
	KindReduce   Kind = "reduce"
	KindGenerate Kind = "generate"
)

// Child adds a node that runs another workflow, which may be a flow itself, as a child. See
// [workflow.Child].
func Child[In, Out, A, T any](f *Flow[In, Out], name string, in Input[A], wf workflow.Callable[A, T], opts ...Option) *Node[T] {
	n := add[T](f.b, name, KindChild, false, opts, func(t *taking) (any, error) {
		a, err := in.take(t)
		if err != nil {
			return nil, err
		}
		return workflow.Child(t.ctx, name, wf, a, t.n.children...)
	}, in)
	runs(n.n, wf)
	return n
}

// Map adds a node that runs a workflow for each item of a list. Its result is the list of
// outputs, in the order of the items. See [workflow.Map].
func Map[In, Out, A, T any](f *Flow[In, Out], name string, items Input[[]A], item workflow.Callable[A, T], opts ...Option) *Node[[]T] {
	n := add[[]T](f.b, name, KindMap, false, opts, func(t *taking) (any, error) {
		list, err := items.take(t)
		if err != nil {
			return nil, err
		}
		return workflow.Map(t.ctx, name, list, item, t.n.maps...)
	}, items)
	runs(n.n, item)
	return n
}

// Reduce adds a node that runs a workflow for each item of a list and folds the outputs, in
// the order of the items, without keeping them. See [workflow.Reduce].
func Reduce[In, Out, A, T, Acc any](f *Flow[In, Out], name string, items Input[[]A], item workflow.Callable[A, T], initial Acc, fold func(acc Acc, i int, out T) (Acc, error), opts ...Option) *Node[Acc] {
	n := add[Acc](f.b, name, KindReduce, fold == nil, opts, func(t *taking) (any, error) {
		list, err := items.take(t)
		if err != nil {
			return nil, err
		}
		return workflow.Reduce(t.ctx, name, list, item, initial, fold, t.n.maps...)
	}, items)
	runs(n.n, item)
	return n
}

// Generate adds a node that runs a workflow for each item that a generator yields, while it
// yields them. The node is done when all items are. See [workflow.Generate].
func Generate[In, Out, A, Item, T any](f *Flow[In, Out], name string, in Input[A], generator func(ctx context.Context, in A, yield func(Item) error) error, item workflow.Callable[Item, T], opts ...Option) *Node[workflow.Generated] {
	return generate(f.b, name, in, generator == nil, item, opts, func(t *taking, a A) (workflow.Generated, error) {
		return workflow.Generate(t.ctx, name, func(ctx context.Context, yield func(Item) error) error {
			return generator(ctx, a, yield)
		}, item, t.n.generates...)
	})
}

// GenerateSeq is [Generate] for a sequence. See [workflow.GenerateSeq].
func GenerateSeq[In, Out, A, Item, T any](f *Flow[In, Out], name string, in Input[A], seq func(ctx context.Context, in A) iter.Seq2[Item, error], item workflow.Callable[Item, T], opts ...Option) *Node[workflow.Generated] {
	return generate(f.b, name, in, seq == nil, item, opts, func(t *taking, a A) (workflow.Generated, error) {
		return workflow.GenerateSeq(t.ctx, name, func(ctx context.Context) iter.Seq2[Item, error] { return seq(ctx, a) }, item, t.n.generates...)
	})
}

// GenerateFrom is [Generate] for a generator that can resume where it was. See
// [workflow.GenerateFrom].
func GenerateFrom[In, Out, A, Item, Cursor, T any](f *Flow[In, Out], name string, in Input[A], generator func(ctx context.Context, in A, from Cursor, yield func(Item, Cursor) error) error, item workflow.Callable[Item, T], opts ...Option) *Node[workflow.Generated] {
	return generate(f.b, name, in, generator == nil, item, opts, func(t *taking, a A) (workflow.Generated, error) {
		return workflow.GenerateFrom(t.ctx, name, func(ctx context.Context, from Cursor, yield func(Item, Cursor) error) error {
			return generator(ctx, a, from, yield)
		}, item, t.n.generates...)
	})
}

func generate[A, Item, T any](b *builder, name string, in Input[A], missing bool, item workflow.Callable[Item, T], opts []Option, exec func(t *taking, a A) (workflow.Generated, error)) *Node[workflow.Generated] {
	n := add[workflow.Generated](b, name, KindGenerate, missing, opts, func(t *taking) (any, error) {
		a, err := in.take(t)
		if err != nil {
			return nil, err
		}
		return exec(t, a)
	}, in)
	runs(n.n, item)
	return n
}

// runs records the workflow of a node's children.
func runs[A, T any](n *node, wf workflow.Callable[A, T]) {
	if w, defined := wf.(*workflow.Workflow[A, T]); wf == nil || defined && w == nil {
		n.missing = append(n.missing, "its workflow is nil")
		return
	}
	n.item = wf.Name()
}

// strayOptions returns the options of a node that are for other kinds of nodes.
func (n *node) strayOptions() (stray []string) {
	if len(n.steps) > 0 && n.kind != KindStep && n.kind != KindHandler && len(n.whens) == 0 {
		stray = append(stray, "flow.WithStep is for steps")
	}
	if len(n.children) > 0 && n.kind != KindChild {
		stray = append(stray, "flow.WithChild is for children")
	}
	if len(n.maps) > 0 && n.kind != KindMap && n.kind != KindReduce {
		stray = append(stray, "flow.WithMap is for maps and reduces")
	}
	if len(n.generates) > 0 && n.kind != KindGenerate {
		stray = append(stray, "flow.WithGenerate is for generators")
	}
	if n.ignore && n.kind != KindStep {
		stray = append(stray, "flow.IgnoreOutput is for steps")
	}
	return stray
}

// WithChild sets options of the child that the node runs.
func WithChild(opts ...workflow.ChildOption) Option {
	return func(n *node) { n.children = append(n.children, opts...) }
}

// WithMap sets options of a [Map] or [Reduce] node: how many items are spawned at once, and
// what happens to the node when some fail.
func WithMap(opts ...workflow.MapOption) Option {
	return func(n *node) { n.maps = append(n.maps, opts...) }
}

// WithGenerate sets options of a [Generate] node.
func WithGenerate(opts ...workflow.GenerateOption) Option {
	return func(n *node) { n.generates = append(n.generates, opts...) }
}
