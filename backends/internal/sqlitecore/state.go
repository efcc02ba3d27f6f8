package sqlitecore

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// The version of a write is the run's event count after it. The first statement of the list has
// already counted all of the list's writes.
var (
	// Parameters: key, value, how many writes follow, now, run, stamp.
	writeState = `INSERT INTO state (run_id, key, value, version, updated_at) SELECT r.id, ?, ?, r.events-?, ? FROM runs r WHERE r.id=? AND r.stamp=?
		` + stateConflict
	// writeStates is writeState for many keys of plain commits, with their versions: see table. Its further parameter is now.
	writeStates = `INSERT INTO state (run_id, key, value, version, updated_at)
		SELECT unhex(j.value->>0), j.value->>2, substr(?2, j.value->>4, j.value->>5), j.value->>3, ?3 FROM json_each(?1) j
		WHERE EXISTS (SELECT 1 FROM runs WHERE id=unhex(j.value->>0) AND stamp=j.value->>1)
		` + stateConflict
	stateConflict = `ON CONFLICT DO UPDATE SET value=excluded.value, version=excluded.version, updated_at=excluded.updated_at`
	deleteState   = `DELETE FROM state WHERE run_id=? AND key=? AND` + applied
)

// putState adds the writes of state to a list whose first statement leaves its stamp.
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

// stateEvent counts the writes if all comparisons, a JSON list, hold. Parameters: how many writes,
// stamp, the events that these belong to, now twice, run, namespace, the comparisons, now.
var stateEvent = sqlkit.Text(`UPDATE runs SET events=events+?, stamp=?, parts=parts | {partState}, ` + wake + `
	WHERE id=? AND namespace=? AND status<{final} AND NOT EXISTS (SELECT 1 FROM json_each(?) j
		WHERE coalesce((SELECT version FROM state WHERE run_id=runs.id AND key=j.value->>'k'), 0)<>j.value->>'v')
	RETURNING id, queue, status={sleeping} AND visible_at<=?, events`)

// SetState implements store.Coordination.
func (c *Core) SetState(ctx context.Context, p store.SetStateParams) ([]store.StateEntry, error) {
	now, err := c.valid(ctx, p.Validate(c.config.Limits), p.Now)
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
	h, stamp, done := sqlkit.NewHints(p.Namespace), sqlkit.NewStamp(), false
	missed := func() bool { return !done }
	result := sqlkit.NotFound("run %v", p.Run)
	stmts := []Stmt{{
		SQL: stateEvent,
		Args: []any{int64(len(p.Writes)), stamp, flag(len(p.Writes) > 0) * int64(store.WakeState), now, now,
			p.Run[:], p.Namespace, sqlkit.JSON(compare), now},
		Rows: func(scan func(...any) error) error {
			done, result = true, nil
			return h.WokenRow(scan, &id, &events)
		},
	}}
	stmts = putState(stmts, p.Run, stamp, p.Writes, now, missed)
	stmts = append(stmts, c.journal(p.Namespace, now, p.Record).Stamped([]store.ID{p.Run}, stamp)...)
	stmts = append(stmts, Stmt{
		SQL: runStatus, Args: []any{p.Run[:], p.Namespace},
		Unneeded: func() bool { return done },
		Rows: func(scan func(...any) error) error {
			var status store.Status
			err := scan(&status)
			if !done {
				result = sqlkit.StateRefused(p.Run, status)
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
	c.publishAll(h)
	return sqlkit.StateEntries(p.Writes, events, sqlkit.Micro(now)), nil
}
