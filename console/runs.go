package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/api/wire"
)

// statuses are those of a run, and the groups of them that the API knows.
var statuses = []string{"active", "pending", "running", "sleeping", "paused", "canceling", "final", "completed", "failed", "canceled"}

// runFilter is the form that selects runs. Its fields are as they are in the page's address, so that an
// address is a saved filter: times may be relative to now.
type runFilter struct {
	Status, Workflow, Queue, ExternalID, Error, Code, Step, ID string
	Tags                                                       string // with commas between them
	After, Before, EndedAfter, EndedBefore                     string // when the run was created, and when it ended
	Attempts, Parent, Build                                    string
	Stranded                                                   bool
}

func filterOf(q url.Values) runFilter {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return runFilter{
		Status: get("status"), Workflow: q.Get("workflow"), Queue: q.Get("queue"), ExternalID: q.Get("external_id"), Tags: get("tags"), Error: q.Get("error"), Code: q.Get("code"), Step: q.Get("step"),
		ID: get("id"), After: get("after"), Before: get("before"), EndedAfter: get("ended_after"), EndedBefore: get("ended_before"),
		Attempts: get("attempts"), Parent: get("parent"), Build: q.Get("build"), Stranded: q.Get("stranded") != "",
	}
}

// Query returns the names and values of the fields.
func (f runFilter) Query() []any {
	stranded := ""
	if f.Stranded {
		stranded = "1"
	}
	return []any{
		"status", f.Status, "workflow", f.Workflow, "queue", f.Queue, "external_id", f.ExternalID, "tags", f.Tags, "error", f.Error, "code", f.Code, "step", f.Step, "id", f.ID,
		"after", f.After, "before", f.Before, "ended_after", f.EndedAfter, "ended_before", f.EndedBefore,
		"attempts", f.Attempts, "parent", f.Parent, "build", f.Build, "stranded", stranded,
	}
}

// With returns the query with one value replaced.
func (f runFilter) With(name, value string) []any {
	q := f.Query()
	for i := 0; i < len(q); i += 2 {
		if q[i] == name {
			q[i+1] = value
		}
	}
	return q
}

// More reports whether fields are set that the form shows only on demand.
func (f runFilter) More() bool {
	return f.Code != "" || f.Step != "" || f.ID != "" || f.EndedAfter != "" || f.EndedBefore != "" || f.Before != "" || f.Attempts != "" || f.Parent != "" || f.Build != "" || f.Stranded
}

// Empty reports whether every run matches.
func (f runFilter) Empty() bool { return f == runFilter{} }

// Words says in words which runs match.
func (f runFilter) Words() string {
	var parts []string
	add := func(format, value string) {
		if value != "" {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	switch f.Status {
	case "":
	case "active":
		parts = append(parts, "that have not ended")
	case "final":
		parts = append(parts, "that have ended")
	default:
		add("that are %s", f.Status)
	}
	add("of workflow %q", f.Workflow)
	add("in queue %q", f.Queue)
	add("with external id %q", f.ExternalID)
	add("with the tags %s", f.Tags)
	add("whose error contains %q", f.Error)
	add("whose failure has the code %q", f.Code)
	add("with the failed step %q", f.Step)
	add("whose id begins with %q", f.ID)
	add("created after %s", pointInTime(f.After))
	add("created before %s", pointInTime(f.Before))
	add("ended after %s", pointInTime(f.EndedAfter))
	add("ended before %s", pointInTime(f.EndedBefore))
	add("with %s attempts or more", f.Attempts)
	add("that are children of run %s", f.Parent)
	add("pinned to build %q", f.Build)
	if f.Stranded {
		parts = append(parts, "that are stranded")
	}
	return strings.Join(parts, ", ")
}

func pointInTime(text string) string {
	if d, err := durationOf(text); err == nil && text != "" {
		return span(d) + " ago"
	}
	return text
}

// api returns the filter for the API.
func (f runFilter) api(now time.Time) (wire.RunFilter, error) {
	w := wire.RunFilter{
		Workflow: f.Workflow, Queue: f.Queue, ExternalID: f.ExternalID, FailureText: f.Error, FailureCode: f.Code, FailedStep: f.Step,
		IDPrefix: f.ID, Parent: f.Parent, Stranded: f.Stranded,
	}
	for tag := range strings.SplitSeq(f.Tags, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			w.Tag = append(w.Tag, tag)
		}
	}
	if f.Status != "" {
		w.Status = []string{f.Status}
	}
	if f.Build != "" {
		w.PinnedTo = []string{f.Build}
	}
	if f.Attempts != "" {
		n, err := strconv.Atoi(f.Attempts)
		if err != nil {
			return w, invalid("Attempts is not a number: %q", f.Attempts)
		}
		w.MinAttempt = n
	}
	for _, t := range []struct {
		text string
		into **time.Time
	}{{f.After, &w.CreatedAfter}, {f.Before, &w.CreatedBefore}, {f.EndedAfter, &w.FinishedAfter}, {f.EndedBefore, &w.FinishedBefore}} {
		at, err := timeOf(t.text, now)
		if err != nil {
			return w, err
		}
		*t.into = at
	}
	return w, nil
}

func invalid(format string, args ...any) error {
	return &wire.Problem{Status: http.StatusBadRequest, Code: wire.CodeInvalid, Title: "That is not valid", Detail: fmt.Sprintf(format, args...)}
}

// durationOf reads a duration such as 90m, 24h or 7d.
func durationOf(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		return time.Duration(n * 24 * float64(time.Hour)), err
	}
	return time.ParseDuration(text)
}

