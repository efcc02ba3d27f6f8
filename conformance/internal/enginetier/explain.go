package enginetier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// explains checks the explanation of a run.
func (e *E) explains(what string, id store.ID, reason engine.Reason, words ...string) engine.Explanation {
	e.Helper()
	x, err := e.eng.Explain(e.ctx, id)
	e.ok("explain", err)
	e.eq(what+": reason", x.Reason, reason)
	e.saysOf(what, &x, append(words, id.String())...)
	return x
}

// saysOf checks the words of an explanation.
func (e *E) saysOf(what string, x *engine.Explanation, words ...string) {
	e.Helper()
	text := x.String()
	for _, w := range append(words, x.Summary) {
		e.check(strings.Contains(text, w), "%s: the explanation does not say %q:\n%s", what, w, text)
	}
	e.check(x.Summary != "", "%s: there is no summary", what)
}

var explainEngineCases = []Case{
	{Name: "explain/waiting-for-a-worker", Promise: "P16", Rule: "Explain says why nobody claims a run: no worker ever, none online, none for its queue, a pause, its time, or its turn.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "work", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		})
		any := engine.New(newWire(e.s), engine.Namespace("engine"), engine.Logger(quiet), engine.Require(engine.RequireNothing))
		defer any.Close()
		stray, err := any.Start(e.ctx, "nobody", nil)
		e.ok("start", err)
		e.explains("never registered", stray.ID, engine.ReasonNeverServed, `"nobody"`, "no worker has ever registered", "run a worker")
		first := e.process(defs(wf)).healthy()
		later := start(e, wf, 0, engine.Delay(24*time.Hour))
		x := e.explains("scheduled", later.ID(), engine.ReasonScheduled, "is scheduled to start at")
		e.eq("until", x.Until, x.Run.VisibleAt)
		first.stop()
		h := start(e, wf, 0)
		e.explains("no worker online", h.ID(), engine.ReasonNoWorker, "no worker that serves its workflow \"wf\" is online", "start a worker that registers it")
		crashed := e.process(defs(wf)).healthy()
		crashed.kill()
		for e.workers()[crashed.worker.ID()].Status != store.Offline {
			pause(e)
		}
		other := start(e, wf, 0, engine.Queue("elsewhere"))
		e.explains("worker offline", other.ID(), engine.ReasonNoWorker, crashed.worker.ID(), "offline")
		e.process(defs(wf), worker.Concurrency(1), worker.Limit("wf", 1)).healthy()
		e.explains("other queue", other.ID(), engine.ReasonNoWorker, `"elsewhere"`)
		// The worker that was killed may hold the run. Nobody can end it while the only slot is taken.
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), ""))
		e.until(h.ID(), store.Canceled)
		busy := start(e, wf, 0)
		next := start(e, wf, 0, engine.Priority(-5))
		e.until(busy.ID(), store.Running)
		e.explains("behind others", next.ID(), engine.ReasonWaiting, "waits for a free slot", "1 slot in total", "2 runs are pending", "priority is -5", "at most 1 run of", "ahead of it: 0 due runs")
		last := start(e, wf, 0, engine.Priority(-7))
		e.explains("behind two others", last.ID(), engine.ReasonWaiting, "ahead of it: 1 due run of")
		e.ok("cancel", e.eng.Cancel(e.ctx, last.ID(), ""))
		e.ok("pause of the queue", e.eng.PauseQueue(e.ctx, "wf"))
		e.explains("paused queue", next.ID(), engine.ReasonQueuePaused, `queue "wf" has been paused`, "resume the queue")
		e.explains("running on a paused queue", busy.ID(), engine.ReasonRunning, "its queue has been paused")
		e.ok("resume of the queue", e.eng.ResumeQueue(e.ctx, "wf"))
		e.ok("pause of the workflow", e.eng.PauseWorkflow(e.ctx, "wf"))
		e.explains("paused workflow", next.ID(), engine.ReasonWorkflowPaused, `workflow "wf" has been paused`, "resume the workflow")
		e.ok("pause of the run", e.eng.Pause(e.ctx, next.ID()))
		e.explains("paused run", next.ID(), engine.ReasonPaused, "paused until it is resumed", "resume it", "its workflow has been paused")
	}},
	{Name: "explain/queue-not-served", Promise: "P16", Rule: "If no worker takes a run's workflow from the run's queue, Explain says so and names the queues from which workers do, however the run came there.", Run: func(e *E) {
		item := workflow.New("item", func(ctx workflow.Context, in int) (int, error) { return in, nil }, workflow.Queue("items"))
		parent := workflow.New("parent", func(ctx workflow.Context, in int) (int, error) {
			if _, err := workflow.StartChild(ctx, "child", item, in, workflow.ChildQueue("parent")); err != nil {
				return 0, err
			}
			_, err := workflow.Map(ctx, "items", []int{1}, item, workflow.ItemQueue("nowhere"))
			return in, err
		})
		e.process(defs(item, parent)).healthy()
		h := start(e, parent, 1)
		alone := start(e, item, 1, engine.Queue("nowhere"))
		e.explains("a start", alone.ID(), engine.ReasonNoWorker, `"nowhere"`, `"item"`, `from "items"`, `worker.Queues("nowhere")`)
		queues := map[string]bool{}
		for len(queues) < 2 {
			pause(e)
			page, err := e.eng.List(e.ctx, store.RunFilter{Parent: h.ID()}, "", 10)
			e.ok("list", err)
			for _, r := range page.Runs {
				// The worker serves queue "parent", and workflow "item".
				queues[r.Queue] = true
				e.explains("a child", r.ID, engine.ReasonNoWorker, `"item"`, fmt.Sprintf("%q", r.Queue), `from "items"`, fmt.Sprintf("worker.Queues(%q)", r.Queue))
			}
		}
		e.eq("queues", queues, map[string]bool{"parent": true, "nowhere": true})
	}},
	{Name: "explain/held", Promise: "P16", Rule: "For a run that a worker holds, Explain names the worker, the end of the lease, whether the worker is alive, the running step, and a pending pause or cancel.", Run: func(e *E) {
		at, release := make(chan struct{}, 10), make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if err := workflow.Do(ctx, "first", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			return in, workflow.Do(ctx, "work", func(context.Context) error {
				at <- struct{}{}
				<-release // ignores the cancel
				return nil
			})
		})
		p := e.process(defs(wf)).healthy()
		h := start(e, wf, 0, engine.Timeout(24*time.Hour))
		receive(e, "the step", at)
		for e.steps(h.ID())["work"].Name == "" {
			pause(e)
		}
		e.explains("running", h.ID(), engine.ReasonRunning, p.worker.ID(), "step work has been running in attempt 1", "first (completed)", "its deadline is")
		e.ok("pause", e.eng.Pause(e.ctx, h.ID()))
		e.explains("pausing", h.ID(), engine.ReasonRunning, "a pause is pending")
		e.ok("signal", e.eng.Signal(e.ctx, store.NewSignal{Run: h.ID(), Name: "go"}))
		e.ok("signal", e.eng.Signal(e.ctx, store.NewSignal{Run: h.ID(), Name: "go"}))
		e.explains("unread signals", h.ID(), engine.ReasonRunning, "2 signals are unread: go (2)")
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		e.explains("canceling", h.ID(), engine.ReasonCanceling, "enough", p.worker.ID(), "should return when its context ends")
		close(release)
		for {
			if run, err := e.eng.Get(e.ctx, h.ID()); err != nil || run.Status.Final() {
				break
			}
			pause(e)
		}
	}},
	{Name: "explain/past-its-timeout", Promise: "P16", Rule: "Explain names a step that runs past its timeout, as long as the worker that began it has the run; for a step within its timeout, it says when the timeout ends.", Run: func(e *E) {
		release := make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, timeout time.Duration) (int, error) {
			return 1, workflow.Do(ctx, "deaf", func(context.Context) error {
				<-release
				return nil
			}, workflow.Timeout(timeout))
		})
		e.process(defs(wf)).healthy()
		late, early, none := start(e, wf, 2*time.Millisecond), start(e, wf, time.Hour), start(e, wf, 0)
		for _, h := range []workflow.Handle[int]{late, early, none} {
			e.untilStep(h.ID(), "deaf", store.StepRunning)
		}
		x := e.explains("past its timeout", late.ID(), engine.ReasonRunning, "step deaf has run for", "in attempt 1, past its timeout of 2ms", "ignores its context", "return when its context ends")
		e.check(!strings.Contains(x.String(), "under way"), "past its timeout: saw %q", x)
		x = e.explains("before its timeout", early.ID(), engine.ReasonRunning, "step deaf has been running in attempt 1", "the attempt's timeout ends at")
		e.check(!strings.Contains(x.String(), "heed"), "before its timeout: saw %q", x)
		x = e.explains("without a timeout", none.ID(), engine.ReasonRunning, "step deaf has been running in attempt 1")
		e.check(!strings.Contains(x.String(), "timeout"), "without a timeout: saw %q", x)
		close(release)
		for _, h := range []workflow.Handle[int]{late, early, none} {
			result(e, h)
		}

		// Records of a worker that has gone say nothing about the step.
		id, now := store.NewID(), e.clock()
		_, err := e.s.Create(e.ctx, store.CreateParams{Namespace: "engine", Runs: []store.NewRun{{ID: id, Workflow: "next", Queue: "next", Worker: "ghost", LeaseFor: time.Hour}}})
		e.ok("create", err)
		lease := store.Lease{Run: id, Worker: "ghost", Epoch: 1}
		commit := func(c store.Commit) {
			e.Helper()
			res, err := e.s.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{c}})
			e.ok("commit", errors.Join(err, res[0].Err))
		}
		commit(store.Commit{Lease: lease, Seq: 1, Steps: []store.StepRecord{{
			StepKey: store.StepKey{Name: "deaf", Occurrence: 1}, Kind: store.KindFunction, Status: store.StepRunning, Position: 1, Attempt: 1,
			StartedAt: now.Add(-time.Hour), DueAt: now.Add(-time.Minute),
		}}})
		x = e.explains("its worker is gone", id, engine.ReasonHolderSilent, "step deaf has been running")
		e.check(!strings.Contains(x.String(), "heed"), "its worker is gone: saw %q", x)
		commit(store.Commit{Lease: lease, Seq: 2, Transition: &store.Transition{Kind: store.Release}})
		at, again := make(chan struct{}, 1), make(chan struct{})
		next := workflow.New("next", func(ctx workflow.Context, _ int) (int, error) {
			return 1, workflow.Do(ctx, "deaf", func(context.Context) error {
				at <- struct{}{}
				<-again
				return nil
			}, workflow.Timeout(time.Hour))
		})
		e.process(defs(next)).healthy()
		receive(e, "the step", at)
		x = e.explains("another worker has it", id, engine.ReasonRunning, "step deaf has been running")
		e.check(!strings.Contains(x.String(), "heed"), "another worker has it: saw %q", x)
		close(again)
		result(e, next.Handle(e.eng, id))
	}},
	{Name: "explain/holder-gone", Promise: "P6", Rule: "If a run's worker is gone, Explain says that the run waits for the end of the lease, and then that the lease has expired.", Run: func(e *E) {
		long, id := store.NewID(), store.NewID()
		_, err := e.s.Create(e.ctx, store.CreateParams{Namespace: "engine", Runs: []store.NewRun{
			{ID: long, Workflow: "wf", Queue: "wf", Worker: "ghost", LeaseFor: 10 * time.Hour},
			{ID: id, Workflow: "wf", Queue: "wf", Worker: "ghost", LeaseFor: e.d(20 * time.Second)},
		}})
		e.ok("create", err)
		e.explains("leased to a worker that is not there", long, engine.ReasonHolderSilent, `"ghost"`, "never registered", "another worker takes the run over")
		for clock := e.clock(); ; clock = e.clock() {
			run, err := e.eng.Get(e.ctx, id)
			e.ok("get", err)
			if clock.After(run.VisibleAt) {
				break
			}
			pause(e)
		}
		e.explains("lease over", id, engine.ReasonLeaseOver, `"ghost"`, "expired", "start a worker")
		_, err = e.s.Claim(e.ctx, store.ClaimParams{Namespace: "engine", Worker: "second", LeaseFor: time.Hour, Demands: []store.Demand{{Queue: "wf", Workflows: []string{"wf"}, Max: 1}}})
		e.ok("claim", err)
		e.explains("after a crash", id, engine.ReasonHolderSilent, "expired 1 time in a row")
	}},
	{Name: "explain/sleeping", Promise: "P16", Rule: "For a sleeping run, Explain says in which step it sleeps, and until when or for what: a time, a retry, a signal, children, state.", Run: func(e *E) {
		answer := workflow.NewSignal[int]("answer")
		wf := workflow.New("wf", func(ctx workflow.Context, in string) (int, error) {
			switch in {
			case "sleep":
				return 0, workflow.Sleep(ctx, "nap", e.d(10*time.Hour))
			case "retry":
				return 0, workflow.Do(ctx, "flaky", func(context.Context) error { return errFlaky }, workflow.Backoff(e.d(10*time.Hour), 1, e.d(10*time.Hour)))
			case "run-retry":
				return 0, errFlaky
			}
			return answer.ReceiveTimeout(ctx, e.d(20*time.Hour))
		}, workflow.RunAttempts(3), workflow.RunBackoff(e.d(10*time.Hour), 1, e.d(10*time.Hour)))
		p := e.process(defs(wf)).healthy()
		sleep, retry, signal := start(e, wf, "sleep"), start(e, wf, "retry"), start(e, wf, "signal")
		again := start(e, wf, "run-retry")
		for _, h := range []workflow.Handle[int]{sleep, retry, signal} {
			e.until(h.ID(), store.Sleeping)
		}
		for {
			run, err := e.eng.Get(e.ctx, again.ID())
			e.ok("get", err)
			if run.Attempt == 2 {
				break
			}
			pause(e)
		}
		x := e.explains("sleep", sleep.ID(), engine.ReasonSleep, "in step nap", "step nap sleeps until")
		e.check(x.Until.Sub(x.At) > e.d(9*time.Hour), "it sleeps until %v", x.Until)
		e.explains("step's retry", retry.ID(), engine.ReasonStepRetry, "it retries step flaky", "failed in attempt 1", errFlaky.Error())
		e.explains("run's retry", again.ID(), engine.ReasonRetry, "failed in attempt 1, and attempt 2 is due at", errFlaky.Error())
		e.explains("signal", signal.ID(), engine.ReasonSignal, "waits for signal answer", "send it the signal")
		p.stop()
		e.explains("sleep without a worker", sleep.ID(), engine.ReasonSleep, "no worker that serves its workflow and queue is online now")
		e.ok("send", answer.Send(e.ctx, e.eng, signal.ID(), 1))
		e.explains("woken without a worker", signal.ID(), engine.ReasonNoWorker, "the event that it waited for has occurred", "1 signal is unread: answer")
		root := e.family("child", 3)
		e.ok("cancel", e.eng.Cancel(e.ctx, store.DeriveID(root.Run, "child-1"), ""))
		res, err := e.s.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{{Lease: root, Seq: 2, Transition: &store.Transition{Kind: store.Sleep, Await: []store.Await{{Group: "family"}}}}}})
		e.ok("sleep", err)
		e.eq("status", res[0].Status, store.Sleeping)
		e.explains("children", root.Run, engine.ReasonChildren, `2 of 3 in group "family"`, "until an event comes")
	}},
	{Name: "explain/final", Promise: "P16", Rule: "For a final run, Explain says how it ended and what can be done.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "work", func(context.Context) error {
				if in == 0 {
					return workflow.Coded("no-stock", workflow.Permanent(errFlaky))
				}
				return nil
			})
		})
		p := e.process(defs(wf))
		bad, good := start(e, wf, 0), start(e, wf, 1)
		_, err := bad.Result(e.ctx)
		e.check(err != nil, "it did not fail")
		e.eq("output", result(e, good), 1)
		p.stop()
		off := start(e, wf, 2)
		e.ok("cancel", e.eng.Cancel(e.ctx, off.ID(), "not wanted"))
		e.explains("failed", bad.ID(), engine.ReasonFailed, errFlaky.Error(), `"no-stock"`, "work (failed)", "restart it", "fork it")
		e.explains("completed", good.ID(), engine.ReasonCompleted, "completed at", "1 step is recorded")
		e.explains("canceled", off.ID(), engine.ReasonCanceled, "not wanted", "restart it")
		_, err = e.eng.Explain(e.ctx, store.NewID())
		e.says("unknown run", err, store.ErrNotFound, "explain")
	}},
}
