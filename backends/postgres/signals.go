package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A signal is sent to a run by its id, or to the active run of an external id.
var (
	// lockTargets always returns one row, which begins a try of the transaction.
	lockTargets = sqlkit.Text(`SELECT count(*) FROM (SELECT r.id FROM pawl.runs r WHERE r.namespace=$1::text
		AND r.id=ANY($2::uuid[] || ARRAY(SELECT (SELECT e.id FROM pawl.runs e WHERE e.namespace=$1::text AND e.external_id=t.ext
			AND e.suffix=t.suffix AND e.external_id IS NOT NULL AND e.status<{final}) FROM unnest($3::text[], $4::text[]) t(ext, suffix)))
		ORDER BY r.id FOR NO KEY UPDATE) l`)

	// A row means that the run has the signal; without a queue it already had it.
	// Parameters: $1 now, $2 namespace, $3 signal, $4 name, $5 payload, $6 run; or $6
	// external id, $7 suffix.
	signalRun = sqlkit.Text(`WITH t AS (SELECT id FROM pawl.runs WHERE id=$6::uuid AND namespace=$2::text AND status<{final} FOR NO KEY UPDATE)` + putSignal)
	signalExt = `WITH t AS (SELECT id FROM pawl.runs WHERE ` + activeExt + ` AND ` + unheard + ` FOR NO KEY UPDATE)` + putSignal
	// The same with the action as the last parameter.
	signalRunRecorded = recordedSignal(signalRun, `$7::text`)
	signalExtRecorded = recordedSignal(signalExt, `$8::text`)
	activeExt         = sqlkit.Text(`namespace=$2::text AND external_id=$6::text AND suffix=$7::text AND external_id IS NOT NULL AND status<{final}`)
	// unheard requires that no run that has held the external id has received the signal.
	unheard = sqlkit.Text(`NOT EXISTS (SELECT 1 FROM pawl.runs p WHERE p.namespace=$2::text AND p.external_id=$6::text AND p.suffix=$7::text AND p.external_id IS NOT NULL
		AND p.status>={final} AND p.reuse={reuseAfterEnd} AND p.parts & {partSignals} <> 0 AND EXISTS (SELECT 1 FROM pawl.signals s WHERE s.run_id=p.id AND s.id=$3::uuid))`)
	putSignal = sqlkit.Text(`, ins AS (INSERT INTO pawl.signals (run_id, id, name, payload, sent_at)
			SELECT t.id, $3::uuid, $4::text, $5::bytea, ` + now + ` FROM t ON CONFLICT DO NOTHING RETURNING run_id),
		up AS (UPDATE pawl.runs r SET events=r.events+1, parts=r.parts | {partSignals},
				visible_at=CASE WHEN r.status IN ({sleeping},{paused}) AND r.wakes & {wakeSignal} <> 0 THEN least(coalesce(r.visible_at, ` + now + `), ` + now + `) ELSE r.visible_at END
			FROM ins WHERE r.id=ANY(ARRAY[ins.run_id]) RETURNING r.id, r.queue, r.status={sleeping} AND r.visible_at<=` + now + ` AS due)
		` + signaled)
	signaled = `SELECT t.id, up.queue, up.due FROM t LEFT JOIN up ON true`

	// Why a signal was not stored: the run has already had it, is final, or does not
	// exist.
	hadSignal   = `EXISTS (SELECT 1 FROM pawl.signals s WHERE s.run_id=r.id AND s.id=$1::uuid) AS had`
	signalFate  = `SELECT r.id, r.status, ` + hadSignal + ` FROM pawl.runs r WHERE r.namespace=$2::text AND r.id=$3::uuid`
	fateByExtID = sqlkit.Text(`SELECT q.id, q.status, q.had FROM (
			SELECT r.id, r.status, r.reuse, r.created_at, ` + hadSignal + ` FROM pawl.runs r
				WHERE r.namespace=$2::text AND r.external_id=$3::text AND r.suffix=$4::text AND r.external_id IS NOT NULL AND (r.status<{final} OR r.reuse={reuseNever})
			UNION ALL SELECT r.id, r.status, r.reuse, r.created_at, ` + hadSignal + ` FROM pawl.runs r
				WHERE r.namespace=$2::text AND r.external_id=$3::text AND r.suffix=$4::text AND r.external_id IS NOT NULL AND r.status>={final} AND r.reuse={reuseAfterEnd}) q
		WHERE q.had OR q.status>={final} AND q.reuse={reuseNever} ORDER BY NOT q.had, q.created_at DESC, q.id DESC LIMIT 1`)
)

