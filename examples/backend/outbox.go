package backend

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// waiting is a change that waits in a subscription.
type waiting struct {
	store.Change
	Due time.Time // zero: at once
}

// there is the value of an index that is read by its keys.
var there = []byte{1}

func subKey(namespace, name string) key { return keyOf(kindSub).Name(namespace).Name(name) }

func changeKey(namespace, name string, seq int64) key {
	return keyOf(kindChange).Name(namespace).Name(name).Number(seq)
}

func changesOf(namespace, name string, run store.ID) key {
	return keyOf(kindChangeRun).ID(run).Name(namespace).Name(name)
}

func dueKey(namespace, name string, w *waiting) key {
	return keyOf(kindChangeDue).Name(namespace).Name(name).Time(w.Due).Number(w.Seq)
}

// tell stores the change of a run's status in the subscriptions that select it (P31). An imported run, which is
// paused or final, is no change.
func (t *tx) tell(from, to *storekit.Run) {
	kind := store.ChangeOf(0, to.Status)
	if from != nil {
		kind = store.ChangeOf(from.Status, to.Status)
	} else if to.Status == store.Paused || to.Status.Final() {
		return
	}
	if kind == 0 {
		return
	}
	for sub := range values[store.Subscription](t, keyOf(kindSub).Name(to.Namespace).All()) {
		if !sub.Selects(to.Workflow, kind) {
			continue
		}
		w := waiting{Change: store.Change{ChangeKey: store.ChangeKey{ID: store.NewID()}, Kind: kind, Run: to.ID, Workflow: to.Workflow, Queue: to.Queue,
			ExternalID: to.ExternalID, Suffix: to.Suffix, At: t.now}}
		for p := range t.scan(changesOf(to.Namespace, sub.Name, to.ID).All(), true) { // it waits with the last one
			w.Due = t.change(to.Namespace, sub.Name, storekit.LastNumber(p.Key)).Due
			break
		}
		t.load(keyOf(kindChangeSeq), &w.Seq)
		w.Seq++
		t.write(keyOf(kindChangeSeq), w.Seq)
		t.putChange(to.Namespace, sub.Name, &w)
		t.put(changesOf(to.Namespace, sub.Name, to.ID).Number(w.Seq), there)
	}
}

func (t *tx) change(namespace, name string, seq int64) (w waiting) {
	t.load(changeKey(namespace, name, seq), &w)
	return w
}

func (t *tx) putChange(namespace, name string, w *waiting) {
	t.write(changeKey(namespace, name, w.Seq), w)
	t.put(dueKey(namespace, name, w), there)
}

// delay gives a change another time.
func (t *tx) delay(namespace, name string, w *waiting, due time.Time) {
	t.delete(dueKey(namespace, name, w))
	w.Due = due
	t.putChange(namespace, name, w)
}

func (t *tx) dropChange(namespace, name string, w *waiting) {
	t.delete(changeKey(namespace, name, w.Seq))
	t.delete(dueKey(namespace, name, w))
	t.delete(changesOf(namespace, name, w.Run).Number(w.Seq))
}

// oldest returns up to limit changes of a subscription, and whether there are more.
func (t *tx) oldest(namespace, name string, limit int) (list []waiting, more bool) {
	for w := range values[waiting](t, keyOf(kindChange).Name(namespace).Name(name).All()) {
		if len(list) == limit {
			return list, true
		}
		list = append(list, w)
	}
	return list, false
}

// standing adds what waits in a subscription.
func (t *tx) standing(namespace string, s store.Subscription) store.Subscription {
	list, _ := t.oldest(namespace, s.Name, store.MaxWaitingChanges)
	if s.Waiting = int64(len(list)); len(list) > 0 {
		s.OldestAt, s.Attempts = list[0].At, list[0].Attempts
	}
	return s
}

// PutSubscription implements [store.Outboxer].
func (s *Store) PutSubscription(ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) (store.Subscription, error) {
		sub, at := p.Rule(), subKey(p.Namespace, p.Subscription.Name)
		var old store.Subscription
		if t.load(at, &old) {
			sub.CreatedAt, sub.DeliveredAt, sub.FailedAt, sub.Error, sub.Dropped = old.CreatedAt, old.DeliveredAt, old.FailedAt, old.Error, old.Dropped
		} else if sub.CreatedAt = t.now; t.count(keyOf(kindSub).Name(p.Namespace).All()) >= store.MaxSubscriptions {
			return old, store.TooManySubscriptions(sub.Name)
		}
		sub.Keep, sub.UpdatedAt = storekit.RoundUp(sub.Keep), t.now
		t.write(at, &sub)
		t.record(p.Namespace, p.Record, 0, true)
		return t.standing(p.Namespace, sub), nil
	})
}

func (t *tx) count(s span) (n int) {
	for range t.scan(s, false) {
		n++
	}
	return n
}

// DeleteSubscription implements [store.Outboxer].
func (s *Store) DeleteSubscription(ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) (bool, error) {
		found := t.get(subKey(p.Namespace, p.Name)) != nil
		if found {
			t.delete(subKey(p.Namespace, p.Name))
			t.record(p.Namespace, p.Record, 0, true)
		}
		list, more := t.oldest(p.Namespace, p.Name, store.MaxBatch)
		for i := range list {
			t.dropChange(p.Namespace, p.Name, &list[i])
		}
		if !found && len(list) == 0 {
			return false, noSubscription(p.Name)
		}
		return more, nil
	})
}

