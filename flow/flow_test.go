package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// log records what has run, in order.
type log struct {
	mu  sync.Mutex
	ran []string
}

func (l *log) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ran = append(l.ran, s)
}

func (l *log) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, r := range l.ran {
		if r == s {
			n++
		}
	}
	return n
}

// says makes a step that returns its input with the step's name appended.
func says(l *log, name string) func(context.Context, string) (string, error) {
	return func(_ context.Context, in string) (string, error) {
		l.add(name)
		return in + name, nil
	}
}

func build[In, Out any](t testing.TB, f *flow.Flow[In, Out]) *workflow.Workflow[In, Out] {
	t.Helper()
	wf, err := f.Workflow()
	require.NoError(t, err)
	return wf
}

func concat(_ context.Context, a, b string) (string, error) { return a + "+" + b, nil }

func TestDiamond(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		var meet sync.WaitGroup
		meet.Add(2)
		together := func(name string) func(context.Context, string) (string, error) {
			return func(_ context.Context, in string) (string, error) {
				meet.Done()
				meet.Wait() // both must be here at once
				return in + name, nil
			}
		}
		f := flow.New[string, string]("diamond")
		a := flow.Step(f, "a", says(&log{}, "a"))
		b := flow.Then(f, "b", a, together("b"))
		c := flow.Then(f, "c", a, together("c"))
		d := flow.Join2(f, "d", b, c, concat)
		f.Output(flow.Pick(d, func(s string) string { return s + "!" }))
		run := workflowtest.Start(env, build(t, f), "x")
		require.Equal(env, "xab+xac!", run.Result())
		var keys []string
		for _, s := range run.Steps() {
			keys = append(keys, s.StepKey.String())
		}
		slices.Sort(keys)
		require.Equal(env, []string{"a/a", "b/b", "c/c", "d/d"}, keys)
	})
}

