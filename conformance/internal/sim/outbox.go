package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/webhook"
)

// outbox is the webhook of a world, whose processes all have a sender of it. The receiver compares what it is told with the
// changes that the watcher has seen.
type outbox struct {
	secret webhook.Secret
	faults float64 // how many requests meet one
	told   map[string]toldOf
}

// toldOf is what a delivery is about.
type toldOf struct {
	run  store.ID
	kind store.ChangeKind
}

const webhookName = "all"

// newOutbox decides whether the world has a webhook. A world of days has none: its senders would poll for too long.
func (w *world) newOutbox() {
	r := w.rng("outbox", 0)
	if r.IntN(4) > 0 || w.profile.lease > time.Minute || !store.Able(w.store, store.Outbox) {
		return
	}
	w.counts.add("world with a webhook")
	w.outbox = &outbox{secret: webhook.NewSecret(), faults: [...]float64{0, 0.1, 0.5}[r.IntN(3)], told: map[string]toldOf{}}
}

// subscribe puts the subscription before anything happens.
func (w *world) subscribe() {
	if w.outbox == nil {
		return
	}
	_, err := w.store.(store.Outboxer).PutSubscription(w.ctx, store.PutSubscriptionParams{Namespace: namespace, Subscription: store.Subscription{Name: webhookName}, Now: w.now(time.Time{})})
	if err != nil {
		w.fail("put the subscription: %v", err)
	}
}

// tell notes the changes of statuses since the last call.
func (w *world) tell() {
	if w.outbox == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.runs {
		if kind := store.ChangeOf(s.before, s.status); kind != 0 {
			s.changes = append(s.changes, kind)
		}
		s.before = s.status
	}
}

// send runs a process's sender until the process ends.
func (p *proc) send(ctx context.Context) {
	w := p.world
	s, err := webhook.New(p.eng, webhook.Endpoint{Name: webhookName, URL: "http://receiver.example", Secret: w.outbox.secret},
		webhook.Transport(&transport{p, w.rng("requests "+p.wire.who, 0)}), webhook.Concurrency(3), webhook.Timeout(w.profile.lease), webhook.Backoff(w.profile.lease/5, w.profile.lease))
	if err != nil {
		w.fail("webhook: %v", err)
		return
	}
	if err := s.Run(ctx); err != nil && !p.dead() && ctx.Err() == nil {
		w.fail("the sender of %s has ended: %v", p.wire.who, err)
	}
}

// transport is the way from a process to the receiver.
type transport struct {
	from *proc
	rand *rand.Rand // guarded by the world's mutex
}

var errNoAnswer = errors.New("the receiver does not answer")

// RoundTrip delivers a request. A process that stands still sends it when it goes on, and one that is dead never does.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	p, w := t.from, t.from.world
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	signed := time.Now().Truncate(time.Second)
	if err := p.work(req.Context(), t.upTo(w.profile.lease/20), true); err != nil {
		return nil, err
	}
	lost, refused, silent := false, false, false
	if w.chaotic() {
		w.mu.Lock()
		if t.rand.Float64() < w.outbox.faults {
			lost, refused, silent = [...]bool{true, false, false}[t.rand.IntN(3)], t.rand.IntN(3) == 0, t.rand.IntN(2) == 0
		}
		w.mu.Unlock()
	}
	switch {
	case lost:
		w.count("webhook: request lost")
		return nil, errNoAnswer
	case refused:
		w.count("webhook: refused")
		return answer(http.StatusServiceUnavailable), nil
	}
	if time.Since(signed) > webhook.Tolerance {
		// The process stood still after it signed the request. The receiver takes it for a copy, and the sender sends a new one.
		w.count("webhook: too old")
		return answer(http.StatusUnauthorized), nil
	}
	w.receive(p.wire.who, req.Header, body)
	if silent {
		w.count("webhook: answer lost")
		return nil, errNoAnswer
	}
	if err := p.work(req.Context(), t.upTo(w.profile.lease/20), true); err != nil {
		return nil, err
	}
	return answer(http.StatusNoContent), nil
}

func (t *transport) upTo(d time.Duration) time.Duration {
	t.from.world.mu.Lock()
	defer t.from.world.mu.Unlock()
	return time.Duration(t.rand.Float64() * float64(d))
}

func answer(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}
}

