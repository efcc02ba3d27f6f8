package store

import (
	"context"
	"fmt"
	"time"
)

// Diagnoser is implemented by backends that can check their database, and the connection to it, for
// problems. It is for people who search for a fault. Without it, only what the other methods show
// is checked.
type Diagnoser interface {
	// Diagnose checks the database, changes nothing permanently, and returns its findings, in the
	// same order each time, including those that are fine. It may take seconds. If something cannot
	// be checked, for example because a privilege is missing, that is a finding too.
	//
	// P16: Diagnose returns an error only for a database that does not answer at all, a context
	// that has ended, and a closed store (ErrUnavailable). For a database that works it reports no
	// [Fault].
	Diagnose(ctx context.Context) ([]Finding, error)
}

// Finding is the result of one check.
type Finding struct {
	// Name says what was checked, and is the same whatever the result: lower case, one or two words
	// ("listen", "indexes").
	Name string
	// Level says how bad it is.
	Level Level
	// Seen describes what the check found.
	Seen string
	// Advice is what to do; empty if there is nothing to do.
	Advice string
}

// Level says how bad a finding is.
type Level uint8

// The levels.
const (
	Fine    Level = iota // as it should be
	Warning              // it works, but slower or less safely than it could, or not for long
	Fault                // something does not work
)

var levelNames = [...]string{Fine: "ok", Warning: "warning", Fault: "fault"}

// String returns the level's name: "ok", "warning" or "fault".
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// MarshalText writes the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Schema lists the migrations that a database has had.
type Schema struct {
	// Place says where the tables are, without any secret: a file, or a server's address with
	// database and schema.
	Place string
	// Version is the last migration that was applied; 0: none.
	Version int64
	// Newest is the last migration that this program knows. A program works with databases whose
	// Version is its Newest, and with those whose Version is later but whose Minimum is not.
	Newest int64
	// Minimum is the oldest version that a program must know to work with this
	// database; 0: it has none, and a program must know its Version.
	Minimum int64
	// Migrations lists, in order, the migrations that the program knows and those that were
	// applied.
	Migrations []Migration
}

// Usable reports whether this program works with the database as it is: its Version is Newest, or it is
// later and its Minimum allows Newest.
func (s Schema) Usable() bool {
	return s.Version == s.Newest || s.Version > s.Newest && 0 < s.Minimum && s.Minimum <= s.Newest
}

// Migration is one step of a schema.
type Migration struct {
	Version   int64
	Name      string    // of its file; empty: this program does not know it
	AppliedAt time.Time // zero: it was not applied
}
