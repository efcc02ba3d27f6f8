// Package faults makes requests to a database fail: the faults, and proxies that bring them
// about.
package faults

import "github.com/pawlhq/pawl/store"

// Fault is what happens to a request on its way to the database, or to its answer.
type Fault uint8

// The faults.
const (
	// Refused: the store knows for certain that nothing was applied. The connection
	// cannot be made, or the database answers that it has done nothing. A write
	// fails with ErrUnavailable.
	Refused Fault = 1 + iota
	// Before: the request does not arrive; its connection is reset.
	Before
	// After: the request is applied, and an error comes in the place of the answer.
	After
	// Silent: the request is applied, and no answer comes. The caller gives up.
	Silent
	// Cut: the connection is cut while the request is under way, so that it may
	// have been applied or not.
	Cut
	// Delayed: the request waits until it is healed, and is applied then.
	Delayed
)

var faultNames = [...]string{"none", "refused", "before", "after", "silent", "cut", "delayed"}

func (f Fault) String() string { return faultNames[f] }

// Store is a store whose requests to its database meet faults.
type Store struct {
	// Store is a handle of its own to the data: no other case calls it.
	Store store.Store
	// Faults lists the faults that the transport can have; the cases of the others are
	// left out.
	Faults []Fault
	// Arm lets the nth request from now on, counted from 1, meet the fault, and
	// no other request. A request is what the transport carries at once: a
	// round trip, or a statement of an embedded database. met is closed when the
	// fault has happened: with After and Silent, the database has applied the
	// request then. heal ends the fault, whether it was met or not; a request that
	// was delayed goes on.
	Arm func(f Fault, nth int) (met <-chan struct{}, heal func())
}
