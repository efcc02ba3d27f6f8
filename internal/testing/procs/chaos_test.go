//go:build unix

package procs

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/testing/cutproxy"
	"github.com/pawlhq/pawl/store"
)

var (
	killsFlag = flag.Int("procs.kills", 8, "how many processes are killed with -9")
	stopsFlag = flag.Int("procs.stops", 3, "how many are stopped for three leases")
	leaseFlag = flag.Duration("procs.lease", time.Second, "the workers' lease")
	gapFlag   = flag.Duration("procs.gap", 500*time.Millisecond, "mean time between two blows")
	backsFlag = flag.Int("procs.restores", 0, "how often the database is restored from a backup, in turn in each way there is")
	runsFlag  = flag.Int("procs.runs", 0, "how many runs of three steps there are, while workers alone are hit; 0: runs of all kinds, until all blows are dealt")
	seedFlag  = flag.Uint64("procs.seed", 0, "what blows, moments and orders are drawn from; 0: another each time")

	// With a network between the processes and the database:
	restartsFlag = flag.Int("procs.restarts", 2, "how often the database server is stopped, or crashes, and comes back")
	termsFlag    = flag.Int("procs.terms", 4, "how many connections the server terminates")
	crashesFlag  = flag.Int("procs.crashes", 0, "how often the database server crashes, beside the restarts")
	promotesFlag = flag.Int("procs.promotions", 0, "how often the database server dies and a standby that lags takes its place")
	answersFlag  = flag.Int("procs.answers", 0, "how many answers the network must have lost before the storm is over")
	commitsFlag  = flag.Int("procs.commits", 4, "of so many COMMITs of transactions, one loses its answer once the server has given it; 0: none")
	cutsFlag     = flag.Int("procs.cuts", 2, "how often all connections of a process are cut")
	hangsFlag    = flag.Int("procs.hangs", 1, "how often all connections of a worker become half-open")
)

// quota is what each of the starters starts.
func quota() int { return (*runsFlag + 1) / 2 }

// TestChaos lets worker and starter processes run the reference workload while they are killed,
// stopped and restarted, and then checks everything that they have recorded. The seed determines
// the disturbances; how they affect the processes depends on the machine.
func TestChaos(t *testing.T) {
	for _, b := range allBackends {
		t.Run(b.name, func(t *testing.T) {
			seed := *seedFlag
			if seed == 0 {
				seed = rand.Uint64()
			}
			t.Logf("again: go test ./internal/testing/procs -run 'TestChaos/%s' -procs.kills=%d -procs.stops=%d -procs.seed=%d", b.name, *killsFlag, *stopsFlag, seed)
			chaos(t, b, seed, func(d *driver) []func() { return d.plan(*killsFlag, *stopsFlag, *backsFlag) })
		})
	}
}

// slot is a place for a process of one role; when the process ends, the next one takes it.
type slot struct {
	role    string
	env     []string
	proc    *process        // nil: none runs
	proxy   *cutproxy.Proxy // in front of the database; nil: none
	stopped bool
	leaving bool // has got SIGTERM
	started int  // processes so far
}

// driver causes the disturbances.
type driver struct {
	t       *testing.T
	backend backend
	url     string
	dir     string
	net     *network // nil: none
	lease   time.Duration
	random  *rand.Rand
	seed    uint64
	slots   []*slot
	events  []event // future events other than disturbances

	started int       // runs that were reported as started
	grown   time.Time // when that number last increased

	mu sync.Mutex // guards the fields that the starters' lines set
	ev *evidence

	rescue rescue // the one in progress

	kills, stops, terms, starts int
	most                        int // connections of a process at one moment
}

type event struct {
	at time.Time
	do func()
}

