package sqlite

import (
	"context"
	"database/sql"
)

// Tx runs f in a transaction on the store's own connection, and commits it if f returns nil. Use it
// for the program's own tables in a database in memory, which no other connection can see. The
// process cannot write anything else in the meantime.
func (s *Store) Tx(ctx context.Context, f func(tx *sql.Tx) error) error {
	var tx *sql.Tx
	begun, err := s.Begin(ctx, &tx)
	if err != nil {
		return err
	}
	defer begun.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return classifyCommit(tx.Commit())
}
