package postgres

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/store"
)

// A signal goes to a run by id, or to the active one of an external id.
const (
	// lockTargets always gives one row, which begins a try of the transaction.
	lockTargets = `SELECT count(*) FROM (SELECT r.id FROM pawl.runs r WHERE r.namespace=$1::text
		AND r.id=ANY($2::uuid[] || ARRAY(SELECT (SELECT e.id FROM pawl.runs e WHERE e.namespace=$1::text AND e.external_id=t.ext
			AND e.suffix=t.suffix AND e.external_id IS NOT NULL AND e.status<6) FROM unnest($3::text[], $4::text[]) t(ext, suffix)))
		ORDER BY r.id FOR NO KEY UPDATE) l`

	// A row means that the run has the signal; without a queue it had it before.
	signalRun = `WITH t AS (SELECT id FROM pawl.runs WHERE id=$6::uuid AND namespace=$2::text AND status<6 FOR NO KEY UPDATE)` + putSignal
	signalExt = `WITH t AS (SELECT id FROM pawl.runs WHERE ` + activeExt + ` AND ` + unheard + ` FOR NO KEY UPDATE)` + putSignal
	activeExt = `namespace=$2::text AND external_id=$6::text AND suffix=$7::text AND external_id IS NOT NULL AND status<6`
	// unheard: none of those that have held the external id has had the signal.
	unheard = `NOT EXISTS (SELECT 1 FROM pawl.runs p WHERE p.namespace=$2::text AND p.external_id=$6::text AND p.suffix=$7::text AND p.external_id IS NOT NULL
		AND p.status>=6 AND p.reuse=0 AND p.parts & 4 <> 0 AND EXISTS (SELECT 1 FROM pawl.signals s WHERE s.run_id=p.id AND s.id=$3::uuid))`
	putSignal = `, ins AS (INSERT INTO pawl.signals (run_id, id, name, payload, sent_at)
			SELECT t.id, $3::uuid, $4::text, $5::bytea, ` + now + ` FROM t ON CONFLICT DO NOTHING RETURNING run_id),
		up AS (UPDATE pawl.runs r SET events=r.events+1, parts=r.parts | 4,
				visible_at=CASE WHEN r.status IN (3,4) AND r.wakes & 1 <> 0 THEN least(coalesce(r.visible_at, ` + now + `), ` + now + `) ELSE r.visible_at END
			FROM ins WHERE r.id=ANY(ARRAY[ins.run_id]) RETURNING r.id, r.queue, r.status=3 AND r.visible_at<=` + now + ` AS due)
		SELECT t.id, up.queue, up.due FROM t LEFT JOIN up ON true`

	// Why a signal was not stored: the run has had it, is final, or is not there.
	hadSignal   = `EXISTS (SELECT 1 FROM pawl.signals s WHERE s.run_id=r.id AND s.id=$1::uuid) AS had`
	signalFate  = `SELECT r.id, r.status, ` + hadSignal + ` FROM pawl.runs r WHERE r.namespace=$2::text AND r.id=$3::uuid`
	fateByExtID = `SELECT q.id, q.status, q.had FROM (
			SELECT r.id, r.status, r.reuse, r.created_at, ` + hadSignal + ` FROM pawl.runs r
				WHERE r.namespace=$2::text AND r.external_id=$3::text AND r.suffix=$4::text AND r.external_id IS NOT NULL AND (r.status<6 OR r.reuse=1)
			UNION ALL SELECT r.id, r.status, r.reuse, r.created_at, ` + hadSignal + ` FROM pawl.runs r
				WHERE r.namespace=$2::text AND r.external_id=$3::text AND r.suffix=$4::text AND r.external_id IS NOT NULL AND r.status>=6 AND r.reuse=0) q
		WHERE q.had OR q.status>=6 AND q.reuse=1 ORDER BY NOT q.had, q.created_at DESC, q.id DESC LIMIT 1`
)

