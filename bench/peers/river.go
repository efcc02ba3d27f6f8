package peers

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverEngine is River without its Pro package: a queue has a number of workers in each process. A global
// limit, limits by key and rates are in Pro.
//
// A job of a process that died stays "running" until the leader rescues it. Here that is after 10 s
// (by default an hour), which the leader looks for every 30 s.
func riverEngine() engine {
	return engine{
		name: "River", module: "github.com/riverqueue/river", processes: 2, perProcess: true,
		promises: map[string]string{scenarios[0].name: "MaxWorkers, of each process"},
		prepare:  migrateRiver, open: openRiver, work: workRiver,
	}
}

func migrateRiver(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return err
}

// riverJob is a job of River's.
type riverJob struct{ Job job }

// Kind implements river.JobArgs.
func (riverJob) Kind() string { return "job" }

type riverWorker struct {
	river.WorkerDefaults[riverJob]
	worker *worker
}

// Work implements river.Worker.
func (w *riverWorker) Work(_ context.Context, j *river.Job[riverJob]) error {
	return w.worker.do(j.Args.Job)
}

func workRiver(ctx context.Context, w *worker) error {
	pool, err := pgxpool.New(ctx, w.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{worker: w})
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: quiet, Workers: workers, JobTimeout: 5 * time.Second, RescueStuckJobsAfter: 10 * time.Second,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: w.scenario.atOnce}},
	})
	if err != nil {
		return err
	}
	background := context.WithoutCancel(ctx)
	if err := c.Start(background); err != nil {
		return err
	}
	w.ready()
	<-ctx.Done()
	stop, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	return c.Stop(stop)
}

type riverClient struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

func openRiver(ctx context.Context, url string, _ *scenario) (client, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &riverClient{pool, c}, nil
}

func (c *riverClient) enqueue(ctx context.Context, jobs []job) error {
	batch := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		batch[i].Args = riverJob{j}
	}
	_, err := c.client.InsertManyFast(ctx, batch)
	return err
}

func (c *riverClient) left(ctx context.Context) (n int, err error) {
	err = c.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state<>'completed'`).Scan(&n)
	return n, err
}

func (c *riverClient) close() { c.pool.Close() }
