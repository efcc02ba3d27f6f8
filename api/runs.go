package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func runOperations() []*operation {
	return []*operation{
		read("listRuns", "/v1/runs", ReadRuns, "List a page of runs, newest first.", listRuns),
		read("countRuns", "/v1/runs/count", ReadRuns, "Count runs by queue, workflow and status.", countRuns),
		read("findRun", "/v1/runs/find", ReadRuns, "Find the run that holds an external id, or the latest that had it.", findRun),
		read("getRun", "/v1/runs/{id}", ReadRuns, "Get a run with its input and output.", getRun),
		read("listSteps", "/v1/runs/{id}/steps", ReadRuns, "List a page of the steps of a run.", listSteps),
		read("listChildren", "/v1/runs/{id}/children", ReadRuns, "List a page of the children of a run, newest first.", listChildren),
		read("getTree", "/v1/runs/{id}/tree", ReadRuns, "Get a run with its descendants.", getTree),
		read("explainRun", "/v1/runs/{id}/explain", ReadRuns, "Explain why a run is in its state, and what can be done.", explainRun),
		read("getProgress", "/v1/runs/{id}/progress", ReadRuns, "Get how far the steps with children are, and the descendants of all levels.", getProgress),
		read("awaitRun", "/v1/runs/{id}/result", ReadRuns, "Wait for the end of a run, up to a minute, and get the run.", awaitRun),
		read("listSignals", "/v1/runs/{id}/signals", ReadRuns, "List a page of the unread signals of a run.", listSignals),
		read("awaitAnswer", "/v1/runs/{id}/signals/{signal}/answer", ReadRuns, "Wait for the answer of a run to a signal that asked for one (an update), up to a minute, and get it.", awaitAnswer),
		read("readStream", "/v1/runs/{id}/stream", ReadRuns, "Read a page of the items that a run has appended to its streams, and wait up to a minute for the first.", readStream),
		read("listActions", "/v1/actions", ReadActions, "List who did what, newest first.", listActions),
	}
}

func listRuns(c *call, q *wire.ListRuns) (out wire.RunPage, err error) {
	f, err := c.filter(&q.RunFilter)
	if err != nil {
		return out, err
	}
	byEnd := onlyFinal(&f)
	switch q.Order {
	case "created":
		byEnd = false
	case "ended":
		if !byEnd && len(f.Statuses) > 0 {
			return out, store.Invalid("order", "runs that are not final have no end; select final statuses")
		}
		byEnd = true
	}
	return c.page(store.ListParams{Filter: f, ByEnd: byEnd, Cursor: q.Cursor, Limit: q.Limit})
}

// page reads one page of runs. It may have fewer runs than there are: the store looks at a bounded number.
func (c *call) page(p store.ListParams) (out wire.RunPage, err error) {
	p.Namespace, p.MaxScan = c.eng.Namespace(), mostScanned
	page, err := c.eng.Store().List(c.ctx, p)
	if err != nil {
		return out, err
	}
	return wire.RunPage{Runs: each(page.Runs, asRun), Next: page.Next}, nil
}

// mostScanned is how many runs of a status a page looks at, at most. SQLite takes up to ten microseconds for each.
const mostScanned = 4_000

// count counts the latest runs of each status.
func (c *call) count(p store.CountParams) ([]store.RunCount, error) {
	p.Namespace, p.MaxScan = c.eng.Namespace(), mostScanned
	return c.eng.Store().Count(c.ctx, p)
}

func countRuns(c *call, q *wire.CountRuns) (out wire.RunCounts, err error) {
	f, err := c.filter(&q.RunFilter)
	if err != nil {
		return out, err
	}
	counts, err := c.count(store.CountParams{Filter: f, ByFailure: q.ByFailure})
	if err != nil {
		return out, err
	}
	out.Counts = []wire.RunCount{}
	for _, n := range counts {
		out.Total += n.Count
		out.Capped = out.Capped || n.Capped
		out.Counts = append(out.Counts, wire.RunCount{Queue: n.Queue, Workflow: n.Workflow, Status: n.Status.String(), FailureCode: n.FailureCode, Count: n.Count, Capped: n.Capped})
	}
	return out, nil
}

func findRun(c *call, q *wire.FindRun) (out wire.Run, err error) {
	run, err := c.eng.Store().Find(c.ctx, store.FindParams{Namespace: c.eng.Namespace(), ExternalID: q.ExternalID, Suffix: q.Suffix})
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("run of external id %q: %w", cut(q.ExternalID, 100), store.ErrNotFound)
	}
	if err != nil {
		return out, err
	}
	return c.run1(&run, q.MaxPayload), nil
}

