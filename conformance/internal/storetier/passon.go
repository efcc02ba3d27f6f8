package storetier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// A store need not pass permits on. If it does not, the permits must have ended, and a claim gets the run that the
// case expects. So each case says what must happen either way.

// passFor is the lease that an end asks for. It is not that of claims.
const passFor = aLease - 20*time.Second

// passing is a transition that asks for its permits to be passed on.
func passing(t *store.Transition) *store.Transition {
	t.PassOn = passFor
	return t
}

// passOn is the usual one.
func passOn() *store.Transition { return passing(complete("")) }

// passes ends a run, whose permits must go to another one: passed on by the store, or by the next claim. It returns
// that run and whether the store has passed them on.
func (c *C) passes(what string, run store.ClaimedRun, want store.ID) (store.ClaimedRun, bool) {
	c.Helper()
	before := c.get(want)
	res := c.end(run, passOn())
	if res.Next == nil {
		return c.one(c.takes(what+", by the claim", 9, want)), false
	}
	c.passed(what, run.Lease, before, res.Next)
	return *res.Next, true
}

// passed checks a run that has got permits. before is the run before that.
func (c *C) passed(what string, from store.Lease, before store.Run, next *store.ClaimedRun) {
	c.Helper()
	if next.Run.ID != before.ID {
		c.Fatalf("%s: saw the permits passed on to run %v, expected %v", what, next.Run.ID, before.ID)
	}
	c.eq(what+": the lease", next.Lease, store.Lease{Run: before.ID, Worker: from.Worker, Epoch: before.Epoch + 1})
	want := before
	want.Status, want.Worker, want.Epoch, want.VisibleAt = store.Running, from.Worker, before.Epoch+1, c.now.Add(passFor)
	if want.StartedAt.IsZero() {
		want.StartedAt = c.now
	}
	c.eq(what+": the stored run", c.get(before.ID), want)
	c.eq(what+": the run", next.Run, want)
	c.eq(what+": Recovered", next.Recovered, before.Crashes > 0)
	c.eq(what+": steps", []any{len(next.Steps), next.MoreSteps}, []any{0, false})
	in := next.Inbox
	c.eq(what+": the inbox", []any{in.Status, in.Events, len(in.Signals), len(in.State), len(in.Groups)}, []any{store.Running, before.Events, 0, 0, 0})
}

// passesNothing ends a run, whose permits must not be passed on.
func (c *C) passesNothing(what string, run store.ClaimedRun) {
	c.Helper()
	c.eq(what+": Next", c.end(run, passOn()).Next, (*store.ClaimedRun)(nil))
}

// oneOf makes a limit of 1 and n runs under it. It claims the first one, with a second claim that gets none.
func (c *C) oneOf(limit string, n int) (first store.ClaimedRun, rest []store.ID) {
	c.Helper()
	c.putLimit(limit, oneAtATime)
	lists := make([][]store.LimitUse, n)
	for i := range lists {
		lists[i] = use(limit, "k")
	}
	ids := c.createUnder(lists...)
	first = c.one(c.takes("the first claim", 9, ids[0]))
	c.takes("the claim at the limit", 9)
	return first, ids[1:]
}

