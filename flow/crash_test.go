package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// world counts effects, each once per idempotency key.
type world struct {
	mu      sync.Mutex
	done    map[string]bool
	atReset func()
}

func (w *world) reset() {
	w.done = make(map[string]bool)
	if w.atReset != nil {
		w.atReset()
	}
}

func (w *world) effect(ctx context.Context, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, key, _ := cut(workflow.IdempotencyKey(ctx))
	w.done[what+" as "+key] = true
}

// cut removes the ID of the run from a key.
func cut(key string) (run, rest string, ok bool) {
	for i := range key {
		if key[i] == '/' {
			return key[:i], key[i+1:], true
		}
	}
	return "", key, false
}

func (w *world) seen() any {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for k := range w.done {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// does returns a step with an effect that takes a while.
func (w *world) does(name string, takes time.Duration, err error) func(context.Context, string) (string, error) {
	return func(ctx context.Context, in string) (string, error) {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		w.effect(ctx, name)
		return in + name, err
	}
}

func TestCrashes(t *testing.T) {
	for name, add := range map[string]func(w *world, f *flow.Flow[string, string]){
		"diamond with conditions and waits": func(w *world, f *flow.Flow[string, string]) {
			a := flow.Step(f, "a", w.does("a", time.Second, nil))
			b := flow.Then(f, "b", a, w.does("b", time.Second, nil), flow.When("yes", a, func(s string) (bool, error) { return s != "", nil }))
			c := flow.Then(f, "c", a, w.does("c", 2*time.Second, nil), flow.When("no", a, func(s string) (bool, error) { return s == "", nil }))
			nap := flow.Sleep(f, "nap", time.Hour, flow.After(b))
			d := flow.Join2(f, "d", b, flow.Optional(c), func(ctx context.Context, b string, c flow.Maybe[string]) (string, error) {
				w.effect(ctx, "d")
				return fmt.Sprint(b, c), nil
			}, flow.After(nap))
			instead := flow.Then(f, "instead", d, w.does("instead", 0, nil), flow.IfSkipped(c))
			f.Output(c, instead)
		},
		"signal": func(w *world, f *flow.Flow[string, string]) {
			a := flow.Step(f, "a", w.does("a", time.Second, nil))
			slow := flow.Step(f, "slow", w.does("slow", time.Minute, nil))
			b := flow.Join2(f, "b", a, flow.WaitFor(decided), func(ctx context.Context, s string, d decision) (string, error) {
				w.effect(ctx, "b")
				return fmt.Sprint(s, d.Yes), nil
			})
			f.Output(flow.Pick(flow.Both(b, slow), func(p flow.Pair[string, string]) string { return p.First + p.Second }))
		},
		"failure with handler": func(w *world, f *flow.Flow[string, string]) {
			slow := flow.Step(f, "slow", w.does("slow", time.Minute, nil))
			flow.Step(f, "bad", w.does("bad", time.Second, workflow.Permanent(errDeclined)), flow.After(slow))
			flow.Await(f, "deaf", flow.WaitFor(workflow.NewSignal[int]("never")))
			f.Output(slow)
			f.OnFailure("undo", func(ctx context.Context, in string, failed *flow.NodeError) (flow.Maybe[string], error) {
				w.effect(ctx, "undo "+failed.Error())
				if workflow.Attempt(ctx) == 1 {
					return flow.Nothing[string](), errors.New("not yet")
				}
				return flow.Some("undone"), nil
			})
		},
		"two failures": func(w *world, f *flow.Flow[string, string]) {
			// Whichever node makes the flow fail: once its handler has begun, it stays that node.
			fails := func(after time.Duration) func(context.Context, string) (string, error) {
				return (&world{done: make(map[string]bool)}).does("", after, workflow.Permanent(errDeclined))
			}
			worse := flow.Step(f, "worse", fails(2*time.Second))
			flow.Step(f, "bad", fails(time.Second))
			f.Output(worse)
			var seen []string // since the last reset
			w.atReset = func() { seen = nil }
			f.OnFailure("undo", func(ctx context.Context, in string, failed *flow.NodeError) (flow.Maybe[string], error) {
				if !slices.Contains(seen, failed.Error()) {
					seen = append(seen, failed.Error())
				}
				w.effect(ctx, fmt.Sprint("undo of ", len(seen)))
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
				}
				return flow.Some("undone"), nil
			})
		},
		"early completion": func(w *world, f *flow.Flow[string, string]) {
			a := flow.Step(f, "a", w.does("a", time.Second, nil))
			nap := flow.Sleep(f, "nap", 30*24*time.Hour)
			f.CompleteWith(flow.Then(f, "b", a, w.does("b", time.Second, nil)))
			f.Output(flow.Step(f, "c", w.does("c", 0, nil), flow.After(nap)))
			f.OnFailure("undo", func(ctx context.Context, in string, failed *flow.NodeError) (flow.Maybe[string], error) {
				w.effect(ctx, "undo")
				return flow.Nothing[string](), nil
			})
		},
		"items": func(w *world, f *flow.Flow[string, string]) {
			m := flow.Map(f, "map", flow.All[string](f.Input(), flow.Const("y")), shout)
			f.Output(flow.Pick(m, func(l []string) string { return l[0] + l[1] }))
		},
		"attempts of the run": func(w *world, f *flow.Flow[string, string]) {
			good := flow.Step(f, "good", w.does("good", time.Second, nil))
			bad := flow.Then(f, "bad", good, func(ctx context.Context, in string) (string, error) {
				w.effect(ctx, "bad")
				return "", errDeclined
			}, flow.WithStep(workflow.Attempts(1)))
			f.Output(bad)
			f.OnFailure("undo", func(ctx context.Context, in string, failed *flow.NodeError) (flow.Maybe[string], error) {
				w.effect(ctx, "undo")
				return flow.Nothing[string](), nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			attempts := 1
			if name == "attempts of the run" {
				attempts = 2
			}
			f := flow.New[string, string]("crashes", workflow.RunAttempts(attempts))
			add(w, f)
			workflowtest.CrashEverywhere(t, build(t, f), "x", workflowtest.Reset(w.reset), workflowtest.Observe(w.seen),
				workflowtest.Script(func(env *workflowtest.Env, run store.ID) {
					switch name {
					case "items":
						env.Register(shout)
					case "signal":
						env.NoError(decided.Send(env.Context(), env.Engine(), run, decision{Yes: true}))
					}
				}))
		})
	}
}

func TestReplay(t *testing.T) {
	make := func(names ...string) *workflow.Workflow[string, string] {
		f := flow.New[string, string]("replays")
		var last *flow.Node[string]
		for i, name := range names {
			if i == 0 {
				last = flow.Step(f, name, says(&log{}, name))
			} else {
				last = flow.Then(f, name, last, says(&log{}, name), flow.When("any", last, func(s string) (bool, error) { return s != "", nil }))
			}
		}
		f.Output(last, flow.Const("none"))
		return build(t, f)
	}
	workflowtest.Run(t, func(env *workflowtest.Env) {
		run := workflowtest.Start(env, make("a", "b", "c"), "x")
		require.Equal(env, "xabc", run.Result())
		h, err := workflowtest.Record(env.Context(), env.Engine(), run.ID())
		env.NoError(err)
		workflowtest.Replay(env, make("a", "b", "c"), h)
		require.ErrorContains(env, workflowtest.Check(make("a", "c", "b"), h), "is now")
		require.ErrorContains(env, workflowtest.Check(make("a", "b", "c", "d"), h), "now")
	})
}

// Histories of runs that ended early, or with a failure, fit: work that was abandoned is not a
// change.
func TestReplayOfWhatWasLeftOff(t *testing.T) {
	early := flow.New[string, string]("early")
	nap := flow.Sleep(early, "nap", time.Minute)
	quick := flow.Step(early, "quick", same, flow.After(nap))
	early.Output(flow.Step(early, "slow", func(ctx context.Context, s string) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}))
	early.CompleteWith(quick)
	var l log
	handled := failing(&l)
	handled.OnFailure("undo", func(context.Context, string, *flow.NodeError) (flow.Maybe[string], error) {
		return flow.Some("undone"), nil
	})
	for _, f := range []*flow.Flow[string, string]{early, failing(&l), handled} {
		workflowtest.Run(t, func(env *workflowtest.Env) {
			run := workflowtest.Start(env, build(t, f), "x")
			_, _ = run.Wait()
			h, err := workflowtest.Record(env.Context(), env.Engine(), run.ID())
			env.NoError(err)
			for range 20 {
				workflowtest.Replay(env, build(t, f), h)
			}
		})
	}
}

// A flow may change while a run of it is in progress.
func TestChange(t *testing.T) {
	version := func(n int) *workflow.Workflow[string, string] {
		f := flow.New[string, string]("changes")
		var l log
		a := flow.Step(f, "a", says(&l, "a"))
		if n == 1 {
			flow.Then(f, "gone", a, says(&l, "gone"))
		}
		nap := flow.Sleep(f, "nap", time.Hour, flow.After(a))
		last := flow.Then(f, "b", a, says(&l, "b"), flow.After(nap))
		if n == 2 {
			added := flow.Step(f, "added", says(&l, "added"), flow.When("any", f.Input(), yes))
			last = flow.Join2(f, "c", last, added, concat)
		}
		f.Output(last, flow.Const("none"))
		return build(t, f)
	}
	workflowtest.Run(t, func(env *workflowtest.Env) {
		run := workflowtest.Start(env, version(1), "x")
		env.Advance(time.Minute)
		h, err := workflowtest.Record(env.Context(), env.Engine(), run.ID())
		env.NoError(err)
		require.Len(env, h.Steps, 3)
		workflowtest.Replay(env, version(1), h)
		workflowtest.Replay(env, version(2), h)
	})
}
