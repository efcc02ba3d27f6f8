package store

import "time"

// SchemaPlan describes what migrating a database would do.
type SchemaPlan struct {
	Place   string        // as [Schema.Place]
	Version int64         // the version that the database has
	Newest  int64         // the version that it would have
	Steps   []PlannedStep // in order; none if nothing is missing
}

// PlannedStep is one statement of a [SchemaPlan].
type PlannedStep struct {
	Version   int64  // of the migration
	Migration string // its file
	SQL       string // in one line
	// Table is the table in use that the statement changes. If it is empty, there is none, and the
	// fields below are zero.
	Table string
	// Rows and Bytes are the table's size, as the database estimates or counts it; -1: unknown.
	Rows, Bytes int64
	// AtLeast says that the table has Rows or more: rows were not counted further.
	AtLeast bool
	// Lock is the lock that the statement takes, in the database's terms.
	Lock string
	// Blocks is who waits for the lock.
	Blocks Blocked
	// Longest is a rough estimate, from the number of rows, of how long one statement of a worker
	// may wait for the lock; -1: unknown.
	Longest time.Duration
	// Takes is a rough estimate, from the number of rows, of how long the statement takes once it
	// has its locks; -1: unknown.
	Takes time.Duration
}

// Blocked says who waits while a migration holds its lock.
type Blocked uint8

// Who waits.
const (
	BlocksNothing Blocked = iota
	BlocksWrites
	BlocksAll // reads and writes
)

var blockedNames = [...]string{BlocksNothing: "nothing", BlocksWrites: "writes", BlocksAll: "reads and writes"}

// String returns what waits: "nothing", "writes" or "reads and writes".
func (b Blocked) String() string {
	if int(b) < len(blockedNames) {
		return blockedNames[b]
	}
	return "unknown"
}

// MarshalText writes the name.
func (b Blocked) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
