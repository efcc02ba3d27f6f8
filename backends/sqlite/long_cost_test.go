//go:build long

package sqlite_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/conformance"
	"github.com/pawlhq/pawl/store"
)

// finder maps an index to the case that notices that it is missing.
var finder = map[string]string{
	"runs_claim":           "cost/claim",
	"runs_pinned":          "cost/builds",
	"runs_external":        "cost/create-external-id",
	"runs_external_past":   "cost/find",
	"runs_parent":          "cost/children",
	"inner_runs_parent":    "cost/tree",
	"runs_open_children":   "cost/parent-ends",
	"runs_finished":        "cost/list-by-end",
	"runs_active":          "cost/list-active",
	"runs_ended":           "cost/list-failed",
	"runs_failed":          "cost/list-failed-by-end",
	"signals_unread":       "cost/inbox",
	"schedules_due":        "cost/schedules-due",
	"actions_at":           "cost/journal",
	"actions_run":          "cost/journal",
	"workers_asked":        "cost/claim-none",
	"runs_flow":            "cost/limit-claim",
	"runs_fresh":           "cost/limit-claim",
	"stream_items_writer":  "cost/append",
	"debounces_run":        "cost/purge",
	"debounced_starts_run": "cost/create-debounced",
	"limit_flows_flow":     "cost/limit-claim",
	"limit_flows_due":      "cost/limit-claim",
	"limit_flows_later":    "cost/limit-claim",
	"limit_flows_parked":   "cost/limit-freed",
	"limit_flows_ready":    "cost/limit-claim-none",
	"limit_flows_turn":     "cost/limit-claim-fair",
	"limit_keys_rates":     "cost/limit-claim",
	"limit_keys_turns":     "cost/limit-claim-fair",
	"limit_parks_told":     "cost/limit-claim-none",
	"limit_parks_wake":     "cost/limit-freed",
	"changes_of":           "cost/drop-changes",
	"changes_due":          "cost/changes",
	"changes_run":          "cost/changes",
	"a scan in each claim": "cost/claim",
}

// scanning reads each run of the namespace when it claims, if it is told to.
type scanning struct {
	*sqlite.Store
	scans bool
}

func (s *scanning) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	if s.scans {
		if _, err := s.List(ctx, store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Queue: "none"}, MaxScan: 1 << 20}); err != nil {
			return store.Claimed{}, err
		}
	}
	return s.Store.Claim(ctx, p)
}

// indexes returns the indexes of the schema that migrations create, by name.
func indexes(t *testing.T) map[string]string {
	path := file(t)
	require.NoError(t, open(t, path).Close())
	rows, err := raw(t, path).Query(`SELECT name, sql FROM sqlite_schema WHERE type='index' AND sql IS NOT NULL AND tbl_name<>'goose_db_version'`)
	require.NoError(t, err)
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var name, sql string
		require.NoError(t, rows.Scan(&name, &sql))
		all[name] = sql
	}
	require.NoError(t, rows.Err())
	return all
}

// TestCostOfMissingIndexes checks that the backend fails a cost case without any one of its
// indexes, and with a scan of the namespace in each call, and that it fails none with all of them.
func TestCostOfMissingIndexes(t *testing.T) {
	t.Parallel()
	var faults, last []conformance.CostFault
	all := indexes(t)
	require.Contains(t, all, "limits_fair")
	delete(all, "limits_fair")                                            // the cases have few limits, and to read them costs no more than the index
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(all))) { // those of actions last: created again, they are chosen in another order
		definition := all[name]
		drop := func(s store.Store) { s.(*scanning).Exec(t, "DROP INDEX "+name) }
		if name == "runs_external" { // without it, rows might be inserted that it forbids
			last = append(last, conformance.CostFault{Name: name, Begin: func(s store.Store) func() { drop(s); return nil }})
			continue
		}
		faults = append(faults, conformance.CostFault{Name: name, Begin: func(s store.Store) func() {
			drop(s)
			return func() {
				if name == "limit_flows_flow" {
					s.(*scanning).Exec(t, "DELETE FROM limit_flows WHERE id NOT IN (SELECT min(id) FROM limit_flows GROUP BY namespace, queue, workflow, pin, priority, flow)")
				}
				s.(*scanning).Exec(t, definition)
			}
		}})
	}
	require.Len(t, last, 1)
	faults = append(faults, conformance.CostFault{Name: "a scan in each claim", Begin: func(s store.Store) func() {
		s.(*scanning).scans = true
		return func() { s.(*scanning).scans = false }
	}})
	faults = append(faults, last...)
	found := conformance.CostOfFaults(t, conformance.Harness{Meter: func(t testing.TB) conformance.Meter {
		m := metered(t)
		m.Store = &scanning{Store: m.Store.(*sqlite.Store)}
		return m
	}}, faults)
	assert.Empty(t, found[""], "with all indexes")
	for _, f := range faults {
		assert.Contains(t, found[f.Name], finder[f.Name], "the fault: %s", f.Name)
		t.Logf("%-20s %s", f.Name, strings.Join(found[f.Name], " "))
	}
	assert.Len(t, faults, len(finder))
}

// form is a table of the schema that migrations create.
type form struct {
	definition, columns string
	rest                []string // its indexes and triggers
}

func formOf(t *testing.T, table string) (f form) {
	path := file(t)
	require.NoError(t, open(t, path).Close())
	db := raw(t, path)
	require.NoError(t, db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name=?`, table).Scan(&f.definition))
	require.NoError(t, db.QueryRow(`SELECT group_concat(name) FROM pragma_table_info(?)`, table).Scan(&f.columns))
	rows, err := db.Query(`SELECT sql FROM sqlite_schema WHERE tbl_name=? AND type<>'table' AND sql IS NOT NULL`, table)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var sql string
		require.NoError(t, rows.Scan(&sql))
		f.rest = append(f.rest, sql)
	}
	require.NoError(t, rows.Err())
	return f
}

// remake gives a table another form and keeps its rows.
func (f form) remake(t testing.TB, s *sqlite.Store, table, suffix string) {
	for _, sql := range append([]string{
		"CREATE TABLE moved AS SELECT " + f.columns + " FROM " + table, "DROP TABLE " + table, f.definition + suffix,
		"INSERT INTO " + table + " (" + f.columns + ") SELECT " + f.columns + " FROM moved", "DROP TABLE moved",
	}, f.rest...) {
		s.Exec(t, sql)
	}
}

// TestCostOfLargePayloads checks that a cost case fails if SQLite reads the payloads of the rows that a search
// in a table passes, as it does in a table without rowids.
func TestCostOfLargePayloads(t *testing.T) {
	t.Parallel()
	for table, finder := range map[string]string{
		"runs": "cost/list-active", "steps": "cost/commit-steps", "signals": "cost/signal", "state": "cost/state", "stream_items": "cost/stream",
	} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			f := formOf(t, table)
			found := conformance.CostOfFaults(t, conformance.Harness{Meter: func(t testing.TB) conformance.Meter {
				m := metered(t)
				f.remake(t, m.Store.(*sqlite.Store), table, ", WITHOUT ROWID")
				return m
			}}, nil)
			assert.Contains(t, found[""], finder)
			t.Log(strings.Join(found[""], " "))
		})
	}
}
