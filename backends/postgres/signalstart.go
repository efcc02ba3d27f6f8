package postgres

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// Starts with signals are created together with the other runs of the call, by the same insert. It
// waits for others that create or end a run of the same external id, so that afterwards either this
// transaction holds the id or another run does, which a later statement sees.
var (
	// undoHeard deletes again those of the runs that were just created (stamp $4) whose signal has
	// reached another run of the external id before, and the changes that tell of them. No reader has
	// seen them. It comes after the insert: from then on no other run gets the external id, so that all
	// that has reached one before is visible. Parameters: $1 namespace, $2 ids, $3 signals.
	undoHeard = sqlkit.Text(`WITH gone AS (DELETE FROM pawl.runs r USING unnest($2::uuid[], $3::uuid[]) t(id, signal)
		WHERE r.id=t.id AND r.namespace=$1::text AND r.stamp=$4::bigint
			AND EXISTS (SELECT 1 FROM pawl.runs p WHERE p.namespace=$1::text AND p.external_id=r.external_id AND p.suffix=r.suffix AND p.external_id IS NOT NULL
				AND p.status>={final} AND p.reuse={reuseAfterEnd} AND p.parts & {partSignals} <> 0 AND EXISTS (SELECT 1 FROM pawl.signals s WHERE s.run_id=p.id AND s.id=t.signal))
		RETURNING r.id), untold AS (DELETE FROM pawl.changes c WHERE c.run_id=ANY(ARRAY(SELECT id FROM gone)))
		SELECT id FROM gone`)

	// startSignal is signalExt for runs of workflow $8.
	startSignal = `WITH t AS (SELECT id FROM pawl.runs WHERE ` + activeExt + ` AND workflow=$8::text AND ` + unheard + ` FOR NO KEY UPDATE)` + putSignal

	// startFate reads the run that is in the way of a start with a signal: one that has had the signal
	// (rank 0), the holder of the external id, or the run with the same id. Parameters: $1 signal, $2
	// namespace, $3 external id, $4 suffix, $5 id.
	startFate = startMet(`0`, ofExt+` AND (r.status<{final} OR r.reuse={reuseNever}) AND `+hasSignal) +
		` UNION ALL ` + startMet(`0`, ofExt+` AND r.status>={final} AND r.reuse={reuseAfterEnd} AND `+hasSignal) +
		` UNION ALL ` + startMet(`1`, ofExt+` AND (r.status<{final} OR r.reuse={reuseNever})`) +
		` UNION ALL ` + startMet(`2`, `r.id=$5::uuid`) + ` ORDER BY 1, 6 DESC, 2 DESC LIMIT 1`
	ofExt     = `r.namespace=$2::text AND r.external_id=$3::text AND r.suffix=$4::text AND r.external_id IS NOT NULL`
	hasSignal = `EXISTS (SELECT 1 FROM pawl.signals s WHERE s.run_id=r.id AND s.id=$1::uuid)`
)

func startMet(rank, where string) string {
	return sqlkit.Text(`SELECT ` + rank + `::bigint, r.id, r.namespace, r.workflow, r.status::bigint, r.created_at FROM pawl.runs r WHERE ` + where)
}

// stamped returns an insert of runs that leaves a stamp on each, its nth parameter.
func stamped(insert string, n int) string {
	insert = strings.Replace(insert, `INSERT INTO pawl.runs (id,`, `INSERT INTO pawl.runs (stamp, id,`, 1)
	return strings.Replace(insert, `SELECT t.id,`, `SELECT $`+strconv.Itoa(n)+`::bigint, t.id,`, 1)
}

// signals reports whether one of the runs has a signal.
func signals(p *store.CreateParams, which []int) bool {
	return slices.ContainsFunc(which, func(i int) bool { return p.Runs[i].Signal != nil })
}

