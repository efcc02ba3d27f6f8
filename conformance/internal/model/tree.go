package model

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/store"
)

var _ store.TreeReader = (*Store)(nil)

// Tree implements [store.TreeReader].
func (s *Store) Tree(ctx context.Context, p store.TreeParams) (store.Tree, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return store.Tree{}, err
	}
	defer s.mu.Unlock()
	root := s.find(p.Namespace, p.Run)
	if root == nil {
		return store.Tree{}, notFound(p.Run)
	}
	tree := store.Tree{Status: root.Status, StartedAt: root.StartedAt, FinishedAt: root.FinishedAt, At: clock(p.Now)}
	type place struct {
		run   store.ID
		level int
	}
	left, seen := p.Scan(), map[place]bool{} // imported runs may be each other's parents
	for level, runs := 1, []*run{root}; len(runs) > 0; level = min(level+1, store.MaxTreeLevels) {
		var inner []*run
		for _, r := range runs {
			for _, g := range r.groups {
				tree.Count(level, g.Counts())
			}
			for _, id := range s.children[r.ID] {
				c := s.find(p.Namespace, id)
				at := place{id, min(level+1, store.MaxTreeLevels)}
				if c == nil || c.Group == "" || len(c.groups) == 0 || seen[at] {
					continue
				}
				seen[at] = true
				inner = append(inner, c)
			}
		}
		if len(inner) > left {
			tree.Capped, inner = true, inner[:left]
		}
		left -= len(inner)
		runs = inner
	}
	return tree, nil
}

// inTree reports whether a run has groups that the tree of a run includes that is not final.
func (s *Store) inTree(r *run) bool {
	if len(r.groups) == 0 {
		return false
	}
	var seen []store.ID // imported runs may be each other's parents
	for r != nil && r.Group != "" && !slices.Contains(seen, r.ID) {
		seen = append(seen, r.ID)
		if r = s.runs[r.Parent]; r != nil && !r.Status.Final() {
			return true
		}
	}
	return false
}