var passOnCases = []Case{
	{"limit/pass-on", "P21", "a run that ends may pass its permits on to the next run, which has the same worker, a lease of the time that was asked for, and permits that count once", checkPassOn},
	{"limit/pass-on-chain", "P24", "permits that are passed on again and again count once each time, and none of them is left at the end", func(c *C) {
		run, rest := c.oneOf("l", 12)
		for i, id := range rest {
			run, _ = c.passes(fmt.Sprintf("end %d", i+1), run, id)
			c.heldUnder("l", "k", 1)
			if i%3 == 0 {
				c.takes("the claim at the limit", 9)
			}
		}
		c.passesNothing("the last end", run)
		c.heldUnder("l", "k", 0)
		c.takes("a run that comes later", 9, c.createUnder(use("l", "k"))...)
		c.heldUnder("l", "k", 1)
	}},
	{"limit/pass-on-together", "P21", "of runs that end in one call, each passes its permits on to a run of its own, in order, or leaves them to a claim", checkPassTogether},
	{"limit/pass-on-newcomer", "P1", "a run that gets permits before any claim has looked at it is taken over like any other", func(c *C) {
		c.putLimit("two", store.LimitRule{Concurrency: 2})
		ids := c.createUnder(use("two", "k"), use("two", "k"), use("two", "k"))
		both := c.takes("the first claim", 9, ids[:2]...)
		c.takes("the claim at the limit", 9)
		last, _ := c.passes("the first end", both[0], ids[2])
		c.heldUnder("two", "k", 2)
		late := c.createUnder(use("two", "k"))[0]
		c.passes("the second end", both[1], late)
		c.heldUnder("two", "k", 2)
		c.end(last, complete(""))
		c.advance(2 * aLease)
		c.takes("the claim after the lease", 9, late)
		c.heldUnder("two", "k", 1)
	}},
	{"limit/pass-on-leases", "P1", "a run that has got permits cannot be claimed before its lease ends, and is then taken over like any other", func(c *C) {
		run, rest := c.oneOf("l", 3)
		next, passed := c.passes("the end", run, rest[0])
		span := aLease
		if passed {
			span = passFor
		}
		c.advance(span - time.Microsecond)
		c.takes("the claim before the lease ends", 9)
		c.eq("the lease", c.extend(next.Lease), store.LeaseState{})
		c.advance(aLease - time.Microsecond)
		c.takes("the claim before the extended lease ends", 9)
		c.advance(time.Microsecond)
		again := c.one(c.takes("the takeover", 9, rest[0]))
		c.eq("Crashes", again.Run.Crashes, 1)
		c.lost("an end by the first holder", store.Commit{Lease: next.Lease, Transition: passOn()})
		c.heldUnder("l", "k", 1)
		c.passes("the end after the takeover", again, rest[1])
	}},
	{"limit/pass-on-order", "P7", "permits are passed on by due time and then by ID; a run that is due later, paused, canceled or leased is left out", checkPassOrder},
	{"limit/pass-on-history", "P7", "a run that needs a replay gets no permits passed on, and no later run goes before it", checkPassHistory},
	{"limit/pass-on-flows", "P7", "no permits are passed on while a run of another queue, workflow, priority, pin or other limits, which a claim has left, waits for one of the keys", checkPassFlows},
	{"limit/pass-on-apart", "P15", "runs of other keys, limits and namespaces neither get the permits nor hinder that they are passed on", func(c *C) {
		other := newC(c.TB, c.host, c.h, c.s, c.s2, c.cs)
		other.ns, other.now = c.ns+" other", c.now.Add(-time.Hour)
		abroad, theirs := other.oneOf("l", 2)
		keys := c.createUnder(use("l", "another"), use("l", ""), use("m", "k"), nil)
		c.finish(c.takes("what is not under the key", 9, keys...))
		run, rest := c.oneOf("l", 2)
		later := c.createUnder(use("l", "another"), use("l", ""), use("m", "k"), nil)
		before := c.get(rest[0])
		if res := c.end(run, passOn()); res.Next != nil {
			c.passed("the end", run.Lease, before, res.Next)
			c.takes("the others", 9, later...)
		} else {
			c.takes("the next run and the others", 9, append(rest, later...)...)
		}
		c.heldUnder("l", "k", 1)
		other.heldUnder("l", "k", 1)
		other.now = c.now
		other.eq("the run abroad", other.get(theirs[0]).Epoch, int64(0))
		other.force(abroad.Run.ID)
	}},
	{"limit/pass-on-refused", "P21", "no permits are passed on under a rate, under a fair limit, while more leases are under a limit than it permits, and in a paused queue or workflow", checkPassRefused},
	{"limit/pass-on-several", "P21", "the permits of several limits are passed on together, also those of a limit that others are under as well; those of a step end", func(c *C) {
		c.putLimit("all", store.LimitRule{Concurrency: 2})
		c.putLimit("l", oneAtATime)
		both := uses(use("all", ""), use("l", "k"))
		ids := c.createUnder(both, both, both)
		run := c.one(c.takes("the first claim", 9, ids[0]))
		next, _ := c.passes("the end", run, ids[1])
		c.heldUnder("all", "", 1)
		c.heldUnder("l", "k", 1)
		c.putLimit("s", oneAtATime)
		c.commit(store.Commit{Lease: next.Lease, Transition: &store.Transition{Kind: store.Release, At: c.now.Add(-time.Hour), Under: use("s", "x")}})
		step := c.claim1()
		c.eq("the run whose step has a permit", step.Run.ID, ids[1])
		c.heldUnder("s", "x", 1)
		c.passes("the end of a run with the permit of a step", step, ids[2])
		c.heldUnder("s", "x", 0)
		c.heldUnder("all", "", 1)
		c.heldUnder("l", "k", 1)
	}},
	{"limit/pass-on-again", "P4", "an end that is sent again passes nothing on again, and its result has the run for as long as that lease is valid", checkPassAgain},
	{"limit/pass-on-again-with-event", "P5", "the result of an end that is sent again tells of what has come for the run meanwhile", func(c *C) {
		for what, event := range map[string]func(id store.ID){
			"a signal": func(id store.ID) { c.signal(id, "n", "payload") },
			"state":    func(id store.ID) { c.setState(id, "k", "v") },
			"a cancel": func(id store.ID) { c.cancel(id) },
			"a pause":  func(id store.ID) { c.pause(id) },
		} {
			run, rest := c.oneOf(what, 2)
			end := store.Commit{Lease: run.Lease, Seq: 1, Transition: passOn()}
			if c.commit(end).Next == nil {
				c.takes("the claim", 9, rest[0])
				continue
			}
			event(rest[0])
			again := c.tryCommit(end)
			c.eq("Repeated", again.Repeated, true)
			if again.Next == nil {
				c.check(what == "state" || what == "a cancel", "the result does not have the run, to which came %s", what)
				continue // as of a claim that is sent again: it may be left out
			}
			in := again.Next.Inbox
			c.eq("the run, to which came "+what, again.Next.Run, c.get(rest[0]))
			c.eq("Events and Status", []any{in.Events, in.Status}, []any{again.Next.Run.Events, again.Next.Run.Status})
			c.check(what != "a signal" && what != "state" || in.Events == 1, "the inbox counts %d events, expected 1 of %s", in.Events, what)
			c.check(what != "a signal" || in.MoreSignals || len(in.Signals) == 1, "the inbox has %d signals and tells of no more", len(in.Signals))
			c.check(what != "state" || in.MoreState || len(in.State) == 1, "the inbox has %d entries of state and tells of no more", len(in.State))
		}
	}},
	{"limit/pass-on-lost", "P2", "a commit whose lease is lost, or that skips a number, passes nothing on", checkPassLost},
	{"limit/pass-on-large-input", "P12", "a run with a large input gets permits with its input, or not before a claim", func(c *C) {
		c.putLimit("l", oneAtATime)
		first := c.createUnder(use("l", "k"))
		c.advance(time.Microsecond)
		input := make([]byte, min(100<<10, c.s.Limits().Payload))
		large := c.create(store.NewRun{Under: use("l", "k"), Input: input})
		run := c.one(c.takes("the first run", 1, first...))
		c.takes("the claim at the limit", 9)
		next, _ := c.passes("the end", run, large)
		c.bytes("its input", next.Run.Input, input)
	}},
	{"limit/pass-on-due", "P18", "permits that were passed on leave nothing due behind", func(c *C) {
		for i, rule := range []store.LimitRule{oneAtATime, {Concurrency: 2}} { // the second leaves room
			limit := fmt.Sprint("l", i)
			c.putLimit(limit, rule)
			ids := c.createUnder(use(limit, "k"), use(limit, "k"), use(limit, "k"), use(limit, "k"))
			runs := c.takes("the first claim", 9, ids[:rule.Concurrency]...)
			c.takes("the claim at the limit", 9)
			next, _ := c.passes("the end", runs[0], ids[rule.Concurrency])
			for _, run := range append(runs[1:], next) {
				c.end(run, complete(""))
			}
			for runs := c.claimN(9); len(runs) > 0; runs = c.claimN(9) {
				for _, run := range runs {
					c.end(run, complete(""))
				}
			}
			c.eq("NextDue", c.claim(store.ClaimParams{Max: 9}).NextDue, time.Time{})
		}
	}},
	{"limit/pass-on-retried", "P21", "a run that is retried from its beginning gets permits like a new one, with its attempt and its failure, and commits from 1 on", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "k"), use("l", "k"))
		run := c.one(c.takes("the first claim", 9, ids[0]))
		c.commit(store.Commit{Lease: run.Lease})
		c.advance(time.Microsecond)
		c.commit(store.Commit{Lease: run.Lease, Transition: retryIn(0)})
		other := c.one(c.takes("the second claim", 9, ids[1]))
		next, _ := c.passes("the end", other, ids[0])
		c.eq("Attempt and epoch", []any{next.Run.Attempt, next.Lease.Epoch}, []any{2, int64(2)})
		c.check(next.Run.Failure != nil, "the run has no failure, expected that of its last attempt")
		c.commit(store.Commit{Lease: next.Lease, Seq: 1, Steps: []store.StepRecord{step(1, "a", "")}})
		c.passesNothing("the last end", next)
	}},
	{"limit/pass-on-history-together", "P7", "if runs end in one call and the first that waits needs a replay, none of the later ones gets permits", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 2})
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"))
		runs := c.takes("the first claim", 9, ids[0], ids[1])
		c.advance(time.Microsecond)
		c.commit(store.Commit{Lease: runs[0].Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: retryIn(0)})
		runs[0] = c.one(c.takes("the last one", 1, ids[2]))
		later := append(ids[:1:1], c.createUnder(use("l", "k"), use("l", "k"))...)
		for _, res := range c.commits(store.Commit{Lease: runs[0].Lease, Transition: passOn()}, store.Commit{Lease: runs[1].Lease, Transition: passOn()}) {
			c.ok("an end", res.Err)
			c.eq("Next", res.Next, (*store.ClaimedRun)(nil))
		}
		c.takes("the claim", 9, later[:2]...)
	}},
	{"limit/pass-on-pins", "P19", "permits are not passed on to a run that is pinned to another build than the one that ends", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"))
		pinned := c.one(c.takes("the run that is pinned", 1, ids[0]))
		c.commit(store.Commit{Lease: pinned.Lease, Pin: &store.Pin{Build: oldBuild}, Transition: retryIn(0)}) // due like the third
		run := c.one(c.takes("the second run", 9, ids[1]))
		if res := c.end(run, passOn()); res.Next != nil {
			c.eq("the run", res.Next.Run.ID, ids[2])
		} else {
			c.eq("the pinned run", runIDs(c.claimFor(oldBuild).Runs), ids[:1])
		}
		c.heldUnder("l", "k", 1)
	}},
	{"limit/pass-on-pinned-away", "P19", "a run that its holder has pinned to another build passes no permits on to a run of that build", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "k"), use("l", "k"))
		pin := &store.Pin{Build: oldBuild}
		c.commit(store.Commit{Lease: c.one(c.takes("the run that waits", 1, ids[0])).Lease, Pin: pin, Transition: retryIn(0)})
		run := c.one(c.takes("the run that ends", 9, ids[1]))
		c.commit(store.Commit{Lease: run.Lease, Pin: pin})
		c.eq("the claim of its build", runIDs(c.claimFor(oldBuild).Runs), []store.ID{}) // which leaves the run that waits
		c.eq("Next", c.commit(store.Commit{Lease: run.Lease, Seq: 2, Transition: passOn()}).Next, (*store.ClaimedRun)(nil))
		c.eq("the claim of its build", runIDs(c.claimFor(oldBuild).Runs), ids[:1])
		c.heldUnder("l", "k", 1)
	}},
	{"limit/pass-on-others", "P24", "an end passes on no permits but its own: those of an end before it, in another call, go to claims", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 3})
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"))
		runs := c.takes("the first claim", 9, ids[:3]...)
		c.end(runs[0], complete(""))
		c.end(runs[1], complete(""))
		rest := ids[3:]
		before := c.get(rest[0])
		if res := c.end(runs[2], passOn()); res.Next != nil {
			c.passed("the end", runs[2].Lease, before, res.Next)
			rest = rest[1:]
		}
		c.heldUnder("l", "k", int64(3-len(rest)))
		c.takes("the rest", 9, rest...)
		c.heldUnder("l", "k", 3)
	}},
	{"limit/pass-on-keys", "P21", "ends of several keys in one call pass the permits of each key on to its own runs", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 2})
		keys := []string{"a", "b", "c"}
		var lists [][]store.LimitUse
		for range 4 {
			for _, k := range keys {
				lists = append(lists, use("l", k))
			}
		}
		ids := c.createUnder(lists...)
		var ends []store.Commit
		for _, run := range c.takes("the first claim", 9, ids[:6]...) {
			ends = append(ends, store.Commit{Lease: run.Lease, Transition: passOn()})
		}
		got := map[store.ID]bool{}
		for i, res := range c.commits(ends...) {
			c.ok("an end", res.Err)
			if res.Next != nil {
				c.eq("the key", res.Next.Run.Under, kept(lists[i]))
				c.check(!got[res.Next.Run.ID], "two ends have passed their permits on to one run")
				got[res.Next.Run.ID] = true
			}
		}
		for _, run := range c.claimN(9) {
			c.check(!got[run.Run.ID], "a claim got a run that had the permits already")
			got[run.Run.ID] = true
		}
		for i, id := range ids[6:] {
			c.check(got[id], "run %d has no permits", i+7)
		}
		for _, k := range keys {
			c.heldUnder("l", k, 2)
		}
	}},
	{"limit/pass-on-invalid-item", "P3", "beside a commit that is refused, another one of the call passes its permits on, or a claim gets them", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 2})
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"))
		runs := c.takes("the first claim", 9, ids[:2]...)
		zombie := runs[0].Lease
		zombie.Epoch = 9
		before := c.get(ids[2])
		res := c.commits(store.Commit{Lease: zombie, Seq: 1, Transition: passOn()}, store.Commit{Lease: runs[1].Lease, Transition: passOn()})
		c.fails("the one whose lease is lost", res[0].Err, store.ErrLeaseLost)
		c.eq("its Next", res[0].Next, (*store.ClaimedRun)(nil))
		c.ok("the other one", res[1].Err)
		if next := res[1].Next; next != nil {
			c.passed("the other one", runs[1].Lease, before, next)
			c.takes("the claim at the limit", 9)
		} else {
			c.takes("the claim", 9, ids[2])
		}
		c.heldUnder("l", "k", 2)
	}},
	{"limit/pass-on-bytes", "P12", "the inputs, metas and failures of the runs that a call passes permits on to have no more than DefaultClaimBytes together", checkPassBytes},
	{"limit/pass-on-free", "P21", "a run under no limit passes nothing on", func(c *C) {
		run := c.start()
		ids := []store.ID{c.create(store.NewRun{}), c.create(store.NewRun{Under: use("l", "k")})}
		c.passesNothing("the end", run)
		for _, id := range ids {
			c.eq("a run that waits", []any{c.get(id).Status, c.get(id).Epoch}, []any{store.Pending, int64(0)})
		}
		c.once(runIDs(c.claimN(9)), ids)
	}},
	{"limit/pass-on-build", "P19", "permits are passed on with the build of the lease that ends, among runs of the same pin", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"))
		next := c.one(c.claimFor(newBuild).Runs)
		passed := false
		if res := c.end(next, passOn()); res.Next != nil {
			c.eq("the run", res.Next.Run.ID, ids[1])
			next, passed = *res.Next, true
		} else {
			next = c.one(c.claimFor(newBuild).Runs)
		}
		c.commit(store.Commit{Lease: next.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Pin: &store.Pin{Build: newBuild}})
		c.eq("Build", c.get(ids[1]).Build, newBuild)
		c.eq("the worker", c.get(ids[1]).Worker, "w-"+newBuild)
		if res := c.end(next, passOn()); passed {
			c.eq("what a run passes on that was pinned meanwhile", res.Next, (*store.ClaimedRun)(nil))
		}
	}},
	{"limit/pass-on-claimers", "P21", "of many concurrent claims and ends that pass permits on, each run is leased once, and no moment has more leases of a key than its concurrency", checkPassClaimers},
	{"limit/pass-on-invalid", "P16", "only the completion and the failure of a run may ask for its permits to be passed on, for a time that is not negative", func(c *C) {
		run, rest := c.oneOf("l", 2)
		for _, t := range append(transitions()[2:], giveBack()) {
			c.fails("PassOn of "+t.Kind.String(), c.tryCommit(store.Commit{Lease: run.Lease, Transition: passing(t)}).Err, store.ErrInvalid)
		}
		t := complete("")
		t.PassOn = -time.Microsecond
		c.fails("a negative PassOn", c.tryCommit(store.Commit{Lease: run.Lease, Transition: t}).Err, store.ErrInvalid)
		c.eq("the lease", c.extend(run.Lease), store.LeaseState{})
		c.passes("the end", run, rest[0])
	}},
}

