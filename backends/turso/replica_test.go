package turso_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// onReplica opens stores on a replica, and further handles to them on its primary.
func onReplica(t *testing.T) conformance.Harness {
	primary := sqldtest.Start(t)
	replica := sqldtest.Start(t, sqldtest.ReplicaOf(primary))
	var urls sync.Map
	return conformance.Harness{
		New: func(t testing.TB) store.Store {
			url := primary.Namespace(t)
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

// A store on a replica never answers from what the replica has not heard yet.
func TestReplica(t *testing.T) {
	t.Parallel()
	h := onReplica(t)
	h.Exceptions = map[string]string{
		"payload/at-the-limit": "it commits five payloads of 2 MB at once, and a replica passes on no more than 4 MB to its primary",
		"payload/large-commit": "it is one commit of 6 MB, and a replica passes on no more than 4 MB to its primary",
	}
	conformance.Run(t, h)
}

// TestReplicaIsNotAsked reads on the replica at once what was written on the
// primary.
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
