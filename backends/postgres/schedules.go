package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A firing is inserted only for the schedule's next time, under the lock of the schedule's row; its
// primary key allows only one call to create it. Later statements know from the transaction number
// in xmin that this call created it. A schedule that was put back to a time that has already fired
// advances anyway.
var (
	lockSchedule = `SELECT 1 FROM pawl.schedules WHERE namespace=$1::text AND name=$2::text FOR UPDATE`

	// $2 namespace, $3 schedule, $4 at, $5 run or NULL, $6 seen or NULL.
	fireSchedule = `INSERT INTO pawl.firings (namespace, schedule, at, fired_at, run)
		SELECT s.namespace, s.name, s.next_at, ` + now + `, $5::uuid
		FROM pawl.schedules s WHERE s.namespace=$2::text AND s.name=$3::text AND s.next_at=$4::bigint AND $4::bigint<=` + now + `
			AND ($6::bigint IS NULL OR s.updated_at=$6::bigint)
			AND NOT EXISTS (SELECT 1 FROM pawl.runs r WHERE r.id=$5::uuid AND r.namespace<>$2::text)
		FOR UPDATE OF s ON CONFLICT DO NOTHING`

	// $1 to $19 are insertArgs, $20 namespace, $21 schedule, $22 at.
	fireRun = insertOne + ` WHERE EXISTS (SELECT 1 FROM pawl.firings f WHERE f.namespace=$20::text AND f.schedule=$21::text
		AND f.at=$22::bigint AND f.xmin=pg_current_xact_id_if_assigned()::xid) ON CONFLICT DO NOTHING`

	// The run was not created because another one has its external id: that one is the
	// firing's run. It may have become final since. $1 namespace, $2 schedule, $3 at, $4
	// run, $5 and $6 its external id and suffix.
	fireOther = sqlkit.Text(`UPDATE pawl.firings f SET run=coalesce(
			(SELECT r.id FROM pawl.runs r WHERE r.namespace=$1::text AND r.external_id=$5::text AND r.suffix=$6::text
				AND r.external_id IS NOT NULL AND (r.status<{final} OR r.reuse={reuseNever})),
			(SELECT r.id FROM pawl.runs r WHERE r.namespace=$1::text AND r.external_id=$5::text AND r.suffix=$6::text
				AND r.external_id IS NOT NULL AND r.status>={final} AND r.reuse={reuseAfterEnd} ORDER BY r.finished_at DESC LIMIT 1), f.run)
		WHERE f.namespace=$1::text AND f.schedule=$2::text AND f.at=$3::bigint AND f.xmin=pg_current_xact_id_if_assigned()::xid
			AND NOT EXISTS (SELECT 1 FROM pawl.runs r WHERE r.id=$4::uuid)`)

	advanceSchedule = `UPDATE pawl.schedules s SET next_at=$4::bigint, last_at=s.next_at
		WHERE s.namespace=$1::text AND s.name=$2::text AND s.next_at=$3::bigint AND ($5::bigint IS NULL OR s.updated_at=$5::bigint)
			AND EXISTS (SELECT 1 FROM pawl.firings f WHERE f.namespace=$1::text AND f.schedule=$2::text AND f.at=$3::bigint)`

	forgetFirings = `DELETE FROM pawl.firings WHERE namespace=$1::text AND schedule=$2::text AND at IN (
			SELECT f.at FROM pawl.firings f WHERE f.namespace=$1::text AND f.schedule=$2::text AND f.at<$4::bigint ORDER BY f.at LIMIT $5::bigint)
		AND EXISTS (SELECT 1 FROM pawl.firings f WHERE f.namespace=$1::text AND f.schedule=$2::text AND f.at=$3::bigint)`

	// It always has one row. $2 namespace, $3 schedule, $4 at, $5 run or NULL.
	fireOutcome = `SELECT ` + now + `, s.name IS NOT NULL, s.next_at, s.updated_at, f.at, f.run,
		EXISTS (SELECT 1 FROM pawl.runs r WHERE r.id=$5::uuid AND r.namespace<>$2::text) FROM (VALUES (1)) one(x)
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
		if err := s.ensureSpace(ctx, p.Namespace, len(p.Run.Under) > 0); err != nil {
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
	var outcome sqlkit.FireOutcome
	var now time.Time
	var foreign bool
	stmts = append(stmts,
		stmt{sql: advanceSchedule, args: []any{p.Namespace, p.Schedule, at, micros(p.Next), micros(p.Seen)}},
		stmt{
			sql: fireOutcome, args: []any{setNow(p.Now), p.Namespace, p.Schedule, at, uuid(run)},
			rows: sqlkit.One(sqlkit.Time(&now), &outcome.Found, sqlkit.Time(&outcome.Next), sqlkit.Time(&outcome.Put), sqlkit.Time(&outcome.FiredAt), sqlkit.ID(&res.Run), &foreign),
		})
	for {
		if err := s.write(ctx, stmts...); err != nil {
			return store.FireResult{}, err
		}
		err := outcome.Err(&p, run, now)
		if errors.Is(err, store.ErrAlreadyExists) && !foreign {
			continue // the schedule was put after the firing was refused
		}
		if err != nil {
			return res, err
		}
		break
	}
	res.Fired, res.Made = fired == 1, made == 1
	if made == 1 {
		h := sqlkit.NewHints(p.Namespace)
		h.Queue(p.Run.Queue)
		s.publishAll(h)
	}
	return res, nil
}
