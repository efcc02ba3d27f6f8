package storetier

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
)

// breathe lets other goroutines run: if time is simulated, for a fraction of the time that a store
// needs between two statements.
func (c *C) breathe() {
	if c.h.simulated {
		time.Sleep(100 * time.Microsecond) // the bubble's clock, not the machine's
		return
	}
	runtime.Gosched()
}

// meanwhile makes one handle write while the other reads, again and again until the write has
// ended, and once after it. If time is simulated, some of the reads fall between any two statements
// of the write, and the write between any two of a read. In a round of [C.orders] that holds a
// request, one of each does.
func (c *C) meanwhile(write, read func(s store.Store) error) {
	c.Helper()
	if c.held != nil {
		c.between(write, read)
		c.ok("the read after the write", read(c.s))
		return
	}
	var over atomic.Bool
	c.race(2, func(i int, s store.Store) error {
		if i == 0 {
			defer over.Store(true)
			c.breathe()
			return write(s)
		}
		for {
			last := over.Load()
			if err := read(s); err != nil || last {
				return err
			}
			c.breathe()
		}
	})
}

// rounds is how often a race is repeated: if time is simulated, the first rounds show everything.
func (c *C) rounds() int {
	if c.h.simulated {
		return 4
	}
	return 8
}

// collide makes two calls concurrently, in rounds that prepare begins and check ends ([C.orders]).
// They begin first by turns; if time is simulated, the other begins between two statements of the
// first.
func (c *C) collide(prepare func(), a, b func(s store.Store) error, check func()) {
	c.Helper()
	for round := range c.orders() {
		prepare()
		if c.held != nil {
			c.between(a, b)
			check()
			continue
		}
		c.race(2, func(i int, s store.Store) error {
			if (i+round)%2 == 1 {
				c.breathe()
			}
			if (i+round/2)%2 == 0 { // on each handle by turns
				s = c.handle(i + 1)
			}
			if i == 0 {
				return a(s)
			}
			return b(s)
		})
		check()
	}
}

// ask repeats a call until it is not refused because of contention.
func ask[P, R any](c *C, call func(context.Context, P) (R, error), p P) (R, error) {
	return patient(c.ctx, func() (R, error) { return call(c.ctx, p) })
}

// tell is ask for a call that only returns an error.
func tell[P any](c *C, call func(context.Context, P) error, p P) error {
	_, err := patient(c.ctx, func() (struct{}, error) { return struct{}{}, call(c.ctx, p) })
	return err
}

// except ignores an expected error.
func except(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// parents creates a held run with a child, and returns both.
func (c *C) parents() (lease store.Lease, seen int64, kid store.ID) {
	c.Helper()
	run := c.start()
	child := store.NewRun{ID: store.NewID(), Workflow: kidFlow, Queue: kidQueue, Group: "g", Ordinal: 1}
	res := c.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{child}})
	return run.Lease, res.Events, child.ID
}

// ending completes a run that holds children, on a handle.
func (c *C) ending(s store.Store, l store.Lease, seq int64) error {
	res, err := c.tryCommitOn(s, store.Commit{Lease: l, Seq: seq, Transition: complete("")})
	return first(err, res.Err)
}

// endTogether returns an error if only some of the runs are final.
func endTogether(runs []store.Run, n int) error {
	final := 0
	for _, r := range runs {
		if r.Status.Final() {
			final++
		}
	}
	if len(runs) != n || final != 0 && final != n {
		return fmt.Errorf("saw %d runs of which %d are final, expected %d that became final in one write", len(runs), final, n)
	}
	return nil
}

// failedRun creates a run that has two steps and failed.
func (c *C) failedRun(r store.NewRun) store.ID {
	c.Helper()
	run := c.startWith(r)
	c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "1"), step(2, "b", "2")}, Transition: failWith("error")})
	return run.Run.ID
}

// stepsSeen returns how many steps a run has; -1 if there is no run.
func (c *C) stepsSeen(s store.Store, id store.ID) (int, error) {
	page, err := ask(c, s.Steps, store.StepsParams{Namespace: c.ns, Run: id})
	if errors.Is(err, store.ErrNotFound) {
		return -1, nil
	}
	return len(page.Steps), err
}

