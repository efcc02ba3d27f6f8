package upgrade_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/upgrade"
	"github.com/pawlhq/pawl/internal/testing/upgrade/flows"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// ends are the outcomes of the fixture's runs, by their external ids.
var ends = map[string]struct {
	status store.Status
	output string
}{
	"completed": {store.Completed, `"approved asked, approved by anne, approved done"`},
	"failed":    {store.Failed, ""},
	"canceled":  {store.Canceled, ""},
	"canceling": {store.Canceled, ""},
	"running":   {store.Completed, `"running begun"`},
	"sleeping":  {store.Completed, `"sleeping charged, sleeping shipped"`},
	"parent":    {store.Completed, `"[a made b made c made]"`},
	"waiting":   {store.Completed, `"waiting asked, approved by carl, waiting done"`},
	"paused":    {store.Completed, `"paused asked, approved by bert, paused done"`},
	"pending":   {store.Completed, `"pending charged, pending shipped"`},
}

// again are the steps that this program executes: those that the old one had not
// recorded. A step that it had begun is executed again.
var again = []string{
	"blocked/running/hang", "order/sleeping/shipped", "order/pending/charged", "order/pending/shipped", "approval/waiting/done", "approval/paused/done",
}

// recorded are the steps that the old program had recorded.
var recorded = []string{
	"approval/approved/asked", "approval/approved/done", "blocked/running/begun", "blocked/canceling/begun", "order/sleeping/charged",
	"item/a/made", "item/b/made", "item/c/made", "approval/waiting/asked", "approval/paused/asked",
}

// TestUpgrade: runs that the program of commit 5e1c7c8 made end as they should after an
// upgrade from each version, and nothing of them is lost.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, b := range upgrade.Backends() {
		for _, version := range b.Versions(t) {
			t.Run(fmt.Sprintf("%s/from-%d", b.Name, version), func(t *testing.T) {
				t.Parallel()
				place := b.At(t, version, true)
				schema, err := place.Schema(t.Context())
				require.NoError(t, err)
				require.Equal(t, version, schema.Version)
				finish(t, place)
			})
		}
	}
}

// TestOlderProgramWorks: when a newer program has expanded the schema, and not raised the minimum,
// a program of this version that runs works on, and one that starts works, too.
func TestOlderProgramWorks(t *testing.T) {
	t.Parallel()
	for _, b := range upgrade.Backends() {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			versions := b.Versions(t)
			place := b.At(t, versions[len(versions)-1], true)
			st, err := place.Open(ctx)
			require.NoError(t, err)
			defer func() { require.NoError(t, st.Close()) }()
			was, err := place.Schema(ctx)
			require.NoError(t, err)
			eng := engine.New(st, engine.Namespace("running"), engine.Require(engine.RequireNothing))
			defer eng.Close()
			twice := workflow.New("twice", func(ctx workflow.Context, n int) (int, error) {
				return workflow.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
			})
			w := worker.New(eng)
			require.NoError(t, w.Register(twice))
			running, end := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- w.Run(running) }()
			for i := range 4 {
				if i == 2 {
					place.Newer(t)
				}
				h, err := twice.Start(ctx, eng, i)
				require.NoError(t, err)
				n, err := h.Result(ctx)
				require.NoError(t, err)
				require.Equal(t, 2*i, n)
			}
			end()
			require.NoError(t, <-done)
			schema, err := place.Schema(ctx)
			require.NoError(t, err)
			require.Equal(t, was.Version+1, schema.Version)
			require.True(t, schema.Usable())
			finish(t, place) // as a program that starts
		})
	}
}

// finish opens the database, executes all of the fixture's runs to their ends, and checks
// them.
func finish(t *testing.T, place upgrade.Place) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	st, err := place.Open(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	eng := engine.New(st)
	defer eng.Close()
	f := flows.New(0)
	stop := work(t, eng, f)
	defer stop()

	find := func(id string) store.Run {
		run, err := eng.Find(ctx, id)
		require.NoError(t, err, id)
		return run
	}
	require.Equal(t, store.Paused, find("paused").Status)
	require.NoError(t, eng.Resume(ctx, find("paused").ID))
	require.NoError(t, eng.ResumeWorkflow(ctx, "order"))
	require.NoError(t, flows.Go.Send(ctx, eng, find("waiting").ID, "carl"))
	for id, want := range ends {
		end, err := eng.Wait(ctx, find(id).ID)
		require.NoError(t, err, id)
		require.Equal(t, want.status, end.Status, id)
		require.Equal(t, want.output, string(end.Output), id)
	}
	for _, step := range again {
		require.Equal(t, 1, f.Made.Of(step), step)
	}
	for _, step := range recorded {
		require.Zero(t, f.Made.Of(step), "%s was recorded before the upgrade", step)
	}
	failed := find("failed")
	require.Contains(t, failed.Failure.Message, "it is broken: faulty")
	state, err := eng.GetState(ctx, find("sleeping").ID, "count")
	require.NoError(t, err)
	require.Equal(t, "7", string(state[0].Value))
	schedule, err := eng.Schedule(ctx, "nightly")
	require.NoError(t, err)
	require.Equal(t, "0 3 * * *", schedule.Spec)
	counts, err := eng.Count(ctx, store.RunFilter{})
	require.NoError(t, err)
	byStatus := map[store.Status]int64{}
	for _, c := range counts {
		byStatus[c.Status] += c.Count
	}
	require.Equal(t, map[store.Status]int64{store.Completed: 7 + 3, store.Failed: 1, store.Canceled: 2}, byStatus, "ten runs and three children")
}

// work runs a worker until the returned function is called.
func work(t *testing.T, eng *engine.Engine, f *flows.Flows) (stop func()) {
	w := worker.New(eng, worker.Lease(5*time.Second))
	require.NoError(t, w.Register(f.All()...))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// TestSchemaIsTheSame: opening a database without tables, and an upgrade from each version,
// lead to what the files say.
func TestSchemaIsTheSame(t *testing.T) {
	t.Parallel()
	for _, b := range upgrade.Backends() {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			versions := b.Versions(t)
			want := b.At(t, versions[len(versions)-1], false).Objects(t)
			require.NotEmpty(t, want)
			for _, version := range append([]int64{0}, versions...) {
				for _, runs := range []bool{false, true} {
					if version == 0 && runs {
						continue
					}
					place := b.At(t, version, runs)
					st, err := place.Open(t.Context())
					require.NoError(t, err)
					require.NoError(t, st.Close())
					require.Equal(t, want, place.Objects(t), "from version %d, with runs: %v", version, runs)
				}
			}
		})
	}
}
