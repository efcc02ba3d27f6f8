package procs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/cutproxy"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
)

// poolSize is how many connections a process may have in addition to the listening one.
const poolSize = 4

var everyFlag = flag.Int("procs.every", 100, "of so many requests to the database server, one loses its answer or its connection; 0: none")

// network is a PostgreSQL server for one test and the proxies between it and the processes, one for
// each process.
type network struct {
	server  *pgtest.Server
	standby *pgtest.Server    // about to replace the server; nil: none
	proxies []*cutproxy.Proxy // of all processes so far
	every   int               // of so many requests, one loses its answer or its connection
	ends    int               // of so many COMMITs of transactions, one loses its answer
	down    bool
	most    time.Duration // the longest time it was down

	mu     sync.Mutex
	random *rand.Rand
	calm   bool                   // no more requests are cut
	lost   [cutproxy.Hang + 1]int // requests by verdict

	commits int // COMMITs whose answer was lost

	promotions, behind int // standbys promoted, and how many bytes of log they lacked

	restarts, crashes, terms, cuts, hangs int
}

func newNetwork(t *testing.T, seed uint64, every int) *network {
	return &network{server: pgtest.Start(t, pgtest.Setting("wal_keep_size", "512MB"), pgtest.Archived()), every: every, ends: *commitsFlag, random: rand.New(rand.NewPCG(seed, 2))}
}

// proxy makes a proxy for one process, and the URL by which it reaches the server.
func (n *network) proxy(t *testing.T, name string) (*cutproxy.Proxy, string) {
	u, err := url.Parse(n.server.URL())
	require.NoError(t, err)
	p, err := cutproxy.New(u.Host, func() cutproxy.Hook { return cutproxy.Answers(n.fate, ready) })
	require.NoError(t, err)
	t.Cleanup(p.Close)
	n.proxies = append(n.proxies, p)
	q := u.Query()
	q.Set("application_name", name)
	q.Set("pool_max_conns", fmt.Sprint(poolSize))
	u.Host, u.RawQuery = p.Addr(), q.Encode()
	return p, u.String()
}

// fate draws what happens to a request.
func (n *network) fate(request []byte) cutproxy.Verdict {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.calm && n.ends > 0 && bytes.HasSuffix(bytes.ToLower(request), []byte("commit\x00")) && n.random.IntN(n.ends) == 0 {
		n.commits++
		n.lost[cutproxy.Drop]++
		return cutproxy.Drop
	}
	if n.calm || n.every == 0 || n.random.IntN(n.every) > 0 {
		return cutproxy.Pass
	}
	v := []cutproxy.Verdict{cutproxy.Drop, cutproxy.Drop, cutproxy.CutBehind, cutproxy.Cut}[n.random.IntN(4)]
	n.lost[v]++
	return v
}

// answers returns how many answers were lost.
func (n *network) answers() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost[cutproxy.Drop] + n.lost[cutproxy.CutBehind]
}

// ready reports whether an answer ends with ReadyForQuery: outside of a transaction, the request is
// then committed.
func ready(tail []byte) bool {
	mark := []byte("Z\x00\x00\x00\x05")
	return len(tail) > len(mark) && bytes.HasSuffix(tail[:len(tail)-1], mark)
}

// heal ends the random faults. Connections that hang continue to hang.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calm = true
}

// connection is one of the server's.
type connection struct {
	pid  int
	name string // of the process
	port int    // the client's
}

func (n *network) query(t *testing.T, sql string, args ...any) []connection {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, n.server.URL())
	require.NoError(t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql, args...)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c connection, err error) {
		var pid string
		if err = row.Scan(&pid, &c.name, &c.port); err == nil {
			_, _ = fmt.Sscan(pid, &c.pid)
		}
		return c, err
	})
	require.NoError(t, err)
	return list
}

// backends are the processes' connections as the server sees them.
func (n *network) backends(t *testing.T) []connection {
	return n.query(t, `SELECT pid::text, application_name, client_port FROM pg_stat_activity WHERE application_name LIKE 'procs-%'`)
}

func (n *network) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d restarts and %d crashes of the server (away for %v at most), %d connections terminated, all of a process cut %d times and left hanging %d times; ",
		n.restarts, n.crashes, n.most.Round(time.Millisecond), n.terms, n.cuts, n.hangs)
	fmt.Fprintf(&b, "%d standbys promoted, which lacked %d bytes of log; ", n.promotions, n.behind)
	fmt.Fprintf(&b, "%d answers lost after the commit, %d of them to COMMIT of a transaction, %d before it or after, %d requests lost",
		n.lost[cutproxy.Drop], n.commits, n.lost[cutproxy.CutBehind], n.lost[cutproxy.Cut])
	return b.String()
}
