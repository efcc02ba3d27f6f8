package storetier

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/store"
)

// hintRow is a row of the table at [store.HintKind]: a write and its hints. The case "hints/of-"
// plus its name does the write and checks the hints of both handles.
type hintRow struct {
	name  string
	write string // as the table has it
	tells string // as the table has it
	// prepare creates what the write is about.
	prepare func(c *C) (write func(), want []store.Hint)
}

// apart is a store that the rows use one after the other: if others also wrote to it, a hint to
// look at everything could be theirs.
type apart struct {
	t    testing.TB // lives as long as the store
	turn sync.Mutex
	s    store.Store
	s2   store.Store
}

// hintRowCases has a case for each row.
func hintRowCases() []Case {
	var cases []Case
	for _, row := range hintRows {
		rule := "this hints at both handles: " + row.write + " (" + row.tells + ")"
		cases = append(cases, Case{"hints/of-" + row.name, "", rule, func(c *C) { c.tells(row) }})
	}
	return cases
}

func (c *C) tells(row hintRow) {
	if !c.s.Features().Hints {
		c.Skip("the backend has no hints")
	}
	if a := c.h.apart; a != nil {
		a.turn.Lock()
		defer a.turn.Unlock()
		if a.s == nil {
			a.s = c.h.New(a.t)
			if a.s2 = a.s; c.h.Reopen != nil {
				a.s2 = c.h.Reopen(a.t, a.s)
			}
		}
		c.s, c.s2 = a.s, a.s2
	}
	write, want := row.prepare(c)
	ctx, end := context.WithCancel(c.ctx)
	defer end()
	c.ctx = ctx // also for the subscriptions
	own, other := c.hints(c.s), c.hints(c.s2)
	write()
	c.hears("the handle that wrote", own, want)
	c.hears("the other handle", other, want)
}

// hears waits until a channel has delivered all wanted hints, in any order; a HintRescan stands for
// all.
func (c *C) hears(who string, ch <-chan []store.Hint, want []store.Hint) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, hintTimeout)
	defer cancel()
	left := map[store.Hint]bool{}
	for _, h := range want {
		left[h] = true
	}
	for len(left) > 0 {
		select {
		case batch, ok := <-ch:
			if !ok {
				c.Fatalf("hints at %s: saw the channel closed, expected %+v", who, left)
			}
			for _, h := range batch {
				if delete(left, h); h.Kind == store.HintRescan {
					return
				}
			}
		case <-ctx.Done():
			c.Fatalf("hints at %s: saw nothing of them for %v, expected %+v", who, hintTimeout, left)
		}
	}
}

func (c *C) queueHint(name string) store.Hint {
	return store.Hint{Kind: store.HintQueue, Namespace: c.ns, Queue: name}
}

func (c *C) runHints(kind store.HintKind, ids ...store.ID) (list []store.Hint) {
	for _, id := range ids {
		list = append(list, store.Hint{Kind: kind, Namespace: c.ns, Run: id})
	}
	return list
}

// inBatch makes a row of commits of three runs in one call.
func inBatch(t func() *store.Transition, want func(c *C, ids []store.ID) []store.Hint) func(*C) (func(), []store.Hint) {
	return func(c *C) (func(), []store.Hint) {
		ids := c.createN(3, store.NewRun{})
		var cms []store.Commit
		for _, run := range c.claimAll(3) {
			cms = append(cms, store.Commit{Lease: run.Lease, Transition: t()})
		}
		return func() { c.allApplied(c.commits(cms...)) }, want(c, ids)
	}
}

// due and final return the hints of a row of commits.
func due(c *C, _ []store.ID) []store.Hint     { return []store.Hint{c.queueHint(aQueue)} }
func final(c *C, ids []store.ID) []store.Hint { return c.runHints(store.HintFinal, ids...) }

