package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// journaled returns the verbs and outcomes of the journal, oldest first.
func journaled(t *testing.T, eng *engine.Engine) (list []string) {
	t.Helper()
	page, err := eng.Actions(t.Context(), store.ListActionsParams{})
	require.NoError(t, err)
	for _, a := range page.Actions {
		list = append(list, a.Verb+": "+a.Outcome)
	}
	slices.Sort(list)
	return list
}

// TestActionsHaveOutcomes checks what each kind of call leaves in the journal.
func TestActionsHaveOutcomes(t *testing.T) {
	eng := openEngine(t, engine.Actor("ada@laptop"), engine.From("cli"), engine.Require(engine.RequireNothing))
	ctx := engine.WithFrom(t.Context(), "192.0.2.7")
	started, err := eng.Start(ctx, "wf", nil)
	require.NoError(t, err)
	id := started.ID

	require.NoError(t, eng.Pause(ctx, id))
	require.NoError(t, eng.Pause(ctx, id))
	require.NoError(t, eng.Signal(ctx, store.NewSignal{Run: id, Name: "n"}))
	_, err = eng.SetState(ctx, id, store.StateWrite{Key: "k"})
	require.NoError(t, err)
	require.NoError(t, eng.Cancel(ctx, id, "why"))
	require.NoError(t, eng.Restart(ctx, id))
	require.ErrorIs(t, eng.Restart(ctx, id), store.ErrConflict)
	require.ErrorIs(t, eng.Unpin(ctx, id), store.ErrConflict)
	require.ErrorIs(t, eng.ForceCancel(ctx, store.NewID(), ""), store.ErrNotFound)
	_, err = eng.Fork(ctx, id)
	require.NoError(t, err)
	require.NoError(t, eng.PauseQueue(ctx, "mail"))
	require.NoError(t, eng.SetLimit(ctx, "l", store.LimitRule{Concurrency: 1}))
	require.ErrorIs(t, eng.UnsetLimit(ctx, "none"), store.ErrNotFound)
	require.NoError(t, eng.SetWeight(ctx, "l", "k", 2))
	require.ErrorIs(t, eng.DeleteSchedule(ctx, "none"), store.ErrNotFound)
	_, err = eng.Subscribe(ctx, store.Subscription{Name: "w"})
	require.NoError(t, err)
	require.NoError(t, eng.Unsubscribe(ctx, "w"))
	_, err = eng.Purge(ctx, engine.PurgeFilter{})
	require.NoError(t, err)
	require.Equal(t, []string{
		"cancel: done", "delete: done", "delete: refused: not found", "forced cancel: refused: not found", "fork: done", "pause: done", "pause: done", "pause: no change",
		"purge: no change", "put: done", "restart: done", "restart: refused: conflict", "set state: done", "set: done", "signal: done",
		"unpin: refused: conflict", "unset: refused: not found", "weight: done",
	}, journaled(t, eng))

	page, err := eng.Actions(ctx, store.ListActionsParams{Run: id})
	require.NoError(t, err)
	for _, a := range page.Actions {
		require.Equal(t, "ada@laptop", a.Actor)
		require.Equal(t, "192.0.2.7", a.From)
	}
	require.NoError(t, eng.PauseQueue(t.Context(), "cli"))
	page, err = eng.Actions(ctx, store.ListActionsParams{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "cli", page.Actions[0].From)
}

// TestBulkActionsHaveOutcomes checks that each run of a bulk action has a record.
func TestBulkActionsHaveOutcomes(t *testing.T) {
	eng := openEngine(t, engine.Actor("ada@laptop"), engine.Require(engine.RequireNothing))
	for range 3 {
		_, err := eng.Start(t.Context(), "wf", nil)
		require.NoError(t, err)
	}
	done, err := eng.CancelMany(t.Context(), store.RunFilter{Workflow: "wf"}, "why")
	require.NoError(t, err)
	require.EqualValues(t, 3, done.Done)
	_, err = eng.CancelMany(t.Context(), store.RunFilter{Workflow: "wf", Statuses: []store.Status{store.Canceled}}, "why")
	require.NoError(t, err)
	require.Equal(t, []string{"cancel: done", "cancel: done", "cancel: done", "cancel: no change", "cancel: no change", "cancel: no change"}, journaled(t, eng))
}

// recordless counts the calls of a store's journal, and the Records of cancels.
type recordless struct {
	store.Store
	store.Journal
	calls int
}

func (s *recordless) Record(ctx context.Context, p store.RecordParams) error {
	s.calls++
	return s.Journal.Record(ctx, p)
}

func (s *recordless) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	s.calls += len(p.Record)
	return s.Store.Cancel(ctx, p)
}

// TestWithoutActorNothingIsRecorded checks that nobody pays for a journal without an actor, and that a call
// with one is one write.
func TestWithoutActorNothingIsRecorded(t *testing.T) {
	st := openEngine(t).Store()
	s := &recordless{Store: st, Journal: st.(store.Journal)}
	eng := engine.New(s, engine.Require(engine.RequireNothing))
	t.Cleanup(eng.Close)
	for range 2 {
		started, err := eng.Start(t.Context(), "wf", nil)
		require.NoError(t, err)
		require.NoError(t, eng.Cancel(t.Context(), started.ID, ""))
	}
	require.Zero(t, s.calls)

	ctx := engine.WithActor(t.Context(), "ada@laptop")
	for range 3 {
		started, err := eng.Start(ctx, "wf", nil)
		require.NoError(t, err)
		require.NoError(t, eng.Cancel(ctx, started.ID, ""))
	}
	require.Equal(t, 3+1, s.calls, "one action each, and once a call that deletes old ones")
}
