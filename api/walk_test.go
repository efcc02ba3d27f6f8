package api_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/internal/testing/pgtest"
	"github.com/pawlhq/pawl/internal/testing/sqldtest"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
)

// TestEveryOperationWorks calls every operation of the document on each backend.
func TestEveryOperationWorks(t *testing.T) {
	for name, url := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + t.TempDir() + "/api.db" },
		"postgres": func(t *testing.T) string { return pgtest.Database(t) },
		"turso": func(t *testing.T) string {
			srv := sqldtest.Start(t)
			srv.NamespaceNamed(t, "127") // the first label of the host
			return "http://" + srv.Addr()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, url(t))
			s.work(worker.ID("web-1/4711"), worker.Build("v1"))
			s.walkRuns()
			s.walkControl()
			s.walkState()
			s.walkSchedules()
			s.walkUpdates()
			s.walkLimits()
			s.walkWebhooks()
			s.walkWork()
			s.walkStreams()
			s.running.Wait()
			for _, methods := range readDocument().Paths {
				for _, op := range methods {
					if _, ok := s.called.Load(op.OperationID); !ok {
						t.Errorf("%s was not called, or did not succeed", op.OperationID)
					}
				}
			}
		})
	}
}

func (s *site) walkRuns() {
	t, ctx, c := s.t, s.ctx, s.c
	doc, err := c.GetOpenAPI(ctx)
	require.NoError(t, err)
	require.True(t, json.Valid(doc))
	info, err := c.GetInfo(ctx, wire.In{})
	require.NoError(t, err)
	require.Equal(t, "default", info.Namespace)
	require.Equal(t, "api@127.0.0.1", info.Actor)
	require.True(t, info.Can["runs.cancel"])
	spaces, err := c.ListNamespaces(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"default"}, spaces.Namespaces)
	health, err := c.GetHealth(ctx, wire.In{})
	require.NoError(t, err)
	require.Equal(t, 1, health.Online)

	id := s.start(wire.Start{Workflow: "family", Input: []byte(`[{"Item":"a"},{"Item":"b"}]`), ExternalID: "fam", Tags: map[string]string{"customer": "4711"}})
	require.JSONEq(t, `["a packed","b packed"]`, string(s.ended(id).Output.JSON))
	tree, err := c.GetTree(ctx, id, wire.GetTree{})
	require.NoError(t, err)
	require.Len(t, tree.Children, 2)
	children, err := c.ListChildren(ctx, id, wire.Page{Limit: 1})
	require.NoError(t, err)
	require.Len(t, children.Runs, 1)
	require.NotEmpty(t, children.Next)
	progress, err := c.GetProgress(ctx, id, wire.In{})
	require.NoError(t, err)
	require.EqualValues(t, 2, progress.Progress[0].Completed)
	require.Equal(t, wire.TreeCounts{Total: 2, Completed: 2}, progress.Tree.TreeCounts)
	require.Equal(t, []wire.TreeCounts{{Total: 2, Completed: 2}}, progress.Tree.Levels)

	one, err := c.GetRun(ctx, id, wire.GetRun{})
	require.NoError(t, err)
	require.Equal(t, "v1", one.Build)
	found, err := c.FindRun(ctx, wire.FindRun{ExternalID: "fam"})
	require.NoError(t, err)
	require.Equal(t, id, found.ID)
	steps, err := c.ListSteps(ctx, id, wire.ListSteps{})
	require.NoError(t, err)
	require.Equal(t, "map", steps.Steps[0].Kind)
	x, err := c.ExplainRun(ctx, id, wire.In{})
	require.NoError(t, err)
	require.Equal(t, "completed", x.Reason)
	page, err := c.ListRuns(ctx, wire.ListRuns{RunFilter: wire.RunFilter{Workflow: "ship"}, Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, page.Next)
	page, err = c.ListRuns(ctx, wire.ListRuns{RunFilter: wire.RunFilter{Workflow: "ship"}, Limit: 1, Cursor: page.Next})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	tagged, err := c.ListRuns(ctx, wire.ListRuns{RunFilter: wire.RunFilter{Tag: []string{"customer=47*", "customer"}}})
	require.NoError(t, err)
	require.Len(t, tagged.Runs, 1)
	require.Equal(t, map[string]string{"customer": "4711"}, tagged.Runs[0].Tags)
	_, err = c.ListRuns(ctx, wire.ListRuns{RunFilter: wire.RunFilter{Tag: []string{"customer="}}})
	refused(t, err, 400, wire.CodeInvalid)
	counts, err := c.CountRuns(ctx, wire.CountRuns{ByFailure: true})
	require.NoError(t, err)
	require.EqualValues(t, 3, counts.Total)
}

