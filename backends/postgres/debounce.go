package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// Starts with keys are one list of statements. Those of one key are sequential: each locks the row of
// its key first. Then no other start of the key is under way, and a run of a key that has not begun
// begins only if its row is not locked yet. A start that has replaced leaves its ID, which the insert
// looks for.
var (
	// keyedStarts are the starts. Parameters: $1 the time, $2 namespace, $3 ids, $4 workflows, $5 keys, $6 queues, $7 priorities, $8 delays, $9 times,
	// $10 timeouts, $11 how long after the creation at most, $12 inputs, $13 metas, $14 limits, $15 tags, $16 how long starts are known.
	keyedStarts = `unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[], $13::bytea[], $14::text[], $15::text[])
		WITH ORDINALITY t(id, workflow, key, queue, priority, after, at, timeout, most, input, meta, under, tags, place)`
	// freshStarts are those that have neither created nor replaced. In each key's order, the first creates a run if there is none to
	// replace, and the last decides.
	freshStarts = `fresh AS MATERIALIZED (SELECT t.*, greatest(` + now + `+coalesce(t.after, 0), t.at) AS due,
			row_number() OVER (PARTITION BY t.workflow COLLATE "C", t.key COLLATE "C" ORDER BY t.place) AS nth, row_number() OVER (PARTITION BY t.workflow COLLATE "C", t.key COLLATE "C" ORDER BY t.place DESC) AS last
		FROM ` + keyedStarts + `
		WHERE NOT EXISTS (SELECT 1 FROM pawl.runs x WHERE x.id=t.id)
			AND NOT EXISTS (SELECT 1 FROM pawl.debounced_starts s WHERE s.namespace=$2::text AND s.id=t.id AND s.at>` + now + `-$16::bigint))`
	keyOf = `d.namespace=$2::text AND d.workflow=f.workflow COLLATE "C" AND d.key=f.key COLLATE "C"`

	lockKeys = `INSERT INTO pawl.debounces (namespace, workflow, key) SELECT DISTINCT $1::text, t.workflow COLLATE "C", t.key COLLATE "C"
		FROM unnest($2::text[], $3::text[]) t(workflow, key) ORDER BY 2, 3 ON CONFLICT (namespace, workflow, key) DO UPDATE SET key=excluded.key`

	replaceRuns = sqlkit.Text(`WITH ` + freshStarts + `, held AS MATERIALIZED (
			SELECT r.id AS run, r.visible_at AS was, f.* FROM fresh f JOIN pawl.debounces d ON ` + keyOf + ` JOIN pawl.runs r ON r.id=d.run_id
			WHERE f.last=1 AND r.epoch=0 AND r.status IN ({pending}, {paused}) ORDER BY r.id FOR UPDATE OF r)
		UPDATE pawl.runs x SET input=h.input, meta=h.meta, under=h.under, tags=h.tags, deadline=` + now + `+h.timeout,
			visible_at=least(h.due, x.created_at+h.most, ` + now + `+h.timeout), flow=` + hashOf(`x.namespace, x.queue, x.workflow, x.priority`, `h.under`, `NULL`, `false`) + `
		FROM held h WHERE x.id=h.run RETURNING x.queue, x.status={pending} AND x.visible_at<h.was`)
	// rememberStarts notes which run a start has reached: one that has not begun, since the start has just replaced or created it.
	rememberStarts = sqlkit.Text(`WITH ` + freshStarts + `
		INSERT INTO pawl.debounced_starts (namespace, id, run_id, at) SELECT $2::text, f.id, r.id, ` + now + ` FROM fresh f JOIN pawl.debounces d ON ` + keyOf + ` JOIN pawl.runs r ON r.id=d.run_id
		WHERE r.epoch=0 AND r.status IN ({pending}, {paused}) ON CONFLICT (namespace, id) DO UPDATE SET run_id=excluded.run_id, at=excluded.at`)
	createDebounced = sqlkit.Text(`WITH ` + freshStarts + `, made AS (
			INSERT INTO pawl.runs (status, id, namespace, workflow, queue, priority, visible_at, suffix, created_at, deadline, input, meta, ordinal, on_close, under, tags, flow)
			SELECT {pending}, f.id, $2::text, f.workflow, f.queue, f.priority::smallint, least(l.due, ` + now + `+l.most, ` + now + `+l.timeout), '', ` + now + `, ` + now + `+l.timeout, l.input, l.meta, 0, 0, l.under, l.tags,
				` + hashOf(`$2::text, f.queue, f.workflow, f.priority`, `l.under`, `NULL`, `false`) + `
			FROM fresh f JOIN fresh l ON l.workflow=f.workflow AND l.key=f.key AND l.last=1 WHERE f.nth=1 ORDER BY f.place ON CONFLICT DO NOTHING RETURNING id, queue)
		UPDATE pawl.debounces d SET run_id=made.id FROM made JOIN fresh f ON f.id=made.id WHERE ` + keyOf + ` RETURNING made.id, made.queue`)
	forgetStarts = `DELETE FROM pawl.debounced_starts s USING pawl.debounces d, (SELECT DISTINCT t.workflow, t.key FROM unnest($3::text[], $4::text[]) t(workflow, key)) f
		WHERE ` + keyOf + ` AND s.run_id=d.run_id AND s.at<=` + now + `-$5::bigint`
	debouncedOutcomes = `SELECT t.place, o.id, o.namespace, o.known FROM unnest($3::uuid[]) WITH ORDINALITY t(id, place) CROSS JOIN LATERAL (
			SELECT x.id, x.namespace, 0 AS known FROM pawl.runs x WHERE x.id=t.id
			UNION ALL
			SELECT x.id, x.namespace, 1 FROM pawl.debounced_starts s JOIN pawl.runs x ON x.id=s.run_id WHERE s.namespace=$2::text AND s.id=t.id AND s.at>` + now + `-$4::bigint
			ORDER BY 3 LIMIT 1) o`
)

