package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// A purge leaves the children of a run that another write has locked, because that write may restart it.
func TestPurgeLeavesChildrenOfLockedParents(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	s := open(t, url, "pawl")
	at := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	parent, child := store.NewID(), store.NewID()
	for _, r := range []store.Run{{ID: parent}, {ID: child, Parent: parent}} {
		r.Namespace, r.Workflow, r.Queue, r.Status, r.Attempt, r.CreatedAt, r.FinishedAt = "n", "w", "q", store.Completed, 1, at, at
		made, err := s.(store.Importer).Import(t.Context(), store.ImportParams{Namespace: "n", Record: store.RunRecord{Run: r}})
		require.NoError(t, err)
		require.True(t, made)
	}
	other, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer other.Close(context.Background())
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM pawl.runs WHERE id=$1 FOR NO KEY UPDATE`, [16]byte(parent))
	require.NoError(t, err)
	purge := func() int {
		n, err := s.Purge(t.Context(), store.PurgeParams{Namespace: "n"})
		require.NoError(t, err)
		return n
	}
	require.Zero(t, purge(), "purged beside the other write")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 2, purge(), "purged after it")
}
