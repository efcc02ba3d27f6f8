package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/store"
)

func metricOperations() []*operation {
	return []*operation{
		raw(http.MethodGet, "getMetrics", "/metrics", ReadMetrics, reflect.TypeFor[wire.In](), noneType, nil, metricsType,
			"Get metrics in the text format of Prometheus. The store is asked every five seconds at most.", getMetrics),
	}
}

const (
	metricsType = "text/plain; version=0.0.4"
	recentAge   = 5 * time.Second
	recentLimit = 30 * time.Second
)

// recent is an answer of a namespace that counts for five seconds, so that however many ask, the store is asked once.
type recent[T any] struct {
	mu    sync.Mutex
	at    time.Time // zero: there is none
	value T
}

// read returns the answer, from ask if it is old. The next caller does not get an error again.
func (r *recent[T]) read(c *call, ask func(*call) (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < recentAge {
		return r.value, nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, recentLimit)
	defer cancel()
	inner := *c
	inner.ctx = ctx
	value, err := ask(&inner)
	if err == nil {
		r.at, r.value = time.Now(), value
	}
	return value, err
}

func getMetrics(c *call) error {
	var q wire.In
	if err := c.readQuery(&q); err != nil {
		return err
	}
	text, err := c.space.metrics.read(c, (*call).measure)
	if err != nil {
		return err
	}
	c.s.streams.mu.Lock()
	open := c.s.streams.n
	c.s.streams.mu.Unlock()
	var w metricWriter
	w.family("pawl_api_streams", "Streams of events that this process serves.")
	w.value("pawl_api_streams", float64(open))
	c.began = true
	c.w.Header().Set("Content-Type", metricsType)
	_, _ = c.w.Write([]byte(text + w.b.String()))
	return nil
}

// metricWriter writes the text format of Prometheus.
type metricWriter struct{ b strings.Builder }

func (w *metricWriter) family(name, help string) {
	fmt.Fprintf(&w.b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// value writes a sample; labels are names and values in turn.
func (w *metricWriter) value(name string, v float64, labels ...string) {
	var parts []string
	for i := 0; i+1 < len(labels); i += 2 {
		parts = append(parts, fmt.Sprintf(`%s="%s"`, labels[i], labelEscapes.Replace(labels[i+1])))
	}
	if len(parts) > 0 {
		name += "{" + strings.Join(parts, ",") + "}"
	}
	fmt.Fprintf(&w.b, "%s %g\n", name, v)
}

// measure asks the store: counts of at most 10,000 runs of each status, and a page of all else.
func (c *call) measure() (string, error) {
	var w metricWriter
	ns := c.eng.Namespace()
	counts, err := c.eng.Count(c.ctx, store.RunFilter{Statuses: active})
	if err != nil {
		return "", err
	}
	w.family("pawl_runs", "Unfinished runs, by queue, workflow and status. A lower bound if pawl_runs_capped is 1 for the status.")
	for _, n := range counts[:min(len(counts), mostLines)] {
		if n.Count > 0 {
			w.value("pawl_runs", float64(n.Count), "namespace", ns, "queue", n.Queue, "workflow", n.Workflow, "status", n.Status.String())
		}
	}
	w.family("pawl_runs_capped", "Whether there may be more runs of a status than were counted.")
	for _, s := range active {
		capped := 0.0
		if slices.ContainsFunc(counts, func(n store.RunCount) bool { return n.Status == s && n.Capped }) {
			capped = 1
		}
		w.value("pawl_runs_capped", capped, "namespace", ns, "status", s.String())
	}
	if err := c.measureQueues(&w); err != nil {
		return "", err
	}
	if err := c.measureWorkers(&w); err != nil {
		return "", err
	}
	if err := c.measureLimits(&w); err != nil {
		return "", err
	}
	if err := c.measureWebhooks(&w); err != nil {
		return "", err
	}
	return w.b.String(), nil
}

// measured reads what an optional ability of the backend keeps, and the store's clock. It is not able to if the backend lacks the
// ability, without an error, or if a read fails.
func measured[T any](c *call, read func(context.Context) ([]T, error)) (list []T, now time.Time, able bool, err error) {
	if list, err = read(c.ctx); errors.Is(err, store.ErrUnsupported) {
		return nil, now, false, nil
	}
	if err == nil {
		now, err = c.eng.Store().Clock(c.ctx)
	}
	return list, now, err == nil, err
}

func (c *call) measureQueues(w *metricWriter) error {
	l := &lines{byName: map[string]*wire.Line{}}
	if err := c.oldest(l); err != nil {
		return err
	}
	now, err := c.eng.Store().Clock(c.ctx)
	if err != nil {
		return err
	}
	w.family("pawl_queue_oldest_waiting_seconds", "For how long the oldest of the first thousand pending runs of a queue has been due.")
	for _, line := range l.list().Lines {
		if line.OldestWaiting != nil {
			w.value("pawl_queue_oldest_waiting_seconds", now.Sub(*line.OldestWaiting).Seconds(), "namespace", c.eng.Namespace(), "queue", line.Name)
		}
	}
	paused, err := c.eng.Paused(c.ctx)
	if err != nil {
		return err
	}
	w.family("pawl_paused", "A queue or a workflow that is paused.")
	for _, p := range paused[:min(len(paused), mostLines)] {
		kind, name := "queue", p.Queue
		if p.Workflow != "" {
			kind, name = "workflow", p.Workflow
		}
		w.value("pawl_paused", 1, "namespace", c.eng.Namespace(), "kind", kind, "name", name)
	}
	page, err := c.eng.Store().ListSchedules(c.ctx, store.ListSchedulesParams{Namespace: c.eng.Namespace(), Due: true, Limit: mostLines})
	if err != nil {
		return err
	}
	w.family("pawl_schedule_late_seconds", "For how long a schedule has been due and was not fired.")
	for _, s := range page.Schedules {
		w.value("pawl_schedule_late_seconds", now.Sub(s.NextAt).Seconds(), "namespace", c.eng.Namespace(), "schedule", s.Name)
	}
	return nil
}

func (c *call) measureWorkers(w *metricWriter) error {
	workers, err := store.AllWorkers(c.ctx, c.eng.Store(), store.ListWorkersParams{Namespace: c.eng.Namespace(), NoHeld: true})
	if err != nil {
		return err
	}
	count, slots := map[store.WorkerStatus]int{}, 0
	for i := range workers {
		count[workers[i].Status]++
		if workers[i].Status == store.Online {
			slots += workers[i].Slots
		}
	}
	w.family("pawl_workers", "Workers by status.")
	for _, s := range []store.WorkerStatus{store.Online, store.Draining, store.Offline} {
		w.value("pawl_workers", float64(count[s]), "namespace", c.eng.Namespace(), "status", s.String())
	}
	w.family("pawl_worker_slots", "Runs that the online workers can execute at a time.")
	w.value("pawl_worker_slots", float64(slots), "namespace", c.eng.Namespace())
	builds, err := store.AllBuilds(c.ctx, c.eng.Store(), store.ListBuildsParams{Namespace: c.eng.Namespace()})
	if err != nil {
		return err
	}
	w.family("pawl_build_pinned_runs", "Unfinished runs that are pinned to a build.")
	for _, b := range builds[:min(len(builds), mostLines)] {
		w.value("pawl_build_pinned_runs", float64(b.Pinned), "namespace", c.eng.Namespace(), "build", b.Name)
	}
	w.family("pawl_build_workers_online", "Online workers of a build.")
	for _, b := range builds[:min(len(builds), mostLines)] {
		w.value("pawl_build_workers_online", float64(b.Online), "namespace", c.eng.Namespace(), "build", b.Name)
	}
	return nil
}
