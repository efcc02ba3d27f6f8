package turso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// A Transport replaces this package's own client of libSQL; see package libsqlclient. Its methods
// may be called concurrently.
type Transport interface {
	// Run sends the statements in one request. Each statement runs if those before it have
	// succeeded; a transaction that is still open at the end is rolled back. Run returns the rows
	// of the statements that succeeded. If these are not all, it also returns an error: a
	// [*StatementError], a [*StatusError], or the network's error. It never sends anything twice.
	Run(ctx context.Context, stmts []Statement) (rows [][][]any, err error)
	// Migrate applies the migrations that the database has not had. If it fails, the store checks
	// again which migrations the database has had.
	Migrate(ctx context.Context) error
	// Close closes the connections that the transport holds.
	Close() error
}

// Statement is a statement of SQL with the arguments for its parameters. The first argument is for
// parameter ?1 or for the first ?, and so on.
type Statement struct {
	SQL  string
	Args []any // each is nil, an int64, a string or a []byte
}

// StatementError is an error that the server reports for a statement.
type StatementError struct {
	Message string // of the server
	// Whole says that the error is about the whole request, so that it is unknown which statements
	// ran.
	Whole bool
}

// Error returns the message.
func (e *StatementError) Error() string { return e.Message }

// StatusError is an HTTP status other than 200.
type StatusError struct {
	Status  int    // for example 503
	Message string // of the server
}

// Error returns a text with the status and the message.
func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d: %s", e.Status, e.Message) }

// Endpoint is the database that a transport connects to.
type Endpoint struct {
	URL   string // http or https
	Token string // empty: none
}

// WithTransport makes the store send its statements through another client. It cannot be combined
// with the options of this package's own client. A transport does not report what other processes
// write, so workers look for new work every max_sleep. It must connect to the primary, not to a
// replica.
func WithTransport(open func(Endpoint) (Transport, error)) Option {
	return func(c *config) { c.transport = open }
}

// link is a client as the store uses it.
type link interface {
	sqlitecore.Runner
	bounds(ctx context.Context) (early, late time.Time, err error)
	ask(ctx context.Context) (time.Time, error)
	version(ctx context.Context, primary bool) (*index, error)
	counters() Counters
	migrate(ctx context.Context, m sqlitecore.Migration, from int64) error
	close()
}

// foreign is a link that uses a Transport.
type foreign struct {
	t       Transport
	clock   *clock
	timeout time.Duration
	write   chan struct{} // one token for each request under way
	read    chan struct{}

	mu     sync.Mutex
	trips  int64
	closed bool
	calls  sync.WaitGroup
}

func newForeign(t Transport, timeout time.Duration) *foreign {
	return &foreign{t: t, clock: &clock{}, timeout: timeout, write: make(chan struct{}, writers), read: make(chan struct{}, readers)}
}

func (f *foreign) Write(ctx context.Context, stmts []sqlitecore.Stmt) error {
	return patiently(ctx, f.timeout, func() error {
		if _, _, err := f.bounds(ctx); err != nil {
			return err
		}
		return f.apply(ctx, stmts)
	})
}

func (f *foreign) Read(ctx context.Context, stmts []sqlitecore.Stmt) error {
	return patiently(ctx, f.timeout, func() error { return f.look(ctx, stmts) })
}

// request is a list of statements being sent. Those of stmts begin at first.
type request struct {
	stmts []sqlitecore.Stmt
	list  []Statement
	at    []int // for each of stmts, its index in list; -1: it is left out
}

func (q *request) add(sql string, args ...any) { q.list = append(q.list, Statement{sql, args}) }

func newRequest(stmts []sqlitecore.Stmt, before ...Statement) *request {
	q := &request{stmts: stmts, list: before}
	for i := range stmts {
		s := &stmts[i]
		if s.Gate {
			q.at = append(q.at, -1)
			continue
		}
		q.at = append(q.at, len(q.list))
		q.add(s.SQL, s.Args...)
		if s.Affected != nil {
			q.add(`SELECT changes()`)
		}
	}
	return q
}

