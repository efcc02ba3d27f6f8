package storetier

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

var commitCases = []Case{
	{"commit/complete", "P3", "Complete makes the run completed with its output, unleased, without a time, for good", func(c *C) {
		run := c.start()
		c.advance(time.Second)
		want := run.Run
		want.Status, want.VisibleAt, want.FinishedAt, want.Output = store.Completed, time.Time{}, c.now, []byte("out")
		c.eq("the result", c.end(run, complete("out")), store.CommitResult{Status: store.Completed})
		c.eq("the run", c.get(run.Run.ID), want)
		c.advance(1000 * time.Hour)
		c.claimNone("it is completed")
	}},
	{"commit/leaves-the-run-running", "P3", "a commit without a transition leaves its run as it was: running, leased and without an end", func(c *C) {
		other, run := c.start(), c.start()
		before := c.get(run.Run.ID)
		sees := func(what string) {
			c.Helper()
			c.advance(time.Second)
			c.eq("the run after "+what, c.get(run.Run.ID), before)
			page, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, ByEnd: true})
			c.ok("List", err)
			c.eq("runs that have ended, after "+what, len(page.Runs), 0)
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		sees("a step")
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		sees("a step again")
		c.commit(store.Commit{Lease: run.Lease})
		sees("nothing")
		for _, res := range c.commits(store.Commit{Lease: other.Lease}, store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(2, "b", "")}}) {
			c.ok("an item of Commit", res.Err)
		}
		sees("a step, with another run")
	}},
	{"commit/fail", "P3", "Fail makes the run failed with its failure unchanged", func(c *C) {
		run := c.start()
		f := &store.Failure{Code: "panic", Message: "boom", Type: "*errors.errorString", Stack: "goroutine 1\n\tmain.go:1", Details: []byte{0, 255}, Permanent: true}
		want := run.Run
		want.Status, want.VisibleAt, want.FinishedAt, want.Failure = store.Failed, time.Time{}, c.now, f
		c.eq("the result", c.end(run, &store.Transition{Kind: store.FailRun, Failure: f}), store.CommitResult{Status: store.Failed})
		c.eq("the run's failure", c.get(run.Run.ID).Failure, f)
		c.eq("the run", c.get(run.Run.ID), want)
	}},
	{"commit/cancel", "P3", "CancelRun makes the run canceled with its failure", func(c *C) {
		run := c.start()
		t := cancelRun()
		c.eq("the result", c.end(run, t), store.CommitResult{Status: store.Canceled})
		c.eq("the run's failure", c.get(run.Run.ID).Failure, t.Failure)
		c.eq("FinishedAt", c.get(run.Run.ID).FinishedAt, c.now)
	}},
	{"commit/keeps-the-worker", "P3", "a final run names the worker that ended it; a run that no holder ended names none", func(c *C) {
		sees := func(what string, id store.ID, worker string) {
			c.Helper()
			run := c.get(id)
			c.check(run.Status.Final(), "%s: saw it %v, expected it final", what, run.Status)
			c.eq("Worker of "+what, run.Worker, worker)
		}
		claim := func(worker string) store.ClaimedRun {
			c.Helper()
			id := c.create(store.NewRun{})
			run := c.claim1As(worker)
			c.eq("the run that was claimed", run.Run.ID, id)
			return run
		}
		ends := func(worker string, cm store.Commit) store.ID {
			c.Helper()
			run := claim(worker)
			cm.Lease = run.Lease
			c.commit(cm)
			return run.Run.ID
		}
		sees("a run that completed", ends("w2", store.Commit{Transition: complete("")}), "w2")
		sees("a run that failed with its last step", ends("w3", store.Commit{Steps: []store.StepRecord{step(1, "a", "")}, Transition: failWith("x")}), "w3")
		sees("a run that canceled itself", ends("w4", store.Commit{Transition: cancelRun()}), "w4")
		sees("a run whose last commit writes state", ends("w5", store.Commit{State: []store.StateWrite{{Key: "k"}}, Transition: complete("")}), "w5")
		many := []store.ClaimedRun{claim("w6"), claim("w7"), claim("w6")}
		c.commits(store.Commit{Lease: many[0].Lease, Transition: complete("")}, store.Commit{Lease: many[1].Lease, Transition: failWith("x")},
			store.Commit{Lease: many[2].Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		sees("the first of several", many[0].Run.ID, "w6")
		sees("the second of several", many[1].Run.ID, "w7")
		c.cancel(many[2].Run.ID)
		c.eq("Worker of a run that is canceling", c.get(many[2].Run.ID).Worker, "w6")
		c.commit(store.Commit{Lease: many[2].Lease, Seen: c.get(many[2].Run.ID).Events, Transition: cancelRun()})
		sees("a run whose holder has heeded its cancel", many[2].Run.ID, "w6")

		never := c.create(store.NewRun{})
		c.cancel(never)
		sees("a run that was canceled before its start", never, "")
		asleep := claim("w8")
		c.end(asleep, &store.Transition{Kind: store.Sleep, After: time.Hour})
		c.cancel(asleep.Run.ID)
		sees("a run that was canceled in its sleep", asleep.Run.ID, "")
		parent := claim("w9")
		c.commit(store.Commit{Lease: parent.Lease, Spawn: kids(3)})
		open := c.claim(store.ClaimParams{Worker: "w10", Demands: []store.Demand{{Queue: kid(1).Queue, Workflows: []string{kid(1).Workflow}, Max: 2}}}).Runs
		if len(open) != 2 {
			c.Fatalf("claimed children: saw %d, expected 2", len(open))
		}
		c.commits(store.Commit{Lease: open[0].Lease, Transition: complete("")}, store.Commit{Lease: open[1].Lease, Transition: complete("")})
		c.commit(store.Commit{Lease: parent.Lease, Seen: c.get(parent.Run.ID).Events, Transition: complete("")})
		sees("a child that completed", open[0].Run.ID, "w10")
		sees("another child of the same call", open[1].Run.ID, "w10")
		sees("a parent", parent.Run.ID, "w9")
		page, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: store.RunFilter{Parent: parent.Run.ID}})
		c.ok("List", err)
		for _, k := range page.Runs {
			if k.Status == store.Canceled {
				sees("a child that was canceled with its parent", k.ID, "")
			}
		}

		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{many[1].Run.ID}, Now: c.now})))
		c.eq("Worker of a run that was restarted", c.get(many[1].Run.ID).Worker, "")
		again := c.claim1As("w11")
		c.end(again, &store.Transition{Kind: store.Sleep, After: time.Hour})
		c.cancel(again.Run.ID)
		sees("a run that was restarted and then canceled in its sleep", again.Run.ID, "")
		page, err = c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: store.RunFilter{Statuses: []store.Status{store.Completed}}})
		c.ok("List", err)
		for _, r := range page.Runs {
			c.check(r.Worker != "", "run %v, which completed, names no worker in a list", r.ID)
		}
	}},
	{"commit/retry", "P6", "Retry makes the run pending at its time with Attempt one higher and Failure kept", func(c *C) {
		run := c.start()
		t := retryIn(time.Minute)
		res := c.end(run, t)
		c.eq("the result", res, store.CommitResult{Status: store.Pending, VisibleAt: c.now.Add(time.Minute)})
		want := run.Run
		want.Status, want.Worker, want.VisibleAt, want.Attempt, want.Failure = store.Pending, "", c.now.Add(time.Minute), 2, t.Failure
		c.eq("the run", c.get(run.Run.ID), want)
		c.advance(time.Minute)
		c.end(c.claim1(), complete(""))
		c.eq("Attempt in the end", c.get(run.Run.ID).Attempt, 2)
		c.eq("Failure in the end", c.get(run.Run.ID).Failure, (*store.Failure)(nil))
	}},
	{"commit/retry-forgets-failed-steps", "P6", "a retry deletes each failed step and what followed it in its branch and in those above and below; everything else stays", func(c *C) {
		run := c.start()
		var recs []store.StepRecord
		for i, k := range []store.StepKey{
			{Name: "a"}, {Branch: "left", Name: "l1"}, {Branch: "left", Name: "failed"}, {Branch: "left", Name: "l2"}, {Branch: "left/1", Name: "below"},
			{Branch: "lefty", Name: "y"}, {Branch: "right", Name: "r"}, {Name: "above"},
		} {
			s := step(int64(i+1), k.Name, k.Name)
			s.Branch = k.Branch
			switch k.Name {
			case "failed":
				s.Status, s.Failure = store.StepFailed, &store.Failure{Code: "error"}
			case "r":
				s.Status = store.StepPending
			}
			recs = append(recs, s)
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs})
		c.end(run, release())
		run = c.claim1()
		c.eq("steps after a release", len(run.Steps), len(recs))
		c.end(run, retryIn(0))
		c.eq("steps after a retry", namesOf(c.claim1().Steps), []string{"a", "l1", "y", "r"})
	}},
	{"commit/retry-forgets-what-it-records", "P6", "a retry also deletes a failed step that the same commit records, and the step may be recorded again", func(c *C) {
		run := c.start()
		bad := step(2, "b", "")
		bad.Status, bad.Failure = store.StepFailed, &store.Failure{Code: "error"}
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x"), bad}, Transition: retryIn(0)})
		run = c.claim1()
		c.eq("steps", namesOf(run.Steps), []string{"a"})
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(3, "b", "good")}, Transition: complete("")})
		c.eq("output of the step", string(c.steps(run.Run.ID)[1].Output), "good")
	}},
	{"commit/retry-earlier-of-both", "P13", "the earlier of a retry's After and At counts; without both, the run is due at once", func(c *C) {
		c.earlierOfBoth(store.Retry, store.Pending)
		run := c.start()
		c.end(run, retryIn(0))
		c.eq("VisibleAt with neither", c.get(run.Run.ID).VisibleAt, c.now)
	}},
	{"commit/continue-as-new", "P3", "Continue starts the run again: new input, attempt 1, a higher generation, no steps or groups, but its state and unread signals", func(c *C) {
		run := c.startWith(store.NewRun{Input: []byte("old"), Meta: []byte("meta"), ExternalID: "e"})
		id := run.Run.ID
		read, unread := c.signal(id, "n", "read"), c.signal(id, "n", "unread")
		c.end(run, retryIn(0))
		run = c.claim1()
		c.commit(store.Commit{
			Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x")}, State: []store.StateWrite{{Key: "k", Value: []byte("v")}},
			Consumed: []store.SignalID{read}, Spawn: kids(1), Transition: continueWith("new"),
		})
		got := c.get(id)
		c.eq("Status", got.Status, store.Pending)
		c.bytes("Input", got.Input, []byte("new"))
		c.bytes("Meta", got.Meta, []byte("meta"))
		c.eq("Generation", got.Generation, 1)
		c.eq("Attempt", got.Attempt, 1)
		c.eq("VisibleAt", got.VisibleAt, c.now)
		c.eq("ExternalID", got.ExternalID, "e")
		next := c.claim1()
		c.eq("steps", len(next.Steps), 0)
		c.eq("groups", len(next.Inbox.Groups), 0)
		c.eq("state", values(next.Inbox.State), []string{"k=v"})
		if len(next.Inbox.Signals) != 1 || next.Inbox.Signals[0].ID != unread {
			c.Errorf("signals: saw %+v, expected the unread one", next.Inbox.Signals)
		}
		c.eq("epoch", next.Lease.Epoch, int64(3))
		// The same step may be recorded again.
		c.commit(store.Commit{Lease: next.Lease, Steps: []store.StepRecord{step(1, "a", "again")}})
		c.eq("output of the new step", string(c.steps(id)[0].Output), "again")
	}},
	{"commit/keeps-the-lease", "P1", "a commit without a transition keeps the run running under its lease, and does not extend it", func(c *C) {
		run := c.start()
		end := c.now.Add(aLease)
		c.advance(time.Second)
		res := c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		c.eq("the result", res, store.CommitResult{Status: store.Running})
		c.eq("VisibleAt", c.get(run.Run.ID).VisibleAt, end)
		c.claimNone("its lease stands")
	}},
	{"commit/nothing", "P3", "a commit may be empty", func(c *C) {
		run := c.start()
		c.eq("the result", c.commit(store.Commit{Lease: run.Lease}).Status, store.Running)
		c.end(run, complete(""))
	}},
	{"commit/batch", "P3", "each commit of a batch is atomic, and they are independent, with results in order", func(c *C) {
		c.createN(4, store.NewRun{})
		runs := c.claimN(4)
		c.end(runs[1], release())
		big := make([]byte, c.s.Limits().Payload+1)
		res := c.commits(
			store.Commit{Lease: runs[3].Lease, Transition: complete("")},
			store.Commit{Lease: runs[1].Lease, Transition: complete("")},
			store.Commit{Lease: runs[0].Lease, Transition: &store.Transition{Kind: store.CompleteRun, Output: big}},
			store.Commit{Lease: runs[2].Lease, Transition: failWith("x")},
		)
		c.eq("the first result", res[0], store.CommitResult{Status: store.Completed})
		c.fails("the ended lease", res[1].Err, store.ErrLeaseLost)
		c.fails("the large output", res[2].Err, store.ErrTooLarge)
		c.eq("the fourth result", res[3], store.CommitResult{Status: store.Failed})
		c.status(runs[0].Run.ID, store.Running)
		c.status(runs[1].Run.ID, store.Pending)
	}},
	{"commit/batch-in-order", "P3", "if a parent and a child end in one batch, the second commit sees what the first has done", func(c *C) {
		for _, childFirst := range []bool{true, false} {
			parent := c.start()
			c.commit(store.Commit{Lease: parent.Lease, Spawn: []store.NewRun{kid(1)}})
			child := c.claimKid()
			up := store.Commit{Lease: parent.Lease, Transition: cancelRun()}
			down := store.Commit{Lease: child.Lease, Transition: complete("")}
			if childFirst {
				res := c.commits(down, up)
				c.eq("the child's end", res[0], store.CommitResult{Status: store.Completed})
				c.eq("the parent's after it", res[1], store.CommitResult{Status: store.Canceled})
			} else {
				res := c.commits(up, down)
				c.eq("the parent's end", res[0], store.CommitResult{Status: store.Canceled})
				c.eq("the child's after it, which the parent has canceled", res[1], store.CommitResult{Status: store.Completed, Events: 1})
			}
		}
	}},
	{"commit/one-run-twice", "P16", "if one call has two commits for one run, the later one gets ErrInvalid", func(c *C) {
		run := c.start()
		res := c.commits(
			store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}},
			store.Commit{Lease: run.Lease, Seq: 2, Steps: []store.StepRecord{step(2, "b", "")}},
		)
		c.ok("the first", res[0].Err)
		c.fails("the second", res[1].Err, store.ErrInvalid)
		c.eq("steps", c.stepNames(run.Run.ID), []string{"a"})
	}},
	{"commit/old-epoch", "P2", "a commit of an old epoch changes nothing, whatever it contains and whoever has taken over its run, and gets ErrLeaseLost", func(c *C) {
		for _, worker := range []string{"w2", aWorker} {
			first := c.start()
			id := first.Run.ID
			sig := c.signal(id, "n", "x")
			c.setState(id, "k", "v")
			c.advance(aLease)
			c.claim1As(worker)
			c.zombies(first.Lease, sig)
			c.force(id)
		}
	}},
	{"commit/old-epoch-of-any-kind", "P2", "no commit of an old epoch is applied, with any transition or with none", func(c *C) {
		for _, worker := range []string{"w2", aWorker} {
			for _, t := range append(transitions(), nil) {
				name := "a commit without transition"
				if t != nil {
					name = t.Kind.String()
				}
				first := c.start()
				c.advance(aLease)
				c.claim1As(worker)
				before := c.get(first.Run.ID)
				c.lost(name, store.Commit{Lease: first.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}, Transition: t})
				c.eq("the run after "+name, c.get(first.Run.ID), before)
				c.eq("steps after "+name, len(c.steps(first.Run.ID)), 0)
				c.force(first.Run.ID)
			}
		}
	}},
	{"commit/other-worker", "P2", "the epoch alone is not a lease: another worker's commit, or one of an epoch not yet granted, gets ErrLeaseLost", func(c *C) {
		run := c.start()
		id := run.Run.ID
		sig := c.signal(id, "n", "x")
		c.zombies(store.Lease{Run: id, Worker: "w2", Epoch: 1}, sig)
		c.zombies(store.Lease{Run: id, Worker: aWorker, Epoch: 2}, sig)
		c.zombies(store.Lease{Run: id, Worker: aWorker, Epoch: 0}, sig)
		c.commit(store.Commit{Lease: run.Lease, Transition: complete("")})
	}},
	{"commit/other-worker-of-any-kind", "P2", "no commit of another worker is applied under the epoch of a lease, with any transition or with none", func(c *C) {
		for _, t := range append(transitions(), nil) {
			name := "a commit without transition"
			if t != nil {
				name = t.Kind.String()
			}
			run := c.start()
			id := run.Run.ID
			before := c.get(id)
			c.lost(name, store.Commit{Lease: store.Lease{Run: id, Worker: "w2", Epoch: run.Lease.Epoch}, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}, Transition: t})
			c.eq("the run after "+name, c.get(id), before)
			c.eq("steps after "+name, len(c.steps(id)), 0)
			c.force(id)
		}
	}},
	{"commit/never-leased", "P2", "a run that was never claimed, and one that does not exist, accept no commit", func(c *C) {
		id := c.create(store.NewRun{})
		c.lost("commit to a pending run", store.Commit{Lease: store.Lease{Run: id, Worker: aWorker}, Transition: complete("")})
		c.lost("commit to a pending run, epoch 1", store.Commit{Lease: store.Lease{Run: id, Worker: aWorker, Epoch: 1}, Transition: complete("")})
		c.status(id, store.Pending)
		c.lost("commit to no run", store.Commit{Lease: store.Lease{Run: store.NewID(), Worker: aWorker, Epoch: 1}, Transition: complete("")})
	}},
	{"commit/after-finish", "P2", "after any transition the lease has ended: a new commit under it gets ErrLeaseLost and changes nothing", func(c *C) {
		for _, t := range transitions() {
			run := c.start()
			c.end(run, t)
			before := c.get(run.Run.ID)
			for _, late := range transitions() {
				c.lost(late.Kind.String()+" after "+t.Kind.String(), store.Commit{
					Lease: run.Lease, Steps: []store.StepRecord{step(1, "late", "")}, State: []store.StateWrite{{Key: "late"}}, Transition: late,
				})
			}
			c.lost("commit without transition after "+t.Kind.String(), store.Commit{Lease: run.Lease, Spawn: kids(1)})
			c.eq("the run after "+t.Kind.String(), c.get(run.Run.ID), before)
			c.eq("steps", len(c.steps(run.Run.ID)), 0)
			c.eq("state", len(c.getState(run.Run.ID)), 0)
			c.cancelIfLive(run.Run.ID)
		}
		c.eq("children", len(c.claimKids(1)), 0)
	}},
	{"commit/expired-but-not-taken", "P6", "an expired lease that nobody took over can still commit", func(c *C) {
		run := c.start()
		c.advance(100 * aLease)
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		c.end(run, complete("out"))
		c.status(run.Run.ID, store.Completed)
	}},
	{"commit/races-takeover", "P2", "a commit that is concurrent with the takeover of its run is either applied completely before it, or not at all", func(c *C) {
		for round := range 20 {
			run := c.start()
			id := run.Run.ID
			c.advance(aLease)
			cm := store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}, State: []store.StateWrite{{Key: "k", Value: []byte("v")}}}
			if round%2 == 0 {
				cm.Transition = complete("out")
			}
			var res store.CommitResult
			var taken []store.ClaimedRun
			c.race(2, func(i int, s store.Store) (err error) {
				if (i+round)%2 == 0 {
					res, err = c.tryCommitOn(s, cm)
				} else {
					taken, err = c.claimOn(s, store.ClaimParams{Worker: "w2"})
				}
				return err
			})
			applied := res.Err == nil
			if !applied {
				c.fails("the commit", res.Err, store.ErrLeaseLost)
			}
			c.eq("the step is stored", len(c.steps(id)) == 1, applied)
			c.eq("the state is stored", len(c.getState(id)) == 1, applied)
			switch {
			case cm.Transition != nil && applied:
				c.eq("runs taken over", len(taken), 0)
			case len(taken) == 0: // the commit was writing to the run
				taken = c.claim(store.ClaimParams{Worker: "w2"}).Runs
				fallthrough
			default:
				c.eq("runs taken over", len(taken), 1)
			}
			if len(taken) == 1 {
				c.eq("the taker saw the step", len(taken[0].Steps) == 1, applied)
				c.eq("the taker saw the state", len(taken[0].Inbox.State) == 1, applied)
				c.end(taken[0], complete(""))
			}
		}
	}},
	{"commit/repeat", "P4", "a commit sent again has no second effect, succeeds, and says Repeated", func(c *C) {
		run := c.start()
		id := run.Run.ID
		cm := store.Commit{
			Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "x")}, State: []store.StateWrite{{Key: "k", Value: []byte("v")}},
			Consumed: []store.SignalID{c.signal(id, "n", "x")}, Spawn: kids(2),
		}
		first := c.commit(cm)
		run1, steps, inbox := c.get(id), c.steps(id), c.inbox(id)
		c.advance(time.Second)
		for range 2 {
			again := c.tryCommit(cm)
			first.Repeated, first.Spawned = true, nil
			c.eq("the repeat's result", again, first)
		}
		c.eq("the run", c.get(id), run1)
		c.eq("the steps", c.steps(id), steps)
		c.eq("the inbox", c.inbox(id), inbox)
		c.eq("children", len(c.claimKids(9)), 2)
	}},
	{"commit/tells-what-it-made", "P4", "a commit counts the children that it created, by queue and workflow: none that existed already, and none when it is repeated", func(c *C) {
		run := c.start()
		first, second, third := kid(1), kid(2), kid(3)
		third.Queue = "another"
		one := store.Commit{Lease: run.Lease, Seq: 1, Spawn: []store.NewRun{first}}
		c.eq("Spawned", c.commit(one).Spawned, []store.RunCount{{Queue: kidQueue, Workflow: kidFlow, Status: store.Pending, Count: 1}})
		c.eq("Spawned of the repeat", c.tryCommit(one).Spawned, []store.RunCount(nil))
		ungrouped := fill(store.NewRun{Queue: "another"})
		two := store.Commit{Lease: run.Lease, Spawn: []store.NewRun{first, second, third, ungrouped}}
		c.eq("Spawned with one that exists", c.commit(two).Spawned, []store.RunCount{
			{Queue: "another", Workflow: kidFlow, Status: store.Pending, Count: 1},
			{Queue: "another", Workflow: aWorkflow, Status: store.Pending, Count: 1},
			{Queue: kidQueue, Workflow: kidFlow, Status: store.Pending, Count: 1},
		})
		c.eq("Spawned where all exist", c.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{first, second}}).Spawned, []store.RunCount(nil))
		lost := run.Lease
		lost.Epoch += 7
		c.eq("Spawned under a lost lease", c.tryCommit(store.Commit{Lease: lost, Seq: 1, Spawn: kids(1)}).Spawned, []store.RunCount(nil))
		c.eq("runs", c.count(store.RunFilter{}), int64(5))
	}},
	{"commit/tells-what-it-ended", "P11", "the end of a run counts the runs that it canceled, by queue and workflow, without itself; also those spawned by the same commit", func(c *C) {
		for _, t := range []*store.Transition{complete("out"), failWith("x"), cancelRun()} {
			run := c.start()
			held, abandoned := kid(1), kid(2)
			abandoned.OnClose = store.CloseAbandon
			c.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{held}})
			c.eq("the held one", c.claimKid().Run.ID, held.ID)
			c.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{kid(3), abandoned}})
			cm := store.Commit{Lease: run.Lease, Seq: 3, Spawn: []store.NewRun{kid(4)}, Transition: t}
			res := c.commit(cm)
			c.eq("Spawned by "+t.Kind.String(), res.Spawned, []store.RunCount{{Queue: kidQueue, Workflow: kidFlow, Status: store.Pending, Count: 1}})
			c.eq("Ended by "+t.Kind.String(), res.Ended, endedKids(2))
			c.eq("Ended by the repeat", c.tryCommit(cm).Ended, []store.RunCount(nil))
			c.tryCancel(abandoned.ID)
		}
	}},
	{"commit/repeat-of-transition", "P4", "a transition sent again succeeds, says Repeated, and changes nothing", func(c *C) {
		for _, t := range transitions() {
			run := c.start()
			cm := store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}, Transition: t}
			first := c.commit(cm)
			before := c.get(run.Run.ID)
			c.advance(time.Second)
			again := c.tryCommit(cm)
			first.Repeated = true
			c.eq("the result of "+t.Kind.String()+" again", again, first)
			c.eq("the run after "+t.Kind.String(), c.get(run.Run.ID), before)
			c.cancelIfLive(run.Run.ID)
		}
	}},
	{"commit/repeat-by-another-worker", "P2", "for a worker that never held the lease, a commit that was applied is lost, not a repeat", func(c *C) {
		for _, t := range []*store.Transition{nil, complete("")} {
			run := c.start()
			cm := store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}, Transition: t}
			c.commit(cm)
			cm.Lease.Worker = "w2"
			c.lost("the commit under the name of another worker", cm)
			c.cancelIfLive(run.Run.ID)
		}
	}},
	{"commit/repeat-keeps-state", "P4", "a repeat does not undo what others have written since", func(c *C) {
		run := c.start()
		id := run.Run.ID
		cm := store.Commit{Lease: run.Lease, Seq: 1, State: []store.StateWrite{{Key: "k", Value: []byte("mine")}}}
		c.commit(cm)
		c.setState(id, "k", "theirs")
		c.eq("Repeated", c.tryCommit(cm).Repeated, true)
		c.eq("state", values(c.getState(id)), []string{"k=theirs"})
		c.eq("Events", c.inbox(id).Events, int64(2))
	}},
	{"commit/repeat-does-not-sleep-again", "P4", "a sleep sent again does not put a woken run back to sleep", func(c *C) {
		run := c.start()
		cm := store.Commit{Lease: run.Lease, Seq: 1, Transition: sleepOn(store.WakeSignal)}
		c.commit(cm)
		c.signal(run.Run.ID, "n", "")
		res := c.tryCommit(cm)
		c.eq("the result", res, store.CommitResult{Repeated: true, Status: store.Sleeping, Events: 1, VisibleAt: c.now})
		c.claim1()
	}},
	{"commit/late-repeat", "P4", "a Seq below the last one applied was applied already, however late it arrives", func(c *C) {
		run := c.start()
		id := run.Run.ID
		one := store.Commit{Lease: run.Lease, Seq: 1, State: []store.StateWrite{{Key: "k", Value: []byte("1")}}}
		c.commit(one)
		c.commit(store.Commit{Lease: run.Lease, Seq: 2, State: []store.StateWrite{{Key: "k", Value: []byte("2")}}})
		c.eq("Repeated", c.tryCommit(one).Repeated, true)
		c.eq("state", values(c.getState(id)), []string{"k=2"})
		c.commit(store.Commit{Lease: run.Lease, Seq: 3, Transition: complete("out")})
		late := c.tryCommit(one)
		c.eq("the result", late, store.CommitResult{Repeated: true, Status: store.Completed, Events: 2})
	}},
	{"commit/seq-begins-anew", "P4", "commits are numbered anew under each lease: the first of a new lease is not a repeat", func(c *C) {
		run := c.start()
		for i := range 3 {
			cm := store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(int64(i+1), fmt.Sprint("s", i), "")}, Transition: release()}
			c.commit(cm)
			run = c.claim1()
		}
		c.eq("steps", c.stepNames(run.Run.ID), []string{"s0", "s1", "s2"})
	}},
	{"commit/refused-takes-no-seq", "P4", "a commit that was refused has not used its Seq", func(c *C) {
		run := c.start()
		bad := store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{{}}}
		c.fails("the bad commit", c.tryCommit(bad).Err, store.ErrInvalid)
		c.commit(store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}})
		big := store.Commit{Lease: run.Lease, Seq: 2, State: []store.StateWrite{{Key: "k", Value: make([]byte, c.s.Limits().Payload+1)}}}
		c.tooLarge("a value", c.tryCommit(big).Err, c.s.Limits().Payload+1, c.s.Limits().Payload)
		c.lost("the one above the refused", store.Commit{Lease: run.Lease, Seq: 3, Transition: complete("")})
		c.commit(store.Commit{Lease: run.Lease, Seq: 2, Steps: []store.StepRecord{step(2, "b", "")}})
		c.eq("steps", c.stepNames(run.Run.ID), []string{"a", "b"})
	}},
	{"commit/gap", "P2", "a commit whose Seq skips a number gets ErrLeaseLost: the store has lost what its holder did before", func(c *C) {
		run := c.start()
		id := run.Run.ID
		sig := c.signal(id, "n", "x")
		gap := func(seq int64) {
			c.Helper()
			before, inbox, steps := c.get(id), c.inbox(id), c.stepNames(id)
			c.lost(fmt.Sprintf("commit %d", seq), store.Commit{
				Lease: run.Lease, Seq: seq, Steps: []store.StepRecord{step(9, "gap", "x")}, State: []store.StateWrite{{Key: "gap", Value: []byte("v")}},
				Consumed: []store.SignalID{sig}, Spawn: kids(1),
			})
			c.eq("the run after it", c.get(id), before)
			c.eq("the inbox", c.inbox(id), inbox)
			c.eq("the steps", c.stepNames(id), steps)
			c.eq("children", len(c.claimKids(1)), 0)
		}
		gap(2)
		gap(7)
		c.commit(store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}})
		c.commit(store.Commit{Lease: run.Lease, Seq: 2, Steps: []store.StepRecord{step(2, "b", "")}})
		gap(4)
		gap(1 << 40)
	}},
	{"commit/gap-of-any-kind", "P2", "no commit after a missing one is applied, with any transition or with none", func(c *C) {
		for _, t := range append(transitions(), nil) {
			run := c.start()
			c.commit(store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}})
			for range 3 {
				c.signal(run.Run.ID, "s", "")
			}
			before := c.get(run.Run.ID)
			name := "without transition"
			if t != nil {
				name = t.Kind.String()
			}
			for _, seen := range []int64{0, 3, 9} {
				c.lost(name, store.Commit{Lease: run.Lease, Seq: 3, Seen: seen, Steps: []store.StepRecord{step(2, "b", "")}, Transition: t})
				c.eq("the run after "+name, c.get(run.Run.ID), before)
			}
			c.eq("steps", c.stepNames(run.Run.ID), []string{"a"})
			c.commit(store.Commit{Lease: run.Lease, Seq: 2, Transition: t})
			c.cancelIfLive(run.Run.ID)
		}
	}},
	{"commit/tells-events", "P5", "a commit's result counts the events that its holder has not seen, with any transition or with none", func(c *C) {
		for _, t := range append(transitions(), nil) {
			run := c.start()
			c.signal(run.Run.ID, "s", "x")
			c.signal(run.Run.ID, "s", "y")
			name := "without transition"
			if t != nil {
				name = t.Kind.String()
			}
			res := c.commit(store.Commit{Lease: run.Lease, Seen: 1, Steps: []store.StepRecord{step(1, "a", "")}, Transition: t})
			c.eq("Events "+name, res.Events, int64(2))
			c.eq("Events of the run "+name, c.get(run.Run.ID).Events, int64(2))
			c.cancelIfLive(run.Run.ID)
		}
	}},
	{"commit/gap-in-batch", "P2", "a gap affects only its own commit of a batch, whatever the others are", func(c *C) {
		for _, t := range []*store.Transition{nil, complete("")} {
			c.createN(4, store.NewRun{})
			runs := c.claimN(4)
			cms := make([]store.Commit, len(runs))
			for i, run := range runs {
				cms[i] = store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}, Transition: t}
			}
			cms[1].Seq, cms[3].Seq = 2, 5
			for i, res := range c.commits(cms...) {
				c.eq(fmt.Sprintf("commit %d of the batch: lost", i), errors.Is(res.Err, store.ErrLeaseLost), i%2 == 1)
				c.eq(fmt.Sprintf("steps of commit %d", i), len(c.steps(runs[i].Run.ID)), 1-i%2)
			}
			for _, run := range runs {
				c.cancelIfLive(run.Run.ID)
			}
		}
	}},
	{"commit/gap-then-next", "P2", "a commit that was refused for a gap uses no Seq, and the lease stays valid: it can be extended, and the right commit is applied", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}})
		c.lost("commit 3", store.Commit{Lease: run.Lease, Seq: 3, Transition: complete("")})
		c.eq("Lost", c.extend(run.Lease).Lost, false)
		c.commit(store.Commit{Lease: run.Lease, Seq: 2, Steps: []store.StepRecord{step(2, "b", "")}})
		c.commit(store.Commit{Lease: run.Lease, Seq: 3, Transition: complete("")})
		c.eq("steps", c.stepNames(run.Run.ID), []string{"a", "b"})
	}},
	{"commit/repeat-race", "P4", "one commit sent many times concurrently is applied once, and every answer succeeds", func(c *C) {
		for range 10 {
			run := c.start()
			cm := store.Commit{Lease: run.Lease, Seq: 1, State: []store.StateWrite{{Key: "k", Value: []byte("v")}}, Spawn: kids(1), Transition: complete("")}
			results := make([]store.CommitResult, 4)
			c.race(len(results), func(i int, s store.Store) (err error) {
				results[i], err = c.tryCommitOn(s, cm)
				return err
			})
			applied := 0
			for _, res := range results {
				c.ok("an answer", res.Err)
				if !res.Repeated {
					applied++
				}
			}
			c.eq("answers that are not Repeated", applied, 1)
			c.eq("Events", c.inbox(run.Run.ID).Events, int64(1))
			c.eq("children in the group", c.group(run.Run.ID).Total, int64(1))
		}
	}},
}

