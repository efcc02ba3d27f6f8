package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// lockFirst locks runs in the order of their ids, before statements whose snapshots must
// see them unchanged. It always returns one row, the number of runs, so that its callback
// resets the state at each try of the transaction.
const lockFirst = `SELECT count(*), ` + keepLocked + ` FROM (SELECT r.id FROM pawl.runs r WHERE r.id=ANY($1::uuid[]) AND r.namespace=$2::text
	ORDER BY r.id FOR NO KEY UPDATE) l`

// A call concerns the runs of one moment, that of its locks: keepLocked remembers them in a setting of
// the transaction, and isLocked selects them. Each statement has a snapshot of its own. Without the
// condition, one statement would miss a run that was created meanwhile, and the next would see
// another run of the same create.
const (
	keepLocked = `set_config('pawl_tx.locked', coalesce(string_agg(l.id::text, ',') FILTER (WHERE l.id=ANY($1::uuid[])), ''), true)`
	isLocked   = `strpos(current_setting('pawl_tx.locked', true), id::text)>0`
)

func lockRuns(namespace string, ids []store.ID, begins func(found int64)) stmt {
	return stmt{sql: lockFirst, args: []any{uuids(ids), namespace}, rows: func(scan func(...any) error) error {
		var n int64
		var locked string
		err := scan(&n, &locked)
		begins(n)
		return err
	}}
}

const statuses = `SELECT t.n, (SELECT r.status FROM pawl.runs r WHERE r.id=t.id AND r.namespace=$2::text AND strpos(current_setting('pawl_tx.locked', true), t.id::text)>0)
	FROM unnest($1::uuid[]) WITH ORDINALITY t(id, n)`

// journal returns what records the actions of a call.
func (s *Store) journal(namespace string, now time.Time, record []store.Action) sqlkit.Journal {
	return sqlkit.Journal{DB: db{s}, Namespace: namespace, Now: setNow(now), Record: record}
}

// control runs the statements, then reads the status of each run.
func (s *Store) control(ctx context.Context, namespace string, ids []store.ID, h *sqlkit.Hints, stmts []stmt,
	refused func(store.Status) bool) ([]store.ControlResult, error) {
	results := make([]store.ControlResult, len(ids))
	if len(ids) == 0 {
		return results, nil
	}
	stmts = append(stmts, stmt{
		sql: statuses, args: []any{uuids(ids), namespace},
		rows: func(scan func(...any) error) error {
			var n int64
			var status *int16
			if err := scan(&n, &status); err != nil {
				return err
			}
			id, res := ids[n-1], &results[n-1]
			*res = store.ControlResult{}
			if status == nil {
				res.Err = sqlkit.NotFound("run %v", id)
				return nil
			}
			if res.Status = store.Status(*status); refused(res.Status) {
				res.Err = sqlkit.Finished(id, res.Status)
			}
			return nil
		},
	})
	if err := s.write(ctx, stmts...); err != nil {
		return nil, err
	}
	s.publishAll(h)
	return results, nil
}

// takeLease takes a run from its holder, or a canceling run from whoever would claim it,
// so that the same write can end it.
var takeLease = sqlkit.Text(`UPDATE pawl.runs SET status={pending}, leased=false, epoch=epoch+leased::int, seq=CASE WHEN leased THEN 0 ELSE seq END
	WHERE id=$1::uuid AND namespace=$2::text AND (leased OR status={canceling}) AND ` + isLocked + ` RETURNING id, CASE WHEN flow IS NOT NULL THEN queue END`)

