package turso_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// onReplica opens stores on a replica, and further handles to them on its primary.
func onReplica(t *testing.T) conformance.Harness {
	primary := sqldtest.Start(t)
	replica := sqldtest.Start(t, sqldtest.ReplicaOf(primary))
	var urls sync.Map
	databases := primary.Reuse(t, "goose_db_version", "compatibility")
	return conformance.Harness{
		Unmeasured: "TestConformance measures",
		New: func(t testing.TB) store.Store {
			url := databases.Next(t)
			s := open(t, replica, url)
			urls.Store(s, url)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			url, _ := urls.Load(s)
			return open(t, primary, url.(string))
		},
	}
}

// TestReplicaIsNotAsked reads through the replica, immediately, what was written on the primary.
func TestReplicaIsNotAsked(t *testing.T) {
	t.Parallel()
	h := onReplica(t)
	near := h.New(t)
	far := h.Reopen(t, near)
	for range 50 {
		run := newRun(10)
		_, err := far.Create(t.Context(), store.CreateParams{Namespace: ns, Runs: []store.NewRun{run}})
		require.NoError(t, err)
		runs, err := near.Get(t.Context(), store.GetParams{Namespace: ns, IDs: []store.ID{run.ID}})
		require.NoError(t, err)
		require.Len(t, runs, 1, "a stale read")
		near.(*turso.Store).Expect()
		require.Len(t, claim(t, near, 1).Runs, 1, "a stale claim")
		require.Empty(t, claim(t, near, 1).Runs)
	}
}