func (s *site) walkControl() {
	t, ctx, c := s.t, s.ctx, s.c
	held := s.start(wire.Start{Workflow: "ship", Input: []byte(`{}`), Delay: "1h"})
	run, err := c.PauseRun(ctx, held)
	require.NoError(t, err)
	require.Equal(t, "paused", run.Status)
	run, err = c.ResumeRun(ctx, held)
	require.NoError(t, err)
	require.Equal(t, "pending", run.Status)
	run, err = c.CancelRun(ctx, held, wire.Cancel{Reason: "ordered twice"})
	require.NoError(t, err)
	require.Equal(t, "canceled", run.Status)
	require.Equal(t, "ordered twice", run.Failure.Message)

	reached := wire.Start{Workflow: "ship", Input: []byte(`{}`), Delay: "1h", ExternalID: "reached", Signal: &wire.SendSignal{Name: "note", Payload: []byte(`"a"`)}}
	first, err := c.StartRun(ctx, reached)
	require.NoError(t, err)
	require.False(t, first.Existing)
	reached.Signal.Payload = []byte(`"b"`)
	second, err := c.StartRun(ctx, reached)
	require.NoError(t, err)
	require.Equal(t, wire.Started{ID: first.ID, Existing: true}, second)
	box, err := c.ListSignals(ctx, first.ID, wire.ListSignals{})
	require.NoError(t, err)
	require.Len(t, box.Signals, 2)
	reached.ExternalID = ""
	_, err = c.StartRun(ctx, reached)
	refused(t, err, 400, wire.CodeInvalid)

	failed := s.start(wire.Start{Workflow: "broken", Input: []byte(`{}`)})
	require.Equal(t, "failed", s.ended(failed).Status)
	_, err = c.RestartRun(ctx, failed)
	require.NoError(t, err)
	require.Equal(t, "failed", s.ended(failed).Status)

	forked, err := c.ForkRun(ctx, failed, wire.Fork{}, client.IdempotencyKey("fork-1"))
	require.NoError(t, err)
	require.Equal(t, []string{"break"}, forked.Again)
	require.Equal(t, "failed", s.ended(forked.ID).Status)

	pinned := s.start(wire.Start{Workflow: "ship", Input: []byte(`{}`), Delay: "1h"})
	_, err = c.UnpinRun(ctx, pinned)
	refused(t, err, 409, wire.CodeConflict)
	s.pin(pinned, "v0")
	stranded, err := c.ListRuns(ctx, wire.ListRuns{RunFilter: wire.RunFilter{Stranded: true}})
	require.NoError(t, err)
	require.Len(t, stranded.Runs, 1)
	_, err = c.UnpinRun(ctx, pinned)
	require.NoError(t, err)
	waits := s.start(wire.Start{Workflow: "approval", Input: []byte(`{}`)})
	s.sleeping(waits)
	run, err = c.CancelRun(ctx, waits, wire.Cancel{Force: true})
	require.NoError(t, err)
	require.Equal(t, "canceled", run.Status)

	dry, err := c.BulkRuns(ctx, wire.Bulk{Action: "restart", Filter: wire.RunFilter{Workflow: "broken"}, DryRun: true})
	require.NoError(t, err)
	require.EqualValues(t, 2, dry.Matched)
	require.Zero(t, dry.Done)
	bulk, err := c.BulkRuns(ctx, wire.Bulk{Action: "restart", Filter: wire.RunFilter{Workflow: "broken"}})
	require.NoError(t, err)
	require.EqualValues(t, 2, bulk.Done)
	s.ended(failed)

	var export bytes.Buffer
	require.NoError(t, c.ExportRun(ctx, failed, wire.Export{Children: true}, &export))
	imported, err := c.ImportRuns(ctx, &export)
	require.NoError(t, err)
	require.True(t, imported.Runs[0].Existing)
	actions, err := c.ListActions(ctx, wire.ListActions{Run: failed})
	require.NoError(t, err)
	verbs := each(actions.Actions, func(a wire.Action) string { return a.Actor + " " + a.Verb })
	require.Equal(t, []string{"api@127.0.0.1 restart", "api@127.0.0.1 fork", "api@127.0.0.1 restart", "api@127.0.0.1 start"}, verbs)
}

