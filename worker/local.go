package worker

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// local is the worker as the engine of its process sees it, which gives it the runs that it
// starts.
type local struct{ w *Worker }

// Reserve implements [bridge.LocalWorker].
func (l local) Reserve(queue, workflow string) bool {
	w := l.w
	def := w.defs[workflow]
	if def == nil || def.Queue != queue && !slices.Contains(w.queues, queue) || w.suspects.apart(nil) || !w.ledger.sound(time.Now()) || w.memory.left() <= 0 {
		return false
	}
	if w.ramp.partial() && w.ramp.target(queue, workflow) != "" {
		return false // the run is claimed, where the share decides
	}
	return w.slots.takeIdle(workflow)
}

// Holds implements [bridge.LocalWorker].
func (l local) Holds(id store.ID) bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.held[id] != nil
}

// Identity implements [bridge.LocalWorker].
func (l local) Identity() (worker, build string, leaseFor time.Duration) {
	return l.w.id, l.w.cfg.Build, l.w.leaseFor
}

// Adopt implements [bridge.LocalWorker]. A start that is repeated gives the same lease
// again, and its answer may come after the run was claimed here.
func (l local) Adopt(cr *store.ClaimedRun, asked time.Time) {
	w := l.w
	inv := w.admit(cr, asked, time.Now(), cr.Run.CreatedAt, byStart)
	switch {
	case inv == nil:
	case w.suspects.apart(inv):
		giveBack([]*exec.Invocation{inv})
	default:
		go w.executeRun(inv)
	}
}

// Release implements [bridge.LocalWorker].
func (l local) Release(workflow string) { l.w.slots.release(workflow) }
