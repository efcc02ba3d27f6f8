package worker

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/store"
)

// breathe is how long the claimer waits for more free slots if work waits and only a few
// slots are free: many tiny claims cost more than they bring.
const breathe = time.Millisecond

// claimer claims due runs and starts them. It belongs to the goroutine of claimLoop.
type claimer struct {
	*Worker
	demands []demand
	timer   *time.Timer   // fires when it is time for the next claim
	more    bool          // due work was not claimed for lack of slots or memory
	backoff time.Duration // after the last failure; 0: it succeeded
	portion portion
	took    time.Duration   // the duration of the last claim
	renewed <-chan struct{} // waited for while no lease is known to be valid
}

// claimLoop claims and starts runs until ctx ends. If a caller waits for idleness
// (RunUntilIdle), it also ends when nothing is left to do.
func (w *Worker) claimLoop(ctx context.Context) (found idle) {
	c := &claimer{Worker: w, demands: w.demands(), timer: time.NewTimer(atOnce), more: true}
	defer c.timer.Stop()
	for !found.reached && c.await(ctx) {
		if !c.mayClaim() {
			continue
		}
		if n := c.take(); n > 0 {
			found = c.look(ctx, n)
		}
	}
	return found
}

// await waits until there is a reason to claim; false: ctx has ended.
func (c *claimer) await(ctx context.Context) bool {
	for {
		select {
		case <-ctx.Done():
		case <-c.timer.C:
		case <-c.renewed: // if the store is slow, leases are known to be valid only for moments
		case <-c.wake:
		case <-c.emptied:
		case <-c.freed:
			if !c.more {
				continue
			}
			if c.slots.available() < max(1, c.concurrency/4) && !sleep(ctx, breathe) {
				return false
			}
		}
		return ctx.Err() == nil
	}
}

// mayClaim reports whether the state of the runs that the worker holds is known. If it is
// not, the worker renews the leases first. Otherwise it might take over its own runs.
func (c *claimer) mayClaim() bool {
	if !c.ledger.sound(time.Now()) {
		// Leases may have expired: the process was stopped, or the store was unreachable.
		c.renewed = c.ledger.wait()
		signal(c.renew)
		c.timer.Reset(c.leaseFor / 10)
		return false
	}
	c.renewed = nil
	if !c.lost.certain(len(c.leased()) > 0, patience) {
		signal(c.renew) // which wakes this loop
		c.timer.Reset(c.leaseFor / 10)
		return false
	}
	return true
}

// take takes slots for the next claim; 0: there is no room for another run.
func (c *claimer) take() (n int) {
	if c.memory.left() > 0 || len(c.holding()) == 0 {
		n = c.slots.take(c.portion.runs(c.concurrency))
	}
	if n == 0 {
		c.more = true // freed slots trigger the next claim
		c.slots.setBacklog(true)
		c.timer.Reset(c.poll)
	}
	return n
}

// look claims up to n runs, starts them, and sets the time of the next claim. It reports
// idleness if a caller waits for it.
func (c *claimer) look(ctx context.Context, n int) (found idle) {
	resting := c.emptied != nil && len(c.holding()) == 0
	asked := time.Now()
	defer c.lost.claims()()
	claimed, err := c.claim(ctx, c.demands, n, c.portion, c.longer(c.took))
	answered := time.Now()
	c.took = answered.Sub(asked)
	c.slots.give(n - len(claimed.Runs))
	if err != nil {
		if ctx.Err() == nil {
			c.callFailed()
			c.more = false // the timer triggers the next claim; the returned slots must not
			c.portion.failed()
			wait := c.backOff()
			c.log.Error("claim failed; retrying with fewer runs", "runs", n, "in", wait, "error", err)
		}
		return found
	}
	c.backoff = 0
	if c.tooLate(asked, answered) {
		c.portion.failed()
	} else {
		c.portion.succeeded()
	}
	if ctx.Err() != nil {
		c.drain() // they are released
	}
	c.execute(ctx, &claimed, asked, answered)
	if resting && len(claimed.Runs) == 0 && (claimed.NextDue.IsZero() || claimed.NextDue.After(claimed.Now)) {
		return c.settle(ctx, &claimed, answered)
	}
	c.rest(&claimed, n)
	return found
}

// backOff sets the next claim to a later time after each failure, and returns how long it
// will take.
func (c *claimer) backOff() time.Duration {
	c.backoff = min(max(2*c.backoff, 10*time.Millisecond), 5*time.Second)
	c.timer.Reset(c.backoff)
	return c.backoff
}

// settle fires the schedules that are due when nothing else is left to do. If none is, the
// worker is idle.
func (c *claimer) settle(ctx context.Context, claimed *store.Claimed, answered time.Time) (found idle) {
	fired, next, err := c.fireDue(ctx)
	switch {
	case fired:
		c.timer.Reset(atOnce)
		return found
	case err != nil:
		if ctx.Err() == nil {
			wait := c.backOff()
			c.log.Error("failed to fire schedules; retrying", "in", wait, "error", err)
		}
		return found
	}
	found.reached, found.next = true, next
	if !claimed.NextDue.IsZero() {
		found.next = earliest(next, answered.Add(claimed.NextDue.Sub(claimed.Now)))
	}
	return found
}

// rest sets the time of the next claim after one of n slots.
func (c *claimer) rest(claimed *store.Claimed, n int) {
	wait := c.poll
	if len(claimed.Runs) == 0 && c.atRest() {
		wait = c.restPoll
	}
	c.more = false
	if !claimed.NextDue.IsZero() {
		due := claimed.NextDue.Sub(claimed.Now)
		if due <= 0 {
			c.more = len(claimed.Runs) == n
			due = breathe
		}
		wait = min(wait, due)
	}
	c.slots.setBacklog(c.more)
	if c.more {
		if c.slots.available() > 0 {
			signal(c.wake)
		}
		wait = c.poll
	}
	c.timer.Reset(wait)
}
