package enginetier

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// tags reads the tags of a run.
func (e *E) tags(id store.ID) store.Tags {
	e.Helper()
	run, err := e.eng.Get(e.ctx, id)
	e.ok("get", err)
	return run.Tags
}

// tagged lists the runs that have all of the tags.
func (e *E) tagged(tags map[string]string) []store.ID {
	e.Helper()
	page, err := e.eng.List(e.ctx, engine.WithTags(tags), "", 0)
	e.ok("list", err)
	ids := []store.ID{}
	for _, r := range page.Runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// likes are the tags of a run whose text is compared.
type likes = map[string]string

var tagEngineCases = []Case{
	{Name: "tags/own-process", Promise: "P26", Rule: "A run that its own process executes at once has the tags of its start: its changes add to them, and its children inherit them.", Run: func(e *E) {
		child := workflow.New("child", func(_ workflow.Context, in int) (int, error) { return in, nil })
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if err := workflow.SetTags(ctx, likes{"state": "sent"}); err != nil {
				return in, err
			}
			return workflow.Child(ctx, "heir", child, in, workflow.InheritTags())
		})
		p := e.process(defs(wf, child))
		for in := range 5 {
			h, err := wf.Start(e.ctx, p.eng, in, engine.Tags(likes{"customer": fmt.Sprint(in), "state": "new"}))
			e.ok("start", err)
			result(e, h)
			want := likes{"customer": fmt.Sprint(in), "state": "sent"}
			e.eq("tags of the run", e.tags(h.ID()), store.Tags(want))
			e.eq("runs with these tags: it and its child", len(e.tagged(want)), 2)
		}
	}},
	{Name: "tags/set", Promise: "P26", Rule: "A run has the tags of its start and those that its code sets, once, in the commit that records it: a replay sets none again.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			err := errors.Join(
				workflow.SetTags(ctx, likes{"state": "paid", "old": ""}),
				workflow.SetTags(ctx, likes{"state": "packed"}),
			)
			_, received := closing.Receive(ctx)
			return 1, errors.Join(err, received, workflow.SetTags(ctx, likes{"state": "sent"}), again(e, ctx, "nap"))
		})
		e.process(defs(wf))
		h := start(e, wf, 0, engine.Tags(likes{"customer": "4711", "old": "x"}))
		for e.tags(h.ID())["state"] != "packed" {
			pause(e)
		}
		e.eq("tags on the way", e.tags(h.ID()), store.Tags{"customer": "4711", "state": "packed"})
		e.eq("found on the way", e.tagged(likes{"state": "packed", "customer": "4711"}), []store.ID{h.ID()})
		e.ok("send", closing.Send(e.ctx, e.eng, h.ID(), ""))
		result(e, h)
		e.eq("tags at the end", e.tags(h.ID()), store.Tags{"customer": "4711", "state": "sent"})
		e.eq("found by the old value", e.tagged(likes{"state": "packed"}), []store.ID{})
		e.eq("found at the end", e.tagged(likes{"state": "sent"}), []store.ID{h.ID()})
	}},
	{Name: "tags/taken-over", Promise: "P26", Rule: "A run that another worker takes over at any commit ends with the tags that its code set last.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			for i := range 6 {
				if err := workflow.SetTags(ctx, likes{"n": fmt.Sprint(i), fmt.Sprint("seen-", i): "yes"}); err != nil {
					return 0, err
				}
				if err := workflow.Sleep(ctx, fmt.Sprint("nap ", i), e.d(time.Second)); err != nil {
					return 0, err
				}
			}
			return 1, nil
		})
		h := startBefore(e, wf)
		for i := range 3 {
			p := e.process(defs(wf))
			select {
			case <-p.wire.dieAt("commit", 2+i, i%2 == 0):
				p.kill()
			case <-e.ended(h.ID()):
				p.kill()
			}
		}
		e.process(defs(wf))
		result(e, h)
		e.eq("tags", e.tags(h.ID()), store.Tags{"n": "5", "seen-0": "yes", "seen-1": "yes", "seen-2": "yes", "seen-3": "yes", "seen-4": "yes", "seen-5": "yes"})
	}},
	{Name: "tags/refused", Promise: "P26", Rule: "Tags beyond the bounds are refused at the start and in the run. The refusal in the run is recorded, changes nothing, and lets the run continue.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (bool, error) {
			refused := errors.Is(workflow.SetTags(ctx, likes{"a b": "x"}), store.ErrInvalid)
			for i := range store.MaxTags + 1 {
				err := workflow.SetTags(ctx, likes{fmt.Sprint("n", i): "x"})
				if wrong := errors.Is(err, store.ErrInvalid); wrong != (i == store.MaxTags-1 || i == store.MaxTags) {
					return false, fmt.Errorf("tag %d: %w", i, err)
				}
			}
			err := errors.Join(workflow.SetTags(ctx, likes{"n0": ""}), workflow.SetTags(ctx, likes{"last": "x"}))
			return refused, errors.Join(err, again(e, ctx, "nap"))
		})
		e.process(defs(wf))
		_, err := wf.Start(e.ctx, e.eng, 0, engine.Tags(likes{"k": ""}))
		e.check(errors.Is(err, store.ErrInvalid), "a start with a tag without a value: saw %v", err)
		h := start(e, wf, 0, engine.Tags(likes{"k": "v"}))
		e.eq("refused", result(e, h), true)
		tags := e.tags(h.ID())
		e.eq("tags", []any{len(tags), tags["last"], tags["n0"], tags["n14"], tags["n15"]}, []any{store.MaxTags, "x", "", "x", ""})
	}},
	{Name: "tags/children", Promise: "P26", Rule: "Children and items have the tags that their start names, and with the option those that their parent has then; other children have none.", Run: func(e *E) {
		child := workflow.New("child", func(ctx workflow.Context, n int) (int, error) { return n, nil })
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			a, errA := workflow.Child(ctx, "plain", child, 1)
			b, errB := workflow.Child(ctx, "own", child, 2, workflow.ChildTags(likes{"kind": "own"}))
			set := workflow.SetTags(ctx, likes{"customer": "4711"})
			c, errC := workflow.Child(ctx, "heir", child, 3, workflow.InheritTags(), workflow.ChildTags(likes{"kind": "heir"}))
			_, errD := workflow.Map(ctx, "items", []int{4, 5}, child, workflow.ItemsInheritTags(), workflow.ItemTags(likes{"kind": "item"}))
			return a + b + c, errors.Join(errA, errB, set, errC, errD)
		})
		e.process(defs(wf, child))
		h := start(e, wf, 0, engine.Tags(likes{"kind": "parent"}))
		result(e, h)
		want := map[string]int{"": 1, "own": 1, "heir": 1, "item": 2, "parent": 0}
		page, err := e.eng.List(e.ctx, store.RunFilter{Parent: h.ID()}, "", 0)
		e.ok("list", err)
		for _, r := range page.Runs {
			want[r.Tags["kind"]]--
			heir := r.Tags["kind"] == "heir" || r.Tags["kind"] == "item"
			e.eq("the customer of a child with the tags "+fmt.Sprint(r.Tags), r.Tags["customer"] == "4711", heir)
		}
		e.eq("children left", want, map[string]int{"": 0, "own": 0, "heir": 0, "item": 0, "parent": 0})
		e.eq("the family", len(e.tagged(likes{"customer": "4711"})), 4)
	}},
	{Name: "tags/kept", Promise: "P26", Rule: "Tags stay when a run continues as new, is restarted, forked, or exported and imported elsewhere.", Run: func(e *E) {
		fail := true
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			if n < 2 {
				if err := workflow.SetTags(ctx, likes{"n": fmt.Sprint(n)}); err != nil {
					return 0, err
				}
				return 0, workflow.ContinueAsNew(ctx, n+1)
			}
			if fail {
				return 0, errors.New("not yet")
			}
			return n, nil
		})
		e.process(defs(wf))
		want := store.Tags{"k": "v", "n": "1"}
		h := start(e, wf, 0, engine.Tags(likes{"k": "v"}))
		_, err := h.Result(e.ctx)
		e.check(err != nil, "it did not fail")
		e.eq("tags after it continued as new", e.tags(h.ID()), want)
		fail = false
		e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
		result(e, h)
		e.eq("tags after the restart", e.tags(h.ID()), want)
		fork, err := e.eng.Fork(e.ctx, h.ID())
		e.ok("fork", err)
		e.eq("tags of the fork", e.tags(fork.ID), want)
		laptop := e.elsewhere()
		_, err = laptop.Import(e.ctx, bytes.NewReader(e.export(h.ID())))
		e.ok("import", err)
		run, err := laptop.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("tags of the import", run.Tags, want)
	}},
	{Name: "tags/many", Promise: "P26", Rule: "Actions on many runs, lists and counts select by tags, and by nothing else if nothing else is given.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			return 0, workflow.Sleep(ctx, "long", 1000*time.Hour)
		})
		e.process(defs(wf))
		var eu, us []store.ID
		for range 3 {
			eu = append(eu, start(e, wf, 0, engine.Tags(likes{"region": "eu-west", "kind": "batch"})).ID())
			us = append(us, start(e, wf, 0, engine.Tags(likes{"region": "us-east", "kind": "batch"})).ID())
		}
		done, err := e.eng.CancelMany(e.ctx, store.RunFilter{Tags: []store.TagMatch{{Name: "region", Prefix: "eu-"}}}, "moved")
		e.ok("cancel", err)
		e.eq("canceled", done.Done, int64(3))
		for _, id := range eu {
			<-e.ended(id)
		}
		counts, err := e.eng.Count(e.ctx, engine.WithTags(likes{"kind": "batch"}))
		e.ok("count", err)
		n := map[bool]int64{}
		for _, c := range counts {
			n[c.Status.Final()] += c.Count
		}
		e.eq("runs by whether they are final", n, map[bool]int64{true: 3, false: 3})
		left := e.tagged(likes{"region": "us-east", "kind": "batch"})
		slices.SortFunc(left, func(a, b store.ID) int { return strings.Compare(a.String(), b.String()) })
		slices.SortFunc(us, func(a, b store.ID) int { return strings.Compare(a.String(), b.String()) })
		e.eq("the others", left, us)
	}},
	{Name: "tags/scheduled", Promise: "P26", Rule: "A schedule gives its runs tags, fired or triggered.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) { return 0, nil })
		e.process(defs(wf))
		_, err := wf.Schedule(e.ctx, e.eng, "nightly", "@yearly", 0, engine.ScheduleRuns(engine.Tags(likes{"kind": "nightly"})))
		e.ok("schedule", err)
		s, err := e.eng.Schedule(e.ctx, "nightly")
		e.ok("read", err)
		e.eq("tags of the schedule", s.Tags, store.Tags{"kind": "nightly"})
		started, err := e.eng.TriggerSchedule(e.ctx, "nightly")
		e.ok("trigger", err)
		e.eq("found", e.tagged(likes{"kind": "nightly"}), []store.ID{started.ID})
	}},
}
