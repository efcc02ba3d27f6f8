package storetier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/faults"
	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/store"
)

// transactor returns the store's Transactor, or skips the case.
func (c *C) transactor() store.Transactor {
	c.Helper()
	if len(c.h.Transactions) == 0 || !c.s.Features().Transactions {
		c.Skip("the backend has no transactions, or the harness no kinds of them")
	}
	t, ok := c.s.(store.Transactor)
	if !ok {
		c.Fatalf("Features().Transactions: saw true, but the store is no Transactor")
	}
	return t
}

// eachKind runs a part of a case for each kind of transaction that fits, in a namespace of its own.
func (c *C) eachKind(fits func(k *harness.TxKind) bool, run func(t store.Transactor, k *harness.TxKind)) {
	c.Helper()
	t, ns, some := c.transactor(), c.ns, false
	for i := range c.h.Transactions {
		if k := &c.h.Transactions[i]; fits(k) {
			some, c.ns = true, ns+"/"+k.Name
			run(t, k)
		}
	}
	if c.ns = ns; !some {
		c.Skip("no kind of transaction of the harness fits")
	}
}

func ofPrograms(k *harness.TxKind) bool { return k.Begin != nil }
func ofSteps(k *harness.TxKind) bool    { return k.Step != nil }

// marked reports a marker that exists a different number of times.
func (c *C) marked(what string, k *harness.TxKind, marker string, want int) {
	c.Helper()
	n, err := k.Marked(c.ctx, c.s, marker)
	c.ok("Marked", err)
	c.eq(what+": rows that the transaction has written", n, want)
}

// newMarker returns a new unique marker.
func newMarker() string { return store.NewID().String() }

// at makes the case's helpers use another handle.
func (c *C) at(s store.Store, do func()) {
	usual := c.s
	defer func() { c.s = usual }()
	c.s = s
	do()
}

// join begins a program's transaction that writes a marker, and joins it.
func (c *C) join(t store.Transactor, k *harness.TxKind, marker string) (harness.ProgramTx, store.Store) {
	c.Helper()
	tx, err := k.Begin(c.ctx, c.s)
	c.ok("begin of a program's transaction", err)
	c.ok("its own write", tx.Mark(c.ctx, marker))
	c.Cleanup(func() { _ = tx.Rollback() }) // of a case that fails before the end
	in, err := t.Join(tx.Tx)
	c.ok("Join", err)
	return tx, in
}

// stepTx is a step's transaction that has written a marker.
type stepTx struct {
	store.Transaction
	marker string
}

// startAndCancel starts runs under a limit in a transaction and cancels some, as script says, and claims the others after it.
func (c *C) startAndCancel(t store.Transactor, k *harness.TxKind, how func(store.NewRun) store.NewRun, script string, after time.Duration) {
	c.Helper()
	key := store.NewID().String()
	start := func(n int) []store.ID {
		var runs []store.NewRun
		for range n {
			runs = append(runs, how(fill(store.NewRun{Under: use("l", key), After: after})))
		}
		ids := c.createAll(runs...)
		slices.SortFunc(ids, byID)
		return ids
	}
	var old []store.ID
	rest, before := strings.CutPrefix(script, "/")
	if before {
		old = start(1)
	}
	tx, in := c.join(t, k, newMarker())
	c.at(in, func() {
		for _, what := range rest {
			if what == '-' {
				c.cancel(old[0])
				old = old[1:]
				continue
			}
			c.advance(time.Microsecond)
			old = append(old, start(map[rune]int{'+': 1, '=': 2}[what])...)
		}
	})
	c.ok("commit", tx.Commit())
	if after > 0 {
		c.eq("runs before the time", runIDs(c.claimN(9)), []store.ID{})
		c.advance(after)
	}
	c.finish(c.takes("runs after "+script, 9, old...))
}

func (c *C) stepTx(t store.Transactor, k *harness.TxKind) stepTx {
	c.Helper()
	target, mark := k.Step()
	tx, err := t.Begin(c.ctx, target)
	c.ok("Begin", err)
	c.Cleanup(tx.Rollback) // of a case that fails before the end
	marker := newMarker()
	c.ok("the step's own write", mark(c.ctx, marker))
	return stepTx{tx, marker}
}

// end commits a step's transaction and returns its error, of either kind.
func (tx stepTx) end(c *C, ns string, cm store.Commit) error {
	res, err := tx.Commit(c.ctx, ns, cm)
	return errors.Join(err, res.Err)
}

