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

// A schedule that is put while a call fires it either fires or is not there. The test stops the
// call at its insert into the table of runs, after it has looked for the schedule.
func TestFireMeetsPut(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	s, firing := open(t, url, "pawl"), open(t, url+"&pool_max_conns=1", "pawl")
	at := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	fire := func() (store.FireResult, error) {
		return firing.Fire(t.Context(), store.FireParams{Namespace: "n", Schedule: "s", At: at, Next: at.Add(24 * time.Hour),
			Run: &store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}})
	}
	_, err := fire() // prepares the statements, which locks their tables
	require.ErrorIs(t, err, store.ErrNotFound)
	other, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer other.Close(context.Background())
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE pawl.runs IN SHARE MODE`)
	require.NoError(t, err)
	var fired store.FireResult
	result := make(chan error)
	go func() {
		var err error
		fired, err = fire()
		result <- err
	}()
	require.Eventually(t, func() bool {
		var waits bool
		err := tx.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND relation='pawl.runs'::regclass)`).Scan(&waits)
		return assert.NoError(t, err) && waits
	}, time.Minute, time.Millisecond)
	_, err = s.PutSchedule(t.Context(), store.PutScheduleParams{Namespace: "n", Schedule: store.Schedule{Name: "s", Spec: "* * * * *", Workflow: "w", Queue: "q", NextAt: at}})
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-result)
	assert.True(t, fired.Made)
}
