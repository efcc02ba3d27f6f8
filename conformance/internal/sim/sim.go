package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Opener opens an empty store inside a bubble. The simulation closes it. Anything else that must be
// cleaned up is registered with tb.
type Opener func(tb testing.TB) store.Store

// Result is the outcome of one simulation.
type Result struct {
	Failures []string
	world    *world
}

// WriteTrace writes all events, in order.
func (r *Result) WriteTrace(out io.Writer) {
	if r.world != nil {
		r.world.writeTrace(out)
	}
}

// Seed runs the simulation of a seed, in a bubble of its own.
func Seed(t *testing.T, open Opener, seed uint64, counts *Counts) Result {
	return inBubble(t, open, func(s store.Store) *world { return newWorld(s, seed, counts) })
}

func inBubble(t *testing.T, open Opener, create func(store.Store) *world) (res Result) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil { // goroutines that never end, mostly
			res.Failures = append(res.Failures, fmt.Sprintf("panic: %v\n%s\n%s", v, debug.Stack(), bubbled()))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		res.world = create(s)
		res.world.run()
		res.Failures = res.world.failures
		if err := s.Close(); err != nil {
			res.Failures = append(res.Failures, "close: "+err.Error())
		}
	})
	return res
}

// bubbled returns the stacks of all goroutines in bubbles: those that an ended bubble has left behind,
// and those of other tests.
func bubbled() string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(g, "synctest bubble") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

// newWorld makes the world that a seed decides.
func newWorld(s store.Store, seed uint64, counts *Counts) *world {
	w := &world{seed: seed, store: s, counts: counts}
	w.profile = newProfile(w.rng("profile", 0))
	if w.profile.skew != 0 {
		counts.add("clock wrong by an hour")
	}
	r := w.rng("plans", 0)
	m := &maker{Rand: r, lease: w.profile.lease, long: w.profile.long, store: time.Now().Add(w.profile.skew)}
	n := 2 + r.IntN(6)
	for i := range n {
		w.plans = append(w.plans, w.newPlan(m, i))
	}
	w.limitWorld()
	w.newFeeds()
	w.newOutbox()
	return w
}

func newProfile(r *rand.Rand) profile {
	pick := func(ds ...time.Duration) time.Duration { return ds[r.IntN(len(ds))] }
	p := profile{
		lease: pick(time.Second, 3*time.Second, 10*time.Second, 30*time.Second),
		grace: pick(0, time.Second, 20*time.Second), retryFor: pick(time.Second, 10*time.Second),
		park: pick(100*time.Millisecond, 100*time.Millisecond, time.Millisecond, 3*time.Second), maxCrashes: 10,
	}
	p.long = 6 * p.lease
	if r.IntN(4) == 0 { // of days
		p.lease = pick(10*time.Minute, time.Hour)
		p.long = pick(24*time.Hour, 72*time.Hour)
		p.poll = time.Hour
	} else {
		p.poll = p.lease/8 + time.Duration(r.Float64()*float64(p.lease))
	}
	for range 1 + r.IntN(4) {
		p.slots = append(p.slots, 1+r.IntN(10)*r.IntN(2))
	}
	p.chaos = 2*p.lease + time.Duration(r.Float64()*8*float64(p.lease))
	if r.IntN(4) == 0 {
		p.skew = pick(time.Hour, -time.Hour)
	}
	if r.IntN(10) > 0 {
		p.faults = [...]float64{0.02, 0.1, 0.3}[r.IntN(3)]
		share := 0.0
		for f := faultBefore; f <= faultLate; f++ {
			if r.IntN(2) == 0 {
				p.rates[f] = r.Float64()
				share += p.rates[f]
			}
		}
		for f := range p.rates {
			if share > 0 {
				p.rates[f] *= p.faults / share
			}
		}
		p.hintLoss = [...]float64{0, 0.2, 1}[r.IntN(3)]
		p.noHints = r.IntN(10) == 0
		p.crashing = [...]int{0, 30, 80}[r.IntN(3)]
		p.events = time.Duration(r.IntN(3)) * 2 * p.lease
	}
	if r.IntN(6) == 0 {
		p.maxCrashes = 1 + r.IntN(2)
	}
	return p
}

func (w *world) newPlan(m *maker, n int) *plan {
	p := &plan{n: n, flow: m.IntN(len(flows)), from: m.IntN(len(w.profile.slots)+1) - 1}
	p.id = store.DeriveID(store.ID{1}, fmt.Sprint(w.seed, "/", n))
	p.fresh = m.chance(50)
	p.script = m.script(1+m.IntN(6), 2)
	p.startAt = m.upTo(w.profile.chaos)
	switch m.IntN(12) {
	case 0:
		p.delay = m.upTo(w.profile.long)
	case 1, 2:
		p.external = fmt.Sprint("order-", m.IntN(2))
	case 3:
		p.timeout = 1 + m.upTo(w.profile.long)
		// If a claim is answered late, its worker's view of the store's clock is late by the same
		// time.
		over := 2*p.timeout + 4*w.profile.lease
		p.script = append(script{{kind: opStep, name: "before", attempts: 1, heeds: true, work: m.upTo(p.timeout)}, {kind: opSleep, name: "over", d: over}}, p.script...)
	case 4:
		p.cancelAt = p.startAt + m.upTo(w.profile.chaos)
	case 5:
		if w.profile.maxCrashes < 10 {
			p.script = append(script{{kind: opStep, name: "killer", attempts: 5, kills: w.profile.maxCrashes + 1, work: 10 * time.Millisecond}}, p.script...)
		}
	case 6:
		p.flow = 0
		p.script = append(p.script, op{kind: opPanic})
	}
	return p
}

func (r *Result) String() string { return strings.Join(r.Failures, "\n") }

// tail returns the last events.
func (r *Result) tail(string) string {
	var b strings.Builder
	r.WriteTrace(&b)
	lines := strings.Split(b.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}
