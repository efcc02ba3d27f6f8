package storetier

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// spawnRefused sends a commit that spawns an invalid child, and checks that nothing of it is
// stored.
func (c *C) spawnRefused(what string, run store.ClaimedRun, child store.NewRun) {
	c.Helper()
	res := c.tryCommit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Spawn: []store.NewRun{child}})
	c.fails(what, res.Err, store.ErrInvalid)
	c.eq("steps", len(c.steps(run.Run.ID)), 0)
	c.eq("children", len(c.gets(child.ID)), 0)
	c.eq("groups", len(c.inbox(run.Run.ID).Groups), 0)
}

// canceling creates a run that is canceling under its lease, and whose failure is that of the
// cancel.
func (c *C) canceling() (store.ClaimedRun, *store.Failure) {
	c.Helper()
	run := c.start()
	c.eq("Cancel", c.cancel(run.Run.ID), store.Canceling)
	return run, c.get(run.Run.ID).Failure
}

// Details of the contract, each with a case of its own.
var ruleCases = []Case{
	{"steps/took-is-cut", "P13", "StartedAt is the commit's time minus Took in whole microseconds, truncated, so that no step appears to begin earlier than it did", func(c *C) {
		run := c.start()
		var recs []store.StepRecord
		tooks := []time.Duration{0, 1, 999, 1000, 1001, 1999, 2500*time.Millisecond + 1, time.Hour + 999}
		for i, d := range tooks {
			rec := step(int64(i+1), fmt.Sprint("s", i), "")
			rec.Took = d
			recs = append(recs, rec)
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs})
		for i, st := range c.steps(run.Run.ID) {
			c.eq(fmt.Sprintf("StartedAt of a step that took %v", tooks[i]), st.StartedAt, c.now.Add(-tooks[i].Truncate(time.Microsecond)))
		}
	}},
	{"steps/due-in-goes-first", "P13", "in a record that has both DueIn and DueAt, DueIn counts, whether it is earlier or later", func(c *C) {
		run := c.start()
		var recs []store.StepRecord
		for i, at := range []time.Duration{-time.Hour, time.Second, time.Minute, time.Hour} {
			rec := step(int64(i+1), fmt.Sprint("s", i), "")
			rec.Status, rec.DueIn, rec.DueAt = store.StepRunning, time.Minute+1, c.now.Add(at)
			recs = append(recs, rec)
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs})
		for i, st := range c.steps(run.Run.ID) {
			c.eq(fmt.Sprintf("DueAt of a record that names %v as well", recs[i].DueAt), st.DueAt, c.now.Add(time.Minute+time.Microsecond))
		}
	}},
	{"pause/canceling", "P11", "a pause of a canceling run succeeds and changes nothing, whether a worker holds it or not, and so does a resume", func(c *C) {
		leased, _ := c.canceling()
		waiting := c.recorded(sleepFor(time.Hour))
		c.cancel(waiting.Run.ID)
		for _, id := range []store.ID{leased.Run.ID, waiting.Run.ID} {
			before := c.get(id)
			c.advance(time.Second)
			for _, resume := range []bool{false, true, false} {
				c.eq("the result", c.tryPause(resume, id)[0], store.ControlResult{Status: store.Canceling})
				c.eq("the run", c.get(id), before)
			}
		}
		c.eq("what its holder is told", c.extend(leased.Lease), store.LeaseState{Canceling: true, Events: 1})
		res := c.commit(store.Commit{Lease: leased.Lease, Seen: 1, Transition: release()})
		c.eq("Status and Pausing behind its holder's release", []any{res.Status, res.Pausing}, []any{store.Canceling, false})
	}},
	{"cancel/unmarks-pausing", "P11", "a cancel of a run that is to pause clears the mark, because the run has to end", func(c *C) {
		run := c.start()
		c.pause(run.Run.ID)
		c.eq("Pausing", c.get(run.Run.ID).Pausing, true)
		c.cancel(run.Run.ID)
		c.eq("Pausing of the canceled run", c.get(run.Run.ID).Pausing, false)
		c.eq("what its holder is told", c.extend(run.Lease), store.LeaseState{Canceling: true, Events: 1})
		res := c.commit(store.Commit{Lease: run.Lease, Seen: 1, Transition: sleepFor(time.Hour)})
		c.eq("the result of a sleep", res, store.CommitResult{Status: store.Canceling, Events: 1, VisibleAt: c.now})
		c.eq("Status for the next holder", c.claim1().Run.Status, store.Canceling)
	}},
	{"cancel/retry-is-due-at-once", "P11", "a retry of a canceling run is due at once, whatever its delay: the run stays canceling, with the failure of the cancel and one more attempt", func(c *C) {
		for _, t := range []*store.Transition{retryIn(0), retryIn(time.Hour), {Kind: store.Retry, At: began.Add(100 * time.Hour), Failure: &store.Failure{Code: "x"}}} {
			run, why := c.canceling()
			c.advance(time.Second)
			res := c.commit(store.Commit{Lease: run.Lease, Seen: 1, Transition: t})
			c.eq("the result", res, store.CommitResult{Status: store.Canceling, Events: 1, VisibleAt: c.now})
			got := c.get(run.Run.ID)
			c.eq("VisibleAt, Attempt and Failure", []any{got.VisibleAt, got.Attempt, got.Failure}, []any{c.now, 2, why})
			c.end(c.claim1(), cancelRun())
		}
	}},
	{"cancel/continue-is-due-at-once", "P11", "a continuation of a canceling run is due at once: the run stays canceling, with the failure of the cancel, and its input is the new one", func(c *C) {
		run, why := c.canceling()
		c.advance(time.Second)
		res := c.commit(store.Commit{Lease: run.Lease, Seen: 1, Transition: continueWith("next")})
		c.eq("the result", res, store.CommitResult{Status: store.Canceling, Events: 1, VisibleAt: c.now})
		got := c.get(run.Run.ID)
		c.eq("VisibleAt, Generation and Failure", []any{got.VisibleAt, got.Generation, got.Failure}, []any{c.now, 1, why})
		c.bytes("Input", got.Input, []byte("next"))
		c.eq("the run that is claimed", c.claim1().Run.Status, store.Canceling)
	}},
	{"commit/continue-clears-failure", "P3", "a run that continues as new has no failure, even if its last attempt had one", func(c *C) {
		run := c.start()
		c.end(run, retryIn(0))
		run = c.claim1()
		c.check(run.Run.Failure != nil, "the second attempt has no failure of the first")
		c.end(run, continueWith("next"))
		got := c.get(run.Run.ID)
		c.eq("Failure and Attempt", []any{got.Failure, got.Attempt}, []any{(*store.Failure)(nil), 1})
		c.eq("Failure of the claimed run", c.claim1().Run.Failure, (*store.Failure)(nil))
	}},
	{"commit/continue-ungroups-children", "P9", "the children of a run that continues as new keep their parent and no longer belong to a group: they have no group and no ordinal, are not listed, and are not counted", func(c *C) {
		run, ks := c.start(), kids(2)
		c.commit(store.Commit{Lease: run.Lease, Spawn: ks})
		c.end(run, continueWith("next"))
		for _, k := range c.gets(ks[0].ID, ks[1].ID) {
			c.eq("Parent, Group and Ordinal", []any{k.Parent, k.Group, k.Ordinal}, []any{run.Run.ID, "", int64(0)})
		}
		c.eq("children in the group", len(c.childrenOf(run.Run.ID)), 0)
		run = c.claim1()
		c.eq("groups", len(run.Inbox.Groups), 0)
		fresh := kid(1)
		c.commit(store.Commit{Lease: run.Lease, Spawn: []store.NewRun{fresh}, Transition: sleepAwait(allOf)})
		for _, k := range c.claimKids(3) {
			if k.Run.ID != fresh.ID {
				c.end(k, complete(""))
			}
		}
		c.eq("the group of the new generation", c.group(run.Run.ID), store.Group{Name: "g", Total: 1, Open: 1})
		c.asleep(run.Run.ID, "whose old children have ended")
	}},
	{"restart/leaves-its-group", "P9", "a restarted child keeps its parent and has no group and no ordinal: it is not among the children of the group", func(c *C) {
		ks := kids(2)
		parent := c.family(sleepOn(store.WakeSignal), ks...)
		c.cancel(ks[1].ID)
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{ks[1].ID}, Now: c.now})))
		got := c.get(ks[1].ID)
		c.eq("Parent, Group and Ordinal", []any{got.Parent, got.Group, got.Ordinal}, []any{parent, "", int64(0)})
		list := c.childrenOf(parent)
		c.eq("children of the group", len(list), 1)
		c.eq("the child", list[0].ID, ks[0].ID)
		c.eq("the group", c.group(parent), store.Group{Name: "g", Total: 2, Open: 1, Canceled: 1})
	}},
	{"children/met-await-hears-no-more", "P9", "an await that is met when its run falls asleep ends that sleep, without an event; nor is anything that the children do until the next claim an event", func(c *C) {
		ks := kids(3)
		id := c.family(release(), ks...)
		c.end(c.claimKid(), complete(""))
		c.end(c.claim1(), sleepAwait(store.Await{Group: "g", Open: 2}, store.Await{Group: "g"}))
		before := c.get(id)
		c.eq("Status, VisibleAt and Events", []any{before.Status, before.VisibleAt, before.Events}, []any{store.Sleeping, c.now, int64(0)})
		c.advance(time.Second)
		for range 2 {
			c.end(c.claimKid(), failWith("x"))
		}
		c.eq("the parent when the others have ended", c.get(id), before)
		c.eq("Events of the claim", c.claim1().Inbox.Events, int64(0))
	}},
	{"list/bounds-of-time-are-exclusive", "P14", "CreatedAfter, CreatedBefore, FinishedAfter and FinishedBefore exclude the runs of that very microsecond", func(c *C) {
		var ids []store.ID
		at := c.now
		for range 3 {
			ids = append(ids, c.create(store.NewRun{}))
			c.tryCancel(ids[len(ids)-1])
			c.advance(time.Microsecond)
		}
		for i, want := range [][]store.ID{{ids[1], ids[2]}, {ids[2]}, {}} {
			t := at.Add(time.Duration(i) * time.Microsecond)
			for _, f := range []store.RunFilter{{CreatedAfter: t}, {FinishedAfter: t}, {CreatedAfter: t.Add(999)}} {
				c.eq("runs after a time", c.listAll(store.ListParams{Filter: f, OldestFirst: true}, nil), want)
				c.eq("count of runs after a time", c.count(f), int64(len(want)))
			}
		}
		for i, want := range [][]store.ID{{}, {ids[0]}, {ids[0], ids[1]}} {
			t := at.Add(time.Duration(i) * time.Microsecond)
			for _, f := range []store.RunFilter{{CreatedBefore: t}, {FinishedBefore: t}, {CreatedBefore: t.Add(999)}} {
				c.eq("runs before a time", c.listAll(store.ListParams{Filter: f, OldestFirst: true}, nil), want)
				c.eq("count of runs before a time", c.count(f), int64(len(want)))
			}
		}
	}},
	{"errors/fields-beside-an-error", "P16", "a result with an error has no other fields, except those that describe the run in the way: the ID that a create found, the status that a control found", func(c *C) {
		run := c.startWith(store.NewRun{ExternalID: "e"})
		final := c.create(store.NewRun{Queue: "final"})
		c.cancel(final)
		done := c.startWith(store.NewRun{Priority: store.MaxPriority})
		c.end(done, complete("out"))
		bad := fill(store.NewRun{Priority: store.MaxPriority + 1})
		new1 := fill(store.NewRun{ExternalID: "e", MustBeNew: true})
		abroad := fill(store.NewRun{})
		c.abroad(func() { c.create(abroad) })
		for i, want := range []store.ID{{}, run.Run.ID, {}} {
			res := c.creates(bad, new1, abroad)[i]
			c.check(res.Err != nil, "Create of item %d: saw no error", i)
			res.Err = nil
			c.eq(fmt.Sprintf("Create's item %d without its error", i), res, store.CreateResult{ID: want})
		}
		for _, cm := range []store.Commit{
			{Lease: store.Lease{Run: run.Run.ID, Worker: aWorker, Epoch: 9}, Seq: 1},
			{Lease: run.Lease, Seq: 7},
			{Lease: run.Lease, Seq: 1, Crashes: -1},
			{Lease: store.Lease{Run: store.NewID(), Worker: aWorker, Epoch: 1}, Seq: 1, Transition: complete("")},
		} {
			res := c.tryCommit(cm)
			c.check(res.Err != nil, "Commit %+v: saw no error", cm)
			res.Err = nil
			c.eq("Commit's item without its error", res, store.CommitResult{})
		}
		for _, sig := range []store.NewSignal{
			{ID: store.NewID(), Run: done.Run.ID, Name: "n"}, {ID: store.NewID(), Run: store.NewID(), Name: "n"}, {ID: store.NewID(), ExternalID: "none", Name: "n"}, {Run: run.Run.ID, Name: "n"},
		} {
			res := c.signals(sig)[0]
			c.check(res.Err != nil, "Signal %+v: saw no error", sig)
			c.eq("Run beside the error", res.Run, store.ID{})
		}
		for _, results := range [][]store.ControlResult{c.tryCancel(done.Run.ID, store.NewID()), c.tryPause(false, done.Run.ID, store.NewID()), c.tryPause(true, done.Run.ID, store.NewID())} {
			for i, want := range []store.Status{store.Completed, 0} {
				res := results[i]
				c.check(res.Err != nil, "control %d: saw no error", i)
				res.Err = nil
				c.eq("the result without its error", res, store.ControlResult{Status: want})
			}
		}
		c.eq("a lost lease", c.extend(store.Lease{Run: run.Run.ID, Worker: aWorker, Epoch: 9}), store.LeaseState{Lost: true})
		made, err := c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: store.NewID(), New: store.NewID(), Now: c.now})
		c.fails("Fork of no run", err, store.ErrNotFound)
		c.eq("its result", made, store.CreateResult{})
	}},
	{"workers/ttl-in-microseconds", "P13", "a worker's TTL and Answers are stored in whole microseconds, rounded up", func(c *C) {
		for _, d := range []time.Duration{1, 1000, 1001, time.Second + 1, time.Hour + 999} {
			c.putWorker(store.Worker{ID: "w", TTL: d, Answers: d})
			got := c.workers()[0]
			c.eq(fmt.Sprintf("TTL and Answers of %v", d), []time.Duration{got.TTL, got.Answers}, []time.Duration{roundedUp(d), roundedUp(d)})
		}
	}},
	{"workers/offline-at-its-ttl", "P13", "a worker is offline from the very microsecond of its TTL on, or of its Answers if it was asked, and is then not asked any more", func(c *C) {
		c.putWorker(store.Worker{ID: "a", TTL: time.Minute, Answers: 10 * time.Second})
		put := c.now
		status := func(what string, after time.Duration, want store.WorkerStatus) {
			c.Helper()
			c.now = put.Add(after)
			c.eq(what, c.workers()[0].Status, want)
		}
		status("a microsecond before its TTL", time.Minute-time.Microsecond, store.Online)
		status("at its TTL", time.Minute, store.Offline)
		c.eq("workers asked at its TTL", c.ask(time.Second), 0)
		c.now = put.Add(time.Minute - time.Microsecond)
		c.eq("workers asked a microsecond before it", c.ask(time.Second), 1)
		c.now = put.Add(30 * time.Second)
		c.extendAs("a")
		put = c.now
		c.advance(20*time.Second - time.Microsecond)
		c.eq("workers asked that were silent for a microsecond less", c.ask(20*time.Second), 0)
		c.advance(time.Microsecond)
		c.eq("workers asked that were silent so long", c.ask(20*time.Second), 1)
		status("a microsecond before it must have answered", 30*time.Second-time.Microsecond, store.Online)
		status("when it must have answered", 30*time.Second, store.Offline)
	}},
	{"signal/repeat-after-the-holder-ended", "P4", "if a signal to an external id is sent again when its run has ended and no run holds the external id, it succeeds and names that run; a new signal finds no run", func(c *C) {
		for i, t := range []*store.Transition{complete("out"), failWith("x"), cancelRun()} {
			sig := store.NewSignal{ID: store.NewID(), ExternalID: fmt.Sprint("e", i), Name: "n", Payload: []byte("x")}
			run := c.startWith(store.NewRun{ExternalID: sig.ExternalID})
			c.eq("the result", c.signals(sig)[0], store.SignalResult{Run: run.Run.ID})
			c.end(run, t)
			events := c.get(run.Run.ID).Events
			c.advance(time.Second)
			for range 3 {
				c.eq("the result of sending again", c.signals(sig)[0], store.SignalResult{Run: run.Run.ID})
			}
			c.eq("Events", c.get(run.Run.ID).Events, events)
			fresh := sig
			fresh.ID = store.NewID()
			c.fails("another signal", c.signals(fresh)[0].Err, store.ErrNotFound)
		}
	}},
	{"children/no-external-id", "P16", "a child has no external id, suffix, reuse policy or digest, and no lease of its own: a commit that spawns one with any of them is ErrInvalid and changes nothing", func(c *C) {
		run := c.start()
		for what, change := range map[string]func(n *store.NewRun){
			"an external id": func(n *store.NewRun) { n.ExternalID = "e" },
			"a suffix":       func(n *store.NewRun) { n.Suffix = "s" },
			"must be new":    func(n *store.NewRun) { n.MustBeNew = true },
			"reuse":          func(n *store.NewRun) { n.Reuse = store.ReuseNever },
			"a digest":       func(n *store.NewRun) { n.Digest = digest(1, "x") },
			"a worker":       func(n *store.NewRun) { n.Worker, n.LeaseFor = aWorker, time.Minute },
		} {
			child := kid(1)
			change(&child)
			c.spawnRefused("a child with "+what, run, child)
		}
		c.create(store.NewRun{ExternalID: "e", Queue: "other"})
		c.commit(store.Commit{Lease: run.Lease, Spawn: kids(1)})
	}},
}
