//go:build long

package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/txtest"
	"github.com/pawlhq/pawl/store"
)

// A database may be configured for an isolation level other than the one that writes need.
func TestConformanceUnderSerializable(t *testing.T) {
	t.Parallel()
	conformance.Run(t, inSchemaAt(func(location string) string {
		return with(t, location, func(u *url.URL) {
			q := u.Query()
			q.Set("default_transaction_isolation", "serializable")
			u.RawQuery = q.Encode()
		})
	}))
}

func TestRandom(t *testing.T) {
	t.Parallel()
	conformance.RunRandom(t, inSchema())
}

// Everything works in each mode in which pgx can send a statement; poolers require the last two.
func TestConformanceInEveryMode(t *testing.T) {
	for _, mode := range []string{"cache_describe", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := inSchemaAt(func(location string) string {
				return with(t, location, func(u *url.URL) {
					q := u.Query()
					q.Set("default_query_exec_mode", mode)
					u.RawQuery = q.Encode()
				})
			})
			conformance.Run(t, h)
		})
	}
}

// Every verb works the same way in the program's own transaction as in one of the store's.
func TestConformanceInTx(t *testing.T) {
	for name, begin := range map[string]func(*pgxpool.Pool) begin{
		"pgx": inPgx,
		"sql": func(p *pgxpool.Pool) begin { return inSQL(stdlib.OpenDBFromPool(p)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := inSchema()
			p := pool(t, pgtest.Shared(t).URL()) // one for all, because a schema's name is in the statements
			inside := func(t testing.TB, s store.Store) store.Store {
				return &txtest.Store{Outer: s.(txtest.Outer), Begin: begin(p), Again: lostToOthers}
			}
			conformance.Run(t, conformance.Harness{
				Unmeasured: "TestConformance measures",
				New:        func(t testing.TB) store.Store { return inside(t, h.New(t)) },
				Reopen:     func(t testing.TB, s store.Store) store.Store { return inside(t, h.Reopen(t, s.(*txtest.Store).Outer)) },
			})
		})
	}
}

// Through a pooler alone everything works except the hints of other processes.
func TestConformanceThroughPooler(t *testing.T) {
	t.Parallel()
	conformance.Run(t, throughPooler(t))
}

func TestEngineThroughPooler(t *testing.T) {
	t.Parallel()
	h := inSchemaOf((&schemas{tier: t}).next, bouncer(t))
	h.Lacks = throughPooler(t).Lacks
	conformance.RunEngine(t, h)
}

func TestRandomThroughPooler(t *testing.T) { conformance.RunRandom(t, throughPooler(t)) }

func TestLinearizableThroughPooler(t *testing.T) {
	conformance.RunLinearizable(t, throughPooler(t))
}

// The user's pool prepares statements, which Pawl does not use. With a direct connection for LISTEN
// nothing is missing.
func TestPoolOfTheUserBehindPooler(t *testing.T) {
	t.Parallel()
	through := bouncer(t)
	var pools sync.Map // of each store
	conformance.Run(t, conformance.Harness{
		Unmeasured: "TestConformance measures",
		New: func(t testing.TB) store.Store {
			location, schema := pgtest.Schema(t)
			pool, err := pgxpool.New(t.Context(), through(location))
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			again := func(t testing.TB) store.Store {
				s, err := postgres.New(t.Context(), pool, postgres.WithSchema(schema), postgres.WithListenURL(location))
				require.NoError(t, err)
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			s := again(t)
			pools.Store(s, again)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			again, _ := pools.Load(s)
			return again.(func(testing.TB) store.Store)(t)
		},
	})
}

// lostToOthers reports whether an error is one after which a program would repeat its transaction.
func lostToOthers(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001")
}

// begin begins a transaction of the program.
type begin = func(ctx context.Context, snapshot bool) (txtest.Tx, error)

func inPgx(pool *pgxpool.Pool) begin {
	return func(ctx context.Context, snapshot bool) (txtest.Tx, error) {
		opts := pgx.TxOptions{}
		if snapshot {
			opts.IsoLevel = pgx.RepeatableRead
		}
		tx, err := pool.BeginTx(ctx, opts)
		if err != nil {
			return txtest.Tx{}, err
		}
		bg := context.WithoutCancel(ctx)
		return txtest.Tx{Tx: postgres.InTx(tx), Commit: func() error { return tx.Commit(bg) }, Rollback: func() error { return tx.Rollback(bg) }}, nil
	}
}

func inSQL(db *sql.DB) begin {
	return func(ctx context.Context, snapshot bool) (txtest.Tx, error) {
		opts := &sql.TxOptions{}
		if snapshot {
			opts.Isolation = sql.LevelRepeatableRead
		}
		tx, err := db.BeginTx(context.WithoutCancel(ctx), opts)
		if err != nil {
			return txtest.Tx{}, err
		}
		return txtest.Tx{Tx: postgres.InSQLTx(tx), Commit: tx.Commit, Rollback: tx.Rollback}, nil
	}
}

// throughPooler opens stores that receive no hints of other processes.
func throughPooler(t *testing.T) conformance.Harness {
	h := inSchemaAt(bouncer(t))
	h.Lacks = map[store.Ability]string{store.Hints: "a pooler does not pass notices on"}
	return h
}
