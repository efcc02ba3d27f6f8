package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/store"
)

func TestRandom(t *testing.T) {
	conformance.RunRandom(t, inFile())
}

func TestRandomInMemory(t *testing.T) {
	conformance.RunRandom(t, conformance.Harness{
		New: func(t testing.TB) store.Store { return open(t, ":memory:") },
	})
}

func TestLinearizable(t *testing.T) {
	conformance.RunLinearizable(t, inFile())
}

// inFile opens stores in files, and further handles to them.
func inFile() conformance.Harness {
	var paths sync.Map // of each store
	return conformance.Harness{
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
	}
}
