package workflowtest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Env is the environment of a test: an engine, a store of its own, and a worker that serves the
// workflows that the test starts. It is in a testing/synctest bubble, whose clock advances when all
// goroutines in it wait. [Run] creates it, and it must not be used after Run has returned.
type Env struct {
	testing.TB
	ctx    context.Context
	store  *sqlite.Store
	wire   *wire
	lease  time.Duration
	engine *engine.Engine
	log    *slog.Logger

	mu    sync.Mutex
	stubs map[string]stub

	life  sync.Mutex // held while the worker is replaced
	ended bool
	defs  []workflow.Definition
	names []string
	end   func() // of the present worker
}

type stub func(ctx context.Context, codec engine.Codec) ([]byte, error)

// Run calls f with a new environment, in a testing/synctest bubble, and stops its worker when f has
// returned. Do not call t.Run or t.Parallel in f, and use env in place of t there.
func Run(t *testing.T, f func(env *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(t, newWire(), 24*time.Hour, f) })
}

// run runs f; nothing renews leases or polls often, for that is what takes time when
// days pass.
func run(t testing.TB, w *wire, lease time.Duration, f func(env *Env)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	env := &Env{TB: t, ctx: ctx, store: st, wire: w, lease: lease, log: slog.New(slog.NewTextHandler(io.Discard, nil)), stubs: make(map[string]stub)}
	env.engine = engine.New(st, engine.Logger(env.log), engine.Require(engine.RequireNothing), engine.Poll(lease))
	defer env.engine.Close()
	defer env.stop()
	f(env)
}

// Context returns a context that ends with the environment.
func (e *Env) Context() context.Context { return e.ctx }

// Engine returns an engine without a worker, for signals, cancels and reading.
func (e *Env) Engine() *engine.Engine { return e.engine }

// NoError ends the test if err is not nil.
func (e *Env) NoError(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// Advance lets time pass. What is due in that time happens. Advance returns when everything
// waits again.
func (e *Env) Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Register makes workflows known that the test does not start itself, such as those of
// children. A workflow whose name is registered already, also by [StubWorkflow], is left out.
func (e *Env) Register(defs ...workflow.Definition) {
	e.Helper()
	e.life.Lock()
	defer e.life.Unlock()
	added := false
	for _, d := range defs {
		if name := d.Name(); !slices.Contains(e.names, name) {
			e.defs, e.names, added = append(e.defs, d), append(e.names, name), true
		}
	}
	if added {
		e.restart()
	}
}

// restart replaces the worker by one that serves all workflows there are now. The
// old one shuts down gracefully, unless its wire is cut: then it is dead.
func (e *Env) restart() {
	e.Helper()
	if e.end != nil {
		e.end()
	}
	e.wire.Store = e.store
	e.wire.onCut = func() {
		go func() {
			e.life.Lock()
			defer e.life.Unlock()
			if !e.ended {
				e.wire = newWire()
				e.restart()
			}
		}()
	}
	eng, wire := engine.New(e.wire, engine.Logger(e.log)), e.wire
	wrap := func(ctx context.Context, call worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
		return e.step(ctx, wire, call, next)
	}
	w := worker.New(eng, worker.Concurrency(100), worker.Grace(time.Second), worker.Lease(e.lease), worker.Poll(e.lease/2), worker.WrapSteps(wrap))
	e.NoError(w.Register(e.defs...))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			e.Errorf("worker: %v", err)
		}
		eng.Close()
	}()
	e.end = func() {
		cancel()
		<-done
	}
}

// stop ends the worker for good.
func (e *Env) stop() {
	e.life.Lock()
	defer e.life.Unlock()
	e.ended = true
	if e.end != nil {
		e.end()
	}
}

