package exec

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// inbox is what an invocation knows about what its run has received: the events seen,
// unread signals, flow state, and the counts of its children.
//
// Its methods take no lock; the invocation's mutex guards it.
type inbox struct {
	seen   int64     // the run's count of events that the other fields include
	unsure bool      // the other fields may be older than another party's write that seen does not count
	looked time.Time // when the store was asked last

	signals    []store.Signal          // unread
	signalsCut bool                    // there are more than were read
	taken      map[store.SignalID]bool // consumed or passed over under this lease
	passed     []store.SignalID        // left unread because they could not be decoded

	state   View  // with the run's own writes applied; nil: not read
	readers int   // goroutines that need it
	changes int64 // changes of the state that the invocation knows of

	groups    map[string]store.Group // of the run's children
	groupsCut bool                   // there are more than were read
	groupsAt  int64                  // entries of the outbox that were durable when groups were read
}

// takeIn replaces what is known by the result of a read. own are the run's writes that
// the read may not include; inFlight says whether some of them are in a commit in
// progress. at is how many entries of the outbox were durable when the read began.
func (n *inbox) takeIn(box store.Inbox, look Look, own []store.StateWrite, inFlight bool, at int64) {
	n.signalsCut = box.MoreSignals
	n.signals = n.signals[:0:0]
	n.addSignals(box.Signals)
	n.state = nil
	if look.State {
		n.state = make(View, len(box.State))
		for _, e := range box.State {
			n.state[e.Key] = e
		}
	}
	// Whether the box includes a commit in progress cannot be known.
	n.unsure = inFlight
	n.apply(own)
	if at < n.groupsAt {
		return // a later read was faster
	}
	n.groups, n.groupsAt, n.groupsCut = nil, at, box.MoreGroups
	n.addGroups(box.Groups)
}

// apply applies writes of the run to the state.
func (n *inbox) apply(writes []store.StateWrite) {
	if n.state == nil {
		return
	}
	for i := range writes {
		w := &writes[i]
		if w.Delete {
			delete(n.state, w.Key)
		} else {
			n.state[w.Key] = store.StateEntry{Key: w.Key, Value: w.Value}
		}
	}
}

// need records that a goroutine needs the state, until it calls release.
func (n *inbox) need() { n.readers++ }

func (n *inbox) release() {
	if n.readers--; n.readers == 0 {
		n.state = nil
	}
}

// wrote handles the store's answer to a commit with writes of flow state. The commit's
// own events count as seen if all events before them were. It reports whether the run
// must learn the writes now; the writes of a commit that is not a transaction were
// learned when they were added.
func (n *inbox) wrote(c *store.Commit, res store.CommitResult, inTx bool) (learn bool) {
	count := int64(len(c.State))
	overtaken := res.Events != 0 && res.Events <= n.seen // by a later read
	if !inTx && !res.Repeated && n.seen <= res.Events-count {
		n.unsure = false // what was read meanwhile is from before the commit
	}
	switch {
	case res.Events == 0: // it is unknown when it was applied
		n.unsure = true
	case res.Events > n.seen && (c.Seen+count == res.Events || !res.Repeated && res.Events-count <= n.seen):
		n.seen = res.Events
	}
	return inTx && !overtaken
}

// compared records that a write of the run that compares versions was applied, as the
// event with this count. It reports whether the run must learn the write now.
func (n *inbox) compared(version int64) (learn bool) {
	if version <= n.seen {
		return false
	}
	if version == n.seen+1 {
		n.seen = version
	} else {
		n.unsure = true
	}
	return true
}

// addSignals adds unread signals that are neither taken nor known.
func (n *inbox) addSignals(signals []store.Signal) {
	for _, s := range signals {
		known := func(o store.Signal) bool { return o.ID == s.ID }
		if !n.taken[s.ID] && !slices.ContainsFunc(n.signals, known) {
			n.signals = append(n.signals, s)
		}
	}
}

// signal returns the first unread signal with this name.
func (n *inbox) signal(name string) (s store.Signal, ok bool) {
	i := slices.IndexFunc(n.signals, func(s store.Signal) bool { return s.Name == name })
	if i < 0 {
		return s, false
	}
	return n.signals[i], true
}

// take keeps other goroutines from receiving a signal.
func (n *inbox) take(id store.SignalID) {
	if n.taken == nil {
		n.taken = make(map[store.SignalID]bool)
	}
	n.taken[id] = true
	n.signals = slices.DeleteFunc(slices.Clone(n.signals), func(s store.Signal) bool { return s.ID == id })
}

// untake returns signals that were taken and are not to be consumed. They come before all others,
// because they were the first unread ones of their name.
func (n *inbox) untake(signals []store.Signal) {
	for _, s := range signals {
		delete(n.taken, s.ID)
	}
	n.signals = slices.Concat(signals, n.signals)
}

// passOver leaves a signal unread that could not be decoded. Nobody receives it until its
// record is forgotten.
func (n *inbox) passOver(id store.SignalID) {
	n.take(id)
	n.passed = append(n.passed, id)
}

func (n *inbox) addGroups(groups []store.Group) {
	if n.groups == nil && len(groups) > 0 {
		n.groups = make(map[string]store.Group, len(groups))
	}
	for _, g := range groups {
		n.groups[g.Name] = g
	}
}

// counts returns the counts of a group, and whether they include every child that was
// spawned with the first n entries of the outbox.
func (n *inbox) counts(group string, spawned int64) (g store.Group, known bool) {
	g, read := n.groups[group]
	return g, n.groupsAt >= spawned && (read || !n.groupsCut)
}

// met reports whether a group has reached the counts that a goroutine waits for.
func (n *inbox) met(w *wait) bool {
	for _, a := range w.await {
		g, known := n.counts(a.Group, w.spawned)
		if known && (g.Open <= a.Open || a.Failures > 0 && g.Failed+g.Canceled >= a.Failures) {
			return true
		}
	}
	return false
}
