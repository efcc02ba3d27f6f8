package exec

import (
	"math"
	"time"

	"github.com/pawlhq/pawl/store"
)

// front guards the end of a history that the code may not fit, because another build has
// recorded it. Until the code has come to everything that is recorded, no step begins, the code
// learns no outcome that is not recorded, and nothing is committed. So a run that turns out not
// to fit is given back as it was, and the build that recorded a run's last step is one
// whose code fits all of its history.
//
// The invocation's mutex guards it.
type front struct {
	guarded bool
	lapsed  bool // the guard was given up, because the replay did not get on
	held    int  // goroutines that wait at the front
	fresh   int  // of these, the ones that do something of which nothing is recorded
	left    int  // what was left of the history when the timer last fired
	timer   *time.Timer
}

// replayPatience is how long a replay may stand still before its front is not guarded any
// more. Code can stop a replay without the engine's knowledge, by a mutex of its own for
// instance, that a branch holds which waits at the front.
const replayPatience = 10 * time.Second

// guardLocked guards the front of a history that another build has recorded, or that is
// only checked.
func (inv *Invocation) guardLocked() {
	if inv.front.guarded = inv.cfg.Check || inv.pinFor(misfit{}) != nil; inv.front.guarded {
		inv.history.replayed = inv.openLocked
		inv.front.left = -1
		inv.front.timer = time.AfterFunc(replayPatience, inv.lapse)
	}
}

// lapse gives the guard up if the code has come to nothing since it was last called.
func (inv *Invocation) lapse() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	switch f := &inv.front; {
	case !inv.replayingLocked():
	case f.left != inv.history.left:
		f.left = inv.history.left
		f.timer.Reset(replayPatience)
	default:
		f.lapsed = true
		inv.openLocked()
	}
}

// openLocked lets the goroutines that wait at the front go on.
func (inv *Invocation) openLocked() {
	inv.presence.blocked -= inv.front.held
	inv.front.held, inv.front.fresh = 0, 0
	inv.changed.Broadcast()
}

// replayingLocked reports whether the code has not come to everything that is recorded, and
// must come to it before anything new. A run that is interrupted takes another path.
func (inv *Invocation) replayingLocked() bool {
	f := &inv.front
	return f.guarded && !f.lapsed && !inv.ending.closed && !inv.interruption.any() && (inv.history.left > 0 || inv.history.more)
}

// awaitFrontLocked holds a goroutine of the run until the code has come to everything that
// is recorded. fresh says that the goroutine does something of which nothing is recorded.
func (inv *Invocation) awaitFrontLocked(fresh bool) {
	for inv.replayingLocked() {
		if inv.history.more {
			inv.loadStepsLocked()
			continue
		}
		inv.front.held++
		if fresh {
			inv.front.fresh++
		}
		inv.blockLocked()
		for inv.replayingLocked() {
			inv.changed.Wait()
		}
	}
	inv.exitIfClosedLocked()
}

// missedLocked ends the execution of a run in which everything waits for what is not recorded,
// although the history has a branch that the code has not forked, or goes on in a branch that waits
// for another one: the history does not fit. It reports whether the run has ended or goes on, and
// does not wait.
//
// Otherwise the front is opened. The code may rightly wait before it comes to all that is
// recorded of the branches that it has forked: branches may race, and one that won the last
// time may have to do something new before it wins again. A retry and a restart forget failed
// operations, also those whose errors the code had handled. The code does them again before
// it comes to what followed.
func (inv *Invocation) missedLocked() bool {
	if !inv.presence.idle() || inv.history.more || !inv.replayingLocked() {
		return false
	}
	if key, who, early := inv.joinsTooEarlyLocked(); early {
		inv.misfitsLocked(misfit{key.String(), "the end of " + who, "step " + key.String()},
			inv.misfitLocked("the code waits for the end of %s, but the history continues with %s", who, key))
		return true
	}
	key, position, missed := inv.history.unforked()
	if !missed || (inv.run.Attempt > 1 || inv.history.forgot()) && inv.history.gap(0, position) {
		inv.front.lapsed = true
		inv.openLocked()
		return !inv.presence.idle()
	}
	inv.misfitsLocked(misfit{key.String(), "an operation that is not recorded", "step " + key.String()},
		inv.misfitLocked("the code waits for operations that are not recorded, and has not come to the branch of step %s, which is", key))
	return true
}

// joinsTooEarlyLocked returns a branch that waits for the end of another one, although it has
// recorded a later operation. The code that recorded it did not wait there, if the other branch can
// end only by what was under way then. That is not known while a branch does something of which
// nothing is recorded, or again what was forgotten. The branches of a graph are left out: a node
// that the end of its flow overtakes waits for ever, whatever is recorded of it.
func (inv *Invocation) joinsTooEarlyLocked() (key store.StepKey, who string, early bool) {
	if inv.front.fresh > 0 || inv.run.Attempt > 1 || inv.history.loose || inv.history.forgot() {
		return key, "", false
	}
	at := int64(math.MaxInt64)
	for b, end := range inv.presence.joining {
		if k, position, ok := inv.history.rest(b.path, b.next); ok && position < at {
			key, at, who, early = k, position, end.describe(), true
		}
	}
	return key, who, early
}

// waitsTooEarlyLocked is called before a branch waits for something whose end is not recorded. If
// another build has recorded a later operation of the same branch, its code did not wait here: the
// history does not fit, whether that end comes or not. It ends the goroutine then.
func (b *Branch) waitsTooEarlyLocked(what string) {
	inv := b.inv
	for inv.replayingLocked() {
		if key, _, ok := inv.history.rest(b.path, b.next); ok {
			inv.mismatchLocked(misfit{key.String(), what, "step " + key.String()},
				"the code waits for operations that are not recorded (%s), but the history continues with %s", what, key)
		}
		if !inv.history.more {
			return
		}
		inv.loadStepsLocked()
	}
}

// counts reports whether code that fits the history comes to a recorded operation. It may
// leave out marks, and branches of cleanups: see lieAhead.
func counts(s *store.Step) bool { return s.Name != "" && !isDeprecated(s) && !ofCleanup(s.Branch) }
