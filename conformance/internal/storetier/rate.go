package storetier

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// rated is a use that takes tokens.
func rated(key string, tokens int64) []store.LimitUse {
	return []store.LimitUse{{Limit: "r", Key: key, Tokens: tokens}}
}

// putRate registers limit "r".
func (c *C) putRate(tokens int64, per time.Duration, burst int64) {
	c.Helper()
	c.putLimit("r", store.LimitRule{Tokens: tokens, Per: per, Burst: burst})
}

// startsUnder creates n runs of one use.
func (c *C) startsUnder(n int, under []store.LimitUse) []store.ID {
	c.Helper()
	lists := make([][]store.LimitUse, n)
	for i := range lists {
		lists[i] = under
	}
	return c.createUnder(lists...)
}

// rateDue claims nothing, because the rate has no tokens, and checks when it has them.
func (c *C) rateDue(at time.Time) {
	c.Helper()
	got := c.claim(store.ClaimParams{Max: 10})
	c.eq("runs at "+show(c.now), runIDs(got.Runs), []store.ID{})
	c.check(!got.NextDue.IsZero() && !got.NextDue.After(at), "NextDue at %s: saw %s, expected %s or before", show(c.now), show(got.NextDue), show(at))
	c.eq("Waiting", got.Waiting, []store.Waiting(nil))
}

// finish ends runs in one call.
func (c *C) finish(runs []store.ClaimedRun) {
	c.Helper()
	if len(runs) == 0 {
		return
	}
	var cms []store.Commit
	for _, run := range runs {
		cms = append(cms, store.Commit{Lease: run.Lease, Seen: run.Inbox.Events, Transition: complete("")})
	}
	c.allApplied(c.commits(cms...))
}

