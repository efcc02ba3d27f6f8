package turso

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// More streams do not increase speed, and many have made the server's write lock hang.
const (
	writers = 2 // concurrent round trips of writes
	readers = 2 // concurrent round trips of reads

	maxJobs  = 64      // calls that share a round trip
	maxBytes = 4 << 20 // bytes of arguments in a shared round trip, beyond the first call's
)

// maxPassed is a size of arguments that a replica certainly forwards. The statements of a call are
// sent in addition.
const maxPassed = 7 << 19

// runner runs lists of statements, each in one round trip. Calls that wait for another round trip
// to end share the next one, each with a transaction of its own.
type runner struct {
	client  *client
	clock   *clock
	changes *changes
	timeout time.Duration

	mu      sync.Mutex
	closed  bool
	flights sync.WaitGroup
	write   lane
	read    lane
}

// lane holds the calls that wait for round trips of one kind.
type lane struct {
	queue  []*job
	active int
	limit  int
}

// A job holds the statements of one call.
type job struct {
	stmts    []sqlitecore.Stmt
	write    bool
	deadline time.Time // zero: the timeout applies

	flight *flight // set once the job is sent
	done   chan struct{}
	steps  []*stepResult // of stmts
	err    error
}

// A flight is a round trip.
type flight struct {
	cancel  context.CancelFunc
	waiting atomic.Int32 // callers that have not given up
}

func newRunner(c *client, timeout time.Duration) *runner {
	return &runner{
		client: c, clock: &clock{}, changes: &changes{}, timeout: timeout,
		write: lane{limit: writers}, read: lane{limit: readers},
	}
}

var errClosed = fmt.Errorf("turso: the store is closed: %w", store.ErrUnavailable)

// errLate is the error of a write that the guard refused, so that nothing was applied.
var errLate = fmt.Errorf("turso: the server began the write after its timeout, or its clock was changed: %w", store.ErrUnavailable)

// errForgotten is the error of a write that was not sent because the server's time, which was known
// when the write began to wait for its turn, is no longer known.
var errForgotten = fmt.Errorf("turso: the server's time is not known: %w", store.ErrUnavailable)

// errBusy marks a call that was not applied because others came first.
var errBusy = errors.New("busy")

// Write implements sqlitecore.Runner.
func (r *runner) Write(ctx context.Context, stmts []sqlitecore.Stmt) error {
	return patiently(ctx, r.timeout, func() error {
		if _, _, err := r.bounds(ctx); err != nil {
			return err
		}
		return r.run(ctx, stmts, true)
	})
}

// Read implements sqlitecore.Runner. The primary answers, because a replica may not yet have what
// was acknowledged.
func (r *runner) Read(ctx context.Context, stmts []sqlitecore.Stmt) error {
	return patiently(ctx, r.timeout, func() error { return r.run(ctx, stmts, false) })
}

// A call that the server is too busy for is repeated for patience, and is sent at least busyTries
// times: a server that ends a transaction because of the time it took has taken all of patience.
const (
	patience  = 5 * time.Second
	busyTries = 3
)

// lateTries limits how often a write that came too late is repeated.
const lateTries = 10

// patiently repeats a call that was not applied because the server was busy or executed it too
// late. A write that is too late when its context ends fails with the context's error.
func patiently(ctx context.Context, timeout time.Duration, run func() error) error {
	begin, late, sent := time.Now(), 0, 0
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		err := run()
		sent++
		switch {
		case (errors.Is(err, errLate) || errors.Is(err, errForgotten)) && late < lateTries:
			late++
		case !errors.Is(err, errBusy) || sent >= busyTries && time.Since(begin) > min(patience, timeout):
			return err
		}
		if !pause(ctx, wait/2+rand.N(wait)) {
			return ctx.Err()
		}
	}
}

// run sends a call's statements with the next round trip and delivers the results.
func (r *runner) run(ctx context.Context, stmts []sqlitecore.Stmt, write bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{stmts: stmts, write: write, done: make(chan struct{})}
	j.deadline, _ = ctx.Deadline()
	l := &r.read
	if write {
		l = &r.write
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return errClosed
	}
	l.queue = append(l.queue, j)
	r.pump(l)
	r.mu.Unlock()

	select {
	case <-j.done:
	case <-ctx.Done():
		if r.withdraw(l, j) {
			return ctx.Err()
		}
		select {
		case <-j.done: // at the same moment
		default:
			if write {
				return fmt.Errorf("turso: %w: %w", ctx.Err(), store.ErrOutcomeUnknown)
			}
			return ctx.Err()
		}
	}
	if j.err != nil {
		return j.err
	}
	return j.handOver()
}

