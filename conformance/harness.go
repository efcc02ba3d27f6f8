package conformance

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl/conformance/internal/faults"
	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/store"
)

// Harness tells the suite how to reach a backend.
type Harness struct {
	// New opens a store on fresh, empty data and cleans it up with t. The suite
	// calls it once for all cases, which keep apart by namespaces and run in
	// parallel, and once more for the few cases that close their store. Those
	// close it before New's cleanup does, so closing again must be harmless.
	New func(t testing.TB) store.Store
	// Reopen opens a second handle to the same data, as another process would:
	// its own connections, its own memory. Cases that race use both handles. Nil
	// stands for a backend whose data lives in one handle: then that handle plays
	// both parts, and the few cases about a second handle are skipped.
	Reopen func(t testing.TB, s store.Store) store.Store
	// Rewind, when set, remembers all that the store's database holds; the function
	// that it returns puts it back in one transaction, as a failover to a replica that
	// lagged does. The engine cases about that are left out without it.
	Rewind func(t testing.TB, s store.Store) (back func())
	// Restart ends a store and opens another one on the same data, with nothing of the first
	// one left in memory: the durable cases write, restart, and look for what they wrote. It gets
	// a store that New or Restart has returned, closes it, and returns one that is
	// cleaned up with t. Nil: the suite closes the store and takes Reopen of the one
	// that New returned. Where that is nil, too, the store's Features must say Volatile, and the cases are skipped.
	// See also [RunDurable], which kills processes.
	Restart func(t testing.TB, s store.Store) store.Store
	// Exceptions names the cases that this backend cannot pass, each with its
	// reason. An excepted case is run all the same and must fail: an exception
	// that passes fails the suite, and so does a name that is no case.
	Exceptions map[string]string
	// Lacks declares the abilities that this backend does not have, each with its
	// reason. The cases of every tier that need one are left out (Case.Needs). The same
	// abilities, and no others, must stand in Features().Gaps. Nil stands for a backend
	// without gaps; what it does not have all the same is noted in the log.
	Lacks map[store.Ability]string
	// Progress is for a backend that is being written: a case in which a verb answers
	// with store.ErrUnsupported waits for that verb instead of failing, and each tier ends
	// with a summary of what passed and what waits. The flag -conformance.progress sets it.
	// False: such a case fails.
	Progress bool
	// Bubble says that New works inside a testing/synctest bubble: nothing of the
	// store's blocks outside it, and its clock is time.Now. The engine tier then
	// runs in no time, and the cases of the store's own clock are run once more in a
	// bubble, where times are exact.
	Bubble bool
	// Faults opens a further handle to the data of s, on which a case lets requests
	// fail, as a network or a disk does. Nil leaves out the cases faults/..., and they say
	// so. A backend whose database is behind a TCP connection or HTTP has most of it
	// from [NewFaultProxy] or [NewHTTPFaults]; one that is embedded fails statements, by a
	// driver that wraps the real one, say.
	Faults func(t testing.TB, s store.Store) FaultyStore
	// Transactions lists the kinds of transaction that programs and steps use, such as
	// pgx.Tx and *sql.Tx, for a backend with [store.Transactor]. Empty leaves out the
	// cases of transactions, and they say so.
	Transactions []TxKind
	// Meter, when set, opens a store on fresh, empty data, as New does, together with a
	// counter of what its calls read: the cost cases then compare, exactly, what a call
	// reads beside few runs and beside many. It may be slower than one of New. SQLite
	// counts the pages that its connections ask for, PostgreSQL those that auto_explain
	// tells of, Turso the rows that the server's answers tell of. Nil: the cost cases
	// compare times on a store of New, which takes longer and finds less.
	Meter func(t testing.TB) Meter
	// Unmeasured, when set, leaves the cost cases out, and is the reason: that another
	// test of the same backend measures, say. The race detector leaves them out, too.
	Unmeasured string
}

// TxKind is a kind of transaction on the database that holds the store: of a type of a
// driver's, such as pgx.Tx. What a program writes in one is the harness's to choose: a
// marker, which is a row of a table that New has made, say.
type TxKind struct {
	Name string
	// Begin begins a transaction of a program's own on the database of s, for
	// [store.Transactor.Join]. Nil leaves out the cases of Join for this kind.
	Begin func(ctx context.Context, s store.Store) (ProgramTx, error)
	// Step returns the address of a variable for [store.Transactor.Begin], and a
	// function that writes a marker in the transaction that Begin has left there.
	// Nil leaves out the cases of Begin for this kind.
	Step func() (target any, mark func(ctx context.Context, marker string) error)
	// Marked counts how often a marker is there, outside of any transaction.
	Marked func(ctx context.Context, s store.Store, marker string) (int, error)
	// Alone says that while a transaction is open all other writers wait. Cases in
	// which somebody writes meanwhile let that happen before.
	Alone bool
}

// ProgramTx is a transaction of a program's own.
type ProgramTx struct {
	Tx       store.Tx
	Mark     func(ctx context.Context, marker string) error // writes a marker in it
	Commit   func() error
	Rollback func() error
}

// Meter is a store with a counter of what its calls read.
type Meter struct {
	// Store is on fresh, empty data of its own.
	Store store.Store
	// Reads is how much the store's database has read for this store since it was
	// opened: rows, pages or keys, as the backend can tell. It counts what was looked
	// at, not what was returned, and grows alone.
	Reads func() int64
	// Settle, when set, has the database do now what it otherwise does by and by when
	// much was written, such as PostgreSQL's vacuum.
	Settle func()
}

// inner is the harness as the tiers have it.
func (h Harness) inner() harness.Harness {
	in := harness.Harness{
		New: h.New, Reopen: h.Reopen, Rewind: h.Rewind, Restart: h.Restart,
		Exceptions: h.Exceptions, Lacks: h.Lacks, Progress: h.Progress, Bubble: h.Bubble, Unmeasured: h.Unmeasured,
	}
	if h.Faults != nil {
		in.Faults = func(t testing.TB, s store.Store) faults.Store { return h.Faults(t, s).inner() }
	}
	if h.Meter != nil {
		in.Meter = func(t testing.TB) harness.Meter { return harness.Meter(h.Meter(t)) }
	}
	for _, k := range h.Transactions {
		in.Transactions = append(in.Transactions, k.inner())
	}
	return in
}

func (k TxKind) inner() harness.TxKind {
	in := harness.TxKind{Name: k.Name, Step: k.Step, Marked: k.Marked, Alone: k.Alone}
	if k.Begin != nil {
		in.Begin = func(ctx context.Context, s store.Store) (harness.ProgramTx, error) {
			tx, err := k.Begin(ctx, s)
			return harness.ProgramTx(tx), err
		}
	}
	return in
}
