package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/store"
)

const scheduleColumns = `s.name, s.workflow, s.queue, s.spec, s.input, s.meta, s.paused, s.next_at, s.last_at, s.created_at, s.updated_at`

func scanSchedule(scan func(...any) error, s *store.Schedule, more ...any) error {
	return scan(append([]any{
		&s.Name, &s.Workflow, &s.Queue, &s.Spec, &s.Input, &s.Meta, &s.Paused, scanTime(&s.NextAt),
		scanTime(&s.LastAt), scanTime(&s.CreatedAt), scanTime(&s.UpdatedAt),
	}, more...)...)
}

// PutSchedule implements store.Schedules.
func (s *Store) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	var out store.Schedule
	if err := p.Validate(s.config.limits); err != nil {
		return out, err
	}
	v := &p.Schedule
	err := s.write(ctx, stmt{
		sql: `INSERT INTO pawl.schedules AS s (namespace, name, workflow, queue, spec, input, meta, paused, next_at, created_at, updated_at)
			VALUES ($2::text, $3::text, $4::text, $5::text, $6::text, $7::bytea, $8::bytea, $9::bool, $10::bigint, ` + now + `, ` + now + `)
			ON CONFLICT (namespace, name) DO UPDATE SET workflow=excluded.workflow, queue=excluded.queue, spec=excluded.spec, input=excluded.input,
				meta=excluded.meta, paused=excluded.paused, next_at=excluded.next_at, updated_at=greatest(excluded.updated_at, s.updated_at+1)
			RETURNING ` + scheduleColumns,
		args: []any{setNow(p.Now), p.Namespace, v.Name, v.Workflow, v.Queue, v.Spec, v.Input, v.Meta, v.Paused, micros(v.NextAt)},
		rows: func(scan func(...any) error) error { return scanSchedule(scan, &out) },
	})
	if err != nil {
		return store.Schedule{}, err
	}
	s.publish(ctx, store.Hint{Kind: store.HintRescan})
	return out, nil
}

// DeleteSchedule implements store.Schedules.
func (s *Store) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	var n int64
	err := s.write(ctx,
		// From here on no Fire gets at the schedule, and none of its name can be put.
		stmt{
			sql:  `DELETE FROM pawl.schedules WHERE namespace=$1::text AND name=$2::text`,
			args: []any{p.Namespace, p.Name}, affected: &n,
		},
		stmt{
			sql: `DELETE FROM pawl.firings f WHERE f.namespace=$1::text AND f.schedule=$2::text
				AND NOT EXISTS (SELECT 1 FROM pawl.schedules s WHERE s.namespace=$1::text AND s.name=$2::text)`,
			args: []any{p.Namespace, p.Name},
		})
	if err == nil && n == 0 {
		return notFound("schedule %q", p.Name)
	}
	return err
}

// Pages of schedules of a namespace ($2), those of the names $4 or ($3) all, up to $5 of
// them: behind the name $1, or due at the time $1 but for the names $6.
var (
	schedulesByName = schedulePage(`s.name>$1::text`, `s.name`)
	schedulesDue    = schedulePage(`NOT s.paused AND s.next_at IS NOT NULL AND NOT s.name=ANY($6::text[]) AND s.next_at<=`+now, `s.next_at, s.name`)
)

func schedulePage(which, order string) string {
	return `SELECT ` + whenFits(scheduleColumns, `s.input`, `s.meta`) + `, s.fits FROM ` + fitting(`
		SELECT s.*, coalesce(octet_length(s.input), 0)+coalesce(octet_length(s.meta), 0) AS size, row_number() OVER (ORDER BY `+order+`) AS nth FROM (
			SELECT s.* FROM pawl.schedules s WHERE s.namespace=$2::text AND `+which+` AND ($3::bool OR s.name = ANY($4::text[]))
			ORDER BY `+order+` LIMIT $5::bigint+1) s`, `$5::bigint`, strconv.Itoa(store.PageBytes)) + ` ORDER BY s.nth`
}

