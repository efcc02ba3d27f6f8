package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// rounds runs several lists of statements as one transaction, with Go between them. fn calls run for each
// list, and says which is the last one. fn is called again if the transaction lost a deadlock.
func (s *Store) rounds(ctx context.Context, fn func(run func(last bool, stmts ...stmt) error) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := s.inRounds(ctx, fn)
		var no *refused
		if errors.As(err, &no) {
			return no.error
		}
		var pg *pgconn.PgError
		if try < attempts && s.in == nil && rolledBack(err, &pg) && (pg.Code == codeDeadlock || pg.Code == "40001") {
			continue
		}
		if s.in == nil {
			s.noteReadOnly(err)
		}
		return classify(ctx, err, true)
	}
}

func (s *Store) inRounds(ctx context.Context, fn func(run func(last bool, stmts ...stmt) error) error) (err error) {
	if s.closed.Load() {
		return &notSent{errClosed}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.timeout, errSlow)
	defer cancel()
	if s.in != nil {
		return fn(func(last bool, stmts ...stmt) error {
			if last && s.later == nil {
				stmts = s.numbered(stmts)
			}
			return s.in.run(ctx, s, stmts)
		})
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		s.failures.Add(1)
		return &notSent{err}
	}
	defer conn.Release()
	if err := ctx.Err(); err != nil {
		return &notSent{err}
	}
	begun := false
	err = fn(func(last bool, stmts ...stmt) error {
		b := &pgx.Batch{}
		if !begun {
			b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
			if !s.steady {
				b.Queue(plans)
			}
			begun = true
		}
		before, after := b.Len(), 0
		for i := range stmts {
			b.Queue(s.sql(stmts[i].sql), stmts[i].args...)
		}
		if last {
			b.Queue(`COMMIT`)
			after = 1
		}
		return readAll(s.send(ctx, conn.Conn(), b), stmts, before, after)
	})
	var no *refused
	if !errors.As(err, &no) {
		s.failed(ctx, conn.Conn(), err)
	}
	if conn.Conn().PgConn().TxStatus() != 'I' {
		if _, failed := conn.Conn().PgConn().Exec(ctx, `ROLLBACK`).ReadAll(); failed != nil {
			_ = conn.Conn().Close(ctx)
		}
	}
	return err
}

// failed notes the error of a transaction on a connection.
func (s *Store) failed(ctx context.Context, conn *pgx.Conn, err error) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == codeReadOnly {
		// A session may stay read-only, for example if its server is no longer the
		// primary. The next session may be with another server.
		_ = conn.Close(ctx)
	}
	if err != nil && (pg == nil || pg.SeverityUnlocalized != "ERROR" || pg.Code == codeReadOnly) {
		s.failures.Add(1)
	}
	if err != nil && context.Cause(ctx) == errSlow && s.own {
		s.pool.Reset() // the cause may affect the idle connections too
	}
}
