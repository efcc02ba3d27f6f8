package enginetier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var branchEngineCases = []Case{
	{Name: "branch/parallel", Promise: "P3", Rule: "Branches run at the same time, each with steps of its own key path, and give their results.", Run: func(e *E) {
		var meet sync.WaitGroup
		meet.Add(3)
		wf := workflow.New("wf", func(ctx workflow.Context, in int) ([]int, error) {
			var fs []*workflow.Future[int]
			for i := range 3 {
				fs = append(fs, workflow.Go(ctx, "side", func(ctx workflow.Context) (int, error) {
					return workflow.Step(ctx, "work", func(context.Context) (int, error) {
						meet.Done()
						meet.Wait() // all three must be here at once
						return i, nil
					})
				}))
			}
			var out []int
			for _, f := range fs {
				v, err := f.Get(ctx)
				if err != nil {
					return nil, err
				}
				out = append(out, v)
			}
			return out, nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), []int{0, 1, 2})
		steps := e.steps(h.ID())
		for _, key := range []string{"side/work", "side#2/work", "side#3/work"} {
			e.check(steps[key].Status == store.StepCompleted, "no record of %s: %v", key, steps)
		}
	}},
	{Name: "branch/promise", Promise: "P5", Rule: "Branches wait for a promise, also across suspensions of the run. The first call of Resolve counts.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) ([]string, error) {
			p := workflow.NewPromise[string](ctx)
			var fs []*workflow.Future[string]
			for i := range 2 {
				fs = append(fs, workflow.Go(ctx, "waits", func(ctx workflow.Context) (string, error) {
					v, err := p.Get(ctx)
					if err != nil {
						return "", err
					}
					return workflow.Step(ctx, "work", func(context.Context) (string, error) { return fmt.Sprint(v, i), nil })
				}))
			}
			workflow.Go(ctx, "keeps", func(ctx workflow.Context) (bool, error) {
				if err := workflow.Sleep(ctx, "nap", e.d(time.Minute)); err != nil {
					return false, err
				}
				first := p.Resolve("a", nil)
				if second := p.Resolve("b", errFlaky); !first || second {
					return false, fmt.Errorf("promises kept: %v, %v", first, second)
				}
				return true, workflow.Sleep(ctx, "for long", e.d(24*time.Hour)) // the run does not wait for it
			})
			var out []string
			for _, f := range fs {
				v, err := f.Get(ctx)
				if err != nil {
					return nil, err
				}
				out = append(out, v)
			}
			return out, nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		e.eq("output", result(e, h), []string{"a0", "a1"})
	}},
	{Name: "branch/deadlock", Promise: "P5", Rule: "A run whose branches wait for nothing but each other fails and names them; one of them that waits for time or a signal is enough to keep it.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, heard bool) (string, error) {
			p := workflow.NewPromise[string](ctx)
			first := workflow.Go(ctx, "first", func(ctx workflow.Context) (string, error) { return p.Get(ctx) })
			second := workflow.Go(ctx, "second", func(ctx workflow.Context) (string, error) { return first.Get(ctx) })
			third := workflow.Go(ctx, "third", func(ctx workflow.Context) (bool, error) {
				if !heard {
					return true, workflow.Sleep(ctx, "nap", e.d(time.Minute))
				}
				s, err := word.Receive(ctx)
				return p.Resolve(s, nil), err
			})
			s, err := second.Get(ctx)
			if err != nil {
				return "", err
			}
			_, err = third.Get(ctx)
			return s, err
		}, workflow.RunAttempts(3))
		e.process(defs(wf))
		stuck, woken := start(e, wf, false), start(e, wf, true)
		e.until(stuck.ID(), store.Sleeping)
		e.until(woken.ID(), store.Sleeping)
		_, err := stuck.Result(e.ctx)
		var end *engine.RunError
		if !errors.As(err, &end) {
			e.Fatalf("saw %v, expected that the run fails", err)
		}
		e.eq("code", end.Failure.Code, workflow.CodeDeadlock)
		for _, who := range []string{`the main branch waits for branch "second"`, `branch "first" waits for promise 1 of the main branch`, `branch "second" waits for branch "first"`} {
			e.check(strings.Contains(end.Failure.Message, who), "the failure %q does not say that %s", end.Failure.Message, who)
		}
		e.check(!strings.Contains(end.Failure.Message, "third"), "the failure %q names a branch that has ended", end.Failure.Message)
		e.explains("deadlock", stuck.ID(), engine.ReasonFailed, workflow.CodeDeadlock, "wait for each other", "deploy code")
		e.until(woken.ID(), store.Sleeping) // it still waits for its signal
		send(e, word, woken.ID(), "now")
		e.eq("output", result(e, woken), "now")
	}},
	{Name: "branch/suspend-together", Promise: "P5", Rule: "A run suspends when all its branches wait, and each branch continues at its own time.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			g := workflow.NewGroup(ctx)
			for i := range 4 {
				g.Go(fmt.Sprint("b", i), func(ctx workflow.Context) error {
					if err := workflow.Sleep(ctx, "nap", e.d(time.Duration(i)*20*time.Second)); err != nil {
						return err
					}
					return workflow.Do(ctx, "work", func(context.Context) error { ran.add("work"); return nil })
				})
			}
			g.Go("last", func(ctx workflow.Context) error {
				_, err := word.Receive(ctx) // until the case has seen that the run sleeps
				return err
			})
			return in, g.Wait()
		})
		p := e.process(defs(wf))
		h := start(e, wf, 8)
		e.until(h.ID(), store.Sleeping)
		p.stop()
		e.process(defs(wf))
		send(e, word, h.ID(), "on")
		e.eq("output", result(e, h), 8)
		e.eq("executions", ran.get("work"), 4)
	}},
	{Name: "branch/errors", Promise: "P3", Rule: "A group waits for all its branches and joins their errors in order.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
			g := workflow.NewGroup(ctx)
			for i := range 3 {
				g.Go("b", func(ctx workflow.Context) error {
					return workflow.Do(ctx, "work", func(context.Context) error {
						if i == 1 {
							return nil
						}
						return workflow.Permanent(fmt.Errorf("error %d", i))
					})
				})
			}
			return g.Wait().Error(), nil
		})
		e.process(defs(wf))
		e.eq("joined errors", result(e, start(e, wf, 0)), "step b/work: error 0\nstep b#3/work: error 2")
	}},
	{Name: "branch/one-works-while-others-wait", Promise: "P13", Rule: "A branch whose wait has ended continues while another branch works.", Run: func(e *E) {
		woke := make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			f := workflow.Go(ctx, "sleeper", func(ctx workflow.Context) (int, error) {
				if err := workflow.Sleep(ctx, "nap", e.d(5*time.Second)); err != nil {
					return 0, err
				}
				close(woke)
				return 1, nil
			})
			err := workflow.Do(ctx, "work", func(ctx context.Context) error {
				select {
				case <-woke:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err != nil {
				return 0, err
			}
			return f.Get(ctx)
		})
		e.process(defs(wf))
		e.eq("output", result(e, start(e, wf, 0)), 1)
	}},
}

