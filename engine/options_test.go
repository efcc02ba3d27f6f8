package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Zero values of options mean the default.
func TestZeroOptions(t *testing.T) {
	st, err := sqlite.Open(t.Context(), ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	eng := engine.New(st, engine.RetryFor(-1), engine.Logger(nil), engine.PayloadCodec(nil), engine.Require(engine.RequireNothing))
	defer eng.Close()
	started, err := eng.Start(t.Context(), "greet", []byte(`"you"`))
	require.NoError(t, err)
	run, err := eng.Get(t.Context(), started.ID)
	require.NoError(t, err)
	require.Equal(t, store.Pending, run.Status)
	require.NotNil(t, eng.Logger())
	require.IsType(t, engine.JSON{}, eng.Codec())
}

func TestUpcomingOfNone(t *testing.T) {
	times, err := engine.Upcoming("@daily", "UTC", store.Schedule{}.NextAt, -1)
	require.NoError(t, err)
	require.Empty(t, times)
}
