// Package sqlitecore is the SQL that the SQLite and the Turso backend share.
//
// Its verbs are lists of statements without Go between them, so that a runner
// may send a list in one round trip. A later statement of a list learns what an
// earlier one did from the data: an applied write leaves its stamp, a random
// number, on the row of its run.
//
// Limits are written LIMIT ?+0, because SQLite plans a statement with a bare
// LIMIT ? again at every execution.
package sqlitecore

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Stmt is one statement of a list.
type Stmt struct {
	SQL  string
	Args []any // nil, int64, string, []byte (not nil)
	// Rows reads one row; nil for a statement without any.
	Rows func(scan func(dest ...any) error) error
	// Affected gets the number of changed rows.
	Affected *int64
	// Unneeded tells a runner that has run the statements before this one that it
	// may be left out. It saves time only: the statement is harmless then, unless
	// Config.InTurn promises that it is left out.
	Unneeded func() bool
	// Gate says that this statement does nothing but fail if all those behind it
	// are unneeded, which is no error of the list. It is for runners that send the
	// list as a whole; others leave it out.
	Gate bool
}

// Runner runs lists of statements. An error of a write that may have been
// applied matches store.ErrOutcomeUnknown. A list that is sent again calls the
// Rows of the attempt that succeeded alone.
type Runner interface {
	// Write runs the list as one atomic write, begun with BEGIN IMMEDIATE.
	Write(ctx context.Context, stmts []Stmt) error
	// Read runs the list on one consistent snapshot.
	Read(ctx context.Context, stmts []Stmt) error
}

// Config is what backends differ in.
type Config struct {
	// Clock returns the time between two bounds, which are one where the clock is
	// at hand: it is neither before early nor after late. Calls begin at early, and
	// what lasts is counted from late, so that nothing ends or begins before its
	// time.
	Clock func(context.Context) (early, late time.Time, err error)
	// ServerNow is an SQL expression for the server's time in microseconds; empty:
	// the clock is exact. What is due is decided by it.
	ServerNow string
	// Version returns a number that grows with each change of the database, and the
	// server's time; 0: it is not known. Nil: to look for work costs no more than to
	// look for changes.
	Version func(context.Context) (version uint64, now time.Time, err error)
	// Seen returns the last version that is known without asking.
	Seen   func() uint64
	Limits store.Limits
	// InTurn: the runner has the answer to a statement before it begins the next, and
	// leaves out what is unneeded.
	InTurn bool
	// Batched: to begin a statement costs more than a row of one, as where it is sent
	// and parsed each time; so the usual writes are one statement for all of a call.
	Batched bool
	// Publish gets hints after the write that caused them.
	Publish func(...store.Hint)
}

// Core implements the verbs of store.Store over a runner.
type Core struct {
	runner Runner
	config Config
	busy   atomic.Bool  // there may be work, so the next claim goes without a look first
	idle   looks        // what the last looks have found
	stale  atomic.Bool  // the database has changed since
	apart  atomic.Int64 // how many calls end their runs one by one

	peek, take, bare, next string // claimPeek, claimRuns, claimBare and claimNext by the server's time
}

// New makes a core.
func New(r Runner, config Config) *Core {
	c := &Core{runner: r, config: config, peek: claimPeek, take: claimRuns, bare: claimBare, next: claimNext}
	if now := config.ServerNow; now != "" {
		c.peek = strings.Replace(claimPeek, "?4", now, 1)
		c.take = strings.Replace(claimRuns, "<=?3", "<="+now, 1)
		c.bare = strings.Replace(claimBare, "<=?3", "<="+now, 1)
		c.next = strings.ReplaceAll(claimNext, "?5", now)
	}
	return c
}

// Clock returns the store's time.
func (c *Core) Clock(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	t, _, err := c.config.Clock(ctx)
	return time.UnixMicro(t.UnixMicro()).UTC(), err
}

// Limits returns the sizes that are enforced.
func (c *Core) Limits() store.Limits { return c.config.Limits }

// Expect says that there may be work: the next claim asks for it without a look
// first.
func (c *Core) Expect() { c.busy.Store(true) }

// Changed says that others have changed the database: the next claim looks at
// once.
func (c *Core) Changed() { c.stale.Store(true) }

func (c *Core) publish(hints ...store.Hint) { c.config.Publish(hints...) }

// moment is the time of a call, in microseconds.
type moment struct {
	now  int64
	late int64 // it is not after this
	set  bool  // by the caller
}

// after is the moment a duration later.
func (m moment) after(d time.Duration) int64 {
	if d <= 0 {
		return m.now
	}
	return m.late + span(d)
}

func (c *Core) moment(ctx context.Context, set time.Time) (moment, error) {
	if err := ctx.Err(); err != nil {
		return moment{}, err
	}
	if !set.IsZero() {
		return moment{set.UnixMicro(), set.UnixMicro(), true}, nil
	}
	early, late, err := c.config.Clock(ctx)
	return moment{early.UnixMicro(), late.UnixMicro(), false}, err
}

// now is the moment of a call that measures nothing from it.
func (c *Core) now(ctx context.Context, set time.Time) (int64, error) {
	m, err := c.moment(ctx, set)
	return m.now, err
}

// newStamp makes a stamp; stamps of consecutive items may be counted up from it.
func newStamp() int64 { return rand.Int64N(1<<62) + 1 }

// Bits of runs.parts.
const (
	partSteps int64 = 1 << iota
	partState
	partSignals
	partGroups
	partLargeInput
	partChildren
	partEnded // by the holder of its lease, who is still the worker
)

// wakeChildren is the bit of runs.wakes beside those of store.WakeOn.
const wakeChildren = 4

// inlineInput is the size up to which an input stands in its run's row.
const inlineInput = 512
