package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A firing is inserted only for the schedule's next time; fireRun inserts the run if changes() says
// that the firing was inserted. A schedule that was put back to a time that has already fired
// advances anyway. Parameters of fireSchedule: ?1 namespace, ?2 schedule, ?3 at, ?4 now, ?5 run or
// NULL, ?6 and ?7 its external id and suffix, ?8 seen or NULL.
var (
	fireSchedule = `INSERT INTO firings (namespace, schedule, at, fired_at, run)
		SELECT ?1, ?2, ?3, ?4, CASE WHEN ?5 IS NULL THEN NULL ELSE coalesce((SELECT id FROM runs WHERE id=?5),
			(SELECT id FROM runs WHERE namespace=?1 AND external_id=?6 AND suffix=?7 AND ` + holds + `), ?5) END
		FROM schedules WHERE namespace=?1 AND name=?2 AND next_at=?3 AND ?3<=?4 AND (?8 IS NULL OR updated_at=?8)
			AND NOT EXISTS (SELECT 1 FROM runs WHERE id=?5 AND namespace<>?1)
		ON CONFLICT DO NOTHING`
	forgetFirings = `DELETE FROM firings WHERE namespace=?1 AND schedule=?2 AND at IN (
			SELECT at FROM firings WHERE namespace=?1 AND schedule=?2 AND at<?4 ORDER BY at LIMIT ?5+0)
		AND EXISTS (SELECT 1 FROM firings WHERE namespace=?1 AND schedule=?2 AND at=?3)`
	advanceSchedule = `UPDATE schedules SET next_at=?1, last_at=next_at WHERE namespace=?2 AND name=?3 AND next_at=?4
		AND (?5 IS NULL OR updated_at=?5)
		AND EXISTS (SELECT 1 FROM firings WHERE namespace=schedules.namespace AND schedule=schedules.name AND at=schedules.next_at)`
	fireOutcome = `SELECT s.next_at, s.updated_at, f.at, f.run, (SELECT namespace FROM runs WHERE id=?)
		FROM schedules s LEFT JOIN firings f ON f.namespace=s.namespace AND f.schedule=s.name AND f.at=? WHERE s.namespace=? AND s.name=?`
)

// Fire implements store.Schedules.
func (c *Core) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	var res store.FireResult
	m, err := c.validAt(ctx, p.Validate(c.config.Limits), p.Now)
	if err != nil {
		return res, err
	}
	at := p.At.UnixMicro()
	var fired, made int64
	var run store.ID
	external, suffix := any(nil), any(nil)
	if p.Run != nil {
		run, external, suffix = p.Run.ID, text(p.Run.ExternalID), p.Run.Suffix
	}
	again := func() bool { return fired == 0 }
	stmts := []Stmt{
		{SQL: fireSchedule, Args: []any{p.Namespace, p.Schedule, at, m.now, idBlob(run), external, suffix, micros(p.Seen)}, Affected: &fired},
	}
	if p.Run != nil {
		stmts = append(stmts, Stmt{SQL: fireRun, Args: insertArgs(p.Namespace, p.Run, store.ID{}, m), Affected: &made, Unneeded: again})
		if len(p.Run.Input) > inlineInput {
			stmts = append(stmts, Stmt{SQL: largeInput, Args: []any{p.Run.Input, run[:], p.Namespace}, Unneeded: again})
		}
	}
	if !p.Forget.IsZero() {
		stmts = append(stmts, Stmt{SQL: forgetFirings, Args: []any{p.Namespace, p.Schedule, at, p.Forget.UnixMicro(), int64(store.MaxForget)}})
	}
	var outcome sqlkit.FireOutcome
	var owner string
	stmts = append(stmts,
		Stmt{SQL: advanceSchedule, Args: []any{micros(p.Next), p.Namespace, p.Schedule, at, micros(p.Seen)}},
		Stmt{SQL: fireOutcome, Args: []any{idBlob(run), at, p.Namespace, p.Schedule}, Rows: func(scan func(...any) error) error {
			outcome.Found = true
			return scan(sqlkit.Time(&outcome.Next), sqlkit.Time(&outcome.Put), sqlkit.Time(&outcome.FiredAt), sqlkit.ID(&res.Run), sqlkit.TextOrNull(&owner))
		}})
	if err := c.runner.Write(ctx, stmts); err != nil {
		return store.FireResult{}, err
	}
	if err := outcome.Err(&p, run, sqlkit.Micro(m.now)); err != nil {
		return res, err
	}
	res.Fired, res.Made = fired == 1, made == 1
	if made == 1 {
		h := sqlkit.NewHints(p.Namespace)
		h.Queue(p.Run.Queue)
		c.publishAll(h)
	}
	return res, nil
}
