package sqlitecore

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// insertPending begins every insert of a run that waits for a worker. VALUES, or a SELECT with a
// guard, follows; insertArgs returns the arguments.
var (
	insertColumns = `INSERT INTO runs (status, id, namespace, workflow, queue, priority, visible_at, parts,
		external_id, suffix, created_at, deadline, input, meta, parent, grp, ordinal, on_close, reuse, digest, under, limited, tags`
	insertPending = insertColumns + `, fresh) `
	insertMarks   = sqlkit.Text(`{pending},?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?,?,?,?,?,?, `) + beginsFresh(`?20`, `?2`, `?4`, `?3`, `?5`)

	createRun = insertPending + `VALUES (` + insertMarks + `) ON CONFLICT DO NOTHING`
	// createEager takes the lease in the same write, unless the run's lane is paused.
	createEager = sqlkit.Text(insertColumns + `, epoch, leased, worker, started_at, lease_build) SELECT {running},?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?,?,?,?,?,?, 1,1,?,?,?
		WHERE NOT EXISTS (SELECT 1 FROM paused WHERE namespace=? AND (queue=? AND workflow='' OR queue='' AND workflow=?)) ON CONFLICT DO NOTHING`)
	spawnRun   = insertPending + `SELECT ` + insertMarks + ` WHERE EXISTS (SELECT 1 FROM runs WHERE id=? AND stamp=?) ON CONFLICT DO NOTHING`
	fireRun    = insertPending + `SELECT ` + insertMarks + ` WHERE changes()=1 ON CONFLICT DO NOTHING`
	largeInput = sqlkit.Text(`INSERT INTO large_inputs (run_id, data) SELECT id, ? FROM runs WHERE id=? AND namespace=? AND parts & {partLargeInput} ON CONFLICT DO NOTHING`)
)

// createMet reads the run that prevented the creation: the run with the same id (rank 0), or the
// one that holds the external id. Parameters: id, namespace, external id, suffix.
var createMet = `SELECT id, namespace, epoch, iif(leased, worker, NULL), created_at, workflow, digest FROM (
				SELECT 0 AS rank, id, namespace, epoch, worker, leased, created_at, workflow, digest FROM runs WHERE id=?
				UNION ALL
				SELECT 1, id, namespace, epoch, worker, leased, created_at, workflow, digest FROM runs WHERE namespace=? AND external_id=? AND suffix=? AND ` + holds + `
				ORDER BY 1 LIMIT 1)`

func insertArgs(namespace string, r *store.NewRun, parent store.ID, m moment) []any {
	visible, parts := m.due(r), int64(0)
	if r.AtMost > 0 {
		visible = min(visible, m.now+sqlkit.Span(r.AtMost))
	}
	var deadline any
	if r.Timeout > 0 {
		d := m.after(r.Timeout)
		deadline, visible = d, min(visible, d)
	}
	input := blob(r.Input)
	if len(r.Input) > inlineInput {
		input, parts = nil, sqlkit.PartLargeInput
	}
	return []any{r.ID[:], namespace, r.Workflow, r.Queue, int64(r.Priority), visible, parts,
		text(r.ExternalID), r.Suffix, m.now, deadline, input, blob(r.Meta), idBlob(parent), text(r.Group), r.Ordinal, int64(r.OnClose), int64(r.Reuse), digest(r.Digest), text(sqlkit.UsesText(r.Under)), flag(len(r.Under) > 0), text(sqlkit.TagsText(r.Tags))}
}

// due returns when a run is due that is started now, whatever limits that.
func (m moment) due(r *store.NewRun) int64 {
	if r.At.IsZero() {
		return m.after(r.After)
	}
	return max(m.after(r.After), r.At.UnixMicro())
}

// digest returns a digest as it is stored; an empty one is NULL.
func digest(d []byte) any {
	if len(d) == 0 {
		return nil
	}
	return d
}

// isEager reports whether the write that creates a run gives it a lease. A run under limits waits for a
// claim, which knows what they permit.
func isEager(r *store.NewRun) bool { return r.Worker != "" && len(r.Under) == 0 }

