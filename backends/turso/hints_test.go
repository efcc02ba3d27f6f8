package turso

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// TestChanges distinguishes own writes from those of others by the counts alone.
func TestChanges(t *testing.T) {
	t.Parallel()
	at := func(n index) *index { return &n }
	c := &changes{}
	c.saw(at(5))
	c.seen()
	require.False(t, c.foreign(), "what was there before")
	require.False(t, c.told())

	c.own(at(5), at(7))
	c.own(at(9), at(9)) // nothing changed
	require.True(t, c.told())
	require.False(t, c.told(), "told once")
	require.False(t, c.foreign(), "an own write")

	c.own(at(8), at(9))
	c.own(at(7), at(8)) // answered later than the next one
	require.False(t, c.foreign(), "own writes out of order")

	c.own(at(11), at(12))
	require.True(t, c.foreign(), "a write of others between two own ones")
	require.False(t, c.foreign(), "told once")

	c.begin(1)
	c.saw(at(14))
	require.False(t, c.foreign(), "perhaps the own write that is under way")
	c.own(at(12), at(14))
	c.begin(-1)
	require.False(t, c.foreign(), "it was")

	c.begin(1)
	c.saw(at(15))
	require.False(t, c.foreign())
	require.True(t, c.foreign(), "it was not")
	c.begin(-1)

	c.own(at(15), at(20))
	c.saw(at(18)) // a replica that is behind
	require.False(t, c.foreign())
	c.saw(at(20))
	require.False(t, c.foreign())

	c.saw(at(3))
	require.True(t, c.foreign(), "the database was put back")
	require.False(t, c.foreign())

	c.saw(nil) // a server that does not count changes
	c.own(nil, nil)
	require.False(t, c.foreign())
}

// TestHints checks that a store reports its own writes precisely and reports "look again" only for
// those of others.
func TestHints(t *testing.T) {
	t.Parallel()
	srv, url := sqldtest.Shared(t), sqldtest.Namespace(t)
	s, other := openOn(t, srv, url), openOn(t, srv, url)
	ch, err := s.Hints(t.Context())
	require.NoError(t, err)
	rescan, work := store.Hint{Kind: store.HintRescan}, store.Hint{Kind: store.HintQueue, Namespace: "ns", Queue: "q"}
	rescans := 0
	hear := func(want store.Hint) {
		t.Helper()
		for {
			for _, h := range <-ch {
				require.Contains(t, []store.Hint{rescan, work}, h)
				if h == rescan {
					rescans++
				}
				if h == want {
					return
				}
			}
		}
	}
	const writes = 20
	for range writes {
		_, err = s.Create(t.Context(), createParams(1))
		require.NoError(t, err)
		hear(work)
	}
	// A write whose answer takes longer than two looks is taken for a write of another process.
	require.Less(t, rescans, writes/2, "its own writes are taken for others'")
	_, err = other.Create(t.Context(), createParams(1))
	require.NoError(t, err)
	hear(rescan)
}

// TestHintsOfAServerThatDoesNotCount checks that such a server yields "look again" from time to
// time.
func TestHintsOfAServerThatDoesNotCount(t *testing.T) {
	t.Parallel()
	srv, url := sqldtest.Shared(t), sqldtest.Namespace(t)
	p := newProxy(t, srv)
	p.set(func(int64) fate { return fate{plain: true} })
	s := openOn(t, srv, url, WithDialer(p.dial), WithMaxSleep(40*time.Millisecond))
	hints, err := s.Hints(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.Contains(t, <-hints, store.Hint{Kind: store.HintRescan})
	}
}
