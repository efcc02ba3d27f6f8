package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// layouts compares settings of the table of runs under churn, of runs with two steps and
// without: what is done in a second, and how large table and indexes are in the end.
func (b *bench) layouts(ctx context.Context, srv *server) error {
	for range b.reps {
		for _, l := range []struct{ name, sql string }{
			{"as it is", ``},
			{"fillfactor 85", `ALTER TABLE pawl.runs SET (fillfactor = 85)`},
			{"fillfactor 100", `ALTER TABLE pawl.runs SET (fillfactor = 100)`},
			{"autovacuum as the server has it", `ALTER TABLE pawl.runs RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
				autovacuum_analyze_scale_factor, autovacuum_vacuum_cost_delay)`},
		} {
			for _, steps := range []int{0, 2} {
				if err := b.layout(ctx, srv, fmt.Sprintf("%s, %d steps", l.name, steps), l.sql, steps); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) layout(ctx context.Context, srv *server, name, sql string, steps int) error {
	schema, drop := srv.schema()
	defer drop()
	st, err := srv.open(ctx, schema, 4)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := srv.exec(ctx, in(schema, sql)); err != nil {
		return err
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	from, size := time.Now(), int64(b.churned/5)
	for n := range 2 {
		wg.Go(func() {
			for done.Load() < size {
				if err := turn(ctx, st, fmt.Sprint("worker", n), steps, &done); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return err
	}
	took := time.Since(from)
	conn, err := pgx.Connect(ctx, srv.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var table, indexes, claims float64
	if err := conn.QueryRow(ctx, in(schema, `SELECT pg_relation_size('pawl.runs')::float8, pg_indexes_size('pawl.runs')::float8, pg_relation_size('pawl.runs_claim')::float8`)).
		Scan(&table, &indexes, &claims); err != nil {
		return err
	}
	runs := float64(done.Load())
	b.add("layout "+name+": runs", "/s", runs/took.Seconds())
	b.add("layout "+name+": bytes of the table for a run", "B", table/runs)
	b.add("layout "+name+": bytes of all indexes for a run", "B", indexes/runs)
	b.add("layout "+name+": of the claim index", "B", claims/runs)
	return nil
}
