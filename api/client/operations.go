package client

import (
	"context"
	"io"
	"iter"
	"net/http"

	"github.com/pawlhq/pawl/api/wire"
)

// GetOpenAPI gets the OpenAPI document of the API.
func (c *Client) GetOpenAPI(ctx context.Context) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodGet, "/openapi.json", nil, nil, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// GetMetrics gets the metrics in the text format of Prometheus.
func (c *Client) GetMetrics(ctx context.Context, in wire.In) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodGet, "/metrics", in, nil, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// GetInfo gets what the API and the backend are, and what the caller may do.
func (c *Client) GetInfo(ctx context.Context, in wire.In) (wire.Info, error) {
	return get[wire.Info](ctx, c, "/v1/info", in)
}

// ListNamespaces lists the namespaces that the caller may read.
func (c *Client) ListNamespaces(ctx context.Context) (wire.Namespaces, error) {
	return get[wire.Namespaces](ctx, c, "/v1/namespaces", nil)
}

// GetHealth asks the store, once, whether it answers.
func (c *Client) GetHealth(ctx context.Context, in wire.In) (wire.Health, error) {
	return get[wire.Health](ctx, c, "/v1/health", in)
}

// RunDoctor looks for problems of the database, the workers and the runs. It may take half a minute.
func (c *Client) RunDoctor(ctx context.Context, in wire.In) (wire.Doctor, error) {
	return get[wire.Doctor](ctx, c, "/v1/doctor", in)
}

// ListRuns lists a page of runs, newest first. A page may be short, or empty, and still have a Next.
func (c *Client) ListRuns(ctx context.Context, q wire.ListRuns) (wire.RunPage, error) {
	return get[wire.RunPage](ctx, c, "/v1/runs", q)
}

// CountRuns counts runs by queue, workflow and status.
func (c *Client) CountRuns(ctx context.Context, q wire.CountRuns) (wire.RunCounts, error) {
	return get[wire.RunCounts](ctx, c, "/v1/runs/count", q)
}

// FindRun finds the run that holds an external id, or the latest that had it.
func (c *Client) FindRun(ctx context.Context, q wire.FindRun) (wire.Run, error) {
	return get[wire.Run](ctx, c, "/v1/runs/find", q)
}

// GetRun gets a run with its input and output.
func (c *Client) GetRun(ctx context.Context, id string, q wire.GetRun) (wire.Run, error) {
	return get[wire.Run](ctx, c, path("v1", "runs", id), q)
}

// ListSteps lists a page of the steps of a run.
func (c *Client) ListSteps(ctx context.Context, id string, q wire.ListSteps) (wire.StepPage, error) {
	return get[wire.StepPage](ctx, c, path("v1", "runs", id, "steps"), q)
}

// ListChildren lists a page of the children of a run, newest first.
func (c *Client) ListChildren(ctx context.Context, id string, q wire.Page) (wire.RunPage, error) {
	return get[wire.RunPage](ctx, c, path("v1", "runs", id, "children"), q)
}

// GetTree gets a run with its descendants.
func (c *Client) GetTree(ctx context.Context, id string, q wire.GetTree) (wire.Tree, error) {
	return get[wire.Tree](ctx, c, path("v1", "runs", id, "tree"), q)
}

// ExplainRun explains why a run is in its state, and what can be done.
func (c *Client) ExplainRun(ctx context.Context, id string, in wire.In) (wire.Explanation, error) {
	return get[wire.Explanation](ctx, c, path("v1", "runs", id, "explain"), in)
}

// GetProgress gets how far the steps with children are, and the descendants of all levels.
func (c *Client) GetProgress(ctx context.Context, id string, in wire.In) (wire.ProgressList, error) {
	return get[wire.ProgressList](ctx, c, path("v1", "runs", id, "progress"), in)
}

// AwaitRun waits for the end of a run, up to a minute, and gets the run.
func (c *Client) AwaitRun(ctx context.Context, id string, q wire.AwaitRun) (wire.Result, error) {
	return get[wire.Result](ctx, c, path("v1", "runs", id, "result"), q)
}

// WatchRuns follows the runs that a filter selects until the server ends the stream, at the latest after an hour.
func (c *Client) WatchRuns(ctx context.Context, q wire.WatchRuns) iter.Seq2[wire.Event, error] {
	return events(ctx, c, "/v1/runs/events", q)
}

