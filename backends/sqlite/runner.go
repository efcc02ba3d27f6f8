package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// readers is the number of connections that read, in addition to the one that writes.
const readers = 4

// runner runs lists of statements on one connection for writes and a few for reads. Its
// channels hold the free connections: a caller that takes one uses it exclusively. In
// memory, one connection does both.
type runner struct {
	db     *sqlx.DB
	config *config
	place  *place // nil in memory
	writer chan *conn
	reader chan *conn
	done   chan struct{} // closed with the runner

	mu    sync.Mutex
	queue []*job // jobs that wait for the writer
	last  int64  // number of the last job
}

func newRunner(db *sqlx.DB, c *config) *runner {
	r := &runner{db: db, config: c, writer: make(chan *conn, 1), done: make(chan struct{})}
	r.reader = r.writer
	if !c.memory {
		r.reader = make(chan *conn, readers)
	}
	return r
}

// start opens the writer; readers open when they are first needed.
func (r *runner) start(ctx context.Context) error {
	w := &conn{runner: r}
	if err := w.open(ctx); err != nil {
		return err
	}
	r.writer <- w
	if !r.config.memory {
		for range readers {
			r.reader <- &conn{runner: r, readOnly: true}
		}
	}
	return nil
}

// close waits for all connections to be free.
func (r *runner) close() error {
	close(r.done)
	conns := []*conn{<-r.writer}
	if !r.config.memory {
		for range readers {
			conns = append(conns, <-r.reader)
		}
	}
	var err error
	for _, c := range conns {
		err = errors.Join(err, c.close())
	}
	return errors.Join(err, r.db.Close())
}

// take waits for a free connection.
func (r *runner) take(ctx context.Context, from chan *conn) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-r.done: // first, because after close nothing is free
		return nil, errClosed
	default:
	}
	select {
	case c := <-from:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.done:
		return nil, errClosed
	}
}

var errClosed = fmt.Errorf("sqlite: the store is closed: %w", store.ErrUnavailable)

// A job holds one call's statements, which wait for a transaction.
type job struct {
	ctx    context.Context
	stmts  []sqlitecore.Stmt
	number int64 // in the order of the queue
	err    error
	done   chan struct{} // closed when err is set
}

// Write implements sqlitecore.Runner. Calls that wait during another transaction share
// the next one: making a transaction durable costs as much as the statements of a dozen
// runs.
func (r *runner) Write(ctx context.Context, stmts []sqlitecore.Stmt) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-r.done: // first, because after close nothing is free
		return errClosed
	default:
	}
	j := &job{ctx: ctx, stmts: stmts, done: make(chan struct{})}
	r.mu.Lock()
	r.last++
	j.number = r.last
	r.queue = append(r.queue, j)
	r.mu.Unlock()
	select {
	case <-j.done:
	case c := <-r.writer:
		c.work(ctx)
		r.writer <- c
		<-j.done // by this call of work, or by the previous one
	case <-ctx.Done():
		r.withdraw(j, ctx.Err())
	case <-r.done:
		r.withdraw(j, errClosed)
	}
	return j.err
}

// withdraw takes back a job that has not begun; otherwise it waits for the job's end.
func (r *runner) withdraw(j *job, why error) {
	r.mu.Lock()
	if i := slices.Index(r.queue, j); i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
		j.err = why
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	<-j.done
}

