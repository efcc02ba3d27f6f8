package enginetier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// taking is a workflow that acquires something, works until it is interrupted or released, and
// gives up what it acquired if the work fails.
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

var cleanupEngineCases = []Case{
	{Name: "cleanup/after-cancel", Promise: "P11", Rule: "A cleanup runs durable steps, waits and branches though its run is canceled; the run ends canceled, with the reason.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 10)
		wf := taking(&ran, at, untilCanceled, e.d(time.Minute), func(ctx workflow.Context) error {
			err := workflow.Do(ctx, "give back", func(ctx context.Context) error {
				if ran.add("give back") == 1 {
					return errFlaky // it is tried again a second later
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
		e.process(defs(wf), worker.Lease(leaseFor))
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
	{Name: "cleanup/crash", Promise: "P6", Rule: "A run whose worker is killed during its cleanup is taken over, and the cleanup resumes after its last recorded step.", Run: func(e *E) {
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
	{Name: "cleanup/shutdown", Promise: "P11", Rule: "A worker that shuts down during a cleanup gives the run back, and another worker continues the cleanup at once.", Run: func(e *E) {
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
		for began := false; !began; {
			h := start(e, wf, 0)
			receive(e, "the work", at)
			from := time.Now()
			e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
			_, err := h.Result(e.ctx)
			e.says("result", err, engine.ErrCanceled, "enough")
			e.check(errors.Is(next, workflow.ErrCanceled), "the next step gave %v", next)
			e.eq("executions of the next step", ran.get("too late"), 0)
			select {
			case why := <-cause:
				began = true
				e.check(errors.Is(why, workflow.ErrCanceled), "the step's context ended because of %v", why)
				took := time.Since(from)
				e.check(took >= e.d(19*time.Second) && (!e.h.Bubble || took < 40*time.Second), "it took %v", took)
			default: // on a slow machine the time is over before the step begins
				e.check(!e.h.Bubble, "the step has not begun")
			}
		}
	}},
	{Name: "cleanup/deadline", Promise: "P11", Rule: "A cleanup continues past the run's deadline; the run fails because of the deadline.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 10)
		wf := taking(&ran, at, untilCanceled, e.d(time.Minute), func(ctx workflow.Context) error {
			return workflow.Do(ctx, "give back", func(ctx context.Context) error { ran.add("give back"); return ctx.Err() })
		})
		e.process(defs(wf))
		h := startInTime(e, wf, 0, e.d(time.Minute), &ran, func(store.Run) bool { return len(at) > 0 })
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

var continueEngineCases = []Case{
	{Name: "continue/as-new", Promise: "P4", Rule: "A run that continues as new begins again with the new input: its steps are forgotten, its state and unread signals stay, and callers that wait for it get its end.", Run: func(e *E) {
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
		h := start(e, wf, input{Pass: 1}, engine.ExternalID("the-one"))
		_, err := e.eng.SetState(e.ctx, h.ID(), store.StateWrite{Key: "k", Value: []byte("v")})
		e.ok("set state", err)
		for _, n := range []int{1, 10, 100} {
			e.ok("send", more.SendTo(e.ctx, e.eng, "the-one", n))
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

var errNotStarted = errors.New("the child was not started")

// ordering is a workflow that charges, waits, and refunds if the wait fails.
func ordering(e *E, name string, ran *tally, wait func(ctx workflow.Context) error) *workflow.Workflow[int, int] {
	return workflow.New(name, func(ctx workflow.Context, in int) (int, error) {
		if err := workflow.Do(ctx, "charge", func(context.Context) error { ran.add("charge"); return nil }); err != nil {
			return 0, err
		}
		err := wait(ctx)
		if err == nil || errors.Is(err, errNotStarted) {
			return in, err
		}
		return 0, errors.Join(err, workflow.Cleanup(ctx, e.d(5*time.Minute), func(ctx workflow.Context) error {
			return workflow.Do(ctx, "refund", func(ctx context.Context) error { ran.add("refund"); return ctx.Err() })
		}))
	})
}

// approval is a wait for a signal that does not come.
func approval(ctx workflow.Context) error {
	_, err := word.Receive(ctx)
	return err
}

// waiting calls f for each way in which a run may wait without being in memory.
func waiting(e *E, f func(how string, wf *workflow.Workflow[int, int], ran *tally)) {
	holds := hold("holds")
	hours := e.d(100 * time.Hour)
	list := []struct {
		how  string
		wait func(ctx workflow.Context) error
	}{
		{"signal", approval},
		{"sleep", func(ctx workflow.Context) error { return workflow.Sleep(ctx, "nap", hours) }},
		{"child", func(ctx workflow.Context) error { _, err := workflow.Child(ctx, "holds", holds, 1); return err }},
		{"child that was started before", func(ctx workflow.Context) error {
			kid, err := workflow.StartChild(ctx, "holds", holds, 1)
			if err != nil { // which is not a reason to give anything up
				return fmt.Errorf("%w: %w", errNotStarted, err)
			}
			_, err = kid.Get(ctx)
			return err
		}},
		{"map", func(ctx workflow.Context) error { _, err := workflow.Map(ctx, "all", upTo(3), holds); return err }},
		{"state", func(ctx workflow.Context) error {
			return workflow.WaitForState(ctx, "ready", func(workflow.FlowStateReader) (bool, error) { return false, nil })
		}},
		{"step to be tried again", func(ctx workflow.Context) error {
			return workflow.Do(ctx, "flaky", func(context.Context) error { return errFlaky }, workflow.Backoff(hours, 1, hours))
		}},
		{"branches", func(ctx workflow.Context) error {
			nap := workflow.Go(ctx, "nap", func(ctx workflow.Context) (int, error) { return 0, workflow.Sleep(ctx, "nap", hours) })
			err := approval(ctx)
			_, of := nap.Get(ctx)
			return errors.Join(err, of)
		}},
	}
	tallies := make([]tally, len(list))
	all := defs(holds)
	var wfs []*workflow.Workflow[int, int]
	for i, w := range list {
		wf := ordering(e, fmt.Sprintf("order-%d", i), &tallies[i], w.wait)
		wfs, all = append(wfs, wf), append(all, wf)
	}
	e.process(all)
	for i, w := range list {
		f(w.how, wfs[i], &tallies[i])
		e.eq("charges and refunds of one that waits for a "+w.how, []int{tallies[i].get("charge"), tallies[i].get("refund")}, []int{1, 1})
	}
}

var waitingCleanupEngineCases = []Case{
	{Name: "cleanup/waiting", Promise: "P11", Rule: "A run that waits outside of memory is claimed once more when it is canceled, and cleans up, whatever it waits for.", Run: func(e *E) {
		waiting(e, func(how string, wf *workflow.Workflow[int, int], ran *tally) {
			h := start(e, wf, 1)
			before := e.until(h.ID(), store.Sleeping)
			e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
			_, err := h.Result(e.ctx)
			e.says("result of one that waits for a "+how, err, engine.ErrCanceled, "enough")
			run, err := e.eng.Get(e.ctx, h.ID())
			e.ok("get", err)
			e.eq("claims since", run.Epoch-before.Epoch, int64(1))
		})
	}},
	{Name: "cleanup/waiting-past-its-deadline", Promise: "P11", Rule: "A run whose deadline passes while it waits outside of memory is claimed once more, cleans up, and fails for its deadline.", Run: func(e *E) {
		waiting(e, func(how string, wf *workflow.Workflow[int, int], ran *tally) {
			h := startInTime(e, wf, 1, e.d(20*time.Second), ran, hasWaited)
			_, err := h.Result(e.ctx)
			e.eq("code of one that waits for a "+how, workflow.ErrorCode(err), workflow.CodeDeadline)
		})
	}},
	{Name: "cleanup/waiting-paused", Promise: "P11", Rule: "A paused run that is canceled cleans up at once; in a paused queue it does so when the queue is resumed.", Run: func(e *E) {
		var ran tally
		wf := ordering(e, "order", &ran, approval)
		e.process(defs(wf))
		h := start(e, wf, 1)
		e.until(h.ID(), store.Sleeping)
		e.ok("pause", e.eng.Pause(e.ctx, h.ID()))
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		_, err := h.Result(e.ctx)
		e.says("result", err, engine.ErrCanceled, "enough")
		e.eq("refunds", ran.get("refund"), 1)
		h = start(e, wf, 1)
		e.until(h.ID(), store.Sleeping)
		e.ok("pause of the queue", e.eng.PauseQueue(e.ctx, "order"))
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		pause(e)
		e.until(h.ID(), store.Canceling)
		e.eq("refunds while the queue is paused", ran.get("refund"), 1)
		e.ok("resume of the queue", e.eng.ResumeQueue(e.ctx, "order"))
		_, err = h.Result(e.ctx)
		e.says("result", err, engine.ErrCanceled, "enough")
		e.eq("refunds", ran.get("refund"), 2)
	}},
	{Name: "cleanup/waiting-crash", Promise: "P6", Rule: "When a worker is killed during the cleanup of a run that waited or was past its deadline, the run is taken over, and the cleanup resumes after its last recorded step.", Run: func(e *E) {
		for _, timeout := range []time.Duration{0, e.d(30 * time.Second)} {
			var ran tally
			second := make(chan struct{}, 10)
			wf := workflow.New("order", func(ctx workflow.Context, in int) (int, error) {
				if err := workflow.Do(ctx, "charge", func(context.Context) error { ran.add("charge"); return nil }); err != nil {
					return 0, err
				}
				err := approval(ctx)
				return 0, errors.Join(err, workflow.Cleanup(ctx, e.d(time.Hour), func(ctx workflow.Context) error {
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
				}))
			})
			p := e.process(defs(wf))
			var h workflow.Handle[int]
			if timeout > 0 {
				h = startInTime(e, wf, 1, timeout, &ran, func(r store.Run) bool { return hasWaited(r) || len(second) > 0 })
			} else {
				h = start(e, wf, 1)
				e.until(h.ID(), store.Sleeping)
				e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
			}
			receive(e, "the cleanup's second step", second)
			p.kill()
			p = e.process(defs(wf))
			_, err := h.Result(e.ctx)
			if timeout == 0 {
				e.says("result", err, engine.ErrCanceled, "enough")
			} else {
				e.eq("code", workflow.ErrorCode(err), workflow.CodeDeadline)
			}
			e.eq("executions of charge, a, b, c", []int{ran.get("charge"), ran.get("a"), ran.get("b"), ran.get("c")}, []int{1, 1, 2, 1})
			p.stop()
		}
	}},
	{Name: "cleanup/limit-outlasts-a-crash", Promise: "P6", Rule: "The limit of a cleanup also counts while no worker has the run: a worker that takes over after the limit ends the run at once.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 10)
		wf := workflow.New("order", func(ctx workflow.Context, in int) (int, error) {
			if err := workflow.Do(ctx, "charge", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			err := approval(ctx)
			return 0, errors.Join(err, workflow.Cleanup(ctx, e.d(time.Minute), func(ctx workflow.Context) error {
				if err := workflow.Do(ctx, "a", func(context.Context) error { ran.add("a"); return nil }); err != nil {
					return err
				}
				return workflow.Do(ctx, "b", func(ctx context.Context) error {
					ran.add("b")
					at <- struct{}{}
					return untilCanceled(ctx)
				})
			}))
		})
		p := e.process(defs(wf))
		h := startInTime(e, wf, 1, e.d(30*time.Second), &ran, func(r store.Run) bool { return hasWaited(r) || len(at) > 0 })
		receive(e, "the cleanup's second step", at)
		for e.steps(h.ID())["cleanup/a"].Status != store.StepCompleted {
			pause(e)
		}
		p.kill()
		for from := time.Now(); time.Since(from) < e.d(90*time.Second); {
			pause(e)
		}
		e.process(defs(wf))
		_, err := h.Result(e.ctx)
		e.eq("code", workflow.ErrorCode(err), workflow.CodeDeadline)
		e.eq("executions of a and b", []int{ran.get("a"), ran.get("b")}, []int{1, 1})
	}},
	{Name: "cleanup/children", Promise: "P11", Rule: "Children that waited clean up, too, when they are canceled with their parent, and items before the step that they belong to ends.", Run: func(e *E) {
		var ran tally
		fate := workflow.NewSignal[string]("fate")
		child := ordering(e, "child", &ran, approval)
		parent := ordering(e, "parent", &ran, func(ctx workflow.Context) error { _, err := workflow.Child(ctx, "child", child, 1); return err })
		refunds := make(chan int, 1)
		item := ordering(e, "item", &ran, func(ctx workflow.Context) error {
			if _, err := fate.Receive(ctx); err != nil {
				return err
			}
			return workflow.Permanent(errFlaky)
		})
		mapped := workflow.New("mapped", func(ctx workflow.Context, n int) (int, error) {
			_, err := workflow.Map(ctx, "all", upTo(n), item)
			refunds <- ran.get("refund")
			return 0, err
		})
		e.process(defs(child, parent, item, mapped))
		h := start(e, parent, 1)
		e.until(h.ID(), store.Sleeping)
		e.until(e.children(h.ID())[0].ID, store.Sleeping)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		_, err := h.Result(e.ctx)
		e.says("result", err, engine.ErrCanceled, "enough")
		_, err = child.Handle(e.eng, e.children(h.ID())[0].ID).Result(e.ctx)
		e.says("result of the child", err, engine.ErrCanceled, store.CanceledWithParent)
		e.eq("charges and refunds", []int{ran.get("charge"), ran.get("refund")}, []int{2, 2})
		m := start(e, mapped, 3)
		e.until(m.ID(), store.Sleeping)
		items := e.children(m.ID())
		for _, r := range items {
			e.until(r.ID, store.Sleeping)
		}
		e.ok("send", fate.Send(e.ctx, e.eng, items[0].ID, "fails"))
		_, err = m.Result(e.ctx)
		e.says("result of the map", err, engine.ErrFailed, "of 3 items, 1 failed and 2 were canceled")
		e.eq("refunds when the map's step had ended", receive(e, "the end of the step", refunds), 5)
	}},
	{Name: "cleanup/never-started", Promise: "P11", Rule: "A run that never started has nothing to clean up: its cancel ends it at once, and past its deadline it fails without its code.", Run: func(e *E) {
		var ran tally
		wf := ordering(e, "order", &ran, approval)
		e.process(defs(wf)).stop() // which has registered it
		h := start(e, wf, 1)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("status at once", run.Status, store.Canceled)
		late := start(e, wf, 1, engine.Timeout(e.d(time.Second)))
		for from := time.Now(); time.Since(from) < e.d(2*time.Second); {
			pause(e)
		}
		e.process(defs(wf))
		_, err = late.Result(e.ctx)
		e.eq("code", workflow.ErrorCode(err), workflow.CodeDeadline)
		e.eq("charges and refunds", []int{ran.get("charge"), ran.get("refund")}, []int{0, 0})
	}},
	{Name: "cleanup/forced", Promise: "P11", Rule: "A forced cancel ends a run that waits at once, without its cleanup.", Run: func(e *E) {
		var ran tally
		wf := ordering(e, "order", &ran, approval)
		e.process(defs(wf))
		h := start(e, wf, 1)
		e.until(h.ID(), store.Sleeping)
		e.ok("forced cancel", e.eng.ForceCancel(e.ctx, h.ID(), "enough"))
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("status at once", run.Status, store.Canceled)
		e.eq("refunds", ran.get("refund"), 0)
	}},
}
