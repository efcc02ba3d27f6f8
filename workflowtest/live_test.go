package workflowtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

func waitsBehind(step string) *workflow.Workflow[int, string] {
	return workflow.New("waits", func(ctx workflow.Context, _ int) (string, error) {
		if err := workflow.Do(ctx, step, func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		return Answer.Receive(ctx)
	})
}

// reports keeps the errors of a test that is to fail.
type reports struct {
	testing.TB
	errs []string
}

func (r *reports) Helper() {}

func (r *reports) Errorf(format string, args ...any) {
	r.errs = append(r.errs, fmt.Sprintf(format, args...))
}

func TestReplayLive(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "live.db")
	st, err := sqlite.Open(ctx, path)
	require.NoError(t, err)
	eng := engine.New(st, engine.Namespace("shop"), engine.Logger(slog.New(slog.DiscardHandler)))
	w := worker.New(eng)
	require.NoError(t, w.Register(waitsBehind("a")))
	for range 3 {
		_, err := waitsBehind("a").Start(ctx, eng, 0)
		require.NoError(t, err)
	}
	_, err = w.RunUntilIdle(ctx)
	require.NoError(t, err)
	eng.Close()
	require.NoError(t, st.Close())

	live, err := sqlite.Open(ctx, path, sqlite.WithoutMigration())
	require.NoError(t, err)
	defer func() { require.NoError(t, live.Close()) }()
	workflowtest.ReplayLive(t, live, []workflow.Definition{waitsBehind("a")}, workflowtest.Namespace("shop"))
	r := &reports{TB: t}
	workflowtest.ReplayLive(r, live, []workflow.Definition{waitsBehind("b")}, workflowtest.Namespace("shop"))
	require.Len(t, r.errs, 1)
	require.Contains(t, r.errs[0], "workflow waits, step a (nondeterministic)")
	require.Contains(t, r.errs[0], "2 more runs like it")
	r.errs = nil
	workflowtest.ReplayLive(r, live, nil)
	require.True(t, len(r.errs) == 1 && strings.Contains(r.errs[0], "none is given"))
}
