package random

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// outboxBranches are those of a backend that keeps changes of runs.
var outboxBranches = []string{"subscription replaced", "subscription deleted", "change delivered", "delivery failed", "delivery tried again", "changes dropped"}

// Of the subscriptions of a sequence, the first one selects only changes whose time is that of the run. The others may have the
// time of the database's clock, which the model does not know.
var (
	randomSubscriptions = []string{"c1", "c2"}
	timedKinds          = []store.ChangeKind{store.RunCreated, store.RunCompleted, store.RunFailed, store.RunCanceled}
)

// keepForEver is longer than the time between the database's clock and that of a sequence, which begins in 2031.
const keepForEver = 100 * 365 * 24 * time.Hour

func (q *sequence) outbox() bool {
	return store.Able(q.handles[0], store.Outbox) && len(q.unwritten) == 0
}

// subscriptions changes the rules, delivers and drops.
func (q *sequence) subscriptions() {
	if !q.outbox() {
		return
	}
	ns, name := q.someNS(), of(q, randomSubscriptions...)
	exists := slices.ContainsFunc(q.subscribed(ns), func(s store.Subscription) bool { return s.Name == name })
	switch n := q.pick(16); {
	case n < 4 || !exists && n < 12:
		s := store.Subscription{Name: name, Workflows: of(q, nil, nil, []string{"f1"}, []string{"f2", "f1", "f2"}), Keep: of(q, time.Hour, 0, time.Minute, 700*time.Nanosecond)}
		if name == "c1" {
			s.Kinds = of(q, timedKinds, timedKinds, timedKinds[:2], timedKinds[1:])
		} else {
			s.Kinds, s.Keep = of(q, nil, nil, []store.ChangeKind{store.RunPaused, store.RunResumed}, []store.ChangeKind{store.RunRestarted, store.RunCanceling, store.RunCreated}), keepForEver
		}
		_, err := do(q, "PutSubscription", store.PutSubscriptionParams{Namespace: ns, Subscription: s, Now: q.now}, putSubscription)
		if err == nil && exists {
			q.hit("subscription replaced")
		}
	case n == 4:
		_, err := do(q, "DeleteSubscription", store.DeleteSubscriptionParams{Namespace: ns, Name: name, Now: q.now}, func(s store.Store, ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
			return s.(store.Outboxer).DeleteSubscription(ctx, p)
		})
		if err == nil {
			q.hit("subscription deleted")
		}
	case n == 5:
		dropped, _ := do(q, "DropChanges", store.DropChangesParams{Namespace: ns, Now: q.now}, func(s store.Store, ctx context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
			out, err := s.(store.Outboxer).DropChanges(ctx, p)
			slices.SortFunc(out, func(a, b store.DroppedChanges) int {
				return strings.Compare(a.Subscription, b.Subscription)
			})
			return out, err
		})
		if len(dropped) > 0 {
			q.hit("changes dropped")
		}
	default:
		q.deliver(ns, name)
	}
}

// delivery is what came of the changes that are due. They are named by their runs, because each store has numbers of its own.
type delivery struct {
	Namespace, Subscription string
	Delivered               []store.ID
	Failed                  []failedDelivery
	Error                   string
	Again                   bool // the answer was lost
	Now                     time.Time
}

type failedDelivery struct {
	Run     store.ID
	Attempt int
	After   time.Duration
}

// told is what a subscription tells, without the numbers.
type told struct {
	Changes []toldChange
	NextAt  time.Time
}

type toldChange struct {
	Run                store.ID
	Kind               store.ChangeKind
	Workflow, Queue    string
	ExternalID, Suffix string
	At                 time.Time // zero if it is not that of the run
	Attempts           int
	NoSeq, NoID        bool
	OutOfOrder         bool // its number is not above that of the run's change before it
}

// deliver settles some of the changes that are due.
func (q *sequence) deliver(ns, name string) {
	p := delivery{Namespace: ns, Subscription: name, Error: of(q, "refused", "é", ""), Again: q.chance(25), Now: q.now}
	page, err := q.model.Changes(q.ctx, store.ChangesParams{Namespace: ns, Subscription: name, Limit: store.MaxPage, Now: q.now})
	for _, ch := range page.Changes {
		switch q.pick(4) {
		case 0, 1:
			p.Delivered = append(p.Delivered, ch.Run)
		case 2:
			f := failedDelivery{Run: ch.Run, Attempt: ch.Attempts + 1, After: q.span()}
			if q.chance(15) {
				f.Attempt = max(1, ch.Attempts) // it was settled before
			}
			if p.Failed = append(p.Failed, f); ch.Attempts > 0 {
				q.hit("delivery tried again")
			}
		}
	}
	if _, done := do(q, "Deliver", p, deliver); done != nil || err != nil {
		return
	}
	if len(p.Delivered) > 0 {
		q.hit("change delivered")
	}
	if len(p.Failed) > 0 {
		q.hit("delivery failed")
	}
}

