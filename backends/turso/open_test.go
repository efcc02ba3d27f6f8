package turso_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/internal/sqldtest"
	"github.com/pawlhq/pawl/store"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, says string }{
		{"ws://db.example?authToken=sesame", "may be run twice"},
		{"wss://db.example?authToken=sesame", "may be run twice"},
		{"file:pawl.db", "use sqlite:pawl.db"},
		{"file:///var/pawl.db", "use sqlite:/var/pawl.db"},
		{"ftp://db.example", `scheme "ftp" is unknown`},
		{"db.example", "is unknown"},
		{"libsql:", "no host"},
		{"https://", "no host"},
		{"libsql://:8080", "no host"},
		{"libsql://user:sesame@db.example", "authToken"},
		{"libsql://db.example?authtoken=sesame", `no parameter "authtoken"`},
		{"libsql://db.example?tls=yes", "tls=yes is not 0 or 1"},
		{"https://db.example?tls=0", "contradicts"},
		{"http://db.example?tls=1", "contradicts"},
		{"libsql://db.example?timeout=0s", "timeout=0s is not a duration"},
		{"libsql://db.example?max_sleep=soon", "max_sleep=soon is not a duration"},
		{"libsql://db.example?migrate=1", "migrate=1 is not true or false"},
		{"libsql://db.example?authToken=sesame;x", "malformed"},
		{"libsql://db.example:sesame", "does not look like"},
	} {
		s, err := turso.Open(t.Context(), c.url)
		require.Nil(t, s, c.url)
		require.ErrorIs(t, err, store.ErrInvalid, c.url)
		require.ErrorContains(t, err, c.says, c.url)
		require.NotContains(t, err.Error(), "sesame", "the error tells the token")
	}
}

func TestBackendsKnowTheSchemes(t *testing.T) {
	t.Parallel()
	_, err := backends.Open(t.Context(), "wss://db.example")
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "may be run twice")
	// A server without namespaces serves whatever name it is called by.
	url := "http://" + strings.Replace(plain(t).Addr(), "127.0.0.1", "localhost", 1)
	for _, u := range []string{url, strings.Replace(url, "http", "libsql", 1) + "?tls=0&timeout=5s&max_sleep=2s"} {
		s, err := backends.Open(t.Context(), u)
		require.NoError(t, err)
		require.Equal(t, "turso", s.Features().Name)
		require.NoError(t, s.Close())
	}
}

// plain starts a server that has a database of its host's own name.
func plain(t *testing.T) *sqldtest.Server {
	s := sqldtest.Start(t)
	s.NamespaceNamed(t, "localhost")
	return s
}

func TestTokens(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t, sqldtest.Auth())
	url := srv.Namespace(t)
	good := srv.Token(time.Now().Add(time.Hour))
	for name, c := range map[string]struct{ token, says string }{
		"none":    {"", "does not accept the token"},
		"wrong":   {"sesame", "does not accept the token"},
		"foreign": {sqldtest.Start(t, sqldtest.Auth()).Token(time.Now().Add(time.Hour)), "does not accept the token"},
		"expired": {srv.Token(time.Now().Add(-time.Hour)), "has expired"},
	} {
		_, err := turso.Open(t.Context(), url, turso.WithDialer(srv.Dial), turso.WithToken(c.token))
		require.ErrorIs(t, err, store.ErrInvalid, name)
		require.ErrorContains(t, err, c.says, name)
		if c.token != "" {
			require.NotContains(t, err.Error(), c.token, name)
		}
	}
	open(t, srv, url, turso.WithToken(good))
	open(t, srv, url+"?authToken="+good)
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	_, err := turso.Open(t.Context(), "http://db.invalid?timeout=5s")
	require.ErrorContains(t, err, "db.invalid")
	require.True(t, store.Retryable(err) || strings.Contains(err.Error(), "no host of that name"), "saw %v", err)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = turso.Open(t.Context(), "http://"+l.Addr().String())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrOutcomeUnknown)
	require.ErrorContains(t, err, "refused")

	srv := sqldtest.Shared(t)
	_, err = turso.Open(t.Context(), sqldtest.URL("nowhere"), turso.WithDialer(srv.Dial))
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "no such database")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = turso.Open(ctx, sqldtest.URL("nowhere"), turso.WithDialer(srv.Dial))
	require.ErrorIs(t, err, context.Canceled)
}

