package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func workOperations() []*operation {
	return []*operation{
		read("listQueues", "/v1/queues", ReadQueues, "List the queues with their unfinished runs and workers.", listQueues),
		post("pauseQueue", "/v1/queues/{name}/pause", PauseQueues, http.StatusOK, "Pause a queue: no worker claims its runs.", hold(true, (*engine.Engine).PauseQueue)),
		post("resumeQueue", "/v1/queues/{name}/resume", PauseQueues, http.StatusOK, "Resume a queue.", hold(false, (*engine.Engine).ResumeQueue)),
		read("listWorkflows", "/v1/workflows", ReadWorkflows, "List the workflows with their unfinished runs and workers.", listWorkflows),
		read("getWorkflow", "/v1/workflows/{name}", ReadWorkflows, "Get the registration of a workflow, with its graph.", getWorkflow),
		post("pauseWorkflow", "/v1/workflows/{name}/pause", PauseWorkflows, http.StatusOK, "Pause a workflow: no worker claims its runs.", hold(true, (*engine.Engine).PauseWorkflow)),
		post("resumeWorkflow", "/v1/workflows/{name}/resume", PauseWorkflows, http.StatusOK, "Resume a workflow.", hold(false, (*engine.Engine).ResumeWorkflow)),
		read("listWorkers", "/v1/workers", ReadWorkers, "List the workers.", listWorkers),
		write(http.MethodDelete, "removeWorker", "/v1/workers/{id}", RemoveWorkers, http.StatusNoContent, "Remove the registration of a worker that has died.", removeWorker),
		read("listBuilds", "/v1/builds", ReadBuilds, "List the builds, and whether their workers may be stopped.", listBuilds),
	}
}

// mostLines limits the queues or workflows of an answer.
const mostLines = 1000

// lines collects queues or workflows.
type lines struct {
	byName    map[string]*wire.Line
	workflows bool
}

func (l *lines) of(name string) *wire.Line {
	if l.byName[name] == nil {
		l.byName[name] = &wire.Line{Name: name, Runs: map[string]int64{}}
	}
	return l.byName[name]
}

// pick returns the queue or the workflow, whichever the lines are of, and the other.
func (l *lines) pick(queue, workflow string) (name, other string) {
	if l.workflows {
		return workflow, queue
	}
	return queue, workflow
}

