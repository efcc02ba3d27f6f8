package postgres

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawlhq/pawl/store"
)

var (
	getRuns        = `SELECT ` + cols(withAll) + getFrom
	getRunsNoInput = `SELECT ` + runColumns(noPayload, noPayload, "r.output") + getFrom
)

// getBounded, and getBoundedNoInput, leave out what has a size of the runs beyond $4
// bytes.
var (
	getBounded        = wholeRuns(getItems(inputLength), "r.input", "r.meta", "r.output", `$4::bigint`)
	getBoundedNoInput = wholeRuns(getItems(``), noPayload, noPayload, "r.output", `$4::bigint`)
)

func getItems(length string) string {
	return `SELECT r.*, i.place, ` + length + outputLength + failureLength + ` AS size FROM unnest($2::uuid[]) WITH ORDINALITY i(id, place)
		CROSS JOIN LATERAL (SELECT * FROM pawl.runs x WHERE x.id=i.id AND x.namespace=$1::text AND x.status>=$3::smallint OFFSET 0) r`
}

const getFrom = ` FROM pawl.runs r WHERE r.id = ANY($2::uuid[]) AND r.namespace = $1::text AND r.status >= $3::smallint`

// Get implements store.Runs.
func (s *Store) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
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
	var found []store.Run
	if p.MaxBytes > 0 {
		query = getBounded
		if p.NoInput {
			query = getBoundedNoInput
		}
		err := s.read(ctx, stmt{sql: query, args: []any{p.Namespace, uuids(p.IDs), int16(from), int64(p.MaxBytes)}, rows: appendWhole(&found)})
		return found, err
	}
	err := s.read(ctx, stmt{sql: query, args: []any{p.Namespace, uuids(p.IDs), int16(from)}, rows: appendRun(&found)})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	places := make(map[store.ID]int, len(found))
	for i := range found {
		places[found[i].ID] = i
	}
	runs := make([]store.Run, 0, len(found))
	for _, id := range p.IDs {
		if i, ok := places[id]; ok {
			runs = append(runs, found[i])
		}
	}
	return runs, nil
}

// findRun uses one index for the run that holds the external id and one for those of
// the past.
var findRun = `(SELECT ` + cols(withAll) + ` FROM pawl.runs r WHERE ` + findHolder + `)
	UNION ALL
	(SELECT ` + cols(withAll) + ` FROM pawl.runs r WHERE r.namespace = $1::text AND r.external_id = $2::text AND r.suffix = $3::text
		AND r.external_id IS NOT NULL AND r.status >= 6 AND r.reuse = 0 AND NOT EXISTS (SELECT 1 FROM pawl.runs r WHERE ` + findHolder + `)
		ORDER BY r.created_at DESC, r.id DESC LIMIT 1)`

const findHolder = `r.namespace = $1::text AND r.external_id = $2::text AND r.suffix = $3::text AND r.external_id IS NOT NULL AND (r.status < 6 OR r.reuse = 1)`

// Find implements store.Runs.
func (s *Store) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	if err := p.Validate(); err != nil {
		return store.Run{}, err
	}
	var runs []store.Run
	err := s.read(ctx, stmt{sql: findRun, args: []any{p.Namespace, p.ExternalID, p.Suffix}, rows: appendRun(&runs)})
	if err != nil {
		return store.Run{}, err
	}
	if len(runs) == 0 {
		return store.Run{}, notFound("run of external id %q", p.ExternalID)
	}
	return runs[0], nil
}

// selection is a filter in SQL, of which $1 is the namespace.
type selection struct {
	args  []any
	bound []string // on the time that gives the order: an index begins and ends there
	rest  []string // what is looked up in a run
}

// arg adds an argument.
func (q *selection) arg(v any, typ string) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args)) + "::" + typ
}

