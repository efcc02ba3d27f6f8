package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The example of the Standard Webhooks specification's libraries.
const (
	exampleSecret    = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	exampleID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	exampleBody      = `{"test": 2432232314}`
	exampleSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var exampleTime = time.Unix(1614265330, 0)

func TestSignatureIsThatOfTheSpecification(t *testing.T) {
	key, err := exampleSecret.key()
	require.NoError(t, err)
	h := http.Header{}
	sign(h, [][]byte{key}, exampleID, exampleTime, []byte(exampleBody))
	assert.Equal(t, []string{exampleID, "1614265330", exampleSignature}, []string{h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature")})
	require.NoError(t, Verify(exampleSecret, h, []byte(exampleBody), exampleTime))
}

func TestVerifyRefuses(t *testing.T) {
	key, _ := exampleSecret.key()
	for name, change := range map[string]func(h http.Header, body *string, now *time.Time, secret *Secret){
		"another body": func(_ http.Header, body *string, _ *time.Time, _ *Secret) { *body += " " },
		"another id":   func(h http.Header, _ *string, _ *time.Time, _ *Secret) { h.Set(HeaderID, "other") },
		"another time": func(h http.Header, _ *string, _ *time.Time, _ *Secret) { h.Set(HeaderTimestamp, "1614265331") },
		"no time":      func(h http.Header, _ *string, _ *time.Time, _ *Secret) { h.Del(HeaderTimestamp) },
		"no id":        func(h http.Header, _ *string, _ *time.Time, _ *Secret) { h.Del(HeaderID) },
		"no signature": func(h http.Header, _ *string, _ *time.Time, _ *Secret) { h.Del(HeaderSignature) },
		"another version": func(h http.Header, _ *string, _ *time.Time, _ *Secret) {
			h.Set(HeaderSignature, "v2"+exampleSignature[2:])
		},
		"another secret":    func(_ http.Header, _ *string, _ *time.Time, secret *Secret) { *secret = NewSecret() },
		"a request of old":  func(_ http.Header, _ *string, now *time.Time, _ *Secret) { *now = now.Add(Tolerance + time.Second) },
		"a request of then": func(_ http.Header, _ *string, now *time.Time, _ *Secret) { *now = now.Add(-Tolerance - time.Second) },
	} {
		h, body, now, secret := http.Header{}, exampleBody, exampleTime, exampleSecret
		sign(h, [][]byte{key}, exampleID, exampleTime, []byte(exampleBody))
		change(h, &body, &now, &secret)
		require.ErrorIs(t, Verify(secret, h, []byte(body), now), ErrSignature, name)
	}
}

func TestEitherOfTwoSecretsVerifies(t *testing.T) {
	old, fresh := NewSecret(), NewSecret()
	a, err := fresh.key()
	require.NoError(t, err)
	b, err := old.key()
	require.NoError(t, err)
	h := http.Header{}
	sign(h, [][]byte{a, b}, "id", exampleTime, []byte("x"))
	require.NoError(t, Verify(old, h, []byte("x"), exampleTime.Add(Tolerance)))
	require.NoError(t, Verify(fresh, h, []byte("x"), exampleTime.Add(-Tolerance)))
}

func TestSecretIsNotPrinted(t *testing.T) {
	ep := Endpoint{Secret: exampleSecret}
	text, err := json.Marshal(ep)
	require.NoError(t, err)
	for _, s := range []string{fmt.Sprint(ep), fmt.Sprintf("%+v %#v %v %s", ep, ep, &ep, ep.Secret), string(text)} {
		assert.NotContains(t, s, "MfKQ")
	}
	assert.Empty(t, Secret("").String())
	for _, bad := range []Secret{"", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ!", "whsec_MfKQ", Secret("whsec_" + strings.Repeat("MfKQ", 22))} {
		_, err := bad.key()
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "MfKQ")
		require.Error(t, Verify(bad, nil, nil, exampleTime))
	}
}
