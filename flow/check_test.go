package flow_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

type text = flow.Flow[string, string]

func same(_ context.Context, s string) (string, error) { return s, nil }

func yes(string) (bool, error) { return true, nil }

// Everything that is wrong is reported at once, and each mistake says where it is and
// what to do.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		build func(f *text)
		want  []string
	}{
		"empty": {func(f *text) {}, []string{
			`it has no node; add one, with flow.Step for example`,
			`it has no output; call Output with the nodes that give it, the preferred one first`,
		}},
		"unknown": {func(f *text) {
			a := flow.Step(f, "charge", same)
			f.Output(flow.Then(f, "ship", a, same, flow.After(flow.Named("chrage"), flow.Named("elsewhere")), flow.IfSkipped(flow.Named("x"))))
		}, []string{
			`step node "ship" is to run after "chrage", and no node has that name; is it "charge"?`,
			`step node "ship" is to run after "elsewhere", and no node has that name; there are "charge", "ship"`,
			`step node "ship" is to run in place of "x", and no node has that name; there are "charge", "ship"`,
		}},
		"attempts and timeouts": {func(f *text) {
			a := flow.Step(f, "a", same, flow.WithStep(workflow.Attempts(0)))
			f.Output(flow.Then(f, "b", a, same, flow.WithStep(workflow.Attempts(-1), workflow.Timeout(-time.Second))))
		}, []string{
			`step node "a": workflow.Attempts(0) would never try it; give 1 for one attempt, or a negative number for attempts for ever`,
			`step node "b": workflow.Timeout(-1s) is negative; leave it out for none`,
		}},
		"a condition that skips the only output": {func(f *text) {
			a := flow.Step(f, "a", same)
			b := flow.Then(f, "b", a, same, flow.When("b?", a, yes))
			c := flow.Step(f, "c", same, flow.After(b))
			f.Output(flow.Then(f, "d", c, same))
		}, []string{
			`its only output comes from step node "d", which is skipped when a condition of step node "b" does not hold; give Output another node for that case, or a flow.Const as its last input`,
		}},
		"circles": {func(f *text) {
			a := flow.Step(f, "a", same, flow.After(flow.Named("c")))
			b := flow.Then(f, "b", a, same)
			f.Output(flow.Then(f, "c", b, same))
			flow.Step(f, "self", same, flow.After(flow.Named("self")))
			flow.Step(f, "x", same, flow.After(flow.Named("y")), flow.IfSkipped(flow.Named("a")))
			flow.Step(f, "y", same, flow.When("x?", flow.Const(""), yes), flow.After(flow.Named("x")))
		}, []string{
			`nodes wait for each other in a circle: "a" -> "c" -> "b" -> "a" (each for the next); take one of these dependencies out`,
			`nodes wait for each other in a circle: "self" -> "self" (each for the next); take one of these dependencies out`,
			`nodes wait for each other in a circle: "x" -> "y" -> "x" (each for the next); take one of these dependencies out`,
		}},
		"names": {func(f *text) {
			f.Output(flow.Step(f, "a", same))
			flow.Sleep(f, "a", time.Second)
			flow.Step(f, "", same)
			flow.Step(f, "a/b", same)
			flow.Step(f, strings.Repeat("n", 300), same)
			f.OnFailure("a", func(context.Context, string, *flow.NodeError) (flow.Maybe[string], error) {
				return flow.Nothing[string](), nil
			})
		}, []string{
			`sleep node "a": another step has this name already; give one of them another name`,
			`step node: its name: it is empty; give it a name`,
			`step node "a/b": its name contains "/", which separates the parts of a record's key; choose another character`,
			`step node: its name: "` + strings.Repeat("n", 61) + `..." has 300 bytes; at most 255 are allowed`,
			`on-failure node "a": another step has this name already; give one of them another name`,
		}},
		"nil": {func(f *text) {
			f.Output(nil)
			var missing *flow.Node[string]
			flow.Step[string, string, string](f, "no function", nil)
			flow.Then(f, "no input", flow.Input[string](nil), same)
			flow.Then(f, "no node", missing, same, flow.After(missing, nil), nil)
			flow.Then(f, "inside", flow.Pick(flow.Optional(flow.All[string](missing, nil)), func(flow.Maybe[[]string]) string { return "" }), same)
			flow.Then(f, "no pick", flow.Pick[string, string](f.Input(), nil), same)
			flow.Step(f, "condition", same, flow.When[string]("sure", nil, nil), flow.When("", f.Input(), yes))
			flow.Reduce[string, string, string, string, string](f, "reduce", flow.All[string](f.Input()), nil, "", nil)
			flow.Generate[string, string, string, string, string](f, "generate", f.Input(), nil, nil)
			f.OnFailure("undo", nil)
		}, []string{
			`step node "no function": its function is nil`,
			`step node "no input": one of its inputs is nil`,
			`step node "no node": one of its inputs is a nil node`,
			`step node "no node" is to run after a node that is nil`,
			`step node "no node" is to run after a node that is nil`,
			`step node "inside": one of its inputs is a nil node`,
			`step node "inside": one of its inputs is nil`,
			`step node "no pick": the function of its Pick is nil`,
			`the condition "sure" of step node "condition": its function is nil`,
			`the condition "sure" of step node "condition": one of its inputs is nil`,
			`step node "condition": a condition has the text ""; give it a short one that can stand in a picture and in records`,
			`reduce node "reduce": its function is nil`,
			`reduce node "reduce": its workflow is nil`,
			`generate node "generate": its function is nil`,
			`generate node "generate": its workflow is nil`,
			`on-failure node "undo": its function is nil`,
			`the flow's output: one of its inputs is nil`,
		}},
		"foreign": {func(f *text) {
			other := flow.New[string, string]("other")
			a := flow.Step(other, "a", same)
			f.Output(flow.Then(f, "b", a, same, flow.After(a)))
			flow.Then(f, "c", other.Input(), same)
		}, []string{
			`step node "b" takes step node "a", which belongs to another flow; add a node of that name to this one, or make the other flow a child`,
			`step node "b" is to run after step node "a", which belongs to another flow`,
			`step node "c" takes the input of flow "other"; take that of this one`,
		}},
		"options": {func(f *text) {
			a := flow.Step(f, "a", same, flow.IgnoreOutput(), flow.EvenIfSkipped())
			flow.Sleep(f, "nap", time.Hour, flow.WithStep(workflow.Attempts(2)), flow.IgnoreOutput(), flow.WithMap(workflow.AtOnce(1)))
			flow.Map(f, "map", flow.All[string](f.Input()), shout, flow.WithChild(workflow.Detach()), flow.WithGenerate(workflow.Batch(1)))
			flow.Then(f, "b", flow.Optional(a), func(context.Context, flow.Maybe[string]) (string, error) { return "", nil },
				flow.When("told", flow.WaitFor(word), yes))
			flow.Await(f, "deaf", flow.Const(1))
			f.Output(a, flow.WaitFor(word))
			undo := func(context.Context, string, *flow.NodeError) (flow.Maybe[string], error) {
				return flow.Nothing[string](), nil
			}
			f.OnFailure("undo", undo, flow.After(a))
			f.OnFailure("refund", undo)
			flow.Step(f, "behind", same, flow.After(flow.Named("undo")))
		}, []string{
			`step node "a": flow.EvenIfSkipped is about nodes of flow.After, and there are none; for an input use flow.Optional`,
			`sleep node "nap": flow.WithStep is for steps; leave it out`,
			`sleep node "nap": flow.WithMap is for maps and reduces; leave it out`,
			`sleep node "nap": flow.IgnoreOutput is for steps; leave it out`,
			`map node "map": flow.WithChild is for children; leave it out`,
			`map node "map": flow.WithGenerate is for generators; leave it out`,
			`the condition "told" of step node "b" waits for signal "word"; let a flow.Await node wait for it, and give that to the condition`,
			`signal node "deaf": it waits for no signal; give it a flow.WaitFor`,
			`step node "behind" is to run after "undo", which runs on failure only, and nothing runs after that`,
			`on-failure node "undo": it runs when a node has failed, and takes no option but flow.WithStep`,
			`it has 2 handlers on failure; one is allowed: call OnFailure once, and distinguish by the failed node there`,
			`its output waits for signal "word"; let a flow.Await node wait for it`,
			`step node "a": its output is ignored, and yet step node "b" takes it; leave flow.IgnoreOutput out, or use flow.After where only the order counts`,
		}},
		"early ends": {func(f *text) {
			a, b := flow.Step(f, "a", same), flow.Step(f, "b", same)
			f.Output(a)
			f.CompleteWith(flow.Const(""), flow.WaitFor(word), flow.Pick(flow.Both(a, b), func(flow.Pair[string, string]) string { return "" }))
			f.CompleteIf(flow.Optional(a))
		}, []string{
			`the flow's early completion comes from 0 nodes; it must be one, whose end ends the flow: join them in a node`,
			`the flow's early completion waits for signal "word"; let a flow.Await node wait for it`,
			`the flow's early completion comes from 2 nodes; it must be one, whose end ends the flow: join them in a node`,
			`the flow's early completion comes from an optional input; give it the node itself: one that is skipped does not end the flow`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := flow.New[string, string]("f")
			c.build(f)
			wf, err := f.Workflow()
			require.Nil(t, wf)
			require.ErrorIs(t, err, store.ErrInvalid)
			var got []string
			for line := range strings.SplitSeq(err.Error(), "\n") {
				rest, ok := strings.CutPrefix(line, `invalid flow "f": `)
				assert.True(t, ok, line)
				got = append(got, rest)
			}
			require.Equal(t, c.want, got)
			require.NotEmpty(t, f.Graph().Mermaid(), "a wrong flow can be drawn all the same")
			require.PanicsWithValue(t, "flow.Must: "+err.Error(), func() { f.Must() })
		})
	}
}

var word = workflow.NewSignal[string]("word")

func TestWrongNameOfFlow(t *testing.T) {
	f := flow.New[string, flow.None](" x")
	flow.Step(f, "a", same)
	_, err := f.Workflow()
	require.EqualError(t, err, `invalid flow: " x" begins or ends with space`)
}

// A workflow is made of what was there when it was made.
func TestWorkflowIsASnapshot(t *testing.T) {
	f := flow.New[string, string]("f")
	f.Output(flow.Step(f, "a", same))
	build(t, f)
	flow.Step(f, "a", same)
	_, err := f.Workflow()
	require.ErrorContains(t, err, "another step has this name already")
}
