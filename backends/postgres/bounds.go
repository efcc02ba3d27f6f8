package postgres

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// What a call brings along is bounded in bytes. Which items fit is decided on their
// lengths, which a row knows without its payload, so that what does not fit is never
// read.

// Lengths of what bounds count.
const (
	inputLength   = `coalesce(octet_length(r.input), 0)+coalesce(octet_length(r.meta), 0)+`
	outputLength  = `coalesce(octet_length(r.output), 0)::bigint+`
	failureLength = `coalesce(octet_length(r.failure), 0)`
)

// fitting are the items of a query, as s, that come, marked by fits, and the first that
// does not. An item has a size; nth is its place. The first comes whatever its size; most
// and bytes are the bounds.
func fitting(items, most, bytes string) string {
	return `(SELECT s.*, s.nth<=` + most + ` AND (s.nth=1 OR s.before+s.size<=` + bytes + `) AS fits FROM (
		SELECT s.*, coalesce(sum(s.size) OVER (ORDER BY s.nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
		FROM (` + items + `) s) s
		WHERE s.nth<=2 OR s.before<=` + bytes + `) s`
}

// whenFits are columns of which some come with what fits alone.
func whenFits(columns string, some ...string) string {
	for _, c := range some {
		columns = strings.Replace(columns, c, `CASE WHEN s.fits THEN `+c+` END`, 1)
	}
	return columns
}

// wholeRuns reads runs, r, that a query gives with a place and a size, up to so many
// bytes; those beyond come without what has a size, and say so by their last column.
func wholeRuns(items, input, meta, output, bytes string) string {
	const fits = `(r.nth=1 OR r.total<=`
	only := func(column string) string { return `CASE WHEN r.whole THEN ` + column + ` END` }
	return `SELECT ` + runHead + only("r.failure") + runPolicy + only(input) + `, ` + only(meta) + `, ` + only(output) + `, r.whole
		FROM (SELECT r.*, ` + fits + bytes + `) AS whole FROM (
			SELECT r.*, row_number() OVER place AS nth, sum(r.size) OVER place AS total FROM (` + items + `) r
			WINDOW place AS (ORDER BY r.place ROWS UNBOUNDED PRECEDING)) r) r ORDER BY r.place`
}

// A message of PostgreSQL's protocol, and so the parameters of one statement, holds a
// gigabyte, of which the server makes several copies.
const (
	maxCall      = 256 << 20 // of the payloads of a call of several items
	maxStatement = 16 << 20  // of those that one statement takes, beyond the first
)

// checkCall refuses a call of several items that is larger than the server should take
// at once. Nothing of it was sent.
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

// perStatement cuts a list into parts that go into one statement each.
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

// appendWhole appends what wholeRuns reads.
func appendWhole(runs *[]store.Run) func(func(...any) error) error {
	var whole bool
	row := newRunRow(&whole)
	return func(scan func(...any) error) error {
		r, err := row.read(scan)
		r.Omitted = !whole
		*runs = append(*runs, r)
		return err
	}
}
