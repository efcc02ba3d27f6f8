package storetier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

const (
	oldBuild = "v1"
	newBuild = "v2"
)

// misfit is the pin of a run whose history does not fit the new build.
func misfit() *store.Pin {
	return &store.Pin{Build: oldBuild, By: newBuild, Step: "charge", Expected: `step "check"`, Found: `step "charge"`}
}

func giveBack() *store.Transition { return &store.Transition{Kind: store.GiveBack} }

// claimFor leases up to ten usual runs for a build.
func (c *C) claimFor(build string) store.Claimed {
	c.Helper()
	return c.claim(store.ClaimParams{Worker: "w-" + build, Build: build, Max: 10})
}

// onlyFor checks that only one build can take a run, and takes it.
func (c *C) onlyFor(build string, id store.ID) store.ClaimedRun {
	c.Helper()
	for _, other := range []string{"", newBuild, "V1", "v1 ", "v", "v10"} {
		if other != build && strings.TrimSpace(other) == other {
			c.eq(fmt.Sprintf("runs claimed for build %q", other), runIDs(c.claimFor(other).Runs), []store.ID{})
		}
	}
	run := c.one(c.claimFor(build).Runs)
	c.eq("the run", run.Run.ID, id)
	return run
}

// pinned creates a run that has recorded a step under the old build and is pinned to it.
func (c *C) pinned() store.ID {
	c.Helper()
	res := c.creates(fill(store.NewRun{Worker: aWorker, LeaseFor: aLease, Build: oldBuild}))[0]
	c.ok("Create's item", res.Err)
	c.commit(store.Commit{Lease: res.Lease, Steps: []store.StepRecord{step(1, "charge", "")}})
	c.commit(store.Commit{Lease: res.Lease, Pin: misfit(), Transition: giveBack()})
	return res.ID
}

// pinnedAs creates a run that is pinned to a build; empty: to none.
func (c *C) pinnedAs(build string, r store.NewRun) store.ID {
	c.Helper()
	if build == "" {
		return c.create(r)
	}
	r.Worker, r.LeaseFor, r.Build = aWorker, aLease, build
	res := c.creates(fill(r))[0]
	c.ok("Create's item", res.Err)
	c.commit(store.Commit{Lease: res.Lease, Pin: &store.Pin{Build: build}, Transition: giveBack()})
	return res.ID
}

func (c *C) unpin(ids ...store.ID) []store.ControlResult {
	c.Helper()
	res, err := c.s.Unpin(c.ctx, store.UnpinParams{Namespace: c.ns, IDs: ids})
	c.ok("Unpin", err)
	if len(res) != len(ids) {
		c.Fatalf("Unpin of %d runs: saw %d results, expected one for each", len(ids), len(res))
	}
	return res
}

// sameIDs compares runs in any order.
func (c *C) sameIDs(what string, got []store.ID, want ...store.ID) {
	c.Helper()
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	c.eq(what, got, want)
}

// ofEachStatus creates runs whose last step was recorded by a build: one of each status that is not
// final, and one that has ended.
func (c *C) ofEachStatus(build string) {
	c.Helper()
	begin := func(t *store.Transition) store.ID {
		res := c.creates(fill(store.NewRun{Queue: "q3", Worker: aWorker, LeaseFor: aLease, Build: build}))[0]
		c.ok("Create's item", res.Err)
		c.commit(store.Commit{Lease: res.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: t})
		return res.ID
	}
	begin(nil)
	begin(release())
	begin(sleepFor(time.Hour))
	begin(complete(""))
	c.ok("Pause", c.tryPause(false, begin(release()))[0].Err)
	c.eq("the canceled run", c.cancel(begin(release())), store.Canceling)
}

func (c *C) builds(p store.ListBuildsParams) store.BuildPage {
	c.Helper()
	p.Namespace, p.Now = c.ns, c.now
	page, err := c.s.ListBuilds(c.ctx, p)
	c.ok("ListBuilds", err)
	return page
}

