package storetier

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/store"
)

// The cases of this file set no Now: the store's own clock decides. Times that the store returns
// are compared with readings of its clock before and after the call. In a bubble, the clock does
// not advance during a call, so there the two readings are equal and each time is exact.

// Tolerances of the store's own clock.
const (
	// clockStep is how far two readings of one moment may differ: a server may report only
	// milliseconds, while its store interpolates.
	clockStep = time.Millisecond
	// clockLate is how much too late a store may count durations if it knows the time only between
	// two bounds.
	clockLate = time.Second
	// clockLag is how far a store may set a time too early if it knows the time only between two
	// bounds, which are far apart when its server answers slowly.
	clockLag = 300 * time.Millisecond
	// clockEarly is how much a reading of the clock may lag behind the time that the store has just
	// used.
	clockEarly = 5 * time.Millisecond
)

// soon is a duration whose end a case waits for.
const soon = 20*time.Millisecond + 123*time.Microsecond

// aMoment is the pause between what a case does and what it measures next.
const aMoment = 3147 * time.Nanosecond

// patience limits such a wait.
const patience = 20 * time.Second

// spans are durations from a nanosecond, which counts as a microsecond, to a century. They
// exceed 32 bits of milliseconds, of seconds and of minutes.
var spans = []time.Duration{
	1, time.Microsecond, 1500, 999 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond, time.Second + time.Nanosecond, aLease,
	90 * time.Minute, 36 * time.Hour, 45 * 24 * time.Hour, 5 * 365 * 24 * time.Hour, 100 * 365 * 24 * time.Hour,
}

// roundedUp returns a duration as the store counts it.
func roundedUp(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// ownClock makes a case whose calls set no Now.
func ownClock(run func(c *C)) func(c *C) {
	return func(c *C) {
		c.now = time.Time{}
		run(c)
	}
}

// reading reads the store's clock.
func (c *C) reading() time.Time {
	c.Helper()
	t, err := c.s.Clock(c.ctx)
	c.ok("Clock", err)
	return t
}

// window is the time between two readings of the store's clock.
type window struct{ from, to time.Time }

// timed makes calls between two readings of the clock, at least a moment after what was done
// before.
func (c *C) timed(do func()) window {
	c.Helper()
	c.wait(aMoment)
	w := window{from: c.reading()}
	do()
	w.to = c.reading()
	return w
}

// wait lets time pass, also in a bubble.
func (c *C) wait(d time.Duration) {
	c.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
		c.Fatalf("the case took too long")
	}
}

// until asks again and again, until the answer is yes.
func (c *C) until(what string, ask func() bool) {
	c.Helper()
	for begin := time.Now(); !ask(); c.wait(1137 * time.Microsecond) {
		if time.Since(begin) > patience {
			c.Fatalf("%s: it has not come after %v", what, patience)
		}
	}
}

// happened reports a time that is not within the calls between two readings.
func (c *C) happened(what string, t time.Time, w window) {
	c.Helper()
	early := clockStep
	if !c.h.Bubble {
		early = clockLag
	}
	c.check(!t.Before(w.from.Add(-early)) && !t.After(w.to.Add(clockStep)), "%s: saw %s, expected it between %s and %s", what, show(t), show(w.from), show(w.to))
}

// comes reports a time that is not d after the calls between two readings: not before, and hardly
// later.
func (c *C) comes(what string, t time.Time, w window, d time.Duration) {
	c.Helper()
	d = roundedUp(d)
	late := clockLate
	if c.h.Bubble {
		late = 0
	}
	c.check(!t.Before(w.from.Add(d)) && !t.After(w.to.Add(d+late)), "%s, %v after the call: saw %s, expected it between %s and %s", what, d, show(t), show(w.from.Add(d)), show(w.to.Add(d)))
}

// notEarly reports something that was done before its time, as the clock shows afterwards.
func (c *C) notEarly(what string, due time.Time) {
	c.Helper()
	now := c.reading()
	c.check(!now.Before(due.Add(-clockEarly)), "%s: it is due at %s, and was done by %s", what, show(due), show(now))
}

