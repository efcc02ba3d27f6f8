package storetier

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// demand returns a demand for the usual runs of a queue.
func demand(queue string, n int, workflows ...string) store.Demand {
	if workflows == nil {
		workflows = []string{aWorkflow}
	}
	return store.Demand{Queue: queue, Workflows: workflows, Max: n}
}

func runIDs(runs []store.ClaimedRun) []store.ID {
	ids := []store.ID{}
	for _, r := range runs {
		ids = append(ids, r.Run.ID)
	}
	return ids
}

var claimCases = []Case{
	{"claim/leases-a-run", "P1", "a claimed run is running for its worker, its epoch one higher, and visible again when the lease ends", func(c *C) {
		id := c.create(store.NewRun{Input: []byte("in"), Meta: []byte("m")})
		made := c.now
		c.advance(time.Second)
		got := c.claim(store.ClaimParams{})
		run := c.one(got.Runs)
		want := store.Run{
			ID: id, Namespace: c.ns, Workflow: aWorkflow, Queue: aQueue, Status: store.Running, Input: []byte("in"), Meta: []byte("m"),
			Attempt: 1, Epoch: 1, Worker: aWorker, VisibleAt: c.now.Add(aLease), CreatedAt: made, StartedAt: c.now,
		}
		c.eq("the claimed run", run.Run, want)
		c.eq("the stored run", c.get(id), want)
		c.eq("the lease", run.Lease, store.Lease{Run: id, Worker: aWorker, Epoch: 1})
		c.eq("Recovered", run.Recovered, false)
		c.eq("Claimed.Now", got.Now, c.now)
	}},
	{"claim/one-holder", "P1", "nobody can claim a leased run again, on any handle", func(c *C) {
		c.start()
		c.advance(aLease - time.Microsecond)
		c.claimNone("it is leased for a microsecond more")
		got, err := c.claimOn(c.s2, store.ClaimParams{Worker: "w2"})
		c.ok("Claim on the second handle", err)
		c.eq("runs claimed on the second handle", len(got), 0)
	}},
	{"claim/epoch-grows", "P1", "every claim increases the epoch by one, whatever ended the previous lease", func(c *C) {
		c.create(store.NewRun{})
		var epoch int64
		next := func() store.ClaimedRun {
			run := c.claim1()
			epoch++
			c.eq("epoch of the lease", run.Lease.Epoch, epoch)
			c.eq("epoch of the run", run.Run.Epoch, epoch)
			return run
		}
		c.end(next(), release())
		c.end(next(), retryIn(0))
		c.end(next(), continueWith("in"))
		c.end(next(), sleepFor(time.Second))
		c.advance(time.Second)
		next()
		c.advance(aLease)
		next()
	}},
	{"claim/never-more-than-asked", "P1", "a claim returns at most Max runs, and for each demand at most its own Max", func(c *C) {
		c.createN(5, store.NewRun{})
		c.createN(5, store.NewRun{Queue: "q2"})
		for _, tt := range []struct{ max, a, b, want int }{{0, 2, 1, 3}, {1, 5, 5, 1}, {3, 2, 2, 3}, {10, 1, 0, 1}, {0, 0, 0, 0}} {
			got := c.claim(store.ClaimParams{Max: tt.max, Demands: []store.Demand{demand(aQueue, tt.a), demand("q2", tt.b)}})
			per := map[string]int{}
			for _, r := range got.Runs {
				per[r.Run.Queue]++
				c.commit(store.Commit{Lease: r.Lease, Transition: release()})
			}
			c.eq(fmt.Sprintf("runs of %+v", tt), len(got.Runs), tt.want)
			c.check(per[aQueue] <= tt.a && per["q2"] <= tt.b, "runs per queue of %+v: saw %v, expected no more than each demand's Max", tt, per)
		}
		beside := c.claim(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 2), demand("empty", 5)}})
		c.eq("runs of a demand for two beside a demand that has none", len(beside.Runs), 2)
	}},
	{"claim/asked-for-only", "P1", "a claim returns only runs of the demanded queues and workflows; a demand without workflows gets none", func(c *C) {
		want := c.create(store.NewRun{Queue: "q", Workflow: "a"})
		c.create(store.NewRun{Queue: "q", Workflow: "b"})
		c.create(store.NewRun{Queue: "other", Workflow: "a"})
		c.create(store.NewRun{Queue: "other", Workflow: "c"})
		c.eq("runs without a workflow", len(c.claim(store.ClaimParams{Demands: []store.Demand{{Queue: "q", Max: 5}}}).Runs), 0)
		got := c.claim(store.ClaimParams{Demands: []store.Demand{demand("q", 5, "a", "c"), demand("none", 5, "a")}}).Runs
		c.eq("the runs", runIDs(got), []store.ID{want})
	}},
	{"claim/pairs-queue-and-workflow", "P1", "the workflows of one demand do not apply to the queue of another", func(c *C) {
		c.create(store.NewRun{Queue: "q1", Workflow: "b"})
		c.create(store.NewRun{Queue: "q2", Workflow: "a"})
		got := c.claim(store.ClaimParams{Demands: []store.Demand{demand("q1", 5, "a"), demand("q2", 5, "b")}}).Runs
		c.eq("runs", len(got), 0)
	}},
	{"claim/again", "P4", "a claim whose answer was lost is found again, on every handle, unchanged and with what its replay needs", func(c *C) {
		past := c.start()
		c.commit(store.Commit{Lease: past.Lease, Steps: []store.StepRecord{step(1, "a", "out")}, State: []store.StateWrite{{Key: "k", Value: []byte("v")}}, Transition: release()})
		c.signal(past.Run.ID, "s", "p")
		c.create(store.NewRun{Priority: 1, Input: make([]byte, 600)})
		p := store.ClaimParams{Max: 5, ClaimID: 42}
		lost := c.claim(p).Runs
		c.eq("runs of the claim", len(lost), 2)
		c.signal(past.Run.ID, "more", "p")
		for i := range lost {
			if lost[i].Run.ID == past.Run.ID {
				lost[i].Inbox = c.inbox(past.Run.ID)
				lost[i].Run.Events = lost[i].Inbox.Events
			}
		}
		p.Again = true
		c.advance(time.Second)
		for range 2 {
			for _, s := range []store.Store{c.s, c.s2} {
				got, err := c.claimOn(s, p)
				c.ok("Claim again", err)
				c.eq("the runs found again", got, lost)
			}
		}
		for _, r := range lost {
			c.end(r, complete(""))
		}
		c.eq("runs found again when their lease has ended", len(c.claim(p).Runs), 0)
	}},
	{"claim/again-takes-none", "P4", "repeating a claim that took nothing takes nothing", func(c *C) {
		p := store.ClaimParams{Max: 5, ClaimID: 42}
		c.eq("runs of a claim of none", len(c.claim(p).Runs), 0)
		id := c.create(store.NewRun{})
		p.Again = true
		got := c.claim(p)
		c.eq("runs found again", len(got.Runs), 0)
		c.eq("NextDue", got.NextDue, c.now)
		c.eq("status", c.get(id).Status, store.Pending)
		p.Again, p.Max = false, 1
		c.createN(2, store.NewRun{})
		c.eq("runs of a claim of one", runIDs(c.claim(p).Runs), []store.ID{id})
		p.Again, p.Max = true, 5
		c.eq("runs found again of three", runIDs(c.claim(p).Runs), []store.ID{id})
	}},
	{"claim/again-while-leased", "P4", "a lease that has ended is not found again, nor is one that was taken over", func(c *C) {
		id := c.create(store.NewRun{})
		p := store.ClaimParams{Max: 5, ClaimID: 42}
		c.one(c.claim(p).Runs)
		p.Again = true
		c.advance(aLease - time.Microsecond)
		c.eq("a microsecond before its end", runIDs(c.claim(p).Runs), []store.ID{id})
		c.advance(time.Microsecond)
		c.eq("at its end", len(c.claim(p).Runs), 0)
		c.claim1As("w2")
		c.eq("after a takeover", len(c.claim(p).Runs), 0)
	}},
	{"claim/again-of-its-own", "P4", "a repeated claim returns only runs of that claim, worker, namespace and demand", func(c *C) {
		c.createN(2, store.NewRun{})
		p := store.ClaimParams{Max: 1, ClaimID: 42}
		mine := c.one(c.claim(p).Runs)
		p.ClaimID = 43
		other := c.one(c.claim(p).Runs)
		p.Again, p.Max = true, 5
		c.eq("runs of the second claim", runIDs(c.claim(p).Runs), []store.ID{other.Run.ID})
		p.ClaimID = 42
		c.eq("runs of the first claim", runIDs(c.claim(p).Runs), []store.ID{mine.Run.ID})
		for what, change := range map[string]func(p *store.ClaimParams){
			"claim":     func(p *store.ClaimParams) { p.ClaimID = 44 },
			"worker":    func(p *store.ClaimParams) { p.Worker = "w2" },
			"namespace": func(p *store.ClaimParams) { p.Namespace = c.ns + "x" },
			"workflow":  func(p *store.ClaimParams) { p.Demands = []store.Demand{demand(aQueue, 5, "other")} },
		} {
			q := p
			change(&q)
			c.eq("runs of another "+what, len(c.claim(q).Runs), 0)
		}
	}},
	{"claim/queues-of-one-demand", "P1", "the limit of a demand of several queues holds for all of them together, in the order of P7, and it takes nothing from other queues", func(c *C) {
		put := func(queue string, priority int) store.ID {
			c.advance(time.Millisecond)
			return c.create(store.NewRun{Queue: queue, Priority: priority})
		}
		first, second, third := put("a", 0), put("b", 0), put("b", 0)
		urgent, elsewhere, left := put("c", 9), put("d", 9), put("a", 0)
		d := demand("a", 3)
		d.MoreQueues = []string{"b", "c"}
		p := store.ClaimParams{Demands: []store.Demand{d}, Max: 10, ClaimID: 42}
		got := c.claim(p)
		c.eq("the first three", runIDs(got.Runs), []store.ID{urgent, first, second})
		c.check(!got.NextDue.IsZero() && !got.NextDue.After(c.now), "NextDue: saw %v, expected what is due and was not taken", got.NextDue)
		p.Again = true
		c.eq("found again", runIDs(c.claim(p).Runs), []store.ID{urgent, first, second})
		p.Again, p.ClaimID = false, 43
		c.eq("the rest", runIDs(c.claim(p).Runs), []store.ID{third, left})
		p.Demands = []store.Demand{demand("d", 3)}
		c.eq("what is in another queue", runIDs(c.claim(p).Runs), []store.ID{elsewhere})
	}},
	{"claim/overlapping-demands", "P1", "demands that overlap return each run once", func(c *C) {
		ids := c.createN(3, store.NewRun{})
		got := c.claim(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 5, aWorkflow, "x"), demand(aQueue, 5, "y", aWorkflow)}}).Runs
		c.eq("the runs", runIDs(got), ids)
		for _, r := range got {
			c.eq("epoch", r.Lease.Epoch, int64(1))
		}
	}},
	{"claim/race", "P1", "exactly one of several concurrent claims gets a run", func(c *C) {
		ids := c.createN(60, store.NewRun{})
		var mu sync.Mutex
		holders := map[store.ID]int{}
		c.race(6, func(i int, s store.Store) error {
			for {
				runs, err := c.claimOn(s, store.ClaimParams{Worker: fmt.Sprint("w", i), Max: 3})
				if err != nil || len(runs) == 0 {
					return err
				}
				if len(runs) > 3 {
					c.Errorf("Claim of 3: saw %d runs", len(runs))
				}
				mu.Lock()
				for _, r := range runs {
					holders[r.Run.ID]++
				}
				mu.Unlock()
			}
		})
		for _, id := range ids {
			c.eq(fmt.Sprintf("claims of run %v", id), holders[id], 1)
		}
		for _, r := range c.gets(ids...) {
			c.eq("epoch", r.Epoch, int64(1))
		}
	}},
	{"claim/race-for-expired", "P1", "exactly one of several concurrent takeovers of a run whose lease expired succeeds", func(c *C) {
		run := c.start()
		for round := range 10 {
			c.advance(aLease)
			got := make([]int, 6)
			c.race(len(got), func(i int, s store.Store) error {
				runs, err := c.claimOn(s, store.ClaimParams{Worker: fmt.Sprint("w", i)})
				got[i] = len(runs)
				return err
			})
			sum := 0
			for _, n := range got {
				sum += n
			}
			c.eq("claims that got the run", sum, 1)
			c.eq("epoch", c.get(run.Run.ID).Epoch, int64(round+2))
		}
	}},
	{"claim/takeover-after-expiry", "P6", "a run whose lease expired is claimed like any other, by anyone, and Recovered says so", func(c *C) {
		first := c.start()
		c.advance(aLease)
		run := c.claim1As("w2")
		c.eq("the run", run.Run.ID, first.Run.ID)
		c.eq("Recovered", run.Recovered, true)
		c.eq("the lease", run.Lease, store.Lease{Run: first.Run.ID, Worker: "w2", Epoch: 2})
		c.eq("StartedAt", run.Run.StartedAt, first.Run.StartedAt)
	}},
	{"claim/own-expired-lease", "P6", "a worker may take over its own run, under a new epoch", func(c *C) {
		first := c.start()
		c.advance(aLease)
		run := c.claim1()
		c.eq("Recovered", run.Recovered, true)
		c.eq("epoch", run.Lease.Epoch, int64(2))
		c.lost("commit of the same worker's old lease", store.Commit{Lease: first.Lease, Transition: complete("late")})
	}},
	{"claim/crashes-counted", "P6", "each lease that expires counts as one crash", func(c *C) {
		c.eq("Crashes at first", c.start().Run.Crashes, 0)
		for n := 1; n <= 3; n++ {
			c.advance(aLease)
			run := c.claim1()
			c.eq("Crashes of the claimed run", run.Run.Crashes, n)
			c.eq("Crashes of the stored run", c.get(run.Run.ID).Crashes, n)
		}
	}},
	{"claim/crashes-reset-by-commit", "P6", "a commit clears Crashes", func(c *C) {
		c.start()
		c.advance(aLease)
		run := c.claim1()
		c.eq("Crashes", run.Run.Crashes, 1)
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		c.eq("Crashes after the commit", c.get(run.Run.ID).Crashes, 0)
		c.advance(aLease)
		c.eq("Crashes after the next", c.claim1().Run.Crashes, 1)
	}},
	{"claim/crashes-kept-by-commit", "P6", "a commit that gives Crashes sets it, and the next lease that expires adds to it", func(c *C) {
		run := c.start()
		for _, n := range []int{3, 1, 1 << 20} {
			before := c.get(run.Run.ID)
			want := before
			want.Crashes = n
			c.commit(store.Commit{Lease: run.Lease, Crashes: n})
			c.eq("the run after a commit of nothing else", c.get(run.Run.ID), want)
			c.commit(store.Commit{Lease: run.Lease, Crashes: n, Steps: []store.StepRecord{step(1, "a", "")}, State: []store.StateWrite{{Key: "k", Value: []byte("v")}}})
			c.eq("Crashes after a commit with a step", c.get(run.Run.ID).Crashes, n)
			c.advance(aLease)
			run = c.claim1()
			c.eq("Crashes of the claimed run", run.Run.Crashes, n+1)
			c.eq("Recovered", run.Recovered, true)
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(2, "b", "")}})
		c.eq("Crashes after progress", c.get(run.Run.ID).Crashes, 0)
		for _, t := range []*store.Transition{complete("x"), failWith("x"), sleepFor(time.Minute), retryIn(0), continueWith("in")} {
			c.fails("Crashes beside a "+t.Kind.String(), c.tryCommit(store.Commit{Lease: run.Lease, Crashes: 1, Transition: t}).Err, store.ErrInvalid)
		}
		c.fails("Crashes below zero", c.tryCommit(store.Commit{Lease: run.Lease, Crashes: -1}).Err, store.ErrInvalid)
	}},
	{"claim/crashes-kept-by-release", "P6", "a run that is given back with its Crashes keeps them", func(c *C) {
		c.start()
		c.advance(aLease)
		run := c.claim1()
		c.commit(store.Commit{Lease: run.Lease, Crashes: 2, Transition: release()})
		c.eq("Crashes of the released run", c.get(run.Run.ID).Crashes, 2)
		run = c.claim1As("w2")
		c.eq("Crashes of the claimed run", run.Run.Crashes, 2)
		c.eq("Recovered", run.Recovered, true)
		c.advance(aLease)
		run = c.claim1()
		c.eq("Crashes after its lease ran out", run.Run.Crashes, 3)
		c.end(run, release())
		c.eq("Crashes after a release that names none", c.claim1().Run.Crashes, 0)
	}},
	{"claim/release-for-later", "P6", "a run that is given back for later is pending, and claimed at its time", func(c *C) {
		for _, t := range []store.Transition{{After: time.Minute}, {At: c.now.Add(time.Hour)}, {After: time.Minute, At: c.now.Add(24 * time.Hour)}} {
			run := c.startWith(store.NewRun{Input: []byte("in")})
			want := c.get(run.Run.ID)
			want.Status, want.Worker, want.VisibleAt = store.Pending, "", t.At
			if t.After > 0 {
				want.VisibleAt = c.now.Add(t.After)
			}
			t.Kind = store.Release
			res := c.end(run, &t)
			c.eq("the result's status", res.Status, store.Pending)
			c.eq("the result's VisibleAt", res.VisibleAt, want.VisibleAt)
			c.eq("the run", c.get(run.Run.ID), want)
			c.now = want.VisibleAt.Add(-time.Microsecond)
			c.claimNone("it was given back for later")
			c.now = want.VisibleAt
			c.end(c.claim1(), complete(""))
		}
	}},
	{"claim/release-until-deadline", "P6", "a run that is given back for later is claimable at its deadline at the latest; one that is canceling or pausing keeps its time", func(c *C) {
		later := &store.Transition{Kind: store.Release, After: time.Hour}
		run := c.startWith(store.NewRun{Timeout: time.Minute})
		deadline := c.now.Add(time.Minute)
		c.eq("VisibleAt", c.end(run, later).VisibleAt, deadline)
		c.now = deadline
		c.end(c.claim1(), complete(""))
		run = c.start()
		c.cancel(run.Run.ID)
		res := c.end(run, later)
		c.eq("status of a canceling run", res.Status, store.Canceling)
		c.eq("VisibleAt of a canceling run", res.VisibleAt, c.now.Add(time.Hour))
		c.claimNone("it was given back for later")
		c.advance(time.Hour)
		c.end(c.claim1(), &store.Transition{Kind: store.CancelRun})
		run = c.start()
		c.pause(run.Run.ID)
		c.eq("status of a pausing run", c.end(run, later).Status, store.Paused)
		c.resume(run.Run.ID)
		c.eq("VisibleAt of a resumed run", c.get(run.Run.ID).VisibleAt, c.now.Add(time.Hour))
		c.claimNone("it was given back for later")
	}},
	{"claim/released-is-no-crash", "P6", "a lease that is ended by a commit is not a crash", func(c *C) {
		c.end(c.start(), release())
		for _, t := range []*store.Transition{retryIn(0), sleepFor(time.Minute), continueWith("in"), release()} {
			c.advance(time.Hour)
			run := c.claim1()
			c.eq("Recovered", run.Recovered, false)
			c.eq("Crashes", run.Run.Crashes, 0)
			c.end(run, t)
		}
	}},
	{"claim/release-changes-nothing-else", "P6", "a released run is pending at once and otherwise unchanged", func(c *C) {
		run := c.startWith(store.NewRun{Input: []byte("in")})
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x")}})
		c.advance(time.Second)
		want := c.get(run.Run.ID)
		want.Status, want.Worker, want.VisibleAt = store.Pending, "", c.now
		res := c.end(run, release())
		c.eq("the result's status", res.Status, store.Pending)
		c.eq("the result's VisibleAt", res.VisibleAt, c.now)
		c.eq("the run", c.get(run.Run.ID), want)
		c.eq("the steps", namesOf(c.claim1As("w2").Steps), []string{"a"})
	}},
	{"claim/release-for-a-while", "P6", "a run may be released until a time, and with a reason, which replaces its failure; its attempt, its steps, also the failed ones, and what it waits for stay", func(c *C) {
		run := c.startWith(store.NewRun{Input: []byte("in")})
		c.end(run, retryIn(0))
		run = c.claim1()
		bad := step(2, "bad", "")
		bad.Status, bad.Failure = store.StepFailed, &store.Failure{Code: "error", Message: "handled"}
		sig := c.signal(run.Run.ID, "n", "unread")
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x"), bad, step(3, "after", "y")}})
		want := c.get(run.Run.ID)
		t := &store.Transition{Kind: store.Release, After: time.Minute, Failure: &store.Failure{Code: "codec", Message: "no such key"}}
		want.Status, want.Worker, want.VisibleAt, want.Failure = store.Pending, "", c.now.Add(time.Minute), t.Failure
		res := c.end(run, t)
		c.eq("the result's status", res.Status, store.Pending)
		c.eq("the result's VisibleAt", res.VisibleAt, c.now.Add(time.Minute))
		c.eq("the run", c.get(run.Run.ID), want)
		c.signal(run.Run.ID, "n", "more")
		c.advance(time.Minute - time.Microsecond)
		c.claimNone("its time has not come, whatever has reached it")
		c.advance(time.Microsecond)
		run = c.claim1As("w2")
		c.eq("the steps", namesOf(run.Steps), []string{"a", "bad", "after"})
		c.eq("Attempt", run.Run.Attempt, 2)
		c.eq("Crashes", run.Run.Crashes, 0)
		c.eq("the first unread signal", run.Inbox.Signals[0].ID, sig)
		c.end(run, release())
		c.eq("the failure after a release without one", c.get(run.Run.ID).Failure, t.Failure)
		c.end(c.claim1(), complete(""))
		c.eq("the failure in the end", c.get(run.Run.ID).Failure, (*store.Failure)(nil))
	}},
	{"claim/release-earlier-of-both", "P13", "the earlier of a release's After and At counts; without both, the run is due at once", func(c *C) {
		c.earlierOfBoth(store.Release, store.Pending)
		run := c.startWith(store.NewRun{Timeout: time.Minute})
		res := c.end(run, &store.Transition{Kind: store.Release, After: time.Hour})
		c.eq("VisibleAt with a deadline before it", res.VisibleAt, c.now.Add(time.Minute))
	}},
	{"claim/release-while-canceling", "P11", "a canceling run that is released for a while stays canceling, keeps its reason, and is not claimed before the time is over", func(c *C) {
		run := c.start()
		c.cancel(run.Run.ID)
		why := c.get(run.Run.ID).Failure
		res := c.end(run, &store.Transition{Kind: store.Release, After: time.Minute, Failure: &store.Failure{Code: "codec", Message: "no such key"}})
		c.eq("the result's status", res.Status, store.Canceling)
		c.eq("the result's VisibleAt", res.VisibleAt, c.now.Add(time.Minute))
		c.eq("the failure", c.get(run.Run.ID).Failure, why)
		c.claimNone("it was released for a while")
		c.advance(time.Minute)
		run = c.claim1()
		c.eq("Status", run.Run.Status, store.Canceling)
		c.end(run, cancelRun())
		c.status(run.Run.ID, store.Canceled)
	}},
	{"claim/not-early-by-a-nanosecond", "P13", "a duration is rounded up to microseconds, not truncated", func(c *C) {
		const d = time.Millisecond + time.Nanosecond
		up := time.Millisecond + time.Microsecond
		id := c.create(store.NewRun{After: d, Timeout: time.Hour + time.Nanosecond})
		c.eq("VisibleAt of a delayed start", c.get(id).VisibleAt, c.now.Add(up))
		c.eq("Deadline", c.get(id).Deadline, c.now.Add(time.Hour+time.Microsecond))
		c.advance(up)
		run := c.claim1()
		c.eq("VisibleAt of a sleeper", c.end(run, sleepFor(d)).VisibleAt, c.now.Add(up))
	}},
	{"claim/not-early", "P13", "nothing is claimed before its time, exact to the microsecond", func(c *C) {
		const d = 1_000_789 * time.Microsecond // not a round number, so that rounding is visible
		id := c.create(store.NewRun{After: d})
		c.advance(d - time.Microsecond)
		c.claimNone("it is due a microsecond later")
		c.advance(time.Microsecond)
		c.end(c.claim1(), sleepFor(d))
		c.advance(d - time.Microsecond)
		c.claimNone("it sleeps a microsecond more")
		c.advance(time.Microsecond)
		c.end(c.claim1(), retryIn(d))
		c.advance(d - time.Microsecond)
		c.claimNone("its retry is a microsecond away")
		c.advance(time.Microsecond)
		c.eq("the run", c.claim1().Run.ID, id)
	}},
	{"claim/other-statuses-never", "P13", "a paused or final run is not claimed, however much time passes", func(c *C) {
		c.pause(c.create(store.NewRun{}))
		c.cancel(c.create(store.NewRun{}))
		c.end(c.start(), complete(""))
		c.end(c.start(), failWith("x"))
		c.end(c.start(), sleepOn(store.WakeSignal))
		c.advance(1000 * time.Hour)
		c.claimNone("all are paused, final or asleep without a time")
	}},
	{"claim/namespaces-apart", "P15", "a claim sees only the runs of its own namespace", func(c *C) {
		c.create(store.NewRun{})
		other := c.ns + "/other"
		c.eq("runs of the other namespace", len(c.claim(store.ClaimParams{Namespace: other}).Runs), 0)
		c.eq("its NextDue", c.claim(store.ClaimParams{Namespace: other}).NextDue, time.Time{})
		c.claim1()
	}},
	{"claim/brings-replay", "P5", "a claimed run comes with its steps by position and its inbox: status, events, signals, state and groups", func(c *C) {
		run := c.start()
		id := run.Run.ID
		c.commit(store.Commit{
			Lease: run.Lease, Steps: []store.StepRecord{step(2, "b", "two"), step(1, "a", "one")},
			State: []store.StateWrite{{Key: "k", Value: []byte("v")}}, Spawn: kids(2), Transition: sleepOn(store.WakeSignal), Seen: run.Inbox.Events,
		})
		c.signal(id, "n", "s1")
		c.signal(id, "m", "s2")
		got := c.claim1()
		c.eq("steps", namesOf(got.Steps), []string{"a", "b"})
		c.eq("steps as Steps reads them", got.Steps, c.steps(id))
		c.eq("MoreSteps", got.MoreSteps, false)
		c.eq("signals", payloads(got.Inbox.Signals), []string{"s1", "s2"})
		c.eq("state", values(got.Inbox.State), []string{"k=v"})
		c.eq("groups", got.Inbox.Groups, []store.Group{{Name: "g", Total: 2, Open: 2}})
		c.eq("Events", got.Inbox.Events, int64(3))
		c.eq("Events of the run", got.Run.Events, int64(3))
		c.eq("the inbox as Inbox reads it", got.Inbox, c.inbox(id))
	}},
	{"claim/brings-each-its-own", "P5", "in a batch, each claimed run comes with its own steps, signals and state", func(c *C) {
		ids := c.createN(3, store.NewRun{})
		for i, run := range c.claimN(3) {
			name := fmt.Sprint("step-", i)
			c.commit(store.Commit{
				Lease: run.Lease, Steps: []store.StepRecord{step(1, name, name)}, State: []store.StateWrite{{Key: name}}, Transition: release(),
			})
			c.signal(run.Run.ID, name, name)
		}
		for i, run := range c.claimN(3) {
			name := fmt.Sprint("step-", i)
			c.eq("the run", run.Run.ID, ids[i])
			c.eq("its steps", namesOf(run.Steps), []string{name})
			c.eq("its signals", payloads(run.Inbox.Signals), []string{name})
			c.eq("its state", values(run.Inbox.State), []string{name + "="})
		}
	}},
	{"claim/brings-one-moment", "P5", "the inbox of a claimed run is read at one moment: an event that it counts is in it, and one that it does not count ends the next sleep", func(c *C) {
		for n := range 20 {
			id := c.create(store.NewRun{})
			var runs []store.ClaimedRun
			c.race(2, func(i int, s store.Store) (err error) {
				if i == n%2 { // calls begin first by turns
					runs, err = c.claimOn(s, store.ClaimParams{})
					return err
				}
				res, err := c.signalOn(s, store.NewSignal{ID: store.NewID(), Run: id, Name: "n"})
				return first(err, res.Err)
			})
			if len(runs) == 0 { // it may skip a run that is being written to
				runs, _ = c.claimOn(c.s, store.ClaimParams{})
			}
			run := c.one(runs)
			c.eq("signals beside the events counted", int64(len(run.Inbox.Signals)), run.Inbox.Events)
			if len(run.Inbox.Signals) == 0 {
				c.end(run, sleepOn(store.WakeSignal))
				run = c.claim1()
				c.eq("signals of the next claim", len(run.Inbox.Signals), 1)
			}
			c.end(run, complete(""))
		}
	}},
	{"claim/bounded-in-bytes", "P12", "MaxBytes limits the step outputs of all claimed runs; MoreSteps says what is cut off, and Steps has the rest", func(c *C) {
		c.createN(2, store.NewRun{})
		out := string(make([]byte, 1000))
		var recs []store.StepRecord
		want := []string{}
		for i := range 5 {
			name := fmt.Sprint("s", i)
			recs, want = append(recs, step(int64(i+1), name, out)), append(want, name)
		}
		for _, run := range c.claimN(2) {
			c.commit(store.Commit{Lease: run.Lease, Steps: recs, Transition: release()})
		}
		for _, limit := range []int{500, 2500, 7500, 100_000} {
			got := c.claim(store.ClaimParams{Max: 2, MaxBytes: limit}).Runs
			c.eq("runs", len(got), 2)
			bytes := 0
			for _, run := range got {
				names := namesOf(run.Steps)
				var last int64
				for _, s := range run.Steps {
					bytes, last = bytes+len(s.Output), s.Position
				}
				c.eq("MoreSteps", run.MoreSteps, len(run.Steps) < 5)
				page, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: run.Run.ID, After: last})
				c.ok("Steps", err)
				c.eq("steps of the claim and the rest", append(names, namesOf(page.Steps)...), want)
				c.commit(store.Commit{Lease: run.Lease, Transition: release()})
			}
			c.check(bytes <= limit, "step outputs of a claim of MaxBytes %d: saw %d bytes", limit, bytes)
			if limit == 100_000 {
				c.eq("bytes with room for all", bytes, 10_000)
			}
		}
	}},
	{"claim/next-due", "P13", "NextDue is the earliest VisibleAt among runs of these demands that were not returned; zero if there are none", func(c *C) {
		next := func(want time.Time, demands ...store.Demand) {
			c.Helper()
			c.eq("NextDue", c.claim(store.ClaimParams{Demands: demands}).NextDue, want)
		}
		next(time.Time{}, demand(aQueue, 1))
		c.create(store.NewRun{After: 3 * time.Hour})
		next(c.now.Add(3*time.Hour), demand(aQueue, 1))
		c.create(store.NewRun{After: 4 * time.Hour})
		next(c.now.Add(3*time.Hour), demand(aQueue, 1))
		c.create(store.NewRun{After: 2 * time.Hour, Queue: "q2"})
		next(c.now.Add(3*time.Hour), demand(aQueue, 1))
		next(c.now.Add(2*time.Hour), demand(aQueue, 1), demand("q2", 1))
		next(time.Time{}, demand(aQueue, 1, "other"))
		next(time.Time{}, demand("other", 1))
	}},
	{"claim/next-due-of-the-rest", "P13", "if due runs were not returned, NextDue is in the past", func(c *C) {
		c.create(store.NewRun{})
		c.advance(time.Second)
		second := c.now
		c.create(store.NewRun{})
		c.advance(time.Second)
		third := c.now
		c.create(store.NewRun{})
		c.advance(time.Second)
		c.eq("NextDue with two left", c.claim(store.ClaimParams{}).NextDue, second)
		lease := c.now.Add(aLease)
		c.advance(time.Second)
		c.eq("NextDue with one left", c.claim(store.ClaimParams{}).NextDue, third)
		c.advance(time.Second)
		// The first run's lease expires; the run just returned does not count.
		c.eq("NextDue with the first leased", c.claim(store.ClaimParams{}).NextDue, lease)
	}},
	{"claim/tells-what-waits", "P18", "a claim reports each lane with due runs that it did not return, and since when the first of them is due", func(c *C) {
		all := []store.Demand{demand(aQueue, 1, aWorkflow, "other"), demand("q2", 1, aWorkflow)}
		began := c.now
		for _, r := range []store.NewRun{{}, {Priority: -1}, {Queue: "q2"}, {Workflow: "other"}, {Queue: "q2", Workflow: "foreign"}, {Priority: -2}} {
			c.create(r)
			c.advance(time.Second)
		}
		c.create(store.NewRun{After: time.Hour, Queue: "q2"})
		got := c.claim(store.ClaimParams{Demands: all})
		c.eq("runs", len(got.Runs), 2)
		c.eq("Waiting", got.Waiting, []store.Waiting{
			{Queue: aQueue, Workflow: "other", Since: began.Add(3 * time.Second)},
			{Queue: aQueue, Workflow: aWorkflow, Since: began.Add(time.Second)},
		})
		c.eq("NextDue", got.NextDue, began.Add(time.Second))
		c.eq("Waiting of a claim for none", c.claim(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 0)}}).Waiting, []store.Waiting(nil))
		got = c.claim(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 9, aWorkflow, "other")}})
		c.eq("runs then", len(got.Runs), 3)
		c.eq("Waiting when nothing is left", got.Waiting, []store.Waiting(nil))
		c.advance(aLease)
		c.create(store.NewRun{Queue: "q2"})
		got = c.claim(store.ClaimParams{Demands: all, Max: 1})
		c.eq("lanes of runs whose leases have run out", len(got.Waiting), 3)
	}},
	{"claim/next-due-of-sleepers", "P13", "NextDue includes wake times, retry times, deadlines and ends of leases, and ignores runs that have no time", func(c *C) {
		next := func(q string, want time.Time) {
			c.Helper()
			c.eq("NextDue of "+q, c.claim(store.ClaimParams{Demands: []store.Demand{demand(q, 1)}}).NextDue, want)
		}
		prepare := func(q string, r store.NewRun, t *store.Transition) {
			r.Queue = q
			c.create(r)
			run := c.one(c.claim(store.ClaimParams{Demands: []store.Demand{demand(q, 1)}}).Runs)
			if t != nil {
				c.end(run, t)
			}
		}
		prepare("asleep", store.NewRun{}, sleepFor(time.Hour))
		next("asleep", c.now.Add(time.Hour))
		prepare("retrying", store.NewRun{}, retryIn(2*time.Hour))
		next("retrying", c.now.Add(2*time.Hour))
		prepare("waiting", store.NewRun{}, sleepOn(store.WakeSignal))
		next("waiting", time.Time{})
		prepare("deadline", store.NewRun{Timeout: 3 * time.Hour}, sleepOn(store.WakeSignal))
		next("deadline", c.now.Add(3*time.Hour))
		prepare("leased", store.NewRun{}, nil)
		next("leased", c.now.Add(aLease))
		prepare("done", store.NewRun{Timeout: time.Hour}, complete(""))
		next("done", time.Time{})
	}},
	{"claim/next-due-without-paused", "P13", "NextDue ignores paused runs, queues and workflows, because no time makes those claimable", func(c *C) {
		id := c.create(store.NewRun{After: time.Hour})
		due := c.now.Add(time.Hour)
		c.pause(id)
		c.eq("NextDue with the run paused", c.claim(store.ClaimParams{}).NextDue, time.Time{})
		c.resume(id)
		c.eq("NextDue with the run resumed", c.claim(store.ClaimParams{}).NextDue, due)
		c.setPaused(aQueue, "", true)
		c.eq("NextDue with the queue paused", c.claim(store.ClaimParams{}).NextDue, time.Time{})
		c.setPaused(aQueue, "", false)
		c.setPaused("", aWorkflow, true)
		c.eq("NextDue with the workflow paused", c.claim(store.ClaimParams{}).NextDue, time.Time{})
		c.setPaused("", aWorkflow, false)
		c.eq("NextDue with nothing paused", c.claim(store.ClaimParams{}).NextDue, due)
	}},
	{"claim/id-of-two-workers", "P4", "claims of two workers are two claims, also with one ClaimID and at one time: each takes, finds again and reports what it would with an id of its own", func(c *C) {
		ids := c.createN(2, store.NewRun{})
		as := func(worker string, again bool, n int) store.Claimed {
			c.Helper()
			return c.claim(store.ClaimParams{Worker: worker, ClaimID: 42, Again: again, Max: n})
		}
		first, second := as("w1", false, 1), as("w2", false, 1)
		c.eq("the run of the first worker", runIDs(first.Runs), ids[:1])
		c.eq("the run of the second worker", runIDs(second.Runs), ids[1:])
		c.eq("NextDue of the second: the end of the first one's lease", second.NextDue, c.now.Add(aLease))
		for i, worker := range []string{"w1", "w2"} {
			got := as(worker, true, 5)
			c.eq("the run that "+worker+" finds again", runIDs(got.Runs), ids[i:i+1])
			c.eq("its lease", got.Runs[0].Lease, store.Lease{Run: ids[i], Worker: worker, Epoch: 1})
			c.eq("NextDue of "+worker+" that asks again", got.NextDue, c.now.Add(aLease))
		}
		c.advance(aLease)
		taken := as("w2", false, 5).Runs
		c.eq("runs of a claim after both leases", runIDs(taken), ids)
		for _, r := range taken {
			c.eq("epoch, worker and crashes of a run that is taken over", []any{r.Lease.Epoch, r.Run.Worker, r.Run.Crashes}, []any{int64(2), "w2", 1})
		}
		c.lost("a commit of the first worker", store.Commit{Lease: first.Runs[0].Lease, Seq: 1})
		c.lost("a commit of the second one's first lease", store.Commit{Lease: second.Runs[0].Lease, Seq: 1})
		c.eq("what the first worker finds again", len(as("w1", true, 5).Runs), 0)
		// For another queue it is another claim, too.
		other := c.create(store.NewRun{Queue: "elsewhere"})
		p := store.ClaimParams{Worker: "w2", ClaimID: 42, Demands: []store.Demand{demand("elsewhere", 5)}}
		c.eq("the run of another queue", runIDs(c.claim(p).Runs), []store.ID{other})
		p.Again = true
		c.eq("the run of another queue, found again", runIDs(c.claim(p).Runs), []store.ID{other})
		c.eq("what the worker finds again in the first queue", runIDs(as("w2", true, 5).Runs), ids)
	}},
}

