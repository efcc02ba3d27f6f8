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

// WithToken sets the token that the server requires. It takes precedence over authToken in the URL.
func WithToken(token string) Option { return func(c *config) { c.token = token } }

// WithTokenSource sets a function that returns the token for each request, for tokens that change.
// The function is called by several goroutines concurrently and should cache its result. It takes
// precedence over WithToken and over authToken in the URL.
func WithTokenSource(token func(ctx context.Context) (string, error)) Option {
	return func(c *config) { c.tokens = token }
}

// WithHTTPClient sets the client that sends the requests, instead of one of the store's own. Its
// transport must not resend a request by itself. When an answer is late, the store closes the client's idle
// connections; for HTTP/2, set the transport's HTTP2.SendPingTimeout, as the store's own client does, to
// find connections that are half-open. Redirections are never followed. WithHTTPClient
// cannot be combined with WithDialer or WithRootCAs.
func WithHTTPClient(client *http.Client) Option { return func(c *config) { c.client = client } }

// WithRootCAs sets the certificate authorities that are trusted to identify the server, instead of
// the system's.
func WithRootCAs(roots *x509.CertPool) Option { return func(c *config) { c.roots = roots } }

// WithHeader sets headers that are sent with each request, for example for a gateway.
func WithHeader(header http.Header) Option { return func(c *config) { c.header = header.Clone() } }

// maxPayload is the largest payload limit: the server accepts rows of up to 5 MB.
const maxPayload = 4 << 20

// WithLimits sets the size limits; zero fields keep their default (see [store.Limits.OrDefault]).
// The payload limit is 4 MB at most, because the server accepts rows of up to 5 MB.
func WithLimits(l store.Limits) Option { return func(c *config) { c.limits = l } }

// WithLogger sets the logger. The default is [slog.Default].
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithTimeout limits the duration of one round trip. A write that the server has not applied by
// then is not applied later either. d must be above 0. The default is 10 seconds.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithMaxSleep sets the longest pause between two checks for the writes of other processes while
// nothing happens. A check reads and writes no row. d must be above 0. The default is one second.
func WithMaxSleep(d time.Duration) Option { return func(c *config) { c.maxSleep = d } }

// WithDialer sets how connections are made, for example through a tunnel.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(c *config) { c.dial = dial }
}

// WithoutMigration leaves the schema unchanged. Open then fails with store.ErrInvalid unless the
// program can use the schema as it is ([store.Schema.Usable]): it is the program's own version, or a
// later one that says that it supports this program.
func WithoutMigration() Option { return func(c *config) { c.migrate = false } }

// core implements most of the contract.
type core = sqlitecore.Core

// Store is a store in one database. Create one with [Open]. It implements store.Store and is safe for
// concurrent use.
type Store struct {
	*core
	runner link
	// The changes that package turso's own client reports; nil with a transport, which reports
	// none.
	changes *changes
	hub     store.Hub
	poller  poller
	config  config
	library string // the server's version of SQLite
	closed  sync.Once

	uncounted sync.Once // the warning that the server does not count changes was logged
	countless atomic.Bool
}

var (
	_ store.Store      = (*Store)(nil)
	_ store.Hinter     = (*Store)(nil)
	_ store.Diagnoser  = (*Store)(nil)
	_ store.Journal    = (*Store)(nil)
	_ store.Streamer   = (*Store)(nil)
	_ store.TreeReader = (*Store)(nil)
	_ store.Outboxer   = (*Store)(nil)
)

// Open opens a database by its URL and brings its schema up to date:
//
//	libsql://name-org.turso.io?authToken=...
//	http://127.0.0.1:8080
//
// libsql means https, or http with tls=0. Further parameters are timeout and max_sleep (durations)
// and migrate (true or false); see the options of these names. Errors that need action by a person
// match store.ErrInvalid and say what to do.
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

// patientlyMigrate migrates, and retries for as long as one request may take if the server is busy
// or starting, or if other starters come first.
func patientlyMigrate(ctx context.Context, s *Store) error {
	begin := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := migrate(ctx, s.runner, &s.config, &s.library)
		if !passing(err) || time.Since(begin) > s.config.timeout {
			return s.explain(ctx, err)
		}
		if !pause(ctx, wait/2+rand.N(wait)) {
			return ctx.Err()
		}
	}
}

