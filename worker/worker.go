package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/batch"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// Worker executes runs of the workflows that are registered with it. Create one with [New],
// then call [Worker.Register] and [Worker.Run]. Its methods may be called concurrently.
type Worker struct {
	eng         *engine.Engine
	inside      bridge.Engine // of eng
	store       store.Store
	namespace   string
	id          string
	concurrency int
	leaseFor    time.Duration
	grace       time.Duration
	poll        time.Duration
	restPoll    time.Duration // when nothing was found for a while
	labels      map[string]string
	limits      map[string]int // by workflow
	queues      []string       // further ones of all workflows
	log         *slog.Logger
	cfg         exec.Config

	mu       sync.Mutex
	defs     map[string]*exec.Definition
	defErr   error
	started  bool
	held     map[store.ID]*exec.Invocation // whose leases are renewed
	worked   time.Time                     // when something was held last
	leases   sync.WaitGroup                // one for each of held, and for a lease that is given back unused
	draining bool

	slots    slots
	freed    chan struct{} // a slot came free
	wake     chan struct{} // look for work
	renew    chan struct{} // renew leases now
	memory   memory
	commits  *batch.Group[*store.Commit, store.CommitResult]
	ledger   ledger
	lost     lost
	declared declared
	slow     atomic.Bool // the last renewal was answered late, or not
	suspects suspects
	house    housekeeping
	tel      *telemetry.Telemetry

	registered atomic.Bool
	sign       signing
	misfits    misfits
	ramp       ramp
	lags       lags

	emptied chan struct{} // gets a value when no run is held any more; nil: nobody asks

	// stop ends when the worker gives up talking to the store.
	stop   context.Context
	giveUp context.CancelFunc
}

// New makes a worker on an engine, in the engine's namespace. It does not access the database.
// [Worker.Run] reports what is wrong with the options.
func New(eng *engine.Engine, opts ...Option) *Worker {
	w := &Worker{
		eng: eng, inside: bridge.Of(eng), store: eng.Store(), namespace: eng.Namespace(),
		concurrency: 100, leaseFor: 30 * time.Second, grace: 20 * time.Second, poll: time.Second, restPoll: time.Second,
		log:  eng.Logger(),
		cfg:  exec.Config{Park: 100 * time.Millisecond, Linger: 10 * time.Millisecond, ShowAfter: time.Second, MaxCrashes: 10, Build: build()},
		defs: make(map[string]*exec.Definition),
		held: make(map[store.ID]*exec.Invocation),
		wake: make(chan struct{}, 1), renew: make(chan struct{}, 1), freed: make(chan struct{}, 1),
	}
	w.memory.limit, w.memory.freed = defaultMemory, w.wake
	if w.store.Features().Hints { // polling is there for one that got lost
		w.poll, w.restPoll = 5*time.Second, 10*time.Second
	}
	for _, opt := range opts {
		opt(w)
	}
	if w.id == "" {
		host, _ := os.Hostname()
		random := store.NewID().String()
		w.id = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), random[len(random)-8:])
	}
	w.log = w.log.With("worker", w.id)
	w.cfg.Logger = w.log
	w.cfg.Aside = min(2*w.leaseFor, time.Minute)
	limits := eng.Store().Limits()
	w.cfg.PayloadLimit, w.cfg.PayloadWarn = limits.Payload, limits.Warn
	w.slots.free, w.slots.freed, w.slots.roomy = w.concurrency, w.freed, w.wake
	for name, n := range w.limits {
		w.slots.limit(name, n)
	}
	w.stop, w.giveUp = context.WithCancel(context.Background())
	w.commits = w.newCommits()
	w.sign.turn = make(chan struct{}, 1)
	w.suspects.ended = make(chan struct{}, 1)
	w.house = w.newHousekeeping()
	w.tel = w.inside.Telemetry()
	w.instrument()
	return w
}

// ID returns the worker's ID, as leases and logs show it.
func (w *Worker) ID() string { return w.id }

// Register adds workflows. Call it before [Worker.Run]. It fails with store.ErrInvalid if a
// definition is nil or not valid, and with store.ErrAlreadyExists if a name is registered twice; Run
// then fails with the same error. Once the worker has started, Register fails and adds nothing.
func (w *Worker) Register(defs ...workflow.Definition) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, d := range defs {
		errs = append(errs, w.registerLocked(d))
	}
	err := errors.Join(errs...)
	w.defErr = errors.Join(w.defErr, err)
	return err
}

