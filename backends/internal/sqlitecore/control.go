package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

// control runs what statements make of each run, then reads its status.
func (c *Core) control(ctx context.Context, namespace string, ids []store.ID, h *hints,
	statements func(id []byte, res *store.ControlResult) []Stmt, refused func(store.Status) bool) ([]store.ControlResult, error) {
	results := make([]store.ControlResult, len(ids))
	var stmts []Stmt
	for i := range ids {
		id, res := ids[i], &results[i]
		res.Err = notFound("run %v", id)
		stmts = append(append(stmts, statements(id[:], res)...), Stmt{
			SQL: `SELECT status FROM runs WHERE id=? AND namespace=?`, Args: []any{id[:], namespace},
			Rows: func(scan func(...any) error) error {
				err := scan(&res.Status)
				if res.Err = nil; refused(res.Status) {
					res.Err = finished(id, res.Status)
				}
				return err
			},
		})
	}
	if len(stmts) == 0 {
		return results, nil
	}
	if err := c.runner.Write(ctx, stmts); err != nil {
		return nil, err
	}
	h.send(c)
	return results, nil
}

// takeLease takes a run from its holder, or one that is canceling from whoever would
// claim it, so that the same write can end it.
const takeLease = `UPDATE runs SET status=1, leased=0, epoch=epoch+leased, seq=iif(leased, 0, seq)
	WHERE id=? AND namespace=? AND (leased=1 OR status=5) RETURNING 1`

// Cancel implements store.Runs.
func (c *Core) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return nil, err
	}
	h := newHints(p.Namespace)
	why := failure(&store.Failure{Code: store.FailureCanceled, Message: p.Reason})
	return c.control(ctx, p.Namespace, p.IDs, h, func(id []byte, res *store.ControlResult) []Stmt {
		stamp, touched := newStamp(), new(bool)
		none := func() bool { return !*touched }
		var forced any
		if p.Force {
			forced = id
		}
		list := []Stmt{
			{SQL: cancelTree, Args: []any{id, p.Namespace, why, canceledWithParent, now, stamp, forced}, Rows: treeRows(h, touched, &res.Ended)},
			{SQL: countTree, Args: []any{id, stamp, stamp, []byte{}}, Unneeded: none},
			wakeParent(id, stamp, now, none, h),
		}
		if p.Force {
			list = append([]Stmt{{SQL: takeLease, Args: []any{id, p.Namespace}, Rows: func(scan func(...any) error) error {
				var one int64
				h.event(store.ID(id)) // its holder is to learn that it is none
				return scan(&one)
			}}}, list...)
		}
		return list
	}, func(s store.Status) bool { return s == store.Completed || s == store.Failed })
}

const (
	// A canceling run is to end, not to wait.
	pauseRun = `UPDATE runs SET paused_from=iif(status=2, paused_from, status), status=iif(status=2, 2, 4), pausing=status=2
		WHERE id=? AND namespace=? AND status IN (1,2,3) RETURNING status=2`
	resumeRun = `UPDATE runs SET status=CASE status WHEN 4 THEN paused_from ELSE status END, pausing=0
		WHERE id=? AND namespace=? AND (status=4 OR pausing=1) RETURNING queue`
)

// Pause implements store.Runs.
func (c *Core) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if _, err := c.now(ctx, p.Now); err != nil {
		return nil, err
	}
	h := newHints(p.Namespace)
	return c.control(ctx, p.Namespace, p.IDs, h, func(id []byte, _ *store.ControlResult) []Stmt {
		if !p.Resume {
			return []Stmt{{SQL: pauseRun, Args: []any{id, p.Namespace}, Rows: func(scan func(...any) error) error {
				var leased bool
				err := scan(&leased)
				if leased { // not an event, but its holder wants to know
					h.event(store.ID(id))
				}
				return err
			}}}
		}
		return []Stmt{{SQL: resumeRun, Args: []any{id, p.Namespace}, Rows: func(scan func(...any) error) error {
			var queue string
			err := scan(&queue)
			h.queue(queue)
			return err
		}}}
	}, store.Status.Final)
}

const (
	// A restarted child leaves its group, which has counted it.
	restartRun = `UPDATE runs SET status=1, attempt=1, epoch=epoch+1, seq=0, worker=NULL, parts=parts & ~64, stamp=?, crashes=0, wakes=0, visible_at=?, deadline=NULL,
		output=NULL, failure=NULL, finished_at=NULL, grp=NULL, ordinal=0
		WHERE id=? AND namespace=? AND status IN (7,8) AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.namespace=runs.namespace
			AND o.external_id=runs.external_id AND o.suffix=runs.suffix AND o.external_id IS NOT NULL AND (o.status<6 OR o.reuse=1) AND o.id<>runs.id)
		RETURNING queue`
)

