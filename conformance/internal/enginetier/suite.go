// Package enginetier is the engine tier of the conformance suite: workflows on engine and
// worker, unchanged, through crashes, outages and lost answers.
package enginetier

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/report"
	"github.com/pawlhq/pawl/conformance/internal/runner"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Case is one test of the engine tier: engine and worker, unchanged, on the backend.
type Case struct {
	Name    string
	Promise string
	Rule    string // the sentence that a failure prints
	Run     func(e *E)
}

// Cases lists the cases of the engine tier.
func Cases() []Case {
	return slices.Concat(
		stepEngineCases, sleepEngineCases, crashEngineCases, suspectEngineCases, branchEngineCases, runEngineCases, startEngineCases, signalEngineCases, updateEngineCases,
		childEngineCases, lostEngineCases, flowEngineCases, mapEngineCases, generateEngineCases, foldEngineCases, batchEngineCases, withStartEngineCases, viewEngineCases, progressEngineCases, tagEngineCases, streamEngineCases, debounceEngineCases, outboxEngineCases,
		stateEngineCases,
		txEngineCases, idleEngineCases,
		scheduleEngineCases, housekeepingEngineCases, retentionEngineCases,
		controlEngineCases, workerEngineCases, exportEngineCases, explainEngineCases,
		cleanupEngineCases, waitingCleanupEngineCases, continueEngineCases, waitEngineCases, refEngineCases, retryEngineCases, bytesEngineCases, metricsEngineCases, codecEngineCases, buildEngineCases, shareEngineCases, markEngineCases, historyEngineCases, limitEngineCases,
	)
}

// Run is conformance.RunEngine.
func Run(t *testing.T, h harness.Harness) {
	s := h.New(t)
	harness.CheckAbilities(t, h, s)
	h.Progress = h.Progress || report.Progress()
	h.Tier = report.Begin(t, "engine", s)
	t.Cleanup(func() { h.Tier.End(t, h.Progress) })
	for i, cs := range Cases() {
		if !report.Chosen(cs.Promise) || !report.Share(t, i) {
			continue
		}
		t.Run(cs.Name, func(t *testing.T) {
			run := func(t testing.TB) { runCounted(t, h, cs) }
			report.Parallel(t)
			if h.Bubble {
				runner.Warned(cs.Name, runner.Broken(cs.Name, cs.Promise, cs.Rule), caseLimit, func() { inBubble(t, run) })
				return
			}
			run(t)
		})
	}
}

// inBubble runs f in a bubble. Its calls to the test, for example to skip it, are made outside.
func inBubble(t *testing.T, f func(t testing.TB)) {
	synctest.Test(t, func(t *testing.T) { f(t) })
}

// A case that hangs is ended, in a bubble by the bubble's own time: if a store wakes nobody, its
// workers would poll forever.
const (
	caseLimit   = 5 * time.Minute
	bubbleLimit = 2 * time.Hour
)

// runCase runs a case, or leaves it out if the backend lacks an ability that it needs.
func runCase(t testing.TB, h harness.Harness, cs Case) {
	s := h.New(t)
	if why := h.WhyNot(s, cs.Needs()); why != "" {
		h.Tier.LeaveOut(cs.Name, why)
		t.Skip("left out: " + why) // the backend declares that it lacks what the case proves; TestNeeds checks that it does
	}
	if h.Progress {
		h.WaitsWholly(t, s, cs.Name)
	}
	e := &E{TB: t, h: h, cs: cs, s: s, scale: 1}
	limit := bubbleLimit
	if !h.Bubble {
		e.scale, limit = 20, caseLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	e.ctx = ctx
	e.patience = engine.RetryFor(10 * time.Second)
	if !h.Bubble {
		e.patience = engine.RetryFor(limit) // the machine may be busy
	}
	e.eng = engine.New(newWire(e.s), engine.Namespace("engine"), engine.Logger(quiet), e.patience)
	t.Cleanup(func() {
		for _, p := range e.procs {
			p.kill()
		}
		for _, p := range e.procs {
			<-p.done
		}
		e.eng.Close()
		cancel()
	})
	cs.Run(e)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// E is what an engine case uses.
type E struct {
	testing.TB
	h   harness.Harness
	cs  Case
	s   store.Store
	eng *engine.Engine // a client without a worker
	// patience is how long the engines of a case repeat a call that the store does not answer.
	patience engine.Option
	ctx      context.Context
	scale    time.Duration
	opts     []engine.Option // of later processes
	procs    []*proc
}

// d scales a duration to the clock of the case.
func (e *E) d(d time.Duration) time.Duration { return d / e.scale }

// Errorf reports a failure beneath the case's rule.
func (e *E) Errorf(format string, args ...any) {
	e.Helper()
	e.TB.Errorf("%s breaks %s: %s\n%s", e.cs.Name, e.cs.Promise, e.cs.Rule, fmt.Sprintf(format, args...))
}

// Fatalf reports a failure beneath the case's rule and ends the case.
func (e *E) Fatalf(format string, args ...any) {
	e.Helper()
	e.TB.Fatalf("%s breaks %s: %s\n%s", e.cs.Name, e.cs.Promise, e.cs.Rule, fmt.Sprintf(format, args...))
}

func (e *E) ok(what string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: saw %T %v, expected no error", what, err, err)
	}
}

func (e *E) eq(what string, got, want any) {
	e.Helper()
	if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		e.Errorf("%s: saw %v, expected %v", what, got, want)
	}
}

