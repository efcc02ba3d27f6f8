package worker

import (
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// passing is a slot that is kept for the run to which a commit may pass the permits of its run on.
type passing struct {
	w        *Worker
	workflow string
	asked    time.Time
}

// passOn asks the store to pass the permits of a run on, if the commit ends the run and this worker can
// execute another one at once.
func (w *Worker) passOn(c *store.Commit) *passing {
	t := c.Transition
	if t == nil || t.Kind != store.CompleteRun && t.Kind != store.FailRun {
		return nil
	}
	w.mu.Lock()
	inv, draining := w.held[c.Lease.Run], w.draining
	w.mu.Unlock()
	if inv == nil || inv.Lease() != c.Lease || len(inv.Run().Under) == 0 || draining || !w.lost.certain(true, patience) {
		return nil
	}
	run := inv.Run()
	if !(local{w}).Reserve(run.Queue, run.Workflow) {
		return nil
	}
	t.PassOn = w.leaseFor
	return &passing{w: w, workflow: run.Workflow, asked: time.Now()}
}

// take executes the run that has got the permits, or gives the slot back. A lease that may have expired before the
// answer arrived is left to expire.
func (p *passing) take(next *store.ClaimedRun) {
	if p == nil {
		return
	}
	w := p.w
	if next == nil || time.Since(p.asked) >= w.leaseFor {
		w.slots.release(p.workflow)
		return
	}
	inv := w.admit(next, p.asked, time.Now(), next.Run.VisibleAt.Add(-w.leaseFor), byPass)
	switch {
	case inv == nil:
	case inv.Suspicion() != exec.Unsuspected, inv.Run().Pin != nil && inv.Run().Pin.Ramp, w.suspects.apart(inv):
		giveBack([]*exec.Invocation{inv}) // claims take it with care
	default:
		go w.executeRun(inv)
	}
}
