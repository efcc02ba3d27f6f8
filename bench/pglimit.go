package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// pgLimit is the hand-written loop on PostgreSQL: batches of a hundred, integer
// keys, one statement for each batch, on two connections.
type pgLimit struct {
	pool   *pgxpool.Pool
	schema string
}

const pgLimitSchema = `CREATE SCHEMA pawl;
CREATE TABLE pawl.runs (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL, workflow text NOT NULL, status smallint NOT NULL, due bigint,
	epoch bigint NOT NULL, worker text, created bigint NOT NULL, finished bigint, input bytea, output bytea
) WITH (fillfactor = 85);
CREATE INDEX runs_due ON pawl.runs (queue, workflow, due) WHERE due IS NOT NULL;
CREATE TABLE pawl.steps (run bigint NOT NULL, name text NOT NULL, output bytea, finished bigint NOT NULL, PRIMARY KEY (run, name))`

const (
	pgLimitStart = `INSERT INTO pawl.runs (queue, workflow, status, due, epoch, created, input)
		SELECT 'bench', 'bench', 1, $1::bigint, 0, $1, v FROM unnest($2::bytea[]) v`
	pgLimitTake = `WITH due AS MATERIALIZED (SELECT id FROM pawl.runs WHERE queue='bench' AND workflow='bench' AND due<=$1::bigint
			ORDER BY due LIMIT $2::bigint FOR UPDATE SKIP LOCKED)
		UPDATE pawl.runs r SET status=2, epoch=epoch+1, worker=$3::text, due=$1+30000000 FROM due WHERE r.id=due.id RETURNING r.id, r.epoch, r.input`
	pgLimitStep = `INSERT INTO pawl.steps (run, name, output, finished)
		SELECT r.id, $1::text, c.output, $2::bigint FROM unnest($3::bigint[], $4::bigint[], $5::bytea[]) c(id, epoch, output)
		JOIN pawl.runs r ON r.id=c.id AND r.epoch=c.epoch AND r.worker=$6::text`
	pgLimitFinal = `UPDATE pawl.runs r SET status=6, due=NULL, worker=NULL, output=c.output, finished=$1::bigint
		FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) c(id, epoch, output) WHERE r.id=c.id AND r.epoch=c.epoch AND r.worker=$5::text`
)

func (s *server) openLimit(ctx context.Context, schema string) (handwritten, error) {
	if err := s.exec(ctx, in(schema, `CREATE SCHEMA `+schema+pgLimitSchema[len(`CREATE SCHEMA pawl`):])); err != nil {
		return nil, err
	}
	pool, err := s.pool(ctx, 2)
	return &pgLimit{pool, schema}, err
}

func (l *pgLimit) close() { l.pool.Close() }

// split does n runs in batches, two at a time.
func split(n int, do func(worker string) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	for w := range 2 {
		wg.Go(func() {
			for batch := w; batch < n/limitBatch; batch += 2 {
				if err := do(fmt.Sprint("worker-", w)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func (l *pgLimit) start(ctx context.Context) error {
	in7 := make([][]byte, limitBatch)
	for i := range in7 {
		in7[i] = []byte("7")
	}
	_, err := l.pool.Exec(ctx, in(l.schema, pgLimitStart), time.Now().UnixMicro(), in7)
	return err
}

func (l *pgLimit) one(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, in(l.schema, pgLimitStart), time.Now().UnixMicro(), [][]byte{[]byte("7")})
	return err
}

func (l *pgLimit) starts(ctx context.Context, n int) error {
	return split(n, func(string) error { return l.start(ctx) })
}

func (l *pgLimit) runs(ctx context.Context, n int, steps []string) error {
	return split(n, func(worker string) error {
		if err := l.start(ctx); err != nil {
			return err
		}
		return l.work(ctx, worker, steps)
	})
}

func (l *pgLimit) drain(ctx context.Context, n int) error {
	return split(n, func(worker string) error { return l.work(ctx, worker, nil) })
}

// work takes a batch and completes it.
func (l *pgLimit) work(ctx context.Context, worker string, steps []string) error {
	rows, err := l.pool.Query(ctx, in(l.schema, pgLimitTake), time.Now().UnixMicro(), limitBatch, worker)
	if err != nil {
		return err
	}
	var ids, epochs []int64
	var values [][]byte
	for rows.Next() {
		var id, epoch int64
		var v []byte
		if err := rows.Scan(&id, &epoch, &v); err != nil {
			return err
		}
		ids, epochs, values = append(ids, id), append(epochs, epoch), append(values, v)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for i, name := range steps {
		if i < len(steps)-1 {
			if _, err := l.pool.Exec(ctx, in(l.schema, pgLimitStep), name, time.Now().UnixMicro(), ids, epochs, values, worker); err != nil {
				return err
			}
		}
	}
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // does nothing after a commit
	if len(steps) > 0 {
		if _, err := tx.Exec(ctx, in(l.schema, pgLimitStep), steps[len(steps)-1], time.Now().UnixMicro(), ids, epochs, values, worker); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, in(l.schema, pgLimitFinal), time.Now().UnixMicro(), ids, epochs, values, worker); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
