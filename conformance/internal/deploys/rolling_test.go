package deploys_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/conformance/internal/deploys"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var quiet = engine.Logger(slog.New(slog.DiscardHandler))

// The builds of a pair.
const (
	v1 = "v1"
	v2 = "v2"
)

// underWay is how many runs are under way when a new build is deployed.
const underWay = 50

// TestRollingDeploys deploys new builds of random programs in a rolling way, and rolls them
// back, each time while runs are under way. It states:
//
//   - No run fails. Each completes, at the latest when the builds that it needs are back.
//   - When nothing goes on any more, each unfinished run is pinned to a build without workers,
//     and [engine.Engine.Builds] counts it there. A check of the database agrees with checks of exports.
//   - The check of histories is exact: for each claim by another build than the one that recorded
//     the last step, on the history as it is then, it says that the history does not fit if and only
//     if the worker gives the run back.
//   - A worker that gives a run back has executed no step under that lease, and recorded none.
//   - Each attempt of a step is executed exactly once. No worker crashes here.
func TestRollingDeploys(t *testing.T) { rolling(t, 0, 8) }

func rolling(t *testing.T, from, to uint64) {
	var claims, givenBack, pairs int
	for seed := from; seed < to; seed++ {
		rng := rand.New(rand.NewPCG(seed, 2))
		before := deploys.New(rng)
		after, edit := before.Edited(rng)
		t.Run(fmt.Sprintf("%d %s", seed, edit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pair{t: t, watch: newWatch(), programs: map[string]deploys.Program{v1: before, v2: after}, stops: map[string]func(){}}
				defer func() { _ = p.watch.Close() }()
				p.eng = engine.New(p.watch, quiet)
				defer p.eng.Close()
				p.run()
				claims, givenBack = claims+p.watch.tally.claims, givenBack+p.watch.tally.givenBack
				if p.watch.tally.givenBack > 0 {
					pairs++
				}
			})
		})
	}
	t.Logf("%d claims, %d runs given back, in %d of %d pairs", claims, givenBack, pairs, to-from)
	require.NotZero(t, givenBack)
}

// pair is two builds of a program on one store.
type pair struct {
	t        *testing.T
	watch    *watch
	eng      *engine.Engine
	programs map[string]deploys.Program
	stops    map[string]func() // of the builds that have a worker
	handles  []workflow.Handle[int]
}

// run deploys v2 while runs of v1 are under way, goes back to v1 while runs of v2 are, and at last has both.
func (p *pair) run() {
	for build, program := range p.programs {
		p.watch.deployed(build, program)
	}
	p.deploy(v1)
	p.replace(v1, v2)
	p.replace(v2, v1)
	p.deploy(v2)
	p.rest()
	p.stop(v1)
	p.stop(v2)
	p.check()
}

// replace starts runs on a build, deploys the other beside it, and stops the first one after
// a while. It returns when only runs are left that no worker takes.
func (p *pair) replace(old, young string) {
	program := p.programs[old]
	wf, _ := program.Definitions(deploys.Nap, nil)
	for range underWay {
		h, err := wf.Start(p.t.Context(), p.eng, len(p.handles))
		require.NoError(p.t, err)
		p.handles = append(p.handles, h)
		passes(program.Duration() / (underWay + 1)) // they come to different places
	}
	synctest.Wait()
	for _, h := range p.handles[len(p.handles)-underWay:] {
		run, err := p.eng.Get(p.t.Context(), h.ID())
		require.NoError(p.t, err)
		require.False(p.t, run.Status.Final(), "run %v is %v, expected it under way", h.ID(), run.Status)
	}
	p.deploy(young)
	passes(program.Duration() / 3)
	p.stop(old)
	p.rest()
}

// deploy starts a worker of a build.
func (p *pair) deploy(build string) {
	_, defs := p.programs[build].Definitions(deploys.Nap, func(int, string) {})
	eng := engine.New(p.watch, quiet) // of its own, so that starts are not given to this worker at once
	w := worker.New(eng, worker.Build(build), worker.Concurrency(4), worker.WrapSteps(func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
		p.watch.executes(step)
		return next(ctx)
	}))
	require.NoError(p.t, w.Register(defs...))
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	p.stops[build] = func() {
		cancel()
		require.NoError(p.t, <-done)
		eng.Close()
	}
	synctest.Wait() // it has registered
}