// selectRuns puts a filter, without its statuses, into SQL. The order is by that column.
func selectRuns(namespace string, f *store.RunFilter, column string) (*selection, error) {
	q := &selection{args: []any{namespace}}
	look := func(cond string) { q.rest = append(q.rest, cond) }
	if f.Workflow != "" {
		look("r.workflow = " + q.arg(f.Workflow, "text"))
	}
	if f.Queue != "" {
		look("r.queue = " + q.arg(f.Queue, "text"))
	}
	// The few runs of a parent or an external id are looked up first: else the
	// planner might walk all runs in the order of their creation.
	if !f.Parent.IsZero() {
		look("r.id = ANY(ARRAY(SELECT x.id FROM pawl.runs x WHERE x.parent = " + q.arg(uuid(f.Parent), "uuid") + " AND x.parent IS NOT NULL))")
	}
	if f.ExternalID != "" {
		// Each branch has an index of its own.
		id := q.arg(f.ExternalID, "text")
		look(`r.id = ANY(ARRAY(
			SELECT x.id FROM pawl.runs x WHERE x.namespace = $1::text AND x.external_id = ` + id + ` AND x.external_id IS NOT NULL AND (x.status < 6 OR x.reuse = 1)
			UNION ALL
			SELECT x.id FROM pawl.runs x WHERE x.namespace = $1::text AND x.external_id = ` + id + ` AND x.external_id IS NOT NULL AND x.status >= 6 AND x.reuse = 0))`)
	}
	if f.IDPrefix != "" {
		lo, hi, err := store.IDRange(f.IDPrefix)
		if err != nil {
			return nil, err
		}
		// The lowest ID may be zero, which uuid would make NULL.
		look("r.id >= " + q.arg(pgtype.UUID{Bytes: lo, Valid: true}, "uuid"))
		look("r.id <= " + q.arg(uuid(hi), "uuid"))
	}
	between := func(of string, after, before time.Time) {
		to := &q.rest
		if of == column {
			to = &q.bound
		}
		if !after.IsZero() {
			*to = append(*to, of+" > "+q.arg(after.UnixMicro(), "bigint"))
		}
		if !before.IsZero() {
			*to = append(*to, of+" < "+q.arg(before.UnixMicro(), "bigint"))
		}
	}
	between("r.created_at", f.CreatedAfter, f.CreatedBefore)
	between("r.finished_at", f.FinishedAfter, f.FinishedBefore)
	if f.FailureCode != "" {
		look(failureField + "'code' = " + q.arg(f.FailureCode, "text"))
	}
	if f.FailureText != "" {
		look("position(" + q.arg(f.FailureText, "text") + " IN " + failureField + "'message') > 0")
	}
	if f.FailedStep != "" {
		look("EXISTS (SELECT 1 FROM pawl.steps f WHERE f.run_id = r.id AND f.status = 4 AND f.name = " + q.arg(f.FailedStep, "text") + ")")
	}
	if f.MinAttempt > 0 {
		n := q.arg(int64(f.MinAttempt), "bigint")
		look("(r.attempt >= " + n + " OR EXISTS (SELECT 1 FROM pawl.steps f WHERE f.run_id = r.id AND f.status < 3 AND f.attempt >= " + n + "))")
	}
	return q, nil
}

// failureField is followed by a field's name in quotes. PostgreSQL has no text with
// U+0000, which a failure's JSON may have.
const failureField = `replace(r.failure, '\u0000', '\ufffd')::json ->> `

// arm is a set of runs that one index has in the order of a listing. Statuses are
// literals, by which the planner sees that they meet the condition of an index.
type arm struct {
	cond   string
	rest   string // further, what is looked up in a run; may be empty
	status store.Status
}

// arms divides the runs that a filter may select. With apart, each final status has an
// arm of its own.
func arms(f *store.RunFilter, column string, apart bool) (list []arm) {
	const ended = "r.namespace = $1::text AND r.finished_at IS NOT NULL" // runs_finished
	if column == "r.finished_at" && f.Wants(store.Completed) && !apart {
		if f.Wants(store.Failed) && f.Wants(store.Canceled) {
			return []arm{{cond: ended}}
		}
		return []arm{{cond: ended, rest: among(f.Statuses)}}
	}
	for _, s := range store.Statuses() {
		is := among([]store.Status{s})
		switch {
		case !f.Wants(s):
		case column == "r.created_at":
			list = append(list, arm{cond: "(r.namespace || '') = $1::text AND (r.status + 0) = " + strconv.Itoa(int(s)), status: s}) // runs_created
		case s == store.Completed:
			list = append(list, arm{cond: ended, rest: is, status: s})
		case s.Final():
			list = append(list, arm{cond: "r.namespace = $1::text AND r.status >= 7 AND " + is, status: s}) // runs_failed
		}
	}
	return list
}

// among is the condition that a run has one of these statuses.
func among(statuses []store.Status) string {
	if len(statuses) == 1 {
		return "r.status = " + strconv.Itoa(int(statuses[0]))
	}
	list := make([]string, len(statuses))
	for i, s := range statuses {
		list[i] = strconv.Itoa(int(s))
	}
	return "r.status IN (" + strings.Join(list, ", ") + ")"
}

// where is the condition of an arm's runs, with the bounds on the time.
func (q *selection) where(a arm) string { return all(append([]string{a.cond}, q.bound...)) }

