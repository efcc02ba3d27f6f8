package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/store"
)

// endAt makes runs of a queue that end at a time.
func endAt(t *testing.T, s store.Store, queue string, n int, kind store.TransitionKind, at time.Time) {
	t.Helper()
	runs := make([]store.NewRun, n)
	for i := range runs {
		runs[i] = store.NewRun{ID: store.NewID(), Workflow: "ship", Queue: queue, Worker: "w", LeaseFor: time.Hour}
	}
	made, err := s.Create(t.Context(), store.CreateParams{Namespace: "default", Runs: runs, Now: at})
	require.NoError(t, err)
	p := store.CommitParams{Namespace: "default", Now: at}
	for _, m := range made {
		require.NoError(t, m.Err)
		tr := &store.Transition{Kind: kind}
		if kind == store.FailRun {
			tr.Failure = &store.Failure{Code: "error"}
		}
		p.Commits = append(p.Commits, store.Commit{Lease: m.Lease, Seq: 1, Transition: tr})
	}
	res, err := s.Commit(t.Context(), p)
	require.NoError(t, err)
	for _, r := range res {
		require.NoError(t, r.Err)
	}
}

// TestPaceCountsEachMinuteOnce checks that a run counts in the minute in which it ended, in its queue, that the
// minute that has not ended is left out, and that a minute is read once.
func TestPaceCountsEachMinuteOnce(t *testing.T) {
	s, eng := newCounted(t)
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	endAt(t, s, "mail", 3, store.CompleteRun, at.Add(-time.Microsecond)) // at the very end of the last minute
	endAt(t, s, "mail", 2, store.FailRun, at.Add(-time.Minute))          // at its very beginning
	endAt(t, s, "ship", 1, store.CompleteRun, at.Add(-10*time.Minute))
	endAt(t, s, "ship", 7, store.CompleteRun, at)                 // in the minute that has not ended
	endAt(t, s, "ship", 5, store.CompleteRun, at.Add(-time.Hour)) // too old

	var p pace
	read := func(now time.Time, budget time.Duration) (wire.Pace, int64) {
		before := s.reads.Load()
		got, err := p.read(t.Context(), eng, now, budget)
		require.NoError(t, err)
		return got, s.reads.Load() - before
	}
	counts := func(places map[int]int64) []int64 {
		list := make([]int64, paceMinutes)
		for i, n := range places {
			list[i] = n
		}
		return list
	}
	soon := at.Add(paceRest)
	got, reads := read(soon, time.Hour)
	require.EqualValues(t, paceMinutes, reads)
	require.Equal(t, wire.Pace{From: at.Add(-30 * time.Minute), Minutes: 30, Queues: []wire.QueuePace{
		{Name: "mail", Ended: counts(map[int]int64{29: 5}), Failed: counts(map[int]int64{29: 2})},
		{Name: "ship", Ended: counts(map[int]int64{20: 1}), Failed: counts(nil)},
	}}, got)
	again, reads := read(soon, time.Hour)
	require.Zero(t, reads)
	require.Equal(t, got, again)

	got, reads = read(soon.Add(time.Minute), time.Hour)
	require.EqualValues(t, 1, reads, "one minute more has ended")
	require.EqualValues(t, 7, got.Queues[1].Ended[29])
	require.Len(t, p.minutes, paceMinutes)
}

// TestPaceAnswersInTime checks that an answer that has no time left has the latest minutes, and that later answers
// have more of them.
func TestPaceAnswersInTime(t *testing.T) {
	s, eng := newCounted(t)
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	endAt(t, s, "ship", 1, store.CompleteRun, at.Add(-2*time.Minute))
	var p pace
	for n := 1; n <= 3; n++ {
		got, err := p.read(t.Context(), eng, at.Add(paceRest), 0)
		require.NoError(t, err)
		require.Equal(t, n, got.Minutes)
		require.Equal(t, at.Add(-time.Duration(n)*time.Minute), got.From)
		if n >= 2 {
			require.Equal(t, []wire.QueuePace{{Name: "ship", Ended: append(make([]int64, n-2), 1, 0), Failed: make([]int64, n)}}, got.Queues)
		}
	}
}

// TestPaceSaysWhatItDidNotCount checks a minute in which more runs ended than are counted.
func TestPaceSaysWhatItDidNotCount(t *testing.T) {
	s, eng := newCounted(t)
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	endAt(t, s, "ship", 1, store.CompleteRun, at.Add(-2*time.Minute))
	s.capped = true
	var p pace
	got, err := p.read(t.Context(), eng, at.Add(paceRest), time.Hour)
	require.NoError(t, err)
	require.Equal(t, []int{28}, got.Capped)
}
