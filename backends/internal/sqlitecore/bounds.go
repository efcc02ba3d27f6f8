package sqlitecore

import (
	"strconv"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A call limits the bytes that it returns. The lengths of items decide which items fit; SQLite
// knows the lengths without reading the items, so an item that does not fit is never read.

// Lengths of the items that limits count.
var (
	inputLength   = sqlkit.Text(`CASE WHEN r.parts & {partLargeInput} THEN coalesce((SELECT length(data) FROM large_inputs WHERE run_id=r.id), 0) ELSE coalesce(length(r.input), 0) END`)
	metaLength    = `coalesce(length(r.meta), 0)`
	outputLength  = `coalesce(length(r.output), 0)`
	failureLength = `coalesce(octet_length(r.failure), 0)`
)

// fitting defines a common table, fit, of the items of another table, item. An item has a size and
// a place in the order of all items; nth is its place within its run. fit contains the items that
// are returned, marked by fits, and for each run the first item that is not. The first items, as
// many as first says (0 or 1), are returned whatever their size; most and bytes are the limits.
func fitting(order string, first int, most, bytes string) string {
	free := strconv.Itoa(first)
	return `,
	sized AS (SELECT *, coalesce(sum(iif(nth<=` + most + `, size, 0)) OVER (ORDER BY ` + order + ` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before FROM item),
	fit AS MATERIALIZED (SELECT *, nth<=` + most + ` AND (nth<=` + free + ` OR before+size<=` + bytes + `) AS fits
		FROM sized WHERE nth<=` + free + `+1 OR nth<=` + most + `+1 AND before<=` + bytes + `)
	`
}

// appendWhole appends runs, some of which come without their large columns.
func appendWhole(runs *[]store.Run) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var whole bool
		var r store.Run
		err := scanRun(scan, &r, &whole)
		r.Omitted = !whole
		*runs = append(*runs, r)
		return err
	}
}
