package enginetier

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// few is a share that no run is within.
const few = 1e-9

// unhurried is for workers whose runs must not crash, however slow the machine is.
var unhurried = worker.Lease(5 * time.Minute)

// idleWorker registers a worker of the old build that serves the workflow and claims nothing. The
// function that it returns removes it.
func (e *E) idleWorker(workflow string) (remove func()) {
	e.Helper()
	w := store.Worker{ID: "old", Host: "elsewhere", Build: oldBuild, Workflows: []string{workflow}, Queues: []string{workflow}, Status: store.Online, TTL: 24 * time.Hour}
	e.ok("put", e.s.PutWorker(e.ctx, store.PutWorkerParams{Namespace: "engine", Worker: w}))
	return func() {
		e.ok("remove", e.s.RemoveWorker(e.ctx, store.RemoveWorkerParams{Namespace: "engine", ID: "old"}))
	}
}

// divided waits until each run is completed, or pinned to the old build, and returns those of the
// second kind.
func (e *E) divided(hs []workflow.Handle[int]) (left []workflow.Handle[int]) {
	e.Helper()
	for _, h := range hs {
		for {
			run, err := e.eng.Get(e.ctx, h.ID())
			e.ok("get", err)
			if run.PinnedTo() == oldBuild && run.Status == store.Pending {
				e.eq("the pin", *run.Pin, store.Pin{Build: oldBuild, By: newBuild, Ramp: true})
				e.check(run.Attempt == 1 && run.Crashes == 0 && run.Build == "" && run.Failure == nil, "saw %+v, expected a new run", run)
				left = append(left, h)
				break
			}
			if run.Status == store.Completed {
				break
			}
			pause(e)
		}
	}
	return left
}

