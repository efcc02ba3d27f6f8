package postgres

import (
	"context"
	"strconv"
	"strings"

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

// where builds the condition that a filter stands for; $1 is the namespace.
func where(namespace string, f *store.RunFilter) (string, []any, error) {
	cond, args := []string{"r.namespace = $1::text"}, []any{namespace}
	// add puts the number of the parameter for each question mark.
	add := func(s string, v any) {
		args = append(args, v)
		cond = append(cond, strings.ReplaceAll(s, "?", "$"+strconv.Itoa(len(args))))
	}
	if len(f.Statuses) > 0 {
		list := make([]int64, len(f.Statuses))
		for i, s := range f.Statuses {
			list[i] = int64(s)
		}
		add("r.status = ANY(?::bigint[]::smallint[])", list)
	}
	if f.Workflow != "" {
		add("r.workflow = ?::text", f.Workflow)
	}
	if f.Queue != "" {
		add("r.queue = ?::text", f.Queue)
	}
	// The few runs of a parent or an external id are looked up first: else the
	// planner might walk all runs in the order of their creation.
	if !f.Parent.IsZero() {
		add("r.id = ANY(ARRAY(SELECT x.id FROM pawl.runs x WHERE x.parent = ?::uuid AND x.parent IS NOT NULL))", uuid(f.Parent))
	}
	if f.ExternalID != "" {
		// Each branch has an index of its own.
		add(`r.id = ANY(ARRAY(
			SELECT x.id FROM pawl.runs x WHERE x.namespace = $1::text AND x.external_id = ?::text AND x.external_id IS NOT NULL AND (x.status < 6 OR x.reuse = 1)
			UNION ALL
			SELECT x.id FROM pawl.runs x WHERE x.namespace = $1::text AND x.external_id = ?::text AND x.external_id IS NOT NULL AND x.status >= 6 AND x.reuse = 0))`,
			f.ExternalID)
	}
	if f.IDPrefix != "" {
		lo, hi, err := store.IDRange(f.IDPrefix)
		if err != nil {
			return "", nil, err
		}
		// The lowest ID may be zero, which uuid would make NULL.
		add("r.id >= ?::uuid", pgtype.UUID{Bytes: lo, Valid: true})
		add("r.id <= ?::uuid", uuid(hi))
	}
	if !f.CreatedAfter.IsZero() {
		add("r.created_at > ?::bigint", f.CreatedAfter.UnixMicro())
	}
	if !f.CreatedBefore.IsZero() {
		add("r.created_at < ?::bigint", f.CreatedBefore.UnixMicro())
	}
	if !f.FinishedAfter.IsZero() {
		add("r.finished_at > ?::bigint AND r.finished_at IS NOT NULL", f.FinishedAfter.UnixMicro())
	}
	if !f.FinishedBefore.IsZero() {
		add("r.finished_at < ?::bigint AND r.finished_at IS NOT NULL", f.FinishedBefore.UnixMicro())
	}
	if f.FailureCode != "" {
		add(failureField+"'code' = ?::text", f.FailureCode)
	}
	if f.FailureText != "" {
		add("position(?::text IN "+failureField+"'message') > 0", f.FailureText)
	}
	if f.FailedStep != "" {
		add("EXISTS (SELECT 1 FROM pawl.steps f WHERE f.run_id = r.id AND f.status = 4 AND f.name = ?::text)", f.FailedStep)
	}
	if f.MinAttempt > 0 {
		add("(r.attempt >= ?::bigint OR EXISTS (SELECT 1 FROM pawl.steps f WHERE f.run_id = r.id AND f.status < 3 AND f.attempt >= ?::bigint))", int64(f.MinAttempt))
	}
	return strings.Join(cond, " AND "), args, nil
}

// failureField is followed by a field's name in quotes. PostgreSQL has no text with
// U+0000, which a failure's JSON may have.
const failureField = `replace(r.failure, '\u0000', '\ufffd')::json ->> `

// listRuns builds the statement of a listing. By their ends, the index of final runs
// gives the order; the bound on the end alone is what the index begins at, and the
// second condition leaves out those of the same end.
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
	param := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	column := "r.created_at"
	by := column
	if !p.ByEnd {
		cond += " AND (r.namespace || '') = " + param(p.Namespace) + "::text" // as runs_created has it
	}
	switch {
	case p.ByEnd:
		column, by, cond = "r.finished_at", "r.finished_at", cond+" AND r.finished_at IS NOT NULL"
	case len(p.Filter.IDPrefix) >= store.FewIDs:
		by = "(r.created_at+0)" // they are found by their ids, and sorted
	}
	if p.Cursor != "" {
		at, id := param(last.At.UnixMicro())+"::bigint", param(pgtype.UUID{Bytes: last.ID, Valid: true})+"::uuid"
		cond += " AND " + column + " " + beyond + "= " + at + " AND (" + column + " " + beyond + " " + at + " OR r.id " + beyond + " " + id + ")"
	}
	most := param(int64(limit))
	return `SELECT r.*, ` + column + ` AS at FROM pawl.runs r WHERE ` + cond +
		` ORDER BY ` + by + ` ` + order + `, r.id ` + order + ` LIMIT ` + most + `::bigint+1`, args, nil
}

// List implements store.Runs.
func (s *Store) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	var page store.RunPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	sql, args, err := listRuns(p, limit)
	if err != nil {
		return page, err
	}
	order := "r.at DESC, r.id DESC"
	if p.OldestFirst {
		order = "r.at, r.id"
	}
	var fits, more bool
	row := newRunRow(&fits)
	err = s.read(ctx, stmt{
		sql: `SELECT ` + runHead + `CASE WHEN r.fits THEN r.failure END` + runPolicy + `NULL::bytea, NULL::bytea, NULL::bytea, r.fits FROM (SELECT s.* FROM ` + fitting(`
			SELECT r.*, `+failureLength+` AS size, row_number() OVER (ORDER BY `+order+`) AS nth FROM (`+sql+`) r`, strconv.Itoa(limit), strconv.Itoa(store.PageBytes)) +
			`) r ORDER BY r.nth`,
		args: args,
		rows: func(scan func(...any) error) error {
			r, err := row.read(scan)
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

// Count implements store.Runs.
func (s *Store) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	cond, args, err := where(p.Namespace, &p.Filter)
	if err != nil {
		return nil, err
	}
	code := "''"
	if p.ByFailure {
		code = "coalesce(" + failureField + "'code', '')"
	}
	var counts []store.RunCount
	err = s.read(ctx, stmt{
		sql:  `SELECT r.queue, r.workflow, r.status, ` + code + ` COLLATE "C", count(*) FROM pawl.runs r WHERE ` + cond + ` GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
		args: args,
		rows: func(scan func(...any) error) error {
			var n store.RunCount
			var status int16
			err := scan(&n.Queue, &n.Workflow, &status, &n.FailureCode, &n.Count)
			n.Status = store.Status(status)
			counts = append(counts, n)
			return err
		},
	})
	return counts, err
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
