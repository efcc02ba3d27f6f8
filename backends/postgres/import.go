package postgres

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

var (
	importRun = sqlkit.Text(`INSERT INTO pawl.runs (id, namespace, workflow, queue, status, paused_from, priority, visible_at, stamp, parts, epoch, attempt, crashes,
			generation, events, external_id, suffix, parent, grp, ordinal, on_close, created_at, started_at, finished_at, deadline, forked_from,
			input, meta, output, failure, reuse, digest, worker, build, pin, pinned, under, tags, flow)
		VALUES ($2::uuid, $3::text, $4::text, $5::text, $6::smallint, CASE WHEN $6::smallint={paused} THEN {pending} ELSE 0 END, $7::smallint,
			CASE WHEN $6::smallint={paused} THEN greatest(` + now + `, $32::bigint) END, $8::bigint, $9::smallint, $10::bigint, $11::bigint, $12::bigint,
			$13::bigint, $14::bigint, $15::text, $16::text, $17::uuid, $18::text, $19::bigint, $20::smallint, $21::bigint, $22::bigint, $23::bigint,
			$24::bigint, $25::uuid, $26::bytea, $27::bytea, $28::bytea, $29::text, $30::smallint, $31::bytea, $33::text, $34::text, $35::text, $36::text, $37::text, $38::text, ` + hashOf(`$3::text, $5::text, $4::text, $7::smallint`, `$37::text`, `NULL`, `false`) + `) ON CONFLICT DO NOTHING`)
	// ours is true for rows that belong to a run that this import has created.
	ours       = ` WHERE (SELECT n.stamp FROM pawl.runs n WHERE n.id=$1::uuid)=$2::bigint`
	importStep = `INSERT INTO pawl.steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at)
		SELECT $1::uuid, $3::text, $4::text, $5::bigint, $6::smallint, $7::smallint, $8::bigint, $9::bigint, $10::bigint, $11::bigint, $12::bytea, $13::text,
			$14::bigint, $15::bigint, $16::bigint` + ours
	importState  = `INSERT INTO pawl.state (run_id, key, value, version, updated_at) SELECT $1::uuid, $3::text, $4::bytea, $5::bigint, $6::bigint` + ours
	importSignal = `INSERT INTO pawl.signals (run_id, id, name, payload, sent_at, consumed, answered_at, answer, failure)
		SELECT $1::uuid, $3::uuid, $4::text, $5::bytea, $6::bigint, $7::boolean, $8::bigint, $9::bytea, $10::text` + ours
	importGroup = `INSERT INTO pawl.groups (run_id, name, total, open, completed, failed, canceled)
		SELECT $1::uuid, $3::text, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint` + ours
)

// importMet returns the namespace of the run with the ID, or NULL, and whether a run holds the external id.
var importMet = sqlkit.Text(`SELECT (SELECT namespace FROM pawl.runs WHERE id=$1::uuid), EXISTS (SELECT 1 FROM pawl.runs WHERE namespace=$2::text
	AND external_id=$3::text AND suffix=$4::text AND external_id IS NOT NULL AND (status<{final} OR reuse={reuseNever}))`)

// Import implements store.Importer.
func (s *Store) Import(ctx context.Context, p store.ImportParams) (bool, error) {
	if err := p.Validate(s.config.limits); err != nil {
		return false, err
	}
	r, stamp := p.Imported(), sqlkit.NewStamp()
	// A run that is resumed or restarted must have its lane.
	if err := s.ensureLanes(ctx, p.Namespace, []lane{{r.Queue, r.Workflow, int16(r.Priority)}}); err != nil {
		return false, err
	}
	if err := s.ensureSpace(ctx, p.Namespace, len(r.Under) > 0); err != nil {
		return false, err
	}
	var made int64
	id := uuid(r.ID)
	parts := int16(sqlkit.PartSteps | sqlkit.PartState | sqlkit.PartSignals | sqlkit.PartGroups | sqlkit.PartChildren)
	if r.Worker != "" {
		parts |= sqlkit.PartEnded
	}
	stmts := []stmt{{
		sql: importRun, affected: &made,
		args: []any{setNow(p.Now), id, r.Namespace, r.Workflow, r.Queue, int16(r.Status), int16(r.Priority), stamp, parts, r.Epoch, int64(r.Attempt), int64(r.Crashes),
			int64(r.Generation), r.Events, text(r.ExternalID), r.Suffix, uuid(r.Parent), text(r.Group), r.Ordinal, int16(r.OnClose),
			micros(r.CreatedAt), micros(r.StartedAt), micros(r.FinishedAt), micros(r.Deadline), uuid(r.ForkedFrom),
			r.Input, r.Meta, r.Output, failure(r.Failure), int16(r.Reuse), digest(r.Digest), micros(r.VisibleAt), text(r.Worker), text(r.Build), r.PinnedTo(), text(sqlkit.PinText(r.Pin)), text(sqlkit.UsesText(r.Under)), text(sqlkit.TagsText(r.Tags))},
	}}
	add := func(sql string, args ...any) {
		stmts = append(stmts, stmt{sql: sql, args: append([]any{id, stamp}, args...)})
	}
	for i := range p.Record.Steps {
		st := &p.Record.Steps[i]
		add(importStep, st.Branch, st.Name, int64(st.Occurrence), int16(st.Kind), int16(st.Status), st.Position, int64(st.Index), int64(st.Attempt), st.Epoch,
			st.Output, text(sqlkit.StepFailureText(st.Failure, st.Earlier)), micros(st.StartedAt), micros(st.FinishedAt), micros(st.DueAt))
	}
	for _, e := range p.Record.State {
		add(importState, e.Key, e.Value, e.Version, e.UpdatedAt.UnixMicro())
	}
	answers := p.Record.Answered()
	for _, consumed := range p.Record.Consumed {
		var at *int64
		var output []byte
		var failed *string
		if a := answers[consumed]; a != nil {
			at, output, failed = micros(a.At), a.Output, failure(a.Failure)
		}
		add(importSignal, uuid(consumed), "", nil, int64(0), true, at, output, failed)
	}
	for _, sig := range p.Record.Signals {
		add(importSignal, uuid(sig.ID), sig.Name, sig.Payload, sig.SentAt.UnixMicro(), false, nil, nil, nil)
	}
	for _, g := range p.Record.Groups {
		add(importGroup, g.Name, g.Total, g.Open, g.Completed, g.Failed, g.Canceled)
	}
	total := int64(0)
	for i := range p.Record.Streams {
		it := &p.Record.Streams[i]
		total += int64(len(it.Payload))
		add(importItems, it.Position, it.Stream, it.Step.Branch, it.Step.Name, int64(it.Step.Occurrence), int64(it.Generation), it.Epoch, int64(it.Attempt), it.Number, it.Reset, it.At.UnixMicro(),
			int64(i+1), total, it.Payload)
	}
	namespace, held := "", false
	stmts = append(stmts, stmt{
		sql: importMet, args: []any{id, p.Namespace, text(r.ExternalID), r.Suffix}, rows: sqlkit.One(sqlkit.TextOrNull(&namespace), &held),
	})
	for {
		if err := s.write(ctx, stmts...); err != nil {
			return false, err
		}
		// What the run met may have been purged, or may have ended, before the last statement.
		if made == 1 || namespace != "" || held {
			return sqlkit.ImportResult(&p, &r, namespace, made == 1)
		}
	}
}
