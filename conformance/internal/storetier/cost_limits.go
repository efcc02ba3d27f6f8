package storetier

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

// limitedQueue is the queue of the runs under limits; nothing of the other runs in it can be claimed.
const limitedQueue = "limited"

// limited creates n runs under limits: some hold the permits of keys, the others wait for them.
func (b *aside) limited(c *C, n int) {
	rules := map[string]store.LimitRule{
		"crowd":      oneAtATime,
		"crowd-fair": {Concurrency: 1, Fair: true},
		"crowd-rate": {Tokens: 1, Per: 1000 * time.Hour},
		"mine":       oneAtATime,
		"mine-fair":  {Concurrency: 1, Fair: true},
		"mine-rate":  {Tokens: 1, Per: time.Millisecond},
	}
	for name, rule := range rules {
		c.putLimit(name, rule)
	}
	for _, limit := range []string{"crowd", "crowd-fair", "crowd-rate"} {
		keys := n / 8
		var runs []store.NewRun
		for range keys {
			under := use(limit, store.NewID().String())
			runs = append(runs, fill(store.NewRun{Queue: limitedQueue, Under: under}), fill(store.NewRun{Queue: limitedQueue, Under: under}))
		}
		b.make(c, runs)
		for keys > 0 {
			got := c.claim(store.ClaimParams{LeaseFor: 1000 * time.Hour, Demands: []store.Demand{demand(limitedQueue, keys)}}).Runs
			if len(got) == 0 {
				c.Fatalf("Claim: saw no run, expected some of the %d whose keys are free", keys)
			}
			keys -= len(got)
		}
	}
	c.claimNone("the keys of all runs under limits are at their limits") // what a claim has to know is known
}

// make creates runs.
func (b *aside) make(c *C, runs []store.NewRun) {
	c.Helper()
	for len(runs) > 0 {
		n := min(len(runs), 1000)
		c.createAll(runs[:n]...)
		runs = runs[n:]
	}
}

// claimUnder claims one run of a lane.
func (c *C) claimUnder(queue string) store.ClaimedRun {
	c.Helper()
	return c.one(c.claim(store.ClaimParams{Demands: []store.Demand{demand(queue, 1)}}).Runs)
}

// noneUnder checks that nothing of a lane can be claimed.
func (c *C) noneUnder(queue string) {
	c.Helper()
	got := c.claim(store.ClaimParams{Demands: []store.Demand{demand(queue, 10)}})
	c.eq("claimed runs", runIDs(got.Runs), []store.ID{})
}

// limitProbes are calls about limits beside many keys, permits and runs that wait for them.
var limitProbes = []probe{
	{"limit-claim", "a run under a limit is made, claimed and ended at the same cost, however many keys are at their limits", limitClaim("mine")},
	{"limit-claim-fair", "a run under a fair limit is made, claimed and ended at the same cost, however many keys are at their limits", limitClaim("mine-fair")},
	{"limit-claim-none", "a claim finds at the cost of nothing that all runs of a lane wait for their limits, however many", func(c *C, _ *aside) func() {
		return func() { c.noneUnder(limitedQueue) }
	}},
	{"limit-freed", "a permit that ended is given to a run that waits for it, at the same cost, however many wait for others", func(c *C, _ *aside) func() {
		under := use("mine", store.NewID().String())
		c.create(store.NewRun{Queue: limitedQueue, Under: under})
		c.create(store.NewRun{Queue: limitedQueue, Under: under})
		first := c.claimUnder(limitedQueue)
		c.noneUnder(limitedQueue)
		return func() {
			c.end(first, complete(""))
			c.end(c.claimUnder(limitedQueue), complete(""))
		}
	}},
	{"limit-rate", "a run whose token has come is claimed at the same cost, however many wait for other keys' tokens", func(c *C, _ *aside) func() {
		under := use("mine-rate", store.NewID().String())
		c.create(store.NewRun{Queue: limitedQueue, Under: under})
		c.create(store.NewRun{Queue: limitedQueue, Under: under})
		c.end(c.claimUnder(limitedQueue), complete(""))
		c.noneUnder(limitedQueue)
		c.advance(time.Millisecond)
		return func() { c.end(c.claimUnder(limitedQueue), complete("")) }
	}},
}

// limitClaim returns the preparation of a run's whole way, with a key of its own.
func limitClaim(limit string) func(*C, *aside) func() {
	return func(c *C, _ *aside) func() {
		return func() {
			c.create(store.NewRun{Queue: limitedQueue, Under: use(limit, store.NewID().String())})
			c.end(c.claimUnder(limitedQueue), complete(""))
		}
	}
}