// receive compares a delivery with what has happened. P31: the changes of a run come in the order in which they happened, none is
// left out, and one that comes again has the same ID.
func (w *world) receive(from string, h http.Header, body []byte) {
	var e webhook.Event
	err := webhook.Verify(w.outbox.secret, h, body, time.Now())
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	var of toldOf
	if err == nil {
		err = of.kind.UnmarshalText([]byte(strings.TrimPrefix(e.Type, "run.")))
	}
	if err == nil {
		of.run, err = store.ParseID(e.Data.Run)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failLocked("the receiver got %q: %v", body, err)
		return
	}
	w.noteLocked(from, "tells that run %s is %v", w.name(of.run), of.kind)
	if w.limits != nil && w.limits.probes[of.run] {
		return // made by checkLimits
	}
	id := h.Get(webhook.HeaderID)
	if before, ok := w.outbox.told[id]; ok {
		w.count("webhook: delivered again")
		if before != of {
			w.failLocked("delivery %s is about run %s, %v, and was about run %s, %v", id, w.name(of.run), of.kind, w.name(before.run), before.kind)
		}
		return
	}
	w.outbox.told[id] = of
	s := w.runs[of.run]
	if s == nil {
		w.failLocked("the receiver was told of run %s, which was never made", of.run)
		return
	}
	w.count("webhook: delivered")
	if n := s.told; n >= len(s.changes) || s.changes[n] != of.kind {
		w.failLocked("the receiver was told that run %s is %v as its change %d; its changes are %v", s.name, of.kind, n+1, s.changes)
	}
	s.told++
}

// drain waits until everything is delivered.
func (w *world) drain() {
	if w.outbox == nil {
		return
	}
	for end := time.Now().Add(20 * time.Minute); ; {
		list, err := w.store.(store.Outboxer).ListSubscriptions(w.ctx, store.ListSubscriptionsParams{Namespace: namespace})
		switch {
		case err != nil || len(list) != 1:
			w.fail("the subscriptions: %v %v", list, err)
			return
		case list[0].Waiting == 0:
			return
		case time.Now().After(end):
			w.fail("%d changes are not delivered 20 minutes after the last run has ended: %s", list[0].Waiting, list[0].Error)
			return
		}
		w.sleep(max(w.profile.lease/4, time.Second))
	}
}

// checkOutbox checks that the receiver was told everything.
func (w *world) checkOutbox() {
	if w.outbox == nil {
		return
	}
	for _, s := range w.runs {
		if s.told < len(s.changes) {
			w.failLocked("the receiver was told %d changes of run %s, and there were %s", s.told, s.name, fmt.Sprint(s.changes))
		}
	}
}

// The methods of the outbox. A read waits until the watcher has noted what was applied.

func (w *wire) PutSubscription(ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
	p.Now = w.world.now(p.Now)
	return carry(ctx, w, "put-subscription", true, p, w.world.store.(store.Outboxer).PutSubscription)
}

func (w *wire) DeleteSubscription(ctx context.Context, p store.DeleteSubscriptionParams) (bool, error) {
	return carry(ctx, w, "delete-subscription", true, p, w.world.store.(store.Outboxer).DeleteSubscription)
}

func (w *wire) ListSubscriptions(ctx context.Context, p store.ListSubscriptionsParams) ([]store.Subscription, error) {
	return carry(ctx, w, "list-subscriptions", false, p, w.world.store.(store.Outboxer).ListSubscriptions)
}

func (w *wire) Changes(ctx context.Context, p store.ChangesParams) (store.ChangePage, error) {
	p.Now = w.world.now(p.Now)
	return carry(ctx, w, "changes", false, p, func(ctx context.Context, p store.ChangesParams) (store.ChangePage, error) {
		defer w.world.alone()()
		return w.world.store.(store.Outboxer).Changes(ctx, p)
	})
}

func (w *wire) Settle(ctx context.Context, p store.SettleParams) error {
	p.Now = w.world.now(p.Now)
	_, err := carry(ctx, w, "settle", true, p, void(w.world.store.(store.Outboxer).Settle))
	return err
}

func (w *wire) DropChanges(ctx context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
	p.Now = w.world.now(p.Now)
	return carry(ctx, w, "drop-changes", true, p, w.world.store.(store.Outboxer).DropChanges)
}
