package upgrade_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/internal/testing/upgrade"
	"github.com/pawlhq/pawl/store"
)

// TestWorkersDoNotWait: while a database of PostgreSQL is upgraded from version 1 behind
// two old transactions, one that has read the runs and one that only has a snapshot,
// statements of that version's program go on, and none waits for a lock for a second: the
// server would end it.
func TestWorkersDoNotWait(t *testing.T) {
	t.Parallel()
	place := upgrade.Backends()[2].At(t, 1, true)
	watch := connect(t, place.URL)
	_, err := watch.Exec(t.Context(), `INSERT INTO pawl.runs (id, created_at, finished_at, status, priority, namespace, workflow, queue, visible_at)
		SELECT gen_random_uuid(), n, n, 6, 0, 'old', 'w', 'w', NULL FROM generate_series(1, 20000) n`)
	require.NoError(t, err)
	reader := begin(t, place.URL, `SELECT count(*) FROM pawl.runs`)
	snapshot := begin(t, place.URL, `SELECT 1`)

	load := startLoad(t, place.URL)
	opened := make(chan error, 1)
	go func() {
		st, err := place.Open(t.Context())
		if err == nil {
			err = st.Close()
		}
		opened <- err
	}()

	// The migration queues for the lock that the reader keeps from it, gives up, and
	// queues again.
	const queues = `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation='pawl.runs'::regclass AND mode='AccessExclusiveLock' AND NOT granted)`
	for range 3 {
		until(t, load, watch, opened, queues, true)
		until(t, load, watch, opened, queues, false)
	}
	require.NoError(t, reader.Rollback(t.Context()))
	// Now the build of an index waits until the snapshot is gone.
	until(t, load, watch, opened, `SELECT EXISTS (SELECT 1 FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for old snapshots%')`, true)
	load.more(t, 100)
	require.NoError(t, snapshot.Rollback(t.Context()))
	require.NoError(t, <-opened)
	load.more(t, 100) // the statements still work
	n := load.stop(t)

	schema, err := place.Schema(t.Context())
	require.NoError(t, err)
	require.True(t, schema.Usable())
	var runs int64
	require.NoError(t, watch.QueryRow(t.Context(), `SELECT count(*) FROM pawl.runs WHERE namespace='load' AND status=6`).Scan(&runs))
	require.Equal(t, n, runs, "each run that was started under the upgrade has ended")
	finish(t, place)
}

func connect(t *testing.T, url string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

// begin begins a transaction whose snapshot is that of the query.
func begin(t *testing.T, url, query string) pgx.Tx {
	tx, err := connect(t, url).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	var n int64
	require.NoError(t, tx.QueryRow(t.Context(), query).Scan(&n))
	return tx
}

// until repeats a query until it has that answer.
func until(t *testing.T, l *load, conn *pgx.Conn, opened <-chan error, query string, want bool) {
	for {
		var got bool
		require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&got))
		if got == want {
			return
		}
		l.well(t)
		select {
		case err := <-opened:
			t.Fatalf("the upgrade did not wait: %v", err)
		default:
			runtime.Gosched()
		}
	}
}

// load is what the program of version 1 does to the tables, in short.
type load struct {
	ended  atomic.Bool
	rounds atomic.Int64
	all    sync.WaitGroup
	mu     sync.Mutex
	err    error
}

func startLoad(t *testing.T, url string) *load {
	l := &load{}
	for range 3 {
		conn := connect(t, url)
		_, err := conn.Exec(t.Context(), `SET lock_timeout = '1s'`)
		require.NoError(t, err)
		l.all.Go(func() {
			for !l.ended.Load() {
				if err := round(t.Context(), conn); err != nil {
					l.mu.Lock()
					l.err = err
					l.mu.Unlock()
					return
				}
				l.rounds.Add(1)
			}
		})
	}
	return l
}

// more waits for further rounds.
func (l *load) more(t *testing.T, n int64) {
	for limit := l.rounds.Load() + n; l.rounds.Load() < limit; runtime.Gosched() {
		l.well(t)
	}
}

