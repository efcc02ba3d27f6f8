package sqlitecore

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

const scheduleColumns = `name, workflow, queue, spec, input, meta, paused, next_at, last_at, created_at, updated_at`

// scheduleColumnsIf are scheduleColumns, without all that has a size where z.fits is false.
const scheduleColumnsIf = `s.name, s.workflow, s.queue, s.spec, iif(z.fits, s.input, NULL), iif(z.fits, s.meta, NULL), s.paused, s.next_at, s.last_at,
	s.created_at, s.updated_at`

func scanSchedule(scan func(...any) error, s *store.Schedule, more ...any) error {
	return scan(append([]any{
		&s.Name, &s.Workflow, &s.Queue, &s.Spec, scanBlob{&s.Input}, scanBlob{&s.Meta}, &s.Paused, scanTime{&s.NextAt},
		scanTime{&s.LastAt}, scanTime{&s.CreatedAt}, scanTime{&s.UpdatedAt},
	}, more...)...)
}

// PutSchedule implements store.Schedules.
func (c *Core) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	var out store.Schedule
	if err := p.Validate(c.config.Limits); err != nil {
		return out, err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return out, err
	}
	s := &p.Schedule
	err = c.runner.Write(ctx, []Stmt{{
		SQL: `INSERT INTO schedules (namespace, name, workflow, queue, spec, input, meta, paused, next_at, created_at, updated_at)
			VALUES (?,?,?,?,?,?,?,?,?,?,?)
			ON CONFLICT DO UPDATE SET workflow=excluded.workflow, queue=excluded.queue, spec=excluded.spec, input=excluded.input,
				meta=excluded.meta, paused=excluded.paused, next_at=excluded.next_at, updated_at=max(excluded.updated_at, updated_at+1)
			RETURNING ` + scheduleColumns,
		Args: []any{p.Namespace, s.Name, s.Workflow, s.Queue, s.Spec, blob(s.Input), blob(s.Meta), flag(s.Paused), micros(s.NextAt), now, now},
		Rows: func(scan func(...any) error) error { return scanSchedule(scan, &out) },
	}})
	if err == nil {
		c.publish(store.Hint{Kind: store.HintRescan})
	}
	return out, err
}

// DeleteSchedule implements store.Schedules.
func (c *Core) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	var n int64
	err := c.runner.Write(ctx, []Stmt{
		{SQL: `DELETE FROM firings WHERE namespace=? AND schedule=?`, Args: []any{p.Namespace, p.Name}},
		{SQL: `DELETE FROM schedules WHERE namespace=? AND name=?`, Args: []any{p.Namespace, p.Name}, Affected: &n},
	})
	if err == nil && n == 0 {
		return notFound("schedule %q", p.Name)
	}
	return err
}

// Pages of schedules ?1, those of the names ?3 or (?2) all, up to ?4 of them and ?5 bytes:
// behind the name ?6, or due at ?6 but for the names ?7.
var (
	schedulesByName = schedulePage(`name>?6`, `name`)
	schedulesDue    = schedulePage(`paused=0 AND next_at IS NOT NULL AND next_at<=?6 AND name NOT IN (SELECT value FROM json_each(?7))`, `next_at, name`)
)

func schedulePage(which, order string) string {
	return `WITH item AS (SELECT *, row_number() OVER (ORDER BY ` + order + `) AS nth FROM (
			SELECT name, next_at, coalesce(length(input), 0)+coalesce(length(meta), 0) AS size FROM schedules
			WHERE namespace=?1 AND ` + which + ` AND (?2 OR name IN (SELECT value FROM json_each(?3))) ORDER BY ` + order + ` LIMIT ?4+1))` +
		fitting(`nth`, 1, `?4`, `?5`) + `
		SELECT ` + scheduleColumnsIf + `, z.fits FROM fit z CROSS JOIN schedules s ON s.namespace=?1 AND s.name=z.name ORDER BY z.nth`
}

