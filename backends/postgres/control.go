package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/store"
)

// lockFirst locks runs in the order of their ids, before statements whose
// snapshots are to see them as they stay. It always gives one row, the number of
// runs, so that its callback begins each try of the transaction afresh.
const lockFirst = `SELECT count(*) FROM (SELECT r.id FROM pawl.runs r WHERE r.id=ANY($1::uuid[]) AND r.namespace=$2::text
	ORDER BY r.id FOR NO KEY UPDATE) l`

func lockRuns(namespace string, ids []store.ID, begins func(found int64)) stmt {
	return stmt{sql: lockFirst, args: []any{uuids(ids), namespace}, rows: func(scan func(...any) error) error {
		var n int64
		err := scan(&n)
		begins(n)
		return err
	}}
}

const statuses = `SELECT t.n, (SELECT r.status FROM pawl.runs r WHERE r.id=t.id AND r.namespace=$2::text)
	FROM unnest($1::uuid[]) WITH ORDINALITY t(id, n)`

// control runs the statements, then reads the status of each run.
func (s *Store) control(ctx context.Context, namespace string, ids []store.ID, h *hints, stmts []stmt,
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
				res.Err = notFound("run %v", id)
				return nil
			}
			if res.Status = store.Status(*status); refused(res.Status) {
				res.Err = finished(id, res.Status)
			}
			return nil
		},
	})
	if err := s.write(ctx, stmts...); err != nil {
		return nil, err
	}
	h.send(ctx, s)
	return results, nil
}

// takeLease takes a run from its holder, or one that is canceling from whoever would
// claim it, so that the same write can end it.
const takeLease = `UPDATE pawl.runs SET status=1, leased=false, epoch=epoch+leased::int, seq=CASE WHEN leased THEN 0 ELSE seq END
	WHERE id=$1::uuid AND namespace=$2::text AND (leased OR status=5) RETURNING id`

// Cancel implements store.Runs.
func (s *Store) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	h, at := newHints(p.Namespace), setNow(p.Now)
	why := failure(&store.Failure{Code: store.FailureCanceled, Message: p.Reason})
	ended := make([][]store.RunCount, len(p.IDs))
	stmts := []stmt{begin(func() {
		*h = *newHints(p.Namespace)
		clear(ended)
	}), {sql: lockFamily, args: []any{uuids(p.IDs)}}}
	for i, id := range p.IDs {
		stamp := newStamp()
		if p.Force {
			stmts = append(stmts, stmt{sql: takeLease, args: []any{uuid(id), p.Namespace}, rows: func(scan func(...any) error) error {
				var id store.ID
				err := scan(scanID(&id))
				h.event(id) // its holder is to learn that it is none
				return err
			}})
		}
		stmts = append(stmts,
			stmt{sql: cancelTree, args: []any{at, uuid(id), p.Namespace, why, canceledWithParent, stamp, p.Force}, rows: treeRows(h, &ended[i])},
			stmt{sql: wakeParents, args: []any{at, uuid(id), stamp}, rows: wakeRows(h)})
	}
	results, err := s.control(ctx, p.Namespace, p.IDs, h, stmts,
		func(s store.Status) bool { return s == store.Completed || s == store.Failed })
	again := false // made between the statements of the transaction
	for i := range results {
		r := &results[i]
		r.Ended = ended[i]
		again = again || r.Err == nil && (r.Status < store.Canceling || p.Force && r.Status == store.Canceling)
	}
	if !again {
		return results, err
	}
	later, err := s.Cancel(ctx, p)
	for i := range later {
		for _, n := range ended[i] {
			later[i].Ended = store.Tally(later[i].Ended, n.Queue, n.Workflow, n.Status, n.Count)
		}
	}
	return later, err
}

const (
	// A canceling run is to end, not to wait.
	pauseRuns = `UPDATE pawl.runs SET paused_from=CASE status WHEN 2 THEN paused_from ELSE status END,
		status=CASE status WHEN 2 THEN 2 ELSE 4 END, pausing=(status=2)
		WHERE id=ANY($1::uuid[]) AND namespace=$2::text AND status IN (1,2,3) RETURNING id, status=2`
	resumeRuns = `UPDATE pawl.runs SET status=CASE status WHEN 4 THEN paused_from ELSE status END, pausing=false
		WHERE id=ANY($1::uuid[]) AND namespace=$2::text AND (status=4 OR pausing) RETURNING queue`
)