// Restart implements store.Runs.
func (c *Core) Restart(ctx context.Context, p store.RestartParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return err
	}
	h, stamp, done := newHints(p.Namespace), newStamp(), false
	result := notFound("run %v", p.ID)
	err = c.runner.Write(ctx, []Stmt{
		{SQL: restartRun, Args: []any{stamp, now, p.ID[:], p.Namespace}, Rows: func(scan func(...any) error) error {
			var queue string
			err := scan(&queue)
			done, result = true, nil
			h.queue(queue)
			return err
		}},
		{SQL: forgetFailed, Args: []any{p.ID[:], p.ID[:], stamp}, Unneeded: func() bool { return !done }},
		{
			SQL: `SELECT status, external_id FROM runs WHERE id=? AND namespace=?`, Args: []any{p.ID[:], p.Namespace},
			Unneeded: func() bool { return done },
			Rows: func(scan func(...any) error) error {
				var status store.Status
				var external string
				err := scan(&status, scanText{&external})
				switch {
				case done:
				case status == store.Failed || status == store.Canceled:
					result = exists("run %v cannot restart: another run holds its external id %q", p.ID, external)
				default:
					result = conflict("run %v is %v; only a failed or canceled run restarts", p.ID, status)
				}
				return err
			},
		},
	})
	if err != nil {
		return err
	}
	h.send(c)
	return result
}

const (
	// The step, where one is named, must exist: its position is the limit.
	forkRun = `INSERT INTO runs (id, namespace, workflow, queue, status, priority, visible_at, stamp, parts, created_at, forked_from, input, meta)
		SELECT ?, namespace, workflow, queue, 1, priority, ?, ?, parts & (1 | 16), ?, id, input, meta FROM runs
		WHERE id=? AND namespace=? AND (? OR EXISTS (SELECT 1 FROM steps WHERE run_id=runs.id AND branch=? AND name=? AND occurrence=?))
		ON CONFLICT DO NOTHING`
	forkSteps = `INSERT INTO steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at)
		SELECT ?, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at
		FROM steps WHERE run_id=? AND status=3
		AND (? OR position<(SELECT position FROM steps WHERE run_id=? AND branch=? AND name=? AND occurrence=?)) AND` + applied
	forkInput = `INSERT INTO large_inputs (run_id, data) SELECT ?, data FROM large_inputs WHERE run_id=? AND` + applied
)

// Fork implements store.Runs.
func (c *Core) Fork(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
	none := store.CreateResult{}
	if err := p.Validate(); err != nil {
		return none, err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return none, err
	}
	var key store.StepKey
	if p.Before != nil {
		key = *p.Before
	}
	var made int64
	var queue, namespace string
	old, all, stamp := p.ID[:], flag(p.Before == nil), newStamp()
	missed := func() bool { return made == 0 }
	err = c.runner.Write(ctx, []Stmt{
		{SQL: forkRun, Args: []any{p.New[:], now, stamp, now, old, p.Namespace, all, key.Branch, key.Name, int64(key.Occurrence)}, Affected: &made},
		{SQL: forkSteps, Args: []any{p.New[:], old, all, old, key.Branch, key.Name, int64(key.Occurrence), p.New[:], stamp}, Unneeded: missed},
		{SQL: forkInput, Args: []any{p.New[:], old, p.New[:], stamp}, Unneeded: missed},
		{
			SQL: `SELECT namespace, queue FROM runs WHERE id=?`, Args: []any{p.New[:]},
			Rows: one(&namespace, &queue),
		},
	})
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
		h.send(c)
	}
	return store.CreateResult{ID: p.New, Created: true, Repeated: made == 0}, nil
}

// purged selects the victims; all statements of the write select the same.
const purged = ` IN (SELECT id FROM runs WHERE namespace=? AND finished_at<=? AND finished_at IS NOT NULL
	AND (?='' OR workflow=?) AND (? & (1 << status)) AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.id=runs.parent AND p.status<6)
	ORDER BY finished_at, id LIMIT ?+0)`

// Purge implements store.Runs.
func (c *Core) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return 0, err
	}
	if p.Limit == 0 {
		p.Limit = 1000
	}
	if len(p.Statuses) == 0 {
		p.Statuses = []store.Status{store.Completed, store.Failed, store.Canceled}
	}
	var mask, n int64
	for _, s := range p.Statuses {
		mask |= 1 << s
	}
	args := []any{p.Namespace, now - span(p.OlderThan), p.Workflow, p.Workflow, mask, int64(p.Limit)}
	var stmts []Stmt
	for _, table := range []string{"steps", "state", "groups", "signals", "large_inputs"} {
		stmts = append(stmts, Stmt{SQL: `DELETE FROM ` + table + ` WHERE run_id` + purged, Args: args})
	}
	stmts = append(stmts, Stmt{SQL: `DELETE FROM runs WHERE id` + purged, Args: args, Affected: &n})
	if err := c.runner.Write(ctx, stmts); err != nil {
		return 0, err
	}
	return int(n), nil
}
