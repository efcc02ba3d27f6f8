package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

func signals(names ...string) (list []store.Signal) {
	for _, name := range names {
		list = append(list, store.Signal{ID: store.NewID(), Name: name})
	}
	return list
}

func TestInboxGivesASignalOnce(t *testing.T) {
	var n inbox
	box := store.Inbox{Signals: signals("a", "b", "a")}
	n.takeIn(box, Look{}, nil, false, 0)
	first, ok := n.signal("a")
	require.True(t, ok)
	require.Equal(t, box.Signals[0].ID, first.ID, "the oldest goes first")
	n.take(first.ID)
	n.takeIn(box, Look{}, nil, false, 0) // read again before the commit that consumes it
	next, ok := n.signal("a")
	require.True(t, ok)
	require.Equal(t, box.Signals[2].ID, next.ID)
	_, ok = n.signal("c")
	require.False(t, ok)
}

func TestInboxPutsTheRunsOwnWritesOnTopOfTheState(t *testing.T) {
	var n inbox
	n.need()
	box := store.Inbox{State: []store.StateEntry{{Key: "old", Value: []byte("1")}, {Key: "gone", Value: []byte("1")}}}
	own := []store.StateWrite{{Key: "old", Value: []byte("2")}, {Key: "gone", Delete: true}}
	n.takeIn(box, Look{State: true}, own, true, 0)
	require.Equal(t, "2", string(n.state["old"].Value))
	require.NotContains(t, n.state, "gone")
	require.True(t, n.unsure, "whether the box includes the commit under way is not known")
	n.release()
	require.Nil(t, n.state, "nobody needs it")
}

// The count of events that a run reports with its sleep must not include one that it has
// not looked at; its own writes are no news to it.
func TestInboxCountsTheRunsOwnEventsAsSeen(t *testing.T) {
	commit := func(seen int64) *store.Commit {
		return &store.Commit{Seen: seen, State: []store.StateWrite{{Key: "a"}, {Key: "b"}}}
	}
	for name, c := range map[string]struct {
		res    store.CommitResult
		seen   int64
		unsure bool
	}{
		"nothing else has come":              {store.CommitResult{Events: 7}, 7, false},
		"something else has come":            {store.CommitResult{Events: 8}, 5, false},
		"when it was applied is not known":   {store.CommitResult{}, 5, true},
		"repeated, and nothing else came":    {store.CommitResult{Events: 7, Repeated: true}, 7, false},
		"repeated, and something else came":  {store.CommitResult{Events: 9, Repeated: true}, 5, false},
		"a later look has counted it before": {store.CommitResult{Events: 4}, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := inbox{seen: 5}
			require.False(t, n.wrote(commit(5), c.res, false), "its writes were learned when they were added")
			require.Equal(t, c.seen, n.seen)
			require.Equal(t, c.unsure, n.unsure)
		})
	}
	t.Run("the writes of a transaction are learned when it is committed", func(t *testing.T) {
		n := inbox{seen: 5}
		require.True(t, n.wrote(commit(5), store.CommitResult{Events: 7}, true))
		require.False(t, n.wrote(commit(5), store.CommitResult{Events: 7}, true), "a look has brought them already")
	})
}

func TestInboxCountsAComparedWrite(t *testing.T) {
	n := inbox{seen: 5}
	require.True(t, n.compared(6))
	require.EqualValues(t, 6, n.seen)
	require.False(t, n.compared(6), "a look was quicker")
	require.True(t, n.compared(8))
	require.EqualValues(t, 6, n.seen, "event 7 is of another")
	require.True(t, n.unsure)
}

// The counts of a group that were read before its children were spawned say nothing of them.
func TestInboxKnowsAGroupOnceItsChildrenAreCounted(t *testing.T) {
	var n inbox
	w := &wait{await: []store.Await{{Group: "g"}}, spawned: 3}
	n.takeIn(store.Inbox{}, Look{}, nil, false, 2)
	_, known := n.counts("g", 3)
	require.False(t, known, "entry 3 was not durable then")
	require.False(t, n.met(w))

	n.takeIn(store.Inbox{Groups: []store.Group{{Name: "g", Total: 2, Open: 1}}}, Look{}, nil, false, 3)
	g, known := n.counts("g", 3)
	require.True(t, known)
	require.EqualValues(t, 1, g.Open)
	require.False(t, n.met(w))

	n.takeIn(store.Inbox{Groups: []store.Group{{Name: "g", Total: 2, Failed: 2}}}, Look{}, nil, false, 4)
	require.True(t, n.met(w))

	n.takeIn(store.Inbox{Groups: []store.Group{{Name: "g", Total: 2, Open: 2}}}, Look{}, nil, false, 3)
	require.True(t, n.met(w), "a look that was overtaken changes no counts")
}

func TestInboxDoesNotKnowAGroupThatWasCutOff(t *testing.T) {
	var n inbox
	n.takeIn(store.Inbox{Groups: []store.Group{{Name: "a"}}, MoreGroups: true}, Look{}, nil, false, 0)
	_, known := n.counts("b", 0)
	require.False(t, known)
	n.addGroups([]store.Group{{Name: "b"}})
	_, known = n.counts("b", 0)
	require.True(t, known)
}
