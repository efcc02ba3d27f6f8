package enginetier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// marks is a workflow of steps whose outputs are always different, and whose output consists of
// them: what it returns shows whether it is what was recorded.
func marks(n int, ran *tally, before func(ctx context.Context, step int) error) *workflow.Workflow[int, []string] {
	return workflow.New("marks", func(ctx workflow.Context, in int) (out []string, err error) {
		for i := range n {
			mark, err := workflow.Step(ctx, fmt.Sprint("step-", i), func(ctx context.Context) (string, error) {
				if before != nil {
					if err := before(ctx, i); err != nil {
						return "", err
					}
				}
				return fmt.Sprintf("run %d, step %d, execution %d", in, i, ran.add(fmt.Sprint(in, "/", i))), nil
			}, workflow.Attempts(1))
			if err != nil {
				return nil, err
			}
			out = append(out, mark)
		}
		return out, nil
	})
}

// consistent checks that a run completed and that its output is what its steps have
// recorded.
func (e *E) consistent(h workflow.Handle[[]string], steps int) {
	e.Helper()
	run := e.until(h.ID(), store.Completed)
	var out []string
	e.ok("output", e.eng.Codec().Unmarshal(run.Output, &out))
	var recorded []string
	list, err := e.eng.Steps(e.ctx, h.ID())
	e.ok("steps", err)
	for _, s := range list {
		if s.Kind != store.KindFunction {
			continue
		}
		var mark string
		e.ok("output of step "+s.StepKey.String(), e.eng.Codec().Unmarshal(s.Output, &mark))
		recorded = append(recorded, mark)
	}
	e.eq(fmt.Sprintf("recorded steps of run %v", h.ID()), len(recorded), steps)
	e.check(slices.Equal(out, recorded), "run %v returned\n\t%q\nand has recorded\n\t%q", h.ID(), out, recorded)
}

// outage makes calls of the process fail for a moment, at least one of them, and one of the verbs
// if there are any.
func (p *proc) outage(verbs ...string) {
	failed := make(chan struct{})
	fail := sync.OnceFunc(func() { close(failed) })
	p.wire.set(wireDown)
	p.wire.hook(func(verb string) {
		if len(verbs) == 0 || slices.Contains(verbs, verb) {
			fail()
		}
	})
	receive(p.e, "a call during the outage", failed)
	pause(p.e)
	p.wire.set(wireUp)
}

// calledAfter waits for a call of the verb that is made after do.
func (w *wire) calledAfter(verb string, do func()) {
	called := make(chan struct{})
	call := sync.OnceFunc(func() { close(called) })
	w.mu.Lock()
	w.after = func(v string) {
		if v == verb {
			call()
		}
	}
	w.mu.Unlock()
	do()
	<-called
}

// rewinding leaves a case out if the harness cannot restore a database.
func rewinding(run func(e *E)) func(e *E) {
	return func(e *E) {
		if e.h.Rewind != nil {
			run(e)
		}
	}
}

