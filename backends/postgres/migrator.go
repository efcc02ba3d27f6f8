package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/store"
)

const (
	// migrationLock is the first key of the advisory lock for migrations; the second is the hash of
	// the schema's name. A transaction holds the lock, so it also works behind a pooler.
	migrationLock = 0x7061776c // "pawl"

	// lockTimeout is how long a migration queues for the lock of a table. Workers queue behind it
	// for that long.
	lockTimeout = 500 * time.Millisecond

	// migrationPatience is how long a migration waits for others in total without making progress.
	migrationPatience = 5 * time.Minute

	codeLockNotAvailable = "55P03"
	codeDeadlock         = "40P01"
)

var (
	errOthersMigrate = errors.New("another program is migrating it")
	errMigrated      = errors.New("another program has migrated it")
)

// migrator applies the migrations that a schema has not had. A statement that has to lock a table
// in use gives up soon and tries again, so that workers never queue for long behind it. Indexes of
// tables in use are built outside of transactions, while workers write.
type migrator struct {
	pool   *pgxpool.Pool
	pooled bool // a pooler is in front of the server
	config *config
	list   []migration
}

// run applies the missing migrations, one part at a time. A second process that migrates waits and
// then finds them applied.
func (m *migrator) run(ctx context.Context) error {
	var (
		start   = time.Now() // of waiting without progress
		last    = -1
		pause   = newPauses()
		version int
	)
	for {
		var err error
		if version, err = schemaVersion(ctx, m.pool, m.config.schema); err != nil {
			return &setupError{reading, err}
		}
		missing := after(m.list, version)
		if len(missing) == 0 {
			break
		}
		if version != last {
			last, start, pause = version, time.Now(), newPauses()
		}
		if version == 0 {
			err = m.create(ctx)
		} else {
			err = m.apply(ctx, version, missing[0])
		}
		switch {
		case err == nil || errors.Is(err, errMigrated):
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case !queued(err):
			if now, look := schemaVersion(ctx, m.pool, m.config.schema); look == nil && now > version {
				continue // another process has made progress
			}
			return err
		case time.Since(start) > m.config.patience:
			return m.stuck(ctx, missing[0], time.Since(start), err)
		}
		if err := pause.next(ctx, err); err != nil {
			return err
		}
	}
	if newest := newest(m.list); version > newest {
		return mayUse(ctx, m.pool, m.config.schema, version, newest)
	}
	return nil
}

// queued reports whether an error means that other sessions hold what a migration needs.
func queued(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, errOthersMigrate) || errors.As(err, &pg) && (pg.Code == codeLockNotAvailable || pg.Code == codeDeadlock)
}

// pauses are the pauses between attempts.
type pauses struct{ forOthers, forLock time.Duration }

func newPauses() pauses { return pauses{10 * time.Millisecond, time.Second} }

