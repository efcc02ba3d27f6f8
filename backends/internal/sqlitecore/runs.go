package sqlitecore

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
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

// selection is a filter in SQL, with numbered parameters, of which ?1 is the namespace.
type selection struct {
	args  []any
	bound []string // on the time that gives the order: an index begins and ends there
	rest  []string // what is looked up in a run
}

// arg adds an argument.
func (q *selection) arg(v any) string {
	q.args = append(q.args, v)
	return "?" + strconv.Itoa(len(q.args))
}

// selectRuns puts a filter, without its statuses, into SQL. The order is by that column.
func selectRuns(namespace string, f *store.RunFilter, column string) (*selection, error) {
	q := &selection{args: []any{namespace}}
	look := func(cond string) { q.rest = append(q.rest, cond) }
	if f.Workflow != "" {
		look("workflow=" + q.arg(f.Workflow))
	}
	if f.Queue != "" {
		look("queue=" + q.arg(f.Queue))
	}
	if !f.Parent.IsZero() {
		look("parent=" + q.arg(f.Parent[:]))
	}
	if f.ExternalID != "" {
		// Each branch of the OR has an index of its own.
		id := q.arg(f.ExternalID)
		look("namespace=?1 AND ((external_id=" + id + " AND " + holds + ") OR (external_id=" + id + " AND " + held + "))")
	}
	if f.IDPrefix != "" {
		lo, hi, err := store.IDRange(f.IDPrefix)
		if err != nil {
			return nil, err
		}
		look("id BETWEEN " + q.arg(lo[:]) + " AND " + q.arg(hi[:]))
	}
	between := func(of string, after, before time.Time) {
		to := &q.rest
		if f.Few() {
			of = unindexed(of)
		} else if of == column {
			to = &q.bound
		}
		if !after.IsZero() {
			*to = append(*to, of+">"+q.arg(after.UnixMicro()))
		}
		if !before.IsZero() {
			*to = append(*to, of+"<"+q.arg(before.UnixMicro()))
		}
	}
	between("created_at", f.CreatedAfter, f.CreatedBefore)
	between("finished_at", f.FinishedAfter, f.FinishedBefore)
	if f.FailureCode != "" {
		look("failure->>'code'=" + q.arg(f.FailureCode))
	}
	if f.FailureText != "" {
		look("instr(failure->>'message', " + q.arg(f.FailureText) + ")>0")
	}
	if f.FailedStep != "" {
		look("EXISTS (SELECT 1 FROM steps f WHERE f.run_id=runs.id AND f.status=4 AND f.name=" + q.arg(f.FailedStep) + ")")
	}
	if f.MinAttempt > 0 {
		n := q.arg(int64(f.MinAttempt))
		look("(attempt>=" + n + " OR EXISTS (SELECT 1 FROM steps f WHERE f.run_id=runs.id AND f.status<3 AND f.attempt>=" + n + "))")
	}
	return q, nil
}

// arm is a set of runs that one index has in the order of a listing. Its condition has
// the words of that index, which SQLite compares: statuses are literals.
type arm struct {
	cond     string
	rest     string // further, what is looked up in a run; may be empty
	statuses []store.Status
}

// arms divides the runs that a filter may select. With apart, each final status has an
// arm of its own.
func arms(f *store.RunFilter, column string, apart bool) (list []arm) {
	var active, final []store.Status
	for _, s := range store.Statuses() {
		switch {
		case !f.Wants(s):
		case s.Final():
			final = append(final, s)
		case column == "created_at":
			active = append(active, s)
		}
	}
	if len(active) > 0 {
		list = append(list, arm{"namespace=?1 AND finished_at IS NULL", among(active, 5), active})
	}
	completed := len(final) > 0 && final[0] == store.Completed
	if column == "finished_at" && completed && !apart {
		return append(list, arm{"namespace=?1 AND finished_at IS NOT NULL", among(final, 3), final})
	}
	for _, s := range final {
		a := arm{"namespace=?1 AND finished_at IS NOT NULL AND " + among([]store.Status{s}, 0), "", []store.Status{s}}
		switch {
		case column == "created_at":
		case s == store.Completed:
			a.cond, a.rest = "namespace=?1 AND finished_at IS NOT NULL", among(a.statuses, 0)
		default:
			a.cond = "namespace=?1 AND status >= 7 AND " + among(a.statuses, 0)
		}
		list = append(list, a)
	}
	return list
}

