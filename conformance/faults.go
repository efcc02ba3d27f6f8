package conformance

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/faults"
	"github.com/pawlhq/pawl/store"
)

// Fault is what happens to a request on its way to the database, or to its answer.
type Fault uint8

// The faults.
const (
	// FaultRefused: the store knows for certain that nothing was applied. The connection
	// cannot be made, or the database answers that it has done nothing. A write
	// fails with ErrUnavailable.
	FaultRefused Fault = 1 + iota
	// FaultBefore: the request does not arrive; its connection is reset.
	FaultBefore
	// FaultAfter: the request is applied, and the client gets an error instead of the answer.
	FaultAfter
	// FaultSilent: the request is applied, and no answer arrives. The caller gives up.
	FaultSilent
	// FaultCut: the connection is cut while the request is in progress, so that it may have
	// been applied or not.
	FaultCut
	// FaultDelayed: the request waits until the fault is healed, and is applied then.
	FaultDelayed
)

// String returns the name of the fault.
func (f Fault) String() string { return faults.Fault(f).String() }

// FaultyStore is a store whose requests to its database can be made to fail.
type FaultyStore struct {
	// Store is a separate handle to the data. No other case calls it.
	Store store.Store
	// Faults lists the faults that Arm can cause. The cases of other faults are left out.
	Faults []Fault
	// Arm causes the fault for the nth request from now on, counted from 1, and for no other
	// request. A request is what the transport sends at once: a round trip, or a statement of
	// an embedded database.
	//
	// met is closed when the fault has happened. With FaultAfter and FaultSilent, the database
	// has applied the request by then. heal ends the fault, whether it has happened or not; a
	// request that FaultDelayed holds continues. heal may be called more than once.
	Arm func(f Fault, nth int) (met <-chan struct{}, heal func())
}

// inner is the store as the suite has it.
func (s FaultyStore) inner() faults.Store {
	return faults.Store{Store: s.Store, Faults: convert[faults.Fault](s.Faults), Arm: func(f faults.Fault, nth int) (<-chan struct{}, func()) {
		return s.Arm(Fault(f), nth)
	}}
}

// convert changes the type of faults.
func convert[To, From ~uint8](list []From) []To {
	out := make([]To, len(list))
	for i, f := range list {
		out[i] = To(f)
	}
	return out
}

// Arming counts the requests of a transport up to the one that is to fail. It is the part of a
// [FaultyStore] that all transports share: a transport calls Next for each request and causes the
// fault that Next returns. The zero Arming is ready to use, and its methods may be called
// concurrently.
type Arming struct{ arming faults.Arming }

// Arm implements Arm of a [FaultyStore]. It replaces a fault that was armed before and has not
// happened.
func (a *Arming) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	return a.arming.Arm(faults.Fault(f), nth)
}

// Next counts a request and returns the fault to cause for it. Fault is 0 if there is none; the
// other fields are then nil.
func (a *Arming) Next() Happening {
	h := a.arming.Next()
	return Happening{Fault: Fault(h.Fault), Met: h.Met, Healed: h.Healed}
}

// Happening is a fault that a transport is to cause for a request.
type Happening struct {
	Fault  Fault           // 0: none
	Met    func()          // the transport calls it when the fault has happened; calling it again does nothing
	Healed <-chan struct{} // closed when the fault is healed
}

// Protocol tells a [FaultProxy] where requests begin and answers end.
type Protocol struct {
	// Request reports whether data begins a request that is to be counted. The proxy calls it
	// with the first bytes that a client sends after everything before was answered. Messages
	// that set up a connection, such as a login, are not requests.
	Request func(data []byte) bool
	// Answered reports whether an answer is complete. tail is the end of what the server has
	// sent, at most 64 bytes.
	Answered func(tail []byte) bool
}

// FaultProxy is a TCP proxy in front of a database server, for [Harness].Faults of a backend whose
// protocol consists of requests and answers. Create one with [NewFaultProxy].
type FaultProxy struct{ proxy *faults.Proxy }

// NewFaultProxy starts a proxy on the loopback interface, in front of the server at an address
// (host:port). The proxy is closed when the test ends. If it cannot listen, the test fails.
func NewFaultProxy(t testing.TB, server string, p Protocol) *FaultProxy {
	t.Helper()
	return &FaultProxy{faults.NewProxy(t, server, faults.Protocol(p))}
}

// Addr returns the address that clients connect to: host:port.
func (p *FaultProxy) Addr() string { return p.proxy.Addr() }

// Forget sets a function that closes the store's idle connections. With [FaultRefused] the proxy
// calls it, so that the store must open a new connection, which the proxy refuses. Without it,
// FaultRefused is not among the proxy's Faults. Call Forget before Faults and Arm.
func (p *FaultProxy) Forget(idle func()) { p.proxy.Forget(idle) }

// Faults lists the faults that the proxy can cause.
func (p *FaultProxy) Faults() []Fault { return convert[Fault](p.proxy.Faults()) }

// Arm implements Arm of a [FaultyStore]. With [FaultRefused] and an nth of 1, the proxy refuses all
// new connections until the fault is healed, and met is closed at once. With FaultRefused and a
// higher nth, nothing happens, because a call meets this fault only once.
func (p *FaultProxy) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	return p.proxy.Arm(faults.Fault(f), nth)
}

// HTTPFaults is a proxy in front of a database with an HTTP interface, for [Harness].Faults. Create
// one with [NewHTTPFaults].
type HTTPFaults struct{ proxy *faults.HTTP }

// NewHTTPFaults starts a proxy on the loopback interface that sends the requests that it gets
// through server. The proxy is closed when the test ends. refuse is the HTTP status by which the
// database says that it has not executed a request; the proxy answers with it for [FaultRefused].
func NewHTTPFaults(t testing.TB, server http.RoundTripper, refuse int) *HTTPFaults {
	return &HTTPFaults{faults.NewHTTP(t, server, refuse)}
}

// Dial connects to the proxy and ignores the address. Use it as the dialer of an http.Transport.
func (p *HTTPFaults) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return p.proxy.Dial(ctx, network, address)
}

// Faults lists the faults that the proxy can cause.
func (p *HTTPFaults) Faults() []Fault { return convert[Fault](p.proxy.Faults()) }

// Arm implements Arm of a [FaultyStore].
func (p *HTTPFaults) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	return p.proxy.Arm(faults.Fault(f), nth)
}
