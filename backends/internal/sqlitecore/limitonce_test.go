package sqlitecore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAttempts checks that tries in vain become rare, also if plans park nothing for the next try.
func TestAttempts(t *testing.T) {
	t.Parallel()
	tries := func(spares bool) (n int) {
		a := &attempts{}
		for range 1000 {
			if a.due() {
				n++
				a.failed()
			}
			if spares {
				a.spared()
			}
		}
		return n
	}
	require.Less(t, tries(false), 25)
	require.Less(t, tries(true), 25)

	a := &attempts{}
	require.True(t, a.due())
	a.failed()
	require.False(t, a.due(), "after a failure")
	a.spared()
	require.True(t, a.due(), "after a plan that parked nothing")
	a.succeeded()
	require.True(t, a.due(), "after a success")
}
