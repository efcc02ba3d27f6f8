package enginetier

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// threeSteps is a workflow whose second step calls block in its first execution.
func threeSteps(ran *tally, block func(ctx context.Context) error) *workflow.Workflow[int, int] {
	return workflow.New("three", func(ctx workflow.Context, in int) (int, error) {
		sum := 0
		for _, name := range []string{"one", "two", "three"} {
			n, err := workflow.Step(ctx, name, func(sctx context.Context) (int, error) {
				if ran.add(name) == 1 && name == "two" {
					if err := block(sctx); err != nil {
						return 0, err
					}
				}
				return in, nil
			}, workflow.Attempts(1))
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
}

var crashEngineCases = []Case{
	{Name: "crash/takeover", Promise: "P6", Rule: "When a worker is killed during a step, another one takes over the run when the lease ends, and resumes after the last recorded step.", Run: func(e *E) {
		var ran tally
		blocked := make(chan struct{}, 1)
		wf := threeSteps(&ran, func(ctx context.Context) error {
			blocked <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		first := e.process(defs(wf))
		h := start(e, wf, 5)
		receive(e, "the second step", blocked)
		first.kill()
		from := time.Now()
		e.process(defs(wf))
		e.eq("output", result(e, h), 15)
		e.eq("executions of one, two, three", []int{ran.get("one"), ran.get("two"), ran.get("three")}, []int{1, 2, 1})
		if e.h.Bubble {
			took := time.Since(from)
			e.check(took <= leaseFor+2*time.Second, "it was taken over after %v, expected at most a lease", took)
		}
	}},
	{Name: "crash/zombie-is-fenced", Promise: "P2", Rule: "A worker that was stopped while another one took over its run can record nothing more for the run.", Run: func(e *E) {
		var ran tally
		blocked, release := make(chan struct{}, 1), make(chan struct{})
		wf := threeSteps(&ran, func(ctx context.Context) error {
			blocked <- struct{}{}
			<-release // ignores its context, as a zombie does
			return nil
		})
		zombie := e.process(defs(wf))
		h := start(e, wf, 5)
		receive(e, "the second step", blocked)
		zombie.wire.set(wireDown) // nothing of it reaches the store, not even renewals
		e.process(defs(wf))
		e.eq("output", result(e, h), 15)
		before := e.steps(h.ID())
		zombie.wire.set(wireUp)
		close(release)
		zombie.stop()
		e.eq("records after the zombie woke", e.steps(h.ID()), before)
		e.eq("executions of three", ran.get("three"), 1)
	}},
	{Name: "crash/long-step-is-none", Promise: "P1", Rule: "A step that works for three leases keeps its run: no other worker takes it over.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("long", func(ctx workflow.Context, in int) (int, error) {
			return workflow.Step(ctx, "work", func(ctx context.Context) (int, error) {
				ran.add("work")
				timer := time.NewTimer(e.ofLease(3 * leaseFor))
				defer timer.Stop()
				select {
				case <-timer.C:
					return in, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
		})
		e.process(defs(wf))
		e.process(defs(wf))
		h := start(e, wf, 5)
		e.eq("output", result(e, h), 5)
		e.eq("executions", ran.get("work"), 1)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("epoch", run.Epoch, int64(1))
	}},
	{Name: "crash/poison", Promise: "P6", Rule: "A run whose leases expire too many times in a row fails with that reason.", Run: func(e *E) {
		taken := make(chan struct{}, 100)
		wf := workflow.New("poison", func(ctx workflow.Context, in int) (int, error) {
			return 0, workflow.Do(ctx, "kills", func(ctx context.Context) error {
				taken <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			})
		})
		healthy := workflow.New("healthy", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		h := startBefore(e, wf, healthy)
		ended := make(chan error, 1)
		go func() {
			_, err := h.Result(e.ctx)
			ended <- err
		}()
		var err error
		kills := 0
		for over := false; !over; {
			p := e.process(defs(wf, healthy), worker.MaxCrashes(2))
			select {
			case <-taken:
				p.kill()
				kills++
			case err = <-ended:
				over = true
			}
		}
		// On a busy machine a lease may expire by itself.
		e.check(kills == 3 || !e.h.Bubble && kills < 3, "it took %d kills", kills)
		e.eq("code", workflow.ErrorCode(err), workflow.CodeCrashed)
		e.check(errors.Is(err, engine.ErrFailed), "saw %v", err)
		e.eq("another run", result(e, start(e, healthy, 2)), 2)
	}},
	{Name: "crash/progress-is-no-poison", Promise: "P6", Rule: "Crashes count in a row: a run that makes progress in between does not fail.", Run: func(e *E) {
		var ran tally
		at := make(chan struct{}, 100)
		wf := workflow.New("slow", func(ctx workflow.Context, in int) (int, error) {
			for i := range 4 {
				if err := workflow.Do(ctx, fmt.Sprint("s", i), func(ctx context.Context) error {
					if ran.add(fmt.Sprint(i)) == 1 && i > 0 {
						at <- struct{}{}
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}); err != nil {
					return 0, err
				}
			}
			return in, nil
		})
		var h workflow.Handle[int]
		for i := range 3 {
			p := e.process(defs(wf), worker.MaxCrashes(1))
			if i == 0 {
				h = start(e, wf, 1)
			}
			receive(e, "a step", at)
			p.kill()
		}
		e.process(defs(wf), worker.MaxCrashes(1))
		e.eq("output", result(e, h), 1)
	}},
	{Name: "store/minute-of-silence", Promise: "P2", Rule: "A store that does not answer for a minute after a step succeeded costs no step and fails no run.", Run: func(e *E) {
		for _, state := range []wireState{wireDown, wireHangs} {
			var ran tally
			var p *proc
			blocked, release := make(chan struct{}, 1), make(chan struct{})
			wf := threeSteps(&ran, func(context.Context) error {
				blocked <- struct{}{}
				<-release
				p.wire.set(state)
				return nil
			})
			p = e.process(defs(wf))
			h := start(e, wf, 5)
			receive(e, "the second step", blocked)
			close(release)
			timer := time.NewTimer(e.d(time.Minute))
			<-timer.C
			p.wire.set(wireUp)
			e.eq("output", result(e, h), 15)
			e.eq("executions of one, two, three", []int{ran.get("one"), ran.get("two"), ran.get("three")}, []int{1, 1, 1})
			p.stop()
		}
	}},
	{Name: "store/lost-answers", Promise: "P4", Rule: "When every third answer to a write is lost, each step is still recorded once and none is reported failed.", Run: func(e *E) {
		var ran tally
		wf := threeSteps(&ran, func(context.Context) error { return nil })
		p := e.process(defs(wf))
		p.wire.loseEvery(3)
		var hs []workflow.Handle[int]
		for i := range 50 {
			h, err := wf.Start(e.ctx, p.eng, i)
			e.ok("start", err)
			hs = append(hs, h)
		}
		for i, sum := range results(e, hs) {
			e.eq("output", sum, 3*i)
			e.eq("recorded steps", len(e.steps(hs[i].ID())), 3)
		}
		e.eq("executions", ran.get("one")+ran.get("two")+ran.get("three"), 150)
		runs, err := e.eng.Count(e.ctx, store.RunFilter{})
		e.ok("count", err)
		e.eq("runs", runs, []store.RunCount{{Queue: "three", Workflow: "three", Status: store.Completed, Count: 50}})
	}},
	{Name: "store/lost-claim", Promise: "P4", Rule: "If the answer to a claim is lost, its runs are executed at once and do not wait for the lease to end.", Run: func(e *E) {
		var ran tally
		wf := threeSteps(&ran, func(context.Context) error { return nil })
		var hs []workflow.Handle[int]
		p := e.build(defs(wf))
		for i := range 5 {
			hs = append(hs, start(e, wf, i))
		}
		p.wire.loseNext("claim", 3)
		p.run()
		for i, sum := range results(e, hs) {
			e.eq("output", sum, 3*i)
			run, err := e.eng.Get(e.ctx, hs[i].ID())
			e.ok("get", err)
			e.eq("leases of the run", run.Epoch, int64(1))
		}
		e.check(p.wire.leftToLose("claim") < 3, "no answer was lost")
	}},
	{Name: "store/lost-eager-start", Promise: "P4", Rule: "A run that its start leased for its own process executes there at once, although the answer to the start was lost.", Run: func(e *E) {
		var ran tally
		wf := threeSteps(&ran, func(context.Context) error { return nil })
		p := e.process(defs(wf))
		p.wire.loseNext("create", 2)
		h, err := wf.Start(e.ctx, p.eng, 4)
		e.ok("start", err)
		e.eq("output", result(e, h), 12)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("leases of the run", run.Epoch, int64(1))
	}},
	{Name: "store/start-unknown-then-away", Promise: "P16", Rule: "A start whose answer was lost reports that at last, also if the store was unavailable at each repetition.", Run: func(e *E) {
		w := newWire(e.s)
		w.loseEvery(1)
		var creates int
		w.before = func(verb string) {
			if verb == "create" {
				if creates++; creates == 2 {
					w.set(wireDown)
				}
			}
		}
		eng := engine.New(w, engine.Namespace("engine"), engine.Logger(quiet), engine.RetryFor(e.d(time.Minute)))
		defer eng.Close()
		bridge.Of(eng).Know("wf", "wf")
		id := store.NewID()
		_, err := eng.Start(e.ctx, "wf", nil, engine.RunID(id))
		e.check(errors.Is(err, store.ErrOutcomeUnknown) && !errors.Is(err, store.ErrUnavailable), "saw %v, expected ErrOutcomeUnknown alone", err)
		e.check(creates > 1, "it was sent %d times", creates)
		_, err = e.eng.Get(e.ctx, id)
		e.ok("get of the run that was made", err)
	}},
	{Name: "store/silence", Promise: "P16", Rule: "The error of a call that the engine gives up says how long it has waited, and does not match the error of the caller's context.", Run: func(e *E) {
		w := newWire(e.s)
		eng := engine.New(w, engine.Namespace("engine"), engine.Logger(quiet), engine.RetryFor(e.d(time.Second)))
		defer eng.Close()
		bridge.Of(eng).Know("wf", "wf")
		w.set(wireHangs)
		_, err := eng.Start(e.ctx, "wf", nil)
		e.check(errors.Is(err, store.ErrOutcomeUnknown) && !errors.Is(err, context.DeadlineExceeded), "saw %v, expected ErrOutcomeUnknown alone", err)
		e.check(err != nil && strings.Contains(err.Error(), "within "), "saw %v, which does not say how long it waited", err)
	}},
	{Name: "store/down-at-the-start", Promise: "P16", Rule: "A worker started while the store is out of reach waits for it.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		p := &proc{e: e, wire: newWire(e.s), done: make(chan struct{})}
		p.wire.set(wireDown)
		p.eng = engine.New(p.wire, engine.Namespace("engine"), engine.Logger(quiet))
		p.worker = worker.New(p.eng)
		e.ok("register", p.worker.Register(wf))
		ctx, cancel := context.WithCancel(context.Background())
		p.cancel = cancel
		e.procs = append(e.procs, p)
		go func() {
			defer close(p.done)
			_ = p.worker.Run(ctx)
			p.eng.Close()
		}()
		timer := time.NewTimer(e.d(10 * time.Second))
		<-timer.C
		p.wire.set(wireUp)
		h, err := wf.Start(e.ctx, p.eng, 3)
		e.ok("start", err)
		e.eq("output", result(e, h), 3)
	}},
	{Name: "shutdown/finishes-its-steps", Promise: "P11", Rule: "A worker that shuts down lets a running step finish, records it, and releases the run; the next worker continues at once.", Run: func(e *E) {
		var ran tally
		blocked, release := make(chan struct{}, 1), make(chan struct{})
		wf := threeSteps(&ran, func(context.Context) error {
			blocked <- struct{}{}
			<-release
			return nil
		})
		first := e.process(defs(wf))
		h := start(e, wf, 5)
		receive(e, "the second step", blocked)
		first.cancel()
		close(release)
		first.stop()
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.check(run.Status == store.Pending || run.Status == store.Completed, "the run is %v after a graceful shutdown", run.Status)
		from := time.Now()
		e.process(defs(wf))
		e.eq("output", result(e, h), 15)
		e.eq("executions of one, two, three", []int{ran.get("one"), ran.get("two"), ran.get("three")}, []int{1, 1, 1})
		if e.h.Bubble {
			e.check(time.Since(from) < 2*time.Second, "the next worker waited %v", time.Since(from))
		}
	}},
	{Name: "shutdown/releases-after-grace", Promise: "P11", Rule: "A step that outlasts the grace time is given up: its run is released at once, not canceled, and counts no crash.", Run: func(e *E) {
		var ran tally
		cause := make(chan error, 1)
		blocked := make(chan struct{}, 1)
		wf := threeSteps(&ran, func(ctx context.Context) error {
			blocked <- struct{}{}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		})
		first := e.process(defs(wf))
		h := start(e, wf, 5)
		receive(e, "the second step", blocked)
		first.stop()
		e.check(errors.Is(receive(e, "the step's end", cause), workflow.ErrShutdown), "the step's context ended for another reason than the shutdown")
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("status", run.Status, store.Pending)
		e.eq("crashes", run.Crashes, 0)
		e.process(defs(wf))
		e.eq("output", result(e, h), 15)
		e.eq("executions of one, two, three", []int{ran.get("one"), ran.get("two"), ran.get("three")}, []int{1, 2, 1})
	}},
	{Name: "shutdown/sleepers-stay-asleep", Promise: "P11", Rule: "A shutdown does not disturb a run that sleeps.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Sleep(ctx, "nap", e.d(time.Hour))
		})
		first := e.process(defs(wf))
		h := start(e, wf, 5)
		before := e.until(h.ID(), store.Sleeping)
		first.stop()
		after, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("run", after, before)
	}},
	{Name: "nondeterminism/reported", Promise: "P16", Rule: "A history that does not match the code is reported with the name of the step, and no record is misread. With the right code the run continues.", Run: func(e *E) {
		var ran tally
		flow := func(second string) *workflow.Workflow[int, int] {
			return workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
				if err := workflow.Do(ctx, "charge", func(context.Context) error { ran.add("charge"); return nil }); err != nil {
					return 0, err
				}
				if err := workflow.Do(ctx, second, func(context.Context) error { ran.add(second); return nil }); err != nil {
					return 0, err
				}
				return ran.get("charge"), workflow.Sleep(ctx, "nap", e.d(time.Minute))
			})
		}
		first := e.process(defs(flow("ship")))
		h := start(e, flow("ship"), 0)
		e.until(h.ID(), store.Sleeping)
		first.stop()
		second := e.process(defs(flow("refund")))
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrNondeterministic), "saw %v, expected ErrNondeterministic", err)
		e.check(err != nil && strings.Contains(err.Error(), `"ship"`) && strings.Contains(err.Error(), `"refund"`), "the error does not name the steps: %v", err)
		e.eq("executions of refund", ran.get("refund"), 0)
		second.stop()
		e.process(defs(flow("ship")))
		e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
		e.eq("output after the restart", result(e, h), 1)
	}},
	{Name: "nondeterminism/step-gone", Promise: "P16", Rule: "Code that returns before its history ends is reported.", Run: func(e *E) {
		flow := func(steps int) *workflow.Workflow[int, int] {
			return workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
				for i := range steps {
					if err := workflow.Sleep(ctx, fmt.Sprint("nap-", i), e.d(20*time.Second)); err != nil {
						return 0, err
					}
				}
				return steps, nil
			})
		}
		first := e.process(defs(flow(3)))
		h := start(e, flow(3), 0)
		for len(e.steps(h.ID())) < 2 {
			pause(e)
		}
		first.stop()
		e.process(defs(flow(1)))
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrNondeterministic) && strings.Contains(err.Error(), "nap-1"), "saw %v, expected an error that names the step that is gone", err)
	}},
	{Name: "suspend/cannot-be-swallowed", Promise: "P5", Rule: "A suspension cannot be recovered from, and deferred functions do no durable work in it.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (out int, err error) {
			defer func() {
				if v := recover(); v != nil {
					ran.add("recovered")
				}
				_ = workflow.Do(ctx, "cleanup", func(context.Context) error { ran.add("cleanup"); return nil })
				ran.add("behind the cleanup")
			}()
			return in, workflow.Sleep(ctx, "nap", e.d(time.Minute))
		})
		e.process(defs(wf))
		h := start(e, wf, 4)
		e.until(h.ID(), store.Sleeping)
		e.eq("cleanups while suspended", ran.get("cleanup"), 0)
		e.eq("output", result(e, h), 4)
		e.eq("recovered, cleanups, ends of the deferred function", []int{ran.get("recovered"), ran.get("cleanup"), ran.get("behind the cleanup")}, []int{0, 1, 1})
	}},
	{Name: "panic/workflow", Promise: "P6", Rule: "A panic or an exit of a workflow's function fails its run with a record; the worker lives on.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			switch in {
			case 0:
				panic("boom")
			case 1:
				runtime.Goexit()
			case 2:
				g := workflow.NewGroup(ctx)
				g.Go("bad", func(workflow.Context) error { panic("boom in a branch") })
				return 0, g.Wait()
			case 3:
				return 0, workflow.Do(ctx, "quits", func(context.Context) error {
					runtime.Goexit()
					return nil
				})
			}
			return in, nil
		})
		e.process(defs(wf))
		for i, code := range []string{workflow.CodePanic, "exited", workflow.CodePanic, "exited"} {
			_, err := start(e, wf, i).Result(e.ctx)
			e.eq(fmt.Sprintf("code of run %d", i), workflow.ErrorCode(err), code)
			e.eq(fmt.Sprintf("run %d blames the step", i), strings.Contains(err.Error(), "step quits"), i == 3)
		}
		e.eq("another run", result(e, start(e, wf, 4)), 4)
	}},
}

// startBefore registers the workflows and starts a run of the first before any worker runs.
func startBefore[In, Out any](e *E, w *workflow.Workflow[In, Out], others ...workflow.Definition) workflow.Handle[Out] {
	for _, d := range append(others, w) {
		bridge.Of(e.eng).Know(d.Name(), d.Queue())
	}
	var in In
	return start(e, w, in)
}
