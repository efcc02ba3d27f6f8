package console

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/api/wire"
)

const (
	lateAfter  = time.Minute      // a schedule whose time passed so long ago is late
	doctorRest = 10 * time.Second // an answer of the doctor serves for so long
	lastHour   = "1h"
)

// overviewData is the page of everything at once.
type overviewData struct {
	Lines                              []wire.Line
	Pace                               map[string]*sparkline // by queue
	PaceMinutes                        int
	MoreLines                          bool
	Waiting, Running, Sleeping, Paused total
	OldestWaiting                      *time.Time

	Workers             []wire.Worker
	Online, Slots, Held int
	Builds              []wire.Build
	Stranded            int64
	Late                []wire.Schedule
	Schedules           int
	Limits              []wire.Limit // that hold runs back

	Failures []wire.RunCount // of the last hour, by workflow and code
	Failed   total

	Findings []finding // that are not fine
	Checks   int
}

// total is a sum that may be a lower bound.
type total struct {
	N      int64
	Capped bool
}

func (t *total) add(n int64, capped bool) { t.N, t.Capped = t.N+n, t.Capped || capped }

// finding is one of the doctor's, with the page that helps.
type finding struct {
	wire.Finding
	Path, Link string
	Query      []any
}

func (overviewData) title() string { return "Overview" }

// overview asks for its parts at the same time.
func overview(c *call) (any, error) {
	d := &overviewData{}
	parts := []struct {
		action string
		load   func() error
	}{
		{"queues.read", func() error { return d.loadLines(c) }},
		{"queues.read", func() error { return d.loadPace(c) }},
		{"workers.read", func() error { return d.loadWorkers(c) }},
		{"builds.read", func() error { return d.loadBuilds(c) }},
		{"schedules.read", func() error { return d.loadSchedules(c) }},
		{"limits.read", func() error { return d.loadLimits(c) }},
		{"runs.read", func() error { return d.loadFailures(c) }},
		{"doctor.read", func() error { return d.loadDoctor(c) }},
	}
	errs := make([]error, len(parts))
	var wait sync.WaitGroup
	for i, part := range parts {
		if c.may(part.action) {
			wait.Go(func() { errs[i] = part.load() })
		}
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *overviewData) loadLines(c *call) error {
	lines, err := c.api.ListQueues(c.ctx, c.in)
	if err != nil {
		return err
	}
	d.Lines, d.MoreLines = lines.Lines, lines.More
	for i := range d.Lines {
		l := &d.Lines[i]
		d.Waiting.add(l.Runs["pending"], slices.Contains(l.Capped, "pending"))
		d.Running.add(l.Runs["running"]+l.Runs["canceling"], slices.Contains(l.Capped, "running"))
		d.Sleeping.add(l.Runs["sleeping"], slices.Contains(l.Capped, "sleeping"))
		d.Paused.add(l.Runs["paused"], slices.Contains(l.Capped, "paused"))
		if at := l.OldestWaiting; at != nil && (d.OldestWaiting == nil || at.Before(*d.OldestWaiting)) {
			d.OldestWaiting = at
		}
	}
	return nil
}

func (d *overviewData) loadPace(c *call) error {
	pace, err := c.api.GetPace(c.ctx, c.in)
	if err != nil {
		return err
	}
	d.PaceMinutes, d.Pace = pace.Minutes, map[string]*sparkline{}
	for i := range pace.Queues {
		d.Pace[pace.Queues[i].Name] = drawSparkline(&pace.Queues[i], len(pace.Capped) > 0)
	}
	return nil
}

func (d *overviewData) loadWorkers(c *call) error {
	list, err := c.api.ListWorkers(c.ctx, wire.ListWorkers{In: c.in})
	if err != nil {
		return err
	}
	d.Workers = list.Workers
	for _, w := range d.Workers {
		if w.Status == "online" {
			d.Online++
			d.Slots += w.Slots
			d.Held += int(w.Held)
		}
	}
	return nil
}

func (d *overviewData) loadBuilds(c *call) error {
	list, err := c.api.ListBuilds(c.ctx, c.in)
	if err != nil {
		return err
	}
	d.Builds = list.Builds
	for _, b := range d.Builds {
		if b.Stranded {
			d.Stranded += b.Pinned
		}
	}
	return nil
}

func (d *overviewData) loadSchedules(c *call) error {
	list, err := c.api.ListSchedules(c.ctx, wire.Page{In: c.in, Limit: 1000})
	if err != nil {
		return err
	}
	d.Schedules = len(list.Schedules)
	for _, s := range list.Schedules {
		if late(&s, c.now) {
			d.Late = append(d.Late, s)
		}
	}
	return nil
}

// loadLimits finds the limits with keys that have no permit left, and runs that wait for one.
func (d *overviewData) loadLimits(c *call) error {
	list, err := c.api.ListLimits(c.ctx, c.in)
	if unsupported(err) {
		return nil
	}
	for _, l := range list.Limits {
		if l.FullWaiting > 0 {
			d.Limits = append(d.Limits, l)
		}
	}
	return err
}

// late reports whether a schedule has not fired although its time has passed.
func late(s *wire.Schedule, now time.Time) bool {
	return !s.Paused && s.NextAt != nil && now.Sub(*s.NextAt) > lateAfter
}

func (d *overviewData) loadFailures(c *call) error {
	since := c.now.Add(-time.Hour)
	counts, err := c.api.CountRuns(c.ctx, wire.CountRuns{In: c.in, RunFilter: wire.RunFilter{Status: []string{"failed"}, FinishedAfter: &since}, ByFailure: true})
	if err != nil {
		return err
	}
	d.Failed = total{counts.Total, counts.Capped}
	by := map[[2]string]*wire.RunCount{}
	for _, n := range counts.Counts {
		key := [2]string{n.Workflow, n.FailureCode}
		if by[key] == nil {
			by[key] = &wire.RunCount{Workflow: n.Workflow, FailureCode: n.FailureCode}
		}
		by[key].Count += n.Count
		by[key].Capped = by[key].Capped || n.Capped
	}
	for _, n := range by {
		if n.Count > 0 {
			d.Failures = append(d.Failures, *n)
		}
	}
	slices.SortFunc(d.Failures, func(a, b wire.RunCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.FailureCode, b.FailureCode))
	})
	return nil
}

