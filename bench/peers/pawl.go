package peers

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/backends/postgres"
	pawlengine "github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
	pawlworker "github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// slots is how many jobs a process does at one time.
const slots = 10

// pawlEngine is Pawl. If it is split, two programs with builds and workflows of their own share the limit.
func pawlEngine(split bool) engine {
	e := engine{
		name: "Pawl", processes: 4, burst: 1,
		promises: map[string]string{
			scenarios[0].name: "exact, over all workers",
			scenarios[1].name: "exact, over all workers",
			scenarios[2].name: "at most 1 + 10*w in any window of w seconds",
			scenarios[3].name: "exact, until another worker takes the run over",
		},
		prepare: func(ctx context.Context, url string) error {
			st, err := openPawl(ctx, url)
			if err == nil {
				err = st.Close()
			}
			return err
		},
	}
	if split {
		e.name = "Pawl, two programs"
	}
	programs := 1
	if split {
		programs = 2
	}
	e.open = func(ctx context.Context, url string, s *scenario) (client, error) {
		st, err := openPawl(ctx, url)
		if err != nil {
			return nil, err
		}
		c := &pawlClient{st: st, eng: pawlengine.New(st, pawlengine.Logger(quiet), pawlengine.Require(pawlengine.RequireNothing))}
		for i := range programs {
			c.flows = append(c.flows, pawlJob(s, i, nil))
		}
		return c, nil
	}
	e.work = func(ctx context.Context, w *worker) error { return workPawl(ctx, w, w.Index%programs) }
	return e
}

func openPawl(ctx context.Context, url string) (*postgres.Store, error) {
	return postgres.Open(ctx, url, postgres.WithLogger(quiet))
}

// pawlJob is the workflow of a program.
func pawlJob(s *scenario, program int, do func(job) error) *workflow.Workflow[job, int] {
	var rules []limit.Rule
	if s.atOnce > 0 {
		rules = append(rules, limit.Concurrency(s.atOnce))
	}
	if s.perSecond > 0 {
		rules = append(rules, limit.Rate(s.perSecond, time.Second, limit.Burst(1)))
	}
	lim := limit.New("limit", rules...)
	under := workflow.Under(lim)
	if s.byKey {
		under = workflow.UnderKey(lim, func(j job) string { return j.Key })
	}
	return workflow.New(fmt.Sprint("job-", program), func(ctx workflow.Context, j job) (int, error) {
		return j.ID, workflow.Do(ctx, "work", func(context.Context) error { return do(j) })
	}, under)
}

func workPawl(ctx context.Context, w *worker, program int) error {
	st, err := openPawl(ctx, w.URL)
	if err != nil {
		return err
	}
	defer st.Close()
	eng := pawlengine.New(st, pawlengine.Logger(quiet), pawlengine.Require(pawlengine.RequireNothing))
	defer eng.Close()
	pw := pawlworker.New(eng, pawlworker.Lease(lease), pawlworker.Concurrency(slots), pawlworker.Build(fmt.Sprint("v", program)))
	if err := pw.Register(pawlJob(w.scenario, program, w.do)); err != nil {
		return err
	}
	w.ready()
	return pw.Run(ctx)
}

type pawlClient struct {
	st    *postgres.Store
	eng   *pawlengine.Engine
	flows []*workflow.Workflow[job, int]
}

func (c *pawlClient) enqueue(ctx context.Context, jobs []job) error {
	each := make([][]workflow.Each[job], len(c.flows))
	for i, j := range jobs {
		p := i % len(c.flows)
		each[p] = append(each[p], workflow.Each[job]{In: j})
	}
	for p, flow := range c.flows {
		if _, err := flow.StartMany(ctx, c.eng, each[p]); err != nil {
			return err
		}
	}
	return nil
}

func (c *pawlClient) left(ctx context.Context) (int, error) {
	counts, err := c.eng.Count(ctx, store.RunFilter{Statuses: []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling, store.Failed}})
	n := 0
	for _, one := range counts {
		n += int(one.Count)
	}
	return n, err
}

func (c *pawlClient) close() {
	c.eng.Close()
	_ = c.st.Close()
}
