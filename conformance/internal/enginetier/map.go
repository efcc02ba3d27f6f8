package enginetier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// upTo lists the numbers from 0 to n-1.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// odd is an item that fails for odd numbers.
var odd = workflow.New("odd", func(_ workflow.Context, n int) (int, error) {
	if n%2 == 1 {
		return 0, workflow.Coded("odd", fmt.Errorf("%d is odd", n))
	}
	return n + 1, nil
})

// told describes an ItemsError.
func told(err error) string {
	var ie *workflow.ItemsError
	if !errors.As(err, &ie) {
		return fmt.Sprintf("%T %v", err, err)
	}
	s := fmt.Sprintf("%d: %d %d %d;", ie.Spawned, ie.Completed, ie.Failed, ie.Canceled)
	for _, i := range ie.Items {
		s += fmt.Sprintf(" %d=%s(%s)", i.Index, i.Err.Status, workflow.ErrorCode(i))
	}
	return s
}

// whole fails if the outputs are not twice their places.
func whole(e *E, outs []int, n int) {
	e.Helper()
	e.eq("number of outputs", len(outs), n)
	for i, v := range outs {
		if v != 2*i {
			e.Fatalf("output %d is %d", i, v)
		}
	}
}

var mapEngineCases = []Case{
	{Name: "map/order", Promise: "P9", Rule: "The outputs of a map come in the order of its items, whoever ran them, live and replayed; a map of nothing ends at once.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, n int) ([]int, error) {
			none, err := workflow.Map(ctx, "none", nil, double)
			if err != nil || len(none) != 0 {
				return nil, fmt.Errorf("saw %v %w", none, err)
			}
			outs, err := workflow.Map(ctx, "all", upTo(n), double)
			if err != nil {
				return nil, err
			}
			return outs, again(e, ctx, "nap")
		})
		e.process(defs(wf, double))
		e.process(defs(double))
		whole(e, result(e, start(e, wf, 25)), 25)
	}},
	{Name: "map/wakes-once", Promise: "P9", Rule: "A parent of 10,000 items (600 under the race detector or with -short) that three processes run wakes exactly once.", Run: func(e *E) {
		n := kit.ManyItems()
		parent := workflow.New("wf", func(ctx workflow.Context, _ int) ([]int, error) {
			return workflow.Map(ctx, "all", upTo(n), double)
		})
		h := startBefore(e, parent, double)
		p := e.process(defs(parent), unhurried)
		e.until(h.ID(), store.Sleeping)
		p.stop()
		for range 3 {
			e.process(defs(parent, double), worker.Concurrency(50), unhurried)
		}
		whole(e, result(e, h), n)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("events and claims of the parent", []int64{run.Events, run.Epoch}, []int64{1, 2})
		counts, err := e.eng.Count(e.ctx, store.RunFilter{Parent: h.ID()})
		e.ok("count", err)
		e.eq("items", counts, []store.RunCount{{Queue: "double", Workflow: "double", Status: store.Completed, Count: int64(n)}})
	}},
	{Name: "map/at-once", Promise: "P9", Rule: "No more items are spawned and not final than AtOnce says, over all workers.", Run: func(e *E) {
		const most = 4
		var parent atomic.Pointer[store.ID]
		item := atMost(e, "item", most, &parent)
		wf := workflow.New("wf", func(ctx workflow.Context, n int) ([]int, error) {
			return workflow.Map(ctx, "all", upTo(n), item, workflow.AtOnce(most))
		})
		id := store.NewID()
		parent.Store(&id)
		e.process(defs(wf, item))
		e.process(defs(wf, item))
		h := start(e, wf, 19, engine.RunID(id))
		e.eq("outputs", result(e, h), upTo(19))
		run, err := e.eng.Get(e.ctx, id)
		e.ok("get", err)
		e.check(run.Epoch > 3, "the parent was claimed %d times", run.Epoch)
	}},
	{Name: "map/fail-fast", Promise: "P11", Rule: "The first failure of an item cancels the others; the map fails when all have ended, with an error that is the same live and replayed.", Run: func(e *E) {
		item := workflow.New("item", func(ctx workflow.Context, n int) (int, error) {
			if n == 2 {
				return 0, workflow.Coded("two", errors.New("it is two"))
			}
			return n, workflow.Sleep(ctx, "long", e.d(24*time.Hour))
		})
		var seen []string
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (map[string]int, error) {
			outs, err := workflow.Map(ctx, "all", upTo(n), item)
			seen = append(seen, told(err))
			if !errors.Is(err, engine.ErrFailed) {
				return nil, fmt.Errorf("saw %v %w", outs, err)
			}
			open := 0
			for _, r := range e.children(ctx.Info().RunID) {
				if !r.Status.Final() {
					open++
				}
			}
			return map[string]int{"open": open}, again(e, ctx, "nap")
		})
		e.process(defs(wf, item))
		e.process(defs(wf, item))
		h := start(e, wf, 8)
		e.eq("open items", result(e, h), map[string]int{"open": 0})
		want := "8: 0 1 7; 2=failed(two) 0=canceled(canceled) 1=canceled(canceled) 3=canceled(canceled) 4=canceled(canceled) 5=canceled(canceled) 6=canceled(canceled) 7=canceled(canceled)"
		e.eq("errors, live and replayed", seen, []string{want, want})
		e.eq("status of the step", e.steps(h.ID())["all"].Status, store.StepFailed)
	}},
	{Name: "map/collect", Promise: "P9", Rule: "With Collect every item runs to its end. The step returns the outputs of the items that completed and an error that lists the others, live and replayed.", Run: func(e *E) {
		var seen []string
		wf := workflow.New("wf", func(ctx workflow.Context, n int) ([]int, error) {
			outs, err := workflow.Map(ctx, "all", upTo(n), odd, workflow.Collect())
			seen = append(seen, told(err)+fmt.Sprint(outs))
			return outs, again(e, ctx, "nap")
		})
		e.process(defs(wf, odd))
		h := start(e, wf, 5)
		e.eq("outputs", result(e, h), []int{1, 0, 3, 0, 5})
		want := "5: 3 2 0; 1=failed(odd) 3=failed(odd)[1 0 3 0 5]"
		e.eq("errors and outputs, live and replayed", seen, []string{want, want})
	}},
	{Name: "map/tolerate", Promise: "P9", Rule: "As many failures as Tolerate allows are no error; one more is an error.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (string, error) {
			outs, err := workflow.Map(ctx, "two", upTo(5), odd, workflow.Tolerate(2))
			if err != nil {
				return "", err
			}
			_, err = workflow.Map(ctx, "one", upTo(5), odd, workflow.Tolerate(1))
			var ie *workflow.ItemsError
			if !errors.As(err, &ie) || ie.Failed != 2 {
				return "", fmt.Errorf("saw %w", err)
			}
			return fmt.Sprint(outs), again(e, ctx, "nap")
		})
		e.process(defs(wf, odd))
		e.eq("outputs", result(e, start(e, wf, 0)), "[1 0 3 0 5]")
	}},
	{Name: "map/killed", Promise: "P4", Rule: "A parent that is killed at any commit while it spawns resumes where it was: every item is spawned once.", Run: func(e *E) {
		const n = 1_200 // three commits
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]int, error) { return workflow.Map(ctx, "all", upTo(n), double) })
		h := startBefore(e, wf, double)
		for i := range 4 {
			p := e.process(defs(wf), worker.MaxCrashes(100))
			receive(e, "the kill", p.wire.dieAt("commit", 1, i%2 == 0))
			p.kill()
		}
		e.process(defs(wf, double), worker.MaxCrashes(100), worker.Concurrency(50))
		whole(e, result(e, h), n)
		counts, err := e.eng.Count(e.ctx, store.RunFilter{Workflow: "double"})
		e.ok("count", err)
		e.eq("items", counts, []store.RunCount{{Queue: "double", Workflow: "double", Status: store.Completed, Count: n}})
	}},
	{Name: "map/large-outputs", Promise: "P12", Rule: "Outputs that are too large for the parent's record are the same in a replay.", Run: func(e *E) {
		item := workflow.New("item", func(_ workflow.Context, n int) (string, error) {
			if n == 3 {
				return "", errors.New("three")
			}
			return strings.Repeat(fmt.Sprint(n), 9_000), nil
		})
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (string, error) {
			outs, err := workflow.Map(ctx, "all", upTo(n), item, workflow.Tolerate(1))
			if err != nil {
				return "", err
			}
			s := ""
			for i, o := range outs {
				s += fmt.Sprint(len(o), strings.Count(o, fmt.Sprint(i)), " ")
			}
			return s, again(e, ctx, "nap")
		})
		e.process(defs(wf, item))
		h := start(e, wf, 9)
		e.eq("outputs", result(e, h), strings.Repeat("9000 9000 ", 3)+"0 0 "+strings.Repeat("9000 9000 ", 5))
		e.check(len(e.steps(h.ID())["all"].Output) < 2_000, "the parent's record has %d bytes", len(e.steps(h.ID())["all"].Output))
	}},
	{Name: "map/tried-again", Promise: "P9", Rule: "A map that failed is done anew when its run is tried again, and so is one whose items were canceled with its run.", Run: func(e *E) {
		var ran tally
		var restarted atomic.Bool
		item := workflow.New("item", func(ctx workflow.Context, n int) (int, error) {
			if n == 1 && ran.add("one") == 1 {
				return 0, errors.New("one")
			}
			if n == 2 && !restarted.Load() {
				_, err := word.Receive(ctx) // never comes
				return n, err
			}
			return n, nil
		})
		wf := workflow.New("wf", func(ctx workflow.Context, n int) ([]int, error) {
			return workflow.Map(ctx, "all", upTo(n), item)
		}, workflow.RunAttempts(2), workflow.RunBackoff(e.d(time.Second), 1, 0))
		e.process(defs(wf, item))
		h := start(e, wf, 4)
		for ran.get("one") < 2 || e.statuses(h.ID())[store.Sleeping] == 0 {
			pause(e)
		}
		e.until(h.ID(), store.Sleeping)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		e.until(h.ID(), store.Canceled)
		restarted.Store(true)
		e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
		e.eq("outputs", result(e, h), []int{0, 1, 2, 3})
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("attempt after the restart", run.Attempt, 1)
	}},
	{Name: "map/canceled", Promise: "P11", Rule: "When the parent of a map is canceled, its items follow and its code learns of it.", Run: func(e *E) {
		kid := hold("kid")
		wf := workflow.New("wf", func(ctx workflow.Context, n int) ([]int, error) {
			return workflow.Map(ctx, "all", upTo(n), kid)
		})
		e.process(defs(wf, kid))
		h := start(e, wf, 5)
		e.until(h.ID(), store.Sleeping)
		for e.statuses(h.ID())[store.Sleeping] < 5 {
			pause(e)
		}
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrCanceled), "saw %v", err)
		e.eq("items", e.settled(h.ID()), map[store.Status]int{store.Canceled: 5})
	}},
	{Name: "map/reduce", Promise: "P9", Rule: "Reduce folds the outputs in the order of the items and records the result; a replay does not fold again.", Run: func(e *E) {
		var folds tally
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (string, error) {
			all, err := workflow.Reduce(ctx, "sum", upTo(n), odd, "", func(acc string, i, out int) (string, error) {
				folds.add("fold")
				return acc + fmt.Sprintf("%d:%d ", i, out), nil
			}, workflow.Tolerate(n), workflow.AtOnce(3))
			if err != nil {
				return "", err
			}
			return all, again(e, ctx, "nap")
		})
		e.process(defs(wf, odd))
		h := start(e, wf, 8)
		e.eq("result", result(e, h), "0:1 2:3 4:5 6:7 ")
		e.eq("folds", folds.get("fold"), 4)
	}},
	{Name: "map/reduce-fails", Promise: "P9", Rule: "An error of the fold fails the step, live and replayed; with Collect the fold of those that completed comes with the error.", Run: func(e *E) {
		var seen []string
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			_, err := workflow.Reduce(ctx, "bad", upTo(n), double, 0, func(acc, i, out int) (int, error) {
				return 0, workflow.Coded("fold", fmt.Errorf("no %d", i))
			})
			var se *workflow.StepError
			if !errors.As(err, &se) {
				return 0, fmt.Errorf("saw %w", err)
			}
			seen = append(seen, workflow.ErrorCode(err)+" "+err.Error())
			sum, err := workflow.Reduce(ctx, "some", upTo(n), odd, 0, func(acc, i, out int) (int, error) { return acc + out, nil }, workflow.Collect())
			seen = append(seen, told(err))
			return sum, again(e, ctx, "nap")
		})
		e.process(defs(wf, double, odd))
		e.eq("sum", result(e, start(e, wf, 4)), 1+3)
		a, b := "fold step bad: no 0", "4: 2 2 0; 1=failed(odd) 3=failed(odd)"
		e.eq("errors", seen[len(seen)-4:], []string{a, b, a, b})
	}},
	{Name: "map/while-awake", Promise: "P5", Rule: "A map in a branch continues while another branch works, even if it may spawn only a few items at a time.", Run: func(e *E) {
		got := make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			f := workflow.Go(ctx, "map", func(ctx workflow.Context) (int, error) {
				outs, err := workflow.Map(ctx, "all", upTo(n), double, workflow.AtOnce(2))
				if err == nil {
					close(got)
				}
				return len(outs), err
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
		e.eq("outputs", result(e, start(e, wf, 7)), 7)
	}},
	{Name: "map/bad-input", Promise: "P16", Rule: "Invalid arguments of a map are refused with an error that says what is wrong and where.", Run: func(e *E) {
		item := workflow.New("item", func(_ workflow.Context, s string) (int, error) { return len(s), nil })
		var none *workflow.Workflow[int, int]
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (string, error) {
			_, err := workflow.Map(ctx, "m", upTo(1), none)
			if !errors.Is(err, store.ErrInvalid) {
				return "", fmt.Errorf("no workflow: saw %w", err)
			}
			_, err = workflow.Map(ctx, "m", upTo(1), double, workflow.AtOnce(-1))
			if !errors.Is(err, store.ErrInvalid) {
				return "", fmt.Errorf("AtOnce(-1): saw %w", err)
			}
			_, err = workflow.Map(ctx, "m", upTo(1), double, workflow.ItemPriority(1000))
			if !errors.Is(err, store.ErrInvalid) {
				return "", fmt.Errorf("priority: saw %w", err)
			}
			_, err = workflow.Reduce(ctx, "m", upTo(1), double, 0, (func(int, int, int) (int, error))(nil))
			if !errors.Is(err, store.ErrInvalid) {
				return "", fmt.Errorf("no fold: saw %w", err)
			}
			_, err = workflow.Map(ctx, "large", []string{"a", strings.Repeat("x", n)}, item)
			if !errors.Is(err, store.ErrTooLarge) || !strings.Contains(err.Error(), "item 2 of map large") {
				return "", fmt.Errorf("a large item: saw %w", err)
			}
			return "", err
		})
		e.process(defs(wf, item, double), worker.Lease(leaseFor))
		_, err := start(e, wf, e.s.Limits().Payload).Result(e.ctx)
		e.eq("code", workflow.ErrorCode(err), workflow.CodeTooLarge)
	}},
	{Name: "map/changed-items", Promise: "P4", Rule: "A map that has another number of items when it is replayed is reported.", Run: func(e *E) {
		var n atomic.Int64
		n.Store(2)
		kid := hold("kid")
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]int, error) {
			return workflow.Map(ctx, "all", upTo(int(n.Load())), kid)
		})
		e.process(defs(wf, kid))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		n.Store(3)
		for _, k := range e.children(h.ID()) {
			send(e, word, k.ID, "on")
		}
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrNondeterministic), "saw %v", err)
	}},
}

// atMost is an item that fails if more than that many items of its parent are open.
func atMost(e *E, name string, most int, parent *atomic.Pointer[store.ID]) *workflow.Workflow[int, int] {
	return workflow.New(name, func(ctx workflow.Context, n int) (int, error) {
		return workflow.Step(ctx, "look", func(ctx context.Context) (int, error) {
			open := 0
			for _, r := range e.children(*parent.Load()) {
				if !r.Status.Final() {
					open++
				}
			}
			if open > most {
				return 0, workflow.Permanent(fmt.Errorf("%d items are open", open))
			}
			return n, nil
		})
	})
}
