package sqlite

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/store"
)

// code returns SQLite's primary result code of an error, or 0 if it is not an error of
// SQLite.
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

// advice says what a person can do about an error with a result code.
var advice = map[int]string{
	codes.SQLITE_FULL:     "the disk is full, or the database has reached its page limit; free some space, and the store continues",
	codes.SQLITE_READONLY: "the database is read-only; give this process write permission for the file and its directory",
	codes.SQLITE_CORRUPT:  "the database file is damaged; stop all writers and restore it from a backup",
	codes.SQLITE_NOTADB:   "the file is not an SQLite database; nothing was changed in it; choose another path",
	codes.SQLITE_IOERR:    "the disk reports an error; check the system's log",
	codes.SQLITE_CANTOPEN: "the file cannot be opened; check its directory and the limit of open files",
	codes.SQLITE_PERM:     "access is denied; check the permissions of the file and its directory",
	codes.SQLITE_BUSY:     "the database is locked by another process",
	codes.SQLITE_LOCKED:   "the database is locked by another process",
	codes.SQLITE_PROTOCOL: "the database is locked by another process",
	codes.SQLITE_NOMEM:    "SQLite is out of memory",
}

// maxRow is the default maximum size of a row in SQLite.
const maxRow = 1_000_000_000

// classify maps an error from before COMMIT to the errors of package store (P16). The
// transaction is rolled back, so a request that the environment has refused may be
// repeated. Other codes are bugs of this package and are returned unchanged.
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

// classifyCommit is classify for COMMIT itself. After a lock or constraint error of
// SQLite, the transaction is unchanged, and the caller rolls it back. Any other error,
// such as one of the disk, may come after COMMIT has reached the file.
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

// openError explains why a database cannot be opened. Only a lock may disappear on its own.
func openError(path string, err error) error {
	if errors.Is(err, store.ErrInvalid) {
		return err // it is already classified
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
