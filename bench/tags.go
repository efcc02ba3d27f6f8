package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/turso"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// tagsOf is the JSON of the five tags of run i, in SQL: a hundred runs of each customer among ten million, a
// thousand of each batch, an eighth of all of each region, a quarter of each state.
const tagsOf = `'{"batch":"b' || (i/1000) || '","customer":"c' || (i%100000*7919%100000) || '","kind":"k' || (i%50) || '","region":"r' || ((i/3)%8) || '","state":"s' || ((i/24)%4) || '"}'`

// taggedRuns is listedRuns with tags.
func (at *site) taggedRuns(from, to int) string {
	sql := strings.Replace(at.listedRuns(from, to), ", failure)", ", failure, tags)", 1)
	return strings.Replace(sql, " END FROM ", " END, "+tagsOf+" FROM ", 1)
}

// loadTagged adds -crowd runs of five tags each. On PostgreSQL, the rows of the tags are written at
// the end, and their index is built from them.
func (b *bench) loadTagged(ctx context.Context, at *site, place string) error {
	const part = 100_000
	if at.wal != nil {
		if err := at.raw(ctx, place, `ALTER TABLE pawl.runs DISABLE TRIGGER tags_insert; ALTER TABLE pawl.run_tags DROP CONSTRAINT run_tags_pkey`); err != nil {
			return err
		}
	}
	for have := 0; have < b.crowd; have += part {
		last := min(b.crowd, have+part)
		if err := at.raw(ctx, place, at.taggedRuns(have+1, last)); err != nil {
			return err
		}
		if at.wal != nil {
			if err := at.raw(ctx, place, fmt.Sprintf(`INSERT INTO pawl.run_tags (namespace, name, value, created_at, run_id)
				SELECT r.namespace, t.key, t.value, r.created_at, r.id FROM pawl.runs r, json_each_text(r.tags::json) t WHERE r.namespace='default' AND r.created_at BETWEEN %d AND %d`, have+1, last)); err != nil {
				return err
			}
		}
		if last%1_000_000 == 0 {
			fmt.Fprintf(os.Stderr, "%d runs are loaded\n", last)
		}
	}
	if at.wal == nil {
		return nil
	}
	for _, sql := range []string{
		`SET maintenance_work_mem='1GB'; ALTER TABLE pawl.run_tags ADD CONSTRAINT run_tags_pkey PRIMARY KEY (namespace, name, value, created_at, run_id); ALTER TABLE pawl.runs ENABLE TRIGGER tags_insert`,
		`VACUUM ANALYZE pawl.run_tags`, `VACUUM ANALYZE pawl.runs`,
	} {
		if err := at.raw(ctx, place, sql); err != nil {
			return err
		}
	}
	return nil
}

// tags measures pages of lists by tags beside -crowd runs of five tags each, and starts without and with tags.
func (b *bench) tags(ctx context.Context, at *site) error {
	if err := b.taggedStarts(ctx, at); err != nil {
		return err
	}
	place, st, leave, err := at.fresh(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := b.loadTagged(ctx, at, place); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	tag := func(name string, values ...string) store.TagMatch { return store.TagMatch{Name: name, Values: values} }
	active := []store.Status{store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}
	for _, q := range []struct {
		name string
		f    func(i int) store.RunFilter // of sample i
	}{
		{"one customer", func(i int) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{tag("customer", fmt.Sprint("c", i*7919%100_000))}}
		}},
		{"16 customers", func(i int) store.RunFilter {
			m := store.TagMatch{Name: "customer"}
			for k := range 16 {
				m.Values = append(m.Values, fmt.Sprint("c", (i*16+k)*7919%100_000))
			}
			return store.RunFilter{Tags: []store.TagMatch{m}}
		}},
		{"a customer and a region", func(i int) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{tag("customer", fmt.Sprint("c", i*7919%100_000)), tag("region", "r1")}}
		}},
		{"a region", func(i int) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{tag("region", fmt.Sprint("r", i%8))}}
		}},
		{"a region and two states", func(i int) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{tag("region", fmt.Sprint("r", i%8)), tag("state", "s1", "s2")}}
		}},
		{"a region, failed", func(i int) store.RunFilter {
			return store.RunFilter{Statuses: []store.Status{store.Failed}, Tags: []store.TagMatch{tag("region", fmt.Sprint("r", i%8))}}
		}},
		{"a kind, not final", func(i int) store.RunFilter {
			return store.RunFilter{Statuses: active, Tags: []store.TagMatch{tag("kind", "k1")}}
		}},
		{"a region and a customer who has none there", func(i int) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{tag("region", fmt.Sprint("r", i%8)), tag("customer", "none")}}
		}},
		{"a value that no run has", func(int) store.RunFilter { return store.RunFilter{Tags: []store.TagMatch{tag("customer", "none")}} }},
		{"a prefix that a tenth has", func(i int) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{{Name: "customer", Prefix: fmt.Sprint("c", i%10)}}}
		}},
		{"a prefix that ten thousandths have", func(i int) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{{Name: "batch", Prefix: fmt.Sprint("b", 1000+i%9000)}}}
		}},
		{"a prefix that no run has", func(int) store.RunFilter {
			return store.RunFilter{Tags: []store.TagMatch{{Name: "customer", Prefix: "none"}}}
		}},
		{"a name alone", func(int) store.RunFilter { return store.RunFilter{Tags: []store.TagMatch{{Name: "customer"}}} }},
	} {
		if err := b.pages(ctx, st, q.name, q.f); err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
	}
	return nil
}

