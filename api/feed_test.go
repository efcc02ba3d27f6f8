package api

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// counting counts the reads of a store that gives no hints.
type counting struct {
	store.Store
	reads  atomic.Int64
	capped bool // counts are said to be lower bounds
}

func (c *counting) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	c.reads.Add(1)
	return c.Store.List(ctx, p)
}

func (c *counting) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	c.reads.Add(1)
	return c.Store.Get(ctx, p)
}

func (c *counting) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	c.reads.Add(1)
	counts, err := c.Store.Count(ctx, p)
	for i := range counts {
		counts[i].Capped = counts[i].Capped || c.capped
	}
	return counts, err
}

func (c *counting) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	c.reads.Add(1)
	return c.Store.Steps(ctx, p)
}

func newCounted(t *testing.T) (*counting, *engine.Engine) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), t.TempDir()+"/feed.db")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	c := &counting{Store: st}
	eng := engine.New(c, engine.Require(engine.RequireNothing))
	t.Cleanup(eng.Close)
	return c, eng
}

// TestTwoHundredViewersCostAsMuchAsOne counts what a look of the feed reads: two pages, one batch of the active
// runs and, if somebody follows a run, its steps, however many viewers there are.
func TestTwoHundredViewersCostAsMuchAsOne(t *testing.T) {
	c, eng := newCounted(t)
	started, err := eng.Start(t.Context(), "ship", []byte(`{}`))
	require.NoError(t, err)
	perLook := func(viewers int) int64 {
		f := newFeed(eng, time.Hour)
		m := memory{runs: map[store.ID]seen{}, steps: map[store.ID]*walk{}}
		for range viewers {
			for _, v := range []*viewer{{}, {run: started.ID, steps: true}} {
				v.events = make(chan update, feedPending)
				f.viewers[v] = struct{}{}
			}
		}
		require.NoError(t, f.glance(t.Context(), &m))
		before := c.reads.Load()
		const looks = 5
		for range looks {
			require.NoError(t, f.glance(t.Context(), &m))
		}
		return (c.reads.Load() - before) / looks
	}
	one, many := perLook(1), perLook(200)
	require.Equal(t, one, many)
	require.EqualValues(t, 4, one)
}

// TestFeedRestsWithoutViewers checks that nothing is read when nobody looks.
func TestFeedRestsWithoutViewers(t *testing.T) {
	_, eng := newCounted(t)
	f := newFeed(eng, time.Millisecond)
	v := &viewer{}
	f.add(v)
	f.remove(v)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Nil(t, f.stop)
	require.Empty(t, f.viewers)
}

// TestASlowViewerIsToldToReadAgain checks that events that were dropped are not missed silently.
func TestASlowViewerIsToldToReadAgain(t *testing.T) {
	_, eng := newCounted(t)
	f := newFeed(eng, time.Hour)
	v := &viewer{events: make(chan update, 2)}
	f.viewers[v] = struct{}{}
	for range 5 {
		tell(f, []*viewer{v}, update{run: &store.Run{}})
	}
	<-v.events
	<-v.events
	tell(f, []*viewer{v}, update{run: &store.Run{}})
	require.True(t, (<-v.events).reset)
	require.NotNil(t, (<-v.events).run)
}

// TestFeedFollowsABoundedNumberOfRuns checks that runs that do not end do not add up.
func TestFeedFollowsABoundedNumberOfRuns(t *testing.T) {
	_, eng := newCounted(t)
	f := newFeed(eng, time.Hour)
	v := &viewer{events: make(chan update, 1)}
	f.viewers[v] = struct{}{}
	m := memory{runs: map[store.ID]seen{}, steps: map[store.ID]*walk{}}
	for range 8 {
		_, err := eng.StartMany(t.Context(), "ship", make([]engine.Item, feedPage))
		require.NoError(t, err)
		require.NoError(t, f.glance(t.Context(), &m))
	}
	require.LessOrEqual(t, len(m.runs), feedTracked+feedPage)
	require.GreaterOrEqual(t, len(m.runs), feedTracked)
}

// TestViewersShareTheCountsOfATree checks that the descendants of a run are counted once for all who follow the
// run, that a later viewer gets the last counts, and that nothing is counted when the last one has left.
func TestViewersShareTheCountsOfATree(t *testing.T) {
	c, eng := newCounted(t)
	made, err := c.Create(t.Context(), store.CreateParams{Namespace: eng.Namespace(), Runs: []store.NewRun{{
		ID: store.NewID(), Workflow: "ship", Queue: "ship", Worker: "w", LeaseFor: time.Hour,
	}}})
	require.NoError(t, err)
	child := store.NewRun{ID: store.NewID(), Workflow: "pack", Queue: "pack", Group: "g", Ordinal: 1}
	res, err := c.Commit(t.Context(), store.CommitParams{Namespace: eng.Namespace(), Commits: []store.Commit{{Lease: made[0].Lease, Seq: 1, Spawn: []store.NewRun{child}}}})
	require.NoError(t, err)
	require.NoError(t, res[0].Err)

	f := newFeed(eng, time.Hour)
	counts := func(v *viewer) *engine.Progress {
		for u := range v.events {
			if u.tree != nil {
				return u.tree
			}
		}
		return nil
	}
	var viewers []*viewer
	for range 200 {
		v := &viewer{run: made[0].Lease.Run, steps: true}
		f.add(v)
		viewers = append(viewers, v)
	}
	require.Len(t, f.trees, 1)
	for _, v := range viewers {
		require.EqualValues(t, 1, counts(v).Open)
	}
	late := &viewer{run: made[0].Lease.Run, steps: true}
	f.add(late)
	require.EqualValues(t, 1, counts(late).Total)
	for _, v := range append(viewers, late) {
		f.remove(v)
	}
	require.Empty(t, f.trees)
}
