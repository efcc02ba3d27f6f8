package model

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

const ns = "test"

// bench is a store with a clock that the test moves.
type bench struct {
	*testing.T
	*Store
	now  time.Time
	seqs map[store.Lease]int64 // of the last commit under each lease
}

func newBench(t *testing.T) *bench {
	s := New(Options{})
	t.Cleanup(func() { _ = s.Close() })
	return &bench{t, s, time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), map[store.Lease]int64{}}
}

func (b *bench) advance(d time.Duration) { b.now = b.now.Add(d) }

func (b *bench) create(n store.NewRun) store.ID {
	b.Helper()
	if n.ID.IsZero() {
		n.ID = store.NewID()
	}
	n.Workflow, n.Queue = "w", "q"
	res, err := b.Create(context.Background(), store.CreateParams{Namespace: ns, Runs: []store.NewRun{n}, Now: b.now})
	require.NoError(b, err)
	require.NoError(b, res[0].Err)
	return res[0].ID
}

func (b *bench) claim(limit int) store.Claimed {
	b.Helper()
	c, err := b.Claim(context.Background(), store.ClaimParams{
		Namespace: ns, Worker: "w1", LeaseFor: time.Minute, Now: b.now,
		Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: limit}},
	})
	require.NoError(b, err)
	return c
}

func (b *bench) claimOne() store.ClaimedRun {
	b.Helper()
	c := b.claim(1)
	require.Len(b, c.Runs, 1)
	return c.Runs[0]
}

func (b *bench) commit(c store.Commit) store.CommitResult {
	b.Helper()
	c.Seq = max(c.Seq, 1)
	res, err := b.Commit(context.Background(), store.CommitParams{Namespace: ns, Commits: []store.Commit{c}, Now: b.now})
	require.NoError(b, err)
	if res[0].Err == nil {
		b.seqs[c.Lease] = c.Seq
	}
	return res[0]
}

func (b *bench) end(l store.Lease, t store.Transition) store.CommitResult {
	b.Helper()
	res := b.commit(store.Commit{Lease: l, Seq: b.seqs[l] + 1, Seen: 99, Transition: &t})
	require.NoError(b, res.Err)
	return res
}

func (b *bench) get(id store.ID) store.Run {
	b.Helper()
	runs, err := b.Get(context.Background(), store.GetParams{Namespace: ns, IDs: []store.ID{id}})
	require.NoError(b, err)
	require.Len(b, runs, 1)
	return runs[0]
}

func (b *bench) inbox(id store.ID) store.Inbox {
	b.Helper()
	in, err := b.Inbox(context.Background(), store.InboxParams{Namespace: ns, Run: id})
	require.NoError(b, err)
	return in
}

func (b *bench) signal(sig store.NewSignal) store.SignalResult {
	b.Helper()
	res, err := b.Signal(context.Background(), store.SignalParams{Namespace: ns, Signals: []store.NewSignal{sig}, Now: b.now})
	require.NoError(b, err)
	return res[0]
}

func (b *bench) cancel(id store.ID) store.ControlResult {
	b.Helper()
	res, err := b.Cancel(context.Background(), store.CancelParams{Namespace: ns, IDs: []store.ID{id}, Reason: "why", Now: b.now})
	require.NoError(b, err)
	return res[0]
}

func (b *bench) pause(id store.ID, resume bool) store.ControlResult {
	b.Helper()
	res, err := b.Pause(context.Background(), store.PauseParams{Namespace: ns, IDs: []store.ID{id}, Resume: resume, Now: b.now})
	require.NoError(b, err)
	return res[0]
}

func child(parent store.ID, key string, ordinal int64) store.NewRun {
	return store.NewRun{ID: store.DeriveID(parent, key), Workflow: "w", Queue: "q", Group: "g", Ordinal: ordinal}
}

