package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

func recorded(branch, name string, index int, position int64) store.Step {
	return store.Step{
		StepKey: store.StepKey{Branch: branch, Name: name, Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted,
		Index: index, Position: position, Output: []byte(name),
	}
}

func TestHistoryFindsAStepByBranchAndIndex(t *testing.T) {
	var h history
	require.True(t, h.empty())
	h.add([]store.Step{recorded("", "a", 0, 1), recorded("left", "b", 0, 2), recorded("", "c", 1, 3)}, false)
	require.False(t, h.empty())
	require.Equal(t, "c", h.at("", 1).Name)
	require.Equal(t, "b", h.at("left", 0).Name)
	require.Nil(t, h.at("", 2), "index 2 of the main branch is not recorded")
	require.Nil(t, h.at("right", 0), "the branch is not recorded")
}

// Branches record their steps side by side, so that a page may hold a later step of a branch
// and not yet an earlier one.
func TestHistoryComesInPages(t *testing.T) {
	var h history
	h.add([]store.Step{recorded("", "second", 1, 1)}, true)
	require.True(t, h.more)
	require.Nil(t, h.at("", 0), "index 0 has not been read")
	h.add([]store.Step{recorded("", "first", 0, 2)}, false)
	require.False(t, h.more)
	require.Equal(t, "first", h.at("", 0).Name)
	require.EqualValues(t, 2, h.readTo)
}

func TestHistoryForgetsThePayloadsOfVisitedSteps(t *testing.T) {
	var h history
	h.add([]store.Step{recorded("", "a", 0, 1)}, false)
	s := h.at("", 0)
	h.visit("", 0)
	require.Equal(t, "a", string(s.Output), "what was returned before stays")
	require.Nil(t, h.at("", 0).Output)
	require.Equal(t, "a", h.at("", 0).Name, "the name stays, for the check at the branch's end")
}

func TestHistoryTellsWhatTheCodeHasNotComeTo(t *testing.T) {
	var h history
	h.add([]store.Step{recorded("", "a", 0, 1), recorded("", "b", 1, 2)}, false)
	key, _, ok := h.rest("", 1)
	require.True(t, ok)
	require.Equal(t, "b", key.Name)
	_, _, ok = h.rest("", 2)
	require.False(t, ok)
}

func TestHistoryNumbersNewOperationsAfterRecordedOnes(t *testing.T) {
	var h history
	require.EqualValues(t, 1, h.newPosition())
	h.add([]store.Step{recorded("", "a", 0, 7)}, false)
	require.EqualValues(t, 8, h.newPosition())
	require.EqualValues(t, 9, h.newPosition())
}

// A branch that the code has not forked is missed if the history has it before the operation
// that the code asks for. It is not if an operation may have been forgotten before it.
func TestHistoryTellsWhichBranchIsMissed(t *testing.T) {
	unended := recorded("", "child", 0, 1)
	unended.Status, unended.Kind = store.StepRunning, store.KindChild
	for name, tt := range map[string]struct {
		index   int
		history []store.Step
		want    bool
	}{
		"no branch": {1, []store.Step{recorded("", "a", 0, 1)}, false},
		"the branch follows the operation before":         {1, []store.Step{recorded("", "a", 0, 1), recorded("late", "s", 0, 2)}, true},
		"the branch is the first of all":                  {0, []store.Step{recorded("late", "s", 0, 1)}, true},
		"an operation was forgotten in between":           {1, []store.Step{recorded("", "a", 0, 1), recorded("late", "s", 0, 3)}, false},
		"an operation was forgotten long before":          {1, []store.Step{recorded("", "a", 0, 2), recorded("late", "s", 0, 3)}, true},
		"the operation before was forgotten and done":     {1, []store.Step{recorded("late", "s", 0, 3), recorded("", "a", 0, 4)}, false},
		"the operation was under way":                     {0, []store.Step{unended, recorded("late", "s", 0, 2)}, false},
		"the branch was forked before it":                 {1, []store.Step{recorded("", "a", 0, 1), recorded("late", "s", 0, 2), recorded("", "b", 1, 3)}, true},
		"another branch fills the places":                 {1, []store.Step{recorded("", "a", 0, 1), recorded("early", "s", 0, 2), recorded("late", "s", 0, 3)}, true},
		"another branch is forked, and one was forgotten": {1, []store.Step{recorded("", "a", 0, 1), recorded("early", "s", 0, 3), recorded("late", "s", 0, 4)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var h history
			h.add(tt.history, false)
			h.fork("", "early")
			_, missed := h.missed("", tt.index)
			require.Equal(t, tt.want, missed)
		})
	}
}

// The nodes of a graph are branches below the main one. The code may have lost some of them.
func TestHistoryDoesNotMissRemovedNodesOfAGraph(t *testing.T) {
	h := history{loose: true}
	h.add([]store.Step{recorded("gone", "s", 0, 1), recorded("kept", "a", 0, 2), recorded("kept/below", "b", 0, 3)}, false)
	require.Zero(t, h.left, "no node was forked")
	h.fork("", "kept")
	require.Equal(t, 2, h.left, "operations of the node and below it")
	key, _, unforked := h.unforked()
	require.True(t, unforked)
	require.Equal(t, "kept/below", key.Branch, "the branch gone is not missed")
	_, missed := h.missed("", 0)
	require.False(t, missed)
	_, missed = h.missed("kept", 1)
	require.True(t, missed, "the branch below a node is not a node")
}

func TestHistoryTellsThatAnOperationWasForgotten(t *testing.T) {
	var h history
	h.add([]store.Step{recorded("", "a", 0, 1), recorded("b", "s", 0, 3)}, false)
	require.False(t, h.forgot(), "position 2 may have been under way when the worker ended")
	h.add([]store.Step{recorded("", "d", 2, 5)}, false)
	require.True(t, h.forgot(), "index 1 of the main branch must have ended before index 2")
}