func getRun(c *call, q *wire.GetRun) (out wire.Run, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	run, err := c.eng.Get(c.ctx, id)
	if err != nil {
		return out, err
	}
	return c.run1(&run, q.MaxPayload), nil
}

func listSteps(c *call, q *wire.ListSteps) (out wire.StepPage, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	page, err := c.eng.Store().Steps(c.ctx, store.StepsParams{Namespace: c.eng.Namespace(), Run: id, After: q.After, Limit: q.Limit, MaxBytes: answerBytes})
	if err != nil {
		return out, err
	}
	spent := 0
	out = wire.StepPage{Next: page.Next, Steps: each(page.Steps, func(s *store.Step) wire.Step { return c.step(s, q.MaxPayload, &spent) })}
	return out, nil
}

func listChildren(c *call, q *wire.Page) (out wire.RunPage, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	return c.page(store.ListParams{Filter: store.RunFilter{Parent: id}, Cursor: q.Cursor, Limit: q.Limit})
}

func getTree(c *call, q *wire.GetTree) (out wire.Tree, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	run, err := c.eng.Get(c.ctx, id)
	if err != nil {
		return out, err
	}
	depth, left := q.Depth, q.Limit
	if depth == 0 {
		depth = 2
	}
	if left == 0 {
		left = 200
	}
	out.Run = asRun(&run)
	return out, c.grow(&out, depth, &left)
}

// grow reads the children of a tree down to a depth, level by level, until no run is left.
func (c *call) grow(root *wire.Tree, depth int, left *int) error {
	level := []*wire.Tree{root}
	for ; depth > 0 && len(level) > 0; depth-- {
		var next []*wire.Tree
		for _, t := range level {
			if *left <= 0 {
				t.More = true
				continue
			}
			id, err := store.ParseID(t.Run.ID)
			if err != nil {
				return err
			}
			page, err := c.eng.Store().List(c.ctx, store.ListParams{
				Namespace: c.eng.Namespace(), Filter: store.RunFilter{Parent: id}, OldestFirst: true, Limit: min(*left, 100)})
			if err != nil {
				return err
			}
			*left -= len(page.Runs)
			t.More = page.Next != ""
			t.Children = make([]wire.Tree, len(page.Runs))
			for i := range page.Runs {
				t.Children[i].Run = asRun(&page.Runs[i])
				next = append(next, &t.Children[i])
			}
		}
		level = next
	}
	for _, t := range level {
		t.More = true // they were not looked at
	}
	return nil
}

func explainRun(c *call, _ *wire.In) (out wire.Explanation, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	x, err := c.eng.Explain(c.ctx, id)
	if err != nil {
		return out, err
	}
	return wire.Explanation{
		Run: asRun(&x.Run), Reason: string(x.Reason), Summary: x.Summary, Details: append([]string{}, x.Details...), Actions: append([]string{}, x.Actions...),
		At: asTime(x.At), Until: asTime(x.Until),
	}, nil
}

func getProgress(c *call, _ *wire.In) (out wire.ProgressList, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	list, err := c.eng.Progress(c.ctx, id)
	if err != nil {
		return out, err
	}
	out.Progress, out.Tree = []wire.Progress{}, asTreeProgress(&list)
	for _, p := range list.Steps {
		out.Progress = append(out.Progress, wire.Progress{
			Step: p.Step.String(), Kind: p.Kind.String(), Status: p.Status.String(), Generator: string(p.Generator), Spawned: p.Spawned,
			Completed: p.Completed, Failed: p.Failed, Canceled: p.Canceled, InFlight: p.InFlight, Cursor: c.payload(p.Cursor, 0),
		})
	}
	return out, nil
}

func asTreeProgress(p *engine.Progress) wire.TreeProgress {
	return wire.TreeProgress{
		TreeCounts: wire.TreeCounts(p.TreeCounts), Levels: each(p.Levels, func(c *store.TreeCounts) wire.TreeCounts { return wire.TreeCounts(*c) }),
		Capped: p.Capped, Rate: p.Rate, Left: p.Left.Seconds(),
	}
}

// longestWait is how long a request waits for the end of a run at most.
const longestWait = time.Minute

