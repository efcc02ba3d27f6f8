package enginetier

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var progress = workflow.NewView[int]("progress")

// view reads what a run has published; -1: nothing.
func (e *E) view(run store.ID) int {
	e.Helper()
	v, ok, err := progress.Get(e.ctx, e.eng, run)
	e.ok("get the view", err)
	if !ok {
		return -1
	}
	return v
}

// completed counts the completed function steps of a run.
func (e *E) completed(run store.ID) (n int) {
	e.Helper()
	for _, st := range e.steps(run) {
		if st.Kind == store.KindFunction && st.Status == store.StepCompleted {
			n++
		}
	}
	return n
}

var viewEngineCases = []Case{
	{Name: "view/with-the-step", Promise: "P3", Rule: "What a step publishes is visible with its result, and not before: the last value of its successful attempt.", Run: func(e *E) {
		reached, goOn := make(chan struct{}), make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Step(ctx, "step", func(ctx context.Context) (int, error) {
				err := errors.Join(progress.Publish(workflow.InStep(ctx), 1), progress.Publish(workflow.InStep(ctx), 2))
				close(reached)
				receive(e, "the end of the step", goOn)
				return 0, err
			})
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the step", reached)
		e.eq("the view while the step runs", e.view(h.ID()), -1)
		close(goOn)
		result(e, h)
		e.eq("the view after the step", e.view(h.ID()), 2)
	}},
	{Name: "view/not-of-a-failure", Promise: "P3", Rule: "An attempt that fails publishes nothing, whether the step is tried again or fails for good.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			id := ctx.Info().RunID
			err := workflow.Do(ctx, "tried", func(ctx context.Context) error {
				n := ran.add("tried")
				if n > 1 {
					e.eq("the view between attempts", e.view(id), -1)
				}
				if n < 3 {
					return errors.Join(progress.Publish(workflow.InStep(ctx), n), errors.New("not yet"))
				}
				return nil
			}, workflow.Attempts(5), workflow.Backoff(time.Millisecond, 1, time.Millisecond))
			failed := workflow.Do(ctx, "failed", func(ctx context.Context) error {
				return errors.Join(progress.Publish(workflow.InStep(ctx), 99), errors.New("never"))
			}, workflow.Attempts(1))
			if failed == nil {
				err = errors.Join(err, errors.New("the step did not fail"))
			}
			return 0, err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		result(e, h)
		e.eq("the view", e.view(h.ID()), -1)
	}},
	{Name: "view/with-each-step", Promise: "P3", Rule: "A view that each step publishes is at every moment that of the last recorded step, while workers die before and after their commits.", Run: func(e *E) {
		const steps = 12
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			for i := range steps {
				err := workflow.Do(ctx, "step", func(ctx context.Context) error { return progress.Publish(workflow.InStep(ctx), i+1) })
				if err == nil && i%4 == 3 {
					err = again(e, ctx, "nap")
				}
				if err != nil {
					return 0, err
				}
			}
			return steps, nil
		})
		h := startBefore(e, wf)
		look := func() {
			before := e.completed(h.ID())
			v := max(e.view(h.ID()), 0)
			after := e.completed(h.ID())
			e.check(before <= v && v <= after, "the view: saw %d while %d to %d steps were recorded", v, before, after)
		}
		for i := range 4 {
			p := e.process(defs(wf), worker.MaxCrashes(100))
			select {
			case <-p.wire.dieAt("commit", 1+i, i%2 == 0):
			case <-e.ended(h.ID()):
			}
			p.kill()
			look()
		}
		e.process(defs(wf), worker.MaxCrashes(100))
		e.eq("output", result(e, h), steps)
		look()
		e.eq("the view at the end", e.view(h.ID()), steps)
	}},
	{Name: "view/of-the-function", Promise: "P4", Rule: "What a workflow's function publishes is committed once: a replay publishes nothing again.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			return 0, errors.Join(progress.Publish(ctx, 1), again(e, ctx, "nap"), progress.Publish(ctx, 2), again(e, ctx, "nap 2"), again(e, ctx, "nap 3"))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		result(e, h)
		e.eq("the view", e.view(h.ID()), 2)
		entries, err := e.eng.GetState(e.ctx, h.ID())
		e.ok("get state", err)
		e.eq("entries", len(entries), 1)
		e.eq("the version", entries[0].Version, int64(2))
	}},
	{Name: "view/without-a-worker", Promise: "P15", Rule: "A view is read without a worker, before the run's first step, after its end, and across a continuation; other runs and views have their own.", Run: func(e *E) {
		other := workflow.NewView[string]("other")
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			if n == 0 {
				return 0, errors.Join(progress.Publish(ctx, 7), workflow.ContinueAsNew(ctx, 1))
			}
			return 0, other.Publish(ctx, "x")
		})
		h := startBefore(e, wf)
		e.eq("the view before the first step", e.view(h.ID()), -1)
		p := e.process(defs(wf))
		result(e, h)
		p.stop()
		e.eq("the view after the end", e.view(h.ID()), 7)
		text, ok, err := other.Get(e.ctx, e.eng, h.ID())
		e.ok("get the other view", err)
		e.eq("the other view", []any{text, ok}, []any{"x", true})
		second := start(e, wf, 1)
		e.eq("the view of another run", e.view(second.ID()), -1)
		_, _, err = progress.Get(e.ctx, e.eng, store.NewID())
		e.says("the view of no run", err, store.ErrNotFound)
		_, _, err = workflow.NewView[int]("").Get(e.ctx, e.eng, h.ID())
		e.says("a view without a name", err, store.ErrInvalid, "view name")
		_, _, err = workflow.NewView[int]("other").Get(e.ctx, e.eng, h.ID())
		var decode *workflow.DecodeError
		e.check(errors.As(err, &decode), "a view of another type: saw %v, expected a decode error", err)
	}},
	{Name: "view/watch", Promise: "P5", Rule: "A watch returns the values that a run publishes, in their order, the last one certainly, and ends with the run; one that begins after the end returns the last value.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			for i := range 5 {
				if err := workflow.Do(ctx, "step", func(ctx context.Context) error { return progress.Publish(workflow.InStep(ctx), i) }); err != nil {
					return 0, err
				}
				if _, err := word.Receive(ctx); err != nil {
					return 0, err
				}
			}
			return 0, progress.Publish(ctx, 5)
		})
		h := startBefore(e, wf)
		values := make(chan int)
		ended := make(chan error, 1)
		go func() {
			defer close(values)
			var last error
			for p, err := range progress.Watch(e.ctx, e.eng, h.ID()) {
				if last = err; err == nil {
					values <- p.Value
				}
			}
			ended <- last
		}()
		e.process(defs(wf))
		for i := range 5 {
			e.eq("a value of the watch", receive(e, "a value", values), i)
			send(e, word, h.ID(), "go on")
		}
		result(e, h)
		e.eq("the last value of the watch", receive(e, "a value", values), 5)
		e.ok("the end of the watch", receive(e, "the end", ended))
		var late []int
		for p, err := range progress.Watch(e.ctx, e.eng, h.ID()) {
			e.ok("a late watch", err)
			late = append(late, p.Value)
		}
		e.eq("values of a late watch", late, []int{5})
		for _, err := range progress.Watch(e.ctx, e.eng, store.NewID()) {
			e.says("a watch of no run", err, store.ErrNotFound)
		}
	}},
	{Name: "view/not-state", Promise: "P15", Rule: "Programs cannot write views as state, publish from outside a run or in a generator; predicates of waits do not see views, and a view wakes no wait for nothing.", Run: func(e *E) {
		key := workflow.NewState[int]("pawl.view/progress")
		flag := workflow.NewState[bool]("flag")
		seen := make(chan int, 100)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			if err := key.Set(ctx, 1); !errors.Is(err, store.ErrInvalid) {
				return 0, errors.Join(err, errors.New("the key of a view could be set"))
			}
			err := workflow.Do(ctx, "step", func(ctx context.Context) error {
				if err := key.Set(workflow.InStep(ctx), 1); !errors.Is(err, store.ErrInvalid) {
					return errors.Join(err, errors.New("the key of a view could be set in a step"))
				}
				return progress.Publish(workflow.InStep(ctx), 3)
			})
			if err != nil {
				return 0, err
			}
			return 0, workflow.WaitForState(ctx, "wait", func(r workflow.FlowStateReader) (bool, error) {
				seen <- r.Len()
				_, ok, err := flag.Read(r)
				return ok && !r.Has("pawl.view/progress"), err
			})
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		out := workflow.OfRun(e.ctx, e.eng, h.ID())
		e.says("set from outside", key.Set(out, 1), store.ErrInvalid, "pawl.view/")
		e.says("delete from outside", key.Delete(out), store.ErrInvalid, "pawl.view/")
		_, err := key.CompareAndSet(out, 0, 1)
		e.says("compare from outside", err, store.ErrInvalid, "pawl.view/")
		e.says("publish from outside", progress.Publish(out, 1), store.ErrInvalid, "run itself")
		e.ok("set the flag", flag.Set(out, true))
		result(e, h)
		close(seen)
		lens := slices.Collect(func(yield func(int) bool) {
			for n := range seen {
				yield(n)
			}
		})
		e.eq("the largest state that the predicate saw", slices.Max(lens), 1)
	}},
	{Name: "view/in-a-transaction", Promise: "P3", Rule: "What a step publishes in its transaction is part of it: it is published if the transaction commits, and not if it rolls back.", Run: transactions(func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			return workflow.StepTx(ctx, "step", func(ctx context.Context, _ *sql.Tx) (int, error) {
				n := ran.add("step")
				err := progress.Publish(workflow.InStep(ctx), n)
				if n == 1 {
					err = errors.Join(err, errors.New("not yet"))
				}
				return n, err
			}, workflow.Attempts(3), workflow.Backoff(time.Millisecond, 1, time.Millisecond))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), 2)
		e.eq("the view", e.view(h.ID()), 2)
		entries, err := e.eng.GetState(e.ctx, h.ID())
		e.ok("get state", err)
		e.eq("the version", entries[0].Version, int64(1))
	})},
}
