// Package flow builds workflows as typed graphs of steps.
//
//	f := flow.New[Order, Receipt]("fulfil")
//
//	charge := flow.Step(f, "charge", func(ctx context.Context, o Order) (Charge, error) { ... })
//	reserve := flow.Step(f, "reserve", func(ctx context.Context, o Order) (Reservation, error) { ... })
//	ship := flow.Join2(f, "ship", charge, reserve, func(ctx context.Context, c Charge, r Reservation) (Parcel, error) { ... },
//		flow.With(workflow.Attempts(10)))
//	gift := flow.Then(f, "wrap", f.Input(), func(ctx context.Context, o Order) (Paper, error) { ... },
//		flow.When("a gift?", f.Input(), func(o Order) (bool, error) { return o.Gift, nil }))
//	receipt := flow.Join2(f, "receipt", ship, flow.Optional(gift), func(ctx context.Context, p Parcel, g flow.Maybe[Paper]) (Receipt, error) { ... })
//
//	f.Output(receipt)
//	Fulfil, err := f.Workflow() // or Must; a *workflow.Workflow[Order, Receipt]
//
// A node takes its inputs from other nodes, and the compiler checks their types. It
// begins as soon as all that it depends on is done, so that what does not depend on each
// other runs at the same time. [Flow.Workflow] reports everything that is wrong with the
// graph at once: names that nobody has or two have, circles, options in the wrong place.
// What it returns is a workflow as any other.
//
// # Nodes
//
// [Step], [Then], [Join2], [Join3], [Do] and [ThenTx] are steps; [Await] waits for a signal and
// [Sleep] for a time; [Child] runs another workflow, [Map] and [Reduce] one for each item
// of a list, and [Generate] one for each item that a generator yields.
//
// What a node takes are [Input] values: a node's result, the flow's input, or what
// [WaitFor], [Optional], [Pick], [Both], [All] and [Const] make. With [After] it depends
// on nodes without taking their results, also by name and also on nodes that are added
// later.
//
// # Skipping
//
// A node whose condition ([When]) does not hold is skipped, and so is every node that
// depends on a skipped one, except by an [Optional] input, or behind [After] with
// [EvenIfSkipped]. [IfSkipped] is for the other case. What a condition has said is
// recorded. The flow's output is the first of [Flow.Output] that was not skipped.
//
// # Failure, and early ends
//
// When a node has failed for good (its step's attempts are used up), no other node begins
// and nothing is tried again. Steps that run are waited for, so that what they have done
// is recorded; whoever waits (for a signal, a time, a next attempt, children) is left
// off. Then [Flow.OnFailure] runs, if there is one, and the run fails with a
// [*NodeError]. If the run itself is tried again or restarted, completed nodes stay
// completed, and the failed ones and the handler begin anew.
//
// [Flow.CompleteWith] and [Flow.CompleteIf] end a flow early, with an output. That does
// not wait: steps that run are cut short.
//
// # What is recorded
//
// Each node is a branch ([workflow.Go]) under its own name, in which its step has the
// node's name again. So a flow can be changed while runs of it are under way: nodes may
// be added and removed. What one node does in which order
// may not change; give it a new name, or the flow a new version.
//
// The flow's [Graph] is kept with the workflow's definition, and printed by
// [Graph.Mermaid].
package flow
