package sqlitecore

import (
	"context"
	"math"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

var (
	importRun = `INSERT INTO runs (id, namespace, workflow, queue, status, paused_from, priority, visible_at, stamp, parts, epoch, attempt, crashes,
			generation, events, external_id, suffix, parent, grp, ordinal, on_close, created_at, started_at, finished_at, deadline, forked_from,
			input, meta, output, failure, reuse, digest, worker, build, pin, pinned, under, limited, tags)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`
	importInput = `INSERT INTO large_inputs (run_id, data) SELECT ?,? WHERE` + applied
	importStep  = `INSERT INTO steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at)
		SELECT ?,?,?,?,?,?,?,?,?,?,?,?,?,?,? WHERE` + applied
	importState  = `INSERT INTO state (run_id, key, value, version, updated_at) SELECT ?,?,?,?,? WHERE` + applied
	importSignal = `INSERT INTO signals (run_id, id, pos, name, payload, sent_at, consumed, answered_at, answer, failure) SELECT ?,?,?,?,?,?,?,?,?,? WHERE` + applied
	importGroup  = `INSERT INTO groups (run_id, name, total, open, completed, failed, canceled) SELECT ?,?,?,?,?,?,? WHERE` + applied
)

// since returns a time in microseconds; the zero time is before all others.
func since(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixMicro()
}

const namespaceOf = `SELECT namespace FROM runs WHERE id=?`

// Import implements store.Importer.
func (c *Core) Import(ctx context.Context, p store.ImportParams) (bool, error) {
	now, err := c.valid(ctx, p.Validate(c.config.Limits), p.Now)
	if err != nil {
		return false, err
	}
	r, stamp := p.Imported(), sqlkit.NewStamp()
	id, input := r.ID[:], blob(r.Input)
	parts := int64(sqlkit.PartSteps | sqlkit.PartState | sqlkit.PartSignals | sqlkit.PartGroups | sqlkit.PartChildren)
	if len(r.Input) > inlineInput {
		input, parts = nil, parts|sqlkit.PartLargeInput
	}
	if r.Worker != "" {
		parts |= sqlkit.PartEnded
	}
	var pausedFrom int64
	var visible any
	if !r.Status.Final() {
		pausedFrom, visible = int64(store.Pending), max(now, since(r.VisibleAt))
	}
	var made int64
	missed := func() bool { return made == 0 }
	stmts := []Stmt{{
		SQL: importRun, Affected: &made,
		Args: []any{id, r.Namespace, r.Workflow, r.Queue, int64(r.Status), pausedFrom, int64(r.Priority), visible, stamp, parts, r.Epoch, int64(r.Attempt), int64(r.Crashes),
			int64(r.Generation), r.Events, text(r.ExternalID), r.Suffix, idBlob(r.Parent), text(r.Group), r.Ordinal, int64(r.OnClose),
			micros(r.CreatedAt), micros(r.StartedAt), micros(r.FinishedAt), micros(r.Deadline), idBlob(r.ForkedFrom),
			input, blob(r.Meta), blob(r.Output), failure(r.Failure), int64(r.Reuse), digest(r.Digest), text(r.Worker), text(r.Build), r.PinnedTo(), text(sqlkit.PinText(r.Pin)), text(sqlkit.UsesText(r.Under)), flag(len(r.Under) > 0), text(sqlkit.TagsText(r.Tags))},
	}}
	add := func(sql string, args ...any) {
		stmts = append(stmts, Stmt{SQL: sql, Args: append(args, id, stamp), Unneeded: missed})
	}
	if parts&sqlkit.PartLargeInput != 0 {
		add(importInput, id, r.Input)
	}
	for i := range p.Record.Steps {
		s := &p.Record.Steps[i]
		add(importStep, id, s.Branch, s.Name, int64(s.Occurrence), int64(s.Kind), int64(s.Status), s.Position, int64(s.Index), int64(s.Attempt), s.Epoch,
			blob(s.Output), text(sqlkit.StepFailureText(s.Failure, s.Earlier)), micros(s.StartedAt), micros(s.FinishedAt), micros(s.DueAt))
	}
	for _, e := range p.Record.State {
		add(importState, id, e.Key, blob(e.Value), e.Version, e.UpdatedAt.UnixMicro())
	}
	// Later signals must have higher positions, so imported signals count as events.
	read, answers := len(p.Record.Consumed), p.Record.Answered()
	for i, consumed := range p.Record.Consumed {
		var at, output, failed any
		if a := answers[consumed]; a != nil {
			at, output, failed = a.At.UnixMicro(), blob(a.Output), failure(a.Failure)
		}
		add(importSignal, id, consumed[:], int64(i+1), "", nil, int64(0), int64(1), at, output, failed)
	}
	for i, s := range p.Record.Signals {
		add(importSignal, id, s.ID[:], int64(read+i+1), s.Name, blob(s.Payload), s.SentAt.UnixMicro(), int64(0), nil, nil, nil)
	}
	for _, g := range p.Record.Groups {
		add(importGroup, id, g.Name, g.Total, g.Open, g.Completed, g.Failed, g.Canceled)
	}
	stmts = importStream(stmts, p.Record.Streams, id, stamp, missed)
	var namespace string
	stmts = append(stmts, Stmt{SQL: namespaceOf, Args: []any{id}, Rows: sqlkit.One(&namespace)})
	if err := c.runner.Write(ctx, stmts); err != nil {
		return false, err
	}
	return sqlkit.ImportResult(&p, &r, namespace, made == 1)
}
