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
			path := migrated(t)
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

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, withFaults())
}

// On a file, where every process has a handle of its own, times are scaled down and really pass.
func TestEngine(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inFile())
}

func TestLinearizable(t *testing.T) { conformance.RunLinearizable(t, inFile()) }
