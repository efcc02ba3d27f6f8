package model

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// action is an action with its namespace.
type action struct {
	store.Action
	namespace string
}

// Record implements store.Journal.
func (s *Store) Record(ctx context.Context, p store.RecordParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	for _, a := range p.Actions {
		s.record(p.Namespace, a, now)
	}
	if p.KeepFor > 0 {
		until := now.Add(-whole(p.KeepFor))
		s.actions = slices.DeleteFunc(s.actions, func(a action) bool { return a.namespace == p.Namespace && a.At.Before(until) })
	}
	return nil
}

// note records the action of an item of a call, if the call has any.
func (s *Store) note(namespace string, record []store.Action, i int, changed bool, now time.Time) {
	if len(record) == 0 {
		return
	}
	a := record[i]
	if a.Outcome = store.Done; !changed {
		a.Outcome = store.NoChange
	}
	s.record(namespace, a, now)
}

func (s *Store) record(namespace string, a store.Action, now time.Time) {
	if !slices.ContainsFunc(s.actions, func(b action) bool { return a.ID == b.ID }) {
		a.At = now
		s.actions = append(s.actions, action{a, namespace})
	}
}

// ListActions implements store.Journal.
func (s *Store) ListActions(ctx context.Context, p store.ListActionsParams) (store.ActionPage, error) {
	at, last, err := p.Position()
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.ActionPage{}, err
	}
	defer s.mu.Unlock()
	limit, _ := store.Page(p.Limit)
	var found []store.Action
	for _, a := range s.actions {
		if a.namespace == p.Namespace && (p.Run.IsZero() || a.Run == p.Run) && (p.Actor == "" || a.Actor == p.Actor) &&
			(p.Cursor == "" || cmp.Or(a.At.Compare(at), compareIDs(a.ID, last)) < 0) {
			found = append(found, a.Action)
		}
	}
	slices.SortFunc(found, func(a, b store.Action) int { return cmp.Or(b.At.Compare(a.At), compareIDs(b.ID, a.ID)) })
	page := store.ActionPage{Actions: found}
	if len(found) > limit {
		page.Actions = found[:limit]
		page.Next = p.NextCursor(&found[limit-1])
	}
	return page, nil
}
