package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// InTx lets an engine act in the program's own transaction:
//
//	order, err := ship.Start(ctx, eng.InTx(postgres.InTx(tx)), in)
//
// The run exists if and only if tx commits. The transaction must be in the database that
// contains Pawl's schema. If it fails with a deadlock or a serialization failure, the
// program repeats it, as always.
func InTx(tx pgx.Tx) store.Tx { return joined{pgxTx{tx: tx}} }

// InSQLTx is [InTx] for a transaction of database/sql on the driver pgx
// (package stdlib).
func InSQLTx(tx *sql.Tx) store.Tx { return joined{sqlTx{tx: tx}} }

// joined is a transaction in the form of [store.Tx].
type joined struct{ inner }

func (joined) Backend() string { return "postgres" }

// inner is a transaction in progress on some connection.
type inner interface {
	run(ctx context.Context, s *Store, stmts []stmt) error
}

// Planner settings are reset after Pawl's statements, because the transaction is the
// program's. In between they are kept in a setting with a name like that of an extension.
const (
	// The first list is materialized before the outer one changes what it has read.
	replacePlans = `WITH kept AS MATERIALIZED (SELECT set_config('pawl_tx.seqscan', current_setting('enable_seqscan'), true),
			set_config('pawl_tx.bitmapscan', current_setting('enable_bitmapscan'), true),
			set_config('pawl_tx.plan_cache', current_setting('plan_cache_mode'), true), set_config('pawl_tx.jit', current_setting('jit'), true))
		` + plans + ` FROM kept`
	restorePlans = `SELECT set_config('enable_seqscan', current_setting('pawl_tx.seqscan'), true),
		set_config('enable_bitmapscan', current_setting('pawl_tx.bitmapscan'), true),
		set_config('plan_cache_mode', current_setting('pawl_tx.plan_cache'), true), set_config('jit', current_setting('pawl_tx.jit'), true)`
)

// usualPlans begins a step's transaction on a connection of Pawl: the planner then has the settings
// of the database and the role.
const usualPlans = `SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL enable_bitmapscan TO DEFAULT;
	SET LOCAL plan_cache_mode TO DEFAULT; SET LOCAL jit TO DEFAULT`

type pgxTx struct {
	tx    pgx.Tx
	first string // a statement before Pawl's, if any
}

func (t pgxTx) run(ctx context.Context, s *Store, stmts []stmt) error {
	b := &pgx.Batch{}
	b.Queue(replacePlans)
	before := 1
	if t.first != "" {
		b.Queue(t.first)
		before++
	}
	for i := range stmts {
		b.Queue(s.sql(stmts[i].sql), stmts[i].args...)
	}
	b.Queue(restorePlans)
	return readAll(s.send(ctx, t.tx.Conn(), b), stmts, before, 1)
}

type sqlTx struct {
	tx    *sql.Tx
	first string
}

func (t sqlTx) run(ctx context.Context, s *Store, stmts []stmt) error {
	for _, set := range []string{replacePlans, t.first} {
		if set == "" {
			continue
		}
		if _, err := t.tx.ExecContext(ctx, set); err != nil {
			return err
		}
	}
	for i := range stmts {
		if err := t.one(ctx, s, &stmts[i]); err != nil {
			return err
		}
	}
	_, err := t.tx.ExecContext(ctx, restorePlans)
	return err
}

