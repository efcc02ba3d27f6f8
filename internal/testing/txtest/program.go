package txtest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// A Program has a table of orders in the database that holds the store.
type Program struct {
	Store Outer
	// Begin begins a transaction of the program's.
	Begin func(ctx context.Context) (Tx, error)
	// Exec runs a statement in the transaction begun last.
	Exec func(ctx context.Context, query string, args ...any) error
	// Count counts the orders, outside of any transaction.
	Count func(ctx context.Context) (int, error)
}

var (
	paid    = workflow.NewSignal[string]("paid")
	payment = workflow.NewState[int]("payment")
)

// ship waits for its payment and returns who made it.
var ship = workflow.New("ship", func(ctx workflow.Context, order int) (string, error) {
	by, err := paid.Receive(ctx)
	return fmt.Sprintf("order %d, paid by %s", order, by), err
})

// Test makes starts, signals and state writes part of the program's transactions.
func Test(t *testing.T, p Program) {
	eng := engine.New(p.Store)
	defer eng.Close()
	w := worker.New(eng)
	require.NoError(t, w.Register(ship))
	stop := work(t, w)
	defer stop()

	h := testStarts(t, p, eng)
	testRun(t, p, eng, h)
	testSignalStart(t, p, eng)
	testSchedule(t, p, eng)
	testForeign(t, eng, h)
}

// order writes an order and starts its run, in one transaction.
func order(t *testing.T, p Program, eng *engine.Engine, n int) (Tx, workflow.Handle[string]) {
	tx, err := p.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.Exec(t.Context(), "INSERT INTO orders VALUES (1)"))
	h, err := ship.Start(t.Context(), eng.InTx(tx.Tx), n, engine.ExternalID(fmt.Sprint("order-", n)))
	require.NoError(t, err)
	return tx, h
}

// testStarts rolls back the start of order 1 and commits that of order 2, whose run it returns.
func testStarts(t *testing.T, p Program, eng *engine.Engine) workflow.Handle[string] {
	ctx := t.Context()
	count := func() int {
		n, err := p.Count(ctx)
		require.NoError(t, err)
		return n
	}
	tx, h := order(t, p, eng, 1)
	require.NoError(t, tx.Rollback())
	require.Zero(t, count(), "orders after a rollback")
	_, err := eng.Get(ctx, h.ID())
	require.ErrorIs(t, err, store.ErrNotFound, "the run of an order that was rolled back")

	tx, h = order(t, p, eng, 2)
	run, err := eng.InTx(tx.Tx).Get(ctx, h.ID())
	require.NoError(t, err, "the transaction sees its own run")
	require.Equal(t, store.Pending, run.Status)
	again, err := ship.Start(ctx, eng.InTx(tx.Tx), 2, engine.ExternalID("order-2"))
	require.NoError(t, err)
	require.True(t, again.Existing(), "a second start in the transaction finds the first")
	require.Equal(t, h.ID(), again.ID())
	require.NoError(t, tx.Commit())
	require.Equal(t, 1, count(), "orders after a commit")
	return h
}

// testSignalStart pays for order 3, which starts its run: in a transaction that is rolled back, which
// has no effect, and in one that commits.
func testSignalStart(t *testing.T, p Program, eng *engine.Engine) {
	ctx := t.Context()
	pay := func(e *engine.Engine, by string) workflow.Handle[string] {
		h, err := ship.SignalWithStart(ctx, e, 3, paid.With(by), engine.ExternalID("order-3"))
		require.NoError(t, err)
		return h
	}
	tx, err := p.Begin(ctx)
	require.NoError(t, err)
	pay(eng.InTx(tx.Tx), "nobody")
	require.NoError(t, tx.Rollback())
	_, err = eng.Find(ctx, "order-3")
	require.ErrorIs(t, err, store.ErrNotFound, "the run of a transaction that was rolled back")

	tx, err = p.Begin(ctx)
	require.NoError(t, err)
	h, again := pay(eng.InTx(tx.Tx), "Ann"), pay(eng.InTx(tx.Tx), "Bob")
	require.Equal(t, h.ID(), again.ID(), "the second signal in the transaction reaches the run")
	require.True(t, again.Existing())
	require.NoError(t, tx.Commit())
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "order 3, paid by Ann", out)
}