func checkPassOn(c *C) {
	for n := 1; n <= 3; n++ {
		limit := fmt.Sprint("l", n)
		c.putLimit(limit, store.LimitRule{Concurrency: int64(n)})
		lists := make([][]store.LimitUse, n+3)
		for i := range lists {
			lists[i] = use(limit, "k")
		}
		ids := c.createUnder(lists...)
		runs := c.takes("the first claim", 9, ids[:n]...)
		next, _ := c.passes("a completion", runs[0], ids[n])
		c.heldUnder(limit, "k", int64(n))
		c.takes("the claim at the limit", 9)
		c.eq("the lease", c.extend(next.Lease), store.LeaseState{})
		c.commit(store.Commit{Lease: next.Lease, Steps: []store.StepRecord{step(1, "a", "out")}})
		before := c.get(ids[n+1])
		if res := c.end(next, passing(failWith("error"))); res.Next != nil {
			c.passed("a failure", next.Lease, before, res.Next)
			next = *res.Next
		} else {
			next = c.one(c.takes("the claim after a failure", 9, ids[n+1]))
		}
		c.heldUnder(limit, "k", int64(n))
		c.end(next, complete(""))
		c.heldUnder(limit, "k", int64(n-1))
		c.takes("the claim after an end that passes nothing on", 9, ids[n+2])
		c.heldUnder(limit, "k", int64(n))
		for _, id := range append(slices.Clone(ids[1:n]), ids[n+2]) {
			c.force(id)
		}
		c.heldUnder(limit, "k", 0)
	}
}