func (w *Worker) registerLocked(d workflow.Definition) error {
	if d == nil {
		return store.Invalid("workflow", "the definition is nil")
	}
	def := bridge.Define(d, w.eng.Codec())
	switch {
	case def.Err != nil:
		return fmt.Errorf("register workflow %q: %w", def.Name, def.Err)
	case w.started:
		return fmt.Errorf("register workflow %q: the worker has started; register before Run", def.Name)
	case w.defs[def.Name] != nil:
		return fmt.Errorf("register workflow %q: %w: this worker already has a workflow with this name; change the name or version of one of them", def.Name, store.ErrAlreadyExists)
	}
	w.defs[def.Name] = def
	w.inside.Know(def.Name, def.Queue, def.Needs...)
	return nil
}

// Run works until ctx ends, then shuts down gracefully: it claims no more runs, lets
// running steps finish within the grace time, gives back the runs that are left, and
// returns nil. Shutting down may take longer than the grace time, because the worker then waits up
// to the duration of a lease for the store to take back its runs. While the store cannot be reached,
// Run continues to try.
//
// It returns an error at once if no workflow is registered, or if a definition or an option
// is not valid. Such a call does not start the worker.
//
// A worker starts once. After that, each call of Run or [Worker.RunUntilIdle] returns an
// error at once, while the worker runs and after it has stopped. It does not affect a worker
// that runs. To work again, make another worker with [New].
func (w *Worker) Run(ctx context.Context) error {
	_, err := w.run(ctx, false)
	return err
}

// RunUntilIdle works until nothing is left to do now, and shuts down. It returns when the
// program is to run a worker again, by this machine's clock: when the next run that this worker serves or the
// next fire time of a schedule is due, or when retention next deletes a run. A zero time
// means never, unless a program starts or signals a run. The time for retention may be
// early: it is found among the hundred final runs that ended first, and it is never before
// retention is to be looked at again.
//
// Schedules that are due are fired first, and housekeeping is done once. RunUntilIdle is
// for programs that are started by a request or a clock and pay for the time that they run.
// It does not wait for runs that sleep or wait for a signal.
//
// When ctx ends first, it shuts down as [Worker.Run] does and returns the context's error:
// something may be left to do now. Other errors are those of Run. A worker starts once: make
// another one for the next call.
func (w *Worker) RunUntilIdle(ctx context.Context) (next time.Time, err error) {
	idle, err := w.run(ctx, true)
	if err == nil && !idle.reached {
		err = context.Cause(ctx)
	}
	return idle.next, err
}

// idle is what a worker found that ran until nothing was left to do.
type idle struct {
	reached bool
	next    time.Time // local; zero: never
}

func (w *Worker) run(ctx context.Context, untilIdle bool) (found idle, err error) {
	if err := w.start(); err != nil {
		return idle{}, err
	}
	defer w.giveUp()
	defer w.observe()()
	if !w.announce(ctx) {
		return idle{}, nil
	}
	w.log.Info("worker started", "workflows", len(w.defs), "slots", w.concurrency, "store", w.store.Features().Name)
	background, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.renewLoop(background) })
	wg.Go(func() { w.hintLoop(background) })
	if untilIdle {
		// Not attached: it must not get new runs while it is about to leave.
		w.emptied = make(chan struct{}, 1)
		w.lapseAll(ctx)
		if found = w.claimLoop(ctx); found.reached {
			w.tidy(ctx)
			found.next = earliest(found.next, w.nextPurge(ctx))
		}
	} else {
		wg.Go(func() { w.scheduleLoop(background) })
		wg.Go(func() { w.tidyLoop(background) })
		wg.Go(func() { w.lapseLoop(background) })
		if w.ramp.partial() {
			wg.Go(func() { w.watchLoop(background) })
		}
		w.inside.Attach(local{w})
		w.claimLoop(ctx)
		w.inside.Attach(nil)
	}
	w.shutdown()
	end()
	wg.Wait()
	w.house.keeper.Release(ctx)
	w.inside.Unsettle() // nothing tells this process any more that the store was interrupted
	return found, nil
}

