package sqlite

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/store"
)

// code is SQLite's primary result code of an error; 0 when it is none of SQLite's.
func code(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

func isBusy(err error) bool {
	c := code(err)
	return c == codes.SQLITE_BUSY || c == codes.SQLITE_LOCKED
}

// advice is what a person can do about a result code.
var advice = map[int]string{
	codes.SQLITE_FULL:     "the disk or the database's page limit is full; make room, the store goes on by itself",
	codes.SQLITE_READONLY: "the database is read-only; give this process the right to write the file and its directory",
	codes.SQLITE_CORRUPT:  "the database file is damaged; stop all writers and restore it from a backup",
	codes.SQLITE_NOTADB:   "the file is not an SQLite database; nothing was changed in it; choose another path",
	codes.SQLITE_IOERR:    "the disk reports an error; look at the system's log",
	codes.SQLITE_CANTOPEN: "the file cannot be opened; look at its directory and the limit of open files",
	codes.SQLITE_PERM:     "access is denied; look at the rights of the file and its directory",
	codes.SQLITE_BUSY:     "the database is locked by another process",
	codes.SQLITE_LOCKED:   "the database is locked by another process",
	codes.SQLITE_PROTOCOL: "the database is locked by another process",
	codes.SQLITE_NOMEM:    "SQLite is out of memory",
}

// maxRow is what SQLite takes in a row, unless it was built otherwise.
const maxRow = 1_000_000_000

// classify gives an error from before COMMIT its identity (P16): the transaction
// is rolled back, so what the environment has refused may be sent again. Other
// codes are mistakes of this package and are passed on as they are.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if code(err) == codes.SQLITE_TOOBIG {
		return &store.TooLargeError{Field: "a row", Size: maxRow + 1, Limit: maxRow}
	}
	if hint, ok := advice[code(err)]; ok {
		return fmt.Errorf("sqlite: %s: %w: %w", hint, err, store.ErrUnavailable)
	}
	return fmt.Errorf("sqlite: %w", err)
}

// classifyCommit is classify for COMMIT itself. SQLite says of a lock and of a constraint
// that the transaction is as it was, so that the caller rolls it back. Any other error, such as one
// of the disk, may come after COMMIT has reached the file.
func classifyCommit(err error) error {
	if err == nil {
		return nil
	}
	switch c := code(err); c {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_CONSTRAINT:
		return classify(err)
	default:
		hint := advice[c]
		if hint != "" {
			hint += ": "
		}
		return fmt.Errorf("sqlite: commit: %s%w: %w", hint, err, store.ErrOutcomeUnknown)
	}
}

// openError says what is wrong with a database that cannot be opened. Only a lock
// may go away by itself.
func openError(path string, err error) error {
	if errors.Is(err, store.ErrInvalid) {
		return err // it says so itself
	}
	hint, known := advice[code(err)]
	switch {
	case !known:
		return fmt.Errorf("sqlite: open %s: %w", path, err)
	case isBusy(err):
		return fmt.Errorf("sqlite: open %s: %s: %w: %w", path, hint, err, store.ErrUnavailable)
	}
	return store.Invalid("database", fmt.Sprintf("%s: %s (%v)", path, hint, err))
}