// well fails the test if a statement has failed.
func (l *load) well(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NoError(t, l.err)
}

// stop ends the load and returns how many rounds it has made.
func (l *load) stop(t *testing.T) int64 {
	l.ended.Store(true)
	l.all.Wait()
	require.NoError(t, l.err)
	return l.rounds.Load()
}

// round starts, claims and completes one run.
func round(ctx context.Context, conn *pgx.Conn) error {
	id, now := store.NewID(), time.Now().UnixMicro()
	for _, s := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO pawl.runs (id, visible_at, created_at, status, priority, namespace, workflow, queue, external_id) VALUES ($1::uuid, $2, $2, 1, 0, 'load', 'w', 'w', $3)
			ON CONFLICT (namespace, external_id, suffix) WHERE external_id IS NOT NULL AND status < 6 DO NOTHING`, []any{id.String(), now, id.String()}},
		{`UPDATE pawl.runs SET status=2, epoch=epoch+1, leased=true, due_at=visible_at, visible_at=$2, started_at=$2, worker='w' WHERE id=(
			SELECT id FROM pawl.runs WHERE namespace='load' AND queue='w' AND workflow='w' AND priority=0 AND visible_at IS NOT NULL AND status <> 4 AND id=$1::uuid FOR UPDATE SKIP LOCKED)`,
			[]any{id.String(), now}},
		{`INSERT INTO pawl.steps (run_id, position, epoch, started_at, occurrence, idx, attempt, kind, status, branch, name) VALUES ($1::uuid, 1, 1, $2, 0, 0, 1, 1, 3, '', 's')`,
			[]any{id.String(), now}},
		{`UPDATE pawl.runs SET status=6, leased=false, visible_at=NULL, finished_at=$2 WHERE id=$1::uuid AND epoch=1 AND leased`, []any{id.String(), now}},
	} {
		tag, err := conn.Exec(ctx, s.sql, s.args...)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("%d rows: %s", tag.RowsAffected(), s.sql)
		}
	}
	return nil
}

// TestUpgradeResumes: an index that a crash has left behind is built again, in the next
// attempt, and what was applied before the crash does not hinder it.
func TestUpgradeResumes(t *testing.T) {
	t.Parallel()
	place := upgrade.Backends()[2].At(t, 1, true)
	conn := connect(t, place.URL)
	_, err := conn.Exec(t.Context(), `ALTER TABLE pawl.runs ADD COLUMN reuse smallint NOT NULL DEFAULT 0, ADD COLUMN digest bytea`)
	require.NoError(t, err)
	// The build fails behind a transaction that does not end, as by a crash.
	holder := begin(t, place.URL, `SELECT 1`)
	look, built := connect(t, place.URL), make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), `CREATE UNIQUE INDEX CONCURRENTLY runs_external_2 ON pawl.runs (namespace, external_id, suffix)
			WHERE external_id IS NOT NULL AND (status < 6 OR reuse = 1)`)
		built <- err
	}()
	for exists := false; !exists; runtime.Gosched() {
		require.NoError(t, look.QueryRow(t.Context(), `SELECT to_regclass('pawl.runs_external_2') IS NOT NULL`).Scan(&exists))
	}
	_, err = look.Exec(t.Context(), `SELECT pg_cancel_backend($1)`, conn.PgConn().PID())
	require.NoError(t, err)
	require.ErrorContains(t, <-built, "canceling statement")
	require.NoError(t, holder.Rollback(t.Context()))
	var invalid bool
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT NOT indisvalid FROM pg_index WHERE indexrelid='pawl.runs_external_2'::regclass`).Scan(&invalid))
	require.True(t, invalid)

	finish(t, place)
	onPostgres := upgrade.Backends()[2]
	versions := onPostgres.Versions(t)
	require.Equal(t, onPostgres.At(t, versions[len(versions)-1], false).Objects(t), place.Objects(t))
}