func (c *call) lines(workflows bool) (*lines, error) {
	l := &lines{byName: map[string]*wire.Line{}, workflows: workflows}
	counts, err := c.count(store.CountParams{Filter: store.RunFilter{Statuses: active}})
	if err != nil {
		return nil, err
	}
	known, err := c.eng.Workflows(c.ctx)
	if err != nil {
		return nil, err
	}
	paused, err := c.eng.Paused(c.ctx)
	if err != nil {
		return nil, err
	}
	workers, err := c.eng.WorkersNow(c.ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range known {
		name, other := l.pick(w.Queue, w.Name)
		if line := l.of(name); workflows {
			line.Queue = other
		}
	}
	capped := map[string]bool{}
	for _, n := range counts {
		if n.Capped {
			capped[n.Status.String()] = true
		}
		if n.Count > 0 {
			l.count(&n, workers)
		}
	}
	for _, p := range paused {
		if name, _ := l.pick(p.Queue, p.Workflow); name != "" {
			l.of(name).PausedSince = asTime(p.Since)
		}
	}
	for _, w := range workers {
		names := w.Queues
		if workflows {
			names = w.Workflows
		}
		for _, name := range names {
			if line := l.of(name); w.Status == store.Online {
				line.Workers++
				line.Slots += w.Slots
			}
		}
	}
	for _, line := range l.byName {
		line.Capped = slices.Sorted(maps.Keys(capped))
	}
	return l, nil
}

// count adds a row of the counts.
func (l *lines) count(n *store.RunCount, workers []store.Worker) {
	name, other := l.pick(n.Queue, n.Workflow)
	line := l.of(name)
	line.Runs[n.Status.String()] += n.Count
	taken := slices.ContainsFunc(workers, func(w store.Worker) bool { return w.Serves(n.Queue, n.Workflow) })
	if !taken && n.Status != store.Paused && !slices.Contains(line.NotTaken, other) {
		line.NotTaken = append(line.NotTaken, other)
	}
}

// list returns the lines by name.
func (l *lines) list() (out wire.Lines) {
	out.Lines = []wire.Line{}
	for _, name := range slices.Sorted(maps.Keys(l.byName)) {
		if len(out.Lines) == mostLines {
			out.More = true
			break
		}
		out.Lines = append(out.Lines, *l.byName[name])
	}
	return out
}

func listQueues(c *call, _ *wire.In) (out wire.Lines, err error) {
	l, err := c.lines(false)
	if err != nil {
		return out, err
	}
	if err := c.oldest(l); err != nil {
		return out, err
	}
	return l.list(), nil
}

// oldest finds since when the oldest pending run of each queue is due: of the thousand
// pending runs that were created first.
func (c *call) oldest(l *lines) error {
	page, err := c.eng.Store().List(c.ctx, store.ListParams{
		Namespace: c.eng.Namespace(), Filter: store.RunFilter{Statuses: []store.Status{store.Pending}}, OldestFirst: true, Limit: store.MaxPage, MaxScan: mostScanned})
	if err != nil {
		return err
	}
	now := time.Now()
	if clock, err := c.eng.Store().Clock(c.ctx); err == nil {
		now = clock
	}
	for i := range page.Runs {
		r := &page.Runs[i]
		line := l.of(r.Queue)
		if !r.VisibleAt.IsZero() && r.VisibleAt.Before(now) && (line.OldestWaiting == nil || r.VisibleAt.Before(*line.OldestWaiting)) {
			line.OldestWaiting = asTime(r.VisibleAt)
		}
	}
	return nil
}

func listWorkflows(c *call, _ *wire.In) (out wire.Lines, err error) {
	l, err := c.lines(true)
	if err != nil {
		return out, err
	}
	return l.list(), nil
}

func getWorkflow(c *call, _ *wire.In) (out wire.Workflow, err error) {
	name := c.r.PathValue("name")
	defs, err := c.eng.Definitions(c.ctx, name)
	if err != nil {
		return out, err
	}
	if len(defs) == 0 {
		return out, fmt.Errorf("workflow %q in namespace %q: %w", cut(name, 100), c.eng.Namespace(), store.ErrNotFound)
	}
	d := defs[0]
	out = wire.Workflow{Name: d.Name, Queue: d.Queue, Graph: d.Graph, Encryption: string(d.Encryption), UpdatedAt: asTime(d.UpdatedAt)}
	for status, keep := range map[string]time.Duration{"completed": d.Retention.Completed, "failed": d.Retention.Failed, "canceled": d.Retention.Canceled} {
		if keep > 0 {
			if out.Retention == nil {
				out.Retention = map[string]string{}
			}
			out.Retention[status] = keep.String()
		}
	}
	paused, err := c.eng.Paused(c.ctx)
	if err != nil {
		return out, err
	}
	for _, p := range paused {
		if p.Workflow == name {
			out.PausedSince = asTime(p.Since)
		}
	}
	return out, nil
}

func listWorkers(c *call, q *wire.ListWorkers) (out wire.Workers, err error) {
	list, err := c.eng.WorkersNow(c.ctx)
	if err != nil {
		return out, err
	}
	list = slices.DeleteFunc(list, func(w store.Worker) bool {
		return q.Queue != "" && q.Workflow != "" && !w.Pairs(q.Queue, q.Workflow) || q.Queue != "" && !slices.Contains(w.Queues, q.Queue) ||
			q.Workflow != "" && !slices.Contains(w.Workflows, q.Workflow) || q.Status != "" && w.Status.String() != q.Status
	})
	out.Workers = each(list, func(w *store.Worker) wire.Worker {
		return wire.Worker{
			ID: w.ID, Host: w.Host, PID: w.PID, Status: w.Status.String(), Queues: append([]string{}, w.Queues...), Workflows: append([]string{}, w.Workflows...),
			Takes: w.Takes, Labels: w.Labels, Build: w.Build, Slots: w.Slots, Limits: w.Limits, Held: w.Held, StartedAt: asTime(w.StartedAt), SeenAt: asTime(w.SeenAt),
		}
	})
	return out, nil
}

func removeWorker(c *call, q *wire.RemoveWorker, _ *none) (out none, err error) {
	id := c.r.PathValue("id")
	list, err := c.eng.WorkersNow(c.ctx)
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(list, func(w store.Worker) bool { return w.ID == id })
	switch {
	case i < 0:
		return out, fmt.Errorf("worker %q in namespace %q: %w", cut(id, 100), c.eng.Namespace(), store.ErrNotFound)
	case list[i].Status != store.Offline && !q.Force:
		return out, fmt.Errorf("worker %q is %s; stop its process instead, or force it: %w", id, list[i].Status, store.ErrConflict)
	}
	if err := c.eng.Record(c.ctx, "remove", "worker "+id, ""); err != nil {
		return out, err
	}
	return out, c.eng.Store().RemoveWorker(c.ctx, store.RemoveWorkerParams{Namespace: c.eng.Namespace(), ID: id})
}

func listBuilds(c *call, _ *wire.In) (out wire.Builds, err error) {
	builds, err := store.AllBuilds(c.ctx, c.eng.Store(), store.ListBuildsParams{Namespace: c.eng.Namespace()})
	if err != nil {
		return out, err
	}
	var online int64
	for _, b := range builds {
		online += b.Online
	}
	out.Builds = each(builds, func(b *store.Build) wire.Build {
		return wire.Build{
			Build: b.Name, Online: b.Online, Draining: b.Workers - b.Online, Runs: b.Runs, Capped: b.Capped, Pinned: b.Pinned,
			Stranded: b.Pinned > 0 && b.Online == 0, MayStop: b.Pinned == 0 && (b.Online == 0 || online > b.Online),
		}
	})
	return out, nil
}
