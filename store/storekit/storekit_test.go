package storekit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

var now = time.Date(2031, 5, 6, 7, 8, 9, 123457000, time.UTC)

func newRun(change ...func(*store.NewRun)) *storekit.Run {
	n := &store.NewRun{ID: store.NewID(), Workflow: "wf", Queue: "q"}
	for _, f := range change {
		f(n)
	}
	return storekit.New("ns", n, now)
}

func leased() *storekit.Run {
	r := newRun()
	r.Lease("w", "", time.Minute, 0, now)
	return r
}

// asleep returns a run that was claimed and sleeps.
func asleep(t *store.Transition) *storekit.Run {
	r := leased()
	t.Kind = store.Sleep
	r.Transition(t, false, noGroups, now)
	return r
}

func noGroups(string) store.Group { return store.Group{} }

func group(g store.Group) func(string) store.Group { return func(string) store.Group { return g } }

func TestClock(t *testing.T) {
	t.Parallel()
	require.Equal(t, now, storekit.Now(now.Add(999*time.Nanosecond)))
	require.WithinDuration(t, time.Now(), storekit.Now(time.Time{}), time.Minute)
	require.Equal(t, time.Microsecond, storekit.RoundUp(1))
	require.Equal(t, now.Add(time.Second), storekit.Earliest(time.Time{}, now.Add(time.Second)))
	require.Equal(t, now, storekit.Earliest(now.Add(1), now))
}

func TestNew(t *testing.T) {
	t.Parallel()
	r := newRun(func(n *store.NewRun) { n.After, n.At = time.Minute, now.Add(time.Hour) })
	require.Equal(t, now.Add(time.Hour), r.VisibleAt, "the later of delay and time")
	require.True(t, r.Claimable())
	require.False(t, r.Due(now))
	r = newRun(func(n *store.NewRun) { n.After, n.Timeout = time.Hour, time.Minute })
	require.Equal(t, now.Add(time.Minute), r.VisibleAt, "its deadline")
	require.Equal(t, r.Deadline, r.VisibleAt)
}

func TestLease(t *testing.T) {
	t.Parallel()
	r := newRun()
	first := r.Lease("w1", "", time.Minute, 7, now)
	require.Equal(t, store.Lease{Run: r.ID, Worker: "w1", Epoch: 1}, first)
	require.Equal(t, store.Running, r.Status)
	require.True(t, r.TookIn(7, "w1", now))
	require.False(t, r.TookIn(7, "w1", now.Add(time.Minute)), "the lease has run out")
	require.False(t, r.Extend(first, time.Minute, now.Add(time.Hour)).Lost, "nobody has taken it over")

	second := r.Lease("w2", "", time.Minute, 0, now.Add(2*time.Hour))
	require.Equal(t, int64(2), second.Epoch)
	require.Equal(t, 1, r.Crashes)
	require.True(t, r.Extend(first, time.Minute, now).Lost)
	require.True(t, (*storekit.Run)(nil).Extend(first, time.Minute, now).Lost)
}

func TestFence(t *testing.T) {
	t.Parallel()
	r := leased()
	lease := r.LeaseOf()
	commit := func(seq int64) *store.Commit { return &store.Commit{Lease: lease, Seq: seq} }
	repeated, err := r.Fence(commit(1))
	require.NoError(t, err)
	require.False(t, repeated)
	r.Begin(commit(1))
	repeated, err = r.Fence(commit(1))
	require.NoError(t, err)
	require.True(t, repeated)
	_, err = r.Fence(commit(3))
	require.ErrorIs(t, err, store.ErrLeaseLost, "a commit is missing")
	r.Begin(commit(2))
	require.True(t, r.Transition(&store.Transition{Kind: store.CompleteRun}, false, noGroups, now).Final)
	repeated, err = r.Fence(commit(2))
	require.NoError(t, err)
	require.True(t, repeated, "also when it has ended the lease")
	_, err = r.Fence(commit(3))
	require.ErrorIs(t, err, store.ErrLeaseLost)
	_, err = (*storekit.Run)(nil).Fence(commit(1))
	require.ErrorIs(t, err, store.ErrLeaseLost)
}