var shareEngineCases = []Case{
	{Name: "build/share", Promise: "P19", Rule: "A worker with a share executes the new runs within it, and leaves the others to another build; a larger share includes a smaller one.", Run: func(e *E) {
		const runs = 60
		var ran tally
		wf := order(e, &ran, nil, "prepare")
		remove := e.idleWorker("order")
		p := e.process(defs(wf), worker.Build(newBuild), worker.Share(0.3), unhurried)
		hs := startN(e, wf, runs)
		left := e.divided(hs)
		e.check(len(left) > runs/4 && len(left) < runs, "the share of 0.3 left %d of %d runs, expected about 42", len(left), runs)
		e.eq("executions of runs that are within it", ran.total(), runs-len(left))
		e.eq("its label", e.listed(p.worker.ID()).Labels["pawl.share"], "0.3")
		p.stop()
		for _, h := range left {
			e.ok("unpin", e.eng.Unpin(e.ctx, h.ID()))
		}
		p = e.process(defs(wf), worker.Build(newBuild), worker.Share(0.6), unhurried)
		again := e.divided(left)
		e.check(len(again) < len(left), "a share of 0.6 left %d of the %d runs that a share of 0.3 left, expected fewer", len(again), len(left))
		p.stop()
		remove()
		e.process(defs(wf), worker.Build(oldBuild))
		for i, n := range results(e, hs) {
			e.eq("output", n, i)
			e.eq("executions", ran.get(fmt.Sprint("prepare-", i)), 1)
		}
	}},
	{Name: "build/share-taken-up", Promise: "P19", Rule: "A run that a share leaves to another build is not pinned any more when a worker of that build executes it; a pinned workflow's run is pinned as usual.", Run: func(e *E) {
		version := func(name string, opts ...workflow.Option) *workflow.Workflow[int, int] {
			return workflow.New(name, func(ctx workflow.Context, in int) (int, error) {
				if err := workflow.Do(ctx, "first", func(context.Context) error { return nil }); err != nil {
					return 0, err
				}
				_, err := release.Receive(ctx)
				return in, err
			}, opts...)
		}
		free, kept := version("free"), version("kept", workflow.Pinned())
		e.process(defs(free, kept), worker.Build(oldBuild), unhurried).healthy()
		e.process(defs(free, kept), worker.Build(newBuild), worker.Share(few), unhurried).healthy()
		f, k := startN(e, free, 10), startN(e, kept, 10)
		for i := range f {
			run := e.until(f[i].ID(), store.Sleeping)
			e.check(run.Pin == nil || run.Build == newBuild, "saw pin %+v of a run that build %s executes, expected none", run.Pin, run.Build)
			run = e.until(k[i].ID(), store.Sleeping)
			e.eq("the pin of a pinned workflow's run", *run.Pin, store.Pin{Build: run.Build})
			e.ok("send", release.Send(e.ctx, e.eng, f[i].ID(), 1))
			e.ok("send", release.Send(e.ctx, e.eng, k[i].ID(), 1))
		}
		for i, n := range results(e, append(f, k...)) {
			e.eq("output", n, i%10)
		}
		for _, h := range f {
			run, err := e.eng.Get(e.ctx, h.ID())
			e.ok("get", err)
			e.check(run.Pin == nil && run.Attempt == 1 && run.Crashes == 0, "saw %+v, expected no pin, one attempt and no crash", run)
		}
	}},
	{Name: "build/share-alone", Promise: "P19", Rule: "A worker with a share takes all new runs if no other build serves them, and any run that is not new.", Run: func(e *E) {
		var ran tally
		wf := order(e, &ran, nil, "prepare", "charge")
		old := e.process(defs(wf), worker.Build(oldBuild))
		under := startN(e, wf, 5)
		for _, h := range under {
			e.until(h.ID(), store.Sleeping)
		}
		old.stop()
		remove := e.idleWorker("another")
		e.process(defs(wf), worker.Build(newBuild), worker.Share(few))
		for i, n := range results(e, startN(e, wf, 5)) {
			e.eq("output of a new run, while the other build serves another workflow", n, i)
		}
		remove()
		defer e.idleWorker("order")()
		for i, n := range results(e, under) {
			e.eq("output of a run that another build has begun", n, i)
		}
	}},
	{Name: "build/share-lapses", Promise: "P19", Rule: "Runs that a share has left to a build are claimed by any build when that one has no online worker any more, also if no worker with a share is left.", Run: func(e *E) {
		var ran tally
		wf := order(e, &ran, nil, "prepare")
		remove := e.idleWorker("order")
		p := e.process(defs(wf), worker.Build(newBuild), worker.Share(few))
		first := startN(e, wf, 5)
		e.eq("runs that are left", len(e.divided(first)), 5)
		x := e.explains("left to a build that is online", first[0].ID(), engine.ReasonWaiting)
		e.check(strings.Contains(x.String(), `build "v2" takes only a share of the new runs`), "saw %v", x)
		remove()
		for i, n := range results(e, first) { // the worker with the share sees that they are left to nobody
			e.eq("output", n, i)
		}
		remove = e.idleWorker("order")
		second := startN(e, wf, 5)
		for len(e.divided(second)) < 5 { // it learns of the other build after a moment
			second = startN(e, wf, 5)
		}
		p.stop()
		remove()
		stranded, err := e.eng.Stranded(e.ctx)
		e.ok("stranded", err)
		e.eq("builds with stranded runs", stranded, []store.Build{{Name: oldBuild, Pinned: 5}})
		if !e.h.Bubble { // others look only after a minute or two
			_, err := e.untilIdle(e.ctx, defs(wf))
			e.ok("run until idle", err)
		}
		e.process(defs(wf), worker.Build("v3"))
		for i, n := range results(e, second) {
			e.eq("output", n, i)
		}
	}},
	{Name: "build/share-refused", Promise: "P19", Rule: "A share that is not above 0 and at most 1, and one of a worker without a build, is an error that says so.", Run: func(e *E) {
		wf := order(e, nil, nil)
		for _, share := range []float64{0, -0.1, 1.1, math.NaN(), math.Inf(1)} {
			w := worker.New(e.eng, worker.Build(newBuild), worker.Share(share))
			e.ok("register", w.Register(wf))
			e.says(fmt.Sprint("a share of ", share), w.Run(e.ctx), store.ErrInvalid, fmt.Sprint(share), "above 0 and at most 1")
		}
		w := worker.New(e.eng, worker.Build(""), worker.Share(0.1))
		e.ok("register", w.Register(wf))
		e.says("a share without a build", w.Run(e.ctx), store.ErrInvalid, "worker.Build")
	}},
}