// WatchRun follows a run until its end: its status, its steps, and how far its descendants are. Step events may repeat what the caller knows.
func (c *Client) WatchRun(ctx context.Context, id string, q wire.GetRun) iter.Seq2[wire.Event, error] {
	return events(ctx, c, path("v1", "runs", id, "events"), q)
}

// AwaitAnswer waits for the answer of a run to a signal that asked for one (an update), up to a minute, and gets it.
func (c *Client) AwaitAnswer(ctx context.Context, id, signal string, q wire.AwaitRun) (wire.Answer, error) {
	return get[wire.Answer](ctx, c, path("v1", "runs", id, "signals", signal, "answer"), q)
}

// ReadStream reads a page of the items that a run has appended to its streams, and waits up to a minute for the first.
func (c *Client) ReadStream(ctx context.Context, id string, q wire.ReadStream) (wire.StreamPage, error) {
	return get[wire.StreamPage](ctx, c, path("v1", "runs", id, "stream"), q)
}

// ListSignals lists a page of the unread signals of a run.
func (c *Client) ListSignals(ctx context.Context, id string, q wire.ListSignals) (wire.SignalPage, error) {
	return get[wire.SignalPage](ctx, c, path("v1", "runs", id, "signals"), q)
}

// ListActions lists who did what, newest first.
func (c *Client) ListActions(ctx context.Context, q wire.ListActions) (wire.ActionPage, error) {
	return get[wire.ActionPage](ctx, c, "/v1/actions", q)
}

// StartRun starts a run.
func (c *Client) StartRun(ctx context.Context, b wire.Start, opts ...CallOption) (wire.Started, error) {
	return post[wire.Started](ctx, c, "/v1/runs", b, opts)
}

// CancelRun cancels a run and its children.
func (c *Client) CancelRun(ctx context.Context, id string, b wire.Cancel, opts ...CallOption) (wire.Run, error) {
	return post[wire.Run](ctx, c, path("v1", "runs", id, "cancel"), b, opts)
}

// PauseRun pauses a run until it is resumed.
func (c *Client) PauseRun(ctx context.Context, id string, opts ...CallOption) (wire.Run, error) {
	return post[wire.Run](ctx, c, path("v1", "runs", id, "pause"), nil, opts)
}

// ResumeRun resumes a paused run.
func (c *Client) ResumeRun(ctx context.Context, id string, opts ...CallOption) (wire.Run, error) {
	return post[wire.Run](ctx, c, path("v1", "runs", id, "resume"), nil, opts)
}

// RestartRun restarts a failed or canceled run.
func (c *Client) RestartRun(ctx context.Context, id string, opts ...CallOption) (wire.Run, error) {
	return post[wire.Run](ctx, c, path("v1", "runs", id, "restart"), nil, opts)
}

// UnpinRun lets workers of any build claim a pinned run.
func (c *Client) UnpinRun(ctx context.Context, id string, opts ...CallOption) (wire.Run, error) {
	return post[wire.Run](ctx, c, path("v1", "runs", id, "unpin"), nil, opts)
}

// ForkRun starts a new run from a step of a run.
func (c *Client) ForkRun(ctx context.Context, id string, b wire.Fork, opts ...CallOption) (wire.Forked, error) {
	return post[wire.Forked](ctx, c, path("v1", "runs", id, "fork"), b, opts)
}

// SendSignal sends a signal to a run.
func (c *Client) SendSignal(ctx context.Context, id string, b wire.SendSignal, opts ...CallOption) (wire.Sent, error) {
	return post[wire.Sent](ctx, c, path("v1", "runs", id, "signals"), b, opts)
}

// SendSignalTo sends a signal to the active run of an external id.
func (c *Client) SendSignalTo(ctx context.Context, b wire.SendSignalTo, opts ...CallOption) (wire.Sent, error) {
	return post[wire.Sent](ctx, c, "/v1/signals", b, opts)
}

// BulkRuns applies an action to the runs that a filter selects, or counts them.
func (c *Client) BulkRuns(ctx context.Context, b wire.Bulk, opts ...CallOption) (wire.BulkResult, error) {
	return post[wire.BulkResult](ctx, c, "/v1/runs/bulk", b, opts)
}

// PurgeRuns deletes final runs.
func (c *Client) PurgeRuns(ctx context.Context, b wire.Purge, opts ...CallOption) (wire.Purged, error) {
	return post[wire.Purged](ctx, c, "/v1/runs/purge", b, opts)
}

