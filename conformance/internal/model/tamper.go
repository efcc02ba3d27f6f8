package model

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Row is a run as it is stored. All of it can be written to.
type Row struct {
	*store.Run
	Seq     *int64          // of the last commit applied under the present lease
	Steps   *[]store.Step   // by Position
	Signals *[]store.Signal // unread, in the order of sending
	Groups  map[string]*store.Group
	Awaits  *[]store.Await // of the sleep under way
	Answers map[store.SignalID]store.GivenAnswer
	Items   *[]store.StreamItem // of the streams
}

// Tamper calls do on a stored run, and do may write what no method would. It exists only for the
// faulty stores of package mutant. It skips a run that does not exist.
func (s *Store) Tamper(id store.ID, do func(Row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil {
		if r.answers == nil {
			r.answers = map[store.SignalID]store.GivenAnswer{}
		}
		do(Row{Run: &r.Run, Seq: &r.seq, Steps: &r.steps, Signals: &r.signals, Groups: r.groups, Awaits: &r.awaits, Answers: r.answers, Items: &r.items})
	}
}

// TamperOutbox calls do on the changes that wait, by Seq, and on the subscriptions of a namespace.
func (s *Store) TamperOutbox(namespace string, do func(changes []Waiting, subscriptions map[string]*store.Subscription) []Waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	subs := map[string]*store.Subscription{}
	for key, sub := range s.subscriptions {
		if key.namespace == namespace {
			subs[key.name] = &sub
		}
	}
	s.changes = do(slices.Clone(s.changes), subs)
	for n, sub := range subs {
		s.subscriptions[name{namespace, n}] = *sub
	}
}

// Tell sends hints, for the faulty stores too.
func (s *Store) Tell(hints ...store.Hint) { s.hub.Publish(hints...) }

// Rewind saves everything that is stored. The function that it returns restores it.
func (s *Store) Rewind() (back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	then := s.copyLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takeLocked(then.copyLocked()) // for it may be put back again
	}
}

// takeLocked replaces what is stored.
func (s *Store) takeLocked(from *Store) {
	s.runs, s.live, s.holders, s.children = from.runs, from.live, from.holders, from.children
	s.workers, s.workflows, s.paused, s.locks, s.schedules = from.workers, from.workflows, from.paused, from.locks, from.schedules
	s.actions, s.markers = from.actions, from.markers
	s.subscriptions, s.changes, s.changeSeq = from.subscriptions, from.changes, from.changeSeq
	s.rules, s.keys, s.turns, s.leaked = from.rules, from.keys, from.turns, from.leaked
	s.debounced, s.replaced = from.debounced, from.replaced
}

// Reopen closes the store and returns another one with the same contents, as if they had been on a
// disk. If lose is not nil, it may make the disk lose some of them.
func (s *Store) Reopen(lose func(*Disk)) *Store {
	s.mu.Lock()
	n := s.copyLocked()
	n.limits, n.transactions = s.limits, s.transactions
	s.mu.Unlock()
	_ = s.Close()
	if lose != nil {
		lose(&Disk{n})
	}
	return n
}

// Disk is what a store has stored when it is closed. Each method loses a part of it.
type Disk struct{ s *Store }

// EachRun lets do change every run.
func (d *Disk) EachRun(do func(Row)) {
	for _, r := range d.s.runs {
		do(Row{Run: &r.Run, Seq: &r.seq, Steps: &r.steps, Signals: &r.signals, Groups: r.groups, Awaits: &r.awaits, Answers: r.answers, Items: &r.items})
	}
}

// LoseAll loses everything.
func (d *Disk) LoseAll() {
	d.LoseRuns(func(*store.Run) bool { return true })
	d.LoseExternalIDs()
	d.LoseWorkers()
	d.LoseWorkflows()
	d.LosePaused()
	d.LoseLocks()
	d.LoseSchedules()
	d.LoseActions()
	d.LoseSubscriptions()
	d.LoseChanges()
}

// LoseRuns loses runs, with everything that belongs to them.
func (d *Disk) LoseRuns(which func(*store.Run) bool) {
	for id, r := range d.s.runs {
		if which(&r.Run) {
			delete(d.s.runs, id)
			delete(d.s.live, id)
			delete(d.s.children, id)
		}
	}
}

// LoseExternalIDs loses which run holds which external id.
func (d *Disk) LoseExternalIDs() { clear(d.s.holders) }

// LoseState loses the flow state of all runs.
func (d *Disk) LoseState() {
	for _, r := range d.s.runs {
		clear(r.state)
	}
}

// LoseVersions resets the versions of flow state.
func (d *Disk) LoseVersions() {
	for _, r := range d.s.runs {
		for key, e := range r.state {
			e.Version = 1
			r.state[key] = e
		}
	}
}

// LoseReceipts loses which signals runs have had.
func (d *Disk) LoseReceipts() {
	for _, r := range d.s.runs {
		clear(r.had)
	}
}

// LoseAnswers loses the answers of all runs.
func (d *Disk) LoseAnswers() {
	for _, r := range d.s.runs {
		clear(r.answers)
	}
}

// LoseStreams loses the items of all runs.
func (d *Disk) LoseStreams() {
	for _, r := range d.s.runs {
		r.items = nil
	}
}

// LoseWakes loses what ends a sleep besides its time.
func (d *Disk) LoseWakes() {
	for _, r := range d.s.runs {
		r.wakes = 0
	}
}

