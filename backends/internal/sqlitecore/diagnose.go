package sqlitecore

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/pawlhq/pawl/store"
)

var madeOrDropped = regexp.MustCompile(`(?im)^\s*(CREATE(?: UNIQUE)?|DROP) INDEX (?:IF (?:NOT )?EXISTS )?(\w+)`)

// MissingIndexes returns the names of the indexes of the schema that the database does not have.
func (c *Core) MissingIndexes(ctx context.Context) ([]string, error) {
	list, err := Migrations()
	if err != nil {
		return nil, err
	}
	var version int64
	there := map[string]bool{}
	err = c.runner.Read(ctx, []Stmt{{
		SQL: `SELECT name FROM sqlite_schema WHERE type='index'`,
		Rows: func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			there[name] = true
			return err
		},
	}, {
		SQL:  `SELECT max(version_id) FROM goose_db_version WHERE is_applied`,
		Rows: func(scan func(...any) error) error { return scan(&version) },
	}})
	if err != nil {
		return nil, err
	}
	if version > list[len(list)-1].Version {
		return nil, nil // a newer program may have replaced some
	}
	var missing []string
	for _, name := range indexes(list) {
		if !there[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// indexes lists the indexes that the migrations create and do not drop.
func indexes(list []Migration) (names []string) {
	dropped := map[string]bool{}
	for _, m := range list {
		for _, found := range madeOrDropped.FindAllStringSubmatch(m.SQL, -1) {
			dropped[found[2]] = strings.EqualFold(found[1], "DROP")
			names = append(names, found[2])
		}
	}
	live := names[:0]
	seen := map[string]bool{}
	for _, n := range names {
		if !dropped[n] && !seen[n] {
			seen[n] = true
			live = append(live, n)
		}
	}
	return live
}

// IndexFinding reports the missing indexes.
func IndexFinding(missing []string) store.Finding {
	f := store.Finding{Name: "indexes", Seen: "all present"}
	if len(missing) > 0 {
		f.Level, f.Seen = store.Fault, "missing: "+strings.Join(missing, ", ")
		f.Advice = "they were dropped, and without them claims read all runs; create them as pawl migrate sql --since 0 shows"
	}
	return f
}

// Size formats a number of bytes for people.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f kB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}