func chaos(t *testing.T, b backend, seed uint64, plan func(d *driver) []func()) {
	dir, err := os.MkdirTemp("", "pawl-procs-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("database, journals and logs are left in %s", dir)
		} else {
			_ = os.RemoveAll(dir)
		}
	})
	d := &driver{t: t, backend: b, dir: dir, lease: *leaseFlag, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), ev: newEvidence()}
	d.url, d.net = b.fresh(t, dir, seed)
	blows := plan(d)
	for range 3 {
		d.slots = append(d.slots, &slot{role: "worker"})
	}
	// One starter also works, so that there are eager starts.
	d.slots = append(d.slots, &slot{role: "starter"}, &slot{role: "starter", env: []string{envAlso + "=worker"}})
	if *runsFlag > 0 {
		d.slots[4].env = nil
	}

	began := time.Now()
	for _, s := range d.slots {
		d.start(s)
	}
	for _, s := range d.slots {
		s.proc.AwaitReady(t)
	}
	d.tick()
	d.storm(blows)
	d.heal()
	healed := time.Now()

	eng, done := d.engine()
	defer done()
	d.settle(eng)
	last := d.awaitFinal(eng, healed)
	d.checkConnections()
	d.shutDown()
	if d.net != nil { // all processes are gone
		assert.Eventually(t, func() bool { return len(d.net.backends(t)) == 0 }, 10*time.Second, 20*time.Millisecond, "connections are left")
	}

	if d.ev.journal, err = readJournals(dir); err != nil {
		t.Fatal(err)
	}
	v := judge(t, b, d.where(), d.ev)
	assert.NoError(t, v.tables, "tables")
	assert.NoError(t, v.api, "API")
	assert.NoError(t, v.journals, "journals")
	assert.NoError(t, v.effects, "effects")
	out, sum := v.out, v.sum
	require.NotNil(t, out)
	steps := 0
	for _, s := range out.steps {
		steps += len(s)
	}
	t.Logf("%v: %d kills, %d stops, %d graceful restarts, %d processes", time.Since(began).Round(time.Second), d.kills, d.stops, d.terms, d.starts)
	t.Logf("%d starts tried, %d acknowledged, %d runs, %d steps; the last run was final %v after healing",
		len(d.ev.asked), len(d.ev.acked), len(out.runs), steps, last.Round(time.Millisecond))
	t.Logf("%d claims, %d takeovers, %d commits, %d of them repeated; %d side effects, %d of them again after a takeover, %d after the record",
		sum.claims, sum.takeovers, sum.commits, sum.repeated, sum.effects, sum.again, sum.late)
	t.Logf("%d effects of transactions, %d of them doubled; %d contradictory histories, %d stuck runs", v.rows, v.doubled, out.wrong, out.stuck())
	t.Logf("%v; %d fired by the schedule", out, out.fired)
	if d.ev.forgets {
		t.Logf("%d restores; %d runs were acknowledged and are gone, as a restore or a promotion loses them", d.rescue.done, len(d.ev.acked)-len(d.ev.kept(out)))
	}
	t.Logf("%d transactions of steps were asked for after a lost answer, %d of them had been applied", sum.asked, sum.applied)
	if d.net != nil {
		t.Logf("%v; %d connections of a process at most", d.net, d.most)
		t.Logf("answers lost to %d commits, %d of them learned by sending again, to %d claims and %d creates; the longest that a run made no progress was %v",
			sum.unknown, sum.known, sum.blind["claim"], sum.blind["create"], sum.quiet.Round(time.Millisecond))
	}
	if *killsFlag >= 50 { // with few disturbances, all may miss
		assert.NotZero(t, sum.takeovers, "no run was taken over: the test shows nothing")
	}
}

// plan draws the order of the disturbances: kills, stops, restores, a graceful restart for every
// ten kills, and those of the network.
func (d *driver) plan(kills, stops, restores int) []func() {
	var blows []func()
	add := func(n int, blow func()) { blows = append(blows, slices.Repeat([]func(){blow}, n)...) }
	add(kills, d.kill)
	add(stops, d.stop)
	add(restores, d.restore)
	d.ev.forgets = restores > 0 || d.net != nil && *promotesFlag > 0
	if *runsFlag == 0 {
		add(1+kills/10, d.restart)
	}
	if d.net != nil {
		add(*restartsFlag, d.halt)
		add(*crashesFlag, d.crash)
		add(*promotesFlag, d.promote)
		add(*termsFlag, d.terminate)
		add(*cutsFlag, d.cut)
		add(*hangsFlag, d.hang)
	}
	d.random.Shuffle(len(blows), func(i, j int) { blows[i], blows[j] = blows[j], blows[i] })
	return blows
}

