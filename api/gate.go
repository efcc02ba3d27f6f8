package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/api/wire"
)

// Gate lets requests through that have a token, in the header "Authorization: Bearer", or a session that
// [Gate.Login] has begun with the token. It is what pawl serve has in front of the API and the console.
//
// Of each address, it checks ten wrong tokens, and then one in six seconds; until then it refuses all
// tokens from there with 429. It is safe for concurrent use.
type Gate struct {
	token   [sha256.Size]byte
	key     []byte // of sessions
	now     func() time.Time
	mu      sync.Mutex
	failing map[netip.Prefix]*bucket
}

// Limits of a gate.
const (
	wrongTokens   = 10
	wrongEvery    = 6 * time.Second
	mostFailing   = 10_000 // addresses that are remembered
	sessionLength = 12 * time.Hour
	sessionCookie = "pawl_session"
)

// bucket counts the wrong tokens of an address.
type bucket struct {
	n  float64 // of which the oldest are forgotten as time passes
	at time.Time
}

// NewGate makes a gate with a token. It panics if the token is empty.
func NewGate(token string) *Gate {
	if token == "" {
		panic("api.NewGate: the token is empty")
	}
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("pawl session key"))
	return &Gate{token: sha256.Sum256([]byte(token)), key: mac.Sum(nil), now: time.Now, failing: map[netip.Prefix]*bucket{}}
}

// Wrap lets through to next what [Gate.Check] admits, and answers other requests with its problem.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := g.Check(r); p != nil {
			if p.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
			}
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-store")
			fail(w, p)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Check returns nil for a request with the token or a session, and otherwise the problem: of code
// [wire.CodeUnauthorized] or [wire.CodeTooManyRequests].
func (g *Gate) Check(r *http.Request) *wire.Problem {
	if c, err := r.Cookie(sessionCookie); err == nil && g.session(c.Value) {
		return nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return problem(http.StatusUnauthorized, wire.CodeUnauthorized, `the request has no token; send it as "Authorization: Bearer TOKEN"`)
	}
	return g.try(r, strings.TrimSpace(token))
}

// Login begins a session if the token is right: it sets a cookie that scripts cannot read and
// other sites cannot send, for twelve hours. Otherwise it returns the problem, and sets nothing.
func (g *Gate) Login(w http.ResponseWriter, r *http.Request, token string) *wire.Problem {
	if p := g.try(r, token); p != nil {
		return p
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: g.newSession(g.now().Add(sessionLength)), Path: "/", MaxAge: int(sessionLength.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	})
	return nil
}

// Logout ends the session of the browser.
func (g *Gate) Logout(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
}

// try checks a token.
func (g *Gate) try(r *http.Request, token string) *wire.Problem {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := callerOf(r).Remote
	bits := 64
	if from.Is4() {
		bits = 32
	}
	prefix, _ := from.Prefix(bits) // the zero prefix for a request without an address
	now := g.now()
	b := g.failing[prefix]
	if b != nil {
		b.n = max(0, b.n-now.Sub(b.at).Seconds()/wrongEvery.Seconds())
		b.at = now
		if b.n > wrongTokens-1 {
			return problem(http.StatusTooManyRequests, wire.CodeTooManyRequests, fmt.Sprintf("too many wrong tokens came from this address; try again in %v", wrongEvery))
		}
	}
	sum := sha256.Sum256([]byte(token))
	if hmac.Equal(sum[:], g.token[:]) {
		return nil
	}
	if b == nil {
		if len(g.failing) >= mostFailing {
			clear(g.failing)
		}
		b = &bucket{at: now}
		g.failing[prefix] = b
	}
	b.n++
	return problem(http.StatusUnauthorized, wire.CodeUnauthorized, "the token is wrong")
}

// newSession makes the value of a session's cookie: its end, and a code that only a holder of the token can make.
func (g *Gate) newSession(end time.Time) string {
	value := binary.BigEndian.AppendUint64(nil, uint64(end.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(value, g.mac(value)...))
}

func (g *Gate) session(s string) bool {
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(data) != 8+sha256.Size {
		return false
	}
	return hmac.Equal(data[8:], g.mac(data[:8])) && g.now().Before(time.Unix(int64(binary.BigEndian.Uint64(data)), 0))
}

func (g *Gate) mac(value []byte) []byte {
	mac := hmac.New(sha256.New, g.key)
	mac.Write(value)
	return mac.Sum(nil)
}
