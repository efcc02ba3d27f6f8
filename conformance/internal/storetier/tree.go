package storetier

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// grow spawns n children under a run, in a group and a queue of the same name, and keeps the run's lease.
func (c *C) grow(run store.ClaimedRun, group string, n int) []store.ID {
	c.Helper()
	spawn := make([]store.NewRun, n)
	ids := make([]store.ID, n)
	for i := range spawn {
		spawn[i] = kid(int64(i + 1))
		spawn[i].Group, spawn[i].Queue = group, group
		ids[i] = spawn[i].ID
	}
	c.commit(store.Commit{Lease: run.Lease, Spawn: spawn})
	return ids
}

// claimFrom claims up to n children of a queue.
func (c *C) claimFrom(queue string, n int) []store.ClaimedRun {
	c.Helper()
	return c.claim(store.ClaimParams{Demands: []store.Demand{demand(queue, n, kidFlow)}}).Runs
}

// tryTree reads a tree.
func (c *C) tryTree(p store.TreeParams) (store.Tree, error) {
	c.Helper()
	p.Now = c.now
	if p.Namespace == "" {
		p.Namespace = c.ns
	}
	t, err := c.s.(store.TreeReader).Tree(c.ctx, p)
	if err != nil {
		c.eq("the tree beside an error", t, store.Tree{})
	}
	return t, err
}

// treeOf checks the counts of a run's tree.
func (c *C) treeOf(what string, run store.ID, levels ...store.TreeCounts) {
	c.Helper()
	t, err := c.tryTree(store.TreeParams{Run: run})
	c.ok("Tree", err)
	c.eq(what, t.Levels, levels)
	c.eq("Capped", t.Capped, false)
}

// counts are the counts of a level.
func counts(open, completed, failed, canceled int64) store.TreeCounts {
	return store.TreeCounts{Total: open + completed + failed + canceled, Open: open, Completed: completed, Failed: failed, Canceled: canceled}
}

// threeLevels is a run with 3 children, of which the first has 4, of which the first has 2.
type threeLevels struct {
	root, inner, low store.ClaimedRun
	leaves           []store.ID // of low
}

func (c *C) threeLevels() (t threeLevels) {
	c.Helper()
	t.root = c.start()
	c.grow(t.root, "a", 3)
	t.inner = c.one(c.claimFrom("a", 1))
	c.grow(t.inner, "b", 4)
	t.low = c.one(c.claimFrom("b", 1))
	t.leaves = c.grow(t.low, "c", 2)
	return t
}

