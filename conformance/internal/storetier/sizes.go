package storetier

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// The numbers that the size cases reach. Each exceeds the capacity of loops, columns or statements
// that were made for small numbers.
const (
	manySteps  = 2*store.MaxPage + 500 // of one run
	listSize   = 2*store.MaxPage + 1   // of one call or one list
	pageAndOne = store.MaxPage + 1     // of other things that are paged
	depth      = 12                    // generations of a tree
	bigNumber  = 70_000                // wherever a number is kept
	hugeCount  = 5_000_000_000         // where the contract says int64
	longTime   = 250 * 365 * 24 * time.Hour
)

// same reports the first difference between two long lists.
func (c *C) same(what string, got, want []string) {
	c.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			c.Errorf("%s: saw %q at place %d, expected %q", what, got[i], i, want[i])
			return
		}
	}
	if len(got) != len(want) {
		c.Errorf("%s: saw %d, expected %d", what, len(got), len(want))
	}
}

// textsOf formats each item of a list.
func textsOf[T any](list []T, text func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = text(v)
	}
	return out
}

func idTexts(ids []store.ID) []string { return textsOf(ids, store.ID.String) }

func claimedIDs(runs []store.ClaimedRun) []string { return idTexts(runIDs(runs)) }

// numbered returns n names that sort as their numbers do.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%05d", i)
	}
	return names
}

// manyRecords returns records of n steps, the first at a position.
func manyRecords(n int, first int64) []store.StepRecord {
	recs := make([]store.StepRecord, n)
	for i := range recs {
		recs[i] = step(first+int64(i), fmt.Sprintf("s%05d", i), fmt.Sprint("out ", i))
	}
	return recs
}

func recordTexts(recs []store.StepRecord) []string {
	return textsOf(recs, func(r store.StepRecord) string {
		return fmt.Sprintf("%d %s %v %q", r.Position, r.StepKey, r.Status, r.Output)
	})
}

func stepTexts(steps []store.Step) []string {
	return textsOf(steps, func(s store.Step) string {
		return fmt.Sprintf("%d %s %v %q", s.Position, s.StepKey, s.Status, s.Output)
	})
}

// stepsBehind reads the steps of a run after a position, by pages, and returns the lengths of the
// pages.
func (c *C) stepsBehind(id store.ID, after int64, limit int) (steps []store.Step, pages []int) {
	c.Helper()
	for range 1000 {
		page, err := c.s.Steps(c.ctx, store.StepsParams{Namespace: c.ns, Run: id, After: after, Limit: limit})
		c.ok("Steps", err)
		steps, pages = append(steps, page.Steps...), append(pages, len(page.Steps))
		if page.Next == 0 || len(page.Steps) == 0 {
			return steps, pages
		}
		after = page.Next
	}
	c.Fatalf("Steps: saw more than 1000 pages of at most %d steps", limit)
	return nil, nil
}

// history returns the steps that a claim returned, and those that Steps returns after them.
func (c *C) history(run store.ClaimedRun) []string {
	c.Helper()
	if len(run.Steps) > store.MaxPage {
		c.Errorf("steps that come with a claim: saw %d, expected at most %d", len(run.Steps), store.MaxPage)
	}
	steps := run.Steps
	if run.MoreSteps {
		after := int64(0)
		if len(steps) > 0 {
			after = steps[len(steps)-1].Position
		}
		rest, _ := c.stepsBehind(run.Run.ID, after, store.MaxPage)
		steps = append(slices.Clone(steps), rest...)
	}
	return stepTexts(steps)
}

// claimEach claims until nothing is due, because a database may take fewer at a time.
func (c *C) claimEach(p store.ClaimParams) []store.ClaimedRun {
	c.Helper()
	var all []store.ClaimedRun
	for {
		got := c.claim(p).Runs
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
	}
}

// groupsOf reads all groups of a run, by pages.
func (c *C) groupsOf(id store.ID) (groups []store.Group) {
	c.Helper()
	after := ""
	for range 100 {
		in := c.box(store.InboxParams{Run: id, AfterGroup: after, After: store.NoSignals, NoState: true})
		groups = append(groups, in.Groups...)
		if !in.MoreGroups {
			return groups
		}
		after = groups[len(groups)-1].Name
	}
	c.Fatalf("Inbox: saw more than 100 pages of groups")
	return nil
}

// unread reads all unread signals of a run, by pages.
func (c *C) unread(id store.ID) (signals []store.Signal) {
	c.Helper()
	after := int64(0)
	for range 100 {
		in := c.box(store.InboxParams{Run: id, After: after, NoState: true})
		signals = append(signals, in.Signals...)
		if !in.MoreSignals {
			return signals
		}
		after = signals[len(signals)-1].Position
	}
	c.Fatalf("Inbox: saw more than 100 pages of signals")
	return nil
}

// deepTree creates a tree of runs: each generation has one run with children, whose child is the
// next generation's, and one without. Those with children sleep, except for the root if it is to
// stay leased. It returns the root and the generations without the root.
func (c *C) deepTree(leased, recorded bool, closing func(generation int) store.ClosePolicy) (root store.ClaimedRun, generations [][]store.ID) {
	c.Helper()
	root = c.start()
	parent := root
	for g := 1; g <= depth; g++ {
		next, leaf := kid(1), kid(2)
		next.Queue, next.OnClose = fmt.Sprint("generation", g), closing(g)
		leaf.Queue, leaf.OnClose = "leaves", closing(g)
		cm := store.Commit{Lease: parent.Lease, Spawn: []store.NewRun{next, leaf}}
		if recorded {
			cm.Steps = []store.StepRecord{step(1, "a", "")}
		}
		if !leased || g > 1 {
			cm.Transition = sleepFor(1000 * time.Hour)
		}
		c.commit(cm)
		generations = append(generations, []store.ID{next.ID, leaf.ID})
		if g < depth {
			parent = c.one(c.claim(store.ClaimParams{Demands: []store.Demand{demand(next.Queue, 1, kidFlow)}}).Runs)
		}
	}
	return root, generations
}

// generation reports a run of a generation that is not of the status.
func (c *C) generation(n int, ids []store.ID, want store.Status) {
	c.Helper()
	for _, r := range c.gets(ids...) {
		c.eq(fmt.Sprintf("status of a run of generation %d", n), r.Status, want)
	}
}

// sumEnded returns how many ends a call reported.
func sumEnded(counts []store.RunCount) (n int64) {
	for _, r := range counts {
		n += r.Count
	}
	return n
}

// drop ends runs, so that later calls do not find them.
func (c *C) drop(ids ...store.ID) {
	c.Helper()
	_, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: ids, Reason: "dropped", Force: true, Now: c.now})
	c.ok("Cancel with Force", err)
}

