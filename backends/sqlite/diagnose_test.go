package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// A diagnosis names the indexes that were dropped, and no others.
func TestDiagnoseNamesMissingIndexes(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s := open(t, path)
	indexes := func() store.Finding {
		t.Helper()
		findings, err := s.Diagnose(t.Context())
		require.NoError(t, err)
		for _, f := range findings {
			if f.Name == "indexes" {
				return f
			}
		}
		t.Fatal("no finding about indexes")
		return store.Finding{}
	}
	assert.Equal(t, store.Finding{Name: "indexes", Seen: "all present"}, indexes())
	_, err := raw(t, path).Exec("DROP INDEX runs_claim; DROP INDEX signals_unread")
	require.NoError(t, err)
	f := indexes()
	assert.Equal(t, store.Fault, f.Level)
	assert.Equal(t, "missing: runs_claim, signals_unread", f.Seen)
}
