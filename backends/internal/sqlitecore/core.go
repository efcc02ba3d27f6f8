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
	// may be left out. It saves time only: the statement is harmless then.
	Unneeded func() bool
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

// Core implements the verbs of store.Store over a runner.
type Core struct {
	runner  Runner
	clock   func(context.Context) (time.Time, error)
	publish func(...store.Hint)
	limits  store.Limits
	busy    atomic.Bool // the last claim found work, so the next goes without a look first
}

// New makes a core. Publish gets hints after the write that caused them.
func New(r Runner, clock func(context.Context) (time.Time, error), limits store.Limits, publish func(...store.Hint)) *Core {
	if limits.Payload == 0 {
		limits.Payload = store.DefaultPayloadLimit
	}
	return &Core{runner: r, clock: clock, limits: limits, publish: publish}
}

// Clock returns the store's time.
func (c *Core) Clock(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	t, err := c.clock(ctx)
	return time.UnixMicro(t.UnixMicro()).UTC(), err
}

// Limits returns the sizes that are enforced.
func (c *Core) Limits() store.Limits { return c.limits }

// now is the time of a call, in microseconds.
func (c *Core) now(ctx context.Context, set time.Time) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if !set.IsZero() {
		return set.UnixMicro(), nil
	}
	t, err := c.clock(ctx)
	return t.UnixMicro(), err
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
)

// wakeChildren is the bit of runs.wakes beside those of store.WakeOn.
const wakeChildren = 4

// inlineInput is the size up to which an input stands in its run's row.
const inlineInput = 512
