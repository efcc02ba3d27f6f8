package model

import "github.com/pawlhq/pawl/store"

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
