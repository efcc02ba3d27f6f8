package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// TestListsOfNamespacesWithOneHash lists and counts the runs and the builds of two namespaces that have
// the same number in the index of lists.
func TestListsOfNamespacesWithOneHash(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	conn, err := pgx.Connect(t.Context(), location)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var names []string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT array_agg(n) FROM (SELECT 'tenant-'||i AS n FROM generate_series(1, 300000) i) x
		GROUP BY hashtext(n) HAVING count(*)>1 LIMIT 1`).Scan(&names))
	require.Greater(t, len(names), 1)

	s, err := postgres.Open(t.Context(), location, postgres.WithSchema(schema))
	require.NoError(t, err)
	defer s.Close()
	own := map[string]store.ID{}
	for _, name := range names[:2] {
		own[name] = store.NewID()
		made, err := s.Create(t.Context(), store.CreateParams{Namespace: name, Runs: []store.NewRun{{ID: own[name], Workflow: "w", Queue: "q", Worker: "me", LeaseFor: time.Minute, Build: name}}})
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		done, err := s.Commit(t.Context(), store.CommitParams{Namespace: name, Commits: []store.Commit{{Lease: made[0].Lease, Seq: 1, Steps: []store.StepRecord{
			{StepKey: store.StepKey{Name: "s", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: 1, Attempt: 1}}}}})
		require.NoError(t, err)
		require.NoError(t, done[0].Err)
	}
	for name, id := range own {
		page, err := s.List(t.Context(), store.ListParams{Namespace: name, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		require.Equal(t, id, page.Runs[0].ID)
		counts, err := s.Count(t.Context(), store.CountParams{Namespace: name, Filter: store.RunFilter{Statuses: []store.Status{store.Running}}})
		require.NoError(t, err)
		require.Len(t, counts, 1)
		require.EqualValues(t, 1, counts[0].Count)
		builds, err := s.ListBuilds(t.Context(), store.ListBuildsParams{Namespace: name})
		require.NoError(t, err)
		require.Len(t, builds.Builds, 1)
		require.Equal(t, name, builds.Builds[0].Name)
	}
}