// Signal implements store.Coordination.
func (s *Store) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := checkCall("signals", p.Signals, (*store.NewSignal).Size); err != nil {
		return nil, err
	}
	h, results, at := newHints(p.Namespace), make([]store.SignalResult, len(p.Signals)), setNow(p.Now)
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
		stmts = append(stmts, stmt{sql: sql, args: args, rows: func(scan func(...any) error) error {
			var queue *string
			var due *bool
			if err := scan(scanID(&res.Run), &queue, &due); err != nil {
				return err
			}
			stored[i] = true
			if queue != nil {
				h.event(res.Run)
				if due != nil && *due {
					h.queue(*queue)
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
		*h = *newHints(p.Namespace)
		return scan(&n)
	}}
	if err := s.write(ctx, stmts...); err != nil {
		return nil, err
	}
	h.send(ctx, s)
	var fates []stmt
	var again []int // whose run has become active since
	for i := range p.Signals {
		if g, res := &p.Signals[i], &results[i]; !stored[i] && res.Err == nil {
			fates = append(fates, fateOf(p.Namespace, g, res, func() { again = append(again, i) }))
		}
	}
	some := slices.Contains(stored, true)
	if err := s.read(ctx, fates...); err != nil {
		return nil, inPart(ctx, some, err)
	}
	if len(again) > 0 {
		rest := store.SignalParams{Namespace: p.Namespace, Now: p.Now}
		for _, i := range again {
			rest.Signals = append(rest.Signals, p.Signals[i])
		}
		more, err := s.Signal(ctx, rest)
		if err != nil {
			return nil, inPart(ctx, some, err)
		}
		for k, i := range again {
			results[i] = more[k]
		}
	}
	return results, nil
}

// fateOf asks why a signal was not stored.
func fateOf(namespace string, g *store.NewSignal, res *store.SignalResult, again func()) stmt {
	sql, args := signalFate, []any{uuid(g.ID), namespace, uuid(g.Run)}
	res.Run, res.Err = store.ID{}, notFound("run %v", g.Run)
	if g.Run.IsZero() {
		sql, args = fateByExtID, []any{uuid(g.ID), namespace, g.ExternalID, g.Suffix}
		res.Err = notFound("active run of external id %q", g.ExternalID)
	}
	return stmt{sql: sql, args: args, rows: func(scan func(...any) error) error {
		var id store.ID
		var status int16
		var had bool
		err := scan(scanID(&id), &status, &had)
		switch {
		case had:
			res.Run, res.Err = id, nil
		case store.Status(status).Final():
			res.Err = finished(id, store.Status(status))
		case err == nil:
			again()
		}
		return err
	}}
}

// wokenRow reads a run that an event has reached, and hints at it.
func wokenRow(scan func(...any) error, id *store.ID, h *hints, more ...any) error {
	var queue string
	var due *bool
	err := scan(append([]any{scanID(id), &queue, &due}, more...)...)
	h.event(*id)
	if due != nil && *due {
		h.queue(queue)
	}
	return err
}

const (
	signalColumns = `s.id, s.name, s.payload, s.sent_at, s.pos`
	stateColumns  = `s.key, s.value, s.version, s.updated_at`
	groupColumns  = `s.name, s.total, s.open, s.completed, s.failed, s.canceled`
)

func scanSignal(scan func(...any) error, first ...any) (s store.Signal, err error) {
	err = scan(append(first, scanID(&s.ID), &s.Name, &s.Payload, scanTime(&s.SentAt), &s.Position)...)
	return s, err
}

func scanGroup(scan func(...any) error, first ...any) (g store.Group, err error) {
	err = scan(append(first, &g.Name, &g.Total, &g.Open, &g.Completed, &g.Failed, &g.Canceled)...)
	return g, err
}

// What Inbox reads of a run, $1, up to $2 bytes.
var (
	inboxSignals = `SELECT s.fits, ` + whenFits(signalColumns, `s.payload`) + ` FROM ` + fitting(`
		SELECT s.*, coalesce(octet_length(s.payload), 0) AS size, row_number() OVER (ORDER BY s.pos) AS nth FROM (
			SELECT * FROM pawl.signals x WHERE x.run_id=$1::uuid AND NOT x.consumed AND x.pos>$3::bigint AND ($4::text='' OR x.name=$4::text)
			ORDER BY x.pos LIMIT 1001) s`, `1000`, `$2::bigint`) + ` ORDER BY s.pos`
	inboxState = readState(`true`, `1000`)
	// someState: the keys above $3, of a list $5 or ($4) all, up to $6 entries.
	someState   = readState(`x.key>$3::text AND ($4::bool OR x.key=ANY($5::text[]))`, `$6::bigint`)
	inboxGroups = `SELECT ` + groupColumns + ` FROM pawl.groups s WHERE s.run_id=$1::uuid AND s.name>$2::text AND ($3::text='' OR s.name=$3::text)
		ORDER BY s.name LIMIT 1001`
)

func readState(which, most string) string {
	return `SELECT s.fits, ` + whenFits(stateColumns, `s.value`) + ` FROM ` + fitting(`
		SELECT s.*, coalesce(octet_length(s.value), 0) AS size, row_number() OVER (ORDER BY s.key) AS nth FROM (
			SELECT * FROM pawl.state x WHERE x.run_id=$1::uuid AND `+which+` ORDER BY x.key LIMIT `+most+`+1) s`, most, `$2::bigint`) + ` ORDER BY s.key`
}

// Inbox implements store.Coordination.
func (s *Store) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	var in store.Inbox
	if err := p.Validate(); err != nil {
		return in, err
	}
	var status int16
	var fits bool
	run, bytes := uuid(p.Run), atMost(p.MaxBytes)
	stmts := []stmt{
		{
			sql:  `SELECT status, events FROM pawl.runs WHERE id=$1::uuid AND namespace=$2::text`,
			args: []any{run, p.Namespace}, rows: one(&status, &in.Events),
		},
		{
			sql: inboxSignals, args: []any{run, bytes, p.After, p.Name},
			rows: func(scan func(...any) error) error {
				g, err := scanSignal(scan, &fits)
				keep(&in.Signals, &in.MoreSignals, g, fits)
				return err
			},
		},
		{
			sql: inboxGroups, args: []any{run, p.AfterGroup, p.Group},
			rows: func(scan func(...any) error) error {
				g, err := scanGroup(scan)
				keep(&in.Groups, &in.MoreGroups, g, len(in.Groups) < store.MaxPage)
				return err
			},
		},
	}
	if !p.NoState {
		stmts = append(stmts, stmt{
			sql: inboxState, args: []any{run, bytes},
			rows: func(scan func(...any) error) error {
				e, err := scanEntry(scan, &fits)
				keep(&in.State, &in.MoreState, e, fits)
				return err
			},
		})
	}
	err := s.read(ctx, stmts...)
	if err == nil && status == 0 {
		return store.Inbox{}, notFound("run %v", p.Run)
	}
	in.Status = store.Status(status)
	return in, err
}
