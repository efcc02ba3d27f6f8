package peers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const handwrittenTable = `CREATE TABLE jobs (
	id bigint PRIMARY KEY, key text NOT NULL, micros bigint NOT NULL, status text NOT NULL DEFAULT 'pending', started_at timestamptz
);
CREATE INDEX jobs_pending ON jobs (id) WHERE status='pending'`

// handwrittenClaims are the claims of the common queue in a table, by scenario: a worker counts what is
// running and then takes the first pending job that no other worker is just taking. They run at READ
// COMMITTED, PostgreSQL's default.
var handwrittenClaims = map[string]string{
	scenarios[0].name: fmt.Sprintf(handwrittenClaim, `(SELECT count(*) FROM jobs WHERE status='running') < 10`),
	scenarios[1].name: fmt.Sprintf(handwrittenClaim, `NOT EXISTS (SELECT 1 FROM jobs r WHERE r.status='running' AND r.key=j.key)`),
	scenarios[2].name: fmt.Sprintf(handwrittenClaim, `(SELECT count(*) FROM jobs WHERE started_at > clock_timestamp() - interval '1 s') < 10`),
	scenarios[3].name: fmt.Sprintf(handwrittenClaim, `(SELECT count(*) FROM jobs WHERE status='running') < 10`),
}

const (
	handwrittenClaim = `UPDATE jobs SET status='running', started_at=clock_timestamp() WHERE id = (
		SELECT id FROM jobs j WHERE status='pending' AND %s ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
	) RETURNING id, key, micros`
	handwrittenLock = `SELECT pg_advisory_xact_lock(1)`
	handwrittenDone = `UPDATE jobs SET status='done' WHERE id=$1`
	// handwrittenReap gives back the jobs of processes that have died.
	handwrittenReap = `UPDATE jobs SET status='pending' WHERE status='running' AND started_at < now() - make_interval(secs => $1)`
)

// handwrittenEngine is a queue in a table, as it is commonly published. If it is locked, one claim waits for the
// other.
func handwrittenEngine(locked bool) engine {
	e := engine{
		name: "hand-written", processes: 4, promises: map[string]string{},
		prepare: func(ctx context.Context, url string) error {
			pool, err := pgxpool.New(ctx, url)
			if err != nil {
				return err
			}
			defer pool.Close()
			_, err = pool.Exec(ctx, handwrittenTable)
			return err
		},
		open: func(ctx context.Context, url string, _ *scenario) (client, error) {
			pool, err := pgxpool.New(ctx, url)
			return &handwrittenClient{pool}, err
		},
	}
	says := "nothing: it counts, then claims"
	if locked {
		e.name, says = "hand-written, claims under a lock", "claims take turns"
	}
	for s := range handwrittenClaims {
		e.promises[s] = says
	}
	e.work = func(ctx context.Context, w *worker) error { return workHandwritten(ctx, w, locked) }
	return e
}

func workHandwritten(ctx context.Context, w *worker, locked bool) error {
	config, err := pgxpool.ParseConfig(w.URL)
	if err != nil {
		return err
	}
	config.MaxConns = slots + 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	w.ready()
	var all sync.WaitGroup
	var failed error
	var once sync.Once
	for range slots {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := oneHandwritten(ctx, pool, w, locked); err != nil && ctx.Err() == nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			if _, err := pool.Exec(ctx, handwrittenReap, lease.Seconds()); err != nil && ctx.Err() == nil {
				once.Do(func() { failed = err })
				return
			}
			pause(ctx, lease/4)
		}
	})
	all.Wait()
	return failed
}

// oneHandwritten claims a job and does it, or waits a little if there is none to claim.
func oneHandwritten(ctx context.Context, pool *pgxpool.Pool, w *worker, locked bool) error {
	var j job
	var micros int64
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if locked {
			if _, err := tx.Exec(ctx, handwrittenLock); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, handwrittenClaims[w.Scenario]).Scan(&j.ID, &j.Key, &micros)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		pause(ctx, 50*time.Millisecond)
		return nil
	}
	if err != nil {
		return err
	}
	j.For = time.Duration(micros) * time.Microsecond
	if err := w.do(j); err != nil {
		return err
	}
	_, err = pool.Exec(context.WithoutCancel(ctx), handwrittenDone, j.ID)
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

type handwrittenClient struct{ pool *pgxpool.Pool }

func (c *handwrittenClient) enqueue(ctx context.Context, jobs []job) error {
	rows := make([][]any, len(jobs))
	for i, j := range jobs {
		rows[i] = []any{j.ID, j.Key, j.For.Microseconds()}
	}
	_, err := c.pool.CopyFrom(ctx, pgx.Identifier{"jobs"}, []string{"id", "key", "micros"}, pgx.CopyFromRows(rows))
	return err
}

func (c *handwrittenClient) left(ctx context.Context) (n int, err error) {
	err = c.pool.QueryRow(ctx, `SELECT count(*) FROM jobs WHERE status<>'done'`).Scan(&n)
	return n, err
}

func (c *handwrittenClient) close() { c.pool.Close() }
