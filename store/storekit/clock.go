package storekit

import "time"

// Now returns the time of a call: now as it is kept, or the process's clock when now is
// zero. A backend with a server uses the server's clock instead of the process's.
func Now(now time.Time) time.Time {
	if now.IsZero() {
		now = time.Now()
	}
	return Micro(now)
}

// Micro returns a time as it is kept: in UTC, cut to microseconds.
func Micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// RoundUp returns a duration as it is kept: in whole microseconds, rounded up, so that
// nothing happens before its time.
func RoundUp(d time.Duration) time.Duration {
	r := d.Truncate(time.Microsecond)
	if r < d {
		r += time.Microsecond
	}
	return r
}

// After returns the time d after t, as it is kept.
func After(t time.Time, d time.Duration) time.Time { return t.Add(RoundUp(d)) }

// Earliest returns the earlier of two times. A zero time means never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
