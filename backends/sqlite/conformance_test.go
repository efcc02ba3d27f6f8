package sqlite_test

import (
	"sync"
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/store"
)

// inFile opens stores in files, and further handles to them.
func inFile() conformance.Harness {
	var paths sync.Map // of each store
	return conformance.Harness{
		New: func(t testing.TB) store.Store {
			path := file(t)
			s := open(t, path)
			paths.Store(s, path)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			path, _ := paths.Load(s)
			return open(t, path.(string))
		},
		Rewind: func(t testing.TB, s store.Store) func() {
			path, _ := paths.Load(s)
			return rewind(t, path.(string))
		},
	}
}

// inMemory opens stores of one handle each, which work in a bubble.
func inMemory() conformance.Harness {
	return conformance.Harness{
		New:    func(t testing.TB) store.Store { return open(t, ":memory:") },
		Bubble: true,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, inFile())
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	conformance.Run(t, inMemory())
}

// In memory hours pass in no time; on a file, where every process has a handle of
// its own, they are scaled down and really pass.
func TestEngine(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inFile())
}

func TestEngineInMemory(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inMemory())
}

func TestRandom(t *testing.T) {
	t.Parallel()
	conformance.RunRandom(t, inFile())
}

func TestRandomInMemory(t *testing.T) { conformance.RunRandom(t, inMemory()) }

func TestLinearizable(t *testing.T) { conformance.RunLinearizable(t, inFile()) }
