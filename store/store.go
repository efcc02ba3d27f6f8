package store

import (
	"context"
	"time"
)

// Store is what a backend implements. The rules of this comment hold for every method of
// Store, and of the optional interfaces: [Hinter], [Transactor], [Importer], [Exporter],
// [Journal], [Outboxer], [Streamer], [Ranker], [Diagnoser] and [Counter].
//
// Calls: all methods may be called concurrently by many goroutines and processes. A method first
// calls Validate of its params. P16: an invalid request changes nothing and returns [ErrInvalid],
// as an [*InvalidError] that names the field. Names follow [ValidateName], and are compared byte by
// byte.
//
// P15: a method neither shows nor changes anything of a namespace other than the given one. P18:
// what a call reads does not grow with stored data that does not concern it.
//
// Now: a method whose params have a Now uses that time as the store's clock, for this call only;
// zero means the store's own clock, read once in each call. See the section on the clock in the
// package comment.
//
// Context: a method that gets a canceled context returns that context's error. A write has then
// been applied or not; if the store cannot tell, the error also matches [ErrOutcomeUnknown].
//
// Faults: a method fails with [ErrUnavailable] only if it has applied nothing, and with
// [ErrOutcomeUnknown] if the answer was lost. P4: the same call may then be sent again, and has one
// effect in total; methods for which this does not hold say so. The comment at the errors has the
// complete rule.
//
// Batches: a method that takes several items returns one result per item, in order. An item's
// Err concerns that item alone; see the section on batches in the package comment.
//
// Payloads: P12: inputs, outputs, signals and values are bytes that the store does not interpret.
// They are returned unchanged; nil stays nil, and empty stays empty. A caller may reuse its buffers
// after a call without changing what is stored.
type Store interface {
	Runs
	Leases
	Coordination
	Registry
	Schedules
	Limiter

	// Clock returns the store's time, in UTC: the clock that measures leases, sleeps and delays.
	// [Claimed.Now] and [SchedulePage.Now] return the same clock. It is exact to at least a
	// millisecond.
	Clock(ctx context.Context) (time.Time, error)
	// Features describes this backend: what it can do beyond the contract, and what it cannot do,
	// each gap with its reason. The answer is the same at every handle.
	Features() Features
	// Limits returns the size limits of the backend (P12). Payload is above zero.
	Limits() Limits
	// Close releases what the store holds: connections, goroutines, and the channels of [Hinter],
	// which it closes. Calls in progress may fail with ErrUnavailable or ErrOutcomeUnknown; later
	// calls fail with ErrUnavailable. Closing again does nothing. Close first sends the hints of
	// earlier writes, unless that takes long. Stored data stays, also for other handles.
	Close() error
}

// ContractVersion is the version of the contract that this package states. It increases by one with each change
// that a conformant backend may fail: a new or stricter rule, or a new required method.
const ContractVersion = 2

// Features describes a backend.
type Features struct {
	// Name is the backend's name: "sqlite".
	Name string
	// Contract is the [ContractVersion] whose rules the backend keeps, written as a number. The backend's
	// author changes it when the backend passes the conformance suite of a later version; that suite
	// fails until then.
	Contract int
	// Hints says that the backend implements [Hinter], for the writes of all processes. If it is
	// false, only writes of this process send hints, or none do.
	Hints bool
	// SharedClock says that all processes see one clock, the database's. False
	// means the clock of each process's machine.
	SharedClock bool
	// Processes says that several processes may work on the same data.
	Processes bool
	// Transactions says that the backend implements [Transactor].
	Transactions bool
	// Durability says which failures acknowledged writes survive. The zero value is the strongest
	// promise; the conformance suite requires proof of any but Volatile.
	Durability Durability
	// Gaps lists what the contract asks for and this backend cannot do.
	Gaps []Gap
	// Version describes the version of the backend and of its database, for reports: "SQLite
	// 3.51.3". It is empty if unknown. It is not part of the contract, and says nothing about the version
	// of the contract, which is Contract.
	Version string
}

// Gap is one ability that a backend lacks. The conformance suite checks the gaps: the harness must
// declare the same abilities, and no others.
type Gap struct {
	Ability Ability
	Reason  string // why, for users
}
