package sqlitecore

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/store"
)

// Migration is one file: the statements that migrate to its version.
type Migration struct {
	Version int64
	Name    string // of the file
	SQL     string
}

// Migrations reads goose's files in order.
func Migrations() ([]Migration, error) {
	files := migrations.SQLite()
	names, err := fs.Glob(files, "*.sql") // in order
	if err != nil {
		return nil, err
	}
	list := make([]Migration, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(name, "%d_", &list[i].Version); err != nil {
			return nil, fmt.Errorf("migration %s has no version", name)
		}
		_, up, _ := strings.Cut(string(text), "-- +goose Up")
		up, _, _ = strings.Cut(up, "-- +goose Down")
		list[i].Name, list[i].SQL = name, strings.TrimSpace(up)
	}
	return list, nil
}

// The table of versions is goose's own, so that goose can be used on these databases.
const (
	VersionTable = `CREATE TABLE IF NOT EXISTS goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now')))`
	FirstVersion = `INSERT INTO goose_db_version (version_id, is_applied) SELECT 0, 1 WHERE NOT EXISTS (SELECT 1 FROM goose_db_version)`
)

// SchemaSQL returns the SQL that migrates from a version to the newest, for users who apply it
// themselves. It returns "" if there is nothing to do.
func SchemaSQL(since int64) (string, error) {
	list, err := Migrations()
	if err != nil {
		return "", err
	}
	if newest := list[len(list)-1].Version; since < 0 || since > newest {
		return "", store.Invalid("version", fmt.Sprintf("%d is not between 0 and %d, the newest version that this program supports", since, newest))
	}
	var b strings.Builder
	for _, m := range list {
		if m.Version > since {
			fmt.Fprintf(&b, "-- %s\n%s\nINSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, 1);\n", m.Name, m.SQL, m.Version)
		}
	}
	if b.Len() == 0 {
		return "", nil
	}
	return "BEGIN;\n" + VersionTable + ";\n" + FirstVersion + ";\n" + b.String() + "COMMIT;\n", nil
}

// Applied reads which migrations a database has had, and when. Only the last row of a version
// counts.
const Applied = `SELECT version_id, CAST(unixepoch(max(tstamp)) AS INTEGER) AS at FROM goose_db_version WHERE is_applied AND version_id>0 GROUP BY version_id ORDER BY version_id`

const (
	// WithMinimum is the first version in which a database says which programs may use it.
	WithMinimum = 7
	// Minimum reads the oldest version that a program must know.
	Minimum = `SELECT max(minimum) FROM compatibility`
)

// MayUse reports whether a program that knows migrations up to newest may use a database that has
// had later ones.
func MayUse(place string, version, minimum, newest int64) error {
	if newest >= minimum {
		return nil
	}
	return store.Invalid("database", fmt.Sprintf("%s: its schema has version %d, which needs programs that know version %d or later, and this program knows versions up to %d; "+
		"run a newer program", place, version, minimum, newest))
}

// SchemaOf combines the migrations that were applied with those that are known.
func SchemaOf(place string, applied map[int64]time.Time, minimum int64) (store.Schema, error) {
	list, err := Migrations()
	if err != nil {
		return store.Schema{}, err
	}
	s := store.Schema{Place: place, Newest: list[len(list)-1].Version, Minimum: minimum}
	for _, m := range list {
		s.Migrations = append(s.Migrations, store.Migration{Version: m.Version, Name: m.Name, AppliedAt: applied[m.Version]})
	}
	for v, at := range applied {
		s.Version = max(s.Version, v)
		if v > s.Newest {
			s.Migrations = append(s.Migrations, store.Migration{Version: v, AppliedAt: at})
		}
	}
	slices.SortFunc(s.Migrations, func(a, b store.Migration) int { return cmp.Compare(a.Version, b.Version) })
	return s, nil
}
