package mcp

import (
	"context"
	"encoding/json"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/wire"
)

// The inputs of the tools.
type (
	space struct {
		Namespace string `json:"namespace,omitempty" jsonschema:"namespace; leave out for the default one"`
	}
	runIn struct {
		Run       string `json:"run" jsonschema:"id of the run"`
		Namespace string `json:"namespace,omitempty" jsonschema:"namespace; leave out for the default one"`
	}
	findIn struct {
		ExternalID string `json:"external_id" jsonschema:"external id of the run, such as order-42"`
		Suffix     string `json:"suffix,omitempty" jsonschema:"suffix of the external id, if the run has one"`
		Namespace  string `json:"namespace,omitempty" jsonschema:"namespace; leave out for the default one"`
	}
	listIn struct {
		Status    []string `json:"status,omitempty" jsonschema:"statuses: pending, running, sleeping, paused, canceling, completed, failed, canceled; or active, final"`
		Workflow  string   `json:"workflow,omitempty" jsonschema:"name of the workflow"`
		Queue     string   `json:"queue,omitempty" jsonschema:"name of the queue"`
		Text      string   `json:"failure_text,omitempty" jsonschema:"part of the failure's message"`
		Stranded  bool     `json:"stranded,omitempty" jsonschema:"only runs that wait for a build without an online worker"`
		Cursor    string   `json:"cursor,omitempty" jsonschema:"next of the page before"`
		Limit     int      `json:"limit,omitempty" jsonschema:"runs in a page, at most 100; 20 if left out"`
		Namespace string   `json:"namespace,omitempty" jsonschema:"namespace; leave out for the default one"`
	}
	stepsIn struct {
		Run       string `json:"run" jsonschema:"id of the run"`
		After     int64  `json:"after,omitempty" jsonschema:"next of the page before"`
		Namespace string `json:"namespace,omitempty" jsonschema:"namespace; leave out for the default one"`
	}
	streamIn struct {
		Run       string `json:"run" jsonschema:"id of the run"`
		Name      string `json:"name,omitempty" jsonschema:"name of the stream; leave out for all streams of the run"`
		After     int64  `json:"after,omitempty" jsonschema:"after of the page before"`
		Namespace string `json:"namespace,omitempty" jsonschema:"namespace; leave out for the default one"`
	}
	limitIn struct {
		Limit     string `json:"limit" jsonschema:"name of the limit"`
		Cursor    string `json:"cursor,omitempty" jsonschema:"next of the page before"`
		Namespace string `json:"namespace,omitempty" jsonschema:"namespace; leave out for the default one"`
	}
	cancelIn struct {
		Run       string `json:"run" jsonschema:"id of the run"`
		Reason    string `json:"reason" jsonschema:"reason, which is recorded"`
		Namespace string `json:"namespace,omitempty" jsonschema:"namespace; leave out for the default one"`
	}
	signalIn struct {
		Run       string `json:"run" jsonschema:"id of the run"`
		Name      string `json:"name" jsonschema:"name of the signal"`
		Payload   any    `json:"payload,omitempty" jsonschema:"payload as JSON"`
		Namespace string `json:"namespace,omitempty" jsonschema:"namespace; leave out for the default one"`
	}
)

// Limits of what a tool answers.
const (
	defaultRuns  = 20
	mostRuns     = 100
	mostPayload  = 4 << 10
	stepsOfAPage = 100
	itemsOfAPage = 100
	mostItem     = 1 << 10
)

func in(namespace string) wire.In { return wire.In{Namespace: namespace} }

