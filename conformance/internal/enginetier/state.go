package enginetier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var (
	counted = workflow.NewState[int]("count")
	target  = workflow.NewState[int]("target")
	note    = workflow.NewState[string]("note")
)

// atLeast is the predicate that a count has reached n.
func atLeast(s workflow.State[int], n int) func(workflow.FlowStateReader) (bool, error) {
	return func(r workflow.FlowStateReader) (bool, error) {
		v, _, err := s.Read(r)
		return v >= n, err
	}
}

// outside returns a run's state as a program without a worker sees it.
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

// version returns the version of a key, 0 if there is none.
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
		if err := workflow.WaitForState(ctx, "counted", atLeast(counted, n), opts...); err != nil {
			return 0, err
		}
		v, _, err := counted.Get(ctx)
		return v, err
	})
}

var stateEngineCases = []Case{
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
			if err := counted.Set(ctx, 1); err != nil {
				return 0, err
			}
			first, _, err := counted.Get(ctx)
			if err != nil {
				return 0, err
			}
			for range 2 {
				if _, err := word.Receive(ctx); err != nil {
					return 0, err
				}
			}
			last, _, err := counted.Get(ctx)
			return 100*first + last, err
		})
		p := e.process(defs(wf))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		set(e, counted, h.ID(), 7)
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
			set(e, counted, h.ID(), i+1)
		}
		e.eq("output", result(e, h), 3)
	}},
	{Name: "state/wakes-parked", Promise: "P5", Rule: "A run that waits in memory sees a change without being suspended.", Run: func(e *E) {
		wf := waiter(workflow.PollInterval(e.d(time.Hour)))
		e.process(defs(wf), worker.Park(e.d(10*time.Minute)), worker.Lease(leaseFor))
		h := start(e, wf, 20)
		for i := range 20 {
			set(e, counted, h.ID(), i+1)
		}
		e.eq("output", result(e, h), 20)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("epoch", run.Epoch, int64(1))
	}},
	{Name: "state/as-the-run-suspends", Promise: "P5", Rule: "A change in the moment between the evaluation of a predicate and the sleep of the run is not lost.", Run: func(e *E) {
		park := e.d(time.Second)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			for i := range 3 {
				if err := workflow.WaitForState(ctx, "keys", func(r workflow.FlowStateReader) (bool, error) { return r.Len() > i, nil }); err != nil {
					return i, err
				}
			}
			return 3, nil
		})
		e.process(defs(wf), worker.Park(park), worker.Concurrency(100))
		hs := startN(e, wf, 60)
		set := make(chan error, 3*len(hs))
		for i := range 3 {
			timer := time.NewTimer(park)
			<-timer.C
			for _, h := range hs {
				go func() { set <- workflow.NewState[int](fmt.Sprint("key", i)).Set(outside(e, h.ID()), i) }()
			}
		}
		for range 3 * len(hs) {
			e.ok("set", receive(e, "the end of a set", set))
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
				ok, err := atLeast(counted, 1)(r)
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
		set(e, counted, h.ID(), 1)
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
			g.Go("ping", turn(counted, target, false))
			g.Go("pong", turn(target, counted, true))
			return rounds, g.Wait()
		})
		e.process(defs(wf), worker.Park(e.d(10*time.Minute)), worker.Lease(leaseFor))
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
	{Name: "state/set-as-the-worker-leaves", Promise: "P5", Rule: "What one branch writes as its last act wakes another branch that waits for it, also when the worker is shutting down, or the run is about to pause.", Run: func(e *E) {
		const runs = 30
		reached, goOn := make(chan struct{}, runs), make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			g := workflow.NewGroup(ctx)
			g.Go("waits", func(ctx workflow.Context) error {
				return workflow.WaitForState(ctx, "turn", atLeast(counted, 1), workflow.PollInterval(e.d(time.Hour)))
			})
			g.Go("sets", func(ctx workflow.Context) error {
				err := workflow.Do(ctx, "step", func(context.Context) error {
					reached <- struct{}{}
					<-goOn
					return nil
				})
				if err != nil {
					return err
				}
				return counted.Set(ctx, 1)
			})
			return in, g.Wait()
		})
		p := e.process(defs(wf), worker.Concurrency(runs))
		var hs []workflow.Handle[int]
		var want []int
		for i := range runs {
			hs, want = append(hs, start(e, wf, i)), append(want, i)
		}
		for range runs {
			receive(e, "the step", reached)
		}
		p.cancel()
		for !errors.Is(p.worker.Healthy(), worker.ErrDraining) {
			pause(e)
		}
		close(goOn)
		p.stop()
		e.process(defs(wf))
		e.eq("outputs", results(e, hs), want)
	}},
	{Name: "state/step-waits", Promise: "P5", Rule: "A wait in a step ends at once with a change: by another step of the run, or from outside.", Run: func(e *E) {
		poll := workflow.PollInterval(e.d(time.Hour))
		if !e.s.Features().Hints {
			poll = workflow.PollInterval(e.d(10 * time.Second)) // writes of other processes are polled for
		}
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			g := workflow.NewGroup(ctx)
			g.Go("waits", func(ctx workflow.Context) error {
				return workflow.Do(ctx, "wait", func(ctx context.Context) error {
					in := workflow.InStep(ctx)
					if err := workflow.WaitForState(in, "one", atLeast(counted, 1), poll); err != nil {
						return err
					}
					if err := target.Set(in, 1); err != nil {
						return err
					}
					return workflow.WaitForState(in, "two", atLeast(counted, 2), poll)
				}, workflow.Attempts(1))
			})
			g.Go("sets", func(ctx workflow.Context) error {
				return workflow.Do(ctx, "set", func(ctx context.Context) error { return counted.Set(workflow.InStep(ctx), 1) })
			})
			return 1, g.Wait()
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		becomes(e, target, h.ID(), 1)
		set(e, counted, h.ID(), 2)
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
		errs, begun := make(chan error, 10), make(chan struct{}, 10)
		wf := workflow.New("wf", func(ctx workflow.Context, how string) (int, error) {
			var err error
			if how != "function" {
				err = workflow.Do(ctx, "wait", func(ctx context.Context) error {
					begun <- struct{}{}
					err := workflow.WaitForState(workflow.InStep(ctx), "counted", atLeast(counted, 1), poll)
					errs <- err
					return err
				})
			}
			if how != "step" {
				err = workflow.WaitForState(ctx, "counted", atLeast(counted, 1), poll)
			}
			return 0, err
		})
		e.process(defs(wf), worker.Park(e.d(time.Minute)))
		for _, how := range []string{"function", "step"} {
			h := start(e, wf, how)
			outer := make(chan error, 1)
			go func() {
				outer <- workflow.WaitForState(outside(e, h.ID()), "counted", atLeast(counted, 1), poll)
			}()
			e.until(h.ID(), store.Running)
			if how == "step" {
				receive(e, "the step", begun)
			}
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
	{Name: "state/outside-waits", Promise: "P5", Rule: "A wait from outside ends with the change, at once where the store gives hints, whoever made it; it ends with an error when the run has ended or does not exist.", Run: func(e *E) {
		poll := workflow.PollInterval(e.d(20 * time.Second))
		goOn := make(chan struct{}, 10)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			for i := range 3 {
				if err := workflow.Do(ctx, "step", func(ctx context.Context) error {
					<-goOn
					if i == 0 {
						return counted.Set(workflow.InStep(ctx), 1)
					}
					return nil
				}); err != nil {
					return 0, err
				}
				if i == 1 {
					if err := counted.Set(ctx, 2); err != nil {
						return 0, err
					}
				}
			}
			return 0, nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		for i := range 2 {
			const waiters = 50
			errs := make(chan error, waiters)
			for range waiters {
				go func() {
					errs <- workflow.WaitForState(outside(e, h.ID()), "counted", atLeast(counted, i+1), poll)
				}()
			}
			pause(e) // most of them wait now
			from := time.Now()
			goOn <- struct{}{}
			for range waiters {
				e.ok("wait", receive(e, "the end of a wait", errs))
			}
			if e.h.Bubble && e.s.Features().Hints {
				e.check(time.Since(from) < time.Second, "change %d was heard of after %v", i+1, time.Since(from))
			}
		}
		errs := make(chan error, 1)
		go func() { errs <- workflow.WaitForState(outside(e, h.ID()), "never", atLeast(counted, 3), poll) }()
		goOn <- struct{}{}
		result(e, h)
		err := receive(e, "the end of the wait", errs)
		e.check(errors.Is(err, store.ErrFinished), "when the run has completed: saw %v", err)
		e.ok("a wait for what the finished run has", workflow.WaitForState(outside(e, h.ID()), "was", atLeast(counted, 2)))
		e.check(errors.Is(counted.Set(outside(e, h.ID()), 9), store.ErrFinished), "a finished run's state was written")
		none := outside(e, store.NewID())
		e.check(errors.Is(workflow.WaitForState(none, "none", atLeast(counted, 1)), store.ErrNotFound), "a wait for a run that does not exist went on")
		e.check(errors.Is(counted.Set(none, 1), store.ErrNotFound), "state of a run that does not exist was written")
		_, _, err = counted.Get(none)
		e.check(errors.Is(err, store.ErrNotFound), "state of a run that does not exist was read")
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		err = workflow.WaitForState(workflow.OfRun(ctx, e.eng, start(e, wf, 0).ID()), "never", atLeast(counted, 1))
		e.check(errors.Is(err, context.Canceled), "with a context that has ended: saw %v", err)
		for range 3 {
			goOn <- struct{}{}
		}
	}},
	{Name: "state/many-waiters", Promise: "P5", Rule: "Many runs that sleep for state each wake with their own change, and one change wakes all branches that wait for it.", Run: func(e *E) {
		const runs, branches = 30, 10
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			g := workflow.NewGroup(ctx)
			for i := range branches {
				g.Go("b", func(ctx workflow.Context) error {
					return workflow.WaitForState(ctx, "counted", atLeast(counted, n+i%2))
				})
			}
			return n, g.Wait()
		})
		e.process(defs(wf), worker.Concurrency(100))
		hs := startN(e, wf, runs)
		for i, h := range hs {
			if i > 0 { // half of the branches find the condition already met
				e.until(h.ID(), store.Sleeping)
			}
			set(e, counted, h.ID(), i)
		}
		for i, h := range hs {
			e.untilStep(h.ID(), "b/counted", store.StepCompleted)
			e.until(h.ID(), store.Sleeping)
			set(e, counted, h.ID(), i+1)
		}
		for i, n := range results(e, hs) {
			e.eq("output", n, i)
		}
	}},
	{Name: "state/compare-and-set", Promise: "P3", Rule: "Of concurrent compare-and-sets on one version one succeeds, from steps and from outside: nothing is lost.", Run: func(e *E) {
		const branches, each = 4, 5
		add := func(in workflow.LiveScope) error {
			for range each {
				for {
					v, version, err := counted.GetVersion(in)
					if err != nil {
						return err
					}
					next, err := counted.CompareAndSet(in, version, v+1)
					if err == nil && next <= version {
						return fmt.Errorf("version %d became %d", version, next)
					}
					if err == nil {
						break
					}
					if !errors.Is(err, store.ErrConflict) {
						return err
					}
				}
			}
			return nil
		}
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			g := workflow.NewGroup(ctx)
			for range branches {
				g.Go("add", func(ctx workflow.Context) error {
					return workflow.Do(ctx, "add", func(ctx context.Context) error { return add(workflow.InStep(ctx)) }, workflow.Attempts(1))
				})
			}
			if err := g.Wait(); err != nil {
				return 0, err
			}
			if err := workflow.WaitForState(ctx, "all", atLeast(counted, 2*branches*each)); err != nil {
				return 0, err
			}
			v, _, err := counted.Get(ctx)
			return v, err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		errs := make(chan error, branches)
		for range branches {
			go func() { errs <- add(outside(e, h.ID())) }()
		}
		for range branches {
			e.ok("adding from outside", receive(e, "its end", errs))
		}
		e.eq("output", result(e, h), 2*branches*each)
	}},
	{Name: "state/answer-lost", Promise: "P4", Rule: "A write from outside whose answer was lost, and whose run has ended before it is repeated, is not reported as refused when it was applied.", Run: func(e *E) {
		wire := newWire(e.s)
		eng := engine.New(wire, engine.Namespace("engine"), engine.Logger(quiet))
		defer eng.Close()
		// set writes to a new run and loses the answer; meanwhile is called with the run before the writes are
		// repeated.
		set := func(meanwhile func(id store.ID), writes ...store.StateWrite) (store.ID, []store.StateEntry, error) {
			id := store.NewID()
			res, err := e.s.Create(e.ctx, store.CreateParams{Namespace: "engine", Runs: []store.NewRun{{ID: id, Workflow: "wf", Queue: "wf"}}})
			e.ok("Create", err)
			e.ok("the create", res[0].Err)
			_, err = e.eng.SetState(e.ctx, id, store.StateWrite{Key: "gone", Value: []byte("1")})
			e.ok("a write before", err)
			wire.loseNext("set-state", 1)
			once := sync.OnceFunc(func() { meanwhile(id) })
			wire.mu.Lock()
			wire.after = func(verb string) {
				if verb == "set-state" {
					once()
				}
			}
			wire.mu.Unlock()
			entries, err := eng.SetState(e.ctx, id, writes...)
			e.eq("answers that are still to be lost", wire.leftToLose("set-state"), 0)
			return id, entries, err
		}
		cancel := func(id store.ID) { e.ok("cancel", e.eng.Cancel(e.ctx, id, "")) }
		writes := []store.StateWrite{{Key: "gone", Delete: true}, {Key: "kept", Value: []byte("2")}, {Key: "empty"}}

		id, entries, err := set(cancel, writes...)
		e.ok("a write that was applied, of a run that was canceled then", err)
		kept, err2 := e.eng.GetState(e.ctx, id)
		e.ok("GetState", err2)
		if len(entries) != 3 || len(kept) != 2 {
			e.Fatalf("saw entries %v and state %v, expected three and two", entries, kept)
		}
		e.eq("the entry of a value", entries[1], kept[1])
		e.eq("the entry of an empty value", entries[2], kept[0])
		e.eq("the entry of a deletion", entries[0], store.StateEntry{Key: "gone"})

		id, _, err = set(func(id store.ID) {
			_, err := e.eng.SetState(e.ctx, id, store.StateWrite{Key: "kept", Value: []byte("another's")})
			e.ok("a later write", err)
			cancel(id)
		}, writes...)
		e.says("the error of a write that another has replaced before the run ended", err, store.ErrOutcomeUnknown, id.String())

		id, _, err = set(func(id store.ID) {
			cancel(id)
			n, err := e.s.Purge(e.ctx, store.PurgeParams{Namespace: "engine"})
			e.ok("Purge", err)
			e.check(n > 0, "nothing was purged")
		}, writes...)
		e.says("the error of a write to a run that was purged then", err, store.ErrOutcomeUnknown, id.String())

		id, _, err = set(func(store.ID) {}, writes...)
		e.ok("a write that is repeated", err)
		cancel(id)
		_, err = eng.SetState(e.ctx, id, writes...)
		e.says("the error of a write to a run that had ended", err, store.ErrFinished, id.String())
	}},
	{Name: "state/zombie-is-fenced", Promise: "P2", Rule: "A step whose worker has lost the run writes no state, and gets an error.", Run: func(e *E) {
		var ran tally
		blocked, release, told := make(chan struct{}, 1), make(chan struct{}), make(chan error, 3)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			return 1, workflow.Do(ctx, "work", func(ctx context.Context) error {
				in := workflow.InStep(ctx)
				n := ran.add("work")
				if err := counted.Set(in, n); err != nil || n > 1 {
					return err
				}
				blocked <- struct{}{}
				<-release // ignores its context, as a zombie does
				for range 2 {
					told <- note.Set(in, "of a zombie")
				}
				told <- workflow.WaitForState(in, "never", atLeast(counted, 9))
				return nil
			})
		})
		zombie := e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the step", blocked)
		e.eq("what the step has written so far", get(e, counted, h.ID()), 1)
		zombie.wire.set(wireDown)
		e.process(defs(wf))
		becomes(e, counted, h.ID(), 2)
		zombie.wire.set(wireUp)
		close(release)
		for range 3 {
			err := receive(e, "the answer to the zombie", told)
			e.check(errors.Is(err, workflow.ErrTakenOver), "the zombie was told %v", err)
		}
		zombie.stop()
		result(e, h)
		e.eq("state", get(e, note, h.ID()), "")
	}},
	{Name: "state/killed-anywhere", Promise: "P3", Rule: "Whenever the worker is killed, a write of the run's function is there with its record or not at all, and a wait that has ended stays ended.", Run: func(e *E) {
		type victim struct {
			wf     *workflow.Workflow[int, int]
			h      workflow.Handle[int]
			killed chan struct{}
		}
		const moments = 7
		var victims []victim
		for at := range 2 * moments {
			behind := at >= moments // the answer to the commit is lost
			v := victim{wf: workflow.New(fmt.Sprint("wf", at), stateRounds(e)), killed: make(chan struct{})}
			p := e.process(defs(v.wf))
			var mu sync.Mutex
			commits := 0
			p.wire.hook(func(verb string) {
				mu.Lock()
				defer mu.Unlock()
				if verb != "commit" {
					return
				}
				if commits++; commits == at%moments+1 {
					if behind {
						p.wire.cutBehind()
					} else {
						p.wire.set(wireCut)
					}
					close(v.killed)
				}
			})
			v.h = start(e, v.wf, 0)
			victims = append(victims, v)
		}
		reached := 0
		for _, v := range victims {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = v.h.Result(e.ctx)
			}()
			select {
			case <-v.killed:
				reached++
				e.process(defs(v.wf))
			case <-ended:
			}
		}
		for _, v := range victims {
			e.eq("sum", result(e, v.h), 0+1)
			e.eq("count", get(e, counted, v.h.ID()), 2)
			run, err := e.eng.Get(e.ctx, v.h.ID())
			e.ok("get", err)
			e.eq("events: one for each write", run.Events, int64(2))
			e.eq("steps", len(e.steps(v.h.ID())), 10)
		}
		e.check(reached > moments, "%d of %d moments were reached", reached, 2*moments)
	}},
	{Name: "state/predicate-fails", Promise: "P16", Rule: "A predicate's error ends the wait; in the run's function it is recorded, with its code, and not tried again.", Run: func(e *E) {
		var ran tally
		bad := func(workflow.FlowStateReader) (bool, error) {
			ran.add("eval")
			return false, workflow.Coded("bad-state", errFlaky)
		}
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			err := workflow.WaitForState(ctx, "look", bad)
			var failed *workflow.StepError
			if !errors.As(err, &failed) {
				return "", fmt.Errorf("the wait ended with %T: %w", err, err)
			}
			if err := workflow.Sleep(ctx, "nap", e.d(time.Minute)); err != nil {
				return "", err
			}
			return workflow.ErrorCode(err), nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		err := workflow.WaitForState(outside(e, h.ID()), "look", bad)
		e.check(errors.Is(err, errFlaky), "outside: saw %v", err)
		e.eq("code", result(e, h), "bad-state")
		e.eq("evaluations", ran.get("eval"), 2)
		e.eq("record", e.steps(h.ID())["look"].Status, store.StepFailed)
	}},
	{Name: "state/predicate-panics", Promise: "P16", Rule: "A predicate that panics fails its run, with an error that names the wait; in a step it fails the attempt, outside it is the caller's.", Run: func(e *E) {
		bad := func(workflow.FlowStateReader) (bool, error) { panic("in a predicate") }
		var ran tally
		inStep := false
		wf := workflow.New("wf", func(ctx workflow.Context, how string) (int, error) {
			if how == "step" {
				inStep = true
				return 1, workflow.Do(ctx, "step", func(ctx context.Context) error {
					if ran.add("step") == 1 {
						return workflow.WaitForState(workflow.InStep(ctx), "look", bad)
					}
					return nil
				}, workflow.Backoff(e.d(time.Second), 1, 0))
			}
			defer func() {
				if v := recover(); v != nil {
					ran.add("recovered")
				}
			}()
			return 1, workflow.WaitForState(ctx, "look", bad)
		})
		e.process(defs(wf))
		_, err := start(e, wf, "function").Result(e.ctx)
		e.eq("code", workflow.ErrorCode(err), workflow.CodePanic)
		e.check(err != nil && strings.Contains(err.Error(), `the predicate of wait "look" panicked: in a predicate`), "saw %v", err)
		e.eq("recovered by the workflow's code", ran.get("recovered"), 0)
		h := start(e, wf, "step")
		e.eq("output", result(e, h), 1)
		e.eq("attempts", e.steps(h.ID())["step"].Attempt, 2)
		e.check(inStep, "the step did not run")
		func() {
			defer func() { e.eq("panic outside", recover(), "in a predicate") }()
			_ = workflow.WaitForState(outside(e, h.ID()), "look", bad)
		}()
	}},
	{Name: "state/too-large", Promise: "P12", Rule: "A value over the limit is refused with an error that names it; nothing is lost and the run continues.", Run: func(e *E) {
		limit := e.s.Limits().Payload
		large := strings.Repeat("x", limit)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			if err := note.Set(ctx, "small"); err != nil {
				return "", err
			}
			err := note.Set(ctx, large)
			if !errors.Is(err, store.ErrTooLarge) || !strings.Contains(err.Error(), `"note"`) {
				return "", fmt.Errorf("the function was told %w", err)
			}
			if err := workflow.Do(ctx, "step", func(ctx context.Context) error {
				if err := note.Set(workflow.InStep(ctx), large); !errors.Is(err, store.ErrTooLarge) {
					return fmt.Errorf("the step was told %w", err)
				}
				if _, err := note.CompareAndSet(workflow.InStep(ctx), 0, large); !errors.Is(err, store.ErrTooLarge) {
					return fmt.Errorf("the step was told %w", err)
				}
				return nil
			}, workflow.Attempts(1)); err != nil {
				return "", err
			}
			if err := workflow.NewState[int]("").Set(ctx, 1); !errors.Is(err, store.ErrInvalid) {
				return "", fmt.Errorf("a state without a name: %w", err)
			}
			if err := workflow.WaitForState(ctx, "go on", atLeast(counted, 1)); err != nil {
				return "", err
			}
			v, _, err := note.Get(ctx)
			return v, err
		})
		e.process(defs(wf), worker.Lease(leaseFor))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		err := note.Set(outside(e, h.ID()), large)
		e.check(errors.Is(err, store.ErrTooLarge), "outside: saw %v", err)
		set(e, counted, h.ID(), 1)
		e.eq("output", result(e, h), "small")
	}},
	{Name: "state/coord-error", Promise: "P11", Rule: "Once coord.error is set, every wait of the run ends with its reason, and a step or run that waited is not tried again.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			var outs []string
			stepWaits := workflow.Go(ctx, "step", func(ctx workflow.Context) (int, error) {
				return 0, workflow.Do(ctx, "wait", func(ctx context.Context) error {
					ran.add("wait")
					return workflow.WaitForState(workflow.InStep(ctx), "counted", atLeast(counted, 1))
				})
			})
			watcher := workflow.Go(ctx, "watcher", func(ctx workflow.Context) (int, error) {
				return 0, workflow.Do(ctx, "watch", func(ctx context.Context) error {
					return workflow.CoordErrorState.Set(workflow.InStep(ctx), "the source is gone")
				})
			})
			err := workflow.WaitForState(ctx, "counted", atLeast(counted, 1))
			outs = append(outs, fmt.Sprint(errors.Is(err, workflow.ErrCoordination), err))
			if _, err := watcher.Get(ctx); err != nil {
				return nil, err
			}
			_, err = stepWaits.Get(ctx)
			outs = append(outs, workflow.ErrorCode(err))
			if _, err := word.Receive(ctx); err != nil { // and a replay
				return nil, err
			}
			if err := workflow.CoordErrorState.Delete(ctx); err != nil {
				return nil, err
			}
			return outs, workflow.WaitForState(ctx, "counted", atLeast(counted, 1))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		err := workflow.WaitForState(outside(e, h.ID()), "counted", atLeast(counted, 1))
		e.check(errors.Is(err, workflow.ErrCoordination) && strings.Contains(err.Error(), "the source is gone"), "outside: saw %v", err)
		send(e, word, h.ID(), "go on")
		e.untilStep(h.ID(), "counted#2", store.StepRunning)
		set(e, counted, h.ID(), 1)
		e.eq("what was seen", result(e, h), []string{"true step counted: coord.error is set: the source is gone", workflow.CodeCoordination})
		e.eq("attempts of the step that waited", ran.get("wait"), 1)
	}},
	{Name: "state/step-tx", Promise: "P3", Rule: "What a transactional step writes of the run's state commits with the transaction, and is gone when that is rolled back.", Run: transactions(func(e *E) {
		var ran tally
		wf := withEffects(func(ctx workflow.Context, table string) error {
			if err := note.Set(ctx, "before"); err != nil {
				return err
			}
			err := workflow.DoTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error {
				in := workflow.InStep(ctx)
				if err := errors.Join(addRow(ctx, tx, table), note.Set(in, "in"), counted.Set(in, ran.add("add"))); err != nil {
					return err
				}
				v, _, err := note.Get(in)
				if v != "in" || err != nil {
					return fmt.Errorf("the step read %q: %w", v, err)
				}
				if err := target.Delete(in); err != nil {
					return err
				}
				if _, ok, err := target.Get(in); ok || err != nil {
					return fmt.Errorf("the step read what it had deleted: %w", err)
				}
				if _, err := counted.CompareAndSet(in, 0, 1); !errors.Is(err, store.ErrInvalid) {
					return fmt.Errorf("a compare-and-set in a transaction: %w", err)
				}
				if err := workflow.WaitForState(in, "wait", atLeast(counted, 1)); !errors.Is(err, store.ErrInvalid) {
					return fmt.Errorf("a wait in a transaction: %w", err)
				}
				switch ran.get("add") {
				case 1:
					return errFlaky
				}
				if _, _, err := switched.Get(in); !errors.Is(err, store.ErrInvalid) {
					return fmt.Errorf("a read of what others write in a transaction: %w", err)
				}
				return nil
			}, workflow.Attempts(2), workflow.Backoff(e.d(time.Second), 1, 0))
			if err != nil {
				return err
			}
			return workflow.WaitForState(ctx, "written", func(r workflow.FlowStateReader) (bool, error) {
				v, _, err := note.Read(r)
				n, _, err2 := counted.Read(r)
				return v == "in" && n == 2, errors.Join(err, err2)
			}, workflow.WaitTimeout(e.d(time.Minute)))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("rows", result(e, h), 1)
		e.eq("version of the key", e.version(h.ID(), "count") > 0, true)
	})},
	{Name: "state/not-in-a-step", Promise: "P16", Rule: "State is written where it can be: not by a goroutine that its step has left behind, and not with the context of no step.", Run: func(e *E) {
		goOn, told := make(chan struct{}), make(chan error, 1)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			if err := workflow.Do(ctx, "step", func(ctx context.Context) error {
				go func() {
					<-goOn
					told <- note.Set(workflow.InStep(ctx), "late")
				}()
				return nil
			}); err != nil {
				return 0, err
			}
			return 1, workflow.WaitForState(ctx, "go on", atLeast(counted, 1))
		})
		e.process(defs(wf), worker.Park(e.d(time.Minute)), worker.Lease(leaseFor))
		h := start(e, wf, 0)
		e.untilStep(h.ID(), "step", store.StepCompleted)
		close(goOn)
		err := receive(e, "the answer", told)
		e.check(errors.Is(err, store.ErrInvalid), "a goroutine left behind was told %v", err)
		in := workflow.InStep(e.ctx)
		_, _, err = counted.Get(in)
		e.check(errors.Is(errors.Join(err), store.ErrInvalid), "the context of no step was told %v", err)
		e.check(errors.Is(counted.Set(in, 1), store.ErrInvalid), "the context of no step has set a state")
		e.check(errors.Is(workflow.WaitForState(in, "w", atLeast(counted, 1)), store.ErrInvalid), "the context of no step has waited")
		e.check(errors.Is(workflow.WaitForState(outside(e, h.ID()), "w", nil), store.ErrInvalid), "a wait without a predicate")
		set(e, counted, h.ID(), 1)
		result(e, h)
		e.eq("state", get(e, note, h.ID()), "")
	}},
	{Name: "state/looks-first", Promise: "P5", Rule: "A wait and a read see what was written before they began, although the worker got no hint of it.", Run: func(e *E) {
		blocked, goOn := make(chan struct{}, 1), make(chan struct{})
		absent := func(r workflow.FlowStateReader) (bool, error) { return !r.Has("note"), nil }
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Do(ctx, "step", func(ctx context.Context) error {
				blocked <- struct{}{}
				<-goOn
				if err := workflow.WaitForState(workflow.InStep(ctx), "absent", absent, workflow.WaitTimeout(0)); !errors.Is(err, workflow.ErrTimeout) {
					return fmt.Errorf("the wait in the step ended with %w", err)
				}
				return nil
			}, workflow.Attempts(1)); err != nil {
				return "", err
			}
			if err := workflow.Do(ctx, "again", func(ctx context.Context) error {
				blocked <- struct{}{}
				<-goOn
				return nil
			}); err != nil {
				return "", err
			}
			err := workflow.WaitForState(ctx, "absent", func(r workflow.FlowStateReader) (bool, error) { return !r.Has("count"), nil }, workflow.WaitTimeout(0))
			if !errors.Is(err, workflow.ErrTimeout) {
				return "", fmt.Errorf("the wait ended with %w", err)
			}
			v, _, err := note.Get(ctx)
			return v, err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the step", blocked)
		set(e, note, h.ID(), "there")
		goOn <- struct{}{}
		receive(e, "the second step", blocked)
		set(e, note, h.ID(), "changed")
		set(e, counted, h.ID(), 1)
		goOn <- struct{}{}
		e.eq("output", result(e, h), "changed")
	}},
	{Name: "state/watermark", Promise: "P5", Rule: "A cut-over behind a watermark: with several writers, messages out of order and twice, and workers killed, the switch comes once, not before the consumer has caught up, and both sides are equal.", Run: func(e *E) {
		const writers, each, docs = 4, 30, 12
		src := &cutover{source: map[int]int{}, index: map[int]int{}}
		for d := range docs {
			src.source[d] = 0
		}
		wf := src.workflow(e, docs)
		p := e.process(defs(wf))
		h := start(e, wf, 0)
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					src.put((w + 5*i) % docs)
					pause(e)
				}
				_, err := raise(outside(e, h.ID()), src.length())
				if err != nil && !errors.Is(err, store.ErrFinished) { // after a cut-over there is nothing to raise
					e.Errorf("writer %d: %v", w, err)
				}
			})
		}
		for range 3 {
			at := get(e, counted, h.ID())
			e.ok("progress", workflow.WaitForState(outside(e, h.ID()), "progress", func(r workflow.FlowStateReader) (bool, error) {
				n, _, err := counted.Read(r)
				s, _, err2 := switched.Read(r)
				return n > at || s, errors.Join(err, err2)
			}))
			p.kill()
			p = e.process(defs(wf))
		}
		writing.Wait()
		e.eq("output", result(e, h), "listener stopped")
		src.mu.Lock()
		defer src.mu.Unlock()
		e.eq("effects of the switch", src.switches, 1)
		e.check(src.offsetAtSwitch >= src.watermark && src.watermark > 0, "it was switched at offset %d, the watermark was %d", src.offsetAtSwitch, src.watermark)
		e.eq("the index", fmt.Sprint(src.index), fmt.Sprint(src.source))
	}},
}

