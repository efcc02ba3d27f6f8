// Package engine is the client of Pawl. It starts runs of workflows, waits for their
// results, and controls and reads them. It executes no workflow; a worker does (package
// worker).
//
//	st, err := backends.Open(ctx, "sqlite:pawl.db")
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//	eng := engine.New(st)
//	defer eng.Close()
//
//	run, err := Fulfil.Start(ctx, eng, order, engine.ExternalID("order-42"))
//	receipt, err := run.Result(ctx)
//
// Start and Result belong to package workflow, which knows the types of the workflow's
// input and output. The engine's own methods take and return encoded payloads; they are for
// programs that know a workflow by its name only.
//
// An [Engine] is safe for concurrent use by multiple goroutines. A program needs one for
// each namespace; see [Namespace].
//
// # What to use
//
// In the order in which a program needs them:
//
//   - [New] makes an [Engine] on a store. Its options set the [Codec] ([PayloadCodec]), logs,
//     metrics and traces ([Logger], [Metrics], [Tracing]) and how long finished runs are
//     kept ([Retain]).
//   - A [StartOption] configures a start: [ExternalID] makes it idempotent, [Delay] and [At] set
//     when it begins, [Timeout] gives the run a deadline, [Queue] and [Priority] say who
//     takes it and how soon. [WithSignal] makes it reach the active run, if there is one.
//   - [Engine.Wait] returns the [Outcome] of a run. A run that did not complete gives a
//     [*RunError], which matches [ErrFailed] or [ErrCanceled].
//   - [Engine.Cancel], [Engine.Pause], [Engine.Resume], [Engine.Restart] and [Engine.Fork]
//     control one run, [Engine.CancelMany] and the like all runs that a filter selects, and
//     [Engine.PauseQueue] and [Engine.PauseWorkflow] hold back new work.
//   - [Engine.Get], [Engine.List], [Engine.Count], [Engine.Steps] and [Engine.Progress] read
//     runs. [Engine.Explain] says why a run is where it is.
//   - [Engine.PutSchedule] starts runs by the clock; see [Schedule].
//   - [Engine.InTx] makes starts and signals part of a transaction of the program's own.
//   - [Engine.Export] and [Engine.Import] take runs from one store to another, and
//     [Engine.Purge] deletes them.
//
// # Errors
//
// Errors are matched with errors.Is, against those of this package and of package store.
// While the store cannot be reached, writes and most reads are repeated for as long as [RetryFor] says.
// Inside a transaction ([Engine.InTx]) nothing is repeated.
//
// # Further reading
//
// Package workflow defines workflows, and docs/operations.md describes how to run Pawl in
// production.
package engine
