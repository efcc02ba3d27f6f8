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
	"github.com/pawlhq/pawl/store"
)

var (
	killsFlag = flag.Int("procs.kills", 8, "how many processes are killed with -9")
	stopsFlag = flag.Int("procs.stops", 3, "how many are stopped for three leases")
	leaseFlag = flag.Duration("procs.lease", time.Second, "the workers' lease")
	gapFlag   = flag.Duration("procs.gap", 500*time.Millisecond, "mean time between two blows")
	seedFlag  = flag.Uint64("procs.seed", 0, "what blows, moments and orders are drawn from; 0: another each time")
)

// TestChaos lets worker and starter processes do the reference workload while
// they are killed, stopped and restarted, and then checks every trace they have
// left. What is drawn from the seed are the blows; how processes meet them is up
// to the machine.
func TestChaos(t *testing.T) {
	for _, b := range allBackends {
		t.Run(b.name, func(t *testing.T) {
			seed := *seedFlag
			if seed == 0 {
				seed = rand.Uint64()
			}
			t.Logf("again: go test ./internal/procs -run 'TestChaos/%s' -procs.kills=%d -procs.stops=%d -procs.seed=%d", b.name, *killsFlag, *stopsFlag, seed)
			chaos(t, b, seed)
		})
	}
}

// slot is a place that a process of one role fills; after its end comes the next.
type slot struct {
	role    string
	env     []string
	proc    *process // nil: none runs
	stopped bool
	leaving bool // has got SIGTERM
	started int  // processes so far
}

// driver deals the blows.
type driver struct {
	t      *testing.T
	url    string
	dir    string
	lease  time.Duration
	random *rand.Rand
	seed   uint64
	slots  []*slot
	events []event // what is to come, beside blows

	mu sync.Mutex // guards what the starters' lines fill in
	ev *evidence

	kills, stops, terms, starts int
}

type event struct {
	at time.Time
	do func()
}

func chaos(t *testing.T, b backend, seed uint64) {
	dir, err := os.MkdirTemp("", "pawl-procs-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("database, journals and logs are left in %s", dir)
		} else {
			_ = os.RemoveAll(dir)
		}
	})
	d := &driver{
		t: t, url: b.fresh(t, dir), dir: dir, lease: *leaseFlag, seed: seed, random: rand.New(rand.NewPCG(seed, 1)),
		ev: newEvidence(),
	}
	for range 3 {
		d.slots = append(d.slots, &slot{role: "worker"})
	}
	// One starter works, too, so that there are eager starts.
	d.slots = append(d.slots, &slot{role: "starter"}, &slot{role: "starter", env: []string{envAlso + "=worker"}})

	began := time.Now()
	for _, s := range d.slots {
		d.start(s)
	}
	for _, s := range d.slots {
		s.proc.awaitReady(t)
	}
	d.storm(d.plan(*killsFlag, *stopsFlag))
	d.heal()
	healed := time.Now()

	st, err := backends.Open(t.Context(), d.url)
	require.NoError(t, err)
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	last := d.awaitFinal(eng, healed)
	d.shutDown()

	if d.ev.journal, err = readJournals(dir); err != nil {
		t.Fatal(err)
	}
	v := judge(t, b, d.url, d.ev)
	assert.NoError(t, v.tables, "tables")
	assert.NoError(t, v.api, "API")
	assert.NoError(t, v.journals, "journals")
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
	if *killsFlag >= 50 { // few blows may all miss
		assert.NotZero(t, sum.takeovers, "no run was taken over: the test shows nothing")
	}
}

// plan draws the order of the blows: kills, stops, and a graceful restart for
// every ten kills.
func (d *driver) plan(kills, stops int) []func() {
	blows := slices.Repeat([]func(){d.kill}, kills)
	blows = append(blows, slices.Repeat([]func(){d.stop}, stops)...)
	blows = append(blows, slices.Repeat([]func(){d.restart}, 1+kills/10)...)
	d.random.Shuffle(len(blows), func(i, j int) { blows[i], blows[j] = blows[j], blows[i] })
	return blows
}

