package enginetier

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var errFlaky = errors.New("flaky")

var stepEngineCases = []Case{
	{Name: "step/runs-once", Promise: "P4", Rule: "A step whose record exists is not run again, and its result comes back.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) ([]int, error) {
			var out []int
			for i := range 3 {
				v, err := workflow.Step(ctx, "work", func(context.Context) (int, error) {
					ran.add("work")
					return in * (i + 1), nil
				})
				if err != nil {
					return nil, err
				}
				out = append(out, v)
				if err := workflow.Sleep(ctx, "nap", e.d(10*time.Second)); err != nil {
					return nil, err
				}
			}
			return out, nil
		})
		e.process(defs(wf), worker.Lease(leaseFor))
		h := start(e, wf, 7)
		e.eq("output", result(e, h), []int{7, 14, 21})
		e.eq("executions", ran.get("work"), 3)
		steps := e.steps(h.ID())
		e.eq("recorded steps", len(steps), 6)
		e.eq("key of the third use", steps["work#3"].Occurrence, 3)
	}},
	{Name: "step/waits-keep-their-start", Promise: "P13", Rule: "The record of a wait begins when the run first came to it, though the run was replayed meanwhile, and ends when the wait did.", Run: func(e *E) {
		d := e.d(40 * time.Second)
		kid := workflow.New("kid", func(ctx workflow.Context, _ int) (int, error) { return 0, workflow.Sleep(ctx, "nap", d) })
		timeout := func(err error) error {
			if errors.Is(err, workflow.ErrTimeout) {
				return nil
			}
			return fmt.Errorf("the wait ended with %w", err)
		}
		waits := map[string]func(ctx workflow.Context) error{
			"sleep":  func(ctx workflow.Context) error { return workflow.Sleep(ctx, "nap", d) },
			"signal": func(ctx workflow.Context) error { _, err := word.ReceiveTimeout(ctx, d); return timeout(err) },
			"select": func(ctx workflow.Context) error {
				_, err := workflow.Select(ctx, "which", other.Into(new(int)), workflow.Timer(d))
				return err
			},
			"state": func(ctx workflow.Context) error {
				return timeout(workflow.WaitForState(ctx, "never", func(workflow.FlowStateReader) (bool, error) { return false, nil }, workflow.WaitTimeout(d)))
			},
			"child": func(ctx workflow.Context) error { _, err := workflow.Child(ctx, "kid", kid, 0); return err },
			"map":   func(ctx workflow.Context) error { _, err := workflow.Map(ctx, "all", []int{1, 2}, kid); return err },
			"generator": func(ctx workflow.Context) error {
				_, err := workflow.GenerateSeq(ctx, "some", func(context.Context) iter.Seq2[int, error] {
					return func(yield func(int, error) bool) { yield(1, nil) }
				}, kid)
				return err
			},
		}
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			g := workflow.NewGroup(ctx)
			for _, name := range slices.Sorted(maps.Keys(waits)) {
				g.Go(name, waits[name])
			}
			g.Go("replays", func(ctx workflow.Context) error {
				for range 4 {
					if err := workflow.Sleep(ctx, "short", d/5); err != nil {
						return err
					}
				}
				return nil
			})
			return 0, g.Wait()
		})
		e.process(defs(wf, kid))
		h := start(e, wf, 0)
		result(e, h)
		seen := map[string]bool{}
		for key, s := range e.steps(h.ID()) {
			branch, _, _ := strings.Cut(key, "/")
			if branch == "replays" {
				continue
			}
			seen[branch] = true
			took := s.FinishedAt.Sub(s.StartedAt)
			least := d * 9 / 10
			if !e.h.Bubble {
				least = d / 2 // the store computes the start from the time of the commit, which may be late
			}
			e.check(took >= least, "step %s, which waited for %v: its record says %v", key, d, took)
			e.check(!e.h.Bubble || took <= d+5*time.Second, "step %s, which waited for %v: its record says %v", key, d, took)
		}
		e.eq("branches with a wait", len(seen), len(waits))
	}},
	{Name: "step/remembers-failures", Promise: "P3", Rule: "The record of a retried step has its first and its last failures, however the step ended.", Run: func(e *E) {
		const fails = 8
		var ran, made tally
		long := strings.Repeat("é", 5000)
		double := workflow.New("double", func(_ workflow.Context, i int) (int, error) { return 2 * i, nil })
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			quick := workflow.Backoff(e.d(4*time.Second), 1, 0)
			n, err := workflow.Step(ctx, "flaky", func(context.Context) (int, error) {
				if n := ran.add("flaky"); n <= fails {
					return 0, workflow.Coded("down", fmt.Errorf("failure %d: %s", n, long))
				}
				return 7, nil
			}, workflow.Attempts(fails+1), quick)
			if err != nil {
				return 0, err
			}
			err = workflow.Do(ctx, "hopeless", func(context.Context) error { return errFlaky }, workflow.Attempts(2), quick)
			if err == nil {
				return 0, errors.New("the hopeless step succeeded")
			}
			_, err = workflow.GenerateSeq(ctx, "items", func(context.Context) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					if made.add("items") < 3 {
						yield(0, errFlaky)
						return
					}
					yield(1, nil)
				}
			}, double, workflow.GeneratorStep(workflow.Attempts(3), quick))
			return n, err
		})
		e.process(defs(wf, double))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), 7)
		steps := e.steps(h.ID())
		s := steps["flaky"]
		e.eq("attempt of the step that succeeded", s.Attempt, fails+1)
		e.eq("its failure", s.Failure, (*store.Failure)(nil))
		var attempts []int
		for i, a := range s.Earlier {
			attempts = append(attempts, a.Attempt)
			e.eq("code", a.Code, "down")
			e.check(strings.HasPrefix(a.Message, fmt.Sprintf("failure %d: é", a.Attempt)) && len(a.Message) <= store.MaxEarlierText, "attempt %d: saw a message of %d bytes: %.40s", a.Attempt, len(a.Message), a.Message)
			if i > 0 {
				e.check(a.StartedAt.Sub(s.Earlier[i-1].StartedAt) >= e.d(3*time.Second), "attempt %d began at %v, attempt %d at %v", a.Attempt, a.StartedAt, s.Earlier[i-1].Attempt, s.Earlier[i-1].StartedAt)
			}
			e.check(a.StartedAt.Before(s.StartedAt), "attempt %d began at %v, the one that succeeded at %v", a.Attempt, a.StartedAt, s.StartedAt)
		}
		e.eq("earlier attempts", attempts, []int{1, 5, 6, 7, 8})
		s = steps["hopeless"]
		e.eq("failure of the step that failed", s.Failure.Message, errFlaky.Error())
		e.eq("its earlier attempts", len(s.Earlier), 1)
		s = steps["items"]
		e.eq("earlier attempts of the generator", len(s.Earlier), 2)
		e.check(s.FinishedAt.Sub(s.StartedAt) >= e.d(5500*time.Millisecond), "the generator, with two retries: its record says %v", s.FinishedAt.Sub(s.StartedAt))
	}},
	{Name: "step/attempt-outlives-its-worker", Promise: "P6", Rule: "An attempt whose worker dies is done again as the same attempt, and what failed before is still known.", Run: func(e *E) {
		hangs := make(chan struct{}, 1)
		seen := make(chan int, 1)
		again := func(first bool) *workflow.Workflow[int, int] {
			return workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
				return workflow.Step(ctx, "flaky", func(ctx context.Context) (int, error) {
					switch n := workflow.Attempt(ctx); {
					case n == 1 && first:
						return 0, errFlaky
					case first:
						hangs <- struct{}{}
						<-ctx.Done()
						return 0, ctx.Err()
					default:
						seen <- n
						return n, nil
					}
				}, workflow.Backoff(e.d(time.Second), 1, 0))
			})
		}
		p := e.process(defs(again(true)))
		wf := again(false)
		h := start(e, wf, 0)
		receive(e, "the second attempt", hangs)
		for e.steps(h.ID())["flaky"].Status != store.StepRunning {
			pause(e)
		}
		p.kill()
		e.process(defs(wf))
		e.eq("output", result(e, h), 2)
		e.eq("attempt", receive(e, "the attempt of the second worker", seen), 2)
		s := e.steps(h.ID())["flaky"]
		e.eq("attempt in the record", s.Attempt, 2)
		e.eq("earlier attempts", len(s.Earlier), 1)
	}},
	{Name: "step/retries", Promise: "P4", Rule: "A failed step is retried with backoff, and its attempts are counted.", Run: func(e *E) {
		var ran tally
		var at []time.Time
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return workflow.Step(ctx, "flaky", func(ctx context.Context) (int, error) {
				at = append(at, time.Now())
				n := ran.add("flaky")
				if workflow.Attempt(ctx) != n {
					return 0, workflow.Permanent(fmt.Errorf("attempt %d says that it is %d", n, workflow.Attempt(ctx)))
				}
				if n < 4 {
					return 0, errFlaky
				}
				return n, nil
			}, workflow.Backoff(e.d(time.Second), 2, e.d(time.Minute)))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), 4)
		e.eq("recorded attempt", e.steps(h.ID())["flaky"].Attempt, 4)
		for i, least := range []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond} {
			e.check(at[i+1].Sub(at[i]) >= e.d(least), "attempt %d came after %v, expected at least %v", i+2, at[i+1].Sub(at[i]), e.d(least))
		}
	}},
	{Name: "step/gives-up", Promise: "P4", Rule: "A step that fails for good gives a StepError made of its record, live and replayed alike.", Run: func(e *E) {
		var seen []string
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
			_, err := workflow.Step(ctx, "doomed", func(context.Context) (int, error) {
				return 0, workflow.Coded("card-declined", errFlaky)
			}, workflow.Attempts(2), workflow.Backoff(e.d(time.Second), 1, 0))
			var failed *workflow.StepError
			if !errors.As(err, &failed) || errors.Is(err, errFlaky) {
				return "", fmt.Errorf("the step's error is a %T", err)
			}
			seen = append(seen, err.Error()+"|"+workflow.ErrorCode(err))
			return workflow.ErrorCode(err), workflow.Sleep(ctx, "nap", e.d(time.Minute))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), "card-declined")
		e.eq("looks at the error", len(seen), 2)
		e.eq("replayed error", seen[1], seen[0])
		s := e.steps(h.ID())["doomed"]
		e.eq("status", s.Status, store.StepFailed)
		e.eq("attempts", s.Attempt, 2)
	}},
	{Name: "step/permanent", Promise: "P4", Rule: "An error marked permanent, or named as not retryable, is not tried again.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			err := workflow.Do(ctx, "a", func(context.Context) error { ran.add("a"); return workflow.Permanent(errFlaky) })
			err2 := workflow.Do(ctx, "b", func(context.Context) error { ran.add("b"); return fmt.Errorf("wrapped: %w", errFlaky) }, workflow.NonRetryable(errFlaky))
			if err == nil || err2 == nil {
				return 0, errors.New("no error came")
			}
			return ran.get("a") + ran.get("b"), nil
		})
		e.process(defs(wf))
		e.eq("executions", result(e, start(e, wf, 0)), 2)
	}},
	{Name: "step/timeout", Promise: "P4", Rule: "An attempt's context ends after the step's timeout, and the record says so.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
			err := workflow.Do(ctx, "slow", func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}, workflow.Timeout(e.d(2*time.Second)), workflow.Attempts(2), workflow.Backoff(e.d(time.Second), 1, 0))
			return workflow.ErrorCode(err), nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("code", result(e, h), workflow.CodeTimeout)
		e.eq("attempts", e.steps(h.ID())["slow"].Attempt, 2)
	}},
	{Name: "step/panic", Promise: "P6", Rule: "A panic in a step is a failed attempt, recorded with its stack; the worker lives on.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
			err := workflow.Do(ctx, "bad", func(context.Context) error { panic("boom") }, workflow.Attempts(1))
			return workflow.ErrorCode(err), nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("code", result(e, h), workflow.CodePanic)
		f := e.steps(h.ID())["bad"].Failure
		e.check(f != nil && strings.Contains(f.Message, "boom") && strings.Contains(f.Stack, "enginetier/step.go"), "the record lacks the panic's value or stack: %+v", f)
		e.eq("code of another run", result(e, start(e, wf, 0)), workflow.CodePanic)
	}},
	{Name: "step/too-large", Promise: "P12", Rule: "A result over the limit fails the step with sizes in its message; nothing is lost and the worker lives on.", Run: func(e *E) {
		limit := e.s.Limits().Payload
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (string, error) {
			return workflow.Step(ctx, "big", func(context.Context) (string, error) { return strings.Repeat("x", n), nil })
		})
		e.process(defs(wf), worker.Lease(leaseFor))
		h := start(e, wf, limit)
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrFailed) && workflow.ErrorCode(err) == workflow.CodeTooLarge, "saw %v, expected a run that failed for its size", err)
		e.check(err != nil && strings.Contains(err.Error(), fmt.Sprint(limit)), "the error does not name the limit: %v", err)
		e.eq("attempts", e.steps(h.ID())["big"].Attempt, 1)
		e.eq("length of a result at the limit", len(result(e, start(e, wf, limit-2))), limit-2)
		_, err = workflow.New("wf", func(workflow.Context, string) (int, error) { return 0, nil }).Start(e.ctx, e.eng, strings.Repeat("x", limit))
		e.check(errors.Is(err, store.ErrTooLarge), "start with an input over the limit: saw %v", err)
	}},
	{Name: "step/same-live-and-replayed", Promise: "P12", Rule: "A step's result is what its record decodes to, the first time as in a replay.", Run: func(e *E) {
		type value struct {
			Kept   []int
			hidden int
		}
		var seen []value
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			v, err := workflow.Step(ctx, "v", func(context.Context) (value, error) { return value{Kept: []int{1}, hidden: 9}, nil })
			if err != nil {
				return 0, err
			}
			seen = append(seen, v)
			return v.hidden, workflow.Sleep(ctx, "nap", e.d(time.Minute))
		})
		e.process(defs(wf))
		e.eq("hidden field", result(e, start(e, wf, 0)), 0)
		e.eq("replayed value", seen[1], seen[0])
	}},
	{Name: "step/idempotency-key", Promise: "P4", Rule: "A step's idempotency key is the same for every attempt, even on another worker, and no other step has it.", Run: func(e *E) {
		keys := make(chan string, 10)
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			for range 2 {
				if err := workflow.Do(ctx, "charge", func(ctx context.Context) error {
					keys <- workflow.IdempotencyKey(ctx)
					if ran.add("charge") == 1 {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}); err != nil {
					return 0, err
				}
			}
			return 1, nil
		})
		first := e.process(defs(wf))
		h := start(e, wf, 0)
		key := receive(e, "the first attempt", keys)
		first.kill()
		e.process(defs(wf))
		result(e, h)
		e.eq("key after the takeover", receive(e, "the second attempt", keys), key)
		second := receive(e, "the second use", keys)
		e.check(second != key && strings.Contains(key, h.ID().String()), "keys are %q and %q", key, second)
	}},
	{Name: "step/durable-before-the-next", Promise: "P3", Rule: "When a step begins, every step before it is durable.", Run: func(e *E) {
		found := make(chan int, 1)
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if err := workflow.Do(ctx, "first", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			if _, err := workflow.Value(ctx, "choice", func() int { return 4 }); err != nil {
				return 0, err
			}
			return workflow.Step(ctx, "second", func(ctx context.Context) (int, error) {
				steps, err := e.eng.Steps(ctx, store.ID(must(store.ParseID(strings.Split(workflow.IdempotencyKey(ctx), "/")[0]))))
				found <- len(steps)
				return len(steps), err
			})
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("records seen from the second step", receive(e, "the second step", found), 2)
		result(e, h)
	}},
	{Name: "step/concurrent-use", Promise: "P16", Rule: "A step key used twice at the same time is refused with an error that says what to do.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
			var inner error
			err := workflow.Do(ctx, "outer", func(context.Context) error {
				inner = workflow.Do(ctx, "outer", func(context.Context) error { return nil })
				return nil
			})
			if err != nil {
				return "", err
			}
			if !errors.Is(inner, workflow.ErrConcurrent) {
				return "", fmt.Errorf("the inner step's error is %v", inner)
			}
			return inner.Error(), nil
		})
		e.process(defs(wf))
		msg := result(e, start(e, wf, 0))
		e.check(strings.Contains(msg, `"outer"`) && strings.Contains(msg, "workflow.Go"), "the message does not help: %s", msg)
	}},
	{Name: "step/long-one-is-shown", Promise: "P3", Rule: "A step that runs for more than a second is on record as running while it does.", Run: func(e *E) {
		release := make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return workflow.Step(ctx, "long", func(context.Context) (int, error) { <-release; return 3, nil })
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		for e.steps(h.ID())["long"].Status != store.StepRunning {
			pause(e)
		}
		close(release)
		e.eq("output", result(e, h), 3)
		e.eq("status", e.steps(h.ID())["long"].Status, store.StepCompleted)
	}},
	{Name: "value/recorded", Promise: "P4", Rule: "Values, times, ids and random numbers are recorded once and replayed.", Run: func(e *E) {
		var runs [][]string
		var made tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			v, err1 := workflow.Value(ctx, "v", func() int { return made.add("v") })
			at, err2 := workflow.Now(ctx, "at")
			id, err3 := workflow.NewID(ctx, "id")
			rnd, err4 := workflow.Random(ctx, "rnd")
			if err := errors.Join(err1, err2, err3, err4); err != nil {
				return 0, err
			}
			runs = append(runs, []string{fmt.Sprint(v), at.String(), id.String(), fmt.Sprint(rnd.Int64(), rnd.Int64())})
			return v, workflow.Sleep(ctx, "nap", e.d(time.Minute))
		})
		e.process(defs(wf))
		e.eq("value", result(e, start(e, wf, 0)), 1)
		e.eq("passes", len(runs), 2)
		e.eq("replayed values", runs[1], runs[0])
	}},
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