// withdraw removes a job that has not been sent yet.
func (r *runner) withdraw(l *lane, j *job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(l.queue, j); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		return true
	}
	if j.flight != nil && j.flight.waiting.Add(-1) == 0 {
		j.flight.cancel()
	}
	return false
}

// pump starts round trips while there are jobs and free slots. The caller holds mu.
func (r *runner) pump(l *lane) {
	if wait := r.client.resting(); wait > 0 && len(l.queue) > 0 {
		time.AfterFunc(wait, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.pump(l)
		})
		return
	}
	for l.active < l.limit && len(l.queue) > 0 {
		n, size := 0, 0
		for n < len(l.queue) && n < maxJobs {
			if size += l.queue[n].size(); n > 0 && size > maxBytes {
				break
			}
			n++
		}
		jobs := slices.Clone(l.queue[:n])
		l.queue = slices.Delete(l.queue, 0, n)
		l.active++
		ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
		f := &flight{cancel: cancel}
		f.waiting.Store(int32(n))
		for _, j := range jobs {
			j.flight = f
		}
		r.flights.Go(func() {
			defer cancel()
			r.fly(ctx, jobs)
			for _, j := range jobs {
				close(j.done)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			l.active--
			r.pump(l)
		})
	}
}

// size returns about how many bytes a job's arguments have.
func (j *job) size() int {
	n := 0
	for i := range j.stmts {
		for _, a := range j.stmts[i].Args {
			switch a := a.(type) {
			case string:
				n += len(a)
			case []byte:
				n += len(a) + len(a)/3
			}
		}
	}
	return n
}

// A write begins with these steps, in a batch of their own, so that the answer contains the count
// of changes before the write.
const (
	stepClean = iota
	stepBegin
	stepGuard // returns the server's time, and fails unless it is as expected
	stepGiveUp
)

// guard returns the server's time or raises an error, in which case no later step runs.
const guard = `SELECT CASE WHEN ` + serverNow + ` BETWEEN ?1 AND ?2-1 THEN ` + serverNow + ` ELSE json('out of time') END`

// forwarded makes a replica forward a batch to its primary, as it does with every statement that
// may write. It is never run.
const forwarded = `DELETE FROM locks WHERE 0`

// fly makes one round trip for some jobs.
func (r *runner) fly(ctx context.Context, jobs []*job) {
	sent := time.Now()
	early, _, known := r.clock.now(sent)
	fail := func(err error) {
		for _, j := range jobs {
			j.err = failure(err, j.write)
		}
	}
	if jobs[0].write && !known {
		for _, j := range jobs {
			j.err = errForgotten
		}
		return
	}
	if !jobs[0].write {
		r.flyRead(ctx, jobs, fail)
		return
	}
	build := func(on *stream) *pipeline {
		p := newPipeline(on, jobs)
		for _, j := range jobs {
			life := r.timeout
			if !j.deadline.IsZero() {
				life = min(life, j.deadline.Sub(sent))
			}
			p.writeBatches(j, early, life)
		}
		return p
	}
	r.changes.begin(len(jobs))
	defer r.changes.begin(-len(jobs))
	a, err := r.client.send(ctx, build)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusRequestEntityTooLarge && len(jobs) > 1 {
		for i := range jobs { // nothing was applied; each job alone may succeed
			r.fly(ctx, jobs[i:i+1])
		}
		return
	}
	if err != nil {
		fail(err)
		return
	}
	came := time.Now()
	results := a.Results
	for _, j := range jobs {
		r.readWrite(j, results[0], results[1], sent, came)
		results = results[2:]
	}
}

// flyRead does the same for reads.
func (r *runner) flyRead(ctx context.Context, jobs []*job, fail func(error)) {
	a, err := r.readOften(ctx, func(ctx context.Context) (*answer, error) {
		return r.client.readThrough(ctx, func(on *stream, primary bool) *pipeline {
			p := newPipeline(on, jobs)
			for _, j := range jobs {
				p.readBatch(j, primary)
			}
			return p
		})
	})
	if err != nil {
		fail(err)
		return
	}
	for i, j := range jobs {
		j.readRead(a.Results[i])
	}
}

