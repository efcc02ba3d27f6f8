package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for version, good := range map[string]bool{
		"3.7.0": false, "3.44.5": false, "3.44.6": true, "3.44.7": true, "3.45.1": false, "3.50.6": false, "3.50.7": true,
		"3.51.0": false, "3.51.2": false, "3.51.3": true, "3.52.0": true, "3.53.1": true, "4.0.0": true, "4.44.0": true, "x": false, "": false,
	} {
		err := checkVersion(version)
		require.Equal(t, good, err == nil, "%s: %v", version, err)
		if err != nil {
			require.ErrorIs(t, err, store.ErrInvalid)
		}
	}
}

func openFile(t *testing.T, opts ...Option) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := Open(t.Context(), path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, path
}

func createParams(n, size int) store.CreateParams {
	p := store.CreateParams{Namespace: "ns", Runs: make([]store.NewRun, n)}
	for i := range p.Runs {
		p.Runs[i] = store.NewRun{ID: store.NewID(), Workflow: "w", Queue: "q", Input: make([]byte, size)}
	}
	return p
}

func count(t *testing.T, s *Store) int64 {
	t.Helper()
	counts, err := s.Count(t.Context(), store.CountParams{Namespace: "ns"})
	require.NoError(t, err)
	var n int64
	for _, c := range counts {
		n += c.Count
	}
	return n
}

// TestFull fills the database in the middle of a batch, then frees space.
func TestFull(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	_, err := s.Create(t.Context(), createParams(10, 100))
	require.NoError(t, err)
	limit := func(pages int) {
		c := <-s.runner.writer
		require.NoError(t, c.exec(fmt.Sprintf("PRAGMA max_page_count=%d", pages)))
		s.runner.writer <- c
	}
	limit(100)
	big := createParams(100, 100_000)
	_, err = s.Create(t.Context(), big)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrOutcomeUnknown)
	require.ErrorContains(t, err, "free some space")
	require.EqualValues(t, 10, count(t, s))

	limit(1 << 30)
	res, err := s.Create(t.Context(), big)
	require.NoError(t, err)
	require.True(t, res[99].Created)
	require.EqualValues(t, 110, count(t, s))
}

// hold takes the write lock as another process would.
func hold(t *testing.T, path string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	c, err := db.Conn(context.Background())
	require.NoError(t, err)
	_, err = c.ExecContext(context.Background(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	return func() {
		require.NoError(t, c.Close())
		require.NoError(t, db.Close())
	}
}

func TestLockedByAnother(t *testing.T) {
	t.Parallel()
	s, path := openFile(t, WithBusyTimeout(20*time.Millisecond))
	release := hold(t, path)
	_, err := s.Create(t.Context(), createParams(1, 0))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "another process")

	// Reads and idle polls continue.
	require.Zero(t, count(t, s))
	got, err := s.Claim(t.Context(), store.ClaimParams{
		Namespace: "ns", Worker: "w", LeaseFor: time.Minute, Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 1}},
	})
	require.NoError(t, err)
	require.Empty(t, got.Runs)

	release()
	_, err = s.Create(t.Context(), createParams(1, 0))
	require.NoError(t, err)
}

func TestCanceledWhileWaiting(t *testing.T) {
	t.Parallel()
	s, path := openFile(t, WithBusyTimeout(time.Hour))
	release := hold(t, path)
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { // waits for the lock
		_, err := s.Create(ctx, createParams(1, 0))
		failed <- err
	}()
	go func() { // waits for the connection, or for the lock
		_, err := s.Create(ctx, createParams(1, 0))
		failed <- err
	}()
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.ErrorIs(t, <-failed, context.Canceled)
}

// waited is a context that tells when a call waits for its end again: first a write waits for the
// connection, then for the lock.
type waited struct {
	context.Context
	n     atomic.Int32
	again func()
}

func (w *waited) Done() <-chan struct{} {
	if w.n.Add(1) > 1 {
		w.again()
	}
	return w.Context.Done()
}

// TestCanceledBesideAnother cancels a write while another one, in whose transaction it would be,
// waits for the lock.
func TestCanceledBesideAnother(t *testing.T) {
	t.Parallel()
	s, path := openFile(t, WithBusyTimeout(time.Hour))
	release := hold(t, path)
	for first := range 10 { // the write that waits first for the connection usually gets it
		ctx, cancel := context.WithCancel(t.Context())
		stays, stop := context.WithCancel(t.Context())
		canceled, other := make(chan error, 1), make(chan error, 1)
		tried := make(chan struct{})
		once := sync.OnceFunc(func() { close(tried) })
		write := func(ctx context.Context, failed chan error) {
			ctx = &waited{Context: ctx, again: once}
			s.runner.mu.Lock()
			before := len(s.runner.queue)
			s.runner.mu.Unlock()
			go func() {
				_, err := s.Create(ctx, createParams(1, 0))
				failed <- err
			}()
			for queued := before; queued == before; runtime.Gosched() {
				s.runner.mu.Lock()
				queued = len(s.runner.queue)
				s.runner.mu.Unlock()
			}
		}
		c := <-s.runner.writer
		if first%2 == 0 {
			write(stays, other)
		}
		write(ctx, canceled)
		if first%2 == 1 {
			write(stays, other)
		}
		s.runner.writer <- c
		<-tried
		cancel()
		require.ErrorIs(t, <-canceled, context.Canceled)
		stop()
		require.ErrorIs(t, <-other, context.Canceled)
	}
	release()
	_, err := s.Create(t.Context(), createParams(1, 0))
	require.NoError(t, err)
	require.EqualValues(t, 1, count(t, s))
}

