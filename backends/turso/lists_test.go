package turso

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlhq/pawl/backends/internal/sqlitecore"
	"github.com/pawlhq/pawl/store"
)

// TestListsReadTheSameRows checks that what the server bills for a list and a count does not grow
// with the number of completed runs.
func TestListsReadTheSameRows(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	// complete adds completed runs with numbers from from to to; each status has 20 of the first
	// hundred runs.
	add := func(from, to int, status, end string) {
		sql := fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i+1 FROM n WHERE i<%d)
			INSERT INTO runs (id, namespace, workflow, queue, status, priority, created_at, finished_at)
			SELECT randomblob(16), 'ns', 'w', 'q', %s, 0, i, %s FROM n`, from, to, status, end)
		require.NoError(t, s.runner.Write(t.Context(), []sqlitecore.Stmt{{SQL: sql}}))
	}
	addMany := func(from, to int) { // in writes that do not take a busy server long
		for ; from < to; from += 5_000 {
			add(from, min(to, from+5_000)-1, "6", "i")
		}
	}
	add(1, 100, "1+i%5", "NULL")
	add(101, 150, "7+i%2", "i")
	in := func(statuses ...store.Status) store.RunFilter { return store.RunFilter{Statuses: statuses} }
	active := in(store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling)
	measure := func() map[string]int64 {
		rows := map[string]int64{}
		for name, p := range map[string]store.ListParams{
			"list": {}, "list failed": {Filter: in(store.Failed)}, "list unfinished": {Filter: active}, "list sleeping": {Filter: in(store.Sleeping)},
			"list by end": {ByEnd: true}, "list failed by end": {Filter: in(store.Failed, store.Canceled), ByEnd: true},
			"list of a workflow": {Filter: store.RunFilter{Workflow: "none"}, MaxScan: 500},
		} {
			p.Namespace = "ns"
			before := s.Counters().RowsRead
			_, err := s.List(t.Context(), p)
			require.NoError(t, err)
			rows[name] = s.Counters().RowsRead - before
		}
		for name, p := range map[string]store.CountParams{
			"count unfinished": {Filter: active}, "count failed": {Filter: in(store.Failed, store.Canceled)}, "count": {MaxScan: 500},
		} {
			p.Namespace = "ns"
			before := s.Counters().RowsRead
			_, err := s.Count(t.Context(), p)
			require.NoError(t, err)
			rows[name] = s.Counters().RowsRead - before
		}
		return rows
	}
	add(1001, 2000, "6", "i")
	few := measure()
	addMany(10_001, 59_000)
	require.Equal(t, few, measure())
	t.Logf("rows read: %v", few)
}