// wholeSteps returns an error if a run exists with only some of its steps.
func (c *C) wholeSteps(s store.Store, id store.ID, want int) error {
	n, err := c.stepsSeen(s, id)
	if err == nil && n >= 0 && n != want {
		return fmt.Errorf("the run is there with %d of its %d steps", n, want)
	}
	return err
}

var wholeCases = []Case{
	{"get/of-one-moment", "P3", "Get reads several runs at one moment", func(c *C) {
		for range c.orders() {
			l, _, kid := c.parents()
			c.meanwhile(func(s store.Store) error { return c.ending(s, l, 2) }, func(s store.Store) error {
				for _, ids := range [][]store.ID{{kid, l.Run}, {l.Run, kid}} {
					runs, err := ask(c, s.Get, store.GetParams{Namespace: c.ns, IDs: ids})
					if err := first(err, endTogether(runs, 2)); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}},
	{"get/find-of-one-moment", "P8", "Find finds a run of the external id at any moment, even if it ends and is restarted", func(c *C) {
		look := func(s store.Store) error {
			_, err := ask(c, s.Find, store.FindParams{Namespace: c.ns, ExternalID: "e"})
			return err
		}
		id := c.failedRun(store.NewRun{ExternalID: "e"})
		rest := func(n int) {
			for range n {
				c.breathe()
			}
		}
		c.meanwhile(func(s store.Store) error {
			for range c.rounds() {
				rest(5) // so that of two statements, one sees it final and the next active
				if err := itemErr(ask(c, s.Restart, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})); err != nil {
					return err
				}
				rest(15)
				if _, err := ask(c, s.Cancel, store.CancelParams{Namespace: c.ns, IDs: []store.ID{id}, Force: true, Now: c.now}); err != nil {
					return err
				}
			}
			return nil
		}, look)
		for range c.orders() {
			c.meanwhile(func(s store.Store) error {
				return itemErr(ask(c, s.Restart, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now}))
			}, look)
			c.force(id)
		}
	}},
	{"list/of-one-moment", "P14", "a page shows the runs as they were at one moment: each once, also one whose status changes in the meantime", func(c *C) {
		for range c.orders() {
			l, _, kid := c.parents()
			p := store.ListParams{Namespace: c.ns, Filter: store.RunFilter{CreatedAfter: c.now.Add(-time.Minute)}}
			c.meanwhile(func(s store.Store) error { return c.ending(s, l, 2) }, func(s store.Store) error {
				for _, p.OldestFirst = range []bool{true, false} {
					page, err := ask(c, s.List, p)
					if err := first(err, endTogether(page.Runs, 2)); err != nil {
						return err
					}
				}
				return nil
			})
			c.status(kid, store.Canceled)
			c.advance(time.Hour)
		}
	}},
	{"list/count-of-one-moment", "", "Count counts each run once, also one whose status changes meanwhile", func(c *C) {
		for range c.orders() {
			l, _, _ := c.parents()
			f := store.RunFilter{CreatedAfter: c.now.Add(-time.Minute)}
			c.meanwhile(func(s store.Store) error { return c.ending(s, l, 2) }, func(s store.Store) error {
				rows, err := ask(c, s.Count, store.CountParams{Namespace: c.ns, Filter: f})
				total, final := int64(0), int64(0)
				for _, r := range rows {
					total += r.Count
					if r.Status.Final() {
						final += r.Count
					}
				}
				if err == nil && (total != 2 || final == 1) {
					return fmt.Errorf("saw %d runs of which %d are final, expected two that became final in one write", total, final)
				}
				return err
			})
			c.advance(time.Hour)
		}
	}},
	{"create/batch-seen-whole", "", "a reader sees all runs of a call, or none", func(c *C) {
		for range c.orders() {
			p := store.CreateParams{Namespace: c.ns, Now: c.now}
			get := store.GetParams{Namespace: c.ns}
			for range 4 {
				p.Runs = append(p.Runs, fill(store.NewRun{}))
				get.IDs = append(get.IDs, p.Runs[len(p.Runs)-1].ID)
			}
			c.meanwhile(func(s store.Store) error {
				_, err := ask(c, s.Create, p)
				return err
			}, func(s store.Store) error {
				runs, err := ask(c, s.Get, get)
				if n := len(runs); err == nil && n != 0 && n != len(p.Runs) {
					return fmt.Errorf("saw %d of the %d runs", n, len(p.Runs))
				}
				return err
			})
		}
	}},
	{"cancel/tree-seen-whole", "P11", "a reader sees a tree canceled completely or not at all", func(c *C) {
		for range c.orders() {
			root := c.family(sleepOn(store.WakeSignal), kid(1), kid(2))
			below := c.claimKids(2)
			c.commit(store.Commit{Lease: below[0].Lease, Spawn: []store.NewRun{{ID: store.NewID(), Workflow: "grandkid", Queue: "grandkids"}}, Transition: sleepOn(store.WakeSignal)})
			c.commit(store.Commit{Lease: below[1].Lease, Transition: sleepOn(store.WakeSignal)})
			all := store.RunFilter{CreatedAfter: c.now.Add(-time.Minute)}
			c.meanwhile(func(s store.Store) error {
				_, err := ask(c, s.Cancel, store.CancelParams{Namespace: c.ns, IDs: []store.ID{root}, Now: c.now})
				return err
			}, func(s store.Store) error {
				page, err := ask(c, s.List, store.ListParams{Namespace: c.ns, Filter: all})
				return first(err, endTogether(page.Runs, 4))
			})
			c.advance(time.Hour)
		}
	}},
	{"children/close-seen-whole", "P11", "a reader sees a parent final with its children canceled, or none of it", func(c *C) {
		for range c.orders() {
			l, _, kid := c.parents()
			c.meanwhile(func(s store.Store) error { return c.ending(s, l, 2) }, func(s store.Store) error {
				runs, err := ask(c, s.Get, store.GetParams{Namespace: c.ns, IDs: []store.ID{l.Run, kid}})
				return first(err, endTogether(runs, 2))
			})
		}
	}},
	{"children/end-seen-whole", "P9", "a reader that sees a child final also sees it counted", func(c *C) {
		for range c.orders() {
			l, _, kid := c.parents()
			child := c.claimKid()
			c.meanwhile(func(s store.Store) error { return c.ending(s, child.Lease, 1) }, func(s store.Store) error {
				runs, err := ask(c, s.Get, store.GetParams{Namespace: c.ns, IDs: []store.ID{kid}, FinalOnly: true})
				if err != nil || len(runs) == 0 {
					return err
				}
				in, err := ask(c, s.Inbox, store.InboxParams{Namespace: c.ns, Run: l.Run})
				if err == nil && (len(in.Groups) != 1 || in.Groups[0].Open != 0) {
					return fmt.Errorf("the child is final, and its group is %+v", in.Groups)
				}
				return err
			})
		}
	}},
	{"children/spawn-seen-whole", "P3", "a reader sees the children, the steps and the state of a commit together", func(c *C) {
		for range c.orders() {
			run := c.start()
			id, child := run.Run.ID, kids(3)
			c.meanwhile(func(s store.Store) error {
				res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Spawn: child, Steps: []store.StepRecord{step(1, "a", "")}, State: []store.StateWrite{{Key: "k"}}})
				return first(err, res.Err)
			}, func(s store.Store) error {
				got, err := ask(c, s.Children, store.ChildrenParams{Namespace: c.ns, Parent: id, Group: "g"})
				if err != nil || len(got.Children) == 0 {
					return err
				}
				n, err := c.stepsSeen(s, id)
				if err != nil {
					return err
				}
				in, err := ask(c, s.Inbox, store.InboxParams{Namespace: c.ns, Run: id})
				if err == nil && (len(got.Children) != 3 || n != 1 || len(in.State) != 1 || len(in.Groups) != 1 || in.Groups[0].Total != 3) {
					return fmt.Errorf("saw %d of 3 children, %d of 1 steps, %d of 1 entries of state, groups %+v", len(got.Children), n, len(in.State), in.Groups)
				}
				return err
			})
		}
	}},
	{"commit/consumed-seen-whole", "P3", "a reader sees the consumption of signals and its results together", func(c *C) {
		for range c.orders() {
			run := c.start()
			id := run.Run.ID
			consumed := []store.SignalID{c.signal(id, "go", "1"), c.signal(id, "go", "2")}
			c.meanwhile(func(s store.Store) error {
				res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Consumed: consumed, State: []store.StateWrite{{Key: "k"}}, Spawn: kids(1)})
				return first(err, res.Err)
			}, func(s store.Store) error {
				in, err := ask(c, s.Inbox, store.InboxParams{Namespace: c.ns, Run: id})
				before := len(in.Signals) == 2 && len(in.State) == 0 && len(in.Groups) == 0
				after := len(in.Signals) == 0 && len(in.State) == 1 && len(in.Groups) == 1
				if err == nil && !before && !after {
					return fmt.Errorf("saw %d of 2 signals, %d of 1 entries of state, %d of 1 groups", len(in.Signals), len(in.State), len(in.Groups))
				}
				return err
			})
		}
	}},
	{"state/seen-whole", "P3", "a reader sees all writes of a call, or none", func(c *C) {
		id := c.create(store.NewRun{})
		for n := range c.orders() {
			c.meanwhile(func(s store.Store) error {
				v := []byte(fmt.Sprint(n))
				p := store.SetStateParams{Namespace: c.ns, Run: id, Writes: []store.StateWrite{{Key: "a", Value: v}, {Key: "b", Value: v}, {Key: "c", Value: v}}, Now: c.now}
				_, err := ask(c, s.SetState, p)
				return err
			}, func(s store.Store) error {
				all, err := ask(c, s.GetState, store.GetStateParams{Namespace: c.ns, Run: id})
				if err == nil && len(all) > 0 && (len(all) != 3 || string(all[0].Value) != string(all[1].Value) || string(all[0].Value) != string(all[2].Value)) {
					return fmt.Errorf("saw %v, expected three entries of one value", values(all))
				}
				return err
			})
		}
	}},
	{"fork/seen-whole", "P3", "a reader sees a fork with all its steps, or none", func(c *C) {
		old := c.failedRun(store.NewRun{})
		for range c.orders() {
			fork := store.NewID()
			c.meanwhile(func(s store.Store) error {
				_, err := ask(c, s.Fork, store.ForkParams{Namespace: c.ns, ID: old, New: fork, Now: c.now})
				return err
			}, func(s store.Store) error { return c.wholeSteps(s, fork, 2) })
		}
	}},
	{"import/seen-whole", "P3", "a reader sees an imported run with everything that belongs to it, or not at all", func(c *C) {
		c.importer(c.s)
		for range c.orders() {
			rec := c.aRecord(store.Running)
			rec.Run.ExternalID = ""
			rec.Run.Suffix = ""
			c.meanwhile(func(s store.Store) error {
				_, err := ask(c, c.importer(s).Import, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
				return err
			}, func(s store.Store) error {
				if err := c.wholeSteps(s, rec.Run.ID, len(rec.Steps)); err != nil {
					return err
				}
				in, err := ask(c, s.Inbox, store.InboxParams{Namespace: c.ns, Run: rec.Run.ID})
				if err == nil && (len(in.Signals) != len(rec.Signals) || len(in.State) != len(rec.State) || len(in.Groups) != len(rec.Groups)) {
					return fmt.Errorf("the run is there with %d of %d signals, %d of %d entries of state, %d of %d groups",
						len(in.Signals), len(rec.Signals), len(in.State), len(rec.State), len(in.Groups), len(rec.Groups))
				}
				return except(err, store.ErrNotFound)
			})
		}
	}},
	{"purge/seen-whole", "P3", "a reader sees a run with everything that belongs to it until it is deleted", func(c *C) {
		for range c.orders() {
			id := c.failedRun(store.NewRun{})
			c.meanwhile(func(s store.Store) error {
				_, err := ask(c, s.Purge, store.PurgeParams{Namespace: c.ns, Now: c.now})
				return err
			}, func(s store.Store) error { return c.wholeSteps(s, id, 2) })
			c.purgedAll()
		}
	}},
	{"restart/seen-whole", "P3", "a reader sees a run restarted completely or not at all", func(c *C) {
		for range c.orders() {
			run := c.start()
			c.commit(store.Commit{Lease: run.Lease, Transition: retryIn(0)})
			run = c.claim1()
			c.commit(store.Commit{Lease: run.Lease, Transition: failWith("error")})
			id := run.Run.ID
			c.meanwhile(func(s store.Store) error {
				return itemErr(ask(c, s.Restart, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now}))
			}, func(s store.Store) error {
				runs, err := ask(c, s.Get, store.GetParams{Namespace: c.ns, IDs: []store.ID{id}})
				if err != nil || len(runs) != 1 {
					return first(err, fmt.Errorf("saw %d runs, expected it", len(runs)))
				}
				r := runs[0]
				before := r.Status == store.Failed && r.Failure != nil && r.Attempt == 2 && r.Epoch == 2 && !r.FinishedAt.IsZero()
				after := r.Status == store.Pending && r.Failure == nil && r.Attempt == 1 && r.Epoch == 3 && r.FinishedAt.IsZero()
				if !before && !after {
					return fmt.Errorf("saw status %v, failure %s, attempt %d, epoch %d, end %s", r.Status, show(r.Failure), r.Attempt, r.Epoch, show(r.FinishedAt))
				}
				return nil
			})
			c.force(id)
		}
	}},
	{"fire/seen-whole", "P3", "a reader that sees a firing also sees its run, and the schedule advanced", func(c *C) {
		c.putSchedule(c.schedule("s"))
		for range c.orders() {
			at, run := c.now, fill(store.NewRun{})
			c.meanwhile(func(s store.Store) error {
				_, err := ask(c, s.Fire, store.FireParams{Namespace: c.ns, Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run, Now: c.now})
				return err
			}, func(s store.Store) error {
				runs, err := ask(c, s.Get, store.GetParams{Namespace: c.ns, IDs: []store.ID{run.ID}})
				if err != nil {
					return err
				}
				firings, err := ask(c, s.ListFirings, store.ListFiringsParams{Namespace: c.ns, Schedule: "s"})
				if err != nil {
					return err
				}
				fired := len(firings.Firings) > 0 && firings.Firings[0].At.Equal(at)
				if len(runs) > 0 && !fired {
					return errors.New("the run is there, and its firing is not")
				}
				if !fired {
					return nil
				}
				runs, err = ask(c, s.Get, store.GetParams{Namespace: c.ns, IDs: []store.ID{run.ID}})
				if err != nil || len(runs) != 1 {
					return first(err, errors.New("the firing is there, and its run is not"))
				}
				page, err := ask(c, s.ListSchedules, store.ListSchedulesParams{Namespace: c.ns, Now: c.now})
				if err == nil && !page.Schedules[0].NextAt.Equal(at.Add(time.Hour)) {
					return fmt.Errorf("the firing is there, and the schedule fires next at %s", show(page.Schedules[0].NextAt))
				}
				return err
			})
			c.advance(time.Hour)
		}
	}},
	{"schedules/put-seen-whole", "P3", "a reader sees the old schedule or the new one while it is replaced, always completely", func(c *C) {
		sc := c.schedule("s")
		sc.Spec, sc.Workflow = "0", "0"
		c.putSchedule(sc)
		for n := range c.orders() {
			c.meanwhile(func(s store.Store) error {
				sc.Spec, sc.Workflow = fmt.Sprint(n), fmt.Sprint(n)
				_, err := ask(c, s.PutSchedule, store.PutScheduleParams{Namespace: c.ns, Schedule: sc, Now: c.now})
				return err
			}, func(s store.Store) error {
				page, err := ask(c, s.ListSchedules, store.ListSchedulesParams{Namespace: c.ns, Now: c.now})
				if err == nil && (len(page.Schedules) != 1 || page.Schedules[0].Spec != page.Schedules[0].Workflow) {
					return fmt.Errorf("saw %+v, expected the schedule", page.Schedules)
				}
				return err
			})
		}
	}},
}