var rateCases = []Case{
	{"rate/burst-then-even", "P22", "a key that was idle has the burst, and then one token after the other, exact to the microsecond", func(c *C) {
		c.putRate(2, time.Second, 3)
		ids := c.startsUnder(8, rated("k", 1))
		began := c.now
		c.finish(c.takes("the burst", 10, ids[:3]...))
		for i := range 3 {
			at := began.Add(time.Duration(i+1) * 500 * time.Millisecond)
			c.now = at.Add(-time.Microsecond)
			c.rateDue(at)
			c.now = at
			c.finish(c.takes("the next token", 10, ids[3+i]))
		}
	}},
	{"rate/window-edge", "P22", "at the edge of a window a key gets no second burst: in each window of length w at most burst + rate x w", func(c *C) {
		c.now = c.now.Truncate(time.Minute).Add(time.Minute - time.Millisecond)
		c.putRate(60, time.Minute, 60)
		c.startsUnder(200, rated("k", 1))
		c.now = c.now.Truncate(time.Minute).Add(time.Minute - time.Microsecond)
		type given struct {
			at time.Time
			n  int
		}
		var all []given
		for range 40 {
			runs := c.claimN(200)
			all = append(all, given{c.now, len(runs)})
			c.finish(runs)
			c.advance(500 * time.Millisecond)
		}
		for i := range all {
			sum := 0
			for j := i; j < len(all); j++ {
				sum += all[j].n
				most := 60 + int(all[j].at.Sub(all[i].at)/time.Second)
				c.check(sum <= most, "from %s to %s: saw %d tokens, expected at most %d", show(all[i].at), show(all[j].at), sum, most)
			}
		}
		c.eq("tokens in the first instant", all[0].n, 60)
	}},
	{"rate/idle", "P22", "a key that was idle for long has no more than its burst", func(c *C) {
		c.putRate(1, time.Second, 2)
		ids := c.startsUnder(6, rated("k", 1))
		c.finish(c.takes("the burst", 10, ids[:2]...))
		c.advance(time.Hour)
		c.finish(c.takes("after an idle hour", 10, ids[2:4]...))
		c.rateDue(c.now.Add(time.Second))
	}},
	{"rate/default-burst", "P22", "without a burst, a key that was idle has the tokens of the rate", func(c *C) {
		c.putRate(3, time.Minute, 0)
		ids := c.startsUnder(5, rated("k", 1))
		c.finish(c.takes("the tokens", 10, ids[:3]...))
		c.rateDue(c.now.Add(20 * time.Second))
	}},
	{"rate/keys", "P22", "each key has tokens of its own", func(c *C) {
		c.putRate(1, time.Hour, 0)
		ids := c.createUnder(rated("a", 1), rated("a", 1), rated("b", 1), rated("", 1), rated("", 1))
		c.takes("one of each key", 10, ids[0], ids[2], ids[3])
		at := c.limitKey("r", "b").RateAt
		c.eq("RateAt of b", at, c.now.Add(time.Hour))
	}},
	{"rate/odd", "P22", "the time between two tokens is rounded up to whole microseconds", func(c *C) {
		c.putRate(3, time.Second, 1)
		ids := c.startsUnder(3, rated("k", 1))
		began := c.now
		c.finish(c.takes("the first token", 10, ids[0]))
		c.now = began.Add(333_333 * time.Microsecond)
		c.rateDue(began.Add(333_334 * time.Microsecond))
		c.now = began.Add(333_334 * time.Microsecond)
		c.takes("the second token", 10, ids[1])
	}},
	{"rate/tokens", "P22", "an attempt takes the tokens of its use at once, and waits until they are all there", func(c *C) {
		c.putRate(10, 10*time.Second, 10)
		ids := c.createUnder(rated("k", 6), rated("k", 5), rated("k", 4))
		began := c.now
		c.finish(c.takes("6 and 4 of 10", 10, ids[0], ids[2]))
		c.now = began.Add(5*time.Second - time.Microsecond)
		c.rateDue(began.Add(5 * time.Second))
		c.advance(time.Microsecond)
		c.takes("5 more", 10, ids[1])
	}},
	{"rate/above-burst", "P22", "an attempt of more tokens than the burst waits for a complete burst, and pays in full", func(c *C) {
		c.putRate(1, time.Second, 2)
		ids := c.createUnder(rated("k", 5), rated("k", 1))
		began := c.now
		c.finish(c.takes("a complete burst", 10, ids[0]))
		at := began.Add(4 * time.Second)
		c.rateDue(at)
		c.now = at.Add(-time.Microsecond)
		c.rateDue(at)
		c.now = at
		c.finish(c.takes("the debt is paid", 10, ids[1]))
		big := c.createUnder(rated("k", 3))
		c.now = at.Add(2*time.Second - time.Microsecond)
		c.rateDue(at.Add(2 * time.Second))
		c.advance(time.Microsecond)
		c.takes("a complete burst again", 10, big[0])
	}},
	{"rate/once-per-attempt", "P22", "an attempt takes its tokens once: a sleep, a release, a pause, a give back and a takeover take none; a retry does", func(c *C) {
		c.putRate(1, time.Hour, 2)
		id := c.startsUnder(1, rated("k", 1))[0]
		run := c.takes("the first claim", 2, id)[0]
		for _, end := range []func(){
			func() { c.end(run, sleepFor(time.Microsecond)) },
			func() { c.end(run, release()) },
			func() { c.pause(id); c.end(run, release()); c.resume(id) },
			func() { c.signal(id, "s", ""); c.end(run, sleepOn(store.WakeSignal)) },
			func() { c.advance(aLease) },
		} {
			end()
			c.advance(time.Millisecond)
			run = c.takes("a claim of the same attempt", 2, id)[0]
		}
		c.end(run, retryIn(0))
		run = c.takes("the second attempt", 2, id)[0]
		c.end(run, retryIn(0))
		got := c.claim(store.ClaimParams{Max: 2})
		c.eq("runs without a token", runIDs(got.Runs), []store.ID{})
		c.check(got.NextDue.After(c.now), "NextDue: saw %s, expected the time of the next token", show(got.NextDue))
	}},
	{"rate/new-attempts", "P22", "a restart, a continuation and a fork begin attempts that take tokens", func(c *C) {
		c.putRate(1, time.Hour, 0)
		began := c.now.Add(time.Microsecond)
		id := c.startsUnder(1, rated("k", 1))[0]
		next := func(what string, id store.ID) store.ClaimedRun {
			c.Helper()
			began = began.Add(time.Hour)
			c.rateDue(began)
			c.now = began
			return c.takes(what, 2, id)[0]
		}
		run := c.takes("the first attempt", 2, id)[0]
		c.end(run, continueWith("x"))
		run = next("the continuation", id)
		c.end(run, failWith("error"))
		c.ok("Restart's item", c.tryRestart(id)[0].Err)
		run = next("the restart", id)
		fork := store.NewID()
		_, err := c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: id, New: fork, Now: c.now})
		c.ok("Fork", err)
		c.end(run, complete(""))
		next("the fork", fork)
	}},
	{"rate/with-concurrency", "P22", "a run that another limit holds back takes no tokens", func(c *C) {
		c.putLimit("a", oneAtATime)
		c.putRate(2, time.Hour, 0)
		ids := c.createUnder(
			uses(use("a", "x"), rated("k", 1)),
			uses(use("a", "x"), rated("k", 1)),
			uses(use("a", "y"), rated("k", 1)),
			uses(use("a", "z"), rated("k", 1)),
		)
		runs := c.takes("with permit and token", 10, ids[0], ids[2])
		c.heldUnder("a", "z", 0)
		c.finish(runs)
		c.rateDue(c.now.Add(time.Hour))
	}},
	{"rate/raised", "P22", "a rate that is raised holds for the tokens that were taken, too", func(c *C) {
		c.putRate(1, time.Hour, 0)
		ids := c.startsUnder(2, rated("k", 1))
		c.finish(c.takes("the first token", 2, ids[0]))
		c.rateDue(c.now.Add(time.Hour))
		c.putRate(1, time.Hour, 2)
		c.takes("with a larger burst", 2, ids[1])
	}},
	{"rate/key", "P22", "RateAt is when the rate has a token again", func(c *C) {
		c.putRate(1, time.Minute, 2)
		c.startsUnder(3, rated("k", 1))
		c.claimN(1)
		c.eq("RateAt with a token", c.limitKey("r", "k").RateAt, time.Time{})
		c.claimN(1)
		c.eq("RateAt without", c.limitKey("r", "k").RateAt, c.now.Add(time.Minute))
	}},
	{"rate/key-full-again", "P22", "a key that has all of its tokens again, and nothing else to tell, is not listed", func(c *C) {
		c.putRate(1, time.Minute, 2)
		c.finish(c.takes("the claim", 2, c.createUnder(rated("k", 2))...))
		c.eq("the key", c.limitKey("r", "k"), store.LimitKey{Key: "k", RateAt: c.now.Add(time.Minute), Weight: 1})
		c.advance(2 * time.Minute)
		c.eq("the key when its tokens are back", c.limitKey("r", "k"), store.LimitKey{})
	}},
}

