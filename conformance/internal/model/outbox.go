package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

var _ store.Outboxer = (*Store)(nil)

// Waiting is a change in a subscription.
type Waiting struct {
	store.Change
	Due time.Time // zero: at once
	of  name
}

// In reports whether it waits in a subscription.
func (w *Waiting) In(namespace, subscription string) bool {
	return w.of == name{namespace, subscription}
}

// become gives a run another status, and tells of it.
func (s *Store) become(r *run, status store.Status, now time.Time) {
	kind := store.ChangeOf(r.Status, status)
	r.Status = status
	s.tell(r, kind, now)
}

// tell stores a change in the subscriptions that select it.
func (s *Store) tell(r *run, kind store.ChangeKind, now time.Time) {
	if kind == 0 {
		return
	}
	var names []string
	for key, sub := range s.subscriptions {
		if key.namespace == r.Namespace && sub.Selects(r.Workflow, kind) {
			names = append(names, key.name)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		of := name{r.Namespace, n}
		w := Waiting{of: of}
		for i := range s.changes { // it waits with those before it
			if s.changes[i].of == of && s.changes[i].Run == r.ID {
				w.Due = s.changes[i].Due
			}
		}
		s.changeSeq++
		w.Change = store.Change{ChangeKey: store.ChangeKey{Seq: s.changeSeq, ID: store.NewID()}, Kind: kind, Run: r.ID, Workflow: r.Workflow, Queue: r.Queue,
			ExternalID: r.ExternalID, Suffix: r.Suffix, At: now}
		s.changes = append(s.changes, w)
	}
}

// TellOf stores a change that there was not, for the faulty stores of package mutant.
func (s *Store) TellOf(id store.ID, kind store.ChangeKind, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil {
		s.tell(r, kind, clock(now))
	}
}

// PutSubscription implements [store.Outboxer].
func (s *Store) PutSubscription(ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return store.Subscription{}, err
	}
	defer s.mu.Unlock()
	sub, now, key, others := p.Rule(), clock(p.Now), name{p.Namespace, p.Subscription.Name}, 0
	sub.Keep, sub.UpdatedAt, sub.CreatedAt = whole(sub.Keep), now, now
	for k := range s.subscriptions {
		if k.namespace == p.Namespace {
			others++
		}
	}
	if old, ok := s.subscriptions[key]; ok {
		sub.CreatedAt, sub.DeliveredAt, sub.FailedAt, sub.Error, sub.Dropped = old.CreatedAt, old.DeliveredAt, old.FailedAt, old.Error, old.Dropped
	} else if others >= store.MaxSubscriptions {
		return store.Subscription{}, store.TooManySubscriptions(key.name)
	}
	s.subscriptions[key] = sub
	s.note(p.Namespace, p.Record, 0, true, now)
	return s.standing(key), nil
}

// standing returns a subscription with what waits in it.
func (s *Store) standing(key name) store.Subscription {
	sub := s.subscriptions[key]
	sub.Workflows, sub.Kinds = slices.Clone(sub.Workflows), slices.Clone(sub.Kinds)
	for _, w := range s.changes {
		if w.of != key {
			continue
		}
		if sub.Waiting++; sub.Waiting == 1 {
			sub.OldestAt, sub.Attempts = w.At, w.Attempts
		}
	}
	sub.Waiting = min(sub.Waiting, store.MaxWaitingChanges)
	return sub
}

// DeleteSubscription implements [store.Outboxer].
func (s *Store) DeleteSubscription(ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	key := name{p.Namespace, p.Name}
	_, ok := s.subscriptions[key]
	delete(s.subscriptions, key)
	if ok {
		s.note(p.Namespace, p.Record, 0, true, clock(p.Now))
	}
	if n := s.drop(store.MaxBatch, func(w *Waiting) bool { return w.of == key }); !ok && n == 0 {
		return false, fmt.Errorf("subscription %q: %w", p.Name, store.ErrNotFound)
	}
	return slices.ContainsFunc(s.changes, func(w Waiting) bool { return w.of == key }), nil
}

