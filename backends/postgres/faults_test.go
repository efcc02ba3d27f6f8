package postgres_test

import (
	"context"
	"database/sql"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/store"
)

// asked reports whether a client sends the server a request; messages that begin a connection or
// log in are not requests.
func asked(data []byte) bool { return data[0] != 0 && data[0] != 'p' }

// withFaults is inSchema with faults and transactions.
func withFaults(t testing.TB) conformance.Harness {
	type place struct{ url, schema string }
	var places sync.Map // of each store
	h := inSchema()
	h.New = func(t testing.TB) store.Store {
		url, schema := pgtest.Schema(t)
		s := open(t, url, schema)
		places.Store(s, place{url, schema})
		return s
	}
	h.Reopen = func(t testing.TB, s store.Store) store.Store {
		p, _ := places.Load(s)
		return open(t, p.(place).url, p.(place).schema)
	}
	h.Restart = func(t testing.TB, s store.Store) store.Store {
		p, _ := places.Load(s)
		require.NoError(t, s.Close())
		again := open(t, p.(place).url, p.(place).schema)
		places.Store(again, p)
		return again
	}
	h.Faults = func(t testing.TB, s store.Store) conformance.FaultyStore {
		p, _ := places.Load(s)
		u, err := url.Parse(p.(place).url)
		require.NoError(t, err)
		proxy := conformance.NewFaultProxy(t, u.Host, conformance.Protocol{Request: asked, Answered: answered})
		u.Host = proxy.Addr()
		faulty := open(t, u.String(), p.(place).schema)
		proxy.Forget(faulty.(*postgres.Store).Forget)
		return conformance.FaultyStore{Store: faulty, Faults: proxy.Faults(), Arm: proxy.Arm}
	}
	h.Transactions = kinds(t)
	return h
}

// kinds are the transactions of a program and of a step: of pgx, and of database/sql. Their marker
// rows are in a table of the database that all tests share.
func kinds(t testing.TB) []conformance.TxKind {
	db := pool(t, pgtest.Shared(t).URL())
	_, err := db.Exec(t.Context(), `CREATE TABLE IF NOT EXISTS markers (marker text)`)
	require.NoError(t, err)
	const mark = `INSERT INTO markers VALUES ($1)`
	marked := func(ctx context.Context, _ store.Store, marker string) (n int, err error) {
		err = db.QueryRow(ctx, `SELECT count(*) FROM markers WHERE marker=$1`, marker).Scan(&n)
		return n, err
	}
	inDB := stdlib.OpenDBFromPool(db)
	return []conformance.TxKind{{
		Name: "pgx", Marked: marked,
		Begin: func(ctx context.Context, _ store.Store) (p conformance.ProgramTx, err error) {
			tx, err := db.Begin(ctx)
			if err != nil {
				return p, err
			}
			return conformance.ProgramTx{
				Tx:       postgres.InTx(tx),
				Mark:     func(ctx context.Context, marker string) error { _, err := tx.Exec(ctx, mark, marker); return err },
				Commit:   func() error { return tx.Commit(ctx) },
				Rollback: func() error { return tx.Rollback(ctx) },
			}, nil
		},
		Step: func() (any, func(context.Context, string) error) {
			var tx pgx.Tx
			return &tx, func(ctx context.Context, marker string) error { _, err := tx.Exec(ctx, mark, marker); return err }
		},
	}, {
		Name: "sql", Marked: marked,
		Begin: func(ctx context.Context, _ store.Store) (p conformance.ProgramTx, err error) {
			tx, err := inDB.BeginTx(ctx, nil)
			if err != nil {
				return p, err
			}
			return conformance.ProgramTx{
				Tx: postgres.InSQLTx(tx),
				Mark: func(ctx context.Context, marker string) error {
					_, err := tx.ExecContext(ctx, mark, marker)
					return err
				},
				Commit:   tx.Commit,
				Rollback: tx.Rollback,
			}, nil
		},
		Step: func() (any, func(context.Context, string) error) {
			var tx *sql.Tx
			return &tx, func(ctx context.Context, marker string) error {
				_, err := tx.ExecContext(ctx, mark, marker)
				return err
			}
		},
	}}
}
