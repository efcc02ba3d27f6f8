package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// TestTooLargeIsNotTemporary checks that a request that the driver or the server refuses because of
// its size is not reported as one to send again.
func TestTooLargeIsNotTemporary(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"driver":     errors.New("message body too large"),
		"array":      &pgconn.PgError{Code: "54000", SeverityUnlocalized: "ERROR", Message: "array size exceeds the maximum allowed"},
		"allocation": &pgconn.PgError{Code: "XX000", SeverityUnlocalized: "ERROR", Message: "invalid memory alloc request size 1073741824"},
		"protocol":   &pgconn.PgError{Code: "08P01", SeverityUnlocalized: "FATAL", Message: "invalid message length"},
	} {
		for _, write := range []bool{true, false} {
			got := classify(context.Background(), err, write)
			require.ErrorIs(t, got, store.ErrTooLarge, name)
			require.False(t, store.Retryable(got), name)
			var large *store.TooLargeError
			require.ErrorAs(t, got, &large, name)
		}
	}
	other := classify(context.Background(), &pgconn.PgError{Code: "08P01", SeverityUnlocalized: "FATAL", Message: "no more connections"}, true)
	require.NotErrorIs(t, other, store.ErrTooLarge)
}

// TestCallsOfSeveralAreBounded checks that a call of several items that is too large is refused
// before any of it is sent.
func TestCallsOfSeveralAreBounded(t *testing.T) {
	t.Parallel()
	size := func(n *int) int { return *n }
	require.NoError(t, checkCall("items", []int{maxCall + 1}, size), "a single one")
	require.NoError(t, checkCall("items", []int{maxCall / 2, maxCall / 2}, size))
	require.ErrorIs(t, checkCall("items", []int{maxCall / 2, maxCall/2 + 1}, size), store.ErrTooLarge)
	const half = maxStatement / 2
	require.Equal(t, [][]int{{half, half}, {1, half}, {3 * half}, {1}}, perStatement([]int{half, half, 1, half, 3 * half, 1}, size))
	require.Equal(t, [][]int{{1}}, perStatement([]int{1}, size))
}
