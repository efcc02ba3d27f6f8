package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/console"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// reads are the pages of the console and the reads of the API that do not name one thing. RUN is a run.
var reads = []string{
	"/api/v1/runs", "/api/v1/runs?status=failed", "/api/v1/runs?status=failed&order=ended", "/api/v1/runs?status=active", "/api/v1/runs?workflow=w3&status=active",
	"/api/v1/runs/count", "/api/v1/runs/count?status=active", "/api/v1/runs/count?status=failed&by_failure=true",
	"/api/v1/runs/RUN", "/api/v1/runs/RUN/steps", "/api/v1/runs/RUN/explain", "/api/v1/runs/RUN/tree", "/api/v1/runs/find?external_id=none",
	"/api/v1/queues", "/api/v1/workflows", "/api/v1/workers", "/api/v1/builds", "/api/v1/limits", "/api/v1/schedules", "/api/v1/actions", "/api/v1/webhooks", "/api/v1/health", "/api/v1/doctor",
	"/api/metrics",
	"/", "/runs", "/runs?status=failed&ended_after=1h", "/runs?status=active", "/runs?workflow=w3&status=completed", "/runs?workflow=none&status=completed", "/runs/RUN",
	"/schedules", "/workflows", "/workers", "/builds", "/limits", "/webhooks", "/doctor", "/journal",
}

// calls counts what a store is asked for.
type calls struct {
	store.Store
	n atomic.Int64
}

func (c *calls) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	c.n.Add(1)
	return c.Store.List(ctx, p)
}

func (c *calls) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	c.n.Add(1)
	return c.Store.Count(ctx, p)
}

func (c *calls) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	c.n.Add(1)
	return c.Store.Get(ctx, p)
}

// seen measures the pages of the console and the reads of the API beside -crowd runs: the p95 of -samples
// requests, one after the other.
func (b *bench) seen(ctx context.Context, at *site) error {
	place, st, leave, err := at.fresh(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for have := 0; have < b.crowd; have += min(b.crowd-have, 50_000) {
		if err := at.raw(ctx, place, at.listedRuns(have+1, have+min(b.crowd-have, 50_000))); err != nil {
			return err
		}
	}
	if at.wal != nil {
		if err := at.raw(ctx, place, `VACUUM ANALYZE pawl.runs`); err != nil {
			return err
		}
	}
	page, err := st.List(ctx, store.ListParams{Namespace: "default", Limit: 1})
	if err != nil {
		return err
	}
	run := page.Runs[0].ID.String()
	eng := engine.New(st)
	defer eng.Close()
	h := api.New(eng)
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", h))
	mux.Handle("/", console.New(h))
	for _, path := range reads {
		var took []float64
		for i := range b.samples + 3 {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, strings.Replace(path, "RUN", run, 1), nil)
			r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
			w := httptest.NewRecorder()
			from := time.Now()
			mux.ServeHTTP(w, r)
			if w.Code != http.StatusOK && w.Code != http.StatusNotFound {
				return fmt.Errorf("GET %s: %d %s", path, w.Code, w.Body)
			}
			if i >= 3 {
				took = append(took, time.Since(from).Seconds()*1000)
			}
		}
		slices.Sort(took)
		p95 := took[int(math.Ceil(0.95*float64(len(took))))-1]
		fmt.Fprintf(os.Stderr, "GET %s beside %d runs: p50 %.1f ms, p95 %.1f ms\n", path, b.crowd, took[len(took)/2], p95)
		b.add(fmt.Sprintf("GET %s, p95, beside %d runs", path, b.crowd), "ms", p95)
	}
	return b.viewers(ctx, st)
}

// viewers measures how often the store is asked for five seconds by one viewer of a live page, and by 200.
func (b *bench) viewers(ctx context.Context, st store.Store) error {
	for _, page := range []string{"", "runs"} {
		for _, n := range []int{1, 200} {
			counted := &calls{Store: st}
			eng := engine.New(counted)
			srv := httptest.NewServer(console.New(api.New(eng), console.Refresh(500*time.Millisecond)))
			watching, stop := context.WithCancel(ctx)
			began := make(chan error, n)
			for range n {
				go func() { began <- follow(watching, srv.URL+"/live?page="+page) }()
			}
			var err error
			for range n {
				if e := <-began; e != nil {
					err = e
				}
			}
			from := counted.n.Load()
			pauseFor(ctx, 5*time.Second)
			asked := counted.n.Load() - from
			stop()
			srv.CloseClientConnections()
			srv.Close()
			eng.Close()
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%d viewers of /%s: %d reads of runs in 5 s\n", n, page, asked)
			b.add(fmt.Sprintf("reads of runs in 5 s for %d viewers of /%s", n, page), "", float64(asked))
		}
	}
	return nil
}

// follow opens a stream of a live page, and reports its first event.
func follow(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	buf := make([]byte, 32<<10)
	if _, err := resp.Body.Read(buf); err != nil {
		return err
	}
	go func() {
		defer resp.Body.Close()
		for {
			if _, err := resp.Body.Read(buf); err != nil {
				return
			}
		}
	}()
	return nil
}

func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
