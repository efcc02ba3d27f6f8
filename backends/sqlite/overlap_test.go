package sqlite_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// overlapping is a Runner on one connection.
type overlapping struct {
	db    *sqlx.DB
	apply func() // called once before a plan is applied
	batch bool   // it runs unneeded statements and gates, as one that sends lists as a whole does
}

func (r *overlapping) Read(ctx context.Context, stmts []sqlitecore.Stmt) error {
	return r.Write(ctx, stmts)
}

func (r *overlapping) Write(ctx context.Context, stmts []sqlitecore.Stmt) error {
	if f := r.apply; f != nil && strings.HasPrefix(stmts[0].SQL, "INSERT INTO limit_plans (namespace, version, stamp) SELECT") {
		r.apply = nil
		f()
	}
	tx, err := r.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, s := range stmts {
		switch {
		case s.Gate && r.batch:
			if _, err := tx.ExecContext(ctx, s.SQL, s.Args...); err != nil {
				return tx.Commit()
			}
			continue
		case !r.batch && (s.Gate || s.Unneeded != nil && s.Unneeded()):
			continue
		}
		if s.Rows == nil {
			res, err := tx.ExecContext(ctx, s.SQL, s.Args...)
			if err != nil {
				return err
			}
			if s.Affected != nil {
				if *s.Affected, err = res.RowsAffected(); err != nil {
					return err
				}
			}
			continue
		}
		rows, err := tx.QueryContext(ctx, s.SQL, s.Args...)
		if err != nil {
			return err
		}
		for rows.Next() {
			if err := s.Rows(rows.Scan); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func newOverlapping(t *testing.T) *overlapping {
	r := &overlapping{db: sqlx.MustOpen("sqlite", migrated(t))}
	r.db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = r.db.Close() })
	return r
}

// config returns the configuration of a store whose claims under limits try to claim at once, or all plan.
func (r *overlapping) config(now *time.Time, atOnce bool) sqlitecore.Config {
	return sqlitecore.Config{
		Clock: func(context.Context) (time.Time, time.Time, error) {
			*now = now.Add(time.Millisecond)
			return *now, *now, nil
		},
		Limits: store.Limits{Payload: store.DefaultPayloadLimit}, InTurn: !r.batch, AtOnce: atOnce, Publish: func(...store.Hint) {},
	}
}

// checked checks the rows of a namespace with one key, and returns how many permits are held.
func (r *overlapping) checked(t *testing.T) int {
	var stale, fresh int
	held := r.held(t)
	require.NoError(t, r.db.Get(&stale, `SELECT count(*) FROM limit_flows f WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id=f.head_id AND r.limited AND NOT r.leased)`))
	require.NoError(t, r.db.Get(&fresh, `SELECT count(*) FROM runs WHERE fresh AND (leased OR EXISTS (SELECT 1 FROM limit_flows))`))
	require.Zero(t, stale, "flows whose first run does not wait")
	require.Zero(t, fresh, "runs that are not fresh any more")
	return held
}

// held checks that as many permits of the key are held as runs are leased, and returns the number.
func (r *overlapping) held(t *testing.T) (held int) {
	var leased int
	require.NoError(t, r.db.Get(&leased, `SELECT count(*) FROM runs WHERE leased`))
	require.NoError(t, r.db.Get(&held, `SELECT held FROM limit_keys`))
	require.Equal(t, leased, held, "leases, and permits held")
	return held
}

// TestClaimsOverlap checks what a claim does if others write after it has planned.
func TestClaimsOverlap(t *testing.T) {
	t.Parallel()
	ctx, now := t.Context(), time.Now()
	claim := func(c *sqlitecore.Core, id int64) []store.ClaimedRun { return claimAs(t, c, id, 100) }
	start := func(c *sqlitecore.Core, n int) { startUnder(t, c, n) }
	for _, tt := range []struct {
		name             string
		runs, concurrent int
		meanwhile        func(c *sqlitecore.Core) // after a claim of all has planned, and before the plan is applied
	}{
		{"with starts that give the flow a row", 1, 1, func(c *sqlitecore.Core) { start(c, 20) }},
		{"with a start that is claimed at once", 3, 10, func(c *sqlitecore.Core) { start(c, 1) }},
		{"with a claim that has its number", 2, 3, func(c *sqlitecore.Core) {
			start(c, 4)
			claim(c, 7)
		}},
		{"with a claim at once", 2, 3, func(c *sqlitecore.Core) {
			start(c, 4)
			claim(c, 9)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newOverlapping(t)
			c, other := sqlitecore.New(r, r.config(&now, false)), sqlitecore.New(r, r.config(&now, true))
			require.NoError(t, c.PutLimits(ctx, store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: int64(tt.concurrent)}}}}))
			start(c, tt.runs)
			r.apply = func() { tt.meanwhile(other) }
			claim(c, 7)
			claim(c, 8)
			held := r.checked(t)
			var all, rows int
			require.NoError(t, r.db.Get(&all, `SELECT count(*) FROM runs`))
			require.NoError(t, r.db.Get(&rows, `SELECT count(*) FROM limit_flows`))
			require.Equal(t, min(all, tt.concurrent), held, "permits held")
			require.Equal(t, all > held, rows == 1, "rows of flows")
		})
	}
}

