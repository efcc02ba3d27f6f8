package enginetier

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// A house is where runs that kill their process live together with others: one process at a time,
// and a new one when it has died.
type house struct {
	e    *E
	opts []worker.Option
	defs []workflow.Definition

	mu    sync.Mutex
	lives *proc
	dead  chan struct{} // gets a value when lives was killed
	kills int
}

func newHouse(e *E, defs []workflow.Definition, opts ...worker.Option) *house {
	return &house{e: e, defs: defs, opts: opts, dead: make(chan struct{}, 1)}
}

// die ends the living process, as a run in it would.
func (h *house) die() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lives != nil {
		h.lives.kill()
		h.lives = nil
		h.kills++
		h.dead <- struct{}{}
	}
}

func (h *house) deaths() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kills
}

// until keeps a process alive until done closes.
func (h *house) until(done <-chan struct{}) {
	for {
		p := h.e.build(h.defs, h.opts...)
		h.mu.Lock()
		h.lives = p
		p.run()
		h.mu.Unlock()
		select {
		case <-h.dead:
			go p.bury()
		case <-done:
			return
		case <-h.e.ctx.Done():
			h.e.Fatalf("the runs did not end; %d processes have died", h.deaths())
		}
	}
}

// poison is a workflow that ends its process after a while.
func (h *house) poison(name string, after time.Duration) *workflow.Workflow[int, int] {
	return workflow.New(name, func(ctx workflow.Context, in int) (int, error) {
		return in, workflow.Do(ctx, "kills", func(ctx context.Context) error {
			if err := works(ctx, after); err != nil {
				return err
			}
			h.die()
			<-ctx.Done()
			return ctx.Err()
		})
	}, workflow.Queue("house"))
}

// works takes its time, as long as the step may continue.
func works(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// allFinal returns a channel that closes when all runs are final.
func allFinal[Out any](e *E, hs ...workflow.Handle[Out]) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, h := range hs {
			_, _ = h.Result(e.ctx)
		}
	}()
	return done
}

// crashed checks that a run has failed because it kills its worker.
func (e *E) crashed(h workflow.Handle[int]) {
	e.Helper()
	_, err := h.Result(e.ctx)
	e.eq("code of the poisonous run", workflow.ErrorCode(err), workflow.CodeCrashed)
}