func TestTransition(t *testing.T) {
	t.Parallel()
	minute := now.Add(time.Minute)
	canceling := func(r *storekit.Run) { r.Cancel("why", true, now) }
	pausing := func(r *storekit.Run) { r.Pause() }
	for _, tt := range []struct {
		name    string
		before  func(*storekit.Run)
		t       store.Transition
		unseen  bool
		group   store.Group
		status  store.Status
		visible time.Time
	}{
		{name: "complete", t: store.Transition{Kind: store.CompleteRun}, status: store.Completed},
		{name: "fail", t: store.Transition{Kind: store.FailRun}, status: store.Failed},
		{name: "cancel", t: store.Transition{Kind: store.CancelRun}, status: store.Canceled},
		{name: "sleep", t: store.Transition{Kind: store.Sleep, After: time.Minute}, status: store.Sleeping, visible: minute},
		{name: "sleep without a time", t: store.Transition{Kind: store.Sleep}, status: store.Sleeping},
		{name: "sleep with an event unseen", t: store.Transition{Kind: store.Sleep, After: time.Minute}, unseen: true, status: store.Sleeping, visible: now},
		{name: "sleep with an await that is met", t: store.Transition{Kind: store.Sleep, Await: []store.Await{{Group: "g", Open: 1}}}, group: store.Group{Open: 1}, status: store.Sleeping, visible: now},
		{name: "sleep with an await that is not met", t: store.Transition{Kind: store.Sleep, Await: []store.Await{{Group: "g"}}}, group: store.Group{Open: 1}, status: store.Sleeping},
		{name: "sleep while canceling", before: canceling, t: store.Transition{Kind: store.Sleep, After: time.Minute}, status: store.Canceling, visible: now},
		{name: "sleep while pausing", before: pausing, t: store.Transition{Kind: store.Sleep, After: time.Minute}, status: store.Paused, visible: minute},
		{name: "sleep beyond the deadline", before: func(r *storekit.Run) { r.Deadline = minute }, t: store.Transition{Kind: store.Sleep, After: time.Hour}, status: store.Sleeping, visible: minute},
		{name: "retry", t: store.Transition{Kind: store.Retry, After: time.Minute}, status: store.Pending, visible: minute},
		{name: "retry at once", t: store.Transition{Kind: store.Retry}, status: store.Pending, visible: now},
		{name: "retry at the earlier of both", t: store.Transition{Kind: store.Retry, After: time.Hour, At: minute}, status: store.Pending, visible: minute},
		{name: "release while canceling", before: canceling, t: store.Transition{Kind: store.Release, After: time.Minute}, status: store.Canceling, visible: minute},
		{name: "continue", t: store.Transition{Kind: store.Continue}, status: store.Pending, visible: now},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := leased()
			if tt.before != nil {
				tt.before(r)
			}
			effect := r.Transition(&tt.t, tt.unseen, group(tt.group), now)
			require.Equal(t, tt.status, r.Status)
			require.Equal(t, tt.visible, r.VisibleAt)
			require.False(t, r.Leased())
			require.Equal(t, storekit.Effect{Final: tt.t.Kind.Final(), ForgetSteps: tt.t.Kind == store.Retry, Anew: tt.t.Kind == store.Continue}, effect)
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	later := now.Add(time.Second)
	r := asleep(&store.Transition{Wakes: store.WakeSignal})
	r.Stir(store.WakeState, later)
	require.True(t, r.VisibleAt.IsZero(), "it has not asked for state")
	sig := r.Receive(&store.NewSignal{Name: "s"}, later)
	require.Equal(t, int64(1), sig.Position)
	require.Equal(t, later, r.VisibleAt)
	r.Receive(&store.NewSignal{Name: "s"}, later.Add(time.Second))
	require.Equal(t, later, r.VisibleAt, "it keeps its place")

	r = asleep(&store.Transition{})
	r.Awaits = []store.Await{{Group: "g", Failures: 1}}
	require.False(t, r.Claimable())
	require.True(t, r.ChildEnded(group(store.Group{Open: 3, Canceled: 1}), later))
	require.False(t, r.ChildEnded(group(store.Group{Open: 2, Canceled: 2}), later), "once")
	require.Equal(t, int64(1), r.Events)
	require.Equal(t, later, r.VisibleAt)

	require.ErrorIs(t, storekit.CheckVersion(r.ID, &store.StateWrite{IfVersion: new(int64)}, 1), store.ErrConflict)
}

func TestGroups(t *testing.T) {
	t.Parallel()
	var g store.Group
	for _, status := range []store.Status{store.Completed, store.Failed, store.Canceled} {
		storekit.CountSpawned(&g)
		storekit.CountEnded(&g, status)
	}
	require.Equal(t, store.Group{Total: 3, Completed: 1, Failed: 1, Canceled: 1}, g)
}

func TestControl(t *testing.T) {
	t.Parallel()
	r := newRun()
	require.Equal(t, storekit.BecameCanceled, r.Cancel("why", true, now), "it was never claimed")
	require.Equal(t, storekit.Unchanged, r.Cancel("why", false, now))
	require.ErrorIs(t, r.Restart(store.NewID(), now), store.ErrAlreadyExists)
	require.Equal(t, store.Canceled, r.Status, "a run that is refused stays as it is")
	require.NoError(t, r.Restart(r.ID, now))
	require.Equal(t, store.Pending, r.Status)
	require.ErrorIs(t, r.Restart(store.ID{}, now), store.ErrConflict)

	r = asleep(&store.Transition{})
	r.Pause()
	require.False(t, r.Claimable())
	require.Equal(t, storekit.BecameCanceling, r.Cancel("why", true, now), "it has something to clean up")
	require.Equal(t, now, r.VisibleAt)

	r = asleep(&store.Transition{After: time.Minute})
	r.Pause()
	r.Unpause()
	require.Equal(t, store.Sleeping, r.Status)

	r = leased()
	lease := r.LeaseOf()
	r.Force("why", now)
	require.Equal(t, store.Canceled, r.Status)
	_, err := r.Fence(&store.Commit{Lease: lease, Seq: 1})
	require.ErrorIs(t, err, store.ErrLeaseLost)
}

func TestHints(t *testing.T) {
	t.Parallel()
	hint := func(kind store.HintKind, r *storekit.Run) store.Hint {
		if kind == store.HintQueue {
			return store.Hint{Kind: kind, Namespace: "ns", Queue: "q"}
		}
		return store.Hint{Kind: kind, Namespace: "ns", Run: r.ID}
	}
	for _, tt := range []struct {
		name     string
		run      *storekit.Run
		change   func(*storekit.Run)
		byHolder bool
		want     []store.HintKind
	}{
		{"signal", asleep(&store.Transition{Wakes: store.WakeSignal}), func(r *storekit.Run) { r.Receive(&store.NewSignal{}, now) }, false, []store.HintKind{store.HintQueue, store.HintEvent}},
		{"state by the holder", leased(), func(r *storekit.Run) { r.Write(&store.StateWrite{}, now) }, true, []store.HintKind{store.HintState}},
		{"pause of a leased run", leased(), (*storekit.Run).Pause, false, []store.HintKind{store.HintEvent}},
		{"force", leased(), func(r *storekit.Run) { r.Force("", now) }, false, []store.HintKind{store.HintEvent, store.HintFinal}},
		{"cancel", newRun(), func(r *storekit.Run) { r.Cancel("", false, now) }, false, []store.HintKind{store.HintFinal}},
		{"completion", leased(), func(r *storekit.Run) {
			r.Transition(&store.Transition{Kind: store.CompleteRun}, false, noGroups, now)
		}, true, []store.HintKind{store.HintFinal}},
		{"release", leased(), func(r *storekit.Run) {
			r.Transition(&store.Transition{Kind: store.Release}, false, noGroups, now)
		}, true, []store.HintKind{store.HintQueue}},
		{"claim", newRun(), func(r *storekit.Run) { r.Lease("w", "", time.Minute, 0, now) }, true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := *tt.run
			tt.change(tt.run)
			var want []store.Hint
			for _, kind := range tt.want {
				want = append(want, hint(kind, tt.run))
			}
			require.Equal(t, want, storekit.Hints(&before, tt.run, tt.byHolder))
		})
	}
	r := newRun()
	require.Equal(t, []store.Hint{hint(store.HintQueue, r)}, storekit.Hints(nil, r, false), "a new run")
}

