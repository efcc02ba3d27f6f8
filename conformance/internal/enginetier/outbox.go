package enginetier

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// told delivers everything that waits in a subscription, and returns what was told of each run, in order.
func (e *E) told(subscription string) map[store.ID]string {
	e.Helper()
	told := map[store.ID]string{}
	for {
		page, err := e.eng.Changes(e.ctx, subscription, store.MaxPage)
		e.ok("changes", err)
		if len(page.Changes) == 0 {
			return told
		}
		settle := store.SettleParams{Subscription: subscription}
		for _, ch := range page.Changes {
			told[ch.Run] = strings.TrimSpace(told[ch.Run] + " " + ch.Kind.String())
			settle.Delivered = append(settle.Delivered, ch.ChangeKey)
		}
		e.ok("settle", e.eng.Settle(e.ctx, settle))
	}
}

func (e *E) subscribe(s store.Subscription) {
	e.Helper()
	_, err := e.eng.Subscribe(e.ctx, s)
	e.ok("subscribe", err)
}

var outboxEngineCases = []Case{
	{Name: "outbox/lives", Promise: "P31", Rule: "A subscription tells of each change of the runs of a tree once and in order, also if their process is killed; what a worker repeats is no change.", Run: func(e *E) {
		e.subscribe(store.Subscription{Name: "all"})
		e.subscribe(store.Subscription{Name: "failures", Kinds: []store.ChangeKind{store.RunFailed}})
		var tries atomic.Int64
		broken := workflow.New("broken", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "try", func(context.Context) error {
				if tries.Add(1) < 3 {
					return errors.New("not yet")
				}
				return workflow.Permanent(errors.New("never"))
			}, workflow.Attempts(5), workflow.Backoff(1, 1, 1))
		})
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if _, err := workflow.Child(ctx, "good", double, in); err != nil {
				return 0, err
			}
			if _, err := workflow.Child(ctx, "bad", broken, in); err == nil {
				return 0, errors.New("the child has not failed")
			}
			if err := workflow.Sleep(ctx, "nap", e.d(time.Second)); err != nil {
				return 0, err
			}
			_, err := word.Receive(ctx)
			if err == nil && in == 1 {
				return 0, workflow.ContinueAsNew(ctx, in+1)
			}
			return in, err
		})
		first := e.process(defs(wf, double, broken))
		h := start(e, wf, 1)
		e.waitsFor(h.ID(), "word")
		first.kill()
		e.process(defs(wf, double, broken))
		send(e, word, h.ID(), "on")
		send(e, word, h.ID(), "on")
		e.eq("output", result(e, h), 2)
		want := map[store.ID]string{}
		page, err := e.eng.List(e.ctx, store.RunFilter{}, "", store.MaxPage)
		e.ok("list", err)
		failed := 0
		for _, r := range page.Runs {
			if want[r.ID] = "created completed"; r.Workflow == broken.Name() {
				want[r.ID] = "created failed"
				failed++
			}
		}
		e.eq("runs", []int{len(want), failed}, []int{5, 2})
		e.eq("told", e.told("all"), want)
		e.eq("failures", len(e.told("failures")), failed)
	}},
	{Name: "outbox/steered", Promise: "P31", Rule: "A subscription tells of what people do to runs: pauses, cancels with their cleanup, restarts and forks.", Run: func(e *E) {
		e.subscribe(store.Subscription{Name: "all"})
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
			if err := workflow.Do(ctx, "first", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			return word.Receive(ctx)
		})
		e.process(defs(wf))
		h := start(e, wf, 1)
		e.waitsFor(h.ID(), "word")
		e.ok("pause", e.eng.Pause(e.ctx, h.ID()))
		e.ok("pause again", e.eng.Pause(e.ctx, h.ID()))
		e.ok("resume", e.eng.Resume(e.ctx, h.ID()))
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "why"))
		e.until(h.ID(), store.Canceled)
		e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
		e.waitsFor(h.ID(), "word")
		fork, err := e.eng.Fork(e.ctx, h.ID())
		e.ok("fork", err)
		send(e, word, h.ID(), "on")
		send(e, word, fork.ID, "on")
		e.eq("output", result(e, h), "on")
		e.until(fork.ID, store.Completed)
		e.eq("told", e.told("all"), map[store.ID]string{
			h.ID(): "created paused resumed canceling canceled restarted completed", fork.ID: "created completed",
		})
	}},
	{Name: "outbox/unsubscribed", Promise: "P31", Rule: "A deleted subscription tells nothing any more; what is done in it fails with ErrNotFound.", Run: func(e *E) {
		e.subscribe(store.Subscription{Name: "all"})
		h := startBefore(e, double)
		e.ok("unsubscribe", e.eng.Unsubscribe(e.ctx, "all"))
		e.says("unsubscribe again", e.eng.Unsubscribe(e.ctx, "all"), store.ErrNotFound, "all")
		_, err := e.eng.Changes(e.ctx, "all", 0)
		e.says("changes", err, store.ErrNotFound, "all")
		e.subscribe(store.Subscription{Name: "all"})
		e.process(defs(double))
		result(e, h)
		e.eq("told", e.told("all"), map[store.ID]string{h.ID(): "completed"})
		_, err = e.eng.Subscribe(e.ctx, store.Subscription{})
		e.check(errors.Is(err, store.ErrInvalid), "a subscription without a name: saw %v", err)
	}},
}
