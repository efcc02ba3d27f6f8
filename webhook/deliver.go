package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/store"
)

// result is what came of a request.
type result struct {
	change store.Change
	err    error         // nil: the receiver has accepted the change
	after  time.Duration // how long the receiver asks to wait; 0: it does not
}

const (
	maxAnswer     = 64 << 10  // bytes of an answer that are read
	maxRetryAfter = time.Hour // a receiver may not ask for longer
)

// deliver sends a change and waits for the answer.
func (s *Sender) deliver(ctx context.Context, ch store.Change) result {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	content, err := body(s.engine.Namespace(), &ch)
	if err != nil {
		return result{change: ch, err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.URL, bytes.NewReader(content))
	if err != nil {
		return result{change: ch, err: errors.New("the URL is not valid")}
	}
	sign(req.Header, s.keys, ch.ID.String(), time.Now(), content)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "pawl-webhook")
	res, err := s.client.Do(req)
	if err != nil {
		return result{change: ch, err: withoutURL(err)}
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // so that the connection is used again
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return result{change: ch}
	case res.StatusCode == http.StatusGone:
		return result{change: ch, err: ErrGone}
	}
	return result{change: ch, err: fmt.Errorf("the receiver has answered %d %s", res.StatusCode, http.StatusText(res.StatusCode)), after: retryAfter(res.Header, time.Now())}
}

// withoutURL removes the URL from an error of a client, because it may contain what the receiver keeps secret.
func withoutURL(err error) error {
	var failed *url.Error
	if !errors.As(err, &failed) {
		return err
	}
	if failed.Timeout() {
		return errors.New("the receiver has not answered in time")
	}
	return fmt.Errorf("the request has failed: %w", failed.Err)
}

// retryAfter reads the header Retry-After: seconds, or a time.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// backoff returns the pause after the n-th failure, the first of which is 1: between 80 and 120 percent of a pause that doubles.
func backoff(n int, first, most time.Duration) time.Duration {
	pause := first
	for ; n > 1 && pause < most; n-- {
		pause *= 2
	}
	pause = min(pause, most)
	return time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))
}

// breaker decides whether a receiver is down. It is not safe for concurrent use.
type breaker struct {
	most     int           // failures in a row after which it is down
	longest  time.Duration // between two attempts while it is down
	first    time.Duration
	failures int       // in a row
	until    time.Time // when something may be sent again
}

// longestDown is the longest pause between two attempts while a receiver is down.
const longestDown = 5 * time.Minute

func (b *breaker) down() bool { return b.failures >= b.most }

// allows reports whether a change may be sent now, beside others that are on their way.
func (b *breaker) allows(now time.Time, flying int) bool {
	return !now.Before(b.until) && (!b.down() || flying == 0)
}

// failed notes a failed attempt.
func (b *breaker) failed(now time.Time, after time.Duration) {
	b.failures++
	if b.down() {
		after = max(after, backoff(b.failures-b.most+1, b.first, max(b.first, b.longest)))
	}
	if at := now.Add(after); after > 0 && at.After(b.until) {
		b.until = at
	}
}

// succeeded notes that the receiver has accepted a change.
func (b *breaker) succeeded() { b.failures, b.until = 0, time.Time{} }
