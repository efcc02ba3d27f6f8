package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/store"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	var paths sync.Map // of each store
	conformance.Run(t, conformance.Harness{
		New: func(t testing.TB) store.Store {
			path := filepath.Join(t.TempDir(), "pawl.db")
			s := open(t, path)
			paths.Store(s, path)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			path, _ := paths.Load(s)
			return open(t, path.(string))
		},
	})
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Harness{
		New: func(t testing.TB) store.Store { return open(t, ":memory:") },
	})
}
