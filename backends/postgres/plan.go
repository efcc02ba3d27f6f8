package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/store"
)

// buildPerRow is about how long one row takes when an index is built concurrently, which reads the
// table twice.
const buildPerRow = 3 * time.Microsecond

// PlanOf reports what migrating a schema would do. It changes nothing. It takes the same arguments
// as Open.
func PlanOf(ctx context.Context, url string, opts ...Option) (store.SchemaPlan, error) {
	s, err := SchemaOf(ctx, url, opts...)
	if err != nil {
		return store.SchemaPlan{}, err
	}
	p := store.SchemaPlan{Place: s.Place, Version: s.Version, Newest: s.Newest}
	list, err := readMigrations()
	if err != nil {
		return store.SchemaPlan{}, err
	}
	tables, err := sizes(ctx, url, opts)
	if err != nil {
		return store.SchemaPlan{}, err
	}
	p.Steps = planned(list, int(s.Version), tables)
	return p, nil
}

// size is the size of a table.
type size struct{ rows, bytes int64 }

// sizes returns the sizes of the schema's tables, as the server estimates them.
func sizes(ctx context.Context, url string, opts []Option) (map[string]size, error) {
	url, opts, err := parameters(url, opts)
	if err != nil {
		return nil, err
	}
	c := newConfig(opts)
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, store.Invalid("database URL", err.Error())
	}
	bounded, cancel := context.WithTimeoutCause(ctx, c.timeout, errSlow)
	defer cancel()
	tables, err := readSizes(bounded, pc.ConnConfig, c.schema)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, openError(err, pc.ConnConfig, c.schema)
	}
	return tables, nil
}

func readSizes(ctx context.Context, at *pgx.ConnConfig, schema string) (map[string]size, error) {
	conn, err := pgx.ConnectConfig(ctx, at)
	if err != nil {
		return nil, err
	}
	defer hangUpSoon(conn)
	// reltuples is -1 until the table was analyzed; until then the statistics count, if there are
	// any.
	rows, err := conn.Query(ctx, `SELECT c.relname, CASE WHEN c.reltuples>=0 THEN c.reltuples::bigint ELSE coalesce(pg_stat_get_live_tuples(c.oid), -1) END, pg_table_size(c.oid)
		FROM pg_class c JOIN pg_namespace n ON n.oid=c.relnamespace WHERE n.nspname=$1::text AND c.relkind='r'`, pgx.QueryExecModeExec, schema)
	if err != nil {
		return nil, orSetup(err)
	}
	tables := map[string]size{}
	var name string
	var s size
	_, err = pgx.ForEachRow(rows, []any{&name, &s.rows, &s.bytes}, func() error {
		tables[name] = s
		return nil
	})
	return tables, orSetup(err)
}

// planned returns the statements of the migrations after version.
func planned(list []migration, version int, tables map[string]size) (steps []store.PlannedStep) {
	at := map[string]string{} // the table of each index
	for _, m := range list {
		for _, p := range m.parts {
			for _, sql := range p.stmts {
				s := store.PlannedStep{Version: int64(m.version), Migration: m.name, SQL: strings.Join(strings.Fields(sql), " ")}
				if err := lockOf(&s, at, tables); err != nil {
					s.Lock, s.Blocks, s.Longest, s.Takes = "unknown", store.BlocksAll, -1, -1
				}
				if m.version > version {
					steps = append(steps, s)
				}
			}
		}
	}
	return steps
}

var (
	createsIndex = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?(?:IF NOT EXISTS )?(\w+) ON pawl\.(\w+)`)
	dropsIndex   = regexp.MustCompile(`^DROP INDEX (?:IF EXISTS )?pawl\.(\w+)`)
	renamesIndex = regexp.MustCompile(`^ALTER INDEX pawl\.(\w+) RENAME TO (\w+)`)
	altersTable  = regexp.MustCompile(`^ALTER TABLE pawl\.(\w+) (ADD COLUMN|DROP COLUMN|ALTER COLUMN)`)
	writesTable  = regexp.MustCompile(`^(?:INSERT INTO|UPDATE) pawl\.(\w+)`)
	makesTrigger = regexp.MustCompile(`^CREATE (?:OR REPLACE )?TRIGGER \w+ AFTER \w+(?: OF [\w, ]+)? ON pawl\.(\w+)`)
	makesOther   = regexp.MustCompile(`^CREATE (?:OR REPLACE )?(?:TABLE|VIEW|FUNCTION) `)
)

var errUnknownStatement = errors.New("a statement whose locks are unknown")

// lockOf returns what a statement locks. Tables that do not exist yet are not locked, because
// nobody uses them.
func lockOf(s *store.PlannedStep, indexes map[string]string, tables map[string]size) error {
	on := func(table, lock string, blocks store.Blocked, longest, perRow time.Duration) {
		size, there := tables[table]
		if !there {
			return
		}
		s.Table, s.Rows, s.Bytes, s.Lock, s.Blocks, s.Longest = table, size.rows, size.bytes, lock, blocks, longest
		if s.Takes = time.Duration(size.rows) * perRow; size.rows < 0 && perRow > 0 {
			s.Takes = -1
		}
	}
	find := func(re *regexp.Regexp) []string { return re.FindStringSubmatch(s.SQL) }
	if f := find(createsIndex); f != nil {
		indexes[f[2]] = f[3]
		if f[1] != "" {
			on(f[3], "SHARE UPDATE EXCLUSIVE", store.BlocksNothing, 0, buildPerRow)
		} else {
			on(f[3], "SHARE", store.BlocksWrites, -1, buildPerRow)
		}
	} else if f := find(dropsIndex); f != nil {
		on(indexes[f[1]], "ACCESS EXCLUSIVE", store.BlocksAll, lockTimeout, 0)
	} else if f := find(renamesIndex); f != nil {
		indexes[f[2]] = indexes[f[1]]
		on(indexes[f[1]], "SHARE UPDATE EXCLUSIVE on the index", store.BlocksNothing, 0, 0)
	} else if f := find(altersTable); f != nil {
		on(f[1], "ACCESS EXCLUSIVE", store.BlocksAll, lockTimeout, 0)
	} else if f := find(makesTrigger); f != nil {
		on(f[1], "SHARE ROW EXCLUSIVE", store.BlocksWrites, lockTimeout, 0)
	} else if f := find(writesTable); f != nil {
		on(f[1], "ROW EXCLUSIVE", store.BlocksNothing, 0, 0)
	} else if find(makesOther) == nil {
		return fmt.Errorf("%w: %s", errUnknownStatement, s.SQL)
	}
	return nil
}
