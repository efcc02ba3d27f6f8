package sqlitecore

import (
	"cmp"
	"context"
	"math"

	"github.com/pawlhq/pawl/store"
)

// A write's version is the run's event count after it: the write before in the
// list has counted all of the list's writes already.
const (
	writeState = `INSERT INTO state (run_id, key, value, version, updated_at) SELECT r.id, ?, ?, r.events-?, ? FROM runs r WHERE r.id=? AND r.stamp=?
		ON CONFLICT DO UPDATE SET value=excluded.value, version=excluded.version, updated_at=excluded.updated_at`
	deleteState = `DELETE FROM state WHERE run_id=? AND key=? AND` + applied
)

// putState adds the writes of a list whose first statement has left its stamp.
func putState(stmts []Stmt, id store.ID, stamp int64, writes []store.StateWrite, now int64, unneeded func() bool) []Stmt {
	for i := range writes {
		w := &writes[i]
		if w.Delete {
			stmts = append(stmts, Stmt{SQL: deleteState, Args: []any{id[:], w.Key, id[:], stamp}, Unneeded: unneeded})
			continue
		}
		later := int64(len(writes) - 1 - i)
		stmts = append(stmts, Stmt{SQL: writeState, Args: []any{w.Key, blob(w.Value), later, now, id[:], stamp}, Unneeded: unneeded})
	}
	return stmts
}

// stateEvent counts the writes if all comparisons hold, which are a JSON list.
const stateEvent = `UPDATE runs SET events=events+?, stamp=?, parts=parts | 2, ` + wake + `
	WHERE id=? AND namespace=? AND status<6 AND NOT EXISTS (SELECT 1 FROM json_each(?) j
		WHERE coalesce((SELECT version FROM state WHERE run_id=runs.id AND key=j.value->>'k'), 0)<>j.value->>'v')
	RETURNING id, queue, status=3 AND visible_at<=?, events`

// SetState implements store.Coordination.
func (c *Core) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	if err := p.Validate(c.config.Limits); err != nil {
		return nil, err
	}
	now, err := c.now(ctx, p.Now)
	if err != nil {
		return nil, err
	}
	type comparison struct {
		K string `json:"k"`
		V int64  `json:"v"`
	}
	compare := []comparison{}
	for _, w := range p.Writes {
		if w.IfVersion != nil {
			compare = append(compare, comparison{w.Key, *w.IfVersion})
		}
	}
	var id store.ID
	var events int64
	h, stamp, done := newHints(p.Namespace), newStamp(), false
	missed := func() bool { return !done }
	result := notFound("run %v", p.Run)
	stmts := []Stmt{{
		SQL: stateEvent,
		Args: []any{int64(len(p.Writes)), stamp, flag(len(p.Writes) > 0) * int64(store.WakeState), now, now,
			p.Run[:], p.Namespace, jsonText(compare), now},
		Rows: func(scan func(...any) error) error {
			done, result = true, nil
			return wokenRow(scan, &id, h, &events)
		},
	}}
	stmts = putState(stmts, p.Run, stamp, p.Writes, now, missed)
	stmts = append(stmts, Stmt{
		SQL: `SELECT status FROM runs WHERE id=? AND namespace=?`, Args: []any{p.Run[:], p.Namespace},
		Unneeded: func() bool { return done },
		Rows: func(scan func(...any) error) error {
			var status store.Status
			err := scan(&status)
			switch {
			case done:
			case status.Final():
				result = finished(p.Run, status)
			default:
				result = conflict("state of run %v is not at the version that the write expects", p.Run)
			}
			return err
		},
	})
	if err := c.runner.Write(ctx, stmts); err != nil {
		return nil, err
	}
	if result != nil {
		return nil, result
	}
	h.send(c)
	entries := make([]store.StateEntry, len(p.Writes))
	for i, w := range p.Writes {
		e := &entries[i]
		e.Key, e.Version = w.Key, events-int64(len(p.Writes)-1-i)
		if !w.Delete {
			e.Value, e.UpdatedAt = w.Value, micro(now)
		}
	}
	return entries, nil
}

func scanEntry(scan func(...any) error, first ...any) (e store.StateEntry, err error) {
	err = scan(append(first, &e.Key, scanBlob{&e.Value}, &e.Version, scanTime{&e.UpdatedAt})...)
	return e, err
}

// GetState implements store.Coordination.
func (c *Core) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var entries []store.StateEntry
	found, fits, more := false, false, false
	keys := p.Keys
	if keys == nil {
		keys = []string{}
	}
	err := c.read(ctx, exists1(p.Namespace, p.Run, &found), Stmt{
		SQL: someState, Args: []any{p.Run[:], atMost(p.MaxBytes), p.After, flag(len(keys) == 0), jsonText(keys), cmp.Or(int64(p.Limit), math.MaxInt32)},
		Rows: func(scan func(...any) error) error {
			e, err := scanEntry(scan, &fits)
			keep(&entries, &more, e, fits)
			return err
		},
	})
	if err == nil && !found {
		return nil, notFound("run %v", p.Run)
	}
	return entries, err
}
