package enginetier

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

const (
	oldBuild = "v1"
	newBuild = "v2"
)

// rest is how long runs sleep while one build stops and another one starts.
func (e *E) rest() time.Duration { return e.d(80 * time.Second) }

// order is a workflow of some steps with a sleep after each, the first of them a rest.
func order(e *E, ran *tally, opts []workflow.Option, steps ...string) *workflow.Workflow[int, int] {
	return workflow.New("order", func(ctx workflow.Context, in int) (int, error) {
		for i, name := range steps {
			if err := workflow.Do(ctx, name, func(context.Context) error { ran.add(fmt.Sprint(name, "-", in)); return nil }); err != nil {
				return 0, err
			}
			nap := e.rest()
			if i > 0 {
				nap = e.d(10 * time.Second)
			}
			if err := workflow.Sleep(ctx, fmt.Sprint("nap-", i), nap); err != nil {
				return 0, err
			}
		}
		return in, nil
	}, opts...)
}

// pinnedTo waits until a run is pinned to a build and not held.
func (e *E) pinnedTo(id store.ID, build string) store.Run {
	e.Helper()
	for {
		run, err := e.eng.Get(e.ctx, id)
		e.ok("get", err)
		if run.PinnedTo() == build && run.Status == store.Pending {
			return run
		}
		if run.Status.Final() {
			e.Fatalf("run is %v (%v), expected it pinned to build %s", run.Status, run.Failure, build)
		}
		pause(e)
	}
}

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// with returns the lines that have a text.
func (l *lines) with(text string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			list = append(list, line)
		}
	}
	return list
}

// waitsEarlier has the old build of a program record so many steps, which go on past the place where
// the new one waits for the child. The new build gives the run back when wake has reached it, and
// the old one ends it when finish has reached the child.
func waitsEarlier(e *E, kid *workflow.Workflow[int, int], version func(early bool) *workflow.Workflow[int, int], steps int, expected string, wake func(workflow.Handle[int]), finish func(child store.ID)) {
	before, after := version(false), version(true)
	old := e.process(defs(before, kid), worker.Build(oldBuild))
	h := start(e, before, 7)
	for len(e.children(h.ID())) == 0 || len(e.steps(h.ID())) < steps {
		pause(e)
	}
	e.until(h.ID(), store.Sleeping)
	old.stop()
	report, err := worker.CheckHistories(e.ctx, e.eng, defs(after, kid))
	e.ok("check", err)
	e.eq("unfit", report.Unfit, 1)
	e.process(defs(after, kid), worker.Build(newBuild))
	wake(h)
	run := e.pinnedTo(h.ID(), oldBuild)
	e.eq("the reason", *run.Pin, store.Pin{Build: oldBuild, By: newBuild, Step: "prepare", Expected: expected, Found: "step prepare"})
	e.process(defs(before, kid), worker.Build(oldBuild))
	finish(e.children(h.ID())[0].ID)
	e.eq("output", result(e, h), 8)
}

