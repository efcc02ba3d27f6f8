package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Local makes a client of a handler of the same program. Its requests use no network. A request whose
// context has no viewer ([WithRequest]) counts as one of the program itself, from a loopback
// address.
func Local(h http.Handler) *Client {
	return &Client{base: "http://localhost", http: &http.Client{Transport: transport{h},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

type viewerKey struct{}

// WithRequest returns a context for calls of a [Local] client on behalf of the viewer who has sent r:
// the API sees his address, his Host, his credentials (the headers Authorization and Cookie), what
// his browser says about the origin of the request and what proxies have added. ctx is usually r.Context(), so that the
// API also sees the values that middleware has put there.
func WithRequest(ctx context.Context, r *http.Request) context.Context {
	return context.WithValue(ctx, viewerKey{}, r)
}

// passed are the headers of a viewer's request that the API sees.
var passed = []string{"Authorization", "Cookie", "Origin", "Sec-Fetch-Site", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "User-Agent"}

// transport serves requests by calling a handler.
type transport struct{ h http.Handler }

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	r := req.Clone(ctx)
	r.RequestURI = r.URL.RequestURI()
	r.RemoteAddr, r.Host = "127.0.0.1:0", "localhost"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if viewer, ok := req.Context().Value(viewerKey{}).(*http.Request); ok {
		r.RemoteAddr, r.Host, r.TLS = viewer.RemoteAddr, viewer.Host, viewer.TLS
		for _, name := range passed {
			if v := viewer.Header.Values(name); len(v) > 0 {
				r.Header[name] = v
			}
		}
	}
	body, out := io.Pipe()
	w := &writer{header: http.Header{}, out: out, ready: make(chan struct{})}
	go func() {
		defer func() {
			if v := recover(); v != nil {
				w.WriteHeader(http.StatusInternalServerError)
				_ = out.CloseWithError(fmt.Errorf("the handler of the API ended: %v", v))
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = out.Close()
		}()
		t.h.ServeHTTP(w, r)
	}()
	select {
	case <-w.ready:
	case <-req.Context().Done():
		cancel()
		_ = body.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &left{body, cancel}, ContentLength: -1, Request: req,
	}, nil
}

// left is a body whose reader may leave before its end, which ends the request.
type left struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (l *left) Close() error {
	l.cancel()
	return l.PipeReader.Close()
}

// writer passes an answer on while it is written.
type writer struct {
	header http.Header
	once   sync.Once
	ready  chan struct{} // closed when the fields below are set
	sent   http.Header
	status int
	out    *io.PipeWriter
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.once.Do(func() {
		w.sent, w.status = w.header.Clone(), status
		close(w.ready)
	})
}

func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

// Flush does nothing: what is written is read at once.
func (w *writer) Flush() {}
