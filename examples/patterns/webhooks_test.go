package patterns

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/webhook"
)

func TestEnds(t *testing.T) {
	st, err := sqlite.Open(t.Context(), ":memory:")
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	eng := engine.New(st, engine.Require(engine.RequireNothing))
	t.Cleanup(eng.Close)

	secret, seen, got := webhook.NewSecret(), map[string]bool{}, make(chan webhook.Event, 10)
	receiver := httptest.NewServer(&Receiver{Secret: secret, Handle: func(e webhook.Event) error { got <- e; return nil }, New: func(id string) (bool, error) {
		fresh := !seen[id]
		seen[id] = true
		return fresh, nil
	}})
	t.Cleanup(receiver.Close)
	sender, err := Ends(eng, receiver.URL, secret)
	require.NoError(t, err)
	_, err = eng.Subscribe(t.Context(), sender.Subscription())
	require.NoError(t, err)

	ended, err := eng.Start(t.Context(), "order", nil)
	require.NoError(t, err)
	other, err := eng.Start(t.Context(), "other", nil)
	require.NoError(t, err)
	require.NoError(t, eng.Cancel(t.Context(), other.ID, ""))
	require.NoError(t, eng.Cancel(t.Context(), ended.ID, "no stock"))

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sender.Run(ctx) }()
	e := <-got
	stop()
	require.NoError(t, <-done)
	require.Equal(t, []string{"run.canceled", ended.ID.String()}, []string{e.Type, e.Data.Run})
	require.Empty(t, got)

	res, err := http.Post(receiver.URL, "application/json", nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)
}
