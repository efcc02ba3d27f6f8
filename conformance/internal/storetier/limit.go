package storetier

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/store"
)

// oneAtATime is a rule of concurrency 1.
var oneAtATime = store.LimitRule{Concurrency: 1}

// putLimit registers a limit as code does.
func (c *C) putLimit(name string, rule store.LimitRule) {
	c.Helper()
	c.ok("PutLimits", c.s.PutLimits(c.ctx, store.PutLimitsParams{Namespace: c.ns, Limits: []store.Limit{{Name: name, Rule: rule}}, Now: c.now}))
}

func (c *C) setLimit(name string, rule *store.LimitRule) {
	c.Helper()
	c.ok("SetLimit", c.s.SetLimit(c.ctx, store.SetLimitParams{Namespace: c.ns, Name: name, Rule: rule, Now: c.now}))
}

// limits lists the limits, without the times of their changes.
func (c *C) limits() []store.Limit {
	c.Helper()
	list, err := store.AllLimits(c.ctx, c.s, store.ListLimitsParams{Namespace: c.ns})
	c.ok("ListLimits", err)
	list = append([]store.Limit{}, list...)
	for i := range list {
		list[i].UpdatedAt = time.Time{}
	}
	return list
}

// limitKey reads a key of a limit; its zero value if it is not listed.
func (c *C) limitKey(limit, key string) store.LimitKey {
	c.Helper()
	page, err := c.s.LimitKeys(c.ctx, store.LimitKeysParams{Namespace: c.ns, Limit: limit, Key: &key, Now: c.now})
	c.ok("LimitKeys", err)
	if len(page.Keys) == 0 {
		return store.LimitKey{}
	}
	return page.Keys[0]
}

// heldUnder checks how many permits a key has given.
func (c *C) heldUnder(limit, key string, want int64) {
	c.Helper()
	c.eq(fmt.Sprintf("leases under limit %q and key %q", limit, key), c.limitKey(limit, key).Held, want)
}

// use is one use, without tokens.
func use(limit, key string) []store.LimitUse { return []store.LimitUse{{Limit: limit, Key: key}} }

// uses are several.
func uses(list ...[]store.LimitUse) []store.LimitUse { return slices.Concat(list...) }

// kept is how a store keeps uses.
func kept(list ...[]store.LimitUse) []store.LimitUse { return store.SortUses(slices.Concat(list...)) }

// createUnder creates runs, one for each list of uses, a microsecond after each other.
func (c *C) createUnder(lists ...[]store.LimitUse) (ids []store.ID) {
	c.Helper()
	for _, under := range lists {
		c.advance(time.Microsecond)
		ids = append(ids, c.create(store.NewRun{Under: under}))
	}
	return ids
}

// byID compares IDs, which decide between runs that are due at one time.
func byID(a, b store.ID) int { return bytes.Compare(a[:], b[:]) }

// apart creates n runs under the same uses, each under a limit without a rule and another key of it as well, so that no
// two of them wait in one place. They are due after a time.
func (c *C) apart(n int, under []store.LimitUse, after time.Duration) {
	c.Helper()
	for i := range n {
		c.advance(time.Microsecond)
		c.create(store.NewRun{Under: uses(under, use("without rule", fmt.Sprint(i))), After: after})
	}
}

// takes checks which runs a claim of up to n takes.
func (c *C) takes(what string, n int, want ...store.ID) []store.ClaimedRun {
	c.Helper()
	got := c.claimN(n)
	if want == nil {
		want = []store.ID{}
	}
	c.eq(what, runIDs(got), want)
	return got
}

// ended are the ways in which a lease under a limit ends, each of which ends its permits. They leave the run such
// that nobody claims it at once.
var leaseEnds = []struct {
	name string
	end  func(c *C, run store.ClaimedRun)
}{
	{"completes", func(c *C, run store.ClaimedRun) { c.end(run, complete("")) }},
	{"fails", func(c *C, run store.ClaimedRun) { c.end(run, failWith("error")) }},
	{"is canceled by its holder", func(c *C, run store.ClaimedRun) { c.end(run, cancelRun()) }},
	{"sleeps", func(c *C, run store.ClaimedRun) { c.end(run, sleepFor(time.Hour)) }},
	{"waits for a signal", func(c *C, run store.ClaimedRun) { c.end(run, sleepOn(store.WakeSignal)) }},
	{"is retried later", func(c *C, run store.ClaimedRun) { c.end(run, retryIn(time.Hour)) }},
	{"is released until later", func(c *C, run store.ClaimedRun) {
		c.end(run, &store.Transition{Kind: store.Release, After: time.Hour})
	}},
	{"is given back to another build", func(c *C, run store.ClaimedRun) {
		c.commit(store.Commit{Lease: run.Lease, Pin: misfit(), Transition: giveBack()})
	}},
	{"is ended by force", func(c *C, run store.ClaimedRun) { c.force(run.Run.ID) }},
	{"is paused while it is leased", func(c *C, run store.ClaimedRun) {
		c.pause(run.Run.ID)
		c.heldUnder("one", "k", 1)
		c.end(run, release())
	}},
	{"is canceled and cleans up", func(c *C, run store.ClaimedRun) {
		c.cancel(run.Run.ID)
		c.heldUnder("one", "k", 1)
		c.end(run, cancelRun())
	}},
	{"is canceled with its parent", func(c *C, run store.ClaimedRun) { c.force(run.Run.ID) }},
}

// endCases are the cases of P24, one for each way in which a lease ends.
func endCases() (cases []Case) {
	for _, e := range leaseEnds {
		cases = append(cases, Case{"limit/ends-when-run-" + slug(e.name), "P24", "a permit ends when its run " + e.name, func(c *C) {
			c.putLimit("one", oneAtATime)
			ids := c.createUnder(use("one", "k"), use("one", "k"))
			run := c.takes("the first claim", 2, ids[0])[0]
			c.heldUnder("one", "k", 1)
			e.end(c, run)
			c.heldUnder("one", "k", 0)
			c.takes("the claim after the end", 2, ids[1])
			c.heldUnder("one", "k", 1)
		}})
	}
	return cases
}

func slug(s string) string {
	out := []byte(s)
	for i := range out {
		if out[i] == ' ' {
			out[i] = '-'
		}
	}
	return string(out)
}

// endElsewhere sends an end that is refused, and then ends the run by the second handle of the store.
func (c *C) endElsewhere(run store.ClaimedRun) {
	c.Helper()
	c.heldUnder("one", "k", 1)
	c.lost("an end with a number too high", store.Commit{Lease: run.Lease, Seq: 7, Transition: complete("")})
	res, err := c.s2.Commit(c.ctx, store.CommitParams{Namespace: c.ns, Now: c.now, Commits: []store.Commit{{Lease: run.Lease, Seq: 1, Transition: complete("")}}})
	c.ok("Commit by the second handle", err)
	c.ok("its item", res[0].Err)
	c.heldUnder("one", "k", 0)
}

