package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// LittleIsMuch lowers the thresholds of the doctor's findings.
func LittleIsMuch(t testing.TB) {
	usual := much
	much.transaction, much.dead, much.index = 100*time.Millisecond, 1000, 1<<20
	t.Cleanup(func() { much = usual })
}

// Now is the time of statements.
const Now = now

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

// MarksAtOnce is how many marks a transaction of LimitKeys folds at most.
const MarksAtOnce = foldsAtOnce * maxMarks

// FoldSome makes the first transaction of LimitKeys, and reports whether there may be other marks.
func (s *Store) FoldSome(ctx context.Context, namespace string) (more bool, err error) {
	err = s.rounds(ctx, func(run func(bool, ...stmt) error) (err error) {
		if more, err = s.foldSome(namespace, setNow(time.Time{}), run); err != nil {
			return err
		}
		return run(true)
	})
	return more, err
}

// Marks counts the marks that no claim has folded.
func (s *Store) Marks(ctx context.Context) (n int, err error) {
	return n, s.pool.QueryRow(ctx, s.sql(`SELECT count(*) FROM pawl.limit_marks`)).Scan(&n)
}

// ForgetSpaces deletes what is known of namespaces with limits.
func (s *Store) ForgetSpaces(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, s.sql(`DELETE FROM pawl.limit_spaces`))
	return err
}

// ClaimUnderLimits makes the first transaction of a claim in a namespace with limits. It calls between after the claim
// has chosen the runs, and before it takes them.
func (s *Store) ClaimUnderLimits(ctx context.Context, p store.ClaimParams, between func()) ([]store.ClaimedRun, error) {
	c := s.newClaim(&p)
	err := c.rounds(ctx, func(run func(bool, ...stmt) error) error {
		l := c.newLimited(1)
		return l.run(func(last bool, stmts ...stmt) error {
			if last {
				between()
			}
			return run(last, stmts...)
		})
	})
	return sqlkit.ClaimedRuns(&p, c.runs), err
}
