package flow

import "github.com/pawlhq/pawl/workflow"

// Option configures a node.
type Option func(*node)

// After lets the node begin when these are done, too, without taking their results:
//
//	flow.After(charge, flow.Named("reserve"))
//
// It is skipped when one of them was, unless [EvenIfSkipped] says otherwise.
func After(nodes ...Ref) Option {
	return func(n *node) { n.after = append(n.after, refs(nodes)...) }
}

// IfSkipped makes the node one for the other case: it runs when all of these were
// skipped, and is skipped when one of them was done.
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

// EvenIfSkipped lets the node run when nodes that it is to run after were skipped. For
// inputs there is [Optional].
func EvenIfSkipped() Option { return func(n *node) { n.evenIfSkipped = true } }

// When makes the node conditional: it is skipped unless the condition holds, and with it
// what depends on it. The node depends on the condition's input. With several conditions
// all must hold. The text says what is asked ("express?"); it stands in pictures and in
// the run's records.
//
// The condition is part of the workflow's code and must have no effect on the world. Its
// answer is recorded, so that a replay goes the same way. When it returns an error it is
// asked again as a step is tried again, and the node fails when that does not help.
func When[A any](text string, in Input[A], cond func(A) (bool, error)) Option {
	c := condition{text: text, from: in, missing: cond == nil, take: func(t *taking) (func() (bool, error), error) {
		a, err := in.take(t)
		return func() (bool, error) { return cond(a) }, err
	}}
	return func(n *node) { n.whens = append(n.whens, c) }
}

// With sets options of the node's step: its attempts, backoff and timeout. They also
// hold for its conditions that return errors.
func With(opts ...workflow.StepOption) Option {
	return func(n *node) { n.steps = append(n.steps, opts...) }
}

// IgnoreOutput drops the result of a step: it is not recorded, and nobody may take it.
// That the node is done can be waited for, by [After].
func IgnoreOutput() Option { return func(n *node) { n.ignore = true } }
