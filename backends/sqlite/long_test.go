//go:build long

package sqlite_test

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/txtest"
	"github.com/pawlhq/pawl/store"
)

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

// TestConformanceInTx checks that every verb works the same way in the program's own transaction as
// in one of the store's.
func TestConformanceInTx(t *testing.T) {
	t.Parallel()
	inside := func(t testing.TB, s store.Store, path string) store.Store {
		db := database(t, path)
		db.SetMaxOpenConns(1) // so that Go waits for the other transactions of this handle, not SQLite
		return &pathed{path, txtest.Store{
			Outer: s.(txtest.Outer),
			Begin: func(ctx context.Context, _ bool) (txtest.Tx, error) {
				tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
				if err != nil {
					return txtest.Tx{}, err
				}
				return txtest.Tx{Tx: sqlite.InTx(tx), Commit: tx.Commit, Rollback: tx.Rollback}, nil
			},
			Again: func(error) bool { return false },
		}}
	}
	conformance.Run(t, conformance.Harness{
		Unmeasured: "TestConformance measures",
		New: func(t testing.TB) store.Store {
			path := migrated(t)
			return inside(t, open(t, path), path)
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			path := s.(*pathed).path
			return inside(t, open(t, path), path)
		},
	})
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	conformance.Run(t, inMemory())
}

func TestRandom(t *testing.T) {
	t.Parallel()
	conformance.RunRandom(t, inFile())
}

func TestRandomInMemory(t *testing.T) { conformance.RunRandom(t, inMemory()) }

type pathed struct {
	path string
	txtest.Store
}

// In memory, simulated time passes instantly.
func TestEngineInMemory(t *testing.T) {
	t.Parallel()
	conformance.RunEngine(t, inMemory())
}