// eagerArgs returns the arguments of createEager, from those of insertArgs.
func eagerArgs(pending []any, namespace string, r *store.NewRun, m moment) []any {
	args := slices.Concat(pending, []any{r.Worker, m.now, text(r.Build), namespace, r.Queue, r.Workflow})
	args[5] = m.after(r.LeaseFor)
	return args
}

// Create implements store.Runs.
func (c *Core) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	m, err := c.validAt(ctx, p.Validate(), p.Now)
	if err != nil {
		return nil, err
	}
	results, hints := make([]store.CreateResult, len(p.Runs)), sqlkit.NewHints(p.Namespace)
	made := make([]inserted, len(p.Runs))
	open := make([]int, 0, len(p.Runs)) // indexes into p.Runs of the runs without a result
	for i := range p.Runs {
		if results[i].Err = p.Runs[i].Validate(c.config.Limits); results[i].Err == nil {
			open = append(open, i)
		}
	}
	some := false
	if c.config.Batched && len(open) > 0 && !signals(&p, open) && !keyed(&p, open) { // with any of these, everything is one list
		fresh, err := c.createMany(ctx, &p, open, m)
		if err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open, func(i int) bool {
			leased, ok := fresh[p.Runs[i].ID]
			if ok {
				delete(fresh, p.Runs[i].ID) // a run that is in the call twice conflicts with itself
				made[i].leased, made[i].pending = flag(leased), flag(!leased)
				some = true
			}
			return ok
		})
	}
	stmts := make([]Stmt, 0, 2*len(open))
	for _, i := range open {
		switch r := &p.Runs[i]; {
		case r.Debounce != "":
			stmts = createDebouncedOne(stmts, p.Namespace, r, &results[i], &made[i], hints, m)
		case r.Signal != nil:
			stmts = startSignaled(stmts, p.Namespace, r, &results[i], &made[i], m, hints)
		default:
			stmts = createOne(stmts, p.Namespace, r, &results[i], &made[i], m)
		}
	}
	if len(stmts) > 0 {
		if err := c.runner.Write(ctx, stmts); err != nil {
			return nil, inPart(some, err)
		}
	}
	for i := range p.Runs {
		switch r := &p.Runs[i]; {
		case made[i].leased == 1:
			results[i] = store.CreateResult{ID: r.ID, Created: true, Lease: store.Lease{Run: r.ID, Worker: r.Worker, Epoch: 1}, CreatedAt: sqlkit.Micro(m.now)}
		case made[i].pending == 1:
			results[i] = store.CreateResult{ID: r.ID, Created: true}
			hints.Queue(r.Queue)
		}
	}
	c.publishAll(hints)
	return results, nil
}

// inserted says which insert has created a run: 1; 0 for the other.
type inserted struct{ leased, pending int64 }

// createOne adds the statements that create a run and, if it was not created, read the run in the
// way.
func createOne(stmts []Stmt, namespace string, r *store.NewRun, res *store.CreateResult, made *inserted, m moment) []Stmt {
	pending := insertArgs(namespace, r, store.ID{}, m)
	if isEager(r) {
		stmts = append(stmts, Stmt{SQL: createEager, Args: eagerArgs(pending, namespace, r, m), Affected: &made.leased})
	}
	stmts = append(stmts, Stmt{SQL: createRun, Args: pending, Affected: &made.pending, Unneeded: func() bool { return made.leased == 1 }})
	if len(r.Input) > inlineInput {
		stmts = append(stmts, Stmt{
			SQL: largeInput, Args: []any{r.Input, r.ID[:], namespace},
			Unneeded: func() bool { return made.leased+made.pending == 0 },
		})
	}
	stmts = append(stmts, Stmt{
		SQL:      createMet,
		Args:     []any{r.ID[:], namespace, text(r.ExternalID), r.Suffix},
		Unneeded: func() bool { return made.leased+made.pending > 0 },
		Rows: func(scan func(...any) error) error {
			var met sqlkit.Met
			err := scan(sqlkit.ID(&met.ID), &met.Namespace, &met.Epoch, sqlkit.TextOrNull(&met.Worker), sqlkit.Time(&met.CreatedAt), &met.Workflow, sqlkit.Blob(&met.Digest))
			if err == nil && made.leased+made.pending == 0 {
				*res = met.By(namespace, r)
			}
			return err
		},
	})
	return stmts
}

