package turso

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// proxy stands between stores and their server. It delays, drops, cuts and repeats requests and
// answers as networks do.
type proxy struct {
	t      testing.TB
	target *http.Transport
	front  *httptest.Server
	count  atomic.Int64
	fate   atomic.Pointer[func(n int64) fate] // of the n-th round trip; nil: it is forwarded normally

	cuts, resets, refusals atomic.Int64
}

// fate is what happens to a round trip.
type fate struct {
	hold   <-chan struct{} // the request is forwarded when hold is closed, whether its client still waits or not
	served chan<- struct{} // closed when the server has answered
	before time.Duration   // the delay of the request
	after  time.Duration   // the delay of the answer
	drop   bool            // the request never arrives
	refuse bool            // it is not forwarded, and answered with status
	cut    bool            // it is applied, and the answer is cut
	half   bool            // with cut: half of the answer arrives
	plain  bool            // the answer does not contain the count of changes
	twice  bool            // it is delivered twice, and the first answer is lost
	status int             // it is applied, and this status is answered instead
	head   http.Header     // sent with status
}

func newProxy(t testing.TB, srv *sqldtest.Server) *proxy {
	p := &proxy{t: t, target: &http.Transport{DialContext: srv.Dial, MaxIdleConnsPerHost: 64, DisableCompression: true}}
	p.front = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		p.front.CloseClientConnections()
		p.front.Close()
		p.target.CloseIdleConnections()
	})
	return p
}

// dial connects to the proxy, whatever the address is.
func (p *proxy) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", p.front.Listener.Addr().String())
}

// set decides the fate of round trips, which are numbered from one again. Requests that only close a stream, for which
// nobody waits, are not numbered; they arrive.
func (p *proxy) set(f func(n int64) fate) {
	p.count.Store(0)
	p.fate.Store(&f)
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f := fate{}
	if decide := p.fate.Load(); !closes(body) {
		if n := p.count.Add(1); decide != nil {
			f = (*decide)(n)
		}
	}
	if f.drop {
		p.refusals.Add(1)
		p.reset(w, nil)
		return
	}
	if f.refuse {
		w.WriteHeader(f.status)
		return
	}
	if f.hold != nil {
		<-f.hold
	}
	<-time.After(f.before) // the network's delay, which the test is about
	// The request continues when its client has gone.
	req, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return
	}
	req.Header = r.Header.Clone()
	if f.twice {
		res, err := p.target.RoundTrip(req)
		if err != nil {
			p.t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := p.target.RoundTrip(req)
	if err != nil { // the server is down
		p.reset(w, nil)
		return
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		p.reset(w, nil)
		return
	}
	if f.served != nil {
		close(f.served)
	}
	<-time.After(f.after)
	if f.plain {
		answer = bytes.ReplaceAll(answer, []byte(`"replication_index":`), []byte(`"unknown":`))
	}
	switch {
	case f.status != 0:
		maps.Copy(w.Header(), f.head)
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, "upstream trouble")
	case f.cut && f.half:
		p.resets.Add(1)
		p.reset(w, append([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"), answer[:len(answer)/2]...))
	case f.cut:
		p.cuts.Add(1)
		p.reset(w, nil)
	default:
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(answer)
	}
}

// closes reports whether a request only closes a stream.
func closes(body []byte) bool { return bytes.HasPrefix(body, []byte(`{"requests":[{"type":"close"}]`)) }

// reset sends some bytes and then resets the connection.
func (p *proxy) reset(w http.ResponseWriter, some []byte) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.t.Error(err)
		return
	}
	_, _ = conn.Write(some)
	if len(some) == 0 {
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
	_ = conn.Close()
}

// behindProxy opens a store that is connected through a proxy of its own.
func behindProxy(t *testing.T, opts ...Option) (*Store, *proxy) {
	srv, url := sqldtest.Shared(t), sqldtest.Namespace(t)
	p := newProxy(t, srv)
	return openOn(t, srv, url, append(opts, WithDialer(p.dial))...), p
}

// first applies a fate to the first round trip.
func first(f fate) func(int64) fate {
	return func(n int64) fate {
		if n == 1 {
			return f
		}
		return fate{}
	}
}

// TestLateWriteIsNotApplied checks that a write that arrives after its caller has given up has no
// effect.
func TestLateWriteIsNotApplied(t *testing.T) {
	t.Parallel()
	s, p := behindProxy(t, WithTimeout(2*time.Second))
	for name, limit := range map[string]time.Duration{"timeout": time.Hour, "deadline": 100 * time.Millisecond} {
		release, served := make(chan struct{}), make(chan struct{})
		p.set(first(fate{hold: release, served: served}))
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		late := createParams(1)
		_, err := s.Create(ctx, late)
		require.ErrorIs(t, err, store.ErrOutcomeUnknown, name)
		require.Equal(t, limit < time.Hour, errors.Is(err, context.DeadlineExceeded), "%s: %v", name, err)
		close(release)
		<-served
		require.Empty(t, get(t, s, late.Runs[0].ID), "%s: a write came late", name)

		// It is safe to send it again.
		res, err := s.Create(t.Context(), late)
		require.NoError(t, err, name)
		require.True(t, res[0].Created, name)
	}
}

// TestLostAnswers checks that the result of a lost answer is looked up, or the call is sent again.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	s, p := behindProxy(t)
	ctx := t.Context()
	for name, lost := range map[string]fate{"cut": {cut: true}, "half": {cut: true, half: true}, "never arrived": {drop: true}} {
		arrives := !lost.drop
		made := createParams(2)
		p.set(first(lost))
		_, err := s.Create(ctx, made)
		require.ErrorIs(t, err, store.ErrOutcomeUnknown, name)
		require.NotErrorIs(t, err, store.ErrUnavailable, name)
		require.Equal(t, arrives, len(get(t, s, made.Runs[0].ID)) == 1, name)
		res, err := s.Create(ctx, made)
		require.NoError(t, err, name)
		require.True(t, res[0].Created && res[1].Created, name)

		// A read changes nothing, so it is sent again, and the error is just that the store is unavailable.
		p.set(first(lost))
		require.Len(t, get(t, s, made.Runs[0].ID), 1, name)
		p.set(func(int64) fate { return lost })
		_, err = s.Get(ctx, store.GetParams{Namespace: "ns", IDs: []store.ID{made.Runs[0].ID}})
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		require.NotErrorIs(t, err, store.ErrOutcomeUnknown, name)

		// The runs that a claim has taken are found by the claim's number.
		p.set(first(fate{}))
		s.Expect()
		p.set(first(lost))
		demand := store.ClaimParams{Namespace: "ns", Worker: name, LeaseFor: time.Minute, ClaimID: 7, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 10}}}
		_, err = s.Claim(ctx, demand)
		require.ErrorIs(t, err, store.ErrOutcomeUnknown, name)
		demand.Again = arrives
		got, err := s.Claim(ctx, demand)
		require.NoError(t, err, name)
		require.Len(t, got.Runs, 2, name)
		commits := store.CommitParams{Namespace: "ns"}
		for _, r := range got.Runs {
			require.Equal(t, int64(1), r.Lease.Epoch, "%s: claimed twice", name)
			require.Equal(t, name, r.Run.Worker, name)
			commits.Commits = append(commits.Commits, store.Commit{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}})
		}
		p.set(first(lost))
		_, err = s.Commit(ctx, commits)
		require.ErrorIs(t, err, store.ErrOutcomeUnknown, name)
		again, err := s.Commit(ctx, commits)
		require.NoError(t, err, name)
		for _, r := range again {
			require.NoError(t, r.Err, name)
			require.Equal(t, arrives, r.Repeated, name)
			require.Equal(t, store.Completed, r.Status, name)
		}
	}
}