// stepCommit records a step as the first commit of a lease.
func stepCommit(l store.Lease) store.Commit {
	return store.Commit{Lease: l, Seq: 1, Steps: []store.StepRecord{step(1, "a", "out")}}
}

// losses are the ways in which a lease is lost. Each leaves its holder with the number
// of its next commit.
var losses = []struct {
	name string
	lose func(c *C, run store.ClaimedRun) (seq int64)
}{
	{"taken over", func(c *C, _ store.ClaimedRun) int64 {
		c.advance(2 * aLease)
		c.claim1As("other")
		return 1
	}},
	{"taken over and extended", func(c *C, _ store.ClaimedRun) int64 {
		c.advance(2 * aLease)
		c.extend(c.claim1As("other").Lease)
		return 1
	}},
	{"claimed again by the same worker", func(c *C, _ store.ClaimedRun) int64 {
		c.advance(2 * aLease)
		c.claim1()
		return 1
	}},
	{"released", func(c *C, run store.ClaimedRun) int64 {
		c.end(run, release())
		return 2
	}},
	{"finished", func(c *C, run store.ClaimedRun) int64 {
		c.end(run, complete(""))
		return 2
	}},
	{"canceled by force", func(c *C, run store.ClaimedRun) int64 {
		c.force(run.Run.ID)
		return 1
	}},
	{"restarted", func(c *C, run store.ClaimedRun) int64 {
		c.end(run, failWith("x"))
		c.ok("Restart", itemErr(c.s.Restart(c.ctx, store.RestartParams{Namespace: c.ns, IDs: []store.ID{run.Run.ID}, Now: c.now})))
		return 2
	}},
	{"purged", func(c *C, run store.ClaimedRun) int64 {
		c.force(run.Run.ID)
		_, err := c.s.Purge(c.ctx, store.PurgeParams{Namespace: c.ns, Now: c.now.Add(time.Hour)})
		c.ok("Purge", err)
		return 1
	}},
}

// zombie ends a step's transaction under a lease that was lost, before it began or in the meantime.
func (c *C) zombie(t store.Transactor, k *harness.TxKind, what string, lose func(c *C, run store.ClaimedRun) int64, meanwhile bool) {
	c.Helper()
	run := c.start()
	seq := int64(0)
	if !meanwhile {
		seq = lose(c, run)
	}
	tx := c.stepTx(t, k)
	if meanwhile {
		seq = lose(c, run)
	}
	before := c.row(run.Run.ID)
	cm := stepCommit(run.Lease)
	cm.Seq = seq
	cm.State = []store.StateWrite{{Key: "k", Value: []byte("v")}}
	c.fails("commit of a step's transaction under a lease that was "+what, tx.end(c, c.ns, cm), store.ErrLeaseLost)
	tx.Rollback()
	c.marked("lease "+what, k, tx.marker, 0)
	c.eq("the run", c.row(run.Run.ID), before)
	_, err := t.Recorded(c.ctx, c.ns, run.Lease, seq)
	c.fails("Recorded for a lease that was "+what, err, store.ErrLeaseLost)
}

// unheard checks that no hint of a run or a queue arrives before those of a later write.
func (c *C) unheard(ch <-chan []store.Hint, what string, never func(h store.Hint) bool) {
	c.Helper()
	const behind = "behind"
	c.create(store.NewRun{Queue: behind})
	ctx, cancel := context.WithTimeout(c.ctx, hintTimeout)
	defer cancel()
	for {
		select {
		case batch := <-ch:
			c.check(!slices.ContainsFunc(batch, never), "hints: saw %+v of %s", batch, what)
			if slices.ContainsFunc(batch, func(h store.Hint) bool { return h.Queue == behind || h.Kind == store.HintRescan }) {
				return
			}
		case <-ctx.Done():
			c.Fatalf("hints: saw nothing of a later write for %v", hintTimeout)
		}
	}
}

// silent checks that no hint has arrived yet.
func (c *C) silent(ch <-chan []store.Hint, what string, never func(h store.Hint) bool) {
	c.Helper()
	for {
		select {
		case batch := <-ch:
			c.check(!slices.ContainsFunc(batch, never), "hints: saw %+v of %s", batch, what)
		default:
			return
		}
	}
}

