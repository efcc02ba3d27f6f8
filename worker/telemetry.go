package worker

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/internal/telemetry"
	"github.com/pawlhq/pawl/store"
)

// lag is what a claim told of runs that it could not take.
type lag struct {
	oldest time.Duration // how long the oldest of them had been due
	told   time.Time
}

// noteLag keeps what a claim told of runs that wait for a slot.
func (w *Worker) noteLag(c store.Claimed) {
	if c.NextDue.IsZero() || !c.NextDue.Before(c.Now) {
		w.lag.Store(nil)
		return
	}
	w.lag.Store(&lag{oldest: c.Now.Sub(c.NextDue), told: time.Now()})
}

// instrument has the attempts of steps traced and measured, lets children belong to
// their parent's trace, and shows the worker's slots among the metrics.
func (w *Worker) instrument() {
	tel, wrap := w.tel, w.cfg.Wrap
	w.cfg.Meta = telemetry.Inject
	w.cfg.Wrap = func(ctx context.Context, s *exec.StepInfo, next func(context.Context) ([]byte, error)) ([]byte, error) {
		if wrap != nil {
			inner := next
			next = func(ctx context.Context) ([]byte, error) { return wrap(ctx, s, inner) }
		}
		return tel.Attempted(ctx, s.Inv.Run().Workflow, s.Key, s.Attempt, next)
	}
	err := tel.ObserveWorker(w.id,
		func() (total, free int64) { return int64(w.concurrency), int64(w.slots.available()) },
		func() time.Duration {
			if l := w.lag.Load(); l != nil {
				return l.oldest + time.Since(l.told)
			}
			return 0
		})
	if err != nil {
		w.log.Warn("the worker's metrics cannot be had", "error", err)
	}
}
