package sqlkit

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/store"
)

func TestTextPutsNumbersInThePlaceOfNames(t *testing.T) {
	for template, want := range map[string]string{
		`status<{final} OR reuse={reuseNever}`: `status<6 OR reuse=1`,
		`status IN ({sleeping},{paused})`:      `status IN (3,4)`,
		`parts & ~{partEnded} | {partSteps}`:   `parts & ~64 | 1`,
		`parts & {partsToReplay} <> 0`:         `parts & 15 <> 0`,
		`'{}'::bigint[]`:                       `'{}'::bigint[]`,
		`'{"a": 1}'`:                           `'{"a": 1}'`,
		`no names`:                             `no names`,
	} {
		assert.Equal(t, want, Text(template), template)
		assert.Equal(t, want, Text(Text(template)), "a text that is expanded already")
	}
	assert.PanicsWithValue(t, "sqlkit: a statement has the unknown name {ended}", func() { Text(`status={ended}`) })
}

func TestPlanOfACommit(t *testing.T) {
	at := time.UnixMicro(5)
	why := &store.Failure{Code: "error", Message: "no"}
	steps, writes := make([]store.StepRecord, 1), make([]store.StateWrite, 1)
	pin := &store.Pin{Build: "v1", Step: "a"}
	var none int64
	children := []store.NewRun{{}, {Group: "g"}}
	for name, c := range map[string]struct {
		commit store.Commit
		want   Plan
	}{
		"steps": {store.Commit{Steps: steps}, Plan{Status: store.Running, Parts: PartsOfStep}},
		"all": {store.Commit{Steps: steps, State: writes, Spawn: children},
			Plan{Status: store.Running, Parts: PartsOfStep | PartState | PartChildren | PartGroups}},
		"complete": {store.Commit{Transition: &store.Transition{Kind: store.CompleteRun, Output: []byte("1")}},
			Plan{Status: store.Completed, Parts: PartEnded, Output: []byte("1")}},
		"fail": {store.Commit{Steps: steps, Transition: &store.Transition{Kind: store.FailRun, Failure: why}},
			Plan{Status: store.Failed, Parts: PartsOfStep | PartEnded, Failure: FailureText(why)}},
		"cancel": {store.Commit{Transition: &store.Transition{Kind: store.CancelRun}},
			Plan{Status: store.Canceled, Parts: PartEnded, Cancel: true}},
		"sleep": {store.Commit{Seen: 7, Transition: &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal, Await: make([]store.Await, 1), After: time.Second, At: at}},
			Plan{Status: store.Sleeping, Seen: 7, Wakes: int64(store.WakeSignal) | WakeChildren, After: time.Second, At: at}},
		"sleep without a time": {store.Commit{Transition: &store.Transition{Kind: store.Sleep}}, Plan{Status: store.Sleeping}},
		"retry": {store.Commit{Transition: &store.Transition{Kind: store.Retry, Failure: why, After: time.Second}},
			Plan{Status: store.Pending, Retry: true, Failure: FailureText(why), After: time.Second}},
		"release at once": {store.Commit{Transition: &store.Transition{Kind: store.Release}}, Plan{Status: store.Pending, Release: true, Now: true}},
		"release till then": {store.Commit{Transition: &store.Transition{Kind: store.Release, At: at}},
			Plan{Status: store.Pending, Release: true, At: at}},
		"continue": {store.Commit{Steps: steps, State: writes, Spawn: children, Transition: &store.Transition{Kind: store.Continue}},
			Plan{Status: store.Pending, Parts: PartState | PartChildren, Keep: ^(PartsOfStep | PartGroups), Now: true}},
		"give back": {store.Commit{Pin: pin, Transition: &store.Transition{Kind: store.GiveBack}},
			Plan{Status: store.Pending, Release: true, Now: true, Pin: &pin.Build, Pinned: PinText(pin)}},
	} {
		if c.want.Keep == 0 {
			c.want.Keep = -1
		}
		if tr := c.commit.Transition; tr == nil || tr.Kind != store.GiveBack {
			c.want.Crashes = &none
		}
		if tr := c.commit.Transition; tr == nil || tr.Kind != store.Sleep {
			c.want.Seen = math.MaxInt64
		}
		assert.Equal(t, c.want, PlanOf(&c.commit), name)
	}
}

// A commit that was not applied was either applied before, comes too early, or has lost its lease.
func TestFateOfACommit(t *testing.T) {
	c := store.Commit{Lease: store.Lease{Run: store.ID{1}, Worker: "w", Epoch: 3}, Seq: 5}
	row := func(epoch, seq int64, worker string, leased bool) store.CommitResult {
		return Fate{CommitResult: store.CommitResult{Status: store.Running, VisibleAt: time.UnixMicro(9)}, Epoch: epoch, Seq: seq, Worker: worker, Leased: leased}.Of(&c)
	}
	require.Equal(t, store.CommitResult{Status: store.Running, Repeated: true}, row(3, 5, "w", true), "the lease's end is nobody's to see")
	require.Equal(t, store.CommitResult{Status: store.Running, Repeated: true, VisibleAt: time.UnixMicro(9)}, row(3, 6, "w", false))
	for name, res := range map[string]store.CommitResult{
		"taken over": row(4, 5, "w", true), "of another": row(3, 5, "v", true), "ended": row(3, 4, "w", false), "gap": row(3, 3, "w", true),
	} {
		require.ErrorIs(t, res.Err, store.ErrLeaseLost, name)
		require.False(t, res.Repeated, name)
	}
}

func TestAwaitsOfOneGroupAreTheEasiest(t *testing.T) {
	got := Awaits([]store.Await{{Group: "a", Open: 1}, {Group: "b"}, {Group: "a", Open: 3, Failures: 4}, {Group: "a", Failures: 2}, {Group: "a"}})
	assert.Equal(t, []store.Await{{Group: "a", Open: 3, Failures: 2}, {Group: "b"}}, got)
}

func TestALaneCountsForTheFirstDemand(t *testing.T) {
	got := Lanes(&store.ClaimParams{Demands: []store.Demand{
		{Queue: "q", Workflows: []string{"a", "b"}, Max: 1}, {Queue: "q", Workflows: []string{"b", "c"}, Max: 2},
	}})
	assert.Equal(t, []Lane{{0, "q", "a", 1, ""}, {0, "q", "b", 1, ""}, {1, "q", "c", 2, ""}}, got)
}

func TestFailuresComeBackAsTheyWereStored(t *testing.T) {
	for _, f := range []*store.Failure{nil, {Code: "c"}, {Code: "c", Message: "m", Details: []byte{}, Permanent: true}} {
		for _, earlier := range [][]store.FailedAttempt{nil, {{Attempt: 1, StartedAt: time.UnixMicro(3).UTC(), Code: "c", Message: "m"}}} {
			var got store.Step
			var column any
			if text := StepFailureText(f, earlier); text != "" {
				column = text
			}
			require.NoError(t, StepFailure(&got).Scan(column))
			assert.Equal(t, store.Step{Failure: f, Earlier: earlier}, got)
		}
	}
}