func deliver(s store.Store, ctx context.Context, p delivery) (told, error) {
	x := s.(store.Outboxer)
	page, err := x.Changes(ctx, store.ChangesParams{Namespace: p.Namespace, Subscription: p.Subscription, Limit: store.MaxPage, Now: p.Now})
	if err != nil {
		return told{}, err
	}
	of := map[store.ID]store.ChangeKey{}
	for _, ch := range page.Changes {
		of[ch.Run] = ch.ChangeKey
	}
	settle := store.SettleParams{Namespace: p.Namespace, Subscription: p.Subscription, Error: p.Error, Now: p.Now}
	for _, run := range p.Delivered {
		if key, ok := of[run]; ok {
			settle.Delivered = append(settle.Delivered, key)
		}
	}
	for _, f := range p.Failed {
		if key, ok := of[f.Run]; ok {
			settle.Failed = append(settle.Failed, store.FailedDelivery{ChangeKey: key, Attempt: f.Attempt, After: f.After})
		}
	}
	err = x.Settle(ctx, settle)
	if err == nil && p.Again {
		err = x.Settle(ctx, settle)
	}
	return told{tells(page.Changes, nil), page.NextAt}, err
}

// tells takes out what is the store's own. last has the number of the change of each run before; nil: there is none.
func tells(changes []store.Change, last map[store.ID]int64) []toldChange {
	var list []toldChange
	for _, ch := range changes {
		c := toldChange{Run: ch.Run, Kind: ch.Kind, Workflow: ch.Workflow, Queue: ch.Queue, ExternalID: ch.ExternalID, Suffix: ch.Suffix, Attempts: ch.Attempts,
			NoSeq: ch.Seq <= 0, NoID: ch.ID.IsZero()}
		if slices.Contains(timedKinds, ch.Kind) {
			c.At = ch.At
		}
		c.OutOfOrder = ch.Seq <= last[ch.Run]
		if last != nil {
			last[ch.Run] = ch.Seq
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b toldChange) int { return bytes.Compare(a.Run[:], b.Run[:]) })
	return list
}

// drain is the end of a subscription.
type drain struct {
	Namespace, Subscription string
	Now                     time.Time
}

// drained delivers everything, run by run and in order.
func drained(s store.Store, ctx context.Context, p drain) ([]toldChange, error) {
	x, last := s.(store.Outboxer), map[store.ID]int64{}
	var all []toldChange
	for range 1000 {
		page, err := x.Changes(ctx, store.ChangesParams{Namespace: p.Namespace, Subscription: p.Subscription, Limit: store.MaxPage, Now: p.Now})
		if err != nil || len(page.Changes) == 0 {
			slices.SortStableFunc(all, func(a, b toldChange) int { return bytes.Compare(a.Run[:], b.Run[:]) })
			return all, err
		}
		all = append(all, tells(page.Changes, last)...)
		settle := store.SettleParams{Namespace: p.Namespace, Subscription: p.Subscription, Now: p.Now}
		for _, ch := range page.Changes {
			settle.Delivered = append(settle.Delivered, ch.ChangeKey)
		}
		if err := x.Settle(ctx, settle); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("subscription %q does not come to its end", p.Subscription)
}

// subscribed lists the model's subscriptions.
func (q *sequence) subscribed(ns string) []store.Subscription {
	list, err := q.model.ListSubscriptions(q.ctx, store.ListSubscriptionsParams{Namespace: ns})
	if err != nil {
		panic(err) // the params are right
	}
	return list
}

func putSubscription(s store.Store, ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
	out, err := s.(store.Outboxer).PutSubscription(ctx, p)
	return compared(out), err
}

func listSubscriptions(s store.Store, ctx context.Context, p store.ListSubscriptionsParams) ([]store.Subscription, error) {
	list, err := s.(store.Outboxer).ListSubscriptions(ctx, p)
	for i := range list {
		list[i] = compared(list[i])
	}
	return list, err
}

// compared takes out what differs: which of two changes of one write is the first, and a time that may be that of the
// database's clock.
func compared(s store.Subscription) store.Subscription {
	s.Attempts = 0
	if s.Name != randomSubscriptions[0] {
		s.OldestAt = time.Time{}
	}
	return s
}

// endOfOutbox compares the subscriptions, and everything that they still tell.
func (q *sequence) endOfOutbox(ns string) {
	if !q.outbox() {
		return
	}
	compare(q, "ListSubscriptions", store.ListSubscriptionsParams{Namespace: ns}, listSubscriptions)
	for _, s := range q.subscribed(ns) {
		compare(q, "Drain", drain{ns, s.Name, q.now.Add(1000 * time.Hour)}, drained)
	}
}
