package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/store"
)

// withRows changes a database so that each flow has a row from the start, as one has otherwise that is parked or in which
// many runs wait.
func withRows(t testing.TB, path string) {
	t.Helper()
	db := raw(t, path)
	var trigger string
	require.NoError(t, db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name='runs_limit_insert'`).Scan(&trigger))
	require.Contains(t, trigger, "LIMIT 1 OFFSET 8)")
	_, err := db.Exec(`DROP TRIGGER runs_limit_insert; ` + strings.Replace(trigger, "LIMIT 1 OFFSET 8)", "LIMIT 1)", 1))
	require.NoError(t, err)
}

// withFaults is inFile with faults and transactions. Flows have rows from the start, and one of two handles claims at once, as
// on Turso; in memory, few runs that wait are fresh, and all claims under limits plan.
func withFaults() conformance.Harness {
	var paths sync.Map // of each store
	path := func(s store.Store) string {
		p, _ := paths.Load(s)
		return p.(string)
	}
	h := inFile()
	h.New = func(t testing.TB) store.Store {
		p := migrated(t)
		withRows(t, p)
		s := open(t, p, sqlite.WithClaimsAtOnce())
		_, err := raw(t, p).Exec(`CREATE TABLE markers (marker text)`)
		require.NoError(t, err)
		paths.Store(s, p)
		return s
	}
	h.Reopen = func(t testing.TB, s store.Store) store.Store { return open(t, path(s)) }
	h.Restart = func(t testing.TB, s store.Store) store.Store {
		p := path(s)
		require.NoError(t, s.Close())
		again := open(t, p, sqlite.WithClaimsAtOnce())
		paths.Store(again, p)
		return again
	}
	h.Rewind = nil // only the engine tier has cases about that
	h.Faults = func(t testing.TB, s store.Store) conformance.FaultyStore {
		d := newFaultyDriver(t)
		faulty := open(t, path(s), sqlite.WithDriver(d.name))
		return conformance.FaultyStore{
			Store: faulty,
			// No network lies between the store and its database, so nothing can be lost or cut.
			Faults: []conformance.Fault{conformance.FaultRefused, conformance.FaultAfter, conformance.FaultDelayed},
			Arm:    d.faults.Arm,
		}
	}
	const mark = `INSERT INTO markers VALUES (?)`
	var dbs sync.Map // of each path
	db := func(s store.Store) *sql.DB {
		p := path(s)
		if db, ok := dbs.Load(p); ok {
			return db.(*sql.DB)
		}
		db, err := sql.Open("sqlite", dsn(p))
		if err != nil {
			panic(err)
		}
		other, there := dbs.LoadOrStore(p, db)
		if there {
			_ = db.Close()
		}
		return other.(*sql.DB)
	}
	newStore := h.New
	h.New = func(t testing.TB) store.Store {
		s := newStore(t)
		t.Cleanup(func() { _ = db(s).Close() })
		return s
	}
	h.Transactions = []conformance.TxKind{{
		Name: "sql", Alone: true,
		Begin: func(ctx context.Context, s store.Store) (p conformance.ProgramTx, err error) {
			tx, err := db(s).BeginTx(ctx, nil)
			if err != nil {
				return p, err
			}
			return conformance.ProgramTx{
				Tx: sqlite.InTx(tx),
				Mark: func(ctx context.Context, marker string) error {
					_, err := tx.ExecContext(ctx, mark, marker)
					return err
				},
				Commit:   tx.Commit,
				Rollback: tx.Rollback,
			}, nil
		},
		Step: func() (any, func(context.Context, string) error) {
			var tx *sql.Tx
			return &tx, func(ctx context.Context, marker string) error {
				_, err := tx.ExecContext(ctx, mark, marker)
				return err
			}
		},
		Marked: func(ctx context.Context, s store.Store, marker string) (n int, err error) {
			err = db(s).QueryRowContext(ctx, `SELECT count(*) FROM markers WHERE marker=?`, marker).Scan(&n)
			return n, err
		},
	}}
	return h
}

// faultyDriver is SQLite's driver with statements that can fail. Each statement is a request.
type faultyDriver struct {
	driver.Driver
	name   string
	faults conformance.Arming
	locked error // SQLite's error when another process holds the lock
	full   error // SQLite's error when the disk is full, which may occur after a commit
}

func newFaultyDriver(t testing.TB) *faultyDriver {
	db := raw(t, filepath.Join(t.TempDir(), "scratch.db"))
	_, err := db.Exec(`CREATE TABLE t (x); PRAGMA max_page_count=2`)
	require.NoError(t, err)
	d := &faultyDriver{Driver: db.Driver(), name: "sqlite with faults of " + t.TempDir()}
	_, d.full = db.Exec(`INSERT INTO t VALUES (zeroblob(100000))`)
	require.ErrorContains(t, d.full, "full")
	other := filepath.Join(t.TempDir(), "locked.db")
	holder, waiter := raw(t, other), raw(t, other)
	_, err = holder.Exec(`CREATE TABLE t (x); BEGIN IMMEDIATE`)
	require.NoError(t, err)
	_, d.locked = waiter.Exec(`INSERT INTO t VALUES (1)`)
	require.ErrorContains(t, d.locked, "locked")
	sql.Register(d.name, d)
	return d
}

func (d *faultyDriver) Open(name string) (driver.Conn, error) {
	c, err := d.Driver.Open(name)
	if err != nil {
		return nil, err
	}
	return faultyConn{c, d}, nil
}

// statement runs a statement, which may fail.
func statement[R any](d *faultyDriver, run func() (R, error)) (r R, err error) {
	now := d.faults.Next()
	switch now.Fault {
	case conformance.FaultRefused:
		now.Met()
		return r, d.locked
	case conformance.FaultDelayed:
		now.Met()
		<-now.Healed
	case conformance.FaultAfter:
		defer now.Met()
		if r, err = run(); err == nil {
			err = d.full
		}
		var none R
		if rows, ok := any(r).(driver.Rows); ok {
			_ = rows.Close()
		}
		return none, err
	}
	return run()
}

type faultyConn struct {
	driver.Conn
	d *faultyDriver
}

func (c faultyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil || strings.HasPrefix(query, "ROLLBACK") { // SQLite rolls back whatever the error is
		return s, err
	}
	return faultyStmt{s, c.d}, nil
}

func (c faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return statement(c.d, func() (driver.Result, error) { return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args) })
}

func (c faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return statement(c.d, func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args) })
}

func (c faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := statement(c.d, func() (driver.Tx, error) { return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts) })
	if err != nil {
		return nil, err
	}
	return faultyTx{tx, c.d}, nil
}

type faultyTx struct {
	driver.Tx
	d *faultyDriver
}

func (tx faultyTx) Commit() error {
	_, err := statement(tx.d, func() (struct{}, error) { return struct{}{}, tx.Tx.Commit() })
	return err
}

type faultyStmt struct {
	driver.Stmt
	d *faultyDriver
}

func (s faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return statement(s.d, func() (driver.Result, error) { return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) })
}

func (s faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return statement(s.d, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}