// storm causes the disturbances at random moments. The moments are deliberately times, and not
// states that could be waited for: a process is to be hit in any state. If a number of runs is to
// be done, the moments are spread over them, however long they take.
func (d *driver) storm(blows []func()) {
	marks := make([]int, len(blows)) // of runs started
	for i := range marks {
		marks[i] = d.random.IntN(max(1, *runsFlag*9/10))
	}
	slices.Sort(marks)
	next := time.Now().Add(d.within(2 * *gapFlag))
	for {
		d.lookAfter()
		now, done := time.Now(), len(blows) == 0
		if done && d.net != nil && d.net.answers() < *answersFlag {
			done = false
		}
		due := len(blows) > 0 && !next.After(now)
		if *runsFlag > 0 {
			started := d.progress(now)
			due = len(blows) > 0 && marks[0] <= started
			done = done && !slices.ContainsFunc(d.slots, func(s *slot) bool { return s.role == "starter" && s.proc != nil })
		}
		slices.SortStableFunc(d.events, func(a, b event) int { return a.at.Compare(b.at) })
		switch {
		case len(d.events) > 0 && !d.events[0].at.After(now):
			e := d.events[0]
			d.events = d.events[1:]
			e.do()
			continue
		case due:
			blows[0]()
			blows, marks = blows[1:], marks[1:]
			next = now.Add(d.within(2 * *gapFlag))
			if d.net != nil {
				d.most = max(d.most, d.census())
			}
			continue
		case done && len(d.events) == 0:
			return
		}
		until := next
		if *runsFlag > 0 {
			until = now.Add(2 * time.Millisecond)
		}
		if len(blows) == 0 && !done {
			until = now.Add(20 * time.Millisecond) // answers still have to be lost
		}
		if len(blows) == 0 && done && *runsFlag == 0 || len(d.events) > 0 && d.events[0].at.Before(until) {
			until = d.events[0].at
		}
		time.Sleep(time.Until(until))
	}
}

// progress returns how many runs were started, and fails if the number does not increase.
func (d *driver) progress(now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.ev.acked); n > d.started {
		d.started, d.grown = n, now
	} else if !d.grown.IsZero() && now.Sub(d.grown) > time.Minute {
		d.t.Fatalf("no run was started for a minute, after %d", n)
	}
	return d.started
}

func (d *driver) within(limit time.Duration) time.Duration {
	return time.Duration(d.random.Int64N(int64(limit)))
}

func (d *driver) after(wait time.Duration, do func()) {
	d.events = append(d.events, event{time.Now().Add(wait), do})
}