// next waits before another attempt. After an attempt that made workers queue, the pause is several
// times as long as the workers queued.
func (p *pauses) next(ctx context.Context, err error) error {
	d := &p.forLock
	limit := 10 * time.Second
	if errors.Is(err, errOthersMigrate) {
		d, limit = &p.forOthers, time.Second
	}
	wait := *d + rand.N(*d/2)
	*d = min(*d*3/2, limit)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// create creates a schema in one transaction.
func (m *migrator) create(ctx context.Context) error {
	schema := m.config.schema
	return m.begin(ctx, 0, func(tx pgx.Tx) error {
		var there bool // IF NOT EXISTS requires the privilege to create schemas even if the schema exists
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname=$1::text)`, pgx.QueryExecModeExec, schema).Scan(&there)
		if err != nil {
			return err
		}
		if !there {
			if err := execText(ctx, tx.Conn(), qualifyName(createSchema, schema)); err != nil {
				return &setupError{creating, err}
			}
		}
		if err := execText(ctx, tx.Conn(), qualifyName(createTable, schema)); err != nil {
			return &setupError{migrating, err}
		}
		for _, step := range m.list {
			if err := execText(ctx, tx.Conn(), qualify(step.atOnce(), schema)); err != nil {
				return &setupError{migrating, err}
			}
			if err := execText(ctx, tx.Conn(), record(step.version, schema)); err != nil {
				return err
			}
		}
		return nil
	})
}

// apply applies one migration to a schema that has the version before it. Parts that were
// applied before an attempt failed can be applied again.
func (m *migrator) apply(ctx context.Context, version int, step migration) error {
	for i, p := range step.parts {
		if p.index != "" {
			if err := m.build(ctx, version, step, p); err != nil {
				return err
			}
			continue
		}
		err := m.begin(ctx, version, func(tx pgx.Tx) error {
			if err := execText(ctx, tx.Conn(), fmt.Sprintf(`SET LOCAL lock_timeout = '%dms'`, lockTimeout.Milliseconds())); err != nil {
				return err
			}
			for _, sql := range p.stmts {
				if err := execText(ctx, tx.Conn(), qualify(sql, m.config.schema)); err != nil {
					return &setupError{migrating, err}
				}
			}
			if i < len(step.parts)-1 {
				return nil
			}
			return execText(ctx, tx.Conn(), record(step.version, m.config.schema))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// begin calls fn in a transaction that holds the migration lock.
func (m *migrator) begin(ctx context.Context, version int, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, m.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := m.alone(ctx, tx, version); err != nil {
			return err
		}
		return fn(tx)
	})
}

// alone takes the migration lock, and fails if the schema's version has changed in the meantime. It
// does not queue for the lock: a waiting statement has a snapshot, and the build of an index under
// the lock would wait for that snapshot to end.
func (m *migrator) alone(ctx context.Context, tx pgx.Tx, version int) error {
	var mine bool
	err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1::int, hashtext($2::text))`, pgx.QueryExecModeExec, migrationLock, m.config.schema).Scan(&mine)
	if err != nil {
		return err
	}
	if !mine {
		return errOthersMigrate
	}
	now, err := schemaVersion(ctx, tx, m.config.schema)
	if err == nil && now != version {
		err = errMigrated
	}
	return err
}

func execText(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// stuckError means that other sessions kept a migration waiting for too long.
type stuckError struct {
	what    string
	blocker string
}

func (e *stuckError) Error() string {
	return fmt.Sprintf("postgres: %s%s; the statements that were applied remain, and programs of the previous version continue to work; run pawl migrate up again, or reopen the store: %v",
		e.what, e.blocker, store.ErrUnavailable)
}
func (e *stuckError) Unwrap() error { return store.ErrUnavailable }

// stuck reports which session keeps a migration waiting.
func (m *migrator) stuck(ctx context.Context, step migration, waited time.Duration, err error) error {
	schema, waited := m.config.schema, waited.Round(time.Second)
	if errors.Is(err, errOthersMigrate) {
		return &stuckError{what: fmt.Sprintf("schema %s: another program is migrating it and has made no progress for %v", schema, waited)}
	}
	e := &stuckError{what: fmt.Sprintf("schema %s: migration %s could not lock its table within %v", schema, step.name, waited)}
	e.blocker = describe(ctx, m.pool, lockHolder, schema)
	return e
}

// lockHolder finds the process with the oldest transaction that has a lock on a table of schema $1.
const lockHolder = `SELECT a.pid FROM pg_locks l JOIN pg_class c ON c.oid=l.relation JOIN pg_namespace n ON n.oid=c.relnamespace
	JOIN pg_stat_activity a ON a.pid=l.pid AND a.pid<>pg_backend_pid()
	WHERE n.nspname=$1::text AND l.granted AND l.database=(SELECT oid FROM pg_database WHERE datname=current_database()) ORDER BY a.xact_start LIMIT 1`

// describe names the session whose process the query finds.
func describe(ctx context.Context, pool *pgxpool.Pool, query string, args ...any) string {
	var pid int
	var application string
	var since *time.Time
	err := pool.QueryRow(ctx, `SELECT pid, coalesce(application_name, ''), xact_start FROM pg_stat_activity WHERE pid=(`+query+`)`,
		append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&pid, &application, &since)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf("; it waits for the transaction of session %d", pid)
	if application != "" {
		text += fmt.Sprintf(" (application %q)", application)
	}
	if since != nil {
		text += " that began at " + since.UTC().Format(time.RFC3339)
	}
	return text + fmt.Sprintf("; let that transaction end, or end it with SELECT pg_terminate_backend(%d)", pid)
}
