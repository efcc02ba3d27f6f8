package sqlitecore

import (
	"context"
	"encoding/hex"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// One statement reads many runs, because beginning a statement costs more than a row. The status is
// compared with ?+0, because SQLite prepares a statement again whenever a parameter is bound that
// is compared with a column of a partial index's condition.
var (
	getRuns        = `SELECT ` + runColumns(anyInput, "meta", "output") + getFrom
	getRunsNoInput = `SELECT ` + runColumns("NULL", "NULL", "output") + getFrom
)

// getBounded and getBoundedNoInput omit the large columns of the runs beyond ?4 bytes.
var (
	getBounded        = bounded(getItems(inputLength+`+`+metaLength), anyInput, "meta")
	getBoundedNoInput = bounded(getItems(`0`), "NULL", "NULL")
)

func getItems(length string) string {
	return `SELECT r.id, j.key AS place, ` + length + `+` + outputLength + `+` + failureLength + ` AS size
		FROM json_each(?1) j CROSS JOIN runs r ON r.id=unhex(j.value) AND r.namespace=?2 AND r.status>=?3+0`
}

// bounded reads runs whose ids, places and sizes are known, up to ?4 bytes; later ones come without
// their large columns.
func bounded(items, input, meta string) string {
	return `WITH item AS (` + items + `),
		sized AS MATERIALIZED (SELECT id AS of, place, row_number() OVER place=1 OR sum(size) OVER place<=?4 AS fits FROM item WINDOW place AS (ORDER BY place ROWS UNBOUNDED PRECEDING))
		SELECT ` + runColumnsIf("fits", input, meta, "output") + `, fits FROM sized CROSS JOIN runs ON id=of ORDER BY place`
}

const getFrom = ` FROM (SELECT key AS place, unhex(value) AS wanted FROM json_each(?)) CROSS JOIN runs
	ON id=wanted AND namespace=? AND status>=?+0 ORDER BY place`

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

// holds finds the run that holds an external id, held the runs that have held it, with one index
// each.
var (
	holds = sqlkit.Text(`external_id IS NOT NULL AND (status<{final} OR reuse={reuseNever})`)
	held  = sqlkit.Text(`external_id IS NOT NULL AND status>={final} AND reuse={reuseAfterEnd}`)
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
		return store.Run{}, sqlkit.NotFound("run of external id %q", p.ExternalID)
	}
	return runs[0], nil
}