// earlierOfBoth checks a transition that has After and At.
func (c *C) earlierOfBoth(kind store.TransitionKind, status store.Status) {
	c.Helper()
	for _, tt := range []struct{ after, at, want time.Duration }{
		{time.Hour, 0, time.Hour}, {0, time.Hour, time.Hour}, {time.Hour, 2 * time.Hour, time.Hour}, {2 * time.Hour, time.Hour, time.Hour},
	} {
		run := c.start()
		t := &store.Transition{Kind: kind, After: tt.after}
		if tt.at != 0 {
			t.At = c.now.Add(tt.at)
		}
		res := c.end(run, t)
		c.eq(fmt.Sprintf("VisibleAt of %+v", tt), res.VisibleAt, c.now.Add(tt.want))
		c.eq("VisibleAt of the run", c.get(run.Run.ID).VisibleAt, c.now.Add(tt.want))
		c.status(run.Run.ID, status)
	}
}

// zombies sends a commit of each kind under a lease that is not valid, and checks that nothing of
// its run changes.
func (c *C) zombies(l store.Lease, sig store.SignalID) {
	c.Helper()
	before, inbox, steps := c.get(l.Run), c.inbox(l.Run), len(c.steps(l.Run))
	for i, t := range append(transitions(), nil) {
		name := "without transition"
		if t != nil {
			name = t.Kind.String()
		}
		c.lost(fmt.Sprintf("%s under %+v", name, l), store.Commit{
			Lease: l, Seq: int64(i + 1), Steps: []store.StepRecord{step(9, "zombie", "x")}, State: []store.StateWrite{{Key: "k", Value: []byte("zombie")}},
			Consumed: []store.SignalID{sig}, Spawn: kids(1), Transition: t,
		})
		c.eq("the run after it", c.get(l.Run), before)
	}
	c.eq("the inbox", c.inbox(l.Run), inbox)
	c.eq("the steps", len(c.steps(l.Run)), steps)
	c.eq("children", len(c.claimKids(1)), 0)
}

