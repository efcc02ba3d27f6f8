package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func sign(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// TestGitHubSignature has the example of GitHub's documentation.
func TestGitHubSignature(t *testing.T) {
	verify := GitHub("It's a Secret to Everybody")
	r := httptest.NewRequest("POST", "/", nil)
	require.ErrorIs(t, verify(r, []byte("Hello, World!")), ErrSignature)
	r.Header.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	require.NoError(t, verify(r, []byte("Hello, World!")))
	require.ErrorIs(t, verify(r, []byte("Hello, World?")), ErrSignature)
	require.ErrorIs(t, GitHub("another")(r, []byte("Hello, World!")), ErrSignature)
	require.Panics(t, func() { GitHub("") })
}

func TestStripeSignature(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	verify := stripeAt("whsec_x", func() time.Time { return now })
	header := func(at time.Time, codes ...string) *http.Request {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Stripe-Signature", fmt.Sprintf("t=%d,v1=%s,v0=00", at.Unix(), strings.Join(codes, ",v1=")))
		return r
	}
	body := `{"id":"evt_1"}`
	code := func(at time.Time) string { return sign("whsec_x", fmt.Sprintf("%d.%s", at.Unix(), body)) }
	require.NoError(t, verify(header(now, code(now)), []byte(body)))
	require.NoError(t, verify(header(now, sign("old", "x"), code(now)), []byte(body)), "one of several secrets")
	require.ErrorIs(t, verify(header(now, code(now)), []byte(body+" ")), ErrSignature)
	require.ErrorIs(t, verify(header(now.Add(time.Second), code(now)), []byte(body)), ErrSignature, "the time is signed")
	require.ErrorIs(t, verify(httptest.NewRequest("POST", "/", nil), []byte(body)), ErrSignature)
	late := now.Add(-6 * time.Minute)
	require.ErrorIs(t, verify(header(late, code(late)), []byte(body)), ErrSignature)
}

func TestWebhookSendsASignalOnce(t *testing.T) {
	_, eng := newCounted(t)
	started, err := eng.Start(t.Context(), "review", []byte(`{}`), engine.ExternalID("pr-7"))
	require.NoError(t, err)
	h := Webhook(eng, GitHub("secret"), func(r *http.Request, body []byte) (Delivery, error) {
		var e struct {
			Number int `json:"number"`
		}
		if err := json.Unmarshal(body, &e); err != nil || e.Number == 0 {
			return Delivery{}, err
		}
		return Delivery{ID: r.Header.Get("X-GitHub-Delivery"), ExternalID: fmt.Sprint("pr-", e.Number), Signal: "reviewed"}, nil
	})
	send := func(body, secret string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/hooks/github", strings.NewReader(body))
		r.Header.Set("X-Hub-Signature-256", "sha256="+sign(secret, body))
		r.Header.Set("X-GitHub-Delivery", "d-1")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	require.Equal(t, http.StatusUnauthorized, send(`{"number":7}`, "another").Code)
	require.Equal(t, http.StatusAccepted, send(`{"number":7}`, "secret").Code)
	require.Equal(t, http.StatusAccepted, send(`{"number":7}`, "secret").Code)
	require.Equal(t, http.StatusNoContent, send(`{}`, "secret").Code)
	require.Equal(t, http.StatusBadRequest, send(`nonsense`, "secret").Code)
	require.Equal(t, http.StatusNotFound, send(`{"number":8}`, "secret").Code)
	require.Equal(t, http.StatusRequestEntityTooLarge, send(strings.Repeat("x", maxHook+1), "secret").Code)
	box, err := eng.Store().Inbox(t.Context(), store.InboxParams{Namespace: "default", Run: started.ID})
	require.NoError(t, err)
	require.Len(t, box.Signals, 1)
	require.JSONEq(t, `{"number":7}`, string(box.Signals[0].Payload))
}
