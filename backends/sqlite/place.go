package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/pawlhq/pawl/store"
)

// place is the store's file as it was when the store was opened.
//
// An open file continues to exist when its name is deleted or given to another file, and SQLite
// continues to use it; writes that it then acknowledges are lost. The place is therefore compared
// with the file at its path at the beginning of each transaction and after each commit.
type place struct {
	path string // absolute
	file os.FileInfo
	log  atomic.Pointer[os.FileInfo] // the write-ahead log; nil until the first commit
}

// newPlace records the file at a path.
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

// moved returns what happened to the file, or nil if it is still in its place. A nil
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

// committed does the same after a commit, which has created the write-ahead log if it did not
// exist.
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

const whatNow = "put the file back, or restart this program to use the path as it is now"

func same(path string, was os.FileInfo) error {
	switch now, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the file %s was deleted or moved while it was open, so writes to it would be lost; %s", path, whatNow)
	case err != nil:
		return nil // a file that cannot be inspected proves nothing
	case !os.SameFile(was, now):
		return fmt.Errorf("the file %s was replaced while it was open, so writes to it would be lost; %s", path, whatNow)
	}
	return nil
}

// there returns an error for a transaction whose writes would be lost.
func (p *place) there() error {
	if err := p.moved(); err != nil {
		return fmt.Errorf("sqlite: %w: %w", err, store.ErrUnavailable)
	}
	return nil
}

// kept returns an error for a commit that may be lost.
func (p *place) kept() error {
	if err := p.committed(); err != nil {
		return fmt.Errorf("sqlite: commit: %w: %w", err, store.ErrOutcomeUnknown)
	}
	return nil
}
