package storetier

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A rule that holds for the first time must hold for the third, and for a listing whose last row is
// gone.

// eachTime is how often a case repeats what must hold each time.
const eachTime = 5

// behindGone reads a listing page by page and removes the last row of each page before it asks for
// the next: every name is nevertheless listed once.
func (c *C) behindGone(names []string, read func(cursor string) (page []string, next string), remove func(name string)) {
	c.Helper()
	seen := []string{}
	for cursor := ""; len(seen) <= len(names); {
		page, next := read(cursor)
		seen = append(seen, page...)
		if next == "" {
			break
		}
		remove(page[len(page)-1])
		cursor = next
	}
	c.eq("the rows of a listing in which the last row of each page is removed", seen, names)
}

var againCases = []Case{
	{"list/behind-a-purged-run", "P14", "a listing continues after a run that was purged, in each order, also by end", func(c *C) {
		purge := func(id string) {
			c.Helper()
			c.ok("Purge", second(c.s.Purge(c.ctx, store.PurgeParams{Namespace: c.ns, Workflow: id, Now: c.now})))
		}
		for i, p := range []store.ListParams{{}, {OldestFirst: true}, {ByEnd: true}, {ByEnd: true, OldestFirst: true}, {Filter: store.RunFilter{Statuses: []store.Status{store.Canceled}}}, {Filter: store.RunFilter{Queue: "f"}}} {
			var names []string
			queue := cmp.Or(p.Filter.Queue, fmt.Sprint("q", i))
			for j := range 7 {
				names = append(names, fmt.Sprintf("w%d-%d", i, j)) // each has its own workflow, by which it is purged
				c.tryCancel(c.create(store.NewRun{Queue: queue, Workflow: names[j]}))
				c.advance(time.Microsecond)
			}
			if !p.OldestFirst {
				slices.Reverse(names)
			}
			p.Limit = 2
			c.behindGone(names, func(cursor string) (page []string, next string) {
				p.Cursor = cursor
				got := c.list(p)
				for _, r := range got.Runs {
					page = append(page, r.Workflow)
				}
				return page, got.Next
			}, purge)
			c.purge(store.PurgeParams{})
		}
	}},
	{"children/behind-a-purged-child", "P14", "a page of children continues after a child that was purged", func(c *C) {
		ks := kids(7)
		for i := range ks {
			ks[i].Workflow = fmt.Sprint("k", i)
		}
		parent := c.family(complete(""), ks...)
		var seen []int64
		for after := int64(0); ; {
			list, err := c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: parent, Group: "g", After: after, Limit: 2})
			c.ok("Children", err)
			for _, r := range list.Children {
				seen = append(seen, r.Ordinal)
			}
			if after = list.Next; after == 0 || len(list.Children) == 0 {
				break
			}
			c.eq("purged", c.purge(store.PurgeParams{Workflow: list.Children[len(list.Children)-1].Workflow}), 1)
		}
		c.eq("ordinals", seen, []int64{1, 2, 3, 4, 5, 6, 7})
	}},
	{"steps/behind-a-forgotten-step", "P14", "a page of steps continues after a position whose step was deleted", func(c *C) {
		run := c.start()
		var recs []store.StepRecord
		for i := range 6 {
			rec := step(int64(i+1), fmt.Sprint("s", i+1), "")
			rec.Branch = fmt.Sprint("b", i+1)
			if i == 1 {
				rec.Status, rec.Output, rec.Failure = store.StepFailed, nil, &store.Failure{Code: "x"}
			}
			recs = append(recs, rec)
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs})
		page, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: run.Run.ID, Limit: 2})
		c.ok("Steps", err)
		c.eq("the first page", namesOf(page.Steps), []string{"s1", "s2"})
		c.end(run, retryIn(0))
		page, err = c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: run.Run.ID, After: page.Steps[1].Position})
		c.ok("Steps", err)
		c.eq("the second page", namesOf(page.Steps), []string{"s3", "s4", "s5", "s6"})
	}},
	{"schedules/behind-a-deleted-schedule", "P14", "a listing of schedules continues after one that was deleted", func(c *C) {
		names := numbered(7)
		for _, name := range names {
			c.putSchedule(c.schedule(name))
		}
		c.behindGone(names, func(cursor string) ([]string, string) {
			page := c.schedules(store.ListSchedulesParams{Cursor: cursor, Limit: 2})
			return scheduleNames(page), page.Next
		}, func(name string) {
			c.ok("DeleteSchedule", c.s.DeleteSchedule(c.ctx, store.DeleteScheduleParams{Namespace: c.ns, Name: name}))
		})
	}},
	{"workers/behind-a-removed-worker", "P14", "a listing of workers continues after one that was removed", func(c *C) {
		names := numbered(7)
		for _, name := range names {
			c.putWorker(store.Worker{ID: name, TTL: time.Minute})
		}
		c.behindGone(names, func(cursor string) ([]string, string) {
			ids, next, err := c.workerPage(store.ListWorkersParams{Cursor: cursor, Limit: 2})
			c.ok("ListWorkers", err)
			return ids, next
		}, func(name string) {
			c.ok("RemoveWorker", c.s.RemoveWorker(c.ctx, store.RemoveWorkerParams{Namespace: c.ns, ID: name}))
		})
	}},
	{"pause/behind-a-resumed-target", "P14", "a listing of what is paused continues after a queue or a workflow that was resumed", func(c *C) {
		names := numbered(4) // as workflows, which are listed first, and as queues
		for _, name := range names {
			c.setPaused(name, "", true)
			c.setPaused("", name, true)
		}
		var want []string
		for _, kind := range []string{"workflow ", "queue "} {
			for _, name := range names {
				want = append(want, kind+name)
			}
		}
		c.behindGone(want, func(cursor string) (page []string, next string) {
			got, err := c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: c.ns, Cursor: cursor, Limit: 2})
			c.ok("ListPaused", err)
			for _, t := range got.Paused {
				if t.Queue != "" {
					page = append(page, "queue "+t.Queue)
				} else {
					page = append(page, "workflow "+t.Workflow)
				}
			}
			return page, got.Next
		}, func(name string) {
			if queue, ok := strings.CutPrefix(name, "queue "); ok {
				c.setPaused(queue, "", false)
			} else {
				c.setPaused("", strings.TrimPrefix(name, "workflow "), false)
			}
		})
	}},
	{"state/behind-a-deleted-key", "P14", "a page of state continues after a key that was deleted", func(c *C) {
		id := c.create(store.NewRun{})
		names := numbered(7)
		for _, name := range names {
			c.setState(id, name, "v")
		}
		c.behindGone(names, func(cursor string) (page []string, next string) {
			page = keysOf(c.entries(store.GetStateParams{Run: id, After: cursor, Limit: 2}))
			if len(page) > 0 {
				next = page[len(page)-1]
			}
			return page, next
		}, func(name string) {
			c.ok("SetState", second(c.trySetState(id, store.StateWrite{Key: name, Delete: true})))
		})
	}},
	{"inbox/behind-a-consumed-signal", "P17", "an inbox continues after a signal that was consumed in the meantime", func(c *C) {
		run := c.start()
		ids := map[string]store.SignalID{}
		names := numbered(6)
		for _, name := range names {
			ids[name] = c.signal(run.Run.ID, name, name)
		}
		first := c.box(store.InboxParams{Run: run.Run.ID}).Signals[2]
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{ids[names[2]], ids[names[0]]}})
		c.eq("signals behind a consumed one", payloads(c.box(store.InboxParams{Run: run.Run.ID, After: first.Position}).Signals), names[3:])
	}},
	{"namespaces/locks", "P15", "locks of one name in two namespaces are two locks: each is taken, extended, released and expires separately, by one owner or by two", func(c *C) {
		for _, owner := range []string{"a", "b"} {
			name := "l" + owner
			until := c.lock(name, "a", time.Minute).Until
			held := store.LockResult{Owner: "a", Until: until}
			home := c.ns
			here := func(what string) {
				c.Helper()
				c.ns = home
				c.eq("the lock here, "+what, c.lock(name, "c", time.Hour), held)
				c.ns = home + "/abroad"
			}
			c.ns = home + "/abroad"
			c.eq("Held there", c.lock(name, owner, 10*time.Second).Held, true)
			here("taken there")
			c.eq("Until of the extension there", c.lock(name, owner, time.Hour).Until, c.now.Add(time.Hour))
			here("extended there")
			c.lock(name, owner, 0)
			here("given back there")
			c.lock(name, owner, time.Second)
			c.advance(2 * time.Second)
			c.eq("Held there by another, when it has run out", c.lock(name, "c", time.Hour).Held, true)
			here("run out there")
			c.ns = home
			c.lock(name, "a", 0)
			c.ns = home + "/abroad"
			c.eq("Owner there, given back here", c.lock(name, "a", time.Hour).Owner, "c")
			c.ns = home
		}
	}},
	{"children/earlier-await-is-forgotten", "P9", "what an earlier sleep awaited neither wakes a later sleep nor is an event of it, whatever ended the earlier sleep, and however many there were", func(c *C) {
		ks := kids(2*eachTime + 2)
		t := sleepAwait(store.Await{Group: "g", Open: 2 * eachTime}, store.Await{Group: "g", Failures: 2})
		t.After = time.Minute
		id := c.family(t, ks...)
		for i := range eachTime {
			c.advance(time.Minute)
			c.end(c.claim1(), &store.Transition{Kind: store.Sleep, After: time.Minute, Await: []store.Await{{Group: "g", Open: int64(2*eachTime + 1 - 2*i)}}})
			c.advance(time.Minute)
			run := c.claim1()
			if i%2 == 0 {
				c.end(run, []*store.Transition{release(), retryIn(0)}[i/2%2])
				run = c.claim1()
			}
			c.end(run, &store.Transition{Kind: store.Sleep, After: time.Minute, Wakes: store.WakeState})
			before := c.get(id)
			c.advance(time.Second)
			c.end(c.claimKid(), failWith("x"))
			c.eq(fmt.Sprintf("the parent in its later sleep %d", i+1), c.get(id), before)
			c.pause(id)
			c.end(c.claimKid(), failWith("x"))
			c.resume(id)
			c.eq("the parent that was paused meanwhile", c.get(id), before)
		}
		c.eq("Events", c.get(id).Events, int64(0))
	}},
	{"children/earlier-await-of-another-group", "P9", "a sleep that awaits one group is not woken by another group, which only an earlier sleep awaited", func(c *C) {
		ks := kids(2)
		ks[1].Group = "h"
		t := sleepAwait(store.Await{Group: "g"})
		t.After = time.Minute
		id := c.family(t, ks...)
		children := map[store.ID]store.ClaimedRun{}
		for _, run := range c.claimKids(2) {
			children[run.Run.ID] = run
		}
		c.advance(time.Minute)
		c.end(c.claim1(), sleepAwait(store.Await{Group: "h"}))
		c.end(children[ks[0].ID], complete(""))
		c.asleep(id, "when the group of its earlier sleep is complete")
		c.end(children[ks[1].ID], complete(""))
		c.awake(id, "when the group of its later sleep is complete")
	}},
	{"sleep/each-wakes", "P5", "each sleep of a run is woken by what it asks for, and not by what an earlier sleep asked for", func(c *C) {
		run := c.start()
		id := run.Run.ID
		for i := range 3 * eachTime {
			switch i % 3 {
			case 0:
				c.end(run, sleepOn(store.WakeSignal))
				c.setState(id, "k", "v")
				c.eq("VisibleAt when state was set", c.get(id).VisibleAt, time.Time{})
				c.signal(id, "n", fmt.Sprint(i))
			case 1:
				c.end(run, sleepOn(store.WakeState))
				c.signal(id, "n", fmt.Sprint(i))
				c.eq("VisibleAt when a signal came", c.get(id).VisibleAt, time.Time{})
				c.setState(id, "k", "v")
			default:
				due := c.now.Add(time.Minute)
				c.end(run, sleepFor(time.Minute))
				c.signal(id, "n", fmt.Sprint(i))
				c.setState(id, "k", "v")
				c.eq("VisibleAt of a sleep for its time alone", c.get(id).VisibleAt, due)
				c.advance(time.Minute - time.Microsecond)
				c.claimNone("its time has not come")
				c.advance(time.Microsecond)
			}
			c.eq(fmt.Sprintf("whether the run is due, after %d sleeps", i+1), !c.get(id).VisibleAt.After(c.now), true)
			run = c.claim1()
		}
		c.eq("signals, all of one name", len(run.Inbox.Signals), 3*eachTime)
	}},
	{"commit/retry-waits-each-time", "P13", "each retry waits for its delay, the thirtieth like the first, whether the delay is short or long", func(c *C) {
		run := c.start()
		for n := 1; n <= 30; n++ {
			delay := time.Duration(n*n)*time.Second + time.Duration(n)*time.Microsecond
			if n > 20 {
				delay = 400 * 24 * time.Hour * time.Duration(n)
			}
			due := c.now.Add(delay)
			res := c.end(run, retryIn(delay))
			c.eq(fmt.Sprintf("VisibleAt of retry %d", n), res.VisibleAt, due)
			c.now = due.Add(-time.Microsecond)
			c.claimNone(fmt.Sprintf("a microsecond of retry %d is left", n))
			c.now = due
			run = c.claim1()
			c.eq("Attempt", run.Run.Attempt, n+1)
		}
	}},
	{"claim/crashes-each-time", "P6", "each lease that expires is a crash: the third and the fifth like the first, also again after progress", func(c *C) {
		id := c.create(store.NewRun{})
		epoch := int64(0)
		for round := range 2 {
			for n := range eachTime {
				run := c.claim1As(fmt.Sprint("w", n))
				epoch++
				c.eq(fmt.Sprintf("Crashes, Recovered and Epoch of claim %d in round %d", n+1, round+1), []any{run.Run.Crashes, run.Recovered, run.Lease.Epoch}, []any{n, n > 0, epoch})
				c.eq("VisibleAt", run.Run.VisibleAt, c.now.Add(aLease))
				c.advance(aLease - time.Microsecond)
				c.claimNone("the lease stands")
				c.advance(time.Microsecond)
			}
			run := c.claim1()
			epoch++
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(int64(round+1), fmt.Sprint("s", round), "")}, Transition: release()})
			c.eq("Crashes behind progress", c.get(id).Crashes, 0)
		}
	}},
	{"extend/each-time-anew", "P13", "each extension counts from its own moment, and the lease ends then, neither before nor after", func(c *C) {
		run := c.start()
		for n := range eachTime {
			c.advance(30 * time.Second)
			c.eq("the lease", c.extend(run.Lease), store.LeaseState{})
			c.eq(fmt.Sprintf("VisibleAt of extension %d", n+1), c.get(run.Run.ID).VisibleAt, c.now.Add(aLease))
		}
		c.advance(aLease - time.Microsecond)
		c.claimNone("the last extension holds")
		c.advance(time.Microsecond)
		c.claim1()
	}},
	{"claim/released-each-time", "P6", "a run that is released again and again keeps its attempt, has no crash, and is claimed at once each time", func(c *C) {
		run := c.recorded(release())
		for n := range eachTime {
			got := c.claim1()
			c.eq(fmt.Sprintf("Attempt, Crashes, Recovered and steps of claim %d", n+2), []any{got.Run.Attempt, got.Run.Crashes, got.Recovered, len(got.Steps)}, []any{1, 0, false, 1})
			c.eq("the run", got.Run.ID, run.Run.ID)
			c.end(got, release())
		}
	}},
	{"commit/continue-each-time", "P3", "each continuation starts again: no steps, no groups, attempt 1, the new input; state stays", func(c *C) {
		run := c.start()
		c.setState(run.Run.ID, "k", "v")
		for n := 1; n <= eachTime; n++ {
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "out")}, Spawn: []store.NewRun{{ID: store.NewID(), Workflow: kidFlow, Queue: kidQueue, Group: "g", Ordinal: 1, After: time.Hour}}, Transition: retryIn(0)})
			c.commit(store.Commit{Lease: c.claim1().Lease, Seen: 1, Transition: continueWith(fmt.Sprint(n))})
			run = c.claim1()
			c.eq(fmt.Sprintf("Generation, Attempt, steps, groups, state and failure %d", n),
				[]any{run.Run.Generation, run.Run.Attempt, len(run.Steps), len(run.Inbox.Groups), values(run.Inbox.State), run.Run.Failure}, []any{n, 1, 0, 0, []string{"k=v"}, (*store.Failure)(nil)})
			c.bytes("Input", run.Run.Input, []byte(fmt.Sprint(n)))
		}
	}},
	{"pause/each-time", "P11", "a run can be paused and resumed again and again, whether a worker holds it or not", func(c *C) {
		run := c.start()
		id := run.Run.ID
		for n := range eachTime {
			c.eq(fmt.Sprintf("pause %d of a leased run", n+1), c.pause(id), store.Running)
			c.eq("Pausing", c.extend(run.Lease).Pausing, true)
			c.resume(id)
			c.eq("Pausing when it was resumed", c.extend(run.Lease).Pausing, false)
			c.pause(id)
			c.eq("Status behind the transition", c.end(run, sleepFor(time.Hour)).Status, store.Paused)
			due := c.get(id).VisibleAt
			c.eq("resume", c.resume(id), store.Sleeping)
			c.eq(fmt.Sprintf("pause %d of a sleeping run", n+1), c.pause(id), store.Paused)
			c.advance(time.Hour)
			c.claimNone("it is paused")
			c.eq("resume", c.resume(id), store.Sleeping)
			c.eq("VisibleAt", c.get(id).VisibleAt, due)
			run = c.claim1()
		}
	}},
	{"restart/each-time", "P6", "each restart begins with attempt 1, an increased epoch, no failure, no crashes and the completed steps", func(c *C) {
		run := c.startWith(store.NewRun{Timeout: time.Hour})
		id := run.Run.ID
		for n := 1; n <= eachTime; n++ {
			bad := step(int64(100+n), "bad", "")
			bad.Status, bad.Failure = store.StepFailed, &store.Failure{Code: "x"}
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(int64(n), fmt.Sprint("s", n), ""), bad}, Transition: failWith("x")})
			c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})))
			got := c.get(id)
			c.eq(fmt.Sprintf("the run after restart %d", n),
				[]any{got.Status, got.Attempt, got.Crashes, got.Epoch, got.Failure, got.Deadline, got.VisibleAt, got.FinishedAt},
				[]any{store.Pending, 1, 0, run.Lease.Epoch + 1, (*store.Failure)(nil), time.Time{}, c.now, time.Time{}})
			c.eq("steps", len(c.steps(id)), n)
			c.lost("a commit of before", store.Commit{Lease: run.Lease, Seq: 2, Transition: complete("")})
			run = c.claim1()
			c.end(run, retryIn(0))
			run = c.claim1()
		}
	}},
	{"fork/of-forks", "P3", "a fork of a fork keeps its steps, and may itself be forked", func(c *C) {
		run := c.startWith(store.NewRun{Input: []byte("in"), Meta: []byte("m")})
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "s1", "o")}, Transition: release()})
		c.end(c.claim1(), complete(""))
		id := run.Run.ID
		for n := 2; n <= eachTime; n++ {
			fork := store.NewID()
			c.fork(store.ForkParams{ID: id, New: fork})
			got := c.get(fork)
			c.eq(fmt.Sprintf("the fork in generation %d", n), []any{got.Status, got.ForkedFrom, got.Attempt, got.Epoch, string(got.Input), string(got.Meta)}, []any{store.Pending, id, 1, int64(0), "in", "m"})
			c.eq("steps", len(c.steps(fork)), n-1)
			run = c.claim1()
			c.eq("the run that is claimed", run.Run.ID, fork)
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(int64(n), fmt.Sprint("s", n), "o")}, Transition: complete("")})
			id = fork
		}
	}},
	{"signal/each-of-one-name", "P17", "each signal of a name wakes the run, is read, and is removed when it is consumed, however many signals of that name and payload there were", func(c *C) {
		run := c.start()
		id := run.Run.ID
		for n := range eachTime {
			c.end(run, sleepOn(store.WakeSignal))
			c.advance(time.Second)
			sig := c.signal(id, "n", "same")
			c.eq(fmt.Sprintf("VisibleAt after signal %d", n+1), c.get(id).VisibleAt, c.now)
			run = c.claim1()
			c.eq("signals", payloads(run.Inbox.Signals), []string{"same"})
			c.eq("ID of the signal", run.Inbox.Signals[0].ID, sig)
			c.commit(store.Commit{Lease: run.Lease, Seen: run.Inbox.Events, Consumed: []store.SignalID{sig}})
			c.eq("signals that are left", len(c.inbox(id).Signals), 0)
		}
	}},
	{"lock/extended-each-time", "P13", "a lock that its owner extends again and again lasts as long each time", func(c *C) {
		for n := range eachTime {
			c.eq(fmt.Sprintf("the lock for the time %d", n+1), c.lock("l", "a", time.Minute), store.LockResult{Held: true, Owner: "a", Until: c.now.Add(time.Minute)})
			c.advance(time.Minute - time.Microsecond)
			c.eq("Held by another a microsecond before its end", c.lock("l", "b", time.Minute).Held, false)
		}
	}},
	{"fire/each-time", "P10", "a schedule fires each of its times once, creates a run each time, and advances", func(c *C) {
		c.putSchedule(c.schedule("s"))
		for n := range eachTime {
			at, run := c.now, fill(store.NewRun{})
			c.advance(time.Hour)
			p := store.FireParams{Schedule: "s", At: at, Next: c.now, Run: &run, Seen: c.theSchedule("s").UpdatedAt}
			c.eq(fmt.Sprintf("firing %d", n+1), c.mustFire(p), store.FireResult{Fired: true, Made: true, Run: run.ID})
			res, err := c.fire(p)
			c.ok("Fire again", err)
			c.eq("the firing again", res, store.FireResult{Run: run.ID})
			s := c.theSchedule("s")
			c.eq("LastAt and NextAt", []time.Time{s.LastAt, s.NextAt}, []time.Time{at, c.now})
			c.eq("firings", len(c.firings("s")), n+1)
		}
		c.eq("runs", c.count(store.RunFilter{}), int64(eachTime))
	}},
	{"workers/asked-each-time", "P13", "a worker that has answered is asked again when it is silent again, and has the full time to answer each time", func(c *C) {
		c.putWorker(store.Worker{ID: "w", TTL: time.Hour, Answers: 10 * time.Second})
		for n := range eachTime {
			c.advance(time.Minute)
			c.eq(fmt.Sprintf("workers asked for the time %d", n+1), c.ask(time.Minute), 1)
			c.eq("AskedAt", c.workers()[0].AskedAt, c.now)
			c.advance(10*time.Second - time.Microsecond)
			c.eq("Status a microsecond before it must have answered", c.workers()[0].Status, store.Online)
			c.advance(time.Microsecond)
			c.eq("Status when it must have answered", c.workers()[0].Status, store.Offline)
			c.extendAs("w")
			c.eq("AskedAt and Status of who has answered", []any{c.workers()[0].AskedAt, c.workers()[0].Status}, []any{time.Time{}, store.Online})
		}
	}},
}
