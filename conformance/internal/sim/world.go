package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

const namespace = "sim"

var quiet = slog.New(slog.DiscardHandler)

// profile is what a seed decides about the whole world.
type profile struct {
	lease, poll, park time.Duration
	grace             time.Duration
	retryFor          time.Duration
	slots             []int         // of each process: how many runs at a time
	skew              time.Duration // the store's clock less the application's
	chaos             time.Duration // until all heals
	faults            float64       // how many calls meet one
	rates             [faultCrashBefore]float64
	crashing          int // percent of processes that die at some call
	events            time.Duration
	hintLoss          float64
	noHints           bool
	maxCrashes        int
	long              time.Duration
}

// world is one simulation.
type world struct {
	seed    uint64
	store   store.Store
	profile profile
	counts  *Counts
	begin   time.Time
	ctx     context.Context // ends when all is checked
	cancel  context.CancelFunc
	healed  chan struct{}
	wg      sync.WaitGroup
	over    chan struct{} // closed when dead processes may go

	plans  []*plan
	feeds  []*feed
	procs  []*slot
	client *engine.Engine // behind a wire with faults
	clean  *engine.Engine

	limits *limited // nil: there are none
	outbox *outbox  // nil: there is none

	crashAt *crashPoint // of the first process; nil: as the seed says
	quick   bool        // dead processes are replaced at once

	calls chan struct{} // holds a token while a call is at the store

	mu         sync.Mutex
	runs       map[store.ID]*seen
	executions map[int64]*execution
	lastX      int64
	values     map[int64]bool
	arrivals   map[arrival]time.Time
	kills      map[store.ID]int
	acks       map[int]ack
	results    map[store.ID]string // what waiting clients were told
	failures   []string
	trace      []traced

	inputs     []*sent // of feeds
	deliveries map[store.SignalID]*delivery
}

type arrival struct {
	run   store.ID
	epoch int64
	key   store.StepKey
}

type ack struct {
	id store.ID
	at time.Time // by the application's clock
}

type traced struct {
	at     time.Duration
	who    string
	format string
	args   []any
}

const maxTrace = 20000

func (w *world) chaotic() bool {
	select {
	case <-w.healed:
		return false
	default:
		return true
	}
}

// clock returns the time of the store's clock.
func (w *world) clock() time.Time { return time.Now().Add(w.profile.skew) }

// now returns the Now of a call. If the store's clock differs from the application's, a zero Now
// becomes the time of the store's clock.
func (w *world) now(now time.Time) time.Time {
	if now.IsZero() && w.profile.skew != 0 {
		return w.clock()
	}
	return now
}

func (w *world) rng(what string, n int) *rand.Rand {
	r := rand.New(rand.NewPCG(w.seed, hash(what)+uint64(n)*0x9e3779b97f4a7c15))
	r.Uint64()
	return r
}

// later applies a call after its caller has gone.
func (w *world) later(d time.Duration, call func(context.Context) error) {
	w.wg.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-w.healed:
		}
		_ = call(context.Background())
	})
}

func (w *world) count(what string) { w.counts.add(what) }

func (w *world) note(who, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(who, format, args...)
}

func (w *world) noteLocked(who, format string, args ...any) {
	if len(w.trace) < maxTrace {
		w.trace = append(w.trace, traced{time.Since(w.begin), who, format, args})
	}
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *world) failLocked(format string, args ...any) {
	w.noteLocked("FAILURE", format, args...)
	if len(w.failures) < 10 {
		w.failures = append(w.failures, fmt.Sprintf("after %v: ", time.Since(w.begin))+fmt.Sprintf(format, args...))
	}
}

// writeTrace writes what happened.
func (w *world) writeTrace(out io.Writer) {
	for _, t := range w.trace {
		fmt.Fprintf(out, "%14v %-9s %s\n", t.at, t.who, fmt.Sprintf(t.format, t.args...))
	}
}

// name returns a short name for a run's ID: the number of its plan.
func (w *world) name(id store.ID) string {
	if s := w.runs[id]; s != nil {
		return s.name
	}
	return id.String()
}

func (w *world) value() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastX++
	w.values[w.lastX] = true
	return w.lastX
}

func (w *world) succeeded(e *execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.succeeded = true
}

// arrive notes that an invocation reaches a sleep.
func (w *world) arrive(run store.ID, epoch int64, key store.StepKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrivals[arrival{run, epoch, key}] = w.clock()
}