func TestInputs(t *testing.T) {
	f := flow.New[int, string]("inputs")
	double := flow.Step(f, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	never := flow.Step(f, "never", func(_ context.Context, n int) (int, error) { return n, nil },
		flow.When("negative", f.Input(), func(n int) (bool, error) { return n < 0, nil }))
	three := flow.Join3(f, "three", f.Input(), double, flow.Optional(never), func(_ context.Context, a, b int, c flow.Maybe[int]) (string, error) {
		return fmt.Sprint(a, b, c), nil
	})
	two := flow.Then(f, "two", flow.Both(double, flow.All[int](f.Input(), double, flow.Const(7))), func(_ context.Context, p flow.Pair[int, []int]) (string, error) {
		return fmt.Sprint(p.First, p.Second), nil
	})
	// Optional makes everything below it optional.
	deep := flow.Then(f, "deep", flow.Optional(flow.All[int](double, never)), func(_ context.Context, m flow.Maybe[[]int]) (string, error) {
		return fmt.Sprint(m), nil
	})
	f.Output(flow.Pick(flow.All[string](three, two, deep), func(s []string) string { return fmt.Sprintf("%q", s) }))
	workflowtest.Run(t, func(env *workflowtest.Env) {
		require.Equal(env, `["3 6 {0 false}" "6 [3 6 7]" "{[] false}"]`, workflowtest.Start(env, build(t, f), 3).Result())
	})
}

func TestConditionsAndSkips(t *testing.T) {
	var l log
	f := flow.New[string, string]("skips")
	word := flow.Step(f, "word", says(&l, "word"))
	express := flow.Then(f, "express", word, says(&l, "express"),
		flow.When("asked for", f.Input(), func(s string) (bool, error) { return s == "e", nil }),
		flow.When("word known", word, func(s string) (bool, error) { l.add("condition"); return s != "", nil }))
	behind := flow.Then(f, "behind", express, says(&l, "behind"))
	post := flow.Then(f, "post", word, says(&l, "post"), flow.IfSkipped(express))
	flow.Then(f, "after", word, says(&l, "after"), flow.After(behind))
	flow.Then(f, "even", word, says(&l, "even"), flow.After(behind, flow.Named("later")), flow.EvenIfSkipped())
	flow.Then(f, "later", word, says(&l, "later"))
	f.Output(behind, post)
	wf := build(t, f)
	run := func(in, want string, ran ...string) {
		t.Helper()
		l = log{}
		workflowtest.Run(t, func(env *workflowtest.Env) {
			require.Equal(env, want, workflowtest.Start(env, wf, in).Result())
		})
		slices.Sort(l.ran)
		require.Equal(t, ran, l.ran)
	}
	run("e", "ewordexpressbehind", "after", "behind", "condition", "even", "express", "later", "word")
	run("p", "pwordpost", "even", "later", "post", "word")
}

// The recorded answer of a condition stays, whatever the condition would return at a replay.
func TestConditionsAreRecorded(t *testing.T) {
	asked := 0
	f := flow.New[int, string]("recorded")
	a := flow.Step(f, "a", func(context.Context, int) (string, error) { return "a", nil },
		flow.When("first", f.Input(), func(int) (bool, error) { asked++; return asked == 1, nil }))
	nap := flow.Sleep(f, "nap", time.Hour, flow.After(a))
	b := flow.Then(f, "b", a, func(_ context.Context, s string) (string, error) { return s + "b", nil }, flow.After(nap))
	f.Output(b, flow.Const("skipped"))
	workflowtest.Run(t, func(env *workflowtest.Env) {
		require.Equal(env, "ab", workflowtest.Start(env, build(t, f), 0).Result())
	})
	require.Equal(t, 1, asked)
}

func TestConditionFails(t *testing.T) {
	asked := 0
	f := flow.New[int, string]("asks", workflow.RunAttempts(2))
	a := flow.Step(f, "a", func(context.Context, int) (string, error) { return "a", nil },
		flow.When("moody", f.Input(), func(int) (bool, error) {
			if asked++; asked < 4 {
				return false, fmt.Errorf("mood %d", asked)
			}
			return true, nil
		}), flow.WithStep(workflow.Attempts(2)))
	f.Output(a, flow.Const("not asked"))
	var failed *store.Failure
	workflowtest.Run(t, func(env *workflowtest.Env) {
		run := workflowtest.Start(env, build(t, f), 0)
		env.Advance(1500 * time.Millisecond) // between the attempts of the run
		r, err := env.Engine().Get(env.Context(), run.ID())
		env.NoError(err)
		failed = r.Failure
		require.Equal(env, "a", run.Result())
	})
	require.Equal(t, 4, asked)
	require.ErrorContains(t, failed, `node "a": step a/ask moody failed after 2 attempts: mood 3`)
	name, ok := flow.FailedNode(failed)
	require.True(t, ok)
	require.Equal(t, "a", name)
}

type decision struct{ Yes bool }

var decided = workflow.NewSignal[decision]("decided")

func TestSignals(t *testing.T) {
	var l log
	f := flow.New[string, string]("signals")
	a := flow.Step(f, "a", says(&l, "a"))
	b := flow.Join2(f, "b", a, flow.WaitFor(decided), func(_ context.Context, s string, d decision) (string, error) {
		l.add("b")
		return fmt.Sprint(s, d.Yes), nil
	})
	late := flow.Join2(f, "late", b, flow.Optional(flow.WaitFor(decided, flow.Within(time.Hour))), func(_ context.Context, s string, d flow.Maybe[decision]) (string, error) {
		return fmt.Sprint(s, d.OK), nil
	})
	f.Output(late)
	workflowtest.Run(t, func(env *workflowtest.Env) {
		run := workflowtest.Start(env, build(t, f), "x")
		env.Advance(30 * 24 * time.Hour)
		require.Equal(env, store.Sleeping, run.Status())
		require.Equal(env, []string{"a"}, l.ran)
		env.NoError(decided.Send(env.Context(), env.Engine(), run.ID(), decision{Yes: true}))
		require.Equal(env, "xatruefalse", run.Result())
		require.Equal(env, []string{"a", "b"}, l.ran)
	})
}

func TestAwait(t *testing.T) {
	f := flow.New[string, string]("await")
	yes := flow.Await(f, "decision", flow.WaitFor(decided, flow.Within(time.Hour)))
	text := func(_ context.Context, d decision) (string, error) { return fmt.Sprint(d.Yes), nil }
	a, b := flow.Then(f, "a", yes, text), flow.Then(f, "b", yes, text)
	f.Output(flow.Pick(flow.Both(a, b), func(p flow.Pair[string, string]) string { return p.First + p.Second }))
	wf := build(t, f)
	workflowtest.Run(t, func(env *workflowtest.Env) {
		run := workflowtest.Start(env, wf, "x")
		env.NoError(decided.Send(env.Context(), env.Engine(), run.ID(), decision{Yes: true}))
		require.Equal(env, "truetrue", run.Result())

		_, err := workflowtest.Start(env, wf, "x").Wait()
		require.ErrorContains(env, err, `node "decision": within 1h0m0s: signal "decided": timed out`)
	})
}

var errDeclined = errors.New("declined")

// failing is a flow in which "bad" fails while "slow" runs, "retries" waits for its next
// attempt, "deaf" waits for a signal and "next" would begin.
func failing(l *log, opts ...workflow.Option) *flow.Flow[string, string] {
	f := flow.New[string, string]("failing", opts...)
	flow.Step(f, "bad", func(_ context.Context, s string) (string, error) {
		time.Sleep(time.Minute)
		l.add("bad")
		return "", workflow.Permanent(workflow.Coded("no-money", errDeclined))
	})
	slow := flow.Step(f, "slow", func(ctx context.Context, s string) (string, error) {
		time.Sleep(time.Hour)
		l.add("slow")
		return s, ctx.Err()
	})
	flow.Step(f, "retries", func(ctx context.Context, s string) (string, error) {
		l.add("retries")
		if workflow.Attempt(ctx) == 1 {
		}
		return "", errors.New("not yet")
	}, flow.WithStep(workflow.Attempts(-1), workflow.Backoff(10*time.Minute, 1, 0)))
	flow.Await(f, "deaf", flow.WaitFor(decided))
	flow.Then(f, "next", slow, says(l, "next"))
	f.Output(slow)
	return f
}

func TestFailure(t *testing.T) {
	var l log
	workflowtest.Run(t, func(env *workflowtest.Env) {
		start := time.Now()
		run := workflowtest.Start(env, build(t, failing(&l)), "x")
		_, err := run.Wait()
		require.ErrorContains(env, err, `node "bad": step bad/bad: declined`)
		require.Equal(env, "no-money", workflow.ErrorCode(err))
		var end *engine.RunError
		require.ErrorAs(env, err, &end)
		node, _ := flow.FailedNode(end.Failure)
		require.Equal(env, "bad", node)
		took := time.Since(start)
		require.True(env, took >= time.Hour && took < time.Hour+time.Minute, "took %v", took)
		statuses := make(map[string]store.StepStatus)
		for _, s := range run.Steps() {
			statuses[s.StepKey.String()] = s.Status
		}
		require.Equal(env, store.StepCompleted, statuses["slow/slow"], "a step that runs is waited for and recorded")
		require.Equal(env, store.StepFailed, statuses["bad/bad"])
	})
	assert.Equal(t, 0, l.count("next"), "a node began behind the failure")
	assert.Equal(t, 1, l.count("retries"), "a step was tried again behind the failure")
}

func TestOnFailure(t *testing.T) {
	for name, c := range map[string]struct {
		out  flow.Maybe[string]
		err  error
		want string
	}{
		"fails":    {want: `node "bad": step bad/bad: declined`},
		"recovers": {out: flow.Some("made good")},
		"errs":     {err: workflow.Permanent(errors.New("no refund")), want: `node "bad": step bad/bad: declined; the failure handler "refund" failed as well: step refund/refund: no refund`},
	} {
		t.Run(name, func(t *testing.T) {
			var l log
			f := failing(&l)
			f.OnFailure("refund", func(ctx context.Context, in string, failed *flow.NodeError) (flow.Maybe[string], error) {
				l.add("refund")
				assert.Equal(t, "x", in)
				assert.Equal(t, "bad", failed.Node)
				assert.EqualError(t, failed, `node "bad": step bad/bad: declined`)
				assert.Equal(t, "no-money", workflow.ErrorCode(failed))
				assert.Equal(t, 1, l.count("slow"), "a step still runs")
				return c.out, c.err
			})
			workflowtest.Run(t, func(env *workflowtest.Env) {
				out, err := workflowtest.Start(env, build(t, f), "x").Wait()
				if c.want == "" {
					require.NoError(env, err)
				} else {
					require.ErrorContains(env, err, c.want)
					require.Equal(env, "no-money", workflow.ErrorCode(err))
				}
				require.Equal(env, c.out.Value, out)
			})
			require.Equal(t, 1, l.count("refund"))
		})
	}
}

// A step that waits for its next attempt blocks nobody, even if the run has left memory in the
// meantime.
func TestFailureWhileAnotherWaits(t *testing.T) {
	var l log
	f := flow.New[string, string]("waits")
	flow.Step(f, "retries", func(context.Context, string) (string, error) {
		l.add("retries")
		return "", errors.New("not yet")
	}, flow.WithStep(workflow.Attempts(-1), workflow.Backoff(24*time.Hour, 1, 0)))
	nap := flow.Sleep(f, "nap", time.Hour)
	bad := flow.Step(f, "bad", func(context.Context, string) (string, error) { return "", workflow.Permanent(errDeclined) }, flow.After(nap))
	f.Output(bad)
	workflowtest.Run(t, func(env *workflowtest.Env) {
		start := time.Now()
		run := workflowtest.Start(env, build(t, f), "x")
		_, err := run.Wait()
		require.ErrorContains(env, err, "declined")
		require.Less(env, time.Since(start), 2*time.Hour)
		require.Equal(env, 1, l.count("retries"))
	})
}

// The next attempt of a run deletes the records of the failure and of its handler.
func TestRunAttempts(t *testing.T) {
	var l log
	f := flow.New[string, string]("attempts", workflow.RunAttempts(4))
	good := flow.Step(f, "good", says(&l, "good"))
	bad := flow.Then(f, "bad", good, func(_ context.Context, s string) (string, error) {
		l.add("bad")
		if n := l.count("bad"); n < 3 {
			return "", fmt.Errorf("failure %d", n)
		}
		return s + "bad", nil
	}, flow.WithStep(workflow.Attempts(1)))
	f.Output(bad)
	f.OnFailure("undo", func(_ context.Context, _ string, failed *flow.NodeError) (flow.Maybe[string], error) {
		l.add(failed.Error())
		return flow.Nothing[string](), nil
	})
	workflowtest.Run(t, func(env *workflowtest.Env) {
		require.Equal(env, "xgoodbad", workflowtest.Start(env, build(t, f), "x").Result())
	})
	require.Equal(t, []string{"good", "bad", `node "bad": step bad/bad: failure 1`, "bad", `node "bad": step bad/bad: failure 2`, "bad"}, l.ran)
}

func TestCompletesEarly(t *testing.T) {
	for _, handler := range []bool{false, true} {
		for _, hit := range []string{"hit", "miss"} {
			t.Run(fmt.Sprint(hit, handler), func(t *testing.T) {
				var l log
				f := flow.New[string, string]("early")
				flow.Step(f, "cache", func(_ context.Context, s string) (flow.Maybe[string], error) {
					time.Sleep(time.Second)
					return flow.Maybe[string]{Value: "cached", OK: s == "hit"}, nil
				})
				cache := flow.Step(f, "look", func(_ context.Context, s string) (flow.Maybe[string], error) {
					time.Sleep(time.Second)
					return flow.Maybe[string]{Value: "cached", OK: s == "hit"}, nil
				})
				slow := flow.Step(f, "slow", func(ctx context.Context, s string) (string, error) {
					select {
					case <-time.After(time.Hour):
						return "worked out", nil
					case <-ctx.Done():
						l.add("cut short")
						return "", ctx.Err()
					}
				})
				flow.Then(f, "next", cache, func(context.Context, flow.Maybe[string]) (string, error) { l.add("next"); return "", nil })
				f.CompleteIf(cache)
				f.Output(slow)
				if handler {
					f.OnFailure("undo", func(context.Context, string, *flow.NodeError) (flow.Maybe[string], error) {
						l.add("undo")
						return flow.Nothing[string](), nil
					})
				}
				workflowtest.Run(t, func(env *workflowtest.Env) {
					start := time.Now()
					out := workflowtest.Start(env, build(t, f), hit).Result()
					env.Advance(time.Second)
					if hit == "hit" {
						require.Equal(env, "cached", out)
						require.Less(env, time.Since(start), time.Minute)
						require.Equal(env, []string{"cut short"}, l.ran)
					} else {
						require.Equal(env, "worked out", out)
						require.Equal(env, []string{"next"}, l.ran)
					}
				})
			})
		}
	}
}

func TestCompleteWith(t *testing.T) {
	f := flow.New[string, string]("first")
	fast := flow.Sleep(f, "fast", time.Minute)
	slow := flow.Sleep(f, "slow", time.Hour)
	say := func(s string) func(context.Context, string) (string, error) {
		return func(context.Context, string) (string, error) { return s, nil }
	}
	a := flow.Step(f, "a", say("slow"), flow.After(slow))
	b := flow.Step(f, "b", say("fast"), flow.After(fast))
	never := flow.Step(f, "never", say("never"), flow.When("no", flow.Const(false), func(b bool) (bool, error) { return b, nil }))
	f.CompleteWith(a, b, never)
	f.Output(a)
	workflowtest.Run(t, func(env *workflowtest.Env) {
		require.Equal(env, "fast", workflowtest.Start(env, build(t, f), "").Result())
	})
}

func TestOutputPriority(t *testing.T) {
	f := flow.New[string, string]("priority")
	has := func(c string) flow.Option {
		return flow.When("has "+c, f.Input(), func(s string) (bool, error) { return slices.Contains([]byte(s), c[0]), nil })
	}
	say := func(s string) func(context.Context, string) (string, error) {
		return func(context.Context, string) (string, error) { return s, nil }
	}
	a, b := flow.Step(f, "a", say("A"), has("a")), flow.Step(f, "b", say("B"), has("b"))
	f.Output(b, a)
	wf := build(t, f)
	workflowtest.Run(t, func(env *workflowtest.Env) {
		require.Equal(env, "B", workflowtest.Start(env, wf, "ab").Result())
		require.Equal(env, "A", workflowtest.Start(env, wf, "a").Result())
		_, err := workflowtest.Start(env, wf, "").Wait()
		require.ErrorContains(env, err, `flow "priority" has no output: every node that could provide it was skipped`)
	})
}

func TestIgnoredOutputs(t *testing.T) {
	f := flow.New[string, flow.None]("ignored")
	a := flow.Step(f, "a", func(context.Context, string) (chan int, error) { return make(chan int), nil }, flow.IgnoreOutput()) // cannot be encoded
	b := flow.Do(f, "b", f.Input(), func(context.Context, string) error { return nil }, flow.After(a))
	flow.Do(f, "c", b, func(context.Context, flow.None) error { return nil })
	workflowtest.Run(t, func(env *workflowtest.Env) {
		run := workflowtest.Start(env, build(t, f), "x")
		run.Result()
		steps := run.Steps()
		require.Len(env, steps, 3)
		for _, s := range steps {
			require.Empty(env, s.Output)
		}
	})
}

func TestCancel(t *testing.T) {
	var l log
	f := failing(&l)
	f.OnFailure("refund", func(context.Context, string, *flow.NodeError) (flow.Maybe[string], error) {
		l.add("refund")
		return flow.Nothing[string](), nil
	})
	workflowtest.Run(t, func(env *workflowtest.Env) {
		run := workflowtest.Start(env, build(t, f), "x")
		env.Advance(time.Second)
		env.NoError(env.Engine().Cancel(env.Context(), run.ID(), "enough"))
		_, err := run.Wait()
		require.ErrorIs(env, err, engine.ErrCanceled)
	})
	require.Equal(t, 0, l.count("refund"))
}

func TestDeadline(t *testing.T) {
	f := flow.New[string, string]("deadline")
	flow.Await(f, "deaf", flow.WaitFor(decided))
	f.Output(flow.Const("never"))
	f.OnFailure("undo", func(context.Context, string, *flow.NodeError) (flow.Maybe[string], error) {
		return flow.Some("undone"), nil
	})
	workflowtest.Run(t, func(env *workflowtest.Env) {
		_, err := workflowtest.Start(env, build(t, f), "x", engine.Timeout(time.Hour)).Wait()
		require.Equal(env, workflow.CodeDeadline, workflow.ErrorCode(err))
	})
}
