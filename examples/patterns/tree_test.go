package patterns_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/examples/patterns"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

func TestBar(t *testing.T) {
	st, err := sqlite.Open(t.Context(), sqlite.Memory)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	eng := engine.New(st, engine.Require(engine.RequireNothing))
	defer eng.Close()
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
	w := worker.New(eng)
	require.NoError(t, w.Register(page, book, shelf))
	h, err := shelf.Start(t.Context(), eng, []int{3, 4})
	require.NoError(t, err)
	_, err = w.RunUntilIdle(t.Context())
	require.NoError(t, err)
	var lines []string
	require.NoError(t, patterns.Bar(t.Context(), eng, h.ID(), func(line string) { lines = append(lines, line) }))
	require.Equal(t, []string{"9 of 9, 0 failed"}, lines)
}
