package workflow_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// No call of the zero Handle panics.
func TestZeroHandle(t *testing.T) {
	t.Parallel()
	var run workflow.Handle[int]
	n := workflow.NewState[int]("n")
	for call, do := range map[string]func(ctx context.Context) error{
		"Result": func(ctx context.Context) error { _, err := run.Result(ctx); return err },
		"Status": func(ctx context.Context) error { _, err := run.Status(ctx); return err },
		"Signal": func(ctx context.Context) error { return run.Signal(ctx, workflow.NewSignal[int]("n").With(1)) },
		"Cancel": func(ctx context.Context) error { return run.Cancel(ctx, "") },
		"read":   func(ctx context.Context) error { _, _, err := n.Get(run.State(ctx)); return err },
		"write":  func(ctx context.Context) error { return n.Set(run.State(ctx), 1) },
	} {
		require.ErrorIs(t, do(t.Context()), store.ErrInvalid, call)
		require.ErrorContains(t, do(t.Context()), "zero Handle", call)
	}
}
