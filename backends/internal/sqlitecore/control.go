package sqlitecore

import (
	"context"
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

const runStatus = `SELECT status FROM runs WHERE id=? AND namespace=?`

// journal returns what records the actions of a call.
func (c *Core) journal(namespace string, now int64, record []store.Action) sqlkit.Journal {
	return sqlkit.Journal{DB: db{c}, Namespace: namespace, Now: now, Record: record}
}

// control runs the first statements and those that make returns for each run, then reads the run's
// status.
func (c *Core) control(ctx context.Context, namespace string, ids []store.ID, h *sqlkit.Hints, stmts []Stmt,
	statements func(id []byte, res *store.ControlResult) []Stmt, refused func(store.Status) bool) ([]store.ControlResult, error) {
	results := make([]store.ControlResult, len(ids))
	for i := range ids {
		id, res := ids[i], &results[i]
		res.Err = sqlkit.NotFound("run %v", id)
		stmts = append(append(stmts, statements(id[:], res)...), Stmt{
			SQL: runStatus, Args: []any{id[:], namespace},
			Rows: func(scan func(...any) error) error {
				err := scan(&res.Status)
				if res.Err = nil; refused(res.Status) {
					res.Err = sqlkit.Finished(id, res.Status)
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
	c.publishAll(h)
	return results, nil
}

// takeLease takes a run from its holder, and keeps others from claiming a canceling one, so that
// the same write can end it.
var takeLease = sqlkit.Text(`UPDATE runs SET told=NULL, status={pending}, leased=0, epoch=epoch+leased, seq=iif(leased, 0, seq)
	WHERE id=? AND namespace=? AND (leased=1 OR status={canceling}) RETURNING ` + limitedQueue)

// Cancel implements store.Runs.
func (c *Core) Cancel(ctx context.Context, p store.CancelParams) ([]store.ControlResult, error) {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return nil, err
	}
	h := sqlkit.NewHints(p.Namespace)
	why := failure(&store.Failure{Code: store.FailureCanceled, Message: p.Reason})
	return c.control(ctx, p.Namespace, p.IDs, h, c.journal(p.Namespace, now, p.Record).Cancels(&p), func(id []byte, res *store.ControlResult) []Stmt {
		stamp, touched := sqlkit.NewStamp(), new(bool)
		none := func() bool { return !*touched }
		var forced any
		if p.Force {
			forced = id
		}
		rows := h.TreeRows(&res.Ended)
		tree := func(scan func(...any) error) error {
			*touched = true
			return rows(scan)
		}
		list := []Stmt{
			{SQL: countCanceled, Args: []any{id, p.Namespace, forced}},
			{SQL: cancelTree, Args: []any{id, p.Namespace, forced, why, sqlkit.CanceledWithParent, now, stamp}, Rows: tree},
			wakeParent(id, stamp, now, none, h),
		}
		if p.Force {
			list = append([]Stmt{{SQL: takeLease, Args: []any{id, p.Namespace}, Rows: func(scan func(...any) error) error {
				h.Event(store.ID(id), true) // tells the holder that it has lost the lease
				return freed(scan, h)
			}}}, list...)
		}
		return list
	}, func(s store.Status) bool { return s == store.Completed || s == store.Failed })
}

var (
	// A canceling run has to end; it does not become paused.
	pauseRun = sqlkit.Text(`UPDATE runs SET told=NULL, paused_from=iif(status={running}, paused_from, status), status=iif(status={running}, {running}, {paused}), pausing=status={running}
		WHERE id=? AND namespace=? AND status IN ({pending},{running},{sleeping}) RETURNING status={running}`)
	resumeRun = sqlkit.Text(`UPDATE runs SET told=NULL, status=CASE status WHEN {paused} THEN paused_from ELSE status END, pausing=0
		WHERE id=? AND namespace=? AND (status={paused} OR pausing=1) RETURNING queue`)
)

// Pause implements store.Runs.
func (c *Core) Pause(ctx context.Context, p store.PauseParams) ([]store.ControlResult, error) {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return nil, err
	}
	h := sqlkit.NewHints(p.Namespace)
	return c.control(ctx, p.Namespace, p.IDs, h, c.journal(p.Namespace, now, p.Record).Pauses(&p), func(id []byte, _ *store.ControlResult) []Stmt {
		if !p.Resume {
			return []Stmt{{SQL: pauseRun, Args: []any{id, p.Namespace}, Rows: func(scan func(...any) error) error {
				var leased bool
				err := scan(&leased)
				if leased { // not an event, but the holder has to know
					h.Event(store.ID(id), true)
				}
				return err
			}}}
		}
		return []Stmt{{SQL: resumeRun, Args: []any{id, p.Namespace}, Rows: func(scan func(...any) error) error {
			var queue string
			err := scan(&queue)
			h.Queue(queue)
			return err
		}}}
	}, store.Status.Final)
}

var unpinRun = sqlkit.Text(`UPDATE runs SET told=NULL, pin='', pinned=NULL WHERE id=? AND namespace=? AND pin<>'' AND status<{final} RETURNING queue`)

// Unpin implements store.Runs.
func (c *Core) Unpin(ctx context.Context, p store.UnpinParams) ([]store.ControlResult, error) {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return nil, err
	}
	h := sqlkit.NewHints(p.Namespace)
	unpinned := make([]bool, len(p.IDs))
	i := -1
	results, err := c.control(ctx, p.Namespace, p.IDs, h, c.journal(p.Namespace, now, p.Record).Unpins(&p), func(id []byte, _ *store.ControlResult) []Stmt {
		i++
		was := &unpinned[i]
		return []Stmt{{SQL: unpinRun, Args: []any{id, p.Namespace}, Rows: func(scan func(...any) error) error {
			var queue string
			err := scan(&queue)
			*was = true
			h.Queue(queue)
			return err
		}}}
	}, store.Status.Final)
	for i := range results {
		if r := &results[i]; r.Err == nil && !unpinned[i] {
			r.Err = store.NotPinned(p.IDs[i], r.Status)
		}
	}
	return results, err
}

var (
	// A restarted child leaves its group, which has counted it.
	// Parameters: stamp, now, run, namespace.
	restartRun = sqlkit.Text(`UPDATE runs SET told=NULL, status={pending}, attempt=1, epoch=epoch+1, seq=0, worker=NULL, parts=parts & ~{partEnded}, stamp=?, crashes=0, wakes=0, visible_at=?, deadline=NULL,
		output=NULL, failure=NULL, finished_at=NULL, grp=NULL, ordinal=0, pin='', pinned=NULL, step_under=NULL, drawn=0, limited=under IS NOT NULL
		WHERE id=? AND namespace=? AND status IN ({failed},{canceled}) AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.namespace=runs.namespace
			AND o.external_id=runs.external_id AND o.suffix=runs.suffix AND o.external_id IS NOT NULL AND (o.status<{final} OR o.reuse={reuseNever}) AND o.id<>runs.id)
		RETURNING queue`)
)

const restartFate = `SELECT status, external_id FROM runs WHERE id=? AND namespace=?`

// Restart implements store.Runs.
func (c *Core) Restart(ctx context.Context, p store.RestartParams) ([]store.ControlResult, error) {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return nil, err
	}
	results, h := make([]store.ControlResult, len(p.IDs)), sqlkit.NewHints(p.Namespace)
	var stmts []Stmt
	stamps := make([]int64, len(p.IDs))
	for i, id := range p.IDs {
		stamps[i] = sqlkit.NewStamp()
		stmts = append(stmts, restart(p.Namespace, id, now, stamps[i], &results[i], h)...)
	}
	stmts = append(stmts, c.journal(p.Namespace, now, p.Record).Stamped(p.IDs, stamps...)...)
	if len(stmts) == 0 {
		return results, nil
	}
	if err := c.runner.Write(ctx, stmts); err != nil {
		return nil, err
	}
	c.publishAll(h)
	return results, nil
}

// restart restarts one run, or finds out why it cannot be restarted.
func restart(namespace string, id store.ID, now, stamp int64, res *store.ControlResult, h *sqlkit.Hints) []Stmt {
	done := false
	res.Err = sqlkit.NotFound("run %v", id)
	return []Stmt{
		{SQL: restartRun, Args: []any{stamp, now, id[:], namespace}, Rows: func(scan func(...any) error) error {
			var queue string
			err := scan(&queue)
			done, *res = true, store.ControlResult{Status: store.Pending}
			h.Queue(queue)
			return err
		}},
		{SQL: forgetFailed, Args: []any{id[:], id[:], stamp}, Unneeded: func() bool { return !done }},
		{
			SQL: restartFate, Args: []any{id[:], namespace},
			Unneeded: func() bool { return done },
			Rows: func(scan func(...any) error) error {
				var status store.Status
				var external string
				err := scan(&status, sqlkit.TextOrNull(&external))
				if !done {
					*res = store.ControlResult{Status: status, Err: sqlkit.RestartRefused(id, status, external)}
				}
				return err
			},
		},
	}
}

var (
	// If a step is named, it must exist: its position is the limit. Parameters: new run, now, stamp, now,
	// old run, namespace, whether all steps are kept, the key of the step before which the fork begins.
	forkRun = sqlkit.Text(`INSERT INTO runs (id, namespace, workflow, queue, status, priority, visible_at, stamp, parts, created_at, forked_from, build, input, meta, under, limited, tags)
		SELECT ?, namespace, workflow, queue, {pending}, priority, ?, ?, parts & ({partSteps} | {partLargeInput}), ?, id, ` + runBuild + `, input, meta, under, under IS NOT NULL, tags FROM runs
		WHERE id=? AND namespace=? AND (? OR EXISTS (SELECT 1 FROM steps WHERE run_id=runs.id AND branch=? AND name=? AND occurrence=?))
		ON CONFLICT DO NOTHING`)
	forkSteps = sqlkit.Text(`INSERT INTO steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at)
		SELECT ?, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at
		FROM steps WHERE run_id=? AND status={stepCompleted}
		AND (? OR position<(SELECT position FROM steps WHERE run_id=? AND branch=? AND name=? AND occurrence=?)) AND` + applied)
	forkInput = `INSERT INTO large_inputs (run_id, data) SELECT ?, data FROM large_inputs WHERE run_id=? AND` + applied
)

const forkedRun = `SELECT namespace, queue FROM runs WHERE id=?`

// Fork implements store.Runs.
func (c *Core) Fork(ctx context.Context, p store.ForkParams) (store.CreateResult, error) {
	none := store.CreateResult{}
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return none, err
	}
	var key store.StepKey
	if p.Before != nil {
		key = *p.Before
	}
	var made int64
	var queue, namespace string
	old, all, stamp := p.ID[:], flag(p.Before == nil), sqlkit.NewStamp()
	missed := func() bool { return made == 0 }
	stmts := []Stmt{
		{SQL: forkRun, Args: []any{p.New[:], now, stamp, now, old, p.Namespace, all, key.Branch, key.Name, int64(key.Occurrence)}, Affected: &made},
		{SQL: forkSteps, Args: []any{p.New[:], old, all, old, key.Branch, key.Name, int64(key.Occurrence), p.New[:], stamp}, Unneeded: missed},
		{SQL: forkInput, Args: []any{p.New[:], old, p.New[:], stamp}, Unneeded: missed},
		{
			SQL: forkedRun, Args: []any{p.New[:]},
			Rows: sqlkit.One(&namespace, &queue),
		},
	}
	err = c.runner.Write(ctx, append(stmts, c.journal(p.Namespace, now, p.Record).Stamped([]store.ID{p.New}, stamp)...))
	if err != nil {
		return none, err
	}
	res, err := sqlkit.ForkResult(&p, namespace, made == 1)
	if err == nil && made == 1 {
		h := sqlkit.NewHints(p.Namespace)
		h.Queue(queue)
		c.publishAll(h)
	}
	return res, err
}

// purged selects the runs to delete; all statements of the write select the same runs.
var purged = sqlkit.Text(` IN (SELECT id FROM runs WHERE namespace=? AND finished_at<=? AND finished_at IS NOT NULL
	AND (?='' OR workflow=?) AND (? & (1 << status)) AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.id=runs.parent AND p.status<{final})
	AND ` + lite(sqlkit.NotCounted("runs")) + `
	ORDER BY finished_at, id LIMIT ?+0)`)

// recordPurge follows the statement that deletes the runs.
var recordPurge = recording(sqlkit.ActionInsert{Outcome: sqlkit.DoneIf(`changes()>0`), Rest: `WHERE true`})

// recording makes a statement that records actions: ?1 namespace, ?2 now, ?3 actions.
func recording(i sqlkit.ActionInsert) string {
	i.Namespace, i.Now, i.Actions = "?1", "?2", "?3"
	return strings.ReplaceAll(i.Text(sqlkit.SQLite), "pawl.", "")
}

// Purge implements store.Runs.
func (c *Core) Purge(ctx context.Context, p store.PurgeParams) (int, error) {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return 0, err
	}
	sqlkit.PurgeDefaults(&p)
	var mask, n int64
	for _, s := range p.Statuses {
		mask |= 1 << s
	}
	args := []any{p.Namespace, now - sqlkit.Span(p.OlderThan), p.Workflow, p.Workflow, mask, int64(p.Limit)}
	var stmts []Stmt
	for _, table := range []string{"steps", "state", "groups", "signals", "large_inputs", "stream_items", "debounces", "debounced_starts"} {
		stmts = append(stmts, Stmt{SQL: `DELETE FROM ` + table + ` WHERE run_id` + purged, Args: args})
	}
	stmts = append(stmts, Stmt{SQL: `DELETE FROM runs WHERE id` + purged, Args: args, Affected: &n})
	if len(p.Record) > 0 {
		stmts = append(stmts, Stmt{SQL: recordPurge, Args: []any{p.Namespace, now, sqlkit.ActionsText(p.Record, "", nil, nil)}})
	}
	if err := c.runner.Write(ctx, stmts); err != nil {
		return 0, err
	}
	return int(n), nil
}
