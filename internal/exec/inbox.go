package exec

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Look says what a look at the inbox is for.
type Look struct {
	Signal string // signals of this name alone; empty: of every name
	After  int64  // only signals of a Position above it
	Group  string // this group of children, and no signals; empty: all groups
	State  bool   // the flow state, the whole of it
}

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
// brings. The state is read if somebody needs it.
func (inv *Invocation) lookAtInbox() {
	for range lookTries {
		if inv.lookOnce() {
			return
		}
	}
	inv.Logger().Error("the store does not have all of the run's events any more; the run's lease is given up")
	inv.Lose()
}

// lookTries is how many looks in a row may be overtaken by what the run itself writes.
const lookTries = 10

// lookOnce makes one look; done: none must follow.
func (inv *Invocation) lookOnce() (done bool) {
	inv.mu.Lock()
	inv.looked = time.Now()
	at := inv.flushed
	look := Look{State: inv.readers > 0}
	inv.mu.Unlock()
	box, ok := inv.host.Inbox(inv, look)
	if !ok || box.MoreGroups && !inv.addAwaited(&box) {
		return true
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.closed {
		return true
	}
	if inv.readers > 0 && !look.State {
		return false // somebody has come to need it
	}
	if box.Events < inv.seen { // overtaken by a later look
		return inv.readers == 0 || inv.state != nil
	}
	changed := box.Events > inv.seen || inv.unsure
	inv.seen = box.Events
	inv.takeInLocked(box, look, at)
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
	return true
}

// addAwaited adds to an inbox, whose groups were too many to come at once, those of them
// that somebody waits for; false: the run was given up.
func (inv *Invocation) addAwaited(box *store.Inbox) bool {
	missing := map[string]bool{}
	inv.mu.Lock()
	for w := range inv.waits {
		for _, a := range w.await {
			missing[a.Group] = true
		}
	}
	inv.mu.Unlock()
	for _, g := range box.Groups {
		delete(missing, g.Name)
	}
	for name := range missing {
		one, ok := inv.host.Inbox(inv, Look{Group: name})
		if !ok {
			return false
		}
		box.Groups = append(box.Groups, one.Groups...)
	}
	return true
}

// takeInLocked makes a box's content what the invocation knows. at: how many records
// were durable when it was asked for.
func (inv *Invocation) takeInLocked(box store.Inbox, look Look, at int64) {
	inv.cut = box.MoreSignals
	inv.signals = inv.signals[:0:0]
	inv.addSignalsLocked(box.Signals)
	inv.state = nil
	if look.State {
		inv.state = make(View, len(box.State))
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
	inv.groups, inv.groupsAt, inv.groupsCut = nil, at, box.MoreGroups
	inv.addGroupsLocked(box.Groups)
}

// addSignalsLocked adds those of some unread signals that were not taken.
func (inv *Invocation) addSignalsLocked(signals []store.Signal) {
	for _, s := range signals {
		known := func(o store.Signal) bool { return o.ID == s.ID }
		if !inv.taken[s.ID] && !slices.ContainsFunc(inv.signals, known) {
			inv.signals = append(inv.signals, s)
		}
	}
}

func (inv *Invocation) addGroupsLocked(groups []store.Group) {
	if inv.groups == nil && len(groups) > 0 {
		inv.groups = make(map[string]store.Group, len(groups))
	}
	for _, g := range groups {
		inv.groups[g.Name] = g
	}
}

// seekSignalLocked reads the first signals of a name, where the inbox is too large to be
// known as a whole. It gives up the lock meanwhile.
func (inv *Invocation) seekSignalLocked(name string) {
	inv.flushLocked() // what was taken is not read again
	look := Look{Signal: name}
	for {
		inv.mu.Unlock()
		box, ok := inv.host.Inbox(inv, look)
		inv.mu.Lock()
		inv.exitIfClosedLocked()
		if !ok {
			return
		}
		before := len(inv.signals)
		inv.addSignalsLocked(box.Signals)
		if !box.MoreSignals || len(box.Signals) == 0 || len(inv.signals) > before {
			return
		}
		look.After = box.Signals[len(box.Signals)-1].Position // all of these were passed over
	}
}

// passOverLocked leaves a signal unread that could not be decoded: nobody receives it any
// more before its record is forgotten.
func (inv *Invocation) passOverLocked(id store.SignalID) {
	inv.takeSignalLocked(id)
	inv.passed = append(inv.passed, id)
}

// takeSignalLocked lets no other receive a signal.
func (inv *Invocation) takeSignalLocked(id store.SignalID) {
	if inv.taken == nil {
		inv.taken = make(map[store.SignalID]bool)
	}
	inv.taken[id] = true
	inv.signals = slices.DeleteFunc(slices.Clone(inv.signals), func(s store.Signal) bool { return s.ID == id })
}

// dropPassed consumes the signals that were passed over: the run begins anew, and what
// tells of them is forgotten.
func (inv *Invocation) dropPassed() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	n := min(len(inv.passed), max(0, store.MaxBatch-len(inv.consumed)))
	inv.consumed = append(inv.consumed, inv.passed[:n]...)
}

// seekGroupLocked reads a group that did not come with the others, for there are too
// many of them. It gives up the lock meanwhile.
func (inv *Invocation) seekGroupLocked(name string) {
	if _, known := inv.groups[name]; known || !inv.groupsCut {
		return
	}
	inv.mu.Unlock()
	box, ok := inv.host.Inbox(inv, Look{Group: name})
	inv.mu.Lock()
	inv.exitIfClosedLocked()
	if !ok {
		return
	}
	if len(box.Groups) == 0 { // it has no children yet
		box.Groups = []store.Group{{Name: name}}
	}
	inv.addGroupsLocked(box.Groups)
}

// ReadInbox reads what a look is for. A state that is too large for one answer is
// read in pages, which are of one moment unless it changes again and again meanwhile.
func ReadInbox(ctx context.Context, st store.Store, namespace string, run store.ID, look Look) (box store.Inbox, err error) {
	p := store.InboxParams{Namespace: namespace, Run: run, Name: look.Signal, After: look.After, Group: look.Group, NoState: !look.State, MaxBytes: store.DefaultClaimBytes}
	if look.Group != "" {
		p.After = store.NoSignals
	}
	for range wholeTries {
		if box, err = st.Inbox(ctx, p); err != nil || !box.MoreState {
			return box, err
		}
		for more := true; more; {
			page, err := st.GetState(ctx, store.GetStateParams{
				Namespace: namespace, Run: run, After: box.State[len(box.State)-1].Key, Limit: store.MaxPage, MaxBytes: store.DefaultClaimBytes,
			})
			if err != nil {
				return box, err
			}
			box.State = append(box.State, page...)
			more = len(page) > 0
		}
		box.MoreState = false
		again, err := st.Inbox(ctx, store.InboxParams{Namespace: namespace, Run: run, After: store.NoSignals, NoState: true})
		if err != nil || again.Events == box.Events {
			return box, err
		}
	}
	return box, nil
}

// wholeTries is how often a state that changes while it is read is read again.
const wholeTries = 5