func (e *E) check(holds bool, format string, args ...any) {
	e.Helper()
	if !holds {
		e.Errorf(format, args...)
	}
}

// proc is a process: an engine and a worker with their own wire.
type proc struct {
	e      *E
	wire   *wire
	eng    *engine.Engine
	worker *worker.Worker
	cancel context.CancelFunc
	done   chan struct{}
}

// leaseFor is the lease of workers in these cases, before scaling. Cases in which no worker is killed
// do not scale it if values are as large as possible, because the database takes a while for them, or if
// they count claims: on a busy machine a scaled lease may run out.
const leaseFor = 30 * time.Second

// ofLease scales a part or a multiple of a lease to the clock of the case. On a real server, leases
// are twice as long as other durations, because a busy machine must not miss them.
func (e *E) ofLease(d time.Duration) time.Duration {
	if e.h.Bubble {
		return d
	}
	return 2 * e.d(d)
}

// process starts a worker on the workflows; opts come after the defaults: 10
// slots, leases of 30 s.
func (e *E) process(defs []workflow.Definition, opts ...worker.Option) *proc {
	e.Helper()
	p := e.build(defs, opts...)
	p.run()
	return p
}

// build makes a process that does not run yet.
func (e *E) build(defs []workflow.Definition, opts ...worker.Option) *proc {
	e.Helper()
	return e.buildWith(engine.JSON{}, defs, opts...)
}

// buildWith is build with a given codec.
func (e *E) buildWith(codec engine.Codec, defs []workflow.Definition, opts ...worker.Option) *proc {
	e.Helper()
	p := &proc{e: e, wire: newWire(e.s), done: make(chan struct{})}
	if e.h.Reopen != nil {
		p.wire = newWire(e.h.Reopen(e.TB, e.s))
	}
	p.eng = engine.New(p.wire, append([]engine.Option{engine.Namespace("engine"), engine.Logger(quiet), engine.PayloadCodec(codec), e.patience}, e.opts...)...)
	p.worker = worker.New(p.eng, append([]worker.Option{worker.Concurrency(10), worker.Lease(e.ofLease(leaseFor)), worker.Grace(e.d(10 * time.Second))}, opts...)...)
	e.ok("register", p.worker.Register(defs...))
	for _, d := range defs {
		bridge.Of(e.eng).Know(d.Name(), d.Queue(), bridge.Define(d, codec).Needs...)
	}
	return p
}

func (p *proc) run() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.e.procs = append(p.e.procs, p)
	go func() {
		defer close(p.done)
		if err := p.worker.Run(ctx); err != nil {
			p.e.TB.Errorf("worker.Run: %v", err)
		}
		p.eng.Close()
	}()
}

// kill ends the process as kill -9 would: from now on nothing of it reaches the store.
func (p *proc) kill() {
	p.wire.set(wireCut)
	p.cancel()
}

// bury gives back the connections of a process that was killed.
func (p *proc) bury() {
	<-p.done
	if p.e.h.Reopen != nil {
		_ = p.wire.Close() // of the case's harness otherwise
	}
}

// stop shuts the process down gracefully and waits for it.
func (p *proc) stop() {
	p.cancel()
	select {
	case <-p.done:
	case <-p.e.ctx.Done():
		p.e.Fatalf("the worker did not shut down")
	}
}

func defs(d ...workflow.Definition) []workflow.Definition { return d }