// waits reports a run that is not asleep with that many events, or not due as expected.
func (c *C) waits(id store.ID, when string, events int64, due time.Time) {
	c.Helper()
	r := c.get(id)
	c.eq("the run "+when+": its status, events and time", []string{r.Status.String(), fmt.Sprint(r.Events), show(r.VisibleAt)},
		[]string{store.Sleeping.String(), fmt.Sprint(events), show(due)})
}

func closeAll(int) store.ClosePolicy { return store.CloseCancel }

// treeCloses checks that the end of a root ends a tree to the last generation. Runs at and below a
// generation may continue.
func (c *C) treeCloses(how string, leased bool, until int, end func(root store.ClaimedRun) []store.RunCount) {
	c.Helper()
	root, generations := c.deepTree(leased, false, func(g int) store.ClosePolicy {
		if g == until {
			return store.CloseAbandon
		}
		return store.CloseCancel
	})
	told := sumEnded(end(root))
	canceled := int64(0)
	for i, ids := range generations {
		g := i + 1
		switch {
		case g < until:
			c.generation(g, ids, store.Canceled)
			canceled += 2
		case g == depth:
			c.generation(g, ids, store.Pending)
		default:
			c.generation(g, ids[:1], store.Sleeping)
		}
	}
	c.eq("descendants that "+how+" told of as ended", told, canceled)
	if until <= depth {
		c.drop(generations[until-1]...) // so that the next tree's queues are empty
	}
}

