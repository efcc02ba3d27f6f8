//go:build unix

package procs

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// TestRestore restores the database from a backup, in each way that docs/operations.md names, while
// processes work and while they are stopped. What was written after the backup is lost, and must be
// lost completely: see docs/testing.md.
func TestRestore(t *testing.T) {
	for _, b := range allBackends {
		for i, way := range b.backups {
			t.Run(b.name+"/"+way.name, func(t *testing.T) {
				seed := *seedFlag
				if seed == 0 {
					seed = rand.Uint64()
				}
				t.Logf("seed %d", seed)
				chaos(t, b, seed, func(d *driver) []func() {
					d.ev.forgets = true
					d.rescue.way = i
					return []func(){d.restore}
				})
			})
		}
	}
}

// A rescue is a restore of the database.
type rescue struct {
	begun  bool // a backup is being made, and its restore follows
	closed bool // nobody may open the database
	way    int  // the next one, by its place in the backend's backups
	done   int  // restores
}

// restore makes a backup of the database, lets the processes continue for up to a lease, and
// restores the backup, while the processes run or while there are none, by turns.
func (d *driver) restore() {
	if d.rescue.begun || d.net != nil && (d.net.down || d.net.standby != nil) {
		d.after(d.lease/4, d.restore)
		return
	}
	d.rescue.begun = true
	way := d.backend.backups[d.rescue.way%len(d.backend.backups)]
	mark := way.take(d)
	d.whenUp(func() {
		back := mark()
		d.whenUp(func() { d.bring(way, back) })
	})
}

// whenUp calls do within a lease, or when the database server is available again.
func (d *driver) whenUp(do func()) {
	var try func()
	try = func() {
		if d.net != nil && d.net.down {
			d.after(d.lease/4, try)
			return
		}
		do()
	}
	d.after(d.within(d.lease), try)
}

func (d *driver) bring(way backup, back func() bool) {
	if !way.live {
		d.rescue.closed = true
		for _, s := range d.slots {
			if s.proc != nil {
				d.end(s)
				d.after(0, func() { d.start(s) })
			}
		}
	}
	if !back() {
		d.after(d.lease/4, func() { d.bring(way, back) })
		return
	}
	d.rescue = rescue{way: d.rescue.way + 1, done: d.rescue.done + 1}
}

// sqliteBackups copy the file with VACUUM INTO. The copy is put in place by hand, or with SQLite's
// own backup, which is what .restore of its shell does.
var sqliteBackups = []backup{
	{name: "by hand", take: func(d *driver) func() func() bool {
		return func() func() bool {
			copied := d.vacuumInto()
			return func() bool {
				for _, name := range []string{d.file(), d.file() + "-wal", d.file() + "-shm"} {
					if err := os.Remove(name); !os.IsNotExist(err) {
						require.NoError(d.t, err)
					}
				}
				require.NoError(d.t, os.Rename(copied, d.file()))
				return true
			}
		}
	}},
	{name: "under processes", live: true, take: func(d *driver) func() func() bool {
		return func() func() bool {
			copied := d.vacuumInto()
			return func() bool { return d.restoreFile(copied) }
		}
	}},
}

func (d *driver) file() string { return strings.TrimPrefix(d.url, "sqlite:") }

// vacuumInto copies the database and returns the file.
func (d *driver) vacuumInto() string {
	copied := filepath.Join(d.dir, fmt.Sprintf("backup-%d.db", d.rescue.done))
	d.inFile(func(db *sql.DB) {
		_, err := db.ExecContext(d.t.Context(), `VACUUM INTO ?`, copied)
		require.NoError(d.t, err)
	})
	return copied
}

// restoreFile writes the copy over the database, in one SQLite transaction. If a process, for
// example a stopped one, has locked the file, it changes nothing and reports false.
func (d *driver) restoreFile(copied string) bool {
	var err error
	d.inFile(func(db *sql.DB) {
		var conn *sql.Conn
		conn, err = db.Conn(d.t.Context())
		require.NoError(d.t, err)
		defer conn.Close()
		err = conn.Raw(func(c any) error { return copyOver(c.(restorer), copied) })
	})
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY {
		return false
	}
	require.NoError(d.t, err)
	return true
}

// restorer is a connection of the driver's.
type restorer interface {
	NewRestore(src string) (*sqlite.Backup, error)
}

func copyOver(conn restorer, src string) error {
	b, err := conn.NewRestore(src)
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		more, err = b.Step(-1)
	}
	if end := b.Finish(); err == nil {
		err = end
	}
	return err
}

func (d *driver) inFile(do func(db *sql.DB)) {
	db, err := sql.Open("sqlite", "file:"+d.file()+"?_pragma=busy_timeout(20000)")
	require.NoError(d.t, err)
	defer db.Close()
	do(db)
}

// postgresBackups are a dump, and a base backup with the archived log. Each is restored while the
// processes run and while there are none.
var postgresBackups = []backup{
	{name: "dump", take: takeDump},
	{name: "dump under processes", live: true, take: takeDump},
	{name: "point in time", take: takeBase},
	{name: "point in time under processes", live: true, take: takeBase},
}

func takeDump(d *driver) func() func() bool {
	return func() func() bool {
		file := d.net.server.Dump(d.t)
		return func() bool {
			require.NoError(d.t, d.net.server.RestoreDump(file))
			return true
		}
	}
}

func takeBase(d *driver) func() func() bool {
	base := d.net.server.Backup(d.t)
	return func() func() bool {
		at := base.Now(d.t)
		return func() bool {
			d.net.lead(d.t, base.Restore(d.t, at))
			return true
		}
	}
}