var atomicCases = []Case{
	{"commit/all-or-nothing", "P3", "if a commit is refused, nothing of it is stored, and the lease stays valid", func(c *C) {
		run := c.start()
		id := run.Run.ID
		sig := c.signal(id, "n", "x")
		before, inbox := c.get(id), c.inbox(id)
		big := make([]byte, c.s.Limits().Payload+1)
		good := func() store.Commit {
			return store.Commit{
				Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "x")}, State: []store.StateWrite{{Key: "k", Value: []byte("v")}},
				Consumed: []store.SignalID{sig}, Spawn: kids(1), Transition: complete("out"),
			}
		}
		for _, tt := range []struct {
			name  string
			spoil func(cm *store.Commit)
			want  error
		}{
			{"a step too large", func(cm *store.Commit) { s := step(2, "b", ""); s.Output = big; cm.Steps = append(cm.Steps, s) }, store.ErrTooLarge},
			{"a step without a name", func(cm *store.Commit) { cm.Steps = append(cm.Steps, step(2, "", "")) }, store.ErrInvalid},
			{"a state value too large", func(cm *store.Commit) { cm.State = append(cm.State, store.StateWrite{Key: "l", Value: big}) }, store.ErrTooLarge},
			{"a key written twice", func(cm *store.Commit) { cm.State = append(cm.State, store.StateWrite{Key: "k"}) }, store.ErrInvalid},
			{"a child too large", func(cm *store.Commit) { k := kid(2); k.Input = big; cm.Spawn = append(cm.Spawn, k) }, store.ErrTooLarge},
			{"a child without a queue", func(cm *store.Commit) { k := kid(2); k.Queue = ""; cm.Spawn = append(cm.Spawn, k) }, store.ErrInvalid},
			{"an output too large", func(cm *store.Commit) { cm.Transition.Output = big }, store.ErrTooLarge},
			{"a sleep that completes", func(cm *store.Commit) { cm.Transition.Kind = store.Sleep }, store.ErrInvalid},
			{"a step twice", func(cm *store.Commit) { cm.Steps = append(cm.Steps, cm.Steps[0]) }, store.ErrInvalid},
			{"no seq", func(cm *store.Commit) { cm.Seq = -1 }, store.ErrInvalid},
		} {
			cm := good()
			tt.spoil(&cm)
			c.fails(tt.name, c.tryCommit(cm).Err, tt.want)
			c.eq("the run after "+tt.name, c.get(id), before)
			c.eq("the inbox after "+tt.name, c.inbox(id), inbox)
			c.eq("steps after "+tt.name, len(c.steps(id)), 0)
			c.eq("children after "+tt.name, len(c.claimKids(1)), 0)
		}
		c.commit(good())
		c.status(id, store.Completed)
	}},
	{"commit/everything-at-once", "P3", "one commit writes steps, state, consumed signals, children and the transition together", func(c *C) {
		run := c.start()
		id := run.Run.ID
		sig := c.signal(id, "n", "x")
		c.signal(id, "n", "y")
		res := c.commit(store.Commit{
			Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x"), step(2, "b", "y")},
			State: []store.StateWrite{{Key: "k", Value: []byte("v")}, {Key: "l", Value: []byte("w")}}, Consumed: []store.SignalID{sig},
			Spawn: kids(2), Seen: 2, Transition: sleepFor(time.Hour),
		})
		c.eq("the result", res, store.CommitResult{
			Status: store.Sleeping, Events: 4, VisibleAt: c.now.Add(time.Hour),
			Spawned: []store.RunCount{{Queue: kidQueue, Workflow: kidFlow, Status: store.Pending, Count: 2}},
		})
		in := c.inbox(id)
		c.eq("Status", in.Status, store.Sleeping)
		c.eq("signals", payloads(in.Signals), []string{"y"})
		c.eq("state", values(in.State), []string{"k=v", "l=w"})
		c.eq("the group", c.group(id), store.Group{Name: "g", Total: 2, Open: 2})
		c.eq("steps", c.stepNames(id), []string{"a", "b"})
		c.eq("children", len(c.claimKids(9)), 2)
	}},
	{"commit/seen-whole", "P3", "a reader sees a commit completely or not at all", func(c *C) {
		run := c.start()
		id := run.Run.ID
		const rounds = 30
		c.race(3, func(i int, s store.Store) error {
			if i == 0 {
				for n := range rounds {
					v := []byte(fmt.Sprint(n))
					res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: int64(n + 1), State: []store.StateWrite{{Key: "a", Value: v}, {Key: "b", Value: v}}})
					if err != nil || res.Err != nil {
						return first(err, res.Err)
					}
				}
				return nil
			}
			for range rounds {
				in, err := patient(c.ctx, func() (store.Inbox, error) { return s.Inbox(c.ctx, store.InboxParams{Namespace: c.ns, Run: id}) })
				if err != nil {
					return err
				}
				if n := len(in.State); n == 0 && in.Events == 0 {
					continue
				} else if n != 2 {
					return fmt.Errorf("the inbox holds %d of the commit's two keys", n)
				}
				a, b := in.State[0], in.State[1]
				if string(a.Value) != string(b.Value) || max(a.Version, b.Version) != in.Events {
					return fmt.Errorf("the inbox holds parts of two commits: a=%s (version %d), b=%s (version %d), %d events", a.Value, a.Version, b.Value, b.Version, in.Events)
				}
			}
			return nil
		})
	}},
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

