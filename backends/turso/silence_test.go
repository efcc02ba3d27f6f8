package turso_test

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// wire makes connections that can become half-open: bytes vanish, and neither end is told.
type wire struct {
	addr  string
	mu    sync.Mutex
	conns []*halfOpen
}

type halfOpen struct {
	net.Conn
	silent atomic.Bool
	closed chan struct{}
	close  sync.Once
}

func (l *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, err
	}
	h := &halfOpen{Conn: c, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, h)
	return h, nil
}

// cut makes the present connections half-open.
func (l *wire) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.conns {
		h.silent.Store(true)
	}
}

func (h *halfOpen) Write(b []byte) (int, error) {
	if h.silent.Load() {
		return len(b), nil
	}
	return h.Conn.Write(b)
}

func (h *halfOpen) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if h.silent.Load() {
		<-h.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (h *halfOpen) Close() error {
	h.close.Do(func() { close(h.closed) })
	return h.Conn.Close()
}

// TestHalfOpenConnections checks that a read succeeds in time although all connections of the store have become
// half-open, and that later calls do not meet them again. All requests of HTTP/2 share one connection.
func TestHalfOpenConnections(t *testing.T) {
	t.Parallel()
	srv := sqldtest.Start(t)
	srv.NamespaceNamed(t, "example")
	gate := front(t, srv, true, func(_ http.ResponseWriter, _ *http.Request, pass func()) { pass() })
	roots := x509.NewCertPool()
	roots.AddCert(gate.Certificate())
	for name, c := range map[string]struct {
		url, addr string
		opts      []turso.Option
	}{
		"HTTP/1": {"http://example.sqld.test", srv.Addr(), nil},
		"HTTP/2": {"libsql://example.com", gate.Listener.Addr().String(), []turso.Option{turso.WithRootCAs(roots)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &wire{addr: c.addr}
			s, err := turso.Open(t.Context(), c.url, append(c.opts, turso.WithDialer(l.dial), turso.WithLogger(quiet))...)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			id := store.NewID()
			p := store.CreateParams{Namespace: name, Runs: []store.NewRun{{ID: id, Queue: "q", Workflow: "w"}}}
			_, err = s.Create(t.Context(), p)
			require.NoError(t, err)
			get := func() time.Duration {
				from := time.Now()
				runs, err := s.Get(t.Context(), store.GetParams{Namespace: name, IDs: []store.ID{id}})
				require.NoError(t, err)
				require.Len(t, runs, 1)
				return time.Since(from)
			}
			get()
			l.cut()
			t.Logf("the first read took %v", get())
			_, err = s.Create(t.Context(), p) // the connections that are left are good
			require.NoError(t, err)
		})
	}
}