// handOver passes the results to the statements.
func (q *request) handOver(rows [][][]any) error {
	for i := range q.stmts {
		s, at := &q.stmts[i], q.at[i]
		if at < 0 {
			continue
		}
		if s.Affected != nil {
			*s.Affected, _ = rows[at+1][0][0].(int64)
		}
		if s.Rows == nil {
			continue
		}
		for _, row := range rows[at] {
			values := make([]value, len(row))
			for k, v := range row {
				values[k] = value{v}
			}
			if err := s.Rows(func(dest ...any) error { return scanRow(values, dest) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// The indexes of a write's first statements in its request.
const (
	placeBegin = iota
	placeGuard
)

func (f *foreign) apply(ctx context.Context, stmts []sqlitecore.Stmt) error {
	leave, err := f.enter(ctx, f.write)
	if err != nil {
		return err
	}
	defer leave()
	sent := time.Now()
	early, _, known := f.clock.now(sent)
	if !known {
		return errForgotten
	}
	life := f.timeout
	if deadline, ok := ctx.Deadline(); ok {
		life = min(life, deadline.Sub(sent))
	}
	from, end := span(early, life)
	q := newRequest(stmts, Statement{SQL: "BEGIN IMMEDIATE"}, Statement{guard, []any{from, end}})
	q.add(guard, from, end)
	q.add("COMMIT")
	rows, err := f.send(ctx, q)
	if len(rows) > placeGuard {
		if now, ok := rows[placeGuard][0][0].(int64); ok {
			f.clock.heard(now, sent, time.Now())
		}
	}
	var said *StatementError
	switch {
	case err == nil:
		return q.handOver(rows)
	case !errors.As(err, &said):
		return f.lost(ctx, err, true)
	}
	why := &serverError{Message: said.Message}
	switch c := classify(why); {
	case said.Whole && !errors.Is(c, errTooMuch):
		return failure(&unsureError{why}, true)
	case said.Whole:
		return c
	case len(rows) == placeBegin:
		return fmt.Errorf("turso: another client holds the write lock: %w: %w", errBusy, store.ErrUnavailable)
	case len(rows) == placeGuard:
		f.clock.forget()
		return refusedBy(why)
	case len(rows) == len(q.list)-2:
		return refusedBy(why)
	case len(rows) == len(q.list)-1: // COMMIT
		if c = busy(c, why); errors.Is(c, errBusy) {
			return c
		}
		return failure(&unsureError{why}, true)
	default:
		return busy(c, why)
	}
}

func (f *foreign) look(ctx context.Context, stmts []sqlitecore.Stmt) error {
	leave, err := f.enter(ctx, f.read)
	if err != nil {
		return err
	}
	defer leave()
	var q *request
	if q = newRequest(stmts); len(q.list) > 1 {
		q = newRequest(stmts, Statement{SQL: "BEGIN"})
		q.add("COMMIT")
	}
	rows, err := f.send(ctx, q)
	var said *StatementError
	switch {
	case err == nil:
		return q.handOver(rows)
	case errors.As(err, &said):
		why := &serverError{Message: said.Message}
		return busy(classify(why), why)
	}
	return f.lost(ctx, err, false)
}

// enter waits until a request may be sent.
func (f *foreign) enter(ctx context.Context, turn chan struct{}) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, errClosed
	}
	f.calls.Add(1)
	f.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn; f.calls.Done() }, nil
	case <-ctx.Done():
		f.calls.Done()
		return nil, ctx.Err()
	}
}

func (f *foreign) send(ctx context.Context, q *request) ([][][]any, error) {
	f.mu.Lock()
	f.trips++
	f.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	rows, err := f.t.Run(bounded, q.list)
	var said *StatementError
	var status *StatusError
	switch {
	case err == nil || errors.As(err, &said):
		return rows, err
	case errors.As(err, &status):
		e := &statusError{status: status.Status, says: status.Message}
		if !slices.Contains(refusals, status.Status) {
			return rows, &unsureError{e}
		}
		return rows, e
	}
	return rows, transportError(bounded, err)
}

// lost returns the error of a request without an answer.
func (f *foreign) lost(ctx context.Context, err error, write bool) error {
	err = failure(err, write)
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(err, store.ErrOutcomeUnknown):
		return fmt.Errorf("turso: %w: %w", ctx.Err(), store.ErrOutcomeUnknown)
	}
	return ctx.Err()
}

func (f *foreign) bounds(ctx context.Context) (early, late time.Time, err error) {
	return f.clock.bounds(ctx, f.ask)
}

func (f *foreign) ask(ctx context.Context) (time.Time, error) { return askTime(ctx, f, f.clock) }

// version returns 0, because a Transport does not report the count of changes.
func (f *foreign) version(ctx context.Context, _ bool) (*index, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	return nil, ctx.Err()
}

func (f *foreign) counters() Counters {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Counters{RoundTrips: f.trips}
}

func (f *foreign) migrate(ctx context.Context, _ sqlitecore.Migration, _ int64) error {
	return f.t.Migrate(ctx)
}

func (f *foreign) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.calls.Wait()
	_ = f.t.Close()
}
