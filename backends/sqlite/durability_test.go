package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// TestDurability checks that the writing connection has the requested setting, whatever a step's
// transaction tries, and that the doctor reads it from that connection.
func TestDurability(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		location string
		promise  store.Durability
		level    int
		says     string
	}{
		"full":      {"", store.Durable, syncFull, "a commit waits for the disk"},
		"normal":    {"?synchronous=normal", store.Buffered, syncNormal, "as the URL says"},
		"in memory": {":memory:", store.Volatile, syncFull, "in memory"},
	} {
		t.Run(name, func(t *testing.T) {
			location := tt.location
			if location != ":memory:" {
				location = "sqlite:" + filepath.Join(t.TempDir(), "pawl.db") + tt.location
			}
			s, err := Open(t.Context(), location)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.Equal(t, tt.promise, s.Features().Durability)
			said := func(level store.Level, words string) {
				t.Helper()
				f, err := s.durabilityFinding(t.Context())
				require.NoError(t, err)
				require.Equal(t, level, f.Level, "%+v", f)
				require.Contains(t, f.Seen, words)
			}
			said(store.Fine, tt.says)

			var tx *sql.Tx
			step, err := s.Begin(t.Context(), &tx)
			require.NoError(t, err)
			_, _ = tx.ExecContext(t.Context(), "PRAGMA synchronous=OFF") // SQLite may or may not refuse this
			step.Rollback()
			level, err := s.runner.synchronous(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.level, level, "after a step's transaction")
			said(store.Fine, tt.says)

			if tt.promise == store.Volatile {
				return
			}
			c := <-s.runner.writer
			require.NoError(t, c.exec("PRAGMA synchronous=OFF"))
			s.runner.writer <- c
			said(store.Warning, "synchronous is OFF")
		})
	}
}
