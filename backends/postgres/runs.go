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

// findRun uses one index for the active run and one for those of the past.
var findRun = `(SELECT ` + cols(withAll) + ` FROM pawl.runs r WHERE ` + findActive + `)
	UNION ALL
	(SELECT ` + cols(withAll) + ` FROM pawl.runs r WHERE r.namespace = $1::text AND r.external_id = $2::text AND r.suffix = $3::text
		AND r.external_id IS NOT NULL AND r.status >= 6 AND NOT EXISTS (SELECT 1 FROM pawl.runs r WHERE ` + findActive + `)
		ORDER BY r.created_at DESC, r.id DESC LIMIT 1)`

const findActive = `r.namespace = $1::text AND r.external_id = $2::text AND r.suffix = $3::text AND r.external_id IS NOT NULL AND r.status < 6`

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
	// planner might walk all runs in the order of their ids.
	if !f.Parent.IsZero() {
		add("r.id = ANY(ARRAY(SELECT x.id FROM pawl.runs x WHERE x.parent = ?::uuid AND x.parent IS NOT NULL))", uuid(f.Parent))
	}
	if f.ExternalID != "" {
		// Each branch has an index of its own.
		add(`r.id = ANY(ARRAY(
			SELECT x.id FROM pawl.runs x WHERE x.namespace = $1::text AND x.external_id = ?::text AND x.external_id IS NOT NULL AND x.status < 6
			UNION ALL
			SELECT x.id FROM pawl.runs x WHERE x.namespace = $1::text AND x.external_id = ?::text AND x.external_id IS NOT NULL AND x.status >= 6))`,
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
	param := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	by := "r.id " + order
	switch {
	case p.ByEnd:
		cond, by = cond+" AND r.finished_at IS NOT NULL", "r.finished_at "+order+", r.id "+order
		if p.Cursor != "" {
			at, id := param(end.UnixMicro())+"::bigint", param(pgtype.UUID{Bytes: last, Valid: true})+"::uuid"
			cond += " AND r.finished_at " + beyond + "= " + at + " AND (r.finished_at " + beyond + " " + at + " OR r.id " + beyond + " " + id + ")"
		}
	case p.Cursor != "":
		cond += " AND r.id " + beyond + " " + param(pgtype.UUID{Bytes: last, Valid: true}) + "::uuid"
	}
	most := param(int64(limit) + 1)
	return `SELECT ` + runColumns(noPayload, noPayload, noPayload) + ` FROM pawl.runs r WHERE ` + cond +
		` ORDER BY ` + by + ` LIMIT ` + most + `::bigint`, args, nil
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
	var runs []store.Run
	err = s.read(ctx, stmt{sql: sql, args: args, rows: appendRun(&runs)})
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

var listChildren = `SELECT ` + runColumns(noPayload, noPayload, "r.output") + ` FROM pawl.runs r
	WHERE r.parent = $2::uuid AND r.parent IS NOT NULL AND r.grp = $3::text AND r.ordinal > $4::bigint AND r.namespace = $1::text
	ORDER BY r.ordinal, r.id LIMIT $5::bigint`

// Children implements store.Runs.
func (s *Store) Children(ctx context.Context, p store.ChildrenParams) ([]store.Run, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	limit, _ := store.Page(p.Limit)
	var runs []store.Run
	err := s.read(ctx, stmt{
		sql: listChildren, args: []any{p.Namespace, uuid(p.Parent), p.Group, p.After, int64(limit)}, rows: appendRun(&runs),
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
	found, bytes := false, 0
	err := s.read(ctx, exists1(p.Namespace, p.Run, &found), stmt{
		sql: `SELECT ` + stepColumns + ` FROM pawl.steps s WHERE s.run_id = $1::uuid AND s.position > $2::bigint
			ORDER BY s.position LIMIT $3::bigint`,
		args: []any{uuid(p.Run), p.After, int64(limit) + 1},
		rows: func(scan func(...any) error) error {
			if page.More {
				return nil
			}
			var step store.Step
			if err := scanStep(scan, &step); err != nil {
				return err
			}
			bytes += len(step.Output)
			if n := len(page.Steps); n == limit || n > 0 && p.MaxBytes > 0 && bytes > p.MaxBytes {
				page.More = true
				return nil
			}
			page.Steps = append(page.Steps, step)
			return nil
		},
	})
	if err == nil && !found {
		return store.StepPage{}, notFound("run %v", p.Run)
	}
	return page, err
}

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
