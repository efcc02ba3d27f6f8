package sqlitecore

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// insertPending begins every insert of a run that waits for a worker. What follows
// is VALUES or a SELECT with a guard; insertArgs fills the marks.
const (
	insertColumns = `INSERT INTO runs (status, id, namespace, workflow, queue, priority, visible_at, parts,
		external_id, suffix, created_at, deadline, input, meta, parent, grp, ordinal, on_close`
	insertPending = insertColumns + `) `
	insertMarks   = `1,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?`

	createRun = insertPending + `VALUES (` + insertMarks + `) ON CONFLICT DO NOTHING`
	// createEager takes the lease in the same write, unless its lane is paused.
	createEager = insertColumns + `, epoch, leased, worker, started_at) SELECT 2,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?, 1,1,?,?
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
		text(r.ExternalID), r.Suffix, m.now, deadline, input, blob(r.Meta), idBlob(parent), text(r.Group), r.Ordinal, int64(r.OnClose)}
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
	stmts := make([]Stmt, 0, 2*len(p.Runs))
	for i := range p.Runs {
		r, res, made := &p.Runs[i], &results[i], &made[i]
		if res.Err = r.Validate(c.config.Limits); res.Err != nil {
			continue
		}
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
		// What stood in the way: the run of that id itself (rank 0), or the active
		// one of that external id.
		stmts = append(stmts, Stmt{
			SQL: `SELECT id, namespace, epoch, iif(leased, worker, NULL), created_at FROM (
				SELECT 0 AS rank, id, namespace, epoch, worker, leased, created_at FROM runs WHERE id=?
				UNION ALL
				SELECT 1, id, namespace, epoch, worker, leased, created_at FROM runs WHERE namespace=? AND external_id=? AND suffix=? AND external_id IS NOT NULL AND status<6
				ORDER BY 1 LIMIT 1)`,
			Args:     []any{r.ID[:], p.Namespace, text(r.ExternalID), r.Suffix},
			Unneeded: func() bool { return made.leased+made.pending > 0 },
			Rows: func(scan func(...any) error) error {
				var id store.ID
				var namespace, worker string
				var epoch int64
				var created time.Time
				if err := scan(scanID{&id}, &namespace, &epoch, scanText{&worker}, scanTime{&created}); err != nil || made.leased+made.pending > 0 {
					return err
				}
				switch {
				case id == r.ID && namespace != p.Namespace:
					*res = store.CreateResult{Err: exists("run %v exists in another namespace; ids are made with NewID", id)}
				case id == r.ID:
					*res = store.CreateResult{ID: id, Created: true}
					if r.Worker != "" && epoch == 1 && worker == r.Worker {
						res.Lease, res.CreatedAt = store.Lease{Run: id, Worker: worker, Epoch: 1}, created
					}
				default:
					*res = store.CreateResult{ID: id}
				}
				return nil
			},
		})
	}
	if len(stmts) == 0 {
		return results, nil
	}
	if err := c.runner.Write(ctx, stmts); err != nil {
		return nil, err
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

// Many runs are asked for by one statement: to begin one costs more than a row.
var (
	getRuns        = `SELECT ` + runColumns(anyInput, "meta", "output") + getFrom
	getRunsNoInput = `SELECT ` + runColumns("NULL", "NULL", "output") + getFrom
)

const getFrom = ` FROM (SELECT key AS place, unhex(value) AS wanted FROM json_each(?)) CROSS JOIN runs
	ON id=wanted AND namespace=? AND status>=? ORDER BY place`

// Get implements store.Runs.
func (c *Core) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	query, from := getRuns, store.Pending
	if p.NoInput {
		query = getRunsNoInput
	}
	if p.FinalOnly {
		from = store.Completed
	}
	if len(p.IDs) == 0 {
		return nil, ctx.Err()
	}
	ids := make([]byte, 0, len(p.IDs)*(2*len(store.ID{})+3)+1)
	for i := range p.IDs {
		ids = append(hex.AppendEncode(append(ids, ',', '"'), p.IDs[i][:]), '"')
	}
	ids[0] = '['
	var runs []store.Run
	err := c.read(ctx, Stmt{SQL: query, Args: []any{string(append(ids, ']')), p.Namespace, int64(from)}, Rows: appendRun(&runs)})
	return runs, err
}

// read checks the context even when there is nothing to run.
func (c *Core) read(ctx context.Context, stmts ...Stmt) error {
	if err := ctx.Err(); err != nil || len(stmts) == 0 {
		return err
	}
	return c.runner.Read(ctx, stmts)
}

func appendRun(runs *[]store.Run) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		*runs = append(*runs, store.Run{})
		return scanRun(scan, &(*runs)[len(*runs)-1])
	}
}

// findActive and findPast use one index each.
var (
	findActive = `SELECT ` + runColumns(anyInput, "meta", "output") + ` FROM runs
		WHERE namespace=? AND external_id=? AND suffix=? AND external_id IS NOT NULL AND status<6`
	findPast = `SELECT ` + runColumns(anyInput, "meta", "output") + ` FROM runs
		WHERE namespace=? AND external_id=? AND suffix=? AND external_id IS NOT NULL AND status>=6 ORDER BY created_at DESC, id DESC LIMIT 1`
)

// Find implements store.Runs.
func (c *Core) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	if err := p.Validate(); err != nil {
		return store.Run{}, err
	}
	var runs []store.Run
	args := []any{p.Namespace, p.ExternalID, p.Suffix}
	err := c.read(ctx,
		Stmt{SQL: findActive, Args: args, Rows: appendRun(&runs)},
		Stmt{SQL: findPast, Args: args, Rows: appendRun(&runs), Unneeded: func() bool { return len(runs) > 0 }})
	if err != nil {
		return store.Run{}, err
	}
	if len(runs) == 0 {
		return store.Run{}, notFound("run of external id %q", p.ExternalID)
	}
	return runs[0], nil
}

// where builds the condition that a filter stands for.
func where(namespace string, f *store.RunFilter) (string, []any, error) {
	cond, args := []string{"namespace=?"}, []any{namespace}
	add := func(s string, v ...any) { cond, args = append(cond, s), append(args, v...) }
	if len(f.Statuses) > 0 {
		marks := make([]string, len(f.Statuses))
		for i, s := range f.Statuses {
			marks[i], args = "?", append(args, int64(s))
		}
		cond = append(cond, "status IN ("+strings.Join(marks, ",")+")")
	}
	if f.Workflow != "" {
		add("workflow=?", f.Workflow)
	}
	if f.Queue != "" {
		add("queue=?", f.Queue)
	}
	if !f.Parent.IsZero() {
		add("parent=?", f.Parent[:])
	}
	if f.ExternalID != "" {
		// Each branch of the OR has an index of its own.
		add("((external_id=? AND external_id IS NOT NULL AND status<6) OR (external_id=? AND external_id IS NOT NULL AND status>=6))", f.ExternalID, f.ExternalID)
	}
	if f.IDPrefix != "" {
		lo, hi, err := store.IDRange(f.IDPrefix)
		if err != nil {
			return "", nil, err
		}
		add("id BETWEEN ? AND ?", lo[:], hi[:])
	}
	if !f.CreatedAfter.IsZero() {
		add("created_at>?", f.CreatedAfter.UnixMicro())
	}
	if !f.CreatedBefore.IsZero() {
		add("created_at<?", f.CreatedBefore.UnixMicro())
	}
	return strings.Join(cond, " AND "), args, nil
}

// List implements store.Runs.
func (c *Core) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	var page store.RunPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	last, err := p.Position()
	if err != nil {
		return page, err
	}
	cond, args, err := where(p.Namespace, &p.Filter)
	if err != nil {
		return page, err
	}
	order, beyond := "DESC", " AND id<?"
	if p.OldestFirst {
		order, beyond = "ASC", " AND id>?"
	}
	if p.Cursor != "" {
		cond, args = cond+beyond, append(args, last[:])
	}
	var runs []store.Run
	err = c.read(ctx, Stmt{
		SQL:  `SELECT ` + runColumns("NULL", "NULL", "NULL") + ` FROM runs WHERE ` + cond + ` ORDER BY id ` + order + ` LIMIT ?+0`,
		Args: append(args, int64(limit)+1), Rows: appendRun(&runs),
	})
	if err != nil {
		return page, err
	}
	if len(runs) > limit {
		runs = runs[:limit]
		page.Next = p.NextCursor(runs[limit-1].ID)
	}
	page.Runs = runs
	return page, nil
}

// Count implements store.Runs.
func (c *Core) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	cond, args, err := where(p.Namespace, &p.Filter)
	if err != nil {
		return nil, err
	}
	var counts []store.RunCount
	err = c.read(ctx, Stmt{
		SQL:  `SELECT queue, workflow, status, count(*) FROM runs WHERE ` + cond + ` GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`,
		Args: args,
		Rows: func(scan func(...any) error) error {
			var n store.RunCount
			err := scan(&n.Queue, &n.Workflow, &n.Status, &n.Count)
			counts = append(counts, n)
			return err
		},
	})
	return counts, err
}

// Steps implements store.Runs.
func (c *Core) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	var page store.StepPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	found, bytes := false, 0
	err := c.read(ctx, exists1(p.Namespace, p.Run, &found), Stmt{
		SQL:  `SELECT ` + stepColumns + ` FROM steps s WHERE s.run_id=? AND s.position>? ORDER BY s.position LIMIT ?+0`,
		Args: []any{p.Run[:], p.After, int64(limit) + 1},
		Rows: func(scan func(...any) error) error {
			if page.More {
				return nil
			}
			var s store.Step
			if err := scan(stepDest(&s)...); err != nil {
				return err
			}
			bytes += len(s.Output)
			if n := len(page.Steps); n == limit || n > 0 && p.MaxBytes > 0 && bytes > p.MaxBytes {
				page.More = true
				return nil
			}
			page.Steps = append(page.Steps, s)
			return nil
		},
	})
	if err == nil && !found {
		return store.StepPage{}, notFound("run %v", p.Run)
	}
	return page, err
}

// exists1 asks whether the namespace has the run.
func exists1(namespace string, id store.ID, found *bool) Stmt {
	return Stmt{
		SQL: `SELECT 1 FROM runs WHERE id=? AND namespace=?`, Args: []any{id[:], namespace},
		Rows: func(scan func(...any) error) error {
			var one int64
			*found = true
			return scan(&one)
		},
	}
}

func micro(t int64) time.Time { return time.UnixMicro(t).UTC() }
