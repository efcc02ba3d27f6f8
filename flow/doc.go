// Package flow builds workflows as typed graphs of steps.
//
// A node takes its inputs from other nodes. It begins as soon as everything that it depends
// on is done, so nodes that do not depend on each other run at the same time. The compiler
// checks the types of inputs and results.
//
//	f := flow.New[Order, Receipt]("fulfil")
//
//	charge := flow.Step(f, "charge", func(ctx context.Context, o Order) (Charge, error) { ... })
//	reserve := flow.Step(f, "reserve", func(ctx context.Context, o Order) (Reservation, error) { ... })
//	ship := flow.Join2(f, "ship", charge, reserve, func(ctx context.Context, c Charge, r Reservation) (Parcel, error) { ... },
//		flow.WithStep(workflow.Attempts(10)))
//	gift := flow.Then(f, "wrap", f.Input(), func(ctx context.Context, o Order) (Paper, error) { ... },
//		flow.When("a gift?", f.Input(), func(o Order) (bool, error) { return o.Gift, nil }))
//	receipt := flow.Join2(f, "receipt", ship, flow.Optional(gift), func(ctx context.Context, p Parcel, g flow.Maybe[Paper]) (Receipt, error) { ... })
//
//	f.Output(receipt)
//	Fulfil, err := f.Workflow() // or Must; a *workflow.Workflow[Order, Receipt]
//
// [Flow.Workflow] reports everything that is wrong with the graph at once: unknown and duplicate names, cycles, options
// in the wrong place. It returns a workflow like any other, to be registered with a worker and started.
//
// # Nodes
//
// [Step], [Then], [Join2], [Join3], [Do] and [ThenTx] are steps. [Await] waits for a signal
// and [Sleep] for a time. [Child] runs another workflow, [Map] and [Reduce] run one for each
// item of a list, and [Generate] one for each item that a generator yields.
//
// A node takes [Input] values: a node's result, the flow's input, or what [WaitFor],
// [Optional], [Pick], [Both], [All] and [Const] make. With [After] a node depends on others
// without taking their results. It may name them, and also nodes that are added later.
//
// # Skipping
//
// A node whose condition ([When]) does not hold is skipped, and so is every node that
// depends on a skipped one. There are two exceptions: an [Optional] input, and [After] with
// [EvenIfSkipped]. [IfSkipped] is for the other case: such a node runs when others were
// skipped. The answer of a condition is recorded. The flow's output is the first of
// [Flow.Output] that was not skipped.
//
// # Failure, and early ends
//
// When a node has failed for good (its step's attempts are used up), no other node begins
// and nothing is tried again. Steps that are running are waited for, so that their results
// are recorded. Nodes that wait (for a signal, a time, a next attempt, children) are not
// waited for. Then [Flow.OnFailure] runs, if there is one, and the run fails with a
// [*NodeError]. If the run itself is tried again or restarted, completed nodes stay
// completed; the failed ones and the handler begin again.
//
// [Flow.CompleteWith] and [Flow.CompleteIf] end a flow early, with an output. They do not
// wait: steps that are running are cut short.
//
// # What is recorded
//
// Each node is a branch (workflow.Go) under its own name. Its step in that branch has the
// node's name again. Therefore a flow can be changed while runs of it are in progress: nodes
// may be added and removed. What one node does, and in which order, must not change. For
// that, give the node a new name, or the flow a new version.
//
// The flow's [Graph] is kept with the workflow's definition, and printed by
// [Graph.Mermaid].
//
// # Further reading
//
// Package workflow has the rules for functions of steps, and workflows without a graph. docs/flows.md says when to
// prefer which.
package flow