// ExportRun writes a run as an export to w.
func (c *Client) ExportRun(ctx context.Context, id string, q wire.Export, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, path("v1", "runs", id, "export"), q, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}

// ImportRuns imports the runs of an export.
func (c *Client) ImportRuns(ctx context.Context, r io.Reader, opts ...CallOption) (out wire.ImportResult, err error) {
	resp, err := c.send(ctx, http.MethodPost, "/v1/runs/import", nil, r, opts)
	if err != nil {
		return out, err
	}
	return out, decode(resp, &out)
}

// ListState lists the flow state of a run.
func (c *Client) ListState(ctx context.Context, id string, q wire.GetRun) (wire.StateList, error) {
	return get[wire.StateList](ctx, c, path("v1", "runs", id, "state"), q)
}

// GetState gets a key of the flow state of a run.
func (c *Client) GetState(ctx context.Context, id, key string, q wire.GetRun) (wire.StateEntry, error) {
	return get[wire.StateEntry](ctx, c, path("v1", "runs", id, "state", key), q)
}

// SetState sets a key of the flow state of a run.
func (c *Client) SetState(ctx context.Context, id, key string, b wire.SetState, opts ...CallOption) (wire.StateEntry, error) {
	return call[wire.StateEntry](ctx, c, http.MethodPut, path("v1", "runs", id, "state", key), nil, b, opts)
}

// DeleteState deletes a key of the flow state of a run.
func (c *Client) DeleteState(ctx context.Context, id, key string, opts ...CallOption) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, path("v1", "runs", id, "state", key), nil, nil, opts)
	return err
}

// ListSchedules lists a page of schedules by name.
func (c *Client) ListSchedules(ctx context.Context, q wire.Page) (wire.SchedulePage, error) {
	return get[wire.SchedulePage](ctx, c, "/v1/schedules", q)
}

// GetSchedule gets a schedule with its next fire times.
func (c *Client) GetSchedule(ctx context.Context, name string, q wire.GetSchedule) (wire.ScheduleView, error) {
	return get[wire.ScheduleView](ctx, c, path("v1", "schedules", name), q)
}

// PutSchedule creates or changes a schedule.
func (c *Client) PutSchedule(ctx context.Context, name string, b wire.PutSchedule, opts ...CallOption) (wire.Schedule, error) {
	return call[wire.Schedule](ctx, c, http.MethodPut, path("v1", "schedules", name), nil, b, opts)
}

// DeleteSchedule deletes a schedule and the record of its firings.
func (c *Client) DeleteSchedule(ctx context.Context, name string, opts ...CallOption) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, path("v1", "schedules", name), nil, nil, opts)
	return err
}

// PauseSchedule pauses a schedule.
func (c *Client) PauseSchedule(ctx context.Context, name string, opts ...CallOption) (wire.Held, error) {
	return post[wire.Held](ctx, c, path("v1", "schedules", name, "pause"), nil, opts)
}

// ResumeSchedule resumes a schedule.
func (c *Client) ResumeSchedule(ctx context.Context, name string, opts ...CallOption) (wire.Held, error) {
	return post[wire.Held](ctx, c, path("v1", "schedules", name, "resume"), nil, opts)
}

// TriggerSchedule starts a run of a schedule now.
func (c *Client) TriggerSchedule(ctx context.Context, name string, opts ...CallOption) (wire.Started, error) {
	return post[wire.Started](ctx, c, path("v1", "schedules", name, "trigger"), nil, opts)
}

// ListFirings lists a page of the past firings of a schedule, newest first.
func (c *Client) ListFirings(ctx context.Context, name string, q wire.Page) (wire.FiringPage, error) {
	return get[wire.FiringPage](ctx, c, path("v1", "schedules", name, "firings"), q)
}

// PreviewSchedule lists the fire times of a rule.
func (c *Client) PreviewSchedule(ctx context.Context, q wire.PreviewSchedule) (wire.Preview, error) {
	return get[wire.Preview](ctx, c, "/v1/schedule-preview", q)
}

// ListQueues lists the queues with their unfinished runs and workers.
func (c *Client) ListQueues(ctx context.Context, in wire.In) (wire.Lines, error) {
	return get[wire.Lines](ctx, c, "/v1/queues", in)
}

