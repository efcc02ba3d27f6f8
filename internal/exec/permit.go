package exec

import (
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// A step under a limit needs permits beside those of its run. The lease gets them with the claim:
// a run whose step has no permit is suspended, and the sleep says which permits it waits for. So a
// run never waits while it holds a permit that another run waits for.
//
// A lease has the permits of one step. The next step that asks for the same ones takes them over,
// whichever branch it is in, and they end with its record. Steps of other branches wait meanwhile,
// and one of them at a time asks: the one that has waited longest when the run has nothing else to
// do. A store does not let canceled runs wait for permits: their cleanups need none.

// permits are those of the run's step. Its methods take no lock; the invocation's mutex guards it.
type permits struct {
	granted []store.LimitUse // what the lease has; nil: nothing
	taken   bool             // a step has taken it over
	waited  int64            // waits so far
}

// take gives a step the permits of the lease if they are what it needs; false: it must ask.
func (p *permits) take(need []store.LimitUse) bool {
	if p.taken || p.granted == nil || !slices.Equal(p.granted, need) {
		return false
	}
	p.taken = true
	return true
}

// StepLimit is a limit that a step is under.
type StepLimit struct {
	Use  store.LimitUse
	Rule store.LimitRule // as the code defines it
}

// permitLocked gets the permits of a step's attempt. It ends the goroutine if the run is suspended
// for them. held says that the attempt has permits, which end with its record.
func (o *op) permitLocked(limits []StepLimit) (held bool, err error) {
	inv := o.b.inv
	need, err := inv.furtherUses(o.key, limits)
	if len(need) == 0 || err != nil || inv.interruption.canceled { // a canceled run cleans up without
		return false, err
	}
	for first := true; !inv.permits.take(need); first = false {
		if first {
			inv.declareLocked(limits)
		}
		inv.permits.waited++
		if err := o.b.waitLocked(&wait{permits: need, turn: inv.permits.waited}); err != nil {
			return false, err
		}
	}
	return true, nil
}

// furtherUses returns the uses of a step's limits that its run is not under.
func (inv *Invocation) furtherUses(key store.StepKey, limits []StepLimit) (need []store.LimitUse, err error) {
	for _, l := range limits {
		i := slices.IndexFunc(inv.run.Under, func(u store.LimitUse) bool { return u.Limit == l.Use.Limit })
		if i < 0 {
			need = append(need, l.Use)
		} else if own := inv.run.Under[i].Key; own != l.Use.Key {
			return nil, store.Invalid("step "+key.String(), fmt.Sprintf("it is under limit %q with key %q, but its run is under the same limit with key %q", l.Use.Limit, l.Use.Key, own))
		}
	}
	if err := store.CheckUses(inv.run.Under, need); err != nil {
		return nil, fmt.Errorf("step %s: %w", key, err)
	}
	return store.SortUses(need), nil
}

// declareLocked registers the limits of a step. If the run was closed in the meantime, it ends the
// goroutine.
func (inv *Invocation) declareLocked(limits []StepLimit) {
	defs := make([]store.Limit, len(limits))
	for i, l := range limits {
		defs[i] = store.Limit{Name: l.Use.Limit, Rule: l.Rule}
	}
	inv.unlocked(func() {
		if !inv.host.Declare(inv, defs) {
			inv.Lose() // has no effect if the invocation has already ended
			exit()
		}
	})
	inv.exitIfClosedLocked()
}

// freeLocked ends the permits of the step with the next commit, which is sent soon.
func (inv *Invocation) freeLocked() {
	inv.permits = permits{waited: inv.permits.waited}
	inv.outbox.freePermits()
	inv.lingerLocked()
}
