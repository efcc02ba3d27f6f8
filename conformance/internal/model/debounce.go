package model

import (
	"bytes"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A DebounceFault is a rule of debounced starts that a store breaks. They exist only for the faulty
// stores of package mutant.
type DebounceFault uint8

// The faults.
const (
	_                       DebounceFault = iota
	DebounceKeepsInput                    // the first start's input stays
	DebounceKeepsTime                     // the first start's time stays
	DebounceForgetsAtMost                 // the delay has no limit
	DebounceAtMostAnew                    // the limit of the delay counts from each start
	DebounceReplacesBegun                 // a run that waits for a retry or was given back is replaced
	DebounceReplacesEnded                 // a run that was canceled is found
	DebounceForgetsStarts                 // a start that is sent again replaces again
	DebounceKnowsForEver                  // a start is known after its time
	DebounceAcrossWorkflows               // all workflows share their keys
	DebounceKeepsLimits                   // the first start's limits stay
	DebounceKeepsTags                     // the first start's tags stay
	DebounceKeepsDeadline                 // the first start's deadline stays
	DebounceIgnoresPaused                 // a paused run is not replaced
)

// BreakDebounce makes the store break a rule of debounced starts.
func (s *Store) BreakDebounce(f DebounceFault) { s.breaksDebounce = f }

type debounceKey struct{ namespace, workflow, key string }

// replacement is a start that has replaced what a run was started with.
type replacement struct {
	run store.ID
	at  time.Time
}

// replace replaces what the run of a key was started with, and returns that run, if there is one that
// has not begun, or if the start has replaced it before.
func (s *Store) replace(namespace string, n *store.NewRun, now time.Time) (store.ID, bool) {
	fault := s.breaksDebounce
	start := name{namespace, n.ID.String()}
	if known, ok := s.replaced[start]; ok && fault != DebounceForgetsStarts {
		if r := s.runs[known.run]; r != nil && (known.at.Add(store.DebounceMemory).After(now) || fault == DebounceKnowsForEver) {
			return r.ID, true
		}
	}
	key := debounceKey{namespace, n.Workflow, n.Debounce}
	if fault == DebounceAcrossWorkflows {
		for k := range s.debounced {
			if k.namespace == namespace && k.key == n.Debounce {
				key = k
			}
		}
	}
	r := s.runs[s.debounced[key]]
	switch {
	case r == nil, r.Status.Final() && fault != DebounceReplacesEnded:
		return store.ID{}, false
	case fault == DebounceReplacesBegun && !r.leased():
	case r.Epoch > 0 || r.Status == store.Paused && fault == DebounceIgnoresPaused:
		return store.ID{}, false
	}
	was, due, deadline := *r, r.VisibleAt, r.Deadline
	r.Input, r.Meta = bytes.Clone(n.Input), bytes.Clone(n.Meta)
	r.Under, r.Tags = store.SortUses(n.Under), n.Tags.Clone()
	bounded := *n
	switch fault {
	case DebounceForgetsAtMost:
		bounded.AtMost = 0
	case DebounceAtMostAnew:
		created := r.CreatedAt
		r.CreatedAt = now
		defer func() { r.CreatedAt = created }()
	}
	if !r.Status.Final() {
		r.plan(&bounded, now)
	}
	switch fault {
	case DebounceKeepsInput:
		r.Input = was.Input
	case DebounceKeepsTime:
		r.VisibleAt = due
	case DebounceKeepsLimits:
		r.Under = was.Under
	case DebounceKeepsTags:
		r.Tags = was.Tags
	case DebounceKeepsDeadline:
		r.Deadline = deadline
	}
	s.replaced[start] = replacement{r.ID, now}
	if r.VisibleAt.Before(due) {
		s.hintDue(r)
	}
	return r.ID, true
}