var sizeCases = []Case{
	{"sizes/steps", "P3", "a commit stores each of 2,500 steps; claims and pages return them all, in order, for each run whatever the others have", func(c *C) {
		const few = 700
		recs := map[store.ID][]store.StepRecord{}
		runs := make([]store.ClaimedRun, 3)
		for i := range runs {
			n := few
			if i == 0 {
				n = manySteps
			}
			runs[i] = c.startWith(store.NewRun{Priority: 3 - i})
			recs[runs[i].Run.ID] = manyRecords(n, 1)
			c.commit(store.Commit{Lease: runs[i].Lease, Steps: recs[runs[i].Run.ID]})
		}
		big := runs[0]
		again := c.tryCommit(store.Commit{Lease: big.Lease, Seq: 1, Steps: recs[big.Run.ID]})
		c.eq("a commit sent again: its error, and Repeated", []any{again.Err, again.Repeated}, []any{nil, true})
		steps, pages := c.stepsBehind(big.Run.ID, 0, store.MaxPage)
		c.same("steps by pages", stepTexts(steps), recordTexts(recs[big.Run.ID]))
		c.eq("pages of MaxPage", pages, []int{store.MaxPage, store.MaxPage, 500})

		c.advance(2 * aLease)
		got := c.claimEach(store.ClaimParams{Max: 5})
		c.same("claimed runs", claimedIDs(got), claimedIDs(runs))
		for _, run := range got {
			c.same("steps with the claim, and behind them", c.history(run), recordTexts(recs[run.Run.ID]))
		}

		// A retry deletes what followed the step that failed, and nothing before it; so does a fork.
		big = got[0]
		failed := step(manySteps+1, "fails", "")
		failed.Status, failed.Output, failed.Failure = store.StepFailed, nil, &store.Failure{Code: "error", Message: "no"}
		c.commit(store.Commit{Lease: big.Lease, Steps: []store.StepRecord{failed}, Transition: retryIn(0)})
		steps, _ = c.stepsBehind(big.Run.ID, 0, store.MaxPage)
		c.same("steps behind a retry", stepTexts(steps), recordTexts(recs[big.Run.ID]))
		before := recs[big.Run.ID][manySteps-100]
		fork := c.fork(store.ForkParams{ID: big.Run.ID, New: store.NewID(), Before: &before.StepKey})
		steps, _ = c.stepsBehind(fork.ID, 0, 999)
		c.same("steps of a fork", stepTexts(steps), recordTexts(recs[big.Run.ID][:manySteps-100]))
	}},
	{"sizes/replaced-steps", "P3", "a commit replaces each of 1,001 records, and a retry deletes 600 of them", func(c *C) {
		run := c.start()
		recs := manyRecords(pageAndOne, 1)
		for i := range recs {
			recs[i].Status, recs[i].Output = store.StepRunning, nil
		}
		c.commit(store.Commit{Lease: run.Lease, Steps: recs})
		done := manyRecords(pageAndOne, 1)
		kept := pageAndOne - 600
		done[kept].Status, done[kept].Output, done[kept].Failure = store.StepFailed, nil, &store.Failure{Code: "error", Message: "no"}
		c.commit(store.Commit{Lease: run.Lease, Steps: done})
		steps, _ := c.stepsBehind(run.Run.ID, 0, store.MaxPage)
		c.same("steps recorded again", stepTexts(steps), recordTexts(done))
		c.end(run, retryIn(0))
		steps, _ = c.stepsBehind(run.Run.ID, 0, store.MaxPage)
		c.same("steps behind a retry", stepTexts(steps), recordTexts(done[:kept]))
	}},
	{"sizes/commits", "P3", "one call of 2,001 commits applies each, with its step and its result; sent again, each is recognized", func(c *C) {
		ids := c.createN(listSize, store.NewRun{})
		runs := c.claimEach(store.ClaimParams{Max: listSize})
		c.eq("claimed runs", len(runs), listSize)
		cms := make([]store.Commit, len(runs))
		for i, run := range runs {
			cms[i] = store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", run.Run.ID.String())}, Transition: complete(run.Run.ID.String())}
		}
		for i, res := range c.commits(cms...) {
			if res.Err != nil || res.Repeated || res.Status != store.Completed {
				c.Fatalf("commit %d of the call: saw %+v, expected its run completed", i, res)
			}
		}
		for i, r := range c.gets(ids...) {
			if r.ID != ids[i] || r.Status != store.Completed || string(r.Output) != r.ID.String() {
				c.Fatalf("run %d of the call: saw it %v, with output %q, expected it completed with its own", i, r.Status, r.Output)
			}
		}
		for _, i := range []int{0, 31, 32, 63, 64, 255, 499, 500, 999, 1000, 1001, 1999, 2000} {
			c.eq(fmt.Sprintf("steps of run %d", i), c.stepNames(ids[i]), []string{"a"})
		}
		for i, res := range c.commits(sentAgain(cms)...) {
			if res.Err != nil || !res.Repeated {
				c.Fatalf("commit %d of the call sent again: saw %+v, expected it Repeated", i, res)
			}
		}
	}},
	{"sizes/leases", "P1", "one call leases 2,001 runs, and one extends their leases: nobody else gets them until the end of the new leases", func(c *C) {
		ids := c.createN(listSize, store.NewRun{})
		slices.SortFunc(ids, byID)
		var leases []store.Lease
		runs := c.claimEach(store.ClaimParams{Max: listSize})
		c.same("claimed runs", claimedIDs(runs), idTexts(ids))
		for _, run := range runs {
			leases = append(leases, run.Lease)
		}
		c.putWorker(store.Worker{ID: aWorker, TTL: time.Hour})
		c.eq("leases that the worker holds", c.workers()[0].Held, int64(listSize))
		c.advance(aLease - time.Second)
		for i, state := range c.extends(leases...) {
			if state != (store.LeaseState{}) {
				c.Fatalf("lease %d of the call: saw %+v, expected it extended", i, state)
			}
		}
		c.advance(aLease - time.Second)
		c.eq("runs that are claimed before the new leases end", len(c.claim(store.ClaimParams{Worker: "w2", Max: listSize}).Runs), 0)
		c.advance(2 * time.Second)
		runs = c.claimEach(store.ClaimParams{Worker: "w2", Max: listSize})
		c.same("runs claimed when the new leases have ended", claimedIDs(runs), idTexts(ids))
		for _, run := range runs {
			if run.Lease.Epoch != 2 || run.Run.Crashes != 1 {
				c.Fatalf("a run that was taken over: saw epoch %d and %d crashes, expected 2 and 1", run.Lease.Epoch, run.Run.Crashes)
			}
		}
		for i, state := range c.extends(leases...) {
			if !state.Lost {
				c.Fatalf("old lease %d of the call: saw %+v, expected it lost", i, state)
			}
		}
	}},
	{"sizes/batches", "", "calls of 2,001 runs make, read, pause and purge each of them, with results in order", func(c *C) {
		rs := make([]store.NewRun, listSize)
		ids := make([]store.ID, listSize)
		for i := range rs {
			rs[i] = fill(store.NewRun{Input: []byte(fmt.Sprint(i)), ExternalID: fmt.Sprint("e", i)})
			ids[i] = rs[i].ID
		}
		for _, repeated := range []bool{false, true} {
			for i, res := range c.creates(rs...) {
				if res.ID != ids[i] || res.Err != nil || !res.Created || res.Repeated != repeated {
					c.Fatalf("Create's item %d: saw %+v, expected it made, and Repeated %v", i, res, repeated)
				}
			}
		}
		order := slices.Clone(ids)
		slices.Reverse(order)
		runs := c.gets(order...)
		c.same("runs of Get", textsOf(runs, func(r store.Run) string { return r.ID.String() }), idTexts(order))
		for i, r := range runs {
			if want := fmt.Sprint(listSize - 1 - i); string(r.Input) != want {
				c.Fatalf("input of run %d of Get: saw %q, expected %q", i, r.Input, want)
			}
		}
		for i := range ids {
			if i%400 != 0 && i != listSize-1 {
				continue
			}
			r, err := c.s.Find(c.ctx, store.FindParams{Namespace: c.ns, ExternalID: fmt.Sprint("e", i)})
			c.ok("Find", err)
			c.eq("run of Find", r.ID, ids[i])
		}
		for _, resume := range []bool{false, true} {
			want := store.Paused
			if resume {
				want = store.Pending
			}
			for i, res := range c.tryPause(resume, ids...) {
				if res.Err != nil || res.Status != want {
					c.Fatalf("item %d of Pause (resume: %v): saw %+v, expected it %v", i, resume, res, want)
				}
			}
			c.eq(fmt.Sprintf("runs that are %v", want), c.count(store.RunFilter{Statuses: []store.Status{want}}), int64(listSize))
		}
		for i, res := range c.tryCancel(ids...) {
			if res.Err != nil || res.Status != store.Canceled {
				c.Fatalf("item %d of Cancel: saw %+v, expected it canceled", i, res)
			}
		}
		c.eq("runs that are canceled", c.count(store.RunFilter{Statuses: []store.Status{store.Canceled}}), int64(listSize))
		c.advance(time.Hour)
		c.eq("runs purged with Limit 1500", c.purge(store.PurgeParams{Limit: 1500}), 1500)
		c.eq("runs purged with Limit MaxBatch", c.purge(store.PurgeParams{Limit: store.MaxBatch}), listSize-1500)
		c.eq("runs left", len(c.gets(ids...)), 0)
	}},
	{"sizes/tree", "P11", "what ends a run ends its descendants down to the twelfth generation, and each of 2,001 children; below an abandoned one they continue", func(c *C) {
		const all = depth + 1
		canceling := func(root store.ClaimedRun) []store.RunCount {
			res := c.tryCancel(root.Run.ID)[0]
			c.ok("Cancel's item", res.Err)
			c.eq("status of the root", res.Status, store.Canceled)
			return store.Tally(res.Ended, root.Run.Queue, root.Run.Workflow, store.Canceled, -1)
		}
		c.treeCloses("a cancel", false, all, canceling)
		c.treeCloses("a cancel", false, 10, canceling)
		c.treeCloses("a completion", true, all, func(root store.ClaimedRun) []store.RunCount { return c.end(root, complete("")).Ended })
		c.treeCloses("a failure", true, all, func(root store.ClaimedRun) []store.RunCount { return c.end(root, failWith("x")).Ended })
		c.treeCloses("a forced cancel", true, all, func(root store.ClaimedRun) []store.RunCount {
			res, err := c.s.Cancel(c.ctx, store.CancelParams{Namespace: c.ns, IDs: []store.ID{root.Run.ID}, Force: true, Now: c.now})
			c.ok("Cancel with Force", err)
			return store.Tally(res[0].Ended, root.Run.Queue, root.Run.Workflow, store.Canceled, -1)
		})

		// Runs that have recorded something clean up.
		root, generations := c.deepTree(false, true, closeAll)
		c.eq("status of a root that has recorded a step", c.cancel(root.Run.ID), store.Canceling)
		for i, ids := range generations {
			if c.generation(i+1, ids[1:], store.Canceled); i < depth-1 {
				c.generation(i+1, ids[:1], store.Canceling)
			}
		}
		c.drop(root.Run.ID)

		children := kids(listSize)
		parent := c.family(sleepFor(time.Hour), children...)
		res := c.tryCancel(parent)[0]
		c.eq("ends that the cancel of 2,001 children told of", sumEnded(res.Ended), int64(listSize+1))
		c.eq("their group", c.group(parent), store.Group{Name: "g", Total: listSize, Canceled: listSize})
	}},
	{"sizes/lanes", "P7", "a claim's order holds over 201 priorities, and over 300 pairs of queue and workflow", func(c *C) {
		rs := make([]store.NewRun, 0, store.MaxPriority-store.MinPriority+1)
		for p := store.MinPriority; p <= store.MaxPriority; p++ {
			rs = append(rs, fill(store.NewRun{Priority: p}))
		}
		c.creates(rs...)
		slices.Reverse(rs)
		runs := c.claimEach(store.ClaimParams{Max: 60})
		c.same("priorities", textsOf(runs, func(r store.ClaimedRun) string { return fmt.Sprint(r.Run.Priority) }), textsOf(rs, func(r store.NewRun) string { return fmt.Sprint(r.Priority) }))

		queues, workflows := numbered(20), numbered(15)
		var lanes []store.NewRun
		for i, q := range queues {
			for j, w := range workflows {
				n := i*len(workflows) + j
				lanes = append(lanes, fill(store.NewRun{Queue: q, Workflow: w, Priority: n % 7, At: c.now.Add(time.Duration(n*37%300+1) * time.Second)}))
			}
		}
		c.createAll(lanes...)
		c.advance(time.Hour)
		want := slices.Clone(lanes)
		slices.SortFunc(want, func(a, b store.NewRun) int { return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.At.Compare(b.At)) })
		all := []store.Demand{{Queue: queues[0], MoreQueues: queues[1:], Workflows: workflows, Max: len(lanes)}}
		first := c.claim(store.ClaimParams{Demands: all, Max: 1})
		c.eq("the first of all lanes", runIDs(first.Runs), []store.ID{want[0].ID})
		var waiting []string
		for _, l := range lanes {
			if l.ID != want[0].ID {
				waiting = append(waiting, l.Queue+" "+l.Workflow+" "+show(l.At))
			}
		}
		c.same("lanes that wait", textsOf(first.Waiting, func(w store.Waiting) string { return w.Queue + " " + w.Workflow + " " + show(w.Since) }), waiting)
		// A demand for each lane.
		var each []store.Demand
		for _, l := range lanes {
			each = append(each, demand(l.Queue, 1, l.Workflow))
		}
		wantIDs := textsOf(want[1:], func(r store.NewRun) string { return r.ID.String() })
		got := c.claim(store.ClaimParams{Demands: each, Max: 150}).Runs
		c.same("150 of 300 demands", claimedIDs(got), wantIDs[:150])
		rest := c.claim(store.ClaimParams{Demands: all})
		c.same("the rest, by one demand", claimedIDs(rest.Runs), wantIDs[150:])
		c.eq("lanes that wait then", len(rest.Waiting), 0)
	}},
	{"sizes/queues", "P7", "a demand for 2,001 queues takes runs from each of them, and the pauses of 1,001 others do not matter", func(c *C) {
		queues := numbered(listSize)
		rs := make([]store.NewRun, 0, 5)
		for _, i := range []int{2000, 0, 1000, 999, 31} {
			rs = append(rs, fill(store.NewRun{Queue: queues[i], Priority: 9 - len(rs)}))
		}
		c.creates(rs...)
		got := c.claim(store.ClaimParams{Demands: []store.Demand{{Queue: queues[0], MoreQueues: queues[1:], Workflows: append(numbered(5), aWorkflow), Max: 10}}})
		c.same("claimed runs", claimedIDs(got.Runs), textsOf(rs, func(r store.NewRun) string { return r.ID.String() }))
	}},
	{"sizes/numbers", "", "a step's occurrence, position, index and attempt, a child's ordinal, a run's crashes and a lease's commits may be large", func(c *C) {
		run := c.start()
		id := run.Run.ID
		var recs []store.StepRecord
		for i, n := range []int64{1, bigNumber - 1<<16, bigNumber, bigNumber + 1, math.MaxInt32} {
			rec := step(n, "a", fmt.Sprint(n))
			rec.Occurrence, rec.Index, rec.Attempt = int(n), int(n), int(n)
			if i%2 == 0 {
				rec.Status = store.StepRunning
				rec.Output = nil
			}
			recs = append(recs, rec)
		}
		far := step(hugeCount, "far", "")
		far.Index = 7
		recs = append(recs, far)
		c.commit(store.Commit{Lease: run.Lease, Steps: recs})
		check := func(steps []store.Step) {
			c.Helper()
			if len(steps) != len(recs) {
				c.Fatalf("steps: saw %d, expected %d", len(steps), len(recs))
			}
			for i, s := range steps {
				got := []any{s.StepKey, s.Position, s.Index, s.Attempt}
				c.eq("key, position, index and attempt", got, []any{recs[i].StepKey, recs[i].Position, recs[i].Index, recs[i].Attempt})
			}
		}
		check(c.steps(id))
		if over := math.MaxInt32 + len(recs); over > math.MaxInt32 {
			for what, rec := range map[string]store.StepRecord{
				"occurrence": {StepKey: store.StepKey{Name: "over", Occurrence: over}, Attempt: 1},
				"index":      {StepKey: store.StepKey{Name: "over", Occurrence: 1}, Attempt: 1, Index: over},
				"attempt":    {StepKey: store.StepKey{Name: "over", Occurrence: 1}, Attempt: over},
			} {
				rec.Kind, rec.Status, rec.Position = store.KindFunction, store.StepCompleted, hugeCount+1
				c.fails("a commit with a step whose "+what+" is over 1<<31-1", c.tryCommit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{rec}}).Err, store.ErrInvalid)
			}
			check(c.steps(id))
		}
		// After a large position there are the later ones.
		rest, _ := c.stepsBehind(id, bigNumber, store.MaxPage)
		c.eq("steps behind a large position", len(rest), 3)
		again := recs[2]
		again.Status = store.StepCompleted
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{again}})
		recs[2] = again
		check(c.steps(id))
		fork := c.fork(store.ForkParams{ID: id, New: store.NewID(), Before: &store.StepKey{Name: "a", Occurrence: bigNumber + 1}})
		c.eq("steps of a fork before a large occurrence", len(c.steps(fork.ID)), 2)
		c.force(fork.ID)
		for range 300 {
			c.commit(store.Commit{Lease: run.Lease, Crashes: bigNumber})
		}
		c.eq("crashes", c.get(id).Crashes, bigNumber)
		c.commit(store.Commit{Lease: run.Lease, Crashes: 1 << 30})
		gap := c.tryCommit(store.Commit{Lease: run.Lease, Seq: c.seqs[run.Lease] + 2})
		c.fails("a commit that leaves out a number", gap.Err, store.ErrLeaseLost)
		late := c.tryCommit(store.Commit{Lease: run.Lease, Seq: 2})
		c.eq("an early commit sent again", []any{late.Err, late.Repeated}, []any{nil, true})
		c.advance(2 * aLease)
		run = c.claim1()
		check(run.Steps)
		c.eq("crashes of a run that was taken over", run.Run.Crashes, 1<<30+1)

		ordinals := []int64{1, bigNumber - 1<<16, bigNumber, bigNumber + 1, hugeCount, hugeCount + 1}
		var spawn []store.NewRun
		for _, n := range ordinals {
			spawn = append(spawn, kid(n))
		}
		c.commit(store.Commit{Lease: run.Lease, Spawn: spawn})
		for i := range ordinals {
			page, err := c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: id, Group: "g", After: ordinals[i]})
			c.ok("Children", err)
			c.eq(fmt.Sprintf("ordinals above %d", ordinals[i]), textsOf(page.Children, func(r store.Run) string { return fmt.Sprint(r.Ordinal) }),
				textsOf(ordinals[i+1:], func(n int64) string { return fmt.Sprint(n) }))
		}

		w := store.Worker{ID: "large", PID: 4_194_304, Slots: bigNumber, TTL: time.Hour, Limits: map[string]int{"a": bigNumber}}
		c.putWorker(w)
		got := c.workers()[0]
		c.eq("PID, slots and limits of a worker", []any{got.PID, got.Slots, got.Limits}, []any{w.PID, w.Slots, w.Limits})
	}},
	{"sizes/imported-numbers", "", "a run's attempt, generation, epoch, events and crashes, and the counts of its groups, go on from large numbers", func(c *C) {
		for _, n := range []int64{5_000, bigNumber, hugeCount} {
			small := int(min(n, bigNumber)) // of what the contract stores as int
			past := c.aRecord(store.Failed)
			past.Run.Attempt, past.Run.Generation, past.Run.Crashes, past.Run.Ordinal = small, small, small, n
			past.Run.Epoch, past.Run.Events = n, n
			past.State[0].Version = n
			past.Steps[0].Epoch, past.Steps[0].Position, past.Steps[0].Index, past.Steps[0].Attempt, past.Steps[0].Occurrence = n, n, small, small, small
			past.Steps = past.Steps[:1]
			past.Groups[0] = store.Group{Name: "kids", Total: 4 * n, Open: n, Completed: n, Failed: n, Canceled: n}
			c.eq("created", c.imports(past), true)
			want := past
			want.Run.Namespace, want.Run.Pausing, want.Run.VisibleAt = c.ns, false, time.Time{}
			c.eq("record", c.record(past.Run.ID), want)

			rec := c.aRecord(store.Paused)
			rec.Run.ExternalID, rec.Run.Suffix, rec.Run.Deadline, rec.Run.VisibleAt = "", "", time.Time{}, time.Time{}
			rec.Run.Attempt, rec.Run.Generation, rec.Run.Epoch, rec.Run.Events = small, small, n, n
			rec.Groups = []store.Group{{Name: "g", Total: n, Open: n}}
			rec.State = []store.StateEntry{{Key: "k", Version: n, UpdatedAt: c.now}}
			c.imports(rec)
			id := rec.Run.ID
			c.resume(id)
			run := c.claim1()
			c.eq("epoch and events of the claim", []int64{run.Lease.Epoch, run.Run.Events, run.Inbox.Events}, []int64{n + 1, n, n})
			c.eq("events that an extension tells of", c.extend(run.Lease), store.LeaseState{Events: n})
			stale := run.Lease
			for _, epoch := range []int64{n, n + 1 - 1<<8, n + 1 - 1<<16, n + 1 - 1<<32} {
				stale.Epoch = epoch
				c.eq(fmt.Sprintf("a lease of epoch %d is lost", epoch), c.extend(stale).Lost, true)
				c.lost(fmt.Sprintf("a commit of epoch %d", epoch), store.Commit{Lease: stale, Seq: 1})
			}
			_, err := c.trySetState(id, store.StateWrite{Key: "k", Value: []byte("v"), IfVersion: &n})
			c.ok("SetState of a large version", err)
			c.eq("version", c.getState(id, "k")[0].Version, n+1)

			// The group continues, and is awaited at its large count.
			child, b := kid(n+1), step(n+9, "b", "")
			b.Index = small
			c.commit(store.Commit{Lease: run.Lease, Seen: n + 1, Steps: []store.StepRecord{b}, Spawn: []store.NewRun{child}, Transition: sleepAwait(store.Await{Group: "g", Open: n})})
			c.waits(id, "with one child too many open", n+1, time.Time{})
			c.eq("its group", c.group(id), store.Group{Name: "g", Total: n + 1, Open: n + 1})
			c.end(c.claimKid(), complete(""))
			c.waits(id, "when its group has come so far", n+2, c.now)
			c.eq("its group then", c.group(id), store.Group{Name: "g", Total: n + 1, Open: n, Completed: 1})

			run = c.claim1()
			c.eq("events of the run that was woken", run.Inbox.Events, n+2)
			c.end(run, retryIn(0))
			run = c.claim1()
			c.eq("attempt behind a retry", run.Run.Attempt, small+1)
			c.end(run, continueWith("on"))
			run = c.claim1()
			c.eq("generation of the next one", run.Run.Generation, small+1)
			c.end(run, complete(""))
		}
	}},
	{"sizes/events", "P5", "the events that a run has seen are compared with its events, even if there are 70,000", func(c *C) {
		rec := c.aRecord(store.Paused)
		rec.Run.ExternalID, rec.Run.Suffix, rec.Run.Deadline, rec.Run.VisibleAt, rec.Run.Events = "", "", time.Time{}, time.Time{}, bigNumber
		c.imports(rec)
		id := rec.Run.ID
		c.resume(id)
		run := c.claim1()
		c.commit(store.Commit{Lease: run.Lease, Seen: bigNumber, Transition: sleepOn(store.WakeSignal)})
		c.waits(id, "with all of 70,000 events seen", bigNumber, time.Time{})
		c.signal(id, "s", "")
		run = c.claim1()
		c.commit(store.Commit{Lease: run.Lease, Seen: bigNumber, Transition: sleepOn(store.WakeSignal)})
		c.waits(id, "with one of 70,001 events unseen", bigNumber+1, c.now)
	}},
	{"sizes/signals", "P17", "a run has 2,001 unread signals of one call, read by pages in their order; one commit consumes them, and sent again they are recognized", func(c *C) {
		run := c.start()
		id := run.Run.ID
		sigs := make([]store.NewSignal, listSize)
		var ids []store.SignalID
		var want, even []string
		for i := range sigs {
			sigs[i] = store.NewSignal{ID: store.NewID(), Run: id, Name: []string{"even", "odd"}[i%2], Payload: []byte(fmt.Sprint(i))}
			ids, want = append(ids, sigs[i].ID), append(want, fmt.Sprint(i))
			if i%2 == 0 {
				even = append(even, fmt.Sprint(i))
			}
		}
		send := func() {
			c.Helper()
			for i, res := range c.signals(sigs...) {
				if res.Err != nil || res.Run != id {
					c.Fatalf("signal %d of the call: saw %+v, expected it taken", i, res)
				}
			}
		}
		send()
		send()
		c.same("unread signals", payloads(c.unread(id)), want)
		in := c.box(store.InboxParams{Run: id, Name: "even"})
		rest := c.box(store.InboxParams{Run: id, Name: "even", After: in.Signals[len(in.Signals)-1].Position})
		c.same("those of one name", append(payloads(in.Signals), payloads(rest.Signals)...), even)
		c.eq("events", in.Events, int64(listSize))
		c.commit(store.Commit{Lease: run.Lease, Seen: in.Events, Consumed: ids[:listSize-1]})
		c.same("what a commit has left", payloads(c.unread(id)), want[listSize-1:])
		send()
		c.same("what is unread when they are sent again", payloads(c.unread(id)), want[listSize-1:])
	}},
	{"sizes/state", "P14", "a run has 2,001 keys of one write, in the order of their bytes; all of them are found by pages, by name and by a claim", func(c *C) {
		run := c.start()
		id := run.Run.ID
		keys := numbered(listSize)
		writes := make([]store.StateWrite, len(keys))
		want := make([]string, len(keys))
		for i, k := range keys {
			at := i * 1000 % len(keys) // not in order
			writes[at] = store.StateWrite{Key: k, Value: []byte(fmt.Sprint(i))}
			want[i] = k + "=" + fmt.Sprint(i)
		}
		entries, err := c.trySetState(id, writes...)
		c.ok("SetState", err)
		c.same("entries as written", textsOf(entries, func(e store.StateEntry) string { return fmt.Sprint(e.Key, " ", e.Version) }),
			textsOf(writes, func(w store.StateWrite) string {
				return fmt.Sprint(w.Key, " ", slices.IndexFunc(writes, func(o store.StateWrite) bool { return o.Key == w.Key })+1)
			}))
		c.same("entries of a call", values(c.getState(id)), want)
		c.same("entries by name", values(c.getState(id, keys...)), want)
		var paged []store.StateEntry
		for after := ""; ; {
			page := c.entries(store.GetStateParams{Run: id, After: after, Limit: 600})
			if paged = append(paged, page...); len(page) == 0 {
				break
			}
			after = page[len(page)-1].Key
		}
		c.same("entries by pages", values(paged), want)

		// A commit writes that many, and each is compared with its version.
		for i := range writes {
			writes[i].Value = []byte("by commit")
		}
		c.commit(store.Commit{Lease: run.Lease, Seen: listSize, State: writes})
		all := c.getState(id)
		for _, e := range all {
			if string(e.Value) != "by commit" {
				c.Fatalf("key %q behind a commit: saw %q, expected it replaced", e.Key, e.Value)
			}
		}
		versions := map[string]int64{}
		for _, e := range all {
			versions[e.Key] = e.Version
		}
		for i, w := range writes {
			v := versions[w.Key]
			writes[i] = store.StateWrite{Key: w.Key, Delete: i != 77, Value: nil, IfVersion: &v}
		}
		wrong := slices.Clone(writes)
		none := int64(0)
		wrong[listSize-1].IfVersion = &none
		_, err = c.trySetState(id, wrong...)
		c.fails("SetState with the last of 2,001 versions wrong", err, store.ErrConflict)
		c.eq("keys that it has left", len(c.getState(id)), listSize)
		_, err = c.trySetState(id, writes...)
		c.ok("SetState that deletes 2,000 keys", err)
		c.eq("keys left", keysOf(c.getState(id)), []string{writes[77].Key})
		c.eq("events", c.inbox(id).Events, int64(3*listSize))
	}},
	{"sizes/groups", "P9", "a run has 2,001 groups, or one of 2,001 children; it may await each of them, and the end of the last one wakes it", func(c *C) {
		names := numbered(listSize)
		spawn := make([]store.NewRun, listSize)
		awaits := make([]store.Await, listSize)
		want := make([]string, listSize)
		for i, n := range names {
			spawn[i] = kid(1)
			spawn[i].Group = n
			awaits[i] = store.Await{Group: n}
			want[i] = fmt.Sprint(store.Group{Name: n, Total: 1, Open: 1})
		}
		last := &spawn[listSize-1]
		last.Queue = "last"
		groupText := func(g store.Group) string { return fmt.Sprint(g) }
		id := c.family(sleepAwait(awaits...), spawn...)
		c.same("groups", textsOf(c.groupsOf(id), groupText), want)
		c.asleep(id, "with 2,001 groups open")
		c.end(c.one(c.claim(store.ClaimParams{Demands: []store.Demand{demand("last", 1, kidFlow)}}).Runs), complete(""))
		c.awake(id, "when the last of 2,001 groups has ended")
		want[listSize-1] = fmt.Sprint(store.Group{Name: last.Group, Total: 1, Completed: 1})
		c.same("groups then", textsOf(c.groupsOf(id), groupText), want)
		c.drop(id)

		// One group of that many.
		children := kids(listSize)
		id = c.family(sleepAwait(store.Await{Group: "g"}), children...)
		c.eq("the group", c.group(id), store.Group{Name: "g", Total: listSize, Open: listSize})
		var listed []store.Run
		for after := int64(0); ; {
			page, err := c.s.Children(c.ctx, store.ChildrenParams{Namespace: c.ns, Parent: id, Group: "g", After: after, Limit: store.MaxPage})
			c.ok("Children", err)
			listed = append(listed, page.Children...)
			if after = page.Next; after == 0 || len(page.Children) == 0 {
				break
			}
		}
		c.same("children", textsOf(listed, func(r store.Run) string { return r.ID.String() }), textsOf(children, func(r store.NewRun) string { return r.ID.String() }))
		runs := c.claimEach(store.ClaimParams{Demands: []store.Demand{{Queue: kidQueue, Workflows: []string{kidFlow}, Max: listSize}}})
		c.eq("children claimed", len(runs), listSize)
		cms := make([]store.Commit, len(runs))
		for i, run := range runs {
			cms[i] = store.Commit{Lease: run.Lease, Transition: complete("")}
		}
		c.commits(cms[:listSize-1]...)
		c.asleep(id, "with one of 2,001 children open")
		c.commits(cms[listSize-1:]...)
		c.awake(id, "when all of 2,001 children have ended")
		c.eq("the group then", c.group(id), store.Group{Name: "g", Total: listSize, Completed: listSize})
	}},
	{"sizes/lists", "P14", "lists of more than two pages contain each row once, in order: runs, workflows, actions, workers, pauses, schedules, firings", func(c *C) {
		many := numbered(listSize)
		ids := c.createN(listSize, store.NewRun{})
		for _, limit := range []int{999, store.MaxPage} {
			c.once(c.listAll(store.ListParams{Limit: limit}, nil), ids)
		}

		wfs := make([]store.Workflow, len(many))
		for i, n := range many {
			wfs[i] = store.Workflow{Name: n, Queue: n, Meta: []byte(n)}
		}
		c.putWorkflows(wfs...)
		workflowTexts := func(names []string) []string {
			all, err := store.AllWorkflows(c.ctx, c.s, store.ListWorkflowsParams{Namespace: c.ns, Names: names})
			c.ok("ListWorkflows", err)
			return textsOf(all, func(w store.Workflow) string { return w.Name + " " + w.Queue + " " + string(w.Meta) })
		}
		wantWorkflows := textsOf(many, func(n string) string { return n + " " + n + " " + n })
		c.same("workflows", workflowTexts(nil), wantWorkflows)
		c.same("workflows by 2,000 names", workflowTexts(many[1:]), wantWorkflows[1:])

		if j, ok := c.s.(store.Journal); ok {
			actions := make([]store.Action, listSize)
			for i := range actions {
				actions[i] = store.Action{ID: store.NewID(), Actor: "a", Verb: "v", Details: fmt.Sprint(i)}
			}
			c.act(j, actions...)
			slices.SortFunc(actions, func(a, b store.Action) int { return slices.Compare(b.ID[:], a.ID[:]) })
			text := func(a store.Action) string { return a.Details }
			c.same("actions", textsOf(c.actions(j, store.ListActionsParams{Limit: store.MaxPage}), text), textsOf(actions, text))
		}

		fillRegistry(c, many)
		workers, err := store.AllWorkers(c.ctx, c.s, store.ListWorkersParams{Namespace: c.ns, Now: c.now})
		c.ok("ListWorkers", err)
		c.same("workers", textsOf(workers, func(w store.Worker) string { return w.ID }), many)
		c.advance(30 * time.Minute)
		c.eq("workers that were asked", c.ask(time.Minute), listSize)
		c.now = began
		paused, err := store.AllPaused(c.ctx, c.s, store.ListPausedParams{Namespace: c.ns})
		c.ok("ListPaused", err)
		c.same("pauses", textsOf(paused, func(t store.PausedTarget) string { return t.Queue }), many)
		listSchedules(c, many)
	}},
	{"sizes/worker", "P14", "a worker can serve 2,001 queues and workflows, with as many labels and limits", func(c *C) {
		names := numbered(listSize)
		w := store.Worker{ID: aWorker, Queues: names, Workflows: names, TTL: time.Hour, Labels: map[string]string{}, Limits: map[string]int{}, Takes: map[string][]string{}}
		for i, n := range names {
			w.Labels[n], w.Limits[n], w.Takes[n] = n, i+1, []string{n}
		}
		c.putWorker(w)
		got := c.workers()[0]
		c.same("queues", got.Queues, names)
		c.same("workflows", got.Workflows, names)
		for i, n := range names {
			if got.Labels[n] != n || got.Limits[n] != i+1 || !got.Pairs(n, n) {
				c.Fatalf("label, limit and pair of %q: saw %q, %d and %v", n, got.Labels[n], got.Limits[n], got.Pairs(n, n))
			}
		}
	}},
	{"sizes/keys", "P7", "runs go in order where the permits of 2,001 keys end together, and where 2,001 runs under a full key and another one each become due together", func(c *C) {
		names := numbered(listSize)
		first := names[listSize-100] // by name, it comes late
		names = append([]string{first}, slices.Delete(names, listSize-100, listSize-99)...)
		under := func(after time.Duration, list func(key string) []store.LimitUse) (ids []store.ID) {
			for part := range slices.Chunk(names, store.MaxPage) {
				var rs []store.NewRun
				for _, key := range part {
					rs = append(rs, fill(store.NewRun{Under: list(key), After: after}))
				}
				ids = append(ids, c.createAll(rs...)...)
				c.advance(time.Microsecond)
			}
			return ids
		}

		c.putLimit("one", oneAtATime)
		key := func(key string) []store.LimitUse { return use("one", key) }
		under(0, key)
		held := c.claimEach(store.ClaimParams{Max: listSize, LeaseFor: time.Hour})
		c.eq("number of runs that hold a permit", len(held), listSize)
		waits := under(0, key)
		c.takes("while all permits are held", 1)
		plain := c.createUnder(nil)
		for part := range slices.Chunk(held, store.MaxPage) {
			c.finish(part)
		}
		c.finish(c.takes("when all have ended", 1, waits[0]))

		c.putLimit("full", oneAtATime)
		rest := c.claimEach(store.ClaimParams{Max: listSize})
		c.eq("the others", runIDs(rest), append(waits[1:], plain...))
		for part := range slices.Chunk(rest, store.MaxPage) {
			c.finish(part)
		}
		c.createUnder(use("full", "k"))
		c.one(c.claim(store.ClaimParams{Max: 1, LeaseFor: time.Hour}).Runs)
		under(time.Minute, func(key string) []store.LimitUse { return uses(use("full", "k"), use("without rule", key)) })
		next := c.create(store.NewRun{Under: use("full", "another"), After: time.Minute})
		c.advance(time.Minute)
		plain = c.createUnder(nil)
		c.finish(c.takes("when all are due", 1, next))
		c.finish(c.takes("after it", 1, plain...))
		c.takes("at the limit", 1)
	}},
	{"sizes/durations", "P13", "durations of 250 years are stored like others: of a lease, a delay, a timeout, a lock", func(c *C) {
		end := c.now.Add(longTime)
		leased := c.create(store.NewRun{})
		got := c.claim(store.ClaimParams{LeaseFor: longTime})
		run := c.one(got.Runs)
		c.eq("end of a lease", c.get(leased).VisibleAt, end)
		state, err := c.s.Extend(c.ctx, store.ExtendParams{Namespace: c.ns, Worker: aWorker, Leases: []store.Lease{run.Lease}, LeaseFor: longTime, Now: c.now.Add(time.Hour)})
		c.ok("Extend", err)
		c.eq("an extension", state, []store.LeaseState{{}})
		c.eq("end of an extended lease", c.get(leased).VisibleAt, end.Add(time.Hour))
		due := step(1, "a", "")
		due.Status, due.DueIn, due.Took, due.Output = store.StepRunning, longTime, 60*365*24*time.Hour, nil
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{due}})
		c.eq("DueAt and StartedAt of a step", []string{show(c.steps(leased)[0].DueAt), show(c.steps(leased)[0].StartedAt)}, []string{show(end), show(c.now.Add(-due.Took))})
		ends := func(what string, t *store.Transition) {
			c.Helper()
			run := c.start()
			c.end(run, t)
			c.eq("VisibleAt behind "+what, c.get(run.Run.ID).VisibleAt, end)
			c.force(run.Run.ID)
		}
		ends("a sleep", sleepFor(longTime))
		ends("a retry", retryIn(longTime))
		ends("a release", &store.Transition{Kind: store.Release, After: longTime})
		late := c.get(c.create(store.NewRun{After: longTime, Timeout: longTime}))
		c.eq("VisibleAt and deadline of a delayed run", []string{show(late.VisibleAt), show(late.Deadline)}, []string{show(end), show(end)})
		c.eq("NextDue", c.claim(store.ClaimParams{}).NextDue, end)
		c.eq("the end of a lock", c.lock("l", "o", longTime).Until, end)
		c.putWorker(store.Worker{ID: aWorker, TTL: longTime, Answers: longTime})
		w := c.workers()[0]
		c.eq("TTL and Answers of a worker", []time.Duration{w.TTL, w.Answers}, []time.Duration{longTime, longTime})

		c.now = end.Add(-time.Microsecond)
		c.claimNone("the delay of 250 years is not over")
		c.eq("the lock a microsecond before its end", c.lock("l", "other", time.Minute).Held, false)
		c.eq("status of the worker", c.workers()[0].Status, store.Online)
		c.now = end
		c.eq("the run that is due then", c.claim1().Run.ID, late.ID)
		c.eq("the lock at its end", c.lock("l", "other", time.Minute).Held, true)
		c.eq("status of the worker then", c.workers()[0].Status, store.Offline)
		c.advance(time.Hour)
		c.eq("the runs whose leases have ended", runIDs(c.claimN(5)), []store.ID{late.ID, leased})
		c.eq("runs of 250 years ago to purge", c.purge(store.PurgeParams{OlderThan: longTime + 2*time.Hour}), 0)
		c.eq("runs of that time to purge", c.purge(store.PurgeParams{OlderThan: longTime}), 3)
	}},
}

