package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// withMinimum is the first version in which a schema says which programs may use it.
const withMinimum = 7

// build creates an index outside of transactions, while workers write to its table. It first drops
// what an unfinished build has left behind.
func (m *migrator) build(ctx context.Context, version int, step migration, p part) error {
	// Use two connections outside the pool, which may have only one. The lock's transaction is idle
	// and has no snapshot, because the build would wait for a snapshot.
	lock, err := m.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUpSoon(lock)
	tx, err := lock.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := m.alone(ctx, tx, version); err != nil {
		return err
	}
	// Use the simple protocol: the portal of the extended protocol would keep its snapshot.
	if err := execText(ctx, lock, `SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`); err != nil {
		return err
	}
	conn, err := m.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUpSoon(conn)
	var valid *bool
	err = conn.QueryRow(ctx, `SELECT (SELECT i.indisvalid AND i.indisready FROM pg_index i JOIN pg_class c ON c.oid=i.indexrelid JOIN pg_namespace n ON n.oid=c.relnamespace
		WHERE n.nspname=$1::text AND c.relname=$2::text)`, pgx.QueryExecModeExec, m.config.schema, p.index).Scan(&valid)
	switch {
	case err != nil:
		return err
	case valid != nil && *valid:
		return nil
	case valid != nil:
		m.config.logger.InfoContext(ctx, "pawl: dropping an index whose build did not finish", "schema", m.config.schema, "index", p.index)
		if err := m.patiently(ctx, step, p, conn, `DROP INDEX CONCURRENTLY pawl.`+p.index); err != nil {
			return err
		}
	}
	return m.patiently(ctx, step, p, conn, p.stmts[0])
}

// connect connects as the pool does.
func (m *migrator) connect(ctx context.Context) (*pgx.Conn, error) {
	c := m.pool.Config()
	at := c.ConnConfig.Copy()
	if c.BeforeConnect != nil {
		if err := c.BeforeConnect(ctx, at); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, at)
	if err != nil || m.pooled {
		return conn, err
	}
	// This is a setting of the session; behind a pooler it would stay with the server's session.
	if err := execText(ctx, conn, `SET statement_timeout = 0; SET lock_timeout = 0`); err != nil {
		hangUpSoon(conn)
		return nil, err
	}
	return conn, nil
}

// patiently executes a statement that may take as long as it needs to read the table, but may wait
// for other transactions no longer than the configured patience.
func (m *migrator) patiently(ctx context.Context, step migration, p part, conn *pgx.Conn, sql string) error {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- execText(bounded, conn, qualify(sql, m.config.schema)) }()
	tick := time.NewTicker(min(time.Second, m.config.patience/4))
	defer tick.Stop()
	var since time.Time // of the present wait
	for {
		select {
		case err := <-done:
			if err != nil && ctx.Err() == nil {
				return &setupError{migrating, err}
			}
			return err
		case <-tick.C:
		}
		waits := m.waits(ctx, p.index, sql)
		switch {
		case !waits:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
			m.config.logger.InfoContext(ctx, "pawl: the build of an index waits for other transactions; workers do not wait", "schema", m.config.schema, "index", p.index)
		case time.Since(since) > m.config.patience:
			e := &stuckError{
				what:    fmt.Sprintf("schema %s: migration %s could not build index %s within %v", m.config.schema, step.name, p.index, time.Since(since).Round(time.Second)),
				blocker: describe(ctx, m.pool, `SELECT pid FROM pg_stat_activity WHERE datname=current_database() AND xact_start IS NOT NULL AND backend_xmin IS NOT NULL AND pid<>ALL(`+building+`) AND pid<>pg_backend_pid() ORDER BY xact_start LIMIT 1`, m.config.schema),
			}
			cancel()
			<-done
			return e
		}
	}
}

// building selects the processes that build indexes of the schema.
const building = `ARRAY(SELECT p.pid FROM pg_stat_progress_create_index p JOIN pg_class c ON c.oid=p.relid JOIN pg_namespace n ON n.oid=c.relnamespace WHERE n.nspname=$1::text)`

// waits reports whether the statement is waiting for other sessions at the moment.
func (m *migrator) waits(ctx context.Context, index, sql string) (waits bool) {
	// A statement that waits for a lock, on a table or for another transaction to end, is visible
	// as such.
	err := m.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname=current_database() AND pid<>pg_backend_pid() AND wait_event_type='Lock'
		AND state='active' AND query=$1::text)`, pgx.QueryExecModeExec, qualify(sql, m.config.schema)).Scan(&waits)
	return err == nil && waits
}
