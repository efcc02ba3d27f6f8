//go:build unix

package procs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/testing/overruns"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// The environment variables of processes that work under limits, beside those of the reference workload.
const (
	envDial  = "PAWL_PROCS_DIAL"  // the address of sqld, whose URL names a database only
	envBuild = "PAWL_PROCS_BUILD" // the worker's build
)

// The limits of the workload, and their keys.
var (
	aloneLimit = limit.New("alone", limit.Concurrency(1))
	tripleKeys = limit.New("triple", limit.Concurrency(3), limit.Fair())
	callsLimit = limit.New("calls", limit.Concurrency(2), limit.Rate(500, time.Second, limit.Burst(5)))
	limitKeys  = map[string][]string{"alone": {"a", "b", "c"}, "triple": {"x", "y"}, "calls": {"k", "l"}}
)

// limitedOrder is the input of a run under limits.
type limitedOrder struct {
	Alone, Triple, Call string // keys; Alone is empty for runs that are not under that limit
}

// limitedWork is what a process needs to work under limits. It journals when each step begins and ends.
type limitedWork struct{ journal *journal }

func (l *limitedWork) step(ctx workflow.Context, name string, uses []string, opts ...workflow.StepOption) error {
	return workflow.Do(ctx, name, func(ctx context.Context) error {
		info := exec.Info(ctx)
		e := entry{Op: "begin", From: time.Now().UnixMicro(), Run: info.Inv.Run().ID, Epoch: info.Inv.Lease().Epoch, Step: name, Key: strings.Join(uses, " ")}
		if err := l.journal.write(e); err != nil {
			return workflow.Permanent(err)
		}
		time.Sleep(rand.N(2 * stepWork)) // the work, in which the process may be hit
		e.Op, e.To = "end", time.Now().UnixMicro()
		return l.journal.write(e)
	}, opts...)
}

func (l *limitedWork) workflows() (single, shared *workflow.Workflow[limitedOrder, string]) {
	run := func(ctx workflow.Context, o limitedOrder) (string, error) {
		var uses []string
		if o.Alone != "" {
			uses = append(uses, "alone/"+o.Alone)
		} else {
			uses = append(uses, "triple/"+o.Triple)
		}
		if err := l.step(ctx, "first", uses); err != nil {
			return "", err
		}
		if err := l.step(ctx, "call", append(uses, "calls/"+o.Call), workflow.StepUnder(callsLimit, limit.Key(o.Call))); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "nap", 5*time.Millisecond); err != nil {
			return "", err
		}
		return "done", l.step(ctx, "last", uses)
	}
	single = workflow.New("single", run, workflow.UnderKey(aloneLimit, func(o limitedOrder) string { return o.Alone }))
	shared = workflow.New("shared", run, workflow.UnderKey(tripleKeys, func(o limitedOrder) string { return o.Triple }))
	return single, shared
}

// limitedRole works under limits until it is killed or gets SIGTERM.
func limitedRole(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	j, err := openJournal(os.Getenv(envDir))
	if err != nil {
		return err
	}
	lease, err := time.ParseDuration(os.Getenv(envLease))
	if err != nil {
		return err
	}
	st, err := openLimited(ctx, os.Getenv(envURL), os.Getenv(envDial))
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to end before it had begun
		}
		return err
	}
	defer st.Close()
	logs, err := os.OpenFile(filepath.Join(os.Getenv(envDir), fmt.Sprintf("%d.log", os.Getpid())), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	eng := engine.New(&leaseTap{st, st.(store.Hinter), j}, engine.Logger(slog.New(slog.NewTextHandler(logs, nil))), engine.Require(engine.RequireNothing))
	defer eng.Close()
	// This test kills the same runs very often, which is no fault of theirs.
	w := worker.New(eng, worker.Lease(lease), worker.Concurrency(6), worker.Build(os.Getenv(envBuild)), worker.MaxCrashes(1000))
	single, shared := (&limitedWork{j}).workflows()
	if err := w.Register(single, shared); err != nil {
		return err
	}
	fmt.Println("ready")
	return w.Run(ctx)
}

// leaseTap journals the leases that a worker is given.
type leaseTap struct {
	store.Store
	store.Hinter
	journal *journal
}

func (l *leaseTap) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return (&tap{l.Store, l.journal}).Claim(ctx, p)
}

func openLimited(ctx context.Context, url, dial string) (store.Store, error) {
	if dial == "" {
		return backends.Open(ctx, url)
	}
	return turso.Open(ctx, url, turso.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", dial)
	}))
}

