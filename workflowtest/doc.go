// Package workflowtest tests workflows on the real engine, the real worker and a
// real store, SQLite in memory, inside a testing/synctest bubble: thirty days of
// sleep pass in milliseconds.
//
//	func TestApproval(t *testing.T) {
//		workflowtest.Run(t, func(env *workflowtest.Env) {
//			workflowtest.StubDo(env, "remind", func(context.Context) error { return nil })
//			run := workflowtest.Start(env, Approval, Request{Cents: 500})
//			env.Advance(12 * 24 * time.Hour)
//			env.NoError(Approved.Send(env.Context(), env.Engine(), run.ID(), Decision{Yes: true}))
//			if got := run.Result(); !got.Approved { ... }
//		})
//	}
//
// # What to use
//
//   - [Run] gives a test an [Env]: an engine, a store and a worker of its own.
//   - [Start] registers a workflow and starts a run of it. [Started.Result] lets time pass
//     until the run is final.
//   - [Stub] replaces the function of every step of a name, and [StubDo] that of a step without
//     a result. Use them for what a test must not do, such as sending mail. [StubWorkflow]
//     replaces the function of a workflow, such as that of a child.
//   - [Env.Advance] lets time pass, and [Env.Engine] sends signals and cancels runs.
//   - [CrashEverywhere] kills the worker at every point of a run and compares the results.
//     It finds steps that are not idempotent.
//   - [Record] reads the history of a production run. [Replay] fails a test, and [Check]
//     returns an error, if the present code does not fit a history. With such histories
//     beside the code, a change that would break runs in progress is found before it is
//     deployed.
//
// # Further reading
//
// docs/testing.md has a section on testing your own workflows. Package testing/synctest says
// what can run in a bubble.
package workflowtest
