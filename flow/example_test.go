package flow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

type Order struct {
	Item  string
	Cents int
	Gift  bool
}

type (
	Charge      struct{ ID string }
	Reservation struct{ Shelf string }
	Parcel      struct{ Text string }
)

// Fulfil charges and reserves at the same time, wraps gifts, and ships. Large orders are shipped
// after somebody has approved them.
var Fulfil = func() *flow.Flow[Order, string] {
	f := flow.New[Order, string]("fulfil")
	order := f.Input()

	charge := flow.Step(f, "charge", func(ctx context.Context, o Order) (Charge, error) {
		if o.Cents == 0 {
			return Charge{}, workflow.Permanent(errors.New("nothing to charge"))
		}
		return Charge{ID: fmt.Sprintf("charge of %d", o.Cents)}, nil
	}, flow.WithStep(workflow.Attempts(3)))

	reserve := flow.Step(f, "reserve", func(ctx context.Context, o Order) (Reservation, error) {
		return Reservation{Shelf: "shelf " + strings.ToUpper(o.Item[:1])}, nil
	})

	wrap := flow.Then(f, "wrap", reserve, func(ctx context.Context, r Reservation) (string, error) {
		return "wrapped", nil
	}, flow.When("a gift?", order, func(o Order) (bool, error) { return o.Gift, nil }))

	approval := flow.Await(f, "approval", flow.WaitFor(Approved),
		flow.When("over 100?", order, func(o Order) (bool, error) { return o.Cents > 100_00, nil }))

	ship := flow.Join3(f, "ship", charge, reserve, flow.Optional(wrap), func(ctx context.Context, c Charge, r Reservation, w flow.Maybe[string]) (Parcel, error) {
		return Parcel{Text: strings.TrimSpace(fmt.Sprintf("from %s, %s %s", r.Shelf, c.ID, w.Value))}, nil
	}, flow.After(approval), flow.EvenIfSkipped())

	f.Output(flow.Pick(ship, func(p Parcel) string { return p.Text }))

	f.OnFailure("apologise", func(ctx context.Context, o Order, failed *flow.NodeError) (flow.Maybe[string], error) {
		fmt.Println("no", o.Item, "today:", failed)
		return flow.Nothing[string](), nil
	})
	return f
}()

// Approved says who has approved an order.
var Approved = workflow.NewSignal[string]("approved")

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	quiet := slog.New(slog.DiscardHandler)
	eng := engine.New(st, engine.Logger(quiet))
	defer eng.Close()

	fulfil := Fulfil.Must()
	w := worker.New(eng)
	if err := w.Register(fulfil); err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()

	for _, o := range []Order{{Item: "lamp", Cents: 20_00}, {Item: "vase", Cents: 500_00, Gift: true}, {Item: "cup"}} {
		h, err := fulfil.Start(ctx, eng, o)
		if err != nil {
			fmt.Println(err)
			return
		}
		if o.Cents > 100_00 {
			if err := Approved.Send(ctx, eng, h.ID(), "ann"); err != nil {
				fmt.Println(err)
			}
		}
		out, err := h.Result(ctx)
		fmt.Println(o.Item, "->", out, errors.Is(err, engine.ErrFailed))
	}
	stop()
	<-done
	// Output:
	// lamp -> from shelf L, charge of 2000 false
	// vase -> from shelf V, charge of 50000 wrapped false
	// no cup today: node "charge": step charge/charge: nothing to charge
	// cup ->  true
}

func ExampleGraph_Mermaid() {
	fmt.Print(Fulfil.Graph().Mermaid())
	// Output:
	// flowchart TD
	//     in(["input"])
	//     n0["charge"]
	//     n1["reserve"]
	//     n2["wrap"]
	//     c2{"a gift?"}
	//     n3{{"approval<br/>waits for signal approved"}}
	//     c3{"over 100?"}
	//     n4["ship"]
	//     out(["output"])
	//     failure[/"on failure: apologise"/]
	//     in --> n0
	//     in --> n1
	//     c2 -->|yes| n2
	//     n1 --> c2
	//     in --> c2
	//     c3 -->|yes| n3
	//     in --> c3
	//     n0 --> n4
	//     n1 --> n4
	//     n2 -->|optional| n4
	//     n3 -.->|after, even if skipped| n4
	//     n4 --> out
}

// Mistakes are found when the flow is built, all at once.
func ExampleFlow_Workflow() {
	f := flow.New[string, string]("sloppy")
	step := func(_ context.Context, s string) (string, error) { return s, nil }
	pack := flow.Step(f, "pack", step, flow.After(flow.Named("send")))
	send := flow.Then(f, "send", pack, step, flow.After(flow.Named("wiegh")))
	flow.Then(f, "weigh", send, step)
	_, err := f.Workflow()
	fmt.Println(err)
	// Output:
	// invalid flow "sloppy": step node "send" is to run after "wiegh", and no node has that name; is it "weigh"?
	// invalid flow "sloppy": it has no output; call Output with the nodes that give it, the preferred one first
	// invalid flow "sloppy": nodes wait for each other in a circle: "pack" -> "send" -> "pack" (each for the next); take one of these dependencies out
}