// pages measures first pages, and what follows them.
func (b *bench) pages(ctx context.Context, st store.Store, name string, filter func(i int) store.RunFilter) error {
	var first, next []float64
	var rows, reads int64
	counted, _ := st.(*turso.Store)
	for i := range b.samples + 3 {
		p := store.ListParams{Namespace: "default", Filter: filter(i), Limit: 50}
		for _, to := range []*[]float64{&first, &next} {
			if counted != nil {
				rows -= counted.Counters().RowsRead
			}
			from := time.Now()
			page, err := st.List(ctx, p)
			took := time.Since(from).Seconds() * 1000
			if err != nil {
				return err
			}
			if counted != nil {
				rows, reads = rows+counted.Counters().RowsRead, reads+1
			}
			if i >= 3 {
				*to = append(*to, took)
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
	}
	for _, s := range []struct {
		what string
		took []float64
	}{{"a page", first}, {"the next page", next}} {
		if len(s.took) == 0 {
			continue
		}
		slices.Sort(s.took)
		at := func(q float64) float64 { return s.took[int(q*float64(len(s.took)-1))] }
		fmt.Fprintf(os.Stderr, "%s of %s, of %d runs: p50 %.2f ms, p99 %.2f ms, at most %.2f ms\n", s.what, name, b.crowd, at(0.5), at(0.99), at(1))
		b.add(fmt.Sprintf("%s of %s, of %d runs, p50", s.what, name, b.crowd), "ms", at(0.5))
		b.add(fmt.Sprintf("%s of %s, of %d runs, p99", s.what, name, b.crowd), "ms", at(0.99))
	}
	if counted != nil {
		fmt.Fprintf(os.Stderr, "rows read for a page of %s: %d\n", name, rows/max(reads, 1))
	}
	return nil
}

// taggedStarts measures starts by 16 callers, without tags and with five, in turns.
func (b *bench) taggedStarts(ctx context.Context, at *site) error {
	for range b.reps {
		for _, tags := range []int{0, 1, 5} {
			var opts []engine.StartOption
			if tags > 0 {
				all := map[string]string{}
				for i := range tags {
					all[fmt.Sprint("tag-", i)] = fmt.Sprint("value-", i)
				}
				opts = append(opts, engine.Tags(all))
			}
			err := b.within(ctx, at, func(_ string, s *subject) error {
				if err := s.know(ctx, noop); err != nil {
					return err
				}
				rate, err := b.callers(b.runs, 16, func(int) error { _, err := noop.Start(ctx, s.eng, 7, opts...); return err })
				b.add(fmt.Sprintf("starts with %d tags, 16 callers", tags), "/s", rate)
				return err
			})
			if err != nil {
				return err
			}
			err = b.within(ctx, at, func(_ string, s *subject) error {
				if err := s.know(ctx, noop); err != nil {
					return err
				}
				each := make([]workflow.Each[int], b.runs)
				for i := range each {
					each[i].Options = opts
				}
				from := time.Now()
				_, err := noop.StartMany(ctx, s.eng, each)
				b.add(fmt.Sprintf("starts with %d tags, in bulk", tags), "/s", float64(b.runs)/time.Since(from).Seconds())
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