func (s *server) readers(out *sdk.Server, r *http.Request) {
	c := s.c
	add(out, r, "list_runs", "List a page of runs, newest first, without payloads. A page with next has further ones, even if it is short.", true, func(ctx context.Context, q listIn) (wire.RunPage, error) {
		limit := min(q.Limit, mostRuns)
		if limit <= 0 {
			limit = defaultRuns
		}
		return c.ListRuns(ctx, wire.ListRuns{In: in(q.Namespace), Cursor: q.Cursor, Limit: limit,
			RunFilter: wire.RunFilter{Status: q.Status, Workflow: q.Workflow, Queue: q.Queue, FailureText: q.Text, Stranded: q.Stranded}})
	})
	add(out, r, "count_runs", "Count runs by queue, workflow and status.", true, func(ctx context.Context, q listIn) (wire.RunCounts, error) {
		return c.CountRuns(ctx, wire.CountRuns{In: in(q.Namespace), RunFilter: wire.RunFilter{Status: q.Status, Workflow: q.Workflow, Queue: q.Queue, FailureText: q.Text, Stranded: q.Stranded}})
	})
	add(out, r, "find_run", "Find a run by its external id, such as the number of an order.", true, func(ctx context.Context, q findIn) (wire.Run, error) {
		return c.FindRun(ctx, wire.FindRun{In: in(q.Namespace), ExternalID: q.ExternalID, Suffix: q.Suffix, MaxPayload: mostPayload})
	})
	add(out, r, "show_run", "Show a run: its status, times, failure, input and output.", true, func(ctx context.Context, q runIn) (wire.Run, error) {
		return c.GetRun(ctx, q.Run, wire.GetRun{In: in(q.Namespace), MaxPayload: mostPayload})
	})
	add(out, r, "list_steps", "List the steps of a run with their attempts, times, failures and outputs.", true, func(ctx context.Context, q stepsIn) (wire.StepPage, error) {
		return c.ListSteps(ctx, q.Run, wire.ListSteps{In: in(q.Namespace), After: q.After, Limit: stepsOfAPage, MaxPayload: mostPayload})
	})
	add(out, r, "explain_run", "Explain in words why a run is in its state, what it waits for, and what can be done.", true, func(ctx context.Context, q runIn) (wire.Explanation, error) {
		return c.ExplainRun(ctx, q.Run, in(q.Namespace))
	})
	add(out, r, "show_tree", "Show a run with its children.", true, func(ctx context.Context, q runIn) (wire.Tree, error) {
		return c.GetTree(ctx, q.Run, wire.GetTree{In: in(q.Namespace), Limit: mostRuns})
	})
	add(out, r, "show_progress", "Show how far the descendants of a run are, by level, with a rate and an estimate.", true, func(ctx context.Context, q runIn) (wire.ProgressList, error) {
		return c.GetProgress(ctx, q.Run, in(q.Namespace))
	})
	add(out, r, "read_stream", "Read a page of the items that a run has appended to its streams. The answer says where to read on, and whether more can follow.", true, func(ctx context.Context, q streamIn) (wire.StreamPage, error) {
		return c.ReadStream(ctx, q.Run, wire.ReadStream{In: in(q.Namespace), Name: q.Name, After: q.After, Limit: itemsOfAPage, MaxPayload: mostItem})
	})
	add(out, r, "list_actions", "List who did what with a run.", true, func(ctx context.Context, q runIn) (wire.ActionPage, error) {
		return c.ListActions(ctx, wire.ListActions{Page: wire.Page{In: in(q.Namespace)}, Run: q.Run})
	})
	add(out, r, "doctor", "Look for problems of the database, the workers and the runs, with advice.", true, func(ctx context.Context, q space) (wire.Doctor, error) {
		return c.RunDoctor(ctx, in(q.Namespace))
	})
	add(out, r, "list_queues", "List the queues with their waiting runs and workers.", true, func(ctx context.Context, q space) (wire.Lines, error) {
		return c.ListQueues(ctx, in(q.Namespace))
	})
	add(out, r, "list_limits", "List the limits on concurrency and rates, with the runs that they hold back.", true, func(ctx context.Context, q space) (wire.Limits, error) {
		return c.ListLimits(ctx, in(q.Namespace))
	})
	add(out, r, "show_limit", "Show a limit with its keys.", true, func(ctx context.Context, q limitIn) (wire.LimitView, error) {
		return c.GetLimit(ctx, q.Limit, wire.Page{In: in(q.Namespace), Cursor: q.Cursor})
	})
	add(out, r, "list_workers", "List the workers.", true, func(ctx context.Context, q space) (wire.Workers, error) {
		return c.ListWorkers(ctx, wire.ListWorkers{In: in(q.Namespace)})
	})
	add(out, r, "list_schedules", "List the schedules with their next times.", true, func(ctx context.Context, q space) (wire.SchedulePage, error) {
		return c.ListSchedules(ctx, wire.Page{In: in(q.Namespace)})
	})
	add(out, r, "list_builds", "List the builds, and whether their workers may be stopped.", true, func(ctx context.Context, q space) (wire.Builds, error) {
		return c.ListBuilds(ctx, in(q.Namespace))
	})
}

func (s *server) writers(out *sdk.Server, r *http.Request) {
	c := s.c
	of := client.Namespace
	add(out, r, "cancel_run", "Cancel a run and its children. This cannot be undone.", false, func(ctx context.Context, q cancelIn) (wire.Run, error) {
		return c.CancelRun(ctx, q.Run, wire.Cancel{Reason: q.Reason}, of(q.Namespace))
	})
	add(out, r, "pause_run", "Pause a run until it is resumed.", false, func(ctx context.Context, q runIn) (wire.Run, error) {
		return c.PauseRun(ctx, q.Run, of(q.Namespace))
	})
	add(out, r, "resume_run", "Resume a paused run.", false, func(ctx context.Context, q runIn) (wire.Run, error) {
		return c.ResumeRun(ctx, q.Run, of(q.Namespace))
	})
	add(out, r, "restart_run", "Restart a failed or canceled run; completed steps are kept.", false, func(ctx context.Context, q runIn) (wire.Run, error) {
		return c.RestartRun(ctx, q.Run, of(q.Namespace))
	})
	add(out, r, "send_signal", "Send a signal to a run.", false, func(ctx context.Context, q signalIn) (wire.Sent, error) {
		b := wire.SendSignal{Name: q.Name}
		if q.Payload != nil {
			data, err := json.Marshal(q.Payload)
			if err != nil {
				return wire.Sent{}, err
			}
			b.Payload = data
		}
		return c.SendSignal(ctx, q.Run, b, of(q.Namespace))
	})
}