// fair registers limit "f".
func (c *C) putFair(concurrency int64) {
	c.Helper()
	c.putLimit("f", store.LimitRule{Concurrency: concurrency, Fair: true})
}

// order claims and completes one run after the other, n times, and returns their keys under the first limit.
func (c *C) order(n int) (keys []string) {
	c.Helper()
	for range n {
		run := c.claim1()
		keys = append(keys, run.Run.Under[0].Key)
		c.end(run, complete(""))
	}
	return keys
}

var fairCases = []Case{
	{"fair/turns", "P23", "the keys of a fair limit take turns, however many runs of each wait", func(c *C) {
		c.putFair(0)
		c.startsUnder(6, use("f", "big"))
		c.createUnder(use("f", "small"), use("f", "tiny"), use("f", "small"))
		c.eq("keys", c.order(9), []string{"big", "small", "tiny", "big", "small", "big", "big", "big", "big"})
	}},
	{"fair/one-claim", "P23", "the turns hold inside one claim, whose answer is in the order of P7", func(c *C) {
		c.putFair(0)
		a := c.startsUnder(5, use("f", "a"))
		b := c.startsUnder(5, use("f", "b"))
		c.takes("four runs", 4, a[0], a[1], b[0], b[1])
	}},
	{"fair/newcomer", "P23", "a key that comes, or that was idle, begins at the present, without credit", func(c *C) {
		c.putFair(0)
		c.startsUnder(12, use("f", "m"))
		c.createUnder(use("f", "early"))
		c.eq("keys", c.order(8), []string{"early", "m", "m", "m", "m", "m", "m", "m"})
		c.startsUnder(4, use("f", "late"))
		c.startsUnder(3, use("f", "early"))
		c.eq("keys", c.order(6), []string{"early", "late", "early", "late", "m", "early"})
	}},
	{"fair/weights", "P23", "a key of weight 3 gets three times the share of a key of weight 1", func(c *C) {
		c.putFair(0)
		c.ok("SetWeight", c.s.SetWeight(c.ctx, store.SetWeightParams{Namespace: c.ns, Limit: "f", Key: "b", Weight: 3, Now: c.now}))
		c.startsUnder(20, use("f", "a"))
		c.startsUnder(20, use("f", "b"))
		seen := map[string]int{}
		for _, k := range c.order(16) {
			seen[k]++
		}
		c.eq("runs of each key", seen, map[string]int{"a": 4, "b": 12})
		c.ok("SetWeight", c.s.SetWeight(c.ctx, store.SetWeightParams{Namespace: c.ns, Limit: "f", Key: "b", Weight: 1, Now: c.now}))
		clear(seen)
		for _, k := range c.order(8) {
			seen[k]++
		}
		c.check(seen["a"] >= 3 && seen["b"] >= 3, "runs of each key at equal weights: saw %v, expected about 4", seen)
	}},
	{"fair/weights-in-one-claim", "P23", "one claim of many runs shares them by weight, also if nearly all of them are of one key", func(c *C) {
		c.putFair(0)
		c.ok("SetWeight", c.s.SetWeight(c.ctx, store.SetWeightParams{Namespace: c.ns, Limit: "f", Key: "b", Weight: 100, Now: c.now}))
		c.startsUnder(40, use("f", "a"))
		c.startsUnder(40, use("f", "b"))
		seen := map[string]int{}
		for _, run := range c.claimN(40) {
			seen[run.Run.Under[0].Key]++
		}
		c.eq("runs of each key", seen, map[string]int{"a": 1, "b": 39})
	}},
	{"fair/key-without-more-runs", "P23", "one claim goes on with the other keys when the key whose turn it is has no more runs", func(c *C) {
		c.putFair(0)
		c.ok("SetWeight", c.s.SetWeight(c.ctx, store.SetWeightParams{Namespace: c.ns, Limit: "f", Key: "a", Weight: 100, Now: c.now}))
		ids := c.createUnder(use("f", "a"), use("f", "b"), use("f", "b"), use("f", "b"), nil)
		c.takes("the claim", 9, ids...)
	}},
	{"fair/behind-keys-that-wait", "P23", "many keys that wait for another limit do not hide a key that may go, which goes before a later run under no limit", func(c *C) {
		c.putFair(0)
		c.putLimit("two", oneAtATime)
		c.takes("the first claim", 1, c.createUnder(use("two", "x"))...)
		for i := range 40 {
			c.createUnder(uses(use("f", fmt.Sprint(i)), use("two", "x")))
		}
		ids := c.createUnder(use("f", "free"), nil)
		c.takes("the key that may go", 1, ids[0])
		c.takes("the run under no limit", 1, ids[1])
	}},
	{"fair/another-limit-decides", "P23", "of two fair limits of a run the next one decides when the first ceases to be fair, also if the keys are the same", func(c *C) {
		c.putFair(0)
		c.putLimit("g", store.LimitRule{Fair: true})
		c.ok("SetWeight", c.s.SetWeight(c.ctx, store.SetWeightParams{Namespace: c.ns, Limit: "f", Key: "a", Weight: 3, Now: c.now}))
		c.startsUnder(6, uses(use("f", "a"), use("g", "a")))
		c.startsUnder(6, uses(use("f", "b"), use("g", "b")))
		c.putLimit("f", store.LimitRule{})
		c.eq("keys", c.order(6), []string{"a", "b", "a", "b", "a", "b"})
	}},
	{"fair/weight-stays", "P23", "a key keeps its weight when no run holds a permit of it", func(c *C) {
		c.putLimit("l", oneAtATime)
		c.ok("SetWeight", c.s.SetWeight(c.ctx, store.SetWeightParams{Namespace: c.ns, Limit: "l", Key: "k", Weight: 3, Now: c.now}))
		c.end(c.takes("the claim", 1, c.createUnder(use("l", "k"))...)[0], complete(""))
		c.eq("the weight after the last lease", c.limitKey("l", "k").Weight, int64(3))
	}},
	{"fair/tokens", "P23", "a run of more tokens uses more of its key's share", func(c *C) {
		c.putFair(0)
		for range 6 {
			c.createUnder([]store.LimitUse{{Limit: "f", Key: "a", Tokens: 3}})
		}
		c.startsUnder(6, use("f", "b"))
		c.eq("keys", c.order(8), []string{"a", "b", "b", "b", "a", "b", "b", "b"})
	}},
	{"fair/concurrency", "P23", "a key at its concurrency loses its turn to the others", func(c *C) {
		c.putFair(1)
		c.createUnder(use("f", "a"), use("f", "a"), use("f", "b"), use("f", "b"))
		runs := c.claimN(4)
		c.eq("number of runs", len(runs), 2)
		c.heldUnder("f", "a", 1)
		c.heldUnder("f", "b", 1)
	}},
	{"fair/with-another", "P23", "under a limit that all keys share, the freed permit goes to the key whose turn it is", func(c *C) {
		c.putFair(0)
		c.putLimit("g", oneAtATime)
		both := func(key string) []store.LimitUse { return uses(use("f", key), use("g", "")) }
		c.startsUnder(5, both("a"))
		c.startsUnder(2, both("b"))
		c.eq("keys", c.order(6), []string{"a", "b", "a", "b", "a", "a"})
	}},
	{"fair/priority", "P23", "inside a key, and beside runs that are under no fair limit, P7 decides", func(c *C) {
		c.putFair(0)
		low := c.createUnder(use("f", "a"))
		high := c.create(store.NewRun{Under: use("f", "a"), Priority: 3})
		plain := c.create(store.NewRun{Priority: 1})
		other := c.create(store.NewRun{Under: use("f", "b"), Priority: 2})
		var got []store.ID
		for range 4 {
			run := c.claim1()
			got = append(got, run.Run.ID)
			c.end(run, complete(""))
		}
		c.eq("runs", got, []store.ID{high, other, plain, low[0]})
	}},
	{"fair/queues-of-a-key", "P23", "runs of a key in several queues go in the order of P7", func(c *C) {
		c.putFair(0)
		queues := []string{"d0", "d1"}
		var want []store.ID
		for _, q := range []int{0, 1, 1, 0, 0, 1} {
			c.advance(time.Microsecond)
			want = append(want, c.create(store.NewRun{Queue: queues[q], Under: use("f", "a")}))
		}
		var got []store.ID
		for range want {
			run := c.one(c.claim(store.ClaimParams{Max: 1, Demands: []store.Demand{demand("d0", 1), demand("d1", 1)}}).Runs)
			got = append(got, run.Run.ID)
			c.end(run, complete(""))
		}
		c.eq("runs", got, want)
	}},
	{"fair/several-limits", "P23", "one claim takes runs of several fair limits", func(c *C) {
		var ids []store.ID
		for _, name := range []string{"f", "g", "h"} {
			c.putLimit(name, store.LimitRule{Fair: true})
			ids = append(ids, c.createUnder(use(name, "a"), use(name, "a"), use(name, "b"))...)
		}
		c.takes("the claim", 10, ids...)
	}},
	{"fair/due-later", "P13", "runs under a fair limit that are due later are claimed at their time, by whoever claims their queue and workflow", func(c *C) {
		c.putFair(0)
		lanes := []store.Demand{demand(aQueue, 9), demand(aQueue+"-2", 9), demand(aQueue, 9, aWorkflow+"-2")}
		create := func(lane store.Demand, key string, after time.Duration) store.ID {
			return c.create(store.NewRun{Queue: lane.Queue, Workflow: lane.Workflows[0], After: after, Under: use("f", key)})
		}
		var now, later []store.ID
		for _, lane := range lanes {
			now, later = append(now, create(lane, "b", 0)), append(later, create(lane, "a", time.Minute))
		}
		due := c.now.Add(time.Minute)
		for i, lane := range lanes {
			c.eq("runs that are due", runIDs(c.claim(store.ClaimParams{Demands: []store.Demand{lane}, LeaseFor: time.Hour}).Runs), now[i:i+1])
			got := c.claim(store.ClaimParams{Demands: []store.Demand{lane}, LeaseFor: time.Hour})
			c.eq("runs before the time", runIDs(got.Runs), []store.ID{})
			c.check(!got.NextDue.IsZero() && !got.NextDue.After(due), "NextDue: saw %s, expected %s or before", show(got.NextDue), show(due))
		}
		c.now = due
		for i, lane := range lanes {
			got := c.claim(store.ClaimParams{Demands: []store.Demand{lane}})
			c.eq("runs at the time", runIDs(got.Runs), later[i:i+1])
		}
	}},
	{"fair/live-with-an-empty-key", "P23", "a limit becomes fair while runs with an empty key wait", func(c *C) {
		c.putLimit("f", store.LimitRule{})
		c.startsUnder(4, use("f", ""))
		c.startsUnder(4, use("f", "b"))
		c.eq("keys before", c.order(1), []string{""})
		c.putFair(0)
		c.eq("keys while it is fair", c.order(4), []string{"", "b", "", "b"})
	}},
	{"fair/live-steps", "P23", "a limit becomes fair while steps wait for its permits", func(c *C) {
		c.putLimit("f", store.LimitRule{})
		key := map[store.ID]string{}
		of := []string{"a", "a", "a", "b", "b"}
		c.createUnder(make([][]store.LimitUse, len(of))...)
		for i, run := range c.claimN(len(of)) {
			key[run.Run.ID] = of[i]
			c.advance(time.Microsecond)
			c.commit(store.Commit{Lease: run.Lease, Transition: &store.Transition{Kind: store.Release, Under: use("f", of[i])}})
		}
		c.putFair(0)
		var keys []string
		for range 4 {
			run := c.claim1()
			keys = append(keys, key[run.Run.ID])
			c.end(run, complete(""))
		}
		c.eq("keys", keys, []string{"a", "b", "a", "b"})
	}},
	{"fair/takeover", "P23", "a takeover is no turn", func(c *C) {
		c.putFair(0)
		c.create(store.NewRun{Queue: "other", Under: use("f", "a")})
		from := store.ClaimParams{Demands: []store.Demand{demand("other", 1)}}
		c.one(c.claim(from).Runs)
		c.advance(aLease)
		c.eq("Crashes", c.one(c.claim(from).Runs).Run.Crashes, 1)
		c.startsUnder(3, use("f", "a"))
		c.startsUnder(3, use("f", "b"))
		c.eq("keys", c.order(4), []string{"b", "a", "b", "a"})
	}},
	{"fair/live", "P23", "a limit becomes fair, and ceases to be, while runs wait", func(c *C) {
		c.putLimit("f", store.LimitRule{})
		c.startsUnder(5, use("f", "a"))
		c.startsUnder(5, use("f", "b"))
		c.eq("keys before", c.order(2), []string{"a", "a"})
		c.setLimit("f", &store.LimitRule{Fair: true})
		c.eq("keys while it is fair", c.order(4), []string{"a", "b", "a", "b"})
		c.setLimit("f", nil)
		c.eq("keys after", c.order(3), []string{"a", "b", "b"})
	}},
	{"fair/live-turns", "P23", "a limit that becomes fair again while the runs of many keys wait goes on with the key whose turn it is", func(c *C) {
		c.putFair(0)
		const keys, twice = 40, 20
		for range 4 {
			for i := range keys {
				c.createUnder(use("f", fmt.Sprintf("k%02d", i)))
			}
		}
		c.finish(c.claimN(keys))
		c.finish(c.claimN(twice))
		c.setLimit("f", &store.LimitRule{})
		c.setLimit("f", nil)
		c.eq("keys", c.order(3), []string{"k20", "k21", "k22"})
	}},
}

