package sqlkit

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/store"
)

const failureSize = `coalesce(octet_length(r.failure), 0)`

// ListRuns builds the statement that reads the candidates of a listing: runs with their place (at).
// last marks the last run that may be looked at, which is returned whether the filter selects it
// (ok) or not. On SQLite the inner queries carry the IDs of runs and the size of their failures, on
// PostgreSQL whole rows. The statement is empty if the filter can select no run.
func ListRuns(db DB, p store.ListParams, limit int) (string, []any, error) {
	last, err := p.Position()
	if err != nil {
		return "", nil, err
	}
	column := "r.created_at"
	if p.ByEnd {
		column = "r.finished_at"
	}
	q, err := selectRuns(db, p.Namespace, &p.Filter, column)
	if err != nil {
		return "", nil, err
	}
	order, beyond := " DESC", "<"
	if p.OldestFirst {
		order, beyond = "", ">"
	}
	tables, column, place := q.from(column)
	if p.Filter.Few() {
		column = q.d.unindexed(column)
	}
	if p.Cursor != "" {
		// On SQLite the index search begins at the bound on the time alone, and the second
		// condition excludes the runs of the same time.
		at, id := q.time(last.At), q.id(last.ID)
		q.bound = append(q.bound, q.d.pick("("+column+", "+place+")"+beyond+"("+at+", "+id+")",
			column+beyond+"="+at+" AND ("+column+beyond+at+" OR "+place+beyond+id+")"))
	}
	item := func(ok string) string {
		return "SELECT " + q.d.pick("r.*", place+" AS id, "+failureSize+" AS size") + ", " + column + " AS at, " + ok + " AS ok FROM " + tables + " WHERE "
	}
	sorted := " ORDER BY at" + order + ", id" + order
	most := q.arg(int64(limit), "bigint") + "+1"
	whole := func(runs string) string { return q.text("SELECT r.*, false AS last FROM (" + runs + ") r") }
	if p.Filter.Few() { // an index of their own finds them, and they are sorted
		if p.ByEnd {
			q.bound = append(q.bound, "r.finished_at IS NOT NULL")
		}
		return whole(item("true") + q.fewRuns(&p.Filter) + sorted + " LIMIT " + most), q.args, nil
	}
	list, scan := q.arms(&p.Filter, column, false), false
	if len(list) == 0 {
		return "", nil, nil
	}
	for _, a := range list {
		scan = scan || q.selected(a) != "true"
	}
	looked := most
	if scan {
		looked = q.arg(int64(MaxScan(p.MaxScan)), "bigint")
	}
	union := q.merged(list, func(a arm) string { return item(q.selected(a)) }, sorted, looked)
	if !scan {
		return whole(union), q.args, nil
	}
	// SQLite numbers rows in the order in which they arrive, which needs no sort. The OFFSET keeps it from
	// merging this query with an outer one that sorts: then it would look at all runs before it takes some.
	numbered := "SELECT r.*, row_number() OVER (" + q.d.pick(sorted, "") + ") AS place FROM (" + union + ") r"
	return q.text("SELECT r.*, place=" + looked + " AS last FROM (" + numbered + ") r WHERE ok OR place=" + looked + q.d.pick(sorted, "") + " LIMIT " + most + q.d.pick("", " OFFSET 0")), q.args, nil
}

// List implements store.Runs.
func (v Verbs) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	var page store.RunPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	limit = min(limit, MaxScan(p.MaxScan))
	sql, args, err := ListRuns(v.db, p, limit)
	if err != nil {
		return page, err
	}
	if sql == "" {
		return page, ctx.Err()
	}
	order := "at DESC, id DESC"
	if p.OldestFirst {
		order = "at, id"
	}
	d := v.db.Dialect()
	nothing := d.pick("NULL::bytea", "NULL")
	columns := RunColumns(ifFits("r.failure"), nothing, nothing, nothing) + ", fits, ok, last"
	numbered := `SELECT r.*, ` + d.pick(failureSize+` AS size, `, ``) + `row_number() OVER (ORDER BY ` + order + `) AS nth FROM (` + sql + `) r`
	most := strconv.Itoa(limit)
	sql = d.pick(`SELECT `+columns+` FROM (`+fitting(numbered, most, pageBytes)+`) r ORDER BY nth`,
		fitTable(numbered, most, pageBytes)+`SELECT `+columns+` FROM fit z CROSS JOIN runs r ON r.id=z.id ORDER BY nth`)
	var fits, ok, last, more bool
	row := NewRunReader(v.db.Blob, &fits, &ok, &last)
	err = v.db.Read(ctx, Stmt{SQL: sql, Args: args, Rows: func(scan Scan) error {
		r, err := row.Read(scan)
		RunRow(&p, &page, &more, &r, fits, ok, last)
		return err
	}})
	if err != nil {
		return store.RunPage{}, err
	}
	if more {
		page.Next = p.CursorBehind(&page.Runs[len(page.Runs)-1])
	}
	return page, nil
}

