package turso_test

import (
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

// quiet is for stores whose faults are part of a test.
var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	conformance.DurableChild(openPlace)
	sqldtest.Run(m)
}

func open(t testing.TB, s *sqldtest.Server, url string, opts ...turso.Option) *turso.Store {
	t.Helper()
	st, err := turso.Open(t.Context(), url, append([]turso.Option{turso.WithDialer(s.Dial), turso.WithLogger(quiet)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// inNamespace opens stores in separate databases, and further handles to them.
func inNamespace(tier testing.TB) conformance.Harness {
	var urls sync.Map // of each store
	databases := sqldtest.Shared(tier).Reuse(tier, "goose_db_version", "compatibility")
	return conformance.Harness{
		New: func(t testing.TB) store.Store {
			url := databases.Next(t)
			s := open(t, sqldtest.Shared(t), url)
			urls.Store(s, url)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			url, _ := urls.Load(s)
			return open(t, sqldtest.Shared(t), url.(string))
		},
		Restart: func(t testing.TB, s store.Store) store.Store {
			url, _ := urls.Load(s)
			require.NoError(t, s.Close())
			again := open(t, sqldtest.Shared(t), url.(string))
			urls.Store(again, url)
			return again
		},
		Faults: func(t testing.TB, s store.Store) conformance.FaultyStore {
			url, _ := urls.Load(s)
			databases.Spoil(url.(string))
			srv := sqldtest.Shared(t)
			server := &http.Transport{DialContext: srv.Dial, DisableCompression: true}
			t.Cleanup(server.CloseIdleConnections)
			proxy := conformance.NewHTTPFaults(t, server, http.StatusRequestHeaderFieldsTooLarge)
			faulty := open(t, srv, url.(string), turso.WithDialer(proxy.Dial))
			return conformance.FaultyStore{Store: faulty, Faults: proxy.Faults(), Arm: proxy.Arm}
		},
		Meter: func(t testing.TB) conformance.Meter {
			s := open(t, sqldtest.Shared(t), sqldtest.Namespace(t))
			return conformance.Meter{Store: s, Reads: func() int64 { return s.Counters().RowsRead }}
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, inNamespace(t))
}

func TestEngineOnSqld(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inNamespace(t))
}

// Half of the clients use a replica.
func TestLinearizableOnSqld(t *testing.T) { conformance.RunLinearizable(t, onReplica(t)) }
