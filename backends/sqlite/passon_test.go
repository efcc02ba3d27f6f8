package sqlite_test

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/passtest"
	"github.com/pawlhq/pawl/store"
)

func TestPassOn(t *testing.T) {
	t.Parallel()
	passtest.Run(t, open(t, migrated(t)))
}

// TestPassOnCorrectsTheFlow: the row of a flow names the first run that waits, and goes with the last one.
func TestPassOnCorrectsTheFlow(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s := open(t, path)
	db := sqlx.MustOpen("sqlite", path)
	defer db.Close()
	ctx := t.Context()
	require.NoError(t, s.PutLimits(ctx, store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 1}}}}))
	var ids []store.ID
	for range 10 { // more than wait without a row
		res, err := s.Create(ctx, store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "w", Queue: "q", Under: []store.LimitUse{{Limit: "l", Key: "k"}}}}})
		require.NoError(t, err)
		ids = append(ids, res[0].ID)
	}
	got, err := s.Claim(ctx, store.ClaimParams{Namespace: "n", Worker: "w1", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 10}}})
	require.NoError(t, err)
	for run := &got.Runs[0]; run != nil; {
		var heads [][]byte
		require.NoError(t, db.Select(&heads, `SELECT head_id FROM limit_flows`))
		if ids = ids[1:]; len(ids) == 0 {
			require.Empty(t, heads)
		} else {
			require.Equal(t, [][]byte{ids[0][:]}, heads)
		}
		res, err := s.Commit(ctx, store.CommitParams{Namespace: "n", Commits: []store.Commit{{Lease: run.Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun, PassOn: time.Minute}}}})
		require.NoError(t, err)
		require.NoError(t, res[0].Err)
		run = res[0].Next
	}
	require.Empty(t, ids)
}
