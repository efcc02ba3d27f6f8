// Package workflow is what an author of workflows writes with.
//
// A workflow is an ordinary function. It is run from the top whenever a worker
// takes its run; what is done in a [Step] is recorded when it has succeeded, and
// from then on the step returns the record instead of doing it again. So after a
// crash the run goes on behind its last recorded step.
//
//	var Fulfil = workflow.New("fulfil-order", func(ctx workflow.Context, o Order) (Receipt, error) {
//		charge, err := workflow.Step(ctx, "charge", func(ctx context.Context) (Charge, error) {
//			return payments.Charge(ctx, o.Cents, workflow.IdempotencyKey(ctx))
//		})
//		...
//	})
//
// # Rules
//
// The function itself must do the same each time for the same records: everything
// that touches the world, or may come out differently, belongs into a [Step], a
// [Value] or another operation of this package. Operations of one branch come one
// after the other; what is to run at the same time gets a branch by [Go].
//
// A step runs at least once; see below.
//
// An error that a step returns is recorded as text and code. The workflow gets a
// [*StepError] made of that record, live and replayed alike; match it with
// [ErrorCode] and [Coded], not by the type of the original error.
//
// # What may be repeated
//
// A step's outcome is recorded once and never changes. A run that finds the record
// does not run the step again, whatever worker takes it. The step's work itself happens
// at least once:
//
//   - A crash between the work and its record repeats the work.
//   - A worker that was stopped, suspended or cut off for longer than its lease does not know
//     at first that another one has taken the run over. In each branch it may finish the
//     function that it was in, or run the one step that it was about to begin, although
//     the other worker has recorded that step meanwhile. Its next call to the store tells it
//     that the lease is lost; nothing of what it did is recorded, and it begins no
//     further step.
//
// So the records are exact, and the world outside may see a step's work twice, even at the
// same time. [IdempotencyKey], which is the same each time, lets the other side recognise
// the repetition; [StepTx] commits the work with the record, and is refused with it.
//
// # Waiting and coordination
//
// A run waits for time ([Sleep]), for messages ([Signal.Receive], and [Select] for the
// first of several messages and timers), and for its own flow state ([WaitForState]):
// keys with typed values ([State]) which the run's function, its steps and programs
// outside read and write, and by which they tell each other how far they are.
//
//	var Offset = workflow.NewState[int64]("consumer_offset")
//
//	// in a step that consumes:
//	err := Offset.Set(workflow.InStep(ctx), n)
//	// in the run's function, until the consumer has caught up:
//	err := workflow.WaitForState(ctx, "caught up", func(r workflow.FlowStateReader) (bool, error) {
//		n, _, err := Offset.Read(r)
//		return n >= watermark, err
//	})
//
// Other workflows are run as children: one by [Child] or [StartChild], one for each
// item of a slice by [Map] and [Reduce], and one for each item of a stream by
// [Generate]. Any worker takes them.
//
// When a run only waits, it leaves memory: its goroutines end, running deferred
// functions, and the function is run again from the top when the wait is over.
// Deferred functions can therefore run several times in a run's life, and
// operations in them do nothing then.
package workflow
