package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Secret is what sender and receiver share: "whsec_" and 24 to 64 bytes in base64. It prints as "whsec_...", so that it does not get
// into logs.
type Secret string

// NewSecret makes a random secret.
func NewSecret() Secret {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails
	return Secret(secretPrefix + base64.StdEncoding.EncodeToString(b))
}

const (
	secretPrefix  = "whsec_"
	minSecretSize = 24
	maxSecretSize = 64
)

// String does not return the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return secretPrefix + "..."
}

// GoString does not return the secret.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText does not write the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// key returns the bytes of the secret. Its errors do not contain them.
func (s Secret) key() ([]byte, error) {
	text, ok := strings.CutPrefix(string(s), secretPrefix)
	if !ok {
		return nil, errors.New(`a secret begins with "whsec_"; this one does not`)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New(`a secret is "whsec_" and base64; this one is not`)
	}
	if len(key) < minSecretSize || len(key) > maxSecretSize {
		return nil, fmt.Errorf("a secret has %d to %d bytes; this one has %d", minSecretSize, maxSecretSize, len(key))
	}
	return key, nil
}

// The headers of a request.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// signature returns the signature of a request under one key.
func signature(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// sign sets the headers of a request, with a signature of each key.
func sign(h http.Header, keys [][]byte, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	var all []string
	for _, key := range keys {
		all = append(all, signature(key, id, timestamp, body))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, strings.Join(all, " "))
}

// Tolerance is how far a request's timestamp may be from the receiver's clock, so that an old request cannot be sent again later.
const Tolerance = 5 * time.Minute

// ErrSignature means that a request is not signed with the secret, or was signed too long ago.
var ErrSignature = errors.New("the signature is missing, wrong or old")

// Verify checks that a request was signed with the secret and that its timestamp is within [Tolerance] of now. Body is the whole body, as
// it was received. It fails with [ErrSignature]; any other error says that the secret is not valid. A receiver that has checked a request
// ignores one whose webhook-id it has seen before.
func Verify(secret Secret, header http.Header, body []byte, now time.Time) error {
	key, err := secret.key()
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	id, timestamp := header.Get(HeaderID), header.Get(HeaderTimestamp)
	at, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || err != nil {
		return ErrSignature
	}
	want, found := []byte(signature(key, id, timestamp, body)), false
	for _, got := range strings.Fields(header.Get(HeaderSignature)) {
		found = hmac.Equal([]byte(got), want) || found
	}
	if !found {
		return ErrSignature
	}
	if age := now.Sub(time.Unix(at, 0)); age > Tolerance || age < -Tolerance {
		return fmt.Errorf("%w: it is of another time", ErrSignature)
	}
	return nil
}
