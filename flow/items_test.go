package flow_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// shout is the workflow of items.
var shout = workflow.New("shout", func(ctx workflow.Context, s string) (string, error) {
	if s == "bad" {
		return "", errors.New("bad item")
	}
	return workflow.Step(ctx, "upper", func(context.Context) (string, error) { return strings.ToUpper(s), nil })
})

func TestItems(t *testing.T) {
	sub := flow.New[string, string]("sub")
	sub.Output(flow.Step(sub, "twice", func(_ context.Context, s string) (string, error) { return s + s, nil }))
	twice := build(t, sub)

	f := flow.New[string, string]("items")
	words := flow.Step(f, "split", func(_ context.Context, s string) ([]string, error) { return strings.Fields(s), nil })
	mapped := flow.Map(f, "map", words, shout, flow.WithMap(workflow.AtOnce(2)))
	reduced := flow.Reduce(f, "reduce", words, shout, 0, func(acc, _ int, s string) (int, error) { return acc + len(s), nil },
		flow.When("more than one", words, func(w []string) (bool, error) { return len(w) > 1, nil }))
	generated := flow.Generate(f, "generate", words, func(_ context.Context, words []string, yield func(string) error) error {
		for _, w := range words {
			if err := yield(w); err != nil {
				return err
			}
		}
		return nil
	}, shout, flow.WithGenerate(workflow.Batch(2)))
	seq := flow.GenerateSeq(f, "seq", words, func(_ context.Context, words []string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, w := range words {
				if !yield(w, nil) {
					return
				}
			}
		}
	}, shout)
	from := flow.GenerateFrom(f, "from", words, func(_ context.Context, words []string, from int, yield func(string, int) error) error {
		for i, w := range words[from:] {
			if err := yield(w, from+i+1); err != nil {
				return err
			}
		}
		return nil
	}, shout)
	child := flow.Child(f, "child", f.Input(), twice, flow.WithChild(workflow.ChildPriority(3)))
	all := flow.Join3(f, "all", mapped, flow.Optional(reduced), flow.All[workflow.Generated](generated, seq, from),
		func(_ context.Context, m []string, r flow.Maybe[int], g []workflow.Generated) (string, error) {
			return fmt.Sprint(m, r, g[0].Completed, g[1].Completed, g[2].Completed), nil
		})
	f.Output(flow.Pick(flow.Both(all, child), func(p flow.Pair[string, string]) string { return p.First + " " + p.Second }))
	workflowtest.Run(t, func(env *workflowtest.Env) {
		env.Register(shout, twice)
		wf := build(t, f)
		require.Equal(env, "[A BB CCC] {6 true} 3 3 3 a bb ccca bb ccc", workflowtest.Start(env, wf, "a bb ccc").Result())
		require.Equal(env, "[A] {0 false} 1 1 1 aa", workflowtest.Start(env, wf, "a").Result())
		_, err := workflowtest.Start(env, wf, "a bad").Wait()
		require.Error(env, err)
		require.Contains(env, err.Error(), `node "`)
		require.Contains(env, err.Error(), "bad item")
	})
	golden(t, "testdata/items.mmd", f.Graph().Mermaid())
}

// TestChildrenAreLeftOff checks that children that run when the flow ends are canceled with it.
func TestChildrenAreLeftOff(t *testing.T) {
	slow := workflow.New("slow", func(ctx workflow.Context, s string) (string, error) {
		return s, workflow.Sleep(ctx, "sleep", 30*24*time.Hour)
	})
	f := flow.New[string, string]("left-off")
	flow.Child(f, "child", f.Input(), slow)
	flow.Map(f, "map", flow.All[string](f.Input(), f.Input()), slow)
	f.CompleteWith(flow.Step(f, "quick", same, flow.After(flow.Sleep(f, "nap", time.Hour))))
	f.Output(flow.Const("never"))
	workflowtest.Run(t, func(env *workflowtest.Env) {
		env.Register(slow)
		start := time.Now()
		require.Equal(env, "x", workflowtest.Start(env, build(t, f), "x").Result())
		require.Less(env, time.Since(start), 2*time.Hour)
		env.Advance(time.Second)
		page, err := env.Engine().List(env.Context(), store.RunFilter{Workflow: "slow"}, "", 10)
		env.NoError(err)
		require.Len(env, page.Runs, 3)
		for _, r := range page.Runs {
			require.Equal(env, store.Canceled, r.Status)
		}
	})
}