// GetPace gets how many runs ended in each of the last 30 minutes, by queue.
func (c *Client) GetPace(ctx context.Context, in wire.In) (wire.Pace, error) {
	return get[wire.Pace](ctx, c, "/v1/pace", in)
}

// PauseQueue pauses a queue.
func (c *Client) PauseQueue(ctx context.Context, name string, opts ...CallOption) (wire.Held, error) {
	return post[wire.Held](ctx, c, path("v1", "queues", name, "pause"), nil, opts)
}

// ResumeQueue resumes a queue.
func (c *Client) ResumeQueue(ctx context.Context, name string, opts ...CallOption) (wire.Held, error) {
	return post[wire.Held](ctx, c, path("v1", "queues", name, "resume"), nil, opts)
}

// ListWorkflows lists the workflows with their unfinished runs and workers.
func (c *Client) ListWorkflows(ctx context.Context, in wire.In) (wire.Lines, error) {
	return get[wire.Lines](ctx, c, "/v1/workflows", in)
}

// GetWorkflow gets the registration of a workflow, with its graph.
func (c *Client) GetWorkflow(ctx context.Context, name string, in wire.In) (wire.Workflow, error) {
	return get[wire.Workflow](ctx, c, path("v1", "workflows", name), in)
}

// PauseWorkflow pauses a workflow.
func (c *Client) PauseWorkflow(ctx context.Context, name string, opts ...CallOption) (wire.Held, error) {
	return post[wire.Held](ctx, c, path("v1", "workflows", name, "pause"), nil, opts)
}

// ResumeWorkflow resumes a workflow.
func (c *Client) ResumeWorkflow(ctx context.Context, name string, opts ...CallOption) (wire.Held, error) {
	return post[wire.Held](ctx, c, path("v1", "workflows", name, "resume"), nil, opts)
}

// ListWorkers lists the workers.
func (c *Client) ListWorkers(ctx context.Context, q wire.ListWorkers) (wire.Workers, error) {
	return get[wire.Workers](ctx, c, "/v1/workers", q)
}

// RemoveWorker removes the registration of a worker that has died.
func (c *Client) RemoveWorker(ctx context.Context, id string, q wire.RemoveWorker, opts ...CallOption) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, path("v1", "workers", id), q, nil, opts)
	return err
}

// ListBuilds lists the builds, and whether their workers may be stopped.
func (c *Client) ListBuilds(ctx context.Context, in wire.In) (wire.Builds, error) {
	return get[wire.Builds](ctx, c, "/v1/builds", in)
}

// ListLimits lists the limits with what they hold back.
func (c *Client) ListLimits(ctx context.Context, in wire.In) (wire.Limits, error) {
	return get[wire.Limits](ctx, c, "/v1/limits", in)
}

// GetLimit gets a limit with a page of its keys.
func (c *Client) GetLimit(ctx context.Context, name string, q wire.Page) (wire.LimitView, error) {
	return get[wire.LimitView](ctx, c, path("v1", "limits", name), q)
}

// SetLimit sets what a limit allows, as a whole and at once, in place of what code has registered.
func (c *Client) SetLimit(ctx context.Context, name string, b wire.LimitRule, opts ...CallOption) (wire.Limits, error) {
	return call[wire.Limits](ctx, c, http.MethodPut, path("v1", "limits", name, "set"), nil, b, opts)
}

// UnsetLimit lets what code has registered for a limit count again.
func (c *Client) UnsetLimit(ctx context.Context, name string, opts ...CallOption) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, path("v1", "limits", name, "set"), nil, nil, opts)
	return err
}

// SetWeight sets the share of a key of a fair limit.
func (c *Client) SetWeight(ctx context.Context, name string, b wire.SetWeight, opts ...CallOption) error {
	_, err := call[struct{}](ctx, c, http.MethodPut, path("v1", "limits", name, "weight"), nil, b, opts)
	return err
}

// ListWebhooks lists the subscriptions of outgoing webhooks with what waits in them.
func (c *Client) ListWebhooks(ctx context.Context, in wire.In) (wire.Webhooks, error) {
	return get[wire.Webhooks](ctx, c, "/v1/webhooks", in)
}

// DeleteWebhook deletes the subscription of an outgoing webhook with the changes that wait in it.
func (c *Client) DeleteWebhook(ctx context.Context, name string, opts ...CallOption) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, path("v1", "webhooks", name), nil, nil, opts)
	return err
}