func TestRecord(t *testing.T) {
	t.Parallel()
	r := leased()
	rec := store.StepRecord{StepKey: store.StepKey{Name: "a", Occurrence: 1}, Position: 5, Status: store.StepRunning, Took: time.Second}
	st, write := r.Record(&rec, nil, now)
	require.True(t, write)
	require.Equal(t, now.Add(-time.Second), st.StartedAt)
	rec.Position, rec.Status = 9, store.StepCompleted
	st, write = r.Record(&rec, &st, now)
	require.True(t, write)
	require.Equal(t, int64(5), st.Position, "the first record fixes it")
	require.Equal(t, now, st.FinishedAt)
	_, write = r.Record(&rec, &st, now)
	require.False(t, write, "a final record stands")

	key := func(name string) store.StepRecord {
		return store.StepRecord{StepKey: store.StepKey{Name: name, Occurrence: 1}, Position: 5}
	}
	none := func(store.StepKey) bool { return false }
	require.ErrorIs(t, storekit.CheckPositions([]store.StepRecord{key("b"), key("c")}, none, func(int64) bool { return false }), store.ErrInvalid)
	require.ErrorIs(t, storekit.CheckPositions([]store.StepRecord{key("b")}, none, func(int64) bool { return true }), store.ErrInvalid)
	require.NoError(t, storekit.CheckPositions([]store.StepRecord{key("b")}, func(store.StepKey) bool { return true }, func(int64) bool { return true }))
}

