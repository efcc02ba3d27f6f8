package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// TestLimitedRuns: claims take what a limit permits, and the permits come back.
func TestLimitedRuns(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	s := open(t, url, schema)
	ctx := t.Context()
	require.NoError(t, s.PutLimits(ctx, store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "tenant", Rule: store.LimitRule{Concurrency: 2}}}}))
	var runs []store.NewRun
	for i := range 10 {
		runs = append(runs, store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Under: []store.LimitUse{{Limit: "tenant", Key: fmt.Sprint("k", i%2)}}})
	}
	made, err := s.Create(ctx, store.CreateParams{Namespace: "n", Runs: runs})
	require.NoError(t, err)
	for i := range made {
		require.NoError(t, made[i].Err)
	}
	claim := func(n int) store.Claimed {
		c, err := s.Claim(ctx, store.ClaimParams{Namespace: "n", Worker: "w1", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: n}}})
		require.NoError(t, err)
		return c
	}
	c := claim(10)
	require.Len(t, c.Runs, 4)
	require.Zero(t, c.NextDue, "no other run may go")
	require.Equal(t, []store.LimitUse{{Limit: "tenant", Key: "k0", Tokens: 1}}, c.Runs[0].Run.Under)
	keys, err := s.LimitKeys(ctx, store.LimitKeysParams{Namespace: "n", Limit: "tenant"})
	require.NoError(t, err)
	require.Len(t, keys.Keys, 2)
	require.EqualValues(t, 2, keys.Keys[0].Held)
	require.EqualValues(t, 3, keys.Keys[0].Waiting)
	total := 0
	for len(c.Runs) > 0 {
		for _, r := range c.Runs {
			total++
			res, err := s.Commit(ctx, store.CommitParams{Namespace: "n", Commits: []store.Commit{{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}}}})
			require.NoError(t, err)
			require.NoError(t, res[0].Err)
		}
		c = claim(10)
		require.LessOrEqual(t, len(c.Runs), 4)
	}
	require.Equal(t, 10, total)
	require.Zero(t, c.NextDue)
	keys, err = s.LimitKeys(ctx, store.LimitKeysParams{Namespace: "n", Limit: "tenant"})
	require.NoError(t, err)
	require.Empty(t, keys.Keys)
}

// TestSignalWhileAClaimUnderLimitsChooses: a claim under limits reads histories only if it has chosen a run that has
// one. A run that gets its first signal between the choice and the lease is not returned without the signal: the next
// claim takes it.
func TestSignalWhileAClaimUnderLimitsChooses(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	s := open(t, url, schema).(*postgres.Store)
	ctx := t.Context()
	require.NoError(t, s.PutLimits(ctx, store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "one", Rule: store.LimitRule{Concurrency: 1}}}}))
	p := store.CreateParams{Namespace: "n"}
	for range 2 {
		p.Runs = append(p.Runs, store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Under: []store.LimitUse{{Limit: "one", Key: "k"}}})
	}
	_, err := s.Create(ctx, p)
	require.NoError(t, err)
	first := p.Runs[0].ID
	claim := store.ClaimParams{Namespace: "n", Worker: "w1", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 10}}}
	taken, err := s.ClaimUnderLimits(ctx, claim, func() {
		res, err := s.Signal(ctx, store.SignalParams{Namespace: "n", Signals: []store.NewSignal{{ID: store.NewID(), Run: first, Name: "s"}}})
		require.NoError(t, err)
		require.NoError(t, res[0].Err)
	})
	require.NoError(t, err)
	require.Empty(t, taken)
	c, err := s.Claim(ctx, claim)
	require.NoError(t, err)
	require.Len(t, c.Runs, 1)
	require.Equal(t, first, c.Runs[0].Run.ID)
	require.Len(t, c.Runs[0].Inbox.Signals, 1)
}

// TestLimitKeysBehindManyMarks checks that reading keys behind more marks than one transaction folds keeps
// what it has folded when the caller gives up.
func TestLimitKeysBehindManyMarks(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	s := open(t, url, schema).(*postgres.Store)
	const each, runs = 1000, postgres.MarksAtOnce + 2000
	for made := 0; made < runs; made += each {
		p := store.CreateParams{Namespace: "n"}
		for i := range each { // a run leaves a mark if it is the first of its flow in the call
			p.Runs = append(p.Runs, store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Under: []store.LimitUse{{Limit: "one", Key: fmt.Sprint(i)}}})
		}
		_, err := s.Create(t.Context(), p)
		require.NoError(t, err)
	}
	marks := func() int {
		n, err := s.Marks(t.Context())
		require.NoError(t, err)
		return n
	}
	require.Equal(t, runs, marks())
	more, err := s.FoldSome(t.Context(), "n")
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, runs-postgres.MarksAtOnce, marks())
	keys, err := s.LimitKeys(t.Context(), store.LimitKeysParams{Namespace: "n", Limit: "one", Rows: store.MaxPage})
	require.NoError(t, err)
	require.Zero(t, marks())
	require.Len(t, keys.Keys, each)
	for _, k := range keys.Keys {
		require.EqualValues(t, runs/each, k.Waiting)
	}
}

// TestMarksOfABulkStart checks that runs of one key that one call starts leave one mark, so that a claim finds the next key's
// run at once, however many they are.
func TestMarksOfABulkStart(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	s := open(t, url, schema).(*postgres.Store)
	start := func(n int, key string) {
		p := store.CreateParams{Namespace: "n"}
		for range n {
			p.Runs = append(p.Runs, store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Under: []store.LimitUse{{Limit: "fair", Key: key}}})
		}
		_, err := s.Create(t.Context(), p)
		require.NoError(t, err)
	}
	require.NoError(t, s.PutLimits(t.Context(), store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "fair", Rule: store.LimitRule{Fair: true}}}}))
	for range 3 {
		start(1000, "large")
	}
	start(1, "small")
	n, err := s.Marks(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, n)
	c, err := s.Claim(t.Context(), store.ClaimParams{Namespace: "n", Worker: "w1", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 2}}})
	require.NoError(t, err)
	var keys []string
	for _, r := range c.Runs {
		keys = append(keys, r.Run.Under[0].Key)
	}
	require.Equal(t, []string{"large", "small"}, keys)
}

// TestSpaceComesBack checks that a start under a limit records that the namespace has limits, if a database that has gone
// back in time has lost it.
func TestSpaceComesBack(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	s := open(t, url, schema).(*postgres.Store)
	createMany(t, s, 2, 1)
	require.NoError(t, s.ForgetSpaces(t.Context()))
	createMany(t, s, 2, 1)
	c, err := open(t, url, schema).Claim(t.Context(), store.ClaimParams{Namespace: "n", Worker: "w1", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 9}}})
	require.NoError(t, err)
	require.Len(t, c.Runs, 4)
}