// Pause implements store.Runs.
func (s *Store) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	h := newHints(p.Namespace)
	stmts := []stmt{lockRuns(p.Namespace, p.IDs, func(int64) { *h = *newHints(p.Namespace) })}
	args := []any{uuids(p.IDs), p.Namespace}
	if p.Resume {
		stmts = append(stmts, stmt{sql: resumeRuns, args: args, rows: func(scan func(...any) error) error {
			var queue string
			err := scan(&queue)
			h.queue(queue)
			return err
		}})
	} else {
		stmts = append(stmts, stmt{sql: pauseRuns, args: args, rows: func(scan func(...any) error) error {
			var id store.ID
			var leased bool
			err := scan(scanID(&id), &leased)
			if leased { // not an event, but its holder wants to know
				h.event(id)
			}
			return err
		}})
	}
	results, err := s.control(ctx, p.Namespace, p.IDs, h, stmts, store.Status.Final)
	for _, r := range results {
		if !p.Resume && r.Err == nil && (r.Status == store.Pending || r.Status == store.Sleeping) {
			return s.Pause(ctx, p) // made between the statements of the transaction
		}
	}
	return results, err
}

const (
	// A restarted child leaves its group, which has counted it.
	restartRun = `UPDATE pawl.runs r SET status=1, attempt=1, epoch=epoch+1, seq=0, worker=NULL, parts=parts & ~64::smallint, leased=false, stamp=$4::bigint, crashes=0,
		wakes=0, visible_at=` + now + `, due_at=NULL, deadline=NULL, output=NULL, failure=NULL, finished_at=NULL, grp=NULL, ordinal=0
		WHERE r.id=$2::uuid AND r.namespace=$3::text AND r.status IN (7,8) AND NOT EXISTS (SELECT 1 FROM pawl.runs o
			WHERE o.namespace=r.namespace AND o.external_id=r.external_id AND o.suffix=r.suffix AND o.external_id IS NOT NULL AND (o.status<6 OR o.reuse=1) AND o.id<>r.id)`
	restartFate = `SELECT stamp=$3::bigint, status, queue, external_id FROM pawl.runs WHERE id=$1::uuid AND namespace=$2::text`
)

// Restart implements store.Runs.
func (s *Store) Restart(ctx context.Context, p store.RestartParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	stamp, id := newStamp(), uuid(p.ID)
	var done bool
	var status int16 // 0: there is no such run
	var queue, external string
	fate := stmt{
		sql: restartFate, args: []any{id, p.Namespace, stamp},
		rows: one(&done, &status, &queue, scanText(&external)),
	}
	reset := func(int64) { done, status = false, 0 }
	err := s.write(ctx,
		lockRuns(p.Namespace, []store.ID{p.ID}, reset),
		stmt{sql: restartRun, args: []any{setNow(p.Now), id, p.Namespace, stamp}},
		stmt{sql: forgetFailed, args: []any{id, stamp}},
		fate)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "23505" { // another run got the external id meanwhile
		reset(0)
		err = s.read(ctx, fate)
	}
	switch {
	case err != nil:
		return err
	case done:
		h := newHints(p.Namespace)
		h.queue(queue)
		h.send(ctx, s)
		return nil
	case status == 0:
		return notFound("run %v", p.ID)
	case store.Status(status) == store.Failed || store.Status(status) == store.Canceled:
		return exists("run %v cannot restart: another run holds its external id %q", p.ID, external)
	}
	return conflict("run %v is %v; only a failed or canceled run restarts", p.ID, store.Status(status))
}

