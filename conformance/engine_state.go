package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var (
	count  = workflow.NewState[int]("count")
	target = workflow.NewState[int]("target")
	note   = workflow.NewState[string]("note")
)

// atLeast is the predicate that a count has come so far.
func atLeast(s workflow.State[int], n int) func(workflow.FlowStateReader) (bool, error) {
	return func(r workflow.FlowStateReader) (bool, error) {
		v, _, err := s.Read(r)
		return v >= n, err
	}
}

// outside is a run's state as a program without a worker sees it.
func outside(e *E, run store.ID) workflow.LiveScope { return workflow.OfRun(e.ctx, e.eng, run) }

// becomes waits until a state has a value.
func becomes[T comparable](e *E, s workflow.State[T], run store.ID, want T) {
	e.Helper()
	e.ok("wait for "+s.Key(), workflow.WaitForState(outside(e, run), "becomes", func(r workflow.FlowStateReader) (bool, error) {
		v, ok, err := s.Read(r)
		return ok && v == want, err
	}))
}

// get reads a state from outside.
func get[T any](e *E, s workflow.State[T], run store.ID) T {
	e.Helper()
	v, _, err := s.Get(outside(e, run))
	e.ok("get "+s.Key(), err)
	return v
}

func set[T any](e *E, s workflow.State[T], run store.ID, v T) {
	e.Helper()
	e.ok("set "+s.Key(), s.Set(outside(e, run), v))
}

// version is that of a key, 0 if there is none.
func (e *E) version(run store.ID, key string) int64 {
	e.Helper()
	entries, err := e.s.GetState(e.ctx, store.GetStateParams{Namespace: "engine", Run: run, Keys: []string{key}})
	e.ok("GetState", err)
	if len(entries) == 0 {
		return 0
	}
	return entries[0].Version
}

// untilStep waits until a run has a step with that key and status.
func (e *E) untilStep(run store.ID, key string, status store.StepStatus) {
	e.Helper()
	for e.steps(run)[key].Status != status {
		pause(e)
	}
}

// waiter is a workflow that waits until its count is what its input says.
func waiter(opts ...workflow.WaitOption) *workflow.Workflow[int, int] {
	return workflow.New("waiter", func(ctx workflow.Context, n int) (int, error) {
		if err := workflow.WaitForState(ctx, "counted", atLeast(count, n), opts...); err != nil {
			return 0, err
		}
		v, _, err := count.Get(ctx)
		return v, err
	})
}