// timeOf reads a time: a duration before now, or a date with or without a time, in UTC.
func timeOf(text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	if d, err := durationOf(text); err == nil {
		at := now.Add(-d)
		return &at, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			at = at.UTC()
			return &at, nil
		}
	}
	return nil, invalid("%q is not a time: write a duration before now such as 90m, 24h or 7d, or a time in UTC such as 2026-11-25 14:30", text)
}

// runsData is the page of a list of runs.
type runsData struct {
	Filter    runFilter
	Runs      []wire.Run
	Next      string // cursor
	First     bool   // it is the first page
	Total     total
	Counted   bool
	ByEnd     bool
	Workflows []string
	Queues    []string
	Statuses  []string
	Bulk      []bulkAction
}

func (d *runsData) title() string { return "Runs" }

const pageSize = 50

// searches limits how many pages of the API a page of the console looks at to find its runs.
const searches = 3

func listRuns(c *call) (any, error) {
	q := c.r.URL.Query()
	d := &runsData{Filter: filterOf(q), First: q.Get("cursor") == "", Statuses: statuses}
	filter, err := d.Filter.api(c.now)
	if err != nil {
		return nil, err
	}
	ask := wire.ListRuns{In: c.in, RunFilter: filter, Cursor: q.Get("cursor"), Limit: pageSize}
	for range searches {
		page, err := c.api.ListRuns(c.ctx, ask)
		if err != nil {
			return nil, err
		}
		d.Runs = append(d.Runs, page.Runs...)
		d.Next, ask.Cursor, ask.Limit = page.Next, page.Next, pageSize-len(d.Runs)
		if page.Next == "" || ask.Limit <= 0 {
			break
		}
	}
	d.ByEnd = d.Filter.Status == "final" || d.Filter.Status == "completed" || d.Filter.Status == "failed" || d.Filter.Status == "canceled"
	if d.First && d.Next == "" {
		d.Total, d.Counted = total{N: int64(len(d.Runs))}, true
	} else if counts, err := c.api.CountRuns(c.ctx, wire.CountRuns{In: c.in, RunFilter: filter}); err == nil {
		d.Total, d.Counted = total{counts.Total, counts.Capped}, true
	}
	d.suggest(c)
	for _, b := range bulkActions {
		if c.may(b.needs) && b.applies(d.Filter.Status) {
			d.Bulk = append(d.Bulk, b)
		}
	}
	return d, nil
}

// suggest collects names for the form.
func (d *runsData) suggest(c *call) {
	type names struct{ workflows, queues []string }
	known, _ := recall(&c.notes, c.identify(c.r), "names "+c.in.Namespace, time.Minute, func() (n names, err error) {
		if c.may("workflows.read") {
			lines, err := c.api.ListWorkflows(c.ctx, c.in)
			if err != nil {
				return n, err
			}
			n.workflows = namesOf(lines.Lines)
		}
		if c.may("queues.read") {
			lines, err := c.api.ListQueues(c.ctx, c.in)
			if err != nil {
				return n, err
			}
			n.queues = namesOf(lines.Lines)
		}
		return n, nil
	})
	d.Workflows, d.Queues = known.workflows, known.queues
}

func namesOf(lines []wire.Line) []string {
	names := make([]string, len(lines))
	for i, l := range lines {
		names[i] = l.Name
	}
	return names
}
