package store

import (
	"fmt"
	"time"
)

// DebounceMemory is for how long a store knows the ID of a start that has replaced what a run was
// started with, counted from that start: see [NewRun.Debounce]. A start that is sent again after that
// is a new one.
const DebounceMemory = 10 * time.Minute

func (r *NewRun) validateDebounce() error {
	if r.Debounce == "" {
		if r.AtMost != 0 {
			return Invalid("longest delay", "it needs a key of Debounce")
		}
		return nil
	}
	switch {
	case r.ExternalID != "" || r.MustBeNew || len(r.Digest) > 0:
		return Invalid("debounce", "a run with a key of Debounce has no external id and no digest")
	case r.Worker != "":
		return Invalid("debounce", "a run with a key of Debounce cannot be leased at its creation")
	case r.AtMost > 0 && r.AtMost < r.After:
		return Invalid("longest delay", fmt.Sprintf("%v is shorter than the delay of %v", r.AtMost, r.After))
	}
	return first(externalID("debounce key", r.Debounce), duration("longest delay", r.AtMost))
}

func noDebounce(what string, r *NewRun) error {
	if r.Debounce != "" || r.AtMost != 0 {
		return Invalid("debounce", fmt.Sprintf("%s has no key of Debounce", what))
	}
	return nil
}
