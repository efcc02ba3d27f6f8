package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// taking is a workflow that takes something, works until it is interrupted or let go,
// and gives back what it took if the work came to nothing.
func taking(ran *tally, at chan struct{}, work func(ctx context.Context) error, limit time.Duration, giveBack func(ctx workflow.Context) error) *workflow.Workflow[int, int] {
	return workflow.New("taking", func(ctx workflow.Context, in int) (int, error) {
		if err := workflow.Do(ctx, "take", func(context.Context) error { ran.add("take"); return nil }); err != nil {
			return 0, err
		}
		err := workflow.Do(ctx, "work", func(ctx context.Context) error {
			at <- struct{}{}
			return work(ctx)
		}, workflow.Attempts(1))
		if err == nil {
			return in, nil
		}
		return 0, errors.Join(err, workflow.Cleanup(ctx, limit, giveBack))
	})
}

func untilCanceled(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

var cleanupEngineCases = []EngineCase{
	{Name: "cleanup/after-cancel", Promise: "P11", Rule: "A cleanup runs durable steps, waits and branches though its run is canceled; the run ends canceled, with the reason.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 10)
		wf := taking(&ran, at, untilCanceled, e.d(time.Minute), func(ctx workflow.Context) error {
			err := workflow.Do(ctx, "give back", func(ctx context.Context) error {
				if ran.add("give back") == 1 {
					return errFlaky // and is tried again a second later
				}
				return ctx.Err()
			}, workflow.Backoff(e.d(time.Second), 1, e.d(time.Second)))
			if err != nil {
				return err
			}
			if err := workflow.Sleep(ctx, "nap", e.d(3*time.Second)); err != nil {
				return err
			}
			f := workflow.Go(ctx, "side", func(ctx workflow.Context) (int, error) {
				return workflow.Step(ctx, "tell", func(context.Context) (int, error) { return ran.add("tell"), nil })
			})
			_, err = f.Get(ctx)
			return err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the work", at)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		_, err := h.Result(e.ctx)
		e.says("result", err, engine.ErrCanceled, "enough")
		e.eq("executions of take, give back, tell", []int{ran.get("take"), ran.get("give back"), ran.get("tell")}, []int{1, 2, 1})
		steps := e.steps(h.ID())
		for _, key := range []string{"cleanup/give back", "cleanup/nap", "cleanup/side/tell"} {
			e.eq("status of "+key, steps[key].Status, store.StepCompleted)
		}
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("leases: it has not been suspended meanwhile", run.Epoch, int64(1))
	}},
	{Name: "cleanup/crash", Promise: "P6", Rule: "A worker killed in a cleanup is taken over, and the cleanup goes on behind its last recorded step.", Run: func(e *E) {
		var ran tally
		at, second := make(chan struct{}, 10), make(chan struct{}, 10)
		wf := taking(&ran, at, untilCanceled, e.d(5*time.Minute), func(ctx workflow.Context) error {
			for _, name := range []string{"a", "b", "c"} {
				err := workflow.Do(ctx, name, func(ctx context.Context) error {
					if ran.add(name) == 1 && name == "b" {
						second <- struct{}{}
						return untilCanceled(ctx)
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		p := e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the work", at)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		receive(e, "the cleanup's second step", second)
		p.kill()
		e.process(defs(wf))
		_, err := h.Result(e.ctx)
		e.says("result", err, engine.ErrCanceled, "enough")
		e.eq("executions of take, a, b, c", []int{ran.get("take"), ran.get("a"), ran.get("b"), ran.get("c")}, []int{1, 1, 2, 1})
	}},
	{Name: "cleanup/shutdown", Promise: "P11", Rule: "A worker that shuts down in a cleanup gives the run back, and another one carries the cleanup on at once.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 10)
		wf := taking(&ran, at, untilCanceled, e.d(5*time.Minute), func(ctx workflow.Context) error {
			if err := workflow.Do(ctx, "a", func(context.Context) error { ran.add("a"); return nil }); err != nil {
				return err
			}
			if err := workflow.Sleep(ctx, "nap", e.d(10*time.Second)); err != nil {
				return err
			}
			return workflow.Do(ctx, "b", func(context.Context) error { ran.add("b"); return nil })
		})
		p := e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the work", at)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		for ran.get("a") == 0 {
			pause(e)
		}
		p.stop()
		e.process(defs(wf))
		_, err := h.Result(e.ctx)
		e.says("result", err, engine.ErrCanceled, "enough")
		e.eq("executions of take, a, b", []int{ran.get("take"), ran.get("a"), ran.get("b")}, []int{1, 1, 1})
	}},
	{Name: "cleanup/limit", Promise: "P11", Rule: "A cleanup that takes longer than it may is interrupted like any other code.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 10)
		cause := make(chan error, 1)
		var next error
		wf := taking(&ran, at, untilCanceled, e.d(20*time.Second), func(ctx workflow.Context) error {
			err := workflow.Do(ctx, "hangs", func(ctx context.Context) error {
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return ctx.Err()
			})
			next = workflow.Do(ctx, "too late", func(context.Context) error { ran.add("too late"); return nil })
			return err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the work", at)
		from := time.Now()
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		e.check(errors.Is(receive(e, "the end of the step", cause), workflow.ErrCanceled), "the step's context ended for another reason")
		_, err := h.Result(e.ctx)
		e.says("result", err, engine.ErrCanceled, "enough")
		e.check(errors.Is(next, workflow.ErrCanceled), "the next step gave %v", next)
		e.eq("executions of the next step", ran.get("too late"), 0)
		took := time.Since(from)
		e.check(took >= e.d(19*time.Second) && (!e.h.Bubble || took < 40*time.Second), "it took %v", took)
	}},
	{Name: "cleanup/deadline", Promise: "P11", Rule: "A cleanup goes on past the run's deadline, too; the run fails for it.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 10)
		wf := taking(&ran, at, untilCanceled, e.d(time.Minute), func(ctx workflow.Context) error {
			return workflow.Do(ctx, "give back", func(ctx context.Context) error { ran.add("give back"); return ctx.Err() })
		})
		e.process(defs(wf))
		h := start(e, wf, 0, engine.Timeout(e.d(time.Minute)))
		_, err := h.Result(e.ctx)
		e.eq("code", workflow.ErrorCode(err), workflow.CodeDeadline)
		e.eq("executions", ran.get("give back"), 1)
	}},
	{Name: "cleanup/uninterrupted", Promise: "P3", Rule: "In a run that is not interrupted a cleanup is like other code: it sleeps as long as it likes, and is replayed.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 10)
		wf := taking(&ran, at, func(context.Context) error { return errFlaky }, e.d(time.Second), func(ctx workflow.Context) error {
			if err := workflow.Do(ctx, "give back", func(context.Context) error { ran.add("give back"); return nil }); err != nil {
				return err
			}
			return workflow.Sleep(ctx, "nap", e.d(time.Minute))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		_, err := h.Result(e.ctx)
		e.says("result", err, engine.ErrFailed, errFlaky.Error())
		e.eq("executions of take and give back", []int{ran.get("take"), ran.get("give back")}, []int{1, 1})
	}},
	{Name: "cleanup/restart-and-fork", Promise: "P4", Rule: "A canceled run that is restarted or forked forgets its cleanup, which runs again when the new course is interrupted.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 10)
		wf := taking(&ran, at, untilCanceled, e.d(time.Minute), func(ctx workflow.Context) error {
			return workflow.Do(ctx, "give back", func(ctx context.Context) error { ran.add("give back"); return ctx.Err() })
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		cancel := func(id store.ID, times int) {
			receive(e, "the work", at)
			e.ok("cancel", e.eng.Cancel(e.ctx, id, "enough"))
			_, err := wf.Handle(e.eng, id).Result(e.ctx)
			e.says("result", err, engine.ErrCanceled, "enough")
			e.eq("cleanups", ran.get("give back"), times)
			e.eq("executions of the step before", ran.get("take"), 1)
		}
		cancel(h.ID(), 1)
		f, err := e.eng.Fork(e.ctx, h.ID())
		e.ok("fork", err)
		e.eq("kept", fmt.Sprint(f.Kept), "[take]")
		cancel(f.ID, 2)
		e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
		cancel(h.ID(), 3)
	}},
}

var continueEngineCases = []EngineCase{
	{Name: "continue/as-new", Promise: "P4", Rule: "A run that continues as new begins again with the new input: its steps are forgotten, its state and unread signals stay, and who waits for it gets its end.", Run: func(e *E) {
		more := workflow.NewSignal[int]("more")
		var ran tally
		type input struct{ Pass, Sum int }
		wf := workflow.New("wf", func(ctx workflow.Context, in input) (int, error) {
			if err := workflow.Do(ctx, "work", func(context.Context) error { ran.add("work"); return nil }); err != nil {
				return 0, err
			}
			n, err := more.Receive(ctx)
			if err != nil {
				return 0, err
			}
			if in.Pass == 3 {
				return in.Sum + n, nil
			}
			return 0, workflow.ContinueAsNew(ctx, input{in.Pass + 1, in.Sum + n})
		})
		e.process(defs(wf))
		h := start(e, wf, input{Pass: 1}, engine.ID("the-one"))
		_, err := e.eng.SetState(e.ctx, h.ID(), store.StateWrite{Key: "k", Value: []byte("v")})
		e.ok("set state", err)
		for _, n := range []int{1, 10, 100} {
			e.ok("send", more.SendTo(e.ctx, e.eng, "the-one", "", n))
		}
		e.eq("output", result(e, h), 111)
		e.eq("executions of the step", ran.get("work"), 3)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("generation", run.Generation, 2)
		e.eq("steps of the last pass", len(e.steps(h.ID())), 2)
		state, err := e.eng.GetState(e.ctx, h.ID())
		e.ok("state", err)
		e.eq("keys of state", len(state), 1)
	}},
	{Name: "continue/wrong-input", Promise: "P16", Rule: "A continuation with an input of another type fails the run and names both types.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return 0, workflow.ContinueAsNew(ctx, "text")
		}, workflow.RunAttempts(5))
		e.process(defs(wf))
		_, err := start(e, wf, 1).Result(e.ctx)
		e.says("result", err, engine.ErrFailed, `"wf"`, "string", "int")
	}},
}
