package flow

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/workflow"
)

// Flow is a graph under construction: nodes are added to it, and [Flow.Workflow] makes a
// workflow of it. It is not safe for concurrent use.
type Flow[In, Out any] struct {
	b       *builder
	opts    []workflow.Option
	outputs []Input[Out]
	handler func(ctx workflow.Context, in any, failed *NodeError) (Maybe[Out], error)
}

// builder is the part of a flow that does not depend on its types.
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

// None is the type of nothing: the result of nodes that have none, and the output of a flow
// that needs no [Flow.Output].
type None = struct{}

// Input returns the flow's own input, for nodes to take.
func (f *Flow[In, Out]) Input() Input[In] { return flowInput[In]{f.b} }

// Output sets where the flow's output comes from, once all nodes are done: the first of
// these inputs, in their order, that was not skipped. A flow in which all of them were
// skipped fails; put a [Const] last to give it a default.
func (f *Flow[In, Out]) Output(from ...Input[Out]) { f.outputs = append(f.outputs, from...) }

// CompleteWith ends the flow early: as soon as one of the nodes is done, the run completes
// with its result. A node that is skipped does not end the flow. The other nodes are
// abandoned: the contexts of running steps end, and those steps are not recorded; children
// are canceled, unless their close policy is to abandon them.
//
// If several nodes could end the flow, the first that is done does.
func (f *Flow[In, Out]) CompleteWith(from ...Input[Out]) {
	for _, in := range from {
		f.b.ends = append(f.b.ends, ending{from: in, take: func(t *taking) (any, bool, error) {
			out, err := in.take(t)
			return out, true, err
		}})
	}
}

// CompleteIf is [Flow.CompleteWith] for nodes that decide themselves: a [Some] ends the flow with
// its value, and a [Nothing] lets it continue.
func (f *Flow[In, Out]) CompleteIf(from ...Input[Maybe[Out]]) {
	for _, in := range from {
		f.b.ends = append(f.b.ends, ending{from: in, take: func(t *taking) (any, bool, error) {
			out, err := in.take(t)
			return out.Value, out.OK, err
		}})
	}
}

// OnFailure sets a handler that runs when a node has failed for good. Fn runs as a step of that
// name, once no other step runs, with the flow's input and the node's error, whose Err is a
// [*store.Failure], its record. If fn returns [Some], the run completes with that output. If it
// returns [Nothing], the run fails with the node's error; if it fails itself, with both errors.
//
// If the run has several attempts ([workflow.RunAttempts]), fn runs in each attempt that
// fails. It does not run when the run is canceled or its deadline passes. Of the options it
// takes those of steps: [WithStep].
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

// Workflow checks the flow and returns a workflow that is registered and started like any
// other. The flow's [Graph] is kept with its definition, unless it takes more than 60 KB.
// If the flow is not valid, the error joins everything that is wrong with it; each part
// names the node and what to do. Nodes that are added later are not part of the workflow.
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

// maxGraph is the largest graph that workflow.Graph accepts.
const maxGraph = 60 << 10

// Must is [Flow.Workflow] for package variables. It panics if the flow is not valid.
func (f *Flow[In, Out]) Must() *workflow.Workflow[In, Out] {
	w, err := f.Workflow()
	if err != nil {
		panic(fmt.Sprintf("flow.Must: %v", err))
	}
	return w
}
