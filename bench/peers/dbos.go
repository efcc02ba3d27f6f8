package peers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The names of DBOS's objects.
const (
	dbosApp   = "pawl-bench"
	dbosQueue = "queue"
	dbosJob   = "job"
)

// dbosEngine is DBOS. If it is split, the processes are of two application versions, as in a deploy, and half
// of the jobs belong to each.
//
// As its documentation advises without its Conductor, each process has an executor ID, and the process
// that replaces a killed one has the same: on launch it recovers the workflows of that ID. The queue is
// polled often, so that processes meet there.
func dbosEngine(split bool) engine {
	versions := []string{"v0"}
	e := engine{
		name: "DBOS", module: "github.com/dbos-inc/dbos-transact-golang", processes: 4,
		promises: map[string]string{
			scenarios[0].name: "total across all executors",
			scenarios[1].name: "of one partition, across all executors",
			scenarios[2].name: "maximum number of starts within a period",
		},
	}
	if split {
		e.name = "DBOS, two versions"
		versions = append(versions, "v1")
	}
	e.prepare = func(ctx context.Context, url string) error {
		c, err := newDBOS(ctx, url, versions[0], "prepare")
		if err == nil {
			err = dbos.Shutdown(c, 10*time.Second)
		}
		return err
	}
	e.open = func(ctx context.Context, url string, s *scenario) (client, error) {
		return openDBOS(ctx, url, s, versions)
	}
	e.work = func(ctx context.Context, w *worker) error { return workDBOS(ctx, w, versions[w.Index%len(versions)]) }
	return e
}

func newDBOS(ctx context.Context, url, version, executor string) (dbos.Context, error) {
	return dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{DatabaseURL: url, AppName: dbosApp, Logger: quiet, ApplicationVersion: version, ExecutorID: executor})
}

func workDBOS(ctx context.Context, w *worker, version string) error {
	c, err := newDBOS(ctx, w.URL, version, fmt.Sprint("executor-", w.Index))
	if err != nil {
		return err
	}
	defer func() { _ = dbos.Shutdown(c, 10*time.Second) }()
	dbos.RegisterWorkflow(c, func(c dbos.Context, j job) (int, error) {
		return dbos.RunAsStep(c, func(context.Context) (int, error) { return j.ID, w.do(j) })
	}, dbos.WithWorkflowName(dbosJob))
	options := []dbos.QueueOption{dbos.WithQueueBasePollingInterval(50 * time.Millisecond), dbos.WithWorkerConcurrency(slots)}
	switch s := w.scenario; {
	case s.byKey:
		options = append(options, dbos.WithPartitionConcurrency(s.atOnce))
	case s.atOnce > 0:
		options = append(options, dbos.WithGlobalConcurrency(s.atOnce))
	default:
		options = append(options, dbos.WithRateLimiter(&dbos.RateLimiter{Limit: s.perSecond, Period: time.Second}))
	}
	if _, err := dbos.RegisterQueue(c, dbosQueue, options...); err != nil {
		return err
	}
	if err := dbos.Launch(c); err != nil {
		return err
	}
	w.ready()
	<-ctx.Done()
	return nil
}

type dbosClient struct {
	client   dbos.Client
	pool     *pgxpool.Pool
	scenario *scenario
	versions []string
}

func openDBOS(ctx context.Context, url string, s *scenario, versions []string) (client, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	c, err := dbos.NewClient(ctx, dbos.ClientConfig{DatabaseURL: url, AppName: dbosApp, Logger: quiet})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &dbosClient{c, pool, s, versions}, nil
}

func (c *dbosClient) enqueue(_ context.Context, jobs []job) error {
	const callers = 8
	var all sync.WaitGroup
	errs := make(chan error, callers)
	for from := range callers {
		all.Go(func() {
			for i := from; i < len(jobs); i += callers {
				options := []dbos.EnqueueOption{dbos.WithEnqueueApplicationVersion(c.versions[i%len(c.versions)])}
				if c.scenario.byKey {
					options = append(options, dbos.WithEnqueueQueuePartitionKey(jobs[i].Key))
				}
				if _, err := dbos.Enqueue[int](c.client, dbosQueue, dbosJob, jobs[i], options...); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

func (c *dbosClient) left(ctx context.Context) (n int, err error) {
	err = c.pool.QueryRow(ctx, `SELECT count(*) FROM dbos.workflow_status WHERE status<>'SUCCESS'`).Scan(&n)
	return n, err
}

func (c *dbosClient) close() {
	_ = dbos.Shutdown(c.client, 10*time.Second)
	c.pool.Close()
}