func (t sqlTx) one(ctx context.Context, s *Store, st *stmt) error {
	text := s.sql(st.sql)
	if st.rows == nil {
		res, err := t.tx.ExecContext(ctx, text, st.args...)
		if err == nil && st.affected != nil {
			*st.affected, err = res.RowsAffected()
		}
		return err
	}
	rows, err := t.tx.QueryContext(ctx, text, st.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	types := pgtype.NewMap()
	scan := func(dest ...any) error {
		dest = slices.Clone(dest)
		for i, d := range dest {
			switch d.(type) { // types that database/sql does not know
			case *[]int64, *[]string:
				dest[i] = types.SQLScanner(d)
			}
		}
		return rows.Scan(dest...)
	}
	for rows.Next() {
		if err := st.rows(scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Join implements store.Transactor.
func (s *Store) Join(tx store.Tx) (store.Store, error) {
	j, ok := tx.(joined)
	if !ok {
		return nil, store.Invalid("transaction", fmt.Sprintf("it is a transaction of %s, but the store is on postgres; use postgres.InTx or postgres.InSQLTx", tx.Backend()))
	}
	return newStore(s.base, j.inner, nil), nil
}

// Begin implements store.Transactor. It offers pgx.Tx and *sql.Tx.
func (s *Store) Begin(ctx context.Context, target any) (store.Transaction, error) {
	if s.closed.Load() {
		return nil, classify(ctx, &notSent{errClosed}, false)
	}
	t := &transaction{hints: &[]sqlkit.Hint{}}
	var in inner
	switch target := target.(type) {
	case *pgx.Tx:
		opts := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
		if s.steady {
			opts = pgx.TxOptions{BeginQuery: `BEGIN ISOLATION LEVEL READ COMMITTED; ` + usualPlans}
		}
		tx, err := s.pool.BeginTx(ctx, opts)
		if err != nil {
			return nil, classify(ctx, &notSent{err}, false)
		}
		*target = stepTx{tx}
		in, t.commit = pgxTx{tx, abandoned}, tx.Commit
		t.rollback = func(ctx context.Context) { _ = tx.Rollback(ctx) }
	case **sql.Tx:
		// COMMIT and ROLLBACK of database/sql use only the transaction's context.
		whole, end := context.WithCancel(ctx)
		tx, err := s.database().BeginTx(whole, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			end()
			return nil, classify(ctx, &notSent{err}, false)
		}
		if s.steady {
			if _, err := tx.ExecContext(ctx, usualPlans); err != nil {
				end()
				_ = tx.Rollback()
				return nil, classify(ctx, &notSent{err}, false)
			}
		}
		*target = tx
		within := func(ctx context.Context, finish func() error) error {
			defer end()
			defer context.AfterFunc(ctx, end)()
			return finish()
		}
		in, t.commit = sqlTx{tx, abandoned}, func(ctx context.Context) error { return within(ctx, tx.Commit) }
		t.rollback = func(ctx context.Context) { _ = within(ctx, tx.Rollback) }
	default:
		return nil, fmt.Errorf("postgres: a transactional step takes a pgx.Tx or a *sql.Tx, not what %T points to: %w", target, store.ErrUnsupported)
	}
	t.store = newStore(s.base, in, t.hints)
	return t, nil
}

// stepTx is a transaction that the step must not end.
type stepTx struct{ pgx.Tx }

var errStepTx = errors.New("postgres: Pawl commits a step's transaction together with the step's record: return nil to commit it or an error to roll it back, and do not end it in the step")

func (stepTx) Commit(context.Context) error   { return errStepTx }
func (stepTx) Rollback(context.Context) error { return errStepTx }

// database returns the pool as a *sql.DB.
func (b *base) database() *sql.DB {
	b.sqlOnce.Do(func() { b.sqlDB = stdlib.OpenDBFromPool(b.pool) })
	return b.sqlDB
}

// transaction implements store.Transaction.
type transaction struct {
	store    *Store
	hints    *[]sqlkit.Hint // of the commit, for when it is durable
	commit   func(context.Context) error
	rollback func(context.Context)
	once     sync.Once
}

// abandoned limits how long a process may be silent between its record and COMMIT, because the
// run's row is locked until then.
const abandoned = `SELECT set_config('idle_in_transaction_session_timeout', '10s', true)`

// Commit implements store.Transaction.
func (t *transaction) Commit(ctx context.Context, namespace string, c store.Commit) (res store.CommitResult, err error) {
	defer t.Rollback()
	if c.Transition != nil {
		return res, store.Invalid("commit", "a commit inside a step's transaction cannot have a transition")
	}
	list, err := t.store.Commit(ctx, store.CommitParams{Namespace: namespace, Commits: []store.Commit{c}})
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "25P02":
		return res, fmt.Errorf("postgres: a statement of the step's transaction failed, but the step's function did not return that error: %w", err)
	case errors.Is(err, sql.ErrTxDone) || errors.Is(err, pgx.ErrTxClosed):
		return res, fmt.Errorf("postgres: %w (%v)", errStepTx, err)
	case errors.Is(err, store.ErrOutcomeUnknown):
		return res, fmt.Errorf("%v: %w", err, store.ErrUnavailable) // the transaction is rolled back
	case err != nil:
		return res, err
	case list[0].Err != nil:
		return list[0], nil
	}
	err = t.commit(ctx)
	t.once.Do(func() {}) // in any case there is nothing left to roll back
	if err != nil {
		if errors.Is(err, pgx.ErrTxCommitRollback) {
			return res, fmt.Errorf("postgres: %w", err)
		}
		return res, classify(ctx, err, true)
	}
	if len(*t.hints) > 0 {
		t.store.relay.publish(*t.hints...)
	}
	return list[0], nil
}

// Rollback implements store.Transaction.
func (t *transaction) Rollback() {
	t.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), t.store.config.timeout)
		defer cancel()
		t.rollback(ctx)
	})
}

// Recorded implements store.Transactor. Its lock waits for a transaction that is about to
// commit.
func (s *Store) Recorded(ctx context.Context, namespace string, lease store.Lease, seq int64) (bool, error) {
	var last, epoch int64
	var worker string
	var leased bool
	err := s.write(ctx, stmt{
		sql:  `SELECT seq, epoch, worker, leased FROM pawl.runs WHERE id=$1::uuid AND namespace=$2::text FOR NO KEY UPDATE`,
		args: []any{uuid(lease.Run), namespace}, rows: sqlkit.One(&last, &epoch, sqlkit.TextOrNull(&worker), &leased),
	})
	switch {
	case err != nil:
		return false, err
	case !leased || epoch != lease.Epoch || worker != lease.Worker:
		return false, fmt.Errorf("run %v, epoch %d: %w", lease.Run, lease.Epoch, store.ErrLeaseLost)
	}
	if last < seq-1 {
		return false, store.CommitsMissing(lease, seq, last)
	}
	return last >= seq, nil
}
