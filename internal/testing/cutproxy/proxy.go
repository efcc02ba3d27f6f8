// Package cutproxy is a TCP proxy for tests. It stands between a client and a server on this
// machine and cuts, delays or silences their connections at moments that the test chooses. It does
// not know their protocol: a hook looks at the bytes and decides.
package cutproxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Side is an end of a connection.
type Side int

const (
	Client Side = iota
	Server
)

// Verdict decides what happens to a chunk of bytes and to its connection.
//
// When a connection is cut, the client sees a reset at once. The server gets everything that was
// forwarded, then the end of the stream; what it still sends is discarded.
type Verdict int

const (
	Pass      Verdict = iota // the bytes are forwarded
	Drop                     // the bytes are dropped, the connection continues
	Cut                      // the bytes are dropped, the connection is cut
	CutBehind                // the bytes are forwarded, then the connection is cut
	Hang                     // from now on all bytes are dropped, and neither end notices until the client leaves
)

// A Hook decides on each chunk of bytes of one connection, as it was read. It is not called
// concurrently; until it returns, the connection waits.
type Hook func(from Side, data []byte) Verdict

// Proxy forwards connections to one server. Its methods may be called
// concurrently.
type Proxy struct {
	hook     func() Hook
	listener net.Listener
	tasks    sync.WaitGroup

	mu     sync.Mutex
	target string
	links  map[*link]struct{}
	refuse bool
	delay  time.Duration
	closed bool
}

// New starts a proxy for the server at that address, on a free port of the loopback interface. hook
// makes the hook of each new connection; nil: all bytes pass.
func New(target string, hook func() Hook) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, hook: hook, listener: l, links: map[*link]struct{}{}}
	p.tasks.Add(1)
	go p.accept()
	return p, nil
}

// Addr returns the address to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut cuts every existing connection and returns how many there were.
func (p *Proxy) Cut() int { return p.each((*link).cut) }

// Hang makes every existing connection half-open, and returns how many there were: no byte passes
// any more, and neither end is told. It does not affect new connections.
func (p *Proxy) Hang() int { return p.each((*link).hang) }

// Refuse makes the proxy reset new connections, or accept them again.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// Retarget makes new connections lead to the server at another address. Existing connections stay
// with theirs.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Delay delays every chunk of bytes by d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Ports returns the ports by which the server knows the connections whose client is still
// connected, including those that hang.
func (p *Proxy) Ports() []int {
	var ports []int
	p.each(func(l *link) bool {
		if l.state != cut && !l.clientGone {
			ports = append(ports, l.server.LocalAddr().(*net.TCPAddr).Port)
		}
		return true
	})
	return ports
}

// Close ends all connections and the proxy.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.each(func(l *link) bool {
		l.close()
		return true
	})
	p.tasks.Wait()
}

// each calls f for every connection, locked, and counts how often it returns true.
func (p *Proxy) each(f func(l *link) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.mu.Lock()
		if f(l) {
			n++
		}
		l.mu.Unlock()
	}
	return n
}

func (p *Proxy) accept() {
	defer p.tasks.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.tasks.Add(1)
		go p.connect(client.(*net.TCPConn))
	}
}

func (p *Proxy) connect(client *net.TCPConn) {
	defer p.tasks.Done()
	p.mu.Lock()
	refused, target := p.refuse, p.target
	p.mu.Unlock()
	if refused {
		reset(client)
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		reset(client) // as if the proxy were not there
		return
	}
	l := &link{proxy: p, client: client, server: server.(*net.TCPConn)}
	if p.hook != nil {
		l.hook = p.hook()
	}
	p.mu.Lock()
	if p.closed || p.refuse {
		p.mu.Unlock()
		reset(client)
		_ = server.Close()
		return
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.copy(Client) })
	both.Go(func() { l.copy(Server) })
	both.Wait()
	l.close()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// reset ends a connection so that its other end sees an error, not an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

type state int

const (
	passing state = iota
	hung
	cut
)

// link is a client's connection and the corresponding connection to the server.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn

	mu         sync.Mutex
	hook       Hook
	state      state
	clientGone bool
}

// copy reads one side until it ends.
func (l *link) copy(from Side) {
	in, out := l.client, l.server
	if from == Server {
		in, out = l.server, l.client
	}
	data := make([]byte, 64<<10)
	for {
		n, err := in.Read(data)
		if n > 0 {
			l.proxy.wait()
			v := l.verdict(from, data[:n])
			if v == Pass || v == CutBehind {
				// Not under the lock: an end that does not read must not block the other direction.
				if _, err := out.Write(data[:n]); err != nil {
					v = Cut
				}
			}
			if v == Cut || v == CutBehind {
				l.mu.Lock()
				l.cut()
				l.mu.Unlock()
			}
		}
		if err != nil {
			l.ended(from, err)
			return
		}
	}
}

func (p *Proxy) wait() {
	p.mu.Lock()
	d := p.delay
	p.mu.Unlock()
	if d > 0 {
		time.Sleep(d)
	}
}

func (l *link) verdict(from Side, data []byte) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != passing {
		return Drop
	}
	if l.hook == nil {
		return Pass
	}
	v := l.hook(from, data)
	if v == Hang {
		l.state = hung
	}
	return v
}

// The caller of cut and hang holds mu.

func (l *link) cut() bool {
	if l.state == cut {
		return false
	}
	l.state = cut
	reset(l.client)
	_ = l.server.CloseWrite()
	return true
}

func (l *link) hang() bool {
	if l.state != passing || l.clientGone {
		return false
	}
	l.state = hung
	return true
}

// ended handles the end of one side.
func (l *link) ended(from Side, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case from == Client:
		l.clientGone = true
		_ = l.server.CloseWrite()
	case l.state == hung: // the client must not notice it
	case errors.Is(err, io.EOF):
		_ = l.client.CloseWrite()
	default:
		l.cut()
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
