// Package workflow is for writing workflows: ordinary Go functions that survive crashes.
//
// A workflow does its work in steps. The result of a step is recorded in a database when
// the step succeeds. After a crash, another worker calls the function again from the top;
// steps that are recorded return their record and do not run again. So the run resumes
// after its last recorded step.
//
//	var Fulfil = workflow.New("fulfil-order", func(ctx workflow.Context, o Order) (Receipt, error) {
//		charge, err := workflow.Step(ctx, "charge", func(ctx context.Context) (Charge, error) {
//			return payments.Charge(ctx, o.Cents, workflow.IdempotencyKey(ctx))
//		})
//		if err != nil {
//			return Receipt{}, err
//		}
//		if err := workflow.Sleep(ctx, "cooling-off", 24*time.Hour); err != nil {
//			return Receipt{}, err
//		}
//		return workflow.Step(ctx, "ship", func(ctx context.Context) (Receipt, error) {
//			return warehouse.Ship(ctx, o, charge)
//		})
//	})
//
// A worker executes the workflow (package worker), and any program starts it:
//
//	run, err := Fulfil.Start(ctx, eng, order, engine.ExternalID("order-42"))
//	receipt, err := run.Result(ctx)
//
// The first example below is a whole program.
//
// # What to use
//
// In the order in which a program needs them:
//
//   - [New] defines a [Workflow]. [Workflow.Start] starts a run and returns its [Handle], which
//     waits for the result, signals the run, reads its state and cancels it. [Ref] does so in
//     programs that do not have the function.
//   - [Step] does a piece of work once. [Do] is a step without a result. [Attempts],
//     [Backoff], [Timeout] and [Permanent] say how often it is tried and for how long.
//   - [Value], [Now], [NewID] and [Random] record what may differ each time.
//   - [Sleep] waits for a time, [Signal] for a message, [Select] for the first of several.
//   - [Go] and [Group] run parts of the workflow at the same time.
//   - [Child] runs another workflow. [Map] and [Reduce] run one for each item of a slice,
//     [Generate] one for each item of a stream.
//   - [Cleanup] releases what a canceled run has acquired.
//   - [Workflow.SignalWithStart] and [Workflow.WithStart] reach the active run of an external id, or
//     start it. With [Signal.ReceiveMany] a run collects what arrives.
//   - [View] publishes values that other programs read without a worker.
//   - [State] and [WaitForState] let a run, its steps and other programs coordinate.
//   - [StepTx] makes a step's record part of a database transaction.
//   - [ContinueAsNew] limits the records of a run that works forever.
//
// # Rules
//
// The function must do the same each time for the same records. Everything that touches
// the world, or may come out differently, belongs in a [Step], a [Value] or another
// operation of this package. A branch runs one operation at a time; work that is to run
// at the same time gets a branch by [Go].
//
// A step runs at least once; see the next section.
//
// An error that a step returns is recorded as text and code. The workflow gets a
// [*StepError] made from that record, live and replayed alike. Match it with
// [ErrorCode] and [Coded], not by the type of the original error.
//
// # What may be repeated
//
// A step's outcome is recorded once and never changes. A run that finds the record
// does not run the step again, whatever worker takes it. The step's work itself
// happens at least once:
//
//   - A crash between the work and its record repeats the work.
//   - A worker that was stopped, suspended or cut off for longer than its lease does not
//     know at first that another worker has taken the run over. In each branch it may
//     finish the function that it was in, or run the one step that it was about to begin,
//     even if the other worker has recorded that step meanwhile. Its next call to the
//     store tells it that the lease is lost. Nothing of what it did is recorded, and it
//     begins no further step.
//
// So the records are exact, but the outside world may see a step's work twice, even at the
// same time. There are two remedies. [IdempotencyKey] is the same each time, so that the
// other side recognizes the repetition. [StepTx] commits the work together with the
// record; when the record is refused, so is the work.
//
// # Waiting
//
// A run waits for time ([Sleep]), for messages ([Signal.Receive], and [Select] for the
// first of several messages and timers), for children, and for its own flow state
// ([WaitForState]). Flow state is keys with typed values ([State]). The run's function,
// its steps and programs outside read and write it, to tell each other how far they are:
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
// When a run only waits, it leaves memory: its goroutines end, running deferred
// functions, and the function is called again from the top when the wait is over.
// Deferred functions can therefore run several times in a run's life, and operations
// in them do nothing then.
//
// # Further reading
//
// Package worker runs workflows, package engine controls runs, package workflowtest tests
// workflows without waiting, and package flow builds a workflow from a graph of steps.
// docs/patterns.md shows how to build approvals, sagas, fan-outs and more.
package workflow
