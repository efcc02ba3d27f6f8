package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/pawlhq/pawl/api/wire"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

func runControl() []*operation {
	inType := reflect.TypeFor[wire.In]()
	return []*operation{
		post("startRun", "/v1/runs", "", http.StatusCreated, "Start a run.", startRun),
		post("cancelRun", "/v1/runs/{id}/cancel", CancelRuns, http.StatusOK, "Cancel a run and its children.", cancelRun),
		post("pauseRun", "/v1/runs/{id}/pause", PauseRuns, http.StatusOK, "Pause a run until it is resumed.", control((*engine.Engine).Pause)),
		post("resumeRun", "/v1/runs/{id}/resume", PauseRuns, http.StatusOK, "Resume a paused run.", control((*engine.Engine).Resume)),
		post("restartRun", "/v1/runs/{id}/restart", RestartRuns, http.StatusOK, "Restart a failed or canceled run; completed steps are kept.", control((*engine.Engine).Restart)),
		post("unpinRun", "/v1/runs/{id}/unpin", UnpinRuns, http.StatusOK, "Let workers of any build claim a pinned run.", control((*engine.Engine).Unpin)),
		post("forkRun", "/v1/runs/{id}/fork", ForkRuns, http.StatusCreated, "Start a new run from a step of a run.", forkRun),
		post("sendSignal", "/v1/runs/{id}/signals", SignalRuns, http.StatusCreated, "Send a signal to a run.", sendSignal),
		post("sendSignalTo", "/v1/signals", SignalRuns, http.StatusCreated, "Send a signal to the active run of an external id.", sendSignalTo),
		post("bulkRuns", "/v1/runs/bulk", "", http.StatusOK, "Apply an action to the runs that a filter selects, or count them.", bulkRuns),
		post("purgeRuns", "/v1/runs/purge", PurgeRuns, http.StatusOK, "Delete final runs.", purgeRuns),
		raw(http.MethodGet, "exportRun", "/v1/runs/{id}/export", ExportRuns, reflect.TypeFor[wire.Export](), noneType, nil, "application/json",
			"Export a run with its payloads, for an import elsewhere. It needs the action payloads.read too.", exportRun),
		raw(http.MethodPost, "importRuns", "/v1/runs/import", ImportRuns, inType, nil, reflect.TypeFor[wire.ImportResult](), "",
			"Import the runs of an export. Runs that are not final are paused.", importRuns),
	}
}

func startRun(c *call, b *wire.Start) (out wire.Started, err error) {
	t := c.target()
	t.Workflow, t.Queue = b.Workflow, b.Queue
	if err := c.allow(StartRuns, t); err != nil {
		return out, err
	}
	opts, err := c.startOptions(b)
	if err != nil {
		return out, err
	}
	if b.Signal != nil {
		if err := c.allow(SignalRuns, t); err != nil {
			return out, err
		}
		sig, err := c.startSignal(b.Signal)
		if err != nil {
			return out, err
		}
		opts = append(opts, engine.WithSignal(sig))
	}
	input, err := c.encode("input", b.Input, b.InputBase64)
	if err != nil {
		return out, err
	}
	started, err := c.eng.Start(c.ctx, b.Workflow, input, opts...)
	if err != nil {
		return out, err
	}
	if !started.Existing {
		if err := c.eng.Record(c.ctx, "start", "", b.Workflow, started.ID); err != nil {
			c.eng.Logger().Warn("the start of a run could not be recorded in the journal", "run", started.ID.String(), "error", err)
		}
	}
	return wire.Started{ID: started.ID.String(), Existing: started.Existing}, nil
}

func (c *call) startOptions(b *wire.Start) (opts []engine.StartOption, err error) {
	delay, err := duration("delay", b.Delay)
	if err != nil {
		return nil, err
	}
	deadline, err := duration("deadline", b.Deadline)
	if err != nil {
		return nil, err
	}
	atMost, err := duration("at_most", b.AtMost)
	if err != nil {
		return nil, err
	}
	reuse := map[string]engine.Reuse{"": engine.Forever, "forever": engine.Forever, "while-active": engine.WhileActive, "reject": engine.Reject}[b.Reuse]
	opts = []engine.StartOption{
		engine.Priority(b.Priority), engine.Delay(delay), engine.At(timeOf(b.At)), engine.Timeout(deadline), engine.Queue(b.Queue),
		engine.ExternalID(b.ExternalID, reuse), engine.Suffix(b.Suffix), engine.Tags(b.Tags),
	}
	if b.Debounce != "" || b.AtMost != "" {
		opts = append(opts, engine.Debounce(b.Debounce, delay, atMost))
	}
	id, err := c.ownID("run", b.RunID)
	if err != nil {
		return nil, err
	}
	return append(opts, engine.RunID(id)), nil
}