// nameIn returns the subscription of a change by its key, which ends with a zero and a number.
func nameIn(k key, namespace string) string {
	return string(k[len(keyOf(kindChange).Name(namespace)) : len(k)-9])
}

func noSubscription(name string) error {
	return fmt.Errorf("subscription %q: %w", name, store.ErrNotFound)
}

// ListSubscriptions implements [store.Outboxer].
func (s *Store) ListSubscriptions(ctx context.Context, p store.ListSubscriptionsParams) ([]store.Subscription, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (list []store.Subscription, err error) {
		for sub := range values[store.Subscription](t, keyOf(kindSub).Name(p.Namespace).All()) {
			list = append(list, t.standing(p.Namespace, sub))
		}
		return list, nil
	})
}

// Changes implements [store.Outboxer].
func (s *Store) Changes(ctx context.Context, p store.ChangesParams) (store.ChangePage, error) {
	return view(ctx, s, p.Validate(), p.Now, func(t *tx) (store.ChangePage, error) {
		if t.get(subKey(p.Namespace, p.Subscription)) == nil {
			return store.ChangePage{}, noSubscription(p.Subscription)
		}
		page := store.ChangePage{Now: t.now}
		limit, _ := store.Page(p.Limit)
		for pair := range t.scan(keyOf(kindChangeDue).Name(p.Namespace).Name(p.Subscription).All(), false) {
			w := t.change(p.Namespace, p.Subscription, storekit.LastNumber(pair.Key))
			if w.Due.After(t.now) || page.More {
				break
			}
			if first, _ := t.first(changesOf(p.Namespace, p.Subscription, w.Run).All()); storekit.LastNumber(first) != w.Seq {
				continue
			}
			if page.More = len(page.Changes) == limit; !page.More {
				page.Changes = append(page.Changes, w.Change)
			}
		}
		later := keyOf(kindChangeDue).Name(p.Namespace).Name(p.Subscription)
		if k, found := t.first(between(later.Time(t.now.Add(time.Microsecond)), later.End())); found {
			page.NextAt = t.change(p.Namespace, p.Subscription, storekit.LastNumber(k)).Due
		}
		return page, nil
	})
}

// Settle implements [store.Outboxer].
func (s *Store) Settle(ctx context.Context, p store.SettleParams) error {
	return act(ctx, s, p.Validate(), p.Now, func(t *tx) error {
		for _, k := range p.Delivered {
			if w := t.change(p.Namespace, p.Subscription, k.Seq); w.ChangeKey == k {
				t.dropChange(p.Namespace, p.Subscription, &w)
			}
		}
		for _, f := range p.Failed {
			w := t.change(p.Namespace, p.Subscription, f.Seq)
			if w.ChangeKey != f.ChangeKey || w.Attempts >= f.Attempt {
				continue
			}
			w.Attempts = f.Attempt
			t.delay(p.Namespace, p.Subscription, &w, storekit.After(t.now, f.After))
			var behind []waiting
			for pair := range t.scan(between(changesOf(p.Namespace, p.Subscription, w.Run).Number(w.Seq).Next(), changesOf(p.Namespace, p.Subscription, w.Run).End()), false) {
				behind = append(behind, t.change(p.Namespace, p.Subscription, storekit.LastNumber(pair.Key)))
			}
			for i := range behind {
				if behind[i].Due.Before(w.Due) {
					t.delay(p.Namespace, p.Subscription, &behind[i], w.Due)
				}
			}
		}
		var sub store.Subscription
		if len(p.Delivered)+len(p.Failed) == 0 || !t.load(subKey(p.Namespace, p.Subscription), &sub) {
			return nil
		}
		if len(p.Delivered) > 0 {
			sub.DeliveredAt = t.now
		}
		if len(p.Failed) > 0 {
			sub.FailedAt, sub.Error = t.now, p.Error
		}
		t.write(subKey(p.Namespace, p.Subscription), &sub)
		return nil
	})
}

// DropChanges implements [store.Outboxer].
func (s *Store) DropChanges(ctx context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) (dropped []store.DroppedChanges, err error) {
		all := keyOf(kindChange).Name(p.Namespace).All()
		for at, found := t.first(all); found; at, found = t.first(all) {
			name := nameIn(at, p.Namespace)
			var sub store.Subscription
			kept := t.load(subKey(p.Namespace, name), &sub)
			list, _ := t.oldest(p.Namespace, name, cmp.Or(p.Limit, 1000))
			n := int64(0)
			for i := range list {
				if !kept || !list[i].At.After(t.now.Add(-sub.Keep)) {
					t.dropChange(p.Namespace, name, &list[i])
					n++
				}
			}
			if n > 0 {
				dropped = append(dropped, store.DroppedChanges{Subscription: name, Changes: n})
				if sub.Dropped += n; kept {
					t.write(subKey(p.Namespace, name), &sub)
				}
			}
			all = between(keyOf(kindChange).Name(p.Namespace).Name(name).End(), all.To)
		}
		return dropped, nil
	})
}
