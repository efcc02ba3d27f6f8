package flow_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

var update = flag.Bool("update", false, "write testdata anew")

// golden compares with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// every has a node of each kind, every kind of edge, and unusual names.
func every() *text {
	f := flow.New[string, string](`all "kinds"`)
	a := flow.Step(f, `a "quoted" [name] {x} (y) <b>&amp; 1; | -->`, same)
	b := flow.Then(f, "end", a, same,
		flow.When(`amount > #100 "or" a/b?`, a, yes), flow.When("not `blocked`", flow.Optional(a), func(flow.Maybe[string]) (bool, error) { return true, nil }), flow.WithStep(workflow.Attempts(3)))
	c := flow.Then(f, "größe\\n", b, same, flow.IgnoreOutput())
	nap := flow.Sleep(f, "cool off", 24*time.Hour, flow.After(c))
	ok := flow.Await(f, "approval", flow.WaitFor(word), flow.After(nap))
	d := flow.Join3(f, "join", f.Input(), flow.Optional(b), flow.WaitFor(decided), func(_ context.Context, a string, b flow.Maybe[string], d decision) (string, error) {
		return "", nil
	}, flow.After(nap, flow.Named("later")), flow.EvenIfSkipped())
	e := flow.Step(f, "1. instead *of* it", same, flow.IfSkipped(b))
	flow.Do(f, "later", flow.Const("x"), func(context.Context, string) error { return nil })
	f.Output(d, ok, flow.Const("none"))
	f.CompleteWith(e)
	f.OnFailure("undo [all]", func(context.Context, string, *flow.NodeError) (flow.Maybe[string], error) {
		return flow.Nothing[string](), nil
	})
	return f
}

func TestMermaid(t *testing.T) {
	f := every()
	build(t, f)
	got := f.Graph().Mermaid()
	golden(t, "testdata/every.mmd", got)
	for line := range strings.Lines(got) {
		require.Zero(t, strings.Count(line, `"`)%2, "quotes that are not closed: %s", line)
	}
	golden(t, "testdata/empty.mmd", flow.New[string, string]("empty").Graph().Mermaid())
}

func TestGraphIsJSON(t *testing.T) {
	g := every().Graph()
	data, err := json.MarshalIndent(g, "", "  ")
	require.NoError(t, err)
	golden(t, "testdata/every.json", string(data)+"\n")
	var back flow.Graph
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, g, back)
}

// The graph can be read from the store once a worker has registered the flow.
func TestGraphIsStored(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		f := every()
		plain := workflow.New("plain", func(workflow.Context, string) (string, error) { return "", nil })
		env.Register(build(t, f), plain)
		env.Advance(time.Second)
		defs, err := env.Engine().Definitions(env.Context())
		env.NoError(err)
		require.Len(env, defs, 2)
		require.Equal(env, `all "kinds"`, defs[0].Name)
		var g flow.Graph
		env.NoError(json.Unmarshal(defs[0].Graph, &g))
		require.Equal(env, f.Graph(), g)
		require.Equal(env, f.Graph().Mermaid(), g.Mermaid())
		require.Nil(env, defs[1].Graph)
	})
}

// A graph that is too large for the store is omitted; the flow runs nevertheless.
func TestLargeGraph(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		f := flow.New[string, string]("large")
		var last flow.Input[string] = f.Input()
		for range 400 {
			last = flow.Then(f, "node "+strings.Repeat("n", 100)+time.Duration(len(f.Graph().Nodes)).String(), last, same)
		}
		f.Output(last)
		require.Equal(env, "x", workflowtest.Start(env, build(t, f), "x").Result())
		defs, err := env.Engine().Definitions(env.Context(), "large")
		env.NoError(err)
		require.Nil(env, defs[0].Graph)
	})
}
