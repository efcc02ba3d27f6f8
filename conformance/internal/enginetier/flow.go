package enginetier

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// makes returns the workflow of a valid flow.
func makes[In, Out any](e *E, f *flow.Flow[In, Out]) *workflow.Workflow[In, Out] {
	e.Helper()
	wf, err := f.Workflow()
	e.ok("flow", err)
	return wf
}

var flowEngineCases = []Case{
	{Name: "flow/killed-in-the-middle", Promise: "P6", Rule: "A flow whose worker is killed resumes after what its nodes have recorded: steps, items of a map, and a signal.", Run: func(e *E) {
		var ran tally
		blocked := make(chan struct{}, 1)
		item := workflow.New("item", func(ctx workflow.Context, s string) (string, error) {
			return workflow.Step(ctx, "upper", func(context.Context) (string, error) { return strings.ToUpper(s), nil })
		})
		f := flow.New[string, string]("flow")
		split := flow.Step(f, "split", func(_ context.Context, s string) ([]string, error) {
			ran.add("split")
			return strings.Fields(s), nil
		})
		items := flow.Map(f, "items", split, item)
		never := flow.Then(f, "never", split, func(context.Context, []string) (string, error) { ran.add("never"); return "", nil },
			flow.When("more than nine", split, func(w []string) (bool, error) { ran.add("when"); return len(w) > 9, nil }))
		blocks := flow.Then(f, "blocks", items, func(ctx context.Context, w []string) (string, error) {
			if ran.add("blocks") == 1 {
				blocked <- struct{}{}
				<-ctx.Done()
				return "", ctx.Err()
			}
			return strings.Join(w, " "), nil
		})
		heard := flow.Join2(f, "heard", split, flow.WaitFor(word), func(_ context.Context, w []string, said string) (string, error) {
			ran.add("heard")
			return fmt.Sprint(len(w), said), nil
		})
		f.Output(flow.Pick(flow.All[string](blocks, heard), func(s []string) string { return strings.Join(s, "|") }), never)
		wf := makes(e, f)
		first := e.process(defs(wf, item))
		h := start(e, wf, "a b c")
		send(e, word, h.ID(), "now")
		receive(e, "the step that blocks", blocked)
		for e.steps(h.ID())["heard/heard"].Status != store.StepCompleted {
			pause(e)
		}
		first.kill()
		e.process(defs(wf, item))
		e.eq("output", result(e, h), "A B C|3now")
		e.eq("executions", []int{ran.get("split"), ran.get("heard"), ran.get("blocks"), ran.get("never")}, []int{1, 1, 2, 0})
		e.eq("questions of the condition", ran.get("when"), 1)
	}},
	{Name: "flow/fails-once", Promise: "P6", Rule: "Once a flow's handler has begun, the flow fails by the node that it was called for, whatever is killed.", Run: func(e *E) {
		var ran tally
		blocked := make(chan struct{}, 1)
		f := flow.New[int, int]("flow", workflow.RunAttempts(2), workflow.RunBackoff(time.Millisecond, 1, 0))
		bad := flow.Step(f, "bad", func(context.Context, int) (int, error) { return 0, fmt.Errorf("bad time %d", ran.add("bad")) }, flow.WithStep(workflow.Attempts(1)))
		flow.Await(f, "deaf", flow.WaitFor(word))
		f.Output(bad)
		f.OnFailure("undo", func(ctx context.Context, _ int, failed *flow.NodeError) (flow.Maybe[int], error) {
			if ran.add(failed.Error()) == 1 && ran.get("bad") == 1 {
				blocked <- struct{}{}
				<-ctx.Done()
				return flow.Nothing[int](), ctx.Err()
			}
			return flow.Nothing[int](), nil
		})
		wf := makes(e, f)
		first := e.process(defs(wf))
		h := start(e, wf, 0)
		receive(e, "the handler", blocked)
		first.kill()
		e.process(defs(wf))
		_, err := h.Result(e.ctx)
		var end *engine.RunError
		if !errors.As(err, &end) {
			e.Fatalf("saw %v, expected that the run fails", err)
		}
		name, _ := flow.FailedNode(end.Failure)
		e.eq("failed node", name, "bad")
		// The second attempt of the run executes the node again, and calls the handler again.
		e.eq("executions", []int{ran.get("bad"), ran.get(`node "bad": step bad/bad: bad time 1`), ran.get(`node "bad": step bad/bad: bad time 2`)}, []int{2, 2, 1})
	}},
	{Name: "flow/at-once", Promise: "P3", Rule: "Nodes that do not depend on each other run at the same time; one that depends on several begins when all are done.", Run: func(e *E) {
		var meet sync.WaitGroup
		meet.Add(3)
		f := flow.New[int, int]("flow")
		var sides []flow.Input[int]
		for i := range 3 {
			sides = append(sides, flow.Step(f, fmt.Sprint("side ", i), func(context.Context, int) (int, error) {
				meet.Done()
				meet.Wait() // all three must be here at once
				return i + 1, nil
			}))
		}
		f.Output(flow.Then(f, "sum", flow.All(sides...), func(_ context.Context, ns []int) (int, error) { return 100*ns[0] + 10*ns[1] + ns[2], nil }))
		wf := makes(e, f)
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), 123)
		e.eq("recorded steps", len(e.steps(h.ID())), 4)
	}},
	{Name: "flow/items", Promise: "P9", Rule: "Maps, reduces, generators and children are nodes: several processes work on their items.", Run: func(e *E) {
		const n = 40
		item := workflow.New("item", func(ctx workflow.Context, n int) (int, error) {
			return workflow.Step(ctx, "twice", func(context.Context) (int, error) { return 2 * n, nil })
		})
		f := flow.New[int, []int64]("flow")
		list := flow.Step(f, "list", func(_ context.Context, n int) ([]int, error) {
			l := make([]int, n)
			for i := range l {
				l[i] = i
			}
			return l, nil
		})
		mapped := flow.Map(f, "map", list, item, flow.WithMap(workflow.AtOnce(10)))
		sum := flow.Reduce(f, "sum", mapped, item, 0, func(acc, _ int, out int) (int, error) { return acc + out, nil })
		made := flow.Generate(f, "generate", f.Input(), func(_ context.Context, n int, yield func(int) error) error {
			for i := range n {
				if err := yield(i); err != nil {
					return err
				}
			}
			return nil
		}, item)
		child := flow.Child(f, "child", sum, item)
		f.Output(flow.Pick(flow.Both(flow.Both(sum, child), made), func(p flow.Pair[flow.Pair[int, int], workflow.Generated]) []int64 {
			return []int64{int64(p.First.First), int64(p.First.Second), p.Second.Spawned, p.Second.Completed}
		}))
		wf := makes(e, f)
		for range 2 {
			e.process(defs(wf, item))
		}
		e.eq("sum, twice the sum, items spawned and completed", result(e, start(e, wf, n)), []int64{2 * n * (n - 1), 4 * n * (n - 1), n, n})
	}},
	{Name: "flow/transaction", Promise: "P3", Rule: "A node in a transaction writes once, however often it is tried and whatever is recorded beside it.", Run: func(e *E) {
		if !e.s.Features().Transactions {
			return // the cases tx/... test what a step reports then
		}
		var ran tally
		f := flow.New[string, int]("flow")
		setup := flow.ThenTx(f, "setup", f.Input(), func(ctx context.Context, tx *sql.Tx, table string) (string, error) {
			_, err := tx.ExecContext(ctx, "CREATE TABLE "+table+" (n integer)")
			return table, err
		})
		adds := func(name string, opts ...flow.Option) *flow.Node[int] {
			return flow.ThenTx(f, name, setup, func(ctx context.Context, tx *sql.Tx, table string) (int, error) {
				if err := addRow(ctx, tx, table); err != nil {
					return 0, err
				}
				if ran.add(name) == 1 {
					return 0, errFlaky
				}
				return 1, nil
			}, append(opts, flow.WithStep(workflow.Backoff(e.d(time.Second), 1, 0)))...)
		}
		one, two := adds("one"), adds("two", flow.IgnoreOutput())
		f.Output(flow.ThenTx(f, "count", flow.Both(setup, one), func(ctx context.Context, tx *sql.Tx, p flow.Pair[string, int]) (n int, err error) {
			if err = tx.QueryRowContext(ctx, "SELECT count(*) FROM "+p.First).Scan(&n); err == nil {
				_, err = tx.ExecContext(ctx, "DROP TABLE "+p.First)
			}
			return n, err
		}, flow.After(two)))
		wf := makes(e, f)
		e.process(defs(wf))
		h := start(e, wf, "flow_"+strings.ReplaceAll(store.NewID().String(), "-", ""))
		e.eq("rows", result(e, h), 2)
		e.eq("executions", ran.get("one")+ran.get("two"), 4)
	}},
	{Name: "flow/ends-early", Promise: "P11", Rule: "A node that ends the flow completes the run at once: waits end, children are canceled, and nothing more begins.", Run: func(e *E) {
		var ran tally
		waits := listener(1)
		f := flow.New[int, string]("flow")
		flow.Child(f, "child", f.Input(), waits)
		deaf := flow.Await(f, "deaf", flow.WaitFor(word))
		flow.Do(f, "behind", deaf, func(context.Context, string) error { ran.add("behind"); return nil })
		nap := flow.Sleep(f, "nap", e.d(time.Minute))
		f.CompleteWith(flow.Step(f, "ends", func(context.Context, int) (string, error) { return "early", nil }, flow.After(nap)))
		f.Output(deaf)
		wf := makes(e, f)
		e.process(defs(wf, waits))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), "early")
		page, err := e.eng.List(e.ctx, store.RunFilter{Parent: h.ID()}, "", 10)
		e.ok("list", err)
		e.eq("number of children", len(page.Runs), 1)
		receive(e, "the child's end", e.ended(page.Runs[0].ID))
		kid, err := e.eng.Get(e.ctx, page.Runs[0].ID)
		e.ok("get", err)
		e.eq("status of the child", kid.Status, store.Canceled)
		e.eq("executions behind the wait", ran.get("behind"), 0)
	}},
	{Name: "flow/canceled", Promise: "P11", Rule: "A flow that is canceled ends with its waits, its steps and its children, and without its handler.", Run: func(e *E) {
		var ran tally
		begun := make(chan struct{}, 1)
		waits := listener(1)
		f := flow.New[int, string]("flow")
		flow.Child(f, "child", f.Input(), waits)
		flow.Step(f, "blocks", func(ctx context.Context, _ int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		f.Output(flow.Await(f, "deaf", flow.WaitFor(word)))
		f.OnFailure("undo", func(context.Context, int, *flow.NodeError) (flow.Maybe[string], error) {
			ran.add("undo")
			return flow.Nothing[string](), nil
		})
		wf := makes(e, f)
		e.process(defs(wf, waits))
		h := start(e, wf, 0)
		receive(e, "the step", begun)
		for len(e.children(h.ID())) == 0 { // another branch makes it
			pause(e)
		}
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrCanceled), "saw %v", err)
		page, err := e.eng.List(e.ctx, store.RunFilter{Parent: h.ID()}, "", 10)
		e.ok("list", err)
		e.eq("number of children", len(page.Runs), 1)
		receive(e, "the child's end", e.ended(page.Runs[0].ID)) // its worker may first have to learn of it
		e.eq("executions of the handler", ran.get("undo"), 0)
	}},
	{Name: "flow/graph", Promise: "P12", Rule: "The graph of a flow is kept with its definition and comes back as it was.", Run: func(e *E) {
		f := flow.New[int, int]("flow \"ö\"")
		a := flow.Step(f, "a <b>", func(_ context.Context, n int) (int, error) { return n, nil })
		f.Output(flow.Then(f, "b", a, func(_ context.Context, n int) (int, error) { return n, nil },
			flow.When("odd?", a, func(n int) (bool, error) { return n%2 == 1, nil })), flow.Const(0))
		plain := listener(1)
		wf := makes(e, f)
		e.process(defs(wf, plain))
		result(e, start(e, wf, 1)) // the worker has registered
		list, err := e.eng.Definitions(e.ctx)
		e.ok("definitions", err)
		e.eq("number of definitions", len(list), 2)
		var g flow.Graph
		e.ok("graph", json.Unmarshal(list[0].Graph, &g))
		e.eq("graph", g.Mermaid(), f.Graph().Mermaid())
		e.eq("graph of a plain workflow", string(list[1].Graph), "")

		// The engine keeps what it knows itself beside it.
		keeps := engine.New(e.s, engine.Namespace("engine"), engine.Retain(engine.Retention{Completed: time.Hour}))
		defer keeps.Close()
		w, err := bridge.Of(keeps).Registration("both", "q", []byte(`{"any": ["thing"]}`))
		e.ok("registration", err)
		e.ok("put", e.s.PutWorkflows(e.ctx, store.PutWorkflowsParams{Namespace: "engine", Workflows: []store.Workflow{w}}))
		list, err = e.eng.Definitions(e.ctx, "both")
		e.ok("definitions", err)
		e.eq("both", fmt.Sprintf("%s %s %v", list[0].Queue, list[0].Graph, list[0].Retention.Completed), `q {"any":["thing"]} 1h0m0s`)
	}},
}
