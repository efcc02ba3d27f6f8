package sqlitecore

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// insertPending begins every insert of a run that waits for a worker. What follows
// is VALUES or a SELECT with a guard; insertArgs fills the marks.
const (
	insertColumns = `INSERT INTO runs (status, id, namespace, workflow, queue, priority, visible_at, parts,
		external_id, suffix, created_at, deadline, input, meta, parent, grp, ordinal, on_close, reuse, digest`
	insertPending = insertColumns + `) `
	insertMarks   = `1,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?,?,?`

	createRun = insertPending + `VALUES (` + insertMarks + `) ON CONFLICT DO NOTHING`
	// createEager takes the lease in the same write, unless its lane is paused.
	createEager = insertColumns + `, epoch, leased, worker, started_at) SELECT 2,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?,?,?, 1,1,?,?
		WHERE NOT EXISTS (SELECT 1 FROM paused WHERE namespace=? AND (queue=? AND workflow='' OR queue='' AND workflow=?)) ON CONFLICT DO NOTHING`
	spawnRun   = insertPending + `SELECT ` + insertMarks + ` WHERE EXISTS (SELECT 1 FROM runs WHERE id=? AND stamp=?) ON CONFLICT DO NOTHING`
	fireRun    = insertPending + `SELECT ` + insertMarks + ` WHERE changes()=1 ON CONFLICT DO NOTHING`
	largeInput = `INSERT INTO large_inputs (run_id, data) SELECT id, ? FROM runs WHERE id=? AND namespace=? AND parts & 16 ON CONFLICT DO NOTHING`
)

func insertArgs(namespace string, r *store.NewRun, parent store.ID, m moment) []any {
	visible, parts := m.after(r.After), int64(0)
	if !r.At.IsZero() {
		visible = max(visible, r.At.UnixMicro())
	}
	var deadline any
	if r.Timeout > 0 {
		d := m.after(r.Timeout)
		deadline, visible = d, min(visible, d)
	}
	input := blob(r.Input)
	if len(r.Input) > inlineInput {
		input, parts = nil, partLargeInput
	}
	return []any{r.ID[:], namespace, r.Workflow, r.Queue, int64(r.Priority), visible, parts,
		text(r.ExternalID), r.Suffix, m.now, deadline, input, blob(r.Meta), idBlob(parent), text(r.Group), r.Ordinal, int64(r.OnClose), int64(r.Reuse), digest(r.Digest)}
}

// digest is a digest as it is stored; an empty one is NULL.
func digest(d []byte) any {
	if len(d) == 0 {
		return nil
	}
	return d
}

// eagerArgs are insertArgs for createEager.
func eagerArgs(pending []any, namespace string, r *store.NewRun, m moment) []any {
	args := slices.Concat(pending, []any{r.Worker, m.now, namespace, r.Queue, r.Workflow})
	args[5] = m.after(r.LeaseFor)
	return args
}

// Create implements store.Runs.
func (c *Core) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	m, err := c.moment(ctx, p.Now)
	if err != nil {
		return nil, err
	}
	results, hints := make([]store.CreateResult, len(p.Runs)), newHints(p.Namespace)
	made := make([]struct{ leased, pending int64 }, len(p.Runs))
	open := make([]int, 0, len(p.Runs)) // into p.Runs: those without a result
	for i := range p.Runs {
		if results[i].Err = p.Runs[i].Validate(c.config.Limits); results[i].Err == nil {
			open = append(open, i)
		}
	}
	some := false
	if c.config.Batched && len(open) > 0 {
		fresh, err := c.createMany(ctx, &p, open, m)
		if err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open, func(i int) bool {
			leased, ok := fresh[p.Runs[i].ID]
			if ok {
				delete(fresh, p.Runs[i].ID) // one that is in the call twice has met itself
				made[i].leased, made[i].pending = flag(leased), flag(!leased)
				some = true
			}
			return ok
		})
	}
	stmts := make([]Stmt, 0, 2*len(open))
	for _, i := range open {
		r, res, made := &p.Runs[i], &results[i], &made[i]
		pending := insertArgs(p.Namespace, r, store.ID{}, m)
		if r.Worker != "" {
			stmts = append(stmts, Stmt{SQL: createEager, Args: eagerArgs(pending, p.Namespace, r, m), Affected: &made.leased})
		}
		stmts = append(stmts, Stmt{SQL: createRun, Args: pending, Affected: &made.pending, Unneeded: func() bool { return made.leased == 1 }})
		if len(r.Input) > inlineInput {
			stmts = append(stmts, Stmt{
				SQL: largeInput, Args: []any{r.Input, r.ID[:], p.Namespace},
				Unneeded: func() bool { return made.leased+made.pending == 0 },
			})
		}
		// What stood in the way: the run of that id itself (rank 0), or the one that
		// holds the external id.
		stmts = append(stmts, Stmt{
			SQL: `SELECT id, namespace, epoch, iif(leased, worker, NULL), created_at, workflow, digest FROM (
				SELECT 0 AS rank, id, namespace, epoch, worker, leased, created_at, workflow, digest FROM runs WHERE id=?
				UNION ALL
				SELECT 1, id, namespace, epoch, worker, leased, created_at, workflow, digest FROM runs WHERE namespace=? AND external_id=? AND suffix=? AND ` + holds + `
				ORDER BY 1 LIMIT 1)`,
			Args:     []any{r.ID[:], p.Namespace, text(r.ExternalID), r.Suffix},
			Unneeded: func() bool { return made.leased+made.pending > 0 },
			Rows: func(scan func(...any) error) error {
				var id store.ID
				var namespace, worker, workflow string
				var epoch int64
				var created time.Time
				var digest []byte
				if err := scan(scanID{&id}, &namespace, &epoch, scanText{&worker}, scanTime{&created}, &workflow, scanBlob{&digest}); err != nil || made.leased+made.pending > 0 {
					return err
				}
				if namespace != p.Namespace {
					*res = store.CreateResult{Err: exists("run %v exists in another namespace; ids are made with NewID", id)}
					return nil
				}
				if *res = r.Meets(id, workflow, digest); res.Created && r.Worker != "" && epoch == 1 && worker == r.Worker {
					res.Lease, res.CreatedAt = store.Lease{Run: id, Worker: worker, Epoch: 1}, created
				}
				return nil
			},
		})
	}
	if len(stmts) > 0 {
		if err := c.runner.Write(ctx, stmts); err != nil {
			return nil, inPart(some, err)
		}
	}
	for i := range p.Runs {
		switch r := &p.Runs[i]; {
		case made[i].leased == 1:
			results[i] = store.CreateResult{ID: r.ID, Created: true, Lease: store.Lease{Run: r.ID, Worker: r.Worker, Epoch: 1}, CreatedAt: micro(m.now)}
		case made[i].pending == 1:
			results[i] = store.CreateResult{ID: r.ID, Created: true}
			hints.queue(r.Queue)
		}
	}
	hints.send(c)
	return results, nil
}

