package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/store"
)

// stmt is one statement of a pipeline. No Go code runs between the statements of a
// pipeline: a later statement learns what an earlier one did from the data, by the stamp
// that an applied write leaves on the row of its run.
type stmt struct {
	sql  string
	args []any
	// rows reads one row; nil for a statement without rows.
	rows func(scan func(dest ...any) error) error
	// affected receives the number of changed rows of a statement without rows.
	affected *int64
}

// plans makes the planner use the indexes, whatever size it believes a table to have: a plan is
// kept for long, and a table may be empty when the plan is made.
const plans = `SELECT set_config('enable_seqscan','off',true), set_config('enable_bitmapscan','off',true),
	set_config('plan_cache_mode','force_generic_plan',true), set_config('jit','off',true)`

// keepSteady makes these settings permanent for a connection that belongs to Pawl. The statements
// of a transactional step are planned as usual: see usualPlans.
var keepSteady = strings.ReplaceAll(plans, ",true)", ",false)")

// attempts limits how often a transaction that lost a deadlock is sent again.
const attempts = 20

// write runs the list as one transaction in one round trip.
func (s *Store) write(ctx context.Context, stmts ...stmt) error {
	if err := ctx.Err(); err != nil || len(stmts) == 0 {
		return err
	}
	for try := 1; ; try++ {
		err := s.pipeline(ctx, stmts, false)
		var pg *pgconn.PgError
		if try < attempts && s.in == nil && rolledBack(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001") {
			continue
		}
		if s.in == nil { // the program may have begun a read-only transaction
			s.noteReadOnly(err)
		}
		return classify(ctx, err, true)
	}
}

const codeReadOnly = "25006"

// settled is how long no write must have been refused before the database counts as
// writable again.
const settled = time.Second

