package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// TestFileGone checks that a file that is deleted, moved or replaced while it is open accepts no
// more writes, with an error that says why, and works again when it is put back.
func TestFileGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(t *testing.T, path string)
		mend func(t *testing.T, path string)
		says string
	}{
		"deleted": {
			harm: func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
			says: "was deleted or moved",
		},
		"moved": {
			harm: func(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+".old")) },
			mend: func(t *testing.T, path string) { require.NoError(t, os.Rename(path+".old", path)) },
			says: "was deleted or moved",
		},
		"replaced": {
			harm: func(t *testing.T, path string) {
				other := filepath.Join(filepath.Dir(path), "other.db")
				require.NoError(t, open(t, other).Close())
				require.NoError(t, os.Rename(path, path+".old"))
				require.NoError(t, os.Rename(other, path))
			},
			mend: func(t *testing.T, path string) { require.NoError(t, os.Rename(path+".old", path)) },
			says: "was replaced while",
		},
		"directory deleted": {
			harm: func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(filepath.Dir(path))) },
			says: "was deleted or moved",
		},
		"log deleted": {
			harm: func(t *testing.T, path string) { require.NoError(t, os.Remove(path+"-wal")) },
			says: "-wal was deleted or moved",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			path := filepath.Join(t.TempDir(), "in", "pawl.db")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			s := open(t, path)
			create(t, s, newRuns(1)...)
			held := claim(t, s, 1).Runs[0].Lease
			c.harm(t, path)

			calls := map[string]func() error{
				"create": func() error { _, err := s.Create(ctx, store.CreateParams{Namespace: ns, Runs: newRuns(1)}); return err },
				"claim": func() error {
					_, err := s.Claim(ctx, store.ClaimParams{Namespace: ns, Worker: "w", LeaseFor: 1e9, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 1}}})
					return err
				},
				"commit": func() error {
					_, err := s.Commit(ctx, store.CommitParams{Namespace: ns, Commits: []store.Commit{{Lease: held, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}}}})
					return err
				},
				"list": func() error { _, err := s.List(ctx, store.ListParams{Namespace: ns}); return err },
				"get": func() error {
					_, err := s.Get(ctx, store.GetParams{Namespace: ns, IDs: []store.ID{held.Run}})
					return err
				},
			}
			for call, do := range calls {
				err := do()
				require.ErrorIs(t, err, store.ErrUnavailable, call)
				require.ErrorContains(t, err, c.says, call)
				require.ErrorContains(t, err, path, call)
				require.ErrorContains(t, err, "restart", call)
			}
			if c.mend == nil {
				return
			}
			c.mend(t, path)
			for _, call := range []string{"create", "claim", "commit", "list", "get"} {
				require.NoError(t, calls[call](), call)
			}
			runs, err := s.Get(ctx, store.GetParams{Namespace: ns, IDs: []store.ID{held.Run}})
			require.NoError(t, err)
			require.Equal(t, store.Completed, runs[0].Status, "what was written before and after is in one file")
		})
	}
}
