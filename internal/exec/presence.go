package exec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// presence decides whether a run must stay in memory. It counts the run's goroutines and
// knows what the waiting ones wait for.
//
// Its methods take no lock; the invocation's mutex guards it.
type presence struct {
	live     int  // goroutines of the run
	blocked  int  // goroutines of these that wait for a time, for an event, or for each other
	pinned   int  // reasons why the run cannot be suspended while it waits
	parked   bool // all goroutines wait, in memory, and the run holds no slot
	draining bool // the lease is to be released before anything new begins

	waits    map[*wait]struct{}  // waits for time and events
	watchers map[*wait]struct{}  // steps that wait for flow state
	joining  map[*Branch]*Branch // branches that wait for the end of another one, or for a promise
}

// verdict is what happens to a run whose goroutines wait.
type verdict uint8

const (
	working     verdict = iota // some goroutine works, or the run is already parked
	deadlock                   // all goroutines wait for each other
	suspend                    // it leaves memory; what it waits for is recorded
	giveBack                   // it leaves memory but cannot be suspended: another worker repeats its operation
	park                       // it stays in memory without a slot
	parkBriefly                // like park, but it is suspended if no event arrives for a while
)

// judge decides what happens to the run. patience is how long a run that only waits stays
// in memory.
func (p *presence) judge(patience time.Duration) verdict {
	switch {
	case p.live == 0 || p.blocked < p.live || p.parked:
		return working
	case len(p.joining) == p.blocked:
		return deadlock
	case p.draining:
		return p.leave()
	case p.pinned > 0 || p.wakesWithin(patience):
		return park
	case p.asks() != nil:
		return suspend
	case p.waitsForWake():
		return parkBriefly
	}
	return suspend
}

// leave returns how a run whose goroutines all wait leaves memory.
func (p *presence) leave() verdict {
	if p.pinned > 0 {
		return giveBack
	}
	return suspend
}

// idle reports whether the run has goroutines, and all of them wait.
func (p *presence) idle() bool { return p.live > 0 && p.blocked == p.live }

// awake reports whether the run does more than wait, or cannot be suspended while it
// waits.
func (p *presence) awake() bool { return p.blocked < p.live || p.pinned > 0 }

// wakesWithin reports whether a wait ends within d.
func (p *presence) wakesWithin(d time.Duration) bool {
	for w := range p.waits {
		if !w.due.IsZero() && time.Until(w.due) <= d {
			return true
		}
	}
	return false
}

// asks returns the wait for permits whose turn it is, or nil.
func (p *presence) asks() (first *wait) {
	for w := range p.waits {
		if w.permits != nil && (first == nil || w.turn < first.turn) {
			first = w
		}
	}
	return first
}

// waitsForWake reports whether a suspended run would be woken by an event.
func (p *presence) waitsForWake() bool {
	for w := range p.waits {
		if w.wakes != 0 {
			return true
		}
	}
	return false
}

// waitsForEvent reports whether any goroutine waits for an event.
func (p *presence) waitsForEvent() bool { return p.waitsForWake() || len(p.watchers) > 0 }

// waitsForChildren reports whether any goroutine waits for ends of children.
func (p *presence) waitsForChildren() bool {
	for w := range p.waits {
		if len(w.await) > 0 {
			return true
		}
	}
	return false
}

// enter records that a goroutine waits for a time or an event.
func (p *presence) enter(w *wait) {
	if p.waits == nil {
		p.waits = make(map[*wait]struct{})
	}
	p.waits[w] = struct{}{}
	p.blocked++
}

// join records that branch b waits for the end of another branch.
func (p *presence) join(b, end *Branch) {
	end.joiners = append(end.joiners, b)
	if p.joining == nil {
		p.joining = make(map[*Branch]*Branch)
	}
	p.joining[b] = end
	p.blocked++
}

// joined records that a branch has ended; branches that waited for it continue.
func (p *presence) joined(end *Branch) {
	p.blocked -= len(end.joiners)
	for _, b := range end.joiners {
		delete(p.joining, b)
	}
	end.joiners = nil
}

// watch records that a step waits for flow state.
func (p *presence) watch(w *wait) {
	if p.watchers == nil {
		p.watchers = make(map[*wait]struct{})
	}
	p.watchers[w] = struct{}{}
}

// wakeAll makes all waiting goroutines check again whether the run is interrupted.
func (p *presence) wakeAll() {
	for w := range p.waits {
		w.wake()
	}
}

// stir wakes the goroutines that wait for such an event.
func (p *presence) stir(by store.WakeOn) {
	for w := range p.waits {
		if w.wakes&by != 0 {
			w.news = true
			w.wake()
		}
	}
	for w := range p.watchers {
		w.wake()
	}
}

// sleep makes the transition of a run in which everything waits. unread says that an
// event has arrived that a waiting goroutine has not seen: then the sleep ends at once.
func (p *presence) sleep() (tr store.Transition, unread bool) {
	tr = store.Transition{Kind: store.Sleep}
	var first time.Time
	for w := range p.waits {
		tr.Wakes |= w.wakes
		tr.Await = append(tr.Await, w.await...)
		if w.news {
			unread = true
			first = time.Now() // the run's own writes, perhaps in this very commit, do not wake it
		}
		if !w.storeDue.IsZero() {
			if tr.At.IsZero() || w.storeDue.Before(tr.At) {
				tr.At = w.storeDue
			}
		} else if !w.due.IsZero() && (first.IsZero() || w.due.Before(first)) {
			first = w.due
		}
	}
	if w := p.asks(); w != nil {
		tr.Under, tr.At, first = w.permits, time.Time{}, time.Now()
	}
	if !first.IsZero() {
		tr.After = max(time.Until(first), time.Microsecond)
	}
	return tr, unread
}

// maxNamed limits how many branches a deadlock's failure names.
const maxNamed = 20

// deadlockFailure is the failure of a run in which every branch waits for another branch
// or for a promise, so that nothing can ever wake it.
func (p *presence) deadlockFailure() *store.Failure {
	waits := make([]string, 0, len(p.joining))
	for b, end := range p.joining {
		waits = append(waits, b.describe()+" waits for "+end.describe())
	}
	slices.Sort(waits)
	if n := len(waits); n > maxNamed {
		waits = append(waits[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	return &store.Failure{Code: CodeDeadlock, Message: "the branches of the run wait for each other, and nothing can wake any of them: " + strings.Join(waits, "; ")}
}
