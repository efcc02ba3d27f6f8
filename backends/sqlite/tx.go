package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// InTx lets an engine act in the program's own transaction:
//
//	order, err := ship.Start(ctx, eng.InTx(sqlite.InTx(tx)), in)
//
// The run exists if and only if tx commits. The transaction must be in the same file as
// the store. It should take SQLite's write lock when it begins (with modernc.org/sqlite:
// _txlock=immediate); otherwise its first write may find the file locked permanently.
// While it is open nobody else can write, including the workers on the file: keep it
// short.
func InTx(tx *sql.Tx) store.Tx { return joined{tx} }

// joined is a transaction in the form of [store.Tx].
type joined struct{ tx *sql.Tx }

func (joined) Backend() string { return "sqlite" }

// Join implements store.Transactor.
func (s *Store) Join(tx store.Tx) (store.Store, error) {
	j, ok := tx.(joined)
	if !ok {
		return nil, store.Invalid("transaction", fmt.Sprintf("it is a transaction of %s, but the store is on sqlite; use sqlite.InTx", tx.Backend()))
	}
	select {
	case <-s.runner.done:
		return nil, errClosed
	default:
	}
	if err := s.runner.place.there(); err != nil {
		return nil, err
	}
	return &inside{sqlitecore.New(txRunner(j), s.coreConfig(func(...store.Hint) {})), s}, nil
}

// inside is the store in a transaction. Its writes become visible when the transaction commits,
// like those of another process.
type inside struct {
	*sqlitecore.Core
	outer *Store
}

// Features implements store.Store.
func (s *inside) Features() store.Features {
	f := s.outer.Features()
	f.Hints, f.Transactions = false, false
	return f
}

// Close implements store.Store.
func (s *inside) Close() error { return nil }

// txRunner runs lists in the program's own transaction.
type txRunner struct{ tx *sql.Tx }

// Write implements sqlitecore.Runner. A list that fails is rolled back separately.
func (r txRunner) Write(ctx context.Context, stmts []sqlitecore.Stmt) error {
	if err := r.exec(ctx, "SAVEPOINT pawl"); err != nil {
		return err
	}
	if err := r.run(ctx, stmts); err != nil {
		return errors.Join(err, r.exec(background, "ROLLBACK TO pawl"), r.exec(background, "RELEASE pawl"))
	}
	return r.exec(ctx, "RELEASE pawl")
}

// Read implements sqlitecore.Runner.
func (r txRunner) Read(ctx context.Context, stmts []sqlitecore.Stmt) error { return r.run(ctx, stmts) }

func (r txRunner) exec(ctx context.Context, text string) error {
	_, err := r.tx.ExecContext(ctx, text)
	return classify(err)
}

func (r txRunner) run(ctx context.Context, stmts []sqlitecore.Stmt) error {
	for i := range stmts {
		if s := &stmts[i]; !s.Gate && (s.Unneeded == nil || !s.Unneeded()) {
			if err := r.one(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r txRunner) one(ctx context.Context, s *sqlitecore.Stmt) error {
	if s.Rows == nil {
		res, err := r.tx.ExecContext(ctx, s.SQL, s.Args...)
		if err == nil && s.Affected != nil {
			*s.Affected, err = res.RowsAffected()
		}
		return classify(err)
	}
	rows, err := r.tx.QueryContext(ctx, s.SQL, s.Args...)
	if err != nil {
		return classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := s.Rows(rows.Scan); err != nil {
			return err
		}
	}
	return classify(rows.Err())
}

// transaction implements store.Transaction on the connection that writes, which it keeps
// until its end: other writes of the process wait, and those of other processes find the
// file locked.
type transaction struct {
	store *Store
	conn  *conn
	tx    *sql.Tx
	stop  func() bool // stops watching the step's context
	mu    sync.Mutex
	ended bool
}

// Begin implements store.Transactor. It offers *sql.Tx, and rolls back the transaction as
// soon as ctx ends, whatever the step does then.
func (s *Store) Begin(ctx context.Context, target any) (store.Transaction, error) {
	out, ok := target.(**sql.Tx)
	if !ok {
		return nil, fmt.Errorf("sqlite: a transactional step takes a *sql.Tx, not what %T points to: %w", target, store.ErrUnsupported)
	}
	c, err := s.runner.take(ctx, s.runner.writer)
	if err != nil {
		return nil, err
	}
	tx, err := c.beginTx(ctx)
	if err != nil {
		s.runner.writer <- c
		return nil, err
	}
	*out = tx
	t := &transaction{store: s, conn: c, tx: tx}
	t.stop = context.AfterFunc(ctx, t.undo)
	return t, nil
}

// beginTx is begin for a transaction of database/sql. It uses a context that does not end, because
// database/sql would close the connection with the context.
func (c *conn) beginTx(ctx context.Context) (*sql.Tx, error) {
	if err := c.place.there(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(c.config.busyTimeout)
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		tx, err := c.conn.Conn.BeginTx(background, nil)
		switch {
		case err == nil:
			return tx, nil
		case !isBusy(err) || time.Now().After(deadline):
			c.rollback() // the transaction may nevertheless have begun
			return nil, classify(err)
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

var errStepTx = errors.New("sqlite: Pawl commits a step's transaction together with the step's record: return nil to commit it or an error to roll it back, and do not end it in the step")

// Commit implements store.Transaction.
func (t *transaction) Commit(ctx context.Context, namespace string, c store.Commit) (res store.CommitResult, err error) {
	if c.Transition != nil {
		return res, store.Invalid("commit", "a commit inside a step's transaction cannot have a transition")
	}
	t.stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return res, context.Canceled // the step's context has already ended
	}
	defer t.endLocked()
	var hints []store.Hint
	core := sqlitecore.New(txRunner{t.tx}, t.store.coreConfig(func(h ...store.Hint) { hints = append(hints, h...) }))
	list, err := core.Commit(ctx, store.CommitParams{Namespace: namespace, Commits: []store.Commit{c}})
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return res, fmt.Errorf("%w: %w", errStepTx, err)
	case err != nil:
		return res, err
	case list[0].Err != nil:
		return list[0], nil
	}
	if err := t.tx.Commit(); err != nil {
		return res, classifyCommit(err)
	}
	if err := t.store.runner.place.kept(); err != nil {
		return res, err
	}
	t.store.hub.Publish(hints...)
	return list[0], nil
}

// Rollback implements store.Transaction.
func (t *transaction) Rollback() {
	t.stop()
	t.undo()
}

func (t *transaction) undo() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.endLocked()
	}
}

// endLocked rolls back what is not committed and returns the connection.
func (t *transaction) endLocked() {
	t.ended = true
	_ = t.tx.Rollback()
	t.conn.rollback() // in case the step has begun its own transaction
	t.store.runner.writer <- t.conn
}

// Recorded implements store.Transactor. Only an I/O error of COMMIT leaves the outcome
// unknown, and the caller gets the connection when that transaction has ended.
func (s *Store) Recorded(ctx context.Context, namespace string, lease store.Lease, seq int64) (bool, error) {
	lost, last := true, int64(0)
	err := s.runner.Write(ctx, []sqlitecore.Stmt{{
		SQL:  `SELECT seq FROM runs WHERE id=? AND namespace=? AND epoch=? AND worker=? AND leased=1`,
		Args: []any{lease.Run[:], namespace, lease.Epoch, lease.Worker},
		Rows: func(scan func(...any) error) error {
			lost = false
			return scan(&last)
		},
	}})
	switch {
	case err != nil:
		return false, err
	case lost:
		return false, fmt.Errorf("run %v, epoch %d: %w", lease.Run, lease.Epoch, store.ErrLeaseLost)
	case last < seq-1:
		return false, store.CommitsMissing(lease, seq, last)
	}
	return last >= seq, nil
}
