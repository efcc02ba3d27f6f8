package enginetier

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// handled is an item that counts how often it was run.
func handled(ran *tally) *workflow.Workflow[int, int] {
	return workflow.New("handled", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Step(ctx, "s", func(context.Context) (int, error) {
			ran.add(fmt.Sprint(n))
			return n, nil
		})
	})
}

// numbers yields the numbers below n.
func numbers(n int) func(ctx context.Context, yield func(int) error) error {
	return func(ctx context.Context, yield func(int) error) error {
		for i := range n {
			if err := yield(i); err != nil {
				return err
			}
		}
		return nil
	}
}

// stream is a workflow that generates and is then replayed once.
func stream(e *E, generator func(ctx context.Context, yield func(int) error) error, item *workflow.Workflow[int, int], opts ...workflow.GenerateOption) *workflow.Workflow[int, workflow.Generated] {
	return workflow.New("stream", func(ctx workflow.Context, _ int) (workflow.Generated, error) {
		got, err := workflow.Generate(ctx, "discover", generator, item, opts...)
		if err != nil {
			return got, err
		}
		return got, again(e, ctx, "nap")
	})
}

// once fails unless each of the numbers below n is the input of one item, which has
// completed.
func once(e *E, parent store.ID, n int) {
	e.Helper()
	counts, err := e.eng.Count(e.ctx, store.RunFilter{Parent: parent})
	e.ok("count", err)
	e.eq("items", counts, []store.RunCount{{Queue: "handled", Workflow: "handled", Status: store.Completed, Count: int64(n)}})
}

func generator(e *E, run store.ID) engine.StepProgress {
	e.Helper()
	progress, err := e.eng.Progress(e.ctx, run)
	e.ok("progress", err)
	for _, p := range progress.Steps {
		if p.Kind == store.KindGenerator {
			return p
		}
	}
	return engine.StepProgress{}
}

// all says that n items were spawned and have completed.
func all(n int64) workflow.Generated { return workflow.Generated{Spawned: n, Completed: n} }

