package backend

import (
	"context"
	"iter"
)

// DB is a database of ordered keys with transactions: all that this backend asks of
// one. An adapter implements DB and Tx for a database; packages bolt and pebble are two.
type DB interface {
	// Begin begins a transaction. It reads the database as it is at this moment. Of
	// transactions that write, the store has one at a time, and any number that read
	// beside it.
	Begin(write bool) (Tx, error)
	// Close closes the database. No transaction is under way, and none begins
	// any more.
	Close() error
}

// Tx is a transaction. One goroutine uses it. All slices, those that it returns and those that
// it is given, are valid until it ends, and nobody changes them.
type Tx interface {
	// Get returns the value of a key, and nil if there is none. An empty value is not nil.
	Get(key []byte) ([]byte, error)
	// Put and Delete change what this transaction reads at once, and the database at
	// the commit. Deleting what is not there does nothing.
	Put(key, value []byte) error
	Delete(key []byte) error
	// Scan yields the keys from <= key < to with their values, in the order of the
	// keys' bytes, or backwards. While it runs, nothing is written. Its pairs are valid
	// until the next one.
	Scan(from, to []byte, backwards bool) iter.Seq2[Pair, error]
	// Commit makes the writes durable, all or none, and ends the transaction. Its error
	// leaves open whether they are.
	Commit() error
	// Rollback undoes the writes and ends the transaction. After Commit it does nothing.
	Rollback()
}

// Pair is a key with its value.
type Pair struct{ Key, Value []byte }

// Opener opens a database in a file or a directory.
type Opener func(ctx context.Context, path string) (DB, error)
