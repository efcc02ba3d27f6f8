package storetier

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// allOf awaits all of group "g".
var allOf = store.Await{Group: "g"}

// alone gives the case a store that no other case uses. A backend may apply the ends of many runs in
// one statement, and do without it for a while after a call in which that failed.
func (c *C) alone() {
	c.s = c.fresh()
	c.s2 = c.s
}

// asleep reports a parent that is not sleeping without a time.
func (c *C) asleep(id store.ID, when string) {
	c.Helper()
	run := c.get(id)
	if run.Status != store.Sleeping || !run.VisibleAt.IsZero() || run.Events != 0 {
		c.Errorf("the parent %s: saw it %v, due %s, %d events; expected it asleep without a time or event", when, run.Status, show(run.VisibleAt), run.Events)
	}
}

// awake reports a parent that was not woken, now and by one event.
func (c *C) awake(id store.ID, when string) {
	c.Helper()
	run := c.get(id)
	if run.Status != store.Sleeping || !run.VisibleAt.Equal(c.now) || run.Events != 1 {
		c.Errorf("the parent %s: saw it %v, due %s, %d events; expected it asleep, due at %s, by one event", when, run.Status, show(run.VisibleAt), run.Events, show(c.now))
	}
}

var childrenCases = []Case{
	{"children/spawned", "P3", "a spawned child is a pending run with its parent, group, ordinal and close policy", func(c *C) {
		k := kid(3)
		k.Input, k.Meta, k.Priority, k.OnClose, k.After, k.Timeout = []byte("in"), []byte("m"), 4, store.CloseAbandon, time.Second, time.Hour
		parent := c.family(sleepAwait(allOf), k)
		c.eq("the child", c.get(k.ID), store.Run{
			ID: k.ID, Namespace: c.ns, Workflow: kidFlow, Queue: kidQueue, Status: store.Pending, Priority: 4, Parent: parent, Group: "g", Ordinal: 3,
			OnClose: store.CloseAbandon, Input: []byte("in"), Meta: []byte("m"), Attempt: 1, VisibleAt: c.now.Add(time.Second), CreatedAt: c.now, Deadline: c.now.Add(time.Hour),
		})
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 1, Open: 1})
	}},
	{"children/last-one-wakes", "P9", "the parent wakes in the write that makes its last awaited child final", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(3)...)
		for i, t := range []*store.Transition{complete("x"), failWith("x"), complete("y")} {
			c.advance(time.Second)
			c.end(c.claimKid(), t)
			if i < 2 {
				c.asleep(parent, "with children open")
			}
		}
		c.awake(parent, "with all children final")
		run := c.claim1()
		c.eq("groups", run.Inbox.Groups, []store.Group{{Name: "g", Total: 3, Completed: 2, Failed: 1}})
	}},
	{"children/not-before", "P9", "nothing that a child does before it is final wakes its parent", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(1)...)
		for _, t := range []*store.Transition{release(), retryIn(0), sleepFor(0), continueWith("in")} {
			c.advance(time.Second)
			if t.Kind == store.Sleep {
				t = sleepFor(time.Second / 2)
			}
			run := c.claimKid()
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
			c.end(run, t)
			c.asleep(parent, "after a child's "+t.Kind.String())
			c.eq("open children", c.group(parent).Open, int64(1))
		}
		c.advance(time.Second)
		c.claimKid()
		c.advance(aLease)
		run := c.claimKid()
		c.asleep(parent, "after a child's crash")
		c.end(run, complete(""))
		c.awake(parent, "after the child's end")
	}},
	{"children/wakes-once", "P9", "the end of a child that is reported again neither counts nor wakes again", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(1)...)
		kid := c.claimKid()
		cm := store.Commit{Lease: kid.Lease, Seq: 1, Transition: complete("x")}
		c.commit(cm)
		want := store.Group{Name: "g", Total: 1, Completed: 1}
		c.eq("the group", c.group(parent), want)
		run := c.claim1()
		c.eq("Repeated", c.tryCommit(cm).Repeated, true)
		c.cancelAgain(kid.Run.ID)
		c.eq("the group", c.group(parent), want)
		c.eq("Events", c.inbox(parent).Events, int64(1))
		c.end(run, sleepOn(store.WakeSignal))
		c.eq("Repeated", c.tryCommit(cm).Repeated, true)
		c.claimNone("its children woke it already")
	}},
	{"children/finished-before-sleep", "P9", "a sleep whose await is already met ends at once", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Spawn: kids(2)})
		for _, k := range c.claimKids(2) {
			c.end(k, complete(""))
		}
		res := c.commit(store.Commit{Lease: run.Lease, Seen: c.inbox(run.Run.ID).Events, Transition: sleepAwait(allOf)})
		c.eq("Status", res.Status, store.Sleeping)
		c.eq("VisibleAt", res.VisibleAt, c.now)
		next := c.claim1()
		c.eq("groups", next.Inbox.Groups, []store.Group{{Name: "g", Total: 2, Completed: 2}})
	}},
	{"children/no-event-while-awake", "P9", "the end of a child that nobody awaits is counted, and is not an event", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Spawn: kids(2)})
		c.end(c.claimKid(), complete(""))
		c.eq("Events", c.inbox(run.Run.ID).Events, int64(0))
		c.end(run, sleepAwait(allOf))
		c.asleep(run.Run.ID, "with one child open")
		c.end(c.claimKid(), complete(""))
		c.awake(run.Run.ID, "with both final")
	}},
	{"children/canceled-counts", "P9", "a child that is canceled before it ever ran counts as final", func(c *C) {
		ks := kids(2)
		parent := c.family(sleepAwait(allOf), ks...)
		c.cancel(ks[0].ID)
		c.asleep(parent, "with a child open")
		c.advance(time.Second)
		c.cancel(ks[1].ID)
		c.awake(parent, "with both canceled")
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 2, Canceled: 2})
	}},
	{"children/canceling-is-open", "P9", "a canceling child is not final until its holder ends it", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(1)...)
		run := c.claimKid()
		c.eq("Cancel", c.cancel(run.Run.ID), store.Canceling)
		c.asleep(parent, "with the child canceling")
		c.end(run, cancelRun())
		c.awake(parent, "with the child canceled")
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 1, Canceled: 1})
	}},
	{"children/spawn-repeat", "P9", "a child spawned again, under any lease, is the same child and counts once", func(c *C) {
		ks := kids(2)
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Spawn: ks})
		before := c.get(ks[0].ID)
		c.commit(store.Commit{Lease: run.Lease, Spawn: ks})
		c.end(c.claimKid(), complete(""))
		c.advance(aLease)
		run = c.claim1As("w2")
		c.commit(store.Commit{Lease: run.Lease, Spawn: append(ks, kid(3)), Transition: sleepAwait(allOf)})
		c.eq("the group", c.group(run.Run.ID), store.Group{Name: "g", Total: 3, Open: 2, Completed: 1})
		c.eq("creation of the first", c.get(ks[0].ID).CreatedAt, before.CreatedAt)
		c.eq("runs of the children's queue", c.count(store.RunFilter{Queue: kidQueue}), int64(3))
	}},
	{"children/failures-wake", "P9", "an await with Failures ends when that many have failed or were canceled, even if others are still open", func(c *C) {
		ks := kids(5)
		parent := c.family(sleepAwait(store.Await{Group: "g", Failures: 2}), ks...)
		c.end(c.claimKid(), complete(""))
		c.end(c.claimKid(), failWith("x"))
		c.asleep(parent, "after one failure")
		c.cancel(ks[4].ID)
		c.awake(parent, "after two")
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 5, Open: 2, Completed: 1, Failed: 1, Canceled: 1})
	}},
	{"children/failures-already-met", "P9", "an await with Failures, from 1 on, is already met if that many children of the group have failed or were canceled", func(c *C) {
		ks := kids(4)
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Spawn: ks})
		for n := range int64(3) {
			if n == 1 {
				c.cancel(ks[3].ID)
			} else {
				c.end(c.claimKid(), failWith("x"))
			}
			c.eq(fmt.Sprint("VisibleAt when ", n+1, " have failed"), c.end(run, sleepAwait(store.Await{Group: "g", Failures: n + 1})).VisibleAt, c.now)
			run = c.claim1()
			longer := sleepAwait(store.Await{Group: "g", Failures: n + 2})
			longer.After = time.Minute
			c.eq(fmt.Sprint("VisibleAt when one more than ", n+1, " must fail"), c.end(run, longer).VisibleAt, c.now.Add(time.Minute))
			c.advance(time.Minute)
			run = c.claim1()
		}
	}},
	{"children/failures-do-not-matter", "P9", "an await without Failures waits for all, however many fail", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(3)...)
		c.end(c.claimKid(), failWith("x"))
		c.end(c.claimKid(), failWith("x"))
		c.asleep(parent, "after two failures")
		c.end(c.claimKid(), failWith("x"))
		c.awake(parent, "after all")
	}},
	{"children/window", "P9", "an await with Open ends when at most that many children are open: a window of work", func(c *C) {
		parent := c.family(sleepAwait(store.Await{Group: "g", Open: 2}), kids(4)...)
		c.end(c.claimKid(), complete(""))
		c.asleep(parent, "with three open")
		c.end(c.claimKid(), complete(""))
		c.awake(parent, "with two open")
		run := c.claim1()
		c.commit(store.Commit{Lease: run.Lease, Seen: run.Inbox.Events, Spawn: []store.NewRun{kid(5)}, Transition: sleepAwait(store.Await{Group: "g", Open: 2})})
		c.claimNone("three are open again")
		c.end(c.claimKid(), complete(""))
		c.eq("the run", c.claim1().Run.ID, parent)
	}},
	{"children/spawned-into-met-await", "P9", "children spawned by the commit that sleeps count for its await", func(c *C) {
		parent := c.family(sleepAwait(store.Await{Group: "g", Open: 2}), kids(2)...)
		c.eq("VisibleAt with two of two open", c.get(parent).VisibleAt, c.now)
		c.end(c.claim1(), sleepAwait(allOf))
		c.eq("VisibleAt when all are awaited", c.get(parent).VisibleAt, time.Time{})
	}},
	{"children/await-of-nothing", "P9", "an await of a group that has no children is already met", func(c *C) {
		c.eq("VisibleAt", c.end(c.start(), sleepAwait(store.Await{Group: "none"})).VisibleAt, c.now)
	}},
	{"children/await-any-of-several", "P9", "each of several awaits ends the sleep by itself", func(c *C) {
		a, b := kid(1), kid(1)
		b.Group = "h"
		parent := c.family(sleepAwait(allOf, store.Await{Group: "h"}), a, b)
		c.asleep(parent, "with both groups open")
		c.cancel(b.ID)
		c.awake(parent, "with one group final")
	}},
	{"children/await-one-group-twice", "P9", "each of two awaits of one group ends the sleep by itself, in whatever order they are given", func(c *C) {
		for _, open := range [][]int64{{1, 0}, {0, 1}} {
			parent := c.family(sleepAwait(store.Await{Group: "g", Open: open[0]}, store.Await{Group: "g", Open: open[1]}), kids(2)...)
			c.end(c.claimKid(), complete(""))
			c.awake(parent, "with one open")
			c.end(c.claimKid(), complete(""))
			c.end(c.claim1(), complete(""))
		}
	}},
	{"children/other-group", "P9", "a child of a group that is not awaited is counted and wakes nobody", func(c *C) {
		a, b := kid(1), kid(1)
		b.Group = "h"
		parent := c.family(sleepAwait(allOf), a, b)
		c.cancel(b.ID)
		c.asleep(parent, "with the other group final")
		c.eq("groups", c.inbox(parent).Groups, []store.Group{{Name: "g", Total: 1, Open: 1}, {Name: "h", Total: 1, Canceled: 1}})
	}},
	{"children/await-with-time", "P9", "a sleep with an await and a time ends with whichever comes first, and the claim clears the await", func(c *C) {
		t := sleepAwait(allOf)
		t.After = time.Minute
		parent := c.family(t, kids(1)...)
		c.advance(time.Minute)
		run := c.claim1()
		c.eq("Events", run.Inbox.Events, int64(0))
		c.end(run, sleepOn(store.WakeSignal))
		c.end(c.claimKid(), complete(""))
		c.asleep(parent, "without an await")
	}},
	{"children/detached", "P9", "a child without a group is not counted and wakes nobody", func(c *C) {
		d := kid(0)
		d.Group = ""
		parent := c.family(sleepAwait(allOf), append(kids(1), d)...)
		c.eq("the child's parent", c.get(d.ID).Parent, parent)
		c.cancel(d.ID)
		c.asleep(parent, "with the detached child final")
		c.eq("groups", c.inbox(parent).Groups, []store.Group{{Name: "g", Total: 1, Open: 1}})
	}},
	{"children/spawned-by-two-commits", "P9", "a group counts the children of all commits that spawned into it", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Seq: 1, Spawn: []store.NewRun{kid(1)}})
		c.commit(store.Commit{Lease: run.Lease, Seq: 2, Spawn: []store.NewRun{kid(2), kid(3)}, Transition: sleepAwait(allOf)})
		id := run.Run.ID
		for range 2 {
			c.asleep(id, "with open children")
			c.end(c.claimKid(), complete(""))
		}
		c.asleep(id, "with one open child")
		c.end(c.claimKid(), complete(""))
		c.awake(id, "with all children final")
		c.eq("the group", c.group(id), store.Group{Name: "g", Total: 3, Completed: 3})
	}},
	{"children/concurrent-ends", "P9", "children that end concurrently, on any handle, wake their parent once, and all are counted", func(c *C) {
		for range 6 {
			parent := c.family(sleepAwait(allOf), kids(8)...)
			runs := c.claimKids(8)
			c.race(len(runs), func(i int, s store.Store) error {
				t := complete("x")
				if i%4 == 3 {
					t = failWith("x")
				}
				res, err := c.tryCommitOn(s, store.Commit{Lease: runs[i].Lease, Seq: 1, Transition: t})
				return first(err, res.Err)
			})
			c.awake(parent, "with all children final")
			run := c.claim1()
			c.eq("groups", run.Inbox.Groups, []store.Group{{Name: "g", Total: 8, Completed: 6, Failed: 2}})
			c.end(run, complete(""))
		}
	}},
	{"children/end-races-sleep", "P9", "the end of a child that is concurrent with its parent's sleep wakes the parent, whichever comes first", func(c *C) {
		for round := range 15 {
			run := c.start()
			c.commit(store.Commit{Lease: run.Lease, Seq: 1, Spawn: kids(1)})
			k := c.claimKid()
			c.race(2, func(i int, s store.Store) error {
				cm := store.Commit{Lease: run.Lease, Seq: 2, Transition: sleepAwait(allOf)}
				if (i+round)%2 == 0 {
					cm = store.Commit{Lease: k.Lease, Seq: 1, Transition: complete("")}
				}
				res, err := c.tryCommitOn(s, cm)
				return first(err, res.Err)
			})
			c.end(c.claim1(), complete(""))
		}
	}},
	{"children/spawn-in-thousands", "P9", "a thousand children are spawned, counted and ended in batches", func(c *C) {
		const n = 1000
		run := c.start()
		ks := kids(n)
		for part := range slices.Chunk(ks, 250) { // a server may limit the time of a call
			c.commit(store.Commit{Lease: run.Lease, Spawn: part})
		}
		c.commit(store.Commit{Lease: run.Lease, Transition: sleepAwait(allOf)})
		left := n
		for left > 0 {
			runs := c.claimKids(min(left, 200))
			if len(runs) == 0 {
				c.Fatalf("Claim: saw no child with %d left", left)
			}
			var cms []store.Commit
			for _, k := range runs {
				cms = append(cms, store.Commit{Lease: k.Lease, Transition: complete("x")})
			}
			for _, res := range c.commits(cms...) {
				c.ok("Commit's item", res.Err)
			}
			if left -= len(runs); left > 0 {
				c.asleep(run.Run.ID, fmt.Sprintf("with %d open", left))
			}
		}
		c.awake(run.Run.ID, "with all final")
		c.eq("the group", c.group(run.Run.ID), store.Group{Name: "g", Total: n, Completed: n})
	}},
	{"children/ends-in-one-batch", "P9", "children that end in one batch count once each, even if one of them is a parent or has lost its lease", func(c *C) {
		c.alone()
		parent := c.family(sleepAwait(allOf), kids(3)...)
		runs := c.claimKids(3)
		all := []store.Commit{
			{Lease: runs[0].Lease, Seq: 1, Transition: complete("a")},
			{Lease: runs[1].Lease, Seq: 1, Transition: failWith("b")},
			{Lease: runs[2].Lease, Seq: 1, Steps: []store.StepRecord{step(1, "s", "x")}, Transition: complete("c")},
		}
		for i, res := range c.commits(all...) {
			c.ok("Commit's item", res.Err)
			c.eq("status", res.Status, []store.Status{store.Completed, store.Failed, store.Completed}[i])
		}
		c.awake(parent, "with all children final")
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 3, Completed: 2, Failed: 1})
		c.end(c.claim1(), complete(""))

		parent = c.family(sleepAwait(allOf), kids(5)...)
		runs = c.claimKids(5)
		below := kids(1)
		c.commit(store.Commit{Lease: runs[1].Lease, Seq: 1, Transition: release()})
		c.commit(store.Commit{Lease: runs[2].Lease, Seq: 1, Spawn: below})
		c.signal(runs[3].Run.ID, "s", "x")
		all = []store.Commit{
			{Lease: runs[0].Lease, Seq: 1, Transition: complete("")},
			{Lease: runs[2].Lease, Seq: 2, Transition: complete("")},
		}
		for _, again := range []bool{false, true} {
			for _, res := range c.commits(all...) {
				c.ok("Commit's item", res.Err)
				c.eq("Repeated", res.Repeated, again)
			}
			c.eq("what became of a child's child", c.get(below[0].ID).Status, store.Canceled)
		}
		for i, res := range c.commits(
			store.Commit{Lease: runs[1].Lease, Seq: 2, Transition: complete("")},
			store.Commit{Lease: runs[3].Lease, Seq: 1, Transition: complete("")},
			store.Commit{Lease: runs[4].Lease, Seq: 1, Transition: failWith("x")},
		) {
			if i == 0 {
				c.fails("Commit's item of the one that was given back", res.Err, store.ErrLeaseLost)
			} else {
				c.ok("Commit's item", res.Err)
			}
		}
		c.asleep(parent, "with one child open")
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 5, Open: 1, Completed: 3, Failed: 1})
		c.end(c.claimKid(), complete(""))
		c.awake(parent, "with all children final")
	}},
	{"children/whole-family-in-one-batch", "P9", "a batch may contain commits of a parent and of its children", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Spawn: kids(2)})
		ks := c.claimKids(2)
		for _, res := range c.commits(
			store.Commit{Lease: ks[0].Lease, Transition: complete("")},
			store.Commit{Lease: run.Lease, Transition: sleepAwait(allOf)},
			store.Commit{Lease: ks[1].Lease, Transition: complete("")},
		) {
			c.ok("Commit's item", res.Err)
		}
		next := c.claim1()
		c.eq("groups", next.Inbox.Groups, []store.Group{{Name: "g", Total: 2, Completed: 2}})
	}},
	{"children/follow-a-final-parent", "P11", "when a parent becomes final, however it ended, its open children are canceled, or canceling if leased", func(c *C) {
		for _, t := range []*store.Transition{complete(""), failWith("x"), cancelRun()} {
			run := c.start()
			ks := kids(3)
			c.commit(store.Commit{Lease: run.Lease, Spawn: ks})
			leased, asleep := c.claimKid(), c.claimKid()
			c.end(asleep, sleepFor(time.Hour))
			c.end(run, t)
			c.status(leased.Run.ID, store.Canceling)
			c.status(asleep.Run.ID, store.Canceled)
			c.eq("Canceling of the leased one", c.extend(leased.Lease).Canceling, true)
			last := c.get(ks[2].ID)
			c.eq("Status of the pending one", last.Status, store.Canceled)
			c.eq("FinishedAt of the pending one", last.FinishedAt, c.now)
			c.eq("Failure of the pending one", last.Failure, &store.Failure{Code: store.FailureCanceled, Message: store.CanceledWithParent})
			c.end(leased, cancelRun())
		}
	}},
	{"children/follow-parents-that-end-together", "P11", "if one call ends several runs, the children of each of them follow", func(c *C) {
		c.alone()
		ks := kids(3)
		var ends []store.Commit
		for i := range 5 {
			run := c.start()
			if i%2 == 0 {
				c.commit(store.Commit{Lease: run.Lease, Spawn: ks[i/2 : i/2+1]})
			}
			ends = append(ends, store.Commit{Lease: run.Lease, Transition: complete("")})
		}
		for _, res := range c.commits(ends...) {
			c.ok("an item of Commit", res.Err)
		}
		for i, k := range ks {
			c.eq(fmt.Sprint("Status of the child of parent ", i), c.get(k.ID).Status, store.Canceled)
		}
	}},
	{"children/final-ones-stay", "P11", "children that were final before their parent stay as they ended", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Spawn: kids(1)})
		k := c.claimKid()
		c.end(k, complete("x"))
		before := c.get(k.Run.ID)
		c.advance(time.Second)
		c.end(run, complete(""))
		c.eq("the child", c.get(k.Run.ID), before)
	}},
	{"children/spawned-by-the-last-commit", "P11", "children spawned by the commit that ends their parent are subject to their close policy like any others", func(c *C) {
		a, b := kid(1), kid(2)
		b.OnClose = store.CloseAbandon
		c.family(complete(""), a, b)
		c.status(a.ID, store.Canceled)
		c.status(b.ID, store.Pending)
	}},
	{"children/grandchildren-follow", "P11", "descendants of every generation are canceled in the same write, also below a canceling one", func(c *C) {
		root := c.start()
		a, b := kid(1), kid(2)
		c.commit(store.Commit{Lease: root.Lease, Spawn: []store.NewRun{a, b}})
		runs := c.claimKids(2)
		grand := map[store.ID]store.ID{}
		for _, run := range runs {
			g := kid(1)
			g.Queue = "grandchildren"
			grand[run.Run.ID] = g.ID
			c.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{g}})
		}
		i := slices.IndexFunc(runs, func(r store.ClaimedRun) bool { return r.Run.ID == a.ID })
		c.end(runs[i], sleepAwait(allOf))
		c.end(root, complete(""))
		c.status(a.ID, store.Canceled)
		c.status(grand[a.ID], store.Canceled)
		c.status(b.ID, store.Canceling)
		c.status(grand[b.ID], store.Canceled)
	}},
	{"children/abandoned-go-on", "P11", "an abandoned child continues after its parent's end, with its own children", func(c *C) {
		run := c.start()
		k := kid(1)
		k.OnClose = store.CloseAbandon
		c.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{k}})
		held := c.claimKid()
		g := kid(1)
		c.commit(store.Commit{Lease: held.Lease, Spawn: []store.NewRun{g}, Transition: sleepAwait(allOf)})
		c.end(run, complete(""))
		c.asleep(k.ID, "abandoned")
		c.status(g.ID, store.Pending)
		c.end(c.claimKid(), complete(""))
		c.eq("VisibleAt of the abandoned one", c.get(k.ID).VisibleAt, c.now)
		c.end(c.claimKid(), complete(""))
		c.status(run.Run.ID, store.Completed)
		c.status(k.ID, store.Completed)
	}},
	{"children/continue-keeps-them-running", "P9", "a run that continues as new loses its groups: its earlier children continue, and neither count nor wake", func(c *C) {
		old := kid(1)
		parent := c.family(continueWith("in"), old)
		c.status(old.ID, store.Pending)
		run := c.claim1()
		fresh := kid(1)
		c.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{fresh}, Transition: sleepAwait(allOf)})
		c.cancel(old.ID)
		c.asleep(parent, "after the end of a child of before")
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 1, Open: 1})
		c.cancel(fresh.ID)
		c.awake(parent, "after the end of its own child")
	}},
	{"children/list-by-ordinal", "P14", "Children pages through a group by ordinal, with outputs and failures, without Input and Meta", func(c *C) {
		ks := kids(7)
		for i := range ks {
			ks[i].Ordinal, ks[i].Input, ks[i].Meta = int64(10*(7-i)), []byte("in"), []byte("m")
		}
		other := kid(35)
		other.Group = "h"
		parent := c.family(sleepAwait(allOf), append(ks, other)...)
		c.cancel(ks[6].ID) // ordinal 10
		for _, run := range c.claimKids(9) {
			if run.Run.Group == "g" {
				c.end(run, complete(fmt.Sprint("out-", run.Run.Ordinal)))
			}
		}
		var got []int64
		for p := (store.ChildrenParams{Namespace: c.ns, Parent: parent, Group: "g", Limit: 3}); ; {
			page, err := c.s.Children(c.ctx, p)
			c.ok("Children", err)
			for _, k := range page.Children {
				got = append(got, k.Ordinal)
				c.bytes("Input", k.Input, nil)
				c.bytes("Meta", k.Meta, nil)
				if k.Ordinal == 10 {
					c.check(k.Failure != nil && k.Failure.Code == store.FailureCanceled, "failure of the canceled child: saw %s, expected the code %q", show(k.Failure), store.FailureCanceled)
				} else {
					c.bytes("Output", k.Output, fmt.Appendf(nil, "out-%d", k.Ordinal))
				}
			}
			if p.After = page.Next; p.After == 0 || len(got) > 20 {
				break
			}
			c.eq("children of a page that has a Next, and Next", []any{len(page.Children), page.Next}, []any{3, got[len(got)-1]})
		}
		c.eq("ordinals", got, []int64{10, 20, 30, 40, 50, 60, 70})
	}},
}

// cancelAgain cancels a completed run, which must refuse.
func (c *C) cancelAgain(id store.ID) {
	c.Helper()
	c.fails("Cancel of a completed run", c.tryCancel(id)[0].Err, store.ErrFinished)
}
