package turso

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
)

// serverNow is the server's time in microseconds. The server's clock has a resolution of one
// millisecond, rounded down.
const serverNow = `CAST(round(unixepoch('subsec')*1000)*1000 AS INTEGER)`

// drift bounds the difference in speed between this process's monotonic clock and the server's
// clock: at most 1/drift.
const drift = 2000

// clock knows the server's time between two bounds. It learns the bounds from the answers that the
// server gives anyway: the time in an answer lies between the moment at which the request was sent
// and the moment at which the answer arrived. It reads only the monotonic clock of this process;
// the wall clock does not matter.
//
// The bounds need not be trusted: before a write is applied, the server checks that its clock is
// not before the time that the write assumes as the earliest. Only the server's clock decides what
// is due.
type clock struct {
	mu     sync.Mutex
	server int64 // microseconds; 0: not known yet
	sent   time.Time
	came   time.Time
	latest time.Time // when the last answer arrived, more exact or not
	last   int64     // the latest value returned as the earliest possible time; it never decreases
}

// at returns the bounds at a moment of this process's clock. The caller holds mu.
func (c *clock) at(t time.Time) (early, late int64) {
	least, most := max(t.Sub(c.came), 0), max(t.Sub(c.sent), 0)
	return c.server + (least - least/drift).Microseconds(), c.server + 1000 + (most + most/drift).Microseconds() + 1
}

// heard records a time that the server has reported, unless the known bounds are already more
// exact.
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
			c.last = max(c.last, server) // no call after this answer begins before the time that was returned
			return
		}
	}
	c.server, c.sent, c.came = server, sent, came
}

// forget discards the bounds: the server's clock has been set, or another server answers.
func (c *clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.last = 0, 0
}

// now returns the bounds of the server's time. It returns false if the server has to be asked.
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

// span returns the bounds that the guard of a write compares with the server's clock: the clock
// must be at from or later, and before end. early is the earliest possible time at the moment of
// sending; life is how long the write may still be applied. The server's clock shows whole
// milliseconds, rounded down, and so do both bounds: a clock that still shows the millisecond of
// early is not behind early, and a clock that shows less than end has not reached early+life.
func span(early int64, life time.Duration) (from, end int64) {
	whole := func(t int64) int64 { return t - t%1000 }
	return whole(early), whole(early + max(life, 0).Microseconds())
}

// stale is the age at which the server is asked again for its time, to keep the bounds close.
const stale = time.Minute

// bounds returns the bounds of the server's time. It asks the server if they are not known.
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

// askTime asks the server for its time, which updates the clock.
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
