package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/store"
)

// In memory, in a bubble: hours pass in no time.
func TestEngineInMemory(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, conformance.Harness{
		New:    func(t testing.TB) store.Store { return open(t, ":memory:") },
		Bubble: true,
	})
}

// On a file, where every process has a handle of its own and time passes.
func TestEngineOnFile(t *testing.T) {
	t.Parallel()
	var paths sync.Map // of each store
	conformance.RunEngine(t, conformance.Harness{
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
