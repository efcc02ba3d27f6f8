package sqlitecore

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Many runs are asked for by one statement: to begin one costs more than a row.
var (
	getRuns        = `SELECT ` + runColumns(anyInput, "meta", "output") + getFrom
	getRunsNoInput = `SELECT ` + runColumns("NULL", "NULL", "output") + getFrom
)

// getBounded, and getBoundedNoInput, leave out what has a size of the runs beyond ?4
// bytes.
var (
	getBounded        = bounded(getItems(inputLength+`+`+metaLength), anyInput, "meta")
	getBoundedNoInput = bounded(getItems(`0`), "NULL", "NULL")
)

func getItems(length string) string {
	return `SELECT r.id, j.key AS place, ` + length + `+` + outputLength + `+` + failureLength + ` AS size
		FROM json_each(?1) j CROSS JOIN runs r ON r.id=unhex(j.value) AND r.namespace=?2 AND r.status>=?3`
}

// bounded reads runs whose ids, places and sizes are known up to ?4 bytes; those beyond
// come without what has a size.
func bounded(items, input, meta string) string {
	return `WITH item AS (` + items + `),
		sized AS MATERIALIZED (SELECT id AS of, place, row_number() OVER place=1 OR sum(size) OVER place<=?4 AS fits FROM item WINDOW place AS (ORDER BY place ROWS UNBOUNDED PRECEDING))
		SELECT ` + runColumnsIf("fits", input, meta, "output") + `, fits FROM sized CROSS JOIN runs ON id=of ORDER BY place`
}

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
	get := Stmt{SQL: query, Args: []any{string(append(ids, ']')), p.Namespace, int64(from)}, Rows: appendRun(&runs)}
	if p.MaxBytes > 0 {
		get.SQL, get.Args, get.Rows = getBounded, append(get.Args, int64(p.MaxBytes)), appendWhole(&runs)
		if p.NoInput {
			get.SQL = getBoundedNoInput
		}
	}
	err := c.read(ctx, get)
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

// holds says that a run holds its external id, held that it has done so: by one index
// each.
const (
	holds = `external_id IS NOT NULL AND (status<6 OR reuse=1)`
	held  = `external_id IS NOT NULL AND status>=6 AND reuse=0`
)

var (
	findHolder = `SELECT ` + runColumns(anyInput, "meta", "output") + ` FROM runs
		WHERE namespace=? AND external_id=? AND suffix=? AND ` + holds
	findPast = `SELECT ` + runColumns(anyInput, "meta", "output") + ` FROM runs
		WHERE namespace=? AND external_id=? AND suffix=? AND ` + held + ` ORDER BY created_at DESC, id DESC LIMIT 1`
)

// Find implements store.Runs.
func (c *Core) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	if err := p.Validate(); err != nil {
		return store.Run{}, err
	}
	var runs []store.Run
	args := []any{p.Namespace, p.ExternalID, p.Suffix}
	err := c.read(ctx,
		Stmt{SQL: findHolder, Args: args, Rows: appendRun(&runs)},
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
		add("((external_id=? AND "+holds+") OR (external_id=? AND "+held+"))", f.ExternalID, f.ExternalID)
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

// few says of a filter that it selects few runs, by an index: sorting those costs less
// than to go through all runs by their creation.
func few(f *store.RunFilter) bool {
	return !f.Parent.IsZero() || f.ExternalID != "" || len(f.IDPrefix) >= store.FewIDs
}

// listRuns builds the statement of what a listing may bring: runs, by their ID (of),
// place (made) and the size of their failures. By their ends, the index of final runs
// gives the order; the bound on the end alone is what the index begins at, and the second
// condition leaves out those of the same end.
func listRuns(p store.ListParams, limit int) (string, []any, error) {
	last, err := p.Position()
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
	column, by := "created_at", "created_at"
	switch {
	case p.ByEnd:
		column, by, cond = "finished_at", "finished_at", cond+" AND finished_at IS NOT NULL"
	case few(&p.Filter):
		by = "+created_at" // they are found by an index of theirs, and sorted
	}
	if p.Cursor != "" {
		cond += " AND " + column + beyond + "=? AND (" + column + beyond + "? OR id" + beyond + "?)"
		args = append(args, last.At.UnixMicro(), last.At.UnixMicro(), last.ID[:])
	}
	return `SELECT id AS of, ` + column + ` AS made, coalesce(octet_length(failure), 0) AS size FROM runs WHERE ` + cond +
		` ORDER BY ` + by + ` ` + order + `, id ` + order + ` LIMIT ?+1`, append(args, int64(limit)), nil
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
	order := "made DESC, of DESC"
	if p.OldestFirst {
		order = "made, of"
	}
	more := false
	err = c.read(ctx, Stmt{
		SQL: `WITH item AS (SELECT *, row_number() OVER (ORDER BY ` + order + `) AS nth FROM (` + sql + `))` +
			fitting(order, 1, strconv.Itoa(limit), strconv.Itoa(store.PageBytes)) +
			`SELECT ` + runColumnsIf("fits", "NULL", "NULL", "NULL") + `, fits FROM fit CROSS JOIN runs ON id=of ORDER BY ` + order,
		Args: args,
		Rows: func(scan func(...any) error) error {
			var r store.Run
			var fits bool
			err := scanRun(scan, &r, &fits)
			keep(&page.Runs, &more, r, fits)
			return err
		},
	})
	if err != nil {
		return store.RunPage{}, err
	}
	if more {
		page.Next = p.CursorBehind(&page.Runs[len(page.Runs)-1])
	}
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
	found, fits := false, false
	err := c.read(ctx, exists1(p.Namespace, p.Run, &found), Stmt{
		SQL: pageOfSteps, Args: []any{p.Run[:], p.After, int64(limit), atMost(p.MaxBytes)},
		Rows: func(scan func(...any) error) error {
			var s store.Step
			err := scan(append([]any{&fits}, stepDest(&s)...)...)
			keep(&page.Steps, &page.More, s, fits)
			return err
		},
	})
	if err == nil && !found {
		return store.StepPage{}, notFound("run %v", p.Run)
	}
	return page, err
}

// pageOfSteps: those of ?1 behind ?2, up to ?3 of them and ?4 bytes.
var pageOfSteps = `WITH item AS (SELECT *, row_number() OVER (ORDER BY position) AS nth FROM (
		SELECT branch, name, occurrence, position, coalesce(length(output), 0)+coalesce(octet_length(failure), 0) AS size
		FROM steps WHERE run_id=?1 AND position>?2 ORDER BY position LIMIT ?3+1))` + fitting(`position`, 1, `?3`, `?4`) + `
	SELECT z.fits, ` + stepColumnsIf + ` FROM fit z CROSS JOIN steps s ON s.run_id=?1 AND s.branch=z.branch AND s.name=z.name AND s.occurrence=z.occurrence
	ORDER BY s.position`

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
