package postgres_test

import (
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/pgtest"
	"github.com/pawlhq/pawl/store"
)

func open(t testing.TB, url, schema string) store.Store {
	s, err := postgres.Open(t.Context(), url, postgres.WithSchema(schema))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// inSchema opens stores in schemas of their own, and further handles to them.
func inSchema() conformance.Harness { return inSchemaAt(func(url string) string { return url }) }

// inSchemaAt is inSchema by the URLs that at makes of the server's.
func inSchemaAt(at func(url string) string) conformance.Harness {
	type place struct{ url, schema, direct string }
	var places sync.Map // of each store
	return conformance.Harness{
		New: func(t testing.TB) store.Store {
			direct, schema := pgtest.Schema(t)
			url := at(direct)
			s := open(t, url, schema)
			places.Store(s, place{url, schema, direct})
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			p, _ := places.Load(s)
			return open(t, p.(place).url, p.(place).schema)
		},
		Rewind: func(t testing.TB, s store.Store) func() {
			p, _ := places.Load(s)
			return rewind(t, p.(place).direct, p.(place).schema) // it needs a session of its own
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, inSchema())
}

// A database may be configured for another isolation than writes need.
func TestConformanceUnderSerializable(t *testing.T) {
	t.Parallel()
	conformance.Run(t, inSchemaAt(func(location string) string {
		return with(t, location, func(u *url.URL) {
			q := u.Query()
			q.Set("default_transaction_isolation", "serializable")
			u.RawQuery = q.Encode()
		})
	}))
}

func TestEngine(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inSchema())
}

func TestRandom(t *testing.T) {
	t.Parallel()
	conformance.RunRandom(t, inSchema())
}

func TestLinearizable(t *testing.T) { conformance.RunLinearizable(t, inSchema()) }

// Everything works in each way in which pgx can send a statement; poolers ask for
// the last two.
func TestConformanceInEveryMode(t *testing.T) {
	for _, mode := range []string{"cache_describe", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := inSchemaAt(func(location string) string {
				return with(t, location, func(u *url.URL) {
					q := u.Query()
					q.Set("default_query_exec_mode", mode)
					u.RawQuery = q.Encode()
				})
			})
			conformance.Run(t, h)
		})
	}
}