func TestFenced(t *testing.T) { // P2, P6
	b := newBench(t)
	id := b.create(store.NewRun{})
	old := b.claimOne()
	b.advance(time.Minute)
	assert.NoError(t, b.commit(store.Commit{Lease: old.Lease}).Err, "an expired lease commits until it is taken over")
	now := b.claimOne()
	assert.True(t, now.Recovered)
	assert.Equal(t, 1, now.Run.Crashes)
	assert.Equal(t, old.Lease.Epoch+1, now.Lease.Epoch)

	res := b.commit(store.Commit{Lease: old.Lease, Seq: 2, State: []store.StateWrite{{Key: "k"}}, Transition: &store.Transition{Kind: store.CompleteRun}})
	assert.ErrorIs(t, res.Err, store.ErrLeaseLost)
	stranger := now.Lease
	stranger.Worker = "w2"
	assert.ErrorIs(t, b.commit(store.Commit{Lease: stranger}).Err, store.ErrLeaseLost)
	states, err := b.Extend(context.Background(), store.ExtendParams{Namespace: ns, Worker: "w1", LeaseFor: time.Hour, Leases: []store.Lease{old.Lease, now.Lease}, Now: b.now})
	require.NoError(t, err)
	assert.Equal(t, []store.LeaseState{{Lost: true}, {}}, states)
	assert.Equal(t, b.now.Add(time.Hour), b.get(id).VisibleAt)
	assert.Empty(t, b.inbox(id).State)
}

func TestAllOrNothing(t *testing.T) { // P3
	b := newBench(t)
	stranger, id := b.create(store.NewRun{After: time.Hour}), b.create(store.NewRun{})
	run := b.claimOne()
	before := b.get(id)
	res := b.commit(store.Commit{
		Lease: run.Lease, State: []store.StateWrite{{Key: "k"}},
		Spawn: []store.NewRun{child(id, "a", 1), {ID: stranger, Workflow: "w", Queue: "q"}},
	})
	assert.ErrorIs(t, res.Err, store.ErrInvalid)
	assert.Equal(t, before, b.get(id))
	assert.Empty(t, b.inbox(id).Groups)
	assert.False(t, b.commit(store.Commit{Lease: run.Lease}).Repeated, "a refused commit has not used its number")
}

func TestRepeats(t *testing.T) { // P4
	b := newBench(t)
	id := b.create(store.NewRun{})
	sig := store.NewSignal{ID: store.NewID(), Run: id, Name: "s", Payload: []byte{}}
	require.NoError(t, b.signal(sig).Err)
	lease := b.claimOne().Lease
	c := store.Commit{
		Lease: lease, Seen: 1, Consumed: []store.SignalID{sig.ID}, State: []store.StateWrite{{Key: "k", Value: []byte("v")}},
		Spawn: []store.NewRun{child(id, "a", 1), child(id, "a", 1)}, Transition: &store.Transition{Kind: store.Sleep, After: time.Hour},
	}
	first := b.commit(c)
	made := store.Tally(nil, "q", "w", store.Pending, 1)
	assert.Equal(t, store.CommitResult{Status: store.Sleeping, Events: 2, VisibleAt: b.now.Add(time.Hour), Spawned: made}, first)
	after := b.inbox(id)
	assert.Equal(t, []store.Group{{Name: "g", Total: 1, Open: 1}}, after.Groups)
	assert.Empty(t, after.Signals)
	assert.Equal(t, int64(2), after.State[0].Version, "a version is the number of its event")

	b.advance(time.Second)
	again := first
	again.Repeated, again.Spawned = true, nil
	assert.Equal(t, again, b.commit(c), "also of the transition that ended the lease")
	c.Seq = 2
	assert.ErrorIs(t, b.commit(c).Err, store.ErrLeaseLost, "a new commit needs the lease")
	assert.Equal(t, store.SignalResult{Run: id}, b.signal(sig), "a consumed signal sent again")
	assert.Equal(t, after, b.inbox(id))

	assert.Equal(t, store.Canceled, b.cancel(id).Status)
	assert.NoError(t, b.signal(sig).Err, "sent again to a final run")
	sig.ID = store.NewID()
	assert.ErrorIs(t, b.signal(sig).Err, store.ErrFinished)
}

