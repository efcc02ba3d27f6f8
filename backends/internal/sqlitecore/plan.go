package sqlitecore

import (
	"regexp"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// About how long one row takes when an index is built, and when a table is copied.
const (
	buildPerRow = 2 * time.Microsecond
	copyPerRow  = 5 * time.Microsecond
)

var (
	onTable = regexp.MustCompile(`^(?:CREATE (?:UNIQUE )?INDEX (\w+) ON|ALTER TABLE|INSERT INTO|UPDATE) (\w+)`)
	drops   = regexp.MustCompile(`^DROP INDEX (\w+)`)
	// A table that gets another form is copied out and back.
	moves = regexp.MustCompile(`^(CREATE TABLE|DROP TABLE|INSERT INTO) (\w+?)(_moved)?\b(.* FROM \w+(_moved ORDER BY rowid)?$|$)`)
)

// Plan describes what the migrations after a version do. Each is one transaction, during which
// other writers wait. count counts the rows of a table up to a limit; it returns -1 for a table
// that does not exist.
func Plan(place string, version int64, limit int64, count func(table string) (int64, error)) (store.SchemaPlan, error) {
	list, err := Migrations()
	if err != nil {
		return store.SchemaPlan{}, err
	}
	p := store.SchemaPlan{Place: place, Version: version, Newest: list[len(list)-1].Version}
	rows := map[string]int64{}
	indexes := map[string]string{}
	for _, m := range list {
		from := len(p.Steps)
		longest := time.Duration(0)
		for _, sql := range sqlkit.Split(m.SQL) {
			s := store.PlannedStep{Version: m.Version, Migration: m.Name, SQL: strings.Join(strings.Fields(sql), " ")}
			var table string
			perRow := time.Duration(0)
			if f := moves.FindStringSubmatch(s.SQL); f != nil && (f[3] != "" || f[5] != "" || f[1] == "DROP TABLE") {
				table = f[2]
				if f[1] != "DROP TABLE" {
					perRow = copyPerRow
				}
			} else if f := onTable.FindStringSubmatch(s.SQL); f != nil {
				if table = f[2]; f[1] != "" {
					perRow = buildPerRow
				}
				indexes[f[1]] = table
			} else if f := drops.FindStringSubmatch(s.SQL); f != nil {
				table = indexes[f[1]]
			}
			if m.Version <= version {
				continue
			}
			if _, known := rows[table]; !known && table != "" {
				if rows[table], err = count(table); err != nil {
					return store.SchemaPlan{}, err
				}
			}
			if n := rows[table]; table != "" && n >= 0 {
				s.Table, s.Rows, s.Bytes, s.AtLeast = table, n, -1, n >= limit
				s.Lock, s.Blocks = "the database, for writing", store.BlocksWrites
				s.Takes = time.Duration(n) * perRow
				longest += s.Takes
			}
			p.Steps = append(p.Steps, s)
		}
		for i := range p.Steps[from:] {
			if s := &p.Steps[from+i]; s.Table != "" {
				s.Longest = longest // until the transaction ends
			}
		}
	}
	return p, nil
}

// CountUpTo counts the rows of a table up to a limit.
func CountUpTo(table string) string {
	return `SELECT count(*) FROM (SELECT 1 FROM ` + table + ` LIMIT ?)`
}
