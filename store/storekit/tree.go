package storekit

import (
	"iter"

	"github.com/pawlhq/pawl/store"
)

// CountTree adds the counts of a run's tree to t: for [store.TreeReader.Tree]. It looks at no more than scan inner runs, and sets
// t.Capped if there are more. groups yields the groups of a run. inner yields the IDs of those of a run's children
// that are in a group of it and have groups themselves.
func CountTree(t *store.Tree, run store.ID, scan int, groups func(store.ID) iter.Seq[store.Group], inner func(store.ID) iter.Seq[store.ID]) {
	type place struct {
		run   store.ID
		level int
	}
	seen := map[place]bool{} // imported runs may be each other's parents
	level := []store.ID{run}
	for n := 1; len(level) > 0; n = min(n+1, store.MaxTreeLevels) {
		var below []store.ID
		for _, id := range level {
			for g := range groups(id) {
				t.Count(n, g.Counts())
			}
			for child := range inner(id) {
				at := place{child, min(n+1, store.MaxTreeLevels)}
				switch {
				case seen[at]:
				case len(seen) == scan:
					t.Capped = true
				default:
					seen[at] = true
					below = append(below, child)
				}
			}
		}
		level = below
	}
}

// CountedInTree reports whether a final run has groups that the tree of a run includes that is not final, so that
// a purge keeps it. hasGroups says whether r has groups, and find returns a run, or nil.
func CountedInTree(r *Run, hasGroups func(store.ID) bool, find func(store.ID) *Run) bool {
	if r.Group == "" || !hasGroups(r.ID) {
		return false
	}
	seen := map[store.ID]bool{} // imported runs may be each other's parents
	for r != nil && r.Group != "" && !seen[r.ID] {
		seen[r.ID] = true
		if r = find(r.Parent); r != nil && !r.Status.Final() {
			return true
		}
	}
	return false
}
