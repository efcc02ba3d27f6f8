package exec

import (
	"strings"

	"github.com/pawlhq/pawl/store"
)

// misfit is where a history does not fit the code.
type misfit struct {
	step     string // the step, or the line of execution
	expected string // what the code asks for
	found    string // what the history has
}

// maxPinText bounds each text of a pin's reason; the four stay within [store.MaxPin].
const maxPinText = store.MaxPin / 4

// pinText cuts a text to what a pin holds.
func pinText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= maxPinText {
		return s
	}
	return strings.ToValidUTF8(s[:maxPinText-3], "") + "..."
}

// pinFor is the pin with which the run is given back, to the build that recorded its last
// step: that build has replayed all steps before it, so that the history fits its code. It is
// nil if this code has no build, or if no other build has recorded the history, so that the code itself is to blame.
func (inv *Invocation) pinFor(m misfit) *store.Pin {
	recorder := inv.run.Build
	if recorder == "" || inv.cfg.Build == "" || recorder == inv.cfg.Build {
		return nil
	}
	return &store.Pin{Build: recorder, By: pinText(inv.cfg.Build), Step: pinText(m.step), Expected: pinText(m.expected), Found: pinText(m.found)}
}

// misfitsLocked ends the execution of a run whose history does not fit the code: the run is
// given back to the build that recorded the history, or fails if there is no other.
func (inv *Invocation) misfitsLocked(m misfit, why *store.Failure) {
	if !inv.ending.closed {
		inv.ending.at = m.step
	}
	pin := inv.pinFor(m)
	if pin == nil {
		inv.failLocked(why)
		return
	}
	if !inv.ending.closed {
		inv.ending.pin = pin
		inv.closeLocked(byMisfit)
		inv.cancel(errEnded)
	}
}

// returnedEarlyLocked ends a run of which a function has returned before its history ends.
func (inv *Invocation) returnedEarlyLocked(who string, next store.StepKey) {
	inv.misfitsLocked(misfit{step: next.String(), expected: "the end of " + who, found: "step " + next.String()},
		inv.misfitLocked("%s returned, but the history continues with %s", who, next))
}

// giveBackFor gives the run back if what cannot be decoded was recorded by another build, and
// ends the goroutine then.
func (inv *Invocation) giveBackFor(err error) {
	given := false
	inv.locked(func() {
		if given = inv.pinFor(misfit{}) != nil; given {
			inv.misfitsLocked(misfit{expected: "a payload that the code can decode", found: err.Error()}, nil)
		}
	})
	if given {
		inv.exitIfClosed()
	}
}

// giveBack ends the lease and pins the run. What was done since the last commit is not
// recorded: the commit has nothing but the pin.
func (inv *Invocation) giveBack(pin *store.Pin) {
	tr := store.Transition{Kind: store.GiveBack}
	c := store.Commit{Lease: inv.lease, Pin: pin, Transition: &tr}
	first, lost, crashes := false, false, 0
	inv.locked(func() {
		if first = inv.ending.finish(); !first {
			return
		}
		crashes = inv.outbox.crashes
		for inv.outbox.sending {
			inv.changed.Wait()
		}
		lost = inv.ending.reason == byLoss
		c.Seq, c.Seen = inv.outbox.next(), inv.inbox.seen
		inv.endedLocked()
	})
	switch {
	case !first:
		return
	case lost:
		inv.host.Closed(inv, End{Err: ErrLeaseLost})
		return
	}
	if crashes >= aloneMark { // whoever takes the run does not execute it alone
		inv.host.Commit(&store.Commit{Lease: c.Lease, Seq: c.Seq, Seen: c.Seen, Crashes: crashes % aloneMark})
		c.Seq++
	}
	res := inv.host.Commit(&c)
	inv.host.Closed(inv, End{Status: res.Status, Transition: tr, Pin: pin, At: inv.ending.at, Err: res.Err})
}

// Fresh reports whether nothing is recorded of the run yet, and it is neither pinned nor
// canceled.
func (inv *Invocation) Fresh() bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.run.Pin == nil && inv.run.Build == "" && inv.history.empty() && !inv.interruption.any()
}

// Leave gives a run that was not begun to another build, as the pin says.
func (inv *Invocation) Leave(pin *store.Pin) {
	inv.locked(func() { inv.closeLocked(byMisfit) })
	inv.cancel(ErrShutdown)
	inv.giveBack(pin)
}

// Unpinned notes that the run was unpinned before it was begun.
func (inv *Invocation) Unpinned() { inv.locked(func() { inv.run.Pin = nil }) }

// keep adds the pin to a commit of a run whose workflow asks to stay on the build that has
// started it, until the run has it.
func (inv *Invocation) keep(c *store.Commit) {
	t := c.Transition
	if inv.def.Pinned && inv.run.Pin == nil && inv.cfg.Build != "" && (t == nil || !t.Kind.Final() && t.Kind != store.Continue) {
		c.Pin = &store.Pin{Build: inv.cfg.Build}
	}
}
