package storetier

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// ownStore gives the case a store of its own, which it may restart. The case is skipped for a
// backend that promises nothing and has no Restart.
func (c *C) ownStore() {
	c.Helper()
	promise := c.s.Features().Durability
	if c.h.Restart == nil && promise == store.Volatile {
		c.Skip("the backend keeps nothing when its store is closed, and says so")
	}
	if c.h.Restart == nil && c.h.Reopen == nil {
		c.Fatalf("Features().Durability: saw %v, which nothing proves: give the harness a Restart, or say store.Volatile", promise)
	}
	c.s = c.fresh()
	c.s2 = c.s
}

// restart closes the case's store and opens another on the same data.
func (c *C) restart() {
	c.Helper()
	if c.h.Restart != nil {
		c.s = c.h.Restart(c.host, c.s)
	} else {
		if c.anchor == nil {
			c.anchor = c.s
		}
		c.ok("Close", c.s.Close())
		c.s = c.h.Reopen(c.host, c.anchor)
	}
	c.s2 = c.s
}

// did makes one call, which is acknowledged, restarts the store, and checks that nothing has
// changed.
func (c *C) did(what string, call func()) {
	c.Helper()
	call()
	before := c.picture()
	c.restart()
	c.samePicture("after "+what+" and a restart", before, c.picture())
}

// picture returns everything that can be read of the case's namespace, as JSON, by kind.
func (c *C) picture() map[string]string {
	c.Helper()
	all := map[string]string{}
	put := func(v any, format string, args ...any) {
		text, err := json.Marshal(v)
		c.ok("reading", err)
		all[fmt.Sprintf(format, args...)] = string(text)
	}
	ids := c.listAll(store.ListParams{Limit: store.MaxPage, OldestFirst: true}, nil)
	put(ids, "the order of runs")
	for _, r := range c.gets(ids...) {
		put(r, "run %s", r.ID)
		put(c.steps(r.ID), "steps of run %s", r.ID)
		put(c.inbox(r.ID), "inbox of run %s", r.ID)
		if r.ExternalID != "" {
			found, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: r.ExternalID, Suffix: r.Suffix})
			c.ok("Find", err)
			put(found.ID, "holder of external id %s%s", r.ExternalID, r.Suffix)
		}
		if store.Able(c.s, store.Streams) {
			put(c.items(r.ID, "", 0), "items of run %s", r.ID)
		}
		if x, ok := c.s.(store.Exporter); ok {
			sent, err := x.Sent(c.ctx, store.SentParams{Namespace: c.ns, Run: r.ID})
			c.ok("Sent", err)
			put(sent, "signals sent to run %s", r.ID)
			for _, s := range sent.Signals {
				put(c.answer(r.ID, s.ID), "answer to signal %s", s.ID)
			}
		}
	}
	counts, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns})
	c.ok("Count", err)
	put(counts, "counts")
	for _, s := range c.schedules(store.ListSchedulesParams{}).Schedules {
		put(s, "schedule %s", s.Name)
		put(c.firings(s.Name), "firings of schedule %s", s.Name)
	}
	put(c.workers(), "workers")
	put(c.workflows(), "workflows")
	paused, err := c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: c.ns})
	c.ok("ListPaused", err)
	put(paused.Paused, "paused")
	if j, ok := c.s.(store.Journal); ok {
		put(c.actions(j, store.ListActionsParams{}), "actions")
	}
	if _, ok := c.s.(store.Outboxer); ok {
		for _, s := range c.subscriptions() {
			put(s, "subscription %s", s.Name)
			put(c.dueIn(s.Name, 0), "changes of subscription %s", s.Name)
		}
	}
	return all
}