// testRun signals order 2 and writes its state: in a transaction that is rolled back, which has no
// effect, and in one that commits.
func testRun(t *testing.T, p Program, eng *engine.Engine, h workflow.Handle[string]) {
	ctx := t.Context()
	tx, err := p.Begin(ctx)
	require.NoError(t, err)
	require.NoError(t, paid.Send(ctx, eng.InTx(tx.Tx), h.ID(), "nobody"))
	_, err = eng.InTx(tx.Tx).SetState(ctx, h.ID(), store.StateWrite{Key: "payment", Value: []byte("0")})
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	entries, err := eng.GetState(ctx, h.ID())
	require.NoError(t, err)
	require.Empty(t, entries)

	tx, err = p.Begin(ctx)
	require.NoError(t, err)
	in, beside := workflow.OfRun(ctx, eng.InTx(tx.Tx), h.ID()), workflow.OfRun(ctx, eng, h.ID())
	require.NoError(t, payment.Set(in, 6))
	v, version, err := payment.GetVersion(in)
	require.NoError(t, err)
	require.Equal(t, 6, v, "the transaction sees its own state")
	_, ok, err := payment.Get(beside)
	require.NoError(t, err)
	require.False(t, ok, "state of a transaction that has not committed")
	_, err = payment.CompareAndSet(in, version, 7)
	require.NoError(t, err)
	_, err = payment.CompareAndSet(in, version, 8)
	require.ErrorIs(t, err, store.ErrConflict)
	err = workflow.WaitForState(in, "paid", func(workflow.FlowStateReader) (bool, error) { return true, nil })
	require.ErrorIs(t, err, store.ErrInvalid, "a wait inside a transaction")
	require.NoError(t, paid.Send(ctx, eng.InTx(tx.Tx), h.ID(), "Ann"))
	require.NoError(t, tx.Commit())
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "order 2, paid by Ann", out)
	entries, err = eng.GetState(ctx, h.ID(), "payment")
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "7", string(entries[0].Value))

}

// testSchedule puts a schedule together with the program's writes, or not at all.
func testSchedule(t *testing.T, p Program, eng *engine.Engine) {
	ctx := t.Context()
	for _, commit := range []bool{false, true} {
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		_, err = ship.Schedule(ctx, eng.InTx(tx.Tx), "weekly", "@weekly", 4)
		require.NoError(t, err)
		require.NoError(t, eng.InTx(tx.Tx).PauseSchedule(ctx, "weekly"))
		if commit {
			require.NoError(t, tx.Commit())
			break
		}
		require.NoError(t, tx.Rollback())
		_, err = eng.Schedule(ctx, "weekly")
		require.ErrorIs(t, err, store.ErrNotFound, "a schedule that was rolled back")
	}
	schedule, err := eng.Schedule(ctx, "weekly")
	require.NoError(t, err)
	require.True(t, schedule.Paused)
	require.NoError(t, eng.ResumeSchedule(ctx, "weekly"))
}

// testForeign uses transactions that the store cannot join.
func testForeign(t *testing.T, eng *engine.Engine, h workflow.Handle[string]) {
	ctx := t.Context()
	_, err := ship.Schedule(ctx, eng.InTx(foreign{}), "weekly", "@weekly", 4)
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = ship.Start(ctx, eng.InTx(foreign{}), 3)
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "InTx")
	require.ErrorContains(t, err, "elsewhere")
	_, err = eng.InTx(foreign{}).Get(ctx, h.ID())
	require.ErrorIs(t, err, store.ErrInvalid, "a read through a transaction that cannot be had")
	_, err = ship.Start(ctx, eng.InTx(nil), 3)
	require.ErrorIs(t, err, store.ErrInvalid)
}

// work runs a worker until stop is called.
func work(t *testing.T, w *worker.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// foreign is a transaction of a backend that does not exist.
type foreign struct{}

func (foreign) Backend() string { return "elsewhere" }

// childEnv makes a test binary the process to be killed, and contains the place of its database.
const childEnv = "PAWL_TXTEST_CHILD"

const reached = "reached"

// Child runs body if this process is one that [Killed] has started, and then waits
// to be killed. A package's TestMain calls it first.
func Child(body func(ctx context.Context, database string) error) {
	database, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	if err := body(context.Background(), database); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(reached)
	select {}
}

// Killed starts a process of this test binary that runs its Child, and kills it when Child has run.
func Killed(t *testing.T, database string) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+database)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan() && (len(said) == 0 || said[len(said)-1] != reached); {
		said = append(said, lines.Text())
		if lines.Text() == reached {
			break
		}
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Contains(t, said, reached, "the process said: %s", strings.Join(said, "\n"))
}
