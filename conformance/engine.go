package conformance

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

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// EngineCase is one proof of the engine tier: engine and worker, unchanged, on the
// backend.
type EngineCase struct {
	Name    string
	Promise string
	Rule    string // the sentence that a failure prints
	Run     func(e *E)
}

// EngineCases lists the cases of the engine tier.
func EngineCases() []EngineCase {
	return slices.Concat(
		stepEngineCases, sleepEngineCases, crashEngineCases, suspectEngineCases, branchEngineCases, runEngineCases, startEngineCases, signalEngineCases,
		childEngineCases, lostEngineCases, flowEngineCases, mapEngineCases, generateEngineCases,
		stateEngineCases,
		txEngineCases, idleEngineCases,
		scheduleEngineCases, housekeepingEngineCases, retentionEngineCases,
		controlEngineCases, workerEngineCases, exportEngineCases, explainEngineCases,
		cleanupEngineCases, waitingCleanupEngineCases, continueEngineCases, waitEngineCases, refEngineCases, retryEngineCases, bytesEngineCases, metricsEngineCases, codecEngineCases,
	)
}

// RunEngine puts a backend through the engine tier: workflows with crashes,
// outages and lost answers. With h.Bubble every case runs in a synctest bubble, in
// which hours pass in no time; otherwise times are scaled down to a twentieth and
// really pass.
func RunEngine(t *testing.T, h Harness) {
	for _, cs := range EngineCases() {
		t.Run(cs.Name, func(t *testing.T) {
			t.Parallel()
			if h.Bubble {
				synctest.Test(t, func(t *testing.T) { runEngineCase(t, h, cs) })
				return
			}
			runEngineCase(t, h, cs)
		})
	}
}

// A case that hangs is ended, in a bubble by the bubble's own time: a store that
// wakes nobody would keep its workers polling for ever.
const (
	caseLimit   = 5 * time.Minute
	bubbleLimit = 2 * time.Hour
)

func runEngineCase(t testing.TB, h Harness, cs EngineCase) {
	e := &E{TB: t, h: h, cs: cs, s: h.New(t), scale: 1}
	limit := bubbleLimit
	if !h.Bubble {
		e.scale, limit = 20, caseLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	e.ctx = ctx
	e.eng = engine.New(newWire(e.s), engine.Namespace("engine"), engine.Logger(quiet))
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

// E is what an engine case works with.
type E struct {
	testing.TB
	h     Harness
	cs    EngineCase
	s     store.Store
	eng   *engine.Engine // a client without a worker
	ctx   context.Context
	scale time.Duration
	opts  []engine.Option // of processes to come
	procs []*proc
}

// d scales a duration to the clock that the case runs on.
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

// proc is a process: an engine and a worker behind a wire of their own.
type proc struct {
	e      *E
	wire   *wire
	eng    *engine.Engine
	worker *worker.Worker
	cancel context.CancelFunc
	done   chan struct{}
}

// leaseFor is the lease of workers in these cases, before scaling. Where no worker is
// killed and values are as large as may be, it is not scaled: the database works on those for a while.
const leaseFor = 30 * time.Second

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

// buildWith is build with another codec.
func (e *E) buildWith(codec engine.Codec, defs []workflow.Definition, opts ...worker.Option) *proc {
	e.Helper()
	p := &proc{e: e, wire: newWire(e.s), done: make(chan struct{})}
	if e.h.Reopen != nil {
		p.wire = newWire(e.h.Reopen(e.TB, e.s))
	}
	p.eng = engine.New(p.wire, append([]engine.Option{engine.Namespace("engine"), engine.Logger(quiet), engine.Encoding(codec)}, e.opts...)...)
	p.worker = worker.New(p.eng, append([]worker.Option{worker.Concurrency(10), worker.Lease(e.d(leaseFor)), worker.Grace(e.d(10 * time.Second))}, opts...)...)
	e.ok("register", p.worker.Register(defs...))
	for _, d := range defs {
		def := d.Define(e.eng.Codec())
		e.eng.Know(def.Name, def.Queue)
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

// kill ends the process as a kill -9 would: from now on nothing of it reaches the
// store.
func (p *proc) kill() {
	p.wire.set(wireCut)
	p.cancel()
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

// result waits for a run that is to complete.
func result[Out any](e *E, h workflow.Handle[Out]) Out {
	e.Helper()
	out, err := h.Result(e.ctx)
	e.ok("result", err)
	return out
}

// results waits for runs that are to complete.
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

// sleeping waits until a run sleeps.
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

// pause lets the others go on before the next look at the store.
func pause(e *E) {
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

func (t *tally) get(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[name]
}