// start starts a run from outside the worker processes.
func start[In, Out any](e *E, w *workflow.Workflow[In, Out], in In, opts ...engine.StartOption) workflow.Handle[Out] {
	e.Helper()
	h, err := w.Start(e.ctx, e.eng, in, opts...)
	e.ok("start of "+w.Name(), err)
	return h
}

// result waits for a run that must complete.
func result[Out any](e *E, h workflow.Handle[Out]) Out {
	e.Helper()
	out, err := h.Result(e.ctx)
	e.ok("result", err)
	return out
}

// results waits for runs that must complete.
func results[Out any](e *E, hs []workflow.Handle[Out]) []Out {
	e.Helper()
	outs, err := workflow.Results(e.ctx, hs)
	e.ok("results", err)
	return outs
}

// startN starts n runs with their numbers, from 0, as input.
func startN[Out any](e *E, w *workflow.Workflow[int, Out], n int) []workflow.Handle[Out] {
	e.Helper()
	in := make([]workflow.Each[int], n)
	for i := range in {
		in[i].In = i
	}
	hs, err := w.StartMany(e.ctx, e.eng, in)
	e.ok("start of many", err)
	return hs
}

// receive waits for a value.
func receive[T any](e *E, what string, ch <-chan T) T {
	e.Helper()
	select {
	case v := <-ch:
		return v
	case <-e.ctx.Done():
		e.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

// steps returns the recorded steps of a run by key.
func (e *E) steps(id store.ID) map[string]store.Step {
	e.Helper()
	list, err := e.eng.Steps(e.ctx, id)
	e.ok("steps", err)
	m := make(map[string]store.Step, len(list))
	for _, s := range list {
		if _, twice := m[s.String()]; twice {
			e.Errorf("step %s is recorded twice", s.StepKey)
		}
		m[s.String()] = s
	}
	return m
}

// until waits until a run has a status.
func (e *E) until(id store.ID, status store.Status) store.Run {
	e.Helper()
	for {
		run, err := e.eng.Get(e.ctx, id)
		e.ok("get", err)
		if run.Status == status {
			return run
		}
		if run.Status.Final() {
			e.Fatalf("run is %v (%v), expected it to become %v", run.Status, run.Failure, status)
		}
		pause(e)
	}
}

// startInTime starts a run with a deadline, and returns when the run has begun. If a busy machine
// lets the deadline pass before, startInTime forgets what was counted and starts another run with
// twice the time.
func startInTime[In, Out any](e *E, w *workflow.Workflow[In, Out], in In, timeout time.Duration, ran *tally, begun func(store.Run) bool) workflow.Handle[Out] {
	e.Helper()
	for {
		h := start(e, w, in, engine.Timeout(timeout))
		run, err := e.eng.Get(e.ctx, h.ID())
		for ; err == nil && !begun(run) && !run.Status.Final(); run, err = e.eng.Get(e.ctx, h.ID()) {
			pause(e)
		}
		e.ok("get", err)
		if begun(run) {
			return h
		}
		ran.clear()
		timeout *= 2
	}
}

// hasWaited reports whether a run has been given back by the worker that claimed it first.
func hasWaited(r store.Run) bool { return r.Status == store.Sleeping || r.Epoch > 1 }

// pause lets other goroutines continue before the next look at the store.
func pause(e *E) {
	e.Helper()
	timer := time.NewTimer(e.d(100 * time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
		e.Fatalf("the case took too long")
	}
}

// tally counts by name.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (t *tally) add(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = make(map[string]int)
	}
	t.n[name]++
	return t.n[name]
}

func (t *tally) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[name]--
}

// clear forgets what was counted.
func (t *tally) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.n)
}

// total returns how often anything was counted.
func (t *tally) total() (sum int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.n {
		sum += n
	}
	return sum
}

func (t *tally) get(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[name]
}

// runCounted runs a case and counts it in its tier.
func runCounted(t testing.TB, h harness.Harness, cs Case) {
	t.Helper()
	run := func(t testing.TB) { runCase(t, h, cs) }
	if h.Bubble { // everything of the case must stay in the bubble
		defer func() { h.Tier.Ended(t, cs.Name, cs.Promise) }()
		run(t)
		return
	}
	g := runner.Supervised(t, cs.Name, runner.Broken(cs.Name, cs.Promise, cs.Rule), caseLimit+3*runner.Hangs, run)
	h.Tier.Ended(g, cs.Name, cs.Promise)
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }
