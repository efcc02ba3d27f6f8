package storetier

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

var cancelCases = []Case{
	{"cancel/pending-is-final", "P11", "a pending run is canceled at once, with a failure of code canceled and the reason", func(c *C) {
		id := c.create(store.NewRun{})
		c.advance(time.Second)
		c.eq("the status", c.cancel(id), store.Canceled)
		run := c.get(id)
		c.eq("Status", run.Status, store.Canceled)
		c.eq("Failure", run.Failure, &store.Failure{Code: store.FailureCanceled, Message: "told to"})
		c.eq("FinishedAt", run.FinishedAt, c.now)
		c.eq("VisibleAt", run.VisibleAt, time.Time{})
		c.claimNone("it is canceled")
	}},
	{"cancel/sleeping-is-final", "P11", "a sleeping, retrying or paused run is canceled at once", func(c *C) {
		for _, t := range []*store.Transition{sleepFor(time.Hour), sleepOn(store.WakeSignal), retryIn(time.Hour)} {
			for _, paused := range []bool{false, true} {
				run := c.start()
				c.end(run, t)
				if paused {
					c.pause(run.Run.ID)
				}
				c.eq("the status", c.cancel(run.Run.ID), store.Canceled)
				got := c.get(run.Run.ID)
				c.eq("VisibleAt", got.VisibleAt, time.Time{})
				c.eq("Failure", got.Failure, &store.Failure{Code: store.FailureCanceled, Message: "told to"})
			}
		}
		c.advance(2 * time.Hour)
		c.claimNone("all are canceled")
	}},
	{"cancel/running-is-canceling", "P11", "a leased run becomes canceling, which is an event; its holder keeps the lease and may still commit", func(c *C) {
		run := c.start()
		id := run.Run.ID
		c.advance(time.Second)
		c.eq("the status", c.cancel(id), store.Canceling)
		want := run.Run
		want.Status, want.Events, want.Failure = store.Canceling, 1, &store.Failure{Code: store.FailureCanceled, Message: "told to"}
		c.eq("Failure", c.get(id).Failure, want.Failure)
		c.eq("the run", c.get(id), want)
		res := c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "cleanup", "")}})
		c.eq("the status that a commit tells", res.Status, store.Canceling)
		c.eq("the events that a commit tells", res.Events, int64(1))
		c.claimNone("its lease stands")
		c.end(run, cancelRun())
		c.status(id, store.Canceled)
		c.eq("steps", c.stepNames(id), []string{"cleanup"})
	}},
	{"cancel/completion-wins", "P11", "a completion or failure that was already being committed counts", func(c *C) {
		for _, t := range []*store.Transition{complete("out"), failWith("x")} {
			run := c.start()
			c.cancel(run.Run.ID)
			c.end(run, t)
			got := c.get(run.Run.ID)
			c.check(got.Status != store.Canceled, "status after %v of a canceling run: saw canceled, expected what its holder said", t.Kind)
			c.eq("Failure", got.Failure, t.Failure)
		}
	}},
	{"cancel/reason-is-kept", "P11", "the failure of a cancel stays with the canceling run, whoever holds it, until it ends; CancelRun without a failure keeps it", func(c *C) {
		run := c.start()
		c.cancel(run.Run.ID)
		c.end(run, release())
		run = c.claim1()
		want := &store.Failure{Code: store.FailureCanceled, Message: "told to"}
		c.eq("Failure of the claimed run", run.Run.Failure, want)
		c.end(run, &store.Transition{Kind: store.CancelRun})
		c.eq("Failure in the end", c.get(run.Run.ID).Failure, want)
	}},
	{"cancel/holder-crashes", "P11", "a canceling run whose holder died is claimed, stays canceling, and is ended by its next holder", func(c *C) {
		run := c.start()
		c.cancel(run.Run.ID)
		c.advance(aLease)
		next := c.claim1As("w2")
		c.eq("Status", next.Run.Status, store.Canceling)
		c.eq("Status of the inbox", next.Inbox.Status, store.Canceling)
		c.eq("Recovered", next.Recovered, true)
		c.lost("commit of the dead holder", store.Commit{Lease: run.Lease, Transition: complete("late")})
		c.end(next, cancelRun())
		c.status(run.Run.ID, store.Canceled)
	}},
	{"cancel/tree", "P11", "descendants are canceled in the same write", func(c *C) {
		root := c.start()
		a := kid(1)
		c.commit(store.Commit{Lease: root.Lease, Spawn: []store.NewRun{a, kid(2)}, Transition: sleepAwait(allOf)})
		k := c.claimKid()
		g := kid(1)
		g.Queue = "grandchildren"
		c.commit(store.Commit{Lease: k.Lease, Spawn: []store.NewRun{g}, Transition: sleepAwait(allOf)})
		leased := c.claimKid()
		c.eq("the status", c.cancel(root.Run.ID), store.Canceled)
		c.status(k.Run.ID, store.Canceled)
		c.status(g.ID, store.Canceled)
		c.status(leased.Run.ID, store.Canceling)
		for _, id := range []store.ID{k.Run.ID, g.ID, leased.Run.ID} {
			c.eq("Failure of a descendant", c.get(id).Failure, &store.Failure{Code: store.FailureCanceled, Message: store.CanceledWithParent})
		}
	}},
	{"cancel/tree-of-a-leased-root", "P11", "descendants are canceled at once even if their root is leased and itself only canceling", func(c *C) {
		root := c.start()
		k := kid(1)
		c.commit(store.Commit{Lease: root.Lease, Spawn: []store.NewRun{k}})
		c.eq("the status", c.cancel(root.Run.ID), store.Canceling)
		c.status(k.ID, store.Canceled)
		c.eq("the group", c.group(root.Run.ID), store.Group{Name: "g", Total: 1, Canceled: 1})
	}},
	{"cancel/abandoned-child-lives", "P11", "a child whose policy is abandon continues after the cancel of its parent", func(c *C) {
		k := kid(1)
		k.OnClose = store.CloseAbandon
		parent := c.family(sleepAwait(allOf), k)
		c.cancel(parent)
		c.status(k.ID, store.Pending)
		c.end(c.claimKid(), complete(""))
		c.status(k.ID, store.Completed)
		c.status(parent, store.Canceled)
	}},
	{"cancel/finished", "P16", "a completed or failed run is not canceled: ErrFinished; an unknown one is ErrNotFound", func(c *C) {
		done, broken := c.start(), store.ClaimedRun{}
		c.end(done, complete("out"))
		broken = c.start()
		c.end(broken, failWith("x"))
		live := c.create(store.NewRun{})
		res := c.tryCancel(done.Run.ID, broken.Run.ID, store.NewID(), live)
		c.fails("Cancel of a completed run", res[0].Err, store.ErrFinished)
		c.fails("Cancel of a failed run", res[1].Err, store.ErrFinished)
		c.fails("Cancel of no run", res[2].Err, store.ErrNotFound)
		c.eq("Cancel of the pending one", res[3], store.ControlResult{Status: store.Canceled, Ended: ended(1)})
		c.status(done.Run.ID, store.Completed)
		c.status(broken.Run.ID, store.Failed)
	}},
	{"cancel/tells-what-it-ended", "P11", "a cancel counts the runs that it made final, by queue and workflow: the run and those below it, without those that are held", func(c *C) {
		grandchild, held, abandoned := kid(3), kid(4), kid(5)
		grandchild.Workflow, abandoned.OnClose = "grandkid", store.CloseAbandon
		middle := kid(1)
		parent := c.start()
		c.commit(store.Commit{Lease: parent.Lease, Spawn: []store.NewRun{middle}})
		claimed := c.claimKid()
		c.commit(store.Commit{Lease: claimed.Lease, Spawn: []store.NewRun{grandchild}, Transition: sleepFor(time.Hour)})
		c.commit(store.Commit{Lease: parent.Lease, Spawn: []store.NewRun{held}})
		c.eq("the held one", c.claimKid().Run.ID, held.ID)
		c.commit(store.Commit{Lease: parent.Lease, Spawn: []store.NewRun{kid(2), abandoned}, Transition: release()})
		res := c.tryCancel(parent.Run.ID)[0]
		c.eq("the counts", res.Ended, slices.Concat(
			[]store.RunCount{{Queue: kidQueue, Workflow: "grandkid", Status: store.Canceled, Count: 1}}, endedKids(2), ended(1)))
		c.eq("runs that are canceled", c.count(store.RunFilter{Statuses: []store.Status{store.Canceled}}), int64(4))
		leased := c.start()
		c.eq("of a run that somebody holds", c.tryCancel(leased.Run.ID)[0].Ended, []store.RunCount(nil))
		c.eq("its end", c.end(leased, cancelRun()).Ended, []store.RunCount(nil))
	}},
	{"cancel/tells-ends-once", "P11", "each end is reported once: not to a repeated cancel, not for the second of two equal items, and not to several concurrent cancels", func(c *C) {
		parent := c.start()
		pair := kids(2)
		c.commit(store.Commit{Lease: parent.Lease, Spawn: pair, Transition: release()})
		res := c.tryCancel(pair[0].ID, pair[0].ID, parent.Run.ID, pair[1].ID, parent.Run.ID)
		var got [][]store.RunCount
		for _, r := range res {
			got = append(got, r.Ended)
		}
		c.eq("the counts", got, [][]store.RunCount{endedKids(1), nil, slices.Concat(endedKids(1), ended(1)), nil, nil})
		c.eq("again", c.tryCancel(parent.Run.ID)[0].Ended, []store.RunCount(nil))
		for range 10 {
			parent := c.start()
			pair := kids(2)
			c.commit(store.Commit{Lease: parent.Lease, Spawn: pair, Transition: release()})
			told := make([]int64, 6)
			c.race(len(told), func(i int, s store.Store) error {
				res, err := patient(c.ctx, func() ([]store.ControlResult, error) {
					return s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{[]store.ID{parent.Run.ID, pair[0].ID, pair[1].ID}[i%3]}, Now: c.now})
				})
				if err != nil {
					return err
				}
				for _, n := range res[0].Ended {
					told[i] += n.Count
				}
				return res[0].Err
			})
			c.eq("ends that all of them told", sumOf(told), int64(3))
		}
	}},
	{"cancel/force", "P11", "a forced cancel ends a held run at once, canceling or not, with its reason; its children are canceled as usual", func(c *C) {
		force := func(ids ...store.ID) []store.ControlResult {
			res, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: ids, Reason: "stuck", Force: true, Now: c.now})
			c.ok("Cancel with Force", err)
			return res
		}
		done := c.start()
		c.end(done, complete("out"))
		running, stuck := c.start(), c.start()
		c.eq("Cancel", c.cancel(stuck.Run.ID), store.Canceling)
		parent := c.start()
		held, free := kid(1), kid(2)
		c.commit(store.Commit{Lease: parent.Lease, Spawn: []store.NewRun{held, free}})
		holder := c.claimKid()
		pending := c.create(store.NewRun{})
		c.advance(time.Second)
		res := force(running.Run.ID, stuck.Run.ID, parent.Run.ID, pending, done.Run.ID, store.NewID())
		for i, id := range []store.ID{running.Run.ID, stuck.Run.ID, parent.Run.ID, pending} {
			c.eq(fmt.Sprintf("result %d", i), res[i].Status, store.Canceled)
			c.ok(fmt.Sprintf("result %d", i), res[i].Err)
			r := c.get(id)
			c.eq("Status", r.Status, store.Canceled)
			c.eq("FinishedAt", r.FinishedAt, c.now)
			c.eq("VisibleAt", r.VisibleAt, time.Time{})
			c.eq("Worker", r.Worker, "")
			c.eq("reason", r.Failure.Message, "stuck")
		}
		c.eq("runs that ended", [][]store.RunCount{res[0].Ended, res[1].Ended, res[2].Ended, res[3].Ended, res[4].Ended},
			[][]store.RunCount{ended(1), ended(1), slices.Concat(endedKids(1), ended(1)), ended(1), nil})
		c.eq("Epoch", c.get(running.Run.ID).Epoch, running.Lease.Epoch+1)
		c.fails("of a completed run", res[4].Err, store.ErrFinished)
		c.fails("of no run", res[5].Err, store.ErrNotFound)
		for _, k := range []store.NewRun{held, free} {
			want := store.Canceled
			if k.ID == holder.Run.ID {
				want = store.Canceling
			}
			c.status(k.ID, want)
		}
		before := c.get(stuck.Run.ID)
		c.advance(time.Second)
		c.eq("again", force(stuck.Run.ID)[0], store.ControlResult{Status: store.Canceled})
		c.eq("the run", c.get(stuck.Run.ID), before)
	}},
	{"cancel/force-fences-the-holder", "P2", "the holder of a run that was ended by force has lost it, also when the run is restarted", func(c *C) {
		run := c.start()
		c.cancel(run.Run.ID)
		_, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Force: true, Now: c.now})
		c.ok("Cancel with Force", err)
		before := c.get(run.Run.ID)
		c.eq("Status", before.Status, store.Canceled)
		late := func() {
			c.eq("Extend: Lost", c.extend(run.Lease).Lost, true)
			c.lost("a step of the old holder", store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "x")}, State: []store.StateWrite{{Key: "k"}}})
			c.lost("a completion by the old holder", store.Commit{Lease: run.Lease, Seq: 1, Transition: complete("late")})
		}
		late()
		c.eq("the run", c.get(run.Run.ID), before)
		c.eq("steps", len(c.steps(run.Run.ID)), 0)
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Now: c.now})))
		late()
		c.status(run.Run.ID, store.Pending)
		c.end(c.claim1(), complete("anew"))
		late()
		c.eq("output", string(c.get(run.Run.ID).Output), "anew")
	}},
	{"cancel/force-counts-once", "P9", "a child that was ended by force counts once in its group, and wakes its parent", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(1)...)
		child := c.claimKid()
		c.cancel(child.Run.ID)
		c.claimNone("before the child has ended")
		for range 2 {
			_, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{child.Run.ID}, Force: true, Now: c.now})
			c.ok("Cancel with Force", err)
		}
		c.lost("the child's own end", store.Commit{Lease: child.Lease, Seq: 1, Transition: cancelRun()})
		run := c.claim1()
		c.eq("the run that woke", run.Run.ID, parent)
		g := run.Inbox.Groups[0]
		c.eq("the group", []int64{g.Total, g.Open, g.Canceled}, []int64{1, 0, 1})
	}},
	{"cancel/repeat", "P4", "cancel of a canceled or canceling run succeeds and changes nothing", func(c *C) {
		id := c.create(store.NewRun{})
		c.cancel(id)
		before := c.get(id)
		c.advance(time.Second)
		again := func(id store.ID) store.Status {
			res, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{id}, Reason: "told again", Now: c.now})
			c.ok("Cancel again", err)
			c.ok("its item", res[0].Err)
			return res[0].Status
		}
		c.eq("the status again", again(id), store.Canceled)
		c.eq("the run", c.get(id), before)
		run := c.start()
		c.cancel(run.Run.ID)
		before = c.get(run.Run.ID)
		c.eq("the status again", again(run.Run.ID), store.Canceling)
		c.eq("the run", c.get(run.Run.ID), before)
		c.eq("Events", before.Events, int64(1))
	}},
	{"cancel/races-claim", "P11", "a cancel that is concurrent with a claim either ends the run or makes it canceling, never neither", func(c *C) {
		for round := range 15 {
			id := c.create(store.NewRun{})
			var res []store.ControlResult
			var taken []store.ClaimedRun
			c.race(2, func(i int, s store.Store) (err error) {
				if (i+round)%2 == 0 {
					taken, err = c.claimOn(s, store.ClaimParams{})
					return err
				}
				res, err = patient(c.ctx, func() ([]store.ControlResult, error) {
					return s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})
				})
				return err
			})
			c.ok("Cancel's item", res[0].Err)
			want := store.Canceled
			if len(taken) == 1 {
				want = store.Canceling
			}
			c.eq("the status", res[0].Status, want)
			c.status(id, want)
			if len(taken) == 1 {
				c.end(taken[0], cancelRun())
			}
		}
	}},
	{"cancel/recorded-is-canceling", "P11", "a run that has recorded steps and that nobody holds becomes canceling, claimable at once with its history, whatever it waited for", func(c *C) {
		for _, t := range []*store.Transition{sleepFor(time.Hour), sleepOn(store.WakeSignal), sleepAwait(allOf), retryIn(time.Hour), release()} {
			for _, paused := range []bool{false, true} {
				run := c.recorded(t)
				id := run.Run.ID
				if paused {
					c.pause(id)
				}
				before := c.get(id)
				c.advance(time.Second)
				c.eq("the status", c.cancel(id), store.Canceling)
				want := before
				want.Status, want.Events, want.Failure = store.Canceling, before.Events+1, &store.Failure{Code: store.FailureCanceled, Message: "told to"}
				if before.VisibleAt.IsZero() || before.VisibleAt.After(c.now) {
					want.VisibleAt = c.now
				}
				c.eq("Failure", c.get(id).Failure, want.Failure)
				c.eq("the run after "+t.Kind.String(), c.get(id), want)
				next := c.claim1As("w2")
				c.eq("Status of the claimed run", next.Run.Status, store.Canceling)
				c.eq("Status of the inbox", next.Inbox.Status, store.Canceling)
				c.eq("Recovered", next.Recovered, false)
				c.eq("steps", len(next.Steps), 1)
				c.claimNone("it is leased")
				c.end(next, &store.Transition{Kind: store.CancelRun})
				got := c.get(id)
				c.eq("Status in the end", got.Status, store.Canceled)
				c.eq("Failure in the end", got.Failure, want.Failure)
				c.claimNone("it is canceled")
			}
		}
	}},
	{"cancel/unrecorded-is-final", "P11", "a run whose records were deleted, or that has not been claimed since it was forked, has nothing to clean up: it is canceled at once", func(c *C) {
		final := func(id store.ID) {
			c.eq("the status", c.cancel(id), store.Canceled)
			c.status(id, store.Canceled)
			c.claimNone("it is canceled")
		}
		c.recorded(sleepFor(24 * time.Hour)) // the steps of another run do not matter
		run := c.start()
		bad := step(1, "a", "")
		bad.Status, bad.Failure = store.StepFailed, &store.Failure{Code: "error", Message: "x"}
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{bad}, Transition: retryIn(time.Hour)})
		final(run.Run.ID)
		run = c.start()
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		c.end(run, continueWith("in"))
		final(run.Run.ID)
		old := c.recorded(complete("out"))
		fork := c.fork(store.ForkParams{ID: old.Run.ID, New: store.NewID()})
		c.eq("steps of the fork", len(c.steps(fork.ID)), 1)
		final(fork.ID)
		fork = c.fork(store.ForkParams{ID: old.Run.ID, New: store.NewID()})
		c.end(c.claim1(), release())
		c.eq("the status of a fork that was claimed", c.cancel(fork.ID), store.Canceling)
	}},
	{"cancel/recorded-repeat", "P4", "a second cancel, a pause or a resume changes nothing while the run waits for its last claim; the run holds its external id until it is final", func(c *C) {
		run := c.startWith(store.NewRun{ExternalID: "e"})
		id := run.Run.ID
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: sleepFor(time.Hour)})
		c.cancel(id)
		before := c.get(id)
		c.advance(time.Second)
		c.eq("the status again", c.cancel(id), store.Canceling)
		c.eq("Pause", c.pause(id), store.Canceling)
		c.eq("Resume", c.resume(id), store.Canceling)
		c.eq("the run", c.get(id), before)
		n := fill(store.NewRun{ExternalID: "e"})
		c.eq("whose external id it is", c.creates(n)[0], store.CreateResult{ID: id})
		c.eq("purged", c.purge(store.PurgeParams{}), 0)
		c.end(c.claim1(), cancelRun())
		c.eq("whose external id it is afterwards", c.creates(n)[0], store.CreateResult{ID: n.ID, Created: true})
	}},
	{"cancel/recorded-tree", "P11", "each descendant is canceled as if it were alone: canceling if it is leased or has recorded steps, otherwise canceled; it counts when it is final", func(c *C) {
		for _, how := range []string{"cancel", "end"} {
			root := c.start()
			ks := kids(4)
			c.commit(store.Commit{Lease: root.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Spawn: ks})
			asleep, leased := c.claimKid(), c.claimKid()
			g := kid(1)
			g.Queue = "grandchildren"
			c.commit(store.Commit{Lease: asleep.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Spawn: []store.NewRun{g}, Transition: sleepAwait(allOf)})
			untouched := c.claimKid()
			c.end(untouched, sleepFor(time.Hour))
			if how == "cancel" {
				c.end(root, sleepAwait(allOf))
				c.eq("the status of the root", c.cancel(root.Run.ID), store.Canceling)
			} else {
				c.end(root, complete(""))
			}
			c.status(asleep.Run.ID, store.Canceling)
			c.status(leased.Run.ID, store.Canceling)
			c.status(untouched.Run.ID, store.Canceled)
			c.status(ks[3].ID, store.Canceled)
			c.status(g.ID, store.Canceled)
			c.eq("Failure of the one that slept", c.get(asleep.Run.ID).Failure, &store.Failure{Code: store.FailureCanceled, Message: store.CanceledWithParent})
			c.eq("the group", c.group(root.Run.ID), store.Group{Name: "g", Total: 4, Open: 2, Canceled: 2})
			next := c.claimKid()
			c.eq("the child that is claimed", next.Run.ID, asleep.Run.ID)
			c.eq("its Status", next.Run.Status, store.Canceling)
			c.end(next, cancelRun())
			c.end(leased, complete(""))
			c.eq("the group in the end", c.group(root.Run.ID), store.Group{Name: "g", Total: 4, Completed: 1, Canceled: 3})
			if how == "cancel" {
				c.end(c.claim1(), cancelRun())
				c.status(root.Run.ID, store.Canceled)
			}
		}
	}},
	{"cancel/recorded-child-wakes-at-its-end", "P9", "a parent that awaits a canceled child sleeps until that child has cleaned up", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(1)...)
		k := c.claimKid()
		c.commit(store.Commit{Lease: k.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: sleepFor(time.Hour)})
		c.eq("Cancel of the child", c.cancel(k.Run.ID), store.Canceling)
		c.asleep(parent, "with the child canceling")
		c.end(c.claimKid(), cancelRun())
		c.awake(parent, "with the child canceled")
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 1, Canceled: 1})
	}},
	{"cancel/recorded-many", "P11", "one call cancels many runs, each according to what it has recorded", func(c *C) {
		const n = 300
		ids := c.createN(n, store.NewRun{})
		var cms []store.Commit
		for i, run := range c.claimAll(n) {
			cm := store.Commit{Lease: run.Lease, Seq: 1, Transition: sleepFor(time.Hour)}
			if i%3 > 0 {
				cm.Steps = []store.StepRecord{step(1, "a", "")}
			}
			cms = append(cms, cm)
		}
		for _, res := range c.commits(cms...) {
			c.ok("Commit's item", res.Err)
		}
		recorded := 0
		for i, res := range c.tryCancel(ids...) {
			c.ok("its item", res.Err)
			want := store.Canceled
			if len(c.steps(ids[i])) > 0 {
				want = store.Canceling
				recorded++
			}
			c.eq("the status", res.Status, want)
		}
		c.eq("runs with steps", recorded, 200)
		for _, run := range c.claimAll(recorded) {
			c.eq("Status", run.Run.Status, store.Canceling)
			c.end(run, cancelRun())
		}
		c.claimNone("all are canceled")
	}},
	{"cancel/recorded-hears", "P5", "signals, state and the ends of children reach a run while it waits for its last claim, which returns them; they change neither its status nor its time", func(c *C) {
		run := c.start()
		id := run.Run.ID
		k := kid(1)
		k.OnClose = store.CloseAbandon
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Spawn: []store.NewRun{k},
			Transition: &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal | store.WakeState, Await: []store.Await{allOf}}})
		c.cancel(id)
		at := c.get(id).VisibleAt
		c.advance(time.Second)
		c.signal(id, "n", "x")
		c.setState(id, "k", "v")
		c.end(c.claimKid(), complete(""))
		got := c.get(id)
		c.eq("Status", got.Status, store.Canceling)
		c.eq("VisibleAt", got.VisibleAt, at)
		c.eq("Events", got.Events, int64(3))
		next := c.claim1()
		c.eq("signals", payloads(next.Inbox.Signals), []string{"x"})
		c.eq("entries of state", len(next.Inbox.State), 1)
		c.eq("groups", next.Inbox.Groups, []store.Group{{Name: "g", Total: 1, Completed: 1}})
	}},
	{"cancel/recorded-held-back", "P13", "a canceling run that nobody holds is not claimed while its queue or its workflow is paused, like any other run, and is claimed afterwards", func(c *C) {
		for _, t := range [][2]string{{aQueue, ""}, {"", aWorkflow}} {
			run := c.recorded(sleepFor(time.Hour))
			c.setPaused(t[0], t[1], true)
			c.eq("the status", c.cancel(run.Run.ID), store.Canceling)
			c.claimNone("its queue or workflow is paused")
			c.setPaused(t[0], t[1], false)
			c.end(c.claim1(), cancelRun())
			c.status(run.Run.ID, store.Canceled)
		}
	}},
	{"cancel/recorded-deadline", "P11", "a cancel makes a run due even if its deadline is later, and a canceling run is claimable after its deadline", func(c *C) {
		run := c.startWith(store.NewRun{Timeout: time.Hour})
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: sleepOn(store.WakeSignal)})
		c.cancel(run.Run.ID)
		c.eq("VisibleAt", c.get(run.Run.ID).VisibleAt, c.now)
		c.advance(2 * time.Hour)
		next := c.claim1()
		c.eq("Status", next.Run.Status, store.Canceling)
		c.end(next, cancelRun())
		c.status(run.Run.ID, store.Canceled)
	}},
	{"cancel/recorded-force", "P11", "a forced cancel ends a run at once, whatever it has recorded, also a canceling run that nobody holds", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(1)...)
		k := c.claimKid()
		c.commit(store.Commit{Lease: k.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: sleepFor(time.Hour)})
		below := c.start()
		c.commit(store.Commit{Lease: below.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Spawn: kids(1), Transition: sleepAwait(allOf)})
		follower := c.claimKid()
		c.commit(store.Commit{Lease: follower.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: sleepFor(time.Hour)})
		asleep, waiting := c.recorded(sleepFor(time.Hour)), c.recorded(sleepFor(time.Hour))
		c.cancel(waiting.Run.ID)
		c.cancel(k.Run.ID)
		c.advance(time.Second)
		ids := []store.ID{asleep.Run.ID, waiting.Run.ID, k.Run.ID, below.Run.ID}
		for round := range 2 {
			res, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: ids, Reason: "stuck", Force: true, Now: c.now})
			c.ok("Cancel with Force", err)
			for i, id := range ids {
				want := store.ControlResult{Status: store.Canceled}
				if run := c.get(id); round == 0 {
					want.Ended = store.Tally(nil, run.Queue, run.Workflow, store.Canceled, 1)
				}
				c.eq(fmt.Sprintf("result %d", i), res[i], want)
				got := c.get(id)
				c.eq("Status", got.Status, store.Canceled)
				c.eq("reason", got.Failure.Message, "stuck")
				c.eq("VisibleAt", got.VisibleAt, time.Time{})
			}
		}
		c.status(follower.Run.ID, store.Canceling)
		c.awake(parent, "with its child ended by force")
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 1, Canceled: 1})
	}},
	{"cancel/recorded-races-claim", "P11", "a cancel that is concurrent with the claim of a run with recorded steps makes it canceling, and one worker holds it", func(c *C) {
		for round := range 15 {
			run := c.recorded(sleepFor(time.Minute))
			c.advance(time.Minute)
			var res []store.ControlResult
			var taken []store.ClaimedRun
			c.race(2, func(i int, s store.Store) (err error) {
				if (i+round)%2 == 0 {
					taken, err = c.claimOn(s, store.ClaimParams{})
					return err
				}
				res, err = patient(c.ctx, func() ([]store.ControlResult, error) {
					return s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Now: c.now})
				})
				return err
			})
			c.ok("Cancel's item", res[0].Err)
			c.eq("the status", res[0].Status, store.Canceling)
			c.status(run.Run.ID, store.Canceling)
			if len(taken) == 0 {
				taken = c.claimN(1)
			}
			c.end(taken[0], cancelRun())
			c.claimNone("it is canceled")
		}
	}},
	{"cancel/races-completion", "P11", "a cancel that is concurrent with a completion leaves the run completed, and says which came first", func(c *C) {
		for round := range 15 {
			run := c.start()
			var res []store.ControlResult
			c.race(2, func(i int, s store.Store) error {
				if (i+round)%2 == 0 {
					res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Transition: complete("")})
					return first(err, res.Err)
				}
				var err error
				res, err = patient(c.ctx, func() ([]store.ControlResult, error) {
					return s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Now: c.now})
				})
				return err
			})
			if res[0].Err != nil {
				c.fails("Cancel", res[0].Err, store.ErrFinished)
			} else {
				c.eq("the status", res[0].Status, store.Canceling)
			}
			c.status(run.Run.ID, store.Completed)
		}
	}},
}

var pauseCases = []Case{
	{"pause/pending", "P13", "a pending run is paused at once and not claimed until it is resumed; repeating either has no effect", func(c *C) {
		id := c.create(store.NewRun{})
		before := c.get(id)
		for range 2 {
			c.eq("Pause", c.pause(id), store.Paused)
		}
		c.status(id, store.Paused)
		c.claimNone("it is paused")
		for range 2 {
			c.eq("Resume", c.resume(id), store.Pending)
		}
		c.eq("the run", c.get(id), before)
		c.claim1()
	}},
	{"pause/holder-crashes", "P11", "a run that is marked and whose holder died is claimed, still marked, and paused by its next holder's transition", func(c *C) {
		run := c.start()
		c.pause(run.Run.ID)
		c.advance(aLease)
		next := c.claim1As("w2")
		c.eq("Status", next.Run.Status, store.Running)
		c.eq("Pausing", next.Run.Pausing, true)
		c.eq("Pausing that an extension tells", c.extend(next.Lease).Pausing, true)
		c.eq("the status after a release", c.end(next, release()).Status, store.Paused)
	}},
	{"pause/running-at-next-transition", "P11", "a leased run is marked, and paused by its holder's next transition that is not final", func(c *C) {
		for _, t := range []*store.Transition{sleepFor(time.Hour), retryIn(time.Hour), release(), continueWith("in")} {
			run := c.start()
			id := run.Run.ID
			c.eq("Pause", c.pause(id), store.Running)
			c.eq("Pausing", c.get(id).Pausing, true)
			res := c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
			c.eq("the status that a commit tells", res.Status, store.Running)
			c.eq("Pausing that a commit tells", res.Pausing, true)
			res = c.end(run, t)
			c.eq("the status after "+t.Kind.String(), res.Status, store.Paused)
			got := c.get(id)
			c.eq("Status", got.Status, store.Paused)
			c.eq("Pausing", got.Pausing, false)
			c.eq("Worker", got.Worker, "")
			c.claimNone("it is paused")
			want := store.Pending
			if t.Kind == store.Sleep {
				want = store.Sleeping
			}
			c.eq("Resume", c.resume(id), want)
			c.force(id)
		}
	}},
	{"pause/completion-wins", "P11", "a marked run whose holder ends it becomes final, not paused", func(c *C) {
		for _, t := range []*store.Transition{complete(""), failWith("x"), cancelRun()} {
			run := c.start()
			c.pause(run.Run.ID)
			c.end(run, t)
			got := c.get(run.Run.ID)
			c.eq("final", got.Status.Final(), true)
			c.eq("Pausing", got.Pausing, false)
		}
	}},
	{"pause/unmark", "P11", "a resume before the transition clears the mark", func(c *C) {
		run := c.start()
		c.pause(run.Run.ID)
		c.eq("Resume", c.resume(run.Run.ID), store.Running)
		c.eq("Pausing", c.get(run.Run.ID).Pausing, false)
		c.eq("the status", c.end(run, release()).Status, store.Pending)
		c.claim1()
	}},
	{"pause/resume-keeps-time", "P13", "a paused run keeps its time: if it is resumed before that time, it is claimed then, and not earlier", func(c *C) {
		run := c.start()
		id := run.Run.ID
		due := c.now.Add(time.Hour)
		c.end(run, sleepFor(time.Hour))
		c.pause(id)
		c.eq("VisibleAt while paused", c.get(id).VisibleAt, due)
		c.advance(time.Minute)
		c.eq("Resume", c.resume(id), store.Sleeping)
		c.eq("VisibleAt", c.get(id).VisibleAt, due)
		c.claimNone("it sleeps on")
		c.pause(id)
		c.advance(2 * time.Hour)
		c.claimNone("it is paused, though its time has come")
		c.resume(id)
		c.claim1()
	}},
	{"pause/resume-keeps-retry", "P13", "a run paused while it waits for a retry continues to wait when it is resumed", func(c *C) {
		run := c.start()
		id := run.Run.ID
		c.pause(id)
		c.end(run, retryIn(time.Hour))
		c.status(id, store.Paused)
		c.eq("Resume", c.resume(id), store.Pending)
		c.claimNone("its retry is an hour away")
		c.advance(time.Hour)
		c.eq("Attempt", c.claim1().Run.Attempt, 2)
	}},
	{"pause/event-while-paused", "P5", "an event that a paused sleeping run had asked for has woken it when it is resumed", func(c *C) {
		for _, wakes := range []store.WakeOn{store.WakeSignal, store.WakeState, 0} {
			run := c.start()
			id := run.Run.ID
			t := sleepFor(time.Hour)
			t.Wakes = wakes
			c.end(run, t)
			c.pause(id)
			if wakes != store.WakeState {
				c.signal(id, "n", "x")
			}
			if wakes != store.WakeSignal {
				c.setState(id, "k", "x")
			}
			c.status(id, store.Paused)
			c.claimNone("it is paused")
			c.eq("Resume", c.resume(id), store.Sleeping)
			switch wakes {
			case store.WakeSignal:
				c.eq("signals", payloads(c.claim1().Inbox.Signals), []string{"x"})
			case store.WakeState:
				c.eq("state", values(c.claim1().Inbox.State), []string{"k=x"})
			default:
				c.claimNone("it had not asked for events")
			}
		}
	}},
	{"pause/children-end-while-paused", "P9", "children that end while their parent is paused have woken it when it is resumed", func(c *C) {
		parent := c.family(sleepAwait(allOf), kids(1)...)
		c.pause(parent)
		c.end(c.claimKid(), complete(""))
		c.status(parent, store.Paused)
		c.resume(parent)
		run := c.claim1()
		c.eq("groups", run.Inbox.Groups, []store.Group{{Name: "g", Total: 1, Completed: 1}})
		c.eq("Events", run.Inbox.Events, int64(1))
	}},
	{"pause/finished", "P16", "a final run is neither paused nor resumed: ErrFinished; an unknown one is ErrNotFound", func(c *C) {
		run := c.start()
		c.end(run, complete(""))
		for _, resume := range []bool{false, true} {
			res := c.tryPause(resume, run.Run.ID, store.NewID())
			c.fails("a final run", res[0].Err, store.ErrFinished)
			c.fails("no run", res[1].Err, store.ErrNotFound)
		}
		c.status(run.Run.ID, store.Completed)
	}},
	{"pause/queue", "P13", "runs of a paused queue are not claimed; leases and times continue", func(c *C) {
		held := c.start()
		c.create(store.NewRun{})
		other := c.create(store.NewRun{Queue: "q2"})
		for range 2 {
			c.setPaused(aQueue, "", true)
		}
		c.claimNone("its queue is paused")
		c.eq("runs of another queue", runIDs(c.claim(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 5), demand("q2", 5)}}).Runs), []store.ID{other})
		c.eq("Lost", c.extend(held.Lease).Lost, false)
		c.end(held, complete(""))
		for range 2 {
			c.setPaused(aQueue, "", false)
		}
		c.claim1()
	}},
	{"pause/workflow", "P13", "runs of a paused workflow are not claimed, in any queue; others are", func(c *C) {
		c.create(store.NewRun{})
		c.create(store.NewRun{Queue: "q2"})
		other := c.create(store.NewRun{Workflow: "b"})
		c.setPaused("", aWorkflow, true)
		demands := []store.Demand{demand(aQueue, 5, aWorkflow, "b"), demand("q2", 5)}
		c.eq("runs", runIDs(c.claim(store.ClaimParams{Demands: demands}).Runs), []store.ID{other})
		c.setPaused("", aWorkflow, false)
		c.eq("runs when resumed", len(c.claim(store.ClaimParams{Demands: demands}).Runs), 2)
	}},
	{"pause/queue-and-workflow", "P13", "a run whose queue and workflow are both paused waits for both", func(c *C) {
		c.create(store.NewRun{})
		c.setPaused(aQueue, "", true)
		c.setPaused("", aWorkflow, true)
		c.setPaused(aQueue, "", false)
		c.claimNone("its workflow is paused still")
		c.setPaused("", aWorkflow, false)
		c.claim1()
	}},
	{"pause/listed", "P14", "ListPaused lists by queue, then workflow, with the time of pausing; a queue and a workflow of one name are two targets", func(c *C) {
		c.setPaused("b", "", true)
		c.setPaused("", "a", true)
		c.advance(time.Second)
		c.setPaused("a", "", true)
		list := func() []store.PausedTarget {
			got, err := c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: c.ns})
			c.ok("ListPaused", err)
			c.eq("Next of the last page", got.Next, "")
			return got.Paused
		}
		c.eq("the list", list(), []store.PausedTarget{{Workflow: "a", Since: began}, {Queue: "a", Since: c.now}, {Queue: "b", Since: began}})
		c.setPaused("", "a", false)
		c.eq("the list after a resume", list(), []store.PausedTarget{{Queue: "a", Since: c.now}, {Queue: "b", Since: began}})
	}},
	{"pause/pages", "P14", "pages of ListPaused contain each target that stays paused once, 100 of them by default; a cursor of another query is ErrInvalid", func(c *C) {
		const n = 5
		want := []string{}
		for i := range n {
			c.setPaused("", fmt.Sprintf("%04d", i), true)
			want = append(want, fmt.Sprintf("/%04d", i))
		}
		for i := range n {
			c.setPaused(fmt.Sprintf("%04d", i), "", true)
			want = append(want, fmt.Sprintf("%04d/", i))
		}
		read := func(p store.ListPausedParams) (rows []string, next string, err error) {
			page, err := c.s.ListPaused(c.ctx, p)
			for _, t := range page.Paused {
				rows = append(rows, t.Queue+"/"+t.Workflow)
			}
			return rows, page.Next, err
		}
		p := store.ListPausedParams{Namespace: c.ns, Limit: 3}
		pages := pagesOf(c, func(cursor string) ([]string, string, error) { p.Cursor = cursor; return read(p) }, func(page int) {
			if page == 1 { // neither is listed: one is before the cursor, one is gone when the listing reaches it
				c.setPaused("", "00001", true)
				c.setPaused("0004x", "", true)
				c.setPaused("0004x", "", false)
			}
		})
		c.eq("sizes of pages", lengths(pages), []int{3, 3, 3, 1})
		c.eq("what is paused", slices.Concat(pages...), want)
		c.setPaused("", "00001", false)
		for i := n; i < 95; i++ {
			c.setPaused(fmt.Sprintf("%04d", i), "", true)
		}
		p = store.ListPausedParams{Namespace: c.ns}
		rows, next, err := read(p)
		c.ok("ListPaused", err)
		c.eq("a full page, the last one", []any{len(rows), next}, []any{100, ""})
		c.setPaused("0095", "", true)
		rows, p.Cursor, err = read(p)
		c.ok("ListPaused", err)
		c.eq("targets of the first page", len(rows), 100)
		rows, next, err = read(p)
		c.ok("ListPaused", err)
		c.eq("the second page", []any{rows, next}, []any{[]string{"0095/"}, ""})
		_, _, err = read(store.ListPausedParams{Namespace: c.ns + "x", Cursor: p.Cursor})
		c.fails("ListPaused with the cursor of another namespace", err, store.ErrInvalid)
		_, err = c.s.ListWorkers(c.ctx, store.ListWorkersParams{Namespace: c.ns, Cursor: p.Cursor, Now: c.now})
		c.fails("ListWorkers with a cursor of ListPaused", err, store.ErrInvalid)
	}},
}

var restartCases = []Case{
	{"restart/keeps-completed-steps", "P6", "a restarted run is pending with attempt 1, an increased epoch and its completed steps; failed steps are deleted with what followed them, and the failure and the deadline are cleared", func(c *C) {
		run := c.startWith(store.NewRun{Input: []byte("in"), Timeout: time.Minute})
		id := run.Run.ID
		c.end(run, retryIn(0))
		run = c.claim1()
		a, b, d := step(1, "a", "x"), step(2, "b", ""), step(3, "d", "")
		b.Status, d.Status = store.StepFailed, store.StepPending
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{a, b, d}, Transition: failWith("x")})
		c.advance(time.Hour)
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})))
		got := c.get(id)
		c.eq("Status", got.Status, store.Pending)
		c.eq("Attempt", got.Attempt, 1)
		c.eq("Failure", got.Failure, (*store.Failure)(nil))
		c.eq("FinishedAt", got.FinishedAt, time.Time{})
		c.eq("Deadline", got.Deadline, time.Time{})
		c.eq("VisibleAt", got.VisibleAt, c.now)
		c.bytes("Input", got.Input, []byte("in"))
		c.check(got.Epoch > run.Lease.Epoch, "Epoch: saw %d, expected it above %d", got.Epoch, run.Lease.Epoch)
		c.eq("steps", c.stepNames(id), []string{"a"})
		next := c.claim1()
		c.check(next.Lease.Epoch > got.Epoch, "Epoch of the claim: saw %d, expected it above %d", next.Lease.Epoch, got.Epoch)
		c.lost("commit of the old lease", store.Commit{Lease: run.Lease, Transition: complete("late")})
		c.end(next, complete("out"))
		c.status(id, store.Completed)
	}},
	{"restart/canceled", "P6", "a canceled run can be restarted, too", func(c *C) {
		id := c.create(store.NewRun{})
		c.cancel(id)
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})))
		c.eq("the run", c.claim1().Run.ID, id)
	}},
	{"restart/zombie", "P2", "the holder from before a restart has lost its lease, even for a repeat", func(c *C) {
		run := c.start()
		cm := store.Commit{Lease: run.Lease, Seq: 1, Transition: failWith("x")}
		c.commit(cm)
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Now: c.now})))
		before := c.get(run.Run.ID)
		c.eq("Epoch", before.Epoch, run.Lease.Epoch+1)
		c.lost("a new commit", store.Commit{Lease: run.Lease, Seq: 2, Transition: complete("late")})
		c.lost("the last commit again", cm)
		c.eq("the run", c.get(run.Run.ID), before)
		c.eq("Lost", c.extend(run.Lease).Lost, true)
	}},
	{"restart/not-finished", "P16", "a run that is live or completed is not restarted: ErrConflict; an unknown one is ErrNotFound", func(c *C) {
		restart := func(id store.ID) error {
			return itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now}))
		}
		id := c.create(store.NewRun{})
		c.fails("a pending run", restart(id), store.ErrConflict)
		run := c.claim1()
		c.fails("a running run", restart(id), store.ErrConflict)
		c.end(run, complete("out"))
		c.fails("a completed run", restart(id), store.ErrConflict)
		c.bytes("Output", c.get(id).Output, []byte("out"))
		c.fails("no run", restart(store.NewID()), store.ErrNotFound)
	}},
	{"restart/batch", "P16", "each run of a call has a result of its own, in order: a run that is not restarted has an error and its status, and does not affect the others", func(c *C) {
		failed := c.start()
		b := step(2, "b", "")
		b.Status = store.StepFailed
		c.commit(store.Commit{Lease: failed.Lease, Steps: []store.StepRecord{step(1, "a", "x"), b}, Transition: failWith("x")})
		done := c.start()
		c.end(done, complete("out"))
		held := c.start()
		canceled := c.create(store.NewRun{})
		c.cancel(canceled)
		before := c.gets(done.Run.ID, held.Run.ID)
		res := c.tryRestart(done.Run.ID, failed.Run.ID, store.NewID(), held.Run.ID, failed.Run.ID, canceled)
		c.fails("a completed run", res[0].Err, store.ErrConflict)
		c.ok("a failed run", res[1].Err)
		c.fails("no run", res[2].Err, store.ErrNotFound)
		c.fails("a running run", res[3].Err, store.ErrConflict)
		c.fails("the failed run once more", res[4].Err, store.ErrConflict)
		c.ok("a canceled run", res[5].Err)
		var statuses []store.Status
		for i := range res {
			statuses = append(statuses, res[i].Status)
			c.eq("Ended", len(res[i].Ended), 0)
		}
		c.eq("statuses", statuses, []store.Status{store.Completed, store.Pending, 0, store.Running, store.Pending, store.Pending})
		c.eq("the runs that are not restarted", c.gets(done.Run.ID, held.Run.ID), before)
		c.eq("steps of the failed run", c.stepNames(failed.Run.ID), []string{"a"})
		c.eq("Epoch of the failed run", c.get(failed.Run.ID).Epoch, failed.Lease.Epoch+1)
		c.eq("runs that can be claimed", len(c.claimN(5)), 2)
		c.eq("results of an empty call", len(c.tryRestart()), 0)
	}},
	{"restart/large-batch", "P3", "a call restarts hundreds of runs, each completely", func(c *C) {
		const many = 600
		ids := c.createN(many, store.NewRun{})
		c.tryCancel(ids...)
		for i, res := range c.tryRestart(ids...) {
			c.ok(fmt.Sprintf("run %d", i), res.Err)
		}
		n, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: store.RunFilter{Statuses: []store.Status{store.Pending}}})
		c.ok("Count", err)
		c.eq("pending runs", n, []store.RunCount{{Queue: aQueue, Workflow: aWorkflow, Status: store.Pending, Count: many}})
	}},
	{"restart/batch-of-rivals", "P8", "of the runs of a call with one external id, the first that can be restarted gets it, and the others are ErrAlreadyExists", func(c *C) {
		var ids []store.ID
		for _, suffix := range []string{"", "", "", "s"} {
			id := c.create(store.NewRun{ExternalID: "e", Suffix: suffix})
			ids = append(ids, id)
			if len(ids) == 1 {
				c.end(c.claim1(), complete(""))
			} else {
				c.cancel(id)
			}
		}
		res := c.tryRestart(ids...)
		c.fails("a completed run", res[0].Err, store.ErrConflict)
		c.ok("the first that can be restarted", res[1].Err)
		c.fails("the second", res[2].Err, store.ErrAlreadyExists)
		c.eq("status of the second", res[2].Status, store.Canceled)
		c.status(ids[2], store.Canceled)
		c.ok("one of another suffix", res[3].Err)
		c.eq("a create meets the first", c.creates(fill(store.NewRun{ExternalID: "e"}))[0], store.CreateResult{ID: ids[1]})
	}},
	{"restart/external-id-taken", "P8", "a run whose external id another active run has is not restarted: ErrAlreadyExists", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "e"})
		c.cancel(id)
		other := c.create(store.NewRun{ExternalID: "e"})
		c.fails("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})), store.ErrAlreadyExists)
		c.status(id, store.Canceled)
		c.cancel(other)
		c.ok("Restart when it is free", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})))
		res := c.creates(fill(store.NewRun{ExternalID: "e"}))[0]
		c.eq("a create meets the restarted run", res, store.CreateResult{ID: id})
	}},
	{"restart/child-counts-once", "P9", "a restarted child no longer counts in its parent's group and does not wake it", func(c *C) {
		ks := kids(2)
		parent := c.family(sleepAwait(allOf), ks...)
		c.cancel(ks[0].ID)
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{ks[0].ID}, Now: c.now})))
		group := c.group(parent)
		c.eq("open children", group.Open, int64(1))
		c.pause(ks[1].ID)
		c.end(c.claimKid(), complete(""))
		c.eq("the group", c.group(parent), group)
		c.asleep(parent, "with one child open")
		c.cancel(ks[1].ID)
		c.awake(parent, "with the other final")
	}},
	{"fork/keeps-steps-before", "P3", "a fork is a new run with the completed steps recorded before the named one; the old run does not change", func(c *C) {
		r := fill(store.NewRun{Input: []byte("in"), Meta: []byte("m"), Priority: 3, ExternalID: "e", Timeout: time.Hour})
		run := c.startWith(r)
		b := step(2, "b", "")
		b.Status = store.StepFailed
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(3, "d", "z"), step(1, "a", "x"), b, step(4, "e", "")}, State: []store.StateWrite{{Key: "k"}}, Transition: failWith("x")})
		before := c.get(r.ID)
		c.advance(time.Minute)
		fork := store.NewID()
		res := c.fork(store.ForkParams{ID: r.ID, New: fork, Before: &store.StepKey{Name: "d", Occurrence: 1}})
		c.eq("the result", res, store.CreateResult{ID: fork, Created: true})
		c.eq("the fork", c.get(fork), store.Run{
			ID: fork, Namespace: c.ns, Workflow: aWorkflow, Queue: aQueue, Status: store.Pending, Priority: 3, Input: []byte("in"), Meta: []byte("m"),
			Attempt: 1, VisibleAt: c.now, CreatedAt: c.now, ForkedFrom: r.ID,
		})
		steps := c.steps(fork)
		c.eq("its steps", namesOf(steps), []string{"a"})
		c.bytes("output of its step", steps[0].Output, []byte("x"))
		c.eq("the old run", c.get(r.ID), before)
		c.eq("the old run's steps", len(c.steps(r.ID)), 4)
		next := c.claim1()
		c.eq("the claimed run", next.Run.ID, fork)
		c.commit(store.Commit{Lease: next.Lease, Steps: []store.StepRecord{step(2, "d", "new")}, Transition: complete("")})
	}},
	{"fork/keeps-all", "P3", "a fork without Before keeps every completed step, also of an active run", func(c *C) {
		run := c.start()
		b := step(2, "b", "")
		b.Status = store.StepRunning
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x"), b, step(3, "d", "z")}})
		fork := store.NewID()
		c.fork(store.ForkParams{ID: run.Run.ID, New: fork})
		c.eq("steps", c.stepNames(fork), []string{"a", "d"})
		c.end(run, complete(""))
		c.status(fork, store.Pending)
	}},
	{"fork/repeat", "P4", "a fork sent again is one fork", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x")}})
		fork := store.NewID()
		first := c.fork(store.ForkParams{ID: run.Run.ID, New: fork})
		c.eq("Repeated of the first", first.Repeated, false)
		before := c.get(fork)
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(2, "b", "y")}})
		c.advance(time.Second)
		first.Repeated = true
		c.eq("the result", c.fork(store.ForkParams{ID: run.Run.ID, New: fork}), first)
		c.eq("the fork", c.get(fork), before)
		c.eq("its steps", c.stepNames(fork), []string{"a"})
		c.eq("runs", c.count(store.RunFilter{}), int64(2))
	}},
	{"fork/unknown-step", "P16", "a fork of an unknown run, or before an unknown step, is ErrNotFound and creates nothing", func(c *C) {
		other := c.start()
		c.commit(store.Commit{Lease: other.Lease, Steps: []store.StepRecord{step(1, "other", "")}})
		id := c.create(store.NewRun{})
		fork := store.NewID()
		for what, name := range map[string]string{"no step": "none", "a step of another run": "other"} {
			_, err := c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: id, New: fork, Before: &store.StepKey{Name: name, Occurrence: 1}, Now: c.now})
			c.fails("Fork before "+what, err, store.ErrNotFound)
		}
		_, err := c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: store.NewID(), New: fork, Now: c.now})
		c.fails("Fork of no run", err, store.ErrNotFound)
		c.eq("runs of the fork's ID", len(c.gets(fork)), 0)
	}},
}

func (c *C) fork(p store.ForkParams) store.CreateResult {
	c.Helper()
	p.Namespace, p.Now = c.ns, c.now
	res, err := c.s.Fork(c.ctx, p)
	c.ok("Fork", err)
	c.ok("Fork's result", res.Err)
	return res
}
