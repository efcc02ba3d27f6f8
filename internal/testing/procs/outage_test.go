package procs

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/cutproxy"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/worker"
)

// lines collects lines that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with returns the lines that hold the words.
func (l *lines) with(words string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, words) {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
	}
	return list
}

// ride lets one worker in this process, behind a proxy, run the reference workload, calls strike in
// the middle, and runs the checkers at the end. after checks what was logged.
func ride(t *testing.T, strike func(location string, p *cutproxy.Proxy, log *lines), after func(log *lines)) {
	location, dir := pgtest.Database(t), t.TempDir()
	u, err := url.Parse(location)
	require.NoError(t, err)
	p, err := cutproxy.New(u.Host, nil)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	u.Host = p.Addr()

	var said, logged lines
	log := slog.New(slog.NewTextHandler(&logged, nil))
	st, err := postgres.Open(t.Context(), u.String(), postgres.WithTimeout(time.Second), postgres.WithLogger(log))
	require.NoError(t, err)
	defer st.Close()
	j, err := openJournal(dir)
	require.NoError(t, err)
	defer j.file.Close()
	tap := tapped(st, j)
	eng := engine.New(tap, engine.Logger(log))
	defer eng.Close()
	own, err := openProgram(location)
	require.NoError(t, err)
	defer own.db.Close()
	require.NoError(t, own.prepare(t.Context()))
	l := &load{store: tap, journal: j, work: stepWork, postgres: true}
	w, defs := worker.New(eng, worker.Lease(time.Second)), l.workflows()
	for _, def := range defs {
		require.NoError(t, w.Register(def))
	}
	// Everything below ends when the test fails.
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		stop()
		assert.NoError(t, <-ended)
	}()

	s := &starter{eng: eng, defs: defs, program: own, out: &said}
	const runs = 200
	done := s.all(ctx, runs)
	require.Eventually(t, func() bool { return len(said.with("ack ")) >= runs/4 }, 30*time.Second, time.Millisecond)
	strike(location, p, &logged)
	for range lanes {
		require.NoError(t, <-done)
	}

	ev := newEvidence()
	for _, line := range said.with(" ") {
		require.NoError(t, ev.hear(line))
	}
	ev.journal, err = readJournals(dir)
	require.NoError(t, err)
	v := judge(t, backend{check: checkPostgres}, location, ev)
	assert.NoError(t, v.tables, "tables")
	assert.NoError(t, v.api, "API")
	assert.NoError(t, v.journals, "journals")
	assert.NoError(t, v.effects, "effects")
	assert.Len(t, ev.acked, runs)
	after(&logged)
}

// all starts the first so many orders in the background, in several lanes. Each lane sends its error,
// or nil when no order is left.
func (s *starter) all(ctx context.Context, runs int) <-chan error {
	orders, done := make(chan order), make(chan error, lanes)
	go func() {
		defer close(orders)
		r := rand.New(rand.NewPCG(1, 2))
		for n := range runs {
			orders <- draw(r, n)
		}
	}()
	for range lanes {
		go func() {
			for o := range orders {
				if err := s.one(ctx, o); err != nil {
					done <- err
					for range orders { // lets the others end
					}
					return
				}
			}
			done <- nil
		}()
	}
	return done
}

// All connections of a worker hang, without an error: its store gives them up after its timeout,
// makes new ones, and the work continues.
func TestWorkerOutlivesConnectionsThatHang(t *testing.T) {
	t.Parallel()
	ride(t, func(_ string, p *cutproxy.Proxy, _ *lines) { require.Positive(t, p.Hang()) },
		func(*lines) {})
}

// The database becomes read-only during the work: one log line says so, nothing is lost, and when
// it is writable again the work continues.
func TestWorkerOutlivesReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	ride(t, func(location string, _ *cutproxy.Proxy, log *lines) {
		conn, err := pgx.Connect(t.Context(), location)
		require.NoError(t, err)
		defer conn.Close(context.Background())
		exec := func(sql string) {
			_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
			require.NoError(t, err)
		}
		count := func(status string) (n int) {
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pawl.runs WHERE status `+status).Scan(&n))
			return n
		}
		database := pgx.Identifier{conn.Config().Database}.Sanitize()
		// The present sessions become read-only, too, because they are ended.
		exec(`ALTER DATABASE ` + database + ` SET default_transaction_read_only=on`)
		exec(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname=current_database() AND pid<>pg_backend_pid()`)
		final := count(">= 6")
		require.Positive(t, count("< 6"), "nothing was under way")
		require.Eventually(t, func() bool { return len(log.with("; retrying")) >= 10 }, 20*time.Second, time.Millisecond)
		assert.Equal(t, final, count(">= 6"), "runs that became final")
		exec(`ALTER DATABASE ` + database + ` RESET default_transaction_read_only`)
		require.Eventually(t, func() bool { return len(log.with(`msg="pawl: the database is writable again"`)) > 0 }, 20*time.Second, time.Millisecond)
	}, func(log *lines) {
		assert.Len(t, log.with(`msg="pawl: the database is read-only`), 1)
		assert.Len(t, log.with(`msg="pawl: the database is writable again"`), 1)
	})
}
