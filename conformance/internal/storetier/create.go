package storetier

import (
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

var createCases = []Case{
	{"create/makes-a-pending-run", "P13", "a new run is pending and due at its creation, with attempt 1, epoch 0, and everything else empty", func(c *C) {
		r := fill(store.NewRun{Input: []byte("in"), Meta: []byte("meta"), Priority: 7, ExternalID: "order-1", Suffix: "s"})
		c.create(r)
		c.eq("the run", c.get(r.ID), store.Run{
			ID: r.ID, Namespace: c.ns, Workflow: aWorkflow, Queue: aQueue, Status: store.Pending, Priority: 7,
			ExternalID: "order-1", Suffix: "s", Input: []byte("in"), Meta: []byte("meta"), Attempt: 1,
			VisibleAt: c.now, CreatedAt: c.now,
		})
	}},
	{"create/later-of-delay-and-time", "P13", "After delays a run by the store's clock and At sets a time; the later of both counts", func(c *C) {
		for _, tt := range []struct {
			after time.Duration
			at    time.Duration
			want  time.Duration
		}{{0, 0, 0}, {time.Hour, 0, time.Hour}, {0, time.Hour, time.Hour}, {time.Hour, 2 * time.Hour, 2 * time.Hour}, {2 * time.Hour, time.Hour, 2 * time.Hour}, {0, -time.Hour, 0}} {
			r := store.NewRun{After: tt.after}
			if tt.at != 0 {
				r.At = c.now.Add(tt.at)
			}
			c.eq("VisibleAt", c.get(c.create(r)).VisibleAt, c.now.Add(tt.want))
		}
	}},
	{"create/timeout-sets-deadline", "P13", "Timeout sets the deadline, counted from creation", func(c *C) {
		run := c.get(c.create(store.NewRun{Timeout: time.Hour}))
		c.eq("Deadline", run.Deadline, c.now.Add(time.Hour))
		c.eq("VisibleAt", run.VisibleAt, c.now)
	}},
	{"create/deadline-makes-claimable", "P13", "a run that is not leased becomes claimable at its deadline at the latest", func(c *C) {
		id := c.create(store.NewRun{After: 24 * time.Hour, Timeout: time.Hour})
		c.eq("VisibleAt", c.get(id).VisibleAt, c.now.Add(time.Hour))
		c.advance(time.Hour - time.Microsecond)
		c.claimNone("its deadline is a microsecond away")
		c.advance(time.Microsecond)
		c.eq("the claimed run", c.claim1().Run.ID, id)
	}},
	{"create/batch-in-order", "P16", "a batch has a result for each item in the order of the items; an invalid item does not affect the others", func(c *C) {
		a, bad, b := fill(store.NewRun{}), fill(store.NewRun{Priority: store.MaxPriority + 1}), fill(store.NewRun{})
		res := c.creates(a, bad, b)
		c.eq("the first result", res[0], store.CreateResult{ID: a.ID, Created: true})
		c.fails("the bad item", res[1].Err, store.ErrInvalid)
		c.eq("Created of the bad item", res[1].Created, false)
		c.eq("the third result", res[2], store.CreateResult{ID: b.ID, Created: true})
		c.eq("runs that exist", len(c.gets(a.ID, bad.ID, b.ID)), 2)
	}},
	{"create/empty-batch", "P16", "an empty batch is not an error", func(c *C) {
		c.creates()
		c.commits()
		c.extends()
		c.signals()
		c.tryCancel()
		c.tryPause(false)
		c.gets()
	}},
	{"create/repeat-is-one-run", "P4", "an ID that exists already is the same request sent again: Created is true and nothing changes", func(c *C) {
		r := fill(store.NewRun{Input: []byte("first"), ExternalID: "e"})
		c.create(r)
		before := c.get(r.ID)
		c.advance(time.Minute)
		again := r
		again.Input, again.Priority = []byte("second"), 5
		c.eq("the result", c.creates(again)[0], store.CreateResult{ID: r.ID, Created: true, Repeated: true})
		c.eq("the run", c.get(r.ID), before)
		c.eq("runs claimed", len(c.claimN(5)), 1)
	}},
	{"create/repeat-in-one-batch", "P4", "the same ID twice in one batch is one run, and both results say Created", func(c *C) {
		r := fill(store.NewRun{})
		for i, res := range c.creates(r, r) {
			c.eq("the result", res, store.CreateResult{ID: r.ID, Created: true, Repeated: i > 0})
		}
		c.eq("runs claimed", len(c.claimN(5)), 1)
	}},
	{"create/made-once", "P4", "of any number of creates of one ID, at most one says Created without Repeated", func(c *C) {
		for range 10 {
			r := fill(store.NewRun{})
			results := make([]store.CreateResult, 8)
			c.race(len(results), func(i int, s store.Store) (err error) {
				results[i], err = c.createOn(s, r)
				return err
			})
			made := 0
			for _, res := range append(results, c.creates(r, r)...) {
				c.eq("Created", res.Created, true)
				if !res.Repeated {
					made++
				}
			}
			c.eq("results without Repeated", made, 1)
		}
	}},
	{"create/repeat-after-finish", "P4", "a create sent again after the run has finished starts nothing", func(c *C) {
		r := fill(store.NewRun{ExternalID: "e"})
		c.create(r)
		c.end(c.claim1(), complete("out"))
		other := c.create(store.NewRun{ExternalID: "e"})
		c.eq("the result", c.creates(r)[0], store.CreateResult{ID: r.ID, Created: true, Repeated: true})
		c.status(r.ID, store.Completed)
		c.status(other, store.Pending)
	}},
	{"create/repeat-race", "P4", "one create sent many times concurrently creates one run, and every answer says Created", func(c *C) {
		for range 10 {
			r := fill(store.NewRun{Queue: "race"})
			c.race(6, func(_ int, s store.Store) error {
				res, err := c.createOn(s, r)
				if err == nil && (res.ID != r.ID || !res.Created) {
					c.Errorf("Create: saw %+v, expected run %v made", res, r.ID)
				}
				return err
			})
		}
		c.eq("runs of that queue", c.count(store.RunFilter{Queue: "race"}), int64(10))
	}},
	{"create/eager-lease", "P1", "a run created with Worker is running under epoch 1 until its lease ends, and the lease is returned", func(c *C) {
		r := fill(store.NewRun{Worker: aWorker, LeaseFor: aLease})
		res := c.creates(r)[0]
		lease := store.Lease{Run: r.ID, Worker: aWorker, Epoch: 1}
		c.eq("the result", res, store.CreateResult{ID: r.ID, Created: true, Lease: lease, CreatedAt: c.now})
		c.eq("the run", c.get(r.ID), store.Run{
			ID: r.ID, Namespace: c.ns, Workflow: aWorkflow, Queue: aQueue, Status: store.Running, Attempt: 1, Epoch: 1,
			Worker: aWorker, VisibleAt: c.now.Add(aLease), CreatedAt: c.now, StartedAt: c.now,
		})
		c.claimNone("it is leased")
		c.commit(store.Commit{Lease: lease, Transition: complete("out")})
		c.status(r.ID, store.Completed)
	}},
	{"create/eager-lease-runs-out", "P6", "a lease taken by Create expires like any other", func(c *C) {
		id := c.create(store.NewRun{Worker: aWorker, LeaseFor: aLease})
		c.advance(aLease)
		run := c.claim1As("w2")
		c.eq("Recovered", run.Recovered, true)
		c.eq("Crashes", run.Run.Crashes, 1)
		c.eq("the lease", run.Lease, store.Lease{Run: id, Worker: "w2", Epoch: 2})
		c.lost("commit of the first lease", store.Commit{Lease: store.Lease{Run: id, Worker: aWorker, Epoch: 1}, Transition: complete("late")})
	}},
	{"create/eager-without-lease-on-conflict", "P8", "an eager create that finds an active run of its external id gets no lease", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "e"})
		res := c.creates(fill(store.NewRun{ExternalID: "e", Worker: aWorker, LeaseFor: aLease}))[0]
		c.eq("the result", res, store.CreateResult{ID: id})
		c.status(id, store.Pending)
	}},
	{"create/eager-on-paused-queue", "P13", "if the queue or the workflow is paused, a run created with Worker is pending, without a lease", func(c *C) {
		for _, target := range [][2]string{{aQueue, ""}, {"", aWorkflow}} {
			c.setPaused(target[0], target[1], true)
			r := fill(store.NewRun{Worker: aWorker, LeaseFor: aLease})
			c.eq("the result", c.creates(r)[0], store.CreateResult{ID: r.ID, Created: true})
			run := c.get(r.ID)
			c.eq("Status", run.Status, store.Pending)
			c.eq("VisibleAt", run.VisibleAt, c.now)
			c.setPaused(target[0], target[1], false)
			claimed := c.claim1()
			c.eq("the lease", claimed.Lease, store.Lease{Run: r.ID, Worker: aWorker, Epoch: 1})
			c.end(claimed, complete(""))
		}
	}},
	{"create/repeat-of-eager-lease", "P4", "a repeat returns the lease only while the run still has the lease that the request asked for", func(c *C) {
		r := fill(store.NewRun{Worker: aWorker, LeaseFor: aLease})
		lease := store.Lease{Run: r.ID, Worker: aWorker, Epoch: 1}
		without := store.CreateResult{ID: r.ID, Created: true, Repeated: true}
		with := without
		with.Lease, with.CreatedAt = lease, c.now
		c.creates(r)
		c.advance(time.Second)
		c.eq("the repeat", c.creates(r)[0], with)
		other := r
		other.Worker = "w2"
		c.eq("the repeat for another worker", c.creates(other)[0], without)
		c.advance(aLease)
		run := c.claim1As("w2")
		c.eq("the repeat after a takeover", c.creates(r)[0], without)
		c.end(run, complete("out"))
		c.eq("the repeat after the end", c.creates(r)[0], without)
	}},
	{"create/external-id-active", "P8", "while a run of that external id is active, no other is created: ID is the active run's and Created is false", func(c *C) {
		id := c.create(store.NewRun{ExternalID: "e"})
		want := store.CreateResult{ID: id}
		try := func(when string) {
			r := fill(store.NewRun{ExternalID: "e"})
			c.eq("the result when "+when, c.creates(r)[0], want)
			c.eq("runs of the refused ID", len(c.gets(r.ID)), 0)
		}
		try("pending")
		run := c.claim1()
		try("running")
		c.end(run, sleepOn(store.WakeSignal))
		try("sleeping")
		c.pause(id)
		try("paused")
		c.resume(id)
		c.signal(id, "n", "")
		c.end(c.claim1(), retryIn(0))
		try("waiting for a retry")
		c.end(c.claim1(), continueWith("in"))
		try("continued as new")
		c.claim1()
		c.eq("Cancel", c.cancel(id), store.Canceling)
		try("canceling")
	}},
	{"create/external-id-in-one-batch", "P8", "of two runs of one external id in one batch, the first is created and the second gets its ID", func(c *C) {
		a, b := fill(store.NewRun{ExternalID: "e"}), fill(store.NewRun{ExternalID: "e"})
		res := c.creates(a, b)
		c.eq("the first result", res[0], store.CreateResult{ID: a.ID, Created: true})
		c.eq("the second result", res[1], store.CreateResult{ID: a.ID})
	}},
	{"create/external-id-race", "P8", "concurrent creates of one external id agree on one run", func(c *C) {
		for range 10 {
			ext := store.NewID().String()
			results := make([]store.CreateResult, 8)
			c.race(len(results), func(i int, s store.Store) (err error) {
				results[i], err = c.createOn(s, fill(store.NewRun{ExternalID: ext}))
				return err
			})
			made := 0
			for _, res := range results {
				c.eq("the run of an answer", res.ID, results[0].ID)
				if res.Created {
					made++
				}
			}
			c.eq("answers with Created", made, 1)
			c.eq("runs of that external id", c.count(store.RunFilter{ExternalID: ext}), int64(1))
		}
	}},
	{"create/external-id-free-after-finish", "P8", "a final run frees its external id, however it ended", func(c *C) {
		for _, t := range []*store.Transition{complete("out"), failWith("x"), cancelRun()} {
			c.end(c.startWith(store.NewRun{ExternalID: "e"}), t)
		}
		c.cancel(c.create(store.NewRun{ExternalID: "e"}))
		c.create(store.NewRun{ExternalID: "e"})
	}},
	{"create/suffix-makes-another", "P8", "a different suffix, or none, is a different run", func(c *C) {
		ids := map[store.ID]bool{}
		for _, suffix := range []string{"", "a", "b", "A"} {
			ids[c.create(store.NewRun{ExternalID: "e", Suffix: suffix})] = true
		}
		c.eq("runs", len(ids), 4)
		res := c.creates(fill(store.NewRun{ExternalID: "e", Suffix: "a"}))[0]
		c.eq("Created of a second run with suffix a", res.Created, false)
		// An external id and a suffix are two values, not one text.
		c.create(store.NewRun{ExternalID: "x", Suffix: "yz"})
		c.create(store.NewRun{ExternalID: "xy", Suffix: "z"})
	}},
	{"create/external-id-is-exact", "P8", "external ids are compared byte by byte", func(c *C) {
		for _, ext := range []string{"a", "A", "a ", " a", "é", "e\u0301", "a%", "a_", "a'", `a\`, strings.Repeat("a", store.MaxExternalID)} {
			c.create(store.NewRun{ExternalID: ext})
		}
	}},
	{"create/no-external-id-never-meets", "P8", "runs without an external id never conflict", func(c *C) {
		c.createN(3, store.NewRun{})
		c.eq("runs", c.count(store.RunFilter{}), int64(3))
	}},
	{"create/id-of-another-namespace", "P15", "an ID that exists in another namespace is refused with ErrAlreadyExists", func(c *C) {
		r := fill(store.NewRun{})
		c.create(r)
		res, err := c.s.Create(c.ctx, store.CreateParams{Namespace: c.ns + "/other", Runs: []store.NewRun{r}, Now: c.now})
		c.ok("Create", err)
		c.fails("the item", res[0].Err, store.ErrAlreadyExists)
		c.eq("Created", res[0].Created, false)
	}},
}

func (c *C) createOn(s store.Store, r store.NewRun) (store.CreateResult, error) {
	res, err := patient(c.ctx, func() ([]store.CreateResult, error) {
		return s.Create(c.ctx, store.CreateParams{Namespace: c.ns, Runs: []store.NewRun{r}, Now: c.now})
	})
	if err != nil {
		return store.CreateResult{}, err
	}
	return res[0], res[0].Err
}

var getCases = []Case{
	{"get/in-order-without-missing", "", "Get returns the runs in the order of the IDs and leaves out those that do not exist", func(c *C) {
		ids := c.createN(3, store.NewRun{})
		got := []store.ID{}
		for _, r := range c.gets(ids[2], store.NewID(), ids[0], ids[1]) {
			got = append(got, r.ID)
		}
		c.eq("the runs", got, []store.ID{ids[2], ids[0], ids[1]})
	}},
	{"get/final-only", "", "FinalOnly leaves out the runs that are not final", func(c *C) {
		done := c.start()
		c.end(done, complete("out"))
		live := c.create(store.NewRun{})
		runs, err := c.s.Get(c.ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{live, done.Run.ID}, FinalOnly: true})
		c.ok("Get", err)
		if len(runs) != 1 || runs[0].ID != done.Run.ID {
			c.Fatalf("Get: saw %+v, expected run %v alone", runs, done.Run.ID)
		}
		c.bytes("Output", runs[0].Output, []byte("out"))
	}},
	{"get/no-input", "", "NoInput leaves Input and Meta unread", func(c *C) {
		id := c.create(store.NewRun{Input: []byte("in"), Meta: []byte("meta")})
		runs, err := c.s.Get(c.ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{id}, NoInput: true})
		c.ok("Get", err)
		if len(runs) != 1 {
			c.Fatalf("Get: saw %d runs, expected one", len(runs))
		}
		c.bytes("Input", runs[0].Input, nil)
		c.bytes("Meta", runs[0].Meta, nil)
	}},
	{"get/seen-by-every-handle", "P3", "the other handle reads at once what one handle has written", func(c *C) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "x")}, Transition: complete("out")})
		runs, err := c.s2.Get(c.ctx, store.GetParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}})
		c.ok("Get by the second handle", err)
		c.eq("the runs", runs, c.gets(run.Run.ID))
		c.eq("how many", len(runs), 1)
	}},
	{"get/find-by-external-id", "P8", "Find returns the active run of an external id and suffix, or else the one created last", func(c *C) {
		find := func() store.ID {
			run, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: "e"})
			c.ok("Find", err)
			return run.ID
		}
		c.create(store.NewRun{ExternalID: "e", Suffix: "s"})
		first := c.create(store.NewRun{ExternalID: "e"})
		c.eq("the active run", find(), first)
		c.cancel(first)
		c.eq("the only one", find(), first)
		c.advance(time.Second)
		second := c.create(store.NewRun{ExternalID: "e"})
		c.eq("the active run", find(), second)
		c.cancel(second)
		c.eq("the one created last", find(), second)
		_, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: "none"})
		c.fails("Find of an unknown external id", err, store.ErrNotFound)
		_, err = c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: "e", Suffix: "none"})
		c.fails("Find of an unknown suffix", err, store.ErrNotFound)
	}},
}
