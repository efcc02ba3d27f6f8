package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/pawlhq/pawl/store"
)

// place is the file that a store works in, as it was when the store was opened.
//
// An open file lives on when its name is deleted or given to another file, and
// SQLite goes on in it: what it acknowledges then, nobody ever finds again. So the
// place is compared with what its path leads to, at the begin of each transaction
// and after each commit.
type place struct {
	path string // absolute
	file os.FileInfo
	log  atomic.Pointer[os.FileInfo] // the write-ahead log; nil until the first commit
}

// newPlace remembers the file that a path leads to.
func newPlace(path string) (*place, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &place{path: path, file: file}, nil
}

// moved says what became of the file; nil as long as it is where it was. A nil
// place, that of a database in memory, never moves.
func (p *place) moved() error {
	if p == nil {
		return nil
	}
	if err := same(p.path, p.file); err != nil {
		return err
	}
	if log := p.log.Load(); log != nil {
		return same(p.path+"-wal", *log)
	}
	return nil
}

// committed is moved after a commit, which has made the write-ahead log if there
// was none.
func (p *place) committed() error {
	if p == nil {
		return nil
	}
	if p.log.Load() == nil {
		if info, err := os.Stat(p.path + "-wal"); err == nil {
			p.log.Store(&info)
		}
	}
	return p.moved()
}

const whatNow = "put the file back, or restart this program to work in what is there now"

func same(path string, was os.FileInfo) error {
	switch now, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the file %s was deleted or moved while it was open, so that nothing written to it would be found again; %s", path, whatNow)
	case err != nil:
		return nil // what cannot be looked at proves nothing
	case !os.SameFile(was, now):
		return fmt.Errorf("the file %s was replaced by another one while it was open, so that nothing written to it would be found again; %s", path, whatNow)
	}
	return nil
}

// there refuses a transaction that would be lost.
func (p *place) there() error {
	if err := p.moved(); err != nil {
		return fmt.Errorf("sqlite: %w: %w", err, store.ErrUnavailable)
	}
	return nil
}

// kept reports a commit that may be lost.
func (p *place) kept() error {
	if err := p.committed(); err != nil {
		return fmt.Errorf("sqlite: commit: %w: %w", err, store.ErrOutcomeUnknown)
	}
	return nil
}