var stepCases = []Case{
	{"steps/recorded", "P3", "a step is stored as it was recorded, with the epoch of its lease and its times by the store's clock", func(c *C) {
		run := c.start()
		rec := store.StepRecord{
			StepKey: store.StepKey{Branch: "left/1", Name: "charge", Occurrence: 3}, Kind: store.KindMap, Status: store.StepFailed, Position: 7, Index: 4, Attempt: 5,
			Output: []byte("out"), Failure: &store.Failure{Code: "error", Message: "no money", Details: []byte("d")}, Took: 3 * time.Second, DueIn: time.Minute,
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{rec}})
		got := c.steps(run.Run.ID)
		c.eq("steps", len(got), 1)
		c.eq("the step", got[0], store.Step{
			StepKey: rec.StepKey, Kind: rec.Kind, Status: rec.Status, Position: 7, Index: 4, Attempt: 5, Epoch: 1, Output: rec.Output, Failure: rec.Failure,
			StartedAt: c.now.Add(-3 * time.Second), FinishedAt: c.now, DueAt: c.now.Add(time.Minute),
		})
	}},
	{"steps/unfinished", "P13", "a step that is not final has no FinishedAt; DueAt may be an absolute time", func(c *C) {
		run := c.start()
		at := c.now.Add(5 * time.Hour)
		a, b := step(1, "a", ""), step(2, "b", "")
		a.Status, a.Kind, a.DueAt, a.Output = store.StepRunning, store.KindSleep, at, nil
		b.Status, b.DueIn, b.Failure = store.StepPending, time.Hour, &store.Failure{Code: "error", Message: "again"}
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{a, b}})
		got := c.steps(run.Run.ID)
		if len(got) != 2 {
			c.Fatalf("steps: saw %d, expected 2", len(got))
		}
		c.eq("status of a", got[0].Status, store.StepRunning)
		c.eq("DueAt of a", got[0].DueAt, at)
		c.eq("FinishedAt of a", got[0].FinishedAt, time.Time{})
		c.eq("DueAt of b", got[1].DueAt, c.now.Add(time.Hour))
		c.eq("FinishedAt of b", got[1].FinishedAt, time.Time{})
		c.eq("Failure of b", got[1].Failure, b.Failure)
	}},
	{"steps/start-named", "P3", "a record that sets StartedAt is stored with it, also when it replaces another one", func(c *C) {
		run := c.start()
		began := c.now
		a, b := step(1, "a", ""), step(2, "b", "")
		a.Status, a.Kind, a.Took = store.StepRunning, store.KindSignal, 250*time.Millisecond
		b.Status, b.StartedAt, b.Took = store.StepRunning, began.Add(-time.Hour-3*time.Microsecond), time.Minute
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{a, b}})
		got := c.steps(run.Run.ID)
		if len(got) != 2 {
			c.Fatalf("steps: saw %d, expected 2", len(got))
		}
		c.eq("StartedAt of a, which has run for 250ms", got[0].StartedAt, began.Add(-250*time.Millisecond))
		c.eq("StartedAt of b, which names it", got[1].StartedAt, b.StartedAt)
		c.advance(21 * 24 * time.Hour)
		a.Status, a.StartedAt, a.Took = store.StepCompleted, got[0].StartedAt, 0
		b.StartedAt = time.Time{}
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{a, b}})
		got = c.steps(run.Run.ID)
		c.eq("StartedAt of a, which names it three weeks later", got[0].StartedAt, began.Add(-250*time.Millisecond))
		c.eq("FinishedAt of a", got[0].FinishedAt, c.now)
		c.eq("StartedAt of b, which names none any more", got[1].StartedAt, c.now.Add(-time.Minute))
	}},
	{"steps/earlier-attempts", "P3", "a record keeps the attempts that failed before, with and without a failure of its own; the next record replaces them", func(c *C) {
		run := c.start()
		id := run.Run.ID
		attempts := func(ns ...int) (list []store.FailedAttempt) {
			for _, n := range ns {
				list = append(list, store.FailedAttempt{Attempt: n, StartedAt: c.now.Add(time.Duration(n)*time.Minute + time.Microsecond), Code: "error", Message: fmt.Sprint("no money ", n, " \x00 é")})
			}
			return list
		}
		rec := func(attempt int, status store.StepStatus, f *store.Failure, earlier []store.FailedAttempt) {
			c.Helper()
			s := step(1, "a", "")
			s.Attempt, s.Status, s.Failure, s.Earlier = attempt, status, f, earlier
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{s}})
			got := c.steps(id)
			c.eq("steps", len(got), 1)
			c.eq(fmt.Sprintf("Failure in attempt %d", attempt), got[0].Failure, f)
			c.eq(fmt.Sprintf("Earlier in attempt %d", attempt), got[0].Earlier, earlier)
		}
		why := &store.Failure{Code: "error", Message: "again", Details: []byte{}, Permanent: true}
		rec(1, store.StepPending, why, nil)
		rec(2, store.StepRunning, nil, attempts(1))
		rec(2, store.StepPending, why, attempts(1))
		rec(7, store.StepPending, why, attempts(1, 3, 4, 5, 6))
		c.advance(aLease)
		run = c.claim1()
		c.eq("Earlier that comes along with a claim", run.Steps[0].Earlier, c.steps(id)[0].Earlier)
		rec(8, store.StepCompleted, nil, attempts(1, 4, 5, 6, 7))
		other := step(2, "b", "")
		other.Status, other.Failure, other.Attempt, other.Earlier = store.StepFailed, why, 2, attempts(1)
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{other}, Transition: failWith("x")})
		got := c.steps(id)
		c.eq("Failure of a failed step", got[1].Failure, why)
		c.eq("Earlier of a failed step", got[1].Earlier, attempts(1))
		fork, err := c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: id, New: store.NewID(), Now: c.now})
		c.ok("Fork", err)
		c.eq("Earlier in a fork", c.steps(fork.ID)[0].Earlier, got[0].Earlier)

		run = c.startWith(store.NewRun{Priority: store.MaxPriority})
		bad := step(1, "a", "")
		bad.Earlier = attempts(1, 2, 3, 4, 5, 6)
		c.fails("too many earlier attempts", c.commits(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{bad}})[0].Err, store.ErrInvalid)
		bad.Earlier = []store.FailedAttempt{{Attempt: 1, Message: strings.Repeat("m", store.MaxEarlierText+1)}}
		c.fails("an earlier attempt with too much text", c.commits(store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{bad}})[0].Err, store.ErrTooLarge)
	}},
	{"steps/later-record-replaces", "P4", "a later record replaces everything but the Position, until the step is final: then it is ignored", func(c *C) {
		run := c.start()
		id := run.Run.ID
		rec := func(pos int64, attempt int, status store.StepStatus, out string) {
			s := step(pos, "a", out)
			s.Attempt, s.Status = attempt, status
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{s}})
		}
		see := func(attempt int, status store.StepStatus, out string) {
			c.Helper()
			got := c.steps(id)
			c.eq("steps", len(got), 1)
			c.eq("Position", got[0].Position, int64(3))
			c.eq("Attempt", got[0].Attempt, attempt)
			c.eq("Status", got[0].Status, status)
			c.eq("Output", string(got[0].Output), out)
		}
		rec(3, 1, store.StepPending, "one")
		see(1, store.StepPending, "one")
		rec(9, 2, store.StepCompleted, "two")
		see(2, store.StepCompleted, "two")
		rec(9, 3, store.StepFailed, "three")
		see(2, store.StepCompleted, "two")
	}},
	{"steps/one-position", "P16", "a commit with two steps at one Position is refused, whether it is plain or not, and leaves nothing", func(c *C) {
		for _, t := range append(transitions(), nil) {
			for _, state := range [][]store.StateWrite{nil, {{Key: "k"}}} {
				run := c.start()
				cm := store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", ""), step(2, "b", ""), step(2, "c", "")}, State: state, Transition: t}
				c.fails("two new steps at one position", c.tryCommit(cm).Err, store.ErrInvalid)
				c.eq("steps after it", len(c.steps(run.Run.ID)), 0)
				cm.Steps[2].Position = 3
				c.commit(cm)
				c.cancelIfLive(run.Run.ID)
			}
		}
	}},
	{"steps/key-is-exact", "P4", "branch, name and occurrence together are a step's key", func(c *C) {
		run := c.start()
		var recs []store.StepRecord
		for i, k := range []store.StepKey{
			{Name: "a", Occurrence: 1}, {Name: "a", Occurrence: 2}, {Name: "A", Occurrence: 1}, {Branch: "b", Name: "a", Occurrence: 1},
			{Branch: "B", Name: "a", Occurrence: 1}, {Branch: "b/a", Name: "a", Occurrence: 1}, {Branch: "b", Name: "a/a", Occurrence: 1},
		} {
			s := step(int64(i+1), k.Name, fmt.Sprint(i))
			s.StepKey = k
			recs = append(recs, s)
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs})
		got := c.steps(run.Run.ID)
		c.eq("steps", len(got), len(recs))
		for i := range min(len(got), len(recs)) {
			c.eq("the step's key", got[i].StepKey, recs[i].StepKey)
			c.bytes("the step's output", got[i].Output, recs[i].Output)
		}
	}},
	{"steps/pages-by-position", "P14", "Steps pages by Position, whatever the order of recording, and says whether more follow", func(c *C) {
		run := c.start()
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint("s", i))
		}
		for _, i := range []int{3, 9, 0, 7, 1, 2, 8, 4, 6, 5} {
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(int64(10*i+1), want[i], "")}})
		}
		got, pages := []string{}, 0
		for p := (store.StepsParams{Namespace: c.ns, Run: run.Run.ID, Limit: 4}); ; pages++ {
			page, err := c.s.Steps(c.ctx, p)
			c.ok("Steps", err)
			got = append(got, namesOf(page.Steps)...)
			if page.Next == 0 || len(page.Steps) == 0 || pages > 10 {
				break
			}
			c.eq("steps of a full page", len(page.Steps), 4)
			c.eq("Next", page.Next, page.Steps[3].Position)
			p.After = page.Next
		}
		c.eq("all pages", got, want)
		page, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: run.Run.ID, Limit: 10})
		c.ok("Steps", err)
		c.eq("Next of a page that holds all", page.Next, int64(0))
	}},
	{"steps/page-bounded-in-bytes", "P14", "a page ends when its outputs exceed MaxBytes, but contains at least one step", func(c *C) {
		run := c.start()
		var recs []store.StepRecord
		var want []string
		for i, n := range []int{100, 100, 100, 1000, 100, 0, 0, 100} {
			recs, want = append(recs, step(int64(i+1), fmt.Sprint("s", i), string(make([]byte, n)))), append(want, fmt.Sprint("s", i))
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs})
		got, pages := []string{}, 0
		for p := (store.StepsParams{Namespace: c.ns, Run: run.Run.ID, MaxBytes: 250}); ; pages++ {
			page, err := c.s.Steps(c.ctx, p)
			c.ok("Steps", err)
			if len(page.Steps) == 0 || pages > 10 {
				c.Fatalf("page %d: saw %d steps, expected at least one and an end", pages+1, len(page.Steps))
			}
			got = append(got, namesOf(page.Steps)...)
			size := 0
			for _, s := range page.Steps[:len(page.Steps)-1] {
				size += len(s.Output)
			}
			c.check(size <= 250, "outputs before the last step of a page: saw %d bytes, expected at most MaxBytes 250", size)
			if p.After = page.Next; p.After == 0 {
				break
			}
		}
		c.eq("all pages", got, want)
		c.check(pages >= 2, "pages: saw %d, expected the bytes to bound them", pages+1)
	}},
}
