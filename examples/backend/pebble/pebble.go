// Package pebble keeps a store in a directory of Pebble
// (github.com/cockroachdb/pebble). A program that imports it opens URLs such as
// pebble:data.
package pebble

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pawlhq/pawl/examples/backend"
)

func init() { backend.Register("pebble", Open) }

// Open opens a directory, and makes it if there is none. One process at a time can have it
// open.
func Open(_ context.Context, path string) (backend.DB, error) {
	return OpenWith(path, &pebble.Options{Logger: quiet{}, FormatMajorVersion: pebble.FormatNewest})
}

// OpenWith opens a directory with options, such as another file system.
func OpenWith(path string, opts *pebble.Options) (backend.DB, error) {
	p, err := pebble.Open(path, opts)
	if err != nil {
		return nil, err
	}
	return db{p}, nil
}

// quiet leaves out what Pebble tells of its files.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { pebble.DefaultLogger.Fatalf(format, args...) }

type db struct{ *pebble.DB }

// Begin implements [backend.DB]. A transaction that reads is a snapshot. One that writes is an
// indexed batch, which reads its own writes before the database; as the store has one at a
// time, the database stands still under it.
func (d db) Begin(write bool) (backend.Tx, error) {
	if write {
		b := d.NewIndexedBatch()
		return &tx{reader: b, batch: b}, nil
	}
	return &tx{reader: d.NewSnapshot()}, nil
}

// reader is what a snapshot and an indexed batch have in common.
type reader interface {
	Get(key []byte) ([]byte, io.Closer, error)
	NewIter(*pebble.IterOptions) (*pebble.Iterator, error)
	Close() error
}

type tx struct {
	reader
	batch *pebble.Batch // nil if the transaction only reads
	done  bool
}

// Get implements [backend.Tx]. Pebble's value is valid for a moment, so it is copied.
func (t *tx) Get(key []byte) ([]byte, error) {
	v, closer, err := t.reader.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return append([]byte{}, v...), closer.Close()
}

// Put implements [backend.Tx].
func (t *tx) Put(key, value []byte) error { return t.batch.Set(key, value, nil) }

// Delete implements [backend.Tx].
func (t *tx) Delete(key []byte) error { return t.batch.Delete(key, nil) }

// Scan implements [backend.Tx].
func (t *tx) Scan(from, to []byte, backwards bool) iter.Seq2[backend.Pair, error] {
	return func(yield func(backend.Pair, error) bool) {
		if bytes.Compare(from, to) >= 0 {
			return
		}
		it, err := t.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
		if err != nil {
			yield(backend.Pair{}, err)
			return
		}
		defer it.Close()
		first, next := it.First, it.Next
		if backwards {
			first, next = it.Last, it.Prev
		}
		for ok := first(); ok; ok = next() {
			value, err := it.ValueAndErr()
			if !yield(backend.Pair{Key: it.Key(), Value: value}, err) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(backend.Pair{}, err)
		}
	}
}

// Commit implements [backend.Tx].
func (t *tx) Commit() error {
	t.done = true
	return errors.Join(t.batch.Commit(pebble.Sync), t.batch.Close())
}

// Rollback implements [backend.Tx].
func (t *tx) Rollback() {
	if !t.done {
		t.done = true
		_ = t.reader.Close()
	}
}
