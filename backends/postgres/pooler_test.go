package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// bouncer returns a function that changes a server's URLs so that they lead through a PgBouncer of
// this test.
func bouncer(t testing.TB) func(url string) string {
	through, err := url.Parse(pgtest.Bouncer(t, pgtest.Shared(t)))
	require.NoError(t, err)
	return func(location string) string {
		return with(t, location, func(u *url.URL) { u.Host = through.Host })
	}
}

// set sets a parameter of a URL.
func set(t testing.TB, location, name, value string) string {
	return with(t, location, func(u *url.URL) {
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
	})
}

// lines collects log lines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{}, 1)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

func (l *lines) option() postgres.Option {
	return postgres.WithLogger(slog.New(slog.NewTextHandler(l, nil)))
}

// await returns when a wanted hint arrives, or one that stands for any.
func await(t testing.TB, hints <-chan []store.Hint, want store.Hint) {
	t.Helper()
	for {
		select {
		case batch := <-hints:
			for _, h := range batch {
				if h == want {
					return
				}
			}
		case <-time.After(10 * time.Second):
			require.FailNow(t, "no such hint", "%+v", want)
		}
	}
}

// Behind a pooler one log line says what does not work. Processes that can listen still receive the
// hints of writes through the pooler.
func TestPoolerIsNoticed(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	through := bouncer(t)
	log := newLines()
	s, err := postgres.Open(t.Context(), through(location), postgres.WithSchema(schema), log.option())
	require.NoError(t, err)
	defer s.Close()
	assert.False(t, s.Features().Hints)
	assert.Len(t, s.Features().Gaps, 1)
	own, err := s.Hints(t.Context())
	require.NoError(t, err)

	quiet := newLines()
	direct, err := postgres.Open(t.Context(), location, postgres.WithSchema(schema), quiet.option())
	require.NoError(t, err)
	defer direct.Close()
	assert.True(t, direct.Features().Hints)
	others, err := direct.Hints(t.Context())
	require.NoError(t, err)

	create := func(s store.Store, queue string) {
		_, err := s.Create(t.Context(), store.CreateParams{Namespace: "n", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "w", Queue: queue}}})
		require.NoError(t, err)
	}
	create(s, "q")
	await(t, own, store.Hint{Kind: store.HintQueue, Namespace: "n", Queue: "q"})
	await(t, others, store.Hint{Kind: store.HintQueue, Namespace: "n", Queue: "q"})

	require.Len(t, log.all(), 1)
	for _, word := range []string{"behind a pooler", "WithPreparedStatements", "default_query_exec_mode", "WithListenURL", "polling"} {
		assert.Contains(t, log.all()[0], word)
	}
	assert.Equal(t, []string{""}, quiet.all())

	listening, err := postgres.Open(t.Context(), through(location), postgres.WithSchema(schema), postgres.WithListenURL(set(t, location, "schema", schema)))
	require.NoError(t, err)
	defer listening.Close()
	assert.True(t, listening.Features().Hints)
	heard, err := listening.Hints(t.Context())
	require.NoError(t, err)
	create(direct, "r")
	await(t, heard, store.Hint{Kind: store.HintQueue, Namespace: "n", Queue: "r"})
}

// A listen URL that also leads through the pooler is detected, once.
func TestListenURLThroughPooler(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	through := bouncer(t)(location)
	log := newLines()
	s, err := postgres.Open(t.Context(), through, postgres.WithSchema(schema), postgres.WithListenURL(through), log.option())
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Hints(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for len(log.all()) < 2 {
		select {
		case <-log.more:
		case <-ctx.Done():
			require.FailNow(t, "nothing was said", "%q", log.all())
		}
	}
	assert.Contains(t, log.all()[1], "goes through a pooler in transaction mode")
}

// A pooler accepts fewer parameters than the server, and has error texts of its own.
func TestOpenThroughPoolerSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	location, schema := pgtest.Schema(t)
	through := bouncer(t)(location)
	checkRefusals(t, schema, []refusal{
		{"startup parameter", set(t, through, "search_path", "x"), nil, store.ErrInvalid, []string{"search_path", "ignore_startup_parameters"}},
		{"no database", with(t, through, func(u *url.URL) { u.Path = "/nosuch" }), nil, store.ErrInvalid, []string{`"nosuch"`, "pooler"}},
	})
}
