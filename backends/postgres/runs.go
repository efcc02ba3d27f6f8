package postgres

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

var (
	getRuns        = `SELECT ` + cols(withAll) + getFrom
	getRunsNoInput = `SELECT ` + runColumns(noPayload, noPayload, "r.output") + getFrom
)

// getBounded, and getBoundedNoInput, omit the payloads of the runs beyond $4 bytes.
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

// findRun uses one index for the run that holds the external id and one for earlier runs
// with it.
var findRun = sqlkit.Text(`(SELECT ` + cols(withAll) + ` FROM pawl.runs r WHERE ` + findHolder + `)
	UNION ALL
	(SELECT ` + cols(withAll) + ` FROM pawl.runs r WHERE r.namespace = $1::text AND r.external_id = $2::text AND r.suffix = $3::text
		AND r.external_id IS NOT NULL AND r.status >= {final} AND r.reuse = {reuseAfterEnd} AND NOT EXISTS (SELECT 1 FROM pawl.runs r WHERE ` + findHolder + `)
		ORDER BY r.created_at DESC, r.id DESC LIMIT 1)`)

var findHolder = sqlkit.Text(`r.namespace = $1::text AND r.external_id = $2::text AND r.suffix = $3::text AND r.external_id IS NOT NULL AND (r.status < {final} OR r.reuse = {reuseNever})`)

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
		return store.Run{}, sqlkit.NotFound("run of external id %q", p.ExternalID)
	}
	return runs[0], nil
}
