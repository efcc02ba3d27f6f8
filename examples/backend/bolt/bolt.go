// Package bolt keeps a store in a file of bbolt (go.etcd.io/bbolt). A program that
// imports it opens URLs such as bolt:pawl.db.
package bolt

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"go.etcd.io/bbolt"

	"github.com/pawlhq/pawl/examples/backend"
)

func init() { backend.Register("bolt", Open) }

// lockTimeout is how long Open waits for a file that another process has open.
const lockTimeout = time.Second

var bucket = []byte("pawl")

// Open opens a file, and makes it if there is none. One process at a time can have it
// open.
func Open(_ context.Context, path string) (backend.DB, error) {
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	err = b.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return db{b}, nil
}

type db struct{ *bbolt.DB }

// Begin implements [backend.DB].
func (d db) Begin(write bool) (backend.Tx, error) {
	t, err := d.DB.Begin(write)
	if err != nil {
		return nil, err
	}
	return &tx{t, t.Bucket(bucket)}, nil
}

type tx struct {
	tx *bbolt.Tx
	*bbolt.Bucket
}

// Get implements [backend.Tx].
func (t *tx) Get(key []byte) ([]byte, error) { return t.Bucket.Get(key), nil }

// Scan implements [backend.Tx].
func (t *tx) Scan(from, to []byte, backwards bool) iter.Seq2[backend.Pair, error] {
	return func(yield func(backend.Pair, error) bool) {
		c := t.Cursor()
		if !backwards {
			for k, v := c.Seek(from); k != nil && bytes.Compare(k, to) < 0 && yield(backend.Pair{Key: k, Value: v}, nil); {
				k, v = c.Next()
			}
			return
		}
		k, v := c.Seek(to)
		if k == nil { // to is behind all keys
			k, v = c.Last()
		} else {
			k, v = c.Prev()
		}
		for k != nil && bytes.Compare(k, from) >= 0 && yield(backend.Pair{Key: k, Value: v}, nil) {
			k, v = c.Prev()
		}
	}
}

// Commit implements [backend.Tx].
func (t *tx) Commit() error { return t.tx.Commit() }

// Rollback implements [backend.Tx].
func (t *tx) Rollback() { _ = t.tx.Rollback() }