// limitedPlaces are the databases of TestLimits.
var limitedPlaces = []struct {
	name  string
	fresh func(t *testing.T, dir string) (url, dial string)
}{
	{"sqlite", func(_ *testing.T, dir string) (string, string) { return "sqlite:" + filepath.Join(dir, "pawl.db"), "" }},
	{"postgres", func(t *testing.T, _ string) (string, string) { return pgtest.Start(t).URL(), "" }},
	{"turso", func(t *testing.T, _ string) (string, string) {
		srv := sqldtest.Start(t)
		return srv.Namespace(t), srv.Addr()
	}},
}

// TestLimits kills and stops processes of two builds that work under limits. The journals, in which each
// step notes when it begins and ends, must never show more runs at work under a limit and key than its
// concurrency, and when every run is final, each key must have all of its permits.
func TestLimits(t *testing.T) {
	for _, place := range limitedPlaces {
		t.Run(place.name, func(t *testing.T) {
			seed := cmp.Or(*seedFlag, rand.Uint64())
			t.Logf("seed %d", seed)
			d := &limitDriver{t: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 3)), stopped: map[*process]bool{}, killed: map[int]int64{}}
			d.url, d.dial = place.fresh(t, d.dir)
			d.run()
		})
	}
}

// limitDriver is one run of TestLimits.
type limitDriver struct {
	t         *testing.T
	dir       string
	url, dial string
	random    *rand.Rand
	st        store.Store
	eng       *engine.Engine

	procs   [4]*process
	stopped map[*process]bool
	killed  map[int]int64 // when, by process id
	begun   int
	zombies int
	handles struct {
		sync.Mutex
		list []workflow.Handle[string]
	}
}

