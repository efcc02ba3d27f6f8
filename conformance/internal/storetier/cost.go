package storetier

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/store"
)

// The numbers of other runs in the store while the cost of a call is measured: few and many. Times
// are compared over a wider range, because they are less exact.
const (
	fewAside      = 1_000
	manyAside     = 20_000
	manyMoreAside = 50_000
)

// The number of other runs with large payloads, and the size of each payload.
const (
	largeAside   = 300
	largePayload = 32 << 10
)

// enoughReads reports whether a call reads no more with many other runs than with few. An index
// over more rows may be a level higher, and a page fuller.
func enoughReads(few, many int64) bool { return many <= few+few/2+24 }

// enoughTime reports whether a call takes about as long with many other runs as with few. Other
// programs use the machine, too; a call that reads everything takes 50 times as long.
func enoughTime(few, many time.Duration) bool { return many <= 8*few || many <= 20*time.Millisecond }

// A probe is a call whose cost is measured.
type probe struct {
	name, rule string
	// prepare creates what the call is about and returns the call to be measured. A nil call means
	// that the backend does not have the verb.
	prepare func(c *C, b *aside) (call func())
}

// cost is the cost of a call.
type cost struct {
	reads int64
	time  time.Duration
}

// costs are the costs of all probes, measured once for all cases of a suite.
type costs struct {
	t     testing.TB // it lives as long as the filled store
	once  sync.Once
	mu    sync.Mutex
	known map[string]string // the problem with a probe; empty: none
}

// costCases has a case for each probe.
func costCases() []Case {
	var cases []Case
	for _, p := range allProbes {
		cases = append(cases, Case{"cost/" + p.name, "P18", p.rule, func(c *C) { c.cost(p) }})
	}
	return cases
}

func (c *C) cost(p probe) {
	if c.h.Unmeasured != "" {
		c.Skipf("what a call costs is not measured: %s", c.h.Unmeasured)
	}
	if c.h.Progress {
		c.Skipf("what calls cost is measured when all verbs are written")
	}
	all := c.h.costs
	if all == nil {
		all = &costs{t: c.host}
	}
	all.once.Do(func() { all.measure(c) })
	all.mu.Lock()
	defer all.mu.Unlock()
	wrong, ok := all.known[p.name]
	switch {
	case !ok:
		c.Fatalf("its cost was not measured: the calls before it have failed")
	case wrong != "":
		c.Errorf("%s", wrong)
	}
}

// measure measures all probes, for the first case that needs them.
func (all *costs) measure(c *C) {
	m := newMetered(c.TB, all.t, c.h)
	begun := m.reads()
	few, large, many := m.measure()
	if testing.Verbose() {
		for _, p := range allProbes {
			c.Logf("%-20s %6d reads, %v beside few runs; %d, %v beside large ones; %d, %v beside many",
				p.name, few[p.name].reads, few[p.name].time, large[p.name].reads, large[p.name].time, many[p.name].reads, many[p.name].time)
		}
	}
	for name := range few {
		all.mu.Lock()
		if all.known == nil {
			all.known = map[string]string{}
		}
		all.known[name] = cmp.Or(m.wrong(few[name], large[name], m.ofLarge()), m.wrong(few[name], many[name], m.ofMany()))
		if m.meter.Reads != nil && m.reads() == begun {
			all.known[name] = "saw no call read anything: the meter does not count"
		}
		all.mu.Unlock()
	}
}

// metered is a store that is filled while probes are measured.
type metered struct {
	*C
	meter harness.Meter
	aside aside
	much  int
}

func newMetered(t, host testing.TB, h suite) *metered {
	m := &metered{much: manyAside}
	if h.Meter != nil {
		m.meter = h.Meter(host)
	} else {
		m.meter.Store, m.much = h.New(host), manyMoreAside
	}
	m.C = newC(t, host, h, m.meter.Store, m.meter.Store, Case{Name: "cost/measured", Promise: "P18", Rule: "the cost of a call follows what it is about"})
	return m
}

// measure measures all probes beside few runs, beside some with large payloads, and beside many.
func (m *metered) measure() (few, large, many map[string]cost) {
	m.aside.fill(m.C, fewAside)
	few = m.all()
	m.aside.large(m.C, largeAside)
	large = m.all()
	m.aside.fill(m.C, m.much)
	return few, large, m.all()
}

// all measures all probes.
func (m *metered) all() map[string]cost {
	if m.meter.Settle != nil {
		m.meter.Settle()
	}
	got := map[string]cost{}
	for _, p := range allProbes {
		got[p.name] = m.of(p)
	}
	return got
}

// of measures a probe: the least of a few times, because the first call may read data that stays in
// memory, such as the schema.
func (m *metered) of(p probe) (least cost) {
	for range 3 {
		call := p.prepare(m.C, &m.aside)
		if call == nil {
			return cost{}
		}
		reads, begun := m.reads(), time.Now()
		call()
		c := cost{m.reads() - reads, time.Since(begun)}
		if least == (cost{}) {
			least = c
		}
		least = cost{min(least.reads, c.reads), min(least.time, c.time)}
	}
	return least
}

