package enginetier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/relay"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// counts returns how many runs the filter selects, by status.
func (e *E) counts(filter store.RunFilter) map[store.Status]int64 {
	e.Helper()
	rows, err := e.eng.Count(e.ctx, filter)
	e.ok("count", err)
	m := make(map[store.Status]int64)
	for _, r := range rows {
		m[r.Status] += r.Count
	}
	return m
}

// says checks that an error is of a kind and names what it is about.
func (e *E) says(what string, err, kind error, words ...string) {
	e.Helper()
	if !errors.Is(err, kind) {
		e.Errorf("%s: saw %v, expected an error that matches %q", what, err, kind)
		return
	}
	for _, w := range words {
		e.check(strings.Contains(err.Error(), w), "%s: the error does not say %q: %v", what, w, err)
	}
}

// family creates a run of a workflow that this case holds itself, with children of another one that
// workers execute.
func (e *E) family(child string, children int) (root store.Lease) {
	e.Helper()
	id := store.NewID()
	const holder, forever = "the-case", 24 * time.Hour
	made, err := e.s.Create(e.ctx, store.CreateParams{Namespace: "engine", Runs: []store.NewRun{{ID: id, Workflow: "root", Queue: "root", Worker: holder, LeaseFor: forever}}})
	e.ok("create of the root", err)
	root = made[0].Lease
	for from, seq := 0, int64(1); from < children; seq++ {
		var spawn []store.NewRun
		for ; from < children && len(spawn) < 250; from++ {
			spawn = append(spawn, store.NewRun{ID: store.DeriveID(id, fmt.Sprint("child-", from)), Workflow: child, Queue: child, Group: "family", Ordinal: int64(from + 1)})
		}
		res, err := e.s.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{{Lease: root, Seq: seq, Spawn: spawn}}})
		e.ok("spawn", err)
		e.ok("spawn", res[0].Err)
	}
	return root
}

