package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/store"
)

// Run puts the subscription and delivers its changes until ctx ends. Then it waits for the requests in progress, at most as long as one may
// take, and returns nil. While the store cannot be reached, Run continues to try. While another process sends the changes of the
// subscription, it waits to take over.
//
// It returns [ErrGone] if the receiver answers so; store.ErrNotFound if the subscription is deleted; and store.ErrUnsupported if the backend keeps
// no changes.
func (s *Sender) Run(ctx context.Context) error {
	_, err := patiently(ctx, s, "put the subscription", func(ctx context.Context) (store.Subscription, error) {
		return s.engine.Subscribe(ctx, s.Subscription())
	})
	for err == nil && ctx.Err() == nil {
		var res store.LockResult
		asked := time.Now()
		res, err = patiently(ctx, s, "take the lock", func(ctx context.Context) (store.LockResult, error) {
			return s.engine.HoldSubscription(ctx, s.endpoint.Name, s.owner, s.hold)
		})
		switch {
		case err != nil:
		case !res.Held:
			pause(ctx, s.hold/3)
		default:
			err = s.session(ctx, asked)
		}
	}
	if ctx.Err() != nil && !errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// patiently repeats a call while the store cannot be reached.
func patiently[T any](ctx context.Context, s *Sender, what string, call func(context.Context) (T, error)) (T, error) {
	for n := 1; ; n++ {
		out, err := call(ctx)
		if err == nil || ctx.Err() != nil || !store.Retryable(err) {
			return out, err
		}
		s.log.Warn("failed to "+what+" of a webhook; retrying", "subscription", s.endpoint.Name, "error", err)
		pause(ctx, backoff(n, time.Second, 30*time.Second))
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// session is the time for which a sender holds the lock of its subscription.
type session struct {
	*Sender
	queue   []store.Change    // to be sent
	busy    map[store.ID]bool // runs whose change is in the queue, on its way or to be settled
	flying  int
	results chan result

	settle  store.SettleParams
	runs    []store.ID // of settle
	breaker breaker
	isDown  bool // which was logged

	renewAt, heldUntil time.Time
	lookAt             time.Time
	again              bool  // look at once
	over               error // why the session ends
}

var errLockLost = errors.New("the lock is another sender's")

// session sends changes until ctx ends, the lock is lost, or there is nothing to be sent any more; then the error says why.
func (s *Sender) session(ctx context.Context, locked time.Time) error {
	t := &session{Sender: s, busy: map[store.ID]bool{}, results: make(chan result, s.concurrency), again: true,
		breaker: breaker{most: max(5, s.concurrency), first: s.first, longest: longestDown}}
	t.holds(locked)
	for t.over == nil && ctx.Err() == nil {
		t.renew(ctx)
		t.look(ctx)
		t.send(ctx)
		t.wait(ctx)
		t.settleAll(ctx)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout+5*time.Second)
	defer cancel()
	for t.flying > 0 {
		t.answered(<-t.results)
	}
	t.settleAll(late)
	if _, err := s.engine.HoldSubscription(late, s.endpoint.Name, s.owner, 0); err != nil {
		s.log.Debug("failed to release a lock; it will expire", "subscription", s.endpoint.Name, "error", err)
	}
	if errors.Is(t.over, errLockLost) {
		return nil
	}
	return t.over
}

func (t *session) holds(asked time.Time) {
	t.renewAt, t.heldUntil = asked.Add(t.hold/3), asked.Add(t.hold)
}

// renew renews the lock in time.
func (t *session) renew(ctx context.Context) {
	asked := time.Now()
	if asked.Before(t.renewAt) {
		return
	}
	res, err := t.engine.HoldSubscription(ctx, t.endpoint.Name, t.owner, t.hold)
	switch {
	case err == nil && res.Held:
		t.holds(asked)
	case err == nil, !time.Now().Before(t.heldUntil):
		t.over = errLockLost
	default:
		t.renewAt = time.Now().Add(time.Second)
	}
}

// look reads changes that are due, if there is room for them.
func (t *session) look(ctx context.Context) {
	now := time.Now()
	if t.over != nil || len(t.queue) > 0 || !t.again && now.Before(t.lookAt) || !t.breaker.allows(now, t.flying) {
		return
	}
	t.again, t.lookAt = false, now.Add(t.poll)
	page, err := t.engine.Changes(ctx, t.endpoint.Name, min(2*t.concurrency+len(t.busy), store.MaxPage))
	switch {
	case err == nil:
	case store.Retryable(err) || ctx.Err() != nil:
		t.log.Warn("failed to read the changes of a webhook; retrying", "subscription", t.endpoint.Name, "error", err)
		return
	default:
		t.over = err
		return
	}
	for _, ch := range page.Changes {
		if !t.busy[ch.Run] {
			t.busy[ch.Run] = true
			t.queue = append(t.queue, ch)
		}
	}
	t.again = page.More && len(t.queue) > 0
	if !page.NextAt.IsZero() {
		if at := now.Add(page.NextAt.Sub(page.Now)); at.Before(t.lookAt) {
			t.lookAt = at
		}
	}
}

// send sends what is in the queue, as far as there is room.
func (t *session) send(ctx context.Context) {
	for len(t.queue) > 0 && t.over == nil && t.flying < t.concurrency && t.breaker.allows(time.Now(), t.flying) {
		ch := t.queue[0]
		t.queue = t.queue[1:]
		t.flying++
		go func() { t.results <- t.deliver(context.WithoutCancel(ctx), ch) }()
	}
}

// wait waits for something to do.
func (t *session) wait(ctx context.Context) {
	now, next := time.Now(), t.renewAt
	earlier := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	allowed, empty := t.breaker.allows(now, t.flying), len(t.queue) == 0
	switch {
	case t.over != nil || allowed && empty && t.again:
		return
	case allowed && empty:
		earlier(t.lookAt)
	case !allowed && t.breaker.until.After(now):
		earlier(t.breaker.until)
	}
	if len(t.runs) > 0 { // the last call of Settle has failed
		earlier(now.Add(time.Second))
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case r := <-t.results:
		t.answered(r)
	}
	for { // what has arrived meanwhile is settled with it
		select {
		case r := <-t.results:
			t.answered(r)
			continue
		default:
		}
		return
	}
}

// answered notes what came of a request.
func (t *session) answered(r result) {
	t.flying--
	ch := r.change
	switch {
	case r.err == nil:
		if t.breaker.succeeded(); t.isDown {
			t.isDown = false
			t.log.Info("the receiver of a webhook accepts changes again", "subscription", t.endpoint.Name)
		}
		t.settle.Delivered = append(t.settle.Delivered, ch.ChangeKey)
	case errors.Is(r.err, ErrGone):
		t.over = fmt.Errorf("webhook %q: %w", t.endpoint.Name, ErrGone)
		fallthrough
	default:
		t.breaker.failed(time.Now(), r.after)
		f := store.FailedDelivery{ChangeKey: ch.ChangeKey, Attempt: ch.Attempts + 1, After: max(r.after, backoff(ch.Attempts+1, t.first, t.most))}
		t.settle.Failed, t.settle.Error = append(t.settle.Failed, f), clip(r.err.Error())
		t.log.Warn("failed to deliver a change of a run", "subscription", t.endpoint.Name, "run", ch.Run.String(), "change", ch.Kind.String(), "attempt", f.Attempt, "again_in", f.After.Round(time.Second), "error", r.err)
		if down := t.breaker.down(); down && !t.isDown {
			t.isDown = true
			t.log.Error("the receiver of a webhook is down; sending one change at a time", "subscription", t.endpoint.Name, "failures", t.breaker.failures, "error", r.err)
		}
	}
	t.runs = append(t.runs, ch.Run)
}

// clip shortens an error to what the store keeps.
func clip(s string) string {
	const most = store.MaxDeliveryError / utf8.UTFMax
	r := []rune(strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", ""))
	return string(r[:min(len(r), most)])
}

// settleAll records what came of requests.
func (t *session) settleAll(ctx context.Context) {
	if len(t.runs) == 0 {
		return
	}
	p := t.settle
	p.Subscription = t.endpoint.Name
	err := t.engine.Settle(ctx, p)
	switch {
	case err == nil:
	case ctx.Err() != nil || store.Retryable(err):
		t.log.Warn("failed to record deliveries of a webhook; retrying", "subscription", t.endpoint.Name, "error", err)
		return // they stay, and are not sent again
	default:
		t.over = err
	}
	for _, run := range t.runs {
		delete(t.busy, run)
	}
	t.settle, t.runs, t.again = store.SettleParams{}, nil, true
}