func (w *Worker) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.started:
		return errors.New("worker: Run or RunUntilIdle was called before; a worker starts only once: create another one with worker.New")
	case w.defErr != nil:
		return w.defErr
	case len(w.defs) == 0:
		return store.Invalid("worker", "no workflow is registered; call Register before Run")
	case w.concurrency < 1:
		return store.Invalid("concurrency", fmt.Sprintf("%d is not positive", w.concurrency))
	case w.leaseFor < 10*time.Millisecond:
		return store.Invalid("lease", fmt.Sprintf("%v is too short to renew in time", w.leaseFor))
	case w.memory.limit < 1:
		return store.Invalid("memory", fmt.Sprintf("%d bytes is not positive", w.memory.limit))
	case w.poll <= 0:
		return store.Invalid("poll", fmt.Sprintf("%v is not positive", w.poll))
	}
	for name, n := range w.limits {
		if n < 1 {
			return store.Invalid("limit", fmt.Sprintf("%d runs of workflow %q is not positive", n, name))
		}
		if w.defs[name] == nil {
			return store.Invalid("limit", fmt.Sprintf("it names workflow %q, which is not registered with this worker; names include the version, as in %q", name, "resize@v2"))
		}
	}
	if err := store.ValidateName("worker", w.id); err != nil {
		return err
	}
	if err := w.ramp.check(w.cfg.Build); err != nil {
		return err
	}
	if err := w.checkQueues(); err != nil {
		return err
	}
	for name, def := range w.defs {
		if _, err := w.inside.Registration(name, def.Queue, def.Graph, def.Needs...); err != nil {
			return err
		}
	}
	w.started = true
	return nil
}

// announce registers the worker and its workflows; false: ctx has ended.
func (w *Worker) announce(ctx context.Context) bool {
	flows := w.flows()
	timeout := w.callTimeout() // of each call
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		asked := time.Now()
		err := limited(ctx, timeout, func(ctx context.Context) error {
			return w.store.PutWorkflows(ctx, store.PutWorkflowsParams{Namespace: w.namespace, Workflows: flows})
		})
		if err == nil {
			err = limited(ctx, timeout, func(ctx context.Context) error { return w.declare(ctx, w.definedLimits()) })
		}
		if err == nil {
			err = w.signOn(ctx, timeout)
		}
		if err == nil {
			w.ledger.renewed(asked.Add(w.leaseFor))
			w.registered.Store(true)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		timeout = w.longer(timeout)
		w.log.Error("failed to register the worker; retrying", "in", wait, "error", err)
		if !sleep(ctx, wait) {
			return false
		}
	}
}

// flows are the worker's workflows as it registers them.
func (w *Worker) flows() []store.Workflow {
	names, _ := w.served()
	flows := make([]store.Workflow, len(names))
	for i, name := range names {
		def := w.defs[name]
		flows[i], _ = w.inside.Registration(name, def.Queue, def.Graph, def.Needs...) // start has checked it
	}
	return flows
}

// served lists the registered workflows, and the queues that they are taken from, sorted.
func (w *Worker) served() (names, queues []string) {
	return slices.Sorted(maps.Keys(w.defs)), slices.Sorted(maps.Keys(w.takes()))
}

// drain lets every run that is begun from now on be given back.
func (w *Worker) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = true
}

// shutdown ends what runs and returns when every lease has ended or was given up.
func (w *Worker) shutdown() {
	w.log.Info("worker shutting down", "running", len(w.holding()), "grace", w.grace)
	w.drain()
	held := w.holding()
	for _, inv := range held {
		inv.Drain()
	}
	var told sync.WaitGroup
	if len(held) > 0 {
		told.Go(w.tellDraining)
	}
	done := make(chan struct{})
	go func() {
		w.leases.Wait()
		close(done)
	}()
	if !waitFor(done, w.grace) {
		left := w.holding()
		w.log.Warn("grace time is over; releasing runs whose steps are still running", "runs", len(left))
		for _, inv := range left {
			go inv.Abandon()
		}
		// What cannot be given back within a lease is free by then anyway.
		waitFor(done, w.leaseFor)
	}
	told.Wait()
	w.signOff()
	w.log.Info("worker stopped")
}

func (w *Worker) holding() []*exec.Invocation {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]*exec.Invocation, 0, len(w.held))
	for _, inv := range w.held {
		list = append(list, inv)
	}
	return list
}

// leased returns those of the runs that are held whose leases are not known to be lost.
func (w *Worker) leased() []*exec.Invocation {
	return slices.DeleteFunc(w.holding(), (*exec.Invocation).Lost)
}

// limited makes a call that ends within d.
func limited(ctx context.Context, d time.Duration, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return call(ctx)
}

// atOnce is the shortest time of a timer. One of zero is sent by whoever receives from
// it, and two goroutines of a synctest bubble that do so at the same moment crash the
// race detector of Go 1.26.
const atOnce = time.Nanosecond

// sleep waits for d; false: ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func waitFor(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
