package faults

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/testing/cutproxy"
)

// Arming counts the requests of a transport up to the one that meets a fault. It is the
// part of a [Store] that all transports share. Its methods may be called
// concurrently.
type Arming struct {
	mu     sync.Mutex
	fault  Fault // 0: none
	left   int   // requests up to the one that meets it
	met    chan struct{}
	healed chan struct{}
}

// Arm is [Store].Arm.
func (a *Arming) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault, a.left, a.met, a.healed = f, nth, make(chan struct{}), make(chan struct{})
	healed := a.healed
	return a.met, sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.fault = 0
		close(healed)
	})
}

// Happening is a fault that a request meets.
type Happening struct {
	Fault  Fault           // 0: none
	Met    func()          // says that the fault has happened; once
	Healed <-chan struct{} // closed when it is healed
}

// Next counts a request and returns the fault that it meets.
func (a *Arming) Next() Happening {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault == 0 {
		return Happening{}
	}
	if a.left--; a.left != 0 {
		return Happening{}
	}
	met := a.met
	h := Happening{a.fault, sync.OnceFunc(func() { close(met) }), a.healed}
	a.fault = 0
	return h
}

// Protocol is what a [Proxy] has to know of what clients and servers say to each other.
type Protocol struct {
	// Request reports whether the first bytes that a client sends, after all has
	// been answered, begin a request that is to be counted. What belongs to
	// the beginning of a connection is none.
	Request func(data []byte) bool
	// Answered reports, by the last bytes of what a server has said, 64 at most,
	// whether the answer is complete.
	Answered func(tail []byte) bool
}

// Proxy is a TCP proxy before a database server, for the faulty store of a backend
// that speaks a protocol in which clients ask and servers answer.
type Proxy struct {
	protocol Protocol
	proxy    *cutproxy.Proxy
	faults   Arming
	forget   func()
}

// NewProxy starts a proxy on the loopback interface before the server at an
// address, and closes it with t.
func NewProxy(t testing.TB, server string, p Protocol) *Proxy {
	t.Helper()
	f := &Proxy{protocol: p}
	var err error
	if f.proxy, err = cutproxy.New(server, f.hook); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.proxy.Close)
	return f
}

// Addr is the address to connect to.
func (p *Proxy) Addr() string { return p.proxy.Addr() }

// Forget tells the proxy how the store lets go of its idle connections, so that it has
// to make a new one; then the proxy can refuse it ([Refused]).
func (p *Proxy) Forget(idle func()) { p.forget = idle }

// Faults lists the faults that the proxy can make.
func (p *Proxy) Faults() []Fault {
	list := []Fault{Before, After, Silent, Cut, Delayed}
	if p.forget != nil {
		list = append(list, Refused)
	}
	return list
}

// Arm is [Store].Arm. New connections are refused as long as a Refused is
// not healed; it is met at once, and once in a call.
func (p *Proxy) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	if f != Refused {
		return p.faults.Arm(f, nth)
	}
	happened := make(chan struct{})
	if nth > 1 {
		return happened, func() {}
	}
	p.proxy.Refuse(true)
	p.forget()
	close(happened)
	return happened, sync.OnceFunc(func() { p.proxy.Refuse(false) })
}

// hook makes the hook of a connection.
func (p *Proxy) hook() cutproxy.Hook {
	const keep = 64
	var asked bool
	var now Happening
	var tail []byte
	return func(from cutproxy.Side, data []byte) cutproxy.Verdict {
		if from == cutproxy.Client {
			if asked {
				return cutproxy.Pass // more of the same request
			}
			asked, tail = true, nil
			if !p.protocol.Request(data) {
				return cutproxy.Pass
			}
			now = p.faults.Next()
			switch now.Fault {
			case Before:
				now.Met()
				return cutproxy.Cut
			case Cut:
				now.Met()
				return cutproxy.CutBehind
			case Delayed:
				now.Met()
				<-now.Healed
			}
			return cutproxy.Pass
		}
		tail = append(tail, data[max(0, len(data)-keep):]...)
		tail = tail[max(0, len(tail)-keep):]
		done := p.protocol.Answered(tail)
		asked = asked && !done
		if now.Fault != After && now.Fault != Silent {
			return cutproxy.Pass
		}
		if !done {
			return cutproxy.Drop
		}
		now.Met()
		if now.Fault == Silent {
			return cutproxy.Hang
		}
		return cutproxy.Cut
	}
}

// HTTP is a proxy before a database that is reached over HTTP.
type HTTP struct {
	server http.RoundTripper
	front  *httptest.Server
	faults Arming
	refuse int
}

// NewHTTP starts a proxy on the loopback interface, which sends what it gets by
// server, and closes it with t. refuse is the status by which the database says
// that it has not executed a request ([Refused]).
func NewHTTP(t testing.TB, server http.RoundTripper, refuse int) *HTTP {
	p := &HTTP{server: server, refuse: refuse}
	p.front = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		p.front.CloseClientConnections()
		p.front.Close()
	})
	return p
}

// Dial connects to the proxy, whatever the address.
func (p *HTTP) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", p.front.Listener.Addr().String())
}

// Faults lists the faults that the proxy can make.
func (p *HTTP) Faults() []Fault {
	return []Fault{Refused, Before, After, Silent, Cut, Delayed}
}

// Arm is [Store].Arm.
func (p *HTTP) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	return p.faults.Arm(f, nth)
}

func (p *HTTP) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	now := p.faults.Next()
	switch now.Fault {
	case Refused:
		now.Met()
		w.WriteHeader(p.refuse)
		return
	case Before:
		now.Met()
		hangUp(w)
		return
	case Cut:
		now.Met()
		hangUp(w)
		w = nil
	case Delayed:
		now.Met()
		<-now.Healed
	}
	// The request lives on when its client has gone.
	req, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header = r.Header.Clone()
	res, err := p.server.RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler) // the server is away: the connection ends
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch {
	case w == nil:
	case now.Fault == After:
		now.Met()
		hangUp(w)
	case now.Fault == Silent:
		now.Met()
		<-r.Context().Done() // the client gives up
	default:
		maps.Copy(w.Header(), res.Header)
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(answer)
	}
}

// hangUp resets the connection of a request.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