// selected tells, of a run of an arm, whether the filter selects it: true if it always
// does.
func (q *selection) selected(a arm) string {
	rest := all(append([]string{a.rest}, q.rest...))
	if rest == "" {
		return "true"
	}
	return "(" + rest + ") IS TRUE"
}

// all joins conditions; empty ones are left out.
func all(conds []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(conds), func(c string) bool { return c == "" }), " AND ")
}

// few is the condition of the runs of a filter that selects few, by its own index.
func (q *selection) few(f *store.RunFilter) string {
	conds := append([]string{"r.namespace = $1::text"}, q.rest...)
	if len(f.Statuses) > 0 {
		conds = append(conds, among(f.Statuses))
	}
	return all(append(conds, q.bound...))
}

// listRuns builds the statement of a listing: runs with their place (at); last marks the
// last run that may be looked at, which comes whether it is selected (ok) or not. It is
// empty where the filter can select none.
func listRuns(p store.ListParams, limit int) (string, []any, error) {
	last, err := p.Position()
	if err != nil {
		return "", nil, err
	}
	column := "r.created_at"
	if p.ByEnd {
		column = "r.finished_at"
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
		at, id := q.arg(last.At.UnixMicro(), "bigint"), q.arg(pgtype.UUID{Bytes: last.ID, Valid: true}, "uuid")
		q.bound = append(q.bound, "("+column+", r.id) "+beyond+" ("+at+", "+id+")")
	}
	item := func(ok string) string {
		return "SELECT r.*, " + column + " AS at, " + ok + " AS ok FROM pawl.runs r WHERE "
	}
	whole := func(runs string) string { return "SELECT r.*, false AS last FROM (" + runs + ") r" }
	sorted := " ORDER BY at" + order + ", id" + order + " LIMIT "
	most := q.arg(int64(limit), "bigint") + "+1"
	if p.Filter.Few() { // they are found by an index of theirs, and sorted
		if p.ByEnd {
			q.bound = append(q.bound, "r.finished_at IS NOT NULL")
		}
		return whole(item("true") + q.few(&p.Filter) + " ORDER BY (" + column + "+0)" + order + ", r.id" + order + " LIMIT " + most), q.args, nil
	}
	var parts []string
	list, scan := arms(&p.Filter, column, false), false
	for _, a := range list {
		scan = scan || q.selected(a) != "true"
	}
	if len(list) == 0 {
		return "", nil, nil
	}
	looked := most
	if scan {
		looked = q.arg(int64(maxScan(p.MaxScan)), "bigint")
	}
	for _, a := range list {
		parts = append(parts, "("+item(q.selected(a))+q.where(a)+" ORDER BY "+column+order+", r.id"+order+" LIMIT "+looked+")")
	}
	union := strings.Join(parts, " UNION ALL ")
	if len(parts) > 1 {
		union = "SELECT * FROM (" + union + ") r" + sorted + looked
	}
	if !scan {
		return whole(union), q.args, nil
	}
	return "SELECT r.*, place = " + looked + " AS last FROM (SELECT r.*, row_number() OVER (ORDER BY at" + order + ", id" + order + ") AS place FROM (" + union + ") r) r WHERE ok OR place = " + looked + sorted + most, q.args, nil
}

func maxScan(n int) int { return cmp.Or(n, store.DefaultScan) }

