package store

import "fmt"

// Durability says which failures acknowledged writes survive. A write is acknowledged when its method
// has returned without an error, and each item of a batch when its result has none.
//
// A backend's promise holds for every write and for everything that the write did: runs with their
// external ids and counters, epochs and leases, steps, flow state, signals and the IDs of those
// consumed, children and their groups, schedules and firings, pauses, workers, workflows, locks and
// actions. What was deleted stays deleted. A write that was not acknowledged is stored completely or
// not at all. Only hints, and what a backend keeps in memory for speed, may be lost: nothing in the
// contract depends on them.
//
// A database may be configured to promise less than its backend can. The backend detects this when it
// opens the store, and reports it in Features and through [Diagnoser]. A transaction of the program's
// own ([Transactor]) is as durable as the program's connection makes it.
//
// conformance.RunDurable tests the promise by killing processes and servers.
type Durability uint8

// The failures that acknowledged writes survive, from the strongest promise to the weakest.
const (
	// Durable writes survive the end of every process, of the database's server and of the machine,
	// however sudden.
	Durable Durability = iota
	// Buffered writes survive the end of every process and of the server. If the machine fails, the
	// last ones may be lost.
	Buffered
	// Delayed writes survive the end of the processes that use the store. If the server or the machine
	// fails, the last ones may be lost.
	Delayed
	// Volatile writes end with the store, because they are in memory.
	Volatile
)

var durabilityNames = [...]string{Durable: "durable", Buffered: "buffered", Delayed: "delayed", Volatile: "volatile"}

// String returns the promise's name in lower case, or the type's name with the number if d is none of
// the promises.
func (d Durability) String() string {
	if int(d) < len(durabilityNames) {
		return durabilityNames[d]
	}
	return fmt.Sprintf("Durability(%d)", uint8(d))
}