func (m *metered) reads() int64 {
	if m.meter.Reads == nil {
		return 0
	}
	return m.meter.Reads()
}

func (m *metered) ofLarge() string {
	return fmt.Sprintf("%d more with payloads of %d bytes", largeAside, largePayload)
}

func (m *metered) ofMany() string { return fmt.Sprint(m.much) }

// wrong describes what is wrong with a probe's costs beside other runs; empty: nothing.
func (m *metered) wrong(few, now cost, beside string) string {
	switch {
	case m.meter.Reads == nil && !enoughTime(few.time, now.time):
		return fmt.Sprintf("saw it take %v beside %d runs and %v beside %s, expected about the same: it reads what it is not about", few.time, fewAside, now.time, beside)
	case m.meter.Reads != nil && !enoughReads(few.reads, now.reads):
		return fmt.Sprintf("saw it read %d beside %d runs and %d beside %s, expected about the same: it reads what it is not about", few.reads, fewAside, now.reads, beside)
	}
	return ""
}

// CostFault is conformance.CostFault.
type CostFault struct {
	Name  string
	Begin func(s store.Store) (end func()) // nil: the fault stays
}

// CostOfFaults is conformance.CostOfFaults.
func CostOfFaults(t testing.TB, h harness.Harness, faults []CostFault) map[string][]string {
	t.Helper()
	m := newMetered(t, t, suite{Harness: h})
	few, large, many := m.measure()
	found := map[string][]string{}
	for _, p := range allProbes {
		if m.wrong(few[p.name], large[p.name], m.ofLarge())+m.wrong(few[p.name], many[p.name], m.ofMany()) != "" {
			found[""] = append(found[""], "cost/"+p.name)
		}
	}
	for _, f := range faults {
		m.C.ctx = newC(t, t, m.h, m.s, m.s2, m.cs).ctx // each fault has the time of a case
		end := f.Begin(m.meter.Store)
		for _, p := range allProbes {
			if m.finds(t, p, few[p.name]) {
				found[f.Name] = append(found[f.Name], "cost/"+p.name)
			}
		}
		if end == nil {
			break
		}
		end()
		m.clear()
	}
	return found
}

// finds reports whether a probe fails now: it reads more than with few runs, or ends with an error.
func (m *metered) finds(t testing.TB, p probe, few cost) (yes bool) {
	rec := &runner.Recorder{TB: t}
	rec.Do(func() {
		under := *m
		under.C = newC(rec, t, m.h, m.s, m.s2, m.cs)
		under.now, under.seqs = m.now, m.seqs
		defer func() { m.now = under.now }()
		yes = under.wrong(few, under.of(p), m.ofMany()) != ""
	})
	return yes || rec.Failed()
}

// clear ends runs that failed probes have left due.
func (m *metered) clear() {
	all := store.ClaimParams{Demands: []store.Demand{demand(aQueue, 100), demand(limitedQueue, 100)}}
	for runs := m.claim(all).Runs; len(runs) > 0; runs = m.claim(all).Runs {
		for _, run := range runs {
			m.end(run, cancelRun())
		}
	}
}

// aside holds the other runs in the store, which the measured calls are not about; most are in the
// same lane.
type aside struct {
	runs   int
	sleeps []store.ID
	parent store.ID         // has children that are final
	inbox  store.ClaimedRun // has consumed signals, and a stream
	fired  time.Time
}

// fill creates runs until there are n in total.
func (b *aside) fill(c *C, n int) {
	c.Helper()
	part := (n - b.runs) / 10
	first := b.runs == 0
	b.runs = n
	// Runs that need a lease are first, while nothing else is due.
	b.final(c, part)
	b.asleep(c, part/2)
	b.pinned(c, part)
	b.family(c, part)
	b.trees(c, part)
	b.receiver(c, 4*part) // signals are small
	c.createN(part, store.NewRun{Queue: "held"})
	for left := part; left > 0; {
		got := c.claim(store.ClaimParams{Worker: "other", LeaseFor: 1000 * time.Hour, Demands: []store.Demand{demand("held", left)}}).Runs
		if len(got) == 0 {
			c.Fatalf("Claim: saw no run, expected some of the %d that are due", left)
		}
		left -= len(got)
	}
	// Then the runs that are only created.
	c.createN(part, store.NewRun{Queue: "other", Priority: 5})
	c.createN(part, store.NewRun{Workflow: "other", Priority: 5})
	c.createN(2*part, store.NewRun{After: 500 * time.Hour, Priority: 5})
	c.createN(part/2, store.NewRun{After: 500 * time.Hour, Priority: 5, Tags: store.Tags{"other": "x", "probe": "other"}})
	for _, ids := range batches(c.createN(part, store.NewRun{Priority: 5})) {
		c.tryPause(false, ids...)
	}
	for _, ids := range batches(c.createN(part, store.NewRun{Priority: 5})) {
		c.tryCancel(ids...)
	}
	ns := c.ns
	c.ns = ns + "/other"
	c.createN(part, store.NewRun{Priority: 5})
	c.ns = ns
	b.limited(c, part)
	b.debounced(c, part)
	b.waiting(c, part)
	b.externals(c, part)
	b.rest(c, part, first)
}

