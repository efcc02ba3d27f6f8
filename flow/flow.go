package flow

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/workflow"
)

// Flow is a graph under construction: nodes are added to it, and [Flow.Workflow]
// makes a workflow of it. It is built by one goroutine.
type Flow[In, Out any] struct {
	b       *builder
	opts    []workflow.Option
	outputs []Input[Out]
	handler func(ctx workflow.Context, in any, failed *NodeError) (Maybe[Out], error)
}

// builder is what of a flow does not depend on its types.
type builder struct {
	name     string
	nodes    []*node
	handlers []*node  // on failure; one is allowed
	ends     []ending // nodes that may end the flow
}

// New begins a flow. The name and the options are those of [workflow.New].
func New[In, Out any](name string, opts ...workflow.Option) *Flow[In, Out] {
	return &Flow[In, Out]{b: &builder{name: name}, opts: opts}
}

// None is the type of what carries nothing: the result of nodes that have none, and the
// output of a flow that needs no [Flow.Output].
type None = struct{}

// Input is the flow's own input, as an input of nodes.
func (f *Flow[In, Out]) Input() Input[In] { return flowInput[In]{f.b} }

// Output says where the flow's output comes from, once all nodes are done: the first
// of these, in their order, that was not skipped. A flow in which all of them were
// skipped fails; [Const] as the last one gives it a default.
func (f *Flow[In, Out]) Output(from ...Input[Out]) { f.outputs = append(f.outputs, from...) }

// CompleteWith ends the flow early: as soon as the node is done (not when it is
// skipped), the run completes with its result. The other nodes are left off: steps that
// run are cut short, by the end of their context, and are not recorded; children are
// canceled, unless they were to be abandoned.
//
// When several nodes could end the flow, the first that is done does.
func (f *Flow[In, Out]) CompleteWith(from ...Input[Out]) {
	for _, in := range from {
		f.b.ends = append(f.b.ends, ending{from: in, take: func(t *taking) (any, bool, error) {
			out, err := in.take(t)
			return out, true, err
		}})
	}
}

// CompleteIf is [Flow.CompleteWith] for nodes that decide themselves: a [Some] ends the
// flow with its value, a [Nothing] lets it go on.
func (f *Flow[In, Out]) CompleteIf(from ...Input[Maybe[Out]]) {
	for _, in := range from {
		f.b.ends = append(f.b.ends, ending{from: in, take: func(t *taking) (any, bool, error) {
			out, err := in.take(t)
			return out.Value, out.OK, err
		}})
	}
}

// OnFailure sets what is done when a node has failed for good: fn runs as a step of that
// name, once no other step runs any more, with the flow's input and what has failed; the
// error's Err is a [*store.Failure], what is recorded of it.
// When it returns [Some], the run completes with that output; when it returns
// [Nothing], the run fails with the node's error, and when it fails itself, with both.
//
// Where the run has several attempts ([workflow.RunAttempts]), each of them that fails
// runs it. It does not run when the run is canceled or its deadline passes. Of the
// options it takes those of steps.
func (f *Flow[In, Out]) OnFailure(name string, fn func(ctx context.Context, in In, failed *NodeError) (Maybe[Out], error), opts ...Option) {
	h := newNode(name, KindHandler, opts)
	if fn == nil {
		h.missing = append(h.missing, "its function is nil")
	}
	f.b.handlers = append(f.b.handlers, h)
	f.handler = func(ctx workflow.Context, in any, failed *NodeError) (Maybe[Out], error) {
		input, _ := in.(In)
		return workflow.Step(ctx, name, func(ctx context.Context) (Maybe[Out], error) { return fn(ctx, input, failed) }, h.steps...)
	}
}

// Workflow checks the flow and makes a workflow of it, to be registered and started as
// any other; the flow's [Graph] is kept with its definition, unless it takes more than 60
// KB. The error joins everything that is wrong with it, and each names the node
// and what to do. Nodes that are added later are not part of it.
func (f *Flow[In, Out]) Workflow() (*workflow.Workflow[In, Out], error) {
	outs := make([]source, len(f.outputs))
	for i, out := range f.outputs {
		outs[i] = out
	}
	var zero Out
	_, none := any(zero).(None)
	order, err := f.b.check(outs, none)
	if err != nil {
		return nil, err
	}
	opts := f.opts[:len(f.opts):len(f.opts)]
	if graph, err := json.Marshal(f.Graph()); err != nil {
		return nil, err
	} else if len(graph) <= maxGraph {
		opts = append(opts, workflow.Graph(graph))
	}
	p := &plan[In, Out]{name: f.b.name, order: order, index: make(map[*node]int, len(order)), outputs: f.outputs[:len(f.outputs):len(f.outputs)], handler: f.handler}
	for i, n := range order {
		p.index[n.node] = i
	}
	if len(f.b.handlers) > 0 {
		p.handlerName = f.b.handlers[0].name
	}
	return workflow.New(f.b.name, p.execute, opts...), nil
}

// maxGraph is what workflow.Graph takes.
const maxGraph = 60 << 10

// Must is [Flow.Workflow] for package variables: it panics with all that is wrong.
func (f *Flow[In, Out]) Must() *workflow.Workflow[In, Out] {
	w, err := f.Workflow()
	if err != nil {
		panic(fmt.Sprintf("flow.Must: %v", err))
	}
	return w
}