// CountRuns builds the statement of a count: groups of runs by their part (the arms of the same
// statuses), and separately those that the filter does not select (ok). It returns the statuses of
// the parts.
func CountRuns(db DB, p store.CountParams) (string, []any, [][]store.Status, error) {
	column := "r.created_at"
	if !p.Filter.FinishedAfter.IsZero() || !p.Filter.FinishedBefore.IsZero() {
		column = "r.finished_at"
	}
	q, err := selectRuns(db, p.Namespace, &p.Filter, column)
	if err != nil {
		return "", nil, nil, err
	}
	code := "''"
	if p.ByFailure {
		code = "coalesce(" + q.d.failureField("code") + ", '')"
	}
	const (
		grouped = `SELECT part, CASE WHEN ok THEN queue ELSE '' END, CASE WHEN ok THEN workflow ELSE '' END, status, CASE WHEN ok THEN code ELSE '' END, ok, count(*) FROM (`
		by      = `) r GROUP BY 1, 2, 3, 4, 5, 6`
	)
	each, all, end := "SELECT * FROM (", grouped, by
	if q.d == SQLite {
		// It sorts what it groups, so that each part apart, with few columns, takes half the time.
		each, all, end = grouped, "", ""
	}
	tables, column, place := q.from(column)
	item := func(part int, ok string) string {
		return "SELECT " + strconv.Itoa(part) + " AS part, r.queue, r.workflow, r.status, " + code + q.d.pick(` COLLATE "C"`, ``) + " AS code, " + ok + " AS ok, " + column + " AS at, " + place + " AS id FROM " + tables + " WHERE "
	}
	if p.Filter.Few() {
		return q.text(grouped + item(0, "true") + q.fewRuns(&p.Filter) + by), q.args, nil, nil
	}
	var parts []string
	var statuses [][]store.Status
	looked := q.arg(int64(MaxScan(p.MaxScan)), "bigint")
	for list := q.arms(&p.Filter, column, true); len(list) > 0; {
		n := 1
		for n < len(list) && slices.Equal(list[n].statuses, list[0].statuses) {
			n++
		}
		part := q.merged(list[:n], func(a arm) string { return item(len(parts), q.selected(a)) }, " ORDER BY at DESC, id DESC", looked)
		group := ") r"
		if q.d == SQLite {
			group = ") r GROUP BY 3, 2, 4" + keys(p.ByFailure, list[:n], q)
		}
		parts = append(parts, each+part+group)
		statuses = append(statuses, list[0].statuses)
		list = list[n:]
	}
	if len(parts) == 0 {
		return "", nil, nil, nil
	}
	return q.text(all + strings.Join(parts, " UNION ALL ") + end), q.args, statuses, nil
}

// keys returns the further columns by which a part is grouped, unless each has one value.
func keys(code bool, arms []arm, q *selection) string {
	text := ""
	if code {
		text = ", 5"
	}
	if slices.ContainsFunc(arms, func(a arm) bool { return q.selected(a) != "true" }) {
		text += ", 6"
	}
	return text
}

// Count implements store.Runs.
func (v Verbs) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	sql, args, parts, err := CountRuns(v.db, p)
	if err != nil {
		return nil, err
	}
	if sql == "" {
		return nil, ctx.Err()
	}
	var tally store.CountTally
	err = v.db.Read(ctx, Stmt{SQL: sql, Args: args, Rows: func(scan Scan) error {
		var n store.RunCount
		var part int64
		var ok bool
		err := scan(&part, &n.Queue, &n.Workflow, &n.Status, &n.FailureCode, &ok, &n.Count)
		tally.Add(int(part), n, ok)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return tally.Rows(MaxScan(p.MaxScan), parts), nil
}

// ListActions implements store.Journal.
func (v Verbs) ListActions(ctx context.Context, p store.ListActionsParams) (store.ActionPage, error) {
	var page store.ActionPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	at, last, err := p.Position()
	if err != nil {
		return page, err
	}
	q := newSelection(v.db, p.Namespace)
	if !p.Run.IsZero() {
		q.look("r.run IS NOT NULL AND r.run=" + q.id(p.Run))
	}
	if p.Actor != "" {
		q.look("r.actor=" + q.arg(p.Actor, "text"))
	}
	if p.Cursor != "" {
		t, id := q.time(at), q.id(last)
		q.look("r.at<=" + t + " AND (r.at<" + t + " OR r.id<" + id + ")")
	}
	sql := q.text("SELECT r.id, r.at, r.actor, r.origin, r.verb, r.target, r.run, r.details, r.outcome FROM pawl.actions r WHERE " + All(append([]string{q.namespace}, q.rest...)) +
		" ORDER BY r.at DESC, r.id DESC LIMIT " + q.arg(int64(limit), "bigint") + "+1")
	err = v.db.Read(ctx, Stmt{SQL: sql, Args: q.args, Rows: func(scan Scan) error {
		a, err := ScanAction(scan)
		page.Actions = append(page.Actions, a)
		return err
	}})
	if err != nil {
		return store.ActionPage{}, err
	}
	if last := Cut(&page.Actions, limit); last != nil {
		page.Next = p.NextCursor(last)
	}
	return page, nil
}