// recordedSignal adds to the statement of a signal that it records an action.
func recordedSignal(sql, actions string) string {
	rec := sqlkit.ActionInsert{Namespace: `$2::text`, Now: now, Actions: actions, Run: `coalesce(a.run, ins.run_id)`, Outcome: sqlkit.WasDone, Rest: `CROSS JOIN ins`}
	return strings.Replace(sql, signaled, `, rec AS (`+rec.Text(sqlkit.PostgreSQL)+`) `+signaled, 1)
}

// Signal implements store.Coordination.
func (s *Store) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := checkCall("signals", p.Signals, (*store.NewSignal).Size); err != nil {
		return nil, err
	}
	h, results, at := sqlkit.NewHints(p.Namespace), make([]store.SignalResult, len(p.Signals)), setNow(p.Now)
	stored := make([]bool, len(p.Signals))
	var ids []store.ID
	externals, suffixes := []string{}, []string{}
	stmts := make([]stmt, 1, len(p.Signals)+1)
	for i := range p.Signals {
		g, res := &p.Signals[i], &results[i]
		if res.Err = g.Validate(s.config.limits); res.Err != nil {
			continue
		}
		sql, args := signalRun, []any{at, p.Namespace, uuid(g.ID), g.Name, g.Payload}
		if g.Run.IsZero() {
			sql, args = signalExt, append(args, g.ExternalID, g.Suffix)
			externals, suffixes = append(externals, g.ExternalID), append(suffixes, g.Suffix)
		} else {
			args = append(args, uuid(g.Run))
			ids = append(ids, g.Run)
		}
		if len(p.Record) > 0 {
			sql, args = map[bool]string{true: signalExtRecorded, false: signalRunRecorded}[g.Run.IsZero()], append(args, sqlkit.ActionsText(p.Record[i:i+1], "", nil, nil))
		}
		stmts = append(stmts, stmt{sql: sql, args: args, rows: func(scan func(...any) error) error {
			var queue *string
			var due *bool
			if err := scan(sqlkit.ID(&res.Run), &queue, &due); err != nil {
				return err
			}
			stored[i] = true
			if queue != nil {
				woken := due != nil && *due
				h.Event(res.Run, !woken)
				if woken {
					h.Queue(*queue)
				}
			}
			return nil
		}})
	}
	if len(stmts) == 1 {
		return results, nil
	}
	stmts[0] = stmt{sql: lockTargets, args: []any{p.Namespace, uuids(ids), externals, suffixes}, rows: func(scan func(...any) error) error {
		var n int64
		clear(stored)
		h.Reset()
		return scan(&n)
	}}
	if err := s.write(ctx, stmts...); err != nil {
		return nil, err
	}
	s.publishAll(h)
	var fates []stmt
	var again []int // signals whose run has become active since
	for i := range p.Signals {
		if g, res := &p.Signals[i], &results[i]; !stored[i] && res.Err == nil {
			fates = append(fates, fateOf(p.Namespace, g, res, func() { again = append(again, i) }))
		}
	}
	some := slices.Contains(stored, true)
	if err := s.read(ctx, fates...); err != nil {
		return nil, inPart(ctx, some, err)
	}
	if err := s.signalAgain(ctx, p, again, results); err != nil {
		return nil, inPart(ctx, some, err)
	}
	return results, nil
}

// signalAgain sends those signals of a call again whose indexes it gets, and sets their results.
func (s *Store) signalAgain(ctx context.Context, p store.SignalParams, again []int, results []store.SignalResult) error {
	if len(again) == 0 {
		return nil
	}
	rest := store.SignalParams{Namespace: p.Namespace, Now: p.Now}
	for _, i := range again {
		rest.Signals = append(rest.Signals, p.Signals[i])
		if len(p.Record) > 0 {
			rest.Record = append(rest.Record, p.Record[i])
		}
	}
	more, err := s.Signal(ctx, rest)
	if err != nil {
		return err
	}
	for k, i := range again {
		results[i] = more[k]
	}
	return nil
}

// fateOf returns the statement that asks why a signal was not stored.
func fateOf(namespace string, g *store.NewSignal, res *store.SignalResult, again func()) stmt {
	sql, args := signalFate, []any{uuid(g.ID), namespace, uuid(g.Run)}
	res.Run, res.Err = store.ID{}, sqlkit.NotFound("run %v", g.Run)
	if g.Run.IsZero() {
		sql, args = fateByExtID, []any{uuid(g.ID), namespace, g.ExternalID, g.Suffix}
		res.Err = sqlkit.NotFound("active run of external id %q", g.ExternalID)
	}
	return stmt{sql: sql, args: args, rows: func(scan func(...any) error) error {
		var id store.ID
		var status int16
		var had bool
		err := scan(sqlkit.ID(&id), &status, &had)
		switch {
		case had:
			res.Run, res.Err = id, nil
		case store.Status(status).Final():
			res.Err = sqlkit.Finished(id, store.Status(status))
		case err == nil:
			again()
		}
		return err
	}}
}
