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
	// FaultAfter: the request is applied, and an error comes in the place of the answer.
	FaultAfter
	// FaultSilent: the request is applied, and no answer comes. The caller gives up.
	FaultSilent
	// FaultCut: the connection is cut while the request is under way, so that it may
	// have been applied or not.
	FaultCut
	// FaultDelayed: the request waits until it is healed, and is applied then.
	FaultDelayed
)

func (f Fault) String() string { return faults.Fault(f).String() }

// FaultyStore is a store whose requests to its database meet faults.
type FaultyStore struct {
	// Store is a handle of its own to the data: no other case calls it.
	Store store.Store
	// Faults lists the faults that the transport can have; the cases of the others are
	// left out.
	Faults []Fault
	// Arm lets the nth request from now on, counted from 1, meet the fault, and
	// no other request. A request is what the transport carries at once: a
	// round trip, or a statement of an embedded database. met is closed when the
	// fault has happened: with FaultAfter and FaultSilent, the database has applied the
	// request then. heal ends the fault, whether it was met or not; a request that
	// was delayed goes on.
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

// Arming counts the requests of a transport up to the one that meets a fault. It is the
// part of a [FaultyStore] that all transports share. Its methods may be called
// concurrently.
type Arming struct{ arming faults.Arming }

// Arm is [FaultyStore].Arm.
func (a *Arming) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	return a.arming.Arm(faults.Fault(f), nth)
}

// Next counts a request and returns the fault that it meets.
func (a *Arming) Next() Happening {
	h := a.arming.Next()
	return Happening{Fault: Fault(h.Fault), Met: h.Met, Healed: h.Healed}
}

// Happening is a fault that a request meets.
type Happening struct {
	Fault  Fault           // 0: none
	Met    func()          // says that the fault has happened; once
	Healed <-chan struct{} // closed when it is healed
}

// Protocol is what a [FaultProxy] has to know of what clients and servers say to each other.
type Protocol struct {
	// Request reports whether the first bytes that a client sends, after all has
	// been answered, begin a request that is to be counted. What belongs to
	// the beginning of a connection is none.
	Request func(data []byte) bool
	// Answered reports, by the last bytes of what a server has said, 64 at most,
	// whether the answer is complete.
	Answered func(tail []byte) bool
}

// FaultProxy is a TCP proxy before a database server, for the faulty store of a backend
// that speaks a protocol in which clients ask and servers answer.
type FaultProxy struct{ proxy *faults.Proxy }

// NewFaultProxy starts a proxy on the loopback interface before the server at an
// address, and closes it with t.
func NewFaultProxy(t testing.TB, server string, p Protocol) *FaultProxy {
	t.Helper()
	return &FaultProxy{faults.NewProxy(t, server, faults.Protocol(p))}
}

// Addr is the address to connect to.
func (p *FaultProxy) Addr() string { return p.proxy.Addr() }

// Forget tells the proxy how the store lets go of its idle connections, so that it has
// to make a new one; then the proxy can refuse it ([FaultRefused]).
func (p *FaultProxy) Forget(idle func()) { p.proxy.Forget(idle) }

// Faults lists the faults that the proxy can make.
func (p *FaultProxy) Faults() []Fault { return convert[Fault](p.proxy.Faults()) }

// Arm is [FaultyStore].Arm. New connections are refused as long as a FaultRefused is
// not healed; it is met at once, and once in a call.
func (p *FaultProxy) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	return p.proxy.Arm(faults.Fault(f), nth)
}

// HTTPFaults is a proxy before a database that is reached over HTTP.
type HTTPFaults struct{ proxy *faults.HTTP }

// NewHTTPFaults starts a proxy on the loopback interface, which sends what it gets by
// server, and closes it with t. refuse is the status by which the database says
// that it has not executed a request ([FaultRefused]).
func NewHTTPFaults(t testing.TB, server http.RoundTripper, refuse int) *HTTPFaults {
	return &HTTPFaults{faults.NewHTTP(t, server, refuse)}
}

// Dial connects to the proxy, whatever the address.
func (p *HTTPFaults) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return p.proxy.Dial(ctx, network, address)
}

// Faults lists the faults that the proxy can make.
func (p *HTTPFaults) Faults() []Fault { return convert[Fault](p.proxy.Faults()) }

// Arm is [FaultyStore].Arm.
func (p *HTTPFaults) Arm(f Fault, nth int) (met <-chan struct{}, heal func()) {
	return p.proxy.Arm(faults.Fault(f), nth)
}
