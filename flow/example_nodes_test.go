package flow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// runFlow runs a flow to its end, on a new database in memory, with a worker that also has
// the workflows of its children.
func runFlow[In, Out any](f *flow.Flow[In, Out], in In, children ...workflow.Definition) (Out, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		panic(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.Logger(slog.New(slog.DiscardHandler)))
	defer eng.Close()
	w := worker.New(eng)
	wf := f.Must()
	if err := w.Register(append(children, wf)...); err != nil {
		panic(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	h, err := wf.Start(ctx, eng, in)
	if err != nil {
		panic(err)
	}
	out, err := h.Result(ctx)
	cancel()
	<-stopped
	return out, err
}

// Two steps at the same time, and a third one that takes both results.
func ExampleJoin2() {
	f := flow.New[string, string]("fulfil")
	charge := flow.Step(f, "charge", func(ctx context.Context, item string) (string, error) {
		return "paid", nil
	})
	reserve := flow.Step(f, "reserve", func(ctx context.Context, item string) (string, error) {
		return "a " + item + " from shelf 7", nil
	})
	ship := flow.Join2(f, "ship", charge, reserve, func(ctx context.Context, payment, parcel string) (string, error) {
		return parcel + ", " + payment, nil
	})
	f.Output(ship)
	fmt.Println(runFlow(f, "lamp"))
	// Output:
	// a lamp from shelf 7, paid <nil>
}

// A node with a condition is skipped unless the condition holds, and so are the nodes that depend
// on it.
func ExampleWhen() {
	f := flow.New[int, string]("discount")
	large := flow.Step(f, "ten percent off", func(ctx context.Context, cents int) (int, error) {
		return cents * 9 / 10, nil
	}, flow.When("over 100?", f.Input(), func(cents int) (bool, error) { return cents > 100_00, nil }))
	price := flow.Join2(f, "price", f.Input(), flow.Optional(large), func(ctx context.Context, cents int, reduced flow.Maybe[int]) (string, error) {
		if reduced.OK {
			return fmt.Sprintf("%d instead of %d", reduced.Value, cents), nil
		}
		return fmt.Sprint(cents), nil
	})
	f.Output(price)
	fmt.Println(runFlow(f, 50_00))
	fmt.Println(runFlow(f, 200_00))
	// Output:
	// 5000 <nil>
	// 18000 instead of 20000 <nil>
}

// A node that runs a workflow for each item of a list, and one that takes the outputs.
func ExampleMap() {
	shout := workflow.New("shout", func(ctx workflow.Context, word string) (string, error) {
		return strings.ToUpper(word), nil
	})
	f := flow.New[string, string]("headline")
	words := flow.Step(f, "split", func(ctx context.Context, text string) ([]string, error) {
		return strings.Fields(text), nil
	})
	loud := flow.Map(f, "shout", words, shout, flow.WithMap(workflow.AtOnce(2)))
	f.Output(flow.Pick(loud, func(words []string) string { return strings.Join(words, " ") }))
	fmt.Println(runFlow(f, "man bites dog", shout))
	// Output:
	// MAN BITES DOG <nil>
}

// A signal that does not arrive in time is left out.
func ExampleWithin() {
	comment := workflow.NewSignal[string]("comment")
	f := flow.New[string, string]("review")
	text := flow.Await(f, "comment", flow.Optional(flow.WaitFor(comment, flow.Within(time.Millisecond))))
	publish := flow.Join2(f, "publish", f.Input(), text, func(ctx context.Context, page string, c flow.Maybe[string]) (string, error) {
		return fmt.Sprintf("%s is published, comment: %t", page, c.OK), nil
	})
	f.Output(publish)
	fmt.Println(runFlow(f, "news"))
	// Output:
	// news is published, comment: false <nil>
}

// A node that ends the flow as soon as it knows the answer.
func ExampleFlow_CompleteIf() {
	f := flow.New[string, string]("lookup")
	cached := flow.Step(f, "cache", func(ctx context.Context, key string) (flow.Maybe[string], error) {
		if key == "pi" {
			return flow.Some("3.14, cached"), nil
		}
		return flow.Nothing[string](), nil
	})
	computed := flow.Then(f, "compute", f.Input(), func(ctx context.Context, key string) (string, error) {
		return key + ", computed", nil
	}, flow.After(cached))
	f.CompleteIf(cached)
	f.Output(computed)
	fmt.Println(runFlow(f, "pi"))
	fmt.Println(runFlow(f, "e"))
	// Output:
	// 3.14, cached <nil>
	// e, computed <nil>
}

// A handler that runs when a node has failed for good.
func ExampleFlow_OnFailure() {
	f := flow.New[string, string]("order")
	charge := flow.Step(f, "charge", func(ctx context.Context, item string) (string, error) {
		return "", workflow.Permanent(errors.New("the card has expired"))
	})
	f.Output(charge)
	f.OnFailure("tell", func(ctx context.Context, item string, failed *flow.NodeError) (flow.Maybe[string], error) {
		return flow.Some("no " + item + ": " + failed.Node + " has failed"), nil
	})
	fmt.Println(runFlow(f, "lamp"))
	// Output:
	// no lamp: charge has failed <nil>
}
