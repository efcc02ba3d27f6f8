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
	s.note(p.Namespace, p.Record, 0, true, now)
	return out, nil
}

// write changes a key. Each write is an event, whose number is the version. So versions grow and
// never repeat.
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
	if err := s.look(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r := s.find(p.Namespace, p.Run)
	if r == nil {
		return nil, notFound(p.Run)
	}
	entries := r.entries(p.Keys, p.After)
	out, _ := upTo(entries, cmp.Or(p.Limit, len(entries)), atMost(p.MaxBytes), entryBytes, cloneEntry)
	return out, nil
}

// entries returns the entries of the keys (none: all) above a key, by key.
func (r *run) entries(keys []string, above string) []store.StateEntry {
	var out []store.StateEntry
	for _, e := range r.state {
		if oneOf(keys, e.Key) && e.Key > above {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b store.StateEntry) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

func (s *Store) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return store.Inbox{}, err
	}
	defer s.mu.Unlock()
	r := s.find(p.Namespace, p.Run)
	if r == nil {
		return store.Inbox{}, notFound(p.Run)
	}
	return r.inbox(&p, atMost(p.MaxBytes), atMost(p.MaxBytes)), nil
}

// inbox returns what has reached the run, as the params select it, up to the bounds of payloads and
// values.
func (r *run) inbox(p *store.InboxParams, payloads, values *bound) store.Inbox {
	in := store.Inbox{Status: r.Status, Events: r.Events}
	var signals []store.Signal
	for _, sig := range r.signals {
		if sig.Position > p.After && (p.Name == "" || sig.Name == p.Name) {
			signals = append(signals, sig)
		}
	}
	in.Signals, in.MoreSignals = upTo(signals, store.MaxPage, payloads, signalBytes, cloneSignal)
	if !p.NoState {
		in.State, in.MoreState = upTo(r.entries(nil, ""), store.MaxPage, values, entryBytes, cloneEntry)
	}
	var groups []store.Group
	for _, g := range r.groups {
		if g.Name > p.AfterGroup && (p.Group == "" || g.Name == p.Group) {
			groups = append(groups, *g)
		}
	}
	slices.SortFunc(groups, func(a, b store.Group) int { return cmp.Compare(a.Name, b.Name) })
	in.Groups, in.MoreGroups = upTo(groups, store.MaxPage, atMost(0), func(store.Group) int { return 0 }, func(g store.Group) store.Group { return g })
	return in
}