// answersTake lets a worker whose store takes that long for each answer execute three runs: one
// that loses a commit, one that waits in a step, and one that is started meanwhile.
func (e *E) answersTake(late time.Duration) {
	e.Helper()
	const steps = 2
	var ran tally
	blocked, goOn := make(chan struct{}, 9), make(chan struct{})
	wf := marks(steps, &ran, nil)
	waits := workflow.New("waits", func(ctx workflow.Context, _ int) (int, error) {
		if _, _, err := counted.Get(ctx); err != nil { // asks the store
			return 0, err
		}
		return 1, workflow.Do(ctx, "wait", func(ctx context.Context) error {
			select {
			case blocked <- struct{}{}:
			default:
			}
			select {
			case <-goOn:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	p := e.build(defs(wf, waits))
	var done atomic.Bool
	p.wire.forget(func(c *store.Commit) bool {
		return c.Seq == 1 && c.Transition == nil && done.CompareAndSwap(false, true)
	})
	p.wire.answerLate(e.ofLease(late))
	h := start(e, wf, 0)
	p.run()
	e.consistent(h, steps)
	e.check(done.Load(), "no commit was lost")

	waiting := start(e, waits, 0)
	receive(e, "the step that waits", blocked)
	e.consistent(start(e, wf, 1), steps)
	close(goOn)
	e.eq("output of the run that waited", result(e, waiting), 1)
	run, err := e.eng.Get(e.ctx, waiting.ID())
	e.ok("get", err)
	e.eq("epoch of the run that waited, whose lease was renewed in time", run.Epoch, int64(1))
	p.wire.answerLate(0)
	p.stop()
}

// lostCommitDuringClaim lets a worker lose the claim of a run. The first commit under the lost claim arrives
// after the worker has claimed the run again, and is answered before that claim is.
func lostCommitDuringClaim(e *E) {
	log := &lines{}
	e.opts = []engine.Option{engine.Logger(slog.New(slog.NewTextHandler(log, nil)))}
	var ran tally
	blocked, goOn := make(chan struct{}, 9), make(chan struct{})
	wf := marks(2, &ran, func(_ context.Context, step int) error {
		if step == 0 && ran.add("block") == 1 {
			blocked <- struct{}{}
			<-goOn
		}
		return nil
	})
	p := e.build(defs(wf))
	h := start(e, wf, 0)
	back := e.h.Rewind(e.TB, e.s)
	p.run()
	receive(e, "the first step", blocked)

	once := func() (<-chan struct{}, func()) {
		ch := make(chan struct{})
		return ch, sync.OnceFunc(func() { close(ch) })
	}
	extended, extend := once()
	sent, send := once()
	claimed, claim := once()
	answered, answer := once()
	wait := func(ch <-chan struct{}) {
		select {
		case <-ch:
		case <-e.ctx.Done():
		}
	}
	p.wire.mu.Lock()
	p.wire.before = func(verb string) {
		switch verb {
		case "claim":
			wait(extended)
		case "extend":
			wait(sent) // the lease is said to be lost when the commit is under way
		case "commit":
			send()
			wait(claimed)
		}
	}
	p.wire.after = func(verb string) {
		switch verb {
		case "extend":
			extend()
		case "commit":
			answer()
		case "claim":
			claim()
			wait(answered)
			for len(log.with("lease is lost")) == 0 && e.ctx.Err() == nil {
				pause(e)
			}
			pause(e) // the worker has the answer to the commit
		}
	}
	p.wire.mu.Unlock()
	receive(e, "the end of the calls under way", p.wire.silence())
	back()
	close(goOn)
	e.consistent(h, 2)
	// Elsewhere the calls may take longer than a lease.
	e.check(!e.h.Bubble || len(log.with("the database has lost its claim")) == 1, "the lease did not come back:\n%s", strings.Join(log.with(""), "\n"))
}

var lostEngineCases = []Case{
	{Name: "lost/commit", Promise: "P2", Rule: "A worker whose store has lost a commit gives the run up; the next worker that claims it continues from what the store has.", Run: func(e *E) {
		const steps = 4
		for lose := int64(1); lose < steps; lose++ {
			var ran tally
			wf := marks(steps, &ran, nil)
			p := e.build(defs(wf))
			var done atomic.Bool
			p.wire.forget(func(c *store.Commit) bool {
				return c.Seq == lose && c.Transition == nil && done.CompareAndSwap(false, true)
			})
			h := start(e, wf, int(lose))
			p.run()
			e.consistent(h, steps)
			e.check(done.Load(), "commit %d was not made", lose)
			// Its memory was correct up to the commit after the lost one.
			for i := range steps {
				want := 1
				if int64(i) == lose-1 || int64(i) == lose {
					want = 2
				}
				e.eq(fmt.Sprintf("executions of step %d, commit %d having been lost", i, lose), ran.get(fmt.Sprint(lose, "/", i)), want)
			}
			p.stop()
		}
	}},
	{Name: "lost/commit-of-a-branch", Promise: "P2", Rule: "A commit that was lost ends all branches of its run. A step that ignores its context does not keep the lease.", Run: func(e *E) {
		var ran tally
		deaf := make(chan struct{})
		hear := sync.OnceFunc(func() { close(deaf) })
		defer hear()
		begun := make(chan struct{})
		begin := sync.OnceFunc(func() { close(begun) })
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			g := workflow.NewGroup(ctx)
			g.Go("deaf", func(ctx workflow.Context) error {
				return workflow.Do(ctx, "deaf", func(context.Context) error {
					first := ran.add("deaf") == 1
					begin()
					if first {
						<-deaf
					}
					return nil
				})
			})
			g.Go("other", func(ctx workflow.Context) error {
				for _, name := range []string{"one", "two", "three"} {
					if err := workflow.Do(ctx, name, func(context.Context) error {
						<-begun // a deaf step that begins after the loss is kept
						ran.add(name)
						return nil
					}); err != nil {
						return err
					}
				}
				return nil
			})
			return 1, g.Wait()
		})
		p := e.build(defs(wf))
		var done atomic.Bool
		p.wire.forget(func(c *store.Commit) bool {
			lost := slices.ContainsFunc(c.Steps, func(s store.StepRecord) bool { return s.Name == "one" })
			return lost && c.Transition == nil && done.CompareAndSwap(false, true)
		})
		h := start(e, wf, 0)
		p.run()
		e.eq("output", result(e, h), 1)
		hear()
		e.eq("executions of one", ran.get("one"), 2)
		e.eq("steps", len(e.steps(h.ID())), 4)
	}},
	{Name: "lost/slow-answers", Promise: "P6", Rule: "A worker that gets each answer late, but within its lease, completes its runs: also after it has given one up, and also runs that arrive while it holds another.", Run: func(e *E) {
		e.answersTake(leaseFor * 7 / 10)
		if e.h.Bubble { // elsewhere the machine uses part of the remaining time
			e.answersTake(leaseFor * 9 / 10)
		}
	}},
	{Name: "lost/slow-for-a-while", Promise: "P6", Rule: "A worker whose answers arrive later than its leases last holds no run forever: once they arrive in time, it continues both old and new runs.", Run: func(e *E) {
		const steps = 2
		for _, running := range []bool{false, true} {
			var ran tally
			begun, goOn := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(goOn) })
			defer release()
			wf := marks(steps, &ran, func(_ context.Context, step int) error {
				if running && step == 1 && ran.add("block") == 1 {
					close(begun)
					<-goOn
				}
				return nil
			})
			p := e.build(defs(wf))
			hs := []workflow.Handle[[]string]{start(e, wf, 0)}
			if running {
				p.run()
				receive(e, "the second step", begun)
			}
			calls := make(chan struct{}, 100)
			p.wire.hook(func(string) {
				select {
				case calls <- struct{}{}:
				default:
				}
			})
			p.wire.answerLate(e.ofLease(leaseFor * 3 / 2))
			if !running {
				p.run()
			}
			hs = append(hs, start(e, wf, 1))
			for range 12 { // in which it registers, claims, and tries to renew its leases
				receive(e, "a call to the slow store", calls)
			}
			release()
			p.wire.answerLate(0)
			from := time.Now()
			for _, h := range hs {
				e.consistent(h, steps)
			}
			if took := time.Since(from); e.h.Bubble {
				e.check(took <= 4*leaseFor, "the runs were done %v after the store answered in time again, expected at most four leases", took)
			}
			p.stop()
		}
	}},
	{Name: "lost/late-claim", Promise: "P6", Rule: "If the answer to a claim arrives after the leases have ended, its runs are given back before anything of them begins, and are claimed again.", Run: func(e *E) {
		const steps, late = 2, 2
		var ran tally
		wf := marks(steps, &ran, nil)
		lease := min(e.ofLease(leaseFor), 3*time.Second) // a claim is given more time than that
		p := e.build(defs(wf), worker.Lease(lease))
		p.wire.mu.Lock()
		p.wire.after = func(verb string) {
			if verb != "claim" || ran.add(verb) > late {
				return
			}
			timer := time.NewTimer(lease * 3 / 2)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-e.ctx.Done():
			}
		}
		p.wire.mu.Unlock()
		from := time.Now()
		h := start(e, wf, 0)
		p.run()
		e.consistent(h, steps)
		e.eq("executions of the first step", ran.get("0/0"), 1)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		// A claim may find the run locked by the write that gives it back, and return nothing.
		e.check(run.Epoch > 1, "the run was executed under its lease %d, expected one behind the first, which came too late", run.Epoch)
		if e.h.Bubble {
			took := time.Since(from)
			e.check(took <= (late+1)*2*lease, "it took %v, expected two leases for each claim", took)
		}
	}},
	{Name: "lost/refused-is-not", Promise: "P4", Rule: "A commit that the store refuses uses no number: the run fails with the reason, and what it had recorded stays.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			if err := workflow.Do(ctx, "one", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			return 0, workflow.Do(ctx, "two", func(context.Context) error { return nil })
		})
		refuse := &refusing{Store: e.s, name: "two"}
		p := e.build(defs(wf))
		p.wire.Store = refuse
		h := start(e, wf, 0)
		p.run()
		_, err := h.Result(e.ctx)
		var failure *store.Failure
		e.check(errors.As(err, &failure), "saw %v, expected a failure", err)
		run := e.until(h.ID(), store.Failed)
		e.eq("epoch", run.Epoch, int64(1))
		e.eq("steps", len(e.steps(h.ID())), 1)
	}},
	{Name: "lost/recorded", Promise: "P4", Rule: "The number of a transaction's commit shows whether it was applied; if an earlier commit is missing, the lease is lost.", Run: func(e *E) {
		t, ok := e.s.(store.Transactor)
		if !ok || !e.s.Features().Transactions {
			return
		}
		made, err := e.s.Create(e.ctx, store.CreateParams{Namespace: "engine", Runs: []store.NewRun{{ID: store.NewID(), Workflow: "w", Queue: "w", Worker: "the-case", LeaseFor: time.Hour}}})
		e.ok("create", err)
		lease := made[0].Lease
		for last := range int64(3) {
			for seq := int64(1); seq <= 5; seq++ {
				recorded, err := t.Recorded(e.ctx, "engine", lease, seq)
				what := fmt.Sprintf("Recorded(%d) after commit %d", seq, last)
				if seq > last+1 {
					e.check(errors.Is(err, store.ErrLeaseLost), "%s: saw %v, %v, expected ErrLeaseLost", what, recorded, err)
					continue
				}
				e.ok(what, err)
				e.eq(what, recorded, seq <= last)
			}
			res, err := e.s.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{{Lease: lease, Seq: last + 1}}})
			e.ok("commit", err)
			e.ok("commit", res[0].Err)
		}
	}},
	{Name: "lost/claim", Promise: "P2", Rule: "If the database loses a claim and a worker gets the same lease again, the worker gives up what it knew. No commit of the old execution is mistaken for one of the new execution.", Run: rewinding(func(e *E) {
		var ran tally
		blocked, goOn := make(chan struct{}, 9), make(chan struct{})
		wf := marks(3, &ran, func(ctx context.Context, step int) error {
			if step == 1 && ran.add("block") == 1 {
				blocked <- struct{}{}
				<-goOn // ignores its context
			}
			return nil
		})
		p := e.build(defs(wf))
		h := start(e, wf, 0)
		back := e.h.Rewind(e.TB, e.s)
		p.run()
		receive(e, "the second step", blocked)
		back()
		from := time.Now()
		e.consistent(h, 3)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("epoch, that of the lease which came back being 1", run.Epoch, int64(2))
		if e.h.Bubble {
			took := time.Since(from)
			e.check(took < leaseFor, "it took %v, expected less than a lease: the one that came back is released", took)
		}
		before := e.steps(h.ID())
		close(goOn)
		p.stop()
		e.eq("records after the first execution went on", e.steps(h.ID()), before)
	})},
	{Name: "lost/first-commit-after-outage", Promise: "P2", Rule: "After an outage in which the database has lost a claim, the first commit under it is answered before its run is claimed again: it is not applied to a history that lacks what the commit depends on.", Run: rewinding(func(e *E) {
		var ran tally
		blocked, goOn := make(chan struct{}, 9), make(chan struct{})
		wf := marks(3, &ran, func(ctx context.Context, step int) error {
			if step == 1 && ran.add("block") == 1 {
				blocked <- struct{}{}
				<-goOn
			}
			return nil
		})
		p := e.build(defs(wf))
		id := store.NewID()
		input, err := e.eng.Codec().Marshal(7)
		e.ok("marshal", err)
		made, err := e.s.Create(e.ctx, store.CreateParams{Namespace: "engine", Runs: []store.NewRun{{
			ID: id, Workflow: wf.Name(), Queue: wf.Queue(), Input: input, Worker: "another", LeaseFor: e.d(2 * time.Second),
		}}})
		e.ok("create", err)
		back := e.h.Rewind(e.TB, e.s)
		// Another worker records a step, which is lost together with this worker's claim.
		mark, err := e.eng.Codec().Marshal("of another worker")
		e.ok("marshal", err)
		first := store.StepRecord{StepKey: store.StepKey{Name: "step-0", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepCompleted, Position: 1, Attempt: 1, Output: mark}
		res, err := e.s.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{{Lease: made[0].Lease, Seq: 1, Steps: []store.StepRecord{first}}}})
		e.ok("commit", err)
		e.ok("commit", res[0].Err)
		p.run()
		receive(e, "the second step", blocked)

		p.wire.set(wireDown)
		tried, claimed := make(chan struct{}), make(chan struct{})
		try, claim := sync.OnceFunc(func() { close(tried) }), sync.OnceFunc(func() { close(claimed) })
		p.wire.hook(func(verb string) {
			if verb == "commit" {
				try()
			}
		})
		close(goOn)
		receive(e, "a commit while the database is away", tried)
		p.wire.mu.Lock()
		p.wire.before = func(verb string) {
			if verb == "commit" { // slower than any claim
				timer := time.NewTimer(e.d(5 * time.Second))
				defer timer.Stop()
				select {
				case <-claimed:
				case <-timer.C:
				}
			}
		}
		p.wire.after = func(verb string) {
			if verb == "claim" {
				claim()
			}
		}
		p.wire.mu.Unlock()
		receive(e, "the end of the calls under way, as with the connections of a server that is gone", p.wire.silence())
		back()
		p.wire.set(wireUp)
		e.consistent(wf.Handle(e.eng, id), 3)
	})},
	{Name: "lost/commit-during-claim", Promise: "P2", Rule: "If the database has lost a claim, and a commit under it is applied between the next claim of the same lease and the answer to that claim, the claim's history is not used: it lacks what the commit has recorded.", Run: rewinding(lostCommitDuringClaim)},
	{Name: "lost/event", Promise: "P5", Rule: "If the database loses an event that a run in memory has seen, the run does not mistake the next event for it.", Run: rewinding(func(e *E) {
		other, wanted := workflow.NewSignal[int]("other"), workflow.NewSignal[int]("wanted")
		var ran tally
		held, goOn := make(chan struct{}, 9), make(chan struct{})
		release := sync.OnceFunc(func() { close(goOn) })
		defer release()
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			g := workflow.NewGroup(ctx)
			g.Go("hold", func(ctx workflow.Context) error {
				return workflow.Do(ctx, "hold", func(context.Context) error {
					if ran.add("hold") == 1 {
						held <- struct{}{}
						<-goOn
					}
					return nil
				})
			})
			n, err := wanted.Receive(ctx)
			return n, errors.Join(err, g.Wait())
		})
		p := e.build(defs(wf))
		h := start(e, wf, 0)
		p.run()
		receive(e, "the step", held)
		back := e.h.Rewind(e.TB, e.s)
		p.wire.calledAfter("inbox", func() { e.ok("send", other.Send(e.ctx, e.eng, h.ID(), 1)) })
		back()
		p.outage()
		p.wire.calledAfter("extend", func() {})
		e.ok("send", wanted.Send(e.ctx, e.eng, h.ID(), 7))
		release()
		e.eq("output", result(e, h), 7)
	})},
	{Name: "lost/end", Promise: "P2", Rule: "If the database loses the end of a run, the process that has executed the run reports the end that is recorded next, after the worker has noticed that the store was interrupted.", Run: rewinding(func(e *E) {
		var ran tally
		wf := marks(1, &ran, nil)
		p := e.build(defs(wf))
		h := wf.Handle(p.eng, start(e, wf, 0).ID())
		back := e.h.Rewind(e.TB, e.s)
		p.run()
		e.eq("output", result(e, h), []string{"run 0, step 0, execution 1"})
		back()
		p.outage("claim", "extend")
		e.eq("output after the end was lost", result(e, h), []string{"run 0, step 0, execution 2"})
		e.consistent(h, 1)
	})},
	{Name: "lost/end-and-hints", Promise: "P2", Rule: "A process also notices that its database may have lost the end of a run when the store's hints were interrupted, although no call has failed.", Run: rewinding(func(e *E) {
		var ran tally
		wf := marks(1, &ran, nil)
		p := e.build(defs(wf))
		h := wf.Handle(p.eng, start(e, wf, 0).ID())
		back := e.h.Rewind(e.TB, e.s)
		p.run()
		e.eq("output", result(e, h), []string{"run 0, step 0, execution 1"})
		back()
		for result(e, h)[0] != "run 0, step 0, execution 2" {
			p.wire.rescan()
			pause(e)
		}
	})},
	{Name: "lost/end-and-worker", Promise: "P2", Rule: "A process whose worker has ended asks the store how a run ended: nothing tells it what the database has lost.", Run: rewinding(func(e *E) {
		var ran tally
		wf := marks(1, &ran, nil)
		p := e.build(defs(wf))
		defer p.eng.Close()
		h := wf.Handle(p.eng, start(e, wf, 0).ID())
		back := e.h.Rewind(e.TB, e.s)
		_, err := p.worker.RunUntilIdle(e.ctx)
		e.ok("RunUntilIdle", err)
		e.eq("output", result(e, h), []string{"run 0, step 0, execution 1"})
		back()
		e.process(defs(wf))
		e.eq("output after the end was lost", result(e, h), []string{"run 0, step 0, execution 2"})
	})},
	{Name: "lost/registration", Promise: "P2", Rule: "A worker whose workflows the database has forgotten registers them again after the outage.", Run: rewinding(func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		back := e.h.Rewind(e.TB, e.s)
		p := e.process(defs(wf))
		// known asks an engine that has no memory.
		known := func() bool {
			eng := engine.New(newWire(e.s), engine.Namespace("engine"), engine.Logger(quiet))
			defer eng.Close()
			_, err := eng.Start(e.ctx, "wf", nil)
			return err == nil
		}
		for !known() {
			pause(e)
		}
		p.wire.set(wireDown) // a call that the restore makes fail is an outage, too
		back()
		e.check(!known(), "the workflow is known, expected it to be lost")
		p.outage()
		for !known() {
			pause(e)
		}
	})},
	{Name: "lost/rewind", Promise: "P2", Rule: "If a database is restored to an earlier state under its workers, every run that it then has completes, with the outputs that are recorded.", Run: rewinding(func(e *E) {
		const runs, steps = 30, 6
		var ran tally
		var total atomic.Int64
		wf := marks(steps, &ran, func(ctx context.Context, _ int) error {
			total.Add(1)
			timer := time.NewTimer(e.d(200 * time.Millisecond))
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		first, second := e.build(defs(wf)), e.build(defs(wf))
		hs := startN(e, wf, runs)
		first.run()
		second.run()
		reached := func(n int64) {
			for total.Load() < n {
				pause(e)
			}
		}
		for round := range int64(3) {
			reached(40 * round)
			back := e.h.Rewind(e.TB, e.s)
			reached(40*round + 25)
			back()
		}
		for _, h := range hs {
			e.consistent(h, steps)
		}
	})},
}

// refusing refuses the commits that record a step of that name.
type refusing struct {
	store.Store
	name string
}

func (r *refusing) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	out, err := make([]store.CommitResult, len(p.Commits)), error(nil)
	for i, c := range p.Commits {
		if slices.ContainsFunc(c.Steps, func(s store.StepRecord) bool { return s.Name == r.name }) {
			out[i].Err = store.Invalid("step", "the case refuses it")
			continue
		}
		q := p
		q.Commits = []store.Commit{c}
		var res []store.CommitResult
		if res, err = r.Store.Commit(ctx, q); err != nil {
			return nil, err
		}
		out[i] = res[0]
	}
	return out, nil
}