// work executes the waiting jobs in one transaction. It takes them when it has SQLite's lock, so that
// until then each can be withdrawn. ctx limits the wait for the lock; when it ends, the jobs of other
// calls stay.
func (c *conn) work(ctx context.Context) {
	c.mu.Lock()
	last, none := c.last, len(c.queue) == 0
	c.mu.Unlock()
	if none {
		return
	}
	finish := func(j *job, err error) {
		j.err = err
		close(j.done)
	}
	if err := c.begin(ctx); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue = slices.DeleteFunc(c.queue, func(j *job) bool {
			fails := j.number <= last && (ctx.Err() == nil || j.ctx == ctx)
			if fails {
				finish(j, err)
			}
			return fails
		})
		return
	}
	c.mu.Lock()
	jobs := c.queue
	c.queue = nil
	c.mu.Unlock()
	if len(jobs) == 0 {
		c.rollback()
		return
	}
	// The first job needs no savepoint: nothing is lost by a rollback. A savepoint makes SQLite copy each
	// page before it changes it.
	first := jobs[0]
	if first.err = c.run(first.ctx, first.stmts); first.err != nil {
		c.rollback()
		c.mu.Lock()
		c.queue = append(jobs[1:], c.queue...)
		c.mu.Unlock()
		finish(first, first.err)
		c.work(ctx)
		return
	}
	if len(jobs) == 1 {
		finish(first, c.commit(first.ctx))
		return
	}
	for i, j := range jobs[1:] {
		if j.err = c.runApart(j); j.err == nil || c.exec("ROLLBACK TO job") == nil && c.exec("RELEASE job") == nil {
			continue
		}
		// The error has ended the whole transaction. Its statements have seen results
		// that are no longer valid, so only their callers can repeat them.
		c.rollback()
		for _, other := range jobs {
			if other != j {
				other.err = fmt.Errorf("sqlite: a transaction shared with other calls failed: %v: %w", jobs[1+i].err, store.ErrUnavailable)
			}
			finish(other, other.err)
		}
		return
	}
	err := c.commit(background)
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
		}
		finish(j, j.err)
	}
}

// runApart runs a job so that it can be rolled back separately.
func (c *conn) runApart(j *job) error {
	if err := j.ctx.Err(); err != nil {
		// The savepoint exists nevertheless, and the caller rolls it back.
		_ = c.exec("SAVEPOINT job")
		return err
	}
	if err := c.exec("SAVEPOINT job"); err != nil {
		return classify(err)
	}
	if err := c.run(j.ctx, j.stmts); err != nil {
		return err
	}
	return classify(c.exec("RELEASE job"))
}

// Read implements sqlitecore.Runner.
func (r *runner) Read(ctx context.Context, stmts []sqlitecore.Stmt) error {
	c, err := r.take(ctx, r.reader)
	if err != nil {
		return err
	}
	defer func() { r.reader <- c }()
	if err := c.place.there(); err != nil { // before open, which would create a new file
		return err
	}
	if err := c.open(ctx); err != nil {
		return classify(err)
	}
	if err := c.place.there(); err != nil {
		return errors.Join(err, c.close()) // it may have opened the other file
	}
	if len(stmts) == 1 { // a snapshot of its own
		return c.run(ctx, stmts)
	}
	defer c.rollback() // even if BEGIN fails, the transaction may have begun
	if err := c.exec("BEGIN"); err != nil {
		return classify(err)
	}
	return c.run(ctx, stmts)
}

// conn is a connection with the statements that were prepared on it.
type conn struct {
	*runner
	readOnly bool
	conn     *sqlx.Conn // nil until it is opened
	stmts    map[string]*sqlx.Stmt
}

// maxPrepared limits the statements that are kept. Only listings with their combinations
// of filters come near the limit.
const maxPrepared = 200

// open connects if that has not happened yet.
func (c *conn) open(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	raw, err := c.db.Connx(ctx)
	if err != nil {
		return err
	}
	c.conn, c.stmts = raw, map[string]*sqlx.Stmt{}
	setup := []string{"PRAGMA synchronous=FULL"}
	if c.config.synchronous == Normal {
		setup[0] = "PRAGMA synchronous=NORMAL"
	}
	if c.readOnly {
		// A reader waits for another process only while that process recovers the log.
		setup = []string{"PRAGMA query_only=1", fmt.Sprintf("PRAGMA busy_timeout=%d", c.config.busyTimeout.Milliseconds())}
	}
	for _, sql := range setup {
		if _, err := raw.ExecContext(ctx, sql); err != nil {
			return errors.Join(err, c.close())
		}
	}
	return nil
}

// synchronous reads the setting of the connection that writes.
func (r *runner) synchronous(ctx context.Context) (level int, err error) {
	c, err := r.take(ctx, r.writer)
	if err != nil {
		return 0, err
	}
	defer func() { r.writer <- c }()
	if err := c.open(ctx); err != nil {
		return 0, classify(err)
	}
	err = c.conn.GetContext(background, &level, "PRAGMA synchronous")
	return level, classify(err)
}