// A read whose answer is lost, or has not come after a part of its time, is sent again, but only so often.
const (
	late     = 4 // of the timeout
	maxSends = 3
)

// readOften sends a read again if its answer is lost or late. Its connection may be half-open, which reports no error.
// The first answer counts.
func (r *runner) readOften(ctx context.Context, send func(context.Context) (*answer, error)) (*answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		*answer
		error
	}
	came := make(chan outcome, maxSends)
	sent, waiting := 0, 0
	start := func() {
		sent, waiting = sent+1, waiting+1
		r.flights.Go(func() {
			a, err := send(ctx)
			came <- outcome{a, err}
		})
	}
	start()
	timer := time.NewTimer(r.timeout / late)
	defer timer.Stop()
	for {
		select {
		case o := <-came:
			waiting--
			var lost *unsureError
			var status *statusError
			switch {
			case o.error == nil:
				return o.answer, nil
			case waiting > 0:
			case sent < maxSends && errors.As(o.error, &lost) && !errors.As(o.error, &status) && ctx.Err() == nil:
				start()
			default:
				return nil, o.error
			}
		case <-timer.C:
			if sent < maxSends {
				r.client.http.CloseIdleConnections() // they may be half-open, too
				start()
			}
		}
	}
}

// writeBatches adds a write that the server applies within life, or never.
func (p *pipeline) writeBatches(j *job, early int64, life time.Duration) {
	from, end := span(early, life)
	p.batch(func() {
		p.step(inTransaction, "ROLLBACK", false) // of a transaction that an earlier call has left open
		p.step("", "BEGIN IMMEDIATE", false)
		p.step(ok(stepBegin), guard, true, from, end)
		p.step(both(ok(stepBegin), notOK(stepGuard)), "ROLLBACK", false)
	})
	p.batch(func() {
		done := p.list(inTransaction, j.stmts)
		p.step(done, guard, false, from, end) // again, because the statements may have taken long
		p.step(ok(p.steps-1), "COMMIT", false)
		p.step(inTransaction, "ROLLBACK", false)
	})
}

func (p *pipeline) readBatch(j *job, primary bool) {
	p.batch(func() {
		if len(j.stmts) == 1 { // one statement has a snapshot of its own
			p.list("", j.stmts)
		} else {
			p.step("", "BEGIN", false)
			done := p.list(ok(0), j.stmts)
			p.step(done, "COMMIT", false)
			p.step(inTransaction, "ROLLBACK", false)
		}
		if primary {
			p.step(never, forwarded, false)
		}
	})
}

// complete reports whether all statements that were needed have run.
func (j *job) complete() bool {
	for i, s := range j.steps {
		if s == nil {
			return j.stmts[i].Gate // the statements after a gate are not needed
		}
	}
	return true
}

// steps returns the results of a batch's first n steps, nil for steps that did not run or failed,
// and the last error.
func (b *result) steps(n int) ([]*stepResult, *serverError) {
	if b.Type == "error" {
		return make([]*stepResult, n), b.Error
	}
	got := &b.Response.Result
	for len(got.Steps) < n {
		got.Steps = append(got.Steps, nil)
	}
	var last *serverError
	for _, e := range got.Errors {
		if e != nil {
			last = e
		}
	}
	return got.Steps, last
}

// stepError returns the error of a batch's step, or nil.
func (b *result) stepError(i int) *serverError {
	if list := b.Response.Result.Errors; i < len(list) {
		return list[i]
	}
	return nil
}