// woke checks that a sleep has not ended early. It counts from the moment when the invocation that
// recorded it first reached it.
func (w *world) woke(run store.ID, epoch int64, key store.StepKey, o op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.runs[run]
	if s == nil {
		return
	}
	if first, ok := s.sleeper[key]; ok && first < epoch {
		epoch = first // a zombie knows nothing of who came after it
	}
	due := o.at
	if o.kind == opSleep {
		came, ok := w.arrivals[arrival{run, epoch, key}]
		if !ok {
			w.failLocked("sleep %s of run %s ended; epoch %d had recorded it and never came to it", key, w.name(run), epoch)
			return
		}
		due = came.Add(o.d)
	}
	// The store truncates both the time and the duration to microseconds.
	if now := w.clock(); now.Before(due.Add(-2 * time.Microsecond)) {
		w.failLocked("sleep %s of run %s ended %v early", key, w.name(run), due.Sub(now))
	}
}

// killing reports whether this execution kills its process.
func (w *world) killing(run store.ID, times int) bool {
	if !w.chaotic() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kills[run] >= times {
		return false
	}
	w.kills[run]++
	w.counts.add("killed by its step")
	return true
}

// starter starts a run as its plan says, and repeats the start until the store has acknowledged it.
func (w *world) starter(p *plan) {
	if !w.sleep(p.startAt) {
		return
	}
	data, _ := json.Marshal(input{Plan: p.n})
	var opts []engine.StartOption
	if !p.fresh { // else a start whose answer is lost may make two runs
		opts = append(opts, engine.RunID(p.id))
	}
	if p.external != "" {
		opts = append(opts, engine.ExternalID(p.external, engine.WhileActive), compareNothing)
	}
	if p.delay > 0 {
		opts = append(opts, engine.Delay(p.delay))
	}
	if p.timeout > 0 {
		opts = append(opts, engine.Timeout(p.timeout))
	}
	opts = append(opts, p.limitOptions()...)
	for tries := 0; ; tries++ {
		eng := w.client
		if p.from >= 0 && p.from < len(w.procs) {
			if pr := w.procs[p.from].current(); pr != nil {
				eng = pr.eng
			}
		}
		started, err := eng.Start(w.ctx, flows[p.flow].name, data, opts...)
		if err == nil {
			w.mu.Lock()
			if w.runs[started.ID] == nil {
				w.failLocked("the start of run r%d was acknowledged with %s, which was never made", p.n, w.name(started.ID))
			}
			w.noteLocked("client", "start of r%d acknowledged: %s", p.n, w.name(started.ID))
			w.acks[p.n] = ack{started.ID, time.Now()}
			w.mu.Unlock()
			if tries > 0 {
				w.count("start sent again")
			}
			if w.crashAt != nil {
				eng = w.client // its looks are no crash points
			}
			if p.fresh {
				w.waiter(p, started.ID, eng)
			}
			return
		}
		if !store.Retryable(err) && !errors.Is(err, errCut) && !errors.Is(err, engine.ErrUnknownWorkflow) && !errors.Is(err, engine.ErrClosed) && w.ctx.Err() == nil {
			w.fail("start of run r%d: %v", p.n, err)
			return
		}
		if !w.sleep(w.profile.lease / 5) {
			return
		}
	}
}

// waiter waits for a run as a client does, whatever faults occur.
func (w *world) waiter(p *plan, id store.ID, eng *engine.Engine) {
	for {
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute) // polls of days would take minutes of ours
		out, err := eng.Wait(ctx, id)
		cancel()
		switch {
		case err == nil:
			w.mu.Lock()
			w.results[id] = describe(out)
			w.mu.Unlock()
			return
		case errors.Is(err, engine.ErrClosed): // its process is dead
			eng = w.client
		case errors.Is(err, store.ErrNotFound): // not yet made
			if !w.sleep(w.profile.lease / 3) {
				return
			}
		case errors.Is(err, context.DeadlineExceeded):
			w.count("wait given up")
			if !w.sleep(w.profile.long / 5) {
				return
			}
		default:
			return
		}
	}
}

func describe(o engine.Outcome) string {
	return fmt.Sprintf("%v %s %v", o.Status, o.Output, o.Failure)
}

func outcome(run store.Run) engine.Outcome {
	return engine.Outcome{Run: run.ID, Workflow: run.Workflow, Status: run.Status, Output: run.Output, Failure: run.Failure}
}

