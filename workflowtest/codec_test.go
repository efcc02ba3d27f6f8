package workflowtest_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/codec"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
	"github.com/pawlhq/pawl/workflowtest"
)

func encrypted(current string, names ...string) engine.Codec {
	ring := codec.Keyring{Current: current, Keys: map[string][]byte{}}
	for _, name := range append(names, current) {
		ring.Keys[name] = bytes.Repeat([]byte(name), 16)
	}
	return codec.Chain(engine.JSON{}, codec.AESGCM(ring))
}

// A history that was recorded with a codec is checked with it.
func TestReplayWithCodec(t *testing.T) {
	t.Parallel()
	add := func(n int) *workflow.Workflow[int, int] {
		return workflow.New("add", func(ctx workflow.Context, in int) (int, error) {
			out, err := workflow.Step(ctx, "add", func(context.Context) (int, error) { return in + 1, nil })
			return out + n, err
		})
	}
	st, err := sqlite.Open(t.Context(), ":memory:")
	require.NoError(t, err)
	defer st.Close()
	eng := engine.New(st, engine.PayloadCodec(encrypted("a")))
	defer eng.Close()
	w := worker.New(eng)
	require.NoError(t, w.Register(add(0)))
	run, err := add(0).Start(t.Context(), eng, 1) // the engine knows the workflow from its worker
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	out, err := run.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, out)
	h, err := workflowtest.Record(t.Context(), eng, run.ID())
	require.NoError(t, err)
	stop()
	require.NoError(t, <-done)

	workflowtest.Replay(t, add(0), h, workflowtest.Codec(encrypted("a")))
	workflowtest.Replay(t, add(0), h, workflowtest.Codec(encrypted("b", "a"))) // its output has another key then
	for _, wrong := range []workflowtest.CheckOption{workflowtest.Codec(engine.JSON{}), workflowtest.Codec(encrypted("b"))} {
		err = workflowtest.Check(add(0), h, wrong)
		require.ErrorIs(t, err, engine.ErrCodec)
		require.ErrorContains(t, err, "workflowtest.Codec")
	}
	require.ErrorContains(t, workflowtest.Check(add(1), h, workflowtest.Codec(encrypted("a"))), "its output was")
	changed := workflow.New("add", func(ctx workflow.Context, in int) (int, error) {
		out, err := workflow.Step(ctx, "add", func(context.Context) ([]string, error) { return nil, nil })
		return len(out), err
	})
	require.ErrorContains(t, workflowtest.Check(changed, h, workflowtest.Codec(encrypted("a"))), `the record of step "add" cannot be decoded into []string`)
	h.Run.Status = 0 // unfinished: the types must fit all the same
	require.ErrorContains(t, workflowtest.Check(changed, h, workflowtest.Codec(encrypted("a"))), "cannot be decoded into []string")
}
