//go:build long

package postgres_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/postgres"
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
	"runs_following":       "cost/parent-ends",
	"runs_finished":        "cost/list-by-end",
	"runs_created":         "cost/list-active",
	"runs_failed":          "cost/list-failed-by-end",
	"signals_unread":       "cost/inbox",
	"schedules_due":        "cost/schedules-due",
	"actions_at":           "cost/journal",
	"actions_run":          "cost/journal",
	"runs_flow":            "cost/limit-claim",
	"stream_items_writer":  "cost/append",
	"debounces_run":        "cost/purge",
	"debounced_starts_run": "cost/create-debounced",
	"limit_flows_parked":   "cost/limit-freed",
	"limit_flows_ready":    "cost/limit-claim-none",
	"limit_flows_timed":    "cost/limit-rate",
	"changes_due":          "cost/changes",
	"changes_run":          "cost/changes",
	"a scan in each claim": "cost/claim",
}

// scanning reads each run of the namespace when it claims, if it is told to.
type scanning struct {
	*postgres.Store
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

// indexes returns the indexes of the schema that are not constraints, by name.
func indexes(t *testing.T, url string) map[string]string {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), `SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_index i JOIN pg_class c ON c.oid=i.indexrelid
		WHERE c.relnamespace='pawl'::regnamespace AND NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.conindid=c.oid)`)
	require.NoError(t, err)
	all := map[string]string{}
	var name, definition string
	_, err = pgx.ForEachRow(rows, []any{&name, &definition}, func() error { all[name] = definition; return nil })
	require.NoError(t, err)
	return all
}

// TestCostOfFaults checks that the backend fails a cost case without any one of its indexes, and
// with a scan of the namespace in each claim, and that it fails none with all of them.
func TestCostOfFaults(t *testing.T) {
	t.Parallel()
	m, url := meteredAt(t)
	m.Store = &scanning{Store: m.Store.(*postgres.Store)}
	var faults, last []conformance.CostFault
	all := indexes(t, url)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		definition := all[name]
		drop := func() { exec(t, url, "DROP INDEX pawl."+name) }
		if name == "runs_external" { // without it, rows might be inserted that it forbids
			last = append(last, conformance.CostFault{Name: name, Begin: func(store.Store) func() { drop(); return nil }})
			continue
		}
		faults = append(faults, conformance.CostFault{Name: name, Begin: func(store.Store) func() {
			drop()
			return func() { exec(t, url, definition) }
		}})
	}
	require.Len(t, last, 1)
	faults = append(faults, conformance.CostFault{Name: "a scan in each claim", Begin: func(s store.Store) func() {
		s.(*scanning).scans = true
		return func() { s.(*scanning).scans = false }
	}})
	faults = append(faults, last...)
	found := conformance.CostOfFaults(t, conformance.Harness{Meter: func(testing.TB) conformance.Meter { return m }}, faults)
	assert.Empty(t, found[""], "with all indexes")
	for _, f := range faults {
		assert.Contains(t, found[f.Name], finder[f.Name], "the fault: %s", f.Name)
		t.Logf("%-20s %s", f.Name, strings.Join(found[f.Name], " "))
	}
	assert.Len(t, faults, len(finder))
}
