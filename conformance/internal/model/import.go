package model

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/store"
)

var _ store.Importer = (*Store)(nil)

// Import implements [store.Importer].
func (s *Store) Import(ctx context.Context, p store.ImportParams) (bool, error) {
	if err := s.enter(ctx, p.Validate(s.limits)); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	in := p.Imported()
	if old := s.runs[in.ID]; old != nil {
		if old.Namespace != p.Namespace {
			return false, fmt.Errorf("run %s: %w", in.ID, store.ErrAlreadyExists)
		}
		return false, nil
	}
	r := &run{Run: in, ended: in.Status.Final(), state: map[string]store.StateEntry{}, had: map[store.SignalID]bool{}, groups: map[string]*store.Group{}}
	r.Run = r.row() // copies
	r.CreatedAt, r.StartedAt, r.FinishedAt, r.Deadline = micro(in.CreatedAt), micro(in.StartedAt), micro(in.FinishedAt), micro(in.Deadline)
	if r.ExternalID != "" && (!r.Status.Final() || r.Reuse == store.ReuseNever) {
		key := external{r.Namespace, r.ExternalID, r.Suffix}
		if id, taken := s.holders[key]; taken {
			return false, fmt.Errorf("run %s holds external id %q: %w", id, r.ExternalID, store.ErrAlreadyExists)
		}
		s.holders[key] = r.ID
	}
	if !r.Status.Final() {
		r.resume, r.VisibleAt = store.Pending, clock(p.Now)
		if at := micro(in.VisibleAt); at.After(r.VisibleAt) {
			r.VisibleAt = at
		}
		s.live[r.ID] = r
	}
	for _, st := range p.Record.Steps {
		st = cloneStep(st)
		st.StartedAt, st.FinishedAt, st.DueAt = micro(st.StartedAt), micro(st.FinishedAt), micro(st.DueAt)
		r.steps = append(r.steps, st)
	}
	slices.SortFunc(r.steps, func(a, b store.Step) int { return cmp.Compare(a.Position, b.Position) })
	for _, e := range p.Record.State {
		e.Value, e.UpdatedAt = bytes.Clone(e.Value), micro(e.UpdatedAt)
		r.state[e.Key] = e
	}
	for _, id := range p.Record.Consumed {
		r.had[id] = true
		r.sent = append(r.sent, id)
	}
	for _, it := range p.Record.Streams {
		r.items, r.position = append(r.items, cloneItem(it)), it.Position
	}
	for _, a := range p.Record.Answers {
		r.give(a)
	}
	for i, sig := range p.Record.Signals {
		// Later signals get higher positions, because a position is above the count of events.
		sig.Payload, sig.SentAt, sig.Position = bytes.Clone(sig.Payload), micro(sig.SentAt), int64(len(p.Record.Consumed)+i+1)
		r.signals, r.had[sig.ID] = append(r.signals, sig), true
		r.sent = append(r.sent, sig.ID)
	}
	for _, g := range p.Record.Groups {
		r.groups[g.Name] = &g
	}
	s.runs[r.ID] = r
	if !r.Parent.IsZero() {
		s.children[r.Parent] = append(s.children[r.Parent], r.ID)
	}
	return true, nil
}