// insertSignaled inserts runs as insertRuns does, and delivers the signals of those that have one, in
// one transaction. insert fills made.
func (s *Store) insertSignaled(ctx context.Context, p *store.CreateParams, which []int, insert stmt, made map[store.ID]madeRun, got *startSignals, more []stmt) error {
	stamp := rand.Int64()
	var externals, suffixes []string
	var ids, sigs []pgtype.UUID
	var send []stmt
	now := setNow(p.Now)
	for _, i := range which {
		r := &p.Runs[i]
		if r.Signal == nil {
			continue
		}
		externals, suffixes = append(externals, r.ExternalID), append(suffixes, r.Suffix)
		ids, sigs = append(ids, uuid(r.ID)), append(sigs, uuid(r.Signal.ID))
		args := []any{now, p.Namespace, uuid(r.Signal.ID), r.Signal.Name, r.Signal.Payload, r.ExternalID, r.Suffix, r.Workflow}
		send = append(send, stmt{sql: startSignal, args: args, rows: func(scan func(...any) error) error {
			var to delivery
			if err := scan(sqlkit.ID(&to.run), &to.queue, &to.due); err != nil {
				return err
			}
			got.to[i] = to
			return nil
		}})
	}
	lock := stmt{sql: lockTargets, args: []any{p.Namespace, uuids(nil), externals, suffixes}, rows: func(scan func(...any) error) error {
		var n int64
		clear(made)
		clear(got.to)
		return scan(&n)
	}}
	insert.args = append(insert.args, stamp)
	insert.sql = stamped(insert.sql, len(insert.args))
	undo := stmt{sql: undoHeard, args: []any{p.Namespace, ids, sigs, stamp}, rows: func(scan func(...any) error) error {
		var id store.ID
		err := scan(sqlkit.ID(&id))
		delete(made, id)
		return err
	}}
	return s.write(ctx, slices.Concat([]stmt{lock, insert, undo}, send, more)...)
}

// startSignals says which runs have the signals of a call, by the index of the start.
type startSignals struct{ to map[int]delivery }

// delivery is the run that has a signal; without a queue it had it already.
type delivery struct {
	run   store.ID
	queue *string
	due   *bool
}

// result returns the result of a start whose signal was delivered to a run that existed, and hints at
// that run.
func (d *delivery) result(r *store.NewRun, h *sqlkit.Hints) store.CreateResult {
	if d.queue != nil {
		woken := d.due != nil && *d.due
		h.Event(d.run, !woken)
		if woken {
			h.Queue(*d.queue)
		}
	}
	res, _ := r.Reaches(store.Found{ID: d.run, Workflow: r.Workflow, Holds: true})
	return res
}

// meetAll is meet for runs of which some have signals.
func (s *Store) meetAll(ctx context.Context, p *store.CreateParams, which []int, results []store.CreateResult) (left []int, err error) {
	var plain, signaled []int
	for _, i := range which {
		if p.Runs[i].Signal != nil {
			signaled = append(signaled, i)
		} else {
			plain = append(plain, i)
		}
	}
	if len(plain) > 0 {
		if left, err = s.meet(ctx, p, plain, results); err != nil {
			return nil, err
		}
	}
	more, err := s.startFates(ctx, p, signaled, results)
	return append(left, more...), err
}

// startFates sets the results of starts whose signal was not delivered, and returns those that are to
// be sent again.
func (s *Store) startFates(ctx context.Context, p *store.CreateParams, which []int, results []store.CreateResult) ([]int, error) {
	var stmts []stmt
	open := map[int]bool{}
	for _, i := range which {
		r := &p.Runs[i]
		open[i] = true
		stmts = append(stmts, stmt{sql: startFate, args: []any{uuid(r.Signal.ID), p.Namespace, r.ExternalID, r.Suffix, uuid(r.ID)}, rows: func(scan func(...any) error) error {
			var met sqlkit.StartMet
			err := met.Scan(scan)
			if err == nil && !met.Again(p.Namespace, r) {
				open[i], results[i] = false, met.By(p.Namespace, r)
			}
			return err
		}})
	}
	err := s.read(ctx, stmts...)
	return slices.DeleteFunc(slices.Clone(which), func(i int) bool { return !open[i] }), err
}
