package postgres

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/store"
)

// WithListenURL sets the URL of a connection that is used only for LISTEN. A pooler in
// transaction mode does not forward notifications; this URL leads to the same database
// without the pooler. The URL parameter listen does the same.
func WithListenURL(url string) Option { return func(c *config) { c.listenURL = url } }

// WithPreparedStatements prepares statements behind a pooler too. PgBouncer tracks
// prepared statements from version 1.21 on, if its max_prepared_statements is not 0. A
// default_query_exec_mode in the URL does the same.
func WithPreparedStatements() Option { return func(c *config) { c.prepared = true } }

// surroundings is what a store detects when it is opened.
type surroundings struct {
	pooled     bool // a pooler is between the pool and the server
	named      bool // the pool's connections name prepared statements
	isolated   bool // their transactions are more isolated than Pawl requires
	durability store.Durability
	version    string // of the server, such as "15.4"
}

// lookAround detects the server or pooler that a pool connects to. It recognizes a pooler by the
// process that answers: it is not the one that was named when the connection was made, because a
// pooler invents that number, to identify the sender of a cancel request. Session mode looks the
// same and is treated the same, which only costs speed.
func lookAround(ctx context.Context, pool *pgxpool.Pool) (found surroundings, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return found, err
	}
	defer conn.Release()
	var pid uint32
	var at settings
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid(), current_setting('default_transaction_isolation') NOT IN ('read committed', 'read uncommitted'),
		current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'), split_part(current_setting('server_version'), ' ', 1)`,
		pgx.QueryExecModeSimpleProtocol).Scan(&pid, &found.isolated, &at.synchronousCommit, &at.fsync, &at.fullPageWrites, &found.version)
	found.pooled = pid != conn.Conn().PgConn().PID()
	found.named = conn.Conn().Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	found.durability = at.durability()
	return found, err
}

// adapt adapts a new store to a pooler in front of the server, and logs the consequences
// once.
func (s *Store) adapt(named bool) {
	s.unprepared = named && !s.config.prepared
	s.deaf = s.config.listen == nil
	var said []any
	if s.unprepared {
		said = append(said, "statements", "not prepared; if the pooler tracks prepared statements, set WithPreparedStatements or default_query_exec_mode in the URL")
	}
	level := slog.LevelInfo
	if s.deaf {
		level = slog.LevelWarn
		said = append(said, "notifications", "not received from other processes, whose writes are found by polling; to receive them, set WithListenURL or listen in the URL to an address that bypasses the pooler")
	}
	if len(said) > 0 {
		s.config.logger.Log(context.Background(), level, "pawl: PostgreSQL is behind a pooler", said...)
	}
}

// answers are the answers to a batch, in order: the part of pgx.BatchResults that the
// store needs.
type answers interface {
	Exec() (pgconn.CommandTag, error)
	Query() (pgx.Rows, error)
	Close() error
}

// send is conn.SendBatch without named prepared statements if the next transaction may use another
// connection to the server. (pgx chooses the mode of a single statement, but fixes that of a
// batch.)
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

// plainAnswers are the answers to statements that were not prepared.
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
