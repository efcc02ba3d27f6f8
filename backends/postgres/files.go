package postgres

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/migrations"
)

// migration is one file: the statements that migrate from the version before it to its own. They
// use the schema name pawl.
type migration struct {
	version int
	name    string // of the file
	text    string // of the upward part
	parts   []part
}

// part is a unit of a migration: one transaction, or one statement outside of transactions.
type part struct {
	index string // the index that CREATE INDEX CONCURRENTLY creates, alone; empty: stmts are one transaction
	stmts []string
}

var concurrently = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)`)

// readMigrations returns all migrations in order.
func readMigrations() ([]migration, error) {
	dir := migrations.Postgres()
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return nil, err
	}
	list := make([]migration, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		m := &list[i]
		m.name = name
		if _, err := fmt.Sscanf(name, "%d_", &m.version); err != nil {
			return nil, fmt.Errorf("migration %s has no version", name)
		}
		_, up, _ := strings.Cut(string(text), "-- +goose Up")
		m.text, _, _ = strings.Cut(up, "-- +goose Down")
		m.parts = parts(sqlkit.Split(m.text))
	}
	return list, nil
}

// parts divides statements at those that have to run outside of transactions.
func parts(stmts []string) (list []part) {
	for _, sql := range stmts {
		if found := concurrently.FindStringSubmatch(sql); found != nil {
			list = append(list, part{index: found[1], stmts: []string{sql}})
			continue
		}
		if len(list) == 0 || list[len(list)-1].index != "" {
			list = append(list, part{})
		}
		last := &list[len(list)-1]
		last.stmts = append(last.stmts, sql)
	}
	if len(list) == 0 || list[len(list)-1].index != "" {
		list = append(list, part{}) // the transaction that records the version
	}
	return list
}

// atOnce returns the text of a migration for a new schema, where it is part of one transaction.
func (m *migration) atOnce() string {
	return strings.ReplaceAll(m.text, " CONCURRENTLY", "")
}

// newest is the version of the last migration.
func newest(list []migration) int { return list[len(list)-1].version }

// after returns the migrations that a schema of that version has not had.
func after(list []migration, version int) []migration {
	i := slices.IndexFunc(list, func(m migration) bool { return m.version > version })
	if i < 0 {
		return nil
	}
	return list[i:]
}

// record returns the statement that records that a migration was applied.
func record(version int, schema string) string {
	return qualify(fmt.Sprintf(`INSERT INTO pawl.migrations (version) VALUES (%d)`, version), schema)
}
