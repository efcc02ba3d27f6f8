package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var words = workflow.NewStream[string]("words")

// poet appends to a stream in a step that fails once.
var poet = workflow.New("poet", func(ctx workflow.Context, n int) (int, error) {
	if err := workflow.NewStream[int]("lines").AppendInRun(ctx, n); err != nil {
		return 0, err
	}
	return n, workflow.Do(ctx, "write", func(ctx context.Context) error {
		if workflow.Attempt(ctx) == 1 {
			return errors.Join(words.Append(ctx, "Roses"), errors.New("no ink"))
		}
		return words.Append(ctx, "Violets", "are", "blue")
	}, workflow.Attempts(2), workflow.Backoff(1, 1, 1))
})

func TestStream(t *testing.T) {
	db := "sqlite:" + t.TempDir() + "/pawl.db"
	s := newShell(t, db)
	st, err := backends.Open(t.Context(), db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	eng := engine.New(st, engine.Require(engine.RequireNothing))
	t.Cleanup(eng.Close)
	h, err := poet.Start(t.Context(), eng, 4)
	require.NoError(t, err)
	id := h.ID().String()
	require.Empty(t, s.must("runs", "stream", id), "nothing is written yet")

	w := worker.New(eng)
	require.NoError(t, w.Register(poet))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	last := s.must("runs", "stream", id, "words", "--follow")
	require.True(t, strings.HasSuffix(last, "\"Violets\"\n\"are\"\n\"blue\"\n"), "saw %q", last)
	require.Equal(t, "lines: 4\nwords: \"Violets\"\nwords: \"are\"\nwords: \"blue\"\n", s.must("runs", "stream", id))
	require.Equal(t, 1, strings.Count(s.must("runs", "stream", id, "words", "--json"), `"reset":true`))
	require.Equal(t, "\"are\"\n\"blue\"\n", s.must("runs", "stream", id, "words", "--after", "3"))
	require.Empty(t, s.must("runs", "stream", id, "other", "--follow"))
	require.Equal(t, exitNotFound, s.run("runs", "stream", store.NewID().String(), "words").code)
	require.Contains(t, s.run("runs", "stream", id, "words", "--after", "-1").err, "negative")
}
