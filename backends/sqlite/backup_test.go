package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/store"
)

// TestVacuumInto checks that a copy that is made while the store is in use is a complete database
// with everything that was committed before the copy, and that its runs continue from there.
func TestVacuumInto(t *testing.T) {
	t.Parallel()
	ctx, path := context.Background(), file(t)
	s := open(t, path)
	runs := newRuns(3)
	create(t, s, runs...)
	held := claim(t, s, 1).Runs[0]
	commit(t, s, store.Commit{Lease: held.Lease, Seq: 1, Steps: []store.StepRecord{stepRecord(1)}, State: []store.StateWrite{{Key: "k", Value: []byte("7")}}})

	backup := filepath.Join(t.TempDir(), "backup.db")
	_, err := raw(t, path).Exec(`VACUUM INTO ?`, backup)
	require.NoError(t, err)
	commit(t, s, store.Commit{Lease: held.Lease, Seq: 2, Transition: &store.Transition{Kind: store.CompleteRun}}) // after the copy

	// Restore: delete the old file and its log, and put the copy in their place.
	require.NoError(t, s.Close())
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(name); !os.IsNotExist(err) {
			require.NoError(t, err)
		}
	}
	require.NoError(t, os.Rename(backup, path))
	restored := open(t, path, sqlite.WithoutMigration())
	findings, err := restored.Diagnose(ctx)
	require.NoError(t, err)
	for _, f := range findings {
		require.Equal(t, store.Fine, f.Level, "%s: %s", f.Name, f.Seen)
	}
	page, err := restored.List(ctx, store.ListParams{Namespace: ns})
	require.NoError(t, err)
	require.Len(t, page.Runs, len(runs))
	steps, err := restored.Steps(ctx, store.StepsParams{Namespace: ns, Run: held.Run.ID})
	require.NoError(t, err)
	require.Len(t, steps.Steps, 1)
	state, err := restored.GetState(ctx, store.GetStateParams{Namespace: ns, Run: held.Run.ID})
	require.NoError(t, err)
	require.Equal(t, "7", string(state[0].Value))
	res := commit(t, restored, store.Commit{Lease: held.Lease, Seq: 2, Transition: &store.Transition{Kind: store.CompleteRun}})
	require.NoError(t, res[0].Err, "the lease that the copy has is the one of then")
}
