package console

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pawlhq/pawl/api/wire"
)

const (
	shownPayload = 4 << 10 // payloads up to so many bytes are on the run's page; larger ones on demand
	mostPayload  = 4 << 20
	shownSteps   = 100
	shownTree    = 100
)

// runData is the page of a run.
type runData struct {
	Run       wire.Run
	Why       *wire.Explanation
	Steps     []wire.Step
	NextSteps int64
	After     int64
	Timeline  *timeline
	Graph     *picture
	Tree      *wire.Tree
	Progress  []wire.Progress
	Descent   wire.TreeProgress
	Streams   []streamData
	CutOff    bool // the streams have further items, which were not read
	Signals   []wire.Signal
	State     []wire.StateEntry
	MoreState bool
	Journal   []wire.Action
	Deeds     []deed
	Mood      string     // the color of the explanation
	Broken    []wire.Run // children that failed
	Took      string
	Failed    []wire.Step // steps that failed, with their attempts
}

func (d *runData) title() string { return "Run " + short(d.Run.ID) + " of " + d.Run.Workflow }

// showRun asks for the parts of a run at the same time, so that they may be of different moments.
func showRun(c *call) (any, error) {
	id := c.r.PathValue("id")
	run, err := c.api.GetRun(c.ctx, id, wire.GetRun{In: c.in, MaxPayload: shownPayload})
	if err != nil {
		return nil, err
	}
	d := &runData{Run: run}
	d.After, _ = strconv.ParseInt(c.r.URL.Query().Get("after"), 10, 64)
	parts := []func() error{
		func() (err error) { d.Why, err = pointer(c.api.ExplainRun(c.ctx, id, c.in)); return err },
		func() error { return d.loadSteps(c, id) },
		func() (err error) {
			d.Tree, err = pointer(c.api.GetTree(c.ctx, id, wire.GetTree{In: c.in, Depth: 3, Limit: shownTree}))
			return err
		},
		func() error {
			list, err := c.api.GetProgress(c.ctx, id, c.in)
			d.Progress, d.Descent = list.Progress, list.Tree
			return err
		},
		func() error {
			page, err := c.api.ListSignals(c.ctx, id, wire.ListSignals{In: c.in, MaxPayload: shownPayload})
			d.Signals = page.Signals
			return err
		},
		func() error {
			list, err := c.api.ListState(c.ctx, id, wire.GetRun{In: c.in, MaxPayload: shownPayload})
			d.State, d.MoreState = list.State, list.More
			return err
		},
		func() error { return d.loadStreams(c, id) },
		func() error { return d.loadJournal(c, id) },
		func() error { return d.loadGraph(c) },
	}
	errs := make([]error, len(parts))
	var wait sync.WaitGroup
	for i, part := range parts {
		wait.Go(func() { errs[i] = part() })
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, problemOf(err)
	}
	d.Timeline = drawTimeline(d.Steps, c.now)
	d.drawGraph()
	d.Took = took(&d.Run, c.now)
	for _, s := range d.Steps {
		if s.Failure != nil || len(s.Earlier) > 0 {
			d.Failed = append(d.Failed, s)
		}
	}
	d.Deeds = runDeeds(c, &d.Run)
	d.Mood = mood(d.Why.Reason)
	for _, child := range d.Tree.Children {
		if child.Run.Status == "failed" && len(d.Broken) < 5 {
			d.Broken = append(d.Broken, child.Run)
		}
	}
	return d, nil
}

func (d *runData) loadSteps(c *call, id string) error {
	page, err := c.api.ListSteps(c.ctx, id, wire.ListSteps{In: c.in, After: d.After, Limit: shownSteps, MaxPayload: shownPayload})
	d.Steps, d.NextSteps = page.Steps, page.Next
	return err
}

// loadJournal reads who did what to the run. Not every backend keeps a journal, and not every viewer may read it.
func (d *runData) loadJournal(c *call, id string) error {
	if !c.may("actions.read") {
		return nil
	}
	page, err := c.api.ListActions(c.ctx, wire.ListActions{Page: wire.Page{In: c.in, Limit: 20}, Run: id})
	if unsupported(err) {
		return nil
	}
	d.Journal = page.Actions
	return err
}

func unsupported(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Code == wire.CodeUnsupported
}

func notFound(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Code == wire.CodeNotFound
}

// loadGraph reads the graph of the run's workflow, if it is registered and has one.
func (d *runData) loadGraph(c *call) error {
	if !c.may("workflows.read") {
		return nil
	}
	w, err := recall(&c.notes, c.identify(c.r), "workflow "+c.in.Namespace+" "+d.Run.Workflow, 10*time.Second, func() (*wire.Workflow, error) {
		w, err := pointer(c.api.GetWorkflow(c.ctx, d.Run.Workflow, c.in))
		if notFound(err) {
			return &wire.Workflow{}, nil
		}
		return w, err
	})
	if err != nil {
		return err
	}
	d.Graph = &picture{graph: w.Graph}
	return nil
}