// among is the condition that a run has one of these statuses, empty if there are all of
// them.
func among(statuses []store.Status, all int) string {
	if len(statuses) == all {
		return ""
	}
	if len(statuses) == 1 {
		return "status=" + strconv.Itoa(int(statuses[0]))
	}
	list := make([]string, len(statuses))
	for i, s := range statuses {
		list[i] = strconv.Itoa(int(s))
	}
	return "status IN (" + strings.Join(list, ",") + ")"
}

// where is the condition of an arm's runs, with the bounds on the time.
func (q *selection) where(a arm) string { return all(append([]string{a.cond}, q.bound...)) }

// selected tells, of a run of an arm, whether the filter selects it: 1 if it always does.
func (q *selection) selected(a arm) string {
	rest := all(append([]string{a.rest}, q.rest...))
	if rest == "" {
		return "1"
	}
	return "(" + rest + ") IS TRUE"
}

// all joins conditions; empty ones are left out.
func all(conds []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(conds), func(c string) bool { return c == "" }), " AND ")
}

// unindexed is a time that no index serves, nor tells the planner that there is one.
func unindexed(column string) string { return "abs(" + column + ")" }

// few is the condition of the runs of a filter that selects few, by its own index. A plus
// keeps a column from others.
func (q *selection) few(f *store.RunFilter) string {
	conds := append([]string{"+namespace=?1"}, q.rest...)
	if len(f.Statuses) > 0 {
		conds = append(conds, "+"+among(f.Statuses, 0))
	}
	return all(append(conds, q.bound...))
}

// listRuns builds the statement of what a listing may bring: runs, by their ID (of), place
// (made) and the size of their failures; last marks the last run that may be looked at,
// which comes whether it is selected (ok) or not. It is empty where the filter can select
// none. The bound of the cursor on the time alone
// is what the index begins at, and the second condition leaves out those of the same time.
func listRuns(p store.ListParams, limit int) (string, []any, error) {
	last, err := p.Position()
	if err != nil {
		return "", nil, err
	}
	column := "created_at"
	if p.ByEnd {
		column = "finished_at"
	}
	if p.Filter.Few() {
		column = unindexed(column)
	}
	q, err := selectRuns(p.Namespace, &p.Filter, column)
	if err != nil {
		return "", nil, err
	}
	order, beyond := " DESC", "<"
	if p.OldestFirst {
		order, beyond = "", ">"
	}
	if p.Cursor != "" {
		at, id := q.arg(last.At.UnixMicro()), q.arg(last.ID[:])
		q.bound = append(q.bound, column+beyond+"="+at, "("+column+beyond+at+" OR id"+beyond+id+")")
	}
	item := "SELECT id AS of, " + column + " AS made, " + failureSize + " AS size, "
	sorted := " ORDER BY made" + order + ", of" + order + " LIMIT "
	most := q.arg(int64(limit)) + "+1"
	if p.Filter.Few() {
		if p.ByEnd {
			q.bound = append(q.bound, column+" IS NOT NULL")
		}
		return item + "1 AS ok, 0 AS last FROM runs WHERE " + q.few(&p.Filter) + sorted + most, q.args, nil
	}
	var parts []string
	scan := false
	for _, a := range arms(&p.Filter, column, false) {
		ok := q.selected(a)
		scan = scan || ok != "1"
		parts = append(parts, item+ok+" AS ok, 0 AS last FROM runs WHERE "+q.where(a))
	}
	union := strings.Join(parts, " UNION ALL ") + sorted
	if len(parts) == 0 {
		return "", nil, nil
	}
	if !scan {
		return union + most, q.args, nil
	}
	n := q.arg(int64(maxScan(p.MaxScan)))
	return "SELECT of, made, size, ok, place=" + n + " AS last FROM (SELECT *, row_number() OVER () AS place FROM (" + union + n + ")) WHERE ok OR place=" + n + " LIMIT " + most, q.args, nil
}

