package enginetier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// rows returns everything that the store has of the namespace's runs, workers, workflows and
// schedules.
func (e *E) rows() string {
	e.Helper()
	var b strings.Builder
	page, err := e.eng.List(e.ctx, store.RunFilter{}, "", store.MaxPage)
	e.ok("list", err)
	e.check(page.Next == "", "there are more runs than a page has")
	for i := range page.Runs {
		id := page.Runs[i].ID
		run, err := e.eng.Get(e.ctx, id)
		e.ok("get", err)
		steps, err := e.eng.Steps(e.ctx, id)
		e.ok("steps", err)
		box, err := e.s.Inbox(e.ctx, store.InboxParams{Namespace: e.eng.Namespace(), Run: id})
		e.ok("inbox", err)
		fmt.Fprintf(&b, "%+v\n%+v\n%+v\n", run, steps, box)
	}
	workers, err := e.eng.Workers(e.ctx)
	e.ok("workers", err)
	flows, err := e.eng.Workflows(e.ctx)
	e.ok("workflows", err)
	schedules, err := e.eng.Schedules(e.ctx, "", store.MaxPage)
	e.ok("schedules", err)
	fmt.Fprintf(&b, "%+v\n%+v\n%+v\n", workers, flows, schedules.Schedules)
	return b.String()
}

// readOnly returns an engine whose store reports every call that is not a read.
func (e *E) readOnly() *engine.Engine {
	w := newWire(e.s)
	reads := map[string]bool{"get": true, "list": true, "steps": true, "count": true, "children": true, "inbox": true, "clock": true}
	w.hook(func(verb string) {
		e.check(reads[strings.ToLower(verb)], "the check called %s", verb)
	})
	eng := engine.New(w, engine.Namespace("engine"), engine.Logger(quiet))
	e.TB.Cleanup(eng.Close)
	return eng
}

