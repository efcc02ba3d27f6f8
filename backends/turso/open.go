// Package turso is Pawl's backend for Turso and other servers of libSQL (sqld):
// SQLite's dialect over HTTP. Any number of processes may work on the same
// database, from anywhere.
//
// Every call is one round trip. A lost answer leaves a write's outcome unknown,
// which its error says; whatever was sent is applied by the server soon or never.
package turso

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
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
	limits   store.Limits
	logger   *slog.Logger
	timeout  time.Duration
	maxSleep time.Duration
	migrate  bool
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

// Option changes how Open opens.
type Option func(*config)

// WithToken sets the token that the server asks for. It takes the place of the
// URL's authToken.
func WithToken(token string) Option { return func(c *config) { c.token = token } }

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
	client *client
	runner *runner
	hub    store.Hub
	poller poller
	config config
	closed sync.Once

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
	if err := migrate(ctx, s.runner, &s.config); err != nil {
		_ = s.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, openError(&s.config, err)
	}
	return s, nil
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
	s.client = &client{http: &http.Client{Transport: newTransport(&c), CheckRedirect: noRedirect}, url: c.url.JoinPath("v3/pipeline").String(), token: c.token}
	s.runner = newRunner(s.client, c.timeout)
	s.poller.store, s.poller.wake = s, make(chan struct{}, 1)
	s.Core = sqlitecore.New(s.runner, sqlitecore.Config{
		Clock: s.runner.bounds, ServerNow: serverNow, Version: s.version, Seen: s.seen, Limits: c.limits, Batched: true, Publish: s.publish,
	})
	return s, nil
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
		s.client.close()
	})
	return nil
}