func TestWakeUps(t *testing.T) { // P5, P13
	deadline := 2 * time.Hour
	for _, tt := range []struct {
		name   string
		before bool // the signal comes between claim and sleep
		seen   int64
		sleep  store.Transition
		want   time.Duration // -1: never
	}{
		{"unseen before", true, 0, store.Transition{After: time.Hour}, 0},
		{"seen before", true, 1, store.Transition{After: time.Hour}, time.Hour},
		{"asked for", false, 0, store.Transition{After: time.Hour, Wakes: store.WakeSignal}, 0},
		{"not asked for", false, 0, store.Transition{After: time.Hour, Wakes: store.WakeState}, time.Hour},
		{"earlier of both times", true, 1, store.Transition{After: time.Hour, At: time.Date(2026, 1, 2, 3, 34, 5, 6000, time.UTC)}, 30 * time.Minute},
		{"no time", true, 1, store.Transition{}, -1},
		{"await met at once", true, 1, store.Transition{Await: []store.Await{{Group: "none"}}}, 0},
	} {
		for _, timeout := range []time.Duration{0, deadline} {
			t.Run(tt.name, func(t *testing.T) {
				b := newBench(t)
				id := b.create(store.NewRun{Timeout: timeout})
				run := b.claimOne()
				send := func() {
					require.NoError(t, b.signal(store.NewSignal{ID: store.NewID(), Run: id, Name: "s"}).Err)
				}
				if tt.before {
					send()
				}
				tt.sleep.Kind = store.Sleep
				require.NoError(t, b.commit(store.Commit{Lease: run.Lease, Seen: tt.seen, State: []store.StateWrite{{Key: "own"}}, Transition: &tt.sleep}).Err)
				if !tt.before {
					send()
				}
				got := b.get(id)
				assert.Equal(t, store.Sleeping, got.Status, "until it is claimed")
				assert.Equal(t, int64(2), got.Events)
				want := b.now.Add(tt.want)
				if tt.want < 0 {
					want = got.Deadline
				}
				assert.Equal(t, want, got.VisibleAt)
			})
		}
	}
}

func TestPause(t *testing.T) {
	b := newBench(t)
	id := b.create(store.NewRun{})
	run := b.claimOne()
	assert.Equal(t, store.Running, b.pause(id, false).Status)
	res := b.end(run.Lease, store.Transition{Kind: store.Sleep, After: time.Hour, Wakes: store.WakeSignal})
	assert.Equal(t, store.CommitResult{Status: store.Paused, VisibleAt: b.now.Add(time.Hour)}, res)
	b.advance(time.Minute)
	require.NoError(t, b.signal(store.NewSignal{ID: store.NewID(), Run: id, Name: "s"}).Err)
	assert.Equal(t, store.Claimed{Now: b.now}, b.claim(1), "neither claimed nor due")
	assert.Equal(t, store.Sleeping, b.pause(id, true).Status)
	assert.Equal(t, b.now, b.claimOne().Run.StartedAt.Add(time.Minute))
}

func (b *bench) restart(id store.ID) error {
	res, err := b.Restart(context.Background(), store.RestartParams{Namespace: ns, IDs: []store.ID{id}, Now: b.now})
	require.NoError(b, err)
	return res[0].Err
}

func TestActiveExternalID(t *testing.T) { // P8
	b := newBench(t)
	a := b.create(store.NewRun{ExternalID: "x"})
	assert.Equal(t, a, b.create(store.NewRun{ExternalID: "x"}))
	assert.NotEqual(t, a, b.create(store.NewRun{ExternalID: "x", Suffix: "2"}))
	b.cancel(a)
	second := b.create(store.NewRun{ExternalID: "x"})
	assert.NotEqual(t, a, second)
	assert.Equal(t, a, b.create(store.NewRun{ID: a, ExternalID: "x"}), "the first create sent again")
	assert.ErrorIs(t, b.restart(a), store.ErrAlreadyExists)
	b.cancel(second)
	assert.NoError(t, b.restart(a))
	found, err := b.Find(context.Background(), store.FindParams{Namespace: ns, ExternalID: "x"})
	require.NoError(t, err)
	assert.Equal(t, a, found.ID, "the active one, though made earlier")
}