var txCases = []Case{
	{"tx/join-commits", "P3", "what any verb writes in a program's transaction is visible only inside it, and to all once it has committed", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) { c.everyVerbIn(t, k, true) })
	}},
	{"tx/join-rolls-back", "P3", "what any verb writes in a program's transaction is discarded when it rolls back", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) { c.everyVerbIn(t, k, false) })
	}},
	{"tx/join-refused", "P16", "a transaction of another backend is ErrInvalid; closing the store inside a transaction does nothing", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) {
			_, err := t.Join(foreignTx{})
			c.fails("Join of a transaction of another backend", err, store.ErrInvalid)
			marker := newMarker()
			tx, in := c.join(t, k, marker)
			c.ok("Close inside", in.Close())
			var id store.ID
			c.at(in, func() { id = c.create(store.NewRun{}) })
			c.ok("commit", tx.Commit())
			c.status(id, store.Pending)
			c.marked("after Close inside", k, marker, 1)
		})
	}},
	{"tx/join-hints", "", "hints of what is written in a program's transaction go out when it commits, and never when it rolls back", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) {
			ch := c.hints(c.s)
			within := func(queue string) func(h store.Hint) bool {
				return func(h store.Hint) bool { return h.Namespace == c.ns && h.Queue == queue }
			}
			tx, in := c.join(t, k, newMarker())
			c.at(in, func() { c.create(store.NewRun{Queue: "undone"}) })
			c.ok("rollback", tx.Rollback())
			c.unheard(ch, "a transaction that was rolled back", within("undone"))
			tx, in = c.join(t, k, newMarker())
			c.at(in, func() { c.create(store.NewRun{Queue: "done"}) })
			c.silent(ch, "a transaction that has not committed", within("done"))
			c.ok("commit", tx.Commit())
			c.hinted(ch, store.Hint{Kind: store.HintQueue, Namespace: c.ns, Queue: "done"})
		})
	}},
	{"tx/debounce", "P28", "a start that replaces in a program's transaction is seen when that commits, and never if it rolls back: the run goes on with the input of before", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) {
			key := newMarker()
			id := c.makes(debounced(key, "first"))
			tx, in := c.join(t, k, newMarker())
			c.at(in, func() { c.replaces(id, debounced(key, "undone")) })
			c.bytes("input while the transaction is open", c.get(id).Input, []byte("first"))
			c.ok("rollback", tx.Rollback())
			c.bytes("input after the rollback", c.get(id).Input, []byte("first"))
			tx, in = c.join(t, k, newMarker())
			other := debounced(key+" of the transaction", "one")
			second := debounced(key, "second")
			c.at(in, func() {
				c.replaces(id, second)
				c.makes(other)
				c.replaces(other.ID, debounced(other.Debounce, "two"))
			})
			c.ok("commit", tx.Commit())
			c.bytes("input after the commit", c.get(id).Input, []byte("second"))
			c.bytes("input of the run that the transaction has made", c.get(other.ID).Input, []byte("two"))
			c.replaces(id, second)
			c.tryCancel(id, other.ID)
		})
	}},
	{"tx/claim-waits-for-none", "P18", "a claim waits for no transaction: a run that an open transaction has written to is skipped, and claimed later", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) {
			if k.Alone {
				return // all writers wait while a transaction is open
			}
			held := c.create(store.NewRun{})
			tx, in := c.join(t, k, newMarker())
			c.at(in, func() { c.signal(held, "n", "") })
			free := c.create(store.NewRun{})
			ctx, cancel := context.WithTimeout(c.ctx, hintTimeout)
			defer cancel()
			got, err := c.s.Claim(ctx, c.claimParams(store.ClaimParams{Max: 2}))
			c.ok("Claim beside an open transaction", err)
			c.eq("the runs of a claim beside an open transaction", runIDs(got.Runs), []store.ID{free})
			other := c.create(store.NewRun{Workflow: "other"})
			got, err = c.s.Claim(ctx, c.claimParams(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 1, aWorkflow, "other")}}))
			c.ok("Claim of one run of two workflows", err)
			c.eq("the run of such a claim", runIDs(got.Runs), []store.ID{other})
			c.ok("commit", tx.Commit())
			c.eq("the run of a claim after it", c.claim1().Run.ID, held)
		})
	}},
	{"tx/claim-in-order-beside-an-open-one", "P7", "a claim that skips runs to which an open transaction has written takes the others in their usual order, of each demand at most as many as it asks for", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) {
			if k.Alone {
				return // all writers wait while a transaction is open
			}
			var held, free []store.ID
			for range 2 {
				held = append(held, c.create(store.NewRun{Priority: 9}))
			}
			for _, priority := range []int{1, 5, 3} {
				free = append(free, c.create(store.NewRun{Priority: priority}))
				c.advance(time.Second)
			}
			tx, in := c.join(t, k, newMarker())
			c.at(in, func() {
				for _, id := range held {
					c.signal(id, "n", "")
				}
			})
			ctx, cancel := context.WithTimeout(c.ctx, hintTimeout)
			defer cancel()
			for _, want := range []store.ID{free[1], free[2]} {
				got, err := c.s.Claim(ctx, c.claimParams(store.ClaimParams{Demands: []store.Demand{demand(aQueue, 1, aWorkflow)}}))
				c.ok("Claim beside an open transaction", err)
				c.eq("the run of a claim beside an open transaction", runIDs(got.Runs), []store.ID{want})
			}
			c.ok("commit", tx.Commit())
			c.eq("the runs of a claim after it", runIDs(c.claimN(3)), append(held, free[0]))
		})
	}},
	{"tx/starts-and-cancels-under-limits", "P24", "runs under a limit that a transaction has started go after it, whichever others of the same key it has started and canceled", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) {
			for _, how := range eachStart {
				for _, script := range []string{"+++--", "+++--++-", "+-++-", "++-+-+", "+-+", "+-=-", "=--+=-", "/-++-+", "/+++---", "/+-++-", "/-=--="} { // +: start, =: start two, -: cancel the oldest, /: before it
					for _, after := range []time.Duration{0, time.Minute} {
						c.startAndCancel(t, k, how, script, after)
					}
				}
			}
		})
	}},
	{"tx/claim-under-limits-beside-an-open-one", "P24", "a run under limits to which an open transaction has written takes no permit and no token when a claim skips it, and goes later", func(c *C) {
		c.eachKind(ofPrograms, func(t store.Transactor, k *harness.TxKind) {
			if k.Alone {
				return // all writers wait while a transaction is open
			}
			c.putLimit("one", oneAtATime)
			c.putLimit("hourly", store.LimitRule{Tokens: 1, Per: time.Hour, Burst: 1})
			c.putLimit("shares", store.LimitRule{Concurrency: 1, Fair: true})
			for _, limit := range []string{"one", "hourly", "shares"} {
				key := store.NewID().String()
				ids := c.createUnder([]store.LimitUse{{Limit: limit, Key: key, Tokens: 1}}, []store.LimitUse{{Limit: limit, Key: key, Tokens: 1}})
				tx, in := c.join(t, k, newMarker())
				c.at(in, func() {
					for _, id := range ids {
						c.signal(id, "n", "")
					}
				})
				ctx, cancel := context.WithTimeout(c.ctx, hintTimeout)
				defer cancel()
				for range 2 {
					got, err := c.s.Claim(ctx, c.claimParams(store.ClaimParams{Max: 2}))
					c.ok("Claim beside an open transaction", err)
					c.eq("the runs of a claim beside an open transaction, "+limit, runIDs(got.Runs), []store.ID{})
				}
				c.ok("commit", tx.Commit())
				run := c.claim1()
				c.eq("the run of a claim after it, "+limit, run.Run.ID, ids[0])
				c.eq("the second run meanwhile", len(c.claimN(2)), 0)
				c.end(run, complete(""))
				c.cancel(ids[1])
			}
		})
	}},
	{"tx/step-commits", "P3", "a step's own writes and its record become durable together, with its state and what it has read", func(c *C) {
		c.eachKind(ofSteps, func(t store.Transactor, k *harness.TxKind) {
			id := c.create(store.NewRun{})
			sig := c.signal(id, "n", "")
			run := c.claim1()
			tx := c.stepTx(t, k)
			c.marked("before the commit", k, tx.marker, 0)
			cm := stepCommit(run.Lease)
			cm.State, cm.Consumed, cm.Spawn = []store.StateWrite{{Key: "k", Value: []byte("v")}}, []store.SignalID{sig}, kids(1)
			c.ok("Commit", tx.end(c, c.ns, cm))
			tx.Rollback()
			c.marked("after the commit", k, tx.marker, 1)
			in := c.inbox(id)
			c.eq("steps, entries, children and unread signals", []int{len(c.steps(id)), len(in.State), int(c.group(id).Total), len(in.Signals)}, []int{1, 1, 1, 0})
			// The lease stays valid, and its commits continue.
			c.commit(store.Commit{Lease: run.Lease, Seq: 2, Seen: in.Events, Transition: complete("")})
		})
	}},
	{"tx/step-rolls-back", "P3", "a step's transaction that is rolled back leaves nothing, and its Seq is free", func(c *C) {
		c.eachKind(ofSteps, func(t store.Transactor, k *harness.TxKind) {
			run := c.start()
			tx := c.stepTx(t, k)
			tx.Rollback()
			tx.Rollback()
			c.marked("after the rollback", k, tx.marker, 0)
			recorded, err := t.Recorded(c.ctx, c.ns, run.Lease, 1)
			c.ok("Recorded", err)
			c.eq("Recorded after a rollback", recorded, false)
			tx = c.stepTx(t, k)
			c.ok("Commit", tx.end(c, c.ns, stepCommit(run.Lease)))
			c.marked("the next transaction", k, tx.marker, 1)
		})
	}},
	{"tx/step-refused", "P3", "a commit that is refused leaves nothing of its transaction, and the lease unchanged", func(c *C) {
		c.eachKind(ofSteps, func(t store.Transactor, k *harness.TxKind) {
			var wrong struct{ int }
			_, err := t.Begin(c.ctx, &wrong)
			c.fails("Begin of a type that no driver has", err, store.ErrUnsupported)
			run := c.start()
			big := stepCommit(run.Lease)
			big.Steps[0].Output = make([]byte, c.s.Limits().Payload+1)
			bad := stepCommit(run.Lease)
			bad.Steps[0].Position = 0
			ended := stepCommit(run.Lease)
			ended.Transition = complete("")
			gap := stepCommit(run.Lease)
			gap.Seq = 2
			for _, tt := range []struct {
				what string
				cm   store.Commit
				want error
			}{{"too large", big, store.ErrTooLarge}, {"wrong", bad, store.ErrInvalid}, {"with a transition", ended, store.ErrInvalid}, {"behind a gap", gap, store.ErrLeaseLost}} {
				tx := c.stepTx(t, k)
				c.fails("a commit "+tt.what, tx.end(c, c.ns, tt.cm), tt.want)
				tx.Rollback()
				c.marked("a commit "+tt.what, k, tx.marker, 0)
				c.eq("steps", len(c.steps(run.Run.ID)), 0)
				recorded, err := t.Recorded(c.ctx, c.ns, run.Lease, 1)
				c.ok("Recorded", err)
				c.eq("Recorded after a commit "+tt.what, recorded, false)
			}
			tx := c.stepTx(t, k)
			c.ok("Commit", tx.end(c, c.ns, stepCommit(run.Lease)))
			c.marked("a commit that is right", k, tx.marker, 1)
		})
	}},
	{"tx/zombie", "P2", "the writes of a step whose lease was lost do not commit, however it was lost", func(c *C) {
		c.eachKind(ofSteps, func(t store.Transactor, k *harness.TxKind) {
			ns := c.ns
			for _, l := range losses {
				c.ns = ns + "/" + l.name
				c.zombie(t, k, l.name, l.lose, false)
				if !k.Alone {
					c.ns += "/meanwhile"
					c.zombie(t, k, l.name+" meanwhile", l.lose, true)
				}
			}
			c.ns = ns
			run := c.start()
			for _, l := range []store.Lease{{Run: run.Run.ID, Worker: "other", Epoch: 1}, {Run: run.Run.ID, Worker: aWorker, Epoch: 2}, {Run: store.NewID(), Worker: aWorker, Epoch: 1}} {
				tx := c.stepTx(t, k)
				c.fails("commit under a lease that nobody has", tx.end(c, c.ns, stepCommit(l)), store.ErrLeaseLost)
				tx.Rollback()
				c.marked("under a lease that nobody has", k, tx.marker, 0)
			}
			tx := c.stepTx(t, k)
			c.fails("commit in another namespace", tx.end(c, c.ns+"/other", stepCommit(run.Lease)), store.ErrLeaseLost)
			tx.Rollback()
			c.marked("in another namespace", k, tx.marker, 0)
			// A lease that expired and was not taken over is valid, and so is that of a run that is
			// canceling.
			c.advance(2 * aLease)
			c.eq("status of the run", c.cancel(run.Run.ID), store.Canceling)
			tx = c.stepTx(t, k)
			c.ok("Commit", tx.end(c, c.ns, stepCommit(run.Lease)))
			c.marked("under a lease that ran out", k, tx.marker, 1)
		})
	}},
	{"tx/recorded", "P4", "Recorded says for each commit of a lease whether it was applied, and for a lost lease that it is lost", func(c *C) {
		c.eachKind(ofSteps, func(t store.Transactor, k *harness.TxKind) {
			run := c.start()
			asks := func(what string, seq int64, want bool) {
				c.Helper()
				recorded, err := t.Recorded(c.ctx, c.ns, run.Lease, seq)
				c.ok("Recorded "+what, err)
				c.eq(fmt.Sprintf("Recorded of commit %d %s", seq, what), recorded, want)
			}
			asks("before any", 1, false)
			c.ok("Commit", c.stepTx(t, k).end(c, c.ns, stepCommit(run.Lease)))
			asks("after the first", 1, true)
			asks("after the first", 2, false)
			c.commit(store.Commit{Lease: run.Lease, Seq: 2})
			asks("after the second", 1, true)
			asks("after the second", 2, true)
			asks("after the second", 3, false)
			_, err := t.Recorded(c.ctx, c.ns, run.Lease, 4)
			c.fails("Recorded of a commit whose predecessor is missing", err, store.ErrLeaseLost)
			for what, l := range map[string]store.Lease{
				"another worker's": {Run: run.Run.ID, Worker: "other", Epoch: 1}, "an older one": {Run: run.Run.ID, Worker: aWorker}, "no run's": {Run: store.NewID(), Worker: aWorker, Epoch: 1},
			} {
				_, err = t.Recorded(c.ctx, c.ns, l, 1)
				c.fails("Recorded for a lease that is "+what, err, store.ErrLeaseLost)
			}
			_, err = t.Recorded(c.ctx, c.ns+"/other", run.Lease, 1)
			c.fails("Recorded in another namespace", err, store.ErrLeaseLost)
		})
	}},
	{"tx/step-hints", "", "hints of a step's commit go out when its transaction has committed, and never otherwise", func(c *C) {
		c.eachKind(ofSteps, func(t store.Transactor, k *harness.TxKind) {
			ch := c.hints(c.s)
			run := c.start()
			hint := store.Hint{Kind: store.HintState, Namespace: c.ns, Run: run.Run.ID}
			state := []store.StateWrite{{Key: "k", Value: []byte("v")}}
			cm := store.Commit{Lease: run.Lease, Seq: 2, State: state} // after a gap
			c.fails("a commit behind a gap", c.stepTx(t, k).end(c, c.ns, cm), store.ErrLeaseLost)
			c.unheard(ch, "a transaction that was rolled back", func(h store.Hint) bool { return h == hint })
			tx := c.stepTx(t, k)
			c.silent(ch, "a transaction that has not committed", func(h store.Hint) bool { return h == hint })
			cm.Seq = 1
			c.ok("Commit", tx.end(c, c.ns, cm))
			c.hinted(ch, hint)
		})
	}},
	{"faults/step-commit", "P16", "whatever happens to a step's transaction, either both its writes and its record are durable or neither, an error says what is known, and Recorded says the rest", func(c *C) {
		if c.h.Faults == nil {
			c.Skip("the harness has no Faults")
		}
		c.eachKind(ofSteps, func(t store.Transactor, k *harness.TxKind) {
			fs, ns := c.h.Faults(c.host, c.s), c.ns
			for _, f := range fs.Faults {
				// That an earlier fault has cut a connection may show only when the connection is
				// used.
				for nth, stale := 1, 0; nth <= maxRequests; nth++ {
					c.ns = fmt.Sprintf("%s/%s/%d/%d", ns, f, nth, stale)
					hit, err := c.stepUnder(t, k, fs, f, nth)
					switch {
					case hit:
						stale = 0
						continue
					case errors.Is(err, store.ErrUnavailable) && stale < maxStale:
						stale++
						nth--
						continue
					}
					c.ok(fmt.Sprintf("a step's transaction without any fault, behind request %d %s", nth-1, f), err)
					break
				}
			}
			c.ns = ns
		})
	}},
}

