package sqlitecore

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

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
	if !f.FinishedAfter.IsZero() {
		add("finished_at>? AND finished_at IS NOT NULL", f.FinishedAfter.UnixMicro())
	}
	if !f.FinishedBefore.IsZero() {
		add("finished_at<? AND finished_at IS NOT NULL", f.FinishedBefore.UnixMicro())
	}
	if f.FailureCode != "" {
		add("failure->>'code'=?", f.FailureCode)
	}
	if f.FailureText != "" {
		add("instr(failure->>'message', ?)>0", f.FailureText)
	}
	if f.FailedStep != "" {
		add("EXISTS (SELECT 1 FROM steps f WHERE f.run_id=runs.id AND f.status=4 AND f.name=?)", f.FailedStep)
	}
	if f.MinAttempt > 0 {
		add("(attempt>=? OR EXISTS (SELECT 1 FROM steps f WHERE f.run_id=runs.id AND f.status<3 AND f.attempt>=?))", int64(f.MinAttempt), int64(f.MinAttempt))
	}
	return strings.Join(cond, " AND "), args, nil
}

// listRuns builds the statement of a listing. By their ends, the index of final runs
// gives the order; the bound on the end alone is what the index begins at, and the
// second condition leaves out those of the same end.
func listRuns(p store.ListParams, limit int) (string, []any, error) {
	end, last, err := p.EndPosition()
	if err != nil {
		return "", nil, err
	}
	cond, args, err := where(p.Namespace, &p.Filter)
	if err != nil {
		return "", nil, err
	}
	order, beyond := "DESC", "<"
	if p.OldestFirst {
		order, beyond = "ASC", ">"
	}
	by := "id " + order
	switch {
	case p.ByEnd:
		cond, by = cond+" AND finished_at IS NOT NULL", "finished_at "+order+", id "+order
		if p.Cursor != "" {
			cond += " AND finished_at" + beyond + "=? AND (finished_at" + beyond + "? OR id" + beyond + "?)"
			args = append(args, end.UnixMicro(), end.UnixMicro(), last[:])
		}
	case p.Cursor != "":
		cond, args = cond+" AND id"+beyond+"?", append(args, last[:])
	}
	return `SELECT ` + runColumns("NULL", "NULL", "NULL") + ` FROM runs WHERE ` + cond + ` ORDER BY ` + by + ` LIMIT ?+0`,
		append(args, int64(limit)+1), nil
}

// List implements store.Runs.
func (c *Core) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	var page store.RunPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	sql, args, err := listRuns(p, limit)
	if err != nil {
		return page, err
	}
	var runs []store.Run
	err = c.read(ctx, Stmt{SQL: sql, Args: args, Rows: appendRun(&runs)})
	if err != nil {
		return page, err
	}
	if len(runs) > limit {
		runs = runs[:limit]
		page.Next = p.CursorBehind(&runs[limit-1])
	}
	page.Runs = runs
	return page, nil
}

// countRuns builds the statement of a count.
func countRuns(p store.CountParams) (string, []any, error) {
	cond, args, err := where(p.Namespace, &p.Filter)
	code := "''"
	if p.ByFailure {
		code = "coalesce(failure->>'code', '')"
	}
	return `SELECT queue, workflow, status, ` + code + `, count(*) FROM runs WHERE ` + cond + ` GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`, args, err
}

// Count implements store.Runs.
func (c *Core) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	sql, args, err := countRuns(p)
	if err != nil {
		return nil, err
	}
	var counts []store.RunCount
	err = c.read(ctx, Stmt{
		SQL: sql, Args: args,
		Rows: func(scan func(...any) error) error {
			var n store.RunCount
			err := scan(&n.Queue, &n.Workflow, &n.Status, &n.FailureCode, &n.Count)
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