// samePicture reports differences.
func (c *C) samePicture(when string, before, after map[string]string) {
	c.Helper()
	var diff []string
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if after[key] != before[key] {
			now := after[key]
			if now == "" {
				now = "nothing"
			}
			diff = append(diff, fmt.Sprintf("%s: saw %s, expected %s", key, now, before[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, known := before[key]; !known {
			diff = append(diff, fmt.Sprintf("%s: saw %s, which was not there before", key, after[key]))
		}
	}
	if len(diff) > 0 {
		c.Fatalf("%s:\n%s", when, strings.Join(diff, "\n"))
	}
}

// The cases of Durability. Each write is the last one before the store ends, so that a backend that
// delays writes has not written it.
var durableCases = []Case{
	{"durable/runs", "", "a created run is unchanged after a restart, keeps its external id, and is not created again", func(c *C) {
		c.ownStore()
		full := fill(store.NewRun{Input: []byte{0, 1, 255}, Meta: []byte("m"), Priority: 7, ExternalID: "e", Suffix: "/s", Digest: make([]byte, 32), After: time.Hour, Timeout: 3 * time.Hour})
		c.did("Create", func() { c.create(full) })
		again := c.creates(full)[0]
		c.eq("ID of the same create", again.ID, full.ID)
		c.eq("Repeated of the same create", again.Repeated, true)
		other := full
		other.ID = store.NewID()
		c.eq("ID of a create that meets the external id", c.creates(other)[0].ID, full.ID)
		eager := fill(store.NewRun{Worker: aWorker, LeaseFor: aLease})
		c.did("Create with a lease", func() { c.create(eager) })
		lease := store.Lease{Run: eager.ID, Worker: aWorker, Epoch: c.get(eager.ID).Epoch}
		c.did("the end of a run", func() {
			c.commit(store.Commit{Lease: lease, Steps: []store.StepRecord{step(1, "a", "x")}, Transition: failWith("x")})
		})
		c.did("Restart", func() {
			c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{eager.ID}, Now: c.now})))
		})
		c.lost("commit of before Restart", store.Commit{Lease: lease, Seq: 2, Transition: complete("late")})
		fork := store.NewID()
		c.did("Fork", func() { c.fork(store.ForkParams{ID: eager.ID, New: fork}) })
		c.eq("Repeated of the same fork", c.fork(store.ForkParams{ID: eager.ID, New: fork}).Repeated, true)
		many := c.createN(200, store.NewRun{})
		c.restart()
		c.eq("runs of one call", len(c.gets(many...)), len(many))
	}},
	{"durable/commits", "", "everything that a commit has recorded is there after a restart, and the commit sent again is recognized", func(c *C) {
		c.ownStore()
		run := c.start()
		sig := c.signal(run.Run.ID, "s", "p")
		ks := kids(3)
		var cm store.Commit
		again := func(what string) {
			c.Helper()
			before := c.picture()
			res := c.tryCommit(cm)
			c.ok(what+" again", res.Err)
			c.eq("Repeated of "+what, res.Repeated, true)
			c.samePicture("after "+what+" was sent again", before, c.picture())
		}
		cm = store.Commit{
			Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "x"), step(2, "b", "")}, Consumed: []store.SignalID{sig},
			State: []store.StateWrite{{Key: "k", Value: []byte("v")}, {Key: "l", Value: []byte{}}}, Spawn: ks[:2],
		}
		if store.Able(c.s, store.Streams) {
			w := c.writes(run)
			c.did("an append", func() { w.append("a", "b") })
			cm.Streams = []store.StreamWrite{w.write("c")}
		}
		c.did("a commit of steps, state, a signal and children", func() { c.commit(cm) })
		again("the commit")
		failed := step(3, "d", "")
		failed.Status, failed.Output, failed.Failure, failed.Attempt = store.StepFailed, nil, &store.Failure{Code: "x", Message: "m", Details: []byte("d")}, 2
		cm = store.Commit{Lease: run.Lease, Seq: 2, Steps: []store.StepRecord{failed}, State: []store.StateWrite{{Key: "k", Delete: true}}, Spawn: ks[2:]}
		c.did("a second commit", func() { c.commit(cm) })
		again("the second commit")
		for i, t := range []*store.Transition{complete("o"), failWith("x")} {
			c.did("the end of a child", func() { c.end(c.claimKid(), t) })
			g := c.group(run.Run.ID)
			c.eq("children of the group that are open", g.Open, int64(2-i))
		}
		c.lost("a commit that skips one", store.Commit{Lease: run.Lease, Seq: 4, Transition: complete("o")})
		cm = store.Commit{Lease: run.Lease, Seq: 3, Steps: []store.StepRecord{step(4, "e", "z")}, Transition: complete("out")}
		c.did("the end", func() { c.commit(cm) })
		again("the end")
	}},
	{"durable/leases", "", "leases, their ends and epochs survive a restart: nobody else gets the run before its time, the holder continues, and no epoch is used twice", func(c *C) {
		c.ownStore()
		id := c.create(store.NewRun{})
		p := store.ClaimParams{Max: 1, ClaimID: 77}
		var run store.ClaimedRun
		c.did("Claim", func() { run = c.one(c.claim(p).Runs) })
		c.claimNone("another has its lease")
		p.Again = true
		c.eq("the lease of the claim sent again", c.one(c.claim(p).Runs).Lease, run.Lease)
		c.advance(aLease / 2)
		c.did("Extend", func() { c.eq("Lost", c.extend(run.Lease).Lost, false) })
		c.advance(aLease - time.Microsecond)
		c.claimNone("the lease was extended")
		c.did("a commit of the holder", func() { c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x")}}) })
		c.advance(time.Microsecond)
		var next store.ClaimedRun
		c.did("the takeover", func() { next = c.claim1As("w2") })
		c.eq("the run", next.Run.ID, id)
		c.eq("Epoch", next.Lease.Epoch, run.Lease.Epoch+1)
		c.lost("commit of the old lease", store.Commit{Lease: run.Lease, Transition: complete("late")})
		c.eq("Lost of the old lease", c.extend(run.Lease).Lost, true)
		for range 3 {
			c.did("Release", func() { c.end(next, release()) })
			epoch := next.Lease.Epoch
			c.did("the next claim", func() { next = c.claim1As("w2") })
			c.eq("Epoch", next.Lease.Epoch, epoch+1)
		}
		c.did("a retry", func() { c.end(next, retryIn(time.Hour)) })
		c.claimNone("its retry waits")
		c.advance(time.Hour)
		last := c.claim1()
		c.eq("Epoch", last.Lease.Epoch, next.Lease.Epoch+1)
		c.eq("Attempt", last.Run.Attempt, 2)
	}},
	{"durable/coordination", "", "signals keep their order, consumed ones stay consumed and are recognized when they are sent again, and versions of state continue", func(c *C) {
		c.ownStore()
		run := c.start()
		id := run.Run.ID
		var sent []store.NewSignal
		for _, text := range []string{"a", "b", "d"} {
			c.did("Signal", func() {
				sent = append(sent, store.NewSignal{ID: store.NewID(), Run: id, Name: "s", Payload: []byte(text)})
				c.ok("Signal's item", c.signals(sent[len(sent)-1])[0].Err)
			})
		}
		c.did("the answer to a signal", func() { c.commit(replies(run, output(sent[0].ID, "yes"), nil)) })
		for _, sig := range sent {
			c.ok("Signal again", c.signals(sig)[0].Err)
		}
		c.signal(id, "s", "e")
		c.eq("signals", payloads(c.inbox(id).Signals), []string{"b", "d", "e"})
		var versions []int64
		for i := range 3 {
			c.did("SetState", func() { versions = append(versions, c.setState(id, "k", fmt.Sprint(i)).Version) })
			c.check(i == 0 || versions[i] > versions[i-1], "versions: saw %v, expected them to grow", versions)
		}
		c.did("the deletion of a state key", func() {
			_, err := c.trySetState(id, store.StateWrite{Key: "gone", Value: []byte("v")}, store.StateWrite{Key: "other", Value: []byte("v")})
			c.ok("SetState", err)
			_, err = c.trySetState(id, store.StateWrite{Key: "gone", Delete: true})
			c.ok("SetState", err)
		})
		_, err := c.trySetState(id, store.StateWrite{Key: "k", Value: []byte("x"), IfVersion: ptr(versions[1])})
		c.fails("SetState of an old version", err, store.ErrConflict)
		entries, err := c.trySetState(id, store.StateWrite{Key: "k", Value: []byte("x"), IfVersion: ptr(versions[2])})
		c.ok("SetState of the version", err)
		c.check(entries[0].Version > versions[2], "Version: saw %d, expected it above %d", entries[0].Version, versions[2])
	}},
	{"durable/sleepers", "", "a sleeping run keeps its time and what it waits for, and one that was woken stays awake", func(c *C) {
		c.ownStore()
		timer := c.start()
		c.did("Sleep for a time", func() { c.end(timer, sleepFor(time.Hour)) })
		inbox := c.start()
		c.did("Sleep on a signal", func() { c.end(inbox, sleepOn(store.WakeSignal)) })
		state := c.start()
		c.did("Sleep on state", func() { c.end(state, sleepOn(store.WakeState)) })
		ks := kids(2)
		var parent store.ID
		c.did("Sleep until children end", func() { parent = c.family(sleepAwait(allOf), ks...) })
		c.claimNone("all sleep")
		c.did("the end of one child", func() { c.end(c.claimKid(), complete("")) })
		c.asleep(parent, "with one child open")
		c.did("the end of the other", func() { c.end(c.claimKid(), complete("")) })
		c.awake(parent, "with both final")
		c.did("the state change", func() { c.setState(state.Run.ID, "k", "v") })
		c.awake(state.Run.ID, "after its state was set")
		c.did("the signal", func() { c.signal(inbox.Run.ID, "s", "p") })
		c.awake(inbox.Run.ID, "after its signal")
		c.eq("time of the first", c.get(timer.Run.ID).VisibleAt, c.now.Add(time.Hour))
		c.advance(time.Hour)
		c.eq("runs that are due", len(c.claimN(9)), 4)
	}},
	{"durable/control", "", "pauses and cancels survive a restart, as does the status to which a paused run returns", func(c *C) {
		c.ownStore()
		waits := c.create(store.NewRun{After: time.Hour})
		c.did("the pause of a run that waits", func() { c.eq("status", c.pause(waits), store.Paused) })
		sleeper := c.recorded(sleepOn(store.WakeSignal))
		c.did("the pause of a sleeper", func() { c.pause(sleeper.Run.ID) })
		held := c.start()
		c.did("the pause of a run that is held", func() { c.pause(held.Run.ID) })
		c.did("its next transition", func() { c.end(held, release()) })
		c.status(held.Run.ID, store.Paused)
		c.did("the resumption of the sleeper", func() { c.eq("status", c.resume(sleeper.Run.ID), store.Sleeping) })
		c.did("the resumption of the others", func() { c.tryPause(true, waits, held.Run.ID) })
		c.status(waits, store.Pending)
		c.did("Cancel of what waits", func() { c.eq("status", c.cancel(waits), store.Canceled) })
		run := c.claim1()
		c.did("Cancel of what is held", func() { c.cancel(run.Run.ID) })
		c.eq("Canceling", c.extend(run.Lease).Canceling, true)
		c.did("Cancel by force", func() { c.force(run.Run.ID) })
		c.lost("a commit of it", store.Commit{Lease: run.Lease, Transition: complete("late")})
		c.did("Cancel of a parent", func() {
			parent := c.family(sleepAwait(allOf), kids(2)...)
			c.cancel(parent)
		})
	}},
	{"durable/schedules", "", "schedules and firings survive a restart: what has fired does not fire again", func(c *C) {
		c.ownStore()
		at := c.now
		c.did("PutSchedule", func() { c.putSchedule(c.schedule("s")) })
		read := c.theSchedule("s")
		run := fill(store.NewRun{Input: []byte("in")})
		c.did("Fire", func() { c.mustFire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &run}) })
		c.advance(time.Hour)
		c.did("a firing that is skipped", func() {
			c.mustFire(store.FireParams{Schedule: "s", At: at.Add(time.Hour), Next: at.Add(2 * time.Hour)})
		})
		second := fill(store.NewRun{})
		res, err := c.fire(store.FireParams{Schedule: "s", At: at, Next: at.Add(time.Hour), Run: &second})
		c.ok("Fire again", err)
		c.eq("Fire again", res, store.FireResult{Run: run.ID})
		c.did("PutSchedule again", func() {
			s := c.schedule("s")
			s.Spec, s.Paused = "@daily", true
			c.putSchedule(s)
		})
		c.check(c.theSchedule("s").UpdatedAt.After(read.UpdatedAt), "UpdatedAt: saw it not grow")
	}},
	{"durable/registry", "", "workers, workflows, pauses of queues, locks and actions survive a restart", func(c *C) {
		c.ownStore()
		c.did("PutWorker", func() {
			c.putWorker(store.Worker{ID: aWorker, Host: "h", PID: 7, Queues: []string{aQueue}, Workflows: []string{aWorkflow}, Labels: map[string]string{"a": "b"}, Slots: 3, TTL: time.Minute, Answers: 20 * time.Second})
		})
		c.advance(time.Second)
		c.did("AskWorkers", func() { c.eq("asked", c.ask(time.Millisecond), 1) })
		c.did("a sign of life", func() { c.extendAs(aWorker) })
		c.did("PutWorkflows", func() {
			c.putWorkflows(store.Workflow{Name: aWorkflow, Queue: aQueue, Meta: []byte("m")}, store.Workflow{Name: "x", Queue: aQueue})
		})
		c.create(store.NewRun{})
		c.did("the pause of a queue", func() { c.setPaused(aQueue, "", true) })
		c.claimNone("its queue is paused")
		c.did("the pause of a workflow", func() { c.setPaused("", aWorkflow, true) })
		c.did("the end of the queue's pause", func() { c.setPaused(aQueue, "", false) })
		c.claimNone("its workflow is paused")
		c.lock("l", "me", time.Minute)
		c.restart()
		until := c.now.Add(time.Minute)
		c.eq("the lock for another", c.lock("l", "you", time.Minute), store.LockResult{Owner: "me", Until: until})
		if j, ok := c.s.(store.Journal); ok {
			c.did("Record", func() { c.act(j, store.Action{ID: store.NewID(), Actor: "ada@web", Verb: "pause", Target: "x"}) })
		}
	}},
	{"durable/deletes", "", "what was deleted stays deleted after a restart", func(c *C) {
		c.ownStore()
		run := c.startWith(store.NewRun{ExternalID: "e", Reuse: store.ReuseNever})
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x")}, State: []store.StateWrite{{Key: "k"}}, Transition: complete("")})
		c.advance(time.Hour)
		c.did("Purge", func() { c.eq("purged", c.purge(store.PurgeParams{}), 1) })
		c.eq("purged runs", len(c.gets(run.Run.ID)), 0)
		c.eq("its steps", len(c.allSteps(run.Run.ID)), 0)
		c.eq("a create of the external id", c.creates(fill(store.NewRun{ExternalID: "e"}))[0].Created, true)
		c.putWorker(store.Worker{ID: aWorker, TTL: time.Minute})
		c.did("RemoveWorker", func() {
			c.ok("RemoveWorker", c.s.RemoveWorker(c.ctx, store.RemoveWorkerParams{Namespace: c.ns, ID: aWorker}))
		})
		c.eq("workers", len(c.workers()), 0)
		c.putSchedule(c.schedule("s"))
		c.mustFire(store.FireParams{Schedule: "s", At: c.now, Next: c.now.Add(time.Hour)})
		c.did("DeleteSchedule", func() {
			c.ok("DeleteSchedule", c.s.DeleteSchedule(c.ctx, store.DeleteScheduleParams{Namespace: c.ns, Name: "s"}))
		})
		c.eq("schedules", len(c.schedules(store.ListSchedulesParams{}).Schedules), 0)
		c.setPaused(aQueue, "", true)
		c.did("the end of a pause", func() { c.setPaused(aQueue, "", false) })
		c.lock("l", "me", time.Minute)
		c.lock("l", "me", 0)
		c.restart()
		c.eq("the lock that was given back", c.lock("l", "you", time.Minute).Held, true)
		if j, ok := c.s.(store.Journal); ok {
			c.act(j, store.Action{ID: store.NewID(), Actor: "ada@web", Verb: "pause", Target: "x"})
			c.advance(time.Hour)
			c.did("what forgets actions", func() {
				c.ok("Record", j.Record(c.ctx, store.RecordParams{Namespace: c.ns, KeepFor: time.Minute, Now: c.now}))
			})
		}
	}},
}

// allSteps reads the steps of a run that may be gone.
func (c *C) allSteps(id store.ID) []store.Step {
	page, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: id})
	if err != nil {
		c.fails("Steps of a run that is gone", err, store.ErrNotFound)
	}
	return page.Steps
}
