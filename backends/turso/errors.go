package turso

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// unsureError wraps an error after which the server may or may not have applied the request.
type unsureError struct{ error }

func (e *unsureError) Unwrap() error { return e.error }

// strangeError is an answer that does not come from a libSQL server.
type strangeError struct{ kind, body string }

func (e *strangeError) Error() string {
	what := e.kind
	if what == "" {
		what = "something"
	}
	return fmt.Sprintf("the answer is %s, not the JSON of libSQL; check that the address is not that of another server or of a proxy that asks for a login. The answer begins: %s", what, e.body)
}

func excerpt(body []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "?")), " ")
	if len(s) > maxExcerpt {
		s = strings.ToValidUTF8(s[:maxExcerpt], "") + "..."
	}
	return s
}

// statusError is an HTTP status other than 200.
type statusError struct {
	status int
	says   string
	target string // the target of a redirection
	older  bool   // the server speaks a protocol older than Hrana 3
}

// lostStream reports whether the server refused the request because of its stream, which it does not have, or
// because the request, or a copy of it, has arrived before. brokenWay reports whether a replica has lost the stream's
// connection to its primary. In both cases the request may be sent again on another stream: to execute a
// request twice has the same effect as to execute it once.
func (e *statusError) lostStream() bool {
	low := strings.ToLower(e.says)
	return e.status == http.StatusBadRequest && slices.ContainsFunc([]string{"invalid baton", "stream has expired", alreadyUsed}, func(s string) bool { return strings.Contains(low, s) })
}

func (e *statusError) brokenWay() bool {
	return e.status == http.StatusInternalServerError && strings.Contains(strings.ToLower(e.says), "connection with primary broken")
}

const alreadyUsed = "baton that has already been used"

// inTheMiddle reports whether a part of the request may have been executed before the server refused it.
func (e *statusError) inTheMiddle() bool {
	low := strings.ToLower(e.says)
	return strings.Contains(low, alreadyUsed) || strings.Contains(low, "sql text")
}

// refusals are the answers with which a server, or a proxy in front of it, says that it has not
// executed the request. After any other answer the request may have been applied: proxies answer
// 502, 503, 504 and 520 in place of an answer that they lost, and 421 and 429 have been seen after
// writes that were applied.
var refusals = []int{
	http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusLengthRequired,
	http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusExpectationFailed,
	http.StatusRequestHeaderFieldsTooLarge,
}

