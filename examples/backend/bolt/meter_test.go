package bolt_test

import (
	"context"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/examples/backend"
	"github.com/pawlhq/pawl/store"
)

// metered opens a store whose database counts the keys that it is asked for.
func metered(t testing.TB) conformance.Meter {
	var read atomic.Int64
	s, err := backend.Open(context.Background(), filepath.Join(t.TempDir(), "pawl.db"), func(ctx context.Context, path string) (backend.DB, error) {
		db, err := openFile(ctx, path)
		return counted{db, &read}, err
	}, store.Limits{})
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return conformance.Meter{Store: s, Reads: read.Load}
}

type counted struct {
	backend.DB
	read *atomic.Int64
}

func (c counted) Begin(write bool) (backend.Tx, error) {
	tx, err := c.DB.Begin(write)
	return countedTx{tx, c.read}, err
}

type countedTx struct {
	backend.Tx
	read *atomic.Int64
}

func (c countedTx) Get(key []byte) ([]byte, error) {
	c.read.Add(1)
	return c.Tx.Get(key)
}

func (c countedTx) Scan(from, to []byte, backwards bool) iter.Seq2[backend.Pair, error] {
	return func(yield func(backend.Pair, error) bool) {
		for pair, err := range c.Tx.Scan(from, to, backwards) {
			c.read.Add(1)
			if !yield(pair, err) {
				return
			}
		}
	}
}