// Cancel implements store.Runs.
func (s *Store) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	h, at := sqlkit.NewHints(p.Namespace), setNow(p.Now)
	why := failure(&store.Failure{Code: store.FailureCanceled, Message: p.Reason})
	ended := make([][]store.RunCount, len(p.IDs))
	stmts := []stmt{begin(func() {
		h.Reset()
		clear(ended)
	}), {sql: lockFamily, args: []any{uuids(p.IDs)}}}
	stmts = append(stmts, own(s.journal(p.Namespace, p.Now, p.Record).Cancels(&p))...)
	for i, id := range p.IDs {
		stamp := sqlkit.NewStamp()
		if p.Force {
			stmts = append(stmts, stmt{sql: takeLease, args: []any{uuid(id), p.Namespace}, rows: func(scan func(...any) error) error {
				var id store.ID
				var queue *string // of a run under limits
				err := scan(sqlkit.ID(&id), &queue)
				h.Event(id, true) // tells the holder that it has lost the lease
				if queue != nil {
					h.Queue(*queue)
				}
				return err
			}})
		}
		stmts = append(stmts,
			stmt{sql: cancelTree, args: []any{at, uuid(id), p.Namespace, why, sqlkit.CanceledWithParent, stamp, p.Force}, rows: h.TreeRows(&ended[i])},
			stmt{sql: wakeParents, args: []any{at, uuid(id), stamp}, rows: h.ParentRows})
	}
	results, err := s.control(ctx, p.Namespace, p.IDs, h, stmts,
		func(s store.Status) bool { return s == store.Completed || s == store.Failed })
	for i := range results {
		results[i].Ended = ended[i]
	}
	return results, err
}

var (
	// A canceling run has to end; it does not become paused.
	pauseRuns = sqlkit.Text(`UPDATE pawl.runs SET paused_from=CASE status WHEN {running} THEN paused_from ELSE status END,
		status=CASE status WHEN {running} THEN {running} ELSE {paused} END, pausing=(status={running})
		WHERE id=ANY($1::uuid[]) AND namespace=$2::text AND status IN ({pending},{running},{sleeping}) AND ` + isLocked + ` RETURNING id, status={running}`)
	resumeRuns = sqlkit.Text(`UPDATE pawl.runs SET status=CASE status WHEN {paused} THEN paused_from ELSE status END, pausing=false
		WHERE id=ANY($1::uuid[]) AND namespace=$2::text AND (status={paused} OR pausing) AND ` + isLocked + ` RETURNING queue`)
)

// Pause implements store.Runs.
func (s *Store) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	h := sqlkit.NewHints(p.Namespace)
	stmts := []stmt{lockRuns(p.Namespace, p.IDs, func(int64) { h.Reset() })}
	stmts = append(stmts, own(s.journal(p.Namespace, p.Now, p.Record).Pauses(&p))...)
	args := []any{uuids(p.IDs), p.Namespace}
	if p.Resume {
		stmts = append(stmts, stmt{sql: resumeRuns, args: args, rows: func(scan func(...any) error) error {
			var queue string
			err := scan(&queue)
			h.Queue(queue)
			return err
		}})
	} else {
		stmts = append(stmts, stmt{sql: pauseRuns, args: args, rows: func(scan func(...any) error) error {
			var id store.ID
			var leased bool
			err := scan(sqlkit.ID(&id), &leased)
			if leased { // not an event, but the holder has to know
				h.Event(id, true)
			}
			return err
		}})
	}
	return s.control(ctx, p.Namespace, p.IDs, h, stmts, store.Status.Final)
}

var unpinRuns = sqlkit.Text(`UPDATE pawl.runs SET pin='', pinned=NULL
	WHERE id=ANY($1::uuid[]) AND namespace=$2::text AND pin<>'' AND status<{final} AND ` + isLocked + ` RETURNING id, queue`)

