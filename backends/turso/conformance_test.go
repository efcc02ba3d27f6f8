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

func TestMain(m *testing.M) { sqldtest.Run(m) }

func open(t testing.TB, s *sqldtest.Server, url string, opts ...turso.Option) *turso.Store {
	t.Helper()
	st, err := turso.Open(t.Context(), url, append([]turso.Option{turso.WithDialer(s.Dial)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// inNamespace opens stores in databases of their own, and further handles to
// them.
func inNamespace() conformance.Harness {
	var urls sync.Map // of each store
	return conformance.Harness{
		New: func(t testing.TB) store.Store {
			url := sqldtest.Namespace(t)
			s := open(t, sqldtest.Shared(t), url)
			urls.Store(s, url)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			url, _ := urls.Load(s)
			return open(t, sqldtest.Shared(t), url.(string))
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, inNamespace())
}

func TestEngine(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inNamespace())
}

func TestRandom(t *testing.T) {
	t.Parallel()
	conformance.RunRandom(t, inNamespace())
}

// One half of the clients is on a replica.
func TestLinearizable(t *testing.T) { conformance.RunLinearizable(t, onReplica(t)) }
