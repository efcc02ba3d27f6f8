package upgrade_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/internal/testing/upgrade"
	"github.com/pawlhq/pawl/store"
)

// TestPlan: the plan knows every statement, and on PostgreSQL none makes a worker wait for
// a second.
func TestPlan(t *testing.T) {
	t.Parallel()
	onPostgres := upgrade.Backends()[2]
	for _, version := range onPostgres.Versions(t) {
		p, err := postgres.PlanOf(t.Context(), onPostgres.At(t, version, true).URL)
		require.NoError(t, err)
		require.Equal(t, version == p.Newest, len(p.Steps) == 0)
		for _, s := range p.Steps {
			require.NotEqual(t, "unknown", s.Lock, s.SQL)
			if s.Table != "" {
				require.GreaterOrEqual(t, s.Longest, time.Duration(0), s.SQL)
				require.Less(t, s.Longest, time.Second, s.SQL)
			}
		}
	}
	place := upgrade.Backends()[1].At(t, 1, true)
	p, err := turso.PlanOf(t.Context(), place.URL, place.Turso...)
	require.NoError(t, err)
	runs := 0
	for _, s := range p.Steps {
		if s.Table == "runs" {
			runs++
			require.Equal(t, store.BlocksWrites, s.Blocks)
			require.Equal(t, int64(13), s.Rows)
		}
	}
	require.NotZero(t, runs)
}
