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

// TestFirstSubscriptionWaits: the first subscription of a schema creates triggers, for which it needs a lock that a
// transaction of somebody else has. Other writes go on, it is put once that transaction has ended, and after its
// patience it gives up and names the session.
func TestFirstSubscriptionWaits(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	with := func(patience time.Duration) *postgres.Store {
		s, err := postgres.Open(t.Context(), url, postgres.WithPatience(patience))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	s, hasty := with(time.Hour), with(0)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	holder, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), `LOCK TABLE pawl.runs IN ROW EXCLUSIVE MODE`)
	require.NoError(t, err)

	put := func(s store.Outboxer) error {
		_, err := s.PutSubscription(t.Context(), store.PutSubscriptionParams{Namespace: "n", Subscription: store.Subscription{Name: "all"}})
		return err
	}
	err = put(hasty)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "could not lock the table of runs")
	require.ErrorContains(t, err, "pg_terminate_backend")

	done := make(chan error, 1)
	go func() { done <- put(s) }()
	waits := func() bool {
		var waits bool
		err := holder.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation='pawl.runs'::regclass AND NOT granted)`).Scan(&waits)
		require.NoError(t, err)
		return waits
	}
	require.Eventually(t, waits, 30*time.Second, time.Millisecond)
	require.NoError(t, create(t.Context(), hasty, store.NewID()), "a write goes on")
	require.Eventually(t, func() bool { return !waits() }, 30*time.Second, time.Millisecond, "the statement gives way")
	select {
	case err := <-done:
		require.NoError(t, err)
		require.Fail(t, "the subscription was put beside the lock")
	default:
	}
	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, <-done)
}