func newStatusError(status int, head http.Header, kind string, body []byte) error {
	e := &statusError{status: status, says: excerpt(body)}
	if to, err := url.Parse(head.Get("Location")); err == nil && to.String() != "" && status < 400 {
		to.User, to.RawQuery, to.Fragment = nil, "", "" // these may contain a token
		e.target = to.String()
	}
	var said struct {
		Error   any    `json:"error"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &said) == nil {
		switch v := said.Error.(type) {
		case string:
			e.says = v
		default:
			if said.Message != "" {
				e.says = said.Message
			}
		}
	} else if kind == "text/html" {
		e.says = (&strangeError{kind, e.says}).Error()
	}
	if !slices.Contains(refusals, status) || e.inTheMiddle() {
		return &unsureError{e}
	}
	return e
}

// maxRest limits the pause that a server may ask for with Retry-After.
const maxRest = 30 * time.Second

// retryAfter returns the pause that an answer asks for, given in seconds or as a date; 0: none.
func retryAfter(head http.Header, now time.Time) time.Duration {
	text := head.Get("Retry-After")
	wait := time.Duration(0)
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRest)
}

func (e *statusError) Error() string {
	advice := map[int]string{
		http.StatusUnauthorized:          "the server does not accept the token: check the URL's authToken, and whether it has expired",
		http.StatusForbidden:             "the token does not allow this: check its rights",
		http.StatusNotFound:              "no such database, or not a libSQL server: check the URL",
		http.StatusRequestEntityTooLarge: "the request is larger than the server accepts",
		http.StatusTooManyRequests:       "the server is overloaded",
		http.StatusServiceUnavailable:    "the server is overloaded",
	}[e.status]
	switch {
	case e.target != "":
		advice = "the server redirects to " + e.target + "; Pawl does not follow redirections: if that is the database's address, use it in the URL"
	case e.older:
		advice = "the server speaks an older protocol; Pawl needs Hrana 3 (/v3/pipeline), available since sqld 0.22: update the server"
	}
	s := fmt.Sprintf("HTTP status %d", e.status)
	if advice != "" {
		s = advice + " (" + s + ")"
	}
	if e.says != "" {
		s += ": " + e.says
	}
	return s
}

// transportError distinguishes requests that were never sent from those that may have arrived. Its
// errors match none of package context's errors, because the context is not the caller's.
func transportError(ctx context.Context, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL
	}
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	switch dialing := errors.As(err, &op) && op.Op == "dial"; {
	case errors.As(err, &dns), errors.As(err, &cert):
		return err
	case dialing && ctx.Err() != nil:
		return errors.New("no connection in time")
	case dialing:
		return err
	case ctx.Err() != nil:
		return &unsureError{errors.New("no answer in time")}
	}
	return &unsureError{err}
}

// These codes of the server mean that the environment refuses the statement, or that something else
// has to be done first. The transaction is rolled back, and the same call may succeed later.
var advice = map[string]string{
	"SQLITE_BUSY":        "another client holds the write lock",
	"SQLITE_LOCKED":      "another client holds the write lock",
	"TRANSACTION_BUSY":   "another client holds the write lock",
	"STREAM_EXPIRED":     "the server has closed the stream",
	"BLOCKED":            "the server blocks reads or writes, perhaps because of a quota",
	"SQLITE_FULL":        "the server's disk is full",
	"SQLITE_READONLY":    "the database is read-only, or the token is",
	"SQLITE_IOERR":       "the server's disk reports an error",
	"SQLITE_NOMEM":       "the server is out of memory",
	"SQLITE_CANTOPEN":    "the server cannot open the database",
	"SQLITE_CORRUPT":     "the database is damaged; restore it from a backup",
	"SQLITE_INTERRUPT":   "the server interrupted the statement",
	"PROXY_ERROR":        "the replica cannot reach its primary",
	"RESPONSE_TOO_LARGE": "the answer is larger than the server allows",
}

// maxRow is the largest row that the server accepts by default.
const maxRow = 5_000_000

// errTooMuch means that the answer to a call exceeds what the server sends at once. A caller that
// asked for many items may ask for fewer.
var errTooMuch = errors.New("turso: the answer is larger than the server allows")

// classify turns an error of a step before COMMIT into one of the store's errors (P16); the
// transaction was rolled back. Other codes are mistakes of this package and are returned unchanged.
func classify(e *serverError) error {
	code := e.Code
	if code == "" || code == "SQLITE_UNKNOWN" || code == "ARGS_INVALID" {
		code = guess(e.Message)
	}
	if i := strings.Index(code, "SQLITE_IOERR"); i == 0 {
		code = "SQLITE_IOERR"
	}
	if code == "SQLITE_TOOBIG" {
		return &store.TooLargeError{Field: "a row", Size: maxRow + 1, Limit: maxRow}
	}
	switch code {
	case "RESPONSE_TOO_LARGE":
		return fmt.Errorf("%w: %w", errTooMuch, store.ErrUnavailable)
	case "TRANSACTION_TIMEOUT":
		return fmt.Errorf("turso: %w: %w: %w", sqlitecore.ErrTooLong, e, store.ErrUnavailable)
	}
	hint, known := advice[code]
	if !known {
		return fmt.Errorf("turso: %w", e)
	}
	return fmt.Errorf("turso: %s: %w: %w", hint, e, store.ErrUnavailable)
}

// guess finds the code of an error for which the server sends only a text.
func guess(text string) string {
	low := strings.ToLower(text)
	for _, g := range [...]struct{ has, code string }{
		{"too big", "SQLITE_TOOBIG"},
		{"database is locked", "SQLITE_BUSY"},
		{"transaction timed-out", "TRANSACTION_TIMEOUT"},
		{"transaction timed out", "TRANSACTION_TIMEOUT"},
		{"response is too large", "RESPONSE_TOO_LARGE"},
		{"stream expired", "STREAM_EXPIRED"},
		{"stream not found", "STREAM_EXPIRED"},
		{"blocked", "BLOCKED"},
	} {
		if strings.Contains(low, g.has) {
			return g.code
		}
	}
	return ""
}

// sizeError says that a request was refused because of its size. Nothing of it was applied, and
// sending it again would fail again.
type sizeError struct{ error }

func (e *sizeError) Error() string { return "turso: " + e.error.Error() }

func (e *sizeError) Unwrap() error { return e.error }

// Is matches store.ErrTooLarge.
func (e *sizeError) Is(target error) bool { return target == store.ErrTooLarge }

// As makes a *store.TooLargeError.
func (e *sizeError) As(target any) bool {
	t, ok := target.(**store.TooLargeError)
	if ok {
		*t = &store.TooLargeError{Field: "a request to the server", Size: callBytes + 1, Limit: callBytes}
	}
	return ok
}

// failure turns the error of a whole round trip into one of the store's errors. A read, or a write
// that was not sent, may be sent again; the outcome of a write that was sent is unknown.
func failure(err error, write bool) error {
	var unsure *unsureError
	var status *statusError
	switch {
	case errors.As(err, &status) && status.status == http.StatusRequestEntityTooLarge:
		return &sizeError{err}
	case write && errors.As(err, &unsure):
		return fmt.Errorf("turso: the answer was lost: %w: %w", err, store.ErrOutcomeUnknown)
	default:
		return fmt.Errorf("turso: %w: %w", err, store.ErrUnavailable)
	}
}

// openError explains why a database cannot be opened. Errors that need action by a person match
// store.ErrInvalid.
func openError(c *config, err error) error {
	var (
		status  *statusError
		strange *strangeError
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
	)
	wrong := func(what string) error {
		return store.Invalid("database", c.host()+": "+what)
	}
	switch {
	case errors.Is(err, store.ErrInvalid):
		return err
	case errors.As(err, &status) && status.status < 500 && status.status != http.StatusTooManyRequests && status.status != http.StatusRequestTimeout:
		return wrong(status.Error())
	case errors.As(err, &strange):
		return wrong(strange.Error())
	case errors.As(err, &cert):
		return wrong("the server's certificate is not trusted; see WithRootCAs: " + cert.Error())
	case errors.As(err, &dns) && dns.IsNotFound:
		return wrong("the host does not exist: check the URL")
	}
	return fmt.Errorf("turso: open %s: %w", c.host(), err)
}
