package turso_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, says string }{
		{"ws://db.example?authToken=sesame", "may run twice"},
		{"wss://db.example?authToken=sesame", "may run twice"},
		{"file:pawl.db", "use sqlite:pawl.db"},
		{"file:///var/pawl.db", "use sqlite:/var/pawl.db"},
		{"ftp://db.example", `unknown scheme "ftp"`},
		{"db.example", "unknown scheme"},
		{"libsql:", "no host"},
		{"https://", "no host"},
		{"libsql://:8080", "no host"},
		{"libsql://user:sesame@db.example", "authToken"},
		{"libsql://db.example?authtoken=sesame", `unknown parameter "authtoken"`},
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
	require.ErrorContains(t, err, "may run twice")
	// A server without namespaces accepts any host name.
	url := "http://" + strings.Replace(plain(t).Addr(), "127.0.0.1", "localhost", 1)
	for _, u := range []string{url, strings.Replace(url, "http", "libsql", 1) + "?tls=0&timeout=5s&max_sleep=2s"} {
		s, err := backends.Open(t.Context(), u)
		require.NoError(t, err)
		require.Equal(t, "turso", s.Features().Name)
		require.Regexp(t, `^libSQL, SQLite \d+\.\d+\.\d+$`, s.Features().Version)
		require.NoError(t, s.Close())
	}
}

// plain starts a server that has one database, under the server's own host name.
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
	require.True(t, store.Retryable(err) || strings.Contains(err.Error(), "the host does not exist"), "saw %v", err)

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