var buildEngineCases = []Case{
	{Name: "build/rolling-deploy", Promise: "P20", Rule: "While an old and a new build overlap, runs that come to a step which one of them does not know wait for the other: none fails, and no step runs twice.", Run: func(e *E) {
		const runs = 40
		var ran tally
		before := order(e, &ran, nil, "prepare", "charge", "ship")
		after := order(e, &ran, nil, "prepare", "check", "charge", "ship")
		old := e.process(defs(before), worker.Build(oldBuild))
		hs := startN(e, before, runs)
		for _, h := range hs {
			e.until(h.ID(), store.Sleeping)
		}
		e.process(defs(after), worker.Build(newBuild)) // the overlap: runs hop between the builds
		for i, n := range results(e, hs) {
			e.eq("output", n, i)
			for _, name := range []string{"prepare", "charge", "ship"} {
				e.eq(fmt.Sprintf("executions of %s of run %d", name, i), ran.get(fmt.Sprint(name, "-", i)), 1)
			}
		}
		old.stop()
	}},
	{Name: "build/given-back", Promise: "P20", Rule: "A run whose history does not fit is pinned to the build that recorded it, with the reason, and completes when that build is back.", Run: func(e *E) {
		var ran tally
		before, after := order(e, &ran, nil, "prepare", "charge"), order(e, &ran, nil, "verify", "charge")
		old := e.process(defs(before), worker.Build(oldBuild))
		h := start(e, before, 7)
		was := e.until(h.ID(), store.Sleeping)
		e.eq("the build that recorded it", was.Build, oldBuild)
		old.stop()
		other := e.process(defs(after), worker.Build(newBuild))
		run := e.pinnedTo(h.ID(), oldBuild)
		e.eq("the reason", *run.Pin, store.Pin{Build: oldBuild, By: newBuild, Step: "prepare", Expected: `function "verify"`, Found: `function "prepare"`})
		e.check(run.Attempt == 1 && run.Crashes == 0 && run.Failure == nil && run.Build == oldBuild, "saw %+v, expected the attempt, crashes, failure and build that it had", run)
		builds, err := e.eng.Builds(e.ctx)
		e.ok("builds", err)
		e.eq("builds", builds, []store.Build{{Name: oldBuild, Pinned: 1, Runs: 1}, {Name: newBuild, Workers: 1, Online: 1}})
		e.ok("unpin", e.eng.Unpin(e.ctx, h.ID()))
		e.pinnedTo(h.ID(), oldBuild) // the new build has tried again
		e.eq("executions of verify", ran.get("verify-7"), 0)
		e.process(defs(before), worker.Build(oldBuild))
		e.eq("output", result(e, h), 7)
		e.eq("executions of prepare", ran.get("prepare-7"), 1)
		other.stop()
	}},
	{Name: "build/unpin", Promise: "P4", Rule: "To unpin a run that is not pinned is an error that says so; an unpin whose answer was lost succeeds, and unpins the run once.", Run: func(e *E) {
		pinned := func() store.ID {
			e.Helper()
			id := store.NewID()
			res, err := e.s.Create(e.ctx, store.CreateParams{Namespace: "engine", Runs: []store.NewRun{{ID: id, Workflow: "wf", Queue: "wf", Worker: "w", LeaseFor: time.Hour, Build: oldBuild}}})
			e.ok("create", err)
			given, err := e.s.Commit(e.ctx, store.CommitParams{Namespace: "engine", Commits: []store.Commit{{
				Lease: res[0].Lease, Seq: 1, Pin: &store.Pin{Build: oldBuild, By: newBuild, Step: "charge"}, Transition: &store.Transition{Kind: store.GiveBack}}}})
			e.ok("commit", err)
			e.ok("its item", given[0].Err)
			return id
		}
		id := pinned()
		e.ok("unpin", e.eng.Unpin(e.ctx, id))
		e.says("a second unpin", e.eng.Unpin(e.ctx, id), store.ErrConflict, "unpin", id.String(), `"engine"`, "not pinned")
		unknown := store.NewID()
		e.says("unpin of an unknown run", e.eng.Unpin(e.ctx, unknown), store.ErrNotFound, "unpin", unknown.String())
		e.ok("cancel", e.eng.Cancel(e.ctx, id, ""))
		e.says("unpin of a final run", e.eng.Unpin(e.ctx, id), store.ErrFinished, id.String(), "canceled")

		wire := newWire(e.s)
		eng := engine.New(wire, engine.Namespace("engine"), engine.Logger(quiet))
		defer eng.Close()
		id = pinned()
		wire.loseNext("unpin", 2)
		e.ok("an unpin whose answers are lost", eng.Unpin(e.ctx, id))
		e.eq("answers that are still to be lost", wire.leftToLose("unpin"), 0)
		run, err := e.eng.Get(e.ctx, id)
		e.ok("get", err)
		e.eq("the pin", run.Pin, (*store.Pin)(nil))

		ids := []store.ID{pinned(), pinned(), pinned()}
		wire.loseNext("unpin", 1)
		done, err := eng.UnpinMany(e.ctx, store.RunFilter{PinnedTo: []string{oldBuild}})
		e.ok("unpin of many", err)
		e.eq("unpinned", done, engine.Bulk{Done: 3})
		for _, id := range ids {
			run, err := e.eng.Get(e.ctx, id)
			e.ok("get", err)
			e.eq("the pin", run.Pin, (*store.Pin)(nil))
		}
		_, err = e.eng.UnpinMany(e.ctx, store.RunFilter{})
		e.says("unpin of all runs", err, store.ErrInvalid, "unpin", `"engine"`)
		done, err = e.eng.UnpinMany(e.ctx, store.RunFilter{Workflow: "wf"})
		e.ok("unpin of many, none of them pinned", err)
		e.eq("unpinned", done, engine.Bulk{})
	}},
	{Name: "build/stranded", Promise: "P16", Rule: "Explain and Stranded report a run whose build no online worker has, with the build, what did not fit, and what can be done. They stop when the run is unpinned or its build is back.", Run: func(e *E) {
		var ran tally
		before, after := order(e, &ran, nil, "prepare"), order(e, &ran, nil, "verify")
		kept := workflow.New("kept", func(ctx workflow.Context, in int) (int, error) {
			err := workflow.Do(ctx, "first", func(context.Context) error { return nil })
			if err == nil {
				err = workflow.Sleep(ctx, "long", e.d(24*time.Hour))
			}
			return in, err
		}, workflow.Pinned())
		old := e.process(defs(before, kept), worker.Build(oldBuild))
		h, k := start(e, before, 7), start(e, kept, 7)
		e.until(h.ID(), store.Sleeping)
		e.until(k.ID(), store.Sleeping)
		none, err := e.eng.Stranded(e.ctx)
		e.ok("stranded", err)
		e.eq("builds with stranded runs", len(none), 0)
		old.stop()
		e.explains("pinned by its workflow", k.ID(), engine.ReasonSleep, "until", "pinned to build \"v1\"", "asks to stay on the build that started it", "it is stranded", "start a worker of build \"v1\"")
		e.process(defs(after, kept), worker.Build(newBuild)).healthy()
		e.pinnedTo(h.ID(), oldBuild)
		ways := []string{"start a worker of build \"v1\"", "unpin the run", "restart it from a step", "cancel it by force"}
		e.explains("stranded", h.ID(), engine.ReasonStranded, append(ways, `pinned to build "v1", and no worker of that build is online`,
			`build "v2" gave it back at step prepare, where its code expected function "verify" and found function "prepare"`)...)
		builds, err := e.eng.Stranded(e.ctx)
		e.ok("stranded", err)
		e.eq("builds with stranded runs", builds, []store.Build{{Name: oldBuild, Pinned: 2, Runs: 2}})
		e.says("an unknown build", e.eng.CheckBuilds(e.ctx, oldBuild, "v3"), store.ErrNotFound, `"v3"`, `"engine"`, `"v1", "v2"`)
		e.ok("known builds", e.eng.CheckBuilds(e.ctx, oldBuild, newBuild))

		e.ok("pause", e.eng.PauseQueue(e.ctx, "order"))
		e.explains("of a paused queue", h.ID(), engine.ReasonQueuePaused, append(ways, "it is stranded", "gave it back at step prepare")...)
		e.ok("unpin", e.eng.Unpin(e.ctx, h.ID()))
		x := e.explains("unpinned", h.ID(), engine.ReasonQueuePaused)
		e.check(!strings.Contains(x.String(), "pinned to build"), "saw a pin explained, expected none:\n%v", x)
		e.ok("resume", e.eng.ResumeQueue(e.ctx, "order"))
		e.pinnedTo(h.ID(), oldBuild)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), ""))
		e.explains("canceling", h.ID(), engine.ReasonCanceling, append(ways, "it is stranded")...)
		back := e.process(defs(before), worker.Build(oldBuild))
		e.until(h.ID(), store.Canceled)
		builds, err = e.eng.Stranded(e.ctx)
		e.ok("stranded", err)
		e.eq("builds with stranded runs once the build is back", len(builds), 0)
		back.stop()
		e.ok("unpin", e.eng.Unpin(e.ctx, k.ID()))
		x = e.explains("unpinned, and asleep", k.ID(), engine.ReasonSleep)
		e.check(!strings.Contains(x.String(), "stranded"), "saw a stranded run, expected none:\n%v", x)
	}},
	{Name: "build/logged", Promise: "P16", Rule: "A worker logs once for each workflow and build that it gives runs back to, with what did not fit and the commands that help.", Run: func(e *E) {
		log := &lines{}
		e.opts = []engine.Option{engine.Logger(slog.New(slog.NewTextHandler(log, nil)))}
		var ran tally
		before, after := order(e, &ran, nil, "prepare the order"), order(e, &ran, nil, "verify")
		old := e.process(defs(before), worker.Build(oldBuild))
		hs := startN(e, before, 3)
		for _, h := range hs {
			e.until(h.ID(), store.Sleeping)
		}
		old.stop()
		next := e.process(defs(after), worker.Build(newBuild))
		for _, h := range hs {
			e.pinnedTo(h.ID(), oldBuild)
		}
		e.ok("unpin", e.eng.Unpin(e.ctx, hs[0].ID()))
		e.pinnedTo(hs[0].ID(), oldBuild)
		next.stop()
		told := log.with("another build recorded runs")
		if len(told) != 1 {
			e.Fatalf("saw %d lines, expected one:\n%s", len(told), strings.Join(told, "\n"))
		}
		for _, word := range []string{"build=v1", "\"this build\"=v2", "workflow=order", "step=\"prepare the order\"", "pawl runs unpin ", "pawl runs fork ", "--from 'prepare the order'",
			"pawl runs cancel --force ", "pawl purge --older-than 0s --status canceled --workflow order", "--namespace engine"} {
			e.check(strings.Contains(told[0], word), "saw %s\nexpected it to say %q", told[0], word)
		}
	}},
	{Name: "build/branch-given-back", Promise: "P20", Rule: "While a branch has not reached the operations that another build has recorded for it, no other branch does or records anything new: the run is given back unchanged.", Run: func(e *E) {
		var ran tally
		hasted := make(chan struct{})
		program := func(late string, wait bool) *workflow.Workflow[int, int] {
			return workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
				do := func(ctx workflow.Context, name string) error {
					return workflow.Do(ctx, name, func(context.Context) error { ran.add(name); return nil })
				}
				g := workflow.NewGroup(ctx)
				g.Go("hasty", func(ctx workflow.Context) error {
					if err := workflow.Sleep(ctx, "nap", e.rest()); err != nil {
						return err
					}
					if err := do(ctx, "act"); err != nil {
						return err
					}
					if wait {
						close(hasted)
					}
					return workflow.Sleep(ctx, "rest", e.d(10*time.Second))
				})
				g.Go("late", func(ctx workflow.Context) error {
					if wait {
						select { // its replay takes a while
						case <-hasted:
						case <-time.After(e.d(3 * time.Second)):
						}
					}
					return do(ctx, late)
				})
				return in, g.Wait()
			})
		}
		before, after := program("prepare", false), program("verify", true)
		old := e.process(defs(before), worker.Build(oldBuild))
		h := start(e, before, 7)
		e.until(h.ID(), store.Sleeping)
		old.stop()
		other := e.process(defs(after), worker.Build(newBuild))
		e.pinnedTo(h.ID(), oldBuild)
		e.eq("executions of act by the build that the history does not fit", ran.get("act"), 0)
		steps, err := e.eng.Steps(e.ctx, h.ID())
		e.ok("steps", err)
		for _, s := range steps {
			e.check(s.Name == "prepare" || s.Name == "nap" && s.Status == store.StepRunning, "saw %+v, expected the history as it was", s)
		}
		other.stop()
		e.process(defs(before), worker.Build(oldBuild))
		e.eq("output", result(e, h), 7)
		e.eq("executions", []int{ran.get("prepare"), ran.get("act"), ran.get("verify")}, []int{1, 1, 0})
	}},
	{Name: "build/waits-too-early", Promise: "P20", Rule: "A run whose history goes on past a child that the code waits for is given back before the child ends, and a check says so.", Run: func(e *E) {
		kid := workflow.New("kid", func(ctx workflow.Context, _ int) (int, error) { return release.Receive(ctx) })
		version := func(early bool) *workflow.Workflow[int, int] {
			return workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
				child, err := workflow.StartChild(ctx, "c", kid, in)
				if err != nil {
					return 0, err
				}
				if early {
					if _, err := child.Get(ctx); err != nil {
						return 0, err
					}
				}
				if err := workflow.Do(ctx, "prepare", func(context.Context) error { return nil }); err != nil {
					return 0, err
				}
				if _, err := release.Receive(ctx); err != nil {
					return 0, err
				}
				return child.Get(ctx)
			})
		}
		waitsEarlier(e, kid, version, 3, "the end of child c", func(h workflow.Handle[int]) {
			e.ok("send", release.Send(e.ctx, e.eng, h.ID(), 1))
		}, func(child store.ID) { e.ok("send", release.Send(e.ctx, e.eng, child, 8)) })
	}},
	{Name: "build/joins-too-early", Promise: "P20", Rule: "A run whose history goes on past a branch that the code waits for is given back before the branch ends, and a check says so.", Run: func(e *E) {
		kid := workflow.New("kid", func(ctx workflow.Context, _ int) (int, error) { return release.Receive(ctx) })
		version := func(early bool) *workflow.Workflow[int, int] {
			return workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
				side := workflow.Go(ctx, "side", func(ctx workflow.Context) (int, error) { return workflow.Child(ctx, "c", kid, in) })
				if early {
					if _, err := side.Get(ctx); err != nil {
						return 0, err
					}
				}
				if err := workflow.Do(ctx, "prepare", func(context.Context) error { return nil }); err != nil {
					return 0, err
				}
				return side.Get(ctx)
			})
		}
		waitsEarlier(e, kid, version, 2, `the end of branch "side"`, func(h workflow.Handle[int]) {
			e.ok("send", release.Send(e.ctx, e.eng, e.children(h.ID())[0].ID, 8))
		}, func(store.ID) {})
	}},
	{Name: "build/killed-at-rest", Promise: "P6", Rule: "If the last worker of a build was killed while it was idle, the build has no online worker within a minute, even for a caller that asks only once.", Run: func(e *E) {
		var ran tally
		p := e.process(defs(order(e, &ran, nil, "prepare")), worker.Build(oldBuild)).healthy()
		if e.h.Bubble {
			timer := time.NewTimer(9 * time.Minute)
			<-timer.C
		}
		p.kill()
		if !e.h.Bubble {
			w := e.listed(p.worker.ID())
			w.TTL, w.Answers = time.Hour, time.Second
			e.ok("put", e.s.PutWorker(e.ctx, store.PutWorkerParams{Namespace: "engine", Worker: w, Now: e.clock().Add(-time.Minute)}))
		}
		began := time.Now()
		builds, err := e.eng.Builds(e.ctx)
		e.ok("builds", err)
		for _, b := range builds {
			e.check(b.Name != oldBuild || b.Online == 0, "saw %+v, expected no worker online", b)
		}
		if took := time.Since(began); e.h.Bubble {
			e.check(took <= time.Minute, "that was known after %v", took)
		}
	}},
	{Name: "build/parent-notices-nothing", Promise: "P20", Rule: "The parent of a child that is given back continues to wait, and gets the child's result.", Run: func(e *E) {
		var ran tally
		before, after := order(e, &ran, nil, "prepare"), order(e, &ran, nil, "verify")
		parent := workflow.New("parent", func(ctx workflow.Context, in int) (int, error) { return workflow.Child(ctx, "c", before, in) })
		e.process(defs(parent))
		old := e.process(defs(before), worker.Build(oldBuild))
		h := start(e, parent, 7)
		for len(e.children(h.ID())) == 0 {
			pause(e)
		}
		child := e.children(h.ID())[0].ID
		e.until(child, store.Sleeping)
		old.stop()
		e.process(defs(after), worker.Build(newBuild))
		e.pinnedTo(child, oldBuild)
		e.process(defs(before), worker.Build(oldBuild))
		e.eq("output", result(e, h), 7)
	}},
	{Name: "build/undecodable", Promise: "P20", Rule: "A run whose recorded result does not fit the code's type is given back to the build that recorded it.", Run: func(e *E) {
		before := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			n, err := workflow.Step(ctx, "s", func(context.Context) (int, error) { return in, nil })
			if err == nil {
				err = workflow.Sleep(ctx, "nap", e.rest())
			}
			return n, err
		})
		after := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			_, err := workflow.Step(ctx, "s", func(context.Context) ([]string, error) { return nil, nil })
			if err == nil {
				err = workflow.Sleep(ctx, "nap", e.rest())
			}
			return 0, err
		})
		old := e.process(defs(before), worker.Build(oldBuild))
		h := start(e, before, 7)
		e.until(h.ID(), store.Sleeping)
		old.stop()
		e.process(defs(after), worker.Build(newBuild))
		e.pinnedTo(h.ID(), oldBuild)
		e.process(defs(before), worker.Build(oldBuild))
		e.eq("output", result(e, h), 7)
	}},
	{Name: "build/pinned-workflow", Promise: "P19", Rule: "A run of a pinned workflow stays on the build that started it, also where its history fits another.", Run: func(e *E) {
		var first, second tally
		before, after := order(e, &first, []workflow.Option{workflow.Pinned()}, "a", "b"), order(e, &second, []workflow.Option{workflow.Pinned()}, "a", "b")
		old := e.process(defs(before), worker.Build(oldBuild))
		h := start(e, before, 7)
		run := e.until(h.ID(), store.Sleeping)
		e.eq("the pin", *run.Pin, store.Pin{Build: oldBuild})
		old.stop()
		e.process(defs(after), worker.Build(newBuild))
		other := start(e, after, 8)
		e.eq("output of a run that the new build has started", result(e, other), 8)
		e.eq("steps of the old run on the new build", second.get("b-7"), 0)
		e.process(defs(before), worker.Build(oldBuild))
		e.eq("output", result(e, h), 7)
		e.eq("executions of b", []int{first.get("b-7"), second.get("b-7"), second.get("b-8")}, []int{1, 0, 1})
	}},
}
