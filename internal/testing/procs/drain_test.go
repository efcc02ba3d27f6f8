//go:build unix

package procs

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

var drainsFlag = flag.Int("procs.drains", 6, "how many workers get SIGTERM under load, one after the other")

// drainLease is far longer than anything in the test may take, so that a wait for a lease is
// noticed.
const drainLease = 5 * time.Minute

// TestDrain ends workers with SIGTERM under load, at any moment of their work. A worker
// that has left holds no run, no run is canceled, and none waits for a lease.
func TestDrain(t *testing.T) {
	for _, b := range allBackends {
		t.Run(b.name, func(t *testing.T) { drain(t, b, rand.Uint64()) })
	}
}

func drain(t *testing.T, b backend, seed uint64) {
	d := &driver{t: t, dir: t.TempDir(), lease: drainLease, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), ev: newEvidence()}
	d.url, _ = b.fresh(t, d.dir, seed)
	for range 3 {
		d.slots = append(d.slots, &slot{role: "worker"})
	}
	d.slots = append(d.slots, &slot{role: "starter"})
	for _, s := range d.slots {
		d.start(s)
	}
	for _, s := range d.slots {
		s.proc.AwaitReady(t)
	}
	st, err := backends.Open(t.Context(), d.url)
	require.NoError(t, err)
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()

	took := make([]time.Duration, *drainsFlag)
	held := 0
	for i := range took {
		d.awaitAcks(d.acks() + 1 + d.random.IntN(40))
		s := d.slots[i%3]
		id := d.workerOf(eng, s.proc.PID())
		n := len(d.heldBy(eng, id))
		for until := time.Now().Add(time.Minute); i%2 == 0 && n == 0 && time.Now().Before(until); { // on a busy machine it may hold few runs
			n = len(d.heldBy(eng, id))
		}
		held += n
		s.proc.Asked.Store(true)
		began := time.Now()
		require.NoError(t, s.proc.Cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, s.proc.AwaitEnd(t), "graceful end of worker process %d", s.proc.PID())
		took[i] = time.Since(began)
		assert.Empty(t, d.heldBy(eng, id), "runs that worker process %d holds after its end", s.proc.PID())
		d.emptied(s)
		d.start(s)
		s.proc.AwaitReady(t)
	}
	d.heal()
	d.meddle(eng) // the starter of a run may have left before it canceled the run
	healed := time.Now()
	last := d.awaitFinal(eng, healed)
	d.shutDown()
	d.ev.journal, err = readJournals(d.dir)
	require.NoError(t, err)
	v := judge(t, b, d.url, d.ev)
	assert.NoError(t, v.tables, "tables")
	assert.NoError(t, v.api, "API")
	assert.NoError(t, v.journals, "journals")
	assert.Less(t, last, drainLease/10, "the last run was final that long after the last start: it waited for a lease")
	assert.Less(t, v.sum.quiet, drainLease/10, "a run made no progress: it waited for a lease")
	assert.Zero(t, v.sum.again, "side effects that were done again: a step was interrupted")
	assert.NotZero(t, held, "no worker held a run when it was told to leave: the test shows nothing")
	slices.Sort(took)
	t.Logf("%d workers left, holding %d runs when they were told to; it took %v in the middle, %v at most; %d runs, the longest that one made no progress was %v",
		len(took), held, took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), len(v.out.runs), v.sum.quiet.Round(time.Millisecond))
}

// acks returns how many starts were acknowledged so far.
func (d *driver) acks() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ev.acked)
}

func (d *driver) awaitAcks(n int) {
	require.Eventually(d.t, func() bool { return d.acks() >= n }, time.Minute, time.Millisecond, "starts do not go on")
}

// workerOf returns the worker of a process, once it has registered.
func (d *driver) workerOf(eng *engine.Engine, pid int) (id string) {
	require.Eventually(d.t, func() bool {
		workers, err := eng.Workers(d.t.Context())
		require.NoError(d.t, err)
		for _, w := range workers {
			if w.PID == pid {
				id = w.ID
			}
		}
		return id != ""
	}, 30*time.Second, 10*time.Millisecond, "process %d does not register its worker", pid)
	return id
}

// heldBy lists the runs under a lease of the worker.
func (d *driver) heldBy(eng *engine.Engine, worker string) (runs []string) {
	for cursor := ""; ; {
		page, err := eng.List(d.t.Context(), store.RunFilter{Statuses: []store.Status{store.Running, store.Canceling}}, cursor, store.MaxPage)
		require.NoError(d.t, err)
		for _, run := range page.Runs {
			if run.Worker == worker {
				runs = append(runs, fmt.Sprintf("%s, %v", run.ID, run.Status))
			}
		}
		if cursor = page.Next; cursor == "" {
			return runs
		}
	}
}