// passing reports whether the cause that prevents opening a store is likely to go away by itself.
// It is not if nothing listens, or if something else answers.
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

// explain distinguishes a database that does not exist from a server that is too old.
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

// connect makes a store that has not connected to anything and has not checked its schema.
func connect(location string, opts []Option) (*Store, error) {
	c := config{logger: slog.Default(), timeout: 10 * time.Second, maxSleep: time.Second, migrate: true}
	if err := c.parse(location); err != nil {
		return nil, err
	}
	for _, o := range opts {
		o(&c)
	}
	if c.timeout <= 0 || c.maxSleep <= 0 {
		return nil, store.Invalid("option", "the timeout and the longest sleep must be positive")
	}
	var err error
	if c.limits, err = c.limits.OrDefault(); err != nil {
		return nil, err
	}
	if c.limits.Payload > maxPayload {
		return nil, store.Invalid("payload limit", fmt.Sprintf("%d is over %d: the server accepts rows of up to 5 MB", c.limits.Payload, maxPayload))
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
			return nil, store.Invalid("option", "a transport makes its own connections; do not combine it with WithDialer, WithHTTPClient, WithRootCAs, WithHeader or WithTokenSource")
		}
		t, err := c.transport(Endpoint{c.url.String(), c.token})
		if err != nil {
			return nil, err
		}
		s.runner, s.changes, seen = newForeign(t, c.timeout), &changes{}, nil
	}
	s.poller.store, s.poller.wake = s, make(chan struct{}, 1)
	s.core = sqlitecore.New(s.runner, sqlitecore.Config{
		Clock: s.runner.bounds, ServerNow: serverNow, Version: seen, Seen: s.seen, Limits: c.limits, Batched: true, AtOnce: true, Publish: s.publish,
	})
	return s, nil
}

func newClient(c *config) (*client, error) {
	used := &http.Client{Transport: newTransport(c)}
	if c.client != nil {
		if c.dial != nil || c.roots != nil {
			return nil, store.Invalid("option", "an HTTP client has its own transport; do not combine WithHTTPClient with WithDialer or WithRootCAs")
		}
		own := *c.client
		used = &own
	}
	used.CheckRedirect = noRedirect
	token := c.tokens
	if token == nil {
		token = func(context.Context) (string, error) { return c.token, nil }
	}
	made := &client{http: used, url: c.url.String(), token: token, header: c.header}
	made.streams = streams{hangUp: made.hangUp, life: maxLife, within: busyWithin}
	return made, nil
}

// noRedirect returns a redirection as the answer, because following it would turn a POST into a
// GET.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// host returns the name of the database for errors, without the token.
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
		return wrong("its query parameters are malformed")
	}
	tls := u.Scheme != "http"
	switch u.Scheme {
	case "libsql", "https", "http":
	case "ws", "wss":
		return wrong("scheme %s is not supported: over a WebSocket, a statement whose answer is lost may run twice; use libsql:// or https://", u.Scheme)
	case "file":
		return wrong("it names a file; for SQLite, use sqlite:%s", strings.TrimPrefix(u.Path+u.Opaque, "//"))
	default:
		return wrong("unknown scheme %q; want libsql, https or http", u.Scheme)
	}
	if u.Hostname() == "" {
		return wrong("it has no host; it looks like libsql://name-org.turso.io?authToken=...")
	}
	if u.User != nil {
		return wrong("it has a user; pass the token in the parameter authToken")
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
			return wrong("unknown parameter %q; want authToken, tls, timeout, max_sleep or migrate", key)
		}
	}
	c.url = &url.URL{Scheme: "https", Host: u.Host, Path: u.Path}
	if !tls {
		c.url.Scheme = "http"
	}
	return nil
}

// Clock implements store.Store. It returns the server's time.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	return s.runner.ask(ctx)
}

// Features implements store.Store. libSQL servers sync their log only at checkpoints
// (synchronous=NORMAL), which a client cannot change.
func (s *Store) Features() store.Features {
	return store.Features{Name: "turso", Contract: 2, Hints: true, SharedClock: true, Processes: true, Durability: store.Buffered, Version: "libSQL, SQLite " + s.library}
}

// Close waits for calls in progress. Later calls fail with ErrUnavailable.
func (s *Store) Close() error {
	s.closed.Do(func() {
		s.hub.Close()
		s.poller.close()
		s.runner.close()
	})
	return nil
}