// startSignal returns the signal of a start.
func (c *call) startSignal(b *wire.SendSignal) (s store.StartSignal, err error) {
	if s.Payload, err = c.encode("payload", b.Payload, b.PayloadBase64); err != nil {
		return s, err
	}
	s.Name = b.Name
	s.ID, err = c.ownID("signal", b.ID)
	return s, err
}

// ownID is the id that the request chooses: by name, or by its Idempotency-Key; zero: none.
func (c *call) ownID(what, given string) (store.ID, error) {
	if given != "" {
		return store.ParseID(given)
	}
	return c.keyID(what)
}

// now reads a run after a change.
func (c *call) now(id store.ID) (out wire.Run, err error) {
	run, err := c.eng.Get(c.ctx, id)
	if err != nil {
		return out, err
	}
	c.space.feed.look(id)
	run.Input, run.Output = nil, nil
	return asRun(&run), nil
}

func cancelRun(c *call, b *wire.Cancel) (out wire.Run, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	cancel := c.eng.Cancel
	if b.Force {
		cancel = c.eng.ForceCancel
	}
	if err := cancel(c.ctx, id, reason(b.Reason)); err != nil {
		return out, err
	}
	return c.now(id)
}

func reason(s string) string {
	if s == "" {
		return "canceled by the API"
	}
	return s
}

// control makes a handler of an action on a run.
func control(do func(*engine.Engine, context.Context, store.ID) error) func(*call, *none) (wire.Run, error) {
	return func(c *call, _ *none) (out wire.Run, err error) {
		id, err := c.id()
		if err != nil {
			return out, err
		}
		if err := do(c.eng, c.ctx, id); err != nil {
			return out, err
		}
		return c.now(id)
	}
}

func forkRun(c *call, b *wire.Fork) (out wire.Forked, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	own, err := c.ownID("fork", b.RunID)
	if err != nil {
		return out, err
	}
	forked, err := c.eng.Fork(c.ctx, id, engine.FromStep(b.From), engine.FromPosition(b.FromPosition), engine.ForkID(own))
	if err != nil {
		return out, err
	}
	key := func(k *store.StepKey) string { return k.String() }
	return wire.Forked{ID: forked.ID.String(), Kept: each(forked.Kept, key), Again: each(forked.Again, key)}, nil
}

func sendSignal(c *call, b *wire.SendSignal) (out wire.Sent, err error) {
	id, err := c.id()
	if err != nil {
		return out, err
	}
	return c.signal(b, store.NewSignal{Run: id}, id)
}

func sendSignalTo(c *call, b *wire.SendSignalTo) (out wire.Sent, err error) {
	if b.ExternalID == "" {
		return out, store.Invalid("external_id", "it is empty")
	}
	run, err := c.eng.Find(c.ctx, b.ExternalID, engine.FindSuffix(b.Suffix))
	if err != nil {
		return out, err
	}
	return c.signal(&b.SendSignal, store.NewSignal{ExternalID: b.ExternalID, Suffix: b.Suffix}, run.ID)
}

// signal sends a signal. Run is the run that gets it.
func (c *call) signal(b *wire.SendSignal, s store.NewSignal, run store.ID) (out wire.Sent, err error) {
	if s.Payload, err = c.encode("payload", b.Payload, b.PayloadBase64); err != nil {
		return out, err
	}
	if s.ID, err = c.ownID("signal", b.ID); err != nil {
		return out, err
	}
	if s.ID.IsZero() {
		s.ID = store.NewID()
	}
	s.Name = b.Name
	if err := c.eng.CheckPayload(c.ctx, run, s.Payload); err != nil {
		return out, err
	}
	sent, err := c.eng.Send(c.ctx, s)
	if err != nil {
		return out, err
	}
	return wire.Sent{ID: s.ID.String(), Run: sent.Run.String()}, nil
}

// bulkAction is an action on many runs.
type bulkAction struct {
	action   Action
	statuses []store.Status // of the runs that are selected without a status
	do       func(e *engine.Engine, ctx context.Context, f store.RunFilter, reason string, opts ...engine.BulkOption) (engine.Bulk, error)
}

// plain is an action without a reason.
func plain(do func(*engine.Engine, context.Context, store.RunFilter, ...engine.BulkOption) (engine.Bulk, error)) func(*engine.Engine, context.Context, store.RunFilter, string, ...engine.BulkOption) (engine.Bulk, error) {
	return func(e *engine.Engine, ctx context.Context, f store.RunFilter, _ string, opts ...engine.BulkOption) (engine.Bulk, error) {
		return do(e, ctx, f, opts...)
	}
}

