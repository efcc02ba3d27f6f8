package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// claimsUnsent is an error of which pgconn.SafeToRetry says that nothing was sent, as it
// says of the error with which pgx reports a connection that broke while it read.
type claimsUnsent struct{ error }

func (claimsUnsent) SafeToRetry() bool { return true }
func (e claimsUnsent) Unwrap() error   { return e.error }

// A write counts as not applied where that is proven, and nowhere else.
func TestClassify(t *testing.T) {
	t.Parallel()
	said := func(severity, code string) error {
		return fmt.Errorf("a call: %w", &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code})
	}
	require.True(t, pgconn.SafeToRetry(claimsUnsent{pgconn.ErrConnClosed}))
	for _, c := range []struct {
		name  string
		err   error
		write error // nil: none of the two
		read  error
	}{
		{"no connection", &notSent{io.EOF}, store.ErrUnavailable, store.ErrUnavailable},
		{"no connection, wrapped", fmt.Errorf("%w", &notSent{pgconn.ErrConnClosed}), store.ErrUnavailable, store.ErrUnavailable},
		{"the end of the stream", io.ErrUnexpectedEOF, store.ErrOutcomeUnknown, store.ErrUnavailable},
		{"conn closed, as pgx reports a broken read", claimsUnsent{pgconn.ErrConnClosed}, store.ErrOutcomeUnknown, store.ErrUnavailable},
		{"anything of which the driver says that nothing was sent", claimsUnsent{io.EOF}, store.ErrOutcomeUnknown, store.ErrUnavailable},
		{"database/sql's word for that", driver.ErrBadConn, store.ErrOutcomeUnknown, store.ErrUnavailable},
		{"a transaction that another has ended", pgx.ErrTxClosed, store.ErrOutcomeUnknown, store.ErrUnavailable},
		{"a statement that failed", said("ERROR", "23505"), nil, nil},
		{"a lost deadlock", said("ERROR", "40P01"), store.ErrUnavailable, store.ErrUnavailable},
		{"a read-only database", said("ERROR", "25006"), store.ErrUnavailable, store.ErrUnavailable},
		{"an unknown statement", said("ERROR", "26000"), store.ErrUnavailable, store.ErrUnavailable},
		{"a pooler's error about its connection", said("ERROR", "08P01"), store.ErrOutcomeUnknown, store.ErrUnavailable},
		{"an error without a severity, as PgBouncer makes them", said("", "58000"), store.ErrOutcomeUnknown, store.ErrUnavailable},
		{"the end of the session", said("FATAL", "57P01"), store.ErrOutcomeUnknown, store.ErrUnavailable},
		{"the end of the session, with the code of a lost deadlock", said("FATAL", "40001"), store.ErrOutcomeUnknown, store.ErrUnavailable},
		{"the end of the server", said("PANIC", "53100"), store.ErrOutcomeUnknown, store.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, write := range []bool{true, false} {
				want := c.read
				if write {
					want = c.write
				}
				for _, identity := range []error{store.ErrUnavailable, store.ErrOutcomeUnknown} {
					require.Equal(t, identity == want, errors.Is(classify(t.Context(), c.err, write), identity), "%v, write: %v", identity, write)
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			err := classify(ended, c.err, true)
			require.Equal(t, c.write == store.ErrOutcomeUnknown, errors.Is(err, store.ErrOutcomeUnknown), "after the end of the context: %v", err)
			require.Equal(t, c.write != nil, errors.Is(err, context.Canceled), "after the end of the context: %v", err)
		})
	}
	require.NoError(t, classify(t.Context(), nil, true))
}
