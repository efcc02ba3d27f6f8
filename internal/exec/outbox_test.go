package exec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

func record(name string, status store.StepStatus) store.StepRecord {
	return store.StepRecord{StepKey: store.StepKey{Name: name, Occurrence: 1}, Kind: store.KindFunction, Status: status}
}

func TestOutboxReplacesARecordThatWasNotSent(t *testing.T) {
	var x outbox
	x.add(record("a", store.StepRunning), time.Time{})
	x.add(record("b", store.StepCompleted), time.Time{})
	x.add(record("a", store.StepCompleted), time.Time{})
	c := x.take(0)
	require.Len(t, c.Steps, 2)
	require.Equal(t, "a", c.Steps[0].Name, "it keeps its place")
	require.Equal(t, store.StepCompleted, c.Steps[0].Status)
	require.EqualValues(t, 3, x.appended, "each entry counts")
}

// A number that is refused is used again: the store would take a gap for lost commits.
func TestOutboxNumbersCommitsByTheLastOneApplied(t *testing.T) {
	x := outbox{lease: store.Lease{Epoch: 4}}
	x.add(record("a", store.StepCompleted), time.Time{})
	first := x.take(0)
	require.EqualValues(t, 1, first.Seq)
	require.EqualValues(t, 4, first.Lease.Epoch)
	require.EqualValues(t, 1, x.next(), "it was not applied yet")
	x.accept(first)
	second := x.take(9)
	require.EqualValues(t, 2, second.Seq)
	require.EqualValues(t, 9, second.Seen)
	require.Empty(t, second.Steps, "what was taken is gone")
}

// A sleep is measured from the commit that records it, so the time that the record has
// waited is taken off.
func TestOutboxTurnsADueTimeIntoTheTimeThatIsLeft(t *testing.T) {
	var x outbox
	x.add(record("later", store.StepRunning), time.Now().Add(time.Hour))
	x.add(record("over", store.StepRunning), time.Now().Add(-time.Hour))
	x.add(record("done", store.StepRunning), time.Now().Add(time.Hour))
	x.add(record("done", store.StepCompleted), time.Time{})
	c := x.take(0)
	require.Greater(t, c.Steps[0].DueIn, 59*time.Minute)
	require.LessOrEqual(t, c.Steps[0].DueIn, time.Hour)
	require.Equal(t, time.Microsecond, c.Steps[1].DueIn, "0 would be no due time at all")
	require.Zero(t, c.Steps[2].DueIn, "a final record has no due time")
}

func TestOutboxBoundsACommit(t *testing.T) {
	t.Run("an empty outbox has room for a record of any size", func(t *testing.T) {
		var x outbox
		require.True(t, x.hasRoom(10*commitBytes))
	})
	t.Run("bytes", func(t *testing.T) {
		var x outbox
		r := record("a", store.StepCompleted)
		r.Output = make([]byte, commitBytes-1000)
		x.add(r, time.Time{})
		require.True(t, x.hasRoom(100))
		require.False(t, x.hasRoom(2000))
	})
	t.Run("children", func(t *testing.T) {
		var x outbox
		x.add(record("a", store.StepRunning), time.Time{})
		for range commitRecords {
			require.True(t, x.hasRoom(0))
			x.spawn(store.NewRun{})
		}
		require.False(t, x.hasRoom(0))
	})
}

func TestOutboxKeepsOneWriteForAKey(t *testing.T) {
	var x outbox
	x.write(store.StateWrite{Key: "k", Value: []byte("1")})
	x.write(store.StateWrite{Key: "k", Value: []byte("2")})
	c := x.take(0)
	require.Len(t, c.State, 1)
	require.Equal(t, "2", string(c.State[0].Value))

	w, ok := x.unsent("k")
	require.True(t, ok, "the commit is under way")
	require.Equal(t, "2", string(w.Value))
	x.write(store.StateWrite{Key: "k", Delete: true})
	w, _ = x.unsent("k")
	require.True(t, w.Delete, "the later write counts")
	_, ok = x.unsent("other")
	require.False(t, ok)
}

// Otherwise a run that kills its worker again and again would never be found out.
func TestOutboxKeepsTheCrashesUntilThereIsProgress(t *testing.T) {
	x := outbox{crashes: 3}
	x.add(record("a", store.StepRunning), time.Time{})
	begun := x.take(0)
	require.Equal(t, 3, begun.Crashes, "that a step has begun is no progress")
	x.accept(begun)
	x.add(record("a", store.StepCompleted), time.Time{})
	done := x.take(0)
	require.Zero(t, done.Crashes)
	x.accept(done)
	require.Zero(t, x.crashes)
}