// storm deals the blows at random moments. That these are moments of time and no
// states that could be waited for is the purpose: a process is to be hit wherever
// it happens to be.
func (d *driver) storm(blows []func()) {
	next := time.Now().Add(d.within(2 * *gapFlag))
	for len(blows) > 0 || len(d.events) > 0 {
		d.lookAfter()
		now := time.Now()
		slices.SortStableFunc(d.events, func(a, b event) int { return a.at.Compare(b.at) })
		switch {
		case len(d.events) > 0 && !d.events[0].at.After(now):
			e := d.events[0]
			d.events = d.events[1:]
			e.do()
			continue
		case len(blows) > 0 && !next.After(now):
			blows[0]()
			blows = blows[1:]
			next = now.Add(d.within(2 * *gapFlag))
			continue
		}
		until := next
		if len(blows) == 0 || len(d.events) > 0 && d.events[0].at.Before(next) {
			until = d.events[0].at
		}
		time.Sleep(time.Until(until))
	}
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

// kill ends a process wherever it is, also a stopped one, one that shuts down or
// one that has only just begun.
func (d *driver) kill() {
	s := d.pick(func(*slot) bool { return true })
	if s == nil {
		d.after(d.lease/4, d.kill)
		return
	}
	p := s.proc
	p.asked.Store(true)
	require.NoError(d.t, p.cmd.Process.Kill())
	err := p.awaitEnd(d.t)
	require.True(d.t, err != nil || s.leaving, "a killed process ended by itself")
	d.kills++
	d.emptied(s)
	d.after(d.within(d.lease/2), func() { d.start(s) })
}

// emptied notes that the slot's process has ended.
func (d *driver) emptied(s *slot) {
	if s.stopped {
		d.endPause(s)
	}
	s.proc, s.stopped, s.leaving = nil, false, false
}

func (d *driver) endPause(s *slot) {
	spans := d.ev.paused[s.proc.pid()]
	spans[len(spans)-1].to = time.Now()
}

// stop stops a process for three leases: it knows of nothing when it goes on.
func (d *driver) stop() {
	s := d.pick(func(s *slot) bool { return !s.stopped && !s.leaving })
	if s == nil {
		d.after(d.lease/4, d.stop)
		return
	}
	p := s.proc
	d.ev.paused[p.pid()] = append(d.ev.paused[p.pid()], span{from: time.Now()})
	require.NoError(d.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	s.stopped = true
	d.stops++
	d.after(3*d.lease, func() {
		if s.proc == p { // it may have been killed meanwhile
			require.NoError(d.t, p.cmd.Process.Signal(syscall.SIGCONT))
			d.endPause(s)
			s.stopped = false
		}
	})
}

// restart ends a worker gracefully; the next one comes at once.
func (d *driver) restart() {
	s := d.pick(func(s *slot) bool {
		select {
		case <-s.proc.ready: // before that, SIGTERM is no graceful end
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
	p.asked.Store(true)
	require.NoError(d.t, p.cmd.Process.Signal(syscall.SIGTERM))
	s.leaving = true
	d.terms++
}

// lookAfter finds processes that have ended: those that were told to are
// followed, any other is a failure.
func (d *driver) lookAfter() {
	for _, s := range d.slots {
		if s.proc == nil || !s.proc.ended() {
			continue
		}
		require.True(d.t, s.leaving, "%s process %d ended by itself: %v", s.role, s.proc.pid(), s.proc.err)
		require.NoError(d.t, s.proc.err, "graceful end of worker process %d", s.proc.pid())
		d.emptied(s)
		d.start(s)
	}
}

// start fills a slot.
func (d *driver) start(s *slot) {
	s.started++
	d.starts++
	env := append([]string{
		envURL + "=" + d.url, envDir + "=" + d.dir, envLease + "=" + d.lease.String(),
		envSeed + fmt.Sprintf("=%d", d.seed), envFirst + fmt.Sprintf("=%d", d.starts*1_000_000),
	}, s.env...)
	s.proc = spawn(d.t, s.role, env, func(line string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.ev.hear(line); err != nil {
			d.t.Errorf("a starter said %v", err)
		}
	})
}

// heal ends the starters and sees to it that every worker runs.
func (d *driver) heal() {
	for _, s := range d.slots {
		if s.role == "starter" && s.proc != nil {
			s.proc.asked.Store(true)
			require.NoError(d.t, s.proc.cmd.Process.Kill())
			_ = s.proc.awaitEnd(d.t)
			d.emptied(s)
		}
	}
	for _, s := range d.slots {
		if s.leaving {
			require.NoError(d.t, s.proc.awaitEnd(d.t))
			d.lookAfter()
		}
		if s.role == "worker" {
			s.proc.awaitReady(d.t)
		}
	}
}

// awaitFinal waits until every run is final, and returns how long after healing
// the last one was: three leases at most, beside what the runs wait of themselves.
func (d *driver) awaitFinal(eng *engine.Engine, healed time.Time) (last time.Duration) {
	limit := 3*d.lease + ownWaits
	ctx, cancel := context.WithDeadline(d.t.Context(), healed.Add(limit))
	defer cancel()
	open := []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}
	for cursor := ""; ; {
		page, err := eng.List(ctx, store.RunFilter{Statuses: open}, cursor, store.MaxPage)
		require.NoError(d.t, err)
		for _, run := range page.Runs {
			_, err := eng.Wait(ctx, run.ID)
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
			s.proc.asked.Store(true)
			require.NoError(d.t, s.proc.cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	for _, s := range d.slots {
		if s.proc != nil {
			require.NoError(d.t, s.proc.awaitEnd(d.t))
		}
	}
	d.mu.Lock() // all lines were heard
	defer d.mu.Unlock()
}
