// Quickstart charges an order, waits for a cooling-off period and ships it.
// Kill it at any moment and run it again: it resumes after the last recorded step.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

type Order struct{ Item string }

var Fulfil = workflow.New("fulfil-order", func(ctx workflow.Context, o Order) (string, error) {
	charge, err := workflow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		fmt.Println("charging for", o.Item, "with key", workflow.IdempotencyKey(ctx))
		return "charge-1", nil
	}, workflow.Attempts(3), workflow.Timeout(10*time.Second))
	if err != nil {
		return "", err
	}
	fmt.Println("cooling off: kill me now, and run me again")
	if err := workflow.Sleep(ctx, "cooling-off", 5*time.Second); err != nil {
		return "", err
	}
	return workflow.Step(ctx, "ship", func(ctx context.Context) (string, error) {
		return o.Item + " is shipped, paid by " + charge, nil
	})
})

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	st, err := backends.Open(ctx, "sqlite:quickstart.db")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	w := worker.New(eng, worker.Lease(5*time.Second))
	if err := w.Register(Fulfil); err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()

	h, err := Fulfil.Start(ctx, eng, Order{Item: "a lamp"}, engine.ExternalID("order-42"))
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := h.Result(ctx)
	fmt.Println(receipt, err)
	stop() // the worker leaves before its store is closed
	if err := <-done; err != nil {
		log.Fatal(err)
	}
}