// canceler cancels a run.
func (w *world) canceler(p *plan) {
	if !w.sleep(p.cancelAt) {
		return
	}
	for w.ctx.Err() == nil {
		id := p.id
		if p.fresh {
			w.mu.Lock()
			id = w.acks[p.n].id
			w.mu.Unlock()
		}
		err := w.client.Cancel(w.ctx, id, "as the script says")
		if err == nil || errors.Is(err, store.ErrFinished) {
			return
		}
		if !store.Retryable(err) && !errors.Is(err, store.ErrNotFound) && w.ctx.Err() == nil {
			w.fail("cancel of run r%d: %v", p.n, err)
			return
		}
		w.sleep(w.profile.lease / 2)
	}
}

// sleep waits; false: the world ends.
func (w *world) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// run runs the world and checks its final state. It must be called in a bubble.
func (w *world) run() {
	w.begin = time.Now()
	w.calls = make(chan struct{}, 1)
	w.healed, w.over = make(chan struct{}), make(chan struct{})
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.runs, w.executions = map[store.ID]*seen{}, map[int64]*execution{}
	w.values, w.arrivals = map[int64]bool{}, map[arrival]time.Time{}
	w.deliveries = map[store.SignalID]*delivery{}
	w.kills, w.acks, w.results = map[store.ID]int{}, map[int]ack{}, map[store.ID]string{}
	w.client = engine.New(newWire(w, "client", 1<<20), engine.Namespace(namespace), engine.Logger(quiet), engine.RetryFor(w.profile.retryFor))
	w.clean = engine.New(w.store, engine.Namespace(namespace), engine.Logger(quiet))

	w.subscribe()
	for i := range w.profile.slots {
		w.procs = append(w.procs, &slot{world: w, n: i})
	}
	var slots sync.WaitGroup
	for _, s := range w.procs {
		slots.Go(s.live)
	}
	var clients sync.WaitGroup
	clients.Go(w.pauser)
	for _, p := range w.plans {
		clients.Go(func() { w.starter(p) })
		if !p.fresh && p.external == "" { // a start with an external id may end as another run
			clients.Go(func() { w.waiter(p, p.id, w.client) })
		}
		if p.cancelAt > 0 {
			clients.Go(func() { w.canceler(p) })
		}
	}
	for _, f := range w.feeds {
		for _, inputs := range f.clients {
			clients.Go(func() { w.feeder(f, inputs) })
		}
	}
	w.rage()
	w.note("world", "healed")
	close(w.healed)
	w.settle()
	w.drain()
	w.check()
	w.cancel()
	clients.Wait()
	slots.Wait()
	for _, s := range w.procs {
		s.stop()
	}
	close(w.over)
	for _, s := range w.procs {
		s.wait()
	}
	w.client.Close()
	w.clean.Close()
	w.wg.Wait()
}

// rage returns when the faults end. In a world with a single crash, that is when the runs are final
// or the crash has occurred.
func (w *world) rage() {
	if w.crashAt == nil {
		w.sleep(w.profile.chaos)
		return
	}
	for end := time.Now().Add(w.profile.chaos); time.Now().Before(end); w.sleep(w.profile.lease / 30) {
		w.mu.Lock()
		sending, _ := w.feedsWait(end, 0)
		done := len(w.acks) == len(w.plans) && !sending
		for _, s := range w.runs {
			done = done && s.final()
		}
		w.mu.Unlock()
		if done || w.procs[0].count() > 1 {
			return
		}
	}
}