var switched = workflow.NewState[bool]("switched")

// raise makes the target at least n, whoever else raises it.
func raise(in workflow.LiveScope, n int) (int, error) {
	for {
		have, version, err := target.GetVersion(in)
		if err != nil || have >= n {
			return have, err
		}
		if _, err = target.CompareAndSet(in, version, n); err == nil {
			return n, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return 0, err
		}
	}
}

// cutover is the outside world of a workflow that moves documents into a new index: a source with
// versions, its log of changes, and the index. It survives workers.
type cutover struct {
	mu             sync.Mutex
	source, index  map[int]int // document -> version
	log            [][2]int    // (document, version), some late and some twice
	switches       int
	isSwitched     bool
	offsetAtSwitch int
	watermark      int
}

// put changes a document: in the source, and once it is switched in the index, too.
func (c *cutover) put(doc int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.source[doc]++
	if c.isSwitched {
		c.apply(doc, c.source[doc])
	}
	c.log = append(c.log, [2]int{doc, c.source[doc]})
	if n := len(c.log); n%3 == 0 && n > 1 {
		c.log[n-1], c.log[n-2] = c.log[n-2], c.log[n-1]
	} else if n%5 == 0 {
		c.log = append(c.log, c.log[n/2])
	}
}

func (c *cutover) length() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.log)
}

