package enginetier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// release lets a run of these cases continue; it is sent once for each place at which a run waits.
var release = workflow.NewSignal[int]("release")

// pathOf returns a workflow that waits, asks which path it follows, does one step of that
// path, waits again, and returns the path.
func pathOf(ask func(ctx workflow.Context) string) *workflow.Workflow[int, string] {
	return workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
		if _, err := release.Receive(ctx); err != nil {
			return "", err
		}
		path := ask(ctx)
		if err := workflow.Do(ctx, path, func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		_, err := release.Receive(ctx)
		return path, err
	})
}

// The versions of that workflow, as they are deployed one after the other.
var (
	pathBefore = pathOf(func(workflow.Context) string { return "old" })
	pathMarked = pathOf(func(ctx workflow.Context) string {
		if workflow.Changed(ctx, "path") {
			return "new"
		}
		return "old"
	})
	pathDeprecated = pathOf(func(ctx workflow.Context) string {
		workflow.Deprecated(ctx, "path")
		return "new"
	})
	pathAfter = pathOf(func(workflow.Context) string { return "new" })
)

// toSecond starts a run and brings it to its second wait, on workers that exist.
func (e *E) toSecond(wf *workflow.Workflow[int, string], path string) workflow.Handle[string] {
	e.Helper()
	h := start(e, wf, 0)
	e.ok("send", release.Send(e.ctx, e.eng, h.ID(), 1))
	e.recorded(h.ID(), path)
	e.until(h.ID(), store.Sleeping)
	return h
}

// recorded waits until a run has recorded a step.
func (e *E) recorded(id store.ID, key string) {
	e.Helper()
	for {
		if _, ok := e.steps(id)[key]; ok {
			return
		}
		pause(e)
	}
}

// follows lets a run continue to its end, which must be by that path.
func (e *E) follows(what string, h workflow.Handle[string], signals int, path string) {
	e.Helper()
	for range signals {
		e.ok("send", release.Send(e.ctx, e.eng, h.ID(), 1))
	}
	e.eq("path of "+what, result(e, h), path)
}

