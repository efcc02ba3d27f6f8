package store

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// TreeReader is implemented by backends that can count the descendants of a run at all levels. Without it,
// programs learn only the counts of a run's own children.
//
// The tree of a run consists of the children that its groups count, of their children, and so on. A child that
// has left its group, because it was restarted or because its parent has continued as new, is not in the tree
// any more, and neither are its descendants; what the group has counted stays. Children without a Group are not
// in the tree.
//
// P29: the counts are exact. All of them are of one moment, and each descendant is in one of them. As long as a run is not
// final, a purge takes nothing from the counts of its tree: [Runs.Purge] keeps each descendant whose groups they
// include. The counts of a final run leave out what is below a descendant that was purged.
type TreeReader interface {
	// Tree counts the descendants of a run by level and status. It returns ErrNotFound if there is no such run.
	//
	// P18: it reads the groups of the run and of its inner runs, those descendants that have groups themselves; it does not read
	// the other descendants. It looks at no more than MaxScan inner runs, those nearest to the run. If there are more, the
	// result has Capped set, and its counts are lower bounds.
	Tree(ctx context.Context, p TreeParams) (Tree, error)
}

// MaxTreeLevels is how many levels of a tree are counted separately. The last one includes all that are below it.
const MaxTreeLevels = 64

// TreeParams is the input of [TreeReader.Tree].
type TreeParams struct {
	Namespace string
	Run       ID
	MaxScan   int // how many inner runs to look at; 0: DefaultScan
	Now       time.Time
}

// Tree is what a run's descendants amount to.
type Tree struct {
	Status     Status    // of the run itself, as are the two times
	StartedAt  time.Time // zero: never claimed
	FinishedAt time.Time // zero: not final
	At         time.Time // the time of the answer, by the store's clock
	// Levels has the counts of each level: those of the children, of their children, and so on. It ends with the
	// last level that has a descendant.
	Levels []TreeCounts
	Capped bool // not all inner runs were looked at, and the counts are lower bounds
}

// TreeCounts counts descendants.
type TreeCounts struct {
	Total     int64 // the sum of the others
	Open      int64 // not final
	Completed int64
	Failed    int64
	Canceled  int64
}

// Add adds counts.
func (c *TreeCounts) Add(d TreeCounts) {
	c.Total += d.Total
	c.Open += d.Open
	c.Completed += d.Completed
	c.Failed += d.Failed
	c.Canceled += d.Canceled
}

// Ended returns how many are final.
func (c *TreeCounts) Ended() int64 { return c.Completed + c.Failed + c.Canceled }

// Sum returns the counts of all levels together.
func (t *Tree) Sum() (sum TreeCounts) {
	for _, level := range t.Levels {
		sum.Add(level)
	}
	return sum
}

// Count adds the counts of the groups of one run to those of a level: 1 for the groups of the tree's run, whose
// children they count, 2 for those of its children, and so on. It is for backends.
func (t *Tree) Count(level int, c TreeCounts) {
	level = max(1, min(level, MaxTreeLevels))
	if c == (TreeCounts{}) {
		return
	}
	if missing := level - len(t.Levels); missing > 0 {
		t.Levels = append(t.Levels, slices.Repeat([]TreeCounts{{}}, missing)...)
	}
	t.Levels[level-1].Add(c)
}

// Counts returns the counts of a group.
func (g *Group) Counts() TreeCounts {
	return TreeCounts{Total: g.Total, Open: g.Open, Completed: g.Completed, Failed: g.Failed, Canceled: g.Canceled}
}

// Scan returns how many inner runs the call looks at.
func (p *TreeParams) Scan() int { return cmp.Or(p.MaxScan, DefaultScan) }

// Validate checks the call.
func (p *TreeParams) Validate() error {
	return first(ValidateName("namespace", p.Namespace), maxScan(p.MaxScan))
}
