package exec

import "github.com/pawlhq/pawl/store"

// A run whose leases run out one after the other, without progress in between, kills or
// blocks its worker, or stands beside one that does. [store.Run.Crashes] counts those
// leases, and a worker acts on the count: see [Config.Suspicion]. While it executes the
// run and nothing else, it keeps aloneMark with the count. Whoever claims the run next
// finds the mark if that lease has run out, too: then no neighbor was the cause.

// aloneMark is above every count.
const aloneMark = 1 << 20

// Crashes tells how many leases of a run have run out in a row without progress, and
// whether its worker executed nothing else under the last of them.
func Crashes(r *store.Run) (n int, alone bool) { return r.Crashes % aloneMark, r.Crashes >= aloneMark }

// Suspicion is what a run's crashes make of it.
type Suspicion uint8

// The degrees of suspicion.
const (
	Unsuspected Suspicion = iota
	Suspect               // executed while no other suspect is, in the same worker
	LastChance            // executed while nothing else is, in the same worker
	Guilty                // not executed any more
)

// suspectFrom is how many crashes in a row make a suspect. One crash is an accident.
const suspectFrom = 2

// Suspicion says how a run is to be treated.
func (c *Config) Suspicion(r *store.Run) Suspicion {
	n, alone := Crashes(r)
	switch {
	case n > c.MaxCrashes && alone:
		return Guilty
	case n >= max(c.MaxCrashes, 1):
		return LastChance
	case n >= suspectFrom:
		return Suspect
	default:
		return Unsuspected
	}
}

// Suspicion says how the run is to be treated. One that is not to be executed at all is
// above suspicion.
func (inv *Invocation) Suspicion() Suspicion {
	if inv.refuse() != nil {
		return Unsuspected
	}
	return inv.cfg.Suspicion(&inv.run)
}

// Mark makes durable that the run is executed alone from now on, or not any more, unless
// the store has it so or the run has made progress. It returns once that is done, or the
// invocation was closed.
func (inv *Invocation) Mark(alone bool) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for inv.outbox.busy() && !inv.ending.closed {
		inv.changed.Wait()
	}
	n := inv.outbox.crashes % aloneMark
	if alone {
		n += aloneMark
	}
	if inv.ending.closed || inv.outbox.crashes == 0 || inv.outbox.crashes == n {
		return
	}
	inv.outbox.crashes = n
	inv.commitLocked()
}

// isProgress reports whether a commit shows that the run gets on. That a step has begun
// does not, and neither does a release, a wait for permits, or a run that is given back.
func isProgress(c *store.Commit) bool {
	if len(c.State) > 0 || len(c.Consumed) > 0 || len(c.Answers) > 0 || len(c.Spawn) > 0 || c.Tags != nil || c.Transition != nil && c.Transition.Kind != store.Release && c.Transition.Kind != store.GiveBack && len(c.Transition.Under) == 0 {
		return true
	}
	for i := range c.Steps {
		if c.Steps[i].Kind != store.KindFunction || c.Steps[i].Status != store.StepRunning {
			return true
		}
	}
	return false
}
