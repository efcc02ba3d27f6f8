package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/upgrade"
	"github.com/pawlhq/pawl/store"
)

// TestMigrationGivesUp: a migration that waits for another transaction without progress gives
// up, names the session, and leaves nothing half done. Once the transaction has ended, it
// is completed.
func TestMigrationGivesUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ holds, says string }{
		"a lock":     {`SELECT count(*) FROM pawl.runs`, "could not lock its table within"},
		"a snapshot": {`SELECT 1`, "could not build index"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := upgrade.Backends()[2].At(t, 1, true)
			conn, err := pgx.Connect(t.Context(), place.URL)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(t.Context())) }()
			tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), tt.holds)
			require.NoError(t, err)

			_, err = postgres.Open(t.Context(), place.URL, postgres.WithPatience(200*time.Millisecond))
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, tt.says)
			require.ErrorContains(t, err, "pg_terminate_backend")
			if name == "a lock" {
				schema, err := place.Schema(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, 1, schema.Version, "the migration that could not lock is undone")
			}

			require.NoError(t, tx.Rollback(t.Context()))
			st, err := place.Open(t.Context())
			require.NoError(t, err)
			require.NoError(t, st.Close())
			for _, object := range place.Objects(t) {
				require.NotContains(t, object, "not valid", "an index that was left unfinished")
			}
		})
	}
}