func TestForgetter(t *testing.T) {
	t.Parallel()
	var f storekit.Forgetter
	var kept []string
	for _, st := range []store.Step{
		{StepKey: store.StepKey{Name: "a"}, Status: store.StepCompleted},
		{StepKey: store.StepKey{Branch: "x", Name: "b"}, Status: store.StepFailed},
		{StepKey: store.StepKey{Branch: "y", Name: "c"}, Status: store.StepCompleted},
		{StepKey: store.StepKey{Branch: "x/1", Name: "d"}, Status: store.StepCompleted},
		{StepKey: store.StepKey{Name: "e"}, Status: store.StepCompleted},
	} {
		if !f.Forgets(&st) {
			kept = append(kept, st.Name)
		}
	}
	require.Equal(t, []string{"a", "c"}, kept)
}

func TestClaim(t *testing.T) {
	t.Parallel()
	a, b := storekit.Lane{Queue: "q", Workflow: "a"}, storekit.Lane{Queue: "q", Workflow: "b"}
	p := &store.ClaimParams{Max: 3, MaxBytes: 10, Demands: []store.Demand{
		{Queue: "q", Workflows: []string{"a"}, Max: 1}, {Queue: "q", Workflows: []string{"a", "b"}, Max: 2},
	}}
	require.Equal(t, []storekit.Lane{a, b}, storekit.Lanes(p))
	c := storekit.NewClaim(p)
	require.True(t, c.Take(a, 4))
	require.True(t, c.Take(a, 4), "the second demand has room")
	require.True(t, c.Take(b, 2))
	require.True(t, c.Full())
	c = storekit.NewClaim(p)
	require.True(t, c.Take(a, 100), "the first one comes whatever its size")
	require.False(t, c.Take(b, 1))
	require.False(t, c.Wants(b), "what is full stays full")
}

func TestJSONKeepsWhatIsEmpty(t *testing.T) {
	t.Parallel()
	for _, d := range [][]byte{nil, {}, {0}} {
		r := newRun()
		r.Failure = &store.Failure{Code: "c", Details: d}
		b, err := json.Marshal(r)
		require.NoError(t, err)
		var got storekit.Run
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, r, &got)
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	size := func(n *int) int { return *n }
	collect := func(limit, most int, items ...int) ([]int, bool) {
		return storekit.Collect(slices.Values(items), limit, storekit.FirstAndUpTo(most), size)
	}
	got, more := collect(2, 0, 1, 2, 3)
	require.Equal(t, []int{1, 2}, got)
	require.True(t, more)
	got, more = collect(9, 5, 9, 1)
	require.Equal(t, []int{9}, got, "the first one comes whatever its size")
	require.True(t, more)
	got, more = collect(9, 6, 1, 2, 3)
	require.Equal(t, []int{1, 2, 3}, got)
	require.False(t, more)
}

