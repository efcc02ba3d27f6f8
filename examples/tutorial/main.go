// Tutorial fulfills one order: it charges a card, waits for a cooling-off
// period and for an approval, and ships. docs/tutorial.md explains it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

type Order struct{ Item string }

type Approval struct{ By string }

var Approved = workflow.NewSignal[Approval]("approved")

var Fulfill = workflow.New("fulfill", func(ctx workflow.Context, o Order) (string, error) {
	charge, err := workflow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		return chargeCard(workflow.IdempotencyKey(ctx))
	}, workflow.Attempts(5), workflow.Backoff(time.Second, 2, time.Minute))
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, "cooling-off", 30*time.Second); err != nil {
		return "", err
	}
	approval, err := Approved.Receive(ctx)
	if err != nil {
		return "", err
	}
	return workflow.Step(ctx, "ship", func(ctx context.Context) (string, error) {
		return fmt.Sprintf("%s shipped, paid by %s, approved by %s", o.Item, charge, approval.By), nil
	})
})

var calls atomic.Int32

// chargeCard stands for a call to a bank that fails twice.
func chargeCard(key string) (string, error) {
	fmt.Println("charging the card, key", key)
	if calls.Add(1) < 3 {
		return "", errors.New("the bank does not answer")
	}
	return "charge-1", nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, "sqlite:tutorial.db"); err != nil {
		log.Fatal(err)
	}
}

// serve starts the order and executes runs until ctx ends.
func serve(ctx context.Context, db string) error {
	st, err := backends.Open(ctx, db)
	if err != nil {
		return err
	}
	defer st.Close()
	eng := engine.New(st)
	w := worker.New(eng, worker.Lease(5*time.Second))
	if err := w.Register(Fulfill); err != nil {
		return err
	}
	if _, err := Fulfill.Start(ctx, eng, Order{Item: "a lamp"}, engine.ExternalID("order-1")); err != nil {
		return err
	}
	return w.Run(ctx)
}