// TestSharedTransactionEnds ends a transaction of three calls in the middle of one of them. All three calls
// return, none of them is applied, and each can be repeated.
func TestSharedTransactionEnds(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	var failed []chan error
	calls := make([]store.CreateParams, 3)
	c := <-s.runner.writer
	require.NoError(t, c.exec("CREATE TRIGGER ends BEFORE INSERT ON runs WHEN new.workflow='bad' BEGIN SELECT RAISE(ROLLBACK, 'it ends'); END"))
	for i := range calls {
		calls[i] = createParams(1, 0)
		if i == 1 {
			calls[i].Runs[0].Workflow = "bad"
		}
		done := make(chan error, 1)
		failed = append(failed, done)
		go func() {
			_, err := s.Create(t.Context(), calls[i])
			done <- err
		}()
		for queued := 0; queued <= i; runtime.Gosched() {
			s.runner.mu.Lock()
			queued = len(s.runner.queue)
			s.runner.mu.Unlock()
		}
	}
	s.runner.writer <- c
	for i, done := range failed {
		err := <-done
		require.Error(t, err)
		if i != 1 {
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrOutcomeUnknown)
		}
	}
	require.Zero(t, count(t, s))
	for _, p := range []store.CreateParams{calls[0], calls[2]} {
		res, err := s.Create(t.Context(), p)
		require.NoError(t, err)
		require.True(t, res[0].Created)
	}
}

// TestCanceledMidway cancels a write between its statements.
func TestCanceledMidway(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.runner.Write(ctx, []sqlitecore.Stmt{
		{SQL: `INSERT INTO locks (namespace, name, owner, until) VALUES ('ns', 'l', 'o', 1)`},
		{SQL: `SELECT 1`, Rows: func(func(...any) error) error { cancel(); return nil }},
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, store.ErrOutcomeUnknown)
	var n int
	err = s.runner.Read(t.Context(), []sqlitecore.Stmt{
		{SQL: `SELECT count(*) FROM locks`, Rows: func(scan func(...any) error) error { return scan(&n) }},
	})
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestClassify(t *testing.T) {
	t.Parallel()
	s, path := openFile(t)
	_ = s
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	_, bad := db.Exec("SELECT nothing FROM nowhere")
	require.Error(t, bad)
	require.NotErrorIs(t, classify(bad), store.ErrUnavailable)
	var e *driver.Error
	require.ErrorAs(t, classify(bad), &e)
	require.NoError(t, classify(nil))

	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "PRAGMA max_page_count=1") // of this connection
	require.NoError(t, err)
	_, full := conn.ExecContext(t.Context(), "CREATE TABLE big AS SELECT randomblob(10000000) AS b")
	require.Equal(t, codes.SQLITE_FULL, code(full))
	require.ErrorIs(t, classify(full), store.ErrUnavailable, "a statement")
	for _, err := range []error{full, bad, sql.ErrTxDone, sqldriver.ErrBadConn, io.EOF} {
		require.ErrorIs(t, classifyCommit(err), store.ErrOutcomeUnknown, "%v", err)
		require.NotErrorIs(t, classifyCommit(err), store.ErrUnavailable, "%v", err)
	}

	defer hold(t, path)()
	_, busy := db.Exec("BEGIN IMMEDIATE")
	require.True(t, isBusy(busy))
	require.ErrorIs(t, classify(busy), store.ErrUnavailable)
	require.ErrorIs(t, classifyCommit(busy), store.ErrUnavailable)
	require.ErrorIs(t, openError(path, busy), store.ErrUnavailable)
}

// TestHintsOfAnother checks that the writes of a second handle are noticed, like those of a second
// process.
func TestHintsOfAnother(t *testing.T) {
	t.Parallel()
	s, path := openFile(t)
	other, err := Open(t.Context(), path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	hints, err := s.Hints(ctx)
	require.NoError(t, err)
	for range 3 {
		_, err = other.Create(t.Context(), createParams(1, 0))
		require.NoError(t, err)
		require.Equal(t, []store.Hint{{Kind: store.HintRescan}}, <-hints)
	}
	_, err = s.Create(t.Context(), createParams(5, 0))
	require.NoError(t, err)
	require.Equal(t, []store.Hint{{Kind: store.HintQueue, Namespace: "ns", Queue: "q"}}, <-hints, "once for a queue, and precise for what is our own")
	require.NoError(t, other.Close())

	// The goroutine ends with the last listener and starts again with the next.
	cancel()
	for range hints {
	}
	s.poller.running.Wait()
	_, err = s.Hints(t.Context())
	require.NoError(t, err)
}

// TestHintsOfAnotherWhileBusy checks that the writes of a second handle are noticed while calls of the
// first one always wait for the writer.
func TestHintsOfAnotherWhileBusy(t *testing.T) {
	t.Parallel()
	s, path := openFile(t)
	other, err := Open(t.Context(), path)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hints, err := s.Hints(ctx, store.HintsOfRuns) // the calls send none of these
	require.NoError(t, err)
	var users sync.WaitGroup
	defer users.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for range 8 {
		users.Go(func() {
			for {
				select {
				case <-stop:
					return
				case c := <-s.runner.writer:
					runtime.Gosched() // the others wait meanwhile
					s.runner.writer <- c
				}
			}
		})
	}
	_, err = other.Create(ctx, createParams(1, 0))
	require.NoError(t, err)
	require.Equal(t, []store.Hint{{Kind: store.HintRescan}}, <-hints)
	require.NoError(t, other.Close())
}