var stateEngineCases = []EngineCase{
	{Name: "state/upsert-and-read", Promise: "P3", Rule: "The run's function, its steps and programs outside write, read and delete the same state.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			var seen []string
			see := func(in workflow.StateScope) error {
				v, ok, err := note.Get(in)
				seen = append(seen, fmt.Sprintf("%s %v", v, ok))
				return err
			}
			err := errors.Join(see(ctx), note.Set(ctx, "a"), see(ctx))
			if err == nil {
				err = workflow.Do(ctx, "step", func(ctx context.Context) error {
					in := workflow.InStep(ctx)
					v, ok, err := note.Get(in)
					if v != "a" || !ok || err != nil {
						return fmt.Errorf("the step read %q %v %w", v, ok, err)
					}
					return note.Set(in, "b")
				}, workflow.Attempts(1))
			}
			err = errors.Join(err, see(ctx), note.Delete(ctx), see(ctx), note.Set(ctx, ""), see(ctx))
			if err == nil {
				err = workflow.WaitForState(ctx, "c", func(r workflow.FlowStateReader) (bool, error) {
					v, ok, err := note.Read(r)
					return ok && v == "c" && r.Has("note") && r.Len() == 1, err
				})
			}
			return seen, err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		becomes(e, note, h.ID(), "")
		set(e, note, h.ID(), "c")
		e.eq("what was read", result(e, h), []string{" false", "a true", "b true", " false", " true"})
		e.eq("state of the finished run", get(e, note, h.ID()), "c")
		steps := e.steps(h.ID())
		for _, key := range []string{"get note", "get note#5", "set note", "set note#2", "delete note", "c"} {
			e.eq("kind of "+key, steps[key].Kind, store.KindState)
			e.eq("status of "+key, steps[key].Status, store.StepCompleted)
		}
	}},
	{Name: "state/write-is-recorded", Promise: "P3", Rule: "A write of the run's function happens once, with its record: a replay does not write again, and reads what was read first.", Run: func(e *E) {
		var passes tally
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			passes.add("pass")
			if err := count.Set(ctx, 1); err != nil {
				return 0, err
			}
			first, _, err := count.Get(ctx)
			if err != nil {
				return 0, err
			}
			for range 2 {
				if _, err := word.Receive(ctx); err != nil {
					return 0, err
				}
			}
			last, _, err := count.Get(ctx)
			return 100*first + last, err
		})
		p := e.process(defs(wf))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		set(e, count, h.ID(), 7)
		version := e.version(h.ID(), "count")
		send(e, word, h.ID(), "one")
		e.untilStep(h.ID(), "word", store.StepCompleted)
		e.until(h.ID(), store.Sleeping)
		p.stop()
		e.process(defs(wf))
		send(e, word, h.ID(), "two")
		e.eq("output", result(e, h), 107)
		e.check(passes.get("pass") >= 3, "the function ran %d times, expected replays", passes.get("pass"))
		e.eq("version of the key", e.version(h.ID(), "count"), version)
	}},
	{Name: "state/wakes", Promise: "P5", Rule: "A change from outside wakes the run that sleeps for it; one that does not make the predicate true lets it sleep on.", Run: func(e *E) {
		wf := waiter()
		e.process(defs(wf))
		h := start(e, wf, 3)
		for i := range 3 {
			e.until(h.ID(), store.Sleeping)
			set(e, count, h.ID(), i+1)
		}
		e.eq("output", result(e, h), 3)
	}},
	{Name: "state/wakes-parked", Promise: "P5", Rule: "A run that waits in memory hears of a change without being suspended.", Run: func(e *E) {
		wf := waiter(workflow.PollInterval(e.d(time.Hour)))
		e.process(defs(wf), worker.Park(e.d(10*time.Minute)))
		h := start(e, wf, 20)
		for i := range 20 {
			set(e, count, h.ID(), i+1)
		}
		e.eq("output", result(e, h), 20)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("epoch", run.Epoch, int64(1))
	}},
	{Name: "state/as-the-run-suspends", Promise: "P5", Rule: "A change in the moment between the evaluation of a predicate and the sleep of the run is not lost.", Run: func(e *E) {
		park := e.d(time.Second)
		wf := waiter()
		e.process(defs(wf), worker.Park(park), worker.Concurrency(100))
		hs := make([]workflow.Handle[int], 60)
		for i := range hs {
			hs[i] = start(e, wf, 3)
		}
		for i := range 3 {
			timer := time.NewTimer(park)
			<-timer.C
			for _, h := range hs {
				go func() { _ = count.Set(outside(e, h.ID()), i+1) }()
			}
		}
		for _, n := range results(e, hs) {
			e.eq("output", n, 3)
		}
	}},
	{Name: "state/between-evaluation-and-sleep", Promise: "P5", Rule: "A change that comes while the predicate is being evaluated is not lost.", Run: func(e *E) {
		var ran tally
		evaluating, goOn := make(chan struct{}, 1), make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			return 1, workflow.WaitForState(ctx, "counted", func(r workflow.FlowStateReader) (bool, error) {
				ok, err := atLeast(count, 1)(r)
				if ran.add("eval") == 1 {
					evaluating <- struct{}{}
					<-goOn
				}
				return ok, err
			}, workflow.PollInterval(e.d(time.Hour)))
		})
		e.process(defs(wf), worker.Park(0))
		h := start(e, wf, 0)
		receive(e, "the first evaluation", evaluating)
		set(e, count, h.ID(), 1)
		close(goOn)
		e.eq("output", result(e, h), 1)
	}},
	{Name: "state/branches-wake-each-other", Promise: "P5", Rule: "What one branch or its step writes wakes another branch that waits, in memory and at once.", Run: func(e *E) {
		const rounds = 20
		turn := func(mine, others workflow.State[int], inStep bool) func(ctx workflow.Context) error {
			return func(ctx workflow.Context) error {
				for i := range rounds {
					if err := workflow.WaitForState(ctx, "turn", atLeast(others, i), workflow.PollInterval(e.d(time.Hour))); err != nil {
						return err
					}
					if !inStep {
						if err := mine.Set(ctx, i+1); err != nil {
							return err
						}
					} else if err := workflow.Do(ctx, "step", func(ctx context.Context) error { return mine.Set(workflow.InStep(ctx), i+1) }); err != nil {
						return err
					}
				}
				return nil
			}
		}
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			g := workflow.NewGroup(ctx)
			g.Go("ping", turn(count, target, false))
			g.Go("pong", turn(target, count, true))
			return rounds, g.Wait()
		})
		e.process(defs(wf), worker.Park(e.d(10*time.Minute)))
		h := start(e, wf, 0)
		from := time.Now()
		e.eq("output", result(e, h), rounds)
		if e.h.Bubble {
			e.check(time.Since(from) < time.Minute, "it took %v", time.Since(from))
		}
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("epoch", run.Epoch, int64(1))
	}},
	{Name: "state/step-waits", Promise: "P5", Rule: "A wait in a step ends at once with a change: by another step of the run, or from outside.", Run: func(e *E) {
		poll := workflow.PollInterval(e.d(time.Hour))
		if !e.s.Features().Hints {
			poll = workflow.PollInterval(e.d(10 * time.Second)) // what other processes write is polled for
		}
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			g := workflow.NewGroup(ctx)
			g.Go("waits", func(ctx workflow.Context) error {
				return workflow.Do(ctx, "wait", func(ctx context.Context) error {
					in := workflow.InStep(ctx)
					if err := workflow.WaitForState(in, "one", atLeast(count, 1), poll); err != nil {
						return err
					}
					if err := target.Set(in, 1); err != nil {
						return err
					}
					return workflow.WaitForState(in, "two", atLeast(count, 2), poll)
				}, workflow.Attempts(1))
			})
			g.Go("sets", func(ctx workflow.Context) error {
				return workflow.Do(ctx, "set", func(ctx context.Context) error { return count.Set(workflow.InStep(ctx), 1) })
			})
			return 1, g.Wait()
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		becomes(e, target, h.ID(), 1)
		set(e, count, h.ID(), 2)
		e.eq("output", result(e, h), 1)
	}},
	{Name: "state/timeout", Promise: "P13", Rule: "A wait with a timeout ends then, not before, wherever it waits; in the run's function its end is recorded, and with 0 it looks once.", Run: func(e *E) {
		var evaluated tally
		never := func(workflow.FlowStateReader) (bool, error) { evaluated.add("eval"); return false, nil }
		d := e.d(time.Minute)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			var outs []string
			for _, d := range []time.Duration{0, d, e.d(time.Millisecond)} {
				from, err := workflow.Now(ctx, "from")
				if err != nil {
					return "", err
				}
				err = workflow.WaitForState(ctx, "never", never, workflow.WaitTimeout(d))
				to, err2 := workflow.Now(ctx, "to")
				if err2 != nil {
					return "", err2
				}
				outs = append(outs, fmt.Sprint(errors.Is(err, workflow.ErrTimeout), to.Sub(from) >= d))
			}
			err := workflow.Do(ctx, "step", func(ctx context.Context) error {
				for _, d := range []time.Duration{0, e.d(10 * time.Second)} {
					from := time.Now()
					err := workflow.WaitForState(workflow.InStep(ctx), "never", never, workflow.WaitTimeout(d))
					if !errors.Is(err, workflow.ErrTimeout) || time.Since(from) < d {
						return fmt.Errorf("a wait of %v in a step ended after %v with %v", d, time.Since(from), err)
					}
				}
				return nil
			}, workflow.Attempts(1))
			if err == nil {
				_, err = word.Receive(ctx)
			}
			return strings.Join(outs, " "), err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		for _, d := range []time.Duration{0, e.d(10 * time.Second)} {
			from := time.Now()
			err := workflow.WaitForState(outside(e, h.ID()), "never", never, workflow.WaitTimeout(d))
			e.check(errors.Is(err, workflow.ErrTimeout) && time.Since(from) >= d, "a wait of %v from outside ended after %v with %v", d, time.Since(from), err)
		}
		e.untilStep(h.ID(), "step", store.StepCompleted)
		e.until(h.ID(), store.Sleeping)
		before := evaluated.get("eval")
		send(e, word, h.ID(), "go on") // a replay
		e.eq("outcomes", result(e, h), "true true true true true true")
		e.eq("evaluations in the replay", evaluated.get("eval")-before, 0)
	}},
	{Name: "state/cancel", Promise: "P11", Rule: "A wait ends at once when the run is canceled, in its function, in a step and outside.", Run: func(e *E) {
		poll := workflow.PollInterval(e.d(10 * time.Second))
		errs := make(chan error, 10)
		wf := workflow.New("wf", func(ctx workflow.Context, how string) (int, error) {
			var err error
			if how != "function" {
				err = workflow.Do(ctx, "wait", func(ctx context.Context) error {
					err := workflow.WaitForState(workflow.InStep(ctx), "counted", atLeast(count, 1), poll)
					errs <- err
					return err
				})
			}
			if how != "step" {
				err = workflow.WaitForState(ctx, "counted", atLeast(count, 1), poll)
			}
			return 0, err
		})
		e.process(defs(wf), worker.Park(e.d(time.Minute)))
		for _, how := range []string{"function", "step"} {
			h := start(e, wf, how)
			outer := make(chan error, 1)
			go func() {
				outer <- workflow.WaitForState(outside(e, h.ID()), "counted", atLeast(count, 1), poll)
			}()
			e.until(h.ID(), store.Running)
			e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
			_, err := h.Result(e.ctx)
			e.check(errors.Is(err, engine.ErrCanceled), "%s: saw %v", how, err)
			err = receive(e, "the end of the wait outside", outer)
			e.check(errors.Is(err, engine.ErrCanceled), "outside: saw %v", err)
			if how == "step" {
				err = receive(e, "the end of the wait in the step", errs)
				e.check(errors.Is(err, workflow.ErrCanceled), "in the step: saw %v", err)
			}
		}
		h := start(e, wf, "function")
		e.until(h.ID(), store.Sleeping)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrCanceled), "saw %v", err)
	}},
}