// ahead returns how many runs will be claimed before a run, or skips the case.
func (c *C) ahead(id store.ID) int {
	c.Helper()
	x, ok := c.s.(store.Ranker)
	if !ok {
		c.Skip("the backend does not tell what is ahead of a run")
	}
	n, err := x.Ahead(c.ctx, store.AheadParams{Namespace: c.ns, Run: id, Now: c.now})
	c.ok("Ahead", err)
	return n
}

var orderCases = []Case{
	{"claim/ahead", "P7", "Ahead counts the due runs of the same queue and workflow that are claimed before a run, and no others", func(c *C) {
		c.ahead(c.create(store.NewRun{}))
		c.end(c.claim1(), complete(""))
		at := func(p int, after time.Duration) store.ID { return c.create(store.NewRun{Priority: p, After: after}) }
		ids := []store.ID{at(3, 0), at(3, time.Second), at(1, 0), at(1, time.Second)}
		twins := []store.ID{at(1, 2*time.Second), at(1, 2*time.Second), at(1, 2*time.Second)}
		slices.SortFunc(twins, byID)
		ids = append(append(ids, twins...), at(1, 3*time.Second), at(-2, 0), at(-2, time.Microsecond))
		later, first := at(1, time.Hour), at(9, time.Hour)
		paused := at(9, 0)
		c.pause(paused)
		c.create(store.NewRun{Priority: 9, Queue: "another"})
		c.create(store.NewRun{Priority: 9, Workflow: "another"})
		_, err := c.s.Create(c.ctx, store.CreateParams{Namespace: c.ns + "-other", Runs: []store.NewRun{fill(store.NewRun{Priority: 9})}, Now: c.now})
		c.ok("Create", err)
		c.advance(time.Minute)
		for i, id := range ids {
			c.eq(fmt.Sprintf("ahead of the run that is claimed in place %d", i), c.ahead(id), i)
		}
		for what, id := range map[string]store.ID{"a run that is not due": later, "one of a high priority": first, "a paused run": paused} {
			c.eq("ahead of "+what, c.ahead(id), 0)
		}
		for i, id := range ids[:3] {
			run := c.claim1()
			c.eq(fmt.Sprintf("the run that is claimed in place %d", i), run.Run.ID, id)
			c.eq("ahead of a run that is leased", c.ahead(id), 0)
		}
		c.eq("ahead of the fourth run when three are leased", c.ahead(ids[3]), 0)
		c.eq("ahead of the fifth", c.ahead(ids[4]), 1)
		c.advance(aLease)
		c.eq("ahead of it when the leases have run out", c.ahead(ids[4]), 3) // two of a higher priority, and the fourth; the third is now due later than it
		_, err = c.s.(store.Ranker).Ahead(c.ctx, store.AheadParams{Namespace: c.ns + "-other", Run: ids[0], Now: c.now})
		c.fails("Ahead in another namespace", err, store.ErrNotFound)
	}},
	{"claim/ahead-is-capped", "P7", "Ahead counts up to MaxAhead, and returns one more if there are more", func(c *C) {
		c.ahead(c.create(store.NewRun{Priority: -2}))
		last := c.create(store.NewRun{Priority: -3})
		for n := 1; n < store.MaxAhead; {
			batch := make([]store.NewRun, min(500, store.MaxAhead-n))
			for i := range batch {
				batch[i] = fill(store.NewRun{Priority: i % 2})
			}
			c.creates(batch...)
			n += len(batch)
		}
		c.eq("ahead of a run behind as many as are counted", c.ahead(last), store.MaxAhead)
		c.create(store.NewRun{})
		c.eq("ahead of it with one more", c.ahead(last), store.MaxAhead+1)
		c.create(store.NewRun{Priority: 5})
		c.eq("ahead of it with two more", c.ahead(last), store.MaxAhead+1)
	}},
	{"claim/priority-first", "P7", "higher priority is claimed first, however long other runs have waited", func(c *C) {
		want := map[int]store.ID{}
		for _, p := range []int{0, store.MinPriority, 5, store.MaxPriority, -1, 1} {
			want[p] = c.create(store.NewRun{Priority: p})
			c.advance(time.Second)
		}
		for _, p := range []int{store.MaxPriority, 5, 1, 0, -1, store.MinPriority} {
			c.eq(fmt.Sprintf("the run of priority %d", p), c.claim1().Run.ID, want[p])
		}
	}},
	{"claim/priority-needs-due", "P7", "a run that is not due does not precede one that is, whatever its priority", func(c *C) {
		c.create(store.NewRun{Priority: 9, After: time.Hour})
		low := c.create(store.NewRun{Priority: -9})
		c.eq("the run", c.claim1().Run.ID, low)
	}},
	{"claim/due-time-next", "P7", "among runs of equal priority, the one that was due earlier is claimed first", func(c *C) {
		late := c.create(store.NewRun{After: 3 * time.Second})
		early := c.create(store.NewRun{After: time.Second})
		middle := c.create(store.NewRun{After: 2 * time.Second})
		c.advance(time.Minute)
		c.eq("the first, claimed alone", c.claim1().Run.ID, early)
		c.eq("the order of the others", runIDs(c.claimN(2)), []store.ID{middle, late})
	}},
	{"claim/fifo", "P7", "among runs of equal priority and due time, the one with the lower ID, which was created first, is claimed first", func(c *C) {
		ids := c.createN(12, store.NewRun{})
		got := []store.ID{}
		for range 4 {
			got = append(got, runIDs(c.claimN(3))...)
		}
		c.eq("the order", got, ids)
	}},
	{"claim/order-in-a-batch", "P7", "the runs of one claim are in the order of P7", func(c *C) {
		a := c.create(store.NewRun{After: time.Second})
		b := c.create(store.NewRun{Priority: 1, After: 2 * time.Second})
		d := c.create(store.NewRun{Priority: 1, After: time.Second})
		c.advance(time.Minute)
		c.eq("the order", runIDs(c.claimN(5)), []store.ID{d, b, a})
	}},
	{"claim/order-over-demands", "P7", "with several demands, too, the first runs of all are returned, in order", func(c *C) {
		low1 := c.create(store.NewRun{Queue: "q1"})
		low2 := c.create(store.NewRun{Queue: "q2"})
		mid := c.create(store.NewRun{Queue: "q1", Priority: 3, Workflow: "b"})
		top := c.create(store.NewRun{Queue: "q2", Priority: 5})
		demands := []store.Demand{demand("q1", 5, aWorkflow, "b"), demand("q2", 5)}
		c.eq("the best two", runIDs(c.claim(store.ClaimParams{Max: 2, Demands: demands}).Runs), []store.ID{top, mid})
		c.eq("the rest", runIDs(c.claim(store.ClaimParams{Max: 5, Demands: demands}).Runs), []store.ID{low1, low2})
	}},
	{"claim/order-of-woken", "P7", "the place of a woken run follows from the time of its waking", func(c *C) {
		sleeper := c.start()
		c.end(sleeper, sleepOn(store.WakeSignal))
		first := c.create(store.NewRun{})
		c.advance(time.Second)
		c.signal(sleeper.Run.ID, "n", "")
		c.advance(time.Second)
		last := c.create(store.NewRun{})
		c.eq("the order", runIDs(c.claimN(5)), []store.ID{first, sleeper.Run.ID, last})
	}},
	{"claim/order-of-recovered", "P7", "the place of a run whose lease expired follows from the end of its lease", func(c *C) {
		crashed := c.start()
		first := c.create(store.NewRun{})
		c.advance(aLease)
		last := fill(store.NewRun{})
		c.advance(time.Second)
		c.create(last)
		c.eq("the order", runIDs(c.claimN(5)), []store.ID{first, crashed.Run.ID, last.ID})
	}},
	{"claim/cost-follows-claimable", "P18", "the right runs are claimed from among thousands that sleep, are final, are paused or belong to others", func(c *C) {
		c.crowd(1200)
		due := c.createN(3, store.NewRun{})
		got := c.claim(store.ClaimParams{Max: 5})
		c.eq("the runs", runIDs(got.Runs), due)
		c.eq("NextDue", got.NextDue, c.now.Add(time.Hour))
	}},
	{"claim/among-scheduled", "P18", "runs of a later time neither hide due runs nor are returned with them", func(c *C) {
		c.createN(1500, store.NewRun{Priority: 10, After: time.Hour})
		due := c.create(store.NewRun{Priority: -10})
		c.eq("the runs", runIDs(c.claimN(10)), []store.ID{due})
		c.advance(time.Hour)
		c.eq("the scheduled ones in their time", len(c.claimAll(100)), 100)
	}},
	{"claim/among-leased", "P18", "runs that others hold neither hide due runs nor are returned with them", func(c *C) {
		c.createN(600, store.NewRun{Priority: 10})
		c.eq("the first runs", len(c.claimAll(600)), 600)
		due := c.createN(2, store.NewRun{Priority: -10})
		c.eq("the runs", runIDs(c.claimN(10)), due)
	}},
	{"claim/among-priorities", "P18", "with many priorities in use, the order is exact", func(c *C) {
		want := map[int][]store.ID{}
		for p := store.MinPriority; p <= store.MaxPriority; p += 4 {
			want[p] = c.createN(2, store.NewRun{Priority: p})
		}
		got := runIDs(c.claimAll(200))
		c.eq("how many", len(got), 2*len(want))
		i := 0
		for p := store.MaxPriority; p >= store.MinPriority && i+1 < len(got); p -= 4 {
			c.eq(fmt.Sprintf("the runs of priority %d", p), got[i:i+2], want[p])
			i += 2
		}
	}},
}

