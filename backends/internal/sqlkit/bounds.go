package sqlkit

import (
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/store"
)

// A page is a statement that lists rows, s, of a table up to a number and a size. The lengths of
// the payloads decide which rows fit. A row stores the lengths separately, so a payload that does
// not fit is never read. The first row fits whatever its size.
//
// The first column of the statement, fits, says whether the row fits: the first row that does
// not fit comes too. The other columns are those that are listed.
type page struct {
	table   string
	of      string // the condition on the leading columns of the primary key
	key     string // the other columns of the primary key
	which   string // the other conditions, beginning with AND; may be empty
	order   string // columns of the key, or that and others
	size    string // the length of the payloads of s
	most    string // how many rows fit
	bytes   string // how many bytes fit
	columns string

	// If fitting is set, rows that do not fit are not returned, and the first column says whether
	// there are any. join may then add tables.
	fitting bool
	join    string
}

// query builds the statement.
func (p page) query(name string) *Query {
	return newQuery(name, [dialects]string{p.postgres(), p.sqlite()})
}

// postgres keeps whole rows, because they only hold a reference to a large payload.
func (p page) postgres() string {
	rows := fitting(`SELECT s.*, `+p.size+` AS size, row_number() OVER (ORDER BY `+p.order+`) AS nth FROM (
		SELECT s.* FROM pawl.`+p.table+` s WHERE `+p.of+p.which+` ORDER BY `+p.order+` LIMIT `+p.most+`+1) s`, p.most, p.bytes)
	if p.fitting {
		return `SELECT s.more, ` + p.columns + ` FROM (SELECT s.*, bool_or(NOT s.fits) OVER () AS more FROM (` + rows + `) s) s` + p.join + ` WHERE s.fits ORDER BY s.nth`
	}
	return `SELECT s.fits, ` + p.columns + ` FROM (` + rows + `) s ORDER BY s.nth`
}

// fitting selects, of numbered rows that have a size, those that are returned, on PostgreSQL.
func fitting(rows, most, bytes string) string {
	return `SELECT s.*, s.nth<=` + most + ` AND (s.nth=1 OR s.earlier+s.size<=` + bytes + `) AS fits FROM (
		SELECT s.*, coalesce(sum(s.size) OVER (ORDER BY s.nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS earlier FROM (` + rows + `) s) s
		WHERE s.nth<=2 OR s.earlier<=` + bytes
}

// fitTable selects, of numbered rows that have a size, those that are returned, as a common table,
// fit, on SQLite.
func fitTable(rows, most, bytes string) string {
	return `WITH item AS (` + rows + `),
		sized AS (SELECT *, coalesce(sum(size) OVER (ORDER BY nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS earlier FROM item),
		fit AS MATERIALIZED (SELECT *, nth<=` + most + ` AND (nth=1 OR earlier+size<=` + bytes + `) AS fits FROM sized WHERE nth<=2 OR earlier<=` + bytes + `)
		`
}

// sqlite keeps only keys and lengths, and then reads the rows that fit.
func (p page) sqlite() string {
	again := p.of
	for _, column := range strings.Split(p.key, ", ") {
		again += ` AND s.` + column + `=z.` + column
	}
	keys := `s.` + strings.ReplaceAll(p.key, `, `, `, s.`)
	for _, column := range strings.Split(p.order, ", ") {
		if !strings.Contains(keys+",", column+",") {
			keys += `, ` + column
		}
	}
	fit := fitTable(`SELECT *, row_number() OVER (ORDER BY `+strings.ReplaceAll(p.order, `s.`, ``)+`) AS nth FROM (
		SELECT `+keys+`, `+p.size+` AS size FROM pawl.`+p.table+` s WHERE `+p.of+p.which+` ORDER BY `+p.order+` LIMIT `+p.most+`+1)`, p.most, p.bytes)
	found := p.columns + ` FROM fit z CROSS JOIN pawl.` + p.table + ` s ON ` + again
	if p.fitting {
		return fit + `SELECT EXISTS (SELECT 1 FROM fit WHERE NOT fits), ` + found + p.join + ` WHERE z.fits ORDER BY z.nth`
	}
	return fit + `SELECT z.fits, ` + found + ` ORDER BY z.nth`
}

// pageBytes is [store.PageBytes] in a statement.
var pageBytes = strconv.Itoa(store.PageBytes)

// ifFits is a large column: NULL if the row does not fit.
func ifFits(column string) string { return `CASE WHEN fits THEN ` + column + ` END` }