// hintRows is the table.
var hintRows = []hintRow{
	{"create", "Create, of a run that is not leased", "queue", func(c *C) (func(), []store.Hint) {
		return func() {
			c.createAll(fill(store.NewRun{}), fill(store.NewRun{Queue: "q2", After: time.Hour}))
		}, []store.Hint{c.queueHint(aQueue), c.queueHint("q2")}
	}},
	{"replace", "Create, that makes a debounced run due earlier", "queue", func(c *C) (func(), []store.Hint) {
		r := debounced("k", "")
		r.Queue = "early"
		id := c.makes(r)
		return func() {
			r := debounced("k", "")
			r.After = time.Second
			c.replaces(id, r)
		}, []store.Hint{c.queueHint("early")}
	}},
	{"spawn", "Commit, Spawn", "queue of the child", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() { c.commit(store.Commit{Lease: run.Lease, Spawn: kids(2)}) }, []store.Hint{c.queueHint(kidQueue)}
	}},
	{"state", "Commit, State", "state", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() {
			c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "k"}}})
		}, c.runHints(store.HintState, run.Run.ID)
	}},
	{"last-state", "Commit, State with CompleteRun", "state, final", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() {
			c.commit(store.Commit{Lease: run.Lease, State: []store.StateWrite{{Key: "k"}}, Transition: complete("")})
		}, append(c.runHints(store.HintState, run.Run.ID), c.runHints(store.HintFinal, run.Run.ID)...)
	}},
	{"answer", "Commit, Answers", "answer", func(c *C) (func(), []store.Hint) {
		run, sig := c.asked()
		return func() { c.commit(replies(run, output(sig, "x"), nil)) }, c.runHints(store.HintAnswer, run.Run.ID)
	}},
	{"last-answer", "Commit, Answers with CompleteRun", "answer, final", func(c *C) (func(), []store.Hint) {
		run, sig := c.asked()
		return func() { c.commit(replies(run, output(sig, "x"), complete(""))) }, append(c.runHints(store.HintAnswer, run.Run.ID), c.runHints(store.HintFinal, run.Run.ID)...)
	}},
	{"streams", "Commit, Streams", "stream", func(c *C) (func(), []store.Hint) {
		run := c.start()
		w := c.writes(run)
		return func() {
			c.commit(store.Commit{Lease: run.Lease, Streams: []store.StreamWrite{w.write("a", "b"), w.on("log").write("c")}})
		}, c.runHints(store.HintStream, run.Run.ID)
	}},
	{"append", "Append", "stream", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() { c.writes(run).append("a", "b", "c") }, c.runHints(store.HintStream, run.Run.ID)
	}},
	{"complete", "Commit, CompleteRun", "final", inBatch(func() *store.Transition { return complete("") }, final)},
	{"fail", "Commit, FailRun", "final", inBatch(func() *store.Transition { return failWith("x") }, final)},
	{"cancel-run", "Commit, CancelRun", "final", inBatch(cancelRun, final)},
	{"sleep", "Commit, Sleep to a time", "queue", inBatch(func() *store.Transition { return sleepFor(time.Hour) }, due)},
	{"retry", "Commit, Retry at once or at a time", "queue", inBatch(func() *store.Transition { return retryIn(time.Hour) }, due)},
	{"release", "Commit, Release", "queue", inBatch(release, due)},
	{"give-back", "Commit, GiveBack", "queue", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() {
			c.commit(store.Commit{Lease: run.Lease, Pin: misfit(), Transition: giveBack()})
		}, []store.Hint{c.queueHint(aQueue)}
	}},
	{"unpin", "Unpin", "queue", func(c *C) (func(), []store.Hint) {
		id := c.pinned()
		return func() { c.unpin(id) }, []store.Hint{c.queueHint(aQueue)}
	}},
	{"continue", "Commit, Continue", "queue", inBatch(func() *store.Transition { return continueWith("") }, due)},
	{"last-child", "the end of a child that its parent's sleep awaits", "queue and event of the parent", func(c *C) (func(), []store.Hint) {
		parent := c.family(sleepAwait(store.Await{Group: "g"}), kids(1)...)
		run := c.claimKid()
		return func() { c.end(run, complete("")) }, append(c.runHints(store.HintEvent, parent), c.queueHint(aQueue), c.runHints(store.HintFinal, run.Run.ID)[0])
	}},
	{"orphans", "the end of a parent, for each child that it cancels", "as Cancel", func(c *C) (func(), []store.Hint) {
		parent, held, want := c.tree()
		return func() { c.end(parent, complete("")) }, append(want, c.runHints(store.HintEvent, held)...)
	}},
	{"signal", "Signal", "event", func(c *C) (func(), []store.Hint) {
		a, b := c.start(), c.start()
		return func() {
			for _, res := range c.signals(store.NewSignal{ID: store.NewID(), Run: a.Run.ID, Name: "n"}, store.NewSignal{ID: store.NewID(), Run: b.Run.ID, Name: "n"}) {
				c.ok("Signal's item", res.Err)
			}
		}, c.runHints(store.HintEvent, a.Run.ID, b.Run.ID)
	}},
	{"awaited-signal", "Signal, to a sleeper that it wakes", "event, queue", func(c *C) (func(), []store.Hint) {
		run := c.start()
		c.end(run, sleepOn(store.WakeSignal))
		return func() { c.signal(run.Run.ID, "n", "") }, append(c.runHints(store.HintEvent, run.Run.ID), c.queueHint(aQueue))
	}},
	{"start-signal", "Create with a signal, to a run that exists", "as Signal", func(c *C) (func(), []store.Hint) {
		run := c.startWith(store.NewRun{ExternalID: "held"})
		sleeper := c.startWith(store.NewRun{ExternalID: "e"})
		c.end(sleeper, sleepOn(store.WakeSignal))
		held := signaled("")
		held.ExternalID = "held"
		return func() {
			c.createAll(held, signaled(""))
		}, append(c.runHints(store.HintEvent, run.Run.ID, sleeper.Run.ID), c.queueHint(aQueue))
	}},
	{"set-state", "SetState", "event", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() { c.setState(run.Run.ID, "k", "v") }, c.runHints(store.HintEvent, run.Run.ID)
	}},
	{"awaited-state", "SetState, of a sleeper that it wakes", "event, queue", func(c *C) (func(), []store.Hint) {
		run := c.start()
		c.end(run, sleepOn(store.WakeState))
		return func() { c.setState(run.Run.ID, "k", "v") }, append(c.runHints(store.HintEvent, run.Run.ID), c.queueHint(aQueue))
	}},
	{"cancel", "Cancel, of a run that is then final", "final", func(c *C) (func(), []store.Hint) {
		ids := c.createN(2, store.NewRun{})
		return func() { c.tryCancel(ids...) }, c.runHints(store.HintFinal, ids...)
	}},
	{"cancel-held", "Cancel, of a run that is leased", "event", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() { c.cancel(run.Run.ID) }, c.runHints(store.HintEvent, run.Run.ID)
	}},
	{"cancel-recorded", "Cancel, of a run that is to clean up", "event, queue", func(c *C) (func(), []store.Hint) {
		run := c.recorded(sleepFor(time.Hour))
		return func() { c.cancel(run.Run.ID) }, append(c.runHints(store.HintEvent, run.Run.ID), c.queueHint(aQueue))
	}},
	{"cancel-force", "Cancel with Force", "event, final", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() { c.force(run.Run.ID) }, append(c.runHints(store.HintEvent, run.Run.ID), c.runHints(store.HintFinal, run.Run.ID)...)
	}},
	{"cancel-tree", "Cancel, for each child that it reaches", "as Cancel", func(c *C) (func(), []store.Hint) {
		parent, held, want := c.tree()
		c.end(parent, release())
		want = append(want, c.runHints(store.HintEvent, held)...)
		return func() { c.cancel(parent.Run.ID) }, append(want, c.runHints(store.HintFinal, parent.Run.ID)...)
	}},
	{"cancel-child", "Cancel, of a child that its parent's sleep awaits", "queue and event of the parent", func(c *C) (func(), []store.Hint) {
		child := kids(1)
		parent := c.family(sleepAwait(store.Await{Group: "g"}), child...)
		return func() { c.cancel(child[0].ID) }, append(c.runHints(store.HintEvent, parent), c.queueHint(aQueue), c.runHints(store.HintFinal, child[0].ID)[0])
	}},
	{"pause-held", "Pause, of a run that is leased", "event", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() { c.pause(run.Run.ID) }, c.runHints(store.HintEvent, run.Run.ID)
	}},
	{"resume", "Pause with Resume, of a run that has a time", "queue", func(c *C) (func(), []store.Hint) {
		id := c.create(store.NewRun{})
		c.pause(id)
		return func() { c.resume(id) }, []store.Hint{c.queueHint(aQueue)}
	}},
	{"restart", "Restart", "queue", func(c *C) (func(), []store.Hint) {
		run := c.start()
		c.end(run, failWith("x"))
		return func() {
			c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Now: c.now})))
		}, []store.Hint{c.queueHint(aQueue)}
	}},
	{"fork", "Fork", "queue", func(c *C) (func(), []store.Hint) {
		run := c.start()
		return func() {
			res, err := c.s.Fork(c.ctx, store.ForkParams{Namespace: c.ns, ID: run.Run.ID, New: store.NewID(), Now: c.now})
			c.ok("Fork", first(err, res.Err))
		}, []store.Hint{c.queueHint(aQueue)}
	}},
	{"fire", "Fire, of a run", "queue", func(c *C) (func(), []store.Hint) {
		c.putSchedule(c.schedule("s"))
		run := fill(store.NewRun{})
		return func() { c.mustFire(store.FireParams{Schedule: "s", At: c.now, Next: c.now.Add(time.Hour), Run: &run}) }, []store.Hint{c.queueHint(aQueue)}
	}},
	{"put-schedule", "PutSchedule", "rescan", func(c *C) (func(), []store.Hint) {
		return func() { c.putSchedule(c.schedule("s")) }, []store.Hint{{Kind: store.HintRescan}}
	}},
	{"unpause-queue", "PauseTarget with Resume, of a queue", "queue", func(c *C) (func(), []store.Hint) {
		c.setPaused(aQueue, "", true)
		return func() { c.setPaused(aQueue, "", false) }, []store.Hint{c.queueHint(aQueue)}
	}},
	{"unpause-workflow", "PauseTarget with Resume, of a workflow", "rescan", func(c *C) (func(), []store.Hint) {
		c.setPaused("", aWorkflow, true)
		return func() { c.setPaused("", aWorkflow, false) }, []store.Hint{{Kind: store.HintRescan}}
	}},
	{"ask", "AskWorkers, that asks one", "rescan", func(c *C) (func(), []store.Hint) {
		c.putWorker(store.Worker{ID: aWorker, TTL: time.Hour, Answers: time.Minute})
		c.advance(time.Minute)
		return func() { c.eq("asked", c.ask(time.Minute), 1) }, []store.Hint{{Kind: store.HintRescan}}
	}},
	{"free", "Commit, Free, of a run that has permits of a step", "queue", func(c *C) (func(), []store.Hint) {
		run := c.start()
		c.commit(store.Commit{Lease: run.Lease, Transition: &store.Transition{Kind: store.Release, Under: use("step", "k")}})
		run = c.claimAll(1)[0]
		return func() { c.commit(store.Commit{Lease: run.Lease, Free: true}) }, []store.Hint{c.queueHint(aQueue)}
	}},
	{"end-under-limit", "the end of a lease under limits, however", "queue", func(c *C) (func(), []store.Hint) {
		run := c.takes("the claim", 1, c.createUnder(use("one", "k"))...)[0]
		return func() { c.end(run, &store.Transition{Kind: store.Sleep, Wakes: store.WakeSignal}) }, []store.Hint{c.queueHint(aQueue)}
	}},
	{"complete-under-limit", "Commit, CompleteRun, of a run under limits", "final, queue", func(c *C) (func(), []store.Hint) {
		run := c.takes("the claim", 1, c.createUnder(use("one", "k"))...)[0]
		return func() { c.end(run, complete("")) }, append(c.runHints(store.HintFinal, run.Run.ID), c.queueHint(aQueue))
	}},
	{"put-limits", "PutLimits, that changes a rule", "rescan", func(c *C) (func(), []store.Hint) {
		return func() { c.putLimit("one", oneAtATime) }, []store.Hint{{Kind: store.HintRescan}}
	}},
	{"set-limit", "SetLimit, that changes a rule", "rescan", func(c *C) (func(), []store.Hint) {
		return func() { c.setLimit("one", &oneAtATime) }, []store.Hint{{Kind: store.HintRescan}}
	}},
}

// tree creates a leased parent of three children: one that has not begun, one that sleeps and has
// recorded a step, and one that is leased. want contains the hints of the first two when they are
// canceled; the third is held.
func (c *C) tree() (parent store.ClaimedRun, held store.ID, want []store.Hint) {
	c.Helper()
	children := kids(3)
	parent = c.start()
	c.commit(store.Commit{Lease: parent.Lease, Spawn: children[:1]})
	asleep := c.claimKid()
	c.commit(store.Commit{Lease: asleep.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Transition: sleepFor(time.Hour)})
	c.commit(store.Commit{Lease: parent.Lease, Spawn: children[1:2]})
	held = c.claimKid().Run.ID
	c.commit(store.Commit{Lease: parent.Lease, Spawn: children[2:]})
	want = append(c.runHints(store.HintFinal, children[2].ID), c.runHints(store.HintEvent, asleep.Run.ID)...)
	return parent, held, append(want, c.queueHint(kidQueue))
}