func each[A, B any](list []A, f func(A) B) (out []B) {
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

// pin pins a run to a build, as a worker does.
func (s *site) pin(id, build string) {
	s.t.Helper()
	run, err := store.ParseID(id)
	require.NoError(s.t, err)
	st := s.eng.Store()
	claimed, err := st.Claim(s.ctx, store.ClaimParams{
		Namespace: "default", Worker: "tester", LeaseFor: time.Minute, Now: time.Now().Add(2 * time.Hour), Build: "tester",
		Demands: []store.Demand{{Queue: "ship", Workflows: []string{"ship"}, Max: 10}},
	})
	require.NoError(s.t, err)
	i := slices.IndexFunc(claimed.Runs, func(r store.ClaimedRun) bool { return r.Run.ID == run })
	require.GreaterOrEqual(s.t, i, 0)
	res, err := st.Commit(s.ctx, store.CommitParams{Namespace: "default", Commits: []store.Commit{{
		Lease: claimed.Runs[i].Lease, Seq: 1, Pin: &store.Pin{Build: build}, Transition: &store.Transition{Kind: store.GiveBack},
	}}})
	require.NoError(s.t, err)
	require.NoError(s.t, res[0].Err)
}

func (s *site) walkState() {
	t, ctx, c := s.t, s.ctx, s.c
	id := s.start(wire.Start{Workflow: "approval", Input: []byte(`{}`), ExternalID: "order-7"})
	s.sleeping(id)
	e, err := c.SetState(ctx, id, "a/b c", wire.SetState{Value: []byte(`1`)}, client.IfVersion(0))
	require.NoError(t, err)
	_, err = c.SetState(ctx, id, "a/b c", wire.SetState{Value: []byte(`2`)}, client.IfVersion(0))
	refused(t, err, 412, wire.CodeVersionMismatch)
	_, err = c.SetState(ctx, id, "a/b c", wire.SetState{Value: []byte(`2`)}, client.IfVersion(e.Version+1))
	refused(t, err, 412, wire.CodeVersionMismatch)
	e, err = c.SetState(ctx, id, "a/b c", wire.SetState{Value: []byte(`2`)}, client.IfVersion(e.Version))
	require.NoError(t, err)
	got, err := c.GetState(ctx, id, "a/b c", wire.GetRun{})
	require.NoError(t, err)
	require.Equal(t, e.Version, got.Version)
	require.Equal(t, "2", string(got.Value.JSON))
	list, err := c.ListState(ctx, id, wire.GetRun{})
	require.NoError(t, err)
	require.Len(t, list.State, 1)
	require.NoError(t, c.DeleteState(ctx, id, "a/b c", client.IfVersion(e.Version)))
	_, err = c.GetState(ctx, id, "a/b c", wire.GetRun{})
	refused(t, err, 404, wire.CodeNotFound)

	sent, err := c.SendSignal(ctx, id, wire.SendSignal{Name: "other", Payload: []byte(`{"by":"ada"}`)}, client.IdempotencyKey("signal-1"))
	require.NoError(t, err)
	signals, err := c.ListSignals(ctx, id, wire.ListSignals{})
	require.NoError(t, err)
	require.Equal(t, sent.ID, signals.Signals[0].ID)
	require.JSONEq(t, `{"by":"ada"}`, string(signals.Signals[0].Payload.JSON))
	_, err = c.SendSignalTo(ctx, wire.SendSignalTo{ExternalID: "order-7", SendSignal: wire.SendSignal{Name: "approved", Payload: []byte(`"yes"`)}})
	require.NoError(t, err)
	require.JSONEq(t, `"yes"`, string(s.ended(id).Output.JSON))
	purged, err := c.PurgeRuns(ctx, wire.Purge{Workflow: "approval", OlderThan: "0s"})
	require.NoError(t, err)
	require.Equal(t, 2, purged.Deleted)
}

func (s *site) walkSchedules() {
	t, ctx, c := s.t, s.ctx, s.c
	put, err := c.PutSchedule(ctx, "every night/1", wire.PutSchedule{Workflow: "ship", Spec: "0 3 * * *", TimeZone: "Europe/Berlin", Input: []byte(`{"Item":"x"}`), Overlap: "skip", Paused: true})
	require.NoError(t, err)
	require.True(t, put.Paused)
	list, err := c.ListSchedules(ctx, wire.Page{})
	require.NoError(t, err)
	require.Len(t, list.Schedules, 1)
	view, err := c.GetSchedule(ctx, "every night/1", wire.GetSchedule{Times: 3})
	require.NoError(t, err)
	require.Len(t, view.Upcoming, 3)
	require.JSONEq(t, `{"Item":"x"}`, string(view.Schedule.Input.JSON))
	held, err := c.ResumeSchedule(ctx, "every night/1")
	require.NoError(t, err)
	require.False(t, held.Paused)
	_, err = c.PauseSchedule(ctx, "every night/1")
	require.NoError(t, err)
	started, err := c.TriggerSchedule(ctx, "every night/1")
	require.NoError(t, err)
	require.Equal(t, "every night/1", s.ended(started.ID).Schedule)
	_, err = c.ListFirings(ctx, "every night/1", wire.Page{})
	require.NoError(t, err)
	preview, err := c.PreviewSchedule(ctx, wire.PreviewSchedule{Spec: "@every 90s", Times: 2})
	require.NoError(t, err)
	require.Len(t, preview.Upcoming, 2)
	require.NoError(t, c.DeleteSchedule(ctx, "every night/1"))
	_, err = c.GetSchedule(ctx, "every night/1", wire.GetSchedule{})
	refused(t, err, 404, wire.CodeNotFound)
}

func (s *site) walkUpdates() {
	t, ctx, c := s.t, s.ctx, s.c
	id := s.start(wire.Start{Workflow: "account", Input: []byte(`40`), ExternalID: "account-1"})
	sent, err := c.SendSignalTo(ctx, wire.SendSignalTo{ExternalID: "account-1", SendSignal: wire.SendSignal{Name: "raise", Payload: []byte(`2`)}})
	require.NoError(t, err)
	require.Equal(t, id, sent.Run)
	answer, err := c.AwaitAnswer(ctx, sent.Run, sent.ID, wire.AwaitRun{Wait: "60s"})
	require.NoError(t, err)
	require.True(t, answer.Answered)
	require.Equal(t, "42", string(answer.Output.JSON))
	s.ended(id)
	again, err := c.AwaitAnswer(ctx, sent.Run, sent.ID, wire.AwaitRun{})
	require.NoError(t, err)
	require.Equal(t, answer, again)
	_, err = c.AwaitAnswer(ctx, id, store.NewID().String(), wire.AwaitRun{})
	refused(t, err, 404, wire.CodeNotFound)

	page, err := c.ReadStream(ctx, id, wire.ReadStream{Name: "moves", Wait: "60s"})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	require.True(t, page.Ended)
	require.Equal(t, []string{`40`, `42`}, []string{string(page.Items[0].Payload.JSON), string(page.Items[1].Payload.JSON)})
	require.Equal(t, "moves", page.Items[1].Stream)
	rest, err := c.ReadStream(ctx, id, wire.ReadStream{After: page.Items[0].Position, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, page.Items[1:], rest.Items)
	_, err = c.ReadStream(ctx, store.NewID().String(), wire.ReadStream{})
	refused(t, err, 404, wire.CodeNotFound)

	waits := s.start(wire.Start{Workflow: "account", Input: []byte(`1`), Delay: "1h"})
	page, err = c.ReadStream(ctx, waits, wire.ReadStream{Wait: "1ms"})
	require.NoError(t, err)
	require.Equal(t, wire.StreamPage{Items: []wire.StreamItem{}}, page)
	sent, err = c.SendSignal(ctx, waits, wire.SendSignal{Name: "raise", Payload: []byte(`2`)})
	require.NoError(t, err)
	answer, err = c.AwaitAnswer(ctx, waits, sent.ID, wire.AwaitRun{Wait: "1ms"})
	require.NoError(t, err)
	require.Equal(t, wire.Answer{}, answer)
	_, err = c.CancelRun(ctx, waits, wire.Cancel{})
	require.NoError(t, err)
	_, err = c.AwaitAnswer(ctx, waits, sent.ID, wire.AwaitRun{Wait: "60s"})
	refused(t, err, 409, wire.CodeUnanswered)
}

func (s *site) walkLimits() {
	t, ctx, c := s.t, s.ctx, s.c
	limits, err := c.ListLimits(ctx, wire.In{})
	require.NoError(t, err)
	require.Len(t, limits.Limits, 1)
	require.Equal(t, wire.LimitRule{Concurrency: 1, Text: "1 at a time"}, limits.Limits[0].Rule)
	set, err := c.SetLimit(ctx, "scarce", wire.LimitRule{Tokens: 5000, Per: "1h", Burst: 100, Fair: true})
	require.NoError(t, err)
	require.Equal(t, &wire.LimitRule{Tokens: 5000, Per: "1h0m0s", Burst: 100, Fair: true, Text: "5000 per 1h0m0s with a burst of 100, fair"}, set.Limits[0].Set)
	_, err = c.SetLimit(ctx, "scarce", wire.LimitRule{Tokens: 5})
	refused(t, err, 400, wire.CodeInvalid)
	require.NoError(t, c.SetWeight(ctx, "scarce", wire.SetWeight{Key: "acme/1", Weight: 3}))
	view, err := c.GetLimit(ctx, "scarce", wire.Page{})
	require.NoError(t, err)
	require.Equal(t, []wire.LimitKey{{Key: "acme/1", Weight: 3}}, each(view.Keys, func(k wire.LimitKey) wire.LimitKey { k.NextTokenAt = nil; return k })[len(view.Keys)-1:])
	require.NoError(t, c.UnsetLimit(ctx, "scarce"))
	limits, err = c.ListLimits(ctx, wire.In{})
	require.NoError(t, err)
	require.Nil(t, limits.Limits[0].Set)
	_, err = c.GetLimit(ctx, "none", wire.Page{})
	refused(t, err, 404, wire.CodeNotFound)

	first := s.start(wire.Start{Workflow: "busy", Input: []byte(`{}`)})
	second := s.start(wire.Start{Workflow: "busy", Input: []byte(`{}`)})
	s.until("a run waits for the limit", func() bool {
		limits, err = c.ListLimits(ctx, wire.In{})
		require.NoError(t, err)
		return limits.Limits[0].Held == 1 && limits.Limits[0].Waiting == 1
	})
	require.EqualValues(t, 1, limits.Limits[0].FullWaiting)
	metrics, err := c.GetMetrics(ctx, wire.In{})
	require.NoError(t, err)
	require.Contains(t, string(metrics), `pawl_limit_waiting{namespace="default",limit="scarce"} 1`)
	for _, id := range []string{first, second} {
		_, err := c.CancelRun(ctx, id, wire.Cancel{})
		require.NoError(t, err)
		s.ended(id)
	}
}

func (s *site) walkWebhooks() {
	t, ctx, c := s.t, s.ctx, s.c
	_, err := s.eng.Subscribe(ctx, store.Subscription{Name: "audit/eu", Workflows: []string{"ship"}, Kinds: []store.ChangeKind{store.RunCreated, store.RunFailed}, Keep: time.Hour})
	require.NoError(t, err)
	id := s.start(wire.Start{Workflow: "ship", Input: []byte(`{"Item":"book"}`)})
	s.ended(id)
	page, err := s.eng.Changes(ctx, "audit/eu", 1)
	require.NoError(t, err)
	require.Len(t, page.Changes, 1)
	failed := []store.FailedDelivery{{ChangeKey: page.Changes[0].ChangeKey, Attempt: 1, After: time.Hour}}
	require.NoError(t, s.eng.Settle(ctx, store.SettleParams{Subscription: "audit/eu", Failed: failed, Error: "refused"}))
	list, err := c.ListWebhooks(ctx, wire.In{})
	require.NoError(t, err)
	require.Len(t, list.Webhooks, 1)
	w := list.Webhooks[0]
	require.NotNil(t, w.OldestAt)
	require.NotNil(t, w.FailedAt)
	require.NotNil(t, w.CreatedAt)
	want := wire.Webhook{Name: "audit/eu", Workflows: []string{"ship"}, Kinds: []string{"created", "failed"}, Keep: "1h0m0s", Waiting: 1, OldestAt: w.OldestAt, Attempts: 1,
		FailedAt: w.FailedAt, Error: "refused", CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt}
	require.Equal(t, want, w)
	require.NoError(t, c.DeleteWebhook(ctx, "audit/eu"))
	refused(t, c.DeleteWebhook(ctx, "audit/eu"), 404, wire.CodeNotFound)
	list, err = c.ListWebhooks(ctx, wire.In{})
	require.NoError(t, err)
	require.Empty(t, list.Webhooks)
}

func (s *site) walkWork() {
	t, ctx, c := s.t, s.ctx, s.c
	_, err := c.PauseQueue(ctx, "ship")
	require.NoError(t, err)
	_, err = c.PauseWorkflow(ctx, "ship")
	require.NoError(t, err)
	queues, err := c.ListQueues(ctx, wire.In{})
	require.NoError(t, err)
	i := slices.IndexFunc(queues.Lines, func(l wire.Line) bool { return l.Name == "ship" })
	require.NotNil(t, queues.Lines[i].PausedSince)
	require.Equal(t, 1, queues.Lines[i].Workers)
	pace, err := c.GetPace(ctx, wire.In{})
	require.NoError(t, err)
	require.Positive(t, pace.Minutes)
	flows, err := c.ListWorkflows(ctx, wire.In{})
	require.NoError(t, err)
	require.Len(t, flows.Lines, 6)
	flow, err := c.GetWorkflow(ctx, "ship", wire.In{})
	require.NoError(t, err)
	require.NotNil(t, flow.PausedSince)
	_, err = c.ResumeQueue(ctx, "ship")
	require.NoError(t, err)
	_, err = c.ResumeWorkflow(ctx, "ship")
	require.NoError(t, err)
	workers, err := c.ListWorkers(ctx, wire.ListWorkers{Queue: "ship", Workflow: "ship"})
	require.NoError(t, err)
	require.Equal(t, "web-1/4711", workers.Workers[0].ID)
	refused(t, c.RemoveWorker(ctx, "web-1/4711", wire.RemoveWorker{}), 409, wire.CodeConflict)
	require.NoError(t, c.RemoveWorker(ctx, "web-1/4711", wire.RemoveWorker{Force: true}))
	builds, err := c.ListBuilds(ctx, wire.In{})
	require.NoError(t, err)
	require.NotNil(t, builds.Builds)
	doctor, err := c.RunDoctor(ctx, wire.In{})
	require.NoError(t, err)
	require.NotEmpty(t, doctor.Findings)
	metrics, err := c.GetMetrics(ctx, wire.In{})
	require.NoError(t, err)
	require.Contains(t, string(metrics), "# TYPE pawl_runs gauge\n")
	require.Contains(t, string(metrics), `pawl_workers{namespace="default",status="online"} `)
}

func (s *site) walkStreams() {
	t, ctx, c := s.t, s.ctx, s.c
	id := s.start(wire.Start{Workflow: "approval", Input: []byte(`{}`)})
	s.sleeping(id)
	var names []string
	for e, err := range c.WatchRun(ctx, id, wire.GetRun{}) {
		require.NoError(t, err)
		if names = append(names, e.Name); e.Name == "step" && e.Step.Name == "ask" {
			_, err := c.SendSignal(ctx, id, wire.SendSignal{Name: "approved", Payload: []byte(`"yes"`)})
			require.NoError(t, err)
		}
		if e.Name == "end" {
			require.JSONEq(t, `"yes"`, string(e.Run.Output.JSON))
		}
	}
	require.Equal(t, "run", names[0])
	require.Equal(t, "end", names[len(names)-1])
	require.Contains(t, strings.Join(names, " "), "step")
	for e, err := range c.WatchRuns(ctx, wire.WatchRuns{Snapshot: true, RunFilter: wire.RunFilter{Workflow: "approval"}}) {
		require.NoError(t, err)
		require.Equal(t, "approval", e.Run.Workflow)
		if e.Run.ID == id {
			break
		}
	}
}