func checkPassTogether(c *C) {
	for i, waiting := range []int{1, 3, 5} {
		for j, spans := range [][]time.Duration{{passFor, passFor, passFor}, {passFor, 0, passFor}, {passFor, passFor, 2 * passFor}} {
			limit := fmt.Sprint("l", i, j)
			c.putLimit(limit, store.LimitRule{Concurrency: 3})
			lists := make([][]store.LimitUse, 3+waiting)
			for k := range lists {
				lists[k] = use(limit, "k")
			}
			ids := c.createUnder(lists...)
			runs := c.takes("the first claim", 9, ids[:3]...)
			var ends []store.Commit
			for k, span := range spans {
				t := complete("")
				t.PassOn = span
				ends = append(ends, store.Commit{Lease: runs[k].Lease, Transition: t})
			}
			var got []store.ID
			for k, res := range c.commits(ends...) {
				c.ok("an end", res.Err)
				if res.Next == nil {
					continue
				}
				c.check(spans[k] > 0, "an end that did not ask for it has passed its permits on")
				c.eq("the lease of a run", c.get(res.Next.Run.ID).VisibleAt, c.now.Add(spans[k]))
				got = append(got, res.Next.Run.ID)
			}
			slices.SortFunc(got, byID)
			first := slices.Clone(ids[3 : 3+min(len(got), waiting)])
			slices.SortFunc(first, byID)
			c.eq("the runs that have got permits", append([]store.ID{}, got...), append([]store.ID{}, first...))
			room := min(3, waiting)
			c.heldUnder(limit, "k", int64(len(got)))
			c.takes("the rest", 9, ids[3+len(got):3+room]...)
			c.heldUnder(limit, "k", int64(room))
			for _, id := range ids[3:] {
				c.force(id)
			}
			c.heldUnder(limit, "k", 0)
		}
	}
}

