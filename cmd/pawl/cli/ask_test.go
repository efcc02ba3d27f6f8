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

var withdraw = workflow.NewUpdate[int, int]("withdraw")

// account answers two requests: what is left, or an error.
var account = workflow.New("account", func(ctx workflow.Context, balance int) (int, error) {
	for range 2 {
		err := withdraw.Handle(ctx, func(_ workflow.Context, n int) (int, error) {
			if n > balance {
				return 0, errors.New("too little is left")
			}
			balance -= n
			return balance, nil
		})
		if err != nil {
			return 0, err
		}
	}
	return balance, nil
})

func TestAsk(t *testing.T) {
	db := "sqlite:" + t.TempDir() + "/pawl.db"
	s := newShell(t, db)
	st, err := backends.Open(t.Context(), db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	eng := engine.New(st, engine.Require(engine.RequireNothing))
	t.Cleanup(eng.Close)
	h, err := account.Start(t.Context(), eng, 40, engine.ExternalID("account-7"))
	require.NoError(t, err)

	id := store.NewID().String()
	r := s.run("runs", "ask", h.ID().String(), "withdraw", "30", "--signal-id", id, "--timeout", "20ms")
	require.Equal(t, exitTimeout, r.code, "no worker is there")
	require.Contains(t, r.err, "repeat the command with --signal-id "+id)

	w := worker.New(eng)
	require.NoError(t, w.Register(account))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	for range 2 {
		require.Equal(t, "10", strings.TrimSpace(s.must("runs", "ask", h.ID().String(), "withdraw", "30", "--signal-id", id)))
	}
	r = s.run("runs", "ask", "--external-id", "account-7", "withdraw", "30")
	require.Equal(t, exitRunFailed, r.code)
	require.Contains(t, r.err, "too little is left")
	_, err = h.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, exitConflict, s.run("runs", "ask", h.ID().String(), "withdraw", "1").code)
	require.Equal(t, exitNotFound, s.run("runs", "ask", store.NewID().String(), "withdraw", "1").code)
}
