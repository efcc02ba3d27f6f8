package postgres_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
)

// metered opens a store in a database of its own, and counts the pages that its statements touch,
// as auto_explain reports them.
func metered(t testing.TB) conformance.Meter {
	s, _ := meteredAt(t)
	return s
}

func meteredAt(t testing.TB) (_ conformance.Meter, url string) {
	url = pgtest.Database(t)
	var touched atomic.Int64
	c, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if _, text, ok := strings.Cut(n.Message, "plan:\n"); ok {
			var p plan
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				t.Errorf("a plan: %v", err)
			}
			touched.Add(int64(p.touched()))
		}
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration=0; SET auto_explain.log_analyze=on;
			SET auto_explain.log_buffers=on; SET auto_explain.log_timing=off; SET auto_explain.log_format=json; SET auto_explain.log_level=notice`).ReadAll()
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	require.NoError(t, err)
	s, err := postgres.New(t.Context(), pool)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		pool.Close()
	})
	return conformance.Meter{Store: s, Reads: touched.Load, Settle: func() { exec(t, url, `VACUUM ANALYZE`) }}, url
}