// TestStrangeAnswers: a captive portal, a parked domain or a proxy answers in place of the
// database.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status           int
		kind, body, says string
		transient        bool
	}{
		"a page":          {200, "text/html; charset=utf-8", "<!DOCTYPE html><p>Please log in", "The answer begins: <!DOCTYPE html><p>Please log in", false},
		"an error page":   {404, "text/html", "<h1>Not Found</h1>", "The answer begins: <h1>Not Found</h1>", false},
		"a redirection":   {302, "text/html", "moved", "HTTP status 302", false},
		"other JSON":      {200, "application/json", `{"hello":"world"}`, "0 answers to", true},
		"half an answer":  {200, "application/json", `{"results":[`, "not the JSON of libSQL", false},
		"nothing":         {200, "", "", "not the JSON of libSQL", false},
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
		timeout := "20s" // a server that is busy with other tests answers within this time
		if c.transient {
			timeout = "1s" // it is asked again and again for this long
		}
		_, err := turso.Open(t.Context(), srv.URL+"?timeout="+timeout)
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

	s := open(t, srv, url, turso.WithLimits(store.Limits{Payload: 4 << 20}), turso.WithTimeout(time.Minute)) // which a busy machine may need for so much
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

// TestLargeAnswers: the server sends no more than 10 MB at once.
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
		steps, more = append(steps, page.Steps...), page.Next != 0
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

// claimParams asks for leases that do not run out while a busy machine executes a test.
func claimParams(n int) store.ClaimParams {
	return store.ClaimParams{Namespace: ns, Worker: "w", LeaseFor: time.Hour, Demands: []store.Demand{{Queue: line, Workflows: []string{flow}, Max: n}}}
}

func stepRecord(position int64) store.StepRecord {
	return store.StepRecord{
		StepKey: store.StepKey{Name: fmt.Sprintf("step-%d", position), Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted,
		Position: position, Attempt: 1, Output: []byte(`{"charge":"ch_1"}`),
	}
}

// front puts something that an operator might use in front of a server.
func front(t *testing.T, srv *sqldtest.Server, secure bool, handle func(w http.ResponseWriter, r *http.Request, pass func())) *httptest.Server {
	t.Helper()
	target := &http.Transport{DialContext: srv.Dial}
	t.Cleanup(target.CloseIdleConnections)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pass := func() {
			(&httputil.ReverseProxy{Transport: target, Rewrite: func(p *httputil.ProxyRequest) {
				p.Out.URL.Scheme, p.Out.URL.Host = "http", p.In.Host
			}}).ServeHTTP(w, r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.HasPrefix(body, []byte(`{"requests":[{"type":"close"}]`)) { // nobody waits for it, and it comes at any time
			pass()
			return
		}
		handle(w, r, pass)
	})
	s := httptest.NewUnstartedServer(h)
	if secure {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// TestReadOnlyToken checks that a read-only token can list and show, and that writes say why they
// fail.
func TestReadOnlyToken(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t, sqldtest.Auth())
	url := srv.Namespace(t)
	ctx := t.Context()
	owner := open(t, srv, url, turso.WithToken(srv.Token(time.Now().Add(time.Hour))))
	run := newRun(3)
	_, err := owner.Create(ctx, store.CreateParams{Namespace: ns, Runs: []store.NewRun{run}})
	require.NoError(t, err)

	reader := open(t, srv, url, turso.WithToken(srv.ReadToken(time.Now().Add(time.Hour))))
	page, err := reader.List(ctx, store.ListParams{Namespace: ns})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	got, err := reader.Get(ctx, store.GetParams{Namespace: ns, IDs: []store.ID{run.ID}})
	require.NoError(t, err)
	require.Equal(t, run.Input, got[0].Input)
	_, err = reader.Steps(ctx, store.StepsParams{Namespace: ns, Run: run.ID})
	require.NoError(t, err)
	_, err = reader.Count(ctx, store.CountParams{Namespace: ns})
	require.NoError(t, err)
	_, err = reader.Clock(ctx)
	require.NoError(t, err)
	_, err = reader.Diagnose(ctx)
	require.NoError(t, err)
	_, err = turso.SchemaOf(ctx, url, turso.WithDialer(srv.Dial), turso.WithToken(srv.ReadToken(time.Now().Add(time.Hour))))
	require.NoError(t, err)

	_, err = reader.Create(ctx, store.CreateParams{Namespace: ns, Runs: []store.NewRun{newRun(3)}})
	require.ErrorContains(t, err, "the token does not allow this")
	require.NotErrorIs(t, err, store.ErrOutcomeUnknown)

	// Opening a database that needs a migration says that this token does not allow it.
	_, err = turso.Open(ctx, srv.Namespace(t), turso.WithDialer(srv.Dial), turso.WithToken(srv.ReadToken(time.Now().Add(time.Hour))))
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "the token does not allow this")
}

// TestTokenSource: a function returns tokens that change.
func TestTokenSource(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t, sqldtest.Auth())
	var token atomic.Pointer[string]
	set := func(s string) { token.Store(&s) }
	set(srv.Token(time.Now().Add(time.Hour)))
	s := open(t, srv, srv.Namespace(t)+"?authToken=sesame", turso.WithTokenSource(func(ctx context.Context) (string, error) {
		if now := *token.Load(); now != "" {
			return now, nil
		}
		return "", errors.New("the vault is sealed")
	}))
	set("")
	_, err := s.Clock(t.Context())
	require.ErrorContains(t, err, "the vault is sealed")
	_, err = s.Create(t.Context(), store.CreateParams{Namespace: ns, Runs: []store.NewRun{newRun(1)}})
	require.ErrorIs(t, err, store.ErrUnavailable, "nothing was sent")
	set(srv.Token(time.Now().Add(-time.Hour)))
	_, err = s.Clock(t.Context())
	require.ErrorContains(t, err, "has expired")
	set(srv.ReadToken(time.Now().Add(time.Hour)))
	_, err = s.Clock(t.Context())
	require.NoError(t, err)
	set(srv.Token(time.Now().Add(2 * time.Hour)))
	_, err = s.Create(t.Context(), store.CreateParams{Namespace: ns, Runs: []store.NewRun{newRun(1)}})
	require.NoError(t, err)
}

// TestClientOptions: a gateway has a certificate of the company's own and requires a header.
func TestClientOptions(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t)
	srv.NamespaceNamed(t, "example")
	gate := front(t, srv, true, func(w http.ResponseWriter, r *http.Request, pass func()) {
		if r.Header.Get("X-Gate") != "open" {
			http.Error(w, "no such key", http.StatusForbidden)
			return
		}
		pass()
	})
	roots := x509.NewCertPool()
	roots.AddCert(gate.Certificate())
	to := func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, gate.Listener.Addr().String())
	}
	header := turso.WithHeader(http.Header{"X-Gate": {"open"}})
	const url = "libsql://example.com"
	s, err := turso.Open(t.Context(), url, turso.WithDialer(to), turso.WithRootCAs(roots), header)
	require.NoError(t, err)
	require.NoError(t, s.Close())

	client := &http.Client{Transport: &http.Transport{DialContext: to, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	s, err = turso.Open(t.Context(), url, turso.WithHTTPClient(client), header)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Nil(t, client.CheckRedirect, "the program's own client was changed")

	_, err = turso.Open(t.Context(), url, turso.WithDialer(to), header)
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "certificate is not trusted")
	_, err = turso.Open(t.Context(), url, turso.WithDialer(to), turso.WithRootCAs(roots))
	require.ErrorContains(t, err, "no such key")
	_, err = turso.Open(t.Context(), url, turso.WithHTTPClient(client), turso.WithRootCAs(roots))
	require.ErrorIs(t, err, store.ErrInvalid)
}

