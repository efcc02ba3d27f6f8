package sqlite_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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
		Restart: func(t testing.TB, s store.Store) store.Store {
			path, _ := paths.Load(s)
			require.NoError(t, s.Close())
			again := open(t, path.(string))
			paths.Store(again, path)
			return again
		},
		Unmeasured: "TestConformanceInMemory measures, by the same statements",
	}
}

// inMemory opens stores of one handle each, which work in a bubble.
func inMemory() conformance.Harness {
	return conformance.Harness{
		New:    func(t testing.TB) store.Store { return open(t, ":memory:") },
		Bubble: true,
		Meter:  metered,
	}
}

// metered opens a store in memory that counts the pages that it reads.
func metered(t testing.TB) conformance.Meter {
	s := open(t, ":memory:")
	return conformance.Meter{Store: s, Reads: func() int64 { return s.PagesRead(t) }}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, withFaults())
}

// In memory, simulated time passes instantly. On a file, where every process has a handle of its
// own, times are scaled down and really pass.
func TestEngine(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inFile())
}

func TestEngineInMemory(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inMemory())
}

func TestLinearizable(t *testing.T) { conformance.RunLinearizable(t, inFile()) }