var generateEngineCases = []Case{
	{Name: "generate/in-batches", Promise: "P9", Rule: "Every item that is yielded is run once, by any worker; the step ends when all are final and says how many there were, live and replayed.", Run: func(e *E) {
		var ran tally
		item := handled(&ran)
		wf := stream(e, numbers(57), item, workflow.Batch(10))
		e.process(defs(wf, item))
		e.process(defs(item))
		h := start(e, wf, 0)
		e.eq("generated", result(e, h), all(57))
		once(e, h.ID(), 57)
		for i := range 57 {
			e.eq(fmt.Sprint("executions of item ", i), ran.get(fmt.Sprint(i)), 1)
		}
		want := engine.StepProgress{Step: store.StepKey{Name: "discover", Occurrence: 1}, Kind: store.KindGenerator, Status: store.StepCompleted, Generator: engine.GeneratorComplete, Spawned: 57, Completed: 57}
		e.eq("progress afterwards", generator(e, h.ID()), want)
	}},
	{Name: "generate/empty", Promise: "P9", Rule: "A generator that yields nothing completes.", Run: func(e *E) {
		var ran tally
		item := handled(&ran)
		wf := stream(e, numbers(0), item)
		e.process(defs(wf, item))
		e.eq("generated", result(e, start(e, wf, 0)), all(0))
	}},
	{Name: "generate/seen-while-it-runs", Promise: "P9", Rule: "While a generator runs, its position and the outcomes of its items can be read from outside. The items of a slow generator do not wait for a batch.", Run: func(e *E) {
		var ran tally
		item := handled(&ran)
		yielded, goOn := make(chan int), make(chan struct{})
		wf := stream(e, func(ctx context.Context, yield func(int) error) error {
			for i := range 3 {
				if err := yield(i); err != nil {
					return err
				}
				yielded <- i
				<-goOn
			}
			return nil
		}, item)
		e.process(defs(wf, item))
		h := start(e, wf, 0)
		for i := range 3 {
			receive(e, "a yield", yielded)
			n := int64(i + 1)
			want := engine.StepProgress{Step: store.StepKey{Name: "discover", Occurrence: 1}, Kind: store.KindGenerator, Status: store.StepRunning, Generator: engine.GeneratorStarted, Spawned: n, Completed: n}
			for fmt.Sprint(generator(e, h.ID())) != fmt.Sprint(want) {
				pause(e)
			}
			goOn <- struct{}{}
		}
		e.eq("generated", result(e, h), all(3))
	}},
	{Name: "generate/window", Promise: "P9", Rule: "Yield waits while as many items as the window allows are not final. A run that waits in it does not keep a slot from its items.", Run: func(e *E) {
		const most = 7
		var parent atomic.Pointer[store.ID]
		item := atMost(e, "handled", most, &parent)
		wf := stream(e, numbers(40), item, workflow.Batch(3), workflow.Window(most))
		id := store.NewID()
		parent.Store(&id)
		e.process(defs(wf, item), worker.Concurrency(1))
		h := start(e, wf, 0, engine.RunID(id))
		e.eq("generated", result(e, h), all(40))
	}},
	{Name: "generate/no-slot-while-items-run", Promise: "P9", Rule: "Once the generator has returned, its run sleeps until the last item is final, and wakes once.", Run: func(e *E) {
		kid := hold("kid")
		wf := stream(e, numbers(5), kid)
		e.process(defs(wf, kid), worker.Lease(leaseFor))
		h := start(e, wf, 0)
		run := e.until(h.ID(), store.Sleeping)
		e.eq("claims", run.Epoch, int64(1))
		e.eq("status of the generator", generator(e, h.ID()).Generator, engine.GeneratorComplete)
		for i, k := range e.children(h.ID()) {
			e.eq("claims before the last item is final", e.until(h.ID(), store.Sleeping).Epoch, int64(1))
			e.eq("open items", generator(e, h.ID()).InFlight, int64(5-i))
			send(e, word, k.ID, "on")
			for generator(e, h.ID()).Completed < int64(i+1) {
				pause(e)
			}
		}
		e.eq("generated", result(e, h), all(5))
	}},
	{Name: "generate/generator-fails", Promise: "P9", Rule: "A generator that fails is tried again from its first item, without spawning one twice; failed for good it fails the step, with its error, live and replayed.", Run: func(e *E) {
		for _, attempts := range []int{3, 2} {
			var ran, tries tally
			item := handled(&ran)
			var seen []string
			gen := func(ctx context.Context, yield func(int) error) error {
				try := tries.add("try")
				for i := range 25 {
					if i == 13 && try < 3 {
						return workflow.Coded("broken", fmt.Errorf("broken at %d", i))
					}
					if err := yield(i); err != nil {
						return err
					}
				}
				return nil
			}
			wf := workflow.New(fmt.Sprint("stream", attempts), func(ctx workflow.Context, _ int) (workflow.Generated, error) {
				got, err := workflow.Generate(ctx, "discover", gen, item, workflow.Batch(5), workflow.Collect(),
					workflow.GeneratorStep(workflow.Attempts(attempts), workflow.Backoff(e.d(20*time.Second), 1, 0)))
				seen = append(seen, fmt.Sprint(workflow.ErrorCode(err), " ", err))
				return got, again(e, ctx, "nap")
			})
			p := e.process(defs(wf, item))
			h := start(e, wf, 0)
			got := result(e, h)
			if attempts == 3 {
				e.eq("generated", got, all(25))
				once(e, h.ID(), 25)
				e.eq("error", seen[len(seen)-1], " <nil>")
			} else {
				e.eq("generated", got, all(13))
				want := "broken step discover failed after 2 attempts: broken at 13"
				e.eq("errors, live and replayed", seen[len(seen)-2:], []string{want, want})
				e.eq("status of the generator", generator(e, h.ID()).Generator, engine.GeneratorFailed)
			}
			p.stop()
		}
	}},
	{Name: "generate/panics", Promise: "P9", Rule: "A panic of a generator fails its attempt.", Run: func(e *E) {
		var ran, tries tally
		item := handled(&ran)
		wf := stream(e, func(ctx context.Context, yield func(int) error) error {
			if tries.add("try") == 1 {
				panic("oh")
			}
			return yield(1)
		}, item, workflow.GeneratorStep(workflow.Backoff(e.d(time.Second), 1, 0)))
		e.process(defs(wf, item))
		e.eq("generated", result(e, start(e, wf, 0)), all(1))
	}},
	{Name: "generate/items-fail-and-retry", Promise: "P9", Rule: "An item is tried again as its workflow says, and counts as failed only when it has failed for good.", Run: func(e *E) {
		var ran tally
		item := workflow.New("item", func(ctx workflow.Context, n int) (int, error) {
			if ran.add(fmt.Sprint(n)) <= n%3 {
				return 0, errors.New("not yet")
			}
			return n, nil
		}, workflow.RunAttempts(2), workflow.RunBackoff(e.d(time.Second), 1, 0))
		var seen []string
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (workflow.Generated, error) {
			got, err := workflow.Generate(ctx, "discover", numbers(9), item, workflow.Collect())
			seen = append(seen, told(err))
			return got, again(e, ctx, "nap")
		})
		e.process(defs(wf, item))
		e.eq("generated", result(e, start(e, wf, 0)), workflow.Generated{Spawned: 9, Completed: 6, Failed: 3})
		want := "9: 6 3 0; 2=failed(error) 5=failed(error) 8=failed(error)"
		e.eq("errors", seen, []string{want, want})
	}},
	{Name: "generate/fail-fast", Promise: "P11", Rule: "A failed item stops the generator, whose context ends, and cancels the others; the step fails when all have ended.", Run: func(e *E) {
		item := workflow.New("item", func(ctx workflow.Context, n int) (int, error) {
			if n == 2 {
				return 0, workflow.Coded("two", errors.New("it is two"))
			}
			return n, workflow.Sleep(ctx, "long", e.d(24*time.Hour))
		})
		var seen []string
		stopped := make(chan error, 1)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			got, err := workflow.Generate(ctx, "discover", func(ctx context.Context, yield func(int) error) error {
				for i := range 5 {
					if err := yield(i); err != nil {
						return err
					}
				}
				<-ctx.Done()
				stopped <- yield(99)
				return ctx.Err()
			}, item, workflow.Batch(2))
			seen = append(seen, told(err))
			if got.Spawned != 5 {
				return 0, fmt.Errorf("saw %v %w", got, err)
			}
			open := 0
			for _, r := range e.children(ctx.Info().RunID) {
				if !r.Status.Final() {
					open++
				}
			}
			return open, again(e, ctx, "nap")
		})
		e.process(defs(wf, item))
		e.eq("open items", result(e, start(e, wf, 0)), 0)
		want := "5: 0 1 4; 2=failed(two) 0=canceled(canceled) 1=canceled(canceled) 3=canceled(canceled) 4=canceled(canceled)"
		e.eq("errors, live and replayed", seen, []string{want, want})
		e.check(receive(e, "the end of the generator", stopped) != nil, "an item was taken after the generator's context had ended")
	}},
	{Name: "generate/killed", Promise: "P4", Rule: "A parent that is killed before, during and after its stream resumes; every item is spawned and recorded once, with and without a cursor, and with keys in another order.", Run: func(e *E) {
		const n = 60
		for _, kind := range []string{"plain", "cursor", "keys"} {
			var ran, tries tally
			var from []int
			var mu sync.Mutex
			item := handled(&ran)
			wf := workflow.New("stream-"+kind, func(ctx workflow.Context, _ int) (workflow.Generated, error) {
				batch := workflow.Batch(7)
				switch kind {
				case "cursor":
					return workflow.GenerateFrom(ctx, "discover", func(ctx context.Context, at int, yield func(int, int) error) error {
						mu.Lock()
						from = append(from, at)
						mu.Unlock()
						for i := at; i < n; i++ {
							if err := yield(i, i+1); err != nil {
								return err
							}
						}
						return nil
					}, item, batch)
				case "keys":
					return workflow.Generate(ctx, "discover", func(ctx context.Context, yield func(int) error) error {
						shift := 11 * tries.add("try")
						for i := range n + 10 { // ten of them come twice
							if err := yield((i + shift) % n); err != nil {
								return err
							}
						}
						return nil
					}, item, batch, workflow.ItemKey(func(i int) string { return fmt.Sprint("item ", i) }))
				}
				return workflow.Generate(ctx, "discover", numbers(n), item, batch)
			})
			h := startBefore(e, wf, item)
			for i := range 5 {
				p := e.process(defs(wf), worker.MaxCrashes(100))
				select {
				case <-p.wire.dieAt("commit", 1+i%4, i%2 == 0):
					p.kill()
				case <-e.asleep(h.ID()):
					p.kill()
				}
			}
			p := e.process(defs(wf, item), worker.MaxCrashes(100))
			e.eq("generated", result(e, h), all(n))
			once(e, h.ID(), n)
			if kind == "cursor" {
				mu.Lock()
				last := from[len(from)-1]
				e.check(last > 0, "the generator began at %v", from)
				mu.Unlock()
			}
			p.stop()
		}
	}},
	{Name: "generate/canceled", Promise: "P11", Rule: "When the run is canceled the generator's context ends, yield says so, and the items follow.", Run: func(e *E) {
		kid := hold("kid")
		ended := make(chan error, 1)
		began := make(chan struct{}, 1)
		wf := stream(e, func(ctx context.Context, yield func(int) error) error {
			for i := 0; ; i++ {
				if i == 30 {
					began <- struct{}{}
				}
				if err := yield(i); err != nil {
					ended <- err
					return err
				}
			}
		}, kid, workflow.Window(20), workflow.Batch(5))
		e.process(defs(wf, kid))
		h := start(e, wf, 0)
		receive(e, "the thirtieth item", began)
		for len(e.children(h.ID())) < 20 {
			pause(e)
		}
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		err := receive(e, "the end of the generator", ended)
		e.check(errors.Is(err, workflow.ErrCanceled), "yield failed with %v, expected ErrCanceled", err)
		_, err = h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrCanceled), "saw %v", err)
		for e.statuses(h.ID())[store.Canceled] < 20 {
			pause(e)
		}
		e.eq("items", e.statuses(h.ID()), map[store.Status]int{store.Canceled: 20})
	}},
	{Name: "generate/shutdown", Promise: "P11", Rule: "A worker that shuts down releases at once a run whose generator waits for room; another worker continues it.", Run: func(e *E) {
		kid := hold("kid")
		wf := stream(e, numbers(12), kid, workflow.Window(4), workflow.Batch(2))
		first := e.process(defs(wf), worker.Grace(e.d(time.Hour)))
		h := start(e, wf, 0)
		for len(e.children(h.ID())) < 4 {
			pause(e)
		}
		first.stop()
		e.process(defs(wf, kid))
		for i := 0; i < 12; {
			for _, k := range e.children(h.ID()) {
				if k.Status == store.Sleeping {
					send(e, word, k.ID, "on")
					<-e.ended(k.ID)
					i++
				}
			}
			pause(e)
		}
		e.eq("generated", result(e, h), all(12))
	}},
	{Name: "generate/tried-again", Promise: "P9", Rule: "A generator step that failed is done anew when its run is tried again, with other items; so is one whose items were canceled with its run.", Run: func(e *E) {
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
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (workflow.Generated, error) {
			return workflow.Generate(ctx, "discover", numbers(n), item)
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
		e.eq("generated", result(e, h), all(4))
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("attempt after the restart", run.Attempt, 1)
	}},
	{Name: "generate/sequence", Promise: "P9", Rule: "A sequence is a generator; its error fails the attempt.", Run: func(e *E) {
		var ran tally
		item := handled(&ran)
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (workflow.Generated, error) {
			return workflow.GenerateSeq(ctx, "discover", func(ctx context.Context) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					for i := range n {
						if !yield(i, nil) {
							return
						}
					}
					if ran.add("seq") == 1 {
						yield(0, errors.New("torn"))
					}
				}
			}, item, workflow.GeneratorStep(workflow.Backoff(e.d(time.Second), 1, 0)))
		})
		e.process(defs(wf, item))
		h := start(e, wf, 11)
		e.eq("generated", result(e, h), all(11))
		e.eq("attempts", ran.get("seq"), 2)
	}},
	{Name: "generate/several-goroutines", Promise: "P9", Rule: "Items may be yielded by several goroutines of the generator.", Run: func(e *E) {
		var ran tally
		item := handled(&ran)
		wf := stream(e, func(ctx context.Context, yield func(int) error) error {
			errs := make([]error, 8)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 25 {
						errs[g] = errors.Join(errs[g], yield(100*g+i))
					}
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		}, item, workflow.Window(50), workflow.ItemKey(func(i int) string { return fmt.Sprint(i) }))
		e.process(defs(wf, item))
		h := start(e, wf, 0)
		e.eq("generated", result(e, h), all(200))
		once(e, h.ID(), 200)
	}},
	{Name: "generate/yield-too-late", Promise: "P16", Rule: "A yield after the generator has returned is refused with an error that says so; it neither panics nor hangs.", Run: func(e *E) {
		var ran tally
		item := handled(&ran)
		late := make(chan func(int) error, 1)
		wf := stream(e, func(ctx context.Context, yield func(int) error) error {
			late <- yield
			return yield(1)
		}, item)
		e.process(defs(wf, item))
		h := start(e, wf, 0)
		e.eq("generated", result(e, h), all(1))
		err := receive(e, "the yield function", late)(2)
		e.check(errors.Is(err, workflow.ErrYieldEnded) && strings.Contains(err.Error(), "item 2 of generator discover"), "saw %v", err)
	}},
	{Name: "generate/bad-input", Promise: "P16", Rule: "An item that is too large is refused with its place, and may be left out; wrong options are refused before anything is run.", Run: func(e *E) {
		item := workflow.New("item", func(_ workflow.Context, s string) (int, error) { return len(s), nil })
		var none *workflow.Workflow[string, int]
		some := func(ctx context.Context, yield func(string) error) error { return nil }
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (string, error) {
			var errs []string
			try := func(what string, err error) {
				if !errors.Is(err, store.ErrInvalid) {
					errs = append(errs, fmt.Sprintf("%s: saw %v", what, err))
				}
			}
			_, err := workflow.Generate(ctx, "g", nil, item)
			try("no generator", err)
			_, err = workflow.Generate(ctx, "g", some, none)
			try("no workflow", err)
			_, err = workflow.Generate(ctx, "g", some, item, workflow.Batch(0))
			try("no batch", err)
			_, err = workflow.Generate(ctx, "g", some, item, workflow.Window(0))
			try("no window", err)
			_, err = workflow.Generate(ctx, "g", func(ctx context.Context, yield func(string) error) error { return yield("x") }, item, workflow.ItemKey(func(int) string { return "" }))
			try("a key for another type", errors.Join(store.ErrInvalid, err))
			if err == nil {
				errs = append(errs, "a key for another type was taken")
			}
			got, err := workflow.Generate(ctx, "large", func(ctx context.Context, yield func(string) error) error {
				for i := range 5 {
					s := "small"
					if i == 2 {
						s = strings.Repeat("x", n)
					}
					err := yield(s)
					if (i == 2) != errors.Is(err, store.ErrTooLarge) || i == 2 && !strings.Contains(err.Error(), "item 3 of generator large") {
						return workflow.Permanent(fmt.Errorf("item %d: saw %w", i, err))
					}
				}
				return nil
			}, item)
			if err != nil || got.Completed != 4 {
				errs = append(errs, fmt.Sprint(got, err))
			}
			return strings.Join(errs, "\n"), nil
		})
		e.process(defs(wf, item), worker.Lease(leaseFor))
		e.eq("what was not refused", result(e, start(e, wf, e.s.Limits().Payload)), "")
	}},
}

// asleep returns a channel that closes when a run sleeps or is final.
func (e *E) asleep(id store.ID) <-chan struct{} {
	ch := make(chan struct{})
	go func() {
		defer close(ch)
		for {
			run, err := e.eng.Get(e.ctx, id)
			if err != nil || run.Status == store.Sleeping || run.Status.Final() {
				return
			}
			timer := time.NewTimer(e.d(100 * time.Millisecond))
			select {
			case <-timer.C:
			case <-e.ctx.Done():
				return
			}
		}
	}()
	return ch
}
