package sqlite

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	codes "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// Sizes, in bytes.
const (
	largeLog   = 256 << 20        // a write-ahead log that no checkpoint can empty
	longCheck  = 1 << 30          // a file that takes long to check
	shortCheck = 4 << 20          // a file that is checked each time
	checkAgain = 10 * time.Minute // how often another one is checked
)

// Diagnose implements store.Diagnoser.
func (s *Store) Diagnose(ctx context.Context) ([]store.Finding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var version, mode string
	var pages, free, pageSize int64
	one := func(sql string, dest any) sqlitecore.Stmt {
		return sqlitecore.Stmt{SQL: sql, Rows: func(scan func(...any) error) error { return scan(dest) }}
	}
	err := s.runner.Read(ctx, []sqlitecore.Stmt{
		one(`SELECT sqlite_version()`, &version), one(`PRAGMA journal_mode`, &mode),
		one(`PRAGMA page_count`, &pages), one(`PRAGMA freelist_count`, &free), one(`PRAGMA page_size`, &pageSize),
	})
	if err != nil {
		return nil, err
	}
	list := []store.Finding{{Name: "sqlite", Seen: "SQLite " + version + ", in this program"}}

	size := pages * pageSize
	f := store.Finding{Name: "file", Seen: fmt.Sprintf("%s, %s", s.config.path, sqlitecore.Size(size))}
	if size > 64<<20 && free > pages/2 {
		f.Level, f.Seen = store.Warning, f.Seen+fmt.Sprintf(", of which %s are empty", sqlitecore.Size(free*pageSize))
		f.Advice = "if you need the disk space, run VACUUM while no program uses the database"
	}
	if fs := network(s.config.path); fs != "" && !s.config.memory {
		f.Level, f.Seen = store.Warning, f.Seen+", on a network file system ("+fs+")"
		f.Advice = "move it to a local disk, or use PostgreSQL: SQLite's locks and its write-ahead log are not safe when several machines use the file"
	}
	list = append(list, f)

	f = store.Finding{Name: "log", Seen: "write-ahead log in use"}
	switch info, err := os.Stat(s.config.path + "-wal"); {
	case s.config.memory:
		f.Seen = "none, the database is in memory and ends with this process"
	case mode != "wal":
		f.Level, f.Seen, f.Advice = store.Fault, "journal mode is "+mode, "a program has turned the write-ahead log off; reopen the store to turn it on"
	case err == nil && info.Size() > largeLog:
		f.Level, f.Seen = store.Warning, "the write-ahead log has grown to "+sqlitecore.Size(info.Size())
		f.Advice = "a process holds a long read transaction, so SQLite cannot empty the log; find the process, for example with lsof on the file, and end its transaction"
	case err == nil:
		f.Seen = "write-ahead log of " + sqlitecore.Size(info.Size())
	}
	list = append(list, f)

	if f, err = s.durabilityFinding(ctx); err != nil {
		return nil, err
	}
	list = append(list, f)

	missing, err := s.MissingIndexes(ctx)
	if err != nil {
		return nil, err
	}
	list = append(list, sqlitecore.IndexFinding(missing))

	if f, err = s.checked.finding(size, time.Now(), func() (said string, err error) {
		err = s.runner.Read(ctx, []sqlitecore.Stmt{one(`PRAGMA quick_check(1)`, &said)})
		return said, err
	}); err != nil {
		return nil, err
	}
	return append(list, f), nil
}

// integrity remembers the last check of the file, which reads all of it: a page that is opened again does not check again.
type integrity struct {
	mu   sync.Mutex
	at   time.Time // zero: there was none
	said string
}

// finding checks a file of that size, or tells of the last check.
func (c *integrity) finding(size int64, now time.Time, check func() (string, error)) (store.Finding, error) {
	f := store.Finding{Name: "integrity", Seen: "checked, no errors"}
	if size > longCheck {
		f.Seen, f.Advice = "not checked, because the file is large", "run PRAGMA quick_check; it takes a while"
		return f, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if size <= shortCheck || c.at.IsZero() || now.Sub(c.at) >= checkAgain {
		said, err := check()
		if err != nil {
			return f, err
		}
		c.said, c.at = said, now
	} else {
		f.Seen = fmt.Sprintf("checked %v ago, no errors", now.Sub(c.at).Round(time.Second))
	}
	if c.said != "ok" {
		f.Level, f.Seen, f.Advice = store.Fault, c.said, advice[codes.SQLITE_CORRUPT]
	}
	return f, nil
}

// Values of PRAGMA synchronous.
const (
	syncNormal = 1
	syncFull   = 2
)

// durabilityFinding asks the writing connection what its commits wait for.
func (s *Store) durabilityFinding(ctx context.Context) (store.Finding, error) {
	f := store.Finding{Name: "durability"}
	if s.config.memory {
		f.Seen = "none, the database is in memory and ends with this process"
		return f, nil
	}
	level, err := s.runner.synchronous(ctx)
	switch {
	case err != nil:
		return f, err
	case level < syncNormal:
		f.Level, f.Seen = store.Warning, "synchronous is OFF: a power cut may destroy the database"
	case level < syncFull && s.config.synchronous == Full:
		f.Level, f.Seen = store.Warning, "synchronous is NORMAL, but the store was opened with FULL: a power cut may lose the last commits"
	case level < syncFull:
		f.Seen = "synchronous=normal, as the URL says: a power cut may lose the last commits"
	default:
		f.Seen = "a commit waits for the disk"
	}
	if f.Level > store.Fine {
		f.Advice = "something in this program has changed the setting of Pawl's connection; reopen the store to restore it"
	}
	return f, nil
}