// drop deletes up to limit changes.
func (s *Store) drop(limit int, which func(*Waiting) bool) (n int64) {
	s.changes = slices.DeleteFunc(slices.Clone(s.changes), func(w Waiting) bool {
		if int(n) == limit || !which(&w) {
			return false
		}
		n++
		return true
	})
	return n
}

// ListSubscriptions implements [store.Outboxer].
func (s *Store) ListSubscriptions(ctx context.Context, p store.ListSubscriptionsParams) ([]store.Subscription, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list []store.Subscription
	for key := range s.subscriptions {
		if key.namespace == p.Namespace {
			list = append(list, s.standing(key))
		}
	}
	slices.SortFunc(list, func(a, b store.Subscription) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Changes implements [store.Outboxer].
func (s *Store) Changes(ctx context.Context, p store.ChangesParams) (store.ChangePage, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return store.ChangePage{}, err
	}
	defer s.mu.Unlock()
	key := name{p.Namespace, p.Subscription}
	if _, ok := s.subscriptions[key]; !ok {
		return store.ChangePage{}, fmt.Errorf("subscription %q: %w", p.Subscription, store.ErrNotFound)
	}
	page := store.ChangePage{Now: clock(p.Now)}
	var due []Waiting
	seen := map[store.ID]bool{}
	for _, w := range s.changes {
		if w.of != key {
			continue
		}
		if w.Due.After(page.Now) {
			page.NextAt = earliest(page.NextAt, w.Due)
		} else if !seen[w.Run] {
			due = append(due, w)
		}
		seen[w.Run] = true
	}
	slices.SortFunc(due, func(a, b Waiting) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Seq, b.Seq)) })
	limit, _ := store.Page(p.Limit)
	page.More = len(due) > limit
	for _, w := range due[:min(len(due), limit)] {
		page.Changes = append(page.Changes, w.Change)
	}
	return page, nil
}

// Settle implements [store.Outboxer].
func (s *Store) Settle(ctx context.Context, p store.SettleParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	key, now := name{p.Namespace, p.Subscription}, clock(p.Now)
	s.changes = slices.Clone(s.changes)
	for _, f := range p.Failed {
		i := slices.IndexFunc(s.changes, func(w Waiting) bool { return w.of == key && w.ChangeKey == f.ChangeKey })
		if i < 0 || s.changes[i].Attempts >= f.Attempt {
			continue
		}
		s.changes[i].Attempts, s.changes[i].Due = f.Attempt, after(now, f.After)
		for j := i + 1; j < len(s.changes); j++ {
			if w := &s.changes[j]; w.of == key && w.Run == s.changes[i].Run && w.Due.Before(s.changes[i].Due) {
				w.Due = s.changes[i].Due
			}
		}
	}
	s.drop(len(s.changes), func(w *Waiting) bool { return w.of == key && slices.Contains(p.Delivered, w.ChangeKey) })
	if sub, ok := s.subscriptions[key]; ok {
		if len(p.Delivered) > 0 {
			sub.DeliveredAt = now
		}
		if len(p.Failed) > 0 {
			sub.FailedAt, sub.Error = now, p.Error
		}
		s.subscriptions[key] = sub
	}
	return nil
}

// DropChanges implements [store.Outboxer].
func (s *Store) DropChanges(ctx context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	var names []string
	for _, w := range s.changes {
		if w.of.namespace == p.Namespace {
			names = append(names, w.of.name)
		}
	}
	slices.Sort(names)
	var dropped []store.DroppedChanges
	for _, n := range slices.Compact(names) {
		key := name{p.Namespace, n}
		sub, ok := s.subscriptions[key]
		gone := s.drop(cmp.Or(p.Limit, 1000), func(w *Waiting) bool { return w.of == key && (!ok || !w.At.After(now.Add(-sub.Keep))) })
		if gone == 0 {
			continue
		}
		dropped = append(dropped, store.DroppedChanges{Subscription: n, Changes: gone})
		if ok {
			sub.Dropped += gone
			s.subscriptions[key] = sub
		}
	}
	return dropped, nil
}