// pick draws one of the slots that match; nil: there is none.
func (d *driver) pick(match func(s *slot) bool) *slot {
	var list []*slot
	for _, s := range d.slots {
		if s.proc != nil && match(s) {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[d.random.IntN(len(list))]
}

// kill ends a process in any state, also one that is stopped, is shutting down or has just begun.
func (d *driver) kill() {
	s := d.pick(func(s *slot) bool { return *runsFlag == 0 || s.role == "worker" })
	if s == nil {
		d.after(d.lease/4, d.kill)
		return
	}
	d.end(s)
	d.kills++
	d.after(d.within(d.lease/2), func() { d.start(s) })
}

// end kills the slot's process.
func (d *driver) end(s *slot) {
	p := s.proc
	p.Asked.Store(true)
	require.NoError(d.t, p.Cmd.Process.Kill())
	err := p.AwaitEnd(d.t)
	require.True(d.t, err != nil || s.leaving, "a killed process ended by itself")
	d.emptied(s)
}

// emptied notes that the slot's process has ended.
func (d *driver) emptied(s *slot) {
	if s.stopped {
		d.endPause(s)
	}
	s.proc, s.proxy, s.stopped, s.leaving = nil, nil, false, false
}

func (d *driver) endPause(s *slot) {
	spans := d.ev.paused[s.proc.PID()]
	spans[len(spans)-1].to = time.Now()
}

// stop stops a process for three leases: when it continues, it knows nothing of that time.
func (d *driver) stop() {
	s := d.pick(func(s *slot) bool { return !s.stopped && !s.leaving })
	if s == nil {
		d.after(d.lease/4, d.stop)
		return
	}
	p := s.proc
	d.ev.paused[p.PID()] = append(d.ev.paused[p.PID()], span{from: time.Now()})
	require.NoError(d.t, p.Cmd.Process.Signal(syscall.SIGSTOP))
	s.stopped = true
	d.stops++
	d.after(3*d.lease, func() {
		if s.proc == p { // it may have been killed meanwhile
			require.NoError(d.t, p.Cmd.Process.Signal(syscall.SIGCONT))
			d.endPause(s)
			s.stopped = false
		}
	})
}

// restart ends a worker gracefully; the next one starts at once.
func (d *driver) restart() {
	s := d.pick(func(s *slot) bool {
		select {
		case <-s.proc.Ready: // before that, SIGTERM is not a graceful end
			return s.role == "worker" && !s.stopped && !s.leaving
		default:
			return false
		}
	})
	if s == nil {
		d.after(d.lease/4, d.restart)
		return
	}
	p := s.proc
	p.Asked.Store(true)
	require.NoError(d.t, p.Cmd.Process.Signal(syscall.SIGTERM))
	s.leaving = true
	d.terms++
}

// lookAfter finds processes that have ended: those that were told to end are replaced, any other
// end is a failure.
func (d *driver) lookAfter() {
	for _, s := range d.slots {
		if s.proc == nil || !s.proc.Ended() {
			continue
		}
		if s.role == "starter" && *runsFlag > 0 && s.proc.Err == nil {
			d.emptied(s) // it has started all of its runs
			continue
		}
		require.True(d.t, s.leaving, "%s process %d ended by itself: %v", s.role, s.proc.PID(), s.proc.Err)
		require.NoError(d.t, s.proc.Err, "graceful end of worker process %d", s.proc.PID())
		d.emptied(s)
		d.start(s)
	}
}

// start fills a slot, unless the database is closed to processes.
func (d *driver) start(s *slot) {
	if d.rescue.closed {
		d.after(d.lease/4, func() { d.start(s) })
		return
	}
	s.started++
	d.starts++
	url := d.url
	if d.net != nil {
		s.proxy, url = d.net.proxy(d.t, fmt.Sprint("procs-", d.starts))
	}
	env := append([]string{
		envURL + "=" + url, envRuns + "=" + fmt.Sprint(quota()), envDir + "=" + d.dir, envLease + "=" + d.lease.String(),
		envSeed + fmt.Sprintf("=%d", d.seed), envFirst + fmt.Sprintf("=%d", d.starts*1_000_000),
	}, s.env...)
	if d.ev.forgets {
		env = append(env, envForgets+"=1")
	}
	s.proc = spawn(d.t, s.role, env, func(line string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.ev.hear(line); err != nil {
			d.t.Errorf("a starter said %v", err)
		}
	})
}

// checkConnections checks that no process has more connections than it may have.
func (d *driver) checkConnections() {
	if d.net == nil {
		return
	}
	assert.LessOrEqual(d.t, d.most, poolSize+1, "connections of a process at one moment, under way")
	crowd := func() (most int) {
		byName := map[string]int{}
		for _, c := range d.net.backends(d.t) {
			byName[c.name]++
			most = max(most, byName[c.name])
		}
		return most
	}
	assert.Eventually(d.t, func() bool { return crowd() <= poolSize+1 }, 10*time.Second, 20*time.Millisecond, "connections of a process, as the server sees them")
}

// heal ends the starters and makes sure that every worker runs.
func (d *driver) heal() {
	if d.net != nil {
		d.net.heal()
	}
	for _, s := range d.slots {
		if s.role == "starter" && s.proc != nil {
			s.proc.Asked.Store(true)
			require.NoError(d.t, s.proc.Cmd.Process.Kill())
			_ = s.proc.AwaitEnd(d.t)
			d.emptied(s)
		}
	}
	for _, s := range d.slots {
		if s.leaving {
			require.NoError(d.t, s.proc.AwaitEnd(d.t))
			d.lookAfter()
		}
		if s.role == "worker" {
			s.proc.AwaitReady(d.t)
		}
	}
}

// engine returns the driver's own engine, on the database without a proxy.
func (d *driver) engine() (*engine.Engine, func()) {
	st, err := backends.Open(d.t.Context(), d.where())
	require.NoError(d.t, err)
	eng := engine.New(st, engine.Require(engine.RequireNothing)) // a worker that is ready may not have registered yet
	return eng, func() {
		eng.Close()
		_ = st.Close()
	}
}

// where returns the URL of the database.
func (d *driver) where() string {
	if d.net != nil {
		return d.net.server.URL()
	}
	return d.url
}

// tick makes the schedule whose runs belong to the workload.
func (d *driver) tick() {
	if *runsFlag > 0 {
		return
	}
	eng, done := d.engine()
	defer done()
	putTicks(d.t, eng, (&load{}).workflows())
}

// settle does what the starters can no longer do: it resumes paused runs, cancels the runs that
// wait to be canceled, and ends the schedule.
func (d *driver) settle(eng *engine.Engine) {
	if *runsFlag > 0 {
		return
	}
	require.NoError(d.t, eng.PauseSchedule(d.t.Context(), tickSchedule))
	d.meddle(eng)
}

// meddle resumes all paused runs, and cancels those that wait to be canceled.
func (d *driver) meddle(eng *engine.Engine) {
	ctx := d.t.Context()
	// Also those that are to pause: the process that requested it may be dead, or its request to
	// resume may be lost.
	_, err := eng.ResumeMany(ctx, store.RunFilter{Statuses: []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused}})
	require.NoError(d.t, err)
	_, err = eng.CancelMany(ctx, store.RunFilter{Workflow: "doomed"}, "doomed")
	require.NoError(d.t, err)
}

// awaitFinal waits until every run is final, and returns how long after heal the last one became
// final: at most three leases, plus the runs' own waits. On a busy machine it may take longer, as
// long as runs become final within that time.
func (d *driver) awaitFinal(eng *engine.Engine, healed time.Time) (last time.Duration) {
	limit := 3*d.lease + ownWaits
	if d.net != nil {
		limit += 2 * d.lease // until a connection that hangs is given up
	}
	ctx := d.t.Context()
	open := []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}
	count := func() (n int64) {
		counts, err := eng.Count(ctx, store.RunFilter{Statuses: open})
		require.NoError(d.t, err)
		for _, c := range counts {
			n += c.Count
		}
		return n
	}
	deadline, left := healed.Add(limit), count()
	for cursor := ""; ; {
		page, err := eng.List(ctx, store.RunFilter{Statuses: open}, cursor, store.MaxPage)
		require.NoError(d.t, err)
		for _, run := range page.Runs {
			err := d.waitFor(eng, run.ID, deadline)
			for err != nil && d.t.Context().Err() == nil {
				before := left
				if left = count(); left >= before {
					break
				}
				deadline = time.Now().Add(limit)
				err = d.waitFor(eng, run.ID, deadline)
			}
			if err != nil {
				d.t.Fatalf("%v after healing run %s is not final: %v; now: %+v", limit, run.ID, err, d.look(eng, run.ID))
			}
			got, err := eng.Get(ctx, run.ID)
			require.NoError(d.t, err)
			last = max(last, got.FinishedAt.Sub(healed))
		}
		if cursor = page.Next; cursor == "" {
			return last
		}
	}
}

func (d *driver) waitFor(eng *engine.Engine, id store.ID, until time.Time) error {
	ctx, cancel := context.WithDeadline(d.t.Context(), until)
	defer cancel()
	_, err := eng.Wait(ctx, id)
	return err
}

func (d *driver) look(eng *engine.Engine, id store.ID) any {
	run, err := eng.Get(d.t.Context(), id)
	if err != nil {
		return err
	}
	return run
}

// shutDown ends the workers gracefully.
func (d *driver) shutDown() {
	d.lookAfter()
	for _, s := range d.slots {
		if s.proc != nil {
			s.proc.Asked.Store(true)
			require.NoError(d.t, s.proc.Cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	for _, s := range d.slots {
		if s.proc != nil {
			require.NoError(d.t, s.proc.AwaitEnd(d.t))
		}
	}
	d.mu.Lock() // all lines were heard
	defer d.mu.Unlock()
}
