package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/engine"
)

// inTxCallers is how many callers have a transaction of their own each.
const inTxCallers = 32

// inTx measures programs that write a row of their own and start a run: in one transaction, and
// the start after the transaction.
func (b *bench) inTx(ctx context.Context, srv *server) error {
	pool, err := srv.pool(ctx, inTxCallers)
	if err != nil {
		return err
	}
	defer pool.Close()
	for range b.reps {
		for _, way := range []struct {
			name  string
			start func(context.Context, *engine.Engine, pgx.Tx, int) error // commits
		}{
			{"in the transaction", func(ctx context.Context, eng *engine.Engine, tx pgx.Tx, i int) error {
				if _, err := noop.Start(ctx, eng.InTx(postgres.InTx(tx)), i); err != nil {
					return err
				}
				return tx.Commit(ctx)
			}},
			{"after the transaction", func(ctx context.Context, eng *engine.Engine, tx pgx.Tx, i int) error {
				if err := tx.Commit(ctx); err != nil {
					return err
				}
				_, err := noop.Start(ctx, eng, i)
				return err
			}},
		} {
			schema, drop := srv.schema()
			st, err := srv.open(ctx, schema, 8)
			if err == nil {
				err = srv.exec(ctx, `CREATE TABLE `+schema+`.orders (id bigint PRIMARY KEY)`)
			}
			if err != nil {
				return err
			}
			s := newSubject(st)
			if err = s.know(ctx, noop); err == nil {
				from := time.Now()
				before, _ := srv.cpu(ctx)
				used, _ := usedCPU()
				err = b.ownTransactions(ctx, func(ctx context.Context, i int) error {
					tx, err := pool.Begin(ctx)
					if err != nil {
						return err
					}
					defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
					if _, err := tx.Exec(ctx, `INSERT INTO `+schema+`.orders VALUES ($1)`, i); err != nil {
						return err
					}
					return way.start(ctx, s.eng, tx, i)
				})
				name := fmt.Sprintf("%d callers, a row and a start %s: ", inTxCallers, way.name)
				b.add(name+"starts", "/s", perSecond(b.runs, from))
				if after, failed := srv.cpu(ctx); failed == nil {
					b.add(name+"CPU of PostgreSQL, per start", "us", float64((after-before).Microseconds())/float64(b.runs))
				}
				if now, failed := usedCPU(); failed == nil {
					b.add(name+"CPU of this process, per start", "us", float64((now-used).Microseconds())/float64(b.runs))
				}
			}
			s.close()
			drop()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ownTransactions calls do for each number, from all callers.
func (b *bench) ownTransactions(ctx context.Context, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for c := range inTxCallers {
		all.Go(func() {
			for i := c; i < b.runs; i += inTxCallers {
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
