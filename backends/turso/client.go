package turso

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// client sends pipelines to one database.
type client struct {
	http  *http.Client
	url   string
	token string

	trips, read, written atomic.Int64
}

// Counters are what a store has asked of the server since it was opened.
type Counters struct {
	RoundTrips int64
	// RowsRead and RowsWritten are as the server counts and bills them.
	RowsRead    int64
	RowsWritten int64
}

// Counters returns what this store has asked of the server. By way of a [Transport]
// only round trips are counted.
func (s *Store) Counters() Counters { return s.runner.counters() }

func (c *client) counters() Counters {
	return Counters{c.trips.Load(), c.read.Load(), c.written.Load()}
}

// Counts implements [store.Counter].
func (s *Store) Counts() []store.Count {
	c := s.Counters()
	return []store.Count{
		{Name: "round_trips", About: "Requests to the server.", Value: c.RoundTrips},
		{Name: "rows_read", About: "Rows read, as the server counts them.", Value: c.RowsRead},
		{Name: "rows_written", About: "Rows written, as the server counts them.", Value: c.RowsWritten},
	}
}

// newTransport makes the one transport of a store. Each request has its own
// deadline beside the ones here.
func newTransport(c *config) *http.Transport {
	dial := c.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // most answers are small, and the server takes long over the others
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        writers + readers + 1,
		MaxIdleConnsPerHost: writers + readers + 1,
		IdleConnTimeout:     90 * time.Second,
	}
}

// maxAnswer bounds the answers that are read into memory; the server's own bound
// is 10 MB for a statement unless it was told another.
const maxAnswer = 256 << 20

// maxExcerpt is how much of an answer that is no Hrana an error quotes.
const maxExcerpt = 200

// send sends a pipeline, once, and returns the answer to each of its requests. An
// error that may have come after the server has applied it is an *unsureError.
func (c *client) send(ctx context.Context, p *pipeline) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(p.close()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	c.trips.Add(1)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, transportError(ctx, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, transportError(ctx, err)
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode != http.StatusOK {
		return nil, newStatusError(res.StatusCode, res.Header, kind, body)
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil || kind != "application/json" {
		return nil, &unsureError{&strangeError{kind, excerpt(body)}}
	}
	if len(a.Results) < p.requests {
		return nil, &unsureError{fmt.Errorf("%d answers to %d requests", len(a.Results), p.requests)}
	}
	for i := range a.Results {
		for _, s := range a.Results[i].Response.Result.Steps {
			if s != nil {
				c.read.Add(s.RowsRead)
				c.written.Add(s.RowsWritten)
			}
		}
	}
	return &a, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }
