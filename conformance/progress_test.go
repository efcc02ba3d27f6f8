package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/report"
	"github.com/pawlhq/pawl/conformance/internal/suitetest"
	"github.com/pawlhq/pawl/store"
)

// begunStore is a backend as the guide has it after its second step: it creates, gets and
// claims runs.
type begunStore struct {
	Unwritten
	model *model.Store
}

func newBegun(testing.TB) store.Store { return begunStore{model: model.New(model.Options{})} }

func (s begunStore) Features() store.Features {
	return store.Features{Name: "begun", Contract: 2, Durability: store.Volatile}
}
func (s begunStore) Limits() store.Limits                         { return s.model.Limits() }
func (s begunStore) Clock(ctx context.Context) (time.Time, error) { return s.model.Clock(ctx) }
func (s begunStore) Close() error                                 { return s.model.Close() }

func (s begunStore) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	return s.model.Create(ctx, p)
}

func (s begunStore) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return s.model.Get(ctx, p)
}

func (s begunStore) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return s.model.Claim(ctx, p)
}

// Every tier works on a backend that is being written: nothing fails, and the cases that
// need what is not there wait for it by name.
func TestProgress(t *testing.T) {
	h := Harness{New: newBegun, Progress: true, Bubble: true}
	t.Run("store", func(t *testing.T) { Run(t, h) })
	t.Run("random", func(t *testing.T) { RunRandom(t, h) })
	t.Run("linearizable", func(t *testing.T) { RunLinearizable(t, h) })
	t.Run("engine", func(t *testing.T) { RunEngine(t, h) })
	t.Run("simulation", func(t *testing.T) { RunSimulation(t, h) })

	in := reported(t, "TestProgress/store")
	require.Equal(t, in.Cases.Passed+in.Cases.LeftOut+in.Cases.Waiting, len(Cases()), "cases that passed, are left out or wait")
	require.Greater(t, in.Cases.Passed, 30, "some cases need nothing but Create, Get and Claim")
	require.NotContains(t, in.Waiting, "claim/fifo", "a case that needs nothing else")
	verbs := map[string]int{}
	for name, list := range in.Waiting {
		require.NotEmpty(t, list, name)
		for _, v := range list {
			verbs[v]++
		}
	}
	require.Greater(t, verbs["Commit"], 50, "cases that wait for Commit")
	for _, v := range []string{"Create", "Get", "Claim"} {
		require.NotContains(t, verbs, v, "a verb that is written")
	}
	require.Equal(t, []string{"Record"}, in.Waiting["journal/repeat"], "an interface that the backend leaves out")
	require.Contains(t, reported(t, "TestProgress/random").Waiting["random"], "Commit")
	require.NotContains(t, reported(t, "TestProgress/random").Waiting["random"], "Claim")
	require.Zero(t, reported(t, "TestProgress/random").Cases.Failed)
	require.Contains(t, reported(t, "TestProgress/linearizable").Waiting["linearizable"], "Commit")
	require.Contains(t, reported(t, "TestProgress/simulation").Waiting["simulation"], "Commit")
	engine := reported(t, "TestProgress/engine")
	require.Equal(t, len(EngineCases()), engine.Cases.LeftOut+engine.Cases.Waiting)
	require.Empty(t, harness.UnwrittenVerbs(t.Context(), suitetest.NewModel(t)), "verbs of the model that are not written")
	require.False(t, in.Passed, "a tier in which cases wait has not passed")
}

// reported is the report of the tier that a test ran.
func reported(t *testing.T, test string) report.TierReport {
	t.Helper()
	r, ok := report.Of(test)
	if !ok {
		t.Fatalf("no report of %s", test)
	}
	return r
}
