package mutant

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/store"
)

// eachTree changes what Tree returns.
func eachTree(do func(s *faulty, p *store.TreeParams, t *store.Tree)) func(*model.Store) store.Store {
	return wrap(func(s *faulty) {
		tree := s.tree
		s.tree = func(ctx context.Context, p store.TreeParams) (store.Tree, error) {
			t, err := tree(ctx, p)
			if err == nil {
				do(s, &p, &t)
			}
			return t, err
		}
	})
}

// walked replaces the counts of a tree: follow says below which children they go, and count what they are of a run.
func walked(follow func(child *store.Run) bool, count func(s *faulty, run store.ID, children []store.Run) store.TreeCounts) func(*model.Store) store.Store {
	return eachTree(func(s *faulty, p *store.TreeParams, t *store.Tree) {
		if t.Capped {
			return
		}
		t.Levels = nil
		runs := []store.ID{p.Run}
		for level := 1; len(runs) > 0 && level <= store.MaxTreeLevels; level++ {
			var below []store.ID
			for _, id := range runs {
				page, _ := s.Store.List(context.Background(), store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Parent: id}, Limit: store.MaxPage})
				t.Count(level, count(s, id, page.Runs))
				for i := range page.Runs {
					if follow(&page.Runs[i]) {
						below = append(below, page.Runs[i].ID)
					}
				}
			}
			runs = below
		}
	})
}

func inGroup(child *store.Run) bool { return child.Group != "" }

// byGroups are the counts of a run's groups, as they should be.
func byGroups(s *faulty, run store.ID, _ []store.Run) (sum store.TreeCounts) {
	s.Tamper(run, func(r model.Row) {
		for _, g := range r.Groups {
			sum.Add(g.Counts())
		}
	})
	return sum
}

// byRows counts the children that are there.
func byRows(_ *faulty, _ store.ID, children []store.Run) (sum store.TreeCounts) {
	for i := range children {
		if !inGroup(&children[i]) {
			continue
		}
		sum.Total++
		switch children[i].Status {
		case store.Completed:
			sum.Completed++
		case store.Failed:
			sum.Failed++
		case store.Canceled:
			sum.Canceled++
		default:
			sum.Open++
		}
	}
	return sum
}

// These mutants break P29.
var treeMutants = []Mutant{
	{"tree-of-children", "P29", "a tree has only its first level", eachTree(func(_ *faulty, _ *store.TreeParams, t *store.Tree) {
		t.Levels = t.Levels[:min(len(t.Levels), 1)]
	})},
	{"tree-of-two-levels", "P29", "a tree has only two levels", eachTree(func(_ *faulty, _ *store.TreeParams, t *store.Tree) {
		t.Levels = t.Levels[:min(len(t.Levels), 2)]
	})},
	{"tree-below-active-runs", "P29", "a tree leaves out what is below a final run", walked(func(r *store.Run) bool { return inGroup(r) && !r.Status.Final() }, byGroups)},
	{"tree-below-those-that-left", "P29", "a tree goes on below children that have left their group, or had none", walked(func(*store.Run) bool { return true }, byGroups)},
	{"tree-of-rows", "P29", "a tree counts the runs that are there, not those that the groups have counted", walked(inGroup, byRows)},
	{"tree-mixes-failures", "P29", "a tree counts canceled runs as failed", eachTree(func(_ *faulty, _ *store.TreeParams, t *store.Tree) {
		for i := range t.Levels {
			t.Levels[i].Failed, t.Levels[i].Canceled = t.Levels[i].Failed+t.Levels[i].Canceled, 0
		}
	})},
	{"tree-of-two-moments", "P29", "the levels of a tree are read one after the other", eachTree(func(s *faulty, p *store.TreeParams, t *store.Tree) {
		roundTrip()
		later, err := s.Store.Tree(context.Background(), *p)
		if err == nil && len(later.Levels) > 1 && len(t.Levels) > 1 {
			copy(t.Levels[1:], later.Levels[1:])
		}
	})},
	{"tree-cap-not-told", "P29", "a tree that was not read to its end does not say so", eachTree(func(_ *faulty, _ *store.TreeParams, t *store.Tree) { t.Capped = false })},
	{"tree-without-cap", "P29", "a tree is read to its end, whatever MaxScan says", wrap(func(s *faulty) {
		tree := s.tree
		s.tree = func(ctx context.Context, p store.TreeParams) (store.Tree, error) {
			if p.Validate() == nil {
				p.MaxScan = store.ScanAll
			}
			return tree(ctx, p)
		}
	})},
	{"tree-without-its-lowest-levels", "P29", "a deep tree leaves out what is below its last level", walked(inGroup, byGroups)},
	{"tree-of-the-process-clock", "P29", "the time of a tree is that of the process", eachTree(func(_ *faulty, _ *store.TreeParams, t *store.Tree) {
		t.At = time.Now().UTC().Truncate(time.Microsecond)
	})},
	{"tree-without-times", "P29", "a tree does not say when its run began and ended", eachTree(func(_ *faulty, _ *store.TreeParams, t *store.Tree) {
		t.StartedAt, t.FinishedAt = time.Time{}, time.Time{}
	})},
	{"tree-of-all-namespaces", "P15", "the tree of a run of another namespace can be read", wrap(func(s *faulty) {
		tree := s.tree
		s.tree = func(ctx context.Context, p store.TreeParams) (store.Tree, error) {
			if r, ok := s.row(p.Run); ok && p.Validate() == nil {
				p.Namespace = r.Namespace
			}
			return tree(ctx, p)
		}
	})},
	{"purge-takes-counted-runs", "P29", "a purge deletes runs whose groups the tree of an active run includes", wrap(func(s *faulty) {
		purge := s.purge
		s.purge = func(ctx context.Context, p store.PurgeParams) (int, error) {
			groups := map[store.ID]string{}
			list := store.ListParams{Namespace: p.Namespace, Filter: store.RunFilter{Statuses: []store.Status{store.Completed, store.Failed, store.Canceled}}, Limit: store.MaxPage}
			page, _ := s.Store.List(context.Background(), list)
			for i := range page.Runs {
				groups[page.Runs[i].ID] = page.Runs[i].Group
				s.Tamper(page.Runs[i].ID, func(r model.Row) { r.Group = "" })
			}
			n, err := purge(ctx, p)
			for id, group := range groups {
				s.Tamper(id, func(r model.Row) { r.Group = group })
			}
			return n, err
		}
	})},
	{"purge-keeps-all-with-groups", "P9", "a purge keeps every child that has groups", wrap(func(s *faulty) {
		purge := s.purge
		s.purge = func(ctx context.Context, p store.PurgeParams) (int, error) {
			back := map[store.ID]store.Status{}
			list := store.ListParams{Namespace: p.Namespace, Limit: store.MaxPage}
			page, _ := s.Store.List(context.Background(), list)
			for i := range page.Runs {
				s.Tamper(page.Runs[i].ID, func(r model.Row) {
					if len(r.Groups) > 0 && !r.Parent.IsZero() && r.Status.Final() {
						back[r.ID], r.Status = r.Status, store.Sleeping
					}
				})
			}
			n, err := purge(ctx, p)
			for id, status := range back {
				s.Tamper(id, func(r model.Row) { r.Status = status })
			}
			return n, err
		}
	})},
}