var suspectEngineCases = []Case{
	{Name: "suspect/healthy-neighbors", Promise: "P6", Rule: "Runs that kill their process fail, and the runs beside them do not.", Run: func(e *E) {
		for _, poisons := range []int{1, 3} {
			var ran tally
			h := newHouse(e, nil, worker.MaxCrashes(4), worker.Concurrency(30))
			kills := h.poison(fmt.Sprint("poison-", poisons), e.d(3*time.Second))
			healthy := workflow.New(fmt.Sprint("healthy-", poisons), func(ctx workflow.Context, in int) (int, error) {
				sum := 0
				for _, name := range []string{"one", "two"} {
					n, err := workflow.Step(ctx, name, func(sctx context.Context) (int, error) {
						if err := works(sctx, e.d(4*time.Second)); err != nil {
							return 0, err
						}
						ran.add(workflow.IdempotencyKey(sctx))
						return in, nil
					}, workflow.Attempts(1))
					if err != nil {
						return 0, err
					}
					sum += n
				}
				return sum, nil
			}, workflow.Queue("house"))
			h.defs = defs(kills, healthy)
			e.build(h.defs)
			var bad, good []workflow.Handle[int]
			for i := range 10 {
				if i < poisons {
					bad = append(bad, start(e, kills, i))
				}
				good = append(good, start(e, healthy, i))
			}
			h.until(allFinal(e, append(bad, good...)...))
			for i, out := range results(e, good) {
				e.eq("output", out, 2*i)
				for _, name := range []string{"one", "two"} {
					e.check(ran.get(good[i].ID().String()+"/"+store.StepKey{Name: name, Occurrence: 1}.String()) > 0, "step %s of run %d was not done", name, i)
				}
			}
			for _, b := range bad {
				e.crashed(b)
			}
			if e.h.Bubble && poisons == 1 {
				e.eq("deaths", h.deaths(), 5)
			}
			h.lives.stop()
		}
	}},
	{Name: "suspect/one-at-a-time", Promise: "P6", Rule: "Of the runs whose leases expired twice in a row, a worker executes one at a time beside other runs, until it makes progress. Each of them gets its turn.", Run: func(e *E) {
		const n = 12
		var ran tally
		began := make(chan struct{}, 10*n)
		killed := true
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "first", func(ctx context.Context) error {
				if killed {
					began <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}
				if at := ran.add("suspects"); at > 1 {
					e.Errorf("%d suspects are executed at the same time", at)
				}
				defer ran.drop("suspects")
				return works(ctx, e.d(2*time.Second))
			})
		}, workflow.Queue("house"))
		fresh := workflow.New("fresh", func(ctx workflow.Context, in int) (int, error) { return in, nil }, workflow.Queue("house"))
		e.build(defs(wf, fresh))
		hs := startN(e, wf, n)
		for range 2 {
			p := e.process(defs(wf, fresh), worker.Concurrency(n))
			for range n {
				receive(e, "a step", began)
			}
			p.kill()
			<-p.done
		}
		killed = false
		e.process(defs(wf, fresh), worker.Concurrency(n))
		first := allFinal(e, hs...)
		for over := false; !over; {
			e.eq("a run beside them", result(e, start(e, fresh, 1)), 1)
			select {
			case <-first:
				over = true
			default:
				pause(e)
			}
		}
		for i, out := range results(e, hs) {
			e.eq("output", out, i)
		}
	}},
	{Name: "suspect/explained", Promise: "P16", Rule: "Explain says so if a run waits as a suspect.", Run: func(e *E) {
		release := make(chan struct{})
		type start struct {
			process int64
			run     int
		}
		began := make(chan start, 100)
		var process atomic.Int64
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "first", func(ctx context.Context) error {
				began <- start{process.Load(), in}
				select {
				case <-release:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
		e.build(defs(wf))
		// Their turns pass one after the other. There are so many that one waits for a while.
		const runs = 6
		hs := startN(e, wf, runs)
		// No run may fail, however often its leases expire on a slow machine.
		crashes := worker.MaxCrashes(1000)
		for range 2 {
			process.Add(1)
			p := e.process(defs(wf), crashes)
			// On a slow machine one begins twice before the others begin.
			for all := map[int]bool{}; len(all) < runs; {
				if s := receive(e, "a step", began); s.process == process.Load() {
					all[s.run] = true
				}
			}
			p.kill()
		}
		// On a slow machine all of them may have had their turns before Explain has seen one wait. They
		// wait again in the next process.
		for found := false; !found; {
			process.Add(1)
			p := e.process(defs(wf), crashes)
			all := map[int]bool{}
			for len(all) == 0 {
				if s := receive(e, "the step of one of them", began); s.process == process.Load() {
					all[s.run] = true
				}
			}
			for !found && len(all) < runs {
				for _, h := range hs {
					x, err := e.eng.Explain(e.ctx, h.ID())
					e.ok("explain", err)
					if x.Reason == engine.ReasonSuspect {
						found = true
						e.saysOf("suspect", &x, h.ID().String(), "waits as a suspect", "one at a time", "times in a row")
						e.check(!x.Until.IsZero(), "it is not said until when it waits")
					}
				}
				select {
				case s := <-began:
					if s.process == process.Load() {
						all[s.run] = true
					}
				default:
					pause(e)
				}
			}
			if !found {
				p.kill()
			}
		}
		close(release)
		results(e, hs)
	}},
	{Name: "suspect/last-chance-is-alone", Promise: "P6", Rule: "Before a run fails because it kills its worker, it is executed alone. The other runs continue as soon as it makes progress.", Run: func(e *E) {
		var ran tally
		began, chance := make(chan struct{}, 100), make(chan struct{}, 100)
		dying := true
		beside := func(ctx context.Context, name string) error {
			if ran.add("now") > 1 && (name == "last" || ran.get("last") > 0) {
				e.Errorf("the run is not executed alone")
			}
			defer ran.drop("now")
			return works(ctx, e.d(time.Second))
		}
		last := workflow.New("last", func(ctx workflow.Context, in int) (int, error) {
			for _, name := range []string{"first", "second"} {
				if err := workflow.Do(ctx, name, func(ctx context.Context) error {
					if dying {
						began <- struct{}{}
						<-ctx.Done()
						return ctx.Err()
					}
					if name == "first" {
						ran.add("last")
						defer ran.drop("last")
						chance <- struct{}{}
						return beside(ctx, "last")
					}
					return nil
				}); err != nil {
					return 0, err
				}
			}
			return in, nil
		}, workflow.Queue("house"))
		other := workflow.New("other", func(ctx workflow.Context, in int) (int, error) {
			for i := range 5 {
				if err := workflow.Do(ctx, fmt.Sprint("step-", i), func(ctx context.Context) error { return beside(ctx, "other") }); err != nil {
					return 0, err
				}
			}
			return in, nil
		}, workflow.Queue("house"))
		h := startBefore(e, last, other)
		for range 3 {
			p := e.process(defs(last, other), worker.MaxCrashes(3))
			receive(e, "a step", began)
			p.kill()
			<-p.done
		}
		dying = false
		p := e.process(defs(last, other), worker.MaxCrashes(3))
		var others []workflow.Handle[int]
		for done := allFinal(e, h); ; {
			local, err := other.Start(e.ctx, p.eng, 7) // eagerly, where it can
			e.ok("start", err)
			others = append(others, local, start(e, other, 7))
			timer := time.NewTimer(e.d(3 * time.Second))
			select {
			case <-chance: // the next eager start can happen now
			case <-done:
				timer.Stop()
				e.eq("output", result(e, h), 0)
				for _, out := range results(e, others) {
					e.eq("output of others", out, 7)
				}
				return
			case <-timer.C:
			}
		}
	}},
	{Name: "suspect/not-for-its-neighbors", Promise: "P6", Rule: "A run that works long beside one fresh poisonous run after the other does not fail, and completes once it is executed alone.", Run: func(e *E) {
		h := newHouse(e, nil, worker.MaxCrashes(2))
		kills := h.poison("poison", e.d(time.Second))
		long := workflow.New("long", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "work", func(ctx context.Context) error { return works(ctx, e.d(5*time.Second)) })
		}, workflow.Queue("house"))
		h.defs = defs(kills, long)
		e.build(h.defs)
		for h.deaths() < 3 { // on a busy machine a run may end before a process has died beside it
			healthy := start(e, long, 3)
			done := allFinal(e, healthy)
			stopped := make(chan struct{})
			go func() { // a new one whenever the long run has continued as new
				defer close(stopped)
				for {
					if _, err := kills.Start(e.ctx, e.eng, 0); err != nil {
						return
					}
					timer := time.NewTimer(e.d(7 * time.Second))
					select {
					case <-done:
						timer.Stop()
						return
					case <-timer.C:
					}
				}
			}()
			h.until(stopped)
			e.eq("output", result(e, healthy), 3)
		}
	}},
	{Name: "suspect/death-before-execution", Promise: "P6", Rule: "A run whose workers die again and again when they have claimed it, and before they execute it, does not fail.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "work", func(ctx context.Context) error {
				ran.add("work")
				return works(ctx, e.d(time.Second))
			})
		})
		h := startBefore(e, wf)
		for range 8 {
			p := e.build(defs(wf), worker.MaxCrashes(2))
			dead := p.wire.dieAt("commit", 1, false)
			p.run()
			receive(e, "the first commit of the worker", dead)
			p.kill()
			<-p.done
		}
		e.process(defs(wf), worker.MaxCrashes(2))
		e.eq("output", result(e, h), 0)
	}},
}
