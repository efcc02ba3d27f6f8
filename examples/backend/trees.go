package backend

import (
	"context"
	"iter"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Tree implements [store.TreeReader].
func (s *Store) Tree(ctx context.Context, p store.TreeParams) (store.Tree, error) {
	return view(ctx, s, p.Validate(), p.Now, func(t *tx) (tree store.Tree, err error) {
		r := t.run(p.Namespace, p.Run)
		if r == nil {
			return tree, storekit.NotFound(p.Run)
		}
		tree = store.Tree{Status: r.Status, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, At: t.now}
		groups := func(run store.ID) iter.Seq[store.Group] {
			return values[store.Group](t, keyOf(kindGroup).ID(run).All())
		}
		inner := func(run store.ID) iter.Seq[store.ID] {
			return func(yield func(store.ID) bool) {
				for _, id := range t.ids(keyOf(kindInner).ID(run).All()) {
					if c := t.run(p.Namespace, id); c != nil && c.Group != "" && !yield(id) {
						return
					}
				}
			}
		}
		storekit.CountTree(&tree, p.Run, p.Scan(), groups, inner)
		return tree, nil
	})
}

// putGroup stores a group. The index of inner runs has each child with a group.
func (t *tx) putGroup(r *storekit.Run, name string, g *store.Group) {
	t.write(groupKey(r.ID, name), g)
	if !r.Parent.IsZero() {
		t.put(innerKey(r), r.ID[:])
	}
}

// forgetInner takes a run whose groups are deleted out of the index of inner runs.
func (t *tx) forgetInner(r *storekit.Run) {
	if !r.Parent.IsZero() {
		t.delete(innerKey(r))
	}
}

func (t *tx) hasGroups(run store.ID) bool {
	_, has := t.first(keyOf(kindGroup).ID(run).All())
	return has
}