// maxStale is how many connections of a store's pool may have been cut before.
const maxStale = 10

// stepUnder makes a step's transaction from beginning to end, whose nth request has the fault, and
// returns whether there was such a request, and the transaction's error.
func (c *C) stepUnder(t store.Transactor, k *harness.TxKind, fs faults.Store, f faults.Fault, nth int) (hit bool, err error) {
	c.Helper()
	what := fmt.Sprintf("a step's transaction, request %d %s", nth, f)
	run := c.start()
	marker := newMarker()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	answered := make(chan error, 1)
	met, heal := fs.Arm(f, nth)
	own := false // an error of the step's own write
	go func() {
		target, mark := k.Step()
		tx, err := fs.Store.(store.Transactor).Begin(ctx, target)
		if err != nil {
			answered <- err
			return
		}
		defer tx.Rollback()
		if err := mark(ctx, marker); err != nil {
			own = true
			answered <- err
			return
		}
		res, err := tx.Commit(ctx, c.ns, stepCommit(run.Lease))
		answered <- errors.Join(err, res.Err)
	}()
	select {
	case err = <-answered:
	case <-met:
		switch f {
		case faults.Silent:
			cancel()
		case faults.Delayed:
			heal()
		}
		err = <-answered
	}
	heal()
	select {
	case <-met:
		hit = true
	default:
	}
	recorded, failed := t.Recorded(c.ctx, c.ns, run.Lease, 1)
	c.ok(what+": Recorded", failed)
	c.marked(what, k, marker, whether(recorded))
	c.eq(what+": steps", len(c.steps(run.Run.ID)), whether(recorded))
	unavailable, unknown := errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrOutcomeUnknown)
	switch {
	case err == nil:
		c.check(recorded, "%s: saw no error, and nothing is recorded", what)
	case unavailable && unknown:
		c.Errorf("%s: saw %s, which says that nothing was applied and that this is not known", what, show(err))
	case unknown && f == faults.Refused:
		c.Errorf("%s: saw %s, expected an error that matches %q: it is certain that nothing was applied", what, show(err), store.ErrUnavailable)
	case !unknown:
		c.check(!recorded, "%s: saw %s, and it is recorded; expected an error that matches %q", what, show(err), store.ErrOutcomeUnknown)
		c.check(unavailable || own || f == faults.Silent && errors.Is(err, context.Canceled), "%s: saw %s, expected an error that says whether to try again", what, show(err))
	}
	return hit, err
}

