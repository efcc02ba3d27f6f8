package exec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEndingHasTheFirstReason(t *testing.T) {
	e := ending{done: make(chan struct{})}
	require.True(t, e.close(bySuspend))
	require.False(t, e.close(byReturn))
	require.Equal(t, bySuspend, e.reason)
	select {
	case <-e.done:
	default:
		t.Fatal("those who wait do not learn that the execution was closed")
	}
}

func TestEndingByLossGoesBeforeAnyOther(t *testing.T) {
	e := ending{done: make(chan struct{})}
	e.close(byReturn)
	require.False(t, e.lost())
	e.close(byLoss)
	require.True(t, e.lost(), "nothing can be committed any more")
}

func TestEndingIsFinishedOnce(t *testing.T) {
	var e ending
	require.False(t, e.over())
	require.True(t, e.finish())
	require.False(t, e.finish())
	require.True(t, e.over())
}

func TestCancelGoesBeforeDeadline(t *testing.T) {
	require.False(t, interruption{}.any())
	require.Equal(t, ErrDeadline, interruption{expired: true}.err())
	require.Equal(t, ErrCanceled, interruption{expired: true, canceled: true}.err())
}