// ListSchedules implements store.Schedules.
func (s *Store) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	var page store.SchedulePage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	after, err := p.Position()
	if err != nil && !p.Due { // there is no cursor then
		return page, err
	}
	list := stmt{sql: schedulesByName, args: []any{after, p.Namespace, len(p.Names) == 0, p.Names, int64(limit)}}
	if p.Due {
		list.sql, list.args[0] = schedulesDue, setNow(p.Now)
		list.args = append(list.args, append([]string{}, p.Except...))
	}
	fits, more := false, false
	list.rows = func(scan func(...any) error) error {
		var v store.Schedule
		err := scanSchedule(scan, &v, &fits)
		keep(&page.Schedules, &more, v, fits)
		return err
	}
	err = s.read(ctx, list, stmt{
		sql: `SELECT (SELECT min(next_at) FROM pawl.schedules WHERE namespace=$2::text AND NOT paused AND next_at IS NOT NULL),
				(SELECT min(next_at) FROM pawl.schedules WHERE namespace=$2::text AND NOT paused AND next_at IS NOT NULL AND next_at>` + now + `), ` + now,
		args: []any{setNow(p.Now), p.Namespace}, rows: one(scanTime(&page.NextDue), scanTime(&page.Later), scanTime(&page.Now)),
	})
	if err != nil {
		return store.SchedulePage{}, err
	}
	if more && !p.Due {
		page.Next = p.NextCursor(page.Schedules[len(page.Schedules)-1].Name)
	}
	return page, nil
}

// A firing is inserted for the schedule's next time alone, under the lock of the
// schedule's row; its primary key lets one call alone make it. What follows it
// knows that this very call made it by the transaction that stands in xmin. A
// schedule that was put back to a time already fired advances all the same.
const (
	lockSchedule = `SELECT 1 FROM pawl.schedules WHERE namespace=$1::text AND name=$2::text FOR UPDATE`

	// $2 namespace, $3 schedule, $4 at, $5 run or NULL, $6 seen or NULL.
	fireSchedule = `INSERT INTO pawl.firings (namespace, schedule, at, fired_at, run)
		SELECT s.namespace, s.name, s.next_at, ` + now + `, $5::uuid
		FROM pawl.schedules s WHERE s.namespace=$2::text AND s.name=$3::text AND s.next_at=$4::bigint AND $4::bigint<=` + now + `
			AND ($6::bigint IS NULL OR s.updated_at=$6::bigint)
			AND NOT EXISTS (SELECT 1 FROM pawl.runs r WHERE r.id=$5::uuid AND r.namespace<>$2::text)
		FOR UPDATE OF s ON CONFLICT DO NOTHING`

	// $1 to $17 are insertArgs, $18 namespace, $19 schedule, $20 at.
	fireRun = insertOne + ` WHERE EXISTS (SELECT 1 FROM pawl.firings f WHERE f.namespace=$18::text AND f.schedule=$19::text
		AND f.at=$20::bigint AND f.xmin=pg_current_xact_id_if_assigned()::xid) ON CONFLICT DO NOTHING`

	// The run was not made because another has its external id: that is the
	// firing's. It may have become final since. $1 namespace, $2 schedule, $3 at,
	// $4 run, $5 and $6 its external id and suffix.
	fireOther = `UPDATE pawl.firings f SET run=coalesce(
			(SELECT r.id FROM pawl.runs r WHERE r.namespace=$1::text AND r.external_id=$5::text AND r.suffix=$6::text
				AND r.external_id IS NOT NULL AND (r.status<6 OR r.reuse=1)),
			(SELECT r.id FROM pawl.runs r WHERE r.namespace=$1::text AND r.external_id=$5::text AND r.suffix=$6::text
				AND r.external_id IS NOT NULL AND r.status>=6 AND r.reuse=0 ORDER BY r.finished_at DESC LIMIT 1), f.run)
		WHERE f.namespace=$1::text AND f.schedule=$2::text AND f.at=$3::bigint AND f.xmin=pg_current_xact_id_if_assigned()::xid
			AND NOT EXISTS (SELECT 1 FROM pawl.runs r WHERE r.id=$4::uuid)`

	advanceSchedule = `UPDATE pawl.schedules s SET next_at=$4::bigint, last_at=s.next_at
		WHERE s.namespace=$1::text AND s.name=$2::text AND s.next_at=$3::bigint AND ($5::bigint IS NULL OR s.updated_at=$5::bigint)
			AND EXISTS (SELECT 1 FROM pawl.firings f WHERE f.namespace=$1::text AND f.schedule=$2::text AND f.at=$3::bigint)`

	forgetFirings = `DELETE FROM pawl.firings WHERE namespace=$1::text AND schedule=$2::text AND at IN (
			SELECT f.at FROM pawl.firings f WHERE f.namespace=$1::text AND f.schedule=$2::text AND f.at<$4::bigint ORDER BY f.at LIMIT $5::bigint)
		AND EXISTS (SELECT 1 FROM pawl.firings f WHERE f.namespace=$1::text AND f.schedule=$2::text AND f.at=$3::bigint)`

	// It always has one row.
	fireOutcome = `SELECT ` + now + `, s.name IS NOT NULL, s.next_at, s.updated_at, f.at, f.run FROM (VALUES (1)) one(x)
		LEFT JOIN pawl.schedules s ON s.namespace=$2::text AND s.name=$3::text
		LEFT JOIN pawl.firings f ON f.namespace=s.namespace AND f.schedule=s.name AND f.at=$4::bigint`
)