// debounces are the starts of a call that have keys.
type debounces struct {
	params  *store.CreateParams
	which   []int // indexes into the params' runs, one for each ID
	made    map[store.ID]string
	early   []string // queues of runs that are due earlier than before
	results map[store.ID]store.CreateResult
}

// stmts returns the list of statements.
func (d *debounces) stmts() []stmt {
	n := len(d.which)
	if n == 0 {
		return nil
	}
	at := func(k int) *store.NewRun { return &d.params.Runs[d.which[k]] }
	d.made, d.results, d.early = map[store.ID]string{}, map[store.ID]store.CreateResult{}, nil
	ids, workflows, keys, queues := make([]pgtype.UUID, n), make([]string, n), make([]string, n), make([]string, n)
	for k := range n {
		r := at(k)
		ids[k], workflows[k], keys[k], queues[k] = uuid(r.ID), r.Workflow, r.Debounce, r.Queue
	}
	span := func(k int, f func(r *store.NewRun) int64) *int64 {
		v := f(at(k))
		if v == 0 {
			return nil
		}
		return &v
	}
	known := sqlkit.Span(store.DebounceMemory)
	clock, namespace := setNow(d.params.Now), d.params.Namespace
	priorities := make([]int64, n)
	for k := range n {
		priorities[k] = int64(at(k).Priority)
	}
	args := []any{
		clock, namespace, ids, workflows, keys, queues, priorities,
		column(n, 0, func(k int) int64 { return sqlkit.Span(at(k).After) }),
		column(n, nil, func(k int) *int64 { return micros(at(k).At) }),
		column(n, nil, func(k int) *int64 { return span(k, func(r *store.NewRun) int64 { return sqlkit.Span(r.Timeout) }) }),
		column(n, nil, func(k int) *int64 { return span(k, func(r *store.NewRun) int64 { return sqlkit.Span(r.AtMost) }) }),
		payloads(n, func(k int) []byte { return at(k).Input }),
		payloads(n, func(k int) []byte { return at(k).Meta }),
		column(n, nil, func(k int) *string { return text(sqlkit.UsesText(at(k).Under)) }),
		column(n, nil, func(k int) *string { return text(sqlkit.TagsText(at(k).Tags)) }),
		known,
	}
	return []stmt{
		{sql: lockKeys, args: []any{namespace, workflows, keys}},
		{sql: replaceRuns, args: args, rows: func(scan func(...any) error) error {
			var queue string
			var early bool
			err := scan(&queue, &early)
			if early {
				d.early = append(d.early, queue)
			}
			return err
		}},
		{sql: rememberStarts, args: args},
		{sql: createDebounced, args: args, rows: func(scan func(...any) error) error {
			var id store.ID
			var queue string
			err := scan(sqlkit.ID(&id), &queue)
			d.made[id] = queue
			return err
		}},
		{sql: rememberStarts, args: args},
		{sql: forgetStarts, args: []any{clock, namespace, workflows, keys, known}},
		{sql: debouncedOutcomes, args: []any{clock, namespace, ids, known}, rows: func(scan func(...any) error) error {
			var place, known int64
			var id store.ID
			var in string
			if err := scan(&place, sqlkit.ID(&id), &in, &known); err != nil {
				return err
			}
			res := store.CreateResult{ID: id}
			if res.Created = known == 0; res.Created {
				_, fresh := d.made[id]
				res.Repeated = !fresh
			}
			if in != namespace {
				res = store.CreateResult{Err: sqlkit.InAnotherNamespace(id)}
			}
			d.results[at(int(place-1)).ID] = res
			return nil
		}},
	}
}

// apart takes the starts that have keys from those without a result.
func (d *debounces) apart(open []int) []int {
	seen := map[store.ID]bool{}
	return slices.DeleteFunc(open, func(i int) bool {
		r := &d.params.Runs[i]
		if r.Debounce != "" && !seen[r.ID] {
			seen[r.ID] = true
			d.which = append(d.which, i)
		}
		return r.Debounce != ""
	})
}

// take sets the results of the starts that have keys.
func (d *debounces) take(results []store.CreateResult, h *sqlkit.Hints) {
	if len(d.which) == 0 {
		return
	}
	told := map[store.ID]bool{}
	for i := range d.params.Runs {
		r := &d.params.Runs[i]
		if r.Debounce == "" || results[i].Err != nil {
			continue
		}
		res, ok := d.results[r.ID]
		if !ok {
			res.Err = store.ErrOutcomeUnknown // the ID was taken by a run of another key, and that is gone
		}
		if told[r.ID] && res.Created {
			res.Repeated = true
		}
		told[r.ID], results[i] = true, res
	}
	for _, queue := range d.made {
		h.Queue(queue)
	}
	for _, queue := range d.early {
		h.Queue(queue)
	}
	d.which = nil
}