func (c *conn) close() error {
	if c.conn == nil {
		return nil
	}
	c.forget()
	err := c.conn.Close()
	c.conn = nil
	return err
}

func (c *conn) forget() {
	for sql, stmt := range c.stmts {
		_ = stmt.Close()
		delete(c.stmts, sql)
	}
}

// background is the context of statements. With a context that can be canceled, the
// driver starts a goroutine for every statement, and an interrupted statement leaves the
// outcome unknown.
var background = context.Background()

func (c *conn) prepare(sql string) (*sqlx.Stmt, error) {
	if stmt := c.stmts[sql]; stmt != nil {
		return stmt, nil
	}
	if len(c.stmts) >= maxPrepared {
		c.forget()
	}
	stmt, err := c.conn.PreparexContext(background, sql)
	if err != nil {
		return nil, err
	}
	c.stmts[sql] = stmt
	return stmt, nil
}

func (c *conn) exec(sql string) error {
	stmt, err := c.prepare(sql)
	if err == nil {
		_, err = stmt.ExecContext(background)
	}
	return err
}

// begin takes SQLite's write lock. It waits for another process here and not in SQLite,
// where waiting cannot be interrupted.
func (c *conn) begin(ctx context.Context) error {
	if err := c.place.there(); err != nil {
		return err
	}
	deadline := time.Now().Add(c.config.busyTimeout)
	for tries, wait := 0, 50*time.Microsecond; ; tries++ {
		err := c.exec("BEGIN IMMEDIATE")
		if err == nil {
			return nil
		}
		if !isBusy(err) {
			c.rollback() // the transaction may nevertheless have begun
			return classify(err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("sqlite: another process has held the write lock for %v: %w", c.config.busyTimeout, classify(err))
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		// A busy process leaves the lock free only for moments, which a process that
		// checks rarely never meets.
		if tries > 200 {
			wait = min(2*wait, 5*time.Millisecond)
		} else {
			wait = min(2*wait, 400*time.Microsecond)
		}
	}
}

// checkEvery is the number of statements or rows between two checks of the context.
const checkEvery = 64

// run runs the statements of a transaction that has begun.
func (c *conn) run(ctx context.Context, stmts []sqlitecore.Stmt) error {
	steps := 0
	check := func() error {
		if steps++; steps%checkEvery == 1 {
			return ctx.Err()
		}
		return nil
	}
	for i := range stmts {
		s := &stmts[i]
		if err := check(); err != nil {
			return err
		}
		if s.Gate || s.Unneeded != nil && s.Unneeded() {
			continue
		}
		stmt, err := c.prepare(s.SQL)
		if err != nil {
			return classify(err)
		}
		if s.Rows == nil {
			res, err := stmt.ExecContext(background, s.Args...)
			if err == nil && s.Affected != nil {
				*s.Affected, err = res.RowsAffected()
			}
			if err != nil {
				return classify(err)
			}
			continue
		}
		if err := query(stmt, s, check); err != nil {
			return err
		}
	}
	return nil
}

func query(stmt *sqlx.Stmt, s *sqlitecore.Stmt, check func() error) error {
	// The plain statement, because sqlx's Rows would compute names that are not used.
	rows, err := stmt.Stmt.QueryContext(background, s.Args...)
	if err != nil {
		return classify(err)
	}
	defer func(rows *sql.Rows) { _ = rows.Close() }(rows)
	for rows.Next() {
		if err := check(); err != nil {
			return err
		}
		if err := s.Rows(rows.Scan); err != nil {
			return err
		}
	}
	return classify(rows.Err())
}

// commit ends the transaction. It is the last moment at which a canceled call is rolled
// back.
func (c *conn) commit(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		if err = c.exec("COMMIT"); err == nil {
			return c.place.kept()
		}
		err = classifyCommit(err)
	}
	c.rollback()
	return err
}

// rollback ends a transaction if one is open: some errors have ended it already.
func (c *conn) rollback() { _ = c.exec("ROLLBACK") }

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