// Fire implements store.Schedules.
func (s *Store) Fire(ctx context.Context, p store.FireParams) (store.FireResult, error) {
	var res store.FireResult
	if err := p.Validate(s.config.limits); err != nil {
		return res, err
	}
	at := p.At.UnixMicro()
	var fired, made int64
	var run store.ID
	if p.Run != nil {
		run = p.Run.ID
		if err := s.ensureLanes(ctx, p.Namespace, []lane{{queue: p.Run.Queue, workflow: p.Run.Workflow, priority: int16(p.Run.Priority)}}); err != nil {
			return res, err
		}
	}
	stmts := []stmt{
		{sql: lockSchedule, args: []any{p.Namespace, p.Schedule}},
		{sql: fireSchedule, args: []any{setNow(p.Now), p.Namespace, p.Schedule, at, uuid(run), micros(p.Seen)}, affected: &fired},
	}
	if p.Run != nil {
		stmts = append(stmts, stmt{
			sql:  fireRun,
			args: append(insertArgs(setNow(p.Now), p.Namespace, p.Run, store.ID{}), p.Namespace, p.Schedule, at), affected: &made,
		})
		if p.Run.ExternalID != "" {
			stmts = append(stmts, stmt{
				sql: fireOther, args: []any{p.Namespace, p.Schedule, at, uuid(run), p.Run.ExternalID, p.Run.Suffix},
			})
		}
	}
	if !p.Forget.IsZero() {
		stmts = append(stmts, stmt{sql: forgetFirings, args: []any{p.Namespace, p.Schedule, at, p.Forget.UnixMicro(), int64(store.MaxForget)}})
	}
	var found bool
	var now, next, put, firedAt time.Time
	stmts = append(stmts,
		stmt{sql: advanceSchedule, args: []any{p.Namespace, p.Schedule, at, micros(p.Next), micros(p.Seen)}},
		stmt{
			sql: fireOutcome, args: []any{setNow(p.Now), p.Namespace, p.Schedule, at},
			rows: one(scanTime(&now), &found, scanTime(&next), scanTime(&put), scanTime(&firedAt), scanID(&res.Run)),
		})
	if err := s.write(ctx, stmts...); err != nil {
		return store.FireResult{}, err
	}
	switch {
	case !found:
		return res, notFound("schedule %q", p.Schedule)
	case firedAt.IsZero() && at > now.UnixMicro():
		return res, store.Invalid("fire time", fmt.Sprintf("%v is still to come; it is %v", p.At.UTC(), now))
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
		h.send(ctx, s)
	}
	return res, nil
}

// ListFirings implements store.Schedules.
func (s *Store) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
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
	err = s.read(ctx,
		stmt{
			sql: `SELECT 1 FROM pawl.schedules WHERE namespace=$1::text AND name=$2::text`, args: []any{p.Namespace, p.Schedule},
			rows: func(func(...any) error) error { found = true; return nil },
		},
		stmt{
			sql: `SELECT at, fired_at, run FROM pawl.firings WHERE namespace=$1::text AND schedule=$2::text AND at<$3::bigint
				ORDER BY at DESC LIMIT $4::bigint`,
			args: []any{p.Namespace, p.Schedule, before, int64(limit) + 1},
			rows: func(scan func(...any) error) error {
				var f store.Firing
				err := scan(scanTime(&f.At), scanTime(&f.FiredAt), scanID(&f.Run))
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
