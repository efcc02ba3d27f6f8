package patterns

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

func TestBar(t *testing.T) {
	workflowtest.Run(t, func(env *workflowtest.Env) {
		page := workflow.New("page", func(ctx workflow.Context, n int) (int, error) {
			return workflow.Step(ctx, "print", func(context.Context) (int, error) { return n, nil })
		})
		book := workflow.New("book", func(ctx workflow.Context, pages int) (int, error) {
			out, err := workflow.Map(ctx, "pages", make([]int, pages), page)
			return len(out), err
		})
		shelf := workflow.New("shelf", func(ctx workflow.Context, books []int) (int, error) {
			out, err := workflow.Map(ctx, "books", books, book)
			return len(out), err
		})
		env.Register(page, book)
		h := workflowtest.Start(env, shelf, []int{3, 4})
		require.Equal(t, 2, h.Result())
		var lines []string
		require.NoError(t, Bar(env.Context(), env.Engine(), h.ID(), func(line string) { lines = append(lines, line) }))
		require.Equal(t, []string{"9 of 9, 0 failed"}, lines)
	})
}
