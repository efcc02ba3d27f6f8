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
		if s.Gate || s.Unneeded != nil && s.Unneeded() {
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

// TestClaimsOverlap checks what a claim does if others write after it has planned.
func TestClaimsOverlap(t *testing.T) {
	t.Parallel()
	ctx, now := t.Context(), time.Now()
	claim := func(c *sqlitecore.Core, id int64) []store.ClaimedRun {
		got, err := c.Claim(ctx, store.ClaimParams{Namespace: "n", Worker: "w", ClaimID: id, LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 100}}})
		require.NoError(t, err)
		return got.Runs
	}
	start := func(c *sqlitecore.Core, n int) {
		p := store.CreateParams{Namespace: "n"}
		for range n {
			p.Runs = append(p.Runs, store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Under: []store.LimitUse{{Limit: "l", Key: "k"}}})
		}
		results, err := c.Create(ctx, p)
		require.NoError(t, err)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
	}
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &overlapping{db: sqlx.MustOpen("sqlite", migrated(t))}
			r.db.SetMaxOpenConns(1)
			defer r.db.Close()
			config := sqlitecore.Config{
				Clock: func(context.Context) (time.Time, time.Time, error) {
					now = now.Add(time.Millisecond)
					return now, now, nil
				},
				Limits: store.Limits{Payload: store.DefaultPayloadLimit}, InTurn: true, Publish: func(...store.Hint) {},
			}
			c, other := sqlitecore.New(r, config), sqlitecore.New(r, config)
			require.NoError(t, c.PutLimits(ctx, store.PutLimitsParams{Namespace: "n", Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: int64(tt.concurrent)}}}}))
			start(c, tt.runs)
			r.apply = func() { tt.meanwhile(other) }
			claim(c, 7)
			claim(c, 8)
			var leased, held, rows, stale, fresh int
			require.NoError(t, r.db.Get(&leased, `SELECT count(*) FROM runs WHERE leased`))
			require.NoError(t, r.db.Get(&held, `SELECT held FROM limit_keys`))
			require.NoError(t, r.db.Get(&rows, `SELECT count(*) FROM limit_flows`))
			require.NoError(t, r.db.Get(&stale, `SELECT count(*) FROM limit_flows f WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id=f.head_id AND r.limited AND NOT r.leased)`))
			require.NoError(t, r.db.Get(&fresh, `SELECT count(*) FROM runs WHERE fresh AND (leased OR EXISTS (SELECT 1 FROM limit_flows))`))
			var all int
			require.NoError(t, r.db.Get(&all, `SELECT count(*) FROM runs`))
			require.Equal(t, min(all, tt.concurrent), leased, "leases")
			require.Equal(t, leased, held, "permits held")
			require.Equal(t, all > leased, rows == 1, "rows of flows")
			require.Zero(t, stale, "flows whose first run does not wait")
			require.Zero(t, fresh, "runs that are not fresh any more")
		})
	}
}
