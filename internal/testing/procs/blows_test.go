//go:build unix

package procs

import (
	"context"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/pgtest"
)

// halt stops the database server, half of the times as a crash would.
func (d *driver) halt() {
	n := d.net
	if n.down {
		d.after(d.lease/4, d.halt)
		return
	}
	end := n.server.Stop
	if d.random.IntN(2) == 0 {
		end = n.server.Kill
	}
	d.down(end)
	n.restarts++
}

// crash ends the database server as a crash would, and then starts it again.
func (d *driver) crash() {
	if d.net.down {
		d.after(d.lease/4, d.crash)
		return
	}
	d.down(d.net.server.Kill)
	d.net.crashes++
}

// down ends the database server and makes it start again.
func (d *driver) down(end func() error) {
	n, since := d.net, time.Now()
	require.NoError(d.t, end())
	n.down = true
	d.after(d.within(d.lease), func() {
		require.NoError(d.t, n.server.Restart(pgtest.Fast))
		n.down, n.most = false, max(n.most, time.Since(since))
	})
}

// promote creates a standby of the database server, which soon stops following it. Then the server
// dies, and the standby replaces it: commits in between are lost.
func (d *driver) promote() {
	n := d.net
	if n.down || n.standby != nil || d.rescue.begun {
		d.after(d.lease/4, d.promote)
		return
	}
	n.standby = n.server.Standby(d.t)
	require.NoError(d.t, n.standby.StopStreaming())
	d.after(d.within(d.lease), d.fallOver)
}

func (d *driver) fallOver() {
	n := d.net
	if n.down {
		d.after(d.lease/4, d.fallOver)
		return
	}
	have := n.query(d.t, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::text, '', 0`)[0].pid
	require.NoError(d.t, n.server.Kill())
	n.server, n.standby = n.standby, nil
	got := n.query(d.t, `SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::text, '', 0`)[0].pid
	require.NoError(d.t, n.server.Promote())
	n.promotions++
	if have > got {
		n.behind += have - got
	}
	n.lead(d.t, n.server)
}

// lead makes a server the one that the processes connect to.
func (n *network) lead(t *testing.T, s *pgtest.Server) {
	n.server = s
	u, err := url.Parse(s.URL())
	require.NoError(t, err)
	for _, p := range n.proxies {
		p.Retarget(u.Host)
	}
}

// terminate ends one connection of the processes from the server's side.
func (d *driver) terminate() {
	var pids []int
	if !d.net.down {
		for _, c := range d.net.backends(d.t) {
			pids = append(pids, c.pid)
		}
	}
	if len(pids) == 0 {
		d.after(d.lease/4, d.terminate)
		return
	}
	slices.Sort(pids)
	d.net.query(d.t, `SELECT pg_terminate_backend($1)::text, '', 0`, pids[d.random.IntN(len(pids))])
	d.net.terms++
}

// cut cuts all connections of a process.
func (d *driver) cut() {
	if s := d.pick(func(*slot) bool { return true }); s != nil && s.proxy.Cut() > 0 {
		d.net.cuts++
		return
	}
	d.after(d.lease/4, d.cut)
}

// hang makes all connections of a worker half-open. The worker has to detect that itself.
func (d *driver) hang() {
	if s := d.pick(func(s *slot) bool { return s.role == "worker" && !s.stopped && !s.leaving }); s != nil && s.proxy.Hang() > 0 {
		d.net.hangs++
		return
	}
	d.after(d.lease/4, d.hang)
}

// census counts the connections that a process has at one moment, including those that hang, and
// returns the largest number. The server alone cannot say, because it notices late that a
// connection was cut. The proxy alone cannot say either, because it cannot recognize connections
// that only send a cancel request.
func (d *driver) census() (most int) {
	if d.net.down {
		return 0
	}
	seen := d.net.backends(d.t)
	for _, s := range d.slots {
		if s.proxy == nil {
			continue
		}
		open, count := s.proxy.Ports(), 0
		for _, c := range seen {
			if slices.Contains(open, c.port) {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// The census counts what a process has open, hanging or not, and nothing else.
func TestCensusCounts(t *testing.T) {
	t.Parallel()
	n := &network{server: pgtest.Shared(t)}
	d := &driver{t: t, net: n, slots: []*slot{{}, {}}}
	connect := func(url string) *pgx.Conn {
		cfg, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		conn, err := pgx.ConnectConfig(t.Context(), cfg.ConnConfig)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	var url string
	d.slots[0].proxy, url = n.proxy(t, "procs-census")
	require.Zero(t, d.census())
	first := connect(url)
	for range 2 {
		connect(url)
	}
	require.Equal(t, 3, d.census())
	require.Equal(t, 3, d.slots[0].proxy.Hang())
	require.Equal(t, 3, d.census(), "those that hang count")
	for range poolSize {
		connect(url)
	}
	require.Equal(t, 3+poolSize, d.census(), "more than are allowed")
	require.NoError(t, first.PgConn().Conn().Close())
	require.Eventually(t, func() bool { return d.census() == 2+poolSize }, 10*time.Second, time.Millisecond)
	d.slots[0].proxy.Cut()
	require.Zero(t, d.census(), "those that were cut do not count, whether the server has noticed or not")
}
