package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Verifier checks the signature of a webhook's request. The body is the request's, which has been read.
type Verifier func(r *http.Request, body []byte) error

// ErrSignature means that a webhook's request is not signed with the secret.
var ErrSignature = errors.New("the signature is missing or wrong")

// GitHub checks requests as GitHub signs them: the header X-Hub-Signature-256 has "sha256=" and
// the HMAC of the body. It panics if the secret is empty.
func GitHub(secret string) Verifier {
	mustSecret(secret)
	return func(r *http.Request, body []byte) error {
		digits, ok := strings.CutPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256=")
		if !ok || !signed(secret, digits, body) {
			return ErrSignature
		}
		return nil
	}
}

// stripeTolerance is the age of a request of Stripe at most, so that it cannot be sent again later.
const stripeTolerance = 5 * time.Minute

// Stripe checks requests as Stripe signs them: the header Stripe-Signature has the time, and the HMAC
// of the time and the body. Requests that were signed more than five minutes ago, or ahead, are refused. It panics
// if the secret is empty.
func Stripe(secret string) Verifier { return stripeAt(secret, time.Now) }

func stripeAt(secret string, now func() time.Time) Verifier {
	mustSecret(secret)
	return func(r *http.Request, body []byte) error {
		stamp, found := "", false
		var codes []string
		for part := range strings.SplitSeq(r.Header.Get("Stripe-Signature"), ",") {
			switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
			case "t":
				stamp = value
			case "v1":
				codes = append(codes, value)
			}
		}
		at, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			return ErrSignature
		}
		for _, code := range codes {
			found = found || signed(secret, code, append([]byte(stamp+"."), body...))
		}
		if !found {
			return ErrSignature
		}
		if age := now().Sub(time.Unix(at, 0)); age > stripeTolerance || age < -stripeTolerance {
			return fmt.Errorf("%w: it is of another time", ErrSignature)
		}
		return nil
	}
}

func mustSecret(secret string) {
	if secret == "" {
		panic("api: the secret of a webhook is empty")
	}
}

// signed compares in constant time.
func signed(secret, digits string, body []byte) bool {
	have, err := hex.DecodeString(digits)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return err == nil && hmac.Equal(have, mac.Sum(nil))
}

// Delivery is what becomes of a webhook's request: a signal to the run Run, or to the active run of
// ExternalID. The zero Delivery means that the request is of no interest.
type Delivery struct {
	// ID identifies the event at its sender, such as the header X-GitHub-Delivery, or Stripe's event
	// id. The signal arrives once, even if the sender repeats the event. It is required.
	ID         string
	Run        store.ID
	ExternalID string
	Suffix     string
	Signal     string // name of the signal
	// Payload is encoded with the engine's codec; nil means the body, which must be JSON.
	Payload any
}

// maxHook limits the body of a webhook's request in bytes.
const maxHook = 1 << 20

// Webhook makes a handler that turns signed requests into signals. Verify checks the signature before
// anything else is looked at, and deliver decides by the body what the signal is; its error is answered with 400.
//
//	mux.Handle("POST /hooks/github", api.Webhook(eng, api.GitHub(secret), func(r *http.Request, body []byte) (api.Delivery, error) {
//		var e struct{ PullRequest struct{ Number int } `json:"pull_request"` }
//		if err := json.Unmarshal(body, &e); err != nil {
//			return api.Delivery{}, err
//		}
//		return api.Delivery{ID: r.Header.Get("X-GitHub-Delivery"), ExternalID: fmt.Sprint("pr-", e.PullRequest.Number), Signal: "reviewed"}, nil
//	}))
//
// The answer is 202 if the signal was sent (or had been), 204 if the request is of no interest, 401 for a wrong signature,
// and otherwise a problem as those of the API, with 404 if there is no such run and 409 if it has ended. A sender
// that repeats requests after an error loses nothing. The journal has "webhook@" and the sender's address as the actor.
func Webhook(eng *engine.Engine, verify Verifier, deliver func(r *http.Request, body []byte) (Delivery, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodPost {
			methodNotAllowed(w, []string{http.MethodPost})
			return
		}
		sent, err := hook(eng, verify, deliver, w, r)
		switch {
		case err != nil:
			p := problemOf(err)
			if p.Code == wire.CodeInternal {
				eng.Logger().Error("a webhook failed", "error", err)
			}
			fail(w, p)
		case sent:
			w.WriteHeader(http.StatusAccepted)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

func hook(eng *engine.Engine, verify Verifier, deliver func(*http.Request, []byte) (Delivery, error), w http.ResponseWriter, r *http.Request) (sent bool, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHook))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return false, problem(http.StatusRequestEntityTooLarge, wire.CodeTooLarge, fmt.Sprintf("the body has more than %d bytes", maxHook))
	case err != nil:
		return false, store.Invalid("body", "it could not be read")
	}
	if err := verify(r, body); err != nil {
		return false, problem(http.StatusUnauthorized, wire.CodeUnauthorized, err.Error())
	}
	d, err := deliver(r, body)
	switch {
	case err != nil:
		return false, store.Invalid("body", err.Error())
	case d == Delivery{}:
		return false, nil
	case d.ID == "":
		return false, store.Invalid("delivery", "it has no ID")
	}
	s := store.NewSignal{
		ID: store.DeriveID(store.ID{}, fmt.Sprintf("webhook %q %q %q", eng.Namespace(), d.Signal, d.ID)), Run: d.Run, ExternalID: d.ExternalID, Suffix: d.Suffix, Name: d.Signal,
	}
	payload := d.Payload
	if payload == nil {
		if !json.Valid(body) {
			return false, store.Invalid("body", "it is not JSON")
		}
		payload = json.RawMessage(body)
	}
	if s.Payload, err = eng.Codec().Marshal(payload); err != nil {
		return false, store.Invalid("payload", err.Error())
	}
	from := callerOf(r).Remote.String()
	ctx := engine.WithFrom(engine.WithActor(r.Context(), cut("webhook@"+from, store.MaxName)), from)
	return true, eng.Signal(ctx, s)
}
