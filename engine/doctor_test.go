package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func openEngine(t *testing.T, opts ...engine.Option) *engine.Engine {
	t.Helper()
	st, err := sqlite.Open(t.Context(), t.TempDir()+"/engine.db")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	eng := engine.New(st, opts...)
	t.Cleanup(eng.Close)
	return eng
}

// TestDoctorFindsRunsWithoutAWorker checks that a fault is found, and that the checks end with what cannot be done.
func TestDoctorFindsRunsWithoutAWorker(t *testing.T) {
	eng := openEngine(t, engine.Require(engine.RequireNothing))
	level := func() store.Level {
		list, err := eng.Doctor(t.Context(), nil)
		require.NoError(t, err)
		i := slices.IndexFunc(list, func(f store.Finding) bool { return f.Name == "workers" })
		require.GreaterOrEqual(t, i, 0)
		return list[i].Level
	}
	require.Equal(t, store.Fine, level())
	_, err := eng.Start(t.Context(), "ship", nil)
	require.NoError(t, err)
	require.Equal(t, store.Fault, level())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = eng.Doctor(ctx, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// TestTheActorOfTheContextIsRecorded checks that it takes precedence over the engine's own, and that an empty name changes nothing.
func TestTheActorOfTheContextIsRecorded(t *testing.T) {
	eng := openEngine(t, engine.Actor("server"))
	require.NoError(t, eng.PauseQueue(engine.WithActor(t.Context(), "ada@laptop"), "mail"))
	require.NoError(t, eng.ResumeQueue(engine.WithActor(t.Context(), ""), "mail"))
	page, err := eng.Actions(t.Context(), store.ListActionsParams{})
	require.NoError(t, err)
	require.Len(t, page.Actions, 2)
	require.Equal(t, "server", page.Actions[0].Actor)
	require.Equal(t, "ada@laptop", page.Actions[1].Actor)
}
