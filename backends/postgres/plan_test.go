package postgres_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
)

// watched is a store on one connection, whose server reports the plan of each statement and what
// the statement did.
type watched struct {
	*postgres.Store
	mu    sync.Mutex
	plans []plan
}

// plan is a statement, or a part of it, as the server reports it.
type plan struct {
	Text string `json:"Query Text"`
	Plan node
}

type node struct {
	Type    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Index   string  `json:"Index Name"`
	Cond    string  `json:"Index Cond"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`
	Hit     int     `json:"Shared Hit Blocks"`
	Read    int     `json:"Shared Read Blocks"`
	Subplan string  `json:"Subplan Name"`
	CTE     string  `json:"CTE Name"`
	Plans   []node
}

// touched returns how many pages the plan has touched. A node counts those of the nodes below it, but
// the first node does not count a WITH query that changes data and that nothing reads: it is executed
// after the others.
func (p *plan) touched() int {
	read := map[string]bool{}
	var scan func(n *node)
	scan = func(n *node) {
		if n.CTE != "" {
			read[n.CTE] = true
		}
		for i := range n.Plans {
			scan(&n.Plans[i])
		}
	}
	scan(&p.Plan)
	sum := p.Plan.Hit + p.Plan.Read
	for _, n := range p.Plan.Plans {
		if name, ok := strings.CutPrefix(n.Subplan, "CTE "); ok && !read[name] {
			sum += n.Hit + n.Read
		}
	}
	return sum
}

func watch(t testing.TB, url, mode string) *watched {
	w := &watched{}
	c, err := pgxpool.ParseConfig(url + "&pool_max_conns=1&default_query_exec_mode=" + mode)
	require.NoError(t, err)
	c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if _, text, ok := strings.Cut(n.Message, "plan:\n"); ok {
			var p plan
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				p.Text = err.Error()
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.plans = append(w.plans, p)
		}
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration=0; SET auto_explain.log_analyze=on;
			SET auto_explain.log_buffers=on; SET auto_explain.log_timing=off; SET auto_explain.log_format=json; SET auto_explain.log_level=notice`).ReadAll()
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	require.NoError(t, err)
	w.Store, err = postgres.New(t.Context(), pool)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, w.Close())
		pool.Close()
	})
	return w
}

// planned returns the plans of the statements that do executes.
func (w *watched) planned(do func()) []plan {
	w.mu.Lock()
	w.plans = nil
	w.mu.Unlock()
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plans
}

// pages returns how many pages were touched.
func pages(plans []plan) (n int) {
	for i := range plans {
		n += plans[i].Plan.Hit + plans[i].Plan.Read
	}
	return n
}