func TestMatches(t *testing.T) {
	t.Parallel()
	r := newRun().Run
	r.Status, r.FinishedAt, r.Failure = store.Failed, now, &store.Failure{Code: "c", Message: "no such file"}
	steps := func(like func(*store.Step) bool) bool {
		return like(&store.Step{StepKey: store.StepKey{Name: "s"}, Status: store.StepFailed})
	}
	for _, f := range []store.RunFilter{{}, {Workflow: "wf", Queue: "q"}, {FailureCode: "c"}, {FailureText: "such"}, {FailedStep: "s"},
		{IDPrefix: r.ID.String()[:9]}, {FinishedAfter: now.Add(-1)}, {CreatedBefore: now.Add(time.Second)}} {
		require.True(t, storekit.Matches(&f, &r, steps), "%+v", f)
	}
	for _, f := range []store.RunFilter{{Statuses: []store.Status{store.Completed}}, {Workflow: "x"}, {FailureCode: "x"}, {FailedStep: "x"},
		{IDPrefix: "ffff"}, {FinishedAfter: now}, {CreatedBefore: now}, {MinAttempt: 2}, {Parent: store.NewID()}} {
		require.False(t, storekit.Matches(&f, &r, steps), "%+v", f)
	}
}

func TestOrderedKeys(t *testing.T) {
	t.Parallel()
	begin := storekit.OrderedKey("k")
	inOrder := []storekit.OrderedKey{
		begin.Name("a").Priority(5).Time(now.Add(time.Hour)), begin.Name("a").Priority(0).Time(time.Unix(-1, 0)), begin.Name("a").Priority(0).Time(now),
		begin.Name("a").Priority(-1).Time(now), begin.Name("ab").Priority(9), begin.Name("b").Number(-1), begin.Name("b").Number(1), begin.End(),
	}
	require.True(t, slices.IsSortedFunc(inOrder, func(a, b storekit.OrderedKey) int { return bytes.Compare(a, b) }))
	require.Equal(t, storekit.OrderedKey("l"), begin.End())
	require.Equal(t, storekit.OrderedKey("b"), storekit.OrderedKey("a\xff").End())
	require.Equal(t, int64(-7), storekit.LastNumber(begin.Number(-7)))
	id := store.NewID()
	require.Equal(t, id, storekit.LastID(begin.ID(id)))
	require.Equal(t, now, storekit.KeyTime(storekit.TimeKey(now)))
}

func TestMerge(t *testing.T) {
	t.Parallel()
	all := []string{"a1", "a4", "bb2", "bb3", "bb5"}
	read := 0
	for _, backwards := range []bool{false, true} {
		scan := func(s storekit.Span) iter.Seq[[]byte] {
			return func(yield func([]byte) bool) {
				keys := slices.Clone(all)
				if backwards {
					slices.Reverse(keys)
				}
				for _, k := range keys {
					if k >= string(s.From) && k < string(s.To) {
						if read++; !yield([]byte(k)) {
							return
						}
					}
				}
			}
		}
		lines := []storekit.Line{{Span: storekit.OrderedKey("a").All(), Skip: 1}, {Span: storekit.OrderedKey("bb").All(), Skip: 2}}
		var got string
		for line, k := range storekit.Merge(lines, backwards, scan, nil) {
			got += string(k[lines[line].Skip:])
		}
		if backwards {
			require.Equal(t, "54321", got)
			continue
		}
		require.Equal(t, "12345", got)
		got, read = "", 0
		for line, k := range storekit.Merge(lines, false, scan, func(line int) bool { return line == 0 || len(got) < 2 }) {
			got += string(k[lines[line].Skip:])
		}
		require.Equal(t, "124", got, "the second line is left behind 2")
		require.Equal(t, 4, read)
	}
	s := storekit.OrderedKey("a").All()
	require.Equal(t, storekit.OrderedKey("a4\x00"), s.Behind(storekit.OrderedKey("a4"), false).From)
	require.Equal(t, storekit.OrderedKey("a4"), s.Behind(storekit.OrderedKey("a4"), true).To)
}

// memory is Records in a map.
type memory map[storekit.Key][]byte

func (m memory) Get(k storekit.Key) ([]byte, error)     { return m[k], nil }
func (m memory) Put(k storekit.Key, value []byte) error { m[k] = value; return nil }
func (m memory) Delete(k storekit.Key) error            { delete(m, k); return nil }

