package turso

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
)

// serverNow is the server's time in microseconds; its clock tells milliseconds,
// rounded down.
const serverNow = `CAST(round(unixepoch('subsec')*1000)*1000 AS INTEGER)`

// drift is how much faster or slower than the server's this process's monotonic
// clock is held to run, at most: 1/drift.
const drift = 2000

// clock knows the server's time between two bounds, from the answers that the
// server gives anyway: a time that an answer tells is from between the moments at
// which the request was sent and the answer came. Only the monotonic clock of
// this process is asked; what its wall clock shows does not matter.
//
// The bounds need not be trusted: before a write is applied, the server checks
// that its clock is not before what the write takes for the earliest time. What is
// due is decided by the server's clock alone.
type clock struct {
	mu     sync.Mutex
	server int64 // microseconds; 0: never heard
	sent   time.Time
	came   time.Time
	latest time.Time // when an answer came last, more exact or not
	last   int64     // the latest time given as the earliest possible, which never goes back
}

// at returns the bounds at a moment of this process. The caller holds mu.
func (c *clock) at(t time.Time) (early, late int64) {
	least, most := max(t.Sub(c.came), 0), max(t.Sub(c.sent), 0)
	return c.server + (least - least/drift).Microseconds(), c.server + 1000 + (most + most/drift).Microseconds() + 1
}

// heard takes down a time that the server has told, unless what is known already
// is more exact.
func (c *clock) heard(server int64, sent, came time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = came
	if c.server != 0 {
		least, _ := c.at(sent)
		early, late := c.at(came)
		switch {
		case server < least-1000: // the server's clock was set back
			c.last = 0
		case server <= late && late-early <= came.Sub(sent).Microseconds():
			c.last = max(c.last, server) // no call after this answer begins before what it told
			return
		}
	}
	c.server, c.sent, c.came = server, sent, came
}

// forget begins anew: the server's clock has been set, or another server answers.
func (c *clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.last = 0, 0
}

// now returns the bounds of the server's time; false: it has to be asked.
func (c *clock) now(t time.Time) (early, late int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == 0 || t.Sub(c.latest) > stale {
		return 0, 0, false
	}
	early, late = c.at(t)
	c.last = max(c.last, early)
	return c.last, max(late, c.last), true
}

// stale is the age at which a time is asked for again, to keep the bounds close.
const stale = time.Minute

// bounds returns the server's time between two bounds, and asks for it if it is not
// known.
func (c *clock) bounds(ctx context.Context, ask func(context.Context) (time.Time, error)) (early, late time.Time, err error) {
	for {
		e, l, known := c.now(time.Now())
		if known {
			return time.UnixMicro(e), time.UnixMicro(l), nil
		}
		if _, err := ask(ctx); err != nil {
			return early, late, err
		}
	}
}

// askTime asks the server for its time and tells the clock.
func askTime(ctx context.Context, r sqlitecore.Runner, c *clock) (time.Time, error) {
	var now int64
	sent := time.Now()
	err := r.Read(ctx, []sqlitecore.Stmt{{SQL: `SELECT ` + serverNow, Rows: func(scan func(...any) error) error { return scan(&now) }}})
	if err != nil {
		return time.Time{}, err
	}
	c.heard(now, sent, time.Now())
	return time.UnixMicro(now).UTC(), nil
}
