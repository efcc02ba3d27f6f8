package worker

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// lags is what claims told of runs that wait for a slot.
type lags struct {
	mu   sync.Mutex
	told map[lane]waiting
}

// lane is a workflow in a queue.
type lane struct{ queue, workflow string }

// waiting is how long the oldest run of a lane had been due when it was told.
type waiting struct {
	age  time.Duration
	told time.Time
}

// note keeps what a claim told. Of lanes that it did not ask for, because their limits
// had no room, what was told last goes on.
func (l *lags) note(asked []store.Demand, c store.Claimed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(c.Waiting) > 0 && l.told == nil {
		l.told = make(map[lane]waiting)
	}
	for _, d := range asked {
		for _, queue := range d.Queues() {
			for _, name := range d.Workflows {
				delete(l.told, lane{queue, name})
			}
		}
	}
	for _, wait := range c.Waiting {
		l.told[lane{wait.Queue, wait.Workflow}] = waiting{c.Now.Sub(wait.Since), time.Now()}
	}
}

// of is the lag of a lane; 0: no run of it waits.
func (l *lags) of(queue, workflow string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait, ok := l.told[lane{queue, workflow}]; ok {
		return wait.age + time.Since(wait.told)
	}
	return 0
}

// instrument has the attempts of steps traced and measured, lets children belong to
// their parent's trace, and has counted what cancels of children end.
func (w *Worker) instrument() {
	tel, wrap := w.tel, w.cfg.Wrap
	w.cfg.Meta, w.cfg.Ended = telemetry.Inject, tel.Ended
	w.cfg.Wrap = func(ctx context.Context, s *exec.StepInfo, next func(context.Context) ([]byte, error)) ([]byte, error) {
		if wrap != nil {
			inner := next
			next = func(ctx context.Context) ([]byte, error) { return wrap(ctx, s, inner) }
		}
		return tel.Attempted(ctx, s.Inv.Run(), s.Key, s.Attempt, exec.StepCode, next)
	}
}

// observe shows the worker's slots and what waits for them among the metrics, until
// stop is called.
func (w *Worker) observe() (stop func()) {
	stop, err := w.tel.ObserveWorker(&telemetry.Worker{
		Slots: func() (total, free int64) { return int64(w.concurrency), int64(w.slots.available()) },
		Lags: func() (list []telemetry.Lag) {
			for _, d := range w.demands() {
				for _, queue := range d.Queues() {
					for _, name := range d.Workflows {
						list = append(list, telemetry.Lag{Queue: queue, Workflow: name, Age: w.lags.of(queue, name)})
					}
				}
			}
			return list
		},
	})
	if err != nil {
		w.log.Warn("skipping worker metrics that failed to register", "error", err)
	}
	return stop
}
