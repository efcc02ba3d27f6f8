package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

// A signal goes to a run by id, or to the active one of an external id.
const (
	toRun      = `?`
	toExternal = `(SELECT id FROM runs WHERE namespace=? AND external_id=? AND suffix=? AND external_id IS NOT NULL AND status<6)`
	// unheard: none of those that have held the external id has had the signal.
	unheard = ` AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.namespace=? AND p.external_id=? AND p.suffix=? AND p.external_id IS NOT NULL AND p.status>=6 AND p.reuse=0
		AND p.parts & 4 AND EXISTS (SELECT 1 FROM signals s WHERE s.run_id=p.id AND s.id=?))`

	// wake makes a sleeping run due; a paused one will be, once it is resumed.
	wake = `visible_at=CASE WHEN status IN (3,4) AND wakes & ? THEN min(coalesce(visible_at, ?), ?) ELSE visible_at END`

	insertSignal = `INSERT INTO signals (run_id, id, pos, name, payload, sent_at) SELECT r.id, ?, r.events+1, ?, ?, ?
		FROM runs r WHERE r.status<6 AND r.namespace=? AND r.id=`
	signalEvent = `UPDATE runs SET events=events+1, parts=parts | 4, ` + wake + ` WHERE changes()=1 AND status<6 AND id=`
	signalRun   = insertSignal + toRun + ` ON CONFLICT DO NOTHING`
	signalExt   = insertSignal + toExternal + unheard + ` ON CONFLICT DO NOTHING`
	eventRun    = signalEvent + toRun + ` RETURNING id, queue, status=3 AND visible_at<=?`
	eventExt    = signalEvent + toExternal + ` RETURNING id, queue, status=3 AND visible_at<=?`

	// Why a signal was not stored: the run has had it, is final, or is not there.
	hadSignal   = `EXISTS (SELECT 1 FROM signals WHERE run_id=runs.id AND id=?)`
	signalFate  = `SELECT id, status, ` + hadSignal + ` FROM runs WHERE id=? AND namespace=?`
	signalPast  = `SELECT id, status, had FROM (SELECT id, status, reuse, created_at, ` + hadSignal + ` AS had FROM runs WHERE `
	fateByExtID = signalPast + `namespace=? AND external_id=? AND suffix=? AND ` + holds + `
		UNION ALL SELECT id, status, reuse, created_at, ` + hadSignal + ` FROM runs WHERE namespace=? AND external_id=? AND suffix=? AND ` + held + `)
		WHERE had OR status>=6 AND reuse=1 ORDER BY NOT had, created_at DESC, id DESC LIMIT 1`
)