// Unpin implements store.Runs.
func (s *Store) Unpin(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	h := sqlkit.NewHints(p.Namespace)
	unpinned := map[store.ID]bool{}
	stmts := []stmt{lockRuns(p.Namespace, p.IDs, func(int64) {
		h.Reset()
		clear(unpinned)
	})}
	stmts = append(stmts, own(s.journal(p.Namespace, p.Now, p.Record).Unpins(&p))...)
	stmts = append(stmts, stmt{sql: unpinRuns, args: []any{uuids(p.IDs), p.Namespace}, rows: func(scan func(...any) error) error {
		var id store.ID
		var queue string
		err := scan(sqlkit.ID(&id), &queue)
		unpinned[id] = true
		h.Queue(queue)
		return err
	}})
	results, err := s.control(ctx, p.Namespace, p.IDs, h, stmts, store.Status.Final)
	for i := range results {
		if r := &results[i]; r.Err == nil && !unpinned[p.IDs[i]] {
			r.Err = store.NotPinned(p.IDs[i], r.Status)
		}
		delete(unpinned, p.IDs[i]) // one that is in the call twice is unpinned once
	}
	return results, err
}

var (
	// A restarted child leaves its group, which has already counted it. Parameters: $1
	// now, $2 run, $3 namespace, $4 stamp.
	restartRun = sqlkit.Text(`UPDATE pawl.runs r SET status={pending}, attempt=1, epoch=epoch+1, seq=0, worker=NULL, parts=parts & ~{partEnded}::smallint, leased=false, stamp=$4::bigint, crashes=0,
		wakes=0, visible_at=` + now + `, due_at=NULL, deadline=NULL, output=NULL, failure=NULL, finished_at=NULL, grp=NULL, ordinal=0, pin='', pinned=NULL,
		taken=false, step_under=NULL, flow=` + flowOf(`r.`, `r.under`, `NULL`, `false`) + `
		WHERE r.id=$2::uuid AND r.namespace=$3::text AND r.status IN ({failed},{canceled}) AND NOT EXISTS (SELECT 1 FROM pawl.runs o
			WHERE o.namespace=r.namespace AND o.external_id=r.external_id AND o.suffix=r.suffix AND o.external_id IS NOT NULL AND (o.status<{final} OR o.reuse={reuseNever}) AND o.id<>r.id) AND ` + isLocked)
	restartFate = `SELECT stamp=$3::bigint, status, queue, external_id FROM pawl.runs WHERE id=$1::uuid AND namespace=$2::text AND ` + isLocked
)

// Restart implements store.Runs.
func (s *Store) Restart(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	results := make([]store.ControlResult, len(p.IDs))
	if len(p.IDs) == 0 {
		return results, nil
	}
	h := sqlkit.NewHints(p.Namespace)
	stmts := []stmt{lockRuns(p.Namespace, p.IDs, func(int64) {
		h.Reset()
		for i, id := range p.IDs {
			results[i] = store.ControlResult{Err: sqlkit.NotFound("run %v", id)}
		}
	})}
	stamps := make([]int64, len(p.IDs))
	for i, id := range p.IDs {
		stamps[i] = sqlkit.NewStamp()
		stmts = append(stmts, restart(&p, id, stamps[i], &results[i], h)...)
	}
	stmts = append(stmts, own(s.journal(p.Namespace, p.Now, p.Record).Stamped(p.IDs, stamps...))...)
	for try := 1; ; try++ {
		err := s.write(ctx, stmts...)
		var pg *pgconn.PgError
		switch {
		case err == nil:
			s.publishAll(h)
			return results, nil
		case try == attempts || !errors.As(err, &pg) || pg.Code != "23505":
			return nil, err
		case s.in != nil: // the program's transaction has failed and cannot read any more
			return nil, fmt.Errorf("%w: %w", sqlkit.Exists("runs cannot be restarted: another run has taken one of their external ids"), err)
		}
		// Another run got an external id meanwhile. The next try sees that run and refuses the item.
	}
}

