package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// peer is River, a job queue on PostgreSQL: no steps, no results. Three steps are
// three jobs, of which each makes the next in the transaction that completes it.
type peer struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	done   atomic.Int64
	all    chan struct{}
	want   int64
	works  bool
	began  chan time.Time // gets the time of each job's first line; nil: nobody asks
}

// riverJob is a job with so many steps behind it.
type riverJob struct {
	Value int `json:"value"`
	Left  int `json:"left"`
}

// Kind implements river.JobArgs.
func (riverJob) Kind() string { return "job" }

type riverWorker struct {
	river.WorkerDefaults[riverJob]
	peer *peer
}

// Work implements river.Worker.
func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverJob]) error {
	if w.peer.began != nil {
		w.peer.began <- time.Now()
	}
	if job.Args.Left > 0 {
		tx, err := w.peer.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(context.WithoutCancel(ctx)) // does nothing after a commit
		if _, err := w.peer.client.InsertTx(ctx, tx, riverJob{job.Args.Value, job.Args.Left - 1}, nil); err != nil {
			return err
		}
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	if w.peer.done.Add(1) == w.peer.want {
		close(w.peer.all)
	}
	return nil
}

// openPeer prepares River for n runs; -1: to sample its latency.
func (s *server) openPeer(ctx context.Context, schema string, n int, work bool) (*peer, error) {
	if err := s.exec(ctx, `CREATE SCHEMA `+schema); err != nil {
		return nil, err
	}
	pool, err := s.pool(ctx, 20)
	if err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(pool)
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: schema, Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	p := &peer{pool: pool, all: make(chan struct{}), want: int64(n), works: work}
	if n < 0 {
		p.began = make(chan time.Time, 1)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{peer: p})
	p.client, err = river.NewClient(driver, &river.Config{
		Schema: schema, Logger: quiet, Workers: workers, FetchCooldown: time.Millisecond, FetchPollInterval: 100 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000}},
	})
	if err == nil && work {
		err = p.client.Start(ctx)
	}
	return p, err
}

func (p *peer) close() {
	if p.works {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = p.client.Stop(ctx)
	}
	p.pool.Close()
}

// starts makes jobs by so many callers, one at a time, or by thousands without.
func (p *peer) starts(ctx context.Context, n, callers, left int) error {
	if callers == 0 {
		for made := 0; made < n; {
			batch := make([]river.InsertManyParams, min(1000, n-made))
			for i := range batch {
				batch[i].Args = riverJob{7, left}
			}
			if _, err := p.client.InsertManyFast(ctx, batch); err != nil {
				return err
			}
			made += len(batch)
		}
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for range callers {
		wg.Go(func() {
			for int(next.Add(1)) <= n {
				if _, err := p.client.Insert(ctx, riverJob{7, left}, nil); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	if !p.works {
		return nil
	}
	return p.finish(ctx)
}

// latency samples the time from the call of Insert to the worker's first line.
func (p *peer) latency(ctx context.Context, samples int) (toWorker []time.Duration, err error) {
	for i := range samples + 10 {
		if err := rest(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
		from := time.Now()
		if _, err := p.client.Insert(ctx, riverJob{7, 0}, nil); err != nil {
			return nil, err
		}
		select {
		case at := <-p.began:
			if i >= 10 {
				toWorker = append(toWorker, at.Sub(from))
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return toWorker, nil
}

// drain works off what was made.
func (p *peer) drain(ctx context.Context) error {
	if err := p.client.Start(ctx); err != nil {
		return err
	}
	p.works = true
	return p.finish(ctx)
}

// finish waits until all jobs are done.
func (p *peer) finish(ctx context.Context) error {
	select {
	case <-p.all:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d jobs done: %w", p.done.Load(), p.want, ctx.Err())
	}
}
