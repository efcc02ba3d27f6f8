package store

import (
	"context"
	"fmt"
	"time"
)

// Diagnoser is implemented by backends that can look for what is wrong with their
// database or with the way to it. It is for people who search for a fault.
type Diagnoser interface {
	// Diagnose looks at the database, changes nothing that lasts, and returns what
	// it has seen, in the same order each time: also what is well. It may take
	// seconds. What cannot be looked at, for want of a right, say, is a finding
	// itself; the error is for a database that does not answer at all. Cases:
	// diagnose/nothing-wrong, diagnose/out-of-reach.
	Diagnose(ctx context.Context) ([]Finding, error)
}

// Finding is one thing that was looked at.
type Finding struct {
	// Name says what was looked at, the same one whatever was found: lower case,
	// one or two words ("listen", "indexes").
	Name string
	// Level says how bad it is.
	Level Level
	// Seen is what was seen.
	Seen string
	// Advice is what to do; empty where nothing is to be done.
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

func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// MarshalText writes the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Schema tells which migrations a database has had.
type Schema struct {
	// Place says where the tables are, without any secret: a file, a server's
	// address with database and schema.
	Place string
	// Version is the last migration that was applied; 0: none.
	Version int64
	// Newest is the last one that this program knows. A program works with
	// databases whose Version is its Newest.
	Newest int64
	// Migrations lists, in order, what the program knows and what was applied.
	Migrations []Migration
}

// Migration is one step of a schema.
type Migration struct {
	Version   int64
	Name      string    // of its file; empty: this program does not know it
	AppliedAt time.Time // zero: it was not applied
}
