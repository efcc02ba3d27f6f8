package storetier

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// forEver returns a run that holds its external id until it is purged.
func forEver(external string) store.NewRun {
	return store.NewRun{ExternalID: external, Reuse: store.ReuseNever}
}

var reuseCases = []Case{
	{"create/external-id-for-ever", "P8", "a run of ReuseNever holds its external id after its end too, however it ended, against runs of either policy, but only with its own suffix", func(c *C) {
		for i, t := range []*store.Transition{complete("out"), failWith("x"), cancelRun()} {
			ext := fmt.Sprint("e", i)
			run := c.startWith(forEver(ext))
			c.end(run, t)
			for _, again := range []store.NewRun{forEver(ext), {ExternalID: ext}} {
				c.eq("the result", c.creates(fill(again))[0], store.CreateResult{ID: run.Run.ID})
			}
			found, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: ext})
			c.ok("Find", err)
			c.eq("the run found", []any{found.ID, found.Reuse}, []any{run.Run.ID, store.ReuseNever})
			c.eq("runs of the external id", c.listAll(store.ListParams{Filter: store.RunFilter{ExternalID: ext}}, nil), []store.ID{run.Run.ID})
			other := forEver(ext)
			other.Suffix, other.After = "s", time.Hour
			c.create(other)
		}
		c.eq("runs", c.count(store.RunFilter{}), int64(6))
	}},
	{"create/external-id-for-ever-race", "P8", "of many that concurrently create and end a run of ReuseNever, one does", func(c *C) {
		for round := range 10 {
			like := forEver(fmt.Sprint("race", round))
			like.Worker, like.LeaseFor = aWorker, aLease
			ids := make([]store.ID, 6)
			c.race(6, func(i int, s store.Store) error {
				for range 2 {
					res, err := c.createOn(s, fill(like))
					if err != nil {
						return err
					}
					if res.Created {
						if _, err := c.tryCommitOn(s, store.Commit{Lease: res.Lease, Seq: 1, Transition: complete("")}); err != nil {
							return err
						}
					}
					ids[i] = res.ID
				}
				return nil
			})
			c.eq("runs that the starters were told of", len(slices.Compact(ids)), 1)
		}
		c.eq("runs", c.count(store.RunFilter{}), int64(10))
	}},
	{"create/external-id-free-after-purge", "P8", "an external id of ReuseNever is free when its run is purged", func(c *C) {
		run := c.startWith(forEver("e"))
		c.end(run, complete(""))
		c.advance(time.Hour)
		c.eq("purged", c.purge(store.PurgeParams{}), 1)
		r := fill(forEver("e"))
		c.eq("the result", c.creates(r)[0], store.CreateResult{ID: r.ID, Created: true})
	}},
	{"create/external-id-for-ever-after-others", "P8", "a run whose external id was free after its end does not conflict with any run, not even one of ReuseNever", func(c *C) {
		past := c.startWith(store.NewRun{ExternalID: "e"})
		c.end(past, failWith("x"))
		c.advance(time.Minute)
		holder := c.startWith(forEver("e"))
		c.end(holder, complete(""))
		found, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: "e"})
		c.ok("Find", err)
		c.eq("the run found", found.ID, holder.Run.ID)
		c.eq("runs of the external id", c.listAll(store.ListParams{Filter: store.RunFilter{ExternalID: "e"}, OldestFirst: true}, nil), []store.ID{past.Run.ID, holder.Run.ID})
		c.fails("Restart of the past one", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{past.Run.ID}, Now: c.now})), store.ErrAlreadyExists)
	}},
	{"restart/external-id-for-ever", "P8", "a run that holds its own external id restarts", func(c *C) {
		run := c.startWith(forEver("e"))
		c.end(run, failWith("x"))
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Now: c.now})))
		c.status(run.Run.ID, store.Pending)
		c.eq("the result", c.creates(fill(store.NewRun{ExternalID: "e"}))[0], store.CreateResult{ID: run.Run.ID})
	}},
	{"create/digest-conflicts", "P8", "a start with a Digest conflicts with a run of another workflow, and with a different digest made in the same way; the result names the run in the way, and nothing is created", func(c *C) {
		first := fill(store.NewRun{ExternalID: "e", Digest: digest(1, "a"), After: time.Hour})
		c.create(first)
		bare := c.create(store.NewRun{ExternalID: "bare", After: time.Hour})
		c.bytes("Digest", c.get(first.ID).Digest, first.Digest)
		for _, tt := range []struct {
			what   string
			like   store.NewRun
			met    store.ID
			wanted error
		}{
			{"the same digest", store.NewRun{ExternalID: "e", Digest: digest(1, "a")}, first.ID, nil},
			{"another digest", store.NewRun{ExternalID: "e", Digest: digest(1, "b")}, first.ID, store.ErrConflict},
			{"a longer digest", store.NewRun{ExternalID: "e", Digest: digest(1, "aa")}, first.ID, store.ErrConflict},
			{"a digest of another kind", store.NewRun{ExternalID: "e", Digest: digest(2, "b")}, first.ID, nil},
			{"no digest", store.NewRun{ExternalID: "e"}, first.ID, nil},
			{"another workflow and the same digest", store.NewRun{ExternalID: "e", Workflow: "another", Digest: digest(1, "a")}, first.ID, store.ErrConflict},
			{"another workflow without a digest", store.NewRun{ExternalID: "e", Workflow: "another"}, first.ID, nil},
			{"a digest where the run has none", store.NewRun{ExternalID: "bare", Digest: digest(1, "a")}, bare, nil},
			{"a digest where the run has none and another workflow", store.NewRun{ExternalID: "bare", Workflow: "another", Digest: digest(1, "a")}, bare, store.ErrConflict},
		} {
			res := c.creates(fill(tt.like))[0]
			c.eq(tt.what+": the run met, and whether it is new", []any{res.ID, res.Created}, []any{tt.met, false})
			if tt.wanted == nil {
				c.ok(tt.what, res.Err)
			} else {
				c.fails(tt.what, res.Err, tt.wanted)
			}
		}
		run := c.startWith(store.NewRun{ExternalID: "ever", Reuse: store.ReuseNever, Digest: digest(1, "a")})
		c.end(run, continueWith("another input"))
		c.end(c.claim1(), complete(""))
		res := c.creates(fill(store.NewRun{ExternalID: "ever", Digest: digest(1, "b")}))[0]
		c.fails("another digest after a new beginning and the end", res.Err, store.ErrConflict)
		c.eq("runs", c.count(store.RunFilter{}), int64(3))
	}},
	{"create/digest-of-a-repeat", "P4", "an ID sent again with a different Digest, or for another workflow, conflicts; with the same one it succeeds, also in one batch", func(c *C) {
		r := fill(store.NewRun{Digest: digest(1, "a")})
		other, elsewhere := r, r
		other.Digest, elsewhere.Workflow = digest(1, "b"), "another"
		for again := range 2 {
			res := c.creates(r, other, elsewhere, r)
			c.eq("the first", res[0], store.CreateResult{ID: r.ID, Created: true, Repeated: again > 0})
			c.fails("another digest", res[1].Err, store.ErrConflict)
			c.fails("another workflow", res[2].Err, store.ErrConflict)
			c.eq("whether they were made", []bool{res[1].Created, res[2].Created}, []bool{false, false})
			c.eq("the last", res[3], store.CreateResult{ID: r.ID, Created: true, Repeated: true})
		}
		c.eq("runs", c.count(store.RunFilter{}), int64(1))
	}},
	{"create/must-be-new", "P8", "MustBeNew makes another run's external id an error, but not its own repetition", func(c *C) {
		r := fill(store.NewRun{ExternalID: "e", Reuse: store.ReuseNever, MustBeNew: true})
		for again := range 2 {
			c.eq("the result", c.creates(r)[0], store.CreateResult{ID: r.ID, Created: true, Repeated: again > 0})
		}
		c.end(c.claim1(), complete(""))
		c.eq("the result after the end", c.creates(r)[0], store.CreateResult{ID: r.ID, Created: true, Repeated: true})
		for _, again := range []store.NewRun{{ExternalID: "e", MustBeNew: true}, {ExternalID: "e", Reuse: store.ReuseNever, MustBeNew: true}} {
			res := c.creates(fill(again))[0]
			c.fails("another start", res.Err, store.ErrAlreadyExists)
			c.eq("the run met, and whether it is new", []any{res.ID, res.Created}, []any{r.ID, false})
		}
	}},
	{"create/reuse-refused", "P16", "a policy without an external id, and a digest of an invalid length, are refused", func(c *C) {
		for what, r := range map[string]store.NewRun{
			"ReuseNever without an external id": {Reuse: store.ReuseNever},
			"MustBeNew without an external id":  {MustBeNew: true},
			"no such policy":                    {ExternalID: "e", Reuse: 2},
			"a short digest":                    {Digest: []byte("short")},
			"a long digest":                     {Digest: make([]byte, store.MaxDigest+1)},
		} {
			c.fails(what, c.creates(fill(r))[0].Err, store.ErrInvalid)
		}
		res := c.creates(fill(store.NewRun{Digest: make([]byte, store.DigestScheme)}), fill(store.NewRun{Digest: make([]byte, store.MaxDigest)}))
		c.ok("the shortest digest", res[0].Err)
		c.ok("the longest digest", res[1].Err)
	}},
	{"import/for-ever", "P8", "an imported run holds its external id as it did, and its digest", func(c *C) {
		imp := c.importer(c.s)
		rec := c.aRecord(store.Completed)
		rec.Run.Reuse, rec.Run.Digest = store.ReuseNever, digest(1, "a")
		c.eq("created", c.imports(rec), true)
		got := c.get(rec.Run.ID)
		c.eq("policy and digest", []any{got.Reuse, got.Digest}, []any{store.ReuseNever, digest(1, "a")})
		res := c.creates(fill(store.NewRun{ExternalID: rec.Run.ExternalID, Suffix: rec.Run.Suffix}))[0]
		c.eq("the result", res, store.CreateResult{ID: rec.Run.ID})
		for _, status := range []store.Status{store.Completed, store.Pending} {
			twin := c.aRecord(status)
			twin.Run.Reuse = store.ReuseNever
			_, err := imp.Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: twin, Now: c.now})
			c.fails(fmt.Sprintf("import of another holder that is %v", status), err, store.ErrAlreadyExists)
		}
		c.eq("created as a final run that holds nothing", c.imports(c.aRecord(store.Failed)), true)
	}},
	{"list/by-creation", "P14", "runs are listed in the order of their creation whatever their IDs are, and by ID if those times are equal, across pages", func(c *C) {
		var want []store.ID
		for i := range 9 {
			var id store.ID
			id[0], id[15] = byte(200-i/3*50+i%3), 1 // later runs have lower IDs
			want = append(want, c.create(store.NewRun{ID: id, Queue: "q"}))
			if i%3 == 2 {
				c.advance(time.Microsecond)
			}
		}
		down := slices.Clone(want)
		slices.Reverse(down)
		for _, limit := range []int{1, 2, 4, 9} {
			for _, f := range []store.RunFilter{{}, {Queue: "q"}, {Statuses: []store.Status{store.Pending}}} {
				c.eq(fmt.Sprintf("oldest first, %d a page, %+v", limit, f), c.listAll(store.ListParams{OldestFirst: true, Limit: limit, Filter: f}, nil), want)
				c.eq(fmt.Sprintf("newest first, %d a page, %+v", limit, f), c.listAll(store.ListParams{Limit: limit, Filter: f}, nil), down)
			}
		}
	}},
	{"signal/repeat-to-the-next-run", "P4", "if a signal to an external id is sent again when its run has ended and another run has the external id, it does not reach that run; the result names the first run", func(c *C) {
		sig := store.NewSignal{ID: store.NewID(), ExternalID: "e", Name: "n", Payload: []byte("x")}
		for _, consumed := range []bool{true, false} {
			sig.ID = store.NewID()
			first := c.startWith(store.NewRun{ExternalID: "e"})
			c.eq("the result", c.signals(sig)[0], store.SignalResult{Run: first.Run.ID})
			if consumed {
				c.commit(store.Commit{Lease: first.Lease, Consumed: []store.SignalID{sig.ID}})
			}
			c.end(first, complete(""))
			c.advance(time.Second)
			between := c.startWith(store.NewRun{ExternalID: "e"})
			c.end(between, complete(""))
			next := c.startWith(store.NewRun{ExternalID: "e"})
			c.eq("the result of sending again", c.signals(sig, sig), []store.SignalResult{{Run: first.Run.ID}, {Run: first.Run.ID}})
			in := c.inbox(next.Run.ID)
			c.eq("signals and events of the next run", []any{len(in.Signals), in.Events}, []any{0, int64(0)})
			fresh := sig
			fresh.ID = store.NewID()
			c.eq("the result of another signal", c.signals(fresh)[0], store.SignalResult{Run: next.Run.ID})
			other := store.NewRun{ExternalID: "e", Suffix: fmt.Sprint(consumed), After: time.Hour}
			id := c.create(other)
			again := sig
			again.Suffix = other.Suffix
			c.eq("the result for another suffix", c.signals(again)[0], store.SignalResult{Run: id})
			c.end(next, complete(""))
		}
	}},
	{"signal/finished-holder", "P16", "a signal to an external id whose run is final and holds it still finds the run finished; sent again, it succeeds", func(c *C) {
		run := c.startWith(forEver("e"))
		sig := store.NewSignal{ID: store.NewID(), ExternalID: "e", Name: "n"}
		c.signals(sig)
		c.end(run, complete(""))
		c.eq("the result of sending again", c.signals(sig)[0], store.SignalResult{Run: run.Run.ID})
		sig.ID = store.NewID()
		c.fails("another signal", c.signals(sig)[0].Err, store.ErrFinished)
	}},
}