func (p *pair) stop(build string) {
	p.stops[build]()
	delete(p.stops, build)
}

// rest waits until every unfinished run is stranded, and checks that the list of builds has
// exactly those.
func (p *pair) rest() {
	const limit = 24 * time.Hour
	for began := time.Now(); ; passes(deploys.Nap / 2) {
		synctest.Wait()
		stranded, moving := p.unfinished()
		if len(moving) > 0 {
			require.Less(p.t, time.Since(began), limit, "run %+v is neither finished nor stranded", moving[0])
			continue
		}
		builds, err := p.eng.Builds(p.t.Context())
		require.NoError(p.t, err)
		for _, b := range builds {
			if b.Online == 0 && b.Pinned > 0 {
				require.EqualValues(p.t, stranded[b.Name], b.Pinned, "stranded runs of build %s", b.Name)
				delete(stranded, b.Name)
			}
		}
		require.Empty(p.t, stranded, "stranded runs, by their build, which the list of builds does not show")
		p.predict()
		return
	}
}

// predict checks the histories of all runs that are left against each build that has a worker.
// A run may fit that build by now, if its own build went on with it before it was stopped; a pin stays.
func (p *pair) predict() {
	var left []store.ID
	for cursor := ""; ; {
		page, err := p.eng.List(p.t.Context(), store.RunFilter{Statuses: unfinished}, cursor, store.MaxPage)
		require.NoError(p.t, err)
		for _, run := range page.Runs {
			left = append(left, run.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for build := range p.stops {
		unfit := 0
		for _, id := range left {
			why, err := p.watch.unfit(p.t.Context(), id, build)
			require.NoError(p.t, err)
			if why != "" {
				unfit++
			}
		}
		report, err := worker.CheckHistories(p.t.Context(), p.eng, p.watch.defs[build])
		require.NoError(p.t, err)
		require.Equal(p.t, []int{len(left), unfit}, []int{report.Checked, report.Unfit}, "the check of the database, and of each run's export, against build %s: %v", build, report)
	}
}

var unfinished = []store.Status{store.Pending, store.Running, store.Sleeping}

// unfinished returns how many unfinished runs are pinned to each build without a worker, and the other ones.
func (p *pair) unfinished() (stranded map[string]int64, moving []store.Run) {
	stranded = map[string]int64{}
	for cursor := ""; ; {
		page, err := p.eng.List(p.t.Context(), store.RunFilter{Statuses: unfinished}, cursor, store.MaxPage)
		require.NoError(p.t, err)
		for _, run := range page.Runs {
			switch build := run.PinnedTo(); {
			case build != "" && p.stops[build] == nil && run.Status != store.Running:
				stranded[build]++
			default:
				moving = append(moving, run)
			}
		}
		if cursor = page.Next; cursor == "" {
			return stranded, moving
		}
	}
}

// check compares the outcome of all runs with what was promised.
func (p *pair) check() {
	steps := map[execution]int{}
	for i, h := range p.handles {
		n, err := h.Result(p.t.Context())
		require.NoError(p.t, err, "run %d", i)
		require.Equal(p.t, i, n)
	}
	for cursor := ""; ; {
		page, err := p.eng.List(p.t.Context(), store.RunFilter{}, cursor, store.MaxPage)
		require.NoError(p.t, err)
		for _, run := range page.Runs {
			require.Equal(p.t, store.Completed, run.Status, "run %v: %v", run.ID, run.Failure)
			records, err := p.eng.Steps(p.t.Context(), run.ID)
			require.NoError(p.t, err)
			for _, s := range records {
				if s.Kind == store.KindFunction {
					steps[execution{run.ID, s.StepKey}] = s.Attempt
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for e, n := range p.watch.tally.executions {
		if n != steps[e] {
			p.watch.fault("step %v of run %v was executed %d times and has recorded %d attempts", e.key, e.run, n, steps[e])
		}
	}
	for i, fault := range p.watch.tally.faults {
		if i == 5 {
			p.t.Errorf("and %d more", len(p.watch.tally.faults)-i)
			break
		}
		p.t.Error(fault)
	}
}
