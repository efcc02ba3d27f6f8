package enginetier

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// untilIdle runs a worker until nothing is left to do.
func (e *E) untilIdle(ctx context.Context, defs []workflow.Definition, opts ...engine.Option) (time.Time, error) {
	e.Helper()
	eng := engine.New(newWire(e.s), append(opts, engine.Namespace("engine"), engine.Logger(quiet))...)
	defer eng.Close()
	w := worker.New(eng, worker.Concurrency(10), worker.Lease(leaseFor), worker.Grace(e.d(time.Second)))
	e.ok("register", w.Register(defs...))
	for _, d := range defs {
		bridge.Of(e.eng).Know(d.Name(), d.Queue())
	}
	return w.RunUntilIdle(ctx)
}

var idleEngineCases = []Case{
	{Name: "idle/does-what-is-due", Promise: "P6", Rule: "A worker that runs until it is idle does everything that is due, and the work that this causes, before it returns.", Run: func(e *E) {
		child := workflow.New("child", func(ctx workflow.Context, in int) (int, error) {
			return workflow.Step(ctx, "work", func(context.Context) (int, error) { return in * 2, nil })
		})
		parent := workflow.New("parent", func(ctx workflow.Context, in int) (string, error) {
			id, err := workflow.Step(ctx, "start", func(ctx context.Context) (string, error) {
				h, err := child.Start(ctx, e.eng, in)
				return h.ID().String(), err
			})
			return id, errors.Join(err, workflow.Sleep(ctx, "a moment", time.Millisecond))
		})
		bridge.Of(e.eng).Know("parent", "parent")
		bridge.Of(e.eng).Know("child", "child")
		hs := startN(e, parent, 30)
		next, err := e.untilIdle(e.ctx, defs(parent, child))
		e.ok("RunUntilIdle", err)
		e.check(next.IsZero(), "when the next run is due: saw %v, expected never", next)
		for i, id := range results(e, hs) {
			run, err := store.ParseID(id)
			e.ok("the child's id", err)
			out, err := child.Handle(e.eng, run).Result(e.ctx)
			e.ok("the child's result", err)
			e.eq("the child's output", out, 2*i)
		}
	}},
	{Name: "idle/tells-what-is-next", Promise: "P13", Rule: "A worker that runs until it is idle does not wait for sleeping runs, and returns when the first of them is due.", Run: func(e *E) {
		never := workflow.NewSignal[int]("never")
		wf := workflow.New("wf", func(ctx workflow.Context, hours int) (int, error) {
			if hours == 0 {
				return never.Receive(ctx)
			}
			return hours, workflow.Sleep(ctx, "nap", time.Duration(hours)*time.Hour)
		})
		bridge.Of(e.eng).Know("wf", "wf")
		hs := startN(e, wf, 4)
		next, err := e.untilIdle(e.ctx, defs(wf))
		e.ok("RunUntilIdle", err)
		in := time.Until(next)
		e.check(in > 58*time.Minute && in <= time.Hour, "the next run is due: saw in %v, expected in an hour", in)
		for i, h := range hs {
			run, err := e.eng.Get(e.ctx, h.ID())
			e.ok("get", err)
			e.check(run.Status == store.Sleeping && run.Worker == "", "run %d: saw it %v and held by %q, expected it to sleep", i, run.Status, run.Worker)
		}
		workers, err := store.AllWorkers(e.ctx, e.s, store.ListWorkersParams{Namespace: "engine"})
		e.ok("list workers", err)
		e.eq("workers that are left", len(workers), 0)
	}},
	{Name: "idle/tells-the-next-purge", Promise: "P13", Rule: "A worker that runs until it is idle returns when retention next deletes a run, not earlier than the next housekeeping, and no time for runs that are kept.", Run: func(e *E) {
		wf := workflow.New("wf", func(_ workflow.Context, in int) (int, error) {
			if in < 0 {
				return 0, errors.New("negative")
			}
			return in, nil
		})
		other := workflow.New("other", func(_ workflow.Context, in int) (int, error) { return in, nil })
		bridge.Of(e.eng).Know("wf", "wf")
		bridge.Of(e.eng).Know("other", "other")
		idle := func(r engine.Retention) time.Duration {
			e.Helper()
			e.untidied(e.s)
			next, err := e.untilIdle(e.ctx, defs(wf, other), engine.Retain(r, "wf"))
			e.ok("RunUntilIdle", err)
			if next.IsZero() {
				return 0
			}
			return time.Until(next)
		}
		expect := func(what string, saw, expected time.Duration) {
			e.Helper()
			e.check(saw <= expected && saw > expected-5*time.Minute || saw == expected, "%s: saw to come again in %v, expected in %v", what, saw, expected)
		}
		startN(e, other, 3) // kept for ever
		expect("nothing to delete", idle(engine.KeepFor(100*time.Hour)), 0)
		start(e, wf, -1)
		failed := engine.Retention{Failed: 100 * time.Hour}
		startN(e, other, 120)
		expect("a run that failed", idle(failed), 100*time.Hour)
		start(e, wf, 1)
		expect("one that completed, and is kept", idle(failed), 100*time.Hour)
		expect("no retention", idle(engine.Retention{}), 0)
		// The runs that are kept hide the ends of those after them.
		expect("behind many that are kept", idle(engine.Retention{Completed: 50 * time.Hour}), 50*time.Hour)
		start(e, wf, -1)
		in := idle(engine.Retention{Failed: 50 * time.Second})
		e.check(in > 55*time.Second && in <= time.Minute, "before housekeeping is to be done again: saw to come again in %v, expected in a minute", in)
	}},
	{Name: "idle/ends-with-its-context", Promise: "P11", Rule: "If its context ends first, a worker that runs until it is idle gives back the runs that it holds, and returns the context's error.", Run: func(e *E) {
		ctx, cancel := context.WithCancel(e.ctx)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			return 1, workflow.Do(ctx, "long", func(sctx context.Context) error {
				cancel()
				<-sctx.Done()
				return sctx.Err()
			})
		})
		bridge.Of(e.eng).Know("wf", "wf")
		h := start(e, wf, 0)
		_, err := e.untilIdle(ctx, defs(wf))
		e.check(errors.Is(err, context.Canceled), "RunUntilIdle: saw %v, expected that its context was canceled", err)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("the run's status", run.Status, store.Pending)
	}},
}
