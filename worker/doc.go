// Package worker runs workflows. A worker claims runs from the store, executes them, renews
// its leases on them and commits what they record.
//
//	w := worker.New(eng, worker.Concurrency(100))
//	if err := w.Register(Fulfil, Refund); err != nil {
//		return err
//	}
//	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	return w.Run(ctx)
//
// Run blocks until its context ends. A program that does something else as well calls it
// in a goroutine, and waits for it to return before it closes the store.
//
// Any number of workers, in any number of processes, may serve the same workflows. However
// a worker stops, nothing is lost: other workers take over its runs, immediately after a
// graceful shutdown, otherwise when its leases expire ([Lease]).
//
// # What to use
//
// In the order in which a program needs them:
//
//   - [New] makes a [Worker] on an engine, [Worker.Register] adds workflows, and
//     [Worker.Run] works until its context ends. A worker runs once; to continue, make
//     another one.
//   - [Worker.RunUntilIdle] does what is due now and returns, for programs that are started
//     by a request or a clock.
//   - [Concurrency], [Limit] and [Memory] limit what executes at the same time. [Queues]
//     makes the worker serve further queues.
//   - [Grace] limits a shutdown, and [Lease] the time until others take over the runs of a
//     worker that died.
//   - [Worker.Healthy] is for readiness probes.
//   - [WrapSteps] puts a function around each attempt of a step.
//
// Workers also fire schedules and delete old runs. One worker of a namespace at a time does
// each, whichever is there.
//
// # Further reading
//
// Package workflow defines workflows, package engine starts and controls runs.
// docs/scaling.md describes sizing.
package worker
