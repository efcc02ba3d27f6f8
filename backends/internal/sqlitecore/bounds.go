package sqlitecore

import (
	"cmp"
	"math"
	"strconv"

	"github.com/pawlhq/pawl/store"
)

// What a call brings along is bounded in bytes. Which items fit is decided on their
// lengths, which SQLite knows without reading them, so that what does not fit is never
// read.

// Lengths of what bounds count.
const (
	inputLength   = `CASE WHEN r.parts & 16 THEN coalesce((SELECT length(data) FROM large_inputs WHERE run_id=r.id), 0) ELSE coalesce(length(r.input), 0) END`
	metaLength    = `coalesce(length(r.meta), 0)`
	outputLength  = `coalesce(length(r.output), 0)`
	failureLength = `coalesce(octet_length(r.failure), 0)`
)

// fitting is a common table, fit, of the items that another, item, lists. An item has a
// size and a place in the order of all; nth is its place within its run. Those of fit
// are the ones that come, marked by fits, and of each run the first that does not. The
// first so many come whatever their size, 0 or 1; most and bytes are the bounds.
func fitting(order string, first int, most, bytes string) string {
	free := strconv.Itoa(first)
	return `,
	sized AS (SELECT *, coalesce(sum(iif(nth<=` + most + `, size, 0)) OVER (ORDER BY ` + order + ` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before FROM item),
	fit AS MATERIALIZED (SELECT *, nth<=` + most + ` AND (nth<=` + free + ` OR before+size<=` + bytes + `) AS fits
		FROM sized WHERE nth<=` + free + `+1 OR nth<=` + most + `+1 AND before<=` + bytes + `)
	`
}

// atMost is a bound for a statement; 0: none.
func atMost(n int) int64 { return cmp.Or(int64(n), math.MaxInt64) }

// keep adds an item that fits to a list; for another, there is more.
func keep[T any](list *[]T, more *bool, v T, fits bool) {
	if fits {
		*list = append(*list, v)
	} else {
		*more = true
	}
}

// appendWhole appends runs of which some come without what has a size.
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