// large creates n runs with large payloads: outputs, steps, state, signals and items of streams. One of two is final.
func (b *aside) large(c *C, n int) {
	const queue = "large"
	payload := strings.Repeat("x", largePayload)
	c.createN(n, store.NewRun{Queue: queue})
	for left := n; left > 0; {
		runs := c.claim(store.ClaimParams{Demands: []store.Demand{demand(queue, min(left, 20))}}).Runs
		if len(runs) == 0 {
			c.Fatalf("Claim: saw no run of queue %s, expected some of %d", queue, left)
		}
		left -= len(runs)
		var cms []store.Commit
		var sigs []store.NewSignal
		for i, r := range runs {
			sigs = append(sigs, store.NewSignal{ID: store.NewID(), Run: r.Run.ID, Name: "n", Payload: []byte(payload)})
			cm := store.Commit{Lease: r.Lease, Steps: []store.StepRecord{step(1, "a", payload)}, State: []store.StateWrite{{Key: "k", Value: []byte(payload)}}, Transition: sleepFor(500 * time.Hour)}
			if i%2 == 0 {
				cm.Transition = complete(payload)
			}
			if store.Able(c.s, store.Streams) {
				cm.Streams = []store.StreamWrite{{Stream: "tokens", Step: store.StepKey{Name: "a", Occurrence: 1}, Attempt: 1, First: 1, Items: texts(payload)}}
			}
			cms = append(cms, cm)
		}
		for _, res := range c.signals(sigs...) {
			c.ok("Signal's item", res.Err)
		}
		c.allApplied(c.commits(cms...))
	}
}

// final creates n runs that are claimed and ended.
func (b *aside) final(c *C, n int) {
	c.createN(n, store.NewRun{})
	for i, part := range leases(c.claimAll(n)) {
		var cms []store.Commit
		for j, l := range part {
			t := complete("out")
			if b.fired.IsZero() && i == 0 && j < 20 { // only the first few have failed
				t = failWith("broken")
			}
			cms = append(cms, store.Commit{Lease: l, Steps: []store.StepRecord{step(1, "a", "1")}, Transition: t})
		}
		c.allApplied(c.commits(cms...))
	}
}

// asleep creates n runs that sleep, with steps, state and signals.
func (b *aside) asleep(c *C, n int) {
	c.createN(n, store.NewRun{})
	for _, part := range leases(c.claimAll(n)) {
		var cms []store.Commit
		var sigs []store.NewSignal
		for i, l := range part {
			b.sleeps = append(b.sleeps, l.Run)
			var streams []store.StreamWrite
			if store.Able(c.s, store.Streams) {
				streams = []store.StreamWrite{{Stream: "tokens", Step: store.StepKey{Name: "a", Occurrence: 1}, Attempt: 1, First: 1, Items: texts("x", "y")}}
			}
			cms = append(cms, store.Commit{Lease: l, Steps: []store.StepRecord{step(1, "a", "1"), step(2, "b", "2")},
				State: []store.StateWrite{{Key: "k", Value: []byte("v")}}, Streams: streams, Transition: sleepFor(time.Duration(500+i) * time.Hour)})
			sigs = append(sigs, store.NewSignal{ID: store.NewID(), Run: l.Run, Name: "n"})
		}
		c.allApplied(c.commits(cms...))
		for _, res := range c.signals(sigs...) {
			c.ok("Signal's item", res.Err)
		}
	}
}

// pinned creates n runs that are due and pinned to a build that nobody has.
func (b *aside) pinned(c *C, n int) {
	c.createN(n, store.NewRun{Priority: 5})
	for _, part := range leases(c.claimAll(n)) {
		var cms []store.Commit
		for _, l := range part {
			cms = append(cms, store.Commit{Lease: l, Pin: misfit(), Transition: giveBack()})
		}
		c.allApplied(c.commits(cms...))
	}
}

// family creates a parent of n children, all final.
func (b *aside) family(c *C, n int) {
	parent := c.start()
	b.parent = parent.Run.ID
	for left, next := n, int64(1); left > 0; left -= 500 {
		spawn := make([]store.NewRun, min(left, 500))
		ids := make([]store.ID, len(spawn))
		for i := range spawn {
			spawn[i] = kid(next)
			ids[i] = spawn[i].ID
			next++
		}
		c.commit(store.Commit{Lease: parent.Lease, Spawn: spawn})
		c.tryCancel(ids...)
	}
	c.end(parent, cancelRun())
}

