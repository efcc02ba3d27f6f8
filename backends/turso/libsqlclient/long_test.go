//go:build long

package libsqlclient_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tursodatabase/libsql-client-go/libsql"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/backends/turso/libsqlclient"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
)

func TestConformanceThroughDriver(t *testing.T) {
	t.Parallel()
	conformance.Run(t, inNamespace(t))
}

// through connects the driver to a server of the test harness, whose names cannot be resolved.
func through(s *sqldtest.Server) turso.Option {
	return turso.WithTransport(libsqlclient.Transport(libsql.WithProxy("http://" + s.Addr())))
}

func open(t testing.TB, url string) *turso.Store {
	t.Helper()
	s, err := libsqlclient.Open(t.Context(), url, through(sqldtest.Shared(t)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func inNamespace(tier testing.TB) conformance.Harness {
	var urls sync.Map // of each store
	databases := sqldtest.Shared(tier).Reuse(tier, "goose_db_version", "compatibility")
	return conformance.Harness{
		Unmeasured: "the store of the other client measures, by the same statements",
		New: func(t testing.TB) store.Store {
			url := databases.Next(t)
			s := open(t, url)
			urls.Store(s, url)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			url, _ := urls.Load(s)
			return open(t, url.(string))
		},
	}
}