// waitFor reads for how long a caller waits.
func waitFor(text string) (time.Duration, error) {
	wait, err := duration("wait", text)
	if err == nil && wait > longestWait {
		err = store.Invalid("wait", fmt.Sprintf("%v is longer than %v", wait, longestWait))
	}
	return wait, err
}

func awaitRun(c *call, q *wire.AwaitRun) (out wire.Result, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	wait, err := waitFor(q.Wait)
	if err != nil {
		return out, err
	}
	run, err := c.eng.Get(c.ctx, id)
	if err != nil {
		return out, err
	}
	if wait > 0 && !run.Status.Final() {
		if !c.s.streams.enter(c.s.maxStreams) {
			return out, tooManyStreams(c.s.maxStreams)
		}
		defer c.s.streams.leave()
		if err := c.space.feed.await(c.ctx, id, wait); err != nil {
			return out, err
		}
		if run, err = c.eng.Get(c.ctx, id); err != nil {
			return out, err
		}
	}
	return wire.Result{Final: run.Status.Final(), Run: c.run1(&run, q.MaxPayload)}, nil
}

func tooManyStreams(most int) error {
	return problem(http.StatusServiceUnavailable, wire.CodeTooManyStreams, fmt.Sprintf("%d callers wait for events already; try again later", most))
}

// awaitAnswer is for updates: an update is a signal that the run answers.
func awaitAnswer(c *call, q *wire.AwaitRun) (out wire.Answer, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	signal, err := store.ParseID(c.r.PathValue("signal"))
	if err != nil {
		return out, store.Invalid("signal", err.Error())
	}
	wait, err := waitFor(q.Wait)
	if err != nil {
		return out, err
	}
	asked := engine.Asked{Run: id, Signal: store.SignalID(signal)}
	answer, ok, err := c.eng.Answer(c.ctx, asked)
	if err == nil && !ok && wait > 0 {
		answer, ok, err = c.waitForAnswer(asked, wait)
	}
	if err != nil || !ok {
		return out, err
	}
	out = wire.Answer{Answered: true, Failure: asFailure(answer.Failure), At: asTime(answer.At)}
	if answer.Failure == nil {
		out.Output = c.payload(answer.Output, q.MaxPayload)
	}
	return out, nil
}

func (c *call) waitForAnswer(asked engine.Asked, wait time.Duration) (answer engine.Answer, ok bool, err error) {
	if !c.s.streams.enter(c.s.maxStreams) {
		return answer, false, tooManyStreams(c.s.maxStreams)
	}
	defer c.s.streams.leave()
	ctx, cancel := context.WithTimeout(c.ctx, wait)
	defer cancel()
	answer, err = c.eng.AwaitAnswer(ctx, asked)
	if err != nil && ctx.Err() != nil && c.ctx.Err() == nil {
		return answer, false, nil
	}
	return answer, err == nil, err
}

func listSignals(c *call, q *wire.ListSignals) (out wire.SignalPage, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	box, err := c.eng.Store().Inbox(c.ctx, store.InboxParams{Namespace: c.eng.Namespace(), Run: id, Name: q.Name, After: q.After, NoState: true, MaxBytes: answerBytes})
	if err != nil {
		return out, err
	}
	out.Signals = each(box.Signals, func(s *store.Signal) wire.Signal {
		return wire.Signal{ID: s.ID.String(), Name: s.Name, SentAt: asTime(s.SentAt), Position: s.Position, Payload: c.payload(s.Payload, q.MaxPayload)}
	})
	if n := len(box.Signals); box.MoreSignals && n > 0 {
		out.Next = box.Signals[n-1].Position
	}
	return out, nil
}

func listActions(c *call, q *wire.ListActions) (out wire.ActionPage, err error) {
	p := store.ListActionsParams{Actor: q.Actor, Cursor: q.Cursor, Limit: q.Limit}
	if q.Run != "" {
		if p.Run, err = store.ParseID(q.Run); err != nil {
			return out, err
		}
	}
	page, err := c.eng.Actions(c.ctx, p)
	if err != nil {
		return out, err
	}
	out.Next = page.Next
	out.Actions = each(page.Actions, func(a *store.Action) wire.Action {
		return wire.Action{ID: a.ID.String(), At: asTime(a.At), Actor: a.Actor, From: a.From, Verb: a.Verb, Target: a.Target, Run: asID(a.Run), Details: a.Details, Outcome: a.Outcome}
	})
	return out, nil
}