// settle waits until all runs are final, for as long as they may take.
func (w *world) settle() {
	healed := time.Now()
	var work time.Duration
	for _, p := range w.plans {
		_, own := p.waits()
		work += own
	}
	// Added to the leases: pauses before retries, polls, and waits for slots that other runs hold.
	slack := 20*time.Second + 3*w.profile.poll + work + w.limitSlack()
	limit := func(p *plan, from time.Time) time.Time {
		own, _ := p.waits()
		if p.script.until().After(from.Add(w.profile.skew)) {
			own += p.script.until().Sub(from.Add(w.profile.skew))
		}
		if w.profile.noHints { // each wait ends with the next poll
			own += time.Duration(p.script.size()*flows[p.flow].attempts) * w.profile.poll
		}
		return from.Add(3*w.profile.lease + own + slack)
	}
	for {
		var open []string
		w.mu.Lock()
		waiting, late := w.feedsWait(healed, slack)
		open = append(open, late...)
		for _, p := range w.plans {
			if _, acked := w.acks[p.n]; acked {
				continue
			}
			if time.Now().After(healed.Add(w.profile.retryFor + w.profile.lease + slack + p.startAt)) {
				open = append(open, fmt.Sprintf("the start of run r%d is not acknowledged", p.n))
			} else {
				waiting = true
			}
		}
		for _, s := range w.runs {
			if s.final() {
				continue
			}
			from := healed
			if made := s.created.Add(-w.profile.skew); made.After(from) {
				from = made
			}
			ends := w.fedLimit
			if s.fed == nil {
				ends = func(s *seen, from time.Time, _ time.Duration) time.Time { return limit(w.plans[s.plan], from) }
			}
			if time.Now().After(ends(s, from, slack)) {
				open = append(open, fmt.Sprintf("run %s is not final %v after healing", s.name, time.Since(healed)))
			} else {
				waiting = true
			}
		}
		w.mu.Unlock()
		if waiting {
			w.sleep(min(max(w.profile.lease/4, time.Second), 10*time.Minute))
			continue
		}
		for _, o := range open {
			w.fail("%s", o)
		}
		if len(open) == 0 {
			w.sleep(6*time.Second + 2*w.profile.lease + w.profile.long/5) // for those who wait, and for zombies
		}
		return
	}
}

// size is how many times a script may wait.
func (sc script) size() int {
	n := 0
	for _, o := range sc {
		n += max(1, o.attempts)
		for _, b := range o.branches {
			n += b.size()
		}
	}
	return n
}

// until is the latest time that a script waits for.
func (sc script) until() time.Time {
	var last time.Time
	for _, o := range sc {
		if o.at.After(last) {
			last = o.at
		}
		for _, b := range o.branches {
			if t := b.until(); t.After(last) {
				last = t
			}
		}
	}
	return last
}

// check compares the final state with the expected one.
func (w *world) check() {
	ctx := w.ctx
	w.mu.Lock()
	defer w.mu.Unlock()
	listed := map[store.ID]bool{}
	for cursor := ""; ; {
		page, err := w.store.List(ctx, store.ListParams{Namespace: namespace, Cursor: cursor})
		if err != nil {
			w.failLocked("list: %v", err)
			return
		}
		for _, r := range page.Runs {
			listed[r.ID] = true
			if w.runs[r.ID] == nil {
				w.failLocked("run %s exists and nobody made it", r.ID)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	ids := make([]store.ID, 0, len(w.runs))
	for id := range w.runs {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b store.ID) int { return strings.Compare(w.name(a), w.name(b)) })
	byExternal := map[string][]store.Run{}
	for _, id := range ids {
		if !listed[id] {
			w.failLocked("run %s was made and is gone", w.name(id))
			continue
		}
		runs, err := w.store.Get(ctx, store.GetParams{Namespace: namespace, IDs: []store.ID{id}})
		if err != nil || len(runs) != 1 {
			w.failLocked("get of run %s: %d runs, %v", w.name(id), len(runs), err)
			continue
		}
		if runs[0].ExternalID != "" {
			byExternal[runs[0].ExternalID] = append(byExternal[runs[0].ExternalID], runs[0])
		}
		if w.runs[id].fed != nil {
			w.checkFed(runs[0])
			continue
		}
		w.checkRun(runs[0])
	}
	w.checkFeeds()
	for _, runs := range byExternal {
		slices.SortFunc(runs, func(a, b store.Run) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), a.FinishedAt.Compare(b.FinishedAt))
		})
		for i := 1; i < len(runs); i++ {
			if runs[i].CreatedAt.Before(runs[i-1].FinishedAt) {
				w.failLocked("runs %s and %s with external id %q were active together", w.name(runs[i-1].ID), w.name(runs[i].ID), runs[i].ExternalID)
			}
		}
	}
	for id, got := range w.results {
		runs, err := w.store.Get(ctx, store.GetParams{Namespace: namespace, IDs: []store.ID{id}})
		if err != nil || len(runs) != 1 || describe(outcome(runs[0])) != got {
			w.failLocked("a client that waited for run %s was told %q, which it did not end as", w.name(id), got)
		}
	}
	if len(w.failures) == 0 {
		for _, p := range w.plans {
			if _, ok := w.results[w.acks[p.n].id]; !ok && (p.external == "" || p.fresh) {
				w.failLocked("a client still waits for run %s, which is final", w.name(w.acks[p.n].id))
			}
		}
	}
	w.checkLimits()
	w.checkOutbox()
}