// A captive portal, a parked domain or a proxy answers in the database's place.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status           int
		kind, body, says string
		transient        bool
	}{
		"a page":          {200, "text/html; charset=utf-8", "<!DOCTYPE html><p>Please log in", "It begins: <!DOCTYPE html><p>Please log in", false},
		"an error page":   {404, "text/html", "<h1>Not Found</h1>", "It begins: <h1>Not Found</h1>", false},
		"a redirection":   {302, "text/html", "moved", "HTTP status 302", false},
		"other JSON":      {200, "application/json", `{"hello":"world"}`, "0 answers to", true},
		"half an answer":  {200, "application/json", `{"results":[`, "libSQL answers JSON", false},
		"nothing":         {200, "", "", "libSQL answers JSON", false},
		"a proxy's error": {502, "text/html", "<h1>Bad Gateway</h1>", "HTTP status 502", true},
		"too busy":        {429, "application/json", `{"error":"slow down"}`, "slow down", true},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.Header().Set("Location", "/login")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		defer srv.Close()
		_, err := turso.Open(t.Context(), srv.URL)
		require.ErrorContains(t, err, c.says, name)
		if c.transient {
			require.True(t, store.Retryable(err), "%s: %v", name, err)
		} else {
			require.ErrorIs(t, err, store.ErrInvalid, name)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	srv, url := sqldtest.Shared(t), sqldtest.Namespace(t)
	_, err := turso.Open(t.Context(), url, turso.WithDialer(srv.Dial), turso.WithLimits(store.Limits{Payload: 5 << 20}))
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "5242880 is over 4194304")

	s := open(t, srv, url, turso.WithLimits(store.Limits{Payload: 4 << 20}))
	run := newRun(4 << 20)
	res, err := s.Create(t.Context(), store.CreateParams{Namespace: ns, Runs: []store.NewRun{run, newRun(4<<20 + 1)}})
	require.NoError(t, err)
	require.NoError(t, res[0].Err)
	require.ErrorIs(t, res[1].Err, store.ErrTooLarge)
	require.ErrorContains(t, res[1].Err, "input is 4194305 bytes")

	got := claim(t, s, 1)
	require.Len(t, got.Runs, 1)
	require.Equal(t, run.Input, got.Runs[0].Run.Input)
}

// The server sends no more than 10 MB at once.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	const n, size = 6, 2 << 20
	s := open(t, sqldtest.Shared(t), sqldtest.Namespace(t))
	var ids []store.ID
	for range n {
		run := newRun(size)
		ids = append(ids, run.ID)
		_, err := s.Create(t.Context(), store.CreateParams{Namespace: ns, Runs: []store.NewRun{run}})
		require.NoError(t, err)
	}
	runs, err := s.Get(t.Context(), store.GetParams{Namespace: ns, IDs: ids})
	require.NoError(t, err)
	require.Len(t, runs, n)
	for i, r := range runs {
		require.Equal(t, ids[i], r.ID)
		require.Len(t, r.Input, size)
	}
	claimed := map[store.ID]store.Lease{}
	for len(claimed) < n {
		got := claim(t, s, n)
		require.NotEmpty(t, got.Runs)
		for _, r := range got.Runs {
			require.NotContains(t, claimed, r.Run.ID)
			require.Len(t, r.Run.Input, size)
			claimed[r.Run.ID] = r.Lease
		}
	}
	lease := claimed[ids[0]]
	for i := range int64(n) {
		step := stepRecord(i + 1)
		step.Output = make([]byte, size)
		res, err := s.Commit(t.Context(), store.CommitParams{Namespace: ns, Commits: []store.Commit{{Lease: lease, Seq: i + 1, Steps: []store.StepRecord{step}}}})
		require.NoError(t, err)
		require.NoError(t, res[0].Err)
	}
	var steps []store.Step
	for more := true; more; {
		var after int64
		if len(steps) > 0 {
			after = steps[len(steps)-1].Position
		}
		page, err := s.Steps(t.Context(), store.StepsParams{Namespace: ns, Run: lease.Run, After: after})
		require.NoError(t, err)
		steps, more = append(steps, page.Steps...), page.More
	}
	require.Len(t, steps, n)
}

const (
	ns   = "default"
	flow = "flow"
	line = "line"
)

func newRun(size int) store.NewRun {
	return store.NewRun{ID: store.NewID(), Workflow: flow, Queue: line, Input: make([]byte, size)}
}

func claim(t testing.TB, s store.Store, n int) store.Claimed {
	t.Helper()
	got, err := s.Claim(t.Context(), claimParams(n))
	require.NoError(t, err)
	return got
}

func claimParams(n int) store.ClaimParams {
	return store.ClaimParams{Namespace: ns, Worker: "w", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: line, Workflows: []string{flow}, Max: n}}}
}

func stepRecord(position int64) store.StepRecord {
	return store.StepRecord{
		StepKey: store.StepKey{Name: fmt.Sprintf("step-%d", position), Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted,
		Position: position, Attempt: 1, Output: []byte(`{"charge":"ch_1"}`),
	}
}
