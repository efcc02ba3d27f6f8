package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/webhook"
)

const secretURL = "https://receiver.example/hooks?token=hidden"

// receiver answers requests, in a bubble.
type receiver struct {
	t      *testing.T
	secret webhook.Secret

	mu     sync.Mutex
	got    []webhook.Event
	ids    []string
	times  []time.Time
	active int
	peak   int
	answer func(n int, e webhook.Event) (status int, header http.Header, err error) // n counts requests from 1
	takes  time.Duration
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	content, err := io.ReadAll(req.Body)
	assert.NoError(r.t, err)
	assert.NoError(r.t, webhook.Verify(r.secret, req.Header, content, time.Now()))
	var e webhook.Event
	assert.NoError(r.t, json.Unmarshal(content, &e))
	r.mu.Lock()
	r.got, r.ids, r.times = append(r.got, e), append(r.ids, req.Header.Get("webhook-id")), append(r.times, time.Now())
	n := len(r.got)
	r.active++
	r.peak = max(r.peak, r.active)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.active--
	}()
	if r.takes > 0 {
		select {
		case <-time.After(r.takes):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	status, header := http.StatusNoContent, http.Header{}
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		if status, header, err = answer(n, e); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
}

// accept makes the receiver accept everything.
func (r *receiver) accept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = nil
}

// kinds lists what has arrived about a run.
func (r *receiver) kinds(run store.ID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kinds []string
	for _, e := range r.got {
		if e.Data.Run == run.String() {
			kinds = append(kinds, strings.TrimPrefix(e.Type, "run."))
		}
	}
	return strings.Join(kinds, " ")
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// world is an engine, a receiver, and what senders log.
type world struct {
	*receiver
	eng  *engine.Engine
	logs bytes.Buffer
}

// inBubble calls f in a bubble.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st, err := sqlite.Open(t.Context(), ":memory:")
		require.NoError(t, err)
		w := &world{receiver: &receiver{t: t, secret: webhook.NewSecret()}}
		w.eng = engine.New(st, engine.Require(engine.RequireNothing), engine.Logger(slog.New(slog.NewTextHandler(&lockedWriter{w: &w.logs}, nil))))
		f(t, w)
		w.eng.Close()
		require.NoError(t, st.Close())
	})
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

func (w *world) endpoint() webhook.Endpoint {
	return webhook.Endpoint{Name: "audit", URL: secretURL, Secret: w.secret}
}

// sends runs a sender until the function that it returns is called, which returns the error of Run.
func (w *world) sends(t *testing.T, ep webhook.Endpoint, opts ...webhook.Option) (end func() error) {
	t.Helper()
	s, err := webhook.New(w.eng, ep, append([]webhook.Option{webhook.Transport(w.receiver)}, opts...)...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-done
	}
}

// doctor returns what the doctor has found about webhooks.
func (w *world) doctor(t *testing.T) string {
	t.Helper()
	findings, err := w.eng.Doctor(t.Context(), nil)
	require.NoError(t, err)
	var all []string
	for _, f := range findings {
		if f.Name == "webhooks" {
			all = append(all, f.Seen)
		}
	}
	return strings.Join(all, "\n")
}

func (w *world) start(t *testing.T) store.ID {
	t.Helper()
	st, err := w.eng.Start(t.Context(), "flow", nil)
	require.NoError(t, err)
	return st.ID
}

func TestChangesArriveSignedAndInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		end := w.sends(t, w.endpoint())
		id := w.start(t)
		require.NoError(t, w.eng.Pause(t.Context(), id))
		require.NoError(t, w.eng.Resume(t.Context(), id))
		require.NoError(t, w.eng.Cancel(t.Context(), id, "no more"))
		time.Sleep(2 * time.Second)
		require.NoError(t, end())
		assert.Equal(t, "created paused resumed canceled", w.kinds(id))
		e := w.got[0]
		assert.Equal(t, webhook.EventData{Run: id.String(), Namespace: engine.DefaultNamespace, Workflow: "flow", Queue: "flow", Seq: e.Data.Seq}, e.Data)
		subs, err := w.eng.Subscriptions(t.Context())
		require.NoError(t, err)
		require.Len(t, subs, 1)
		assert.Zero(t, subs[0].Waiting)
		assert.Len(t, slices.Compact(slices.Sorted(slices.Values(w.ids))), 4)
	})
}