func checkPassOrder(c *C) {
	c.putLimit("l", store.LimitRule{Concurrency: 2})
	late := c.create(store.NewRun{Under: use("l", "k"), After: time.Hour})
	ids := c.createUnder(use("l", "k"), use("l", "k"))
	runs := c.takes("the first claim", 9, ids...)
	c.advance(time.Second)
	soon := c.create(store.NewRun{Under: use("l", "k"), After: 2 * time.Second}) // due behind those of the next moment
	c.advance(time.Second)
	same := c.createN(4, store.NewRun{Under: use("l", "k")})
	slices.SortFunc(same, byID)
	c.advance(time.Second)
	last := c.createUnder(use("l", "k"))[0]
	c.pause(same[1])
	c.cancel(same[2])
	held := runs[1]
	next, _ := c.passes("the end of the first", runs[0], same[0])
	next, _ = c.passes("the next end", next, same[3])
	next, _ = c.passes("when the later one is due", next, soon)
	c.resume(same[1])
	next, _ = c.passes("when the paused one is resumed", next, same[1])
	held, _ = c.passes("the end of the other one", held, last)
	c.passesNothing("an end when the rest is due later", next)
	c.heldUnder("l", "k", 1)
	c.takes("the claim", 9)
	c.eq("the run that is due later", c.get(late).Epoch, int64(0))
	c.advance(time.Hour)
	c.extend(held.Lease)
	c.passes("the end when it is due", held, late)
	c.heldUnder("l", "k", 1)
}

func checkPassHistory(c *C) {
	under := func(limit string) store.NewRun { return store.NewRun{Under: use(limit, "k")} }
	// returned is a run that was leased and waits again, before the others but the one that has the permit.
	returned := func(limit string, cm store.Commit) (holder store.ClaimedRun, head store.ID) {
		ids := c.createUnder(use(limit, "k"), use(limit, "k"))
		run := c.one(c.takes("the first claim", 9, ids[0]))
		cm.Lease = run.Lease
		c.commit(cm)
		return c.one(c.takes("the second claim", 9, ids[1])), ids[0]
	}
	waiting := func(limit string, what func(id store.ID)) (store.ClaimedRun, store.ID) {
		ids := c.createUnder(use(limit, "k"), use(limit, "k"))
		run := c.one(c.takes("the first claim", 9, ids[0]))
		what(ids[1])
		return run, ids[1]
	}
	aStep := []store.StepRecord{step(1, "a", "")}
	for i, s := range []struct {
		what string
		head func(limit string) (holder store.ClaimedRun, head store.ID)
	}{
		{"has a step and is retried", func(l string) (store.ClaimedRun, store.ID) {
			return returned(l, store.Commit{Steps: aStep, Transition: retryIn(time.Nanosecond)})
		}},
		{"has children and is retried", func(l string) (store.ClaimedRun, store.ID) {
			return returned(l, store.Commit{Spawn: kids(1), Transition: retryIn(time.Nanosecond)})
		}},
		{"has a step and was released", func(l string) (store.ClaimedRun, store.ID) {
			return returned(l, store.Commit{Steps: aStep, Transition: &store.Transition{Kind: store.Release, After: time.Nanosecond}})
		}},
		{"has slept", func(l string) (store.ClaimedRun, store.ID) {
			return returned(l, store.Commit{Transition: sleepFor(time.Nanosecond)})
		}},
		{"has a signal", func(l string) (store.ClaimedRun, store.ID) {
			return waiting(l, func(id store.ID) { c.signal(id, "n", "") })
		}},
		{"has state", func(l string) (store.ClaimedRun, store.ID) {
			return waiting(l, func(id store.ID) { c.setState(id, "k", "v") })
		}},
	} {
		limit := fmt.Sprint("l", i)
		c.putLimit(limit, oneAtATime)
		holder, head := s.head(limit)
		c.advance(time.Microsecond)
		later := c.create(under(limit))
		c.takes("the claim at the limit, before a run that "+s.what, 9)
		c.passesNothing("before a run that "+s.what, holder)
		c.heldUnder(limit, "k", 0)
		c.status(later, store.Pending)
		run := c.one(c.takes("the run that "+s.what, 9, head))
		c.passes("the end of the run that "+s.what, run, later)
		c.force(later)
	}
}