var permitCases = []Case{
	{"limit/run", "P21", "a run keeps its limits, sorted and with at least one token each, and is created pending under them even with a worker", func(c *C) {
		under := []store.LimitUse{{Limit: "z", Key: "k", Tokens: 7}, {Limit: "a"}, {Limit: "m", Key: " é "}}
		res := c.creates(fill(store.NewRun{Under: under, Worker: aWorker, LeaseFor: aLease}))[0]
		c.ok("Create's item", res.Err)
		c.eq("the lease of an eager start", res.Lease, store.Lease{})
		run := c.get(res.ID)
		c.eq("Status", run.Status, store.Pending)
		want := []store.LimitUse{{Limit: "a", Tokens: 1}, {Limit: "m", Key: " é ", Tokens: 1}, {Limit: "z", Key: "k", Tokens: 7}}
		c.eq("Under", run.Under, want)
		c.eq("Under of the claimed run", c.claim1().Run.Under, want)
		c.eq("Under of a run without limits", c.get(c.create(store.NewRun{})).Under, []store.LimitUse(nil))
	}},
	{"limit/concurrency", "P21", "no more runs of a key are leased at a time than the limit's concurrency", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 3})
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"))
		first := c.takes("the first claim", 2, ids[0], ids[1])
		c.takes("the second claim", 10, ids[2])
		c.takes("the claim at the limit", 10)
		c.heldUnder("l", "k", 3)
		c.end(first[1], complete(""))
		c.takes("the claim after an end", 10, ids[3])
		c.heldUnder("l", "k", 3)
	}},
	{"limit/keys", "P21", "a limit counts each key for itself; the empty key is one more, and so is each spelling", func(c *C) {
		c.putLimit("l", oneAtATime)
		keys := []string{"k", "K", "", " k", "\u00e9", "e\u0301"}
		var lists [][]store.LimitUse
		for _, k := range keys {
			lists = append(lists, use("l", k), use("l", k))
		}
		ids := c.createUnder(lists...)
		c.takes("one of each key", 20, ids[0], ids[2], ids[4], ids[6], ids[8], ids[10])
		for _, k := range keys {
			c.heldUnder("l", k, 1)
		}
		c.takes("no second one", 20)
	}},
	{"limit/order", "P7", "a run that a limit holds back lets later runs go, and is in its old place when it is permitted", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "a"), use("l", "a"), use("l", "b"), nil, use("l", "a"), nil)
		runs := c.takes("what is permitted", 10, ids[0], ids[2], ids[3], ids[5])
		last := c.createUnder(use("l", "a"), nil)
		high := c.create(store.NewRun{Under: use("l", "a"), Priority: 5})
		c.end(runs[0], complete(""))
		c.takes("the highest priority and the plain run", 10, high, last[1])
	}},
	{"limit/order-of-times", "P7", "runs of one key go in the order of the times at which they are due, whatever the order of their starts", func(c *C) {
		c.putLimit("l", oneAtATime)
		var ids []store.ID
		for i := range 4 {
			ids = append(ids, c.create(store.NewRun{Under: use("l", "k"), After: time.Duration(4-i) * time.Second}))
		}
		c.advance(10 * time.Second)
		for _, id := range slices.Backward(ids) {
			c.end(c.one(c.takes("the earliest", 10, id)), complete(""))
		}
	}},
	{"limit/order-of-keys", "P7", "a claim takes runs of a thousand keys before a later run under no limit", func(c *C) {
		c.putLimit("l", oneAtATime)
		var uses [][]store.LimitUse
		for i := range 1020 {
			uses = append(uses, use("l", fmt.Sprint(i)))
		}
		ids := append(c.createUnder(uses...), c.createUnder(nil)...)
		c.takes("the first claim", 1018, ids[:1018]...)
		c.takes("the second claim", 10, ids[1018:]...)
	}},
	{"limit/priorities", "P7", "one claim takes runs of several priorities under a limit, the highest first", func(c *C) {
		c.putLimit("l", oneAtATime)
		var ids []store.ID
		for i := range 4 {
			ids = append(ids, c.create(store.NewRun{Under: use("l", fmt.Sprint(i)), Priority: i}))
		}
		slices.Reverse(ids)
		c.takes("the first claim", 2, ids[:2]...)
		c.takes("the second claim", 10, ids[2:]...)
	}},
	{"limit/first-leaves", "P24", "of runs that were started together, the others go if the first ones are canceled or paused before anybody claims", func(c *C) {
		leave := map[string]func(store.ID){"canceled": func(id store.ID) { c.cancel(id) }, "paused": func(id store.ID) { c.pause(id) }}
		for _, how := range []string{"canceled", "paused"} {
			for _, after := range []time.Duration{0, time.Minute} {
				for first := 1; first < 4; first++ {
					limit := fmt.Sprint(how, after, first)
					ids := c.createN(5, store.NewRun{Under: use(limit, "k"), After: after})
					slices.SortFunc(ids, byID)
					for _, id := range ids[:first] {
						leave[how](id)
					}
					if after > 0 {
						got := c.claim(store.ClaimParams{Max: 9})
						c.eq("runs before the time", runIDs(got.Runs), []store.ID{})
						c.check(!got.NextDue.After(c.now.Add(after)) && !got.NextDue.IsZero(), "NextDue: saw %s, expected %s or before", show(got.NextDue), show(c.now.Add(after)))
						c.advance(after)
					}
					c.finish(c.takes("the others", 9, ids[first:]...))
				}
			}
		}
	}},
	{"limit/started-in-one-call", "P24", "runs of several keys, queues and priorities that one call starts can be claimed at once", func(c *C) {
		for _, how := range eachStart {
			var runs []store.NewRun
			for _, r := range []store.NewRun{{}, {}, {Priority: 1}, {Queue: aQueue + "-2"}} {
				for _, key := range []string{"a", "b", "a"} {
					r.Under = use("l", key)
					runs = append(runs, how(fill(r)))
				}
			}
			ids := c.createAll(runs...)
			got := c.claim(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 99), demand(aQueue+"-2", 99)}})
			c.once(runIDs(got.Runs), ids)
		}
	}},
	{"limit/started-in-any-order", "P13", "runs of a key that one call starts for several times are claimed at their times, whatever their order in the call", func(c *C) {
		for h, how := range eachStart {
			for i, order := range [][]int{{3, 1, 2, 0}, {0, 2, 1, 3}, {2, 3, 1, 0}} {
				ids := make([]store.ID, 4)
				runs := make([]store.NewRun, 4)
				for j, minutes := range order {
					runs[j] = how(fill(store.NewRun{Under: use("l", fmt.Sprint(h, i)), After: time.Duration(minutes) * time.Minute}))
					ids[minutes] = runs[j].ID
				}
				c.createAll(runs...)
				for minutes, id := range ids {
					c.finish(c.takes(fmt.Sprintf("after %d minutes", minutes), 9, id))
					c.advance(time.Minute)
				}
			}
		}
	}},
	{"limit/both-leave-meanwhile", "P24", "of runs that were started together, the last goes if the others are canceled at once before anybody claims", func(c *C) {
		var ids []store.ID
		leave := func(i int) func(store.Store) error {
			return func(s store.Store) error {
				_, err := ask(c, s.Cancel, store.CancelParams{Namespace: c.ns, IDs: []store.ID{ids[i]}, Now: c.now})
				return err
			}
		}
		c.collide(func() {
			ids = c.createN(3, store.NewRun{Under: use("l", "k")})
			slices.SortFunc(ids, byID)
		}, leave(0), leave(1), func() {
			c.finish(c.takes("the last one", 9, ids[2]))
		})
	}},
	{"limit/first-of-namespace", "P7", "the first run under limits of a namespace is claimed at once, also by a handle that has claimed there before", func(c *C) {
		c.end(c.start(), complete(""))
		other := newC(c.TB, c.host, c.h, c.s2, c.s, c.cs)
		other.ns, other.now = c.ns, c.now
		id := other.createUnder(use("l", "a"))[0]
		c.advance(time.Microsecond)
		c.takes("the claim", 1, id)
	}},
	{"limit/first-of-step", "P7", "the first run of a namespace whose step waits for permits is claimed at once", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Transition: &store.Transition{Kind: store.Release, Under: use("l", "a")}})
		c.takes("the claim", 1, run.Run.ID)
	}},
	{"limit/crashes", "P6", "a run whose step waits for permits keeps the crashes that the commit names", func(c *C) {
		for _, kind := range []store.TransitionKind{store.Sleep, store.Release} {
			c.create(store.NewRun{})
			run := c.claim1()
			wait := &store.Transition{Kind: kind, Under: use("l", "a"), At: c.now}
			if kind == store.Release {
				wait.At = time.Time{}
			}
			c.commit(store.Commit{Lease: run.Lease, Crashes: 3, Transition: wait})
			c.eq("Crashes of a run that waits", c.get(run.Run.ID).Crashes, 3)
			again := c.claim1()
			c.eq("Crashes of the claimed run", again.Run.Crashes, 3)
			c.end(again, complete(""))
		}
	}},
	{"limit/order-within-key", "P7", "runs of a key go in the order of P7", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "a"), use("l", "a"), use("l", "a"))
		for _, id := range ids {
			c.end(c.takes("the next run", 10, id)[0], complete(""))
		}
	}},
	{"limit/several", "P21", "a run under several limits takes all of its permits or none", func(c *C) {
		c.putLimit("a", store.LimitRule{Concurrency: 2})
		c.putLimit("b", oneAtATime)
		ids := c.createUnder(
			uses(use("a", "x"), use("b", "y")), // goes
			uses(use("a", "x"), use("b", "y")), // b is full
			uses(use("a", "x"), use("b", "z")), // goes
			uses(use("a", "x"), use("b", "w")), // a is full
			use("b", "w"),                      // goes
		)
		runs := c.takes("what all limits permit", 10, ids[0], ids[2], ids[4])
		c.heldUnder("a", "x", 2)
		c.heldUnder("b", "y", 1)
		c.heldUnder("b", "w", 1)
		c.end(runs[2], complete(""))
		c.takes("after an end that does not suffice", 10)
		c.end(runs[1], complete(""))
		c.takes("after the end of the other", 10, ids[3])
	}},
	{"limit/undefined", "P21", "a limit that does not exist permits everything, and what it has permitted counts once it exists", func(c *C) {
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"))
		runs := c.takes("without a rule", 2, ids[0], ids[1])
		c.heldUnder("l", "k", 2)
		c.putLimit("l", store.LimitRule{Concurrency: 2})
		c.takes("with a rule", 10)
		c.end(runs[0], complete(""))
		c.takes("after an end", 10, ids[2])
	}},
	{"limit/lowered", "P21", "a lower concurrency ends no lease, and permits no new one until there is room", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 3})
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"))
		runs := c.takes("the first claim", 10, ids[:3]...)
		c.putLimit("l", oneAtATime)
		c.heldUnder("l", "k", 3)
		for _, run := range runs[:2] {
			c.end(run, complete(""))
			c.takes("while there is no room", 10)
		}
		c.end(runs[2], complete(""))
		c.takes("with room", 10, ids[3])
	}},
	{"limit/raised", "P21", "a rule that is raised, or that no longer limits, lets waiting runs go at once", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"))
		c.takes("the first claim", 10, ids[0])
		c.takes("the claim at the limit", 10)
		c.putLimit("l", store.LimitRule{Concurrency: 2})
		c.takes("the claim after raising", 10, ids[1])
		c.takes("the claim at the new limit", 10)
		c.putLimit("l", store.LimitRule{})
		c.takes("the claim without a limit", 10, ids[2:]...)
	}},
	{"limit/set", "P21", "what an operator has set wins over the rule of code until it is removed", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"), use("l", "k"))
		c.takes("under the rule of code", 10, ids[0])
		c.setLimit("l", &store.LimitRule{Concurrency: 2})
		c.takes("under the operator's rule", 10, ids[1])
		c.putLimit("l", store.LimitRule{Concurrency: 4})
		c.takes("code does not win", 10)
		c.eq("limits", c.limits(), []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 4}, Set: &store.LimitRule{Concurrency: 2}}})
		c.setLimit("l", nil)
		c.takes("when it is removed", 10, ids[2:]...)
		c.eq("limits", c.limits(), []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 4}}})
		c.setLimit("l", nil) // P4
	}},
	{"limit/set-only", "P21", "a limit that only an operator has set exists as long as its rule, and removing one that does not exist is ErrNotFound", func(c *C) {
		c.fails("SetLimit without a rule of an unknown limit", c.s.SetLimit(c.ctx, store.SetLimitParams{Namespace: c.ns, Name: "l", Now: c.now}), store.ErrNotFound)
		c.setLimit("l", &oneAtATime)
		c.eq("limits", c.limits(), []store.Limit{{Name: "l", Set: &oneAtATime}})
		ids := c.createUnder(use("l", "k"), use("l", "k"))
		c.takes("under it", 10, ids[0])
		c.setLimit("l", nil)
		c.eq("limits after the removal", c.limits(), []store.Limit{})
		c.takes("without it", 10, ids[1])
	}},
	{"limit/updated-at", "", "UpdatedAt is when a rule last changed; the same rule again changes nothing", func(c *C) {
		at := func(want time.Time) {
			c.Helper()
			list, err := store.AllLimits(c.ctx, c.s, store.ListLimitsParams{Namespace: c.ns, Names: []string{"l"}})
			c.ok("ListLimits", err)
			if len(list) != 1 {
				c.Fatalf("ListLimits: saw %d limits, expected one", len(list))
			}
			c.eq("UpdatedAt", list[0].UpdatedAt, want)
		}
		rule := store.LimitRule{Concurrency: 2, Tokens: 3, Per: time.Minute, Burst: 5, Fair: true}
		first := c.now
		c.putLimit("l", rule)
		c.advance(time.Minute)
		c.putLimit("l", rule)
		at(first)
		c.setLimit("l", &rule)
		at(c.now)
		second := c.now
		c.advance(time.Minute)
		c.setLimit("l", &rule)
		at(second)
		rule.Burst = 4
		c.putLimit("l", rule)
		at(c.now)
		got := c.limits()[0]
		c.eq("the rule", got.Effective(), store.LimitRule{Concurrency: 2, Tokens: 3, Per: time.Minute, Burst: 5, Fair: true})
	}},
	{"limit/list", "P14", "ListLimits lists the limits by name, in pages, those of the given names if any are given", func(c *C) {
		var put []store.Limit
		names := []string{"B", "a", "aa", "b", "é", "한"}
		for i, n := range names {
			put = append(put, store.Limit{Name: n, Rule: store.LimitRule{Concurrency: int64(i + 1)}})
		}
		c.ok("PutLimits", c.s.PutLimits(c.ctx, store.PutLimitsParams{Namespace: c.ns, Limits: put, Now: c.now}))
		c.eq("limits", c.limits(), put)
		p := store.ListLimitsParams{Namespace: c.ns, Limit: 4}
		page, err := c.s.ListLimits(c.ctx, p)
		c.ok("ListLimits", err)
		c.eq("the first page has", len(page.Limits), 4)
		p.Cursor = page.Next
		page, err = c.s.ListLimits(c.ctx, p)
		c.ok("ListLimits", err)
		c.eq("the second page has", len(page.Limits), 2)
		c.eq("Next", page.Next, "")
		p.Names = []string{"a"}
		_, err = c.s.ListLimits(c.ctx, p)
		c.fails("ListLimits with the cursor of another query", err, store.ErrInvalid)
		p.Cursor, p.Names = "", []string{"b", "none", "a"}
		page, err = c.s.ListLimits(c.ctx, p)
		c.ok("ListLimits", err)
		c.eq("limits of given names", len(page.Limits), 2)
	}},
	{"limit/since", "P21", "LimitKeys counts the due runs of a key in all queues and of all priorities, and Since is the time of the earliest one", func(c *C) {
		c.putLimit("l", oneAtATime)
		c.create(store.NewRun{Queue: "d1", Under: use("l", "k")})
		first := c.now
		for i, q := range []string{"d0", "d2", "d1", "d0"} {
			c.advance(time.Second)
			c.create(store.NewRun{Queue: q, Priority: i, Under: use("l", "k")})
		}
		c.create(store.NewRun{Queue: "d0", After: time.Hour, Under: use("l", "k")})
		c.eq("the key", c.limitKey("l", "k"), store.LimitKey{Key: "k", Waiting: 5, Since: first, Weight: 1})
	}},
	{"limit/takeover", "P21", "an expired lease holds its permits until its run is claimed again, and whoever claims it inherits them", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "k"), use("l", "k"))
		c.takes("the first claim", 10, ids[0])
		c.advance(aLease)
		c.heldUnder("l", "k", 1)
		taken := c.takes("the takeover", 10, ids[0])
		c.eq("Crashes", taken[0].Run.Crashes, 1)
		c.heldUnder("l", "k", 1)
		c.takes("the claim at the limit", 10)
		c.end(taken[0], complete(""))
		c.takes("the claim after the end", 10, ids[1])
	}},
	{"limit/takeover-beside-a-new-one", "P21", "a claim that takes a run over and another one for the first time adds the permits of the second alone", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 3})
		first := c.createUnder(use("l", "k"))[0]
		c.takes("the first claim", 10, first)
		c.advance(aLease)
		second := c.createUnder(use("l", "k"))[0]
		taken := c.takes("the takeover and the new run", 10, first, second)
		c.heldUnder("l", "k", 2)
		c.end(taken[0], complete(""))
		c.end(taken[1], complete(""))
		c.heldUnder("l", "k", 0)
	}},
	{"limit/takeover-above", "P21", "a takeover is permitted although the limit was lowered", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 2})
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"))
		c.takes("the first claim", 10, ids[0], ids[1])
		c.putLimit("l", oneAtATime)
		c.advance(aLease)
		c.takes("the takeovers", 10, ids[0], ids[1])
		c.heldUnder("l", "k", 2)
	}},
	{"limit/zombie", "P24", "a holder whose lease was taken over gives no permit back", func(c *C) {
		c.putLimit("l", oneAtATime)
		ids := c.createUnder(use("l", "k"), use("l", "k"))
		zombie := c.takes("the first claim", 10, ids[0])[0]
		c.advance(aLease)
		second := c.takes("the takeover", 10, ids[0])[0]
		for _, t := range transitions() {
			c.lost("the end by the first holder", store.Commit{Lease: zombie.Lease, Transition: t})
		}
		c.heldUnder("l", "k", 1)
		c.takes("the claim at the limit", 10)
		end := store.Commit{Lease: second.Lease, Seq: 1, Transition: complete("")}
		c.commit(end)
		c.eq("the end that is sent again is a repeat", c.tryCommit(end).Repeated, true)
		c.heldUnder("l", "k", 0)
		c.takes("the claim after the end", 10, ids[1])
		c.eq("the end that is sent once more is a repeat", c.tryCommit(end).Repeated, true)
		c.heldUnder("l", "k", 1)
	}},
	{"limit/returns", "P24", "a run that ends its lease and waits again holds no permit, and waits in its place", func(c *C) {
		c.putLimit("one", oneAtATime)
		for _, t := range []*store.Transition{release(), sleepFor(time.Microsecond), retryIn(0), continueWith("x")} {
			ids := c.createUnder(use("one", "k"), use("one", "k"))
			run := c.takes("the first claim", 2, ids[0])[0]
			c.advance(time.Microsecond)
			c.end(run, t)
			c.heldUnder("one", "k", 0)
			c.advance(time.Second)
			run = c.takes("the claim after the "+t.Kind.String(), 2, ids[1])[0]
			c.heldUnder("one", "k", 1)
			c.end(run, complete(""))
			c.end(c.takes("the claim of the one that has waited", 2, ids[0])[0], complete(""))
		}
	}},
	{"limit/restart", "P24", "a restarted run waits for its permits anew, and holds none of its old ones", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"))
		c.end(c.takes("the first claim", 2, ids[0])[0], failWith("error"))
		c.takes("the second claim", 2, ids[1])
		c.ok("Restart's item", c.tryRestart(ids[0])[0].Err)
		c.eq("Under", c.get(ids[0]).Under, kept(use("one", "k")))
		c.heldUnder("one", "k", 1)
		c.takes("while another run has the permit", 2)
		c.force(ids[1])
		c.takes("the claim after that", 2, ids[0])
	}},
	{"limit/fork", "P24", "a fork is under the limits of its run, with permits of its own", func(c *C) {
		c.putLimit("one", oneAtATime)
		run := c.takes("the claim", 2, c.createUnder(use("one", "k"))...)[0]
		fork := store.NewID()
		_, err := c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: run.Run.ID, New: fork, Now: c.now})
		c.ok("Fork", err)
		c.eq("Under of the fork", c.get(fork).Under, kept(use("one", "k")))
		c.takes("while its run has the permit", 2)
		c.end(run, complete(""))
		c.takes("after that", 2, fork)
	}},
	{"limit/purge", "P24", "a purge of runs that were under limits frees nothing that others hold", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"), use("one", "k"))
		c.end(c.takes("the first claim", 2, ids[0])[0], complete(""))
		c.takes("the second claim", 2, ids[1])
		n, err := c.s.Purge(c.ctx, store.PurgeParams{Namespace: c.ns, Now: c.now})
		c.ok("Purge", err)
		c.eq("purged", n, 1)
		c.heldUnder("one", "k", 1)
		c.takes("the claim at the limit", 2)
	}},
	{"limit/children", "P21", "children are under their limits like any run, and those that end with their parent free their permits", func(c *C) {
		c.putLimit("one", oneAtATime)
		list := kids(3)
		for i := range list {
			list[i].Under = use("one", "k")
		}
		parent := c.family(sleepAwait(store.Await{Group: "g"}), list...)
		c.eq("children that are claimed", runIDs(c.claimKids(10)), []store.ID{list[0].ID})
		c.heldUnder("one", "k", 1)
		_, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{parent}, Force: true, Now: c.now})
		c.ok("Cancel with Force", err)
		c.eq("the status of the claimed child", c.get(list[0].ID).Status, store.Canceling)
		c.heldUnder("one", "k", 1) // until its holder ends it
		_, err = c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{list[0].ID}, Force: true, Now: c.now})
		c.ok("Cancel with Force", err)
		c.heldUnder("one", "k", 0)
	}},
	{"limit/ends-in-one-call", "P24", "runs of one key that end in one call each end their own permit", func(c *C) {
		c.putLimit("three", store.LimitRule{Concurrency: 3})
		ids := c.createUnder(slices.Repeat([][]store.LimitUse{use("three", "k")}, 8)...)
		runs := c.takes("the first claim", 9, ids[:3]...)
		ends := make([]store.Commit, len(runs))
		for i, r := range runs {
			ends[i] = store.Commit{Lease: r.Lease, Transition: complete("")}
		}
		c.commits(ends...)
		c.heldUnder("three", "k", 0)
		c.takes("the claim after the ends", 9, ids[3:6]...)
	}},
	{"limit/ends-of-two-handles", "P24", "runs that two handles of the store have claimed, and that one ends in one call, each end their own permit", func(c *C) {
		c.putLimit("two", store.LimitRule{Concurrency: 2})
		ids := c.startsUnder(6, use("two", "k"))
		for i := 0; i < len(ids); i += 2 {
			runs := c.takes("the claim of the one", 1, ids[i])
			more, err := c.claimOn(c.s2, store.ClaimParams{Max: 1})
			c.ok("Claim of the other", err)
			c.eq("the claim of the other", runIDs(more), ids[i+1:i+2])
			runs = append(runs, more...)
			if i == 2 {
				slices.Reverse(runs)
			}
			c.commits(store.Commit{Lease: runs[0].Lease, Transition: complete("")}, store.Commit{Lease: runs[1].Lease, Transition: complete("")})
			c.heldUnder("two", "k", 0)
		}
	}},
	{"limit/ends-when-a-child-completes", "P24", "a child that completes ends its own permit and no other", func(c *C) {
		c.putLimit("two", store.LimitRule{Concurrency: 2})
		list := kids(5)
		for i := range list {
			list[i].Under = use("two", "k")
		}
		c.family(sleepAwait(store.Await{Group: "g"}), list...)
		both := c.claimKids(10)
		c.eq("children that are claimed", len(both), 2)
		for i := range 3 {
			c.end(both[0], complete(""))
			c.heldUnder("two", "k", 1)
			both = append(both[1:], c.claimKids(10)...)
			c.eq(fmt.Sprintf("children that have a lease after %d ends", i+1), len(both), 2)
		}
	}},
	{"limit/fired", "P21", "a run that a schedule has fired is under its limits", func(c *C) {
		c.putLimit("one", oneAtATime)
		c.putSchedule(store.Schedule{Name: "s", Workflow: aWorkflow, Queue: aQueue, NextAt: c.now})
		run := fill(store.NewRun{Under: use("one", "k")})
		_, err := c.s.Fire(c.ctx, store.FireParams{Namespace: c.ns, Schedule: "s", At: c.now, Next: c.now.Add(time.Hour), Run: &run, Now: c.now})
		c.ok("Fire", err)
		ids := c.createUnder(use("one", "k"))
		c.takes("the fired run", 10, run.ID)
		c.takes("the claim at the limit", 10)
		c.force(run.ID)
		c.takes("the other run", 10, ids[0])
	}},
	{"limit/paused", "P24", "a paused run waits for nothing and holds nothing; resumed, it waits in its place", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"))
		c.pause(ids[0])
		run := c.takes("the one that is not paused", 2, ids[1])[0]
		c.resume(ids[0])
		c.takes("the claim at the limit", 2)
		c.end(run, complete(""))
		c.takes("the one that was paused", 2, ids[0])
	}},
	{"limit/paused-queue", "P24", "leases of a paused queue keep their permits, and its waiting runs take none", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"))
		other := c.create(store.NewRun{Queue: "other", Under: use("one", "k")})
		run := c.takes("the first claim", 2, ids[0])[0]
		c.setPaused(aQueue, "", true)
		fromOther := func(want ...store.ID) {
			c.Helper()
			got := c.claim(store.ClaimParams{Demands: []store.Demand{demand("other", 5)}})
			c.eq("runs of the other queue", append([]store.ID{}, runIDs(got.Runs)...), append([]store.ID{}, want...))
		}
		fromOther()
		c.end(run, complete(""))
		fromOther(other)
		c.setPaused(aQueue, "", false)
		c.takes("the claim at the limit", 2)
		c.force(other)
		c.takes("the claim after that", 2, ids[1])
	}},
	{"limit/canceled-waiting", "P24", "a run that is canceled while it waits lets the next one of its key go", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"), use("one", "k"))
		run := c.takes("the first claim", 2, ids[0])[0]
		c.takes("the claim at the limit", 2)
		c.eq("the waiting run", c.cancel(ids[1]), store.Canceled)
		c.end(run, complete(""))
		c.takes("the next one", 2, ids[2])
	}},
	{"limit/cleanup", "P21", "a canceling run that cleans up is under its limits", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"))
		run := c.takes("the first claim", 2, ids[0])[0]
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: sleepFor(time.Hour)})
		other := c.takes("the second claim", 2, ids[1])[0]
		c.eq("the canceled run", c.cancel(ids[0]), store.Canceling)
		c.takes("while another run has the permit", 2)
		c.end(other, complete(""))
		c.takes("the cleanup", 2, ids[0])
	}},
	{"limit/import", "P24", "an imported run keeps its limits, holds no permit, and waits for them when it is resumed", func(c *C) {
		imp := c.importer(c.s)
		c.putLimit("one", oneAtATime)
		run := c.takes("the first claim", 2, c.createUnder(use("one", "k"))...)[0]
		rec := store.RunRecord{Run: run.Run}
		rec.Run.ID, rec.Run.StepUnder = store.NewID(), use("two", "x")
		_, err := imp.Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
		c.ok("Import", err)
		got := c.get(rec.Run.ID)
		c.eq("Under", got.Under, kept(use("one", "k")))
		c.eq("StepUnder", got.StepUnder, []store.LimitUse(nil))
		c.heldUnder("one", "k", 1)
		c.resume(rec.Run.ID)
		c.takes("while another run has the permit", 2)
		c.end(run, complete(""))
		c.takes("after that", 2, rec.Run.ID)
	}},
	{"limit/namespaces", "P15", "namespaces have limits, leases, rates and turns of their own", func(c *C) {
		other := newC(c.TB, c.host, c.h, c.s, c.s2, c.cs)
		other.ns, other.now = c.ns+" other", c.now
		c.putLimit("l", oneAtATime)
		mine := c.createUnder(use("l", "k"), use("l", "k"))
		theirs := other.createUnder(use("l", "k"), use("l", "k"))
		first := c.takes("this namespace", 10, mine[0])[0]
		other.takes("the other one, without a rule", 10, theirs...)
		c.heldUnder("l", "k", 1)
		other.heldUnder("l", "k", 2)
		c.eq("limits of the other namespace", other.limits(), []store.Limit{})
		other.putLimit("l", oneAtATime)
		c.takes("this namespace at its limit", 10)
		other.createUnder(use("l", "k"), use("l", "k"))
		other.takes("the other one, above its limit", 10)
		c.eq("waiting runs of both", []int64{c.limitKey("l", "k").Waiting, other.limitKey("l", "k").Waiting}, []int64{1, 2})
		c.end(first, complete(""))
		c.takes("this namespace, whatever the other one holds", 10, mine[1])
	}},
	{"limit/namespaces-alike", "P15", "runs of another namespace that are alike and came before, and a pause there, are not in the way", func(c *C) {
		other := newC(c.TB, c.host, c.h, c.s, c.s2, c.cs)
		other.ns, other.now = c.ns+" other", c.now
		c.putLimit("l", store.LimitRule{Concurrency: 100})
		theirs := other.startsUnder(40, use("l", "k"))
		c.advance(time.Second)
		mine := c.startsUnder(3, use("l", "k"))
		other.setPaused(aQueue, "", true)
		c.takes("the claim", 2, mine[:2]...)
		c.takes("the next claim", 2, mine[2])
		c.takes("a claim when none is left", 2)
		other.setPaused(aQueue, "", false)
		other.takes("the other namespace", 3, theirs[:3]...)
	}},
	{"limit/namespaces-parked", "P15", "runs of another namespace that wait for a permit of the same name and key are not forgotten", func(c *C) {
		other := newC(c.TB, c.host, c.h, c.s, c.s2, c.cs)
		other.ns, other.now = c.ns+" other", c.now
		both := func(c *C) (held store.ClaimedRun, next store.ID) {
			c.putLimit("one", oneAtATime)
			ids := c.createUnder(use("one", "k"), use("one", "k"))
			held = c.takes("the first claim", 2, ids[0])[0]
			c.takes("the claim at the limit", 2)
			return held, ids[1]
		}
		theirs, next := both(other)
		mine, later := both(c)
		c.end(mine, complete(""))
		c.end(c.takes("the next run here", 2, later)[0], complete(""))
		c.takes("a claim when none is left", 2)
		other.end(theirs, complete(""))
		other.takes("the next run there", 2, next)
	}},
	{"limit/namespaces-forgotten", "P15", "a namespace that no longer needs a key leaves the tokens of the others", func(c *C) {
		for _, fair := range []bool{false, true} {
			name := fmt.Sprint("l", fair)
			under := func(key string) []store.LimitUse { return []store.LimitUse{{Limit: name, Key: key, Tokens: 1}} }
			rule := store.LimitRule{Tokens: 1, Per: time.Hour, Fair: fair}
			other := newC(c.TB, c.host, c.h, c.s, c.s2, c.cs)
			other.ns, other.now = c.ns+" "+name, c.now.Add(24*time.Hour)
			c.putLimit(name, rule)
			other.putLimit(name, rule)
			c.end(c.takes("this namespace", 1, c.createUnder(under("k"))...)[0], complete(""))
			theirs := other.createUnder(under("k"), under("k"))
			other.end(other.takes("the other one", 2, theirs[0])[0], complete(""))
			for range 6 { // each claim may forget a few keys
				c.advance(time.Hour)
				c.end(c.takes("a later key", 1, c.createUnder(under("later"))...)[0], complete(""))
			}
			other.takes("the other one, before its next token", 2)
		}
	}},
	{"limit/workflows-of-a-key", "P7", "runs of a key in several workflows and queues go in their order, whoever claims which of them", func(c *C) {
		for _, fair := range []bool{false, true} {
			c.putLimit("one", store.LimitRule{Concurrency: 1, Fair: fair})
			demands := func(queue, workflow string) store.ClaimParams {
				return store.ClaimParams{Max: 5, Demands: []store.Demand{demand(queue, 5, workflow)}}
			}
			all := store.ClaimParams{Max: 5, Demands: []store.Demand{demand("d0", 5, "w0", "w1"), demand("d1", 5, "w0", "w1")}}
			var ids []store.ID
			for i := range 16 {
				c.advance(time.Microsecond)
				ids = append(ids, c.create(store.NewRun{Queue: fmt.Sprintf("d%d", i/2%2), Workflow: fmt.Sprintf("w%d", i%2), Under: use("one", "k")}))
			}
			for _, id := range ids[:8] {
				got := c.claim(all)
				c.eq("the run", runIDs(got.Runs), []store.ID{id})
				c.eq("runs at the limit", runIDs(c.claim(all).Runs), []store.ID{})
				c.end(got.Runs[0], complete(""))
			}
			for i, id := range ids[8:] {
				queue, workflow := fmt.Sprintf("d%d", i/2%2), fmt.Sprintf("w%d", i%2)
				got := c.claim(demands(queue, workflow))
				c.eq("the run of "+queue+" and "+workflow, runIDs(got.Runs), []store.ID{id})
				c.eq("runs at the limit", runIDs(c.claim(all).Runs), []store.ID{})
				c.end(got.Runs[0], complete(""))
			}
		}
	}},
	{"limit/pins-of-a-key", "P19", "a run that waits at the limit of a key and is pinned to another build is not in the way", func(c *C) {
		for _, fair := range []bool{false, true} {
			c.putLimit("one", store.LimitRule{Concurrency: 1, Fair: fair})
			ids := c.createUnder(use("one", "k"), use("one", "k"), use("one", "k"))
			run := c.takes("the first claim", 1, ids[0])[0]
			c.commit(store.Commit{Lease: run.Lease, Pin: &store.Pin{Build: oldBuild}, Transition: giveBack()})
			second := c.one(c.claimFor(newBuild).Runs)
			c.eq("the run for a new build", second.Run.ID, ids[1])
			c.eq("runs for the old build at the limit", runIDs(c.claimFor(oldBuild).Runs), []store.ID{})
			c.eq("runs for the new build at the limit", runIDs(c.claimFor(newBuild).Runs), []store.ID{})
			c.end(second, complete(""))
			third := c.one(c.claimFor(newBuild).Runs)
			c.eq("the next run for the new build", third.Run.ID, ids[2])
			c.eq("runs for the old build at the limit", runIDs(c.claimFor(oldBuild).Runs), []store.ID{})
			c.end(third, complete(""))
			c.eq("runs for the new build", runIDs(c.claimFor(newBuild).Runs), []store.ID{})
			pinned := c.one(c.claimFor(oldBuild).Runs)
			c.eq("the pinned run", pinned.Run.ID, ids[0])
			c.end(pinned, complete(""))
		}
	}},
	{"limit/pinned", "P19", "pinned and other runs of a key share its permits", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"))
		run := c.takes("the first claim", 2, ids[0])[0]
		c.advance(time.Microsecond)
		c.commit(store.Commit{Lease: run.Lease, Pin: &store.Pin{Build: oldBuild}, Transition: giveBack()})
		got := c.one(c.claimFor(oldBuild).Runs)
		c.eq("the first one by P7", got.Run.ID, ids[1])
		c.eq("runs at the limit", runIDs(c.claimFor(oldBuild).Runs), []store.ID{})
		c.end(got, complete(""))
		c.eq("runs for another build", runIDs(c.claimFor(newBuild).Runs), []store.ID{})
		c.eq("the pinned run", c.one(c.claimFor(oldBuild).Runs).Run.ID, ids[0])
	}},
	{"limit/unpinned", "P19", "a run that waits under a limit and is unpinned goes with any build", func(c *C) {
		c.putLimit("one", oneAtATime)
		run := c.takes("the first claim", 2, c.createUnder(use("one", "k"))...)[0]
		c.commit(store.Commit{Lease: run.Lease, Pin: &store.Pin{Build: oldBuild}, Transition: giveBack()})
		c.eq("runs for another build", runIDs(c.claimFor(newBuild).Runs), []store.ID{})
		c.ok("Unpin's item", c.unpin(run.Run.ID)[0].Err)
		c.eq("the run", c.one(c.claimFor(newBuild).Runs).Run.ID, run.Run.ID)
	}},
	{"limit/demands", "P21", "a claim of several queues shares the permits, and each demand keeps its maximum", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 3})
		var ids []store.ID
		for i := range 6 {
			c.advance(time.Microsecond)
			ids = append(ids, c.create(store.NewRun{Queue: fmt.Sprintf("d%d", i%2), Under: use("l", "k")}))
		}
		got := c.claim(store.ClaimParams{Demands: []store.Demand{demand("d0", 1), demand("d1", 5)}})
		c.eq("runs", runIDs(got.Runs), []store.ID{ids[0], ids[1], ids[3]})
		c.eq("NextDue", got.NextDue, time.Time{})
		c.eq("Waiting", got.Waiting, []store.Waiting(nil))
	}},
	{"limit/demands-of-many-keys", "P21", "a claim that has all the runs of one demand goes on with the others, however many keys the first has", func(c *C) {
		c.putLimit("l", oneAtATime)
		var ids []store.ID
		for i := range 60 {
			c.advance(time.Microsecond)
			ids = append(ids, c.create(store.NewRun{Queue: "d0", Under: use("l", fmt.Sprint(i))}))
		}
		c.advance(time.Microsecond)
		last := c.create(store.NewRun{Queue: "d1", Under: use("l", "other")})
		got := c.claim(store.ClaimParams{Demands: []store.Demand{demand("d0", 1), demand("d1", 1)}})
		c.eq("runs", runIDs(got.Runs), []store.ID{ids[0], last})
	}},
	{"limit/crowd-behind-the-rest-of-a-key", "P7", "a run that a claim leaves because its demand is full goes before later runs of many other keys", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 5})
		create := func(key string) store.ID {
			c.advance(time.Microsecond)
			return c.create(store.NewRun{Queue: "d0", Under: use("l", key)})
		}
		first, second := create("k"), create("k")
		for i := range 60 {
			create(fmt.Sprint(i))
		}
		create("k")
		got := c.claim(store.ClaimParams{Demands: []store.Demand{demand("d0", 1), demand("d1", 5)}})
		c.eq("the first claim", runIDs(got.Runs), []store.ID{first})
		got = c.claim(store.ClaimParams{Demands: []store.Demand{demand("d0", 1)}})
		c.eq("the second claim", runIDs(got.Runs), []store.ID{second})
	}},
	{"limit/crowd-at-a-full-key", "P7", "many runs that wait for a full key, each under another limit too, do not hide a run that may go, which goes before a later one under no limit", func(c *C) {
		for _, after := range []time.Duration{0, time.Minute} {
			for _, fair := range []bool{false, true} {
				one := fmt.Sprint("one", after, fair)
				c.putLimit(one, store.LimitRule{Concurrency: 1, Fair: fair})
				c.createUnder(use(one, "full"))
				c.one(c.claim(store.ClaimParams{Max: 1, LeaseFor: time.Hour}).Runs)
				c.apart(120, use(one, "full"), after)
				c.advance(time.Microsecond)
				next := c.create(store.NewRun{Under: use(one, "free"), After: after})
				if after > 0 {
					c.takes("the claim before the time", 1)
					c.advance(after)
				}
				plain := c.createUnder(nil)
				c.finish(c.takes("the run of another key", 1, next))
				c.finish(c.takes("the claim after it", 1, plain...))
				c.takes("the claim at the limit", 1)
			}
		}
	}},
	{"limit/crowd-at-another-limit", "P24", "a run goes when the permit of its key ends, also if many that came before wait for a key of the same name under another limit", func(c *C) {
		for _, fair := range []bool{false, true} {
			rule := store.LimitRule{Concurrency: 1, Fair: fair}
			a, b := fmt.Sprint("a", fair), fmt.Sprint("b", fair)
			c.putLimit(a, rule)
			c.putLimit(b, rule)
			held := c.takes("the first claim", 2, c.createUnder(use(a, "k"), use(b, "k"))...)
			c.apart(40, use(a, "k"), 0)
			next := c.createUnder(use(b, "k"))
			c.takes("while both permits are held", 1)
			c.end(held[1], complete(""))
			c.takes("when one has ended", 1, next...)
		}
	}},
	{"limit/crowd-behind-another-key", "P7", "the permit of a key goes to a run before it goes to a later one under no limit, also if many between wait for another key as well", func(c *C) {
		for _, fair := range []bool{false, true} {
			one, two := fmt.Sprint("one", fair), fmt.Sprint("two", fair)
			c.putLimit(one, store.LimitRule{Concurrency: 1, Fair: fair})
			c.putLimit(two, oneAtATime)
			held := c.takes("the first claim", 2, c.createUnder(use(one, "k"), use(two, "x"))...)
			c.apart(40, uses(use(one, "k"), use(two, "x")), 0)
			next := c.createUnder(use(one, "k"))
			c.takes("while both permits are held", 1)
			plain := c.createUnder(nil)
			c.end(held[0], complete(""))
			c.takes("when one has ended", 1, next...)
			c.takes("the claim after it", 1, plain...)
		}
	}},
	{"limit/crowd-of-free-keys", "P7", "when the permits of many keys end together, the runs that wait for them go in order, whatever their keys, and before a later one under no limit", func(c *C) {
		const n = 150
		for _, step := range []int{1, n - 1} { // forwards and backwards
			one := fmt.Sprint("one", step)
			c.putLimit(one, oneAtATime)
			key := func(i int) []store.LimitUse { return use(one, fmt.Sprintf("%03d", (120+i*step)%n)) }
			for i := range n {
				c.create(store.NewRun{Under: key(i)})
			}
			var ends []store.Commit
			for _, run := range c.claim(store.ClaimParams{Max: n, LeaseFor: time.Hour}).Runs {
				ends = append(ends, store.Commit{Lease: run.Lease, Transition: complete("")})
			}
			c.eq("number of runs that hold a permit", len(ends), n)
			var wait []store.ID
			for i := range n {
				wait = append(wait, c.createUnder(key(i))...)
			}
			c.takes("while all permits are held", n)
			plain := c.createUnder(nil)
			c.allApplied(c.commits(ends...))
			for i := range 3 {
				c.finish(c.takes("when all have ended", 1, wait[i]))
			}
			c.finish(c.takes("the others", n, append(wait[3:], plain...)...))
		}
	}},
	{"limit/bytes", "P12", "a run that does not fit into a claim's bytes takes no permit", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 5})
		for range 3 {
			c.advance(time.Microsecond)
			c.create(store.NewRun{Under: use("l", "k"), Input: make([]byte, 1000)})
		}
		got := c.claim(store.ClaimParams{Max: 5, MaxBytes: 1500})
		c.eq("number of runs", len(got.Runs), 1)
		c.heldUnder("l", "k", 1)
		c.check(!got.NextDue.IsZero() && !got.NextDue.After(c.now), "NextDue: saw %s, expected that more is due", show(got.NextDue))
	}},
	{"limit/bytes-of-many", "P12", "a claim under limits takes only as many runs as MaxBytes has room for, however many runs and keys wait", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 50})
		like := store.NewRun{Under: use("l", "first"), Input: make([]byte, 1000)}
		first := c.createN(40, like)
		like.After = time.Microsecond
		for i := range 100 {
			like.Under = use("l", fmt.Sprint(i))
			first = append(first, c.create(like))
		}
		c.advance(time.Second)
		seen := map[store.ID]bool{}
		for _, n := range []int{2, 8, 1, 12, 4} {
			got := c.claim(store.ClaimParams{Max: 60, MaxBytes: n*1000 + 900})
			c.eq(fmt.Sprintf("number of runs of a claim with room for %d", n), len(got.Runs), n)
			for _, run := range got.Runs {
				seen[run.Run.ID] = true
			}
		}
		for i, id := range first[:27] {
			c.check(seen[id], "run %d in the order of P7 was not taken, although 27 runs were", i+1)
		}
		c.heldUnder("l", "first", 27)
	}},
	{"limit/again", "P4", "a claim that is sent again finds its runs, and takes no permit and no tokens", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 2, Tokens: 2, Per: time.Hour})
		ids := c.createUnder(use("l", "k"), use("l", "k"), use("l", "k"))
		p := store.ClaimParams{Max: 1, ClaimID: 77}
		first := c.claim(p)
		c.eq("runs", runIDs(first.Runs), ids[:1])
		p.Again = true
		again := c.claim(p)
		c.eq("runs that are found again", runIDs(again.Runs), ids[:1])
		c.heldUnder("l", "k", 1)
		c.takes("the other permit and the other token", 10, ids[1])
	}},
	{"limit/due-later", "P13", "a run that is due later holds nobody back, and is not claimed before its time", func(c *C) {
		c.putLimit("one", oneAtATime)
		later := c.create(store.NewRun{After: time.Minute, Under: use("one", "k")})
		ids := c.createUnder(use("one", "k"))
		run := c.takes("the due one", 2, ids[0])[0]
		c.end(run, complete(""))
		got := c.claim(store.ClaimParams{Max: 2})
		c.eq("runs before the time", runIDs(got.Runs), []store.ID{})
		due := c.get(later).VisibleAt
		c.eq("NextDue", got.NextDue, due)
		c.now = due
		c.takes("at its time", 2, later)
	}},
	{"limit/demands-alone", "P7", "a claim takes runs under limits of its own queues and workflows alone, also at the moment at which others are due", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 9})
		lanes := []store.Demand{demand(aQueue, 9), demand(aQueue+"-2", 9), demand(aQueue, 9, aWorkflow+"-2")}
		for _, after := range []time.Duration{0, time.Minute} {
			var ids []store.ID
			for _, lane := range lanes {
				ids = append(ids, c.create(store.NewRun{Queue: lane.Queue, Workflow: lane.Workflows[0], After: after, Under: use("l", "k")}))
			}
			c.advance(after)
			for i, lane := range lanes {
				for _, want := range [][]store.ID{ids[i : i+1], {}} {
					c.eq(fmt.Sprintf("runs of %+v", lane), runIDs(c.claim(store.ClaimParams{Demands: []store.Demand{lane}}).Runs), want)
				}
			}
		}
	}},
	{"limit/beside-free-runs", "P7", "beside runs that wait under limits, a claim takes those under none that are due, in whatever status they wait, and no paused one", func(c *C) {
		c.putLimit("one", oneAtATime)
		asleep, retried, pausedAsleep := c.start(), c.start(), c.start()
		paused := c.create(store.NewRun{})
		c.end(asleep, sleepFor(time.Minute))
		c.advance(time.Microsecond)
		c.end(retried, retryIn(time.Minute))
		c.end(pausedAsleep, sleepFor(time.Minute))
		c.pause(paused)
		c.pause(pausedAsleep.Run.ID)
		ids := c.createUnder(use("one", "k"), use("one", "k"))
		c.advance(time.Minute)
		fresh := c.create(store.NewRun{})
		c.takes("the claim", 9, ids[0], asleep.Run.ID, retried.Run.ID, fresh)
		c.takes("the next one", 9)
	}},
	{"limit/woken", "P5", "a sleeping run under a limit that an event wakes waits for a permit, and goes as soon as there is one", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"))
		c.end(c.takes("the first claim", 2, ids[0])[0], sleepOn(store.WakeSignal))
		other := c.takes("the second claim", 2, ids[1])[0]
		c.signal(ids[0], "s", "")
		c.takes("while another run has the permit", 2)
		c.end(other, complete(""))
		c.takes("the woken run", 2, ids[0])
	}},
	{"limit/awaits", "P9", "a parent under a limit that waits for children goes on as soon as they are final", func(c *C) {
		c.putLimit("one", oneAtATime)
		parents := c.createUnder(use("one", "k"), use("one", "k"))
		first := c.takes("the first claim", 2, parents[0])[0]
		k := kid(1)
		c.commit(store.Commit{Lease: first.Lease, Spawn: []store.NewRun{k}, Transition: sleepAwait(allOf)})
		c.end(c.takes("the second claim", 2, parents[1])[0], complete(""))
		c.takes("while the child is at work", 2)
		c.end(c.claimKid(), complete("x"))
		again := c.takes("the parent", 2, parents[0])[0]
		c.end(again, sleepAwait(allOf))
		c.end(c.takes("the parent whose children were final before it slept", 2, parents[0])[0], complete(""))
	}},
	{"limit/ends-by-another-handle", "P24", "a permit ends when another handle of the store ends the run, after a commit of the first one was refused", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"))
		c.endElsewhere(c.takes("the first claim", 2, ids[0])[0])
		c.takes("the claim after the end", 2, ids[1])
	}},
	{"limit/step-ends-by-another-handle", "P24", "the permit of a step ends when another handle of the store ends the run, after a commit of the first one was refused", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(nil, use("one", "k"))
		run := c.takes("the first claim", 1, ids[0])[0]
		c.commit(store.Commit{Lease: run.Lease, Transition: &store.Transition{Kind: store.Release, Under: use("one", "k")}})
		c.endElsewhere(c.takes("the claim with the permit of the step", 1, ids[0])[0])
		c.takes("the claim after the end", 2, ids[1])
	}},
	{"limit/step-ends-together", "P24", "the ends of a run that holds a permit of a step beside its own, and of one that does not, end all of these permits", func(c *C) {
		c.putLimit("own", store.LimitRule{Concurrency: 5})
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("own", "x"), use("own", "x"), use("own", "x"))
		runs := c.takes("the first claim", 9, ids...)
		c.advance(time.Microsecond)
		c.end(runs[0], stepUnder(use("one", "k")))
		runs[0] = c.takes("the claim with the permit of the step", 9, ids[0])[0]
		c.heldUnder("own", "x", 3)
		c.heldUnder("one", "k", 1)
		c.finish(runs[:2])
		c.heldUnder("own", "x", 1)
		c.heldUnder("one", "k", 0)
	}},
	{"limit/next-due", "P21", "a run that a concurrency holds back is neither in NextDue nor in Waiting; one that is permitted is", func(c *C) {
		c.putLimit("one", oneAtATime)
		ids := c.createUnder(use("one", "k"), use("one", "k"), use("one", "k"))
		got := c.claim(store.ClaimParams{Max: 5, LeaseFor: time.Hour})
		c.eq("runs", runIDs(got.Runs), ids[:1])
		c.eq("NextDue", got.NextDue, time.Time{})
		for range 2 {
			c.eq("Waiting", got.Waiting, []store.Waiting(nil))
			got = c.claim(store.ClaimParams{Max: 5})
			c.eq("runs", runIDs(got.Runs), []store.ID{})
			c.eq("NextDue", got.NextDue, c.now.Add(time.Hour)) // the end of the lease
		}
		c.force(ids[0])
		none := c.claim(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 0)}})
		c.check(!none.NextDue.IsZero() && !none.NextDue.After(c.now), "NextDue of a claim for no runs, with a run that is permitted: saw %s, expected that work is due", show(none.NextDue))
	}},
	{"limit/first-leaves-beside-an-earlier-one", "P7", "a run is claimed at once, also if the first run of its key, which is due later, leaves at the same time", func(c *C) {
		for _, fair := range []bool{false, true} {
			c.putLimit("l", store.LimitRule{Concurrency: 9, Fair: fair})
			for i, leave := range []func(store.ID){func(id store.ID) { c.cancel(id) }, func(id store.ID) { c.pause(id) }} {
				key := fmt.Sprint(fair, i)
				later := c.create(store.NewRun{Under: use("l", key), After: time.Hour})
				c.takes("the claim before the time", 9)
				leave(later)
				c.finish(c.takes("the claim", 9, c.createUnder(use("l", key))...))
			}
		}
	}},
	{"limit/backlog-of-a-key", "P7", "runs of a key that were started one by one go in the order of their times, as its permits end, beside those of others", func(c *C) {
		for _, of := range []struct{ permits, runs int }{{2, 60}, {20, 60}, {20, 12}} {
			limit := fmt.Sprintf("%d of %d", of.permits, of.runs)
			c.putLimit(limit, store.LimitRule{Concurrency: int64(of.permits)})
			want := map[string][]store.ID{}
			for i := range of.runs {
				key := fmt.Sprint(min(i%4, 1))
				want[key] = append(want[key], c.createUnder(use(limit, key))...)
			}
			for len(want["0"])+len(want["1"]) > 0 {
				got := c.claimN(3)
				if len(got) == 0 {
					c.Fatalf("Claim: saw no run, expected some of %d that wait", len(want["0"])+len(want["1"]))
				}
				for _, run := range got {
					key := run.Run.Under[0].Key
					c.eq("the next run of key "+key, run.Run.ID, want[key][0])
					want[key] = want[key][1:]
				}
				c.finish(got)
			}
		}
	}},
	{"limit/held-counts", "P24", "LimitKeys counts the leases and the waiting runs of each key, whatever has happened to them", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 2})
		c.createUnder(use("l", "a"), use("l", "a"), use("l", "a"), use("l", "b"), use("m", "a"))
		began := c.now
		c.claimN(10)
		c.createUnder(use("l", "c"), use("l", "c"))
		c.create(store.NewRun{Under: use("l", "d"), After: time.Hour})
		c.ok("SetWeight", c.s.SetWeight(c.ctx, store.SetWeightParams{Namespace: c.ns, Limit: "l", Key: "e", Weight: 5, Now: c.now}))
		page, err := c.s.LimitKeys(c.ctx, store.LimitKeysParams{Namespace: c.ns, Limit: "l", Now: c.now})
		c.ok("LimitKeys", err)
		want := []store.LimitKey{
			{Key: "a", Held: 2, Waiting: 1, Since: began.Add(-2 * time.Microsecond), Weight: 1},
			{Key: "b", Held: 1, Weight: 1},
			{Key: "c", Waiting: 2, Since: c.now.Add(-time.Microsecond), Weight: 1},
			{Key: "e", Weight: 5},
		}
		c.eq("keys", page.Keys, want)
		p := store.LimitKeysParams{Namespace: c.ns, Limit: "l", Rows: 3, Now: c.now}
		first, err := c.s.LimitKeys(c.ctx, p)
		c.ok("LimitKeys", err)
		p.Cursor = first.Next
		second, err := c.s.LimitKeys(c.ctx, p)
		c.ok("LimitKeys", err)
		c.eq("keys in pages", slices.Concat(first.Keys, second.Keys), want)
		c.eq("Next of the last page", second.Next, "")
		p.Limit = "m"
		_, err = c.s.LimitKeys(c.ctx, p)
		c.fails("LimitKeys with the cursor of another limit", err, store.ErrInvalid)
	}},
	{"limit/waiting-of-a-key", "P24", "LimitKeys counts the due runs of a key in all queues and workflows, each once, and those that are due later only at their time", func(c *C) {
		c.putLimit("one", oneAtATime)
		for _, r := range []store.NewRun{{}, {}, {Queue: aQueue + "-2"}, {Workflow: aWorkflow + "-2"}, {Priority: 3}, {After: time.Minute}, {After: time.Minute}} {
			r.Under = use("one", "k")
			c.create(r)
		}
		c.eq("Waiting", c.limitKey("one", "k").Waiting, int64(5))
		c.advance(time.Minute)
		c.eq("Waiting a minute later", c.limitKey("one", "k").Waiting, int64(7))
	}},
	{"limit/claimers", "P21", "of many concurrent claims and ends, no moment has more leases of a key than its concurrency", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 2})
		c.putLimit("all", store.LimitRule{Concurrency: 5})
		const perKey = 12
		keys := []string{"a", "b", "c", "d"}
		for range perKey {
			for _, k := range keys {
				c.create(store.NewRun{Under: uses(use("l", k), use("all", ""))})
			}
		}
		checkClaimers(c, keys, perKey*len(keys))
		for _, k := range keys {
			c.heldUnder("l", k, 0)
		}
		c.heldUnder("all", "", 0)
	}},
	{"limit/raised-meanwhile", "P21", "a run that waits for a permit goes when the limit is raised, also if a claim looks at it meanwhile", func(c *C) {
		var next []store.ID
		var taken []store.ClaimedRun
		rule := oneAtATime
		c.collide(func() {
			rule = oneAtATime
			c.putLimit("l", rule)
			held := c.startsUnder(2, use("l", "k"))
			taken = c.takes("the first claim", 2, held[0])
			next = held[1:]
		}, func(s store.Store) error {
			got, err := c.claimOn(s, store.ClaimParams{Max: 2})
			taken = append(taken, got...)
			return err
		}, func(s store.Store) error {
			return s.PutLimits(c.ctx, store.PutLimitsParams{Namespace: c.ns, Limits: []store.Limit{{Name: "l", Rule: store.LimitRule{Concurrency: 2}}}, Now: c.now})
		}, func() {
			taken = append(taken, c.claimN(2)...)
			c.once(runIDs(taken[1:]), next)
			c.finish(taken)
		})
	}},
	{"limit/freed-meanwhile", "P24", "a run that waits for the only permit of a key goes when the permit ends, also if a claim looks at the key meanwhile", func(c *C) {
		c.putLimit("one", oneAtATime)
		round := 0
		var held, taken []store.ClaimedRun
		var next []store.ID
		c.collide(func() {
			round++
			var keys [][]store.LimitUse
			n := 12 // so that one of the ends comes between a read and a write
			if c.held != nil {
				n = 1
			}
			for i := range n {
				keys = append(keys, use("one", fmt.Sprint(round, i)))
			}
			c.createUnder(keys...)
			held = c.claimN(len(keys))
			next = c.createUnder(keys...)
		}, func(s store.Store) (err error) {
			taken, err = c.claimOn(s, store.ClaimParams{Max: len(held)})
			return err
		}, func(s store.Store) error {
			for _, run := range held {
				if err := c.ending(s, run.Lease, 1); err != nil {
					return err
				}
			}
			return nil
		}, func() {
			taken = append(taken, c.claimN(len(held))...)
			c.once(runIDs(taken), next)
			c.finish(taken)
		})
	}},
	{"limit/paused-meanwhile", "P7", "a run under no limit that is paused while a claim of a namespace with limits looks at it is claimed before its pause or not at all", func(c *C) {
		c.putLimit("one", oneAtATime)
		held := c.takes("the first claim", 1, c.createUnder(use("one", "k"))...)
		var free store.ID
		var taken []store.ClaimedRun
		c.collide(func() {
			ids := c.createUnder(use("one", fmt.Sprint(c.now.UnixMicro())), nil)
			free = ids[1]
		}, func(s store.Store) (err error) {
			taken, err = c.claimOn(s, store.ClaimParams{Max: 9, LeaseFor: time.Hour})
			return err
		}, func(s store.Store) error {
			_, err := ask(c, s.Pause, store.PauseParams{Namespace: c.ns, IDs: []store.ID{free}, Now: c.now})
			return err
		}, func() {
			claimed := slices.Contains(runIDs(taken), free)
			run := c.get(free)
			want := map[bool]any{true: []any{store.Running, true}, false: []any{store.Paused, false}}[claimed]
			c.eq(fmt.Sprintf("Status and Pausing (claimed: %v)", claimed), any([]any{run.Status, run.Pausing}), want)
			c.finish(taken)
		})
		c.finish(held)
	}},
	{"limit/eager", "P21", "a start with a worker under a limit takes no lease, also with room, also without a rule", func(c *C) {
		c.putLimit("l", store.LimitRule{Concurrency: 9})
		for _, limit := range []string{"l", "unknown"} {
			res := c.creates(fill(store.NewRun{Under: use(limit, ""), Worker: aWorker, LeaseFor: aLease}))[0]
			c.ok("Create's item", res.Err)
			c.eq("the lease", res.Lease, store.Lease{})
			c.heldUnder(limit, "", 0)
			again := c.creates(fill(store.NewRun{ID: res.ID, Under: use(limit, ""), Worker: aWorker, LeaseFor: aLease}))[0]
			c.eq("the start that is sent again", []any{again.Created, again.Repeated, again.Lease}, []any{true, true, store.Lease{}})
		}
	}},
	{"limit/invalid", "P16", "uses, rules and weights that make no sense are refused, and nothing is stored", checkBadLimits},
}

