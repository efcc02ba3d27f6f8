package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// An import that meets its run, which is purged before the import ends, creates the run again. The
// test stops the import at the state, after it has met the run.
func TestImportMeetsPurge(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	s := open(t, url+"&pool_max_conns=1", "pawl")
	at := time.Now().Truncate(time.Microsecond)
	record := store.RunRecord{
		Run: store.Run{ID: store.NewID(), Namespace: "n", Workflow: "w", Queue: "q", ExternalID: "e", Status: store.Completed, Attempt: 1, Events: 1,
			CreatedAt: at, FinishedAt: at},
		State: []store.StateEntry{{Key: "k", Value: []byte("v"), Version: 1, UpdatedAt: at}},
	}
	imports := func() (bool, error) {
		return s.(store.Importer).Import(t.Context(), store.ImportParams{Namespace: "n", Record: record})
	}
	made, err := imports()
	require.NoError(t, err)
	require.True(t, made)

	other, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer other.Close(context.Background())
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE pawl.state IN SHARE MODE`)
	require.NoError(t, err)
	result := make(chan error)
	go func() {
		var err error
		made, err = imports()
		result <- err
	}()
	require.Eventually(t, func() bool {
		var waits bool
		err := tx.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND relation='pawl.state'::regclass)`).Scan(&waits)
		return assert.NoError(t, err) && waits
	}, time.Minute, time.Millisecond)
	purge, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer purge.Close(context.Background())
	_, err = purge.Exec(t.Context(), `DELETE FROM pawl.runs`)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `DELETE FROM pawl.state`)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-result)
	assert.True(t, made)
}