var runEngineCases = []Case{
	{Name: "run/retry", Promise: "P6", Rule: "A run with a retry policy resumes after what it completed, and retries what failed.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if err := workflow.Do(ctx, "once", func(context.Context) error { ran.add("once"); return nil }); err != nil {
				return 0, err
			}
			return workflow.Step(ctx, "flaky", func(context.Context) (int, error) {
				if ran.add("flaky") < 3 {
					return 0, errFlaky
				}
				return ctx.Info().Attempt, nil
			}, workflow.Attempts(1))
		}, workflow.RunAttempts(5), workflow.RunBackoff(e.d(time.Second), 2, e.d(time.Minute)))
		e.process(defs(wf))
		e.eq("attempt that succeeded", result(e, start(e, wf, 0)), 3)
		e.eq("executions of once and flaky", []int{ran.get("once"), ran.get("flaky")}, []int{1, 3})
	}},
	{Name: "run/fails", Promise: "P16", Rule: "A run that returns an error fails with its text and code; it can be restarted.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if ran.add("run") == 1 {
				return 0, workflow.Coded("no-stock", errFlaky)
			}
			return in, nil
		})
		e.process(defs(wf))
		h := start(e, wf, 6)
		_, err := h.Result(e.ctx)
		var runErr *engine.RunError
		e.check(errors.As(err, &runErr) && errors.Is(err, engine.ErrFailed), "saw %T %v, expected a RunError", err, err)
		e.eq("code", workflow.ErrorCode(err), "no-stock")
		e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
		e.eq("output", result(e, h), 6)
		e.check(errors.Is(e.eng.Restart(e.ctx, h.ID()), store.ErrConflict), "a completed run was restarted")
	}},
	{Name: "run/deadline", Promise: "P13", Rule: "A run whose deadline passes fails with that reason, asleep or at work.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, work bool) (int, error) {
			if work {
				return 0, workflow.Do(ctx, "long", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			}
			return 0, workflow.Sleep(ctx, "nap", e.d(time.Hour))
		})
		e.process(defs(wf))
		for _, work := range []bool{true, false} {
			h := start(e, wf, work, engine.Timeout(e.d(10*time.Second)))
			_, err := h.Result(e.ctx)
			e.eq(fmt.Sprintf("code, at work: %v", work), workflow.ErrorCode(err), workflow.CodeDeadline)
			run, err := e.eng.Get(e.ctx, h.ID())
			e.ok("get", err)
			// A worker knows the store's time well, but not to the microsecond.
			e.check(!run.FinishedAt.Before(run.Deadline.Add(-50*time.Millisecond)), "it failed at %v, before its deadline %v", run.FinishedAt, run.Deadline)
		}
	}},
	{Name: "cancel/sleeping", Promise: "P11", Rule: "A sleeping run is canceled at once.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return 0, workflow.Sleep(ctx, "nap", e.d(time.Hour))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "not wanted"))
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrCanceled), "saw %v", err)
		e.eq("message", err.(*engine.RunError).Failure.Message, "not wanted")
	}},
	{Name: "cancel/running", Promise: "P11", Rule: "Running code learns of a cancel through its context within a heartbeat; the run ends canceled, with the reason.", Run: func(e *E) {
		begun := make(chan struct{}, 1)
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			err := workflow.Do(ctx, "long", func(ctx context.Context) error {
				begun <- struct{}{}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if !errors.Is(err, workflow.ErrCanceled) {
				return 0, fmt.Errorf("the step's error is %v", err)
			}
			if err := workflow.Sleep(ctx, "more", time.Second); !errors.Is(err, workflow.ErrCanceled) {
				return 0, fmt.Errorf("the next operation's error is %v", err)
			}
			return 0, err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the step", begun)
		from := time.Now()
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "not wanted"))
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrCanceled), "saw %v", err)
		e.eq("code and message", []string{err.(*engine.RunError).Failure.Code, err.(*engine.RunError).Failure.Message}, []string{workflow.CodeCanceled, "not wanted"})
		if e.h.Bubble {
			e.check(time.Since(from) <= leaseFor/3+time.Second, "it took %v", time.Since(from))
		}
		e.check(errors.Is(e.eng.Cancel(e.ctx, store.NewID(), ""), store.ErrNotFound), "cancel of an unknown run succeeded")
	}},
	{Name: "cancel/completion-stands", Promise: "P11", Rule: "A run that completes although it was canceled is completed.", Run: func(e *E) {
		begun := make(chan struct{}, 1)
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			_ = workflow.Do(ctx, "long", func(ctx context.Context) error {
				begun <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			})
			return 9, nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the step", begun)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), ""))
		e.eq("output", result(e, h), 9)
		e.check(errors.Is(e.eng.Cancel(e.ctx, h.ID(), ""), store.ErrFinished), "a completed run was canceled")
	}},
	{Name: "workers/share", Promise: "P1", Rule: "Several workers share the runs; each run executes once and each worker gets some.", Run: func(e *E) {
		var mu sync.Mutex
		by := map[string][]int{}
		flow := func(name string) workflow.Definition {
			return workflow.New("wf", func(ctx workflow.Context, i int) (int, error) {
				return workflow.Step(ctx, "work", func(context.Context) (int, error) {
					mu.Lock()
					defer mu.Unlock()
					by[name] = append(by[name], i)
					return i, nil
				})
			})
		}
		wf := flow("client").(*workflow.Workflow[int, int])
		bridge.Of(e.eng).Know("wf", "wf")
		hs := startN(e, wf, 1000)
		for _, name := range []string{"a", "b", "c"} {
			e.process(defs(flow(name)))
		}
		results(e, hs)
		mu.Lock()
		defer mu.Unlock()
		var all []int
		for name, got := range by {
			e.check(len(got) > 30, "worker %s executed %d of 1,000 runs", name, len(got))
			all = append(all, got...)
		}
		slices.Sort(all)
		e.eq("executed runs", len(all), 1000)
		e.eq("different ones", len(slices.Compact(all)), 1000)
	}},
	{Name: "workers/register", Promise: "P16", Rule: "A wrong definition is refused with an error that says what to do.", Run: func(e *E) {
		ok := workflow.New("ok", func(workflow.Context, int) (int, error) { return 0, nil })
		for what, list := range map[string][]workflow.Definition{
			"the same name twice": {ok, ok},
			"no function":         {workflow.New[int, int]("none", nil)},
			"an empty name":       {workflow.New("", func(workflow.Context, int) (int, error) { return 0, nil })},
			"a bad queue":         {workflow.New("q", func(workflow.Context, int) (int, error) { return 0, nil }, workflow.Queue("a\nb"))},
			"nil":                 {nil},
		} {
			w := worker.New(e.eng)
			err := w.Register(list...)
			e.check(err != nil, "%s was registered", what)
			e.check(err != nil && w.Run(e.ctx) != nil, "%s: the worker ran all the same", what)
		}
		e.check(worker.New(e.eng).Run(e.ctx) != nil, "a worker without workflows ran")
	}},
}

