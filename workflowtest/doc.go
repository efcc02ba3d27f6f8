// Package workflowtest tests workflows on the real engine, the real worker and a
// real store, SQLite in memory, inside a testing/synctest bubble: thirty days of
// sleep pass in milliseconds.
//
//	func TestApproval(t *testing.T) {
//		workflowtest.Run(t, func(env *workflowtest.Env) {
//			workflowtest.Stub(env, "remind", func(context.Context) (int, error) { return 1, nil })
//			run := workflowtest.Start(env, Approval, Request{Cents: 500})
//			env.Advance(12 * 24 * time.Hour)
//			env.NoError(Approved.Send(env.Context(), env.Engine(), run.ID(), Decision{Yes: true}))
//			if got := run.Result(); !got.Approved { ... }
//		})
//	}
//
// [CrashEverywhere] kills the worker at every point of a run and compares what comes
// of it. [Replay] holds recorded histories of production runs against the present
// code.
package workflowtest
