package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Subscribe stores a subscription to the changes of runs in the engine's namespace, or replaces the rule of the one of that
// name, and returns it as stored. From then on, each change that it selects waits in it until it was delivered or is too old.
// Package webhook delivers changes by HTTP. A program that delivers them otherwise calls [Engine.HoldSubscription],
// [Engine.Changes] and [Engine.Settle].
//
// A subscription outlives the program. One that nobody delivers fills up with changes until [store.Subscription.Keep] has
// passed; [Engine.Unsubscribe] deletes it. It fails with store.ErrInvalid, and with store.ErrUnsupported if the backend has no outbox.
func (e *Engine) Subscribe(ctx context.Context, s store.Subscription) (out store.Subscription, err error) {
	if e.fault != nil {
		return out, e.fault
	}
	record := e.acts(ctx, "put", "webhook "+s.Name, "")
	err = e.outbox(ctx, s.Name, func(ctx context.Context, x store.Outboxer) (err error) {
		out, err = x.PutSubscription(ctx, store.PutSubscriptionParams{Namespace: e.namespace, Subscription: s, Record: record})
		return err
	})
	e.actedOn(ctx, record, err)
	return out, err
}

// Unsubscribe deletes a subscription with the changes that wait in it. It fails with store.ErrNotFound if there is none.
func (e *Engine) Unsubscribe(ctx context.Context, name string) error {
	if e.fault != nil {
		return e.fault
	}
	record := e.acts(ctx, "delete", "webhook "+name, "")
	err := e.unsubscribe(ctx, name, record)
	e.actedOn(ctx, record, err)
	return err
}

func (e *Engine) unsubscribe(ctx context.Context, name string, record []store.Action) error {
	deleted := false
	for {
		more, unknown := false, false
		err := e.outbox(ctx, name, func(ctx context.Context, x store.Outboxer) (err error) {
			more, err = x.DeleteSubscription(ctx, store.DeleteSubscriptionParams{Namespace: e.namespace, Name: name, Record: record})
			unknown = unknown || errors.Is(err, store.ErrOutcomeUnknown)
			return err
		})
		switch {
		case errors.Is(err, store.ErrNotFound) && (deleted || unknown):
			return nil
		case err != nil || !more:
			return err
		}
		deleted = true
	}
}

// Subscriptions returns the subscriptions of the engine's namespace by name, with what waits in each and how its delivery stands.
func (e *Engine) Subscriptions(ctx context.Context) (list []store.Subscription, err error) {
	err = e.outbox(ctx, "", func(ctx context.Context, x store.Outboxer) (err error) {
		list, err = x.ListSubscriptions(ctx, store.ListSubscriptionsParams{Namespace: e.namespace})
		return err
	})
	return list, err
}

// Changes returns up to limit changes of a subscription that are due: of each run only the first one that waits. A limit of 0 means
// 100. They stay until [Engine.Settle]. It fails with store.ErrNotFound if there is no such subscription.
func (e *Engine) Changes(ctx context.Context, subscription string, limit int) (page store.ChangePage, err error) {
	err = e.outbox(ctx, subscription, func(ctx context.Context, x store.Outboxer) (err error) {
		page, err = x.Changes(ctx, store.ChangesParams{Namespace: e.namespace, Subscription: subscription, Limit: limit})
		return err
	})
	return page, err
}

// Settle records what came of deliveries; see [store.Outboxer]. The namespace of p is the engine's.
func (e *Engine) Settle(ctx context.Context, p store.SettleParams) error {
	p.Namespace = e.namespace
	return e.outbox(ctx, p.Subscription, func(ctx context.Context, x store.Outboxer) error { return x.Settle(ctx, p) })
}

// HoldSubscription takes or renews the lock of a subscription for an owner, so that one program at a time delivers its
// changes; hold is how long others wait if the owner dies, and 0 gives the lock up. Two programs that deliver at the same time
// cause duplicates and break no promise.
func (e *Engine) HoldSubscription(ctx context.Context, subscription, owner string, hold time.Duration) (store.LockResult, error) {
	if e.fault != nil {
		return store.LockResult{}, e.fault
	}
	res, err := e.lock(ctx, subscriptionLock(subscription), owner, hold)
	if err != nil {
		return res, fmt.Errorf("the lock of subscription %q: %w", subscription, err)
	}
	return res, nil
}

// subscriptionLock returns the name of a lock. A subscription's name may be as long as that of a lock.
func subscriptionLock(subscription string) string {
	return "pawl.subscription." + store.DeriveID(store.ID{}, subscription).String()
}

// outbox makes a call of the store's outbox.
func (e *Engine) outbox(ctx context.Context, subscription string, call func(context.Context, store.Outboxer) error) error {
	if e.fault != nil {
		return e.fault
	}
	x, ok := e.store.(store.Outboxer)
	if !ok || !store.Able(e.store, store.Outbox) {
		return fmt.Errorf("the %s backend keeps no changes of runs: %w", e.store.Features().Name, store.ErrUnsupported)
	}
	err := e.retry(ctx, func(ctx context.Context) error { return call(ctx, x) })
	if err != nil && subscription != "" {
		return fmt.Errorf("subscription %q: %w", subscription, err)
	}
	return err
}

// dropBatch limits the changes of a subscription that one write deletes.
const dropBatch = 2000

// dropChanges deletes changes that have waited for too long, in batches. Between two batches it pauses for as long as the last one took.
func (e *Engine) dropChanges(ctx context.Context) (sum int, err error) {
	if !store.Able(e.store, store.Outbox) {
		return 0, nil
	}
	by := map[string]int64{}
	defer func() {
		for name, n := range by {
			e.log.Warn("dropped changes of runs that nobody has delivered in time", "subscription", name, "changes", n)
		}
	}()
	for {
		from, most := time.Now(), int64(0)
		var dropped []store.DroppedChanges
		err := e.outbox(ctx, "", func(ctx context.Context, x store.Outboxer) (err error) {
			dropped, err = x.DropChanges(ctx, store.DropChangesParams{Namespace: e.namespace, Limit: dropBatch})
			return err
		})
		if err != nil {
			return sum, fmt.Errorf("drop old changes: %w", err)
		}
		for _, d := range dropped {
			by[d.Subscription] += d.Changes
			sum, most = sum+int(d.Changes), max(most, d.Changes)
		}
		if most < dropBatch {
			return sum, nil
		}
		timer := time.NewTimer(max(time.Since(from), 1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return sum, ctx.Err()
		case <-timer.C:
		}
	}
}