// apply writes a version unless the index has a later one.
func (c *cutover) apply(doc, version int) {
	if have, ok := c.index[doc]; !ok || have < version {
		c.index[doc] = version
	}
}

// consume applies some messages from an offset and returns the next offset.
func (c *cutover) consume(from int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := min(from+7, len(c.log))
	for _, m := range c.log[from:to] {
		c.apply(m[0], m[1])
	}
	return to
}

func (c *cutover) workflow(e *E, docs int) *workflow.Workflow[int, string] {
	return workflow.New("cutover", func(ctx workflow.Context, _ int) (string, error) {
		listener := workflow.Go(ctx, "listener", func(ctx workflow.Context) (string, error) {
			return workflow.Step(ctx, "listen", func(ctx context.Context) (string, error) {
				in := workflow.InStep(ctx)
				offset, _, err := counted.Get(in)
				for err == nil {
					next := c.consume(offset)
					if next > offset {
						offset, err = next, counted.Set(in, next)
						continue
					}
					// It ends when the switch is done and nothing is left to consume.
					err = workflow.WaitForState(in, "switched", func(r workflow.FlowStateReader) (bool, error) {
						v, _, err := switched.Read(r)
						return v, err
					}, workflow.WaitTimeout(e.d(500*time.Millisecond)))
					if err == nil && offset == c.length() {
						return "listener stopped", nil
					}
					if errors.Is(err, workflow.ErrTimeout) {
						err = nil
					}
				}
				return "", err
			}, workflow.Attempts(1))
		})
		for d := range docs {
			if err := workflow.Do(ctx, "backfill", func(context.Context) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.apply(d, c.source[d])
				return nil
			}); err != nil {
				return "", err
			}
		}
		if err := workflow.Do(ctx, "watermark", func(ctx context.Context) error {
			mark, err := raise(workflow.InStep(ctx), max(c.length(), 1))
			c.mu.Lock()
			defer c.mu.Unlock()
			c.watermark = max(c.watermark, mark)
			return err
		}); err != nil {
			return "", err
		}
		if err := workflow.WaitForState(ctx, "caught up", func(r workflow.FlowStateReader) (bool, error) {
			offset, _, err := counted.Read(r)
			mark, ok, err2 := target.Read(r)
			return ok && offset >= mark, errors.Join(err, err2)
		}); err != nil {
			return "", err
		}
		if err := workflow.Do(ctx, "switch", func(ctx context.Context) error {
			in := workflow.InStep(ctx)
			offset, _, err := counted.Get(in)
			if err != nil {
				return err
			}
			c.mu.Lock()
			first := !c.isSwitched
			if c.isSwitched = true; first { // switching again changes nothing
				c.switches++
				c.offsetAtSwitch = offset
			}
			c.mu.Unlock()
			if first {
				return errFlaky // as if the answer to the switch were lost
			}
			return nil
		}, workflow.Backoff(e.d(time.Second), 1, 0)); err != nil {
			return "", err
		}
		if err := switched.Set(ctx, true); err != nil {
			return "", err
		}
		return listener.Get(ctx)
	})
}

// stateRounds counts in state for two rounds, and waits for what it has written.
func stateRounds(e *E) func(ctx workflow.Context, _ int) (int, error) {
	return func(ctx workflow.Context, _ int) (int, error) {
		sum := 0
		for i := range 2 {
			v, _, err := counted.Get(ctx)
			if err != nil {
				return 0, err
			}
			sum += v
			if err := counted.Set(ctx, v+1); err != nil {
				return 0, err
			}
			if err := workflow.Do(ctx, "step", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			if err := workflow.WaitForState(ctx, "written", func(r workflow.FlowStateReader) (bool, error) {
				c, _, err := counted.Read(r)
				if err == nil && c != i+1 {
					err = fmt.Errorf("round %d waits with count %d", i, c)
				}
				return true, err
			}); err != nil {
				return 0, err
			}
			if err := workflow.Sleep(ctx, "nap", e.d(time.Second)); err != nil {
				return 0, err
			}
		}
		return sum, nil
	}
}
