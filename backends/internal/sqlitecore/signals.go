package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A signal is sent to a run by its id, or to the active run of an external id.
var (
	toRun      = `?`
	toExternal = sqlkit.Text(`(SELECT id FROM runs WHERE namespace=? AND external_id=? AND suffix=? AND external_id IS NOT NULL AND status<{final})`)
	// unheard requires that none of the runs that have held the external id has received the
	// signal.
	unheard = sqlkit.Text(` AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.namespace=? AND p.external_id=? AND p.suffix=? AND p.external_id IS NOT NULL AND p.status>={final} AND p.reuse={reuseAfterEnd}
		AND p.parts & {partSignals} AND EXISTS (SELECT 1 FROM signals s WHERE s.run_id=p.id AND s.id=?))`)

	// wake makes a sleeping run due; a paused run becomes due once it is resumed.
	wake = sqlkit.Text(`told=NULL, visible_at=CASE WHEN status IN ({sleeping},{paused}) AND wakes & ? THEN min(coalesce(visible_at, ?), ?) ELSE visible_at END`)

	insertSignal = sqlkit.Text(`INSERT INTO signals (run_id, id, pos, name, payload, sent_at) SELECT r.id, ?, r.events+1, ?, ?, ?
		FROM runs r WHERE r.status<{final} AND r.namespace=? AND r.id=`)
	signalEvent = sqlkit.Text(`UPDATE runs SET events=events+1, parts=parts | {partSignals}, ` + wake + ` WHERE changes()=1 AND status<{final} AND id=`)
	signalRun   = insertSignal + toRun + ` ON CONFLICT DO NOTHING`
	signalExt   = insertSignal + toExternal + unheard + ` ON CONFLICT DO NOTHING`
	eventRun    = sqlkit.Text(signalEvent + toRun + ` RETURNING id, queue, status={sleeping} AND visible_at<=?`)
	eventExt    = sqlkit.Text(signalEvent + toExternal + ` RETURNING id, queue, status={sleeping} AND visible_at<=?`)

	// Why a signal was not stored: the run already has it, is final, or does not exist.
	hadSignal   = `EXISTS (SELECT 1 FROM signals WHERE run_id=runs.id AND id=?)`
	signalFate  = `SELECT id, status, ` + hadSignal + ` FROM runs WHERE id=? AND namespace=?`
	signalPast  = `SELECT id, status, had FROM (SELECT id, status, reuse, created_at, ` + hadSignal + ` AS had FROM runs WHERE `
	fateByExtID = sqlkit.Text(signalPast + `namespace=? AND external_id=? AND suffix=? AND ` + holds + `
		UNION ALL SELECT id, status, reuse, created_at, ` + hadSignal + ` FROM runs WHERE namespace=? AND external_id=? AND suffix=? AND ` + held + `)
		WHERE had OR status>={final} AND reuse={reuseNever} ORDER BY NOT had, created_at DESC, id DESC LIMIT 1`)
)

// recordSignal follows the statement that counts the event: ?4 and ?5 are the external id
// and the suffix, if the signal is sent to them.
var recordSignal = recording(sqlkit.ActionInsert{
	Run:     sqlkit.Text(`coalesce(a.run, a.subject, (SELECT id FROM runs WHERE namespace=?1 AND external_id=?4 AND suffix=?5 AND external_id IS NOT NULL AND status<{final}))`),
	Outcome: sqlkit.WasDone, Rest: `WHERE changes()=1`,
})

// Signal implements store.Coordination.
func (c *Core) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	now, err := c.valid(ctx, p.Validate(), p.Now)
	if err != nil {
		return nil, err
	}
	h, results := sqlkit.NewHints(p.Namespace), make([]store.SignalResult, len(p.Signals))
	var stmts []Stmt
	for i := range p.Signals {
		s, res := &p.Signals[i], &results[i]
		if res.Err = s.Validate(c.config.Limits); res.Err != nil {
			continue
		}
		insert, event, fate := signalRun, eventRun, signalFate
		target, fateArgs := []any{s.Run[:]}, []any{s.ID[:], s.Run[:], p.Namespace}
		res.Err = sqlkit.NotFound("run %v", s.Run)
		if s.Run.IsZero() {
			insert, event, fate = signalExt, eventExt, fateByExtID
			target = []any{p.Namespace, s.ExternalID, s.Suffix}
			fateArgs = append(append([]any{s.ID[:]}, target...), append([]any{s.ID[:]}, target...)...)
			res.Err = sqlkit.NotFound("active run of external id %q", s.ExternalID)
		}
		stored := false
		insertArgs := append([]any{s.ID[:], s.Name, blob(s.Payload), now, p.Namespace}, target...)
		if s.Run.IsZero() {
			insertArgs = append(append(insertArgs, target...), s.ID[:])
		}
		stmts = append(stmts,
			Stmt{SQL: insert, Args: insertArgs},
			Stmt{
				SQL: event, Args: append(append([]any{int64(store.WakeSignal), now, now}, target...), now),
				Rows: func(scan func(...any) error) error {
					err := h.WokenRow(scan, &res.Run)
					stored, res.Err = true, nil
					return err
				},
			})
		if len(p.Record) > 0 {
			text := sqlkit.ActionsText(p.Record[i:i+1], "", []store.ID{s.Run}, nil)
			stmts = append(stmts, Stmt{SQL: recordSignal, Args: []any{p.Namespace, now, text, s.ExternalID, s.Suffix}, Unneeded: func() bool { return !stored }})
		}
		stmts = append(stmts,
			Stmt{SQL: fate, Args: fateArgs, Unneeded: func() bool { return stored }, Rows: func(scan func(...any) error) error {
				var id store.ID
				var status store.Status
				var had bool
				err := scan(sqlkit.ID(&id), &status, &had)
				switch {
				case stored:
				case had:
					res.Run, res.Err = id, nil
				case status.Final():
					res.Err = sqlkit.Finished(id, status)
				}
				return err
			}})
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