// checkBadLimits sends what is to be refused.
func checkBadLimits(c *C) {
	long := string(make([]byte, 256))
	nine := make([]store.LimitUse, store.MaxLimits+1)
	for i := range nine {
		nine[i].Limit = fmt.Sprint(i)
	}
	for what, under := range map[string][]store.LimitUse{
		"without a name": {{}}, "with a control character": {{Limit: "a\n"}}, "with a long key": {{Limit: "a", Key: long}}, "with NUL in its key": {{Limit: "a", Key: "\x00"}},
		"with bad UTF-8": {{Limit: "a", Key: "\xff"}}, "with negative tokens": {{Limit: "a", Tokens: -1}}, "with too many tokens": {{Limit: "a", Tokens: store.MaxTokens + 1}},
		"twice": {{Limit: "a", Key: "x"}, {Limit: "a", Key: "y"}}, "nine times": nine,
	} {
		res := c.creates(fill(store.NewRun{Under: under}))[0]
		c.fails("a run under a limit "+what, res.Err, store.ErrInvalid)
	}
	eight := nine[:store.MaxLimits]
	c.eq("uses of a run under eight limits", len(c.get(c.create(store.NewRun{Under: eight, Queue: "q2"})).Under), store.MaxLimits)
	for what, rule := range map[string]store.LimitRule{
		"a negative concurrency": {Concurrency: -1}, "tokens without a time": {Tokens: 1}, "a time without tokens": {Per: time.Second}, "a burst without a rate": {Burst: 1},
		"negative tokens": {Tokens: -1, Per: time.Second}, "a negative time": {Tokens: 1, Per: -time.Second}, "a negative burst": {Tokens: 1, Per: time.Second, Burst: -1},
		"a rate that is too high": {Tokens: 2, Per: time.Microsecond}, "a time that is too long": {Tokens: 1, Per: store.MaxPer + 1}, "a burst that takes years": {Tokens: 1, Per: store.MaxPer, Burst: 2},
	} {
		c.fails("PutLimits with "+what, c.s.PutLimits(c.ctx, store.PutLimitsParams{Namespace: c.ns, Limits: []store.Limit{{Name: "ok"}, {Name: "l", Rule: rule}}, Now: c.now}), store.ErrInvalid)
		c.fails("SetLimit with "+what, c.s.SetLimit(c.ctx, store.SetLimitParams{Namespace: c.ns, Name: "l", Rule: &rule, Now: c.now}), store.ErrInvalid)
	}
	c.fails("PutLimits with one name twice", c.s.PutLimits(c.ctx, store.PutLimitsParams{Namespace: c.ns, Limits: []store.Limit{{Name: "l"}, {Name: "l"}}, Now: c.now}), store.ErrInvalid)
	for _, w := range []int64{0, -1, store.MaxWeight + 1} {
		c.fails(fmt.Sprintf("SetWeight of %d", w), c.s.SetWeight(c.ctx, store.SetWeightParams{Namespace: c.ns, Limit: "l", Key: "k", Weight: w, Now: c.now}), store.ErrInvalid)
	}
	_, err := c.s.LimitKeys(c.ctx, store.LimitKeysParams{Namespace: c.ns, Now: c.now})
	c.fails("LimitKeys without a limit", err, store.ErrInvalid)
	c.eq("limits", c.limits(), []store.Limit{})
	run := c.startWith(store.NewRun{Under: use("own", "")})
	for what, t := range map[string]*store.Transition{
		"a completion":       {Kind: store.CompleteRun, Under: use("a", "")},
		"a retry":            {Kind: store.Retry, Under: use("a", "")},
		"a limit of the run": {Kind: store.Release, Under: use("own", "other")},
		"too many limits":    {Kind: store.Release, Under: eight},
		"a limit twice":      {Kind: store.Sleep, Under: uses(use("a", ""), use("a", "b"))},
	} {
		res := c.tryCommit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: t})
		c.fails("a step under limits, with "+what, res.Err, store.ErrInvalid)
	}
	c.eq("steps after commits that were refused", c.stepNames(run.Run.ID), []string{})
	c.end(run, complete(""))
}