// trees creates a run with n children, each of which has a child, and holds them.
func (b *aside) trees(c *C, n int) {
	if !store.Able(c.s, store.Trees) {
		return
	}
	hold := func(queue, workflow string, n int) []store.ClaimedRun {
		runs := c.claim(store.ClaimParams{Worker: "other", LeaseFor: 1000 * time.Hour, Demands: []store.Demand{demand(queue, n, workflow)}}).Runs
		if len(runs) == 0 {
			c.Fatalf("Claim: saw no run of queue %s, expected some of %d", queue, n)
		}
		return runs
	}
	c.create(store.NewRun{Queue: "roots"})
	root := hold("roots", aWorkflow, 1)[0]
	child := func(ordinal int, name string) store.NewRun {
		r := kid(int64(ordinal))
		r.Group, r.Queue = name, name
		return r
	}
	for made := 0; made < n; {
		var spawn []store.NewRun
		for range min(n-made, 500) {
			made++
			spawn = append(spawn, child(made, "inner"))
		}
		c.commit(store.Commit{Lease: root.Lease, Spawn: spawn})
		for left := len(spawn); left > 0; {
			var cms []store.Commit
			for _, r := range hold("inner", kidFlow, left) {
				cms = append(cms, store.Commit{Lease: r.Lease, Spawn: []store.NewRun{child(1, "leaves")}})
			}
			c.allApplied(c.commits(cms...))
			left -= len(cms)
		}
	}
}

// receiver creates a run that has read n signals, and holds it.
func (b *aside) receiver(c *C, n int) {
	c.create(store.NewRun{Queue: "inbox"})
	b.inbox = c.one(c.claim(store.ClaimParams{LeaseFor: 1000 * time.Hour, Demands: []store.Demand{demand("inbox", 1)}}).Runs)
	for left := n; left > 0; left -= 500 {
		sigs := make([]store.NewSignal, min(left, 500))
		ids := make([]store.SignalID, len(sigs))
		for i := range sigs {
			sigs[i] = store.NewSignal{ID: store.NewID(), Run: b.inbox.Run.ID, Name: "n"}
			ids[i] = sigs[i].ID
		}
		c.signals(sigs...)
		c.commit(store.Commit{Lease: b.inbox.Lease, Consumed: ids})
	}
	c.signal(b.inbox.Run.ID, "n", "unread")
	if store.Able(c.s, store.Streams) {
		w := c.writes(b.inbox)
		for left := n; left > 0; left -= 500 {
			w.append(slices.Repeat([]string{"item"}, min(left, 500))...)
		}
	}
}

// externals creates n runs that hold external ids, and others that have held some.
func (b *aside) externals(c *C, n int) {
	var ids []store.ID
	for left := n; left > 0; left -= 1000 {
		runs := make([]store.NewRun, min(left, 1000))
		for i := range runs {
			runs[i] = fill(store.NewRun{Queue: "named"})
			runs[i].ExternalID = "x" + runs[i].ID.String()
			if i%2 == 0 {
				ids = append(ids, runs[i].ID)
			}
		}
		c.createAll(runs...)
	}
	for _, part := range batches(ids) {
		c.tryCancel(part...)
	}
}

// debounced creates n runs with long keys, each of which other starts have replaced.
func (b *aside) debounced(c *C, n int) {
	var keys []string
	for range n {
		keys = append(keys, store.NewID().String()+strings.Repeat("k", 450))
	}
	for range 8 {
		var runs []store.NewRun
		for _, key := range keys {
			runs = append(runs, fill(store.NewRun{Queue: "keyed", Debounce: key, After: 500 * time.Hour}))
		}
		b.make(c, runs)
	}
}

// waiting creates n runs whose changes wait in a subscription: the first one of each run was tried, and another one is behind it.
func (b *aside) waiting(c *C, n int) {
	if !store.Able(c.s, store.Outbox) {
		return
	}
	c.subscribe(store.Subscription{Workflows: []string{toldFlow}, Keep: 100_000 * time.Hour})
	for _, ids := range batches(c.createN(n, store.NewRun{Workflow: toldFlow, Queue: "told"})) {
		c.tryCancel(ids...)
	}
	for {
		page := c.dueIn(aSub, store.MaxPage)
		var p store.SettleParams
		for _, ch := range page.Changes {
			p.Failed = append(p.Failed, store.FailedDelivery{ChangeKey: ch.ChangeKey, Attempt: ch.Attempts + 1, After: 10_000 * time.Hour})
		}
		if c.settle(p); !page.More {
			return
		}
	}
}

// toldFlow is the workflow whose changes are stored while costs are measured.
const toldFlow = "told"

