package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/store"
)

// listed adds runs $from to $to: of a hundred, 98 completed, one failed, and one that
// sleeps. $i is a table of the numbers, $id makes an ID of one.
const listed = `INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, epoch, seq, worker, created_at, started_at, finished_at, visible_at, input, output, failure)
	SELECT $id, 'default', 'w' || (i%10), 'q' || (i%10), CASE i%100 WHEN 0 THEN 7 WHEN 1 THEN 3 ELSE 6 END, 0, 1, 1, 'gone', i, i,
	CASE WHEN i%100<>1 THEN i END, CASE WHEN i%100=1 THEN 4000000000000000+i END, '7', '7', CASE WHEN i%100=0 THEN '{"code":"error","message":"m"}' END FROM $i`

// listedRuns fills in what a database's SQL has of its own.
func (at *site) listedRuns(from, to int) string {
	id, numbers := `unhex(printf('%032x', i))`, fmt.Sprintf(`(WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i+1 FROM n WHERE i<%d) SELECT i FROM n)`, from, to)
	sql := strings.ReplaceAll(listed, "pawl.", "")
	if at.wal != nil { // PostgreSQL
		id, numbers = `lpad(to_hex(i), 32, '0')::uuid`, fmt.Sprintf(`generate_series(%d, %d) i`, from, to)
		sql = listed
	} else {
		sql = strings.NewReplacer("'7', '7'", "x'37', x'37'").Replace(sql)
	}
	return strings.NewReplacer("$id", id, "$i", numbers).Replace(sql)
}

// lists measures lists and counts by status beside ever more runs: the fastest of several,
// which other work on the machine disturbs least.
func (b *bench) lists(ctx context.Context, at *site) error {
	place, st, leave, err := at.fresh(ctx)
	if err != nil {
		return err
	}
	defer leave()
	in := func(s ...store.Status) store.RunFilter { return store.RunFilter{Statuses: s} }
	active := in(store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling)
	list := func(p store.ListParams) func() error {
		p.Namespace = "default"
		return func() error { _, err := st.List(ctx, p); return err }
	}
	count := func(f store.RunFilter) func() error {
		return func() error { _, err := st.Count(ctx, store.CountParams{Namespace: "default", Filter: f}); return err }
	}
	for n, have := 10_000, 0; n <= b.crowd; n *= 10 {
		for ; have < n; have += min(n-have, 50_000) {
			if err := at.raw(ctx, place, at.listedRuns(have+1, have+min(n-have, 50_000))); err != nil {
				return err
			}
		}
		if at.wal != nil {
			if err := at.raw(ctx, place, `VACUUM ANALYZE pawl.runs`); err != nil {
				return err
			}
		}
		for _, q := range []struct {
			name string
			do   func() error
		}{
			{"list all", list(store.ListParams{})},
			{"list failed", list(store.ListParams{Filter: in(store.Failed)})},
			{"list failed by end", list(store.ListParams{Filter: in(store.Failed), ByEnd: true})},
			{"list unfinished", list(store.ListParams{Filter: active})},
			{"list pending (none)", list(store.ListParams{Filter: in(store.Pending)})},
			{"list of an unknown workflow, a page", list(store.ListParams{Filter: store.RunFilter{Workflow: "none"}})},
			{"count unfinished", count(active)},
			{"count failed", count(in(store.Failed))},
			{"count by status", count(store.RunFilter{})},
		} {
			var took []float64
			var rows int64
			for i := range b.samples/10 + 3 {
				t, counted := st.(*turso.Store)
				if counted {
					rows = -t.Counters().RowsRead
				}
				from := time.Now()
				if err := q.do(); err != nil {
					return fmt.Errorf("%s: %w", q.name, err)
				}
				if i >= 3 {
					took = append(took, time.Since(from).Seconds()*1000)
				}
				if counted {
					rows += t.Counters().RowsRead
				}
			}
			slices.Sort(took)
			fmt.Fprintf(os.Stderr, "%s of %d runs: %.2f ms, %d rows read\n", q.name, n, took[0], rows)
			b.add(fmt.Sprintf("%s, of %d runs", q.name, n), "ms", took[0])
		}
	}
	return nil
}