// createMany is createRun and createEager for many runs: see table. A row has the columns of one
// run in the order of insertArgs, then those of an eager start.
var createMany = sqlkit.Text(`WITH t(v, eager) AS MATERIALIZED (SELECT value, value->>18 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM paused WHERE namespace=?3
		AND (queue=j.value->>2 AND workflow='' OR queue='' AND workflow=j.value->>1)) FROM json_each(?1) j)
	` + insertColumns + `, epoch, leased, worker, started_at, lease_build, fresh)
	SELECT CASE WHEN eager THEN {running} ELSE {pending} END, unhex(v->>0), ?3, v->>1, v->>2, v->>3, CASE WHEN eager THEN v->>19 ELSE v->>4 END, v->>5,
		v->>6, v->>7, ?4, v->>8, substr(?2, v->>9, v->>10), substr(?2, v->>11, v->>12), NULL, v->>13, v->>14, v->>15, v->>20, substr(?2, v->>21, v->>22), v->>24, v->>24 IS NOT NULL, v->>25,
		eager, eager, CASE WHEN eager THEN v->>18 END, CASE WHEN eager THEN ?4 END, CASE WHEN eager THEN v->>23 END, ` + beginsFresh(`(v->>24)`, `?3`, `v->>2`, `v->>1`, `v->>3`) + `
	FROM t WHERE true ON CONFLICT DO NOTHING RETURNING id, leased`)

// largeInputs follows createMany.
var largeInputs = sqlkit.Text(`INSERT INTO large_inputs (run_id, data) SELECT r.id, substr(?2, j.value->>16, j.value->>17)
	FROM json_each(?1) j CROSS JOIN runs r ON r.id=unhex(j.value->>0) AND r.namespace=?3 AND r.parts & {partLargeInput} WHERE j.value->>17 IS NOT NULL ON CONFLICT DO NOTHING`)

// createMany creates, with one statement, those of the runs that conflict with no other run, and
// reports for each whether its lease was taken.
func (c *Core) createMany(ctx context.Context, p *store.CreateParams, which []int, m moment) (map[store.ID]bool, error) {
	var t table
	large := false
	for _, i := range which {
		r := &p.Runs[i]
		a := insertArgs(p.Namespace, r, store.ID{}, m)
		var input, big payload
		if a[6].(int64) == sqlkit.PartLargeInput {
			big, large = r.Input, true
		} else {
			input = r.Input
		}
		var worker, lease any
		if isEager(r) {
			worker, lease = r.Worker, m.after(r.LeaseFor)
		}
		var known payload
		if len(r.Digest) > 0 {
			known = r.Digest
		}
		// a: id, namespace, workflow, queue, priority, visible_at, parts, external_id, suffix, created_at, deadline
		t.row(r.ID, a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[10], input, payload(r.Meta), text(r.Group), r.Ordinal, int64(r.OnClose),
			big, worker, lease, int64(r.Reuse), known, text(r.Build), a[19], a[21])
	}
	fresh := make(map[store.ID]bool, len(which))
	stmts := []Stmt{{SQL: createMany, Args: t.args(p.Namespace, m.now), Rows: func(scan func(...any) error) error {
		var id store.ID
		var leased bool
		err := scan(sqlkit.ID(&id), &leased)
		fresh[id] = leased
		return err
	}}}
	if large {
		stmts = append(stmts, Stmt{SQL: largeInputs, Args: t.args(p.Namespace)})
	}
	return fresh, c.runner.Write(ctx, stmts)
}