// noteReadOnly logs once that the database has become read-only, and once that it is
// writable again, however many writes and connections notice.
func (s *Store) noteReadOnly(err error) {
	if err == nil {
		last := s.readOnly.Load()
		if last == 0 || time.Since(time.Unix(0, last)) < settled || !s.readOnly.CompareAndSwap(last, 0) {
			return
		}
		s.config.logger.Info("pawl: the database is writable again")
		if s.own {
			s.pool.Reset() // idle sessions may still be read-only
		}
		return
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == codeReadOnly && s.readOnly.Swap(time.Now().UnixNano()) == 0 {
		s.config.logger.Error("pawl: " + strings.TrimSuffix(advice(codeReadOnly), ": "))
	}
}

// read runs the list in one snapshot.
func (s *Store) read(ctx context.Context, stmts ...stmt) error {
	if err := ctx.Err(); err != nil || len(stmts) == 0 {
		return err
	}
	return classify(ctx, s.pipeline(ctx, stmts, true), false)
}

var errClosed = errors.New("the store is closed")

func (s *Store) pipeline(ctx context.Context, stmts []stmt, read bool) error {
	if s.closed.Load() {
		return &notSent{errClosed}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.timeout, errSlow)
	defer cancel()
	if s.in != nil {
		if !read && s.later == nil {
			stmts = s.numbered(stmts)
		}
		return s.in.run(ctx, s, stmts)
	}
	b := &pgx.Batch{}
	begin, after := "", 0
	switch {
	case read && len(stmts) > 1:
		begin = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`
	case !read && s.isolated:
		begin = `BEGIN ISOLATION LEVEL READ COMMITTED`
	}
	if begin != "" {
		b.Queue(begin)
	}
	if !s.steady {
		b.Queue(plans)
	}
	before := b.Len()
	for i := range stmts {
		b.Queue(s.sql(stmts[i].sql), stmts[i].args...)
	}
	if begin != "" {
		b.Queue(`COMMIT`)
		after = 1
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		s.failures.Add(1)
		return &notSent{err}
	}
	defer conn.Release()
	if err := ctx.Err(); err != nil {
		return &notSent{err} // the wait for the connection took all the time
	}
	err = readAll(s.send(ctx, conn.Conn(), b), stmts, before, after)
	s.failed(ctx, conn.Conn(), err)
	if begin != "" && err != nil && conn.Conn().PgConn().TxStatus() != 'I' {
		// A transaction that was begun in the pipeline stays open after its error.
		if _, failed := conn.Conn().PgConn().Exec(ctx, `ROLLBACK`).ReadAll(); failed != nil {
			_ = conn.Conn().Close(ctx)
		}
	}
	return err
}

// readAll reads the answers to a batch. The first and the last ones are not used.
func readAll(res answers, stmts []stmt, before, after int) (err error) {
	defer func() {
		if closed := res.Close(); err == nil {
			err = closed
		}
	}()
	for range before {
		if _, err := res.Exec(); err != nil {
			return err
		}
	}
	for i := range stmts {
		if err := answer(res, &stmts[i]); err != nil {
			return err
		}
	}
	for range after {
		if _, err := res.Exec(); err != nil {
			return err
		}
	}
	return nil
}

func answer(res answers, st *stmt) error {
	if st.rows == nil {
		tag, err := res.Exec()
		if st.affected != nil {
			*st.affected = tag.RowsAffected()
		}
		return err
	}
	rows, err := res.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := st.rows(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// notSent wraps an error from before anything was sent. It is the only proof of that:
// pgconn.SafeToRetry is no proof, because pgx reports a connection that breaks while it
// reads the answer as one that was closed before it wrote.
type notSent struct{ error }

func (e *notSent) Unwrap() error { return e.error }

var errSlow = errors.New("the database did not respond in time")

// rolledBack reports whether the server itself has answered that a statement failed,
// which rolls back its transaction. The error is then in pg. An error that ends the
// session proves nothing, and neither does one about a connection: a pooler may have made
// it up.
func rolledBack(err error, pg **pgconn.PgError) bool {
	return errors.As(err, pg) && (*pg).SeverityUnlocalized == "ERROR" && !strings.HasPrefix((*pg).Code, "08")
}

// classify maps an error to the errors of package store (P16). It reports a write as not
// applied only if that is proven: nothing was sent, or the server has rolled back. Every
// other error leaves the outcome of a write unknown.
func classify(ctx context.Context, err error, write bool) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	var unsent *notSent
	outcome := store.ErrUnavailable
	if tooLarge(err) {
		return &sizeError{err}
	}
	switch {
	case errors.As(err, &unsent):
	case rolledBack(err, &pg):
		if !transient(pg.Code) {
			return fmt.Errorf("postgres: %s%w", advice(pg.Code), err)
		}
	case write:
		outcome = store.ErrOutcomeUnknown
	}
	if ctx.Err() != nil {
		if outcome == store.ErrOutcomeUnknown {
			return fmt.Errorf("postgres: %w: %w", ctx.Err(), outcome)
		}
		return ctx.Err()
	}
	code := ""
	if errors.As(err, &pg) {
		code = pg.Code
	}
	return fmt.Errorf("postgres: %s%w: %w", advice(code), err, outcome)
}

// sizeError is the error of the server or the driver about a request that is too large.
// Nothing of it was applied, and repeating it would fail again.
type sizeError struct{ error }

func (e *sizeError) Error() string {
	return "postgres: the request is larger than the server accepts; send fewer or smaller items: " + e.error.Error()
}

func (e *sizeError) Unwrap() error { return e.error }

// Is matches store.ErrTooLarge.
func (e *sizeError) Is(target error) bool { return target == store.ErrTooLarge }

// As makes a *store.TooLargeError.
func (e *sizeError) As(target any) bool {
	t, ok := target.(**store.TooLargeError)
	if ok {
		*t = &store.TooLargeError{Field: "a request to the server", Size: maxMessage + 1, Limit: maxMessage}
	}
	return ok
}

// maxMessage is the maximum size of a message of the protocol.
const maxMessage = 1<<30 - 1

// tooLarge reports whether a request was refused for its size. The driver's error has no
// type: it fails before the message is sent, and its transaction with it.
func tooLarge(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return strings.Contains(err.Error(), "message body too large")
	}
	switch pg.Code {
	case "54000": // program_limit_exceeded
		return true
	case "XX000":
		return strings.Contains(pg.Message, "invalid memory alloc request size")
	case "08P01":
		return strings.Contains(pg.Message, "invalid message length")
	}
	return false
}

// inPart is the error of a call that another transaction has already partly applied.
func inPart(ctx context.Context, some bool, err error) error {
	switch {
	case err == nil || !some || errors.Is(err, store.ErrOutcomeUnknown):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("postgres: %w: %w", ctx.Err(), store.ErrOutcomeUnknown)
	}
	return fmt.Errorf("%v: part of the call was applied before that: %w", err, store.ErrOutcomeUnknown)
}

// transient reports whether the same request may succeed later after this code: a problem
// of the connection, of resources, by the operator or the system, or a lost deadlock.
func transient(code string) bool {
	switch code[:min(2, len(code))] {
	case "08", "40", "53", "55", "57", "58":
		return true
	}
	return code == codeReadOnly || code == "26000"
}

func advice(code string) string {
	switch code {
	case codeReadOnly:
		return "the database is read-only, perhaps a standby after a failover; the store continues when it is writable again: "
	case "42P01", "3F000":
		return "Pawl's tables are missing; run postgres.Migrate, or open the store without WithoutMigration: "
	case "42501":
		return "this role lacks a privilege: "
	case "53300":
		return "the server accepts no more connections: "
	case "53100":
		return "the server's disk is full: "
	case "26000", "42P05":
		return "the server has lost a prepared statement, perhaps because of a pooler that was not detected or does not track prepared statements; set default_query_exec_mode=exec in the URL: "
	}
	return ""
}

// Now is the first parameter of each statement that needs the time: the time that the
// caller set, or NULL for the database's. A transaction has one time, that of its first
// statement.
//
// date_part calculates with double precision and extract with numeric, which takes twice as long.
// The result is exact to the microsecond until the year 2106.
const now = `coalesce($1::bigint, (date_part('epoch', now())*1000000)::bigint)`

func setNow(t time.Time) any {
	if t.IsZero() {
		return (*int64)(nil)
	}
	v := t.UnixMicro()
	return &v
}
