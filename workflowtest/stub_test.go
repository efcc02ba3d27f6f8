package workflowtest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

// A workflow that is stubbed keeps its name, version and queue, and its own function is not
// called, as a child, as an item and when a test starts it.
func TestStubWorkflow(t *testing.T) {
	double := workflow.New("double", func(_ workflow.Context, in int) (int, error) {
		return 0, errors.New("the workflow's own function was called")
	}, workflow.Version("2"), workflow.Queue("special"))
	sum := workflow.New("sum", func(ctx workflow.Context, items []int) (int, error) {
		return workflow.Reduce(ctx, "sum", items, double, 0, func(acc, _, out int) (int, error) { return acc + out, nil })
	})
	workflowtest.Run(t, func(env *workflowtest.Env) {
		workflowtest.StubWorkflow(env, double, func(_ workflow.Context, in int) (int, error) {
			if in < 0 {
				return 0, workflow.Coded("negative", errors.New("negative"))
			}
			return 2 * in, nil
		})
		require.Equal(env, 12, workflowtest.Start(env, sum, []int{1, 2, 3}).Result())
		_, err := workflowtest.Start(env, sum, []int{-1}).Wait()
		require.ErrorIs(env, err, engine.ErrFailed)
		require.ErrorContains(env, err, "negative")
		direct := workflowtest.Start(env, double, 5)
		require.Equal(env, 10, direct.Result())
		run, err := env.Engine().Get(env.Context(), direct.ID())
		env.NoError(err)
		require.Equal(env, []string{"double@2", "special"}, []string{run.Workflow, run.Queue})

		told := workflowtest.Fatal(env, func() {
			workflowtest.StubWorkflow(env, sum, func(workflow.Context, []int) (int, error) { return 0, nil })
		})
		require.Contains(t, told, `"sum" is already registered`)
	})
}