func checkPassFlows(c *C) {
	wide := store.ClaimParams{Max: 9, Build: oldBuild, Demands: []store.Demand{demand(aQueue, 9, aWorkflow, "other"), demand("other", 9, aWorkflow)}}
	for i, s := range []struct {
		what string
		like store.NewRun
	}{
		{"another workflow", store.NewRun{Workflow: "other"}},
		{"another queue", store.NewRun{Queue: "other"}},
		{"a higher priority", store.NewRun{Priority: 1}},
		{"a lower priority", store.NewRun{Priority: -1}},
		{"another limit as well", store.NewRun{Under: use("free", "k")}},
		{"other tokens", store.NewRun{}},
	} {
		for _, earlier := range []bool{true, false} {
			limit := fmt.Sprint("l", i, earlier)
			c.putLimit(limit, oneAtATime)
			s.like.Under = uses(s.like.Under[:min(1, len(s.like.Under))], use(limit, "k"))
			if s.what == "other tokens" {
				s.like.Under[0].Tokens = 7
			}
			run := c.one(c.takes("the first claim", 9, c.createUnder(use(limit, "k"))...))
			var ids [2]store.ID // of the same kind, and of another one
			for j := range ids {
				c.advance(time.Microsecond)
				if earlier == (j == 0) {
					ids[1] = c.create(s.like)
				} else {
					ids[0] = c.create(store.NewRun{Under: use(limit, "k")})
				}
			}
			c.eq("the claim at the limit, with "+s.what, runIDs(c.claim(wide).Runs), []store.ID{})
			c.passesNothing("an end, with a run of "+s.what, run)
			c.heldUnder(limit, "k", 0)
			first := s.like.Priority > 0 || earlier && s.like.Priority == 0
			want := ids[0]
			if first {
				want = ids[1]
			}
			next := c.claim(wide)
			c.eq("the first of the two, with "+s.what, runIDs(next.Runs), []store.ID{want})
			for _, id := range ids {
				c.force(id)
			}
		}
	}
	c.putLimit("l", oneAtATime)
	ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"))
	pinned := c.one(c.takes("the run that is pinned", 1, ids[0]))
	c.commit(store.Commit{Lease: pinned.Lease, Pin: &store.Pin{Build: oldBuild}, Transition: retryIn(0)})
	run := c.one(c.takes("the second run", 9, ids[1]))
	c.eq("the claim at the limit, with a pinned run", runIDs(c.claim(wide).Runs), []store.ID{})
	c.passesNothing("an end, with a run of another pin", run)
	c.eq("the pinned run", runIDs(c.claim(wide).Runs), ids[:1])
}

func checkPassRefused(c *C) {
	two := func(under []store.LimitUse) (store.ClaimedRun, store.ID) {
		ids := c.createUnder(under, under)
		return c.one(c.takes("the first claim", 1, ids[0])), ids[1]
	}
	rate := store.LimitRule{Concurrency: 1, Tokens: 2, Per: time.Hour}
	for what, rule := range map[string]store.LimitRule{"rate": rate, "fair": {Concurrency: 1, Fair: true}} {
		c.putLimit(what, rule)
		c.putLimit(what+" one", oneAtATime)
		for _, under := range [][]store.LimitUse{use(what, "a"), uses(use(what+" one", "k"), use(what, "b")), uses(use(what, "c"), use("zz", "k"))} {
			run, next := two(under)
			c.takes("the claim at the limit", 9)
			c.passesNothing("an end under the limit "+what, run)
			c.end(c.one(c.takes("the next run of the limit "+what, 9, next)), complete(""))
		}
		c.putLimit(what+" later", oneAtATime)
		run, next := two(use(what+" later", "k"))
		c.setLimit(what+" later", &rule)
		c.passesNothing("an end under a limit that has become "+what, run)
		c.end(c.one(c.takes("the next run", 9, next)), complete(""))
	}
	late := c.createUnder(use("rate", "a"))
	c.takes("the run without a token", 9)
	c.force(late[0])

	c.putLimit("l", store.LimitRule{Concurrency: 3})
	ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"))
	runs := c.takes("three runs", 9, ids[:3]...)
	c.putLimit("l", oneAtATime)
	for i, run := range runs[:2] {
		c.passesNothing("an end above the lowered limit", run)
		c.heldUnder("l", "k", int64(2-i))
		c.takes("the claim above the lowered limit", 9)
	}
	last, _ := c.passes("the end at the lowered limit", runs[2], ids[3])
	c.heldUnder("l", "k", 1)
	for _, target := range [][2]string{{aQueue, ""}, {"", aWorkflow}} {
		c.takes("the claim at the limit", 9)
		c.setPaused(target[0], target[1], true)
		c.passesNothing("an end in what is paused", last)
		c.takes("the claim of what is paused", 9)
		c.heldUnder("l", "k", 0)
		c.setPaused(target[0], target[1], false)
		last = c.one(c.takes("what is no longer paused", 9, ids[4]))
		ids = append(ids, c.createUnder(use("l", "k"))...)[1:]
	}
}

