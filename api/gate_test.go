package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api/wire"
)

func request(from, token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/info", nil)
	r.RemoteAddr = from
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func TestGateTakesTheTokenAlone(t *testing.T) {
	g := NewGate("a long secret token")
	require.Nil(t, g.Check(request("192.0.2.1:5", "a long secret token")))
	require.Equal(t, wire.CodeUnauthorized, g.Check(request("192.0.2.1:5", "another")).Code)
	require.Equal(t, wire.CodeUnauthorized, g.Check(request("192.0.2.1:5", "")).Code)

	w := httptest.NewRecorder()
	g.Wrap(http.NotFoundHandler()).ServeHTTP(w, request("192.0.2.1:5", ""))
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Equal(t, `Bearer realm="pawl"`, w.Header().Get("WWW-Authenticate"))
	require.NotContains(t, w.Body.String(), "secret")
}

func TestGateSlowsGuessing(t *testing.T) {
	g := NewGate("a long secret token")
	now := time.Now()
	g.now = func() time.Time { return now }
	for range wrongTokens {
		require.Equal(t, wire.CodeUnauthorized, g.Check(request("[2001:db8::1]:5", "wrong")).Code)
	}
	require.Equal(t, wire.CodeTooManyRequests, g.Check(request("[2001:db8::2]:5", "a long secret token")).Code, "a network of IPv6 counts as one")
	require.Nil(t, g.Check(request("192.0.2.1:5", "a long secret token")), "another address is not slowed")
	now = now.Add(wrongEvery)
	require.Nil(t, g.Check(request("[2001:db8::1]:5", "a long secret token")))
	require.Equal(t, wire.CodeUnauthorized, g.Check(request("[2001:db8::1]:5", "wrong")).Code)
	require.Equal(t, wire.CodeTooManyRequests, g.Check(request("[2001:db8::1]:5", "wrong")).Code)
}

func TestGateSessionsEndAndCannotBeMade(t *testing.T) {
	g := NewGate("a long secret token")
	now := time.Now()
	g.now = func() time.Time { return now }
	w := httptest.NewRecorder()
	require.Equal(t, wire.CodeUnauthorized, g.Login(w, request("192.0.2.1:5", ""), "wrong").Code)
	require.Empty(t, w.Header().Get("Set-Cookie"))
	require.Nil(t, g.Login(w, request("192.0.2.1:5", ""), "a long secret token"))
	cookie := w.Result().Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.NotContains(t, cookie.Value, "secret")

	with := func(value string) *http.Request {
		r := request("192.0.2.1:5", "")
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: value})
		return r
	}
	require.Nil(t, g.Check(with(cookie.Value)))
	require.NotNil(t, g.Check(with(NewGate("another token").newSession(now.Add(time.Hour)))))
	flipped := "B" + cookie.Value[1:]
	require.NotNil(t, g.Check(with(flipped)))
	now = now.Add(sessionLength)
	require.NotNil(t, g.Check(with(cookie.Value)))
}