// LoseClaims loses which call made each claim.
func (d *Disk) LoseClaims() {
	for _, r := range d.s.runs {
		r.claim = 0
	}
}

// LoseResumes loses the statuses that paused runs had.
func (d *Disk) LoseResumes() {
	for _, r := range d.s.runs {
		if r.resume != 0 {
			r.resume = store.Pending
		}
	}
}

// LoseWorkers loses the workers.
func (d *Disk) LoseWorkers() { clear(d.s.workers) }

// LoseWorkflows loses the workflows.
func (d *Disk) LoseWorkflows() { clear(d.s.workflows) }

// LosePaused loses which queues and workflows are paused.
func (d *Disk) LosePaused() { clear(d.s.paused) }

// LoseLocks loses the locks.
func (d *Disk) LoseLocks() { clear(d.s.locks) }

// LoseSchedules loses the schedules with their firings.
func (d *Disk) LoseSchedules() { clear(d.s.schedules) }

// LoseFirings loses the firings, and keeps the schedules.
func (d *Disk) LoseFirings() {
	for _, sc := range d.s.schedules {
		sc.firings = nil
	}
}

// LoseActions loses the journal of actions.
func (d *Disk) LoseActions() { d.s.actions = nil }

// LoseSubscriptions loses the subscriptions, and keeps what waits in them.
func (d *Disk) LoseSubscriptions() { clear(d.s.subscriptions) }

// LoseChanges loses the changes that wait.
func (d *Disk) LoseChanges() { d.s.changes = nil }

// LoseAttempts loses which deliveries have failed.
func (d *Disk) LoseAttempts() {
	for i := range d.s.changes {
		d.s.changes[i].Attempts, d.s.changes[i].Due = 0, time.Time{}
	}
}

// Copy returns another store with the same contents.
func (s *Store) Copy() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.copyLocked()
	c.limits = s.limits
	return c
}

// OfferOnly makes claims and purges pass over all other runs, as if other calls had locked them; nil: none.
func (s *Store) OfferOnly(ids []store.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered = ids
}

// Same reports whether two stores have the same contents, so that no call can distinguish them.
func (s *Store) Same(other *Store) bool {
	return reflect.DeepEqual(s.runs, other.runs) && reflect.DeepEqual(s.holders, other.holders) && reflect.DeepEqual(s.children, other.children) &&
		reflect.DeepEqual(s.workers, other.workers) && reflect.DeepEqual(s.workflows, other.workflows) && reflect.DeepEqual(s.paused, other.paused) &&
		reflect.DeepEqual(s.locks, other.locks) && reflect.DeepEqual(s.schedules, other.schedules) && reflect.DeepEqual(s.actions, other.actions) &&
		reflect.DeepEqual(s.subscriptions, other.subscriptions) && reflect.DeepEqual(s.changes, other.changes) &&
		reflect.DeepEqual(s.rules, other.rules) && reflect.DeepEqual(s.keys, other.keys) && reflect.DeepEqual(s.turns, other.turns) &&
		reflect.DeepEqual(s.debounced, other.debounced) && reflect.DeepEqual(s.replaced, other.replaced)
}

// copyLocked copies what is stored. It shares byte slices, which are replaced and never written to.
func (s *Store) copyLocked() *Store {
	c := &Store{
		runs: map[store.ID]*run{}, live: map[store.ID]*run{}, holders: maps.Clone(s.holders), children: map[store.ID][]store.ID{},
		workers: map[name]*store.Worker{}, workflows: maps.Clone(s.workflows), paused: maps.Clone(s.paused), locks: maps.Clone(s.locks),
		schedules: map[name]*schedule{}, actions: slices.Clone(s.actions), subscriptions: maps.Clone(s.subscriptions), changes: slices.Clone(s.changes), changeSeq: s.changeSeq, markers: maps.Clone(s.markers),
		rules: map[name]*limit{}, keys: map[limitKey]*keyState{}, turns: maps.Clone(s.turns), breaks: s.breaks, edges: maps.Clone(s.edges), leaked: maps.Clone(s.leaked),
		debounced: maps.Clone(s.debounced), replaced: maps.Clone(s.replaced), breaksDebounce: s.breaksDebounce,
	}
	for id, l := range s.rules {
		n := *l
		c.rules[id] = &n
	}
	for id, k := range s.keys {
		n := *k
		c.keys[id] = &n
	}
	for id, r := range s.runs {
		n := *r
		n.steps, n.signals, n.awaits, n.sent = slices.Clone(r.steps), slices.Clone(r.signals), slices.Clone(r.awaits), slices.Clone(r.sent)
		n.items = slices.Clone(r.items)
		n.state, n.had, n.answers, n.groups = maps.Clone(r.state), maps.Clone(r.had), maps.Clone(r.answers), map[string]*store.Group{}
		for key, g := range r.groups {
			group := *g
			n.groups[key] = &group
		}
		c.runs[id] = &n
		if s.live[id] != nil {
			c.live[id] = &n
		}
	}
	for id, list := range s.children {
		c.children[id] = slices.Clone(list)
	}
	for key, w := range s.workers {
		n := *w
		c.workers[key] = &n
	}
	for key, sc := range s.schedules {
		n := *sc
		n.firings = slices.Clone(sc.firings)
		c.schedules[key] = &n
	}
	return c
}

// LoseHints makes the store drop the hints that lost selects, until the function that it returns is
// called.
func (s *Store) LoseHints(lost func(store.Hint) bool) (end func()) {
	s.deaf.Store(&lost)
	return func() { s.deaf.Store(nil) }
}
