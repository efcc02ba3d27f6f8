package flow

import "github.com/pawlhq/pawl/workflow"

// Option configures a node. [Flow.Workflow] reports an option that the kind of the node does not take.
type Option func(*node)

// After makes the node begin only when these nodes are done, without taking their results:
//
//	flow.After(charge, flow.Named("reserve"))
//
// It is skipped when one of them was, unless [EvenIfSkipped] says otherwise.
func After(nodes ...Ref) Option {
	return func(n *node) { n.after = append(n.after, refs(nodes)...) }
}

// IfSkipped makes the node run when all of these nodes were skipped. It is skipped when one
// of them was done.
func IfSkipped(nodes ...Ref) Option {
	return func(n *node) { n.instead = append(n.instead, refs(nodes)...) }
}

func refs(nodes []Ref) []ref {
	rs := make([]ref, len(nodes))
	for i, r := range nodes {
		if r == nil {
			rs[i] = ref{wrong: "a node that is nil"}
			continue
		}
		rs[i] = r.ref()
	}
	return rs
}

// EvenIfSkipped lets the node run even if nodes that it is [After] were skipped. For
// inputs, use [Optional].
func EvenIfSkipped() Option { return func(n *node) { n.evenIfSkipped = true } }

// When makes the node conditional: unless the condition holds, the node is skipped, and
// with it the nodes that depend on it. The node depends on the condition's input. With
// several conditions, all must hold. The text names the condition ("express?"); graphs and
// the run's records show it.
//
// The condition is part of the workflow's code and must have no side effects. Its answer is
// recorded, so that a replay takes the same path. If it returns an error, it is called again as a step
// is tried again (see [WithStep]); when its attempts are used up, the node fails.
func When[A any](text string, in Input[A], cond func(A) (bool, error)) Option {
	c := condition{text: text, from: in, missing: cond == nil, take: func(t *taking) (func() (bool, error), error) {
		a, err := in.take(t)
		return func() (bool, error) { return cond(a) }, err
	}}
	return func(n *node) { n.whens = append(n.whens, c) }
}

// WithStep sets options of the node's step: its attempts, backoff and timeout. They also hold
// for conditions of the node that return errors.
func WithStep(opts ...workflow.StepOption) Option {
	return func(n *node) { n.steps = append(n.steps, opts...) }
}

// IgnoreOutput drops the result of a step: it is not recorded, and no node may take it.
// Other nodes can still wait for the node with [After].
func IgnoreOutput() Option { return func(n *node) { n.ignore = true } }
