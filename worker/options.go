package worker

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Option configures a worker. If a value is out of range, [Worker.Run] fails with store.ErrInvalid.
type Option func(*Worker)

// Concurrency sets how many runs execute at the same time. A run that sleeps or waits does
// not count. n must be at least 1. The default is 100.
func Concurrency(n int) Option { return func(w *Worker) { w.concurrency = n } }

// Limit bounds how many runs of a workflow execute at the same time in this worker, within
// [Concurrency]. Use it for a workflow that is heavy, or that uses a scarce resource. Runs
// beyond the limit wait in the store, where other workers find them, and take no slot from
// other workflows. The workflow is named as in the store, with its version. It must be
// registered with the worker, and n must be at least 1. By default only Concurrency limits it.
func Limit(workflow string, n int) Option {
	return func(w *Worker) {
		if w.limits == nil {
			w.limits = make(map[string]int)
		}
		w.limits[workflow] = n
	}
}

// Memory bounds the bytes of payloads that the worker holds: the inputs, histories and
// signals that came with the runs in execution, and what waits to be committed. When the bound
// is reached, the worker claims nothing until runs end. When commits alone reach half of
// it, steps wait before they begin. One run is always allowed. The bound must be at least 1. The
// default is 32 MB.
//
// Values that code decodes from payloads, and the outputs of steps that are running
// already, are not counted; of outputs these are at most the payload limit for each of [Concurrency]
// runs.
func Memory(bytes int) Option { return func(w *Worker) { w.memory.limit = bytes } }

const defaultMemory = 32 << 20

// Lease sets how long the worker's right to a run lasts without renewal. A run whose worker
// has died continues on another worker after that time. The worker renews its leases every third of
// it. d must be at least 10 ms. The default is 30 s.
func Lease(d time.Duration) Option { return func(w *Worker) { w.leaseFor = d } }

// Grace sets how long a worker that shuts down waits for running steps. The runs that remain then
// are given back, and other workers continue them at once; their running steps are executed again.
// With 0 or less the worker does not wait. The default is 20 s.
func Grace(d time.Duration) Option { return func(w *Worker) { w.grace = d } }

// Poll sets how often the worker looks for work that no hint has reported. d must be above 0. The
// default is 1 s. If the store gives hints, it is 5 s, and 10 s once nothing was found for a minute.
func Poll(d time.Duration) Option { return func(w *Worker) { w.poll, w.restPoll = d, d } }

// Park sets how long a run that only waits is kept in memory before it is suspended. It
// holds no slot in that time. With 0 or less it is suspended at once. The default is 100 ms.
func Park(d time.Duration) Option { return func(w *Worker) { w.cfg.Park = d } }

// MaxCrashes sets how many leases of a run may run out in a row, without any progress of
// the run, before the run gets a last chance: an execution with nothing else beside it in
// the worker. If that lease runs out as well, the run fails with [workflow.CodeCrashed]. No
// run fails this way that was not executed alone. The beginning of a step is no progress.
// The default is 10; less than 1 counts as 1.
//
// A run whose leases ran out twice in a row is a suspect. A worker executes one suspect at a
// time. The suspect's turn ends with its first progress, or after the duration of a lease, ten
// seconds at most. The worker postpones its other suspects by a random time, which grows with their
// crashes: up to about a third of a lease (ten seconds at most), times the crashes less one (ten
// times at most).
//
// For a last chance the worker gives back the other runs that it holds, claims nothing, and waits
// for their running steps: for the duration of a turn, and twice as long after each time that the
// steps did not end. The worker executes other runs again at the run's first progress, or after a
// turn; here a turn is twice as long for each crash above MaxCrashes, up to 32 times. After that, at
// least as much time passes before the next last chance.
func MaxCrashes(n int) Option { return func(w *Worker) { w.cfg.MaxCrashes = n } }

// Build names the build of the code that the worker runs, such as a version: "v1.4.2". Workers
// of one build run the same code. The default is the first 12 digits of the VCS revision that the
// program was built from, or of a hash of the executable if there is none or the tree was modified.
// Each lease stores the name, so a long one costs room.
//
// A run whose history does not fit the code is given back, and from then on only workers of
// the build that recorded its last step claim it: see [store.Pin]. If the worker is of that very
// build, the code is not deterministic, and the run fails. With one name for all builds, such
// as "dev", a run that does not fit the code therefore fails at once.
//
// Workers with an empty build claim no pinned run, and fail a run that does not fit.
func Build(name string) Option { return func(w *Worker) { w.cfg.Build = name } }

// Share makes the worker take only this share of the new runs, above 0 and at most 1: 0.1 is a
// tenth. Use it to try a new build before it takes all runs. The default is 1.
//
// A run is new until its first step is recorded. A hash of its ID decides, so that the same runs
// are within a share everywhere, and remain so when the share is raised. A new run that is not
// within the share is given back and pinned to another build that has an online worker for its
// workflow and queue, if there is one: see [store.Pin]. Otherwise the worker takes it. The pin ends
// when a worker of that build claims the run. It also ends when that build has no such worker any
// more: workers with a share check that every 10 s, and all workers together every 5 minutes.
// Runs that are not new are claimed by any build.
//
// All workers of a build should have the same share. A worker with a share needs a build. Its
// registration has the label pawl.share.
func Share(share float64) Option {
	return func(w *Worker) { w.ramp.share, w.ramp.given = share, true }
}

// ID sets the worker's ID, which must be unique among those that are alive. The default
// consists of the host, the process id and a random part. It must be a valid name: see
// [store.ValidateName].
func ID(id string) Option { return func(w *Worker) { w.id = id } }

// StepCall describes an attempt of a step, for the function of [WrapSteps].
type StepCall struct {
	Run      store.ID
	Workflow string // with its version
	Key      store.StepKey
	Attempt  int // from 1
}

// WrapSteps puts a function around every attempt of every step, for tracing, metrics, or
// stubs in tests. The function calls next, or does something else instead. What it returns
// is the attempt's outcome: the payload in the engine's encoding, or an error. It is called by
// several goroutines concurrently. If the option is given more than once, the last one counts.
func WrapSteps(wrap func(ctx context.Context, step StepCall, next func(context.Context) ([]byte, error)) ([]byte, error)) Option {
	return func(w *Worker) {
		w.cfg.Wrap = func(ctx context.Context, i *exec.StepInfo, next func(context.Context) ([]byte, error)) ([]byte, error) {
			run := i.Inv.Run()
			return wrap(ctx, StepCall{Run: run.ID, Workflow: run.Workflow, Key: i.Key, Attempt: i.Attempt}, next)
		}
	}
}

// Label adds a label to the worker's registration, where [engine.Engine.Workers] shows it.
func Label(key, value string) Option {
	return func(w *Worker) {
		if w.labels == nil {
			w.labels = make(map[string]string)
		}
		w.labels[key] = value
	}
}

// Logger sets where the worker logs. The default, also for nil, is its engine's logger.
func Logger(l *slog.Logger) Option { return func(w *Worker) { w.log = cmp.Or(l, w.eng.Logger()) } }
