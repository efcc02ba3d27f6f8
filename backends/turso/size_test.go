package turso

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// TestTooLargeIsNotTemporary checks that a request that the server refuses because of its size is
// not reported as one to send again.
func TestTooLargeIsNotTemporary(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"request": failure(newStatusError(http.StatusRequestEntityTooLarge, nil, "", nil), true),
		"row":     classify(&serverError{Message: "string or blob too big", Code: "SQLITE_TOOBIG"}),
	} {
		require.ErrorIs(t, err, store.ErrTooLarge, name)
		require.False(t, store.Retryable(err), name)
		var large *store.TooLargeError
		require.ErrorAs(t, err, &large, name)
	}
}

// TestCallsGoInParts checks that the parts of a call are within the limit and in order. An item
// that is too large by itself stops no other item, a part that takes too long is sent in halves, and
// a part that fails after another part leaves the outcome unknown.
func TestCallsGoInParts(t *testing.T) {
	t.Parallel()
	const most = callBytes
	size := func(n *int) int { return *n }
	var sent [][]int
	send := func(fail error, when int) func([]int) ([]int, error) {
		return func(part []int) ([]int, error) {
			for _, n := range part {
				if n == when {
					return nil, fail
				}
			}
			sent = append(sent, append([]int{}, part...))
			return part, nil
		}
	}
	refuse := func(error) int { return -1 }

	got, err := inParts([]int{1, most, 2, 3, most - 4, 5}, size, send(nil, 0), refuse)
	require.NoError(t, err)
	require.Equal(t, []int{1, most, 2, 3, most - 4, 5}, got)
	require.Equal(t, [][]int{{1}, {most}, {2, 3}, {most - 4}, {5}}, sent)

	sent = nil
	got, err = inParts([]int{1, 2, 7, 4}, size, send(&sizeError{errors.New("too large")}, 7), refuse)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, -1, 4}, got)

	sent = nil
	tooLong := fmt.Errorf("%w: %w", sqlitecore.ErrTooLong, store.ErrUnavailable)
	slow := func(part []int) ([]int, error) {
		if len(part) > 2 {
			return nil, tooLong
		}
		sent = append(sent, part)
		return part, nil
	}
	got, err = inParts([]int{1, 2, 3, 4, 5}, size, slow, refuse)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3, 4, 5}, got)
	require.Equal(t, [][]int{{1, 2}, {3}, {4, 5}}, sent)
	_, err = inParts([]int{7}, size, send(tooLong, 7), refuse)
	require.ErrorIs(t, err, store.ErrUnavailable, "an item that takes too long may be sent again")

	_, err = inParts([]int{most, 7}, size, send(store.ErrUnavailable, 7), refuse)
	require.ErrorIs(t, err, store.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, store.ErrUnavailable)
	_, err = inParts([]int{7, most}, size, send(store.ErrUnavailable, 7), refuse)
	require.ErrorIs(t, err, store.ErrUnavailable)
}