var historyEngineCases = []Case{
	{Name: "histories/checked", Promise: "P16", Rule: "A check of histories finds exactly the runs that would not fit the new code, writes nothing and runs no step.", Run: func(e *E) {
		var ran tally
		version := func(second string, counted bool) *workflow.Workflow[int, int] {
			return workflow.New("wf", func(ctx workflow.Context, at int) (int, error) {
				for i, name := range []string{"one", second, "three"} {
					if i == at { // the run waits here
						if _, err := release.Receive(ctx); err != nil {
							return 0, err
						}
					}
					if err := workflow.Do(ctx, name, func(context.Context) error {
						if counted {
							ran.add(name)
						}
						return nil
					}); err != nil {
						return 0, err
					}
				}
				_, err := release.Receive(ctx)
				return at, err
			})
		}
		elsewhere := workflow.New("elsewhere", func(ctx workflow.Context, _ int) (int, error) { return release.Receive(ctx) })
		before, after := version("two", false), version("zwei", true)
		p := e.process(defs(before, elsewhere))
		var hs []workflow.Handle[int]
		for i := range 8 {
			hs = append(hs, start(e, before, i/2))
			e.until(hs[i].ID(), store.Sleeping)
		}
		foreign := start(e, elsewhere, 0)
		e.until(foreign.ID(), store.Sleeping)
		p.stop()
		old := e.rows()
		check := func(opts ...worker.CheckOption) *worker.HistoryReport {
			report, err := worker.CheckHistories(e.ctx, e.readOnly(), defs(after), opts...)
			e.ok("check", err)
			return report
		}
		seen := 0
		report := check(worker.CheckProgress(func(string, int) { seen++ }))
		e.eq("rows are as before the check", e.rows() == old, true)
		e.eq("steps that the check ran", ran.get("one")+ran.get("zwei")+ran.get("three"), 0)
		// Runs that wait before the second step have not recorded it.
		e.eq("checked, unfit, progress", []int{report.Checked, report.Unfit, seen}, []int{8, 4, 8})
		e.eq("unknown", report.Unknown, []string{"elsewhere"})
		e.check(len(report.Misfits) == 1 && report.Misfits[0].Step == "two" && report.Misfits[0].More == 3, "saw misfits %+v, expected one kind at step two, with 3 more", report.Misfits)
		e.eq("code", report.Misfits[0].Code, workflow.CodeNondeterministic)
		e.eq("exit code", report.ExitCode(), 1)
		e.eq("a sample", check(worker.CheckSample(3)).Checked, 3)
		fits, err := worker.CheckHistories(e.ctx, e.readOnly(), defs(before))
		e.ok("check", err)
		e.eq("the code itself", []int{fits.Checked, fits.Unfit, fits.ExitCode()}, []int{8, 0, 0})
		exported, err := worker.CheckExport(e.ctx, bytes.NewReader(e.export(hs[7].ID())), engine.JSON{}, defs(after))
		e.ok("check of an export", err)
		e.eq("export: checked, unfit", []int{exported.Checked, exported.Unfit}, []int{1, 1})
		_, err = worker.CheckExport(e.ctx, strings.NewReader("{}"), engine.JSON{}, defs(after))
		e.check(errors.Is(err, store.ErrInvalid), "no export: saw %v", err)
		// The prediction comes true.
		e.process(defs(after))
		failed := 0
		for _, h := range hs {
			for range 2 {
				_ = release.Send(e.ctx, e.eng, h.ID(), 1)
			}
			if _, err := h.Result(e.ctx); errors.Is(err, engine.ErrNondeterministic) {
				failed++
			} else {
				e.ok("result", err)
			}
		}
		e.eq("runs that do not fit", failed, report.Unfit)
	}},
	{Name: "histories/open-items", Promise: "P16", Rule: "A check of histories does not go past a map whose items are not final, and finds what does not fit in a branch beside it.", Run: func(e *E) {
		var ran tally
		item := workflow.New("item", func(ctx workflow.Context, _ int) (int, error) { return release.Receive(ctx) })
		version := func(first string) *workflow.Workflow[int, int] {
			return workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
				g := workflow.NewGroup(ctx)
				g.Go("beside", func(ctx workflow.Context) error {
					if err := workflow.Do(ctx, first, func(context.Context) error { return nil }); err != nil {
						return err
					}
					_, err := release.Receive(ctx)
					return err
				})
				_, err := workflow.Map(ctx, "map", []int{1, 2}, item)
				ran.add("past the map")
				return in, errors.Join(err, g.Wait())
			})
		}
		before, after := version("prepare"), version("verify")
		p := e.process(defs(before, item))
		h := start(e, before, 7)
		for len(e.children(h.ID())) < 2 || len(e.steps(h.ID())) < 3 {
			pause(e)
		}
		e.until(h.ID(), store.Sleeping)
		p.stop()
		for range 20 { // the branches race
			for build, unfit := range map[*workflow.Workflow[int, int]]int{before: 0, after: 1} {
				live, err := worker.CheckHistories(e.ctx, e.readOnly(), defs(build, item))
				e.ok("check", err)
				exported, err := worker.CheckExport(e.ctx, bytes.NewReader(e.export(h.ID())), engine.JSON{}, defs(build))
				e.ok("check of an export", err)
				for _, report := range []*worker.HistoryReport{live, exported} {
					e.eq("unfit, partly", []int{report.Unfit, report.Partly}, []int{unfit, 0})
				}
			}
		}
		e.eq("how often the code came past the map", ran.get("past the map"), 0)
	}},
	{Name: "histories/payloads", Promise: "P16", Rule: "A check of histories finds payloads that the new code cannot decode, in inputs and in results, and reads long histories in pages.", Run: func(e *E) {
		const turns = store.MaxPage + 20
		before := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			for range n {
				if _, err := workflow.Value(ctx, "v", func() int { return 1 }); err != nil {
					return 0, err
				}
			}
			if _, err := workflow.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil }); err != nil {
				return 0, err
			}
			return release.Receive(ctx)
		})
		result := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			for range n {
				if _, err := workflow.Value(ctx, "v", func() int { return 1 }); err != nil {
					return 0, err
				}
			}
			if _, err := workflow.Step(ctx, "s", func(context.Context) (string, error) { return "", nil }); err != nil {
				return 0, err
			}
			return release.Receive(ctx)
		})
		input := workflow.New("wf", func(workflow.Context, string) (int, error) { return 0, nil })
		p := e.process(defs(before))
		for _, n := range []int{0, turns} {
			e.until(start(e, before, n).ID(), store.Sleeping)
		}
		p.stop()
		for _, tt := range []struct {
			def   workflow.Definition
			unfit int
			code  string
		}{{before, 0, ""}, {result, 2, workflow.CodeDecode}, {input, 2, workflow.CodeDecode}} {
			report, err := worker.CheckHistories(e.ctx, e.readOnly(), defs(tt.def))
			e.ok("check", err)
			e.eq("checked, unfit", []int{report.Checked, report.Unfit}, []int{2, tt.unfit})
			for _, m := range report.Misfits {
				e.eq("code", m.Code, tt.code)
			}
		}
	}},
}