// restart restarts one run, or finds out why it cannot be restarted.
func restart(p *store.RestartParams, id store.ID, stamp int64, res *store.ControlResult, h *sqlkit.Hints) []stmt {
	run := uuid(id)
	return []stmt{
		{sql: restartRun, args: []any{setNow(p.Now), run, p.Namespace, stamp}},
		{sql: forgetFailed, args: []any{run, stamp}},
		{sql: restartFate, args: []any{run, p.Namespace, stamp}, rows: func(scan func(...any) error) error {
			var done bool
			var status int16
			var queue, external string
			if err := scan(&done, &status, &queue, sqlkit.TextOrNull(&external)); err != nil {
				return err
			}
			*res = store.ControlResult{Status: store.Status(status)}
			if !done {
				res.Err = sqlkit.RestartRefused(id, res.Status, external)
				return nil
			}
			h.Queue(queue)
			return nil
		}},
	}
}

var (
	// If a step is named, it must exist: its position is the limit. Parameters: $1 now, $2 new run, $3
	// old run, $4 namespace, $5 stamp, $6 whether all steps are kept, $7 to $9 the key of the step
	// before which the fork begins.
	forkRun = sqlkit.Text(`INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, visible_at, stamp, parts, created_at, forked_from, build, input, meta, under, tags, flow)
		SELECT $2::uuid, r.namespace, r.workflow, r.queue, {pending}, r.priority, ` + now + `, $5::bigint, r.parts & {partSteps}, ` + now + `, r.id, ` + sqlkit.RunBuild + `, r.input, r.meta,
			r.under, r.tags, ` + flowOf(`r.`, `r.under`, `NULL`, `false`) + `
		FROM pawl.runs r WHERE r.id=$3::uuid AND r.namespace=$4::text AND ($6::bool OR EXISTS (SELECT 1 FROM pawl.steps s
			WHERE s.run_id=r.id AND s.branch=$7::text AND s.name=$8::text AND s.occurrence=$9::bigint))
		ON CONFLICT DO NOTHING`)
	forkSteps = sqlkit.Text(`INSERT INTO pawl.steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure,
			started_at, finished_at, due_at)
		SELECT $1::uuid, s.branch, s.name, s.occurrence, s.kind, s.status, s.position, s.idx, s.attempt, s.epoch, s.output, s.failure,
			s.started_at, s.finished_at, s.due_at
		FROM pawl.steps s WHERE s.run_id=$2::uuid AND s.status={stepCompleted}
		AND ($4::bool OR s.position<(SELECT b.position FROM pawl.steps b
			WHERE b.run_id=$2::uuid AND b.branch=$5::text AND b.name=$6::text AND b.occurrence=$7::bigint))
		AND (SELECT n.stamp FROM pawl.runs n WHERE n.id=$1::uuid)=$3::bigint`)
)

const forkedRun = `SELECT namespace, queue FROM pawl.runs WHERE id=$1::uuid`

// Fork implements store.Runs.
func (s *Store) Fork(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
	none := store.CreateResult{}
	if err := p.Validate(); err != nil {
		return none, err
	}
	var key store.StepKey
	if p.Before != nil {
		key = *p.Before
	}
	var made int64
	var queue, namespace string
	made1, old, all, stamp := uuid(p.New), uuid(p.ID), p.Before == nil, sqlkit.NewStamp()
	step := []any{all, key.Branch, key.Name, int64(key.Occurrence)}
	stmts := []stmt{
		lockRuns(p.Namespace, []store.ID{p.ID}, func(int64) { queue, namespace = "", "" }),
		{sql: forkRun, args: append([]any{setNow(p.Now), made1, old, p.Namespace, stamp}, step...), affected: &made},
		{sql: forkSteps, args: append([]any{made1, old, stamp}, step...)},
		{sql: forkedRun, args: []any{made1}, rows: sqlkit.One(&namespace, &queue)},
	}
	err := s.write(ctx, append(stmts, own(s.journal(p.Namespace, p.Now, p.Record).Stamped([]store.ID{p.New}, stamp))...)...)
	if err != nil {
		return none, err
	}
	res, err := sqlkit.ForkResult(&p, namespace, made == 1)
	if err == nil && made == 1 {
		h := sqlkit.NewHints(p.Namespace)
		h.Queue(queue)
		s.publishAll(h)
	}
	return res, err
}