// ListSchedules implements store.Schedules.
func (c *Core) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	var page store.SchedulePage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	after, err := p.Position()
	if err != nil && !p.Due { // there is no cursor then
		return page, err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return page, err
	}
	list := Stmt{
		SQL:  schedulesByName,
		Args: []any{p.Namespace, flag(len(p.Names) == 0), jsonText(p.Names), int64(limit), int64(store.PageBytes), after},
	}
	if p.Due {
		list.SQL, list.Args[5] = schedulesDue, now
		list.Args = append(list.Args, jsonText(append([]string{}, p.Except...)))
	}
	more := false
	list.Rows = func(scan func(...any) error) error {
		var s store.Schedule
		var fits bool
		err := scanSchedule(scan, &s, &fits)
		keep(&page.Schedules, &more, s, fits)
		return err
	}
	err = c.read(ctx, list, Stmt{
		SQL: `SELECT (SELECT min(next_at) FROM schedules WHERE namespace=?1 AND paused=0 AND next_at IS NOT NULL),
			(SELECT min(next_at) FROM schedules WHERE namespace=?1 AND paused=0 AND next_at IS NOT NULL AND next_at>?2)`,
		Args: []any{p.Namespace, now}, Rows: one(scanTime{&page.NextDue}, scanTime{&page.Later}),
	})
	page.Now = micro(now)
	if err != nil {
		return store.SchedulePage{}, err
	}
	if more && !p.Due {
		page.Next = p.NextCursor(page.Schedules[len(page.Schedules)-1].Name)
	}
	return page, nil
}

// A firing is inserted for the schedule's next time alone; fireRun follows it if
// changes() says that it was. A schedule that was put back to a time already fired
// advances all the same. Parameters of fireSchedule: ?1 namespace, ?2 schedule,
// ?3 at, ?4 now, ?5 run or NULL, ?6 and ?7 its external id and suffix, ?8 seen or
// NULL.
const (
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
	if err := p.Validate(c.config.Limits); err != nil {
		return res, err
	}
	m, err := c.moment(ctx, p.Now)
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
	var found bool
	var next, put, firedAt time.Time
	var owner string
	stmts = append(stmts,
		Stmt{SQL: advanceSchedule, Args: []any{micros(p.Next), p.Namespace, p.Schedule, at, micros(p.Seen)}},
		Stmt{SQL: fireOutcome, Args: []any{idBlob(run), at, p.Namespace, p.Schedule}, Rows: func(scan func(...any) error) error {
			found = true
			return scan(scanTime{&next}, scanTime{&put}, scanTime{&firedAt}, scanID{&res.Run}, scanText{&owner})
		}})
	if err := c.runner.Write(ctx, stmts); err != nil {
		return store.FireResult{}, err
	}
	switch {
	case !found:
		return res, notFound("schedule %q", p.Schedule)
	case firedAt.IsZero() && at > m.now:
		return res, store.Invalid("fire time", fmt.Sprintf("%v is still to come; it is %v", p.At.UTC(), micro(m.now)))
	case firedAt.IsZero() && !p.Seen.IsZero() && put.UnixMicro() != p.Seen.UnixMicro():
		return res, conflict("schedule %q was changed at %v", p.Schedule, put)
	case firedAt.IsZero() && next.Equal(micro(at)):
		return res, exists("run %v exists in another namespace; ids are made with NewID", run)
	case firedAt.IsZero():
		return res, conflict("schedule %q is not due at %v but at %v: it was changed", p.Schedule, p.At.UTC(), next)
	}
	res.Fired, res.Made = fired == 1, made == 1
	if made == 1 {
		h := newHints(p.Namespace)
		h.queue(p.Run.Queue)
		h.send(c)
	}
	return res, nil
}

// ListFirings implements store.Schedules.
func (c *Core) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
	var page store.FiringPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	pos, err := p.Position()
	if err != nil {
		return page, err
	}
	before := int64(1<<63 - 1)
	if pos != "" {
		t, err := time.Parse(time.RFC3339Nano, pos)
		if err != nil {
			return page, store.Invalid("cursor", "it names no time; start without one")
		}
		before = t.UnixMicro()
	}
	found := false
	err = c.read(ctx,
		Stmt{
			SQL: `SELECT 1 FROM schedules WHERE namespace=? AND name=?`, Args: []any{p.Namespace, p.Schedule},
			Rows: func(scan func(...any) error) error { found = true; return nil },
		},
		Stmt{
			SQL:  `SELECT at, fired_at, run FROM firings WHERE namespace=? AND schedule=? AND at<? ORDER BY at DESC LIMIT ?+0`,
			Args: []any{p.Namespace, p.Schedule, before, int64(limit) + 1},
			Rows: func(scan func(...any) error) error {
				var f store.Firing
				err := scan(scanTime{&f.At}, scanTime{&f.FiredAt}, scanID{&f.Run})
				page.Firings = append(page.Firings, f)
				return err
			},
		})
	if err == nil && !found {
		return page, notFound("schedule %q", p.Schedule)
	}
	if len(page.Firings) > limit {
		page.Firings = page.Firings[:limit]
		page.Next = p.NextCursor(page.Firings[limit-1].At.Format(time.RFC3339Nano))
	}
	return page, err
}