func checkPassLost(c *C) {
	refused := func(what string, rest []store.ID, limit string, cm store.Commit) {
		c.Helper()
		cm.Transition = passOn()
		res := c.tryCommit(cm)
		c.fails(what, res.Err, store.ErrLeaseLost)
		c.eq(what+": Next", res.Next, (*store.ClaimedRun)(nil))
		for _, id := range rest {
			c.status(id, store.Pending)
		}
		c.heldUnder(limit, "k", 1)
	}
	// Each has a limit of its own: a store may not try again where nothing was passed on.
	run, rest := c.oneOf("a", 3)
	refused("an end that skips a number", rest, "a", store.Commit{Lease: run.Lease, Seq: 2})
	run, rest = c.oneOf("b", 3)
	other := run.Lease
	other.Worker = "another"
	refused("an end by another worker", rest, "b", store.Commit{Lease: other, Seq: 1})
	run, rest = c.oneOf("c", 3)
	other = run.Lease
	other.Epoch++
	refused("an end with an epoch that was never given", rest, "c", store.Commit{Lease: other, Seq: 1})
	run, rest = c.oneOf("d", 3)
	c.advance(aLease)
	var taken store.ClaimedRun
	for _, r := range c.claimN(9) { // also those of the other limits
		if r.Run.ID == run.Run.ID {
			taken = r
		}
	}
	refused("an end by the first holder", rest, "d", store.Commit{Lease: run.Lease, Seq: 1})
	next, _ := c.passes("the end by the second holder", taken, rest[0])
	rest = rest[1:]
	refused("an end by the first holder, after that", rest, "d", store.Commit{Lease: run.Lease, Seq: 1})
	c.passes("the last end", next, rest[0])
}

func checkPassAgain(c *C) {
	run, rest := c.oneOf("l", 6)
	repeats := func(what string, end store.Commit, want *store.ClaimedRun) {
		c.Helper()
		for _, s := range []store.Store{c.s, c.s2} {
			res, err := c.tryCommitOn(s, end)
			c.ok("Commit", err)
			c.ok("its item", res.Err)
			c.eq(what+": Repeated", res.Repeated, true)
			switch {
			case want == nil:
				c.eq(what+": Next", res.Next, (*store.ClaimedRun)(nil))
			case res.Next == nil:
				c.Errorf("%s: saw no Next, expected the run, whose lease is valid", what)
			default:
				c.eq(what+": the run", []any{res.Next.Run, res.Next.Lease}, []any{want.Run, want.Lease})
			}
		}
	}
	end := store.Commit{Lease: run.Lease, Seq: 1, Transition: passOn()}
	next := c.commit(end).Next
	repeats("at once", end, next)
	waits := rest
	if next == nil {
		c.heldUnder("l", "k", 0)
		waits = append([]store.ID{{}}, rest...)
		got := c.one(c.takes("the claim", 9, rest[0]))
		repeats("with a run that a claim has taken", end, nil)
		next = &got
	}
	c.heldUnder("l", "k", 1)
	c.takes("the claim at the limit", 9)
	c.status(rest[1], store.Pending)
	if len(waits) == len(rest) {
		c.advance(time.Second)
		c.eq("the lease", c.extend(next.Lease), store.LeaseState{})
		next.Run.VisibleAt = c.now.Add(aLease)
		repeats("when the lease is extended", end, next)
		c.advance(aLease)
		repeats("when the lease has expired", end, nil)
		again := c.one(c.takes("the takeover", 9, rest[0]))
		next = &again
	}
	repeats("when it is leased anew", end, nil)
	second := store.Commit{Lease: next.Lease, Seq: 1, Transition: passOn()}
	third := c.commit(second).Next
	repeats("after the next end", end, nil)
	repeats("the next end", second, third)
	if third == nil {
		got := c.one(c.takes("the claim", 9, rest[1]))
		third = &got
	}
	c.eq("the third run", third.Run.ID, rest[1])
	c.heldUnder("l", "k", 1)
	c.end(*third, complete(""))
	repeats("after an end that has passed nothing on", second, nil)
	c.heldUnder("l", "k", 0)
	c.status(rest[2], store.Pending)
	c.takes("the fourth run", 9, rest[2])
	repeats("after all", second, nil)
	c.heldUnder("l", "k", 1)
	c.status(rest[3], store.Pending)
}

