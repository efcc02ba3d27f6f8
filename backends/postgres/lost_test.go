package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/cutproxy"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// losesCommits makes hooks that lose the answer to every third COMMIT: the proxy forwards it, drops
// the server's answer, and then cuts the connection.
type losesCommits struct{ commits, lost atomic.Int64 }

func (l *losesCommits) hook() cutproxy.Hook {
	return cutproxy.Answers(func(request []byte) cutproxy.Verdict {
		if bytes.Contains(bytes.ToLower(request), []byte("commit\x00")) && l.commits.Add(1)%3 == 0 {
			l.lost.Add(1)
			return cutproxy.Drop
		}
		return cutproxy.Pass
	}, answered)
}

// answered reports whether an answer ends with ReadyForQuery.
func answered(tail []byte) bool {
	mark := []byte("Z\x00\x00\x00\x05")
	return len(tail) > len(mark) && bytes.HasSuffix(tail[:len(tail)-1], mark)
}

// A step takes effect once when the answer to its COMMIT is lost, although pgx reports the
// connection as closed before anything was sent.
func TestStepTxLosesItsAnswer(t *testing.T) { stepTxLosesItsAnswer(t, pgtest.Database(t)) }

// The same holds behind a pooler. The proxy stands between the program and the pooler.
func TestStepTxLosesItsAnswerThroughPooler(t *testing.T) {
	stepTxLosesItsAnswer(t, bouncer(t)(pgtest.Database(t)))
}

func stepTxLosesItsAnswer(t *testing.T, location string) {
	const insert = `INSERT INTO effects VALUES ($1)`
	for _, c := range []struct {
		name string
		wf   *workflow.Workflow[int, int]
	}{
		{"pgx", workflow.New("pgx", func(ctx workflow.Context, n int) (int, error) {
			return workflow.StepTx(ctx, "book", func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := tx.Exec(ctx, insert, n)
				return n, err
			})
		})},
		{"sql", workflow.New("sql", func(ctx workflow.Context, n int) (int, error) {
			return workflow.StepTx(ctx, "book", func(ctx context.Context, tx *sql.Tx) (int, error) {
				_, err := tx.ExecContext(ctx, insert, n)
				return n, err
			})
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			exec(t, location, `DROP TABLE IF EXISTS effects; CREATE TABLE effects (n integer)`)
			var proxy losesCommits
			_, through := behind(t, location, proxy.hook)
			log := slog.New(slog.NewTextHandler(io.Discard, nil))
			s, err := postgres.Open(t.Context(), through, postgres.WithLogger(log))
			require.NoError(t, err)
			defer s.Close()
			eng := engine.New(s, engine.Logger(log))
			defer eng.Close()
			w := worker.New(eng)
			require.NoError(t, w.Register(c.wf))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			defer func() {
				stop()
				require.NoError(t, <-ended)
			}()

			const runs = 45
			handles, err := c.wf.StartMany(t.Context(), eng, make([]workflow.Each[int], runs))
			require.NoError(t, err)
			_, err = workflow.Results(t.Context(), handles)
			require.NoError(t, err)
			require.GreaterOrEqual(t, proxy.lost.Load(), int64(runs/3), "answers lost")
			conn, err := pgx.Connect(t.Context(), location)
			require.NoError(t, err)
			defer conn.Close(t.Context())
			var effects int
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM effects`, pgx.QueryExecModeSimpleProtocol).Scan(&effects))
			require.Equal(t, runs, effects, "effects, after %d of %d commits lost their answers", proxy.lost.Load(), proxy.commits.Load())
		})
	}
}

// A write whose answer is lost may have been applied, and its error says so.
func TestWriteLosesItsAnswer(t *testing.T) { writeLosesItsAnswer(t, pgtest.Database(t)) }

func TestWriteLosesItsAnswerThroughPooler(t *testing.T) {
	writeLosesItsAnswer(t, bouncer(t)(pgtest.Database(t)))
}

func writeLosesItsAnswer(t *testing.T, location string) {
	id := store.NewID()
	_, through := behind(t, location, func() cutproxy.Hook {
		return cutproxy.Answers(func(request []byte) cutproxy.Verdict {
			if bytes.Contains(request, id[:]) || bytes.Contains(request, []byte(id.String())) { // binary, or text
				return cutproxy.Drop
			}
			return cutproxy.Pass
		}, answered)
	})
	s, err := postgres.Open(t.Context(), through)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, create(t.Context(), s, store.NewID())) // statements are prepared
	err = create(t.Context(), s, id)
	require.ErrorIs(t, err, store.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, store.ErrUnavailable)
	direct, err := postgres.Open(t.Context(), location)
	require.NoError(t, err)
	defer direct.Close()
	runs, err := direct.Get(t.Context(), store.GetParams{Namespace: "n", IDs: []store.ID{id}})
	require.NoError(t, err)
	require.Len(t, runs, 1, "the write was applied")
}

// A COMMIT that is never answered is given up when the call's context ends, and its outcome is
// unknown, also with a transaction of database/sql.
func TestStepTxHangsInCommit(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(s *postgres.Store) (store.Transaction, error){
		"pgx": func(s *postgres.Store) (store.Transaction, error) { return s.Begin(t.Context(), new(pgx.Tx)) },
		"sql": func(s *postgres.Store) (store.Transaction, error) { return s.Begin(t.Context(), new(*sql.Tx)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var armed atomic.Bool // set once the schema exists
			hung := make(chan struct{}, 1)
			_, through := behind(t, pgtest.Database(t), func() cutproxy.Hook {
				return cutproxy.Answers(func(request []byte) cutproxy.Verdict {
					if armed.Load() && bytes.Contains(bytes.ToLower(request), []byte("commit\x00")) {
						hung <- struct{}{}
						return cutproxy.Hang
					}
					return cutproxy.Pass
				}, answered)
			})
			s, err := postgres.Open(t.Context(), through)
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, create(t.Context(), s, store.NewID()))
			claimed, err := s.Claim(t.Context(), store.ClaimParams{
				Namespace: "n", Worker: "me", LeaseFor: time.Minute,
				Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: 1}},
			})
			require.NoError(t, err)
			require.Len(t, claimed.Runs, 1)
			armed.Store(true)
			tx, err := begin(s)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-hung
				cancel()
			}()
			lease := claimed.Runs[0].Lease
			_, err = tx.Commit(ctx, "n", store.Commit{Lease: lease, Seq: 1})
			require.ErrorIs(t, err, store.ErrOutcomeUnknown)
			recorded, err := s.Recorded(t.Context(), "n", lease, 1)
			require.NoError(t, err)
			require.False(t, recorded, "COMMIT did not arrive")
		})
	}
}
