package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pawlhq/pawl/store"
)

// declared knows which limits this worker has registered.
type declared struct {
	mu    sync.Mutex
	rules map[string][]store.LimitRule // by the limit's name; the last one is in the store
}

// has reports whether the worker has registered a limit with this rule.
func (d *declared) has(l store.Limit) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.rules[l.Name], l.Rule)
}

func (d *declared) add(limits []store.Limit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rules == nil {
		d.rules = make(map[string][]store.LimitRule)
	}
	for _, l := range limits {
		d.rules[l.Name] = append(d.rules[l.Name], l.Rule)
	}
}

// forget makes the worker register its limits again, because the store may have lost them.
func (d *declared) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules = nil
}

// definedLimits returns the limits of the worker's workflows. Of two definitions of one name, the one of the
// workflow whose name sorts last counts.
func (w *Worker) definedLimits() []store.Limit {
	names, _ := w.served()
	byName := make(map[string]store.Limit)
	for _, name := range names {
		for _, l := range w.defs[name].Limits {
			if before, ok := byName[l.Name]; ok && before.Rule != l.Rule {
				w.log.Warn("the program defines a limit twice, with different rules; the later one counts", "limit", l.Name, "not", ruleText(before.Rule), "rule", ruleText(l.Rule))
			}
			byName[l.Name] = l
		}
	}
	return slices.Collect(maps.Values(byName))
}

// declare registers limits, each definition once. It warns if another program has registered
// another rule: the newer registration counts.
func (w *Worker) declare(ctx context.Context, limits []store.Limit) error {
	limits = slices.DeleteFunc(slices.Clone(limits), w.declared.has)
	for part := range slices.Chunk(limits, store.MaxPage) {
		names := make([]string, len(part))
		for i, l := range part {
			names[i] = l.Name
		}
		before, err := store.AllLimits(ctx, w.store, store.ListLimitsParams{Namespace: w.namespace, Names: names})
		if err != nil {
			return err
		}
		if err := w.store.PutLimits(ctx, store.PutLimitsParams{Namespace: w.namespace, Limits: part}); err != nil {
			return err
		}
		w.declared.add(part)
		for _, b := range before {
			i := slices.Index(names, b.Name)
			if i >= 0 && b.Rule != (store.LimitRule{}) && b.Rule != part[i].Rule {
				w.log.Warn("another program had registered a limit with another rule; this one counts from now on", "limit", b.Name, "before", ruleText(b.Rule), "rule", ruleText(part[i].Rule))
			}
		}
	}
	return nil
}

// ruleText is a rule for the log.
func ruleText(r store.LimitRule) string { return fmt.Sprintf("%+v", r) }