// crowd creates n times four runs that are not claimable now: of another queue and workflow,
// scheduled, paused, and asleep or final.
func (c *C) crowd(n int) {
	c.Helper()
	c.createN(n/2, store.NewRun{Queue: "foreign", Priority: 50})
	c.createN(n/2, store.NewRun{Workflow: "foreign", Priority: 50})
	c.createN(n, store.NewRun{After: time.Hour, Priority: 20})
	for _, part := range batches(c.createN(n, store.NewRun{Priority: 30})) {
		c.tryPause(false, part...)
	}
	c.createN(n, store.NewRun{Priority: 40})
	var cms []store.Commit
	for i, run := range c.claimAll(n) {
		t := sleepOn(store.WakeSignal)
		if i%2 == 0 {
			t = complete("")
		}
		cms = append(cms, store.Commit{Lease: run.Lease, Transition: t})
	}
	for _, res := range c.commits(cms...) {
		c.ok("Commit's item", res.Err)
	}
}

// claimAll leases n runs, in as many claims as necessary: a claim may return fewer than there are.
func (c *C) claimAll(n int) []store.ClaimedRun {
	c.Helper()
	var all []store.ClaimedRun
	for len(all) < n {
		got := c.claimN(n - len(all))
		if len(got) == 0 {
			break
		}
		all = append(all, got...)
	}
	return all
}