func checkPassBytes(c *C) {
	size := min(store.DefaultClaimBytes/3, c.s.Limits().Payload)
	n := store.DefaultClaimBytes/size + 2 // one more than have room
	c.putLimit("l", store.LimitRule{Concurrency: int64(n)})
	ids := c.createN(n, store.NewRun{Under: use("l", "k")})
	runs := c.claimN(n)
	c.once(runIDs(runs), ids)
	var waiting []store.ID
	for range n {
		c.advance(time.Microsecond)
		waiting = append(waiting, c.create(store.NewRun{Under: use("l", "k"), Input: make([]byte, size)}))
	}
	var ends []store.Commit
	for _, run := range runs {
		ends = append(ends, store.Commit{Lease: run.Lease, Transition: passOn()})
	}
	total, got := 0, map[store.ID]bool{}
	for _, res := range c.commits(ends...) {
		c.ok("an end", res.Err)
		if res.Next != nil {
			total += len(res.Next.Run.Input)
			got[res.Next.Run.ID] = true
			c.bytes("the input of a run", res.Next.Run.Input, make([]byte, size))
		}
	}
	c.check(total <= store.DefaultClaimBytes, "the runs of a call have %d bytes, expected at most %d", total, store.DefaultClaimBytes)
	c.heldUnder("l", "k", int64(len(got)))
	for i, id := range waiting {
		if got[id] != (i < len(got)) {
			c.Fatalf("of the %d runs that have got permits, run %d in the order of P7: saw %v", len(got), i+1, got[id])
		}
	}
	c.takes("the next run", 1, waiting[len(got)])
	c.heldUnder("l", "k", int64(len(got)+1))
	c.checkPassBytesOfKeys(size, n)
}

// checkPassBytesOfKeys is the same with a key for each run.
func (c *C) checkPassBytesOfKeys(size, n int) {
	c.Helper()
	for i := range n {
		c.create(store.NewRun{Queue: "keys", Under: use("l", fmt.Sprint(i))})
	}
	c.putLimit("l", oneAtATime)
	var ends []store.Commit
	for _, run := range c.claim(store.ClaimParams{Demands: []store.Demand{demand("keys", n)}}).Runs {
		c.create(store.NewRun{Queue: "keys", Under: run.Run.Under, Input: make([]byte, size)})
		ends = append(ends, store.Commit{Lease: run.Lease, Transition: passOn()})
	}
	c.eq("runs of as many keys", len(ends), n)
	total := 0
	for _, res := range c.commits(ends...) {
		c.ok("an end", res.Err)
		if res.Next != nil {
			total += len(res.Next.Run.Input)
		}
	}
	c.check(total <= store.DefaultClaimBytes, "the runs of a call that ends runs of several keys have %d bytes, expected at most %d", total, store.DefaultClaimBytes)
}

// passUnderFault is the end of a run that asks for its permits to be passed on.
func passUnderFault(c *C) attempt {
	run, rest := c.oneOf("l", 3)
	end := store.Commit{Lease: run.Lease, Seq: 1, Transition: passOn()}
	answered, next := false, (*store.ClaimedRun)(nil)
	return attempt{
		call: func(ctx context.Context, s store.Store) (bool, error) {
			answered = false
			res, err := s.Commit(ctx, store.CommitParams{Namespace: c.ns, Commits: []store.Commit{end}, Now: c.now})
			if err != nil {
				return false, err
			}
			if res[0].Err != nil {
				return false, res[0].Err
			}
			answered, next = true, res[0].Next
			return !res[0].Repeated, nil
		},
		effect: func() int {
			runs := map[store.ID]store.Run{}
			for _, r := range c.gets(run.Run.ID, rest[0], rest[1]) { // at one moment
				runs[r.ID] = r
			}
			if runs[rest[0]].Epoch > 1 || runs[rest[1]].Epoch > 0 {
				return 100 // it has passed permits on twice
			}
			if runs[run.Run.ID].Status != store.Completed {
				return int(100 * runs[rest[0]].Epoch)
			}
			c.heldUnder("l", "k", runs[rest[0]].Epoch)
			if passed := runs[rest[0]].Epoch > 0; answered && passed {
				c.check(next != nil && next.Run.ID == rest[0], "the permits were passed on, and the result does not have the run")
			} else if answered {
				c.eq("Next of an end that has passed nothing on", next, (*store.ClaimedRun)(nil))
			}
			return 1
		},
	}
}

func checkPassClaimers(c *C) {
	const perKey = 25
	c.putLimit("l", store.LimitRule{Concurrency: 2})
	keys := []string{"a", "b"}
	for range perKey {
		for _, k := range keys {
			c.create(store.NewRun{Under: use("l", k)})
		}
	}
	var mu sync.Mutex
	now, most, leased := map[string]int{}, map[string]int{}, map[store.ID]int{}
	begin := func(run store.ClaimedRun) {
		key := run.Run.Under[0].Key
		now[key]++
		most[key] = max(most[key], now[key])
		leased[run.Run.ID]++
	}
	c.race(6, func(i int, s store.Store) error {
		for {
			mu.Lock()
			over := len(leased) == perKey*len(keys)
			mu.Unlock()
			if over {
				return nil
			}
			got, err := c.claimOn(s, store.ClaimParams{Worker: fmt.Sprintf("w%d", i), Max: 2, LeaseFor: time.Hour})
			if err != nil {
				return err
			}
			mu.Lock()
			for _, run := range got {
				begin(run)
			}
			mu.Unlock()
			for len(got) > 0 {
				run, t := got[0], complete("")
				t.PassOn = time.Hour
				got = got[1:]
				mu.Lock()
				now[run.Run.Under[0].Key]--
				mu.Unlock()
				res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Transition: t})
				if err = errors.Join(err, res.Err); err != nil && !errors.Is(err, store.ErrUnavailable) {
					return err
				}
				if res.Next != nil {
					mu.Lock()
					begin(*res.Next)
					mu.Unlock()
					got = append(got, *res.Next)
				}
			}
		}
	})
	for _, k := range keys {
		c.check(most[k] <= 2, "key %q: saw %d leases at a time, expected at most 2", k, most[k])
		c.heldUnder("l", k, 0)
	}
	for id, n := range leased {
		run := c.get(id)
		c.eq(fmt.Sprintf("leases, epoch and status of run %v", id), []any{n, run.Epoch, run.Status}, []any{1, int64(1), store.Completed})
	}
}