// readWrite records the outcome of a write.
func (r *runner) readWrite(j *job, begin, body result, sent, came time.Time) {
	opened, why := begin.steps(stepGiveUp)
	if t := opened[stepGuard]; t != nil && len(t.Rows) == 1 && len(t.Rows[0]) == 1 {
		if now, ok := t.Rows[0][0].any.(int64); ok {
			r.clock.heard(now, sent, came)
		}
	}
	switch {
	case opened[stepBegin] == nil:
		if why == nil {
			why = &serverError{Message: "BEGIN was not run"}
		}
		j.err = busy(classify(why), why)
		return
	case opened[stepGuard] == nil:
		r.clock.forget() // either the write came too late or the clock was set: ask the server which
		j.err = refusedBy(begin.stepError(stepGuard))
		return
	}
	n := len(j.stmts)
	steps, why := body.steps(n + 2)
	j.steps = steps[:n]
	switch {
	case steps[n+1] != nil: // COMMIT
		r.changes.own(begin.Response.Result.Index, body.Response.Result.Index)
	case body.Type == "error":
		// The error does not say which steps of the batch ran. COMMIT, the last step, adds nothing
		// to an answer; and the server does not begin a batch that it cannot parse.
		j.err = failure(&unsureError{why}, true)
		if c := classify(why); errors.Is(c, errTooMuch) || refused(why) {
			j.err = c
		}
	case len(body.Response.Result.Errors) == 0: // not even skipped
		j.err = fmt.Errorf("turso: the server did not begin the call; a replica forwards at most 4 MB at once: %w", store.ErrUnavailable)
		if n := j.size(); n > maxPassed {
			j.err = &store.TooLargeError{Field: "a call through a replica", Size: n, Limit: maxPassed}
		}
	case why == nil:
		j.err = fmt.Errorf("turso: the server ended the transaction: %w: %w", errBusy, store.ErrUnavailable)
	case j.complete() && steps[n] == nil:
		j.err = refusedBy(body.stepError(n))
	case steps[n] != nil: // COMMIT has failed
		if j.err = busy(classify(why), why); !errors.Is(j.err, errBusy) {
			j.err = failure(&unsureError{why}, true)
		}
	default:
		j.err = busy(classify(why), why)
	}
}

// refusedBy returns the error of a write whose guard failed with why: the write was too late,
// unless the server says that something else ended the transaction.
func refusedBy(why *serverError) error {
	if why != nil {
		if err := busy(classify(why), why); store.Retryable(err) {
			return err
		}
	}
	return errLate
}

func (j *job) readRead(res result) {
	first := 0
	if len(j.stmts) > 1 {
		first = 1 // after BEGIN
	}
	steps, why := res.steps(first + len(j.stmts))
	j.steps = steps[first : first+len(j.stmts)]
	if j.complete() {
		return
	}
	if why == nil {
		why = &serverError{Message: "a statement was not run"}
	}
	if j.err = busy(classify(why), why); !store.Retryable(j.err) && res.Type == "error" && !refused(why) {
		j.err = fmt.Errorf("turso: %w: %w", why, store.ErrUnavailable)
	}
}

// refused reports whether a batch was not begun because it could not be parsed.
func refused(why *serverError) bool { return strings.HasPrefix(why.Code, "SQL_") }

// busy marks an error that may go away after a pause.
func busy(err error, why *serverError) error {
	code := why.Code
	if code == "" || code == "SQLITE_UNKNOWN" {
		code = guess(why.Message)
	}
	switch code {
	case "SQLITE_BUSY", "SQLITE_LOCKED", "TRANSACTION_BUSY", "TRANSACTION_TIMEOUT":
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	return err
}

// handOver passes the results to the statements.
func (j *job) handOver() error {
	for i, s := range j.steps {
		stmt := &j.stmts[i]
		if s == nil { // a gate, and the statements after it
			break
		}
		if stmt.Affected != nil {
			*stmt.Affected = s.Affected
		}
		if stmt.Rows == nil {
			continue
		}
		for _, row := range s.Rows {
			if err := stmt.Rows(func(dest ...any) error { return scanRow(row, dest) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// bounds implements link.
func (r *runner) bounds(ctx context.Context) (early, late time.Time, err error) {
	return r.clock.bounds(ctx, r.ask)
}

// ask implements link.
func (r *runner) ask(ctx context.Context) (time.Time, error) { return askTime(ctx, r, r.clock) }

// counters implements link.
func (r *runner) counters() Counters { return r.client.counters() }

// migrate implements link. A migration and the check of the version before it are one transaction.
func (r *runner) migrate(ctx context.Context, m sqlitecore.Migration, from int64) error {
	return r.Write(ctx, statements(m, from))
}

// close fails the calls that wait and lets those in progress end.
func (r *runner) close() {
	r.mu.Lock()
	r.closed = true
	for _, l := range []*lane{&r.write, &r.read} {
		for _, j := range l.queue {
			j.err = errClosed
			close(j.done)
		}
		l.queue = nil
	}
	r.mu.Unlock()
	r.flights.Wait()
	r.client.close()
}

// pause waits for d. It returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