// step stands before every attempt of every step.
func (e *Env) step(ctx context.Context, w *wire, call worker.StepCall, next func(context.Context) ([]byte, error)) ([]byte, error) {
	e.mu.Lock()
	s := e.stubs[call.Key.Name]
	e.mu.Unlock()
	if s == nil {
		if err := w.unstubbed(ctx, call.Key.Name); err != nil {
			return nil, err
		}
		return next(ctx)
	}
	return s(ctx, e.engine.Codec())
}

// Stub replaces the function of every step of that name, in all workflows, until it is stubbed
// again. The result of fn is encoded as the step's own would be, so that it must be of the step's
// type. Retries and timeouts are those of the step. For steps without a result, use [StubDo]; for
// child workflows, [StubWorkflow].
func Stub[T any](e *Env, name string, fn func(ctx context.Context) (T, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stubs[name] = func(ctx context.Context, codec engine.Codec) ([]byte, error) {
		v, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		return codec.Marshal(v)
	}
}

// StubDo is [Stub] for steps without a result: those of [workflow.Do].
func StubDo(e *Env, name string, fn func(ctx context.Context) error) {
	Stub(e, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
}

// StubWorkflow replaces the function of a workflow, for all of its runs: children and items too. Use
// it for children that a test of their parent is not about, and for workflows of other programs, of
// which the parent has only a [workflow.Reference]. Runs, queue and errors are as with the
// workflow's own function. Each run is tried once, whatever workflow.RunAttempts says.
//
// Call it before the workflow is registered or started; otherwise it ends the test.
func StubWorkflow[In, Out any](e *Env, w workflow.Callable[In, Out], fn func(ctx workflow.Context, in In) (Out, error)) {
	e.Helper()
	e.life.Lock()
	known := slices.Contains(e.names, w.Name())
	e.life.Unlock()
	if known {
		e.Fatalf("workflow %q is already registered; call StubWorkflow before", w.Name())
	}
	var opts []workflow.Option
	if defined, ok := w.(workflow.Definition); ok {
		opts = append(opts, workflow.Queue(defined.Queue()))
	}
	e.Register(workflow.New(w.Name(), fn, opts...))
}

// Started is a run that a test has started.
type Started[Out any] struct {
	env    *Env
	handle workflow.Handle[Out]
}

// Start registers the workflow, if it is not registered yet, and starts a run of it. It
// ends the test if the start fails.
func Start[In, Out any](e *Env, w *workflow.Workflow[In, Out], in In, opts ...engine.StartOption) *Started[Out] {
	e.Helper()
	e.Register(w)
	h, err := w.Start(e.ctx, e.engine, in, opts...)
	e.NoError(err)
	return &Started[Out]{env: e, handle: h}
}

// ID returns the run's ID.
func (s *Started[Out]) ID() store.ID { return s.handle.ID() }

// Wait lets time pass until the run is final, and returns its output or error. If for a
// year nothing has changed and nothing is due, the run waits for something that never
// comes, such as a signal that the test does not send or a child whose workflow is not
// registered. Wait then ends the test, with what [engine.Engine.Explain] says of the run.
func (s *Started[Out]) Wait() (out Out, err error) {
	s.env.Helper()
	err = s.env.await(s.ID(), func(ctx context.Context) (err error) {
		out, err = s.handle.Result(ctx)
		return err
	})
	var stuck *errStuck
	if errors.As(err, &stuck) {
		s.env.Fatal(stuck)
	}
	return out, err
}

// Result waits as [Started.Wait] does and returns the run's output. It ends the test if the
// run does not complete.
func (s *Started[Out]) Result() Out {
	s.env.Helper()
	out, err := s.Wait()
	s.env.NoError(err)
	return out
}

// Status returns the run's status now.
func (s *Started[Out]) Status() store.Status {
	s.env.Helper()
	status, err := s.handle.Status(s.env.ctx)
	s.env.NoError(err)
	return status
}

// Steps returns the run's records so far, in their order.
func (s *Started[Out]) Steps() []store.Step {
	s.env.Helper()
	steps, err := s.env.engine.Steps(s.env.ctx, s.ID())
	s.env.NoError(err)
	return steps
}
