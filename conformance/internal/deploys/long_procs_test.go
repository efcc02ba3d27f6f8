//go:build long

package deploys_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/conformance/internal/deploys"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/selfexec"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// What a worker process is told.
const (
	envURL   = "PAWL_DEPLOYS_URL"
	envSeed  = "PAWL_DEPLOYS_SEED"
	envBuild = "PAWL_DEPLOYS_BUILD"
)

func TestMain(m *testing.M) {
	if os.Getenv(envBuild) == "" {
		pgtest.Run(m)
		return
	}
	go selfexec.DieWithParent()
	if err := work(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "worker process:", err)
		os.Exit(1)
	}
}

const (
	shortNap = 150 * time.Millisecond
	leaseFor = 2 * time.Second
)

// programs returns both builds of a pair.
func programs(seed uint64) map[string]deploys.Program {
	rng := rand.New(rand.NewPCG(seed, 3))
	before := deploys.New(rng)
	after, _ := before.Edited(rng)
	return map[string]deploys.Program{v1: before, v2: after}
}

// work is a worker process. It prints what it does, so that the test knows of it even if the
// process is killed.
func work(ctx context.Context) error {
	st, err := backends.Open(ctx, os.Getenv(envURL))
	if err != nil {
		return err
	}
	var seed uint64
	if _, err := fmt.Sscan(os.Getenv(envSeed), &seed); err != nil {
		return err
	}
	build := os.Getenv(envBuild)
	_, defs := programs(seed)[build].Definitions(shortNap, func(int, string) {})
	w := worker.New(engine.New(loud{st}, quiet), worker.Build(build), worker.Lease(leaseFor), worker.Logger(slog.New(slog.DiscardHandler)),
		worker.WrapSteps(func(ctx context.Context, step worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
			say("step %v %v attempt %d", step.Run, step.Key, step.Attempt)
			return next(ctx)
		}))
	if err := w.Register(defs...); err != nil {
		return err
	}
	say("ready")
	return w.Run(ctx)
}

// say prints a line in one write.
func say(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }

// loud is a store that prints claims, and runs that are given back.
type loud struct{ store.Store }

func (l loud) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	claimed, err := l.Store.Claim(ctx, p)
	for i := range claimed.Runs {
		say("claim %v %v", claimed.Runs[i].Run.ID, claimed.Runs[i].Recovered)
	}
	return claimed, err
}

func (l loud) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	for i := range p.Commits {
		if tr := p.Commits[i].Transition; tr != nil && tr.Kind == store.GiveBack {
			say("gave %v %v", p.Commits[i].Lease.Run, p.Commits[i].Pin.Build)
		}
	}
	return l.Store.Commit(ctx, p)
}

// deployment is a pair of builds, each with processes.
type deployment struct {
	t       *testing.T
	url     string
	seed    uint64
	eng     *engine.Engine
	random  *rand.Rand
	procs   map[string][]*selfexec.Process // of each build
	handles []workflow.Handle[int]

	mu         sync.Mutex
	news       chan struct{} // signaled when a line was heard
	lines      int
	givenBack  int
	executions map[string]int // by run, step and attempt
	taken      map[string]int // leases that ran out, by run
	faults     []string
}

// TestProcessesOfTwoBuilds does with processes, which are killed at random moments, what
// TestRollingDeploys does in simulated time. A step is executed again only if the lease of its run had run out.
func TestProcessesOfTwoBuilds(t *testing.T) {
	var givenBack atomic.Int64
	t.Run("pairs", func(t *testing.T) {
		for seed := range uint64(20) {
			kind := [...]string{"sqlite", "postgres"}[seed%2]
			t.Run(fmt.Sprintf("%d %s", seed, kind), func(t *testing.T) {
				t.Parallel() // it waits more than it computes
				givenBack.Add(int64(deployed(t, seed, kind)))
			})
		}
	})
	t.Logf("%d runs given back", givenBack.Load())
	require.NotZero(t, givenBack.Load())
}

// deployed deploys one pair, and returns how many runs were given back.
func deployed(t *testing.T, seed uint64, kind string) int {
	p := &deployment{
		t: t, seed: seed, url: "sqlite:" + filepath.Join(t.TempDir(), "deploys.db"), random: rand.New(rand.NewPCG(seed, 4)), procs: map[string][]*selfexec.Process{},
		news: make(chan struct{}, 1), executions: map[string]int{}, taken: map[string]int{},
	}
	if kind == "postgres" {
		p.url = pgtest.Database(t)
	}
	st, err := backends.Open(t.Context(), p.url)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	p.eng = engine.New(st, quiet)
	defer p.eng.Close()
	p.run()
	return p.givenBack
}

func (p *deployment) run() {
	p.deploy(v1)
	p.replace(v1, v2)
	p.replace(v2, v1)
	p.deploy(v2)
	for i, h := range p.handles {
		n, err := h.Result(p.t.Context())
		require.NoError(p.t, err, "run %d", i)
		require.Equal(p.t, i, n)
	}
	p.retire(v1)
	p.retire(v2)
	p.mu.Lock()
	defer p.mu.Unlock()
	for what, n := range p.executions {
		run, _, _ := strings.Cut(what, " ")
		if n > 1+p.taken[run] {
			p.faults = append(p.faults, fmt.Sprintf("%s was executed %d times, and %d leases of its run ran out", what, n, p.taken[run]))
		}
	}
	require.Empty(p.t, p.faults)
}