const (
	// The step, where one is named, must exist: its position is the limit.
	forkRun = `INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, visible_at, stamp, parts, created_at, forked_from, input, meta)
		SELECT $2::uuid, r.namespace, r.workflow, r.queue, 1, r.priority, ` + now + `, $5::bigint, r.parts & 1, ` + now + `, r.id, r.input, r.meta
		FROM pawl.runs r WHERE r.id=$3::uuid AND r.namespace=$4::text AND ($6::bool OR EXISTS (SELECT 1 FROM pawl.steps s
			WHERE s.run_id=r.id AND s.branch=$7::text AND s.name=$8::text AND s.occurrence=$9::bigint))
		ON CONFLICT DO NOTHING`
	forkSteps = `INSERT INTO pawl.steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure,
			started_at, finished_at, due_at)
		SELECT $1::uuid, s.branch, s.name, s.occurrence, s.kind, s.status, s.position, s.idx, s.attempt, s.epoch, s.output, s.failure,
			s.started_at, s.finished_at, s.due_at
		FROM pawl.steps s WHERE s.run_id=$2::uuid AND s.status=3
		AND ($4::bool OR s.position<(SELECT b.position FROM pawl.steps b
			WHERE b.run_id=$2::uuid AND b.branch=$5::text AND b.name=$6::text AND b.occurrence=$7::bigint))
		AND (SELECT n.stamp FROM pawl.runs n WHERE n.id=$1::uuid)=$3::bigint`
)

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
	made1, old, all, stamp := uuid(p.New), uuid(p.ID), p.Before == nil, newStamp()
	step := []any{all, key.Branch, key.Name, int64(key.Occurrence)}
	err := s.write(ctx,
		lockRuns(p.Namespace, []store.ID{p.ID}, func(int64) { queue, namespace = "", "" }),
		stmt{sql: forkRun, args: append([]any{setNow(p.Now), made1, old, p.Namespace, stamp}, step...), affected: &made},
		stmt{sql: forkSteps, args: append([]any{made1, old, stamp}, step...)},
		stmt{sql: `SELECT namespace, queue FROM pawl.runs WHERE id=$1::uuid`, args: []any{made1}, rows: one(&namespace, &queue)})
	switch {
	case err != nil:
		return none, err
	case namespace == "" && p.Before != nil:
		return none, notFound("run %v or its step %v", p.ID, *p.Before)
	case namespace == "":
		return none, notFound("run %v", p.ID)
	case namespace != p.Namespace:
		return none, exists("run %v exists in another namespace; ids are made with NewID", p.New)
	}
	if made == 1 {
		h := newHints(p.Namespace)
		h.queue(queue)
		h.send(ctx, s)
	}
	return store.CreateResult{ID: p.New, Created: true, Repeated: made == 0}, nil
}

// What another write holds is left to the next purge. A run that was restarted
// after the statement's snapshot fails the conditions when it is locked: it is
// active, or has ended after the time from which the age is counted. The state of the parent is
// asked for by a subquery of one row, so that the plan stays with the indexes.
const purge = `WITH v AS MATERIALIZED (
		SELECT r.id FROM pawl.runs r WHERE r.namespace=$2::text AND r.finished_at IS NOT NULL AND r.finished_at<=` + now + `-$3::bigint
			AND ($4::text='' OR r.workflow=$4::text) AND r.status=ANY($5::bigint[])
			AND coalesce((SELECT p.status FROM pawl.runs p WHERE p.id=r.parent), 8)>=6
		ORDER BY r.finished_at, r.id LIMIT $6::bigint FOR UPDATE OF r SKIP LOCKED),
	d1 AS (DELETE FROM pawl.steps WHERE run_id=ANY(ARRAY(SELECT id FROM v))),
	d2 AS (DELETE FROM pawl.state WHERE run_id=ANY(ARRAY(SELECT id FROM v))),
	d3 AS (DELETE FROM pawl.groups WHERE run_id=ANY(ARRAY(SELECT id FROM v))),
	d4 AS (DELETE FROM pawl.signals WHERE run_id=ANY(ARRAY(SELECT id FROM v)))
	DELETE FROM pawl.runs WHERE id=ANY(ARRAY(SELECT id FROM v))`

// Purge implements store.Runs.
func (s *Store) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	if p.Limit == 0 {
		p.Limit = 1000
	}
	if len(p.Statuses) == 0 {
		p.Statuses = []store.Status{store.Completed, store.Failed, store.Canceled}
	}
	var list []int64
	for _, status := range p.Statuses {
		list = append(list, int64(status))
	}
	var n int64
	err := s.write(ctx, stmt{
		sql:      purge,
		args:     []any{setNow(p.Now), p.Namespace, span(p.OlderThan), p.Workflow, list, int64(p.Limit)},
		affected: &n,
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}