// purgedAll purges final runs until there are none.
func (c *C) purgedAll() {
	c.Helper()
	for range 100 {
		n, err := c.s.Purge(c.ctx, store.PurgeParams{Namespace: c.ns, Now: c.now})
		c.ok("Purge", err)
		if n == 0 {
			return
		}
	}
}

var collisionCases = []Case{
	{"restart/races-purge", "P3", "if a restart and a purge are concurrent, one finds the run: it is pending with its steps, or deleted", func(c *C) {
		var id store.ID
		var restarted error
		var purged int
		c.collide(func() { id = c.failedRun(store.NewRun{}) }, func(s store.Store) error {
			restarted = itemErr(ask(c, s.Restart, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now}))
			return except(restarted, store.ErrNotFound)
		}, func(s store.Store) (err error) {
			purged, err = ask(c, s.Purge, store.PurgeParams{Namespace: c.ns, Now: c.now})
			return err
		}, func() {
			runs := c.gets(id)
			c.check(len(runs) == 1-purged, "Purge deleted %d runs, and %d are there", purged, len(runs))
			c.check((restarted == nil) == (purged == 0), "Restart: saw %v, with %d runs purged", restarted, purged)
			if len(runs) == 1 {
				c.eq("Status", runs[0].Status, store.Pending)
				c.eq("steps", c.stepNames(id), []string{"a", "b"})
				c.force(id)
			}
			c.purgedAll()
		})
	}},
	{"restart/races-create", "P8", "if a restart and a create with one external id are concurrent, one gets it", func(c *C) {
		var id store.ID
		var restarted error
		var made store.CreateResult
		var n store.NewRun
		c.collide(func() {
			id, n = c.failedRun(store.NewRun{ExternalID: "e"}), fill(store.NewRun{ExternalID: "e"})
		}, func(s store.Store) error {
			restarted = itemErr(ask(c, s.Restart, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now}))
			return except(restarted, store.ErrAlreadyExists)
		}, func(s store.Store) (err error) {
			made, err = c.createOn(s, n)
			return err
		}, func() {
			c.check((restarted == nil) != made.Created, "Restart: saw %v, and Create %+v; expected one of them to get the external id", restarted, made)
			active := 0
			for _, r := range c.gets(id, n.ID) {
				if !r.Status.Final() {
					active++
					c.check(r.ID == made.ID, "Create names run %v as the one that holds the external id; active is %v", made.ID, r.ID)
				}
			}
			c.eq("active runs of the external id", active, 1)
			for _, r := range c.gets(id, n.ID) {
				if !r.Status.Final() {
					c.force(r.ID)
				}
			}
		})
	}},
	{"import/races-create", "P8", "if an import and a create with one external id are concurrent, one gets it", func(c *C) {
		c.importer(c.s)
		var rec store.RunRecord
		var imported error
		var made store.CreateResult
		var n store.NewRun
		c.collide(func() {
			rec = c.aRecord(store.Running)
			rec.Run.ExternalID, rec.Run.Suffix = "e", ""
			n = fill(store.NewRun{ExternalID: "e"})
		}, func(s store.Store) error {
			_, imported = ask(c, c.importer(s).Import, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
			return except(imported, store.ErrAlreadyExists)
		}, func(s store.Store) (err error) {
			made, err = c.createOn(s, n)
			return err
		}, func() {
			c.check((imported == nil) != made.Created, "Import: saw %v, and Create %+v; expected one of them to get the external id", imported, made)
			runs := c.gets(rec.Run.ID, n.ID)
			c.eq("runs of the external id", len(runs), 1)
			for _, r := range runs {
				c.force(r.ID)
			}
		})
	}},
	{"import/repeat-race", "P4", "an import that is sent twice concurrently creates one run, and one of the answers says so", func(c *C) {
		c.importer(c.s)
		var rec store.RunRecord
		var made [2]bool
		send := func(i int) func(store.Store) error {
			return func(s store.Store) (err error) {
				made[i], err = ask(c, c.importer(s).Import, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
				return err
			}
		}
		c.collide(func() {
			rec = c.aRecord(store.Running)
			rec.Run.ExternalID, rec.Run.Suffix = "", ""
		}, send(0), send(1), func() {
			c.check(made[0] != made[1], "created: saw %v, expected it once", made)
			c.eq("steps", len(c.steps(rec.Run.ID)), len(rec.Steps))
		})
	}},
	{"import/meets-create", "P4", "if an import and a create with one ID are concurrent, one creates the run and the other finds it", func(c *C) {
		c.importer(c.s)
		var rec store.RunRecord
		var imported bool
		var made store.CreateResult
		c.collide(func() {
			rec = c.aRecord(store.Running)
			rec.Run.ExternalID, rec.Run.Suffix = "", ""
		}, func(s store.Store) (err error) {
			imported, err = ask(c, c.importer(s).Import, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
			return err
		}, func(s store.Store) (err error) {
			made, err = c.createOn(s, fill(store.NewRun{ID: rec.Run.ID}))
			return err
		}, func() {
			c.check(imported == made.Repeated, "Import says created %v, and Create repeated %v", imported, made.Repeated)
			want := 0
			if imported {
				want = len(rec.Steps)
			}
			c.eq("steps", len(c.steps(rec.Run.ID)), want)
		})
	}},
	{"fork/repeat-race", "P4", "a fork that is sent twice concurrently is one run with its steps once, and one of the answers says that it was created", func(c *C) {
		old := c.failedRun(store.NewRun{})
		var fork store.ID
		var made [2]store.CreateResult
		send := func(i int) func(store.Store) error {
			return func(s store.Store) (err error) {
				made[i], err = ask(c, s.Fork, store.ForkParams{Namespace: c.ns, ID: old, New: fork, Now: c.now})
				return err
			}
		}
		c.collide(func() { fork = store.NewID() }, send(0), send(1), func() {
			c.check(made[0].Created && made[1].Created && made[0].Repeated != made[1].Repeated, "saw %+v, expected one of them repeated", made)
			c.eq("steps", c.stepNames(fork), []string{"a", "b"})
		})
	}},
	{"fork/races-purge", "P3", "a fork that is concurrent with a purge of the old run has its steps, or is not created", func(c *C) {
		var old, fork store.ID
		var err error
		c.collide(func() { old, fork = c.failedRun(store.NewRun{}), store.NewID() }, func(s store.Store) error {
			_, err = ask(c, s.Fork, store.ForkParams{Namespace: c.ns, ID: old, New: fork, Now: c.now})
			return except(err, store.ErrNotFound)
		}, func(s store.Store) error {
			_, err := ask(c, s.Purge, store.PurgeParams{Namespace: c.ns, Now: c.now})
			return err
		}, func() {
			runs := c.gets(fork)
			c.check((err == nil) == (len(runs) == 1), "Fork: saw %v, and %d runs", err, len(runs))
			if len(runs) == 1 {
				c.eq("steps", c.stepNames(fork), []string{"a", "b"})
				c.force(fork)
			}
			c.purgedAll()
		})
	}},
	{"fork/races-commit", "P3", "a fork that is concurrent with a commit of the old run has all steps of that commit, or none", func(c *C) {
		var run store.ClaimedRun
		var fork store.ID
		c.collide(func() {
			run, fork = c.start(), store.NewID()
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		}, func(s store.Store) error {
			_, err := ask(c, s.Fork, store.ForkParams{Namespace: c.ns, ID: run.Run.ID, New: fork, Now: c.now})
			return err
		}, func(s store.Store) error {
			res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 2, Steps: []store.StepRecord{step(2, "b", ""), step(3, "c", "")}})
			return first(err, res.Err)
		}, func() {
			got := c.stepNames(fork)
			c.check(slices.Equal(got, []string{"a"}) || slices.Equal(got, []string{"a", "b", "c"}), "steps: saw %v, expected a alone, or a, b and c", got)
			c.force(fork)
		})
	}},
	{"fire/races-delete", "P10", "if a firing and a deletion are concurrent, one comes first: the run was created, or the schedule was not found", func(c *C) {
		var run store.NewRun
		var fired error
		var res store.FireResult
		c.collide(func() {
			c.putSchedule(c.schedule("s"))
			run = fill(store.NewRun{})
		}, func(s store.Store) error {
			res, fired = ask(c, s.Fire, store.FireParams{Namespace: c.ns, Schedule: "s", At: c.now, Next: c.now.Add(time.Hour), Run: &run, Now: c.now})
			return except(fired, store.ErrNotFound)
		}, func(s store.Store) error {
			return tell(c, s.DeleteSchedule, store.DeleteScheduleParams{Namespace: c.ns, Name: "s"})
		}, func() {
			c.check((fired == nil) == (len(c.gets(run.ID)) == 1) && (fired == nil) == res.Fired, "Fire: saw %+v, %v, with %d runs made", res, fired, len(c.gets(run.ID)))
			page, err := c.s.ListSchedules(c.ctx, store.ListSchedulesParams{Namespace: c.ns, Now: c.now})
			c.ok("ListSchedules", err)
			c.eq("schedules after the deletion", len(page.Schedules), 0)
		})
	}},
	{"fire/races-put", "P10", "if a firing and a put are concurrent, one comes first: the put takes effect, and the schedule fires", func(c *C) {
		var run store.NewRun
		var fired error
		var sc store.Schedule
		c.collide(func() {
			c.advance(time.Hour)
			sc = c.schedule("s")
			c.putSchedule(sc)
			run = fill(store.NewRun{})
		}, func(s store.Store) error {
			_, fired = ask(c, s.Fire, store.FireParams{Namespace: c.ns, Schedule: "s", At: c.now, Next: c.now.Add(time.Hour), Run: &run, Now: c.now})
			return except(fired, store.ErrConflict)
		}, func(s store.Store) error {
			put := sc
			put.Spec, put.NextAt = "edited", c.now.Add(7*time.Minute)
			_, err := ask(c, s.PutSchedule, store.PutScheduleParams{Namespace: c.ns, Schedule: put, Now: c.now})
			return err
		}, func() {
			got := c.theSchedule("s")
			c.eq("Spec", got.Spec, "edited")
			c.eq("NextAt", got.NextAt, c.now.Add(7*time.Minute))
			c.check((fired == nil) == (len(c.gets(run.ID)) == 1), "Fire: saw %v, with %d runs made", fired, len(c.gets(run.ID)))
			c.check((fired == nil) == got.LastAt.Equal(c.now), "Fire: saw %v, and the last fire time is %s", fired, show(got.LastAt))
		})
	}},
	{"pause/races-transition", "P11", "a run is paused in the end, whether the pause came before its holder's transition or after it", func(c *C) {
		var run store.ClaimedRun
		c.collide(func() { run = c.start() }, func(s store.Store) error {
			res, err := ask(c, s.Pause, store.PauseParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Now: c.now})
			if err != nil {
				return err
			}
			return res[0].Err
		}, func(s store.Store) error {
			res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Transition: sleepFor(time.Minute)})
			return first(err, res.Err)
		}, func() {
			c.status(run.Run.ID, store.Paused)
			c.force(run.Run.ID)
		})
	}},
	{"children/spawn-races-cancel", "P11", "no child of a run that is canceled by force continues, even if it was spawned at that moment", func(c *C) {
		var run store.ClaimedRun
		var child []store.NewRun
		var res store.CommitResult
		c.collide(func() { run, child = c.start(), kids(2) }, func(s store.Store) (err error) {
			res, err = c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Spawn: child})
			return err
		}, func(s store.Store) error {
			_, err := ask(c, s.Cancel, store.CancelParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Force: true, Now: c.now})
			return err
		}, func() {
			got := c.gets(child[0].ID, child[1].ID)
			if res.Err != nil {
				c.fails("Commit", res.Err, store.ErrLeaseLost)
				c.eq("children of a commit that was refused", len(got), 0)
				return
			}
			c.eq("children", len(got), 2)
			for _, k := range got {
				c.eq("status of a child", k.Status, store.Canceled)
			}
		})
	}},
	{"workers/asked-race", "P13", "of two concurrent calls of AskWorkers, one has asked a worker", func(c *C) {
		var asked [2]int
		send := func(i int) func(store.Store) error {
			return func(s store.Store) (err error) {
				asked[i], err = ask(c, s.AskWorkers, store.AskWorkersParams{Namespace: c.ns, Silent: time.Second, Now: c.now})
				return err
			}
		}
		c.collide(func() {
			c.putWorker(store.Worker{ID: "w1", TTL: time.Hour, Answers: time.Minute})
			c.advance(time.Minute)
		}, send(0), send(1), func() { c.eq("asked by both together", asked[0]+asked[1], 1) })
	}},
}
