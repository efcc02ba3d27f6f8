package sqlkit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

// TestWay checks how long a claim gives way to another store, and that work of its own ends the wait.
func TestWay(t *testing.T) {
	t.Parallel()
	give := func(t *testing.T, w *Way, look time.Duration) (announced bool, took time.Duration) {
		from := time.Now()
		announced = w.Give(t.Context(), look)
		return announced, time.Since(from)
	}
	t.Run("the first claim does not give way", func(t *testing.T) {
		w := NewWay()
		require.True(t, w.Announced())
		require.False(t, w.Announced())
		require.False(t, w.Known())
		w.Planned(time.Millisecond)
		require.True(t, w.Known())
	})
	t.Run("hints of work are announced, others are not", func(t *testing.T) {
		w := NewWay()
		require.True(t, w.Announced())
		w.Announce(store.Hint{Kind: store.HintFinal}, store.Hint{Kind: store.HintEvent})
		require.False(t, w.Announced())
		w.Announce(store.Hint{Kind: store.HintFinal}, store.Hint{Kind: store.HintQueue})
		w.Announce(store.Hint{Kind: store.HintQueue})
		require.True(t, w.Announced())
		require.False(t, w.Announced())
	})
	t.Run("the wait follows what plans and looks take", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := NewWay()
			require.True(t, w.Announced())
			for _, tt := range []struct{ plan, look, least time.Duration }{
				{0, 0, minWay},
				{3 * time.Millisecond, time.Millisecond, 6 * time.Millisecond},
				{3 * time.Millisecond, 2 * time.Millisecond, 8 * time.Millisecond},
				{time.Hour, 0, maxWay},
			} {
				w.Planned(tt.plan)
				announced, took := give(t, w, tt.look)
				require.False(t, announced)
				require.True(t, tt.least <= took && took <= 2*tt.least, "%v, %v", tt, took)
			}
		})
	})
	t.Run("work of this store ends the wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := NewWay()
			require.True(t, w.Announced())
			time.AfterFunc(time.Microsecond, func() { w.Announce(store.Hint{Kind: store.HintQueue}) })
			announced, took := give(t, w, 0)
			require.True(t, announced)
			require.Equal(t, time.Microsecond, took)
		})
	})
	t.Run("a call that ends waits no longer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := NewWay()
			require.True(t, w.Announced())
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			from := time.Now()
			require.False(t, w.Give(ctx, time.Hour))
			require.Zero(t, time.Since(from))
		})
	})
}
