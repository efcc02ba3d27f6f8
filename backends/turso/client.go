package turso

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// client sends pipelines to one database.
type client struct {
	http   *http.Client
	url    string // the database's URL
	token  func(context.Context) (string, error)
	header http.Header

	streams streams

	rest     atomic.Int64           // when the pause that the server asked for ends, in nanoseconds since 1970
	readOnly atomic.Pointer[string] // a token that the server accepts only for reads

	trips, read, written atomic.Int64
}

// Counters count what a store has sent to the server since it was opened.
type Counters struct {
	// RoundTrips does not count the requests that only close a stream, for which nobody waits.
	RoundTrips int64
	// RowsRead and RowsWritten are counted as the server's statistics count them: a statement that
	// reads and writes no row, such as BEGIN, counts as one row read.
	RowsRead    int64
	RowsWritten int64
}

// Counters returns what this store has sent to the server. Through a [Transport], only round trips
// are counted.
func (s *Store) Counters() Counters { return s.runner.counters() }

func (c *client) counters() Counters {
	return Counters{c.trips.Load(), c.read.Load(), c.written.Load()}
}

// Counts implements [store.Counter].
func (s *Store) Counts() []store.Count {
	c := s.Counters()
	return []store.Count{
		{Name: "round_trips", About: "Requests to the server.", Unit: "{request}", Value: c.RoundTrips},
		{Name: "rows_read", About: "Rows read, as the server counts them.", Unit: "{row}", Value: c.RowsRead},
		{Name: "rows_written", About: "Rows written, as the server counts them.", Unit: "{row}", Value: c.RowsWritten},
	}
}

// newTransport makes the HTTP transport of a store. Each request also has its own deadline.
func newTransport(c *config) *http.Transport {
	dial := c.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	var secure *tls.Config
	if c.roots != nil {
		secure = &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Transport{
		TLSClientConfig:     secure,
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // most answers are small, and the server compresses large ones slowly
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        writers + readers + 1,
		MaxIdleConnsPerHost: writers + readers + 1,
		IdleConnTimeout:     90 * time.Second,
		// All requests share a connection of HTTP/2. If nothing comes from it for a while, a ping finds out whether it is
		// half-open; otherwise it would be used until the system gives it up, which takes a quarter of an hour.
		HTTP2: &http.HTTP2Config{SendPingTimeout: min(c.timeout/late, maxSilence), PingTimeout: min(c.timeout/late, maxSilence)},
	}
}

// maxSilence is how long a connection may be silent before it is tested, and how long the test may take.
const maxSilence = 5 * time.Second

// maxAnswer limits the size of an answer that is read into memory. The server's own limit is 10 MB
// for a statement by default.
const maxAnswer = 256 << 20

// maxExcerpt is how much an error quotes of an answer that is not Hrana.
const maxExcerpt = 200

// send sends the pipeline that build makes for a stream, and returns the answer to each of its batches. If the
// server may have applied the pipeline before the error, the error is an *unsureError.
func (c *client) send(ctx context.Context, build func(*stream) *pipeline) (*answer, error) {
	token, err := c.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("no token: %w", err)
	}
	on, keep := c.streams.take(time.Now())
	a, err := c.try(ctx, token, build(on), keep)
	var status *statusError
	if !errors.As(err, &status) {
		return a, err
	}
	switch {
	case status.status == http.StatusTooManyRequests:
		c.streams.crowded(time.Now())
		return a, err
	case on.baton == "":
		return a, err
	case status.lostStream():
		c.streams.lost(time.Now())
	case status.brokenWay():
		c.streams.giveUp()
	default:
		return a, err
	}
	return c.try(ctx, token, build(newStream(time.Now())), false)
}

// try sends a pipeline once. If the stream is not to be kept, the server closes it.
func (c *client) try(ctx context.Context, token string, p *pipeline, keep bool) (*answer, error) {
	keep = keep && !c.streams.old(p.on, time.Now())
	c.trips.Add(1)
	a, err := c.exchange(ctx, token, p.end(keep), p.requests)
	if err != nil {
		var unsure *unsureError
		if keep && errors.As(err, &unsure) { // the server may have begun or continued a stream whose baton is lost
			c.streams.unanswered(time.Now())
		}
		return nil, err
	}
	if keep && a.Baton != "" {
		p.on.baton = a.Baton
		last := a.Results[p.requests-1]
		if usable := a.BaseURL == "" && last.Type == "ok"; !usable {
			c.streams.lost(time.Now())
			c.streams.drop(p.on)
		} else if !last.Response.Autocommit || !c.streams.put(p.on, time.Now()) {
			c.streams.drop(p.on)
		}
	}
	a.Results = a.Results[p.before : p.requests-1]
	return a, nil
}