var startEngineCases = []Case{
	{Name: "start/external-id", Promise: "P8", Rule: "Starts with the same external id create one run. The other starts return that run and report it as existing.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Sleep(ctx, "nap", e.d(time.Minute))
		})
		p := e.process(defs(wf))
		var wg sync.WaitGroup
		hs := make([]workflow.Handle[int], 20)
		for i := range hs {
			wg.Go(func() {
				h, err := wf.Start(e.ctx, []*engine.Engine{e.eng, p.eng}[i%2], i, engine.ExternalID("order-1", engine.WhileActive), engine.AnyInput())
				if err != nil {
					e.Errorf("start: %v", err)
				}
				hs[i] = h
			})
		}
		wg.Wait()
		made := 0
		for _, h := range hs {
			e.eq("run", h.ID(), hs[0].ID())
			if !h.Existing() {
				made++
			}
		}
		e.eq("starts that made a run", made, 1)
		result(e, hs[0])
		again := start(e, wf, 1, engine.ExternalID("order-1", engine.WhileActive))
		e.check(!again.Existing() && again.ID() != hs[0].ID(), "a finished run still holds its external id")
		other := start(e, wf, 1, engine.ExternalID("order-1"), engine.Suffix("2"))
		e.check(!other.Existing(), "another suffix is another run")
		found, err := e.eng.Find(e.ctx, "order-1")
		e.ok("find", err)
		e.eq("found run", found.ID, again.ID())
	}},
	{Name: "start/for-ever", Promise: "P8", Rule: "engine.ExternalID starts one run for as long as that run is kept: programs that start it again find it, before and after its end, and nothing is done twice.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in string) (string, error) {
			return workflow.Step(ctx, "charge", func(context.Context) (string, error) { return fmt.Sprint(in, ran.add(in)), nil })
		})
		p := e.process(defs(wf))
		var first workflow.Handle[string]
		for i := range 3 {
			eng := []*engine.Engine{p.eng, e.eng}[i%2] // p.eng leases the run as it makes it
			h, err := wf.Start(e.ctx, eng, "lamp", engine.ExternalID("order-42"))
			e.ok("start", err)
			e.eq("Existing", h.Existing(), i > 0)
			e.eq("output", result(e, h), "lamp1")
			if i == 0 {
				first = h
			}
			e.eq("run", h.ID(), first.ID())
		}
		hs, err := wf.StartMany(e.ctx, e.eng, []workflow.Each[string]{
			{In: "lamp", Options: []engine.StartOption{engine.ExternalID("order-42")}}, {In: "desk", Options: []engine.StartOption{engine.ExternalID("order-43")}}})
		e.ok("start of many", err)
		e.eq("outputs", results(e, hs), []string{"lamp1", "desk1"})
		e.eq("Existing", []bool{hs[0].Existing(), hs[1].Existing()}, []bool{true, false})
		e.eq("executions", []int{ran.get("lamp"), ran.get("desk")}, []int{1, 1})
		n, err := e.s.Purge(e.ctx, store.PurgeParams{Namespace: "engine"})
		e.ok("Purge", err)
		e.eq("runs purged", n, 2)
		h := start(e, wf, "lamp", engine.ExternalID("order-42"))
		e.eq("Existing behind the purge", h.Existing(), false)
		e.eq("output behind the purge", result(e, h), "lamp2")
	}},
	{Name: "start/conflict", Promise: "P8", Rule: "A start with the id of a run of another workflow or input fails with ErrConflict, and a start with Reject fails with ErrAlreadyExists. Both errors name the id.", Run: func(e *E) {
		type order struct {
			Item string
			N    int
		}
		wf := workflow.New("wf", func(ctx workflow.Context, in order) (int, error) {
			if in.Item == "sofa" {
				return in.N, workflow.Sleep(ctx, "nap", e.d(time.Hour))
			}
			return in.N, nil
		})
		other := workflow.New("other", func(ctx workflow.Context, in order) (int, error) { return 0, nil })
		e.process(defs(wf, other))
		id := store.NewID()
		for _, opts := range [][]engine.StartOption{{engine.ExternalID("order-1")}, {engine.ExternalID("order-2", engine.Reject)}, {engine.RunID(id)}} {
			e.eq("output", result(e, start(e, wf, order{"lamp", 7}, opts...)), 7)
		}
		start(e, wf, order{"sofa", 7}, engine.ExternalID("active", engine.WhileActive))
		for _, tt := range []struct {
			item string
			opt  engine.StartOption
		}{
			{"lamp", engine.ExternalID("order-1")}, {"lamp", engine.ExternalID("order-1", engine.WhileActive)}, {"lamp", engine.ExternalID("order-1", engine.Reject)},
			{"lamp", engine.RunID(id)}, {"sofa", engine.ExternalID("active", engine.WhileActive)},
		} {
			_, err := wf.Start(e.ctx, e.eng, order{tt.item, 8}, tt.opt)
			e.says("another input", err, store.ErrConflict, "another input")
			_, err = other.Start(e.ctx, e.eng, order{tt.item, 7}, tt.opt)
			e.says("another workflow", err, store.ErrConflict, `"wf"`, `"other"`)
			_, err = other.Start(e.ctx, e.eng, order{tt.item, 7}, tt.opt, engine.AnyInput())
			e.says("another workflow with any input", err, store.ErrConflict, `"wf"`)
		}
		_, err := wf.Start(e.ctx, e.eng, order{"lamp", 7}, engine.ExternalID("order-1", engine.Reject))
		e.says("a start that is to be the first", err, store.ErrAlreadyExists, `"order-1"`)
		_, err = wf.Start(e.ctx, e.eng, order{"lamp", 7}, engine.ExternalID("order-3", 9))
		e.says("no such policy", err, store.ErrInvalid, "policy")
		again := start(e, wf, order{"lamp", 8}, engine.ExternalID("order-1"), engine.AnyInput())
		e.eq("with any input: existing, output", []any{again.Existing(), result(e, again)}, []any{true, 7})
		spaced, err := e.eng.Start(e.ctx, "wf", []byte(`{ "Item": "lamp", "N": 7 }`), engine.ExternalID("order-2"))
		e.ok("the same input written otherwise", err)
		e.check(spaced.Existing, "the same input written otherwise made another run")
		elsewhere := engine.New(e.s, engine.Namespace("elsewhere"), engine.Logger(quiet), engine.Require(engine.RequireNothing))
		defer elsewhere.Close()
		there, err := elsewhere.Start(e.ctx, "other", nil, engine.ExternalID("order-1"))
		e.ok("the same id in another namespace", err)
		e.check(!there.Existing, "another namespace has the id")
	}},
	{Name: "start/many", Promise: "P4", Rule: "The results of StartMany and Results are in the order of the inputs. Starting the runs again with their ids creates none.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, i int) (int, error) { return i * i, nil })
		p := e.process(defs(wf), worker.Concurrency(50))
		each := make([]workflow.Each[int], 2500)
		root := store.NewID()
		for i := range each {
			each[i] = workflow.Each[int]{In: i, Options: []engine.StartOption{engine.RunID(store.DeriveID(root, fmt.Sprint(i)))}}
		}
		for range 2 {
			hs, err := wf.StartMany(e.ctx, p.eng, each)
			e.ok("start many", err)
			for i, v := range results(e, hs) {
				if v != i*i {
					e.Fatalf("result %d is %d", i, v)
				}
			}
		}
		n, err := e.eng.Count(e.ctx, store.RunFilter{})
		e.ok("count", err)
		e.eq("runs", n, []store.RunCount{{Queue: "wf", Workflow: "wf", Status: store.Completed, Count: 2500}})
	}},
	{Name: "start/unknown-workflow", Promise: "P16", Rule: "A start of a workflow that no worker has registered fails at once and says what to do; any registered one may be started from anywhere.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		_, err := wf.Start(e.ctx, e.eng, 1)
		e.check(errors.Is(err, engine.ErrUnknownWorkflow), "saw %v", err)
		lax := engine.New(e.s, engine.Namespace("engine"), engine.Require(engine.RequireNothing), engine.Logger(quiet))
		defer lax.Close()
		h, err := wf.Start(e.ctx, lax, 2)
		e.ok("start without the check", err)
		e.process(defs(wf))
		e.eq("output", result(e, h), 2)
		other := engine.New(e.s, engine.Namespace("engine"), engine.Logger(quiet))
		defer other.Close()
		h, err = wf.Start(e.ctx, other, 3)
		e.ok("start from a process without a worker", err)
		e.eq("output", result(e, h), 3)
	}},
	{Name: "start/delayed", Promise: "P13", Rule: "A delayed run does not begin before its time.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (time.Time, error) { return workflow.Now(ctx, "now") })
		e.process(defs(wf))
		h := start(e, wf, 0, engine.Delay(e.d(time.Minute)))
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		began := result(e, h)
		e.check(!began.Before(run.CreatedAt.Add(e.d(time.Minute)).Truncate(time.Millisecond)), "it was made at %v and began at %v", run.CreatedAt, began)
	}},
	{Name: "start/priority", Promise: "P7", Rule: "Runs of higher priority go first, equal ones in the order of their starts.", Run: func(e *E) {
		var mu sync.Mutex
		var order []int
		wf := workflow.New("wf", func(ctx workflow.Context, i int) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, i)
			return i, nil
		})
		bridge.Of(e.eng).Know("wf", "wf")
		var hs []workflow.Handle[int]
		for i, p := range []int{0, 5, -3, 5, 0} {
			hs = append(hs, start(e, wf, i, engine.Priority(p)))
		}
		e.process(defs(wf), worker.Concurrency(1))
		results(e, hs)
		e.eq("order", order, []int{1, 3, 0, 4, 2})
	}},
	{Name: "start/eager", Promise: "P1", Rule: "A start whose own process has a free slot executes there, once, and the run survives the process.", Run: func(e *E) {
		begun := make(chan string, 10)
		flow := func(name string) *workflow.Workflow[int, string] {
			return workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
				return workflow.Step(ctx, "where", func(ctx context.Context) (string, error) {
					begun <- name
					if name == "a" {
						<-ctx.Done()
						return "", ctx.Err()
					}
					return name, nil
				})
			})
		}
		p := e.process(defs(flow("a")))
		h, err := flow("a").Start(e.ctx, p.eng, 0)
		e.ok("start", err)
		e.eq("first execution", receive(e, "the step", begun), "a")
		p.kill()
		e.process(defs(flow("b")))
		e.eq("output", result(e, flow("b").Handle(e.eng, h.ID())), "b")
	}},
	{Name: "start/namespaces", Promise: "P15", Rule: "Engines of different namespaces do not see each other's runs.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		e.process(defs(wf))
		h := start(e, wf, 1, engine.ExternalID("x"))
		result(e, h)
		other := engine.New(e.s, engine.Namespace("other"), engine.Logger(quiet))
		defer other.Close()
		_, err := wf.Start(e.ctx, other, 1)
		e.check(errors.Is(err, engine.ErrUnknownWorkflow), "the other namespace knows the workflow: %v", err)
		_, err = wf.Handle(other, h.ID()).Result(e.ctx)
		e.check(errors.Is(err, store.ErrNotFound), "the other namespace sees the run: %v", err)
	}},
	{Name: "await/context", Promise: "P16", Rule: "An abandoned wait says which run it waited for; the run continues.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Sleep(ctx, "nap", e.d(time.Minute))
		})
		e.process(defs(wf))
		h := start(e, wf, 1)
		ctx, cancel := context.WithTimeout(e.ctx, e.d(time.Second))
		defer cancel()
		_, err := h.Result(ctx)
		e.check(errors.Is(err, context.DeadlineExceeded), "saw %v", err)
		e.eq("output", result(e, h), 1)
		canceled, stop := context.WithCancel(e.ctx)
		stop()
		_, err = wf.Start(canceled, e.eng, 1)
		e.check(errors.Is(err, context.Canceled), "start with a canceled context: saw %v", err)
	}},
}