// TestClaimIsSentAgain checks that a claim whose request arrives twice takes runs once.
func TestClaimIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		runs  int // few, or so many that the flow has a row
		batch bool
	}{{3, false}, {3, true}, {20, false}, {20, true}} {
		now := time.Now()
		r := newOverlapping(t)
		r.batch = tt.batch
		c := sqlitecore.New(r, r.config(&now, true))
		require.NoError(t, c.PutLimits(t.Context(), store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 5}}}}))
		startUnder(t, c, tt.runs)
		now = now.Add(time.Second)
		stop := now
		first := claimAs(t, c, 7, 2)
		require.Len(t, first, 2)
		now = stop // the lease of the second request has the same end
		require.Equal(t, first, claimAs(t, c, 7, 2))
		require.Equal(t, 2, r.checked(t))
	}
}

// TestClaimTellsOtherQueues checks that runs of another queue that wait for a permit are announced by the next claim, if the
// permit ended in a store that does not serve their queue.
func TestClaimTellsOtherQueues(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newOverlapping(t)
	config := r.config(&now, true)
	var told []string
	config.Publish = func(hints ...store.Hint) {
		for _, h := range hints {
			told = append(told, h.Queue)
		}
	}
	c := sqlitecore.New(r, config)
	require.NoError(t, c.PutLimits(t.Context(), store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 1}}}}))
	start := func(queue, key string) { startIn(t, c, queue, key) }
	claim := func(queue string) []store.ClaimedRun { return claimOf(t, c, queue) }
	start("q", "k")
	holder := claim("q")
	require.Len(t, holder, 1)
	start("other", "k")
	require.Empty(t, claim("other"))
	start("q", "z")
	require.Len(t, claim("q"), 1) // with a plan; the next one is tried at once
	res, err := c.Commit(t.Context(), store.CommitParams{Namespace: "n", Commits: []store.Commit{{Lease: holder[0].Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}}}})
	require.NoError(t, err)
	require.NoError(t, res[0].Err)
	start("q", "m")
	told = nil
	require.Len(t, claim("q"), 1)
	require.Contains(t, told, "other")
	require.Len(t, claim("other"), 1)
}

// TestPlanNoticesClaimAtOnce checks that a plan is not applied if a claim at once has taken a permit of its key meanwhile.
func TestPlanNoticesClaimAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newOverlapping(t)
	c, other := sqlitecore.New(r, r.config(&now, false)), sqlitecore.New(r, r.config(&now, true))
	require.NoError(t, c.PutLimits(t.Context(), store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 1}}}}))
	startIn(t, c, "p", "k")
	startIn(t, c, "q", "k")
	r.apply = func() { require.Len(t, claimOf(t, other, "p"), 1) }
	require.Empty(t, claimOf(t, c, "q"))
	require.Equal(t, 1, r.held(t))
}

// startIn starts a run in a queue under a key.
func startIn(t *testing.T, c *sqlitecore.Core, queue, key string) {
	res, err := c.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "w", Queue: queue, Under: []store.LimitUse{{Limit: "l", Key: key}}}}})
	require.NoError(t, err)
	require.NoError(t, res[0].Err)
}

// claimOf claims one run of a queue.
func claimOf(t *testing.T, c *sqlitecore.Core, queue string) []store.ClaimedRun {
	got, err := c.Claim(t.Context(), store.ClaimParams{Namespace: "n", Worker: "w", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: queue, Workflows: []string{"w"}, Max: 1}}})
	require.NoError(t, err)
	return got.Runs
}

// claimAs claims as the claim with a number.
func claimAs(t *testing.T, c *sqlitecore.Core, id int64, n int) []store.ClaimedRun {
	got, err := c.Claim(t.Context(), store.ClaimParams{Namespace: "n", Worker: "w", ClaimID: id, LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: n}}})
	require.NoError(t, err)
	return got.Runs
}

// startUnder starts runs under one key.
func startUnder(t *testing.T, c *sqlitecore.Core, n int) {
	p := store.CreateParams{Namespace: "n"}
	for range n {
		p.Runs = append(p.Runs, store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Under: []store.LimitUse{{Limit: "l", Key: "k"}}})
	}
	results, err := c.Create(t.Context(), p)
	require.NoError(t, err)
	for _, r := range results {
		require.NoError(t, r.Err)
	}
}
