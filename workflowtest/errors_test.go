package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

var (
	errDeclined = errors.New("declined")
	amount      = workflow.NewSignal[int]("amount")
	stock       = workflow.NewState[int]("stock")
	words       = workflow.NewState[string]("stock") // of another type
)

// charge is a workflow whose step fails for good with a code.
var charge = workflow.New("charge", func(ctx workflow.Context, cents int) (int, error) {
	return cents, workflow.Do(ctx, "card", func(context.Context) error { return workflow.Coded("declined", errDeclined) }, workflow.Attempts(2), workflow.Backoff(1, 1, 1))
})

// kinds names what errors.As and errors.Is find in an error.
func kinds(err error) (found []string) {
	var step *workflow.StepError
	if errors.As(err, &step) {
		found = append(found, fmt.Sprintf("step %s after %d: %s", step.Key, step.Attempts, step.Failure.Message))
	}
	var decode *workflow.DecodeError
	if errors.As(err, &decode) {
		found = append(found, fmt.Sprintf("%s is no %s: %v", decode.What, decode.Type, decode.Err != nil))
	}
	var items *workflow.ItemsError
	if errors.As(err, &items) {
		found = append(found, fmt.Sprintf("%d of %d items", items.Failed, items.Spawned))
	}
	var item *workflow.ItemError
	if errors.As(err, &item) {
		found = append(found, fmt.Sprintf("item %d", item.Index))
	}
	var run *engine.RunError
	if errors.As(err, &run) {
		found = append(found, fmt.Sprintf("run of %s %s", run.Workflow, run.Status))
	}
	var failure *store.Failure
	if errors.As(err, &failure) {
		found = append(found, "failure "+failure.Code)
	}
	for name, target := range map[string]error{"ErrFailed": engine.ErrFailed, "ErrTimeout": workflow.ErrTimeout, "the original": errDeclined} {
		if errors.Is(err, target) {
			found = append(found, name)
		}
	}
	return append(found, "code "+workflow.ErrorCode(err))
}

// meets comes upon an error of each kind and returns what it finds in them.
var meets = workflow.New("meets", func(ctx workflow.Context, _ int) (found [][]string, err error) {
	see := func(err error) { found = append(found, kinds(fmt.Errorf("order 7: %w", err))) }
	see(workflow.Do(ctx, "fails", func(context.Context) error { return workflow.Coded("declined", errDeclined) }, workflow.Attempts(1)))
	_, err = workflow.Step(ctx, "panics", func(context.Context) (int, error) { panic("oh") }, workflow.Attempts(1))
	see(err)
	_, err = workflow.Child(ctx, "child", charge, 5)
	see(err)
	_, err = workflow.Map(ctx, "map", []int{1}, charge)
	see(err)
	_, err = workflow.Generate(ctx, "generate", func(context.Context, func(int) error) error { return workflow.Coded("declined", errDeclined) }, charge, workflow.GeneratorStep(workflow.Attempts(1)))
	see(err)
	_, err = amount.Receive(ctx)
	see(err)
	_, err = amount.ReceiveTimeout(ctx, 0)
	see(err)
	var n int
	_, err = workflow.Select(ctx, "select", amount.Into(&n), workflow.Timer(0))
	see(err)
	if err := words.Set(ctx, "many"); err != nil {
		return nil, err
	}
	_, _, err = stock.Get(ctx)
	see(err)
	see(workflow.WaitForState(ctx, "wait", func(workflow.FlowStateReader) (bool, error) { return false, workflow.Coded("declined", errDeclined) }))
	return found, nil
})

// What errors.As and errors.Is find is the same while a run goes on and when it is replayed.
func TestErrorsAreFoundLiveAndReplayed(t *testing.T) {
	var h workflowtest.History
	workflowtest.Run(t, func(env *workflowtest.Env) {
		env.Register(charge)
		run := workflowtest.Start(env, meets, 0)
		for range 3 {
			env.NoError(workflow.NewSignal[string]("amount").Send(env.Context(), env.Engine(), run.ID(), "much"))
		}
		child := []string{"run of charge failed", "failure declined", "ErrFailed", "code declined"}
		signal := []string{`the payload of signal "amount" is no int: true`, "code decode"}
		require.Equal(env, [][]string{
			{"step fails after 1: declined", "failure declined", "code declined"},
			{"step panics after 1: step panics panicked: oh", "failure panic", "code panic"},
			child,
			append([]string{"1 of 1 items", "item 0"}, child...),
			{"step generate after 1: declined", "failure declined", "code declined"},
			signal, signal, signal,
			{`the value of state "stock" is no int: true`, "code decode"},
			{"step wait after 1: declined", "failure declined", "code declined"},
		}, run.Result())
		var err error
		h, err = workflowtest.Record(env.Context(), env.Engine(), run.ID())
		env.NoError(err)
	})
	workflowtest.Replay(t, meets, h)
}

// A run's result matches what its workflow's function returned, as far as it is recorded.
func TestErrorsOfResults(t *testing.T) {
	undecoded := workflow.New("undecoded", func(ctx workflow.Context, _ int) (int, error) {
		_, err := amount.Receive(ctx)
		return 0, fmt.Errorf("order 7: %w", err)
	})
	text := workflow.New("text", func(workflow.Context, int) (string, error) { return "many", nil })
	workflowtest.Run(t, func(env *workflowtest.Env) {
		_, err := workflowtest.Start(env, charge, 5).Wait()
		require.Equal(env, []string{"run of charge failed", "failure declined", "ErrFailed", "code declined"}, kinds(err))

		run := workflowtest.Start(env, undecoded, 0)
		env.NoError(workflow.NewSignal[string]("amount").Send(env.Context(), env.Engine(), run.ID(), "much"))
		_, err = run.Wait()
		require.Equal(env, []string{"run of undecoded failed", "failure decode", "ErrFailed", "code decode"}, kinds(err))

		other := workflowtest.Start(env, text, 0)
		require.Equal(env, "many", other.Result())
		_, err = workflow.Ref[int, int]("text").Handle(env.Engine(), other.ID()).Result(env.Context())
		var decode *workflow.DecodeError
		require.ErrorAs(env, err, &decode)
		require.Equal(env, "int", decode.Type)
	})
}
