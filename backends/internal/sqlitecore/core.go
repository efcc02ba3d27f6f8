// Package sqlitecore contains the SQL that the SQLite backend and the Turso backend share.
//
// Its verbs are lists of statements without Go code between them, so that a runner may send a list
// in one round trip. A later statement of a list learns from the data what an earlier one did: an
// applied write leaves its stamp, a random number, in the row of its run.
//
// Limits are written LIMIT ?+0, because SQLite prepares a statement with a bare LIMIT ? again at
// every execution.
package sqlitecore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// Stmt is one statement of a list. Arguments are nil, int64, string and non-nil []byte. Unneeded
// only saves time: an unneeded statement does no harm, unless Config.InTurn promises that it is
// skipped.
type Stmt = sqlkit.Stmt

// Runner runs lists of statements. An error of a write that may have been applied matches
// store.ErrOutcomeUnknown. If a list is sent again, only the attempt that succeeded calls Rows.
// An error of a write that the server ended because it took long matches ErrTooLong.
type Runner interface {
	// Write runs the list as one atomic write that begins with BEGIN IMMEDIATE.
	Write(ctx context.Context, stmts []Stmt) error
	// Read runs the list on one consistent snapshot.
	Read(ctx context.Context, stmts []Stmt) error
}

// ErrTooLong means that a write took longer than the server allows and was not applied. A list with
// less to do may be applied.
var ErrTooLong = errors.New("the transaction took longer than the server allows")

// Config contains what differs between backends.
type Config struct {
	// Clock returns two bounds of the time, which are equal if the clock is local: the time is
	// neither before early nor after late. Calls begin at early; durations are counted from late,
	// so that nothing ends or begins before its time.
	Clock func(context.Context) (early, late time.Time, err error)
	// ServerNow is an SQL expression for the server's time in microseconds. It decides what is due.
	// It is empty if the clock is exact.
	ServerNow string
	// Version returns a number that increases with each change of the database (0: unknown), and
	// the server's time. It is nil if looking for work costs no more than looking for changes.
	Version func(context.Context) (version uint64, now time.Time, err error)
	// Seen returns the last known version, without asking.
	Seen   func() uint64
	Limits store.Limits
	// InTurn says that the runner has the answer to a statement before it begins the next, and
	// skips unneeded statements.
	InTurn bool
	// Batched says that beginning a statement costs more than a row, for example if each statement
	// is sent and parsed every time. The usual writes of a call are then one statement.
	Batched bool
	// AtOnce makes claims under limits try to take runs with one write before they plan: it costs the database more
	// than a plan, and a round trip less.
	AtOnce bool
	// Publish receives hints after the write that caused them.
	Publish func(...store.Hint)
}

// Core implements the verbs of store.Store over a runner.
type Core struct {
	verbs
	runner  Runner
	config  Config
	busy    atomic.Bool  // there may be work: the next claim does not look first
	idle    looks        // what the last looks found
	stale   atomic.Bool  // the database has changed since the looks
	apart   atomic.Int64 // how many more calls end their runs one by one
	watched atomic.Int64 // how many more calls tell the triggers of each end

	planning chan struct{}        // held by the claim that plans
	expected int64                // how many runs of a flow its plan reads at first; only that claim uses it
	once     map[string]*attempts // by namespace; only the claim that holds planning uses it
	plans    atomic.Bool          // the last claim planned, and took runs
	way      *sqlkit.Way
	permits  sqlkit.Permits

	peek, take, bare, next, nextOnce string // claimPeek, claimRuns, claimBare, claimNext and onceNext with the server's time
}

// New makes a core.
func New(r Runner, config Config) *Core {
	c := &Core{runner: r, config: config, planning: make(chan struct{}, 1), expected: fewRuns, way: sqlkit.NewWay(), once: map[string]*attempts{}, peek: claimPeek, take: claimRuns, bare: claimBare, next: claimNext, nextOnce: onceNext}
	c.verbs = sqlkit.NewVerbs(db{c})
	if now := config.ServerNow; now != "" {
		c.peek = strings.Replace(claimPeek, "?4", now, 1)
		c.take = lines.Replace(strings.ReplaceAll(claimRuns, "<=?3", "<="+now))
		c.bare = strings.ReplaceAll(claimBare, "<=?3", "<="+now)
		c.next = strings.ReplaceAll(claimNext, "?5", now)
		c.nextOnce = strings.ReplaceAll(onceNext, "?5", now)
	}
	return c
}

// lines makes a text shorter: a server stores no text of 5,000 bytes or more.
var lines = strings.NewReplacer("\n\t\t\t", " ", "\n\t\t", " ", "\n\t", " ")

// Clock returns the store's time.
func (c *Core) Clock(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	t, _, err := c.config.Clock(ctx)
	return time.UnixMicro(t.UnixMicro()).UTC(), err
}

// Limits returns the size limits.
func (c *Core) Limits() store.Limits { return c.config.Limits }

// Expect says that there may be work: the next claim claims without looking first.
func (c *Core) Expect() { c.busy.Store(true) }

// Changed says that others have changed the database: the next claim looks immediately.
func (c *Core) Changed() { c.stale.Store(true) }

func (c *Core) publish(hints ...store.Hint) {
	c.way.Announce(hints...)
	c.config.Publish(hints...)
}

func (c *Core) publishAll(h *sqlkit.Hints) {
	if len(h.List) > 0 {
		c.publish(h.Plain()...)
	}
}

// moment is the time of a call, in microseconds.
type moment struct {
	now  int64
	late int64 // the time is not after this
	set  bool  // by the caller
}

// after returns the moment d later.
func (m moment) after(d time.Duration) int64 {
	if d <= 0 {
		return m.now
	}
	return m.late + sqlkit.Span(d)
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

// validAt returns the moment of a call, if its parameters are valid.
func (c *Core) validAt(ctx context.Context, invalid error, set time.Time) (moment, error) {
	if invalid != nil {
		return moment{}, invalid
	}
	return c.moment(ctx, set)
}

// valid returns the present time of a call, if its parameters are valid, for calls that do not
// measure durations.
func (c *Core) valid(ctx context.Context, invalid error, set time.Time) (int64, error) {
	m, err := c.validAt(ctx, invalid, set)
	return m.now, err
}

// inlineInput is the size up to which an input is stored in its run's row.
const inlineInput = 512