// replace starts runs on a build, deploys the other one beside it, kills processes of both, and
// ends the first build. It returns when only runs are left that are pinned to that build, which
// the list of builds then shows.
func (p *deployment) replace(old, young string) {
	wf, _ := programs(p.seed)[old].Definitions(shortNap, nil)
	for range underWay {
		h, err := wf.Start(p.t.Context(), p.eng, len(p.handles))
		require.NoError(p.t, err)
		p.handles = append(p.handles, h)
	}
	p.hear(underWay) // they are under way
	p.deploy(young)
	for range 4 {
		p.hear(10 + p.random.IntN(30))
		p.kill([]string{old, young}[p.random.IntN(2)])
	}
	p.retire(old)
	var stranded int64
	defer func() {
		if p.t.Failed() {
			p.dump()
		}
	}()
	require.Eventually(p.t, func() (quiet bool) {
		stranded, quiet = p.stranded(old)
		return quiet
	}, 10*time.Minute, 50*time.Millisecond, "runs are neither finished nor pinned to %s", old)
	require.Eventually(p.t, func() bool {
		builds, err := p.eng.Builds(p.t.Context())
		require.NoError(p.t, err)
		for _, b := range builds {
			if b.Name == old {
				return b.Online == 0 && b.Pinned == stranded
			}
		}
		return stranded == 0
	}, 2*time.Minute, 50*time.Millisecond, "the list of builds does not show %d stranded runs of %s", stranded, old)
}

// dump logs the unfinished runs.
func (p *deployment) dump() {
	page, err := p.eng.List(context.WithoutCancel(p.t.Context()), store.RunFilter{Statuses: unfinished}, "", store.MaxPage)
	p.t.Logf("%d unfinished runs, %v; programs %+v", len(page.Runs), err, programs(p.seed))
	for _, run := range page.Runs {
		p.t.Logf("%v %v %v, epoch %d, crashes %d, visible at %v, last build %s, pin %+v", run.Workflow, run.ID, run.Status, run.Epoch, run.Crashes, run.VisibleAt, run.Build, run.Pin)
	}
}

// stranded counts the runs that are pinned to a build, also those that a killed process held; quiet says that no other is unfinished.
func (p *deployment) stranded(build string) (n int64, quiet bool) {
	page, err := p.eng.List(p.t.Context(), store.RunFilter{Statuses: unfinished}, "", store.MaxPage)
	require.NoError(p.t, err)
	for _, run := range page.Runs {
		if run.PinnedTo() != build {
			return 0, false
		}
		n++
	}
	return n, page.Next == ""
}

// deploy starts two processes of a build.
func (p *deployment) deploy(build string) {
	for range 2 {
		p.spawn(build)
	}
	for _, proc := range p.procs[build] {
		proc.AwaitReady(p.t)
	}
	require.Eventually(p.t, func() bool {
		list, err := p.eng.Workflows(p.t.Context())
		require.NoError(p.t, err)
		return len(list) == 2
	}, time.Minute, 10*time.Millisecond, "no worker has registered")
}

func (p *deployment) spawn(build string) {
	executed := map[string]int{} // steps of the present lease, by run
	proc := selfexec.Spawn(p.t, build, nil, []string{envURL + "=" + p.url, fmt.Sprintf("%s=%d", envSeed, p.seed), envBuild + "=" + build}, func(line string) {
		p.heard(build, line, executed)
	})
	p.procs[build] = append(p.procs[build], proc)
}

// heard takes a line of a process.
func (p *deployment) heard(build, line string, executed map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines++
	select {
	case p.news <- struct{}{}:
	default:
	}
	f := strings.SplitN(line, " ", 3)
	if len(f) < 3 {
		p.faults = append(p.faults, "strange line "+line)
		return
	}
	switch f[0] {
	case "claim":
		executed[f[1]] = 0
		if f[2] == "true" {
			p.taken[f[1]]++
		}
	case "step":
		executed[f[1]]++
		p.executions[f[1]+" "+f[2]]++
	case "gave":
		p.givenBack++
		if executed[f[1]] > 0 {
			p.faults = append(p.faults, fmt.Sprintf("build %s executed %d steps of run %s before it gave the run back", build, executed[f[1]], f[1]))
		}
	}
}

// hear waits until that many further lines were heard, or until all runs are final.
func (p *deployment) hear(n int) {
	p.mu.Lock()
	until := p.lines + n
	p.mu.Unlock()
	for {
		p.mu.Lock()
		enough := p.lines >= until
		p.mu.Unlock()
		if enough {
			return
		}
		select {
		case <-p.news:
		case <-time.After(leaseFor):
			if page, err := p.eng.List(p.t.Context(), store.RunFilter{Statuses: unfinished}, "", 1); err == nil && len(page.Runs) == 0 {
				return
			}
		}
	}
}

// kill kills a process of a build, and starts another in its place.
func (p *deployment) kill(build string) {
	i := p.random.IntN(len(p.procs[build]))
	p.end(p.procs[build][i])
	p.procs[build] = append(p.procs[build][:i], p.procs[build][i+1:]...)
	p.spawn(build)
}

// retire kills all processes of a build.
func (p *deployment) retire(build string) {
	for _, proc := range p.procs[build] {
		p.end(proc)
	}
	delete(p.procs, build)
}

func (p *deployment) end(proc *selfexec.Process) {
	proc.Asked.Store(true)
	require.NoError(p.t, proc.Cmd.Process.Kill())
	require.Error(p.t, proc.AwaitEnd(p.t), "a killed process ended by itself")
}
