package console

import (
	"cmp"
	"slices"

	"github.com/pawlhq/pawl/api/wire"
)

// workersData is the page of all workers.
type workersData struct{ Workers []wire.Worker }

func (workersData) title() string { return "Workers" }

func listWorkers(c *call) (any, error) {
	list, err := c.api.ListWorkers(c.ctx, wire.ListWorkers{In: c.in})
	slices.SortStableFunc(list.Workers, func(a, b wire.Worker) int {
		return cmp.Or(cmp.Compare(rankOf(a.Status), rankOf(b.Status)), cmp.Compare(a.ID, b.ID))
	})
	return &workersData{list.Workers}, err
}

func rankOf(status string) int {
	return slices.Index([]string{"online", "draining", "unknown", "offline"}, status)
}

// buildsData is the page of all builds.
type buildsData struct{ Builds []wire.Build }

func (buildsData) title() string { return "Builds" }

func listBuilds(c *call) (any, error) {
	list, err := c.api.ListBuilds(c.ctx, c.in)
	slices.SortStableFunc(list.Builds, func(a, b wire.Build) int {
		stranded := func(b wire.Build) int {
			if b.Stranded {
				return 0
			}
			return 1
		}
		return cmp.Compare(stranded(a), stranded(b))
	})
	return &buildsData{list.Builds}, err
}

// workflowsData is the page of all workflows.
type workflowsData struct {
	Lines []wire.Line
	More  bool
}

func (workflowsData) title() string { return "Workflows" }

func listWorkflows(c *call) (any, error) {
	lines, err := c.api.ListWorkflows(c.ctx, c.in)
	return &workflowsData{lines.Lines, lines.More}, err
}

// workflowData is the page of one workflow.
type workflowData struct {
	wire.Workflow
	Known   bool // some worker has registered it
	Line    *wire.Line
	Picture *picture
	Workers []wire.Worker
	Kept    []choice
	Deed    *deed
}

func (d *workflowData) title() string { return "Workflow " + d.Name }

func showWorkflow(c *call) (any, error) {
	name := c.r.URL.Query().Get("name")
	lines, err := c.api.ListWorkflows(c.ctx, c.in)
	if err != nil {
		return nil, err
	}
	d := &workflowData{Known: true}
	if i := slices.IndexFunc(lines.Lines, func(l wire.Line) bool { return l.Name == name }); i >= 0 {
		d.Line = &lines.Lines[i]
	}
	d.Workflow, err = c.api.GetWorkflow(c.ctx, name, c.in)
	if notFound(err) && d.Line != nil { // it has runs, and no worker has ever registered it
		d.Known, d.Name, err = false, name, nil
		d.PausedSince = d.Line.PausedSince
	}
	if err != nil {
		return nil, err
	}
	d.Picture = drawGraph(d.Graph, nil)
	if c.may("workers.read") {
		list, err := c.api.ListWorkers(c.ctx, wire.ListWorkers{In: c.in, Workflow: name})
		if err != nil {
			return nil, err
		}
		d.Workers = list.Workers
	}
	for _, status := range []string{"completed", "failed", "canceled"} {
		d.Kept = append(d.Kept, choice{status, cmp.Or(d.Retention[status], "for ever")})
	}
	action := "workflow-pause"
	if d.PausedSince != nil {
		action = "workflow-resume"
	}
	if it, _ := deedOf(action); c.may(it.needs) {
		d.Deed = &it
	}
	return d, nil
}

// journalData is the page of what people did.
type journalData struct {
	Actions     []wire.Action
	Next        string
	Actor       string
	Unsupported bool
}

func (journalData) title() string { return "Journal" }

func showJournal(c *call) (any, error) {
	q := c.r.URL.Query()
	page, err := c.api.ListActions(c.ctx, wire.ListActions{Page: wire.Page{In: c.in, Cursor: q.Get("cursor"), Limit: pageSize}, Actor: q.Get("actor")})
	if unsupported(err) {
		return &journalData{Unsupported: true}, nil
	}
	return &journalData{page.Actions, page.Next, q.Get("actor"), false}, err
}
