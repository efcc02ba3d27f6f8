package model

import (
	"bytes"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// createSignaled creates a run with a signal, or delivers the signal to the run that holds the
// external id.
func (s *Store) createSignaled(namespace string, n *store.NewRun, now time.Time) store.CreateResult {
	found := func(r *run, holds, had bool) store.CreateResult {
		res, deliver := n.Reaches(store.Found{ID: r.ID, Workflow: r.Workflow, Status: r.Status, Holds: holds, Had: had})
		if deliver {
			s.receive(r, n.Signal.ID, n.Signal.Name, n.Signal.Payload, now)
			s.stirred(r, store.WakeSignal, now)
		}
		return res
	}
	if r := s.lastWith(namespace, n.ExternalID, n.Suffix, func(r *run) bool { return r.had[n.Signal.ID] }); r != nil {
		return found(r, false, true) // P4, also when that run has ended and another one holds the external id
	}
	if id, taken := s.holders[external{namespace, n.ExternalID, n.Suffix}]; taken {
		return found(s.runs[id], true, false) // P8
	}
	if r := s.runs[n.ID]; r != nil {
		if r.Namespace != namespace {
			return store.CreateResult{Err: fmt.Errorf("run %s: %w", n.ID, store.ErrAlreadyExists)}
		}
		return found(r, false, false)
	}
	r := s.insert(namespace, n, now)
	s.receive(r, n.Signal.ID, n.Signal.Name, n.Signal.Payload, now)
	s.hintDue(r)
	return store.CreateResult{ID: r.ID, Created: true}
}

// receive puts a signal into the inbox of a run. It is an event of the run.
func (s *Store) receive(r *run, id store.SignalID, name string, payload []byte, now time.Time) {
	r.had[id] = true
	r.sent = append(r.sent, id)
	r.signals = append(r.signals, store.Signal{ID: id, Name: name, Payload: bytes.Clone(payload), SentAt: now, Position: r.Events + 1})
	r.Events++
}
