package sqlitecore

import (
	"slices"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A start with a key replaces what the run of the key was started with, or else inserts a run. A start
// that has replaced leaves its ID, which the insert looks for.
var (
	// heldBefore: namespace, workflow, key.
	heldBefore = `SELECT r.queue, r.visible_at FROM debounces d CROSS JOIN runs r ON r.id=d.run_id WHERE d.namespace=? AND d.workflow=? AND d.key=? AND r.visible_at IS NOT NULL`
	// replaceRun: ?1 input, ?2 meta, ?3 its part, ?4 limits, ?5 whether there are any, ?6 tags, ?7 deadline, ?8 due, ?9 how long after its creation at most,
	// ?10 stamp, ?11 namespace, ?12 workflow, ?13 key, ?14 id of the start, ?15 since when starts are known.
	replaceRun = sqlkit.Text(`UPDATE runs SET told=NULL, input=?1, meta=?2, parts=parts & ~{partLargeInput} | ?3, under=?4, limited=?5, tags=?6, deadline=?7,
			visible_at=min(?8, coalesce(created_at+?9, ?8), coalesce(?7, ?8)), stamp=?10
		WHERE id=(SELECT run_id FROM debounces WHERE namespace=?11 AND workflow=?12 AND key=?13) AND epoch=0 AND status IN ({pending}, {paused})
			AND NOT EXISTS (SELECT 1 FROM runs x WHERE x.id=?14) AND NOT EXISTS (SELECT 1 FROM debounced_starts WHERE namespace=?11 AND id=?14 AND at>?15)`)
	// replacedNow is the run that replaceRun has changed. Its parameters: ?1 namespace, ?2 workflow, ?3 key, ?4 stamp.
	replacedNow      = ` FROM debounces d CROSS JOIN runs r ON r.id=d.run_id WHERE d.namespace=?1 AND d.workflow=?2 AND d.key=?3 AND r.stamp=?4`
	forgetOldInput   = `DELETE FROM large_inputs WHERE run_id IN (SELECT r.id` + replacedNow + `)`
	putNewInput      = `INSERT INTO large_inputs (run_id, data) SELECT r.id, ?5` + replacedNow
	rememberStart    = `INSERT INTO debounced_starts (namespace, id, run_id, at) SELECT ?1, ?5, r.id, ?6` + replacedNow + ` ON CONFLICT DO UPDATE SET run_id=excluded.run_id, at=excluded.at`
	forgetStarts     = `DELETE FROM debounced_starts WHERE at<=?5 AND run_id IN (SELECT r.id` + replacedNow + `)`
	voidPlansOf      = `UPDATE limit_plans SET version=version+1, stamp=?5 WHERE namespace=?1 AND EXISTS (SELECT 1` + replacedNow + `)`
	createDebounced  = insertPending + `SELECT ` + insertMarks + ` WHERE NOT EXISTS (SELECT 1 FROM debounced_starts WHERE namespace=? AND id=? AND at>?) ON CONFLICT DO NOTHING`
	rememberKey      = `INSERT INTO debounces (namespace, workflow, key, run_id) SELECT ?, ?, ?, ? WHERE changes()=1 ON CONFLICT DO UPDATE SET run_id=excluded.run_id`
	debouncedOutcome = `SELECT id, namespace, coalesce(visible_at, 0), status=` + sqlkit.Text(`{pending}`) + `, known FROM (
			SELECT 0 AS known, id, namespace, visible_at, status FROM runs WHERE id=?2
			UNION ALL
			SELECT 1, r.id, r.namespace, r.visible_at, r.status FROM debounced_starts s CROSS JOIN runs r ON r.id=s.run_id WHERE s.namespace=?1 AND s.id=?2 AND s.at>?3
			ORDER BY 1 LIMIT 1)`
)

// keyed reports whether one of the starts has a key.
func keyed(p *store.CreateParams, which []int) bool {
	return slices.ContainsFunc(which, func(i int) bool { return p.Runs[i].Debounce != "" })
}

// createDebouncedOne adds the statements of a start with a key.
func createDebouncedOne(stmts []Stmt, namespace string, r *store.NewRun, res *store.CreateResult, made *inserted, h *sqlkit.Hints, m moment) []Stmt {
	insert := insertArgs(namespace, r, store.ID{}, m)
	visible, parts, deadline, input := m.due(r), insert[6], insert[10], insert[11]
	var most any
	if r.AtMost > 0 {
		most = sqlkit.Span(r.AtMost)
	}
	known := m.now - sqlkit.Span(store.DebounceMemory)
	stamp := sqlkit.NewStamp()
	key := []any{namespace, r.Workflow, r.Debounce}
	mine := []any{namespace, r.Workflow, r.Debounce, stamp}
	with := func(more ...any) []any { return append(append([]any{}, mine...), more...) }

	var replaced, before int64
	queue := ""
	none := func() bool { return replaced == 0 }
	stmts = append(stmts,
		Stmt{SQL: heldBefore, Args: key, Rows: func(scan func(...any) error) error { return scan(&queue, &before) }},
		Stmt{SQL: replaceRun, Affected: &replaced, Args: []any{input, blob(r.Meta), parts, insert[19], insert[20], insert[21], deadline, visible, most,
			stamp, namespace, r.Workflow, r.Debounce, r.ID[:], known}},
		Stmt{SQL: forgetOldInput, Args: mine, Unneeded: none})
	if len(r.Input) > inlineInput {
		stmts = append(stmts, Stmt{SQL: putNewInput, Args: with(r.Input), Unneeded: none})
	}
	stmts = append(stmts,
		Stmt{SQL: rememberStart, Args: with(r.ID[:], m.now), Unneeded: none},
		Stmt{SQL: forgetStarts, Args: with(known), Unneeded: none},
		Stmt{SQL: voidPlansOf, Args: with(sqlkit.NewStamp()), Unneeded: none},
		Stmt{SQL: createDebounced, Args: append(insert, namespace, r.ID[:], known), Affected: &made.pending},
		Stmt{SQL: rememberKey, Args: append(key, r.ID[:])})
	if len(r.Input) > inlineInput {
		stmts = append(stmts, Stmt{SQL: largeInput, Args: []any{r.Input, r.ID[:], namespace}, Unneeded: func() bool { return made.pending == 0 }})
	}
	return append(stmts, Stmt{SQL: debouncedOutcome, Args: []any{namespace, r.ID[:], known}, Unneeded: func() bool { return made.pending > 0 },
		Rows: func(scan func(...any) error) error {
			var id store.ID
			var in string
			var due int64
			var pending, found bool
			err := scan(sqlkit.ID(&id), &in, &due, &pending, &found)
			switch {
			case err != nil || made.pending > 0:
			case in != namespace:
				res.Err = sqlkit.InAnotherNamespace(id)
			default:
				*res = store.CreateResult{ID: id, Created: !found, Repeated: !found}
				if replaced == 1 && pending && due < before {
					h.Queue(queue)
				}
			}
			return err
		}})
}