// everyVerbIn calls each verb in a program's transaction, which ends as commit says.
func (c *C) everyVerbIn(t store.Transactor, k *harness.TxKind, commit bool) {
	c.Helper()
	ns := c.ns
	if x, ok := c.s.(store.Outboxer); ok {
		// The first subscription of a database may have to wait for the open transactions of other cases.
		_, err := ask(c, x.PutSubscription, store.PutSubscriptionParams{Namespace: ns + "/first", Subscription: store.Subscription{Name: aSub}, Now: c.now})
		c.ok("PutSubscription", err)
	}
	for _, v := range verbsUnderFault {
		c.ns = ns + "/" + v.name
		a := v.prepare(c)
		marker := newMarker()
		tx, in := c.join(t, k, marker)
		if v.needs != nil && !v.needs(in) {
			c.ok("rollback", tx.Rollback())
			continue
		}
		if a.read != nil {
			_, err := a.read(c.ctx, in)
			c.ok(v.name+" inside", err)
			c.ok("rollback", tx.Rollback())
			continue
		}
		_, err := a.call(c.ctx, in)
		c.ok(v.name+" inside", err)
		c.at(in, func() { c.eq(v.name+": effects that the transaction sees", a.effect(), 1) })
		if !a.probes {
			c.eq(v.name+": effects outside of a transaction that is open", a.effect(), 0)
		}
		want := 0
		if commit {
			want = 1
			c.ok("commit", tx.Commit())
		} else {
			c.ok("rollback", tx.Rollback())
		}
		c.eq(v.name+": effects after the end of the transaction", a.effect(), want)
		c.marked(v.name, k, marker, want)
	}
	c.ns = ns
}

// foreignTx is a transaction of a backend that does not exist.
type foreignTx struct{}

func (foreignTx) Backend() string { return "elsewhere" }