// List implements store.Runs.
func (s *Store) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
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
	order := "r.at DESC, r.id DESC"
	if p.OldestFirst {
		order = "r.at, r.id"
	}
	var fits, ok, last, more bool
	row := newRunRow(&fits, &ok, &last)
	err = s.read(ctx, stmt{
		sql: `SELECT ` + runHead + `CASE WHEN r.fits THEN r.failure END` + runPolicy + `NULL::bytea, NULL::bytea, NULL::bytea, r.fits, r.ok, r.last FROM (SELECT s.* FROM ` + fitting(`
			SELECT r.*, `+failureLength+` AS size, row_number() OVER (ORDER BY `+order+`) AS nth FROM (`+sql+`) r`, strconv.Itoa(limit), strconv.Itoa(store.PageBytes)) +
			`) r ORDER BY r.nth`,
		args: args,
		rows: func(scan func(...any) error) error {
			r, err := row.read(scan)
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
	column := "r.created_at"
	if !p.Filter.FinishedAfter.IsZero() || !p.Filter.FinishedBefore.IsZero() {
		column = "r.finished_at"
	}
	q, err := selectRuns(p.Namespace, &p.Filter, column)
	if err != nil {
		return "", nil, nil, err
	}
	code := "''"
	if p.ByFailure {
		code = "coalesce(" + failureField + "'code', '')"
	}
	const (
		grouped = `SELECT part, CASE WHEN ok THEN queue ELSE '' END, CASE WHEN ok THEN workflow ELSE '' END, status, CASE WHEN ok THEN code ELSE '' END, ok, count(*) FROM (`
		by      = `) r GROUP BY 1, 2, 3, 4, 5, 6`
	)
	item := func(part int, ok string) string {
		return "SELECT " + strconv.Itoa(part) + "::bigint AS part, r.queue, r.workflow, r.status, " + code + ` COLLATE "C" AS code, ` + ok + " AS ok FROM pawl.runs r WHERE "
	}
	if p.Filter.Few() {
		return grouped + item(0, "true") + q.few(&p.Filter) + by, q.args, nil, nil
	}
	var parts []string
	var statuses [][]store.Status
	looked := q.arg(int64(maxScan(p.MaxScan)), "bigint")
	for i, a := range arms(&p.Filter, column, true) {
		parts = append(parts, "("+item(i, q.selected(a))+q.where(a)+" ORDER BY "+column+" DESC, r.id DESC LIMIT "+looked+")")
		statuses = append(statuses, []store.Status{a.status})
	}
	if len(parts) == 0 {
		return "", nil, nil, nil
	}
	return grouped + strings.Join(parts, " UNION ALL ") + by, q.args, statuses, nil
}

// Count implements store.Runs.
func (s *Store) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
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
	err = s.read(ctx, stmt{
		sql: sql, args: args,
		rows: func(scan func(...any) error) error {
			var n store.RunCount
			var part int64
			var status int16
			var ok bool
			err := scan(&part, &n.Queue, &n.Workflow, &status, &n.FailureCode, &ok, &n.Count)
			n.Status = store.Status(status)
			tally.Add(int(part), n, ok)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return tally.Rows(maxScan(p.MaxScan), parts), nil
}

// listChildren leaves out what has a size of the children beyond $6 bytes.
var listChildren = wholeRuns(`SELECT r.*, row_number() OVER (ORDER BY r.ordinal, r.id) AS place, `+outputLength+failureLength+` AS size FROM (
	SELECT r.* FROM pawl.runs r
	WHERE r.parent = $2::uuid AND r.parent IS NOT NULL AND r.grp = $3::text AND r.ordinal > $4::bigint AND r.namespace = $1::text
	ORDER BY r.ordinal, r.id LIMIT $5::bigint) r`, noPayload, noPayload, "r.output", `$6::bigint`)

// Children implements store.Runs.
func (s *Store) Children(ctx context.Context, p store.ChildrenParams) ([]store.Run, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	limit, _ := store.Page(p.Limit)
	var runs []store.Run
	err := s.read(ctx, stmt{
		sql: listChildren, args: []any{p.Namespace, uuid(p.Parent), p.Group, p.After, int64(limit), atMost(p.MaxBytes)}, rows: appendWhole(&runs),
	})
	return runs, err
}

// Steps implements store.Runs.
func (s *Store) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	var page store.StepPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	found, fits := false, false
	err := s.read(ctx, exists1(p.Namespace, p.Run, &found), stmt{
		sql: pageOfSteps, args: []any{uuid(p.Run), p.After, int64(limit), atMost(p.MaxBytes)},
		rows: func(scan func(...any) error) error {
			var step store.Step
			err := scanStep(scan, &step, &fits)
			keep(&page.Steps, &page.More, step, fits)
			return err
		},
	})
	if err == nil && !found {
		return store.StepPage{}, notFound("run %v", p.Run)
	}
	return page, err
}

// pageOfSteps: those of $1 behind $2, up to $3 of them and $4 bytes.
var pageOfSteps = `SELECT s.fits, ` + whenFits(stepColumns, `s.output`, `s.failure`) + ` FROM ` + fitting(`
	SELECT s.*, coalesce(octet_length(s.output), 0)+coalesce(octet_length(s.failure), 0) AS size, row_number() OVER (ORDER BY s.position) AS nth FROM (
		SELECT * FROM pawl.steps x WHERE x.run_id = $1::uuid AND x.position > $2::bigint ORDER BY x.position LIMIT $3::bigint+1) s`,
	`$3::bigint`, `$4::bigint`) + ` ORDER BY s.position`

// exists1 asks whether the namespace has the run.
func exists1(namespace string, id store.ID, found *bool) stmt {
	return stmt{
		sql:  `SELECT 1::bigint FROM pawl.runs r WHERE r.id = $1::uuid AND r.namespace = $2::text`,
		args: []any{uuid(id), namespace},
		rows: func(scan func(...any) error) error {
			var one int64
			*found = true
			return scan(&one)
		},
	}
}
