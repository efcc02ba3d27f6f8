package postgres

import (
	"testing"
	"time"
)

// LittleIsMuch lowers the thresholds of the doctor's findings.
func LittleIsMuch(t testing.TB) {
	usual := much
	much.transaction, much.dead, much.index = 100*time.Millisecond, 1000, 1<<20
	t.Cleanup(func() { much = usual })
}

// Forget closes the store's idle connections.
func (s *Store) Forget() { s.pool.Reset() }

// TakeYourTime sets how long work may wait for the processes that were told of it.
func (s *Store) TakeYourTime(d time.Duration) { s.relay.owed.after = d }

// WithPatience sets how long a migration waits for transactions of others, without progress.
func WithPatience(d time.Duration) Option { return func(c *config) { c.patience = d } }

// ExpectHistories sets whether the next claims of s, with the demands of its earlier claims, read
// histories at once.
func ExpectHistories(s *Store, expected bool) {
	s.windows.Range(func(_, value any) bool {
		w := value.(*window)
		if w.met(expected); !expected {
			w.whole = 0
		}
		return true
	})
}
