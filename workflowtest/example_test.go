package workflowtest_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// Answer comes from the customer.
var Answer = workflow.NewSignal[string]("answer")

// Remind waits a week for an answer, and reminds the customer twice.
var Remind = workflow.New("remind", func(ctx workflow.Context, customer string) (string, error) {
	for range 2 {
		if err := workflow.Do(ctx, "mail", func(ctx context.Context) error {
			return fmt.Errorf("tests must not mail %s", customer)
		}); err != nil {
			return "", err
		}
		var answer string
		chosen, err := workflow.Select(ctx, "answer", Answer.Into(&answer), workflow.Timer(7*24*time.Hour))
		if err != nil || chosen == 0 {
			return answer, err
		}
	}
	return "no answer", nil
})

// TestNoAnswer lets two weeks pass, in no time.
func TestNoAnswer(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		mails := 0
		workflowtest.StubDo(env, "mail", func(context.Context) error {
			mails++
			return nil
		})
		run := workflowtest.Start(env, Remind, "ann")
		if got := run.Result(); got != "no answer" || mails != 2 {
			t.Errorf("got %q and %d mails", got, mails)
		}
	})
}

// TestAnswer sends a signal after ten days.
func TestAnswer(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		workflowtest.StubDo(env, "mail", func(context.Context) error { return nil })
		run := workflowtest.Start(env, Remind, "ann")
		env.Advance(10 * 24 * time.Hour)
		env.NoError(Answer.Send(env.Context(), env.Engine(), run.ID(), "yes"))
		if got := run.Result(); got != "yes" {
			t.Errorf("got %q", got)
		}
	})
}

// Pay is a workflow of another program, which Order runs as a child.
var (
	Pay   = workflow.Ref[int, string]("pay@2")
	Order = workflow.New("order", func(ctx workflow.Context, cents int) (string, error) {
		receipt, err := workflow.Child(ctx, "pay", Pay, cents)
		return "paid: " + receipt, err
	})
)

// TestOrder replaces the child.
func TestOrder(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		workflowtest.StubWorkflow(env, Pay, func(ctx workflow.Context, cents int) (string, error) {
			return "receipt 1", workflow.Sleep(ctx, "bank", 24*time.Hour) // banks take their time
		})
		if got := workflowtest.Start(env, Order, 500).Result(); got != "paid: receipt 1" {
			t.Errorf("got %q", got)
		}
	})
}

// A test of a workflow whose child is in another program.
func ExampleStubWorkflow() {
	var t *testing.T // go test gives it to the test function
	TestOrder(t)
}

// A test of a workflow that waits for weeks.
func ExampleRun() {
	var t *testing.T // go test gives it to the test function
	TestNoAnswer(t)
}

// A test that lets time pass, and does something then.
func ExampleEnv_Advance() {
	var t *testing.T // go test gives it to the test function
	TestAnswer(t)
}

// Transfer must survive a crash at any point.
var Transfer = workflow.New("transfer", func(ctx workflow.Context, cents int) (int, error) {
	return workflow.Step(ctx, "book", func(ctx context.Context) (int, error) {
		booked[workflow.IdempotencyKey(ctx)] = cents
		return cents, nil
	})
})

// booked is the world outside: what is booked twice under one key is booked once.
var booked map[string]int

// TestTransferCrashes kills the worker before and after everything that it does.
func TestTransferCrashes(t *testing.T) {
	workflowtest.CrashEverywhere(t, Transfer, 500,
		workflowtest.Reset(func() { booked = map[string]int{} }),
		workflowtest.Observe(func() any { return len(booked) }))
}

// A test that finds steps which are not idempotent.
func ExampleCrashEverywhere() {
	var t *testing.T // go test gives it to the test function
	TestTransferCrashes(t)
}

// Before a deployment, the new code is held against recorded histories of the old one. A
// test calls Replay, which fails it; Check returns the error.
func ExampleCheck() {
	ctx := context.Background()
	greet := workflow.New("greet", func(ctx workflow.Context, name string) (string, error) {
		return workflow.Step(ctx, "write", func(ctx context.Context) (string, error) { return "Hello, " + name, nil })
	})
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(greet); err != nil {
		log.Fatal(err)
	}
	h, err := greet.Start(ctx, eng, "Ann")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}

	// The history goes to a file beside the code.
	var file bytes.Buffer
	history, err := workflowtest.Record(ctx, eng, h.ID())
	if err != nil {
		log.Fatal(err)
	}
	if err := history.Save(&file); err != nil {
		log.Fatal(err)
	}
	if history, err = workflowtest.Load(&file); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same code fits:", workflowtest.Check(greet, history) == nil)

	renamed := workflow.New("greet", func(ctx workflow.Context, name string) (string, error) {
		return workflow.Step(ctx, "compose", func(ctx context.Context) (string, error) { return "Hello, " + name, nil })
	})
	fmt.Println("a step of another name fits:", workflowtest.Check(renamed, history) == nil)
	// Output:
	// the same code fits: true
	// a step of another name fits: false
}
