package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func streamOperations() []*operation {
	event := reflect.TypeFor[wire.Event]()
	return []*operation{
		raw(http.MethodGet, "watchRuns", "/v1/runs/events", ReadRuns, reflect.TypeFor[wire.WatchRuns](), noneType, event, "text/event-stream",
			"Follow the runs that a filter selects: an event run for each that is new or has changed.", watchRuns),
		raw(http.MethodGet, "watchRun", "/v1/runs/{id}/events", ReadRuns, reflect.TypeFor[wire.GetRun](), noneType, event, "text/event-stream",
			"Follow a run: the events run, step and progress (of its descendants) for each change, and at last end, with the output.", watchRun),
	}
}

// Times of a stream.
const (
	beat         = 15 * time.Second // between two comments that keep the connection open
	writeLimit   = 10 * time.Second // for one event
	longestWatch = time.Hour        // then the client connects again
)

// streams counts the streams that are open.
type streams struct {
	mu sync.Mutex
	n  int
}

func (s *streams) enter(most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= most {
		return false
	}
	s.n++
	return true
}

func (s *streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
}

// stream is an answer of server-sent events.
type stream struct {
	c  *call
	rc *http.ResponseController
}

// stream serves a viewer until handle says that it is done, the caller leaves or an hour is over.
func (c *call) stream(v *viewer, first func(*stream) (done bool, err error), handle func(*stream, update) (done bool, err error)) error {
	if !c.s.streams.enter(c.s.maxStreams) {
		return tooManyStreams(c.s.maxStreams)
	}
	defer c.s.streams.leave()
	c.space.feed.add(v)
	defer c.space.feed.remove(v)
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies must not wait for more
	c.began = true
	c.w.WriteHeader(http.StatusOK)
	s := &stream{c: c, rc: http.NewResponseController(c.w)}
	_ = s.rc.SetReadDeadline(time.Time{})
	if err := s.write(": connected\nretry: 2000\n\n"); err != nil {
		return err
	}
	if done, err := first(s); done || err != nil {
		return err
	}
	pulse := time.NewTicker(beat)
	defer pulse.Stop()
	over := time.NewTimer(longestWatch)
	defer over.Stop()
	for {
		select {
		case u := <-v.events:
			done, err := handle(s, u)
			if done || err != nil {
				return err
			}
		case <-pulse.C:
			if err := s.write(": beat\n\n"); err != nil {
				return err
			}
		case <-over.C:
			return nil
		case <-c.ctx.Done():
			return nil
		}
	}
}

// write sends text within writeLimit.
func (s *stream) write(text string) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err := s.c.w.Write([]byte(text)); err != nil {
		return err
	}
	if err := s.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// send sends an event.
func (s *stream) send(e wire.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", e.Name, data))
}

func watchRuns(c *call) error {
	var q wire.WatchRuns
	if err := c.readQuery(&q); err != nil {
		return err
	}
	f, err := c.filter(&q.RunFilter)
	if err != nil {
		return err
	}
	if f.FailedStep != "" || f.MinAttempt > 0 {
		return store.Invalid("filter", "a stream cannot select by failed_step or min_attempt; list the runs instead")
	}
	first := func(s *stream) (bool, error) {
		if !q.Snapshot {
			return false, nil
		}
		page, err := c.page(store.ListParams{Filter: f, Limit: feedPage})
		for i := len(page.Runs) - 1; i >= 0 && err == nil; i-- { // the newest last, as if they came in order
			err = s.send(wire.Event{Name: "run", Run: &page.Runs[i]})
		}
		return false, err
	}
	return c.stream(&viewer{}, first, func(s *stream, u update) (bool, error) {
		switch {
		case u.reset:
			return false, s.send(wire.Event{Name: "reset"})
		case u.run != nil && (selects(&f, u.run) || q.All):
			run := asRun(u.run)
			return false, s.send(wire.Event{Name: "run", Run: &run})
		}
		return false, nil
	})
}

// selects reports whether a filter selects a run.
func selects(f *store.RunFilter, r *store.Run) bool {
	code, message := "", ""
	if r.Failure != nil {
		code, message = r.Failure.Code, r.Failure.Message
	}
	within := func(t, after, before time.Time) bool {
		return (after.IsZero() || t.After(after)) && (before.IsZero() || !t.IsZero() && t.Before(before))
	}
	switch {
	case len(f.Statuses) > 0 && !slices.Contains(f.Statuses, r.Status),
		f.Workflow != "" && f.Workflow != r.Workflow, f.Queue != "" && f.Queue != r.Queue,
		!f.Parent.IsZero() && f.Parent != r.Parent, f.ExternalID != "" && f.ExternalID != r.ExternalID,
		f.IDPrefix != "" && !prefixed(r.ID, f.IDPrefix),
		!within(r.CreatedAt, f.CreatedAfter, f.CreatedBefore), !within(r.FinishedAt, f.FinishedAfter, f.FinishedBefore),
		f.FailureCode != "" && f.FailureCode != code, f.FailureText != "" && !strings.Contains(message, f.FailureText),
		!f.MatchesTags(r.Tags), f.Pinned && r.Pin == nil, len(f.PinnedTo) > 0 && !slices.Contains(f.PinnedTo, r.PinnedTo()):
		return false
	}
	return true
}

func prefixed(id store.ID, prefix string) bool {
	bare := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }
	return strings.HasPrefix(bare(id.String()), bare(prefix))
}

func watchRun(c *call) error {
	var q wire.GetRun
	if err := c.readQuery(&q); err != nil {
		return err
	}
	id, err := c.id()
	if err != nil {
		return err
	}
	if _, err := c.eng.Get(c.ctx, id); err != nil {
		return err
	}
	tell := func(s *stream, r *store.Run) (bool, error) {
		run := asRun(r)
		if r.Status.Final() {
			if p, ok := c.progressNow(id); ok {
				tree := asTreeProgress(&p)
				if err := s.send(wire.Event{Name: "progress", Progress: &tree}); err != nil {
					return true, err
				}
			}
		}
		if err := s.send(wire.Event{Name: "run", Run: &run}); err != nil || !r.Status.Final() {
			return false, err
		}
		full, err := c.eng.Get(c.ctx, id)
		if err != nil {
			return true, s.send(wire.Event{Name: "end"})
		}
		run = c.run1(&full, q.MaxPayload)
		return true, s.send(wire.Event{Name: "end", Run: &run})
	}
	first := func(s *stream) (bool, error) {
		run, err := c.eng.Get(c.ctx, id)
		if err != nil {
			return true, s.send(wire.Event{Name: "end"})
		}
		return tell(s, &run)
	}
	return c.stream(&viewer{run: id, steps: true}, first, func(s *stream, u update) (bool, error) {
		switch {
		case u.reset:
			return false, s.send(wire.Event{Name: "reset"})
		case u.gone:
			return true, s.send(wire.Event{Name: "end"})
		case u.tree != nil:
			p := asTreeProgress(u.tree)
			return false, s.send(wire.Event{Name: "progress", Progress: &p})
		case u.step != nil:
			step := asStep(u.step)
			return false, s.send(wire.Event{Name: "step", Step: &step})
		case u.run != nil:
			return tell(s, u.run)
		}
		return false, nil
	})
}

// progressNow reads how far a run's descendants are; ok means that it has any.
func (c *call) progressNow(id store.ID) (p engine.Progress, ok bool) {
	for p, err := range c.eng.WatchProgress(c.ctx, id) {
		return p, err == nil && p.Total > 0
	}
	return p, false
}
