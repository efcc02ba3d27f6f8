package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// TestSignalInASecondTransaction has the first transaction of a call fail when it commits, and the run end before
// the second one. What the first one has seen does not count.
func TestSignalInASecondTransaction(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	s := open(t, url, "pawl")
	run := store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}
	_, err := s.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{run}})
	require.NoError(t, err)
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	// The first transaction ends when the cancel waits for its lock.
	_, err = admin.Exec(t.Context(), `
		CREATE SEQUENCE pawl.tries;
		CREATE FUNCTION pawl.begins() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('pawl.tries'); RETURN new; END $$;
		CREATE FUNCTION pawl.fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pg_backend_pid()=ANY(pg_blocking_pids(pid))) LOOP
				PERFORM pg_sleep(0.001), pg_stat_clear_snapshot();
			END LOOP;
			RAISE EXCEPTION 'the first try' USING ERRCODE='40001'; END $$;
		CREATE TRIGGER begins BEFORE INSERT ON pawl.signals FOR EACH ROW EXECUTE FUNCTION pawl.begins();
		CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON pawl.signals DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.fails()`)
	require.NoError(t, err)
	sent := make(chan []store.SignalResult, 1)
	go func() {
		defer close(sent)
		if res, err := s.Signal(t.Context(), store.SignalParams{Namespace: "n", Signals: []store.NewSignal{{ID: store.NewID(), Run: run.ID, Name: "s"}}}); err == nil {
			sent <- res
		}
	}()
	for begun := false; !begun; {
		require.NoError(t, admin.QueryRow(t.Context(), "SELECT is_called FROM pawl.tries").Scan(&begun))
	}
	ended, err := s.Cancel(t.Context(), store.CancelParams{Namespace: "n", IDs: []store.ID{run.ID}})
	require.NoError(t, err)
	require.Equal(t, store.Canceled, ended[0].Status)
	res := <-sent
	require.Len(t, res, 1)
	require.ErrorIs(t, res[0].Err, store.ErrFinished)
}
