package worker_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Every call after the first one that starts a worker fails, and a running worker goes on.
func TestWorkerStartsOnce(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	eng := engine.New(st)
	defer eng.Close()
	wf := workflow.New("echo", func(ctx workflow.Context, in int) (int, error) { return in, nil })
	other := workflow.New("other", func(ctx workflow.Context, in int) (int, error) { return in, nil })
	refused := func(w *worker.Worker) {
		t.Helper()
		require.ErrorContains(t, w.Run(t.Context()), "starts only once")
		_, err := w.RunUntilIdle(t.Context())
		require.ErrorContains(t, err, "starts only once")
		require.ErrorContains(t, w.Register(other), "has started")
	}

	w := worker.New(eng)
	require.ErrorContains(t, w.Run(t.Context()), "no workflow is registered") // this does not start it
	require.NoError(t, w.Register(wf))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for n := range 2 { // the second run proves that the refused calls have not stopped the worker
		h, err := wf.Start(t.Context(), eng, n)
		require.NoError(t, err)
		out, err := h.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, n, out)
		refused(w)
	}
	stop()
	require.NoError(t, <-done)
	refused(w)

	idle := worker.New(eng)
	require.NoError(t, idle.Register(wf))
	_, err = idle.RunUntilIdle(t.Context())
	require.NoError(t, err)
	refused(idle)
}
