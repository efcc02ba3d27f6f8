package postgres

import (
	"strconv"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// The content that a call returns is limited in bytes. The lengths of items decide which items fit.
// A row stores the lengths separately from the payload, so an item that does not fit is never read.

// Lengths of everything that counts toward the limits.
const (
	inputLength   = `coalesce(octet_length(r.input), 0)+coalesce(octet_length(r.meta), 0)+`
	outputLength  = `coalesce(octet_length(r.output), 0)::bigint+`
	failureLength = `coalesce(octet_length(r.failure), 0)`
)

// wholeRuns reads the runs, r, that a query returns with a place and a size, up to a number of
// bytes. Later runs come without their large columns, and their last column says so.
func wholeRuns(items, input, meta, output, bytes string) string {
	const fits = `(r.nth=1 OR r.total<=`
	only := func(column string) string { return `CASE WHEN r.whole THEN ` + column + ` END` }
	return `SELECT ` + sqlkit.RunColumns(only("r.failure"), only(input), only(meta), only(output)) + `, r.whole
		FROM (SELECT r.*, ` + fits + bytes + `) AS whole FROM (
			SELECT r.*, row_number() OVER place AS nth, sum(r.size) OVER place AS total FROM (` + items + `) r
			WINDOW place AS (ORDER BY r.place ROWS UNBOUNDED PRECEDING)) r) r ORDER BY r.place`
}

// A message of PostgreSQL's protocol, and therefore the parameters of one statement, can be up to
// one gigabyte, of which the server makes several copies.
const (
	maxCall      = 256 << 20 // bytes of payloads of a call with several items
	maxStatement = 16 << 20  // bytes of payloads of one statement, beyond the first item
)

// checkCall refuses a call of several items that is too large to be sent to the server at once.
// Nothing of it is sent.
func checkCall[T any](field string, items []T, size func(*T) int) error {
	total := 0
	for i := range items {
		total += size(&items[i])
	}
	if len(items) > 1 && total > maxCall {
		return &store.TooLargeError{Field: "a call of " + strconv.Itoa(len(items)) + " " + field, Size: total, Limit: maxCall}
	}
	return nil
}

// perStatement divides a list into parts, one for each statement.
func perStatement[T any](items []T, size func(*T) int) (parts [][]T) {
	from, total := 0, 0
	for i := range items {
		n := size(&items[i])
		if total += n; total > maxStatement && i > from {
			parts, from, total = append(parts, items[from:i]), i, n
		}
	}
	return append(parts, items[from:])
}

// appendWhole appends what wholeRuns reads.
func appendWhole(runs *[]store.Run) func(func(...any) error) error {
	var whole bool
	row := newRunRow(&whole)
	return func(scan func(...any) error) error {
		r, err := row.Read(scan)
		r.Omitted = !whole
		*runs = append(*runs, r)
		return err
	}
}
