package exec

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (inv *Invocation) waitsForEventLocked() bool {
	for w := range inv.waits {
		if w.wakes != 0 {
			return true
		}
	}
	return len(inv.watchers) > 0
}

// Heard is the count of the run's events that the invocation knows of.
func (inv *Invocation) Heard() int64 {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.seen
}

// News tells the invocation that its run has had so many events. What came is
// fetched when something waits for it.
func (inv *Invocation) News(events int64) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if events > inv.seen && !inv.closed && inv.waitsForEventLocked() {
		go inv.lookAtInbox()
	}
}

// lookAtInbox reads the run's inbox and lets those go on who wait for what it
// brings.
func (inv *Invocation) lookAtInbox() {
	inv.mu.Lock()
	inv.looked = time.Now()
	at := inv.flushed
	inv.mu.Unlock()
	box, ok := inv.host.Inbox(inv)
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if !ok || inv.closed || box.Events < inv.seen { // too late, or overtaken by a later look
		return
	}
	changed := box.Events > inv.seen || inv.unsure
	inv.seen = box.Events
	inv.takeInLocked(box, at)
	if box.Status == store.Canceling && !inv.canceling {
		inv.cancelLocked()
	}
	if changed {
		inv.stirLocked(^store.WakeOn(0))
	}
	for w := range inv.waits {
		if inv.metLocked(w) {
			w.wake()
		}
	}
}

// takeInLocked makes a box's content what the invocation knows. at: how many records
// were durable when it was asked for.
func (inv *Invocation) takeInLocked(box store.Inbox, at int64) {
	inv.cut = len(box.Signals) >= store.MaxPage
	inv.signals = inv.signals[:0:0]
	for _, s := range box.Signals {
		if !inv.taken[s.ID] {
			inv.signals = append(inv.signals, s)
		}
	}
	inv.state = nil
	if len(box.State) > 0 {
		inv.state = make(map[string]store.StateEntry, len(box.State))
		for _, e := range box.State {
			inv.state[e.Key] = e
		}
	}
	// Whether a commit that is under way is in the box already cannot be known.
	inv.unsure = len(inv.sent) > 0
	if own := slices.Concat(inv.sent, inv.writes); len(own) > 0 {
		inv.learnLocked(own...)
	}
	if at < inv.groupsAt {
		return // a look that was overtaken
	}
	inv.groups, inv.groupsAt = nil, at
	if len(box.Groups) > 0 {
		inv.groups = make(map[string]store.Group, len(box.Groups))
		for _, g := range box.Groups {
			inv.groups[g.Name] = g
		}
	}
}
