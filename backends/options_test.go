package backends_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "pawl.db")
	_, err := backends.Open(t.Context(), url, backends.WithoutMigration())
	require.ErrorIs(t, err, store.ErrInvalid, "a new file has no schema")
	st, err := backends.Open(t.Context(), url, backends.WithLimits(store.Limits{Payload: 1000, Warn: 500}))
	require.NoError(t, err)
	defer st.Close()
	require.Equal(t, store.Limits{Payload: 1000, Warn: 500}, st.Limits())
}