func (d *runData) drawGraph() {
	if d.Graph != nil {
		d.Graph = drawGraph(d.Graph.graph, d.Steps)
	}
}

// mood groups the reasons why a run is where it is.
func mood(reason string) string {
	switch reason {
	case "stranded", "never-served", "no-worker", "holder-silent", "lease-over", "suspect", "set-aside", "failed":
		return "bad"
	case "limit", "paused", "queue-paused", "workflow-paused", "canceling", "canceled", "retry", "step-retry":
		return "held"
	case "completed":
		return "completed"
	case "sleep", "signal", "children", "event", "scheduled":
		return "sleeping"
	}
	return ""
}

// took says how long a run took, or has taken so far.
func took(r *wire.Run, now time.Time) string {
	switch {
	case r.StartedAt == nil:
		return ""
	case r.FinishedAt != nil:
		return span(r.FinishedAt.Sub(*r.StartedAt))
	}
	return "" // it would change with each look
}

// payloadData is the page of one payload.
type payloadData struct {
	Run, Name string
	Payload   *wire.Payload
}

func (d *payloadData) title() string { return d.Name }

// showPayload shows an input, an output, a value or a signal's payload that is too large for the run's page.
func showPayload(c *call) (any, error) {
	q := c.r.URL.Query()
	id, of := q.Get("run"), q.Get("of")
	d := &payloadData{Run: id}
	switch of {
	case "input", "output":
		run, err := c.api.GetRun(c.ctx, id, wire.GetRun{In: c.in, MaxPayload: mostPayload})
		if err != nil {
			return nil, err
		}
		d.Name, d.Payload = "Input", run.Input
		if of == "output" {
			d.Name, d.Payload = "Output", run.Output
		}
	case "step":
		position, err := strconv.ParseInt(q.Get("position"), 10, 64)
		if err != nil || position < 1 {
			return nil, invalid("%q is not the position of a step", q.Get("position"))
		}
		page, err := c.api.ListSteps(c.ctx, id, wire.ListSteps{In: c.in, After: position - 1, Limit: 1, MaxPayload: mostPayload})
		if err != nil {
			return nil, err
		}
		if len(page.Steps) == 1 && page.Steps[0].Position == position {
			d.Name, d.Payload = "Output of step "+page.Steps[0].Key, page.Steps[0].Output
		}
	case "state":
		entry, err := c.api.GetState(c.ctx, id, q.Get("key"), wire.GetRun{In: c.in, MaxPayload: mostPayload})
		if err != nil {
			return nil, err
		}
		d.Name, d.Payload = "Flow state "+q.Get("key"), entry.Value
	case "signal":
		after, _ := strconv.ParseInt(q.Get("position"), 10, 64)
		page, err := c.api.ListSignals(c.ctx, id, wire.ListSignals{In: c.in, After: after - 1, MaxPayload: mostPayload})
		if err != nil {
			return nil, err
		}
		if len(page.Signals) > 0 && page.Signals[0].Position == after {
			d.Name, d.Payload = "Signal "+page.Signals[0].Name, page.Signals[0].Payload
		}
	}
	if d.Payload == nil {
		return nil, &wire.Problem{Status: http.StatusNotFound, Code: wire.CodeNotFound, Title: "Not found", Detail: "There is no such payload."}
	}
	return d, nil
}

// export hands over a run as a file.
func (c *console) export(w http.ResponseWriter, r *http.Request) {
	call, q := c.call(r), r.URL.Query()
	file := &download{w: w}
	err := call.api.ExportRun(call.ctx, q.Get("run"), wire.Export{In: call.in, Children: q.Get("children") != ""}, file)
	switch {
	case err != nil && !file.began:
		status, page := c.render(call, problemPage(err))
		write(w, status, page)
	case err != nil:
		panic(http.ErrAbortHandler) // so that the viewer does not take a part for the whole
	}
}

// download begins the answer with the first bytes of the file: until then, an error can have a page.
type download struct {
	w     http.ResponseWriter
	began bool
}

func (d *download) Write(b []byte) (int, error) {
	if !d.began {
		d.began = true
		h := d.w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Disposition", `attachment; filename="run.json"`)
		h.Set("Cache-Control", "no-store")
	}
	return d.w.Write(b)
}

func problemPage(err error) page {
	return page{template: "error", load: func(*call) (any, error) { return nil, err }}
}
