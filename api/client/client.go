// Package client is the Go client of Pawl's HTTP API (package api). Its methods are named after the
// operations of the OpenAPI document, and take and return the documents of package wire.
//
//	c, err := client.New("https://ops.example.com/pawl/api", client.Token(token))
//	page, err := c.ListRuns(ctx, wire.ListRuns{RunFilter: wire.RunFilter{Status: []string{"failed"}}})
//
// An answer that is no success is a [*wire.Problem]; errors.As finds it. [Local] makes a client
// that calls a handler of the same program, without a network.
//
// A Client is safe for concurrent use.
package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/api/internal/query"
	"github.com/pawlhq/pawl/api/wire"
)

// Client calls the API at one address. Create one with [New] or [Local].
type Client struct {
	base  string
	http  *http.Client
	token string
}

// Option configures a client.
type Option func(*Client)

// Token sends a bearer token with each request.
func Token(token string) Option { return func(c *Client) { c.token = token } }

// HTTPClient sets the client that sends the requests. The default is [http.DefaultClient]. It should
// have no timeout, which would also end streams; use contexts.
func HTTPClient(hc *http.Client) Option {
	return func(c *Client) {
		if hc != nil {
			c.http = hc
		}
	}
}

// New makes a client of the API at a URL: the one below which the API is mounted. The error says that
// the URL is not valid.
func New(base string, opts ...Option) (*Client, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("the URL of the API is %q, want one that begins with http:// or https://", base)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the URL of the API must not have a query or a fragment")
	}
	c := &Client{base: strings.TrimSuffix(base, "/"), http: http.DefaultClient}
	for _, opt := range opts {
		opt(c)
	}
	return c, nil
}

// CallOption configures one call.
type CallOption func(*http.Request)

// IdempotencyKey makes a write safe to repeat: all requests with one key have the effect of one.
func IdempotencyKey(key string) CallOption {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// IfVersion makes a write of flow state fail with [wire.CodeVersionMismatch] unless the key has that version; 0
// means that it does not exist.
func IfVersion(v int64) CallOption {
	return func(r *http.Request) {
		if v == 0 {
			r.Header.Set("If-None-Match", "*")
		} else {
			r.Header.Set("If-Match", `"v`+strconv.FormatInt(v, 10)+`"`)
		}
	}
}

// Namespace names the namespace of a call whose parameters do not have one. An empty name changes nothing.
func Namespace(name string) CallOption {
	return func(r *http.Request) {
		q := r.URL.Query()
		if name == "" {
			return
		}
		q.Set("namespace", name)
		r.URL.RawQuery = q.Encode()
	}
}

// path joins the segments of a path, escaped.
func path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		if s == "." || s == ".." { // a path with these would be cleaned
			s = strings.ReplaceAll(s, ".", "%2E")
		} else {
			s = url.PathEscape(s)
		}
		b.WriteString(s)
	}
	return b.String()
}

// send sends a request and returns the answer, if it is a success.
func (c *Client) send(ctx context.Context, method, at string, params any, body io.Reader, opts []CallOption) (*http.Response, error) {
	target := c.base + at
	if params != nil {
		if q := query.Encode(params).Encode(); q != "" {
			target += "?" + q
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for _, opt := range opts {
		opt(req)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, problemOf(resp)
	}
	return resp, nil
}

// problemOf reads the problem of an answer.
func problemOf(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	p := &wire.Problem{}
	if err := json.Unmarshal(data, p); err != nil || p.Code == "" {
		return &wire.Problem{Type: "about:blank", Title: http.StatusText(resp.StatusCode), Status: resp.StatusCode, Code: wire.CodeInternal,
			Detail: fmt.Sprintf("the answer is %s and has no problem document", resp.Status)}
	}
	return p
}

// call sends a request with a body, if it is not nil, and reads the answer.
func call[A any](ctx context.Context, c *Client, method, at string, params, body any, opts []CallOption) (out A, err error) {
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return out, err
		}
		r = bytes.NewReader(data)
	}
	resp, err := c.send(ctx, method, at, params, r, opts)
	if err != nil {
		return out, err
	}
	return out, decode(resp, &out)
}

// decode reads the answer.
func decode(resp *http.Response, out any) error {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("the answer of %s cannot be decoded: %w", resp.Request.URL.Path, err)
	}
	return nil
}

func get[A any](ctx context.Context, c *Client, at string, params any) (A, error) {
	return call[A](ctx, c, http.MethodGet, at, params, nil, nil)
}

func post[A any](ctx context.Context, c *Client, at string, body any, opts []CallOption) (A, error) {
	return call[A](ctx, c, http.MethodPost, at, nil, body, opts)
}

// maxEvent limits an event of a stream in bytes.
const maxEvent = 16 << 20

// events reads a stream of events until it ends.
func events(ctx context.Context, c *Client, at string, params any) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		resp, err := c.send(ctx, http.MethodGet, at, params, nil, []CallOption{func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }})
		if err != nil {
			yield(wire.Event{}, err)
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, maxEvent)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var e wire.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				yield(e, fmt.Errorf("an event of %s cannot be decoded: %w", at, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(wire.Event{}, err)
		}
	}
}
