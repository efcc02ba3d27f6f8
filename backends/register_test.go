package backends_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/store"
)

// TestRegister checks that a registered backend is opened by its scheme, with the options and the
// URL unchanged; it needs no schema.
func TestRegister(t *testing.T) {
	var gotURL string
	var got backends.Config
	backends.Register("mine+test", backends.Backend{Open: func(ctx context.Context, url string, c backends.Config) (store.Store, error) {
		gotURL, got = url, c
		return sqlite.Open(ctx, "sqlite::memory:")
	}})
	require.Contains(t, backends.Schemes(), "mine+test")
	st, err := backends.Open(t.Context(), "mine+test:place?migrate=false", backends.WithoutMigration(), backends.WithLimits(store.Limits{Payload: 7}))
	require.NoError(t, err)
	defer st.Close()
	require.Equal(t, "mine+test:place?migrate=false", gotURL)
	require.Equal(t, backends.Config{WithoutMigration: true, Limits: &store.Limits{Payload: 7}}, got)
	_, err = backends.SchemaOf(t.Context(), "mine+test:place")
	require.ErrorIs(t, err, store.ErrUnsupported)
	require.ErrorContains(t, err, `"mine+test"`)
	_, err = backends.SchemaSQL("mine+test:place", 0)
	require.ErrorIs(t, err, store.ErrUnsupported)
	_, err = backends.Open(t.Context(), "other:place")
	require.ErrorContains(t, err, "mine+test")

	open := func(context.Context, string, backends.Config) (store.Store, error) { return nil, nil }
	for scheme, b := range map[string]backends.Backend{
		"mine+test": {Open: open}, "sqlite": {Open: open}, "wss": {Open: open}, "Bolt": {Open: open}, "": {Open: open}, "a:b": {Open: open}, "bolt": {},
	} {
		require.Panics(t, func() { backends.Register(scheme, b) }, scheme)
	}
}