var markEngineCases = []Case{
	{Name: "mark/changed", Promise: "P16", Rule: "A run that reaches a mark for the first time follows the new code. A run that is past it follows the old code, which can still read it after a rollback.", Run: func(e *E) {
		p := e.process(defs(pathBefore))
		early, past, back := start(e, pathBefore, 0), e.toSecond(pathBefore, "old"), e.toSecond(pathBefore, "old")
		e.until(early.ID(), store.Sleeping)
		p.stop()
		p = e.process(defs(pathMarked))
		marked := e.toSecond(pathMarked, "new")
		e.follows("a run that is past the mark", past, 1, "old")
		e.follows("a run from before the mark", early, 2, "new")
		e.ok("send", other.Send(e.ctx, e.eng, back.ID(), 1)) // which records nothing
		e.until(back.ID(), store.Sleeping)
		p.stop()
		s, ok := e.steps(marked.ID())["changed path"]
		e.check(ok && s.Kind == store.KindMark && s.Status == store.StepCompleted, "the record of the mark: saw %+v", s)
		for key, s := range e.steps(past.ID()) {
			e.check(s.Kind != store.KindMark, "a run that is past the mark has recorded %s", key)
		}
		p = e.process(defs(pathBefore))
		e.follows("a run after the rollback", back, 1, "old")
		p.stop()
		e.process(defs(pathMarked))
		e.follows("a run under the mark", marked, 1, "new")
	}},
	{Name: "mark/deprecated", Promise: "P16", Rule: "When a mark's old path is deleted, runs of the new path go on; what is recorded from then on needs no mark.", Run: func(e *E) {
		p := e.process(defs(pathMarked))
		one, two := e.toSecond(pathMarked, "new"), e.toSecond(pathMarked, "new")
		p.stop()
		p = e.process(defs(pathDeprecated))
		e.follows("a run that got true", one, 1, "new")
		three, four := e.toSecond(pathDeprecated, "new"), e.toSecond(pathDeprecated, "new")
		p.stop()
		e.eq("kind of the record", e.steps(three.ID())["deprecated path"].Kind, store.KindMark)
		p = e.process(defs(pathMarked))
		e.follows("a run after a rollback", three, 1, "new")
		e.follows("an old run after a rollback", two, 1, "new")
		p.stop()
		e.process(defs(pathAfter))
		e.follows("a run under code without the mark", four, 1, "new")
	}},
	{Name: "mark/gone", Promise: "P16", Rule: "Code that has deleted a mark too early is reported with the mark's name and what to do.", Run: func(e *E) {
		for _, tt := range []struct {
			before, after *workflow.Workflow[int, string]
			path, says    string
		}{
			{pathMarked, pathAfter, "new", `keep workflow.Changed(ctx, "path")`},
			{pathBefore, pathDeprecated, "old", `from before mark "path"`},
		} {
			p := e.process(defs(tt.before))
			h := e.toSecond(tt.before, tt.path)
			p.stop()
			p = e.process(defs(tt.after))
			e.ok("send", release.Send(e.ctx, e.eng, h.ID(), 1))
			_, err := h.Result(e.ctx)
			e.check(errors.Is(err, engine.ErrNondeterministic) && strings.Contains(err.Error(), tt.says), "saw %v, expected an error with %s", err, tt.says)
			p.stop()
		}
	}},
	{Name: "mark/everywhere", Promise: "P16", Rule: "Marks in branches, in children, in items of maps, and before a loop are decided each by its own history.", Run: func(e *E) {
		versions := map[string][]workflow.Definition{}
		var wf *workflow.Workflow[int, string]
		for _, version := range []string{"old", "new"} {
			decide := func(ctx workflow.Context) string {
				if version == "new" && workflow.Changed(ctx, "m") {
					return "new"
				}
				return "old"
			}
			path := func(ctx workflow.Context, wait bool) (string, error) {
				path := decide(ctx)
				if err := workflow.Do(ctx, path, func(context.Context) error { return nil }); err != nil || !wait {
					return path, err
				}
				_, err := release.Receive(ctx)
				return path, err
			}
			kid := workflow.New("kid", func(ctx workflow.Context, _ int) (string, error) { return path(ctx, false) })
			wf = workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
				looped := decide(ctx)
				early := workflow.Go(ctx, "early", func(ctx workflow.Context) (string, error) { return path(ctx, true) })
				for range 2 {
					if err := workflow.Do(ctx, "turn-"+looped, func(context.Context) error { return nil }); err != nil {
						return "", err
					}
				}
				a, err := early.Get(ctx)
				if err != nil {
					return "", err
				}
				b, err := workflow.Go(ctx, "late", func(ctx workflow.Context) (string, error) { return path(ctx, false) }).Get(ctx)
				if err != nil {
					return "", err
				}
				c, err := workflow.Child(ctx, "kid", kid, 0)
				if err != nil {
					return "", err
				}
				d, err := workflow.Map(ctx, "kids", []int{1, 2}, kid)
				return fmt.Sprint(looped, a, b, c, d), err
			})
			versions[version] = defs(wf, kid)
		}
		p := e.process(versions["old"])
		h := start(e, wf, 0)
		e.recorded(h.ID(), "early/old")
		e.recorded(h.ID(), "turn-old#2")
		e.until(h.ID(), store.Sleeping)
		p.stop()
		e.process(versions["new"])
		e.ok("send", release.Send(e.ctx, e.eng, h.ID(), 1))
		e.eq("a run under way", result(e, h), "oldoldnewnew[new new]")
		h = start(e, wf, 0)
		e.ok("send", release.Send(e.ctx, e.eng, h.ID(), 1))
		e.eq("a new run", result(e, h), "newnewnewnew[new new]")
	}},
	{Name: "mark/twice", Promise: "P16", Rule: "A mark that a branch asks for twice, as in a loop, fails the run with a message that says what to do. Marks with a name for each iteration are decided separately.", Run: func(e *E) {
		loop := workflow.New("loop", func(ctx workflow.Context, named int) (n int, err error) {
			for turn := range 3 {
				mark := "m"
				if named > 0 {
					mark = fmt.Sprint("m ", turn)
				}
				if workflow.Changed(ctx, mark) {
					n++
				}
				if err := workflow.Do(ctx, "turn", func(context.Context) error { return nil }); err != nil {
					return n, err
				}
			}
			return n, nil
		})
		e.process(defs(loop))
		_, err := start(e, loop, 0).Result(e.ctx)
		e.eq("code", workflow.ErrorCode(err), workflow.CodeMark)
		e.check(err != nil && strings.Contains(err.Error(), "call workflow.Changed before the loop"), "saw %v, which does not say what to do", err)
		e.eq("marks of the turns", result(e, start(e, loop, 1)), 3)
	}},
	{Name: "mark/branch-behind", Promise: "P16", Rule: "A step that is new in front of a branch that the history has does not run, and a branch that is gone is reported.", Run: func(e *E) {
		var ran tally
		version := func(step, branch bool) *workflow.Workflow[int, int] {
			return workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
				if step {
					if err := workflow.Do(ctx, "new", func(context.Context) error { ran.add("new"); return nil }); err != nil {
						return 0, err
					}
				}
				g := workflow.NewGroup(ctx)
				if branch {
					g.Go("b", func(ctx workflow.Context) error {
						return workflow.Do(ctx, "in branch", func(context.Context) error { return nil })
					})
				}
				return 0, g.Wait()
			})
		}
		before := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			g := workflow.NewGroup(ctx)
			g.Go("b", func(ctx workflow.Context) error {
				if err := workflow.Do(ctx, "in branch", func(context.Context) error { return nil }); err != nil {
					return err
				}
				_, err := release.Receive(ctx)
				return err
			})
			return 0, g.Wait()
		})
		for _, after := range []*workflow.Workflow[int, int]{version(true, true), version(false, false)} {
			p := e.process(defs(before))
			h := start(e, before, 0)
			e.recorded(h.ID(), "b/in branch")
			e.until(h.ID(), store.Sleeping)
			p.stop()
			p = e.process(defs(after))
			e.ok("send", release.Send(e.ctx, e.eng, h.ID(), 1))
			_, err := h.Result(e.ctx)
			e.check(errors.Is(err, engine.ErrNondeterministic), "saw %v, expected ErrNondeterministic", err)
			p.stop()
		}
		e.eq("runs of the new step", ran.get("new"), 0)
	}},
	{Name: "export/mark", Promise: "P16", Rule: "An exported run has its marks where it is imported, and follows them there.", Run: func(e *E) {
		p := e.process(defs(pathMarked))
		h := e.toSecond(pathMarked, "new")
		p.stop()
		there := e.elsewhere(pathMarked)
		_, err := there.Import(e.ctx, bytes.NewReader(e.export(h.ID())))
		e.ok("import", err)
		steps, err := there.Steps(e.ctx, h.ID())
		e.ok("steps", err)
		e.check(len(steps) > 1 && steps[1].Kind == store.KindMark && steps[1].Name == "changed path", "saw %v, expected the mark behind the signal", steps)
		e.ok("resume", there.Resume(e.ctx, h.ID()))
		e.ok("send", release.Send(e.ctx, there, h.ID(), 1))
		out, err := pathMarked.Handle(there, h.ID()).Result(e.ctx)
		e.ok("result", err)
		e.eq("path", out, "new")
	}},
}
