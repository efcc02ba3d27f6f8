package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Option configures a worker.
type Option func(*Worker)

// Concurrency sets how many runs execute at the same time. A run that sleeps or
// waits does not count. Default: 100.
func Concurrency(n int) Option { return func(w *Worker) { w.concurrency = n } }

// Limit bounds how many runs of a workflow execute at the same time in this worker,
// within [Concurrency]: for one that is heavy, or that uses something of which there
// is little. Runs beyond it wait in the store, where other workers find them, and take
// no slot from other workflows. The workflow is named as in the store, with its
// version. Default: no limit but the worker's.
func Limit(workflow string, n int) Option {
	return func(w *Worker) {
		if w.limits == nil {
			w.limits = make(map[string]int)
		}
		w.limits[workflow] = n
	}
}

// Memory bounds the bytes of payloads that the worker holds: the inputs, histories and
// signals that came with the runs at work, and what waits to be committed. When it is
// reached, the worker claims nothing until runs end; when commits alone reach half of
// it, steps wait before they begin. One run is always allowed. What code makes of payloads,
// and the outputs of steps that run already, come on top: at most the payload limit for
// each of [Concurrency] runs. Default: 32 MB.
func Memory(bytes int) Option { return func(w *Worker) { w.memory.limit = bytes } }

const defaultMemory = 32 << 20

// Lease sets how long the worker's right to a run lasts without renewal: a run
// whose worker has died goes on elsewhere after that time. It is renewed every
// third of it. Default: 30 s.
func Lease(d time.Duration) Option { return func(w *Worker) { w.leaseFor = d } }

// Grace sets how long a worker that shuts down waits for running steps. Runs
// that are left then are given back; others take them up at once. Default: 20 s.
func Grace(d time.Duration) Option { return func(w *Worker) { w.grace = d } }

// Poll sets how often the worker looks for work that no hint has told it of.
// Default: 1 s; where the store gives hints 5 s, and 10 s once nothing was found for a
// minute.
func Poll(d time.Duration) Option { return func(w *Worker) { w.poll, w.restPoll = d, d } }

// Park sets how long a run that only waits is kept in memory before it is
// suspended; it holds no slot in that time. Default: 100 ms.
func Park(d time.Duration) Option { return func(w *Worker) { w.cfg.Park = d } }

// MaxCrashes sets how many leases of a run may run out in a row, without any
// progress of the run, before it gets a last chance: an execution with nothing else beside
// it in the worker. If that lease runs out, too, the run fails with
// [workflow.CodeCrashed]; no run fails so that was not executed alone. That a step has
// begun is no progress. Default: 10.
//
// A run whose leases ran out twice in a row is a suspect: a worker executes one suspect at
// a time, until its first progress, for a lease or ten seconds at most, whichever is
// shorter. The others are put off, for a time with jitter that grows with their crashes:
// between a tenth of a third of the lease and a bit more than that third, ten seconds at
// most, times the crashes less one.
//
// For a last chance the worker gives back the other runs that it holds, claims nothing, and
// waits for the steps under way: as long as for a turn, and twice as long after each time
// that this was in vain. Others are executed again at the run's first progress, or after a
// turn, which is twice as long for each crash over MaxCrashes, up to 32 times. Afterwards
// they have at least as much time as it took.
func MaxCrashes(n int) Option { return func(w *Worker) { w.cfg.MaxCrashes = n } }

// Name sets the worker's ID, which must be unique among those that are alive.
// Default: host, process id and a random part.
func Name(id string) Option { return func(w *Worker) { w.id = id } }

// StepCall describes an attempt of a step.
type StepCall struct {
	Run      store.ID
	Workflow string
	Key      store.StepKey
	Attempt  int
}

// WrapSteps puts a function around every attempt of every step, for tracing,
// metrics, or stubs in tests. It calls next, or does something else instead; what it
// returns is the attempt's outcome, the payload in the engine's encoding.
func WrapSteps(wrap func(ctx context.Context, step StepCall, next func(context.Context) ([]byte, error)) ([]byte, error)) Option {
	return func(w *Worker) {
		w.cfg.Wrap = func(ctx context.Context, i *exec.StepInfo, next func(context.Context) ([]byte, error)) ([]byte, error) {
			run := i.Inv.Run()
			return wrap(ctx, StepCall{Run: run.ID, Workflow: run.Workflow, Key: i.Key, Attempt: i.Attempt}, next)
		}
	}
}

// Label adds a label to the worker's registration.
func Label(key, value string) Option {
	return func(w *Worker) {
		if w.labels == nil {
			w.labels = make(map[string]string)
		}
		w.labels[key] = value
	}
}

// Logger sets where the worker logs. Default: its engine's logger.
func Logger(l *slog.Logger) Option { return func(w *Worker) { w.log = l } }
