package workflow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

type Order struct {
	Item  string
	Cents int
}

// Fulfil charges for an order and ships it. A crash between the two steps does not
// charge again: the next worker finds the record of the first step.
var Fulfil = workflow.New("fulfil-order", func(ctx workflow.Context, o Order) (string, error) {
	charge, err := workflow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		return fmt.Sprintf("charge of %d cents", o.Cents), nil
	})
	if err != nil {
		return "", err
	}
	return workflow.Step(ctx, "ship", func(ctx context.Context) (string, error) {
		return fmt.Sprintf("%s shipped, %s", o.Item, charge), nil
	})
})

// A whole program: it opens a store, runs a worker, starts a run and waits for its result.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// A program that must survive a crash names a file, or another database.
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()

	w := worker.New(eng)
	if err := w.Register(Fulfil); err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	run, err := Fulfil.Start(ctx, eng, Order{Item: "lamp", Cents: 2000})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))

	cancel() // the worker stops before its store is closed
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// lamp shipped, charge of 2000 cents <nil>
}
