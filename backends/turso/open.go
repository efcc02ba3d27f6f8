// Package turso is Pawl's backend for Turso and other servers of libSQL (sqld):
// SQLite's dialect over HTTP. Any number of processes may work on the same
// database, from anywhere.
//
// Every call is one round trip. A lost answer leaves a write's outcome unknown,
// which its error says; whatever was sent is applied by the server soon or never.
package turso

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

type config struct {
	url      *url.URL // http or https
	token    string
	tokens   func(context.Context) (string, error)
	client   *http.Client
	roots    *x509.CertPool
	header   http.Header
	limits   store.Limits
	logger   *slog.Logger
	timeout  time.Duration
	maxSleep time.Duration
	migrate  bool
	dial     func(ctx context.Context, network, address string) (net.Conn, error)

	transport func(Endpoint) (Transport, error)
}

// Option changes how Open opens.
type Option func(*config)

// WithToken sets the token that the server asks for. It takes the place of the
// URL's authToken.
func WithToken(token string) Option { return func(c *config) { c.token = token } }

// WithTokenSource sets a function that gives the token for each request, for tokens that
// change. It is called by many goroutines at once and keeps what it need not ask for
// again. It takes the place of WithToken and of the URL's authToken.
func WithTokenSource(token func(ctx context.Context) (string, error)) Option {
	return func(c *config) { c.tokens = token }
}

// WithHTTPClient sets the client that sends the requests, in the place of one of the
// store's own. Its transport must not send a request again by itself. Redirections
// are not followed in any case. WithDialer and WithRootCAs do not go with it.
func WithHTTPClient(client *http.Client) Option { return func(c *config) { c.client = client } }

// WithRootCAs sets the certificate authorities that are trusted to tell who the server
// is, in the place of the system's.
func WithRootCAs(roots *x509.CertPool) Option { return func(c *config) { c.roots = roots } }

// WithHeader sets headers that go with each request, for a gateway, say.
func WithHeader(header http.Header) Option { return func(c *config) { c.header = header.Clone() } }

// maxPayload is the largest limit of payloads: the server takes rows of up to 5 MB.
const maxPayload = 4 << 20

// WithLimits sets the sizes that are enforced; zero fields keep their default (see
// [store.Limits.OrDefault]). The payload limit is 4 MB at most, because the server
// takes rows of up to 5 MB.
func WithLimits(l store.Limits) Option { return func(c *config) { c.limits = l } }

// WithLogger sets the logger. The default is [slog.Default].
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithTimeout bounds one round trip. A write that the server has not applied by
// then is not applied later either. The default is 10 seconds.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithMaxSleep sets the longest pause between two looks for what other processes
// have written, while nothing happens. A look reads and writes no row. The default
// is one second.
func WithMaxSleep(d time.Duration) Option { return func(c *config) { c.maxSleep = d } }

// WithDialer sets how connections are made: by way of a tunnel, say.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(c *config) { c.dial = dial }
}

// WithoutMigration leaves the schema alone: Open fails unless the database has
// the very schema of this program.
func WithoutMigration() Option { return func(c *config) { c.migrate = false } }

// Store is a store in one database.
type Store struct {
	*sqlitecore.Core
	runner link
	// What the own client tells of changes; nobody tells it by way of a transport.
	changes *changes
	hub     store.Hub
	poller  poller
	config  config
	closed  sync.Once

	uncounted sync.Once // said that the server does not count changes
	countless atomic.Bool
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Hinter    = (*Store)(nil)
	_ store.Diagnoser = (*Store)(nil)
	_ store.Journal   = (*Store)(nil)
)

// Open opens a database by its URL and brings its schema up to date:
//
//	libsql://name-org.turso.io?authToken=...
//	http://127.0.0.1:8080
//
// libsql means https, or http with tls=0. Further parameters are timeout and
// max_sleep (durations) and migrate (true or false); see the options of these
// names. Errors that only a person can help match store.ErrInvalid and say what to
// do.
func Open(ctx context.Context, location string, opts ...Option) (*Store, error) {
	s, err := connect(location, opts)
	if err != nil {
		return nil, err
	}
	if err := patientlyMigrate(ctx, s); err != nil {
		_ = s.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, openError(&s.config, err)
	}
	return s, nil
}

// patientlyMigrate lets a server that is under load or starts, and other starters, come
// first, for as long as one request may take.
func patientlyMigrate(ctx context.Context, s *Store) error {
	begin := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := migrate(ctx, s.runner, &s.config)
		if !passing(err) || time.Since(begin) > s.config.timeout {
			return s.explain(ctx, err)
		}
		if !pause(ctx, wait/2+rand.N(wait)) {
			return ctx.Err()
		}
	}
}

// passing tells whether what keeps a store from being opened is likely to go away by
// itself. That nobody listens, or that somebody else answers, is not.
func passing(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var strange *strangeError
	var cert *tls.CertificateVerificationError
	var status *statusError
	if errors.As(err, &status) && slices.Contains(refusals, status.status) {
		return false
	}
	return store.Retryable(err) && !errors.As(err, &strange) && !errors.As(err, &cert) && !errors.As(err, &dns) && !(errors.As(err, &op) && op.Op == "dial")
}

// explain tells a database that does not exist from a server that is too old.
func (s *Store) explain(ctx context.Context, err error) error {
	var status *statusError
	r, own := s.runner.(*runner)
	if own && errors.As(err, &status) && status.status == http.StatusNotFound {
		bounded, cancel := context.WithTimeout(ctx, s.config.timeout)
		defer cancel()
		status.older = r.client.older(bounded)
	}
	return err
}