func TestChildren(t *testing.T) { // P9
	b := newBench(t)
	id := b.create(store.NewRun{})
	run := b.claimOne()
	require.NoError(t, b.commit(store.Commit{
		Lease: run.Lease, Spawn: []store.NewRun{child(id, "a", 1), child(id, "b", 2), child(id, "c", 3)},
		Transition: &store.Transition{Kind: store.Sleep, Await: []store.Await{{Group: "g", Open: 1}, {Group: "g"}}},
	}).Err)
	assert.Equal(t, store.Canceled, b.cancel(store.DeriveID(id, "a")).Status)
	assert.Zero(t, b.get(id).VisibleAt, "not before")
	b.advance(time.Minute)
	woken := b.now
	kids := b.claim(2).Runs
	require.Len(t, kids, 2)
	b.end(kids[0].Lease, store.Transition{Kind: store.CompleteRun})
	b.advance(time.Minute)
	b.end(kids[1].Lease, store.Transition{Kind: store.FailRun, Failure: &store.Failure{Code: "error"}})

	parent := b.get(id)
	assert.Equal(t, store.Sleeping, parent.Status)
	assert.Equal(t, woken, parent.VisibleAt)
	assert.Equal(t, int64(1), parent.Events, "once")
	want := []store.Group{{Name: "g", Total: 3, Completed: 1, Failed: 1, Canceled: 1}}
	assert.Equal(t, want, b.inbox(id).Groups)

	require.NoError(t, b.restart(kids[1].Run.ID))
	b.cancel(kids[1].Run.ID)
	assert.Equal(t, want, b.inbox(id).Groups, "a restarted child counts no more")
}

func TestCancelTree(t *testing.T) { // P11
	b := newBench(t)
	root := b.create(store.NewRun{})
	run := b.claimOne()
	abandoned := child(root, "free", 2)
	abandoned.OnClose = store.CloseAbandon
	require.NoError(t, b.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{child(root, "a", 1), abandoned}}).Err)
	kidAlone := store.Tally(nil, "q", "w", store.Canceled, 1)
	assert.Equal(t, store.ControlResult{Status: store.Canceling, Ended: kidAlone}, b.cancel(root))
	assert.Equal(t, store.ControlResult{Status: store.Canceling}, b.cancel(root), "a repeat")
	kid := b.get(store.DeriveID(root, "a"))
	assert.Equal(t, store.Canceled, kid.Status)
	assert.Equal(t, &store.Failure{Code: store.FailureCanceled, Message: store.CanceledWithParent}, kid.Failure)
	assert.Equal(t, store.Pending, b.get(abandoned.ID).Status)

	res := b.commit(store.Commit{Lease: run.Lease, Seq: 2, Seen: 99, Transition: &store.Transition{Kind: store.Sleep, After: time.Hour}})
	assert.Equal(t, store.CommitResult{Status: store.Canceling, Events: 1, VisibleAt: b.now}, res, "it sleeps no more")
	next := b.claimOne()
	assert.Equal(t, root, next.Run.ID)
	assert.False(t, next.Recovered, "its lease was given back")
	b.end(next.Lease, store.Transition{Kind: store.CompleteRun, Output: []byte("out")})
	assert.Equal(t, store.Completed, b.get(root).Status, "a completion stands")
	assert.Equal(t, store.Pending, b.get(abandoned.ID).Status)
	assert.ErrorIs(t, b.cancel(root).Err, store.ErrFinished)

	n, err := b.Purge(context.Background(), store.PurgeParams{Namespace: ns, Now: b.now})
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Len(t, b.runs, 1)
}

