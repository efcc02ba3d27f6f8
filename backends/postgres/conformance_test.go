package postgres_test

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

func open(t testing.TB, url, schema string) store.Store {
	s, err := postgres.Open(t.Context(), url, postgres.WithSchema(schema), postgres.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// inSchema opens stores in schemas of their own, and further handles to them.
func inSchema() conformance.Harness { return inSchemaAt(func(url string) string { return url }) }

// inSchemaAt is inSchema with the server's URL changed by at.
func inSchemaAt(at func(url string) string) conformance.Harness {
	return inSchemaOf(pgtest.Schema, at)
}

// inSchemaOf is inSchemaAt with schemas that something else makes.
func inSchemaOf(schemaOf func(testing.TB) (url, schema string), at func(url string) string) conformance.Harness {
	type place struct{ url, schema, direct string }
	var places sync.Map // of each store
	return conformance.Harness{
		Unmeasured: "TestConformance measures",
		New: func(t testing.TB) store.Store {
			direct, schema := schemaOf(t)
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
			return rewind(t, p.(place).direct, p.(place).schema) // rewind needs a session of its own
		},
		Restart: func(t testing.TB, s store.Store) store.Store {
			p, _ := places.Load(s)
			require.NoError(t, s.Close())
			again := open(t, p.(place).url, p.(place).schema)
			places.Store(again, p)
			return again
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	h := withFaults(t)
	h.Unmeasured, h.Meter = "", metered
	conformance.Run(t, h)
}

func TestEngine(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inSchemaOf((&schemas{tier: t}).next, func(url string) string { return url }))
}

func TestLinearizable(t *testing.T) { conformance.RunLinearizable(t, inSchema()) }
