package model

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (s *Store) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	if err := s.enter(ctx, p.Validate(s.limits)); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	r := s.find(p.Namespace, p.Run)
	switch {
	case r == nil:
		return nil, notFound(p.Run)
	case r.Status.Final():
		return nil, finished(r)
	}
	for _, w := range p.Writes {
		if has := r.state[w.Key].Version; w.IfVersion != nil && *w.IfVersion != has {
			return nil, fmt.Errorf("state %q of run %s has version %d, not %d: %w", w.Key, r.ID, has, *w.IfVersion, store.ErrConflict)
		}
	}
	var out []store.StateEntry
	for _, w := range p.Writes {
		out = append(out, r.write(w, now))
	}
	if len(out) > 0 {
		s.stirred(r, store.WakeState, now)
	}
	return out, nil
}

// write changes a key. Each write is an event, and the event's number is the
// version: so versions grow and never repeat.
func (r *run) write(w store.StateWrite, now time.Time) store.StateEntry {
	r.Events++
	if w.Delete {
		delete(r.state, w.Key)
		return store.StateEntry{Key: w.Key, Version: r.Events}
	}
	e := store.StateEntry{Key: w.Key, Value: bytes.Clone(w.Value), Version: r.Events, UpdatedAt: now}
	r.state[w.Key] = e
	return cloneEntry(e)
}

func cloneEntry(e store.StateEntry) store.StateEntry {
	e.Value = bytes.Clone(e.Value)
	return e
}

func (s *Store) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r := s.find(p.Namespace, p.Run)
	if r == nil {
		return nil, notFound(p.Run)
	}
	return r.entries(p.Keys), nil
}

// entries returns the entries of the keys (none: all) by key.
func (r *run) entries(keys []string) []store.StateEntry {
	var out []store.StateEntry
	for _, e := range r.state {
		if oneOf(keys, e.Key) {
			out = append(out, cloneEntry(e))
		}
	}
	slices.SortFunc(out, func(a, b store.StateEntry) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

func (s *Store) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return store.Inbox{}, err
	}
	defer s.mu.Unlock()
	r := s.find(p.Namespace, p.Run)
	if r == nil {
		return store.Inbox{}, notFound(p.Run)
	}
	return r.inbox(), nil
}

func (r *run) inbox() store.Inbox {
	in := store.Inbox{Status: r.Status, Events: r.Events, State: r.entries(nil)}
	for _, sig := range r.signals[:min(len(r.signals), store.MaxPage)] {
		sig.Payload = bytes.Clone(sig.Payload)
		in.Signals = append(in.Signals, sig)
	}
	for _, g := range r.groups {
		in.Groups = append(in.Groups, *g)
	}
	slices.SortFunc(in.Groups, func(a, b store.Group) int { return cmp.Compare(a.Name, b.Name) })
	return in
}