var buildCases = []Case{
	{"build/pinned-to-one", "P19", "a pinned run is claimed only by workers of its build; the claims of others ignore it", func(c *C) {
		id := c.pinned()
		for _, build := range []string{"", newBuild} {
			got := c.claimFor(build)
			c.eq("runs", runIDs(got.Runs), []store.ID{})
			c.eq("NextDue", got.NextDue, time.Time{})
			c.eq("Waiting", got.Waiting, []store.Waiting(nil))
		}
		none := c.claim(store.ClaimParams{Build: oldBuild, Demands: []store.Demand{demand(aQueue, 0)}})
		c.eq("NextDue for its build", none.NextDue, c.now)
		run := c.onlyFor(oldBuild, id)
		c.eq("the pin", run.Run.Pin, misfit())
		c.eq("the pin that Get reads", c.get(id).Pin, misfit())
		c.advance(aLease)
		c.onlyFor(oldBuild, id) // also when its lease has expired
	}},
	{"build/beside-pinned", "P19", "beside a run that is pinned to another build, a claim takes the runs that its build may take, and its NextDue and Waiting count only those", func(c *C) {
		c.end(c.onlyFor(oldBuild, c.pinned()), sleepFor(time.Minute))
		plain := c.create(store.NewRun{})
		c.create(store.NewRun{After: time.Hour})
		got := c.claim(store.ClaimParams{Build: newBuild, LeaseFor: 2 * time.Hour})
		c.eq("runs", runIDs(got.Runs), []store.ID{plain})
		c.eq("NextDue", got.NextDue, c.now.Add(time.Hour))
		for _, also := range []string{"a run that sleeps", "a run that is due"} {
			for range 2 { // a look may be remembered
				got = c.claimFor(newBuild)
				c.eq("runs when "+also+" is pinned elsewhere", runIDs(got.Runs), []store.ID{})
				c.eq("NextDue when "+also+" is pinned elsewhere", got.NextDue, c.now.Add(time.Hour))
				c.eq("Waiting when "+also+" is pinned elsewhere", got.Waiting, []store.Waiting(nil))
			}
			c.pinned()
		}
	}},
	{"build/pinned-again", "P19", "a commit that pins a pinned run replaces the whole pin", func(c *C) {
		id := c.pinned()
		run := c.onlyFor(oldBuild, id)
		pin := &store.Pin{Build: newBuild, By: oldBuild, Step: "ship", Expected: `step "pack"`, Found: `step "ship"`}
		c.commit(store.Commit{Lease: run.Lease, Pin: pin, Transition: giveBack()})
		c.eq("the pin", c.get(id).Pin, pin)
		c.eq("runs of the old build", runIDs(c.claimFor(oldBuild).Runs), []store.ID{})
		c.eq("the pin at the next claim", c.one(c.claimFor(newBuild).Runs).Run.Pin, pin)
	}},
	{"build/any-takes-unpinned", "P19", "a run that is not pinned can be claimed by a worker of any build, and by one without a build", func(c *C) {
		id := c.create(store.NewRun{})
		for _, build := range []string{"", oldBuild, newBuild, ""} {
			run := c.one(c.claimFor(build).Runs)
			c.eq("the run", run.Run.ID, id)
			c.eq("the pin", run.Run.Pin, (*store.Pin)(nil))
			c.end(run, release())
		}
	}},
	{"build/order", "P19", "a claim takes runs pinned to its build and runs that are not pinned in one order", func(c *C) {
		var want []store.ID
		for i := range 6 {
			if i%2 == 0 {
				want = append(want, c.pinned())
			} else {
				want = append(want, c.create(store.NewRun{}))
			}
			c.advance(time.Second)
		}
		got := c.claim(store.ClaimParams{Build: oldBuild, Max: 4}).Runs
		c.eq("the first four", runIDs(got), want[:4])
		c.eq("the rest", runIDs(c.claim(store.ClaimParams{Build: oldBuild, Max: 4}).Runs), want[4:])
	}},
	{"build/again", "P19", "a claim whose answer was lost finds the pinned run that it took", func(c *C) {
		id := c.pinned()
		p := store.ClaimParams{Build: oldBuild, ClaimID: 7}
		lost := c.one(c.claim(p).Runs)
		p.Again = true
		c.eq("the claim found again", c.one(c.claim(p).Runs), lost)
		c.eq("its run", lost.Run.ID, id)
	}},
	{"build/bare", "P19", "a bare claim respects pins and returns them", func(c *C) {
		c.pinned()
		c.eq("runs of another build", len(c.claim(store.ClaimParams{Build: newBuild, Bare: true}).Runs), 0)
		c.eq("the pin", c.one(c.claim(store.ClaimParams{Build: oldBuild, Bare: true}).Runs).Run.Pin, misfit())
	}},
	{"build/wakes-for-its-build", "P19", "a pinned run that sleeps and is woken is still claimed only by its build", func(c *C) {
		id := c.pinned()
		run := c.onlyFor(oldBuild, id)
		c.end(run, sleepOn(store.WakeSignal))
		c.signal(id, "go", "")
		run = c.onlyFor(oldBuild, id)
		c.end(run, sleepFor(time.Hour))
		c.advance(time.Hour)
		c.onlyFor(oldBuild, id)
	}},
	{"build/given-back-unchanged", "P20", "a run that is given back pinned has the attempt, crashes, failure, steps, state, signals, groups and children that it had", func(c *C) {
		id := c.create(store.NewRun{Input: []byte("in"), Timeout: time.Hour})
		run := c.one(c.claimFor(oldBuild).Runs)
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "1")}, State: []store.StateWrite{{Key: "k", Value: []byte("v")}}, Spawn: kids(2)})
		c.commit(store.Commit{Lease: run.Lease, Seen: 1, Transition: retryIn(0)})
		c.signal(id, "s", "p")
		c.one(c.claimFor(oldBuild).Runs)
		c.advance(aLease) // a crash
		run = c.one(c.claimFor(newBuild).Runs)
		before, steps, inbox := c.get(id), c.steps(id), c.inbox(id)
		c.check(before.Crashes == 1 && before.Attempt == 2 && before.Failure != nil && len(steps) == 1, "the run beforehand: saw %+v, expected a crash, a retry and a step", before)
		res := c.commit(store.Commit{Lease: run.Lease, Pin: misfit(), Transition: giveBack()})
		c.eq("the result", res, store.CommitResult{Status: store.Pending, Events: before.Events, VisibleAt: c.now})
		want := before
		want.Status, want.Worker, want.VisibleAt, want.Pin = store.Pending, "", c.now, misfit()
		c.eq("the run", c.get(id), want)
		c.eq("its steps", c.steps(id), steps)
		inbox.Status = store.Pending
		c.eq("its state, signals and groups", c.inbox(id), inbox)
		again := c.onlyFor(oldBuild, id)
		c.eq("Crashes at the next claim", again.Run.Crashes, 1)
		c.eq("steps at the next claim", len(again.Steps), 1)
	}},
	{"build/given-back-canceling", "P20", "a canceling run that is given back stays canceling, for its build to end at once", func(c *C) {
		id := c.create(store.NewRun{})
		run := c.one(c.claimFor(oldBuild).Runs)
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: release()})
		run = c.one(c.claimFor(newBuild).Runs)
		c.cancel(id)
		why := c.get(id).Failure
		c.commit(store.Commit{Lease: run.Lease, Pin: misfit(), Transition: giveBack()})
		c.status(id, store.Canceling)
		c.eq("its failure", c.get(id).Failure, why)
		c.end(c.onlyFor(oldBuild, id), cancelRun())
		c.status(id, store.Canceled)
	}},
	{"build/given-back-pausing", "P20", "a run that is to pause pauses when it is given back, and is claimed by its build after it is resumed", func(c *C) {
		id := c.create(store.NewRun{})
		run := c.one(c.claimFor(newBuild).Runs)
		c.ok("Pause", c.tryPause(false, id)[0].Err)
		c.commit(store.Commit{Lease: run.Lease, Pin: misfit(), Transition: giveBack()})
		c.status(id, store.Paused)
		c.ok("Resume", c.tryPause(true, id)[0].Err)
		c.onlyFor(oldBuild, id)
	}},
	{"build/given-back-repeated", "P4", "a run is given back once, even if the commit is sent again", func(c *C) {
		id := c.create(store.NewRun{})
		run := c.one(c.claimFor(newBuild).Runs)
		cm := store.Commit{Lease: run.Lease, Seq: 1, Pin: misfit(), Transition: giveBack()}
		c.commit(cm)
		c.ok("Unpin", c.unpin(id)[0].Err)
		res := c.tryCommit(cm)
		c.check(res.Repeated && res.Err == nil, "the commit sent again: saw %+v, expected a repeat", res)
		c.eq("the pin", c.get(id).Pin, (*store.Pin)(nil))
	}},
	{"build/given-back-by-its-holder", "P2", "only the holder of the lease gives a run back", func(c *C) {
		id := c.create(store.NewRun{})
		run := c.one(c.claimFor(newBuild).Runs)
		c.advance(aLease)
		c.one(c.claimFor("").Runs)
		c.lost("a give-back under an old lease", store.Commit{Lease: run.Lease, Pin: misfit(), Transition: giveBack()})
		c.eq("the pin", c.get(id).Pin, (*store.Pin)(nil))
	}},
	{"build/given-back-with-nothing", "P20", "a commit that gives a run back with anything but a pin is refused, and so is a pin on a run that ends", func(c *C) {
		run := c.start()
		why := &store.Failure{Code: "x", Message: "y"}
		for what, cm := range map[string]store.Commit{
			"without a pin":        {Transition: giveBack()},
			"with a step":          {Pin: misfit(), Transition: giveBack(), Steps: []store.StepRecord{step(1, "a", "")}},
			"with state":           {Pin: misfit(), Transition: giveBack(), State: []store.StateWrite{{Key: "k"}}},
			"with a child":         {Pin: misfit(), Transition: giveBack(), Spawn: kids(1)},
			"with a signal read":   {Pin: misfit(), Transition: giveBack(), Consumed: []store.SignalID{store.NewID()}},
			"with crashes":         {Pin: misfit(), Transition: giveBack(), Crashes: 1},
			"with a failure":       {Pin: misfit(), Transition: &store.Transition{Kind: store.GiveBack, Failure: why}},
			"with a time":          {Pin: misfit(), Transition: &store.Transition{Kind: store.GiveBack, After: time.Second}},
			"a pin of no build":    {Pin: &store.Pin{}},
			"a pin with U+0000":    {Pin: &store.Pin{Build: "b", Step: "a\x00b"}},
			"a pin of bad UTF-8":   {Pin: &store.Pin{Build: "b", Found: "\xff"}},
			"a completed run's":    {Pin: misfit(), Transition: complete("")},
			"a failed run's":       {Pin: misfit(), Transition: failWith("x")},
			"a canceled run's":     {Pin: misfit(), Transition: cancelRun()},
			"a continued run's":    {Pin: misfit(), Transition: continueWith("")},
			"a build with a space": {Pin: &store.Pin{Build: " b"}},
		} {
			cm.Lease = run.Lease
			c.fails(what, c.tryCommit(cm).Err, store.ErrInvalid)
		}
		long := &store.Pin{Build: "b", Step: strings.Repeat("s", store.MaxPin), Found: "f"}
		c.fails("a pin that is too large", c.tryCommit(store.Commit{Lease: run.Lease, Pin: long}).Err, store.ErrTooLarge)
		long.Found = ""
		c.commit(store.Commit{Lease: run.Lease, Pin: long})
		c.eq("the largest pin", c.get(run.Run.ID).Pin, long)
		c.status(run.Run.ID, store.Running)
	}},
	{"build/pinned-by-a-commit", "P19", "a commit with a pin pins the run in the same write, whatever else the commit does", func(c *C) {
		for _, t := range []*store.Transition{nil, release(), sleepFor(time.Microsecond), retryIn(0)} {
			c.create(store.NewRun{})
			run := c.one(c.claimFor(oldBuild).Runs)
			c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "1")}, Pin: &store.Pin{Build: oldBuild}, Transition: t})
			c.eq("the pin", c.get(run.Run.ID).Pin, &store.Pin{Build: oldBuild})
			c.eq("steps", len(c.steps(run.Run.ID)), 1)
			if t == nil {
				c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(2, "b", "1")}})
				c.advance(aLease)
			}
			c.advance(time.Microsecond)
			run = c.onlyFor(oldBuild, run.Run.ID)
			c.eq("the pin at the next claim", run.Run.Pin, &store.Pin{Build: oldBuild})
			c.end(run, complete(""))
		}
		c.create(store.NewRun{})
		run := c.one(c.claimFor(newBuild).Runs)
		share := &store.Pin{Build: oldBuild, By: newBuild, Ramp: true}
		c.commit(store.Commit{Lease: run.Lease, Pin: share, Transition: giveBack()})
		c.eq("the pin of a share", c.onlyFor(oldBuild, run.Run.ID).Run.Pin, share)
	}},
	{"build/recorded-by", "P19", "a run's Build is the build of the lease under which its last step was recorded", func(c *C) {
		id := c.create(store.NewRun{})
		is := func(when, want string) {
			c.Helper()
			c.eq("Build "+when, c.get(id).Build, want)
		}
		is("of a new run", "")
		run := c.one(c.claimFor(oldBuild).Runs)
		is("before a step", "")
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}})
		is("after a step", oldBuild)
		c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "k"}}, Transition: release()})
		run = c.one(c.claimFor(newBuild).Runs)
		c.eq("Build as claimed", run.Run.Build, oldBuild)
		c.commit(store.Commit{Lease: run.Lease, Seen: 9, State: []store.StateWrite{{Key: "k"}}, Transition: release()})
		is("after a lease without a step", oldBuild)
		run = c.one(c.claimFor("v3").Runs)
		c.commit(store.Commit{Lease: run.Lease, Seen: 9, Steps: []store.StepRecord{step(2, "b", "")}, Transition: sleepFor(time.Microsecond)})
		c.advance(time.Microsecond)
		is("after a step and a sleep", "v3")
		run = c.one(c.claimFor(newBuild).Runs)
		c.eq("Build as claimed again", run.Run.Build, "v3")
		c.commit(store.Commit{Lease: run.Lease, Seen: 9, Steps: []store.StepRecord{step(3, "c", "")}, Transition: failWith("x")})
		is("after the end", newBuild)
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})))
		is("after a restart", newBuild)
		fork := store.NewID()
		c.ok("Fork", second(c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: id, New: fork, Now: c.now})))
		c.eq("Build of a fork", c.get(fork).Build, newBuild)
		run = c.claim(store.ClaimParams{}).Runs[0] // of a worker without a build
		c.commit(store.Commit{Lease: run.Lease, Seen: 9, Steps: []store.StepRecord{step(9, "z", "")}, Transition: release()})
		c.eq("Build after a step of none", c.get(run.Run.ID).Build, "")
	}},
	{"build/eager-start", "P19", "the first lease of an eager start has the start's build", func(c *C) {
		n := fill(store.NewRun{Worker: aWorker, LeaseFor: aLease, Build: oldBuild})
		m := fill(store.NewRun{Worker: aWorker, LeaseFor: aLease, Build: newBuild})
		o := fill(store.NewRun{Worker: aWorker, LeaseFor: aLease})
		for i, res := range c.creates(n, m, o) {
			c.ok("Create's item", res.Err)
			c.commit(store.Commit{Lease: res.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: release()})
			c.eq("Build", c.get(res.ID).Build, []string{oldBuild, newBuild, ""}[i])
		}
		c.fails("a build without a worker", c.creates(fill(store.NewRun{Build: "b"}))[0].Err, store.ErrInvalid)
		bad := fill(store.NewRun{Worker: aWorker, LeaseFor: aLease, Build: " b"})
		c.fails("a build that is no name", c.creates(bad)[0].Err, store.ErrInvalid)
	}},
	{"build/new-generation", "P19", "a run that continues as new is not pinned, and has no Build", func(c *C) {
		id := c.pinned()
		run := c.onlyFor(oldBuild, id)
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(2, "b", "")}, Transition: continueWith("in")})
		got := c.get(id)
		c.check(got.Pin == nil && got.Build == "", "saw pin %+v and build %q, expected none", got.Pin, got.Build)
		run = c.one(c.claimFor(newBuild).Runs)
		c.eq("Build as claimed", run.Run.Build, "")
	}},
	{"build/restarted", "P19", "a restarted run and a fork are not pinned", func(c *C) {
		id := c.pinned()
		c.end(c.onlyFor(oldBuild, id), failWith("x"))
		c.eq("the pin of a final run", c.get(id).Pin, misfit())
		fork := store.NewID()
		c.ok("Fork", second(c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: id, New: fork, Now: c.now})))
		c.eq("the pin of the fork", c.get(fork).Pin, (*store.Pin)(nil))
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{id}, Now: c.now})))
		c.eq("the pin after the restart", c.get(id).Pin, (*store.Pin)(nil))
		c.eq("runs of the new build", len(c.claimFor(newBuild).Runs), 2)
	}},
	{"build/unpin", "P19", "a run that is unpinned can be claimed by any build, and nothing else of it changes; unpinning a run that is not pinned is an error of that item", func(c *C) {
		a, b := c.pinned(), c.pinned()
		plain, ended := c.create(store.NewRun{Queue: "q2"}), c.pinned()
		c.force(ended)
		before := c.get(a)
		res := c.unpin(a, plain, store.NewID(), ended, a)
		c.eq("the pinned run", res[0], store.ControlResult{Status: store.Pending})
		c.fails("a run that is not pinned", res[1].Err, store.ErrConflict)
		c.check(strings.Contains(fmt.Sprint(res[1].Err), "not pinned"), "saw %v, expected it to say that the run is not pinned", res[1].Err)
		c.eq("its status", res[1].Status, store.Pending)
		c.fails("a run that does not exist", res[2].Err, store.ErrNotFound)
		c.fails("a final run", res[3].Err, store.ErrFinished)
		c.eq("its status", res[3].Status, store.Canceled)
		c.fails("the same run again", res[4].Err, store.ErrConflict)
		before.Pin = nil
		c.eq("the run", c.get(a), before)
		c.eq("the pin of the final run", c.get(ended).Pin, misfit())
		c.abroad(func() { c.fails("a run of another namespace", c.unpin(b)[0].Err, store.ErrNotFound) })
		c.eq("the run of the other pin", c.get(b).Pin, misfit())
		c.eq("runs of the new build", runIDs(c.claimFor(newBuild).Runs), []store.ID{a})
		c.eq("results for none", len(c.unpin()), 0)
	}},
	{"build/unpin-again", "P4", "a repeated Unpin changes nothing, and each of its items says that the run is not pinned", func(c *C) {
		held := c.pinned()
		c.onlyFor(oldBuild, held)
		ids := []store.ID{held, c.pinned(), c.pinned()}
		c.unpin(ids...)
		before := c.gets(ids...)
		for i, res := range c.unpin(ids...) {
			c.fails("an item of the repeat", res.Err, store.ErrConflict)
			c.eq("its status", res.Status, before[i].Status)
			c.check(strings.Contains(fmt.Sprint(res.Err), before[i].ID.String()), "saw %v, expected it to name the run", res.Err)
		}
		c.eq("the runs", c.gets(ids...), before)
	}},
	{"build/unpin-held", "P19", "a held run that is unpinned keeps its holder", func(c *C) {
		id := c.pinned()
		run := c.onlyFor(oldBuild, id)
		c.eq("the result", c.unpin(id)[0], store.ControlResult{Status: store.Running})
		c.eq("the lease", c.extend(run.Lease).Lost, false)
		c.end(run, release())
		c.one(c.claimFor(newBuild).Runs)
	}},
	{"build/filtered", "P19", "lists and counts select pinned runs, and those pinned to some builds", func(c *C) {
		a, plain := c.pinned(), c.create(store.NewRun{Queue: "q2"})
		b := c.create(store.NewRun{})
		run := c.one(c.claim(store.ClaimParams{}).Runs)
		c.commit(store.Commit{Lease: run.Lease, Pin: &store.Pin{Build: "v0"}, Transition: giveBack()})
		list := func(f store.RunFilter) []store.ID {
			c.Helper()
			page, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: f, OldestFirst: true})
			c.ok("List", err)
			ids := []store.ID{}
			for _, r := range page.Runs {
				ids = append(ids, r.ID)
				c.eq("the pin", r.Pin, c.get(r.ID).Pin)
			}
			counts, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: f})
			c.ok("Count", err)
			n := int64(0)
			for _, row := range counts {
				n += row.Count
			}
			c.eq("the count", n, int64(len(ids)))
			return ids
		}
		c.eq("all", len(list(store.RunFilter{})), 3)
		c.sameIDs("pinned", list(store.RunFilter{Pinned: true}), a, b)
		c.sameIDs("pinned to one", list(store.RunFilter{PinnedTo: []string{oldBuild}}), a)
		c.sameIDs("pinned to one or to none", list(store.RunFilter{PinnedTo: []string{oldBuild, "none"}}), a)
		c.sameIDs("pinned to two", list(store.RunFilter{PinnedTo: []string{"v0", oldBuild}}), a, b)
		c.sameIDs("few", list(store.RunFilter{Pinned: true, IDPrefix: a.String()}), a)
		c.eq("few that are not pinned", list(store.RunFilter{Pinned: true, IDPrefix: plain.String()}), []store.ID{})
		_, err := c.s.List(c.ctx, store.ListParams{Namespace: c.ns, Filter: store.RunFilter{PinnedTo: []string{""}}})
		c.fails("a build without a name", err, store.ErrInvalid)
	}},
	{"build/filtered-pages", "P14", "lists by build return the runs of all their builds in one order, finished or not, on pages of any size", func(c *C) {
		runs := map[store.ID]store.Run{}
		for i := range 24 {
			id := c.pinnedAs([]string{"v0", oldBuild, newBuild, ""}[i%4], store.NewRun{})
			switch {
			case i%5 == 0:
				c.cancel(id)
			case i%7 == 0:
				c.pause(id)
			}
			runs[id] = c.get(id)
			if i%3 == 0 { // others were created at the same moment
				c.advance(time.Millisecond)
			}
		}
		many := []string{"v0"}
		for i := range store.FewBuilds {
			many = append(many, fmt.Sprint("none", i))
		}
		order := c.listAll(store.ListParams{OldestFirst: true}, nil)
		for _, builds := range [][]string{{oldBuild}, {newBuild, "v0"}, {"v0", "none", "v0"}, {"none"}, many} {
			for _, statuses := range [][]store.Status{nil, {store.Pending, store.Paused}, {store.Canceled}, {store.Pending, store.Running, store.Sleeping, store.Paused, store.Canceling}} {
				f := store.RunFilter{PinnedTo: builds, Statuses: statuses}
				want := []store.ID{}
				for _, id := range order {
					if r := runs[id]; slices.Contains(builds, r.PinnedTo()) && f.Wants(r.Status) {
						want = append(want, id)
					}
				}
				c.eq(fmt.Sprint("the count of ", builds, statuses), c.count(f), int64(len(want)))
				for _, size := range []store.ListParams{{Limit: 1}, {Limit: 2, MaxScan: 3}, {Limit: 100, MaxScan: 1}} {
					p := store.ListParams{Filter: f, Limit: size.Limit, MaxScan: size.MaxScan, OldestFirst: true}
					what := fmt.Sprint("pages of ", p.Limit, ", scans ", p.MaxScan, ", of ", builds, statuses)
					c.eq(what, c.listAll(p, nil), want)
					p.OldestFirst = false
					c.eq("newest first: "+what, c.listAll(p, nil), backwards(want))
				}
			}
		}
	}},
	{"build/filtered-capped", "P18", "a count by build looks at no more than MaxScan unfinished runs of its builds together, those created last, and at none of others", func(c *C) {
		for _, of := range [][2]string{{"v0", "early"}, {newBuild, "late"}, {oldBuild, "other"}, {"", "other"}} {
			for range 3 {
				c.pinnedAs(of[0], store.NewRun{Workflow: of[1]})
				c.advance(time.Millisecond)
			}
		}
		row := func(workflow string, n int64, capped bool) store.RunCount {
			return store.RunCount{Queue: aQueue, Workflow: workflow, Status: store.Pending, Count: n, Capped: capped}
		}
		for most, want := range map[int][]store.RunCount{
			2: {row("late", 2, true)},
			4: {row("early", 1, true), row("late", 3, true)},
			7: {row("early", 3, false), row("late", 3, false)},
		} {
			counts, err := c.s.Count(c.ctx, store.CountParams{Namespace: c.ns, Filter: store.RunFilter{PinnedTo: []string{newBuild, "v0"}, Statuses: []store.Status{store.Pending}}, MaxScan: most})
			c.ok("Count", err)
			c.eq(fmt.Sprint("the rows, of ", most, " runs"), counts, want)
		}
	}},
	{"build/listed", "P18", "ListBuilds returns, for each build, its workers, pinned runs and unfinished runs", func(c *C) {
		for _, w := range []store.Worker{
			{ID: "a", Build: oldBuild, TTL: time.Hour}, {ID: "b", Build: oldBuild, TTL: time.Hour, Status: store.Draining},
			{ID: "c", Build: oldBuild, TTL: time.Second}, {ID: "d", Build: "v9", TTL: time.Hour}, {ID: "e", TTL: time.Hour},
		} {
			c.putWorker(w)
		}
		c.putWorker(store.Worker{ID: "f", Build: oldBuild, TTL: time.Hour, Answers: time.Second})
		c.advance(time.Second) // c is offline
		c.eq("workers that are asked", c.ask(time.Second), 1)
		c.advance(time.Second) // f has not answered
		c.ofEachStatus("v5")
		c.pinned()
		c.pinned()
		run := c.one(c.claim(store.ClaimParams{Build: oldBuild}).Runs)
		c.commit(store.Commit{Lease: run.Lease, Seq: 1, Steps: []store.StepRecord{step(7, "x", "")}, Pin: &store.Pin{Build: "v3"}, Transition: release()})
		c.force(c.pinned())
		c.advance(time.Microsecond)
		c.create(store.NewRun{Queue: "q2"}) // the newest
		want := []store.Build{
			{Name: oldBuild, Workers: 2, Online: 1, Pinned: 1, Runs: 2},
			{Name: "v3", Pinned: 1},
			{Name: "v5", Runs: 5},
			{Name: "v9", Workers: 1, Online: 1},
		}
		c.eq("builds", c.builds(store.ListBuildsParams{}), store.BuildPage{Builds: want})
		pages := pagesOf(c, func(cursor string) ([]store.Build, string, error) {
			page := c.builds(store.ListBuildsParams{Cursor: cursor, Limit: 2})
			return page.Builds, page.Next, nil
		}, nil)
		c.eq("pages", pages, [][]store.Build{want[:2], want[2:]})
		capped := c.builds(store.ListBuildsParams{MaxScan: 1}).Builds
		c.eq("builds when one run is looked at", capped, []store.Build{
			{Name: oldBuild, Workers: 2, Online: 1, Pinned: 1, Capped: true}, {Name: "v3", Pinned: 1, Capped: true}, {Name: "v9", Workers: 1, Online: 1, Capped: true},
		})
		ns := c.ns
		c.ns += "/other"
		c.eq("builds of another namespace", len(c.builds(store.ListBuildsParams{}).Builds), 0)
		c.ns = ns
		_, err := c.s.ListBuilds(c.ctx, store.ListBuildsParams{Namespace: c.ns + "x", Cursor: c.builds(store.ListBuildsParams{Limit: 1}).Next})
		c.fails("a cursor of another namespace", err, store.ErrInvalid)
		_, err = c.s.ListBuilds(c.ctx, store.ListBuildsParams{Namespace: c.ns, Limit: store.MaxPage + 1})
		c.fails("a page that is too long", err, store.ErrInvalid)
	}},
	{"build/of-workers", "", "a worker is listed with the build that it was put with last", func(c *C) {
		c.putWorker(store.Worker{ID: "w", TTL: time.Hour, Build: oldBuild})
		c.eq("build", c.workers()[0].Build, oldBuild)
		c.putWorker(store.Worker{ID: "w", TTL: time.Hour, Build: newBuild})
		c.eq("build", c.workers()[0].Build, newBuild)
		err := c.s.PutWorker(c.ctx, store.PutWorkerParams{Namespace: c.ns, Worker: store.Worker{ID: "w", TTL: time.Hour, Status: store.Online, Build: "a\nb"}, Now: c.now})
		c.fails("a build that is no name", err, store.ErrInvalid)
		_, err = c.s.Claim(c.ctx, c.claimParams(store.ClaimParams{Build: "a\nb"}))
		c.fails("a claim of such a build", err, store.ErrInvalid)
	}},
	{"build/ahead", "P19", "runs pinned to another build are not ahead of a run", func(c *C) {
		ranker := c.s.(store.Ranker)
		ahead := func(id store.ID) int {
			c.Helper()
			n, err := ranker.Ahead(c.ctx, store.AheadParams{Namespace: c.ns, Run: id, Now: c.now})
			c.ok("Ahead", err)
			return n
		}
		first := c.pinned()
		c.advance(time.Second)
		plain := c.create(store.NewRun{})
		c.advance(time.Second)
		run := c.one(c.claim(store.ClaimParams{}).Runs)
		c.end(run, release())
		c.advance(time.Second)
		other := c.create(store.NewRun{Priority: 1})
		c.eq("ahead of one that is not pinned", ahead(plain), 1)
		c.eq("ahead of the first of its lane", ahead(other), 0)
		c.eq("ahead of the pinned one", ahead(first), 1)
		c.unpin(first)
		c.eq("ahead when it is unpinned", ahead(plain), 2)
	}},
	{"build/imported", "P19", "an imported run keeps its pin and its Build", func(c *C) {
		importer := c.s.(store.Importer)
		rec := store.RunRecord{Run: store.Run{ID: store.NewID(), Workflow: aWorkflow, Queue: aQueue, Status: store.Pending, Attempt: 1, CreatedAt: c.now, Build: oldBuild, Pin: misfit()}}
		made, err := importer.Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
		c.ok("Import", err)
		c.eq("made", made, true)
		got := c.get(rec.Run.ID)
		c.eq("the pin", got.Pin, misfit())
		c.eq("Build", got.Build, oldBuild)
		c.ok("Resume", c.tryPause(true, rec.Run.ID)[0].Err)
		c.onlyFor(oldBuild, rec.Run.ID)
		rec.Run.ID, rec.Run.Pin = store.NewID(), &store.Pin{}
		_, err = importer.Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: rec, Now: c.now})
		c.fails("a pin of no build", err, store.ErrInvalid)
	}},
}