func (m memory) Scan(kind storekit.Kind, namespace, from, to string, backwards bool) iter.Seq2[storekit.Record, error] {
	var names []string
	for k := range m {
		if k.Kind == kind && k.Namespace == namespace && k.Name >= from && (to == "" || k.Name < to) {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	if backwards {
		slices.Reverse(names)
	}
	return func(yield func(storekit.Record, error) bool) {
		for _, name := range names {
			if !yield(storekit.Record{Name: name, Value: m[storekit.Key{Kind: kind, Namespace: namespace, Name: name}]}, nil) {
				return
			}
		}
	}
}

func TestFire(t *testing.T) {
	t.Parallel()
	m := memory{}
	s, err := storekit.PutSchedule(m, &store.PutScheduleParams{Namespace: "ns", Schedule: store.Schedule{Name: "s", NextAt: now}}, now)
	require.NoError(t, err)
	id := store.NewID()
	create := func(*store.NewRun) (store.CreateResult, error) { return store.CreateResult{ID: id, Created: true}, nil }
	p := store.FireParams{Namespace: "ns", Schedule: "s", At: now, Next: now.Add(time.Hour), Run: &store.NewRun{}, Seen: s.UpdatedAt}
	_, err = storekit.Fire(m, &p, create, now.Add(-time.Second))
	require.ErrorIs(t, err, store.ErrInvalid, "it is not due")
	res, err := storekit.Fire(m, &p, create, now)
	require.NoError(t, err)
	require.Equal(t, store.FireResult{Fired: true, Made: true, Run: id}, res)
	res, err = storekit.Fire(m, &p, create, now)
	require.NoError(t, err)
	require.Equal(t, store.FireResult{Run: id}, res, "once")
	page, err := storekit.ListSchedules(m, &store.ListSchedulesParams{Namespace: "ns", Due: true}, now)
	require.NoError(t, err)
	require.Equal(t, store.SchedulePage{NextDue: now.Add(time.Hour), Later: now.Add(time.Hour), Now: now}, page)

	_, err = storekit.PutSchedule(m, &store.PutScheduleParams{Namespace: "ns", Schedule: store.Schedule{Name: "s", NextAt: now}}, now)
	require.NoError(t, err)
	p.At = now.Add(time.Minute)
	_, err = storekit.Fire(m, &p, create, p.At)
	require.ErrorIs(t, err, store.ErrConflict)
	require.NoError(t, storekit.DeleteSchedule(m, &store.DeleteScheduleParams{Namespace: "ns", Name: "s"}, now))
	require.Empty(t, m, "with all that belongs to it")
}

func TestLock(t *testing.T) {
	t.Parallel()
	m := memory{}
	take := func(owner string, d time.Duration, at time.Time) store.LockResult {
		res, err := storekit.TakeLock(m, &store.LockParams{Namespace: "ns", Name: "l", Owner: owner, For: d}, at)
		require.NoError(t, err)
		return res
	}
	require.True(t, take("a", time.Minute, now).Held)
	require.Equal(t, store.LockResult{Owner: "a", Until: now.Add(time.Minute)}, take("b", time.Minute, now))
	require.True(t, take("b", time.Minute, now.Add(time.Minute)).Held, "it has run out")
	require.False(t, take("b", 0, now).Held)
	require.Empty(t, m)
}

// broken is the Records of a database that fails.
type broken struct{ memory }

var errBroken = errors.New("the disk is gone")

func (broken) Get(storekit.Key) ([]byte, error) { return nil, errBroken }

func (broken) Scan(storekit.Kind, string, string, string, bool) iter.Seq2[storekit.Record, error] {
	return func(yield func(storekit.Record, error) bool) { yield(storekit.Record{}, errBroken) }
}

func TestErrorsOfTheDatabase(t *testing.T) {
	t.Parallel()
	b := broken{memory{}}
	_, err := storekit.ListWorkers(b, &store.ListWorkersParams{Namespace: "ns"}, nil, now)
	require.ErrorIs(t, err, errBroken)
	_, err = storekit.TakeLock(b, &store.LockParams{}, now)
	require.ErrorIs(t, err, errBroken)
	_, err = storekit.Fire(b, &store.FireParams{}, nil, now)
	require.ErrorIs(t, err, errBroken)
}
