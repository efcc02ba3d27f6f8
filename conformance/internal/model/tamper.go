package model

import (
	"maps"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// Row is a run as it is stored, open to be written to.
type Row struct {
	*store.Run
	Seq     *int64          // of the last commit applied under the present lease
	Steps   *[]store.Step   // by Position
	Signals *[]store.Signal // unread, in the order of sending
	Groups  map[string]*store.Group
	Awaits  *[]store.Await // of the sleep under way
}

// Tamper lets do write to a stored run what no verb would. It is there for the
// faulty stores of package mutant and for nothing else. A run that does not
// exist is left out.
func (s *Store) Tamper(id store.ID, do func(Row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil {
		do(Row{Run: &r.Run, Seq: &r.seq, Steps: &r.steps, Signals: &r.signals, Groups: r.groups, Awaits: &r.awaits})
	}
}

// Rewind remembers all that is stored; the function that it returns puts it back.
func (s *Store) Rewind() (back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	then := s.copyLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := then.copyLocked() // for it may be put back again
		s.runs, s.live, s.holders, s.children = now.runs, now.live, now.holders, now.children
		s.workers, s.workflows, s.paused, s.locks, s.schedules = now.workers, now.workflows, now.paused, now.locks, now.schedules
	}
}

// copyLocked copies what is stored. Byte slices are replaced and never written to.
func (s *Store) copyLocked() *Store {
	c := &Store{
		runs: map[store.ID]*run{}, live: map[store.ID]*run{}, holders: maps.Clone(s.holders), children: map[store.ID][]store.ID{},
		workers: map[name]*store.Worker{}, workflows: maps.Clone(s.workflows), paused: maps.Clone(s.paused), locks: maps.Clone(s.locks),
		schedules: map[name]*schedule{},
	}
	for id, r := range s.runs {
		n := *r
		n.steps, n.signals, n.awaits, n.sent = slices.Clone(r.steps), slices.Clone(r.signals), slices.Clone(r.awaits), slices.Clone(r.sent)
		n.state, n.had, n.groups = maps.Clone(r.state), maps.Clone(r.had), map[string]*store.Group{}
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