// checkClaimers lets eight claimers claim and complete all runs, and counts the leases of each key as the claimers
// see them: from before the end is sent until after the claim has returned, which is at most as long as the store
// counts them.
func checkClaimers(c *C, keys []string, runs int) {
	c.Helper()
	var mu sync.Mutex
	now, most, done := map[string]int{}, map[string]int{}, 0
	left := func() int {
		mu.Lock()
		defer mu.Unlock()
		return runs - done
	}
	c.race(8, func(i int, s store.Store) error {
		for left() > 0 {
			got, err := c.claimOn(s, store.ClaimParams{Worker: fmt.Sprintf("w%d", i), Max: 3, LeaseFor: time.Hour})
			if err != nil {
				return err
			}
			mu.Lock()
			for _, run := range got {
				for _, u := range run.Run.Under {
					now[u.Limit+u.Key]++
					most[u.Limit+u.Key] = max(most[u.Limit+u.Key], now[u.Limit+u.Key])
				}
			}
			mu.Unlock()
			for _, run := range got {
				mu.Lock()
				for _, u := range run.Run.Under {
					now[u.Limit+u.Key]--
				}
				mu.Unlock()
				res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Transition: complete("")})
				if err == nil {
					err = res.Err
				}
				if err != nil && !errors.Is(err, store.ErrUnavailable) {
					return err
				}
				mu.Lock()
				done++
				mu.Unlock()
			}
		}
		return nil
	})
	for _, k := range keys {
		c.check(most["l"+k] <= 2, "key %q: saw %d leases at a time, expected at most 2", k, most["l"+k])
	}
	c.check(most["all"] <= 5, "limit \"all\": saw %d leases at a time, expected at most 5", most["all"])
}