// createMany is createRun and createEager for many runs: see table. It has the
// columns of one in the order of insertArgs, then what an eager start wants.
const createMany = `WITH t(v, eager) AS MATERIALIZED (SELECT value, value->>18 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM paused WHERE namespace=?3
		AND (queue=j.value->>2 AND workflow='' OR queue='' AND workflow=j.value->>1)) FROM json_each(?1) j)
	` + insertColumns + `, epoch, leased, worker, started_at)
	SELECT CASE WHEN eager THEN 2 ELSE 1 END, unhex(v->>0), ?3, v->>1, v->>2, v->>3, CASE WHEN eager THEN v->>19 ELSE v->>4 END, v->>5,
		v->>6, v->>7, ?4, v->>8, substr(?2, v->>9, v->>10), substr(?2, v->>11, v->>12), NULL, v->>13, v->>14, v->>15, v->>20, substr(?2, v->>21, v->>22),
		eager, eager, CASE WHEN eager THEN v->>18 END, CASE WHEN eager THEN ?4 END
	FROM t WHERE true ON CONFLICT DO NOTHING RETURNING id, leased`

// largeInputs follows createMany.
const largeInputs = `INSERT INTO large_inputs (run_id, data) SELECT r.id, substr(?2, j.value->>16, j.value->>17)
	FROM json_each(?1) j CROSS JOIN runs r ON r.id=unhex(j.value->>0) AND r.namespace=?3 AND r.parts & 16 WHERE j.value->>17 IS NOT NULL ON CONFLICT DO NOTHING`

// createMany makes those of the runs that meet no other, by one statement, and says of
// each whether its lease was taken.
func (c *Core) createMany(ctx context.Context, p *store.CreateParams, which []int, m moment) (map[store.ID]bool, error) {
	var t table
	large := false
	for _, i := range which {
		r := &p.Runs[i]
		a := insertArgs(p.Namespace, r, store.ID{}, m)
		var input, big payload
		if a[6].(int64) == partLargeInput {
			big, large = r.Input, true
		} else {
			input = r.Input
		}
		var worker, lease any
		if r.Worker != "" {
			worker, lease = r.Worker, m.after(r.LeaseFor)
		}
		var known payload
		if len(r.Digest) > 0 {
			known = r.Digest
		}
		// a: id, namespace, workflow, queue, priority, visible_at, parts, external_id, suffix, created_at, deadline
		t.row(r.ID, a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[10], input, payload(r.Meta), text(r.Group), r.Ordinal, int64(r.OnClose),
			big, worker, lease, int64(r.Reuse), known)
	}
	fresh := make(map[store.ID]bool, len(which))
	stmts := []Stmt{{SQL: createMany, Args: t.args(p.Namespace, m.now), Rows: func(scan func(...any) error) error {
		var id store.ID
		var leased bool
		err := scan(scanID{&id}, &leased)
		fresh[id] = leased
		return err
	}}}
	if large {
		stmts = append(stmts, Stmt{SQL: largeInputs, Args: t.args(p.Namespace)})
	}
	return fresh, c.runner.Write(ctx, stmts)
}