// TestStatusAfterAWrite checks that any answer of a proxy after it has forwarded a write leaves the
// write's outcome unknown, and that an answer of a server before it executes anything does not.
func TestStatusAfterAWrite(t *testing.T) {
	t.Parallel()
	s, p := behindProxy(t)
	ctx := t.Context()
	for status := 300; status < 600; status++ {
		if http.StatusText(status) == "" && status != 520 {
			continue
		}
		f := fate{status: status}
		if slices.Contains(refusals, status) {
			f.refuse = true
		}
		made := createParams(1)
		p.set(first(f))
		results, err := s.Create(ctx, made)
		if status == http.StatusRequestEntityTooLarge {
			if err == nil { // it was made smaller until it had one run
				err = results[0].Err
			}
			require.ErrorIs(t, err, store.ErrTooLarge, "%d", status)
			continue
		}
		if f.refuse {
			require.ErrorIs(t, err, store.ErrUnavailable, "%d", status)
			require.NotErrorIs(t, err, store.ErrOutcomeUnknown, "%d", status)
			continue
		}
		require.ErrorIs(t, err, store.ErrOutcomeUnknown, "%d", status)
		require.NotErrorIs(t, err, store.ErrUnavailable, "%d", status)
		require.Len(t, get(t, s, made.Runs[0].ID), 1, "%d", status)
		_, err = s.Get(ctx, store.GetParams{Namespace: "ns", IDs: []store.ID{made.Runs[0].ID}})
		require.NoError(t, err)
	}
}

// TestRequestsThatArriveTwice checks that a request that a network delivers twice takes effect
// once.
func TestRequestsThatArriveTwice(t *testing.T) {
	t.Parallel()
	s, p := behindProxy(t)
	ctx := t.Context()
	p.set(first(fate{twice: true}))
	eager := createParams(1)
	eager.Runs[0].Worker, eager.Runs[0].LeaseFor = "w", time.Minute
	res, err := s.Create(ctx, eager)
	require.NoError(t, err)
	require.Equal(t, store.Lease{Run: eager.Runs[0].ID, Worker: "w", Epoch: 1}, res[0].Lease)

	_, err = s.Create(ctx, createParams(4))
	require.NoError(t, err)
	s.Expect()
	p.set(first(fate{twice: true}))
	demand := store.ClaimParams{Namespace: "ns", Worker: "w", LeaseFor: time.Minute, ClaimID: 7, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 2}}}
	got, err := s.Claim(ctx, demand)
	require.NoError(t, err)
	require.Len(t, got.Runs, 2)
	commits := store.CommitParams{Namespace: "ns"}
	for _, r := range got.Runs {
		require.Equal(t, int64(1), r.Lease.Epoch)
		require.Zero(t, r.Run.Crashes)
		commits.Commits = append(commits.Commits, store.Commit{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.CompleteRun}})
	}
	require.Len(t, column[int64](t, s, `SELECT epoch FROM runs WHERE leased AND epoch=1`), 3, "the second delivery has taken more")
	p.set(first(fate{twice: true}))
	results, err := s.Commit(ctx, commits)
	require.NoError(t, err)
	for _, r := range results {
		require.NoError(t, r.Err)
	}
}