// runClockInBubbles repeats the cases of the store's own clock, each in a bubble, where times are
// exact.
func runClockInBubbles(t *testing.T, h suite) {
	for _, cs := range clockCases {
		t.Run(cs.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := h.New(t)
				runCase(t, h, s, s, cs)
			})
		})
	}
}

var clockCases = []Case{
	{"clock/readings", "P13", "Clock, Claimed.Now and SchedulePage.Now return the same clock; it advances, exact to the microsecond", ownClock(func(c *C) {
		var last time.Time
		fine := 0
		for range 12 {
			var claimed, listed, made time.Time
			w := c.timed(func() {
				claimed = c.claim(store.ClaimParams{}).Now
				listed = c.schedules(store.ListSchedulesParams{}).Now
				made = c.get(c.create(store.NewRun{Queue: "idle"})).CreatedAt
			})
			c.happened("Claimed.Now", claimed, w)
			c.happened("SchedulePage.Now", listed, w)
			c.happened("CreatedAt", made, w)
			c.check(!w.from.Before(last), "Clock: saw %s behind %s", show(w.from), show(last))
			last = w.to
			if made.Nanosecond()/1000%1000 != 0 {
				fine++
			}
			c.eq("what is finer than a microsecond", []int{w.from.Nanosecond() % 1000, claimed.Nanosecond() % 1000, made.Nanosecond() % 1000}, []int{0, 0, 0})
		}
		c.check(fine > 6, "CreatedAt of 12 runs: saw microseconds that are not zero in %d, expected them in nearly all", fine)
	})},
	{"clock/creates", "P13", "a run's creation, its delay, its deadline and its first lease are counted from the store's clock when the run is created, from a microsecond to a century", ownClock(func(c *C) {
		var rs []store.NewRun
		for _, d := range spans {
			rs = append(rs, fill(store.NewRun{After: d}), fill(store.NewRun{Timeout: d}), fill(store.NewRun{Worker: aWorker, LeaseFor: d}))
		}
		var ids []store.ID
		var results []store.CreateResult
		w := c.timed(func() { results = c.creates(rs...) })
		for i, res := range results {
			c.ok("Create's item", res.Err)
			ids = append(ids, rs[i].ID)
		}
		for i, run := range c.gets(ids...) {
			c.happened("CreatedAt", run.CreatedAt, w)
			switch d := spans[i/3]; i % 3 {
			case 0:
				c.comes("VisibleAt of a delayed run", run.VisibleAt, w, d)
			case 1:
				c.comes("Deadline", run.Deadline, w, d)
				c.happened("VisibleAt of a run without a delay", run.VisibleAt, w)
			default:
				c.comes("VisibleAt of a leased run", run.VisibleAt, w, d)
				c.happened("StartedAt", run.StartedAt, w)
				c.eq("CreatedAt of the result", results[i].CreatedAt, run.CreatedAt)
			}
		}
		at := c.reading().Add(time.Hour)
		c.eq("VisibleAt of a time that is later than the delay", c.get(c.create(store.NewRun{At: at, After: time.Minute})).VisibleAt, at)
		w = c.timed(func() { ids[0] = c.create(store.NewRun{At: at, After: 2 * time.Hour}) })
		c.comes("VisibleAt of a delay that is later than the time", c.get(ids[0]).VisibleAt, w, 2*time.Hour)
	})},
	{"clock/claims", "P13", "a lease is counted from the store's clock at the claim; NextDue is its end", ownClock(func(c *C) {
		for i, d := range spans {
			q := fmt.Sprint("q", i)
			id := c.create(store.NewRun{Queue: q})
			var got store.Claimed
			w := c.timed(func() {
				got = c.claim(store.ClaimParams{LeaseFor: d, Demands: []store.Demand{demand(q, 1)}})
			})
			run := c.one(got.Runs).Run
			c.eq("the run", run.ID, id)
			c.happened("Claimed.Now", got.Now, w)
			c.happened("StartedAt", run.StartedAt, w)
			c.comes("VisibleAt", run.VisibleAt, w, d)
			c.eq("VisibleAt of the run", c.get(id).VisibleAt, run.VisibleAt)
			if d > time.Minute {
				c.eq("NextDue", c.claim(store.ClaimParams{Demands: []store.Demand{demand(q, 1)}}).NextDue, run.VisibleAt)
			}
		}
	})},
	{"clock/extends", "P13", "an extension counts from the store's clock when it is made, for each of its leases, and not from the end of the lease or from the claim", ownClock(func(c *C) {
		c.putWorker(store.Worker{ID: aWorker, TTL: time.Hour})
		c.createN(3, store.NewRun{})
		var leases []store.Lease
		for _, r := range c.claim(store.ClaimParams{Max: 3, LeaseFor: time.Hour}).Runs {
			leases = append(leases, r.Lease)
		}
		for _, d := range spans {
			w := c.timed(func() {
				states, err := c.s.Extend(c.ctx, store.ExtendParams{Namespace: c.ns, Worker: aWorker, Leases: leases, LeaseFor: d})
				c.ok("Extend", err)
				for _, st := range states {
					c.eq("the lease", st, store.LeaseState{})
				}
			})
			for _, l := range leases {
				c.comes("VisibleAt", c.get(l.Run).VisibleAt, w, d)
			}
			c.happened("SeenAt of the worker", c.workers()[0].SeenAt, w)
		}
	})},
	{"clock/records", "P13", "the times of a record, of state, of a child and of the end are those of the commit by the store's clock; Took is subtracted from it, DueIn is added to it", ownClock(func(c *C) {
		run := c.start()
		var recs []store.StepRecord
		for i, d := range spans {
			rec := step(int64(2*i+1), fmt.Sprint("a", i), "")
			rec.Took = d
			waits := step(int64(2*i+2), fmt.Sprint("b", i), "")
			waits.Status, waits.DueIn, waits.Took = store.StepRunning, d, time.Hour
			recs = append(recs, rec, waits)
		}
		child := kid(1)
		child.After, child.Timeout = 40*time.Minute, 45*24*time.Hour
		w := c.timed(func() {
			c.commit(store.Commit{Lease: run.Lease, Steps: recs, State: []store.StateWrite{{Key: "k", Value: []byte("v")}}, Spawn: []store.NewRun{child}})
		})
		for i, st := range c.steps(run.Run.ID) {
			d := spans[i/2]
			if i%2 == 0 {
				c.happened("FinishedAt", st.FinishedAt, w)
				c.happened(fmt.Sprintf("StartedAt and %v", d), st.StartedAt.Add(d.Truncate(time.Microsecond)), w)
				continue
			}
			c.comes("DueAt", st.DueAt, w, d)
			c.happened("StartedAt and an hour", st.StartedAt.Add(time.Hour), w)
		}
		c.happened("UpdatedAt of the state", c.getState(run.Run.ID)[0].UpdatedAt, w)
		born := c.get(child.ID)
		c.happened("CreatedAt of the child", born.CreatedAt, w)
		c.comes("VisibleAt of the child", born.VisibleAt, w, child.After)
		c.comes("Deadline of the child", born.Deadline, w, child.Timeout)
		w = c.timed(func() { c.commit(store.Commit{Lease: run.Lease, Transition: complete("")}) })
		c.happened("FinishedAt", c.get(run.Run.ID).FinishedAt, w)
		c.happened("FinishedAt of the child, which is canceled with it", c.get(child.ID).FinishedAt, w)
	})},
	{"clock/delays", "P13", "a sleep, a retry and a release count their delay from the store's clock at the commit, from a microsecond to a century, however long ago the claim was", ownClock(func(c *C) {
		kinds := []store.TransitionKind{store.Sleep, store.Retry, store.Release}
		c.createN(len(kinds)*len(spans), store.NewRun{})
		runs := c.claim(store.ClaimParams{Max: len(kinds) * len(spans), LeaseFor: time.Hour}).Runs
		var list []store.Commit
		for i, r := range runs {
			list = append(list, store.Commit{Lease: r.Lease, Transition: &store.Transition{Kind: kinds[i%3], After: spans[i/3]}})
		}
		var results []store.CommitResult
		w := c.timed(func() { results = c.commits(list...) })
		for i, got := range c.gets(runIDs(runs)...) {
			c.ok("Commit's item", results[i].Err)
			c.comes(fmt.Sprintf("VisibleAt of a %v", kinds[i%3]), got.VisibleAt, w, spans[i/3])
			c.eq("VisibleAt of the result", results[i].VisibleAt, got.VisibleAt)
		}
	})},
	{"clock/due", "P13", "a run is claimed when its time has come by the store's clock, and not before: a start, a deadline, a sleep, a retry, a release, a lease", ownClock(func(c *C) {
		c.createN(5, store.NewRun{})
		runs := c.claim(store.ClaimParams{Max: 5, LeaseFor: time.Hour}).Runs
		var list []store.Commit
		for i, t := range []*store.Transition{sleepFor(soon), retryIn(soon), {Kind: store.Release, After: soon}} {
			list = append(list, store.Commit{Lease: runs[i].Lease, Transition: t})
		}
		due := map[store.ID]time.Time{}
		ids := runIDs(runs)
		w := c.timed(func() {
			for _, res := range c.commits(list...) {
				c.ok("Commit's item", res.Err)
			}
			ids = append(ids, c.create(store.NewRun{After: soon}), c.create(store.NewRun{After: time.Hour, Timeout: soon}))
			eager := c.creates(fill(store.NewRun{Worker: aWorker, LeaseFor: soon}))[0]
			c.ok("Create's item", eager.Err)
			ids = append(ids, eager.ID)
			for _, r := range runs[3:] {
				c.ok("Extend", second(c.s.Extend(c.ctx, store.ExtendParams{Namespace: c.ns, Worker: aWorker, Leases: []store.Lease{r.Lease}, LeaseFor: soon})))
			}
		})
		for _, r := range c.gets(ids...) {
			due[r.ID] = r.VisibleAt
			c.comes("VisibleAt", r.VisibleAt, w, soon)
		}
		late := c.create(store.NewRun{After: time.Hour})
		c.until("what is due", func() bool {
			got := c.claim(store.ClaimParams{Max: 20, LeaseFor: time.Hour})
			for _, r := range got.Runs {
				c.check(r.Run.ID != late, "a run was claimed an hour before its time")
				c.notEarly(fmt.Sprintf("a claim at %s", show(got.Now)), due[r.Run.ID])
				delete(due, r.Run.ID)
			}
			return len(due) == 0
		})
	})},
	{"clock/events", "P13", "a signal, a write of state and the end of a child have the store's time, and so does a sleeping run that they wake", ownClock(func(c *C) {
		sleeper := func(t *store.Transition, children ...store.NewRun) store.ID {
			c.Helper()
			t.After = time.Hour
			run := c.start()
			c.commit(store.Commit{Lease: run.Lease, Spawn: children, Transition: t})
			return run.Run.ID
		}
		signaled, changed, parent := sleeper(sleepOn(store.WakeSignal)), sleeper(sleepOn(store.WakeState)), sleeper(sleepAwait(allOf), kid(1))
		child := c.claimKid()
		w := c.timed(func() {
			c.signal(signaled, "n", "x")
			c.happenedNow("UpdatedAt of the result", c.setState(changed, "k", "v").UpdatedAt)
			c.end(child, complete(""))
		})
		for _, r := range c.gets(signaled, changed, parent) {
			c.happened("VisibleAt of a sleeper that was woken", r.VisibleAt, w)
		}
		c.happened("SentAt", c.inbox(signaled).Signals[0].SentAt, w)
		c.happened("UpdatedAt", c.getState(changed)[0].UpdatedAt, w)
		c.happened("FinishedAt of the child", c.get(child.Run.ID).FinishedAt, w)
		run := c.startWith(store.NewRun{Queue: aQueue, Priority: store.MaxPriority})
		c.signal(run.Run.ID, "n", "x")
		w = c.timed(func() {
			res := c.end(run, &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal, After: time.Hour})
			c.eq("VisibleAt of the result", res.VisibleAt, c.get(run.Run.ID).VisibleAt)
		})
		c.happened("VisibleAt of a sleep that an event has ended", c.get(run.Run.ID).VisibleAt, w)
	})},
	{"clock/steering", "P13", "cancel, restart and fork take their times from the store's clock; a pause does not change a run's time", ownClock(func(c *C) {
		pending, asleep, failed := c.create(store.NewRun{After: time.Hour, Queue: "later"}), c.recorded(sleepFor(time.Hour)), c.recorded(failWith("x"))
		tree := c.family(sleepFor(time.Hour), kid(1))
		leased := c.start()
		until := c.get(leased.Run.ID).VisibleAt
		due := c.get(pending).VisibleAt
		c.pause(pending)
		c.resume(pending)
		c.eq("VisibleAt of a run that was paused and resumed", c.get(pending).VisibleAt, due)
		fork := store.NewID()
		w := c.timed(func() {
			c.tryCancel(pending, asleep.Run.ID, tree, leased.Run.ID)
			c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{failed.Run.ID}})))
			c.fork(store.ForkParams{ID: asleep.Run.ID, New: fork})
		})
		c.happened("FinishedAt of a pending run that was canceled", c.get(pending).FinishedAt, w)
		c.happened("FinishedAt of a parent that was canceled", c.get(tree).FinishedAt, w)
		for _, r := range c.childrenOf(tree) {
			c.happened("FinishedAt of a child that was canceled with its parent", r.FinishedAt, w)
		}
		c.happened("VisibleAt of a run that has something to clean up", c.get(asleep.Run.ID).VisibleAt, w)
		c.eq("VisibleAt of a leased run that was canceled", c.get(leased.Run.ID).VisibleAt, until)
		c.happened("VisibleAt of a run that was restarted", c.get(failed.Run.ID).VisibleAt, w)
		c.happened("CreatedAt of a fork", c.get(fork).CreatedAt, w)
		c.happened("VisibleAt of a fork", c.get(fork).VisibleAt, w)
		w = c.timed(func() { c.force(leased.Run.ID) })
		c.happened("FinishedAt of a run that was ended by force", c.get(leased.Run.ID).FinishedAt, w)
	})},
	{"clock/purges", "P13", "an age is counted from a run's end to the store's clock: younger runs stay", ownClock(func(c *C) {
		run := c.start()
		c.wait(soon) // since its creation
		c.end(run, complete(""))
		end := c.get(run.Run.ID).FinishedAt
		for _, d := range spans[7:] {
			c.eq(fmt.Sprintf("runs of an age of %v that were purged", d), c.purge(store.PurgeParams{OlderThan: d}), 0)
		}
		c.until("a run that is old enough", func() bool { return c.purge(store.PurgeParams{OlderThan: soon}) == 1 })
		c.notEarly("a purge", end.Add(soon))
	})},
	{"clock/schedules", "P13", "a schedule's times are from the store's clock; it is due and fires when its time has come by that clock, and not before", ownClock(func(c *C) {
		var s store.Schedule
		at := c.reading().Add(soon)
		far := at.Add(time.Hour)
		w := c.timed(func() { s = c.putSchedule(store.Schedule{Name: "s", Workflow: aWorkflow, Queue: aQueue, NextAt: at}) })
		c.happened("CreatedAt", s.CreatedAt, w)
		c.happened("UpdatedAt", s.UpdatedAt, w)
		w = c.timed(func() { s = c.putSchedule(s) })
		c.happened("UpdatedAt of the second put", s.UpdatedAt, w)
		c.putSchedule(store.Schedule{Name: "far", Workflow: aWorkflow, Queue: aQueue, NextAt: far})
		var page store.SchedulePage
		c.until("a schedule that is due", func() bool {
			page = c.schedules(store.ListSchedulesParams{Due: true})
			return len(page.Schedules) > 0
		})
		c.eq("names of those due", scheduleNames(page), []string{"s"})
		c.notEarly("a list of what is due", at)
		c.eq("NextDue and Later", []time.Time{page.NextDue, page.Later}, []time.Time{at, far})
		c.check(!page.Now.Before(at), "SchedulePage.Now of a schedule that is due at %s: saw %s", show(at), show(page.Now))

		next := c.reading().Add(soon)
		made := fill(store.NewRun{After: time.Hour, Queue: "fired"})
		w = c.timed(func() { c.mustFire(store.FireParams{Schedule: "s", At: at, Next: next, Run: &made}) })
		c.happened("FiredAt", c.firings("s")[0].FiredAt, w)
		c.happened("CreatedAt of the run", c.get(made.ID).CreatedAt, w)
		c.comes("VisibleAt of the run", c.get(made.ID).VisibleAt, w, time.Hour)
		_, err := c.fire(store.FireParams{Schedule: "far", At: far})
		c.fails("Fire an hour before the time", err, store.ErrInvalid)
		c.until("a time that may be fired", func() bool {
			_, err := c.fire(store.FireParams{Schedule: "s", At: next})
			if err != nil {
				c.fails("Fire before the time", err, store.ErrInvalid)
			}
			return err == nil
		})
		c.notEarly("a firing", next)
	})},
	{"clock/workers", "P13", "a worker's times are from the store's clock, and it is offline from its TTL on by that clock: not before, and not long after", ownClock(func(c *C) {
		w := c.timed(func() {
			for i, d := range spans[7:] {
				c.putWorker(store.Worker{ID: fmt.Sprint("w", i), TTL: d})
			}
		})
		for _, got := range c.workers() {
			c.happened("StartedAt", got.StartedAt, w)
			c.happened("SeenAt", got.SeenAt, w)
			c.eq("Status", got.Status, store.Online)
		}
		w = c.timed(func() { c.extendAs("w2") })
		c.happened("SeenAt of a worker that was extended", c.workers()[2].SeenAt, w)

		c.putWorker(store.Worker{ID: "a", TTL: soon})
		c.until("a worker whose TTL has passed", func() bool {
			var got store.Worker
			w := c.timed(func() { got = c.workers()[0] })
			end := got.SeenAt.Add(soon)
			c.check(got.Status == store.Online || !w.to.Before(end.Add(-clockEarly)), "the worker is offline by %s, expected it from %s on", show(w.to), show(end))
			c.check(got.Status == store.Offline || !w.from.After(end.Add(clockEarly)), "the worker is online at %s, expected it offline from %s on", show(w.from), show(end))
			return got.Status == store.Offline
		})
		for _, got := range c.workers()[1:] {
			c.eq("Status of those of a longer TTL", got.Status, store.Online)
		}
	})},
	{"clock/asked", "P13", "silence, the time of the question and the time to answer are counted by the store's clock", ownClock(func(c *C) {
		c.putWorker(store.Worker{ID: "a", TTL: time.Hour, Answers: soon})
		for _, d := range spans[7:] {
			c.eq(fmt.Sprintf("workers asked that were silent for %v", d), c.ask(d), 0)
		}
		seen := c.workers()[0].SeenAt
		var w window
		c.until("a worker that was silent", func() bool {
			asked := 0
			w = c.timed(func() { asked = c.ask(soon) })
			return asked == 1
		})
		c.notEarly("a question", seen.Add(soon))
		at := c.workers()[0].AskedAt
		c.comes("AskedAt", at, w, 0)
		c.until("a worker that has not answered", func() bool {
			var got store.Worker
			w := c.timed(func() { got = c.workers()[0] })
			end := at.Add(soon)
			c.check(got.Status == store.Online || !w.to.Before(end.Add(-clockEarly)), "the worker is offline by %s, expected it from %s on", show(w.to), show(end))
			c.check(got.Status == store.Offline || !w.from.After(end.Add(clockEarly)), "the worker is online at %s, expected it offline from %s on", show(w.from), show(end))
			return got.Status == store.Offline
		})
	})},
	{"clock/registry", "P13", "workflows and pauses have the store's time", ownClock(func(c *C) {
		w := c.timed(func() {
			c.putWorkflows(store.Workflow{Name: aWorkflow, Queue: aQueue})
			c.setPaused("paused", "", true)
		})
		paused, err := c.s.ListPaused(c.ctx, store.ListPausedParams{Namespace: c.ns})
		c.ok("ListPaused", err)
		c.happened("UpdatedAt of a workflow", c.workflows()[0].UpdatedAt, w)
		c.happened("Since of a pause", paused.Paused[0].Since, w)
		w = c.timed(func() { c.putWorkflows(store.Workflow{Name: aWorkflow, Queue: aQueue}) })
		c.happened("UpdatedAt of a workflow that was put again", c.workflows()[0].UpdatedAt, w)
	})},
	{"clock/locks", "P13", "a lock lasts as long as requested, by the store's clock, and an extension starts a new period", ownClock(func(c *C) {
		for i, d := range spans {
			var res store.LockResult
			name := fmt.Sprint("l", i)
			w := c.timed(func() { res = c.lock(name, "a", d) })
			c.comes("Until", res.Until, w, d)
			if d > time.Minute {
				other := c.lock(name, "b", time.Hour)
				c.eq("what another is told", other, store.LockResult{Owner: "a", Until: res.Until})
			}
			w = c.timed(func() { res = c.lock(name, "a", 2*d) })
			if res.Held {
				c.comes("Until of the extension", res.Until, w, 2*d)
			}
		}
		until := c.lock("short", "a", soon).Until
		c.until("a lock that has run out", func() bool {
			res := c.lock("short", "b", time.Hour)
			c.check(res.Held || res.Until.Equal(until), "the lock ends at %s: another is told %s", show(until), show(res.Until))
			return res.Held
		})
		c.notEarly("a lock was taken over", until)
	})},
	{"clock/imports", "P13", "an imported run is due from its import on, by the store's clock; what is recorded stays", ownClock(func(c *C) {
		rec := store.RunRecord{Run: store.Run{ID: store.NewID(), Workflow: aWorkflow, Queue: aQueue, Status: store.Sleeping, Attempt: 1, Epoch: 1, CreatedAt: began, StartedAt: began, VisibleAt: began}}
		w := c.timed(func() { c.imports(rec) })
		got := c.get(rec.Run.ID)
		c.happened("VisibleAt", got.VisibleAt, w)
		c.eq("CreatedAt", got.CreatedAt, began)
	})},
	{"clock/actions", "P13", "recorded actions have the store's time, and are deleted when they are old by the store's clock", ownClock(func(c *C) {
		j := c.journal()
		a := store.Action{ID: store.NewID(), Actor: "ada", Verb: "cancel", Target: "x"}
		w := c.timed(func() { c.act(j, a) })
		list := c.actions(j, store.ListActionsParams{})
		c.happened("At", list[0].At, w)
		for _, d := range spans[7:] {
			c.ok("Record", j.Record(c.ctx, store.RecordParams{Namespace: c.ns, KeepFor: d}))
		}
		c.eq("actions that are kept", len(c.actions(j, store.ListActionsParams{})), 1)
		c.until("an action that is old", func() bool {
			c.ok("Record", j.Record(c.ctx, store.RecordParams{Namespace: c.ns, KeepFor: soon, Actions: []store.Action{{ID: store.NewID(), Actor: "ada", Verb: "v", Target: "x"}}}))
			return !hasAction(c.actions(j, store.ListActionsParams{}), a.ID)
		})
		c.notEarly("an action was forgotten", list[0].At.Add(soon))
	})},
	{"clock/ranks", "P13", "Ahead counts runs that are due by the store's clock", ownClock(func(c *C) {
		first, last := c.create(store.NewRun{}), c.create(store.NewRun{})
		later := c.create(store.NewRun{After: time.Hour})
		c.eq("runs ahead of the first, of the second, and of one that is not due", []int{c.ahead(first), c.ahead(last), c.ahead(later)}, []int{0, 1, 0})
	})},
}

// happenedNow reports a time that is not just now.
func (c *C) happenedNow(what string, t time.Time) {
	c.Helper()
	now := c.reading()
	c.check(!t.After(now.Add(clockStep)) && now.Sub(t) < patience, "%s: saw %s, expected it shortly before %s", what, show(t), show(now))
}

// childrenOf reads the children in group "g".
func (c *C) childrenOf(parent store.ID) []store.Run {
	c.Helper()
	list, err := c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: parent, Group: "g"})
	c.ok("Children", err)
	return list.Children
}

func hasAction(list []store.Action, id store.ID) bool {
	for _, a := range list {
		if a.ID == id {
			return true
		}
	}
	return false
}
