package pebble_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/examples/backend"
	"github.com/pawlhq/pawl/examples/backend/pebble"
	"github.com/pawlhq/pawl/store"
)

func open(t testing.TB, path string) store.Store {
	t.Helper()
	s, err := backend.Open(context.Background(), path, pebble.Open, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func harness() conformance.Harness {
	return conformance.Harness{
		New:        func(t testing.TB) store.Store { return open(t, filepath.Join(t.TempDir(), "data")) },
		Reopen:     func(t testing.TB, s store.Store) store.Store { return open(t, s.(*backend.Store).Path()) },
		Unmeasured: "the tests of bolt count what the same code reads",
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, harness()) }

// Pebble works in the background, so there is no bubble: times are scaled down, and pass.
func TestEngine(t *testing.T) { conformance.RunEngine(t, harness()) }

func TestRandom(t *testing.T) { conformance.RunRandom(t, harness()) }

func TestLinearizable(t *testing.T) { conformance.RunLinearizable(t, harness()) }

// The package makes its URLs known.
func TestOpenByURL(t *testing.T) {
	s, err := backends.Open(t.Context(), "pebble:"+filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