func TestRetryForgets(t *testing.T) {
	b := newBench(t)
	id := b.create(store.NewRun{})
	run := b.claimOne()
	var recs []store.StepRecord
	for i, st := range []struct {
		branch, name string
		status       store.StepStatus
	}{{"", "a", store.StepCompleted}, {"x", "b", store.StepFailed}, {"y", "c", store.StepCompleted}, {"x/1", "d", store.StepRunning}, {"", "e", store.StepCompleted}} {
		recs = append(recs, store.StepRecord{StepKey: store.StepKey{Branch: st.branch, Name: st.name, Occurrence: 1}, Kind: store.KindFunction, Status: st.status, Position: int64(i + 1)})
	}
	require.NoError(t, b.commit(store.Commit{Lease: run.Lease, Steps: recs, Transition: &store.Transition{Kind: store.Retry}}).Err)
	page, err := b.Steps(context.Background(), store.StepsParams{Namespace: ns, Run: id})
	require.NoError(t, err)
	require.Len(t, page.Steps, 2)
	assert.Equal(t, "a", page.Steps[0].Name)
	assert.Equal(t, "c", page.Steps[1].Name)
}

func TestPages(t *testing.T) { // P14
	b := newBench(t)
	var ids []store.ID
	for range 7 {
		ids = append(ids, b.create(store.NewRun{}))
	}
	for _, oldest := range []bool{true, false} {
		p := store.ListParams{Namespace: ns, OldestFirst: oldest, Limit: 2}
		seen := map[store.ID]int{}
		for {
			page, err := b.List(context.Background(), p)
			require.NoError(t, err)
			for _, r := range page.Runs {
				seen[r.ID]++
			}
			b.create(store.NewRun{}) // a write between the pages
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		for _, id := range ids {
			assert.Equal(t, 1, seen[id], "oldest first: %v", oldest)
		}
		p.Filter.Workflow = "w"
		p.Cursor = b.cursor(ids[0])
		_, err := b.List(context.Background(), p)
		assert.ErrorIs(t, err, store.ErrInvalid)
	}
}

func (b *bench) cursor(id store.ID) string {
	p := store.ListParams{Namespace: ns}
	return p.NextCursor(store.RunPosition{At: b.now, ID: id})
}

func TestFire(t *testing.T) { // P10
	b := newBench(t)
	put := store.Schedule{Name: "s", Workflow: "w", Queue: "q", NextAt: b.now.Add(time.Hour)}
	_, err := b.PutSchedule(context.Background(), store.PutScheduleParams{Namespace: ns, Schedule: put, Now: b.now})
	require.NoError(t, err)
	fire := func(at time.Time) (store.FireResult, error) {
		run := &store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q"}
		return b.Fire(context.Background(), store.FireParams{Namespace: ns, Schedule: "s", At: at, Next: at.Add(time.Hour), Run: run, Now: b.now})
	}
	_, err = fire(put.NextAt)
	assert.ErrorIs(t, err, store.ErrInvalid, "too early")
	b.advance(time.Hour)
	first, err := fire(put.NextAt)
	require.NoError(t, err)
	assert.True(t, first.Fired)
	again, err := fire(put.NextAt)
	require.NoError(t, err)
	assert.Equal(t, store.FireResult{Run: first.Run}, again)
	_, err = fire(b.now.Add(-time.Minute))
	assert.ErrorIs(t, err, store.ErrConflict)
	assert.Len(t, b.runs, 1)
}

func TestClosedAndCanceled(t *testing.T) { // P16
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		hints, err := b.Hints(t.Context())
		require.NoError(t, err)
		id := b.create(store.NewRun{})
		assert.Equal(t, []store.Hint{{Kind: store.HintQueue, Namespace: ns, Queue: "q"}}, <-hints)
		b.cancel(id)
		assert.Equal(t, []store.Hint{{Kind: store.HintFinal, Namespace: ns, Run: id}}, <-hints)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = b.Get(ctx, store.GetParams{})
		assert.ErrorIs(t, err, context.Canceled)
		at, err := b.Clock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Now().UTC().Truncate(time.Microsecond), at, "the bubble's time")
		require.NoError(t, b.Close())
		_, open := <-hints
		assert.False(t, open)
		_, err = b.Clock(t.Context())
		assert.ErrorIs(t, err, store.ErrUnavailable)
	})
}