// Runs that are locked by another write are left to the next purge, and so are runs whose parent is. A run that was
// restarted after the statement's snapshot fails the conditions when it is locked: it is active, or has ended after
// the time from which the age is counted; a parent that was restarted is not final when it is locked. A subquery of one
// row reads the state of the parent, so that the plan uses the indexes.
var (
	purge = sqlkit.Text(purgeWith + `
	DELETE FROM pawl.runs WHERE id=ANY(ARRAY(SELECT id FROM v))`)
	// $7 actions.
	purgeRecorded = sqlkit.Text(purgeWith + `,
	did AS (DELETE FROM pawl.runs WHERE id=ANY(ARRAY(SELECT id FROM v)) RETURNING 1),
	rec AS (` + sqlkit.ActionInsert{Namespace: `$2::text`, Now: now, Actions: `$7::text`, Outcome: sqlkit.DoneIf(`EXISTS (SELECT 1 FROM did)`), Rest: `WHERE true`}.Text(sqlkit.PostgreSQL) + `)
	SELECT count(*) FROM did`)
)

var purgeWith = `WITH old AS MATERIALIZED (
		SELECT r.id, r.parent FROM pawl.runs r WHERE r.namespace=$2::text AND r.finished_at IS NOT NULL AND r.finished_at<=` + now + `-$3::bigint
			AND ($4::text='' OR r.workflow=$4::text) AND r.status=ANY($5::bigint[])
			AND coalesce((SELECT p.status FROM pawl.runs p WHERE p.id=r.parent), {canceled})>={final}
			AND ` + sqlkit.NotCounted("r") + `
		ORDER BY r.finished_at, r.id LIMIT $6::bigint FOR UPDATE OF r SKIP LOCKED),
	parents AS MATERIALIZED (SELECT p.id FROM pawl.runs p WHERE p.id=ANY(ARRAY(SELECT parent FROM old WHERE parent IS NOT NULL)) AND p.status>={final} FOR SHARE OF p SKIP LOCKED),
	v AS MATERIALIZED (SELECT o.id FROM old o WHERE o.parent IS NULL OR o.parent IN (SELECT id FROM parents) OR NOT EXISTS (SELECT 1 FROM pawl.runs p WHERE p.id=o.parent)),
	d1 AS (DELETE FROM pawl.steps WHERE run_id=ANY(ARRAY(SELECT id FROM v))),
	d2 AS (DELETE FROM pawl.state WHERE run_id=ANY(ARRAY(SELECT id FROM v))),
	d3 AS (DELETE FROM pawl.groups WHERE run_id=ANY(ARRAY(SELECT id FROM v))),
	d4 AS (DELETE FROM pawl.signals WHERE run_id=ANY(ARRAY(SELECT id FROM v))),
	d5 AS (DELETE FROM pawl.debounces WHERE run_id=ANY(ARRAY(SELECT id FROM v))),
	d6 AS (DELETE FROM pawl.debounced_starts WHERE run_id=ANY(ARRAY(SELECT id FROM v))),
	d7 AS (DELETE FROM pawl.stream_items WHERE run_id=ANY(ARRAY(SELECT id FROM v)))`

// Purge implements store.Runs.
func (s *Store) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	sqlkit.PurgeDefaults(&p)
	var list []int64
	for _, status := range p.Statuses {
		list = append(list, int64(status))
	}
	var n int64
	st := stmt{
		sql:      purge,
		args:     []any{setNow(p.Now), p.Namespace, sqlkit.Span(p.OlderThan), p.Workflow, list, int64(p.Limit)},
		affected: &n,
	}
	if len(p.Record) > 0 {
		st = stmt{sql: purgeRecorded, args: append(st.args, sqlkit.ActionsText(p.Record, "", nil, nil)), rows: sqlkit.One(&n)}
	}
	if err := s.write(ctx, st); err != nil {
		return 0, err
	}
	return int(n), nil
}