// TestOpenUnderLoad checks that a program that starts while the server is busy does not fail.
func TestOpenUnderLoad(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t)
	srv.NamespaceNamed(t, "127")
	var n atomic.Int64
	busy := front(t, srv, false, func(w http.ResponseWriter, r *http.Request, pass func()) {
		switch n.Add(1) {
		case 1, 4:
			http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		case 3: // a check of the version, and then the first write, which comes too late
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			late := bytes.Replace(body, []byte("BETWEEN ?1 AND ?2-1"), []byte("BETWEEN ?1 AND ?2-1 AND 0"), 1)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(late)), int64(len(late))
			pass()
		case 6:
			http.Error(w, "slow down", http.StatusTooManyRequests)
		default:
			pass()
		}
	})
	s, err := turso.Open(t.Context(), busy.URL)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Greater(t, n.Load(), int64(6))
}

// TestOlderProtocol distinguishes a server without our protocol from a database that does not
// exist.
func TestOlderProtocol(t *testing.T) {
	t.Parallel()
	for path, says := range map[string]string{"/v2": "older protocol", "/v3": "no such database", "/elsewhere": "not a libSQL server"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path || r.Method != http.MethodGet {
				http.NotFound(w, r)
			}
		}))
		defer srv.Close()
		_, err := turso.Open(t.Context(), srv.URL)
		require.ErrorIs(t, err, store.ErrInvalid, path)
		require.ErrorContains(t, err, says, path)
		require.Equal(t, path == "/v2", strings.Contains(err.Error(), "older"), err.Error())
	}
}

// TestRedirection checks that the error names the target of a redirection, without its parts that
// may be secret.
func TestRedirection(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://user:sesame@login.example/db?token=sesame#sesame")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	_, err := turso.Open(t.Context(), srv.URL)
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "redirects to https://login.example/db;")
	require.NotContains(t, err.Error(), "sesame")
}

// TestRetryAfter checks that all calls respect a pause that a server asks for with Retry-After.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t)
	srv.NamespaceNamed(t, "127")
	var refuse atomic.Bool
	var refused, after atomic.Pointer[time.Time]
	busy := front(t, srv, false, func(w http.ResponseWriter, r *http.Request, pass func()) {
		now := time.Now()
		if refuse.Swap(false) {
			refused.Store(&now)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		}
		after.CompareAndSwap(nil, &now)
		pass()
	})
	s, err := turso.Open(t.Context(), busy.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	refuse.Store(true)
	after.Store(nil)
	_, err = s.List(t.Context(), store.ListParams{Namespace: ns})
	require.ErrorIs(t, err, store.ErrUnavailable)

	// A call whose context ends sooner does not wait that long, and nothing is sent.
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Create(short, store.CreateParams{Namespace: ns, Runs: []store.NewRun{newRun(1)}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, store.ErrOutcomeUnknown)
	require.Nil(t, after.Load())

	_, err = s.Create(t.Context(), store.CreateParams{Namespace: ns, Runs: []store.NewRun{newRun(1)}})
	require.NoError(t, err)
	require.GreaterOrEqual(t, after.Load().Sub(*refused.Load()), 900*time.Millisecond)
}