func batches(ids []store.ID) [][]store.ID {
	var out [][]store.ID
	for len(ids) > 500 {
		out, ids = append(out, ids[:500]), ids[500:]
	}
	return append(out, ids)
}

var extendCases = []Case{
	{"extend/keeps-lease", "P1", "an extended lease lasts from the extension on, and nobody else gets its run", func(c *C) {
		run := c.start()
		for range 3 {
			c.advance(aLease - time.Second)
			c.eq("the lease's state", c.extend(run.Lease), store.LeaseState{})
			c.eq("VisibleAt", c.get(run.Run.ID).VisibleAt, c.now.Add(aLease))
		}
		c.claimNone("the lease was extended")
		c.eq("epoch", c.get(run.Run.ID).Epoch, int64(1))
	}},
	{"extend/tells-events", "P5", "an extension returns the run's event count", func(c *C) {
		run := c.start()
		c.signal(run.Run.ID, "n", "")
		c.setState(run.Run.ID, "k", "v")
		c.eq("the lease's state", c.extend(run.Lease), store.LeaseState{Events: 2})
	}},
	{"extend/lost-after-takeover", "P2", "an old epoch cannot be extended, whoever has taken over its run, and the run does not change", func(c *C) {
		for _, worker := range []string{"w2", aWorker} {
			first := c.start()
			c.advance(aLease)
			c.claim1As(worker)
			c.advance(time.Second)
			before := c.get(first.Run.ID)
			c.eq("Lost after the takeover by "+worker, c.extend(first.Lease).Lost, true)
			c.eq("the run", c.get(first.Run.ID), before)
			c.force(first.Run.ID)
		}
	}},
	{"extend/lost-after-finish", "P2", "a lease that any transition has ended cannot be extended", func(c *C) {
		for _, t := range transitions() {
			run := c.startWith(store.NewRun{Queue: aQueue})
			c.end(run, t)
			before := c.get(run.Run.ID)
			c.eq("Lost after "+t.Kind.String(), c.extend(run.Lease).Lost, true)
			c.eq("the run after "+t.Kind.String(), c.get(run.Run.ID), before)
			c.cancelIfLive(run.Run.ID)
		}
	}},
	{"extend/lost-of-others", "P2", "a lease of another worker, epoch, run or namespace is lost, and nothing changes", func(c *C) {
		run := c.start()
		before := c.get(run.Run.ID)
		c.advance(time.Second)
		for _, l := range []store.Lease{
			{Run: run.Run.ID, Worker: "w2", Epoch: 1},
			{Run: run.Run.ID, Worker: aWorker, Epoch: 0},
			{Run: run.Run.ID, Worker: aWorker, Epoch: 2},
			{Run: store.NewID(), Worker: aWorker, Epoch: 1},
		} {
			c.eq(fmt.Sprintf("Lost of %+v", l), c.extend(l).Lost, true)
		}
		c.eq("the run", c.get(run.Run.ID), before)
	}},
	{"extend/each-its-own", "P2", "in a batch each lease has its own result, in order", func(c *C) {
		c.createN(3, store.NewRun{})
		runs := c.claimN(3)
		c.end(runs[1], complete(""))
		c.cancel(runs[2].Run.ID)
		c.eq("the states", c.extends(runs[2].Lease, runs[1].Lease, runs[0].Lease), []store.LeaseState{
			{Canceling: true, Events: 1}, c.lostState(runs[1].Lease), {},
		})
	}},
	{"extend/expired-but-not-taken", "P6", "a lease that expired but was not taken over is renewed", func(c *C) {
		run := c.start()
		c.advance(10 * aLease)
		c.eq("the lease's state", c.extend(run.Lease), store.LeaseState{})
		c.eq("VisibleAt", c.get(run.Run.ID).VisibleAt, c.now.Add(aLease))
		c.claimNone("the lease was renewed")
		c.eq("Crashes", c.get(run.Run.ID).Crashes, 0)
	}},
	{"extend/tells-canceling", "P11", "the holder of a run that was canceled learns of it when it extends", func(c *C) {
		run := c.start()
		c.cancel(run.Run.ID)
		c.eq("the lease's state", c.extend(run.Lease), store.LeaseState{Canceling: true, Events: 1})
		c.status(run.Run.ID, store.Canceling)
	}},
	{"extend/tells-pausing", "P11", "the holder of a run that was paused learns of it when it extends", func(c *C) {
		run := c.start()
		c.pause(run.Run.ID)
		c.eq("Pausing", c.extend(run.Lease).Pausing, true)
		c.resume(run.Run.ID)
		c.eq("Pausing after the resume", c.extend(run.Lease).Pausing, false)
	}},
	{"extend/heartbeat", "P13", "an extension is its worker's sign of life, with or without leases; it does not register a worker", func(c *C) {
		c.extends()
		c.eq("workers", len(c.workers()), 0)
		c.putWorker(store.Worker{ID: aWorker, TTL: time.Minute})
		c.advance(50 * time.Second)
		c.extends()
		c.advance(50 * time.Second)
		w := c.workers()[0]
		c.eq("SeenAt", w.SeenAt, c.now.Add(-50*time.Second))
		c.eq("Status", w.Status, store.Online)
	}},
	{"extend/races-takeover", "P2", "an extension that is concurrent with a takeover either keeps the run or has lost it, never both", func(c *C) {
		run := c.start()
		for range 15 {
			c.advance(aLease)
			var state []store.LeaseState
			var taken []store.ClaimedRun
			c.race(2, func(i int, s store.Store) (err error) {
				if i == 0 {
					state, err = patient(c.ctx, func() ([]store.LeaseState, error) {
						return s.Extend(c.ctx, store.ExtendParams{Namespace: c.ns, Worker: run.Lease.Worker, Leases: []store.Lease{run.Lease}, LeaseFor: aLease, Now: c.now})
					})
					return err
				}
				taken, err = c.claimOn(s, store.ClaimParams{Worker: "w2"})
				return err
			})
			c.eq("Lost", state[0].Lost, len(taken) == 1)
			if len(taken) == 1 {
				run = taken[0]
			}
		}
	}},
}

// lostState is the state of a lost lease; only Lost matters, the rest is up to the backend.
func (c *C) lostState(l store.Lease) store.LeaseState {
	c.Helper()
	st := c.extend(l)
	c.eq("Lost", st.Lost, true)
	return st
}

// cancelIfLive cancels a run that is not final.
func (c *C) cancelIfLive(id store.ID) {
	c.Helper()
	if !c.get(id).Status.Final() {
		c.force(id)
	}
}