// checkRun compares a run's end with its plan.
func (w *world) checkRun(run store.Run) {
	s := w.runs[run.ID]
	name := w.name(run.ID)
	if run.Status != s.status {
		w.failLocked("run %s is %v; what was committed makes it %v", name, run.Status, s.status)
	}
	if !run.Status.Final() {
		return // reported
	}
	var in input
	if err := json.Unmarshal(run.Input, &in); err != nil || in.Plan >= len(w.plans) {
		w.failLocked("run %s has input %q", name, run.Input)
		return
	}
	p := w.plans[in.Plan]
	want := p.fate()
	code := workflow.ErrorCode(outcome(run).Err())
	var out output
	if run.Status == store.Completed {
		if err := json.Unmarshal(run.Output, &out); err != nil {
			w.failLocked("run %s has output %q", name, run.Output)
		}
	}
	switch {
	case code == "crashed" && s.worst > w.profile.maxCrashes:
		w.count("poison")
	case s.cancel && run.Status == store.Canceled:
		if run.Failure == nil || run.Failure.Message != "as the script says" {
			w.failLocked("run %s is canceled with %v", name, run.Failure)
		}
	case p.timeout > 0:
		if code != "deadline" {
			w.failLocked("run %s with a deadline ended as %v %s", name, run.Status, code)
		}
	case code != want.code:
		w.failLocked("run %s ended as %v with code %q (%v), expected code %q", name, run.Status, code, run.Failure, want.code)
	case run.Status == store.Completed && !slices.Equal(out.Notes, want.notes):
		w.failLocked("run %s gave %q, expected %q", name, out.Notes, want.notes)
	}
	steps, err := w.clean.Steps(w.ctx, run.ID)
	if err != nil {
		w.failLocked("steps of run %s: %v", name, err)
		return
	}
	recorded := map[store.StepKey]bool{}
	var xs []int64
	for _, st := range steps {
		if recorded[st.StepKey] {
			w.failLocked("step %s of run %s is recorded twice", st.StepKey, name)
		}
		recorded[st.StepKey] = true
		have := s.steps[st.StepKey]
		if have.status != st.Status || have.output != string(st.Output) {
			w.failLocked("step %s of run %s is %v %q, what was committed is %v %q", st.StepKey, name, st.Status, st.Output, have.status, have.output)
		}
		if st.Status == store.StepCompleted {
			switch st.Kind {
			case store.KindFunction:
				var o stepOut
				_ = json.Unmarshal(st.Output, &o)
				xs = append(xs, o.X)
			case store.KindValue:
				var x int64
				_ = json.Unmarshal(st.Output, &x)
				if xs = append(xs, x); !w.values[x] {
					w.failLocked("value %s of run %s is recorded as %q, which was never returned", st.StepKey, name, st.Output)
				}
			}
		}
	}
	if len(steps) != len(s.steps) {
		w.failLocked("run %s has %d steps, %d were committed", name, len(steps), len(s.steps))
	}
	if run.Status == store.Completed && !slices.Equal(sorted(out.X), sorted(xs)) {
		w.failLocked("run %s saw results %v, recorded are %v", name, sorted(out.X), sorted(xs))
	}
}

// Counts counts events over many worlds.
type Counts struct {
	m sync.Map // string -> *atomic.Int64
}

func (c *Counts) add(what string) {
	v, ok := c.m.Load(what)
	if !ok {
		v, _ = c.m.LoadOrStore(what, new(atomic.Int64))
	}
	v.(*atomic.Int64).Add(1)
}

// Of returns how often an event occurred.
func (c *Counts) Of(what string) int64 {
	if v, ok := c.m.Load(what); ok {
		return v.(*atomic.Int64).Load()
	}
	return 0
}

func (c *Counts) names() []string {
	var names []string
	for what := range quotas {
		names = append(names, what)
	}
	c.m.Range(func(k, _ any) bool {
		if _, ok := quotas[k.(string)]; !ok {
			names = append(names, k.(string))
		}
		return true
	})
	slices.Sort(names)
	return names
}

// Log writes the counts by name, with the quota for so many seeds.
func (c *Counts) Log(t interface{ Logf(string, ...any) }, seeds int) {
	for _, name := range c.names() {
		t.Logf("%8d (of %6d) %s", c.Of(name), quotas[name]*int64(seeds)/1000, name)
	}
}

// compareNothing lets plans of different workflows share an external id.
func compareNothing(r *store.NewRun) { r.Digest = []byte{} }
