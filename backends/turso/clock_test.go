package turso

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClock reports to a clock the times of a server whose clock runs a little faster or slower and
// shows milliseconds, over a network with delays of all kinds.
func TestClock(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rate := 1 + (rng.Float64()-0.5)/1000 // the speed of the server's clock
		offset := rng.Int64N(1e15) + 1e14    // microseconds
		began := time.Now()
		server := func(at time.Time) int64 { return offset + int64(float64(at.Sub(began).Microseconds())*rate) }
		c, now, last := &clock{}, began, int64(0)
		for range 300 {
			upTo := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
			switch rng.IntN(4) {
			case 0:
				sent := now
				seen := sent.Add(upTo(200 * time.Millisecond))
				came := seen.Add(upTo(200 * time.Millisecond))
				told := server(seen) / 1000 * 1000
				c.heard(told, sent, came)
				now, last = came, max(last, told) // once a time was returned, no earlier one may follow
			case 1:
				now = now.Add(upTo(20 * time.Second))
			case 2: // a server that answers immediately
				sent, told := now, server(now)/1000*1000
				c.heard(told, sent, now.Add(time.Microsecond))
				now, last = now.Add(time.Microsecond), max(last, told)
			}
			early, late, known := c.now(now)
			if !known {
				continue
			}
			require.LessOrEqual(t, early, server(now)+1, "seed %d: a time that has not come yet", seed)
			require.GreaterOrEqual(t, late, server(now), "seed %d: a time that has passed", seed)
			require.Less(t, late-early, int64(500_000), "seed %d: bounds too wide", seed)
			require.GreaterOrEqual(t, early, last, "seed %d: back in time", seed)
			last = early

			// The guard accepts a write that arrives immediately, and none after its time.
			life := upTo(100 * time.Millisecond)
			from, end := span(early, life)
			require.LessOrEqual(t, from, server(now)/1000*1000, "seed %d: the server's clock shows a time before the guard's", seed)
			require.LessOrEqual(t, from, end, "seed %d", seed)
			until := early + life.Microseconds()
			require.GreaterOrEqual(t, until/1000*1000, end, "seed %d: in its last millisecond a write would be applied after its time", seed)
			require.Less(t, until-end, int64(1000), "seed %d: the guard ends too early", seed)
		}
	}
}

func TestClockThatIsSet(t *testing.T) {
	t.Parallel()
	c, at := &clock{}, time.Now()
	hear := func(server int64) (int64, int64) {
		at = at.Add(time.Second)
		c.heard(server, at, at.Add(time.Millisecond))
		early, late, known := c.now(at.Add(time.Millisecond))
		require.True(t, known)
		return early, late
	}
	early, late := hear(1e12)
	require.True(t, early <= 1e12 && late >= 1e12)
	early, late = hear(5e12) // forward
	require.True(t, early <= 5e12 && late >= 5e12, "%d %d", early, late)
	early, late = hear(2e12) // back
	require.True(t, early <= 2e12 && late >= 2e12, "%d %d", early, late)

	_, _, known := c.now(at.Add(stale + time.Second))
	require.False(t, known, "too old")
	// An answer that is less exact than a known but stale time makes the time known again.
	at = at.Add(stale + 2*time.Second)
	c.heard(2e12+(stale+2*time.Second).Microseconds(), at, at.Add(time.Second))
	_, _, known = c.now(at.Add(time.Second))
	require.True(t, known)
	c.forget()
	_, _, known = c.now(at.Add(time.Second))
	require.False(t, known)
}