const failureSize = `coalesce(octet_length(failure), 0)`

func maxScan(n int) int { return cmp.Or(n, store.DefaultScan) }

// List implements store.Runs.
func (c *Core) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	var page store.RunPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	limit = min(limit, maxScan(p.MaxScan))
	sql, args, err := listRuns(p, limit)
	if err != nil {
		return page, err
	}
	if sql == "" {
		return page, ctx.Err()
	}
	order := "made DESC, of DESC"
	if p.OldestFirst {
		order = "made, of"
	}
	more := false
	err = c.read(ctx, Stmt{
		SQL: `WITH item AS (SELECT *, row_number() OVER (ORDER BY ` + order + `) AS nth FROM (` + sql + `))` +
			fitting(order, 1, strconv.Itoa(limit), strconv.Itoa(store.PageBytes)) +
			`SELECT ` + runColumnsIf("fits", "NULL", "NULL", "NULL") + `, fits, ok, last FROM fit CROSS JOIN runs ON id=of ORDER BY ` + order,
		Args: args,
		Rows: func(scan func(...any) error) error {
			var r store.Run
			var fits, ok, last bool
			err := scanRun(scan, &r, &fits, &ok, &last)
			if ok || !fits {
				keep(&page.Runs, &more, r, fits)
			}
			if fits && last {
				page.Next = p.CursorBehind(&r)
			}
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

// countRuns builds the statement of a count: groups of runs by the part that they are of,
// which is an arm, those that the filter does not select (ok) by themselves. It returns
// the statuses of the parts.
func countRuns(p store.CountParams) (string, []any, [][]store.Status, error) {
	column := "created_at"
	if !p.Filter.FinishedAfter.IsZero() || !p.Filter.FinishedBefore.IsZero() {
		column = "finished_at"
	}
	q, err := selectRuns(p.Namespace, &p.Filter, column)
	if err != nil {
		return "", nil, nil, err
	}
	code := "''"
	if p.ByFailure {
		code = "coalesce(failure->>'code', '')"
	}
	const grouped = "SELECT part, iif(ok, queue, ''), iif(ok, workflow, ''), status, iif(ok, code, ''), ok, count(*) FROM ("
	item := func(part int, ok string) string {
		return "SELECT " + strconv.Itoa(part) + " AS part, queue, workflow, status, " + code + " AS code, " + ok + " AS ok FROM runs WHERE "
	}
	if p.Filter.Few() {
		return grouped + item(0, "1") + q.few(&p.Filter) + ") GROUP BY 1, 2, 3, 4, 5, 6", q.args, nil, nil
	}
	n := q.arg(int64(maxScan(p.MaxScan)))
	var parts []string
	var statuses [][]store.Status
	for i, a := range arms(&p.Filter, column, true) {
		parts = append(parts, "SELECT * FROM ("+item(i, q.selected(a))+q.where(a)+" ORDER BY "+column+" DESC, id DESC LIMIT "+n+")")
		statuses = append(statuses, a.statuses)
	}
	if len(parts) == 0 {
		return "", nil, nil, nil
	}
	return grouped + strings.Join(parts, " UNION ALL ") + ") GROUP BY 1, 2, 3, 4, 5, 6", q.args, statuses, nil
}

// Count implements store.Runs.
func (c *Core) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	sql, args, parts, err := countRuns(p)
	if err != nil {
		return nil, err
	}
	if sql == "" {
		return nil, ctx.Err()
	}
	var tally store.CountTally
	err = c.read(ctx, Stmt{
		SQL: sql, Args: args,
		Rows: func(scan func(...any) error) error {
			var n store.RunCount
			var part int64
			var ok bool
			err := scan(&part, &n.Queue, &n.Workflow, &n.Status, &n.FailureCode, &ok, &n.Count)
			tally.Add(int(part), n, ok)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return tally.Rows(maxScan(p.MaxScan), parts), nil
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
