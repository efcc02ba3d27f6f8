package postgres

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// WithListenURL sets the URL of a connection that is used for LISTEN alone. A
// pooler in transaction mode does not pass notices on; this URL leads to the
// same database without it. As a parameter of the URL it is called listen.
func WithListenURL(url string) Option { return func(c *config) { c.listenURL = url } }

// WithPreparedStatements has statements prepared behind a pooler too. PgBouncer
// keeps track of them from 1.21 on, if its max_prepared_statements is not 0. A
// default_query_exec_mode in the URL does the same.
func WithPreparedStatements() Option { return func(c *config) { c.prepared = true } }

// behindPooler tells whether a pooler stands between a pool and the server: the
// process that answers is then not the one that was named when the connection was
// made, because a pooler makes that name up, to know later who wants to cancel
// what. Session mode looks the same. It is treated the same, which costs speed
// alone. It also tells whether the pool's connections name prepared statements.
func behindPooler(ctx context.Context, pool *pgxpool.Pool) (pooled, named bool, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return false, false, err
	}
	defer conn.Release()
	var pid uint32
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid != conn.Conn().PgConn().PID(), conn.Conn().Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement, err
}

// adapt makes a new store fit for a pooler before the server, and says once what
// that costs.
func (s *Store) adapt(named bool) {
	s.unprepared = named && !s.config.prepared
	s.deaf = s.config.listen == nil
	var said []any
	if s.unprepared {
		said = append(said, "statements", "not prepared, unless WithPreparedStatements or default_query_exec_mode in the URL says that the pooler keeps track of them")
	}
	level := slog.LevelInfo
	if s.deaf {
		level = slog.LevelWarn
		said = append(said, "notices", "those of other processes are not heard and their writes are found by polling, unless WithListenURL or listen in the URL gives a way around the pooler")
	}
	if len(said) > 0 {
		s.config.logger.Log(context.Background(), level, "pawl: PostgreSQL is behind a pooler", said...)
	}
}

// answers are those to a batch, in order: the part of pgx.BatchResults that the
// store needs.
type answers interface {
	Exec() (pgconn.CommandTag, error)
	Query() (pgx.Rows, error)
	Close() error
}

// send is conn.SendBatch, but names no prepared statement where the server's
// connection may be another for the next transaction. (pgx chooses the mode of a
// single statement, and that of a batch once and for all.)
func (s *Store) send(ctx context.Context, conn *pgx.Conn, b *pgx.Batch) answers {
	if !s.unprepared {
		return conn.SendBatch(ctx, b)
	}
	var list pgconn.Batch
	var q pgx.ExtendedQueryBuilder
	for _, item := range b.QueuedQueries {
		if err := q.Build(conn.TypeMap(), nil, item.Arguments); err != nil {
			return &plainAnswers{err: err}
		}
		list.ExecParams(item.SQL, q.ParamValues, nil, q.ParamFormats, q.ResultFormats)
	}
	return &plainAnswers{conn: conn, reader: conn.PgConn().ExecBatch(ctx, &list)}
}

// plainAnswers are those to statements that were not prepared.
type plainAnswers struct {
	conn   *pgx.Conn
	reader *pgconn.MultiResultReader // nil: nothing was sent
	err    error
}

var errNoResult = errors.New("the batch has no further result")

func (r *plainAnswers) next() error {
	if r.err != nil {
		return r.err
	}
	if !r.reader.NextResult() {
		if r.err = r.reader.Close(); r.err == nil {
			r.err = errNoResult
		}
	}
	return r.err
}

func (r *plainAnswers) Exec() (pgconn.CommandTag, error) {
	if err := r.next(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return r.reader.ResultReader().Close()
}

func (r *plainAnswers) Query() (pgx.Rows, error) {
	if err := r.next(); err != nil {
		return nil, err
	}
	return pgx.RowsFromResultReader(r.conn.TypeMap(), r.reader.ResultReader()), nil
}

func (r *plainAnswers) Close() error {
	if r.reader == nil {
		return r.err
	}
	return r.reader.Close()
}