var treeCases = []Case{
	{"tree/childless", "P29", "the tree of a run without children has no levels, and tells of the run and of the time", func(c *C) {
		id := c.create(store.NewRun{})
		t, err := c.tryTree(store.TreeParams{Run: id})
		c.ok("Tree", err)
		c.eq("the tree of a run that was never claimed", t, store.Tree{Status: store.Pending, At: c.now})
		begun := c.now
		run := c.claim1()
		c.advance(time.Second)
		c.end(run, complete("x"))
		c.advance(time.Second)
		t, err = c.tryTree(store.TreeParams{Run: id})
		c.ok("Tree", err)
		c.eq("the tree of a final run", t, store.Tree{Status: store.Completed, StartedAt: begun, FinishedAt: begun.Add(time.Second), At: c.now})
	}},
	{"tree/levels", "P29", "the tree of a run has the counts of each level, of all groups", func(c *C) {
		t := c.threeLevels()
		root := t.root.Run.ID
		c.treeOf("with all open", root, counts(3, 0, 0, 0), counts(4, 0, 0, 0), counts(2, 0, 0, 0))
		c.treeOf("that of a child", t.inner.Run.ID, counts(4, 0, 0, 0), counts(2, 0, 0, 0))
		c.treeOf("that of a grandchild", t.low.Run.ID, counts(2, 0, 0, 0))
		c.treeOf("that of a leaf", t.leaves[0])
		c.grow(t.root, "d", 2)
		c.grow(t.inner, "e", 1)
		second := c.one(c.claimFrom("a", 1))
		c.grow(second, "f", 5)
		c.treeOf("with several groups and inner runs", root, counts(5, 0, 0, 0), counts(10, 0, 0, 0), counts(2, 0, 0, 0))
	}},
	{"tree/ends", "P29", "each descendant is counted in its level as it ends, whether its parent is final or not", func(c *C) {
		t := c.threeLevels()
		root := t.root.Run.ID
		for i, tr := range []*store.Transition{complete("x"), failWith("x")} {
			c.end(c.one(c.claimFrom("c", 1)), tr)
			c.treeOf("after the end of a leaf", root, counts(3, 0, 0, 0), counts(4, 0, 0, 0), counts(int64(1-i), 1, int64(i), 0))
		}
		c.end(t.low, complete("x"))
		c.treeOf("after the end of a run with leaves", root, counts(3, 0, 0, 0), counts(3, 1, 0, 0), counts(0, 1, 1, 0))
		c.end(t.inner, failWith("x"))
		c.treeOf("after the end of a run that cancels three", root, counts(2, 0, 1, 0), counts(0, 1, 0, 3), counts(0, 1, 1, 0))
		c.end(t.root, cancelRun())
		c.treeOf("after the end of the run", root, counts(0, 0, 1, 2), counts(0, 1, 0, 3), counts(0, 1, 1, 0))
	}},
	{"tree/lives", "P29", "a crash, a retry and a sleep change no counts", func(c *C) {
		t := c.threeLevels()
		want := []store.TreeCounts{counts(3, 0, 0, 0), counts(4, 0, 0, 0), counts(2, 0, 0, 0)}
		c.end(t.root, sleepAwait(store.Await{Group: "a"}))
		c.end(t.low, retryIn(0))
		c.treeOf("after a retry", t.root.Run.ID, want...)
		c.advance(aLease)
		run := c.one(c.claimFrom("a", 1))
		c.treeOf("after a crash", t.root.Run.ID, want...)
		c.end(run, sleepFor(time.Hour))
		c.treeOf("while it sleeps", t.root.Run.ID, want...)
	}},
	{"tree/canceled", "P29", "a cancel that reaches all levels is counted in each of them", func(c *C) {
		t := c.threeLevels()
		for _, run := range []store.ClaimedRun{t.low, t.inner, t.root} {
			c.end(run, sleepFor(time.Hour))
		}
		c.cancel(t.root.Run.ID)
		c.treeOf("afterwards", t.root.Run.ID, counts(0, 0, 0, 3), counts(0, 0, 0, 4), counts(0, 0, 0, 2))
	}},
	{"tree/left", "P29", "a child that was restarted is not in the tree any more, and neither are its descendants; its end stays counted", func(c *C) {
		t := c.threeLevels()
		c.end(t.inner, failWith("x"))
		c.treeOf("before", t.root.Run.ID, counts(2, 0, 1, 0), counts(1, 0, 0, 3), counts(0, 0, 0, 2)) // one is to clean up
		c.ok("Restart", itemErr(c.tryRestart(t.inner.Run.ID), nil))
		c.treeOf("afterwards", t.root.Run.ID, counts(2, 0, 1, 0))
		c.treeOf("its own", t.inner.Run.ID, counts(1, 0, 0, 3), counts(0, 0, 0, 2))
	}},
	{"tree/continued", "P29", "a run that continues as new begins without a tree", func(c *C) {
		t := c.threeLevels()
		c.end(t.inner, continueWith("in"))
		c.treeOf("the run's", t.root.Run.ID, counts(3, 0, 0, 0))
		c.treeOf("its own", t.inner.Run.ID)
		next := c.claimFrom("a", 3)
		i := slices.IndexFunc(next, func(r store.ClaimedRun) bool { return r.Run.ID == t.inner.Run.ID })
		if i < 0 {
			c.Fatalf("the run that has continued was not claimed")
		}
		c.grow(next[i], "b", 1)
		c.treeOf("with a child of the next generation", t.root.Run.ID, counts(3, 0, 0, 0), counts(1, 0, 0, 0))
	}},
	{"tree/detached", "P29", "children without a group are not in the tree", func(c *C) {
		root := c.start()
		k := store.NewRun{ID: store.NewID(), Workflow: kidFlow, Queue: "detached", OnClose: store.CloseAbandon}
		c.commit(store.Commit{Lease: root.Lease, Spawn: []store.NewRun{k}})
		c.grow(c.one(c.claimFrom("detached", 1)), "b", 2)
		c.treeOf("the run's", root.Run.ID)
		c.treeOf("the child's", k.ID, counts(2, 0, 0, 0))
	}},
	{"tree/forked", "P29", "a fork begins without a tree", func(c *C) {
		t := c.threeLevels()
		fork := store.NewID()
		c.fork(store.ForkParams{ID: t.inner.Run.ID, New: fork})
		c.treeOf("the fork's", fork)
		c.treeOf("the run's", t.root.Run.ID, counts(3, 0, 0, 0), counts(4, 0, 0, 0), counts(2, 0, 0, 0))
	}},
	{"tree/purged", "P29", "a purge takes nothing from the counts of the tree of an active run", func(c *C) {
		t := c.threeLevels()
		c.end(t.root, sleepFor(1000*time.Hour))
		for _, leaf := range c.claimFrom("c", 2) {
			c.end(leaf, complete("x"))
		}
		c.end(t.low, complete("x"))
		c.end(t.inner, complete("x"))
		want := []store.TreeCounts{counts(2, 1, 0, 0), counts(0, 1, 0, 3), counts(0, 2, 0, 0)}
		c.treeOf("before", t.root.Run.ID, want...)
		c.advance(time.Hour)
		c.eq("purged runs", c.purge(store.PurgeParams{}), 5) // the leaves, and those of level 2 that have none
		c.eq("runs that the counts need", len(c.gets(t.inner.Run.ID, t.low.Run.ID)), 2)
		c.treeOf("afterwards", t.root.Run.ID, want...)
		c.treeOf("afterwards, that of a final child", t.inner.Run.ID, want[1:]...)
		c.cancel(t.root.Run.ID)
		c.advance(time.Hour)
		want[0] = counts(0, 1, 0, 2)
		c.treeOf("of the final run", t.root.Run.ID, want...)
		c.eq("purged of the runs", c.purge(store.PurgeParams{Workflow: kidFlow}), 4)
		c.treeOf("without its descendants", t.root.Run.ID, want[0])
		c.purgedAll()
		c.eq("runs left", len(c.gets(t.root.Run.ID)), 0)
	}},
	{"tree/purged-outside", "P9", "a purge deletes final runs with groups that are in no tree of an active run", func(c *C) {
		t := c.threeLevels()
		c.end(t.low, failWith("x"))
		c.end(t.inner, failWith("x"))
		c.ok("Restart", itemErr(c.tryRestart(t.inner.Run.ID), nil)) // it leaves the tree
		c.cancel(t.inner.Run.ID)
		c.advance(time.Hour)
		c.treeOf("of the run", t.root.Run.ID, counts(2, 0, 1, 0))
		c.eq("purged runs", c.purge(store.PurgeParams{}), 6)
		c.eq("runs of level 2", len(c.gets(t.low.Run.ID)), 0)
	}},
	{"tree/imported", "P29", "imported runs are in the tree of the run that is their parent", func(c *C) {
		root := c.aRecord(store.Sleeping)
		root.Run.ExternalID, root.Run.Suffix, root.Run.Parent, root.Run.Group, root.Run.Ordinal = "", "", store.ID{}, "", 0
		child := c.aRecord(store.Completed)
		child.Run.ExternalID, child.Run.Suffix, child.Run.Parent, child.Run.Group = "", "", root.Run.ID, "kids"
		c.imports(child)
		c.imports(root)
		c.treeOf("the imported tree", root.Run.ID, counts(1, 5, 2, 1), counts(1, 5, 2, 1))
	}},
	{"tree/imported-in-a-circle", "P29", "imported runs that are each other's parents do not keep a call from ending", func(c *C) {
		a, b := c.aRecord(store.Completed), c.aRecord(store.Completed)
		a.Run.ExternalID, a.Run.Suffix, b.Run.ExternalID, b.Run.Suffix = "", "", "", ""
		a.Run.Parent, b.Run.Parent = b.Run.ID, a.Run.ID
		c.imports(a)
		c.imports(b)
		_, err := c.tryTree(store.TreeParams{Run: a.Run.ID, MaxScan: store.ScanAll})
		c.ok("Tree", err)
		c.advance(time.Hour)
		c.eq("purged runs", c.purge(store.PurgeParams{}), 2)
	}},
	{"tree/capped", "P29", "Tree looks at no more than MaxScan inner runs, the nearest ones, and says if there are more", func(c *C) {
		root := c.start()
		c.grow(root, "a", 4)
		for _, run := range c.claimFrom("a", 3) {
			c.grow(run, "b", 2)
		}
		c.grow(c.one(c.claimFrom("b", 1)), "c", 7)
		for scan, want := range map[int]int64{1: 2, 2: 4, 3: 6} {
			t, err := c.tryTree(store.TreeParams{Run: root.Run.ID, MaxScan: scan})
			c.ok("Tree", err)
			c.eq(fmt.Sprintf("Capped, with %d inner runs", scan), t.Capped, true)
			c.eq(fmt.Sprintf("levels, with %d inner runs", scan), t.Levels, []store.TreeCounts{counts(4, 0, 0, 0), counts(want, 0, 0, 0)})
		}
		for _, scan := range []int{0, 4, store.ScanAll} {
			t, err := c.tryTree(store.TreeParams{Run: root.Run.ID, MaxScan: scan})
			c.ok("Tree", err)
			c.eq("Capped", t.Capped, false)
			c.eq("levels", t.Levels, []store.TreeCounts{counts(4, 0, 0, 0), counts(6, 0, 0, 0), counts(7, 0, 0, 0)})
		}
	}},
	{"tree/deep", "P29", "the last level of a deep tree has the counts of all that are below it", func(c *C) {
		run := c.start()
		root := run.Run.ID
		const deep = store.MaxTreeLevels + 3
		for i := range deep {
			queue := fmt.Sprintf("level-%d", i+1)
			c.grow(run, queue, 2)
			run = c.one(c.claimFrom(queue, 1))
		}
		want := slices.Repeat([]store.TreeCounts{counts(2, 0, 0, 0)}, store.MaxTreeLevels)
		want[store.MaxTreeLevels-1] = counts(8, 0, 0, 0)
		c.treeOf("of a deep tree", root, want...)
	}},
	{"tree/unknown", "P15", "Tree of a run that is not in the namespace is ErrNotFound, and of invalid parameters ErrInvalid", func(c *C) {
		t := c.threeLevels()
		_, err := c.tryTree(store.TreeParams{Run: store.NewID()})
		c.fails("an unknown run", err, store.ErrNotFound)
		_, err = c.tryTree(store.TreeParams{Namespace: c.ns + "-other", Run: t.root.Run.ID})
		c.fails("a run of another namespace", err, store.ErrNotFound)
		_, err = c.tryTree(store.TreeParams{Run: t.root.Run.ID, MaxScan: -1})
		c.fails("a negative MaxScan", err, store.ErrInvalid)
	}},
	{"tree/one-moment", "P29", "a tree is read at one moment: a cancel of all levels is seen completely or not at all", func(c *C) {
		var trees []store.ID
		for range 8 {
			t := c.threeLevels()
			for _, run := range []store.ClaimedRun{t.low, t.inner, t.root} {
				c.end(run, sleepFor(time.Hour))
			}
			for _, queue := range []string{"a", "b", "c"} { // what the next tree must not claim
				for _, run := range c.claimFrom(queue, 10) {
					c.end(run, sleepFor(time.Hour))
				}
			}
			trees = append(trees, t.root.Run.ID)
		}
		for _, root := range trees {
			done := make(chan error, 1)
			go func() {
				_, err := c.s2.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{root}, Now: c.now})
				done <- err
			}()
			for over := false; !over; {
				select {
				case err := <-done:
					c.ok("Cancel", err)
					over = true
				default:
				}
				t, err := c.tryTree(store.TreeParams{Run: root})
				c.ok("Tree", err)
				if sum := t.Sum(); sum != counts(9, 0, 0, 0) && sum != counts(0, 0, 0, 9) {
					c.Fatalf("the tree while it is canceled: saw %+v in status %v, expected all open or all canceled", t.Levels, t.Status)
				}
			}
		}
	}},
}
