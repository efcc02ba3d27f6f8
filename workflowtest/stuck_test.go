package workflowtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// stuck runs f, which is to be ended by a run that waits for ever, and returns what the
// test is told.
func stuck(t *testing.T, f func(env *workflowtest.Env)) string {
	var told string
	workflowtest.Run(t, func(env *workflowtest.Env) {
		told = workflowtest.Fatal(env, func() { f(env) })
	})
	require.NotEmpty(t, told, "the test was not ended")
	return told
}

func TestForgottenSignal(t *testing.T) {
	told := stuck(t, func(env *workflowtest.Env) {
		forgetful := workflow.New("forgetful", func(ctx workflow.Context, _ int) (decision, error) { return decided.Receive(ctx) })
		workflowtest.Start(env, forgetful, 0).Result()
	})
	require.Contains(t, told, `"forgetful"`)
	require.Contains(t, told, "decided")
}

func TestForgottenChild(t *testing.T) {
	told := stuck(t, func(env *workflowtest.Env) {
		child := workflow.New("unregistered", func(workflow.Context, int) (int, error) { return 1, nil })
		parent := workflow.New("parent", func(ctx workflow.Context, n int) (int, error) { return workflow.Child(ctx, "kid", child, n) })
		_, _ = workflowtest.Start(env, parent, 0).Wait()
	})
	require.Contains(t, told, `"parent"`)
	require.Contains(t, told, `"unregistered"`)
}

// A long sleep, and a signal that comes late, are no waits for ever.
func TestLongWaits(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		long := workflow.New("long", func(ctx workflow.Context, _ int) (decision, error) {
			if err := workflow.Sleep(ctx, "five years", 5*365*24*time.Hour); err != nil {
				return decision{}, err
			}
			return decided.Receive(ctx)
		})
		run := workflowtest.Start(env, long, 0)
		time.AfterFunc((5*365+300)*24*time.Hour, func() {
			_ = decided.Send(env.Context(), env.Engine(), run.ID(), decision{Yes: true})
		})
		require.True(env, run.Result().Yes)
	})
}