func (d *overviewData) loadDoctor(c *call) error {
	found, err := c.doctor()
	if err != nil {
		return err
	}
	d.Checks = len(found)
	for _, f := range found {
		if f.Level != "ok" {
			d.Findings = append(d.Findings, f)
		}
	}
	return nil
}

// doctor returns the doctor's findings, the worst first.
func (c *call) doctor() ([]finding, error) {
	answer, err := recall(&c.notes, c.identify(c.r), "doctor "+c.in.Namespace, doctorRest, func() (*wire.Doctor, error) {
		return pointer(c.api.RunDoctor(c.ctx, c.in))
	})
	if err != nil {
		return nil, err
	}
	list := make([]finding, len(answer.Findings))
	for i, f := range answer.Findings {
		list[i] = finding{Finding: f}
		list[i].help()
	}
	rank := map[string]int{"fault": 0, "warning": 1, "ok": 2}
	slices.SortStableFunc(list, func(a, b finding) int { return cmp.Compare(rank[a.Level], rank[b.Level]) })
	return list, nil
}

// help says which page helps with a finding.
func (f *finding) help() {
	if f.Level == "ok" {
		return
	}
	switch f.Name {
	case "workers", "clock":
		f.Path, f.Link = "workers", "See the workers"
	case "queues":
		f.Path, f.Link, f.Query = "runs", "See the waiting runs", []any{"status", "pending"}
	case "paused":
		f.Path, f.Link = "workflows", "See what is paused"
	case "failures":
		f.Path, f.Link, f.Query = "runs", "See the failed runs", []any{"status", "failed", "ended_after", lastHour}
	case "retries":
		f.Path, f.Link, f.Query = "runs", "See the runs with many attempts", []any{"status", "active", "attempts", "10"}
	case "overdue":
		f.Path, f.Link, f.Query = "runs", "See the waiting runs", []any{"status", "pending"}
	case "crashes":
		f.Path, f.Link, f.Query = "runs", "See the running runs", []any{"status", "running"}
	case "stranded", "builds":
		f.Path, f.Link = "builds", "See the builds"
	case "limits":
		f.Path, f.Link = "limits", "See the limits"
	case "schedules":
		f.Path, f.Link = "schedules", "See the schedules"
	case "webhooks":
		f.Path, f.Link = "webhooks", "See the webhooks"
	}
}

// doctorData is the page of all findings.
type doctorData struct{ Findings []finding }

func (doctorData) title() string { return "Doctor" }

func showDoctor(c *call) (any, error) {
	found, err := c.doctor()
	return &doctorData{found}, err
}
