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
	// New opens a store on new, empty data, and registers its cleanup with t.Cleanup. Required.
	// A tier calls it once for all cases, which run in parallel, each in a namespace of its own,
	// and once more for the few cases that close their store. These close the store before the
	// cleanup does, so closing a store twice must be harmless.
	New func(t testing.TB) store.Store
	// Reopen opens a second handle to the same data, as another process would, with its own
	// connections and its own memory. Cases with concurrent calls use both handles. Nil means
	// that the data belongs to one handle: then the cases use that handle twice, and the few
	// cases about a second handle are skipped.
	Reopen func(t testing.TB, s store.Store) store.Store
	// Rewind copies everything that the store's database contains. The function that it returns
	// restores the copy in one transaction, as a failover to a replica that lagged does. Nil
	// leaves out the engine cases about such a failover.
	Rewind func(t testing.TB, s store.Store) (back func())
	// Restart closes a store and opens another one on the same data. Nothing of the first one
	// may remain in memory: the durable cases write, restart, and read what they wrote. Restart
	// gets a store that New or Restart has returned. It returns a store whose cleanup it has
	// registered with t.Cleanup.
	//
	// If Restart is nil, the suite closes the store and calls Reopen with the store that New
	// returned. If Reopen is nil too, the store's Features must say Volatile, and the cases are
	// skipped. See also [RunDurable], which kills processes.
	Restart func(t testing.TB, s store.Store) store.Store
	// Exceptions maps the names of the cases that this backend cannot pass to the reasons. These
	// cases run, and they must fail: if one passes, or if a name is not that of a case, the suite
	// fails.
	Exceptions map[string]string
	// Lacks maps the abilities that this backend does not have to the reasons. The cases of every
	// tier that need one of them are left out (Case.Needs). Features().Gaps must contain the same
	// abilities and no others. With nil, the backend declares no gaps, and the log names the
	// abilities that it nevertheless lacks.
	Lacks map[store.Ability]string
	// Progress is for a backend that is not complete yet. A case in which a method of the store
	// returns store.ErrUnsupported then counts as waiting for that method; without Progress it
	// fails. Each tier ends with a summary of the cases that passed and that wait. The flag
	// -conformance.progress sets Progress.
	Progress bool
	// Bubble says that New works inside a testing/synctest bubble: no goroutine of the store
	// blocks on anything outside the bubble, and the store's clock is time.Now. The engine tier
	// then runs without waiting, the cases of the store's clock run once more in a bubble, where
	// times are exact, and [RunSimulation] is possible.
	Bubble bool
	// Faults opens a further handle to the data of s whose requests can be made to fail, as a
	// network or a disk does. Nil leaves out the cases faults/..., with a note in the log. For a
	// database that is reached over TCP or HTTP, use [NewFaultProxy] or [NewHTTPFaults]. For an
	// embedded database, use for example a driver that wraps the real one and makes statements
	// fail.
	Faults func(t testing.TB, s store.Store) FaultyStore
	// Transactions lists the kinds of transaction that programs and steps use, such as
	// pgx.Tx and *sql.Tx, for a backend with [store.Transactor]. Empty leaves out the cases of
	// transactions, with a note in the log.
	Transactions []TxKind
	// Meter opens a store on new, empty data, as New does, with a counter of what its calls read.
	// The cost cases compare what a call reads if there are few other runs and if there are many.
	// The store may be slower than one of New. As examples, the harness of SQLite counts the
	// pages that connections request, that of PostgreSQL the pages that auto_explain reports,
	// and that of Turso the rows that the server reports in its answers. Nil: the cost cases
	// compare times on a store of New, which takes longer and finds fewer faults.
	Meter func(t testing.TB) Meter
	// Unmeasured leaves out the cost cases if it is not empty. It is the reason, for example that
	// another test of the same backend measures. They are also left out under the race detector.
	Unmeasured string
}

// TxKind is a kind of transaction on the database that contains the store, of a driver's type
// such as pgx.Tx. In such a transaction the cases write markers in place of a program's own data.
// The harness decides what a marker is, for example a row in a table that New has created.
type TxKind struct {
	Name string // for example "pgx"; different for each kind of the harness
	// Begin begins a transaction of a program's own on the database of s, for
	// [store.Transactor.Join]. Nil leaves out the cases of Join for this kind.
	Begin func(ctx context.Context, s store.Store) (ProgramTx, error)
	// Step returns the address of a variable for [store.Transactor.Begin], and a
	// function that writes a marker in the transaction that Begin has left there.
	// Nil leaves out the cases of Begin for this kind.
	Step func() (target any, mark func(ctx context.Context, marker string) error)
	// Marked returns how often a marker is stored, as a reader outside of any transaction sees
	// it.
	Marked func(ctx context.Context, s store.Store, marker string) (int, error)
	// Alone says that all other writers wait while a transaction is open, as with SQLite. Cases
	// then make the writes of others before the transaction begins.
	Alone bool
}

// ProgramTx is a transaction that a program itself has begun.
type ProgramTx struct {
	Tx       store.Tx                                       // for [store.Transactor.Join]
	Mark     func(ctx context.Context, marker string) error // writes a marker in the transaction
	Commit   func() error
	Rollback func() error
}

// Meter is a store with a counter of what its calls read.
type Meter struct {
	// Store is on new, empty data of its own.
	Store store.Store
	// Reads returns how much the database has read for this store since the store was opened: a
	// number of rows, pages or keys. It counts what was examined, not what was returned. It never
	// decreases.
	Reads func() int64
	// Settle makes the database do now the work that it otherwise does later in the background
	// after many writes, such as a vacuum of PostgreSQL. Nil: there is no such work.
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