var controlEngineCases = []Case{
	{Name: "control/pause-waiting-run", Promise: "P11", Rule: "A run that waits for a worker and is paused is not executed before it is resumed.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		paused := startBefore(e, wf)
		e.ok("pause", e.eng.Pause(e.ctx, paused.ID()))
		e.ok("pause again", e.eng.Pause(e.ctx, paused.ID()))
		e.process(defs(wf))
		e.eq("another run", result(e, start(e, wf, 3)), 3)
		run, err := e.eng.Get(e.ctx, paused.ID())
		e.ok("get", err)
		e.eq("status and claims of the paused run", []any{run.Status, run.Epoch}, []any{store.Paused, int64(0)})
		e.ok("resume", e.eng.Resume(e.ctx, paused.ID()))
		e.eq("output", result(e, paused), 0)
		e.says("pause of a final run", e.eng.Pause(e.ctx, paused.ID()), store.ErrFinished, paused.ID().String(), "completed")
		e.says("resume of a final run", e.eng.Resume(e.ctx, paused.ID()), store.ErrFinished, "resume")
	}},
	{Name: "control/pause-running-run", Promise: "P11", Rule: "A run that is paused while it executes stops after its running step, and later continues without repeating the step.", Run: func(e *E) {
		var ran tally
		at, release := make(chan struct{}, 1), make(chan struct{})
		wf := threeSteps(&ran, func(context.Context) error {
			at <- struct{}{}
			<-release
			return nil
		})
		e.process(defs(wf))
		h := start(e, wf, 5)
		receive(e, "the second step", at)
		e.ok("pause", e.eng.Pause(e.ctx, h.ID()))
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("status and mark in the step", []any{run.Status, run.Pausing}, []any{store.Running, true})
		close(release)
		e.until(h.ID(), store.Paused)
		e.eq("executions", []int{ran.get("one"), ran.get("two"), ran.get("three")}, []int{1, 1, 0})
		e.ok("resume", e.eng.Resume(e.ctx, h.ID()))
		e.eq("output", result(e, h), 15)
		e.eq("executions", []int{ran.get("one"), ran.get("two"), ran.get("three")}, []int{1, 1, 1})
	}},
	{Name: "control/pause-sleeping-run", Promise: "P13", Rule: "A sleeping run that is paused keeps its wake time: resumed after that time, it continues at once.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Sleep(ctx, "nap", e.d(time.Minute))
		})
		e.process(defs(wf))
		h := start(e, wf, 5)
		due := e.until(h.ID(), store.Sleeping).VisibleAt
		e.ok("pause", e.eng.Pause(e.ctx, h.ID()))
		for clock := e.clock(); !clock.After(due.Add(e.d(10 * time.Second))); clock = e.clock() {
			pause(e)
		}
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("status behind its time", run.Status, store.Paused)
		e.ok("resume", e.eng.Resume(e.ctx, h.ID()))
		from := time.Now()
		e.eq("output", result(e, h), 5)
		e.check(!e.h.Bubble || time.Since(from) < 10*time.Second, "it went on %v after it was resumed", time.Since(from))
	}},
	{Name: "control/resume-answer-lost", Promise: "P4", Rule: "A resume whose answer was lost succeeds, also if the run has ended before it is sent again.", Run: func(e *E) {
		wf := workflow.New("wf", func(workflow.Context, int) (int, error) { return 1, nil })
		bridge.Of(e.eng).Know("wf", "wf")
		h := start(e, wf, 0)
		e.ok("pause", e.eng.Pause(e.ctx, h.ID()))
		e.process(defs(wf))
		lost := false
		eng := engine.New(&relay.Relay{Store: e.s, Pass: func(_ context.Context, verb string, _ any, call func() error) error {
			err := call()
			if verb != "Pause" || lost || err != nil {
				return err
			}
			lost = true
			result(e, h)
			return store.ErrOutcomeUnknown
		}}, engine.Namespace("engine"), engine.Logger(quiet))
		defer eng.Close()
		e.ok("resume", eng.Resume(e.ctx, h.ID()))
		e.check(lost, "no answer was lost")
		e.says("resume of a run that has ended", eng.Resume(e.ctx, h.ID()), store.ErrFinished)
	}},
	{Name: "control/recorded-once", Promise: "P30", Rule: "An action of an actor has one record, with its outcome and from where it came, also if its answer was lost; a refused one says so; without an actor there is none.", Run: func(e *E) {
		journal, ok := e.s.(store.Journal)
		if !ok {
			e.Skip("the backend keeps no journal of actions")
		}
		wf := workflow.New("wf", func(workflow.Context, int) (int, error) { return 1, nil })
		bridge.Of(e.eng).Know("wf", "wf")
		h, other := start(e, wf, 0), start(e, wf, 1)
		lost := map[string]bool{}
		eng := engine.New(&relay.Relay{Store: e.s, Pass: func(_ context.Context, verb string, _ any, call func() error) error {
			err := call()
			if verb != "Cancel" && verb != "Restart" || lost[verb] || err != nil {
				return err
			}
			lost[verb] = true
			return store.ErrOutcomeUnknown
		}}, engine.Namespace("engine"), engine.Logger(quiet), engine.Actor("ada@laptop"), engine.From("cli"))
		defer eng.Close()
		e.ok("cancel", eng.Cancel(e.ctx, h.ID(), "why"))
		e.ok("restart", eng.Restart(e.ctx, h.ID()))
		e.says("restart again", eng.Restart(e.ctx, h.ID()), store.ErrConflict)
		e.ok("pause without an actor", e.eng.Pause(e.ctx, other.ID()))
		page, err := journal.ListActions(e.ctx, store.ListActionsParams{Namespace: "engine"})
		e.ok("list", err)
		got := map[string]int{}
		for _, a := range page.Actions {
			got[fmt.Sprintf("%s %s from %s of %v: %s", a.Actor, a.Verb, a.From, a.Run == h.ID(), a.Outcome)]++
		}
		e.eq("actions", got, map[string]int{
			"ada@laptop cancel from cli of true: done": 1, "ada@laptop restart from cli of true: done": 1, "ada@laptop restart from cli of true: refused: conflict": 1,
		})
	}},
	{Name: "control/pause-queue-and-workflow", Promise: "P11", Rule: "Runs of a paused queue or workflow wait, and others continue. Paused targets are listed with the time of the pause.", Run: func(e *E) {
		one := workflow.New("one", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		two := workflow.New("two", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		three := workflow.New("three", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		e.ok("pause of a queue", e.eng.PauseQueue(e.ctx, "one"))
		e.ok("pause of a workflow", e.eng.PauseWorkflow(e.ctx, "two"))
		e.ok("pause of a workflow again", e.eng.PauseWorkflow(e.ctx, "two"))
		e.process(defs(one, two, three))
		first, second := start(e, one, 1), start(e, two, 2)
		e.eq("output of the free one", result(e, start(e, three, 3)), 3)
		list, err := e.eng.Paused(e.ctx)
		e.ok("list of what is paused", err)
		for i := range list {
			e.check(!list[i].Since.IsZero(), "no time since when %v is paused", list[i])
			list[i].Since = time.Time{}
		}
		e.eq("paused", list, []store.PausedTarget{{Workflow: "two"}, {Queue: "one"}})
		e.eq("waiting", e.counts(store.RunFilter{Statuses: []store.Status{store.Pending}}), map[store.Status]int64{store.Pending: 2})
		e.ok("resume of the queue", e.eng.ResumeQueue(e.ctx, "one"))
		e.eq("output", result(e, first), 1)
		e.ok("resume of the workflow", e.eng.ResumeWorkflow(e.ctx, "two"))
		e.eq("output", result(e, second), 2)
		list, err = e.eng.Paused(e.ctx)
		e.ok("list of what is paused", err)
		e.eq("paused behind it", len(list), 0)
		e.says("queue without a name", e.eng.PauseQueue(e.ctx, ""), store.ErrInvalid)
		e.says("workflow with a wrong name", e.eng.PauseWorkflow(e.ctx, " x"), store.ErrInvalid, `" x"`)
	}},
	{Name: "control/fork", Promise: "P4", Rule: "A fork keeps the outcomes of the steps before the one at which it begins, and runs that step and the rest again. The original run does not change.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) ([]int, error) {
			var out []int
			for range 2 {
				for _, name := range []string{"a", "b"} {
					n, err := workflow.Step(ctx, name, func(context.Context) (int, error) { return ran.add(name), nil })
					if err != nil {
						return nil, err
					}
					out = append(out, n)
				}
			}
			return out, nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("output", result(e, h), []int{1, 1, 2, 2})
		fork := func(what string, want []int, kept, again []string, opts ...engine.ForkOption) {
			f, err := e.eng.Fork(e.ctx, h.ID(), opts...)
			e.ok(what, err)
			e.eq(what+": output", result(e, wf.Handle(e.eng, f.ID)), want)
			e.eq(what+": kept", fmt.Sprint(f.Kept), fmt.Sprint(kept))
			e.eq(what+": again", fmt.Sprint(f.Again), fmt.Sprint(again))
			run, err := e.eng.Get(e.ctx, f.ID)
			e.ok("get", err)
			e.eq(what+": forked from", run.ForkedFrom, h.ID())
		}
		fork("fork at the second a", []int{1, 1, 3, 3}, []string{"a", "b"}, []string{"a#2", "b#2"}, engine.FromStep("a#2"))
		fork("fork at position 2", []int{1, 4, 4, 5}, []string{"a"}, []string{"b", "a#2", "b#2"}, engine.FromPosition(2))
		fork("fork of everything", []int{1, 1, 2, 2}, []string{"a", "b", "a#2", "b#2"}, nil)
		e.eq("output of the old run", result(e, h), []int{1, 1, 2, 2})
		id := store.NewID()
		for range 2 {
			f, err := e.eng.Fork(e.ctx, h.ID(), engine.ForkID(id), engine.FromStep("b#2"))
			e.ok("fork under an id", err)
			e.eq("its id", f.ID, id)
		}
		e.eq("output", result(e, wf.Handle(e.eng, id)), []int{1, 1, 2, 6})
		_, err := e.eng.Fork(e.ctx, h.ID(), engine.FromStep("c"))
		e.says("unknown step", err, store.ErrNotFound, `"c"`, "its steps are a, b, a#2, b#2")
		_, err = e.eng.Fork(e.ctx, h.ID(), engine.FromStep("a"), engine.FromPosition(2))
		e.says("step at another position", err, store.ErrNotFound, `step "a" at position 2`)
		_, err = e.eng.Fork(e.ctx, store.NewID())
		e.says("unknown run", err, store.ErrNotFound)
	}},
	{Name: "control/fork-of-a-failed-run", Promise: "P4", Rule: "A fork of a failed run tries again what failed, in a run of its own.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if err := workflow.Do(ctx, "good", func(context.Context) error { ran.add("good"); return nil }); err != nil {
				return 0, err
			}
			return workflow.Step(ctx, "bad", func(context.Context) (int, error) {
				if ran.add("bad") == 1 {
					return 0, errFlaky
				}
				return in, nil
			}, workflow.Attempts(1))
		})
		e.process(defs(wf))
		h := start(e, wf, 7)
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrFailed), "saw %v", err)
		f, err := e.eng.Fork(e.ctx, h.ID())
		e.ok("fork", err)
		e.eq("output", result(e, wf.Handle(e.eng, f.ID)), 7)
		e.eq("executions of good and bad", []int{ran.get("good"), ran.get("bad")}, []int{1, 2})
	}},
	{Name: "control/many", Promise: "P11", Rule: "Runs that a filter selects are paused, resumed, canceled and restarted together, in batches, and no others.", Run: func(e *E) {
		const n = 700 // more than a batch
		var fail atomic.Bool
		fail.Store(true)
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if fail.Load() {
				return 0, workflow.Permanent(errFlaky)
			}
			return in, nil
		})
		bridge.Of(e.eng).Know(wf.Name(), wf.Name())
		hs := startN(e, wf, n)
		start(e, wf, n, engine.Queue("other"))
		mine := store.RunFilter{Queue: "wf"}
		var reports []engine.Bulk
		done, err := e.eng.PauseMany(e.ctx, mine, engine.Report(func(b engine.Bulk) { reports = append(reports, b) }))
		e.ok("pause of many", err)
		e.eq("paused", done, engine.Bulk{Done: n})
		e.check(len(reports) >= 2 && slices.IsSortedFunc(reports, func(a, b engine.Bulk) int { return int(a.Done - b.Done) }) && reports[len(reports)-1] == done,
			"progress was reported as %v", reports)
		e.eq("statuses", e.counts(mine), map[store.Status]int64{store.Paused: n})
		done, err = e.eng.ResumeMany(e.ctx, mine, engine.AtMost(550))
		e.ok("resume of many", err)
		e.eq("resumed", done, engine.Bulk{Done: 550})
		e.eq("statuses", e.counts(mine), map[store.Status]int64{store.Paused: n - 550, store.Pending: 550})
		done, err = e.eng.CancelMany(e.ctx, mine, "a mistake")
		e.ok("cancel of many", err)
		e.eq("canceled", done, engine.Bulk{Done: n})
		e.eq("statuses", e.counts(store.RunFilter{}), map[store.Status]int64{store.Canceled: n, store.Pending: 1})
		run, err := e.eng.Get(e.ctx, hs[n-1].ID())
		e.ok("get", err)
		e.eq("reason", run.Failure.Message, "a mistake")
		e.process(defs(wf))
		done, err = e.eng.RestartMany(e.ctx, mine)
		e.ok("restart of many without statuses", err)
		e.eq("restarted, for canceled runs are not meant", done, engine.Bulk{})
		few := store.RunFilter{Queue: "wf", Statuses: []store.Status{store.Canceled}}
		done, err = e.eng.RestartMany(e.ctx, few, engine.AtMost(30))
		e.ok("restart of many", err)
		e.eq("restarted", done, engine.Bulk{Done: 30})
		for _, h := range hs[:30] { // the oldest
			_, err := h.Result(e.ctx)
			e.check(errors.Is(err, engine.ErrFailed), "saw %v, expected the restarted run to fail", err)
		}
		fail.Store(false)
		done, err = e.eng.RestartMany(e.ctx, mine)
		e.ok("restart of those that failed", err)
		e.eq("restarted", done, engine.Bulk{Done: 30})
		for i, out := range results(e, hs[:30]) {
			e.eq("output", out, i)
		}
		e.check(e.counts(mine)[store.Canceled] == n-30, "runs beyond the limit were restarted: %v", e.counts(mine))
		for what, call := range map[string]func(store.RunFilter) error{
			"cancel": func(f store.RunFilter) error { _, err := e.eng.CancelMany(e.ctx, f, ""); return err },
			"pause":  func(f store.RunFilter) error { _, err := e.eng.PauseMany(e.ctx, f); return err },
			"resume": func(f store.RunFilter) error { _, err := e.eng.ResumeMany(e.ctx, f); return err },
			"restart": func(f store.RunFilter) error {
				_, err := e.eng.RestartMany(e.ctx, f)
				return err
			},
		} {
			e.says(what+" of everything", call(store.RunFilter{}), store.ErrInvalid, what, "every run", `"engine"`)
			e.says(what+" of a wrong prefix", call(store.RunFilter{IDPrefix: "xyz"}), store.ErrInvalid, `"xyz"`)
		}
	}},
	{Name: "control/restart-skips", Promise: "P8", Rule: "If another active run has a run's external id, a restart of many runs skips that run.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		bridge.Of(e.eng).Know(wf.Name(), wf.Name())
		old := start(e, wf, 0, engine.ExternalID("x", engine.WhileActive))
		e.ok("cancel", e.eng.Cancel(e.ctx, old.ID(), ""))
		start(e, wf, 1, engine.ExternalID("x"))
		done, err := e.eng.RestartMany(e.ctx, store.RunFilter{Statuses: []store.Status{store.Canceled}})
		e.ok("restart of many", err)
		e.eq("outcome", done, engine.Bulk{Skipped: 1})
		e.says("restart of it alone", e.eng.Restart(e.ctx, old.ID()), store.ErrAlreadyExists, old.ID().String(), `"x"`)
	}},
	{Name: "control/cancel-races-completion", Promise: "P11", Rule: "If a cancel and a completion race, one of them wins, and both callers are told the same: a completed run has its output, a canceled one the reason.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return workflow.Step(ctx, "work", func(context.Context) (int, error) { return in, nil })
		})
		e.process(defs(wf))
		e.process(defs(wf))
		n := 200
		if e.h.Bubble {
			n = 1000
		}
		hs := startN(e, wf, n)
		refused := make(map[store.ID]bool)
		for _, h := range hs {
			err := e.eng.Cancel(e.ctx, h.ID(), "too late?")
			if err != nil {
				e.says("cancel", err, store.ErrFinished)
				refused[h.ID()] = true
			}
		}
		for i, h := range hs {
			out, err := h.Result(e.ctx)
			switch {
			case err == nil:
				e.eq("output", out, i)
				e.eq("record of the step", e.steps(h.ID())["work"].Status, store.StepCompleted)
			case errors.Is(err, engine.ErrCanceled):
				e.check(!refused[h.ID()], "run %s is canceled, and the cancel was refused", h.ID())
				e.check(strings.Contains(err.Error(), "too late?"), "the reason is lost: %v", err)
			default:
				e.Errorf("saw %v", err)
			}
		}
	}},
	{Name: "control/cancel-tree", Promise: "P11", Rule: "When a run with 1,000 children is canceled, the children that wait are canceled at once, those that execute as soon as their code has learned of it, and no further child begins.", Run: func(e *E) {
		const n, slots = 1000, 10
		running, heard := make(chan struct{}, n), make(chan struct{}, n)
		child := workflow.New("child", func(ctx workflow.Context, in int) (int, error) {
			return 0, workflow.Do(ctx, "work", func(ctx context.Context) error {
				running <- struct{}{}
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), workflow.ErrCanceled) {
					heard <- struct{}{}
				}
				return ctx.Err()
			})
		})
		root := e.family("child", n)
		e.process(defs(child), worker.Concurrency(slots))
		for range slots {
			receive(e, "a child's step", running)
		}
		e.ok("cancel", e.eng.Cancel(e.ctx, root.Run, "enough"))
		for range slots {
			receive(e, "the end of a step that was canceled", heard)
		}
		children := store.RunFilter{Parent: root.Run}
		for e.counts(children)[store.Canceled] < n {
			pause(e)
		}
		e.eq("children that began", slots+len(running), slots)
		e.eq("status of the root", e.until(root.Run, store.Canceling).Status, store.Canceling)
		res, err := e.s.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{{Lease: root, Seq: 5, Transition: &store.Transition{Kind: store.CancelRun}}}})
		e.ok("end of the root", err)
		e.eq("status of the root", res[0].Status, store.Canceled)
		box, err := e.s.Inbox(e.ctx, store.InboxParams{Namespace: "engine", Run: root.Run})
		e.ok("inbox", err)
		e.eq("groups", box.Groups, []store.Group{{Name: "family", Total: n, Canceled: n}})
		run, err := e.eng.Get(e.ctx, store.DeriveID(root.Run, "child-999"))
		e.ok("get", err)
		e.eq("reason of a child", run.Failure.Message, store.CanceledWithParent)
	}},
	{Name: "control/list", Promise: "P14", Rule: "Runs are listed and counted by status, workflow, queue, time, id prefix and parent, in pages; a cursor of another query is refused.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		bridge.Of(e.eng).Know(wf.Name(), wf.Name())
		hs := startN(e, wf, 25)
		middle, err := e.eng.Get(e.ctx, hs[12].ID())
		e.ok("get", err)
		root := e.family("child", 7)
		all := func(f store.RunFilter) (ids []store.ID) {
			for cursor := ""; ; {
				page, err := e.eng.List(e.ctx, f, cursor, 4)
				e.ok("list", err)
				for _, r := range page.Runs {
					ids = append(ids, r.ID)
				}
				if cursor = page.Next; cursor == "" {
					var n int64
					for _, c := range e.counts(f) {
						n += c
					}
					e.eq("count", n, int64(len(ids)))
					return ids
				}
			}
		}
		e.ok("cancel", e.eng.Cancel(e.ctx, hs[3].ID(), ""))
		e.eq("by status", all(store.RunFilter{Statuses: []store.Status{store.Canceled}}), []store.ID{hs[3].ID()})
		e.eq("by workflow", len(all(store.RunFilter{Workflow: "wf"})), 25)
		e.eq("by queue", len(all(store.RunFilter{Queue: "child"})), 7)
		e.eq("by parent", len(all(store.RunFilter{Parent: root.Run})), 7)
		e.eq("by id", all(store.RunFilter{IDPrefix: hs[5].ID().String()}), []store.ID{hs[5].ID()})
		before := len(all(store.RunFilter{Workflow: "wf", CreatedBefore: middle.CreatedAt}))
		after := len(all(store.RunFilter{Workflow: "wf", CreatedAfter: middle.CreatedAt.Add(-time.Microsecond)}))
		e.eq("by time", before+after, 25)
		page, err := e.eng.List(e.ctx, store.RunFilter{Workflow: "wf"}, "", 4)
		e.ok("list", err)
		_, err = e.eng.List(e.ctx, store.RunFilter{Workflow: "child"}, page.Next, 4)
		e.says("cursor of another query", err, store.ErrInvalid, "cursor")
		_, err = e.eng.List(e.ctx, store.RunFilter{}, "nonsense", 4)
		e.says("no cursor", err, store.ErrInvalid, "cursor")
		_, err = e.eng.List(e.ctx, store.RunFilter{}, "", -1)
		e.says("negative limit", err, store.ErrInvalid, "-1")
		_, err = e.eng.List(e.ctx, store.RunFilter{IDPrefix: "order-42"}, "", 0)
		e.says("wrong id prefix", err, store.ErrInvalid, `"order-42"`)
	}},
	{Name: "control/bad-input", Promise: "P16", Rule: "The error of an action on an unknown run, or on a run whose status does not allow it, names the action, the run and the reason.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		e.process(defs(wf))
		h := start(e, wf, 1)
		e.eq("output", result(e, h), 1)
		unknown := store.NewID()
		for what, call := range map[string]func(id store.ID) error{
			"cancel":  func(id store.ID) error { return e.eng.Cancel(e.ctx, id, "") },
			"pause":   func(id store.ID) error { return e.eng.Pause(e.ctx, id) },
			"resume":  func(id store.ID) error { return e.eng.Resume(e.ctx, id) },
			"restart": func(id store.ID) error { return e.eng.Restart(e.ctx, id) },
		} {
			e.says(what+" of an unknown run", call(unknown), store.ErrNotFound, what, unknown.String())
			kind := store.ErrFinished
			if what == "restart" {
				kind = store.ErrConflict
			}
			e.says(what+" of a completed run", call(h.ID()), kind, what, h.ID().String(), "completed")
		}
	}},
}

// clock returns the store's time.
func (e *E) clock() time.Time {
	e.Helper()
	t, err := e.s.Clock(e.ctx)
	e.ok("clock", err)
	return t
}
