package main

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector keeps what it is sent over OTLP.
type collector struct {
	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics map[string]bool
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	data, err := io.ReadAll(body)
	if err == nil {
		err = c.take(r.URL.Path, data)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *collector) take(path string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch path {
	case "/v1/traces":
		var req collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(data, &req); err != nil {
			return err
		}
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	case "/v1/metrics":
		var req collectormetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(data, &req); err != nil {
			return err
		}
		for _, rm := range req.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					c.metrics[m.Name] = true
				}
			}
		}
	}
	return nil
}

// named gives the spans of a name in the order of their beginning.
func (c *collector) named(name string) (list []*tracepb.Span) {
	for _, s := range c.spans {
		if s.Name == name {
			list = append(list, s)
		}
	}
	for i := range list {
		for j := i; j > 0 && list[j].StartTimeUnixNano < list[j-1].StartTimeUnixNano; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list
}

// The trace of a parent, its child and their attempts, as a collector gets it.
func TestTraceOverOTLP(t *testing.T) {
	c := &collector{metrics: map[string]bool{}}
	srv := httptest.NewServer(c)
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := run(ctx, srv.URL, "sqlite:"+t.TempDir()+"/pawl.db")
	require.NoError(t, err)
	require.Equal(t, "flight from Porto to Bergen, 3 nights in Bergen", out)

	c.mu.Lock()
	defer c.mu.Unlock()
	one := func(name string) *tracepb.Span {
		list := c.named(name)
		require.Len(t, list, 1, name)
		return list[0]
	}
	request, start, flight := one("request"), one("start book-trip"), one("step flight")
	for _, s := range c.spans {
		require.Equal(t, request.TraceId, s.TraceId, "%s is in another trace", s.Name)
	}
	trips, hotel, reserve := c.named("run book-trip"), one("run book-hotel"), c.named("step reserve")
	require.Len(t, trips, 2, "before and after the child")
	require.Len(t, reserve, 2, "one of each attempt")
	require.Equal(t, request.SpanId, start.ParentSpanId)
	require.Equal(t, start.SpanId, trips[0].ParentSpanId)
	require.Equal(t, start.SpanId, trips[1].ParentSpanId)
	require.Equal(t, trips[0].SpanId, flight.ParentSpanId)
	require.Equal(t, trips[0].SpanId, hotel.ParentSpanId, "the child lies below the execution that has started it")
	for i, s := range reserve {
		require.Equal(t, hotel.SpanId, s.ParentSpanId)
		require.Equal(t, i == 0, s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR)
	}
	require.Equal(t, "the hotel does not answer", reserve[0].Status.Message)
	for _, name := range []string{"pawl.run.started", "pawl.run.finished", "pawl.step.duration", "pawl.commit.batch_size"} {
		require.True(t, c.metrics[name], "metric %s", name)
	}
}