// rest creates everything that is not a run.
func (b *aside) rest(c *C, n int, first bool) {
	if first {
		b.fired = c.now.Add(-time.Hour)
		c.putSchedule(store.Schedule{Name: "fired", Workflow: aWorkflow, Queue: "fired", Spec: "@hourly", NextAt: b.fired})
	}
	c.race(8, func(worker int, s store.Store) error {
		for i := worker; i < n/4; i += 8 {
			name := store.NewID().String()
			_, err := patient(c.ctx, func() (store.Schedule, error) {
				return s.PutSchedule(c.ctx, store.PutScheduleParams{Namespace: c.ns, Now: c.now, Schedule: store.Schedule{
					Name: name, Workflow: aWorkflow, Queue: aQueue, Spec: "@hourly", Input: make([]byte, 300), NextAt: c.now.Add(500 * time.Hour)}})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	journal, ok := c.s.(store.Journal)
	for left := n; ok && left > 0; left -= 50 {
		actions := make([]store.Action, min(left, 50))
		for i := range actions {
			actions[i] = store.Action{ID: store.NewID(), Actor: "a@b", Verb: "pause", Target: "run", Run: store.NewID(), Details: strings.Repeat("because ", 40)}
		}
		at := c.now.Add(time.Duration(-left) * time.Second) // rows of one moment are read together
		c.ok("Record", journal.Record(c.ctx, store.RecordParams{Namespace: c.ns, Actions: actions, Now: at}))
	}
}

// leases returns the leases of claimed runs, in parts.
func leases(runs []store.ClaimedRun) [][]store.Lease {
	var all []store.Lease
	for _, r := range runs {
		all = append(all, r.Lease)
	}
	return slices.Collect(slices.Chunk(all, 500))
}

func (c *C) allApplied(res []store.CommitResult) {
	c.Helper()
	for _, r := range res {
		c.ok("Commit's item", r.Err)
	}
}

// during returns what a probe measures: a call that must succeed.
func during[T any](c *C, what string, call func() (T, error)) func() {
	return func() {
		_, err := call()
		c.ok(what, err)
	}
}

// allProbes are the calls whose cost must depend only on what they are about.
var allProbes = slices.Concat(probes, limitProbes)

var probes = []probe{
	{"claim", "a claim reads what it returns, however many runs sleep, are final, paused, canceled, held, scheduled or foreign", func(c *C, _ *aside) func() {
		c.create(store.NewRun{})
		return func() { c.end(c.claim1(), complete("")) }
	}},
	{"claim-none", "a claim that finds nothing due reads as much as nothing", func(c *C, _ *aside) func() {
		return func() { c.claimNone("all that is due was claimed") }
	}},
	{"create", "a run is made at the same cost, however many there are", func(c *C, _ *aside) func() {
		return func() { c.tryCancel(c.create(store.NewRun{Queue: "made"})) }
	}},
	{"create-external-id", "a start whose external id is held finds its run at the same cost, however many ids are or were held", func(c *C, _ *aside) func() {
		name := store.NewID().String()
		id := c.create(store.NewRun{Queue: "made", ExternalID: name})
		return func() {
			res := c.creates(fill(store.NewRun{Queue: "made", ExternalID: name}))[0]
			c.eq("the run that holds the external id", res.ID, id)
		}
	}},
	{"create-debounced", "a start replaces what the run of its key was started with at the same cost, however many other keys and starts there are", func(c *C, _ *aside) func() {
		key := store.NewID().String()
		id := c.makes(fill(store.NewRun{Queue: "keyed", Debounce: key, After: 500 * time.Hour}))
		return func() { c.replaces(id, fill(store.NewRun{Queue: "keyed", Debounce: key, After: 500 * time.Hour})) }
	}},
	{"extend", "a lease is extended at the same cost, however many are held", func(c *C, _ *aside) func() {
		run := c.start()
		return func() {
			c.eq("Lost", c.extend(run.Lease).Lost, false)
			c.end(run, complete(""))
		}
	}},
	{"commit-steps", "steps and state are recorded at the same cost, however many other runs have", func(c *C, _ *aside) func() {
		run := c.start()
		return func() {
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "1")}, State: []store.StateWrite{{Key: "k", Value: []byte("v")}}})
			c.end(run, complete(""))
		}
	}},
	{"commit-failure", "a run fails at the same cost, however many have", func(c *C, _ *aside) func() {
		run := c.start()
		return func() { c.end(run, cancelRun()) }
	}},
	{"commit-release", "a run is given back and retried at the same cost, however many are due elsewhere", func(c *C, _ *aside) func() {
		run := c.start()
		return func() {
			c.end(run, release())
			c.end(c.claim1(), retryIn(0))
			c.end(c.claim1(), complete(""))
		}
	}},
	{"wake-due", "a sleeper whose time has come is found at the same cost, however many sleep on", func(c *C, _ *aside) func() {
		run := c.start()
		c.end(run, sleepFor(time.Microsecond))
		c.advance(time.Millisecond)
		return func() { c.end(c.claim1(), complete("")) }
	}},
	{"signal", "a signal wakes its run at the same cost, however many runs and signals there are", func(c *C, _ *aside) func() {
		run := c.start()
		c.end(run, sleepOn(store.WakeSignal))
		return func() {
			c.signal(run.Run.ID, "n", "")
			c.end(c.claim1(), complete(""))
		}
	}},
	{"signal-external-id", "a signal by external id finds its run at the same cost, however many ids are held", func(c *C, _ *aside) func() {
		name := store.NewID().String()
		c.create(store.NewRun{Queue: "made", ExternalID: name})
		return func() {
			c.ok("Signal's item", c.signals(store.NewSignal{ID: store.NewID(), ExternalID: name, Name: "n"})[0].Err)
		}
	}},
	{"signal-start", "a start with a signal creates a run, reaches it, and is known when it is sent again, at the same cost, however many runs and ids there are", func(c *C, _ *aside) func() {
		made, found := signaled("a"), signaled("b")
		made.ExternalID = store.NewID().String()
		found.ExternalID = made.ExternalID
		return func() {
			for _, r := range []store.NewRun{made, found, made, found} {
				c.eq("the run", c.creates(r)[0].ID, made.ID)
			}
			c.end(c.claim1(), complete(""))
		}
	}},
	{"signal-repeat", "a signal that is sent again is known at the same cost, however many its run has had", func(c *C, b *aside) func() {
		sig := store.NewSignal{ID: store.NewID(), Run: b.inbox.Run.ID, Name: "n"}
		c.signals(sig)
		c.commit(store.Commit{Lease: b.inbox.Lease, Consumed: []store.SignalID{sig.ID}})
		return func() { c.ok("Signal's item", c.signals(sig)[0].Err) }
	}},
	{"inbox", "an inbox is read at the cost of what is unread, however many signals were read", func(c *C, b *aside) func() {
		return func() { c.eq("unread signals", len(c.inbox(b.inbox.Run.ID).Signals), 1) }
	}},
	{"state", "state is set and read at the same cost, however many other runs have some", func(c *C, b *aside) func() {
		return func() {
			c.setState(b.sleeps[0], "k", "w")
			c.eq("state", values(c.getState(b.sleeps[0], "k")), []string{"k=w"})
		}
	}},
	{"steps", "a run's steps are read at their own cost", func(c *C, b *aside) func() {
		return func() { c.eq("steps", c.stepNames(b.sleeps[0]), []string{"a", "b"}) }
	}},
	{"get", "a run is read at the same cost, however many there are", func(c *C, b *aside) func() {
		return func() { c.status(b.sleeps[0], store.Sleeping) }
	}},
	{"find", "a run is found by its external id at the same cost, whether it holds the id or has held it", func(c *C, _ *aside) func() {
		held, past := store.NewID().String(), store.NewID().String()
		c.create(store.NewRun{Queue: "made", ExternalID: held})
		c.cancel(c.create(store.NewRun{Queue: "made", ExternalID: past}))
		return func() {
			for _, name := range []string{held, past} {
				_, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: name})
				c.ok("Find", err)
			}
		}
	}},
	{"children", "a page of children is read at its own cost, however many there are", func(c *C, b *aside) func() {
		return during(c, "Children", func() (store.ChildPage, error) {
			return c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: b.parent, Group: "g", After: 10, Limit: 10})
		})
	}},
	{"parent-ends", "a parent ends at the cost of its open children, however many are final", func(c *C, b *aside) func() {
		if c.get(b.parent).Status.Final() {
			c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{b.parent}, Now: c.now})))
		}
		run := c.claim1()
		return func() { c.end(run, cancelRun()) }
	}},
	{"parent-canceled", "a parent is canceled at the cost of its open children, however many are final", func(c *C, b *aside) func() {
		if c.get(b.parent).Status.Final() {
			c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{b.parent}, Now: c.now})))
		}
		return func() { c.cancel(b.parent) }
	}},
	{"list", "a page of runs is read at its own cost", costOfList(store.ListParams{Limit: 10})},
	{"list-active", "a page of runs that are not final is read at its own cost", costOfList(store.ListParams{Limit: 10, Filter: store.RunFilter{Statuses: []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}}})},
	{"list-failed", "a page of failed runs is read at its own cost, however many others have ended since", costOfList(store.ListParams{Limit: 10, Filter: store.RunFilter{Statuses: []store.Status{store.Failed}}})},
	{"list-failed-by-end", "a page of failed runs by their ends is read at its own cost, however many others have ended since", costOfList(store.ListParams{Limit: 10, ByEnd: true, Filter: store.RunFilter{Statuses: []store.Status{store.Failed}}})},
	{"list-by-end", "a page of final runs by their ends is read at its own cost", costOfList(store.ListParams{Limit: 10, ByEnd: true})},
	{"list-pinned-to", "a page of the unfinished runs that are pinned to a build is read at its own cost, however many others are unfinished or pinned to other builds", func(c *C, _ *aside) func() {
		return c.pinnedAside(func(f store.RunFilter) {
			for _, oldest := range []bool{false, true} {
				page, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: f, OldestFirst: oldest, Limit: 10, MaxScan: store.ScanAll})
				c.ok("List", err)
				c.eq("runs of the page", len(page.Runs), 1)
				c.eq("Next", page.Next, "")
			}
		})
	}},
	{"count-pinned-to", "the unfinished runs that are pinned to a build are counted at their own cost, however many others are unfinished or pinned to other builds", func(c *C, _ *aside) func() {
		return c.pinnedAside(func(f store.RunFilter) {
			counts, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: f, MaxScan: store.ScanAll})
			c.ok("Count", err)
			c.eq("rows", counts, []store.RunCount{{Queue: aQueue, Workflow: aWorkflow, Status: store.Pending, Count: 1}})
		})
	}},
	{"list-tag", "a page of the runs that have a tag is read at its own cost, however many others there are, with other values of the tag or none", func(c *C, _ *aside) func() {
		return c.taggedAside(func(f store.RunFilter) {
			for _, oldest := range []bool{false, true} {
				page, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: f, OldestFirst: oldest, Limit: 10, MaxScan: store.ScanAll})
				c.ok("List", err)
				c.eq("runs of the page", len(page.Runs), 2)
				c.eq("Next", page.Next, "")
			}
		})
	}},
	{"count-tag", "the runs that have a tag are counted at their own cost, however many others there are", func(c *C, _ *aside) func() {
		return c.taggedAside(func(f store.RunFilter) {
			counts, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: f, MaxScan: store.ScanAll})
			c.ok("Count", err)
			c.eq("rows", counts, []store.RunCount{{Queue: "tagged", Workflow: aWorkflow, Status: store.Pending, Count: 2}})
		})
	}},
	{"list-tag-checked", "a page of a filter by two tags ends with the run that fills it, however many others fit", func(c *C, _ *aside) func() {
		return costOfList(store.ListParams{Limit: 10, Filter: store.RunFilter{Tags: []store.TagMatch{{Name: "other", Values: []string{"x"}}, {Name: "probe", Prefix: "o"}}}})(c, nil)
	}},
	{"builds", "a page of builds is read at the cost of what it lists, however many runs are pinned to builds before it", func(c *C, _ *aside) func() {
		p := store.ListBuildsParams{Namespace: c.ns, MaxScan: 1}
		p.Cursor = p.NextCursor(oldBuild)
		return func() { c.eq("builds", len(c.builds(p).Builds), 0) }
	}},
	{"count", "what has ended since is counted at its own cost, however many have ended before", func(c *C, _ *aside) func() {
		since := c.now.Add(time.Minute)
		return during(c, "Count", func() ([]store.RunCount, error) {
			return c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: store.RunFilter{FinishedAfter: since}})
		})
	}},
	{"cancel", "a run is canceled at its own cost", func(c *C, _ *aside) func() {
		id := c.create(store.NewRun{Queue: "made"})
		return func() { c.cancel(id) }
	}},
	{"pause", "a run is paused and resumed at its own cost", func(c *C, b *aside) func() {
		return func() {
			c.pause(b.sleeps[0])
			c.resume(b.sleeps[0])
		}
	}},
	{"restart", "a failed run is restarted at its own cost", func(c *C, _ *aside) func() {
		id := c.create(store.NewRun{Queue: "made"})
		c.cancel(id)
		return func() {
			c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})))
			c.cancel(id)
		}
	}},
	{"fork", "a run is forked at the cost of its steps", func(c *C, b *aside) func() {
		return func() {
			res, err := c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: b.sleeps[0], New: store.NewID(), Now: c.now})
			c.ok("Fork", cmp.Or(err, res.Err))
			c.cancel(res.ID)
		}
	}},
	{"purge", "old runs are purged at their own cost, however many are younger", func(c *C, _ *aside) func() {
		now := c.now
		c.now = now.Add(-100 * time.Hour)
		for range 3 {
			c.cancel(c.create(store.NewRun{Queue: "made"}))
		}
		c.now = now
		return func() {
			n, err := c.s.Purge(c.ctx, store.PurgeParams{Namespace: c.ns, OlderThan: 50 * time.Hour, Now: c.now})
			c.ok("Purge", err)
			c.eq("purged runs", n, 3)
		}
	}},
	{"fire", "a schedule fires at the same cost, however many others and runs there are", func(c *C, b *aside) func() {
		due := c.schedules(store.ListSchedulesParams{Names: []string{"fired"}}).Schedules[0].NextAt
		return func() {
			run := fill(store.NewRun{Queue: "fired"})
			c.mustFire(store.FireParams{Schedule: "fired", At: due, Next: due.Add(time.Second), Run: &run})
		}
	}},
	{"schedules-due", "schedules that are due are found at their own cost, however many are not", func(c *C, _ *aside) func() {
		return func() {
			c.eq("due schedules", len(c.schedules(store.ListSchedulesParams{Due: true}).Schedules), 1)
		}
	}},
	{"lock", "a lock is taken and given back at the same cost", func(c *C, _ *aside) func() {
		return func() {
			for _, d := range []time.Duration{time.Minute, 0} {
				_, err := c.s.Lock(c.ctx, store.LockParams{Namespace: c.ns, Name: "l", Owner: "o", For: d, Now: c.now})
				c.ok("Lock", err)
			}
		}
	}},
	{"worker", "a worker at work tells that it lives at the same cost", func(c *C, _ *aside) func() {
		return func() {
			c.putWorker(store.Worker{ID: aWorker, TTL: time.Minute, Answers: time.Minute})
			c.extends()
		}
	}},
	{"append", "items are appended to a stream at once at the same cost, and a later attempt supersedes them at its own, however many items of other steps the stream has", func(c *C, b *aside) func() {
		if !store.Able(c.s, store.Streams) {
			return nil
		}
		w := c.writes(b.inbox).by(store.StepKey{Name: store.NewID().String(), Occurrence: 1})
		return func() {
			w.append("a", "b")
			w = w.again()
			w.append("A")
			w = w.again()
		}
	}},
	{"stream", "a page of a stream is read at its own cost, behind any position", func(c *C, _ *aside) func() {
		if !store.Able(c.s, store.Streams) {
			return nil
		}
		run := c.start()
		c.writes(run).append("a", "b", "c")
		last := c.items(run.Run.ID, "", 0)[1].Position
		return func() {
			for _, after := range []int64{0, last} {
				c.stream(store.ReadStreamParams{Run: run.Run.ID, Stream: "tokens", After: after, Limit: 10})
			}
		}
	}},
	{"tree", "the tree of a run is counted at the cost of its inner runs, however many other children there are", func(c *C, b *aside) func() {
		if !store.Able(c.s, store.Trees) {
			return nil
		}
		root := c.start()
		c.grow(root, "tree", 3)
		inner := c.claimFrom("tree", 3) // all of them: the probe is prepared several times
		c.grow(inner[0], "below", 2)
		return func() {
			c.treeOf("of a run", root.Run.ID, counts(3, 0, 0, 0), counts(2, 0, 0, 0))
			if _, err := c.tryTree(store.TreeParams{Run: b.parent}); err != nil {
				c.ok("Tree", err)
			}
		}
	}},
	{"changes", "changes are stored, read and settled at the same cost, however many wait behind failed deliveries or are not due", func(c *C, _ *aside) func() {
		if !store.Able(c.s, store.Outbox) {
			return nil
		}
		return func() {
			id := c.create(store.NewRun{Workflow: toldFlow, Queue: "told"})
			c.tryCancel(id)
			for range 2 {
				c.delivered(c.onlyChange(c.dueIn(aSub, 10)))
			}
			other := c.create(store.NewRun{Workflow: toldFlow, Queue: "told"})
			c.undelivered(c.onlyChange(c.dueIn(aSub, 10)), 10_000*time.Hour)
			c.tryCancel(other)
			c.eq("changes that are due", len(c.dueIn(aSub, 10).Changes), 0)
		}
	}},
	{"drop-changes", "old changes are looked for among the oldest, however many wait", func(c *C, _ *aside) func() {
		if !store.Able(c.s, store.Outbox) {
			return nil
		}
		return during(c, "DropChanges", func() ([]store.DroppedChanges, error) {
			return c.outbox().DropChanges(c.ctx, store.DropChangesParams{Namespace: c.ns, Limit: 10, Now: c.now})
		})
	}},
	{"journal", "a page of what people did is read at its own cost, of all runs or of one", func(c *C, _ *aside) func() {
		journal, ok := c.s.(store.Journal)
		if !ok {
			return nil
		}
		run := store.NewID()
		c.ok("Record", journal.Record(c.ctx, store.RecordParams{Namespace: c.ns, Now: c.now.Add(-time.Minute), Actions: []store.Action{{ID: store.NewID(), Actor: "a@b", Verb: "pause", Target: "run", Run: run}}}))
		return func() {
			for _, p := range []store.ListActionsParams{{Namespace: c.ns, Limit: 10}, {Namespace: c.ns, Limit: 10, Run: run}} {
				_, err := journal.ListActions(c.ctx, p)
				c.ok("ListActions", err)
			}
		}
	}},
}

// pinnedAside pins a run to a build of few runs. It returns a call that reads with filters by that
// build, and ends the run.
func (c *C) pinnedAside(read func(f store.RunFilter)) func() {
	const build = "v0"
	run := c.start()
	c.commit(store.Commit{Lease: run.Lease, Pin: &store.Pin{Build: build}, Transition: giveBack()})
	return func() {
		for _, f := range []store.RunFilter{
			{PinnedTo: []string{build}, Statuses: []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}},
			{PinnedTo: []string{build, "none"}, Statuses: []store.Status{store.Pending, store.Paused}, Pinned: true},
		} {
			read(f)
		}
		c.tryCancel(run.Run.ID)
	}
}

// costOfList returns the preparation of a listing.
func costOfList(p store.ListParams) func(*C, *aside) func() {
	return func(c *C, _ *aside) func() {
		p.Namespace = c.ns
		return func() {
			page, err := c.s.List(c.ctx, p)
			c.ok("List", err)
			c.eq("runs of the page", len(page.Runs), p.Limit)
		}
	}
}
