package enginetier

import (
	"context"
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

// double is a child that returns twice its input.
var double = workflow.New("double", func(_ workflow.Context, n int) (int, error) { return 2 * n, nil })

// children lists the runs of a parent.
func (e *E) children(parent store.ID) []store.Run {
	e.Helper()
	page, err := e.eng.List(e.ctx, store.RunFilter{Parent: parent}, "", store.MaxPage)
	e.ok("list of children", err)
	return page.Runs
}

// statuses counts the runs of a parent by status.
func (e *E) statuses(parent store.ID) map[store.Status]int {
	e.Helper()
	n := map[store.Status]int{}
	for _, r := range e.children(parent) {
		n[r.Status]++
	}
	return n
}

// settled is statuses once no child is canceling: a child that has recorded something is claimed
// before it is canceled, and its parent does not wait for that.
func (e *E) settled(parent store.ID) map[store.Status]int {
	e.Helper()
	for {
		n := e.statuses(parent)
		if n[store.Canceling] == 0 {
			return n
		}
		pause(e)
	}
}

// hold is a child that waits until it may continue.
func hold(name string) *workflow.Workflow[int, int] {
	return workflow.New(name, func(ctx workflow.Context, n int) (int, error) {
		_, err := word.Receive(ctx)
		return n, err
	})
}

// again makes a workflow's function be replayed.
func again(e *E, ctx workflow.Context, name string) error {
	return workflow.Sleep(ctx, name, e.d(10*time.Second))
}

// turnOf returns how many runs have called it before, once for each.
func turnOf(ctx workflow.Context, ran *tally, name string) (int, error) {
	return workflow.Step(ctx, "turn", func(context.Context) (int, error) { return ran.add(name), nil })
}

var childEngineCases = []Case{
	{Name: "child/result", Promise: "P9", Rule: "A child's output comes back typed, live and replayed; its parent holds no slot while it waits, and wakes once.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, n int) ([]int, error) {
			a, err := workflow.Child(ctx, "twice", double, n)
			if err != nil {
				return nil, err
			}
			if err := again(e, ctx, "nap"); err != nil {
				return nil, err
			}
			b, err := workflow.Child(ctx, "twice", double, a)
			return []int{a, b}, err
		})
		e.process(defs(wf, double), worker.Concurrency(1), worker.Lease(leaseFor))
		h := start(e, wf, 5)
		e.eq("outputs", result(e, h), []int{10, 20})
		kids := e.children(h.ID())
		e.eq("children", len(kids), 2)
		for _, k := range kids {
			e.eq("parent", k.Parent, h.ID())
			e.eq("workflow", k.Workflow, "double")
		}
		steps := e.steps(h.ID())
		e.eq("kind and status", fmt.Sprint(steps["twice#2"].Kind, steps["twice#2"].Status), "child completed")
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.check(run.Epoch <= 4, "the parent was claimed %d times for two children and a sleep", run.Epoch)
	}},
	{Name: "child/failed", Promise: "P9", Rule: "A child that failed gives an error with its id and failure, the same live and replayed, and matched by engine.ErrFailed.", Run: func(e *E) {
		bad := workflow.New("bad", func(workflow.Context, int) (int, error) {
			return 0, workflow.Coded("no-stock", errors.New("none left"))
		})
		var seen []string
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (string, error) {
			_, err := workflow.Child(ctx, "buy", bad, n)
			var re *engine.RunError
			if !errors.As(err, &re) || !errors.Is(err, engine.ErrFailed) || errors.Is(err, engine.ErrCanceled) || re.Workflow != "bad" {
				return "", fmt.Errorf("saw %T %w", err, err)
			}
			seen = append(seen, fmt.Sprint(re.Run, workflow.ErrorCode(err), err))
			return re.Run.String(), again(e, ctx, "nap")
		})
		e.process(defs(wf, bad))
		h := start(e, wf, 5)
		id := result(e, h)
		e.eq("the child", id, e.children(h.ID())[0].ID.String())
		e.check(len(seen) == 2 && seen[0] == seen[1] && strings.Contains(seen[0], "no-stock") && strings.Contains(seen[0], "none left"), "the error was, live and replayed: %q", seen)
	}},
	{Name: "child/canceled", Promise: "P11", Rule: "A child that somebody cancels gives its parent an error matched by engine.ErrCanceled, not the parent's own ErrCanceled.", Run: func(e *E) {
		kid := hold("kid")
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (bool, error) {
			_, err := workflow.Child(ctx, "kid", kid, n)
			if !errors.Is(err, engine.ErrCanceled) || !strings.Contains(err.Error(), "not needed") {
				return false, fmt.Errorf("saw %w", err)
			}
			return errors.Is(err, workflow.ErrCanceled), again(e, ctx, "nap")
		})
		e.process(defs(wf, kid))
		h := start(e, wf, 5)
		for len(e.children(h.ID())) == 0 {
			pause(e)
		}
		e.ok("cancel", e.eng.Cancel(e.ctx, e.children(h.ID())[0].ID, "not needed"))
		e.eq("matches the parent's own", result(e, h), false)
	}},
	{Name: "child/any-order", Promise: "P9", Rule: "Children that were started first are waited for in any order, more than once, and in branches.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, n int) ([]int, error) {
			var runs []*workflow.ChildRun[int]
			for i := range n {
				c, err := workflow.StartChild(ctx, "twice", double, i)
				if err != nil {
					return nil, err
				}
				runs = append(runs, c)
			}
			out := make([]int, n)
			for i := n - 1; i >= n/2; i-- {
				v, err := runs[i].Get(ctx)
				if err != nil {
					return nil, err
				}
				out[i] = v
			}
			if err := again(e, ctx, "nap"); err != nil {
				return nil, err
			}
			g := workflow.NewGroup(ctx)
			for i := range n { // the later ones again
				g.Go("wait", func(ctx workflow.Context) (err error) {
					out[i], err = runs[i].Get(ctx)
					return err
				})
			}
			return out, g.Wait()
		})
		e.process(defs(wf, double))
		e.process(defs(wf, double))
		h := start(e, wf, 8)
		e.eq("outputs", result(e, h), []int{0, 2, 4, 6, 8, 10, 12, 14})
		e.eq("children", len(e.children(h.ID())), 8)
	}},
	{Name: "child/many-before-the-first-wait", Promise: "P3", Rule: "A run may start more children than one commit carries before it waits for any.", Run: func(e *E) {
		const n = 700
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			for i := range n {
				if _, err := workflow.StartChild(ctx, "off", double, i, workflow.Detach()); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), n)
		counts, err := e.eng.Count(e.ctx, store.RunFilter{Workflow: "double"})
		e.ok("count", err)
		e.eq("children", counts, []store.RunCount{{Queue: "double", Workflow: "double", Status: store.Pending, Count: n}})
	}},
	{Name: "child/end-seen-while-awake", Promise: "P5", Rule: "A branch that waits for a child continues soon after the child's end, even while another branch works.", Run: func(e *E) {
		got := make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			f := workflow.Go(ctx, "waiter", func(ctx workflow.Context) (int, error) {
				v, err := workflow.Child(ctx, "twice", double, n)
				if err == nil {
					close(got)
				}
				return v, err
			})
			if err := workflow.Do(ctx, "work", func(ctx context.Context) error {
				select {
				case <-got:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}); err != nil {
				return 0, err
			}
			return f.Get(ctx)
		})
		e.process(defs(wf, double))
		from := time.Now()
		e.eq("output", result(e, start(e, wf, 4)), 8)
		if e.h.Bubble {
			e.check(time.Since(from) < 5*time.Second, "it took %v", time.Since(from))
		}
	}},
	{Name: "child/spawned-once", Promise: "P4", Rule: "A parent that is killed at any commit or claim starts its child once.", Run: func(e *E) {
		kid := workflow.New("kid", func(ctx workflow.Context, n int) (int, error) {
			return workflow.Step(ctx, "s", func(context.Context) (int, error) { return n + 1, nil })
		})
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			for range 3 {
				var err error
				if n, err = workflow.Child(ctx, "kid", kid, n); err != nil {
					return 0, err
				}
				if err = workflow.Do(ctx, "note", func(context.Context) error { return nil }); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
		h := startBefore(e, wf, kid)
		e.process(defs(kid))
		for i := range 8 {
			p := e.process(defs(wf), worker.MaxCrashes(100))
			select {
			case <-p.wire.dieAt("commit", 1+i%3, i%2 == 0):
				p.kill()
			case <-e.ended(h.ID()):
			}
		}
		e.process(defs(wf), worker.MaxCrashes(100))
		e.eq("output", result(e, h), 3)
		e.eq("children", e.statuses(h.ID()), map[store.Status]int{store.Completed: 3})
	}},
	{Name: "child/follows-its-parent", Promise: "P11", Rule: "When its parent is canceled or ends, a child follows by its close policy; the parent's code learns of a cancel by ErrCanceled.", Run: func(e *E) {
		kid := hold("kid")
		var heard = make(chan error, 1)
		wf := workflow.New("wf", func(ctx workflow.Context, ends bool) (int, error) {
			mine, err := workflow.StartChild(ctx, "mine", kid, 1)
			if err != nil {
				return 0, err
			}
			if _, err := workflow.StartChild(ctx, "abandoned", kid, 2, workflow.OnParentClose(store.CloseAbandon)); err != nil {
				return 0, err
			}
			if _, err := workflow.StartChild(ctx, "detached", kid, 3, workflow.Detach()); err != nil {
				return 0, err
			}
			if ends {
				return 0, nil
			}
			if err := workflow.Do(ctx, "work", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }); err == nil {
				return 0, errors.New("the step ended")
			}
			_, err = mine.Get(ctx)
			heard <- err
			return 0, err
		})
		p := e.process(defs(wf, kid))
		for _, ends := range []bool{true, false} {
			h, err := wf.Start(e.ctx, p.eng, ends)
			e.ok("start", err)
			if ends {
				result(e, h)
			} else {
				for len(e.children(h.ID())) < 3 {
					pause(e)
				}
				e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
				e.check(errors.Is(receive(e, "the end of the wait", heard), workflow.ErrCanceled), "the wait for the child ended without ErrCanceled")
				_, err := h.Result(e.ctx)
				e.check(errors.Is(err, engine.ErrCanceled), "saw %v", err)
			}
			for e.settled(h.ID())[store.Canceled] == 0 {
				pause(e)
			}
			for _, k := range e.children(h.ID()) {
				if k.OnClose == store.CloseAbandon {
					send(e, word, k.ID, "go on")
				} else {
					e.eq("status of the child that is to follow", k.Status, store.Canceled)
				}
			}
			for e.statuses(h.ID())[store.Completed] < 2 {
				pause(e)
			}
		}
	}},
	{Name: "child/tried-again", Promise: "P9", Rule: "A run that is tried again after its child failed starts another child; the one that completed stays.", Run: func(e *E) {
		var ran tally
		kid := workflow.New("kid", func(_ workflow.Context, n int) (int, error) {
			if ran.add(fmt.Sprint(n)) < n {
				return 0, fmt.Errorf("not yet")
			}
			return n, nil
		})
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			sum := 0
			for _, n := range []int{1, 3} {
				v, err := workflow.Child(ctx, "kid", kid, n)
				if err != nil {
					return 0, err
				}
				sum += v
			}
			return sum, nil
		}, workflow.RunAttempts(5), workflow.RunBackoff(e.d(time.Second), 1, 0))
		e.process(defs(wf, kid))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), 4)
		e.eq("children", e.statuses(h.ID()), map[store.Status]int{store.Completed: 2, store.Failed: 2})
	}},
	{Name: "child/forgotten", Promise: "P11", Rule: "When a run is tried again, the children of steps that it forgets are canceled before others are started in their place.", Run: func(e *E) {
		var ran tally
		begun := make(chan struct{})
		var once sync.Once
		bad := workflow.New("bad", func(_ workflow.Context, n int) (int, error) {
			if ran.add("bad") == 1 {
				<-begun
				return 0, errors.New("bad")
			}
			return n, nil
		})
		kid := workflow.New("kid", func(ctx workflow.Context, n int) (int, error) {
			turn, err := turnOf(ctx, &ran, "kid")
			once.Do(func() { close(begun) })
			if err == nil && turn == 1 {
				_, err = word.Receive(ctx) // never comes
			}
			return n, err
		})
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			first, err := workflow.StartChild(ctx, "bad", bad, 1)
			if err != nil {
				return 0, err
			}
			second, err := workflow.StartChild(ctx, "kid", kid, 2)
			if err != nil {
				return 0, err
			}
			if _, err := workflow.StartChild(ctx, "free", kid, 7, workflow.OnParentClose(store.CloseAbandon), workflow.ChildDelay(e.d(time.Hour))); err != nil {
				return 0, err
			}
			if _, err := first.Get(ctx); err != nil {
				return 0, err
			}
			return second.Get(ctx)
		}, workflow.RunAttempts(2), workflow.RunBackoff(e.d(20*time.Second), 1, 0))
		e.process(defs(wf, bad, kid))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), 2)
		for _, k := range e.children(h.ID()) {
			if k.Status == store.Canceled {
				e.check(k.Failure.Message != store.CanceledWithParent, "the child went on until its parent ended")
			}
		}
		e.eq("children", e.settled(h.ID()), map[store.Status]int{store.Completed: 2, store.Failed: 1, store.Canceled: 1, store.Pending: 2})
	}},
	{Name: "child/restart-of-a-canceled-parent", Promise: "P11", Rule: "A run that is restarted after it was canceled starts the children anew that were canceled with it, also those that it started by a reference.", Run: func(e *E) {
		var ran tally
		kid := workflow.New("kid", func(ctx workflow.Context, n int) (int, error) {
			turn, err := turnOf(ctx, &ran, fmt.Sprint("kid of ", n))
			if err == nil && turn == 1 {
				_, err = word.Receive(ctx)
			}
			return n, err
		}, workflow.Queue("kids"))
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) { return workflow.Child(ctx, "kid", kid, n) })
		byRef := workflow.New("by-ref", func(ctx workflow.Context, n int) (int, error) {
			return workflow.Child(ctx, "kid", workflow.Ref[int, int]("kid"), n)
		})
		e.process(defs(wf, byRef, kid))
		for i, parent := range []*workflow.Workflow[int, int]{wf, byRef} {
			h := start(e, parent, i)
			e.until(h.ID(), store.Sleeping)
			e.until(e.children(h.ID())[0].ID, store.Sleeping)
			e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
			e.until(h.ID(), store.Canceled)
			e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
			e.eq("output", result(e, h), i)
			e.eq("children", e.settled(h.ID()), map[store.Status]int{store.Completed: 1, store.Canceled: 1})
			for _, child := range e.children(h.ID()) {
				e.eq("queue of a child", child.Queue, "kids")
			}
		}
	}},
	{Name: "child/large-output", Promise: "P12", Rule: "A large output stays with the child and is the same when its parent is replayed.", Run: func(e *E) {
		kid := workflow.New("kid", func(_ workflow.Context, n int) (string, error) { return strings.Repeat("<x>", n), nil })
		wf := workflow.New("wf", func(ctx workflow.Context, n int) ([]int, error) {
			var out []int
			for _, n := range []int{1, n} {
				s, err := workflow.Child(ctx, "kid", kid, n)
				if err != nil {
					return nil, err
				}
				if err := again(e, ctx, "nap"); err != nil {
					return nil, err
				}
				out = append(out, len(s), strings.Count(s, "<x>"))
			}
			return out, nil
		})
		e.process(defs(wf, kid))
		h := start(e, wf, 60_000)
		e.eq("lengths", result(e, h), []int{3, 1, 180_000, 60_000})
		e.check(len(e.steps(h.ID())["kid#2"].Output) < 1000, "the parent's record has %d bytes", len(e.steps(h.ID())["kid#2"].Output))
	}},
	{Name: "child/progress", Promise: "P9", Rule: "The progress of a run's children can be read from outside while the run waits, and afterwards.", Run: func(e *E) {
		kid := hold("kid")
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) { return workflow.Child(ctx, "kid", kid, n) })
		e.process(defs(wf, kid))
		h := start(e, wf, 3)
		e.until(h.ID(), store.Sleeping)
		want := engine.StepProgress{Step: store.StepKey{Name: "kid", Occurrence: 1}, Kind: store.KindChild, Status: store.StepRunning, Spawned: 1, InFlight: 1}
		progress, err := e.eng.Progress(e.ctx, h.ID())
		e.ok("progress", err)
		e.eq("progress while it waits", progress.Steps, []engine.StepProgress{want})
		send(e, word, e.children(h.ID())[0].ID, "on")
		result(e, h)
		want.Status, want.InFlight, want.Completed = store.StepCompleted, 0, 1
		progress, err = e.eng.Progress(e.ctx, h.ID())
		e.ok("progress", err)
		e.eq("progress afterwards", progress.Steps, []engine.StepProgress{want})
		_, err = e.eng.Progress(e.ctx, store.NewID())
		e.check(errors.Is(err, store.ErrNotFound), "progress of no run: saw %v", err)
	}},
	{Name: "child/bad-input", Promise: "P16", Rule: "What cannot be started or waited for is refused with an error that says so, and starts nothing.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (string, error) {
			var none *workflow.Workflow[int, int]
			broken := workflow.New[int, int]("broken", nil)
			var errs []string
			try := func(what string, target error, err error) {
				if !errors.Is(err, target) {
					errs = append(errs, fmt.Sprintf("%s: saw %v", what, err))
				}
			}
			_, err := workflow.Child(ctx, "c", none, 1)
			try("no workflow", store.ErrInvalid, err)
			_, err = workflow.Child(ctx, "c", broken, 1)
			try("a broken workflow", store.ErrInvalid, err)
			_, err = workflow.Child(ctx, " c", double, 1)
			try("a wrong name", store.ErrInvalid, err)
			_, err = workflow.Child(ctx, "c", double, 1, workflow.ChildPriority(1000))
			try("a wrong priority", store.ErrInvalid, err)
			_, err = workflow.Child(ctx, "c", double, 1, workflow.OnParentClose(9))
			try("a wrong policy", store.ErrInvalid, err)
			c, err := workflow.StartChild(ctx, "c", double, 1, workflow.Detach())
			if err != nil {
				return "", err
			}
			_, err = c.Get(ctx)
			try("a wait for a detached child", store.ErrInvalid, err)
			return strings.Join(errs, "\n"), nil
		})
		e.process(defs(wf, double))
		h := start(e, wf, 1)
		e.eq("what was not refused", result(e, h), "")
		e.eq("children", len(e.children(h.ID())), 1)
	}},
	{Name: "child/changed-code", Promise: "P4", Rule: "A child that was recorded as another workflow's is reported, and the run fails with that reason.", Run: func(e *E) {
		kid := hold("kid")
		old := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) { return workflow.Child(ctx, "c", kid, n) })
		changed := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) { return workflow.Child(ctx, "c", double, n) })
		e.process(defs(kid, double))
		p := e.process(defs(old))
		h := start(e, old, 1)
		e.until(h.ID(), store.Sleeping)
		p.stop()
		e.process(defs(changed))
		send(e, word, e.children(h.ID())[0].ID, "on")
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrNondeterministic), "saw %v", err)
	}},
}

// ended returns a channel that closes when a run is final.
func (e *E) ended(id store.ID) <-chan struct{} {
	ch := make(chan struct{})
	go func() {
		defer close(ch)
		_, _ = e.eng.Wait(e.ctx, id)
	}()
	return ch
}