// stepUnder is a release that waits for the permits of a step.
func stepUnder(under []store.LimitUse) *store.Transition {
	return &store.Transition{Kind: store.Release, Under: under}
}

var stepLimitCases = []Case{
	{"limit/step", "P21", "a run whose step is under a limit waits for the step's permits as well, holds them with its lease, and not after", func(c *C) {
		c.putLimit("s", oneAtATime)
		ids := c.createUnder(use("own", "x"), nil, nil)
		runs := c.takes("the first claim", 10, ids...)
		for i, run := range runs {
			c.advance(time.Microsecond)
			c.end(run, stepUnder(use("s", "k")))
			c.eq("StepUnder of the waiting run", c.get(ids[i]).StepUnder, kept(use("s", "k")))
		}
		first := c.takes("one at a time", 10, ids[0])[0]
		c.eq("StepUnder of the claimed run", first.Run.StepUnder, kept(use("s", "k")))
		c.eq("Under of the claimed run", first.Run.Under, kept(use("own", "x")))
		c.heldUnder("s", "k", 1)
		c.heldUnder("own", "x", 1)
		c.takes("the claim at the limit", 10)
		c.end(first, sleepFor(time.Hour))
		c.eq("StepUnder after the lease", c.get(ids[0]).StepUnder, []store.LimitUse(nil))
		c.takes("the next one", 10, ids[1])
	}},
	{"limit/step-free", "P24", "a commit with Free ends the permits of the step, while the run keeps its lease and its own", func(c *C) {
		c.putLimit("s", oneAtATime)
		c.putLimit("own", oneAtATime)
		ids := c.createUnder(use("own", "x"), nil)
		runs := c.takes("the first claim", 10, ids...)
		for _, run := range runs {
			c.advance(time.Microsecond)
			c.end(run, stepUnder(use("s", "k")))
		}
		run := c.takes("the first one", 10, ids[0])[0]
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Free: true})
		c.eq("StepUnder", c.get(ids[0]).StepUnder, []store.LimitUse(nil))
		c.heldUnder("s", "k", 0)
		c.heldUnder("own", "x", 1)
		c.takes("the next one", 10, ids[1])
		c.commit(store.Commit{Lease: run.Lease, Free: true}) // it has none
		c.end(run, complete(""))
		c.heldUnder("s", "k", 1)
	}},
	{"limit/step-takeover", "P21", "a takeover inherits the permits of the step", func(c *C) {
		c.putLimit("s", oneAtATime)
		ids := c.createUnder(nil, nil)
		for _, run := range c.takes("the first claim", 10, ids...) {
			c.advance(time.Microsecond)
			c.end(run, stepUnder(use("s", "k")))
		}
		c.takes("the first one", 10, ids[0])
		c.advance(aLease)
		run := c.takes("the takeover", 10, ids[0])[0]
		c.eq("StepUnder", run.Run.StepUnder, kept(use("s", "k")))
		c.heldUnder("s", "k", 1)
		c.end(run, complete(""))
		c.takes("the next one", 10, ids[1])
	}},
	{"limit/step-tokens", "P22", "each claim that takes the permits of a step takes its tokens, and those of the run's own limits are not taken again", func(c *C) {
		c.putRate(1, time.Hour, 1)
		c.putLimit("own", store.LimitRule{Tokens: 1, Per: 24 * time.Hour})
		id := c.createUnder(use("own", ""))[0]
		run := c.takes("the first claim", 2, id)[0]
		c.end(run, stepUnder(rated("k", 1)))
		began := c.now
		run = c.takes("the step's first token", 2, id)[0]
		c.end(run, stepUnder(rated("k", 1)))
		c.rateDue(began.Add(time.Hour))
		c.now = began.Add(time.Hour)
		run = c.takes("the step's second token", 2, id)[0]
		c.end(run, release())
		c.takes("without a step", 2, id)
	}},
	{"limit/step-sleeps", "P21", "a sleep under limits is due at its time, and then waits for the permits", func(c *C) {
		c.putLimit("s", oneAtATime)
		ids := c.createUnder(use("s", "k"), nil)
		runs := c.takes("the first claim", 10, ids...)
		c.end(runs[1], &store.Transition{Kind: store.Sleep, After: time.Minute, Under: use("s", "k")})
		got := c.claim(store.ClaimParams{Max: 5})
		c.eq("NextDue", got.NextDue, c.now.Add(time.Minute))
		c.advance(time.Minute)
		c.eq("the lease", c.extend(runs[0].Lease).Lost, false)
		c.takes("without a permit", 10)
		c.end(runs[0], complete(""))
		c.takes("with one", 10, ids[1])
	}},
	{"limit/step-paused", "P24", "a pause keeps the step's limits; a restart and a cancel of a waiting run drop them", func(c *C) {
		c.putLimit("s", oneAtATime)
		ids := c.createUnder(nil, nil)
		runs := c.takes("the first claim", 10, ids...)
		c.pause(ids[0])
		c.commit(store.Commit{Lease: runs[0].Lease, Transition: stepUnder(use("s", "k"))})
		c.status(ids[0], store.Paused)
		c.eq("StepUnder of the paused run", c.get(ids[0]).StepUnder, kept(use("s", "k")))
		c.resume(ids[0])
		first := c.takes("the resumed run", 10, ids[0])[0]
		c.eq("StepUnder of the resumed run", first.Run.StepUnder, kept(use("s", "k")))
		c.commit(store.Commit{Lease: runs[1].Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: stepUnder(use("s", "k"))})
		c.takes("without a permit", 10)
		c.eq("the canceled run", c.cancel(ids[1]), store.Canceling)
		c.eq("StepUnder of the canceled run", c.get(ids[1]).StepUnder, []store.LimitUse(nil))
		c.end(c.takes("its cleanup", 10, ids[1])[0], cancelRun())
		c.end(first, failWith("error"))
		c.ok("Restart's item", c.tryRestart(ids[0])[0].Err)
		c.eq("StepUnder of the restarted run", c.get(ids[0]).StepUnder, []store.LimitUse(nil))
	}},
	{"limit/step-refused", "P21", "a step under a limit of its run is refused with ErrInvalid, and the lease stays", func(c *C) {
		run := c.startWith(store.NewRun{Under: use("own", "a")})
		res := c.tryCommit(store.Commit{Lease: run.Lease, Transition: stepUnder(use("own", "b"))})
		c.fails("the commit", res.Err, store.ErrInvalid)
		c.eq("the lease", c.extend(run.Lease).Lost, false)
		c.end(run, stepUnder(use("other", "b")))
	}},
	{"sizes/limit-keys", "P21", "four thousand keys, of which each run is under eight, are counted one by one", checkManyKeys},
}