func TestChangesOfBeforeAStartAreDelivered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		require.NoError(t, w.sends(t, w.endpoint())())
		var ids []store.ID
		for range 100 {
			ids = append(ids, w.start(t))
		}
		w.takes = 100 * time.Millisecond
		end := w.sends(t, w.endpoint(), webhook.Concurrency(5))
		time.Sleep(5 * time.Second)
		require.NoError(t, end())
		for _, id := range ids {
			assert.Equal(t, "created", w.kinds(id))
		}
		assert.Equal(t, 5, w.peak)
	})
}

func TestAFailedChangeHoldsOnlyItsRun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var bad store.ID
		w.answer = func(_ int, e webhook.Event) (int, http.Header, error) {
			if e.Data.Run == bad.String() {
				return http.StatusUnprocessableEntity, nil, nil
			}
			return http.StatusOK, nil, nil
		}
		bad = w.start(t) // before the subscription: not sent
		end := w.sends(t, w.endpoint())
		require.NoError(t, w.eng.Pause(t.Context(), bad))
		require.NoError(t, w.eng.Resume(t.Context(), bad))
		for range 20 {
			id := w.start(t)
			time.Sleep(10 * time.Second)
			assert.Equal(t, "created", w.kinds(id))
		}
		kinds := strings.Fields(w.kinds(bad))
		assert.Equal(t, slices.Repeat([]string{"paused"}, len(kinds)), kinds)
		assert.Len(t, kinds, 6) // at 0, 5, 15, 35, 75 and 155 seconds, more or less
		w.accept()
		time.Sleep(3 * time.Minute)
		require.NoError(t, end())
		assert.Equal(t, "paused resumed", strings.TrimPrefix(w.kinds(bad), strings.Repeat("paused ", 6)))
	})
}

func TestAReceiverThatIsDownIsAskedRarely(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		down := errors.New("connection refused")
		w.answer = func(int, webhook.Event) (int, http.Header, error) { return 0, nil, down }
		end := w.sends(t, w.endpoint())
		for range 500 {
			w.start(t)
		}
		time.Sleep(time.Hour)
		n := w.count()
		assert.Less(t, n, 40)
		assert.Greater(t, n, 12+5)
		subs, err := w.eng.Subscriptions(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 500, subs[0].Waiting)
		assert.Contains(t, subs[0].Error, "connection refused")
		assert.Contains(t, w.doctor(t), "webhook \"audit\" has 500 changes waiting")
		w.accept()
		time.Sleep(10 * time.Minute)
		subs, err = w.eng.Subscriptions(t.Context())
		require.NoError(t, err)
		assert.Less(t, subs[0].Waiting, int64(20), "those that had failed wait for their own time")
		time.Sleep(2 * time.Hour)
		require.NoError(t, end())
		subs, err = w.eng.Subscriptions(t.Context())
		require.NoError(t, err)
		assert.Zero(t, subs[0].Waiting)
		logs := w.logs.String()
		assert.Contains(t, logs, "the receiver of a webhook is down")
		assert.Contains(t, logs, "accepts changes again")
		assert.NotContains(t, logs, "hidden", "the URL is nobody's business")
	})
}

func TestRetryAfterIsRespected(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.answer = func(n int, _ webhook.Event) (int, http.Header, error) {
			if n == 1 {
				return http.StatusTooManyRequests, http.Header{"Retry-After": {"600"}}, nil
			}
			return http.StatusOK, nil, nil
		}
		end := w.sends(t, w.endpoint())
		a := w.start(t)
		time.Sleep(2 * time.Second)
		b := w.start(t)
		time.Sleep(20 * time.Minute)
		require.NoError(t, end())
		assert.Equal(t, "created created", w.kinds(a))
		assert.Equal(t, "created", w.kinds(b))
		assert.GreaterOrEqual(t, w.times[1].Sub(w.times[0]), 10*time.Minute)
		assert.Equal(t, w.ids[0], w.ids[slices.IndexFunc(w.got[1:], func(e webhook.Event) bool { return e.Data.Run == a.String() })+1], "the id of each attempt is the same")
	})
}

func TestWhatIsNotAccepted(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusBadRequest, http.StatusInternalServerError} {
		inBubble(t, func(t *testing.T, w *world) {
			w.answer = func(n int, _ webhook.Event) (int, http.Header, error) {
				if n == 1 {
					return status, http.Header{"Location": {"https://elsewhere.example"}}, nil
				}
				return http.StatusAccepted, nil, nil
			}
			end := w.sends(t, w.endpoint())
			id := w.start(t)
			time.Sleep(10 * time.Second)
			require.NoError(t, end())
			assert.Equal(t, "created created", w.kinds(id), "status %d", status)
		})
	}
}

func TestASlowReceiverIsTimedOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.takes = time.Minute
		end := w.sends(t, w.endpoint(), webhook.Timeout(3*time.Second))
		w.start(t)
		time.Sleep(6 * time.Second)
		require.NoError(t, end())
		subs, err := w.eng.Subscriptions(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []any{int64(1), 1, "the receiver has not answered in time"}, []any{subs[0].Waiting, subs[0].Attempts, subs[0].Error})
	})
}

func TestGoneEndsTheSender(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.answer = func(int, webhook.Event) (int, http.Header, error) { return http.StatusGone, nil, nil }
		s, err := webhook.New(w.eng, w.endpoint(), webhook.Transport(w.receiver))
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		synctest.Wait()
		w.start(t)
		require.ErrorIs(t, <-done, webhook.ErrGone)
		subs, err := w.eng.Subscriptions(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, subs[0].Waiting)
		require.NoError(t, w.eng.Unsubscribe(t.Context(), "audit"))
		require.ErrorIs(t, w.eng.Unsubscribe(t.Context(), "audit"), store.ErrNotFound)
	})
}

func TestADeletedSubscriptionEndsTheSender(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s, err := webhook.New(w.eng, w.endpoint(), webhook.Transport(w.receiver))
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		synctest.Wait()
		require.NoError(t, w.eng.Unsubscribe(t.Context(), "audit"))
		require.ErrorIs(t, <-done, store.ErrNotFound)
	})
}

func TestOneOfTwoSendersSendsAndTheOtherTakesOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, second := w.sends(t, w.endpoint()), w.sends(t, w.endpoint())
		var ids []store.ID
		for range 20 {
			ids = append(ids, w.start(t))
			time.Sleep(time.Second)
		}
		require.NoError(t, first())
		for range 20 {
			ids = append(ids, w.start(t))
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		require.NoError(t, second())
		for _, id := range ids {
			assert.Equal(t, "created", w.kinds(id))
		}
	})
}

func TestRequestsInProgressEndBeforeRunReturns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.takes = 5 * time.Second
		end := w.sends(t, w.endpoint())
		w.start(t)
		time.Sleep(2 * time.Second)
		begun := time.Now()
		require.NoError(t, end())
		assert.Greater(t, time.Since(begun), time.Second)
		subs, err := w.eng.Subscriptions(t.Context())
		require.NoError(t, err)
		assert.Zero(t, subs[0].Waiting)
	})
}

func TestHousekeepingDropsWhatNobodyDelivers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := w.eng.Subscribe(t.Context(), store.Subscription{Name: "forgotten", Keep: time.Hour})
		require.NoError(t, err)
		for range 3 {
			w.start(t)
		}
		time.Sleep(2 * time.Hour)
		w.start(t)
		pass, err := w.eng.Housekeep(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, pass.Dropped)
		subs, err := w.eng.Subscriptions(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 3}, []int64{subs[0].Waiting, subs[0].Dropped})
		assert.Contains(t, w.logs.String(), "nobody has delivered in time")
	})
}

func TestInvalidEndpoints(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for name, change := range map[string]func(ep *webhook.Endpoint){
			"no name":          func(ep *webhook.Endpoint) { ep.Name = "" },
			"no secret":        func(ep *webhook.Endpoint) { ep.Secret = "" },
			"a wrong secret":   func(ep *webhook.Endpoint) { ep.OldSecret = "whsec_hidden" },
			"no URL":           func(ep *webhook.Endpoint) { ep.URL = "" },
			"another scheme":   func(ep *webhook.Endpoint) { ep.URL = "ftp://hidden.example" },
			"a URL of no kind": func(ep *webhook.Endpoint) { ep.URL = "https://hidden.example:port\x7f" },
			"an unknown kind":  func(ep *webhook.Endpoint) { ep.Kinds = []store.ChangeKind{99} },
		} {
			ep := w.endpoint()
			change(&ep)
			_, err := webhook.New(w.eng, ep)
			require.ErrorIs(t, err, store.ErrInvalid, name)
			assert.NotContains(t, fmt.Sprint(err), "hidden", name)
		}
	})
}