func (d *limitDriver) run() {
	ctx := d.t.Context()
	var err error
	d.st, err = openLimited(ctx, d.url, d.dial)
	require.NoError(d.t, err)
	d.eng = engine.New(d.st, engine.Require(engine.RequireNothing))
	defer func() { d.eng.Close(); _ = d.st.Close() }()
	began := time.Now()
	for i := range d.procs {
		d.spawn(i)
	}
	for _, p := range d.procs {
		p.AwaitReady(d.t)
	}
	var over atomic.Bool
	var lanes sync.WaitGroup
	single, shared := (&limitedWork{}).workflows()
	for lane := range limitLanes {
		r := rand.New(rand.NewPCG(d.random.Uint64(), uint64(lane)))
		lanes.Go(func() {
			for !over.Load() {
				d.one(ctx, r, single, shared)
			}
		})
	}
	d.storm()
	for i, p := range d.procs {
		if d.stopped[p] {
			require.NoError(d.t, p.Cmd.Process.Signal(syscall.SIGCONT))
		}
		d.procs[i].AwaitReady(d.t)
	}
	over.Store(true)
	lanes.Wait() // each has waited for its run
	took := time.Since(began)
	for _, p := range d.procs {
		p.Asked.Store(true)
		require.NoError(d.t, p.Cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(d.t, p.AwaitEnd(d.t))
	}
	d.judge(took)
}

// limitLanes is how many runs are open at a time.
const limitLanes = 40

func (d *limitDriver) spawn(i int) {
	d.begun++
	d.procs[i] = spawn(d.t, "limited", []string{
		envURL + "=" + d.url, envDial + "=" + d.dial, envDir + "=" + d.dir, envLease + "=" + leaseFlag.String(), envBuild + fmt.Sprint("=v", i%2),
	}, nil)
}

// one starts a run and waits for it.
func (d *limitDriver) one(ctx context.Context, r *rand.Rand, single, shared *workflow.Workflow[limitedOrder, string]) {
	draw := func(limit string) string { return limitKeys[limit][r.IntN(len(limitKeys[limit]))] }
	o, flow := limitedOrder{Triple: draw("triple"), Call: draw("calls")}, shared
	if r.IntN(4) == 0 {
		o.Alone, flow = draw("alone"), single
	}
	h, err := flow.Start(ctx, d.eng, o, engine.RunID(store.NewID()))
	if !assert.NoError(d.t, err) {
		return
	}
	d.handles.Lock()
	d.handles.list = append(d.handles.list, h)
	d.handles.Unlock()
	out, err := h.Result(ctx)
	assert.NoError(d.t, err)
	assert.Equal(d.t, "done", out)
}

// storm kills processes, and stops others until another one has taken their runs over. The moments are
// deliberately times, so that a process is hit in any state.
func (d *limitDriver) storm() {
	type waking struct {
		at time.Time
		p  *process
	}
	var asleep []waking
	blows := append(slices.Repeat([]bool{true}, *killsFlag), slices.Repeat([]bool{false}, *stopsFlag)...)
	d.random.Shuffle(len(blows), func(i, j int) { blows[i], blows[j] = blows[j], blows[i] })
	for _, kill := range blows {
		time.Sleep(time.Duration(d.random.Int64N(int64(2 * *gapFlag))))
		for len(asleep) > 0 && asleep[0].at.Before(time.Now()) {
			d.wake(asleep[0].p)
			asleep = asleep[1:]
		}
		i := d.random.IntN(len(d.procs))
		p := d.procs[i]
		if kill {
			p.Asked.Store(true)
			require.NoError(d.t, p.Cmd.Process.Kill())
			_ = p.AwaitEnd(d.t)
			d.killed[p.PID()] = time.Now().UnixMicro()
			d.spawn(i)
			continue
		}
		for d.stopped[p] || len(asleep) == len(d.procs)-1 {
			time.Sleep(time.Until(asleep[0].at))
			d.wake(asleep[0].p)
			asleep = asleep[1:]
		}
		require.NoError(d.t, p.Cmd.Process.Signal(syscall.SIGSTOP))
		d.stopped[p] = true
		d.zombies++
		asleep = append(asleep, waking{time.Now().Add(5 * *leaseFlag / 2), p})
	}
	for _, a := range asleep {
		time.Sleep(time.Until(a.at))
		d.wake(a.p)
	}
}

func (d *limitDriver) wake(p *process) {
	if d.stopped[p] && !p.Ended() { // it may have been killed meanwhile
		require.NoError(d.t, p.Cmd.Process.Signal(syscall.SIGCONT))
	}
	delete(d.stopped, p)
}

// judge examines the journals and the permits that are left.
func (d *limitDriver) judge(took time.Duration) {
	all, err := readJournals(d.dir)
	require.NoError(d.t, err)
	v := judgeLimits(all, d.killed, limitConcurrency)
	for _, o := range v.Overruns {
		d.t.Errorf("overrun: %s", o)
	}
	leaks := d.leaks()
	for _, l := range leaks {
		d.t.Errorf("leak: %s", l)
	}
	d.t.Logf("%v: %d kills, %d stops, %d processes of two builds", took.Round(time.Second), *killsFlag, d.zombies, d.begun)
	d.t.Logf("%d runs, %d claims, %d of them after a lease that ran out; %d executions of steps, %d of them cut off by a kill, %d still under way when their run was taken over",
		len(d.handles.list), v.claims, v.takeovers, v.executions, v.cut, v.zombies)
	d.t.Logf("most at work at one time: %v; %d overruns, %d leaks", v.Most, len(v.Overruns), len(leaks))
	if *killsFlag >= 50 { // with few disturbances, all may miss
		assert.NotZero(d.t, v.takeovers, "no run was taken over: the test shows nothing")
		assert.NotZero(d.t, v.cut)
	}
}

// limitConcurrency is the concurrency of the limit in "limit/key".
func limitConcurrency(use string) int {
	name, _, _ := strings.Cut(use, "/")
	for _, l := range []*limit.Limit{aloneLimit, tripleKeys, callsLimit} {
		if l.Name() == name {
			return int(l.Rule().Concurrency)
		}
	}
	return 0
}

// leaks finds permits that are held although every run is final. A store may not know what it has
// leaked; so for each key, one run more than its concurrency is created, and all but one must be given.
func (d *limitDriver) leaks() (found []string) {
	ctx := d.t.Context()
	for name, keys := range limitKeys {
		page, err := d.eng.LimitKeys(ctx, name, "", 0)
		require.NoError(d.t, err)
		for _, k := range page.Keys {
			if k.Held != 0 || k.Waiting != 0 {
				found = append(found, fmt.Sprintf("limit %s, key %s: %d held, %d waiting", name, k.Key, k.Held, k.Waiting))
			}
		}
		for _, key := range keys {
			want := limitConcurrency(name + "/")
			runs, flow := make([]store.NewRun, want+1), "probe-"+name+"-"+key
			for i := range runs {
				runs[i] = store.NewRun{ID: store.NewID(), Workflow: flow, Queue: "probe", Under: []store.LimitUse{{Limit: name, Key: key}}}
			}
			_, err := d.st.Create(ctx, store.CreateParams{Namespace: engine.DefaultNamespace, Runs: runs})
			require.NoError(d.t, err)
			got := 0
			for range 3 { // a claim may leave a run to a later one
				claimed, err := d.st.Claim(ctx, store.ClaimParams{
					Namespace: engine.DefaultNamespace, Worker: "prober", LeaseFor: time.Minute, Max: len(runs),
					Demands: []store.Demand{{Queue: "probe", Workflows: []string{flow}, Max: len(runs)}},
				})
				require.NoError(d.t, err)
				got += len(claimed.Runs)
			}
			if got != want {
				found = append(found, fmt.Sprintf("limit %s, key %s: %d of %d permits are given", name, key, got, want))
			}
		}
	}
	return found
}

// verdict is what the journals show.
type limitVerdict struct {
	overruns.Verdict
	claims, takeovers int
	executions        int
	cut               int // ended by the kill of their process
	zombies           int // under way when another lease took the run over
}

// judgeLimits looks for moments with more runs at work under a limit and key than it permits. The work of a
// run is a step from its beginning to its end, or to the kill of its process. From when another lease
// takes the run over, the permit belongs to that lease: what the holder before still does is beyond
// what a limit can see.
func judgeLimits(all []entry, killed map[int]int64, concurrency func(use string) int) limitVerdict {
	var v limitVerdict
	type lease struct {
		run   store.ID
		epoch int64
	}
	claimed := map[lease]int64{} // when, at the earliest
	last := map[store.ID]int64{}
	ends := map[string]int64{}
	name := func(e *entry) string { return fmt.Sprint(e.PID, e.Run, e.Epoch, e.Step, e.From) }
	for i := range all {
		e := &all[i]
		switch e.Op {
		case "claim":
			v.claims++
			if e.Recovered {
				v.takeovers++
			}
			claimed[lease{e.Run, e.Epoch}] = e.From
			last[e.Run] = max(last[e.Run], e.Epoch)
		case "end":
			ends[name(e)] = e.To
		}
	}
	var work []overruns.Work
	for i := range all {
		e := &all[i]
		if e.Op != "begin" {
			continue
		}
		v.executions++
		end, ended := ends[name(e)]
		if !ended {
			v.cut++
			end = killed[e.PID]
		}
		for epoch := e.Epoch + 1; epoch <= last[e.Run]; epoch++ {
			if at, ok := claimed[lease{e.Run, epoch}]; ok {
				if at < end {
					v.zombies++
					end = at
				}
				break
			}
		}
		work = append(work, overruns.Work{Run: e.Run.String(), Uses: strings.Fields(e.Key), From: e.From, To: end})
	}
	v.Verdict = overruns.Judge(work, concurrency)
	return v
}

// TestOverrunsAreSeen proves that the check of the journals can fail.
func TestOverrunsAreSeen(t *testing.T) {
	a, b := store.NewID(), store.NewID()
	line := func(op string, run store.ID, epoch, from, to int64) entry {
		return entry{Op: op, PID: int(epoch), Run: run, Epoch: epoch, Step: "s", Key: "alone/a", From: from, To: to}
	}
	count := func(list ...entry) int {
		return len(judgeLimits(list, map[int]int64{1: 100}, func(string) int { return 1 }).Overruns)
	}
	require.Zero(t, count(line("begin", a, 1, 10, 0), line("end", a, 1, 10, 20), line("begin", b, 1, 20, 0), line("end", b, 1, 20, 30)), "one after the other")
	require.Equal(t, 1, count(line("begin", a, 1, 10, 0), line("end", a, 1, 10, 20), line("begin", b, 1, 19, 0), line("end", b, 1, 19, 30)), "at one time")
	require.Equal(t, 1, count(line("begin", a, 1, 10, 0), line("begin", b, 2, 90, 0), line("end", b, 2, 90, 110)), "before the kill of the other")
	require.Zero(t, count(line("begin", a, 1, 10, 0), line("begin", b, 2, 100, 0), line("end", b, 2, 100, 110)), "after the kill of the other")
	zombie := []entry{line("begin", a, 1, 10, 0), line("end", a, 1, 10, 80), line("claim", a, 2, 40, 41), line("begin", a, 2, 42, 0), line("end", a, 2, 42, 50)}
	require.Zero(t, count(append(zombie, line("begin", b, 3, 60, 0), line("end", b, 3, 60, 70))...), "beside a holder whose run was taken over and has ended")
	require.Equal(t, 1, count(append(zombie, line("begin", b, 3, 45, 0), line("end", b, 3, 45, 70))...), "beside the one that took over")
	require.Equal(t, 1, count(append(zombie, line("begin", b, 3, 30, 0), line("end", b, 3, 30, 35))...), "beside the holder before")
}
