package sqlite

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"
)

// WithDriver opens the database with another driver of database/sql.
func WithDriver(name string) Option { return func(c *config) { c.driver = name } }

// WithClaimsAtOnce makes claims under limits try to take runs at once before they plan.
func WithClaimsAtOnce() Option { return func(c *config) { c.atOnce = true } }

// PagesRead returns how many pages the store's connections have asked for so far, whether the pages
// were in memory or not.
func (s *Store) PagesRead(t testing.TB) (n int64) {
	r := s.runner
	count := func(from chan *conn) {
		c := <-from
		defer func() { from <- c }()
		if c.conn == nil { // a reader that was not needed yet
			return
		}
		for _, op := range []sqlite.DBStatusOp{sqlite.DBStatusCacheHit, sqlite.DBStatusCacheMiss} {
			require.NoError(t, c.conn.Raw(func(dc any) error {
				pages, _, err := dc.(sqlite.DBStatus).Status(op, false)
				n += int64(pages)
				return err
			}))
		}
	}
	count(r.writer)
	for range len(r.reader) {
		if !r.config.memory {
			count(r.reader)
		}
	}
	return n
}

// Exec runs a statement on the writing connection.
func (s *Store) Exec(t testing.TB, sql string) {
	c := <-s.runner.writer
	defer func() { s.runner.writer <- c }()
	c.forget()
	_, err := c.conn.ExecContext(context.Background(), sql)
	require.NoError(t, err)
}