var bulkActions = map[string]bulkAction{
	"cancel":       {CancelRuns, active, (*engine.Engine).CancelMany},
	"force-cancel": {CancelRuns, active, (*engine.Engine).ForceCancelMany},
	"pause":        {PauseRuns, []store.Status{store.Pending, store.Running, store.Sleeping}, plain((*engine.Engine).PauseMany)},
	"resume":       {PauseRuns, []store.Status{store.Running, store.Paused}, plain((*engine.Engine).ResumeMany)},
	"restart":      {RestartRuns, []store.Status{store.Failed}, plain((*engine.Engine).RestartMany)},
	"unpin":        {UnpinRuns, active, plain((*engine.Engine).UnpinMany)},
}

// mostBulk is how many runs a bulk action changes at most.
const mostBulk = 10_000

func bulkRuns(c *call, b *wire.Bulk) (out wire.BulkResult, err error) {
	act, ok := bulkActions[b.Action]
	if !ok {
		return out, store.Invalid("action", fmt.Sprintf("unknown action %q; want cancel, force-cancel, pause, resume, restart or unpin", cut(b.Action, 100)))
	}
	if err := c.allow(act.action, c.target()); err != nil {
		return out, err
	}
	if reflect.ValueOf(b.Filter).IsZero() {
		return out, store.Invalid("filter", "it selects every run; name a workflow, a queue, a time, or statuses")
	}
	f, err := c.filter(&b.Filter)
	if err != nil {
		return out, err
	}
	if len(f.Statuses) == 0 {
		if onlyFinal(&f) && b.Action != "restart" {
			return out, store.Invalid("filter", "finished_after and finished_before select runs that have ended, which "+b.Action+" cannot change")
		}
		f.Statuses = act.statuses
	}
	if b.Action == "unpin" {
		f.Pinned = true
	}
	counts, err := c.eng.Count(c.ctx, f)
	if err != nil {
		return out, err
	}
	for _, n := range counts {
		out.Matched += n.Count
		out.Capped = out.Capped || n.Capped
	}
	if out.DryRun = b.DryRun; b.DryRun {
		return out, nil
	}
	most := b.AtMost
	if most == 0 {
		most = mostBulk
	}
	done, err := act.do(c.eng, c.ctx, f, reason(b.Reason), engine.AtMost(most))
	out.Done, out.Canceling, out.Skipped = done.Done, done.Canceling, done.Skipped
	out.More = err == nil && done.Done >= most
	c.space.feed.wake()
	return out, err
}

func purgeRuns(c *call, b *wire.Purge) (out wire.Purged, err error) {
	f := engine.PurgeFilter{Workflow: b.Workflow, Limit: b.Limit}
	if f.Limit == 0 {
		f.Limit = 1000
	}
	if f.Statuses, err = statuses(b.Status); err != nil {
		return out, err
	}
	if b.OlderThan == "" {
		return out, store.Invalid("older_than", "it is empty; want a duration such as 720h")
	}
	if f.OlderThan, err = duration("older_than", b.OlderThan); err != nil {
		return out, err
	}
	n, err := c.eng.Purge(c.ctx, f)
	return wire.Purged{Deleted: n, More: n >= f.Limit}, err
}

func exportRun(c *call) error {
	var q wire.Export
	if err := c.readQuery(&q); err != nil {
		return err
	}
	id, err := c.id()
	if err != nil {
		return err
	}
	if err := c.allow(ReadPayloads, c.target()); err != nil {
		return err
	}
	var opts []engine.ExportOption
	if q.Children {
		opts = append(opts, engine.WithChildren())
	}
	out := &exportWriter{c: c, name: "run-" + id.String() + ".json"}
	return c.eng.Export(c.ctx, out, id, opts...)
}

// exportWriter begins the answer with the first byte.
type exportWriter struct {
	c    *call
	name string
}

func (w *exportWriter) Write(b []byte) (int, error) {
	if !w.c.began {
		w.c.began = true
		w.c.w.Header().Set("Content-Type", "application/json")
		w.c.w.Header().Set("Content-Disposition", `attachment; filename="`+w.name+`"`)
	}
	return w.c.w.Write(b)
}

func importRuns(c *call) error {
	var q wire.In
	if err := c.readQuery(&q); err != nil {
		return err
	}
	if err := c.isJSON(); err != nil {
		return err
	}
	data, err := c.read(c.s.maxImport)
	if err != nil {
		return err
	}
	if err := c.eng.Record(c.ctx, "import", "runs", ""); err != nil {
		return err
	}
	runs, err := c.eng.Import(c.ctx, bytes.NewReader(data))
	if err != nil && !errors.Is(err, store.ErrInvalid) && len(runs) > 0 {
		err = fmt.Errorf("%w; %d runs were imported before, and the same import again does the rest", err, len(runs))
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, wire.ImportResult{Runs: each(runs, func(r *engine.Imported) wire.Imported {
		return wire.Imported{ID: r.ID.String(), Status: r.Status.String(), Existing: r.Existing}
	})})
}
