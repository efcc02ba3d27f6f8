package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/backends/postgres"
	"github.com/pawlhq/pawl/store"
)

// few fills a schema with 1,000 runs that may be claimed; many, with what must not
// matter beside them, in the same lane and in others.
const (
	few = `INSERT INTO pawl.lanes VALUES ('default', 'q', 'w', 0) ON CONFLICT DO NOTHING;
		INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, created_at, visible_at, input)
		SELECT gen_random_uuid(), 'default', 'w', 'q', 1, 0, i, i, '7' FROM generate_series(1, 1000) i; ANALYZE pawl.runs`
	many = `INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, epoch, worker, created_at, started_at, finished_at, input, output)
			SELECT ('00000001-0000-0000-0000-' || lpad(to_hex(i), 12, '0'))::uuid, 'default', 'w', 'q', 6, 0, 1, 'gone', i, i, i, '7', '7' FROM generate_series(1, %[1]d) i;
		INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, epoch, worker, created_at, started_at, visible_at, wakes, input)
			SELECT ('00000002-0000-0000-0000-' || lpad(to_hex(i), 12, '0'))::uuid, 'default', 'w', 'q', 3, 0, 1, 'gone', i, i,
			(extract(epoch FROM now())*1000000)::bigint+86400000000+i, 7, '7' FROM generate_series(1, %[1]d) i;
		INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, created_at, visible_at)
			SELECT gen_random_uuid(), 'default', CASE i%%4 WHEN 0 THEN 'other' WHEN 1 THEN 'paused' ELSE 'w' END, CASE WHEN i%%4=2 THEN 'other' ELSE 'q' END,
			CASE WHEN i%%4=3 THEN 4 ELSE 1 END, 0, i, i FROM generate_series(1, %[1]d/10) i;
		INSERT INTO pawl.lanes SELECT DISTINCT namespace, queue, workflow, priority FROM pawl.runs ON CONFLICT DO NOTHING;
		INSERT INTO pawl.paused VALUES ('default', '', 'paused', 0);
		INSERT INTO pawl.steps (run_id, position, epoch, started_at, finished_at, occurrence, idx, attempt, kind, status, branch, name, output)
			SELECT ('00000002-0000-0000-0000-' || lpad(to_hex(i), 12, '0'))::uuid, 1, 1, i, i, 1, 1, 1, 1, 3, '', 's', '7' FROM generate_series(1, %[1]d/3) i;
		VACUUM ANALYZE pawl.runs`
)

// finished adds no-op runs that are.
const finished = `INSERT INTO pawl.runs (id, namespace, workflow, queue, status, priority, epoch, seq, worker, created_at, started_at, finished_at, input, output)
	SELECT ('00000001-0000-0000-0000-' || lpad(to_hex(i), 12, '0'))::uuid, 'default', 'noop', 'noop', 6, 0, 1, 1, 'gone', i, i, i, '7', '7' FROM generate_series(%d, %d) i`

// claims compares claims among few and among many runs, in turns.
func (b *bench) claims(ctx context.Context, srv *server) error {
	var stores [2]*postgres.Store
	for i := range stores {
		schema, drop := srv.schema()
		defer drop()
		st, err := srv.open(ctx, schema, 2)
		if err != nil {
			return err
		}
		defer st.Close()
		stores[i] = st
		if i == 1 {
			for _, sql := range splitSQL(fmt.Sprintf(many, b.crowd)) {
				if err := srv.exec(ctx, in(schema, sql)); err != nil {
					return err
				}
			}
		}
		if err := srv.exec(ctx, in(schema, few)); err != nil {
			return err
		}
	}
	for _, n := range []int{1, 100} {
		var took [2][]time.Duration
		for i := range b.samples + 10 {
			for k, st := range stores {
				from := time.Now()
				c, err := st.Claim(ctx, store.ClaimParams{Namespace: "default", Worker: "worker", LeaseFor: time.Minute,
					Demands: []store.Demand{{Queue: "q", Workflows: []string{"w"}, Max: n}}})
				if d := time.Since(from); i >= 10 {
					took[k] = append(took[k], d)
				}
				if err == nil && len(c.Runs) != n {
					err = fmt.Errorf("claimed %d runs, not %d", len(c.Runs), n)
				}
				if err != nil {
					return err
				}
				commits := make([]store.Commit, n)
				for i, r := range c.Runs {
					commits[i] = store.Commit{Lease: r.Lease, Seq: 1, Transition: &store.Transition{Kind: store.Release}}
				}
				if _, err := st.Commit(ctx, store.CommitParams{Namespace: "default", Commits: commits}); err != nil {
					return err
				}
			}
		}
		var p50 [2]float64
		for k := range took {
			slices.Sort(took[k])
			p50[k] = float64(took[k][len(took[k])/2].Microseconds()) / 1000
		}
		b.add(fmt.Sprintf("claim of %d in an almost empty table, p50", n), "ms", p50[0])
		b.add(fmt.Sprintf("claim of %d among %d finished and as many sleeping runs, p50", n, b.crowd), "ms", p50[1])
		b.add(fmt.Sprintf("claim of %d, ratio", n), "x", p50[1]/p50[0])
	}
	return nil
}