// exchange sends a pipeline of so many requests and returns the answers to them.
func (c *client) exchange(ctx context.Context, token string, body []byte, requests int) (*answer, error) {
	res, text, err := c.post(ctx, token, body)
	if err != nil {
		return nil, err
	}
	return c.read3(res, text, requests)
}

// post sends a body and returns the answer.
func (c *client) post(ctx context.Context, token string, body []byte) (*http.Response, []byte, error) {
	req, err := c.request(ctx, http.MethodPost, "v3/pipeline", token, body)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			c.http.CloseIdleConnections() // they may be half-open, too
		}
		return nil, nil, transportError(ctx, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, nil, transportError(ctx, err)
	}
	return res, text, nil
}

// hangUp closes a stream. If that fails, the server does it later.
func (c *client) hangUp(st *stream) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	token, err := c.token(ctx)
	if err != nil {
		return
	}
	if _, _, err = c.post(ctx, token, st.closing()); err != nil {
		c.streams.unanswered(time.Now())
	}
}

// request makes a request for a path below the database's URL.
func (c *client) request(ctx context.Context, method, path, token string, body []byte) (*http.Request, error) {
	u, err := url.JoinPath(c.url, path)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, u, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.header)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// readThrough sends a request that only reads. Reads go to the primary, which requires them to be
// sent as possible writes, unless the token is known to allow only reads. build(on, true) returns the
// request in the form for the primary, build(on, false) in the form that only reads.
func (c *client) readThrough(ctx context.Context, build func(on *stream, primary bool) *pipeline) (*answer, error) {
	token, err := c.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("no token: %w", err)
	}
	plain := func(on *stream) *pipeline { return build(on, false) }
	if known := c.readOnly.Load(); known != nil && *known == token {
		return c.send(ctx, plain)
	}
	a, err := c.send(ctx, func(on *stream) *pipeline { return build(on, true) })
	var status *statusError
	if !errors.As(err, &status) || status.status != http.StatusForbidden {
		return a, err
	}
	if a, again := c.send(ctx, plain); again == nil {
		c.readOnly.Store(&token)
		return a, nil
	}
	return nil, err
}

// leaveAlone records that the server asks for a pause.
func (c *client) leaveAlone(d time.Duration) {
	if until := time.Now().Add(d).UnixNano(); d > 0 && until > c.rest.Load() {
		c.rest.Store(until)
	}
}

// resting returns how much of the pause that the server asked for is left.
func (c *client) resting() time.Duration {
	return max(0, time.Until(time.Unix(0, c.rest.Load())))
}

// older reports whether a server that does not know our path supports an older protocol.
func (c *client) older(ctx context.Context) bool {
	token, err := c.token(ctx)
	if err != nil {
		return false
	}
	knows := func(path string) bool {
		req, err := c.request(ctx, http.MethodGet, path, token, nil)
		if err != nil {
			return false
		}
		res, err := c.http.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	return !knows("v3") && knows("v2")
}

// read3 reads the answers to a pipeline.
func (c *client) read3(res *http.Response, body []byte, requests int) (*answer, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode != http.StatusOK {
		c.leaveAlone(retryAfter(res.Header, time.Now()))
		return nil, newStatusError(res.StatusCode, res.Header, kind, body)
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil || kind != "application/json" {
		return nil, &unsureError{&strangeError{kind, excerpt(body)}}
	}
	if len(a.Results) < requests {
		return nil, &unsureError{fmt.Errorf("got %d answers to %d requests", len(a.Results), requests)}
	}
	for i := range a.Results {
		for _, s := range a.Results[i].Response.Result.Steps {
			if s != nil {
				c.read.Add(s.billed())
				c.written.Add(s.RowsWritten)
			}
		}
	}
	return &a, nil
}

// close closes the streams that are kept, and the connections.
func (c *client) close() {
	c.streams.close()
	c.http.CloseIdleConnections()
}