// sentAgain returns the first commits under their leases as they are sent again.
func sentAgain(cms []store.Commit) []store.Commit {
	out := slices.Clone(cms)
	for i := range out {
		out[i].Seq = 1
	}
	return out
}

// fillRegistry makes a worker, a pause and a schedule of each name, and lets another schedule fire as
// often as there are names.
func fillRegistry(c *C, many []string) {
	// Each of these is a call: calls of several goroutines share the writes of a backend.
	const hands = 32
	fires := c.schedule("fires")
	fires.Paused = true
	c.putSchedule(fires)
	c.race(hands+1, func(hand int, _ store.Store) error {
		s := c.s           // one handle: two would only wait for each other
		if hand == hands { // the firings of one schedule are sequential, each in a call
			for i := range listSize {
				at := c.now.Add(-time.Duration(listSize-i) * time.Hour)
				if i == 0 {
					first := c.schedule("fires")
					first.NextAt = at
					if _, err := s.PutSchedule(c.ctx, store.PutScheduleParams{Namespace: c.ns, Schedule: first, Now: c.now}); err != nil {
						return err
					}
				}
				res, err := s.Fire(c.ctx, store.FireParams{Namespace: c.ns, Schedule: "fires", At: at, Next: at.Add(time.Hour), Now: c.now})
				if err != nil || !res.Fired {
					return fmt.Errorf("firing %d: %+v, %w", i, res, err)
				}
			}
			return nil
		}
		for i := hand; i < listSize; i += hands {
			w := store.Worker{ID: many[i], Status: store.Online, TTL: time.Hour, Answers: time.Minute}
			sc := c.schedule(many[i])
			sc.NextAt = c.now.Add(-time.Duration(i+1) * time.Second)
			for _, err := range []error{
				s.PutWorker(c.ctx, store.PutWorkerParams{Namespace: c.ns, Worker: w, Now: c.now}),
				s.PauseTarget(c.ctx, store.PauseTargetParams{Namespace: c.ns, Queue: many[i], Now: c.now}),
				second(s.PutSchedule(c.ctx, store.PutScheduleParams{Namespace: c.ns, Schedule: sc, Now: c.now})),
			} {
				if err != nil {
					return fmt.Errorf("item %d: %w", i, err)
				}
			}
		}
		return nil
	})
}

