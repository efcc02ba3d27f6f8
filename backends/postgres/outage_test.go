package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/testing/cutproxy"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// behind puts a proxy in front of the server of a URL.
func behind(t *testing.T, location string, hook func() cutproxy.Hook) (*cutproxy.Proxy, string) {
	u, err := url.Parse(location)
	require.NoError(t, err)
	p, err := cutproxy.New(u.Host, hook)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	u.Host = p.Addr()
	return p, u.String()
}

// logBuffer collects log output.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// lines returns the lines that contain all of the words.
func (b *logBuffer) lines(words ...string) (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			list = append(list, line)
		}
	}
	return list
}

func create(ctx context.Context, s store.Store, id store.ID) error {
	res, err := s.Create(ctx, store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: id, Workflow: "w", Queue: "q"}}})
	if err == nil {
		err = res[0].Err
	}
	return err
}

// A connection that hangs is given up after the timeout, and its place in the pool is free soon
// after, although the other end never closes it.
func TestHangingConnectionsAreGivenUp(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	p, location := behind(t, location, nil)
	s, err := postgres.Open(t.Context(), with(t, location, func(u *url.URL) {
		u.RawQuery += "&pool_max_conns=1"
	}), postgres.WithSchema(schema), postgres.WithTimeout(2*time.Second))
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, create(t.Context(), s, store.NewID()))
	require.Positive(t, p.Hang())
	id := store.NewID()
	err = create(t.Context(), s, id)
	require.True(t, store.Retryable(err), "%v", err)
	require.Eventually(t, func() bool { return create(t.Context(), s, id) == nil }, 30*time.Second, time.Millisecond)
}

// If a database becomes read-only, writes fail with ErrUnavailable, and one log line reports all of
// them. When the database is writable again, the same store works, although its old sessions stay
// read-only.
func TestReadOnlyInFlight(t *testing.T) {
	t.Parallel()
	location := pgtest.Database(t)
	var log logBuffer
	s, err := postgres.Open(t.Context(), location, postgres.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, create(t.Context(), s, store.NewID()))

	u, err := url.Parse(location)
	require.NoError(t, err)
	database := pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()
	exec(t, location, `ALTER DATABASE `+database+` SET default_transaction_read_only=on;
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname=current_database() AND pid<>pg_backend_pid()`)
	id := store.NewID()
	for range 20 {
		err := create(t.Context(), s, id)
		require.True(t, store.Retryable(err), "%v", err)
	}
	err = create(t.Context(), s, id)
	require.ErrorIs(t, err, store.ErrUnavailable)
	assert.ErrorContains(t, err, "read-only")
	runs, err := s.Get(t.Context(), store.GetParams{Namespace: "n", IDs: []store.ID{id}})
	require.NoError(t, err, "reads go on")
	assert.Empty(t, runs)

	exec(t, location, `BEGIN READ WRITE; ALTER DATABASE `+database+` RESET default_transaction_read_only; COMMIT`)
	require.Eventually(t, func() bool { return create(t.Context(), s, id) == nil }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		return create(t.Context(), s, id) == nil && len(log.lines("database is writable again")) > 0
	}, 10*time.Second, time.Millisecond)
	assert.Len(t, log.lines("the database is read-only"), 1)
	assert.Len(t, log.lines("database is writable again"), 1)
}

// A start that gets no connection within the engine's timeout says that nothing was created; the
// caller's own context has not ended.
func TestStartWithoutConnection(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	pool, err := pgxpool.New(t.Context(), with(t, location, func(u *url.URL) { u.RawQuery += "&pool_max_conns=1" }))
	require.NoError(t, err)
	defer pool.Close()
	s, err := postgres.New(t.Context(), pool, postgres.WithSchema(schema))
	require.NoError(t, err)
	defer s.Close()
	eng := engine.New(s, engine.RetryFor(100*time.Millisecond))
	defer eng.Close()
	bridge.Of(eng).Know("w", "q")
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	// A machine that is too slow to tell in time what happened reports an unknown outcome.
	for try := 1; ; try++ {
		_, err = eng.Start(t.Context(), "w", nil)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		if try == 20 || !errors.Is(err, store.ErrOutcomeUnknown) {
			break
		}
	}
	conn.Release()
	require.ErrorIs(t, err, store.ErrUnavailable)
	patient := engine.New(s)
	defer patient.Close()
	bridge.Of(patient).Know("w", "q")
	_, err = patient.Start(t.Context(), "w", nil)
	require.NoError(t, err)
}

// hanging returns hooks that make the sessions with those numbers, from 1, hang from their first
// byte. Connections that only send a cancel request pass.
func hanging(numbers ...int) func() cutproxy.Hook {
	var n atomic.Int32
	return func() cutproxy.Hook {
		first := true
		return func(_ cutproxy.Side, data []byte) cutproxy.Verdict {
			if !first {
				return cutproxy.Pass
			}
			first = false
			if cancel := []byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e}; bytes.HasPrefix(data, cancel) {
				return cutproxy.Pass
			}
			if slices.Contains(numbers, int(n.Add(1))) {
				return cutproxy.Hang
			}
			return cutproxy.Pass
		}
	}
}

// Opening a store fails after a timeout if the server does not answer.
func TestOpenOfASilentServer(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	_, location = behind(t, location, hanging(1))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := postgres.Open(ctx, location, postgres.WithSchema(schema), postgres.WithTimeout(300*time.Millisecond))
	require.ErrorIs(t, err, store.ErrUnavailable)
}

// A new connection that hangs does not keep its place in the pool either.
func TestNewConnectionsThatHang(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	p, location := behind(t, location, hanging(2, 3))
	s, err := postgres.Open(t.Context(), with(t, location, func(u *url.URL) { u.RawQuery += "&pool_max_conns=1" }),
		postgres.WithSchema(schema), postgres.WithTimeout(2*time.Second))
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, create(t.Context(), s, store.NewID()))
	require.Positive(t, p.Cut())
	id := store.NewID()
	require.Eventually(t, func() bool { return create(t.Context(), s, id) == nil }, 30*time.Second, time.Millisecond)
}