// connect makes a store that has not looked at its schema, nor connected to
// anything.
func connect(location string, opts []Option) (*Store, error) {
	c := config{logger: slog.Default(), timeout: 10 * time.Second, maxSleep: time.Second, migrate: true}
	if err := c.parse(location); err != nil {
		return nil, err
	}
	for _, o := range opts {
		o(&c)
	}
	if c.timeout <= 0 || c.maxSleep <= 0 {
		return nil, store.Invalid("option", "timeout and the longest sleep are above zero")
	}
	var err error
	if c.limits, err = c.limits.OrDefault(); err != nil {
		return nil, err
	}
	if c.limits.Payload > maxPayload {
		return nil, store.Invalid("payload limit", fmt.Sprintf("%d is over %d: the server takes rows of up to 5 MB", c.limits.Payload, maxPayload))
	}
	s := &Store{config: c}
	seen := s.version
	if c.transport == nil {
		client, err := newClient(&c)
		if err != nil {
			return nil, err
		}
		r := newRunner(client, c.timeout)
		s.runner, s.changes = r, r.changes
	} else {
		if c.dial != nil || c.client != nil || c.roots != nil || c.header != nil || c.tokens != nil {
			return nil, store.Invalid("option", "a transport makes its own connections: WithDialer, WithHTTPClient, WithRootCAs, WithHeader and WithTokenSource do not go with it")
		}
		t, err := c.transport(Endpoint{c.url.String(), c.token})
		if err != nil {
			return nil, err
		}
		s.runner, s.changes, seen = newForeign(t, c.timeout), &changes{}, nil
	}
	s.poller.store, s.poller.wake = s, make(chan struct{}, 1)
	s.Core = sqlitecore.New(s.runner, sqlitecore.Config{
		Clock: s.runner.bounds, ServerNow: serverNow, Version: seen, Seen: s.seen, Limits: c.limits, Batched: true, Publish: s.publish,
	})
	return s, nil
}

func newClient(c *config) (*client, error) {
	used := &http.Client{Transport: newTransport(c)}
	if c.client != nil {
		if c.dial != nil || c.roots != nil {
			return nil, store.Invalid("option", "an HTTP client has its own transport: WithDialer and WithRootCAs do not go with WithHTTPClient")
		}
		own := *c.client
		used = &own
	}
	used.CheckRedirect = noRedirect
	token := c.tokens
	if token == nil {
		token = func(context.Context) (string, error) { return c.token, nil }
	}
	return &client{http: used, url: c.url.String(), token: token, header: c.header}, nil
}

// noRedirect passes a redirection on as an answer: followed, a POST becomes a GET.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// host names the database in errors, without the token.
func (c *config) host() string { return c.url.Scheme + "://" + c.url.Host + c.url.Path }

func (c *config) parse(location string) error {
	wrong := func(format string, args ...any) error {
		return store.Invalid("database URL", fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(location)
	if err != nil { // the error quotes the URL, and with it the token
		return wrong("it does not look like libsql://name-org.turso.io?authToken=...")
	}
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("its parameters are malformed")
	}
	tls := u.Scheme != "http"
	switch u.Scheme {
	case "libsql", "https", "http":
	case "ws", "wss":
		return wrong("scheme %s is not supported: over a WebSocket a statement whose answer is lost may be run twice; use libsql:// or https://", u.Scheme)
	case "file":
		return wrong("a file is SQLite's: use sqlite:%s", strings.TrimPrefix(u.Path+u.Opaque, "//"))
	default:
		return wrong("scheme %q is unknown; known are libsql, https and http", u.Scheme)
	}
	if u.Hostname() == "" {
		return wrong("it has no host; it looks like libsql://name-org.turso.io?authToken=...")
	}
	if u.User != nil {
		return wrong("it has a user; a token is given as authToken")
	}
	for key, values := range params {
		v := values[len(values)-1]
		bad := func(want string) error { return wrong("parameter %s=%s is not %s", key, v, want) }
		switch key {
		case "authToken":
			c.token = v
		case "tls":
			if v != "0" && v != "1" {
				return bad("0 or 1")
			}
			if u.Scheme != "libsql" && (v == "1") != tls {
				return wrong("parameter tls=%s contradicts the scheme %s", v, u.Scheme)
			}
			tls = v == "1"
		case "timeout", "max_sleep":
			d, err := time.ParseDuration(v)
			if err != nil || d <= 0 {
				return bad("a duration such as 5s")
			}
			if key == "timeout" {
				c.timeout = d
			} else {
				c.maxSleep = d
			}
		case "migrate":
			if v != "true" && v != "false" {
				return bad("true or false")
			}
			c.migrate = v == "true"
		default:
			return wrong("there is no parameter %q; known are authToken, tls, timeout, max_sleep, migrate", key)
		}
	}
	c.url = &url.URL{Scheme: "https", Host: u.Host, Path: u.Path}
	if !tls {
		c.url.Scheme = "http"
	}
	return nil
}

// Clock implements store.Store: the server's clock.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	return s.runner.ask(ctx)
}

// Features implements store.Store.
func (s *Store) Features() store.Features {
	return store.Features{Name: "turso", Hints: true, SharedClock: true, Processes: true}
}

// Close waits for what is under way. Later calls fail with ErrUnavailable.
func (s *Store) Close() error {
	s.closed.Do(func() {
		s.hub.Close()
		s.poller.close()
		s.runner.close()
	})
	return nil
}