// checkManyKeys starts and ends runs of many keys.
func checkManyKeys(c *C) {
	const n = 500
	var rules []store.Limit
	for i := range store.MaxLimits {
		rules = append(rules, store.Limit{Name: fmt.Sprintf("l%d", i), Rule: oneAtATime})
	}
	c.ok("PutLimits", c.s.PutLimits(c.ctx, store.PutLimitsParams{Namespace: c.ns, Limits: rules, Now: c.now}))
	runs := make([]store.NewRun, 2*n)
	for i := range runs {
		runs[i] = fill(store.NewRun{})
		for _, l := range rules {
			runs[i].Under = append(runs[i].Under, store.LimitUse{Limit: l.Name, Key: fmt.Sprintf("key %d", i%n)})
		}
	}
	c.createAll(runs...)
	for round := range 2 {
		seen := map[string]bool{}
		var claimed []store.ClaimedRun
		for {
			got := c.claimN(n)
			if len(got) == 0 {
				break
			}
			claimed = append(claimed, got...)
		}
		var ends []store.Commit
		for _, run := range claimed {
			seen[run.Run.Under[0].Key] = true
			ends = append(ends, store.Commit{Lease: run.Lease, Transition: complete("")})
		}
		c.eq(fmt.Sprintf("runs in round %d", round), len(claimed), n)
		c.eq("keys", len(seen), n)
		for _, res := range c.commits(ends...) {
			c.ok("Commit's item", res.Err)
		}
	}
	page, err := c.s.LimitKeys(c.ctx, store.LimitKeysParams{Namespace: c.ns, Limit: "l0", Now: c.now})
	c.ok("LimitKeys", err)
	c.eq("keys that are left", len(page.Keys), 0)
}