// listSchedules lists what fillRegistry has made of schedules, and their firings.
func listSchedules(c *C, many []string) {
	scheduled := func(p store.ListSchedulesParams) (names []string) {
		for range 100 {
			page := c.schedules(p)
			names = append(names, scheduleNames(page)...)
			if p.Cursor = page.Next; p.Cursor == "" {
				return names
			}
		}
		c.Fatalf("ListSchedules: saw more than 100 pages")
		return nil
	}
	c.same("schedules", scheduled(store.ListSchedulesParams{Limit: 100}), append([]string{"fires"}, many...))
	c.same("schedules by 2,000 names", scheduled(store.ListSchedulesParams{Names: many[1:], Limit: 100}), many[1:])
	c.same("what is due but for 2,000 names", scheduled(store.ListSchedulesParams{Due: true, Except: many[1:]}), []string{many[0], "fires"})
	var due []string
	for i := range store.MaxPage {
		due = append(due, many[listSize-1-i])
	}
	c.same("what is due", scheduled(store.ListSchedulesParams{Due: true, Limit: store.MaxPage}), due)

	var times []string
	for i := range listSize {
		times = append(times, show(c.now.Add(-time.Duration(i+1)*time.Hour)))
	}
	for _, limit := range []int{100, store.MaxPage} {
		var fired []string
		p := store.ListFiringsParams{Namespace: c.ns, Schedule: "fires", Limit: limit}
		for range 2 + listSize/limit {
			page, err := c.s.ListFirings(c.ctx, p)
			c.ok("ListFirings", err)
			fired = append(fired, textsOf(page.Firings, func(f store.Firing) string { return show(f.At) })...)
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		c.same(fmt.Sprintf("firings in pages of %d", limit), fired, times)
	}
}