// Signal implements store.Coordination.
func (c *Core) Signal(ctx context.Context, p store.SignalParams) ([]store.SignalResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return nil, err
	}
	h, results := newHints(p.Namespace), make([]store.SignalResult, len(p.Signals))
	var stmts []Stmt
	for i := range p.Signals {
		s, res := &p.Signals[i], &results[i]
		if res.Err = s.Validate(c.config.Limits); res.Err != nil {
			continue
		}
		insert, event, fate := signalRun, eventRun, signalFate
		target, fateArgs := []any{s.Run[:]}, []any{s.ID[:], s.Run[:], p.Namespace}
		res.Err = notFound("run %v", s.Run)
		if s.Run.IsZero() {
			insert, event, fate = signalExt, eventExt, fateByExtID
			target = []any{p.Namespace, s.ExternalID, s.Suffix}
			fateArgs = append(append([]any{s.ID[:]}, target...), append([]any{s.ID[:]}, target...)...)
			res.Err = notFound("active run of external id %q", s.ExternalID)
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
					err := wokenRow(scan, &res.Run, h)
					stored, res.Err = true, nil
					return err
				},
			},
			Stmt{SQL: fate, Args: fateArgs, Unneeded: func() bool { return stored }, Rows: func(scan func(...any) error) error {
				var id store.ID
				var status store.Status
				var had bool
				err := scan(scanID{&id}, &status, &had)
				switch {
				case stored:
				case had:
					res.Run, res.Err = id, nil
				case status.Final():
					res.Err = finished(id, status)
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
	h.send(c)
	return results, nil
}

// wokenRow reads a run that an event has reached, and hints at it.
func wokenRow(scan func(...any) error, id *store.ID, h *hints, more ...any) error {
	var queue string
	var due *bool
	err := scan(append([]any{scanID{id}, &queue, &due}, more...)...)
	h.event(*id)
	if due != nil && *due {
		h.queue(queue)
	}
	return err
}

func scanSignal(scan func(...any) error, first ...any) (s store.Signal, err error) {
	err = scan(append(first, scanID{&s.ID}, &s.Name, scanBlob{&s.Payload}, scanTime{&s.SentAt}, &s.Position)...)
	return s, err
}

func scanGroup(scan func(...any) error, first ...any) (g store.Group, err error) {
	err = scan(append(first, &g.Name, &g.Total, &g.Open, &g.Completed, &g.Failed, &g.Canceled)...)
	return g, err
}

// What Inbox reads of a run, ?1, up to ?2 bytes.
var (
	inboxSignals = `WITH item AS (SELECT *, row_number() OVER (ORDER BY pos) AS nth FROM (
			SELECT id, pos, coalesce(length(payload), 0) AS size FROM signals
			WHERE run_id=?1 AND consumed=0 AND pos>?3 AND (?4='' OR name=?4) ORDER BY pos LIMIT 1001+0))` + fitting(`pos`, 1, `1000`, `?2`) + `
		SELECT z.fits, s.id, s.name, iif(z.fits, s.payload, NULL), s.sent_at, s.pos FROM fit z CROSS JOIN signals s ON s.run_id=?1 AND s.id=z.id ORDER BY s.pos`
	inboxState = `WITH item AS (SELECT *, row_number() OVER (ORDER BY key) AS nth FROM (
			SELECT key, coalesce(length(value), 0) AS size FROM state WHERE run_id=?1 ORDER BY key LIMIT 1001+0))` + fitting(`key`, 1, `1000`, `?2`) + stateThatFits
	// someState: the keys above ?3, of a list ?5 or (?4) all, up to ?6 entries.
	someState = `WITH item AS (SELECT *, row_number() OVER (ORDER BY key) AS nth FROM (
			SELECT key, coalesce(length(value), 0) AS size FROM state
			WHERE run_id=?1 AND key>?3 AND (?4 OR key IN (SELECT value FROM json_each(?5))) ORDER BY key LIMIT ?6+0))` + fitting(`key`, 1, `?6`, `?2`) + stateThatFits
	stateThatFits = `
		SELECT z.fits, s.key, iif(z.fits, s.value, NULL), s.version, s.updated_at FROM fit z CROSS JOIN state s ON s.run_id=?1 AND s.key=z.key ORDER BY s.key`
	inboxGroups = `SELECT name, total, open, completed, failed, canceled FROM groups WHERE run_id=?1 AND name>?2 ORDER BY name LIMIT 1001+0`
	inboxGroup  = `SELECT name, total, open, completed, failed, canceled FROM groups WHERE run_id=?1 AND name>?2 AND name=?3`
)

// Inbox implements store.Coordination.
func (c *Core) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	var in store.Inbox
	if err := p.Validate(); err != nil {
		return in, err
	}
	var parts int64
	var fits bool
	without := func(part int64) func() bool { return func() bool { return parts&part == 0 } }
	run, bytes := p.Run[:], atMost(p.MaxBytes)
	stmts := []Stmt{
		{
			SQL: `SELECT status, events, parts FROM runs WHERE id=? AND namespace=?`, Args: []any{run, p.Namespace},
			Rows: one(&in.Status, &in.Events, &parts),
		},
		{
			SQL: inboxSignals, Args: []any{run, bytes, p.After, p.Name}, Unneeded: without(partSignals),
			Rows: func(scan func(...any) error) error {
				s, err := scanSignal(scan, &fits)
				keep(&in.Signals, &in.MoreSignals, s, fits)
				return err
			},
		},
	}
	if !p.NoState {
		stmts = append(stmts, Stmt{
			SQL: inboxState, Args: []any{run, bytes}, Unneeded: without(partState),
			Rows: func(scan func(...any) error) error {
				e, err := scanEntry(scan, &fits)
				keep(&in.State, &in.MoreState, e, fits)
				return err
			},
		})
	}
	groups := Stmt{
		SQL: inboxGroups, Args: []any{run, p.AfterGroup}, Unneeded: without(partGroups),
		Rows: func(scan func(...any) error) error {
			g, err := scanGroup(scan)
			keep(&in.Groups, &in.MoreGroups, g, len(in.Groups) < store.MaxPage)
			return err
		},
	}
	if p.Group != "" {
		groups.SQL, groups.Args = inboxGroup, append(groups.Args, p.Group)
	}
	err := c.read(ctx, append(stmts, groups)...)
	if err == nil && in.Status == 0 {
		return store.Inbox{}, notFound("run %v", p.Run)
	}
	return in, err
}
