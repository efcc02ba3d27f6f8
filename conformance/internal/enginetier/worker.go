package enginetier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// workers lists the registered workers by ID.
func (e *E) workers() map[string]store.Worker {
	e.Helper()
	list, err := e.eng.Workers(e.ctx)
	e.ok("workers", err)
	m := make(map[string]store.Worker)
	for _, w := range list {
		m[w.ID] = w
	}
	return m
}

// listed returns a worker as a reader sees it that does not ask it for a sign of life.
func (e *E) listed(id string) store.Worker {
	e.Helper()
	list, err := store.AllWorkers(e.ctx, e.s, store.ListWorkersParams{Namespace: "engine"})
	e.ok("ListWorkers", err)
	for _, w := range list {
		if w.ID == id {
			return w
		}
	}
	e.Fatalf("worker %s is not listed", id)
	panic("unreachable")
}

// healthy waits until a process does its work.
func (p *proc) healthy() *proc {
	for p.worker.Healthy() != nil {
		pause(p.e)
	}
	return p
}

// gauge measures how many are inside at the same time.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *gauge) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	g.most = max(g.most, g.now)
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
}

var workerEngineCases = []Case{
	{Name: "worker/registration", Promise: "P11", Rule: "A worker registers what it is and serves, shows that it drains while its last steps run, and signs off.", Run: func(e *E) {
		at, release := make(chan struct{}, 1), make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "work", func(context.Context) error {
				at <- struct{}{}
				<-release
				return nil
			})
		}, workflow.Version("v2"), workflow.Queue("q"))
		other := workflow.New("other", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		p := e.process(defs(wf, other), worker.Label("zone", "a"), worker.Limit("wf@v2", 3))
		e.check(errors.Is(newIdle(e, p).Healthy(), worker.ErrNotRunning), "a worker that does not run says that it is healthy")
		p.healthy()
		h := start(e, wf, 4)
		receive(e, "the step", at)
		w := e.workers()[p.worker.ID()]
		host, _ := os.Hostname()
		e.eq("registration", []any{w.Host, w.PID, w.Queues, w.Workflows, w.Labels, w.Slots, w.Limits, w.Status, w.TTL, w.Held},
			[]any{host, os.Getpid(), []string{"other", "q"}, []string{"other", "wf@v2"}, map[string]string{"zone": "a"}, 10, map[string]int{"wf@v2": 3}, store.Online, 2 * e.ofLease(leaseFor), int64(1)})
		list, err := e.eng.Workflows(e.ctx)
		e.ok("workflows", err)
		e.eq("workflows", []string{list[0].Name + " " + list[0].Queue, list[1].Name + " " + list[1].Queue}, []string{"other other", "wf@v2 q"})
		p.cancel()
		for e.workers()[p.worker.ID()].Status != store.Draining {
			pause(e)
		}
		e.check(errors.Is(p.worker.Healthy(), worker.ErrDraining), "a worker that drains says %v", p.worker.Healthy())
		close(release)
		p.stop()
		e.eq("workers behind it", len(e.workers()), 0)
		e.check(errors.Is(p.worker.Healthy(), worker.ErrNotRunning), "a worker that has stopped says %v", p.worker.Healthy())
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.check(run.Status == store.Completed || run.Status == store.Pending && run.Crashes == 0, "the run is %v", run.Status)
	}},
	{Name: "worker/rests", Promise: "P18", Rule: "An idle worker writes a heartbeat every few minutes and is listed as online throughout. When it works again, it writes its usual heartbeats.", Run: func(e *E) {
		at, release := make(chan struct{}, 1), make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "work", func(context.Context) error {
				at <- struct{}{}
				<-release
				return nil
			})
		})
		var calls tally
		p := e.build(defs(wf))
		p.wire.before = func(verb string) { calls.add(verb) }
		p.run()
		p.healthy()
		wait := func(d time.Duration) {
			timer := time.NewTimer(d)
			<-timer.C
		}
		minutes := 21
		if !e.h.Bubble {
			minutes = 1
		}
		for range minutes {
			wait(e.d(time.Minute))
			e.eq("status", e.listed(p.worker.ID()).Status, store.Online)
			e.ok("Healthy", p.worker.Healthy())
		}
		if beats := calls.get("extend") + calls.get("put-worker"); e.h.Bubble {
			e.check(beats <= 5+2*4, "it has given %d signs of life in %d minutes", beats, minutes)
		}
		h := start(e, wf, 4)
		receive(e, "the step", at)
		lease := e.ofLease(leaseFor)
		for e.listed(p.worker.ID()).TTL != 2*lease {
			pause(e)
		}
		e.eq("Answers of one at work", e.listed(p.worker.ID()).Answers, time.Duration(0))
		first := calls.get("extend")
		wait(2 * lease)
		e.check(calls.get("extend") >= first+3, "at work for two leases it has given %d signs of life", calls.get("extend")-first)
		close(release)
		e.eq("output", result(e, h), 4)
	}},
	{Name: "worker/asked-at-rest", Promise: "P18", Rule: "An idle worker writes one heartbeat when a caller asks whether it is alive, and is then listed as online at once. A caller that looks again and again asks a few times a minute.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		var calls tally
		p := e.build(defs(wf))
		p.wire.before = func(verb string) { calls.add(verb) }
		p.run()
		p.healthy()
		if !e.h.Bubble {
			// The record says that it has been idle for long: really waiting would take too long.
			w := e.listed(p.worker.ID())
			w.TTL, w.Answers = time.Hour, 30*time.Second
			e.ok("put", e.s.PutWorker(e.ctx, store.PutWorkerParams{Namespace: "engine", Worker: w, Now: e.clock().Add(-time.Minute)}))
			w = e.workers()[p.worker.ID()]
			e.check(w.Status == store.Online && w.AskedAt.IsZero() && e.clock().Sub(w.SeenAt) < 30*time.Second, "the worker has not answered: %+v", w)
			return
		}
		wait := func(d time.Duration) { <-time.After(d) }
		wait(3 * time.Minute)
		signs := func() int { return int(calls.get("extend") + calls.get("put-worker")) }
		before, began := signs(), time.Now()
		w := e.workers()[p.worker.ID()]
		e.eq("status", w.Status, store.Online)
		soon := time.Second
		if !e.s.Features().Hints {
			soon = 10 * time.Second // it polls
		}
		e.check(time.Since(w.SeenAt) < soon && time.Since(began) < soon, "it was heard of last %v ago, and that was known after %v", time.Since(w.SeenAt), time.Since(began))
		e.eq("signs of life", signs()-before, 1)
		for range 30 {
			wait(2 * time.Second)
			list, err := e.eng.WorkersNow(e.ctx)
			e.ok("workers", err)
			e.eq("status", list[0].Status, store.Online)
		}
		wait(time.Second)                                                                             // the last one is on its way
		e.check(signs()-before <= 1+3+1, "it has given %d signs of life in a minute", signs()-before) // one puts the row, too
		before = signs()
		wait(4 * time.Minute)
		e.eq("signs of life when nobody asks", signs()-before, 0)
	}},
	{Name: "worker/crashed-at-rest", Promise: "P6", Rule: "A worker that was killed at rest is listed as offline within a minute, also by who asks but once, and a start that wants one online is refused.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		eng := engine.New(newWire(e.s), engine.Namespace("engine"), engine.Logger(quiet), engine.Require(engine.RequireOnline))
		defer eng.Close()
		p := e.process(defs(wf)).healthy()
		most := 5 * time.Second
		if e.h.Bubble {
			timer := time.NewTimer(7 * time.Minute)
			<-timer.C
			most = time.Minute
			_, err := wf.Start(e.ctx, eng, 1)
			e.ok("start while it lives", err)
			timer.Reset(2 * time.Minute)
			<-timer.C
		}
		p.kill()
		if !e.h.Bubble {
			w := e.listed(p.worker.ID())
			w.TTL, w.Answers = time.Hour, time.Second
			e.ok("put", e.s.PutWorker(e.ctx, store.PutWorkerParams{Namespace: "engine", Worker: w, Now: e.clock().Add(-time.Minute)}))
		}
		began := time.Now()
		_, err := wf.Start(e.ctx, eng, 2)
		e.says("start", err, engine.ErrNoWorker, `"wf"`, "start a worker")
		e.eq("status", e.workers()[p.worker.ID()].Status, store.Offline)
		if took := time.Since(began); e.h.Bubble {
			e.check(took <= most, "that was known after %v", took)
		}
	}},
	{Name: "worker/queues", Promise: "P1", Rule: "A worker also takes each of its workflows from its further queues, registers these pairs, and applies a workflow's limit to all of its queues together.", Run: func(e *E) {
		const limit, n = 2, 5
		var inside gauge
		heavy := workflow.New("heavy", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "work", func(ctx context.Context) error {
				inside.enter()
				defer inside.leave()
				pause(e)
				return nil
			})
		}, workflow.Queue("own"))
		parent := workflow.New("parent", func(ctx workflow.Context, in int) (int, error) {
			child, err := workflow.Child(ctx, "child", heavy, in, workflow.ChildQueue("urgent"))
			return child + 1, err
		})
		bridge.Of(e.eng).Know("heavy", "own") // they wait when the worker comes
		var hs []workflow.Handle[int]
		for i := range n {
			for _, q := range []string{"own", "urgent", "tenant"} {
				hs = append(hs, start(e, heavy, i, engine.Queue(q)))
			}
		}
		p := e.process(defs(heavy, parent), worker.Queues("urgent"), worker.Queues("tenant", "own"), worker.Limit("heavy", limit)).healthy()
		w := e.listed(p.worker.ID())
		both := []string{"heavy", "parent"}
		e.eq("queues", w.Queues, []string{"own", "parent", "tenant", "urgent"})
		e.eq("pairs", w.Takes, map[string][]string{"own": both, "parent": {"parent"}, "tenant": both, "urgent": both})
		h := start(e, parent, 41, engine.Queue("tenant"))
		e.eq("output of a parent", result(e, h), 42)
		for i, out := range results(e, hs) {
			e.eq("output", out, i/3)
		}
		e.check(inside.most <= limit, "%d runs executed at the same time", inside.most)
	}},
	{Name: "worker/queues-refused", Promise: "P16", Rule: "Invalid, repeated and too many queues are refused with an error that says what is wrong.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		var many []string
		for i := range 33 {
			many = append(many, fmt.Sprint("q", i))
		}
		var wfs []workflow.Definition
		for i := range 32 {
			wfs = append(wfs, workflow.New(fmt.Sprint("wf", i), func(ctx workflow.Context, in int) (int, error) { return in, nil }))
		}
		for _, tt := range []struct {
			opts  []worker.Option
			defs  []workflow.Definition
			words []string
		}{
			{[]worker.Option{worker.Queues("good", " bad")}, defs(wf), []string{"queue", `" bad"`}},
			{[]worker.Option{worker.Queues("")}, defs(wf), []string{"queue"}},
			{[]worker.Option{worker.Queues("a", "b"), worker.Queues("a")}, defs(wf), []string{`"a" twice`}},
			{[]worker.Option{worker.Queues(many...)}, defs(wf), []string{"33 queues", "up to 32"}},
			{[]worker.Option{worker.Queues(many[:32]...)}, wfs, []string{"1024 pairs", "up to 1000"}},
		} {
			w := worker.New(e.eng, tt.opts...)
			e.ok("register", w.Register(tt.defs...))
			e.says("Run", w.Run(e.ctx), store.ErrInvalid, tt.words...)
		}
	}},
	{Name: "worker/restart-leaves-no-double", Promise: "P4", Rule: "A worker that comes back after a crash, under its name or in a process of the same host and id, takes the place of the one that was.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		host, _ := os.Hostname()
		started := e.clock().Add(-time.Hour)
		for id, w := range map[string]store.Worker{
			"crashed":   {Host: host, PID: os.Getpid()},
			"named":     {Host: "another", PID: 1},
			"neighbour": {Host: host, PID: os.Getpid() + 1},
			"elsewhere": {Host: "another", PID: os.Getpid()},
		} {
			w.ID, w.Status, w.TTL = id, store.Online, 100*time.Hour
			e.ok("put", e.s.PutWorker(e.ctx, store.PutWorkerParams{Namespace: "engine", Worker: w, Now: started}))
		}
		p := e.process(defs(wf), worker.ID("named")).healthy()
		q := e.process(defs(wf)).healthy() // of the same process, and not a duplicate
		workers := e.workers()
		e.eq("workers", len(workers), 4)
		for _, id := range []string{"named", "neighbour", "elsewhere", q.worker.ID()} {
			e.check(workers[id].ID != "", "worker %s is gone: %v", id, workers)
		}
		w := workers["named"]
		e.eq("host and process", []any{w.Host, w.PID}, []any{host, os.Getpid()})
		e.check(w.StartedAt.After(started), "it is said to run since %v, when the former one began", w.StartedAt)
		// A wrong removal is repaired.
		e.ok("remove", e.s.RemoveWorker(e.ctx, store.RemoveWorkerParams{Namespace: "engine", ID: "named"}))
		for e.workers()["named"].ID == "" {
			pause(e)
		}
		p.stop()
		e.check(e.workers()["named"].ID == "", "it is still registered")
	}},
	{Name: "worker/lists-of-many-pages", Promise: "P14", Rule: "If the workers and the workflows of a namespace fill several pages, each list has all of them, a start finds the worker and the workflow of the last page, and a new worker finds all old registrations of its process.", Run: func(e *E) {
		text := strings.Repeat("x", store.PageBytes/3)
		host, _ := os.Hostname()
		began := e.clock()
		put := func(id string, w store.Worker) {
			w.ID, w.Status, w.TTL, w.Labels = id, store.Online, 100*time.Hour, map[string]string{"text": text}
			e.ok("put", e.s.PutWorker(e.ctx, store.PutWorkerParams{Namespace: "engine", Worker: w, Now: began}))
		}
		const n = 5
		for i := range n {
			put(fmt.Sprintf("a%d", i), store.Worker{})
			put(fmt.Sprintf("double%d", i), store.Worker{Host: host, PID: os.Getpid()})
		}
		metas := store.PageBytes/store.MaxMeta + 1
		for i := range metas {
			e.ok("put", e.s.PutWorkflows(e.ctx, store.PutWorkflowsParams{Namespace: "engine", Now: began, Workflows: []store.Workflow{
				{Name: fmt.Sprintf("f%02d", i), Queue: "q", Meta: make([]byte, store.MaxMeta)},
			}}))
		}
		for i := range store.MaxPage + 1 {
			e.ok("pause", e.s.PauseTarget(e.ctx, store.PauseTargetParams{Namespace: "engine", Queue: fmt.Sprintf("p%04d", i), Now: began}))
		}
		wf := workflow.New("last", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		e.process(defs(wf), worker.ID("z")).healthy()
		workers := e.workers()
		e.eq("workers", len(workers), n+1)
		e.check(workers["z"].ID != "" && workers["a4"].Labels["text"] == text, "the list of workers has lost some")
		eng := engine.New(newWire(e.s), engine.Namespace("engine"), engine.Logger(quiet), engine.Require(engine.RequireOnline))
		defer eng.Close()
		h, err := wf.Start(e.ctx, eng, 7)
		e.ok("start", err)
		got, err := h.Result(e.ctx)
		e.ok("result", err)
		e.eq("output", got, 7)
		health, err := eng.Health(e.ctx)
		e.ok("health", err)
		e.eq("workers online", health.Online, n+1)
		flows, err := eng.Workflows(e.ctx)
		e.ok("workflows", err)
		e.eq("workflows, and the last one", []any{len(flows), flows[len(flows)-1].Name}, []any{metas + 1, "last"})
		paused, err := eng.Paused(e.ctx)
		e.ok("paused", err)
		e.eq("what is paused", len(paused), store.MaxPage+1)
	}},
	{Name: "worker/crashed-is-offline", Promise: "P6", Rule: "A worker that was killed is offline when it has not been heard of for its time to live.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		p := e.process(defs(wf)).healthy()
		e.eq("status", e.workers()[p.worker.ID()].Status, store.Online)
		p.kill()
		for e.workers()[p.worker.ID()].Status != store.Offline {
			pause(e)
		}
	}},
	{Name: "worker/limit", Promise: "P1", Rule: "No more runs of a workflow execute at the same time in a worker than its limit says, however they come to it, and the worker's other workflows go on meanwhile.", Run: func(e *E) {
		const limit, n = 2, 30
		var inside gauge
		light := workflow.New("light", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		blocked, release := make(chan struct{}, 2*n), make(chan struct{})
		heavy := workflow.New("heavy", func(ctx workflow.Context, in int) (int, error) {
			for i := range 3 {
				err := workflow.Do(ctx, fmt.Sprint("work-", i), func(context.Context) error {
					inside.enter()
					defer inside.leave()
					if i == 0 {
						blocked <- struct{}{}
						<-release
					}
					return nil
				})
				if err != nil {
					return 0, err
				}
				// It waits without a slot, and returns while others execute.
				if err := workflow.Sleep(ctx, "nap", e.d(20*time.Millisecond)); err != nil {
					return 0, err
				}
			}
			return in, nil
		}, workflow.Queue("shared"))
		shared := workflow.New("shared", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		p := e.process(defs(light, heavy, shared), worker.Limit("heavy", limit)).healthy()
		for range limit {
			_, err := heavy.Start(e.ctx, p.eng, 0) // eager where there is room
			e.ok("start", err)
		}
		for range limit {
			receive(e, "a step of the heavy one", blocked)
		}
		hs := startN(e, heavy, n)
		var eager []workflow.Handle[int]
		for i := range 5 {
			h, err := heavy.Start(e.ctx, p.eng, i)
			e.ok("start", err)
			eager = append(eager, h)
		}
		for i := range 20 {
			e.eq("output of a light one", result(e, start(e, light, i)), i)
			e.eq("output of one in the same queue", result(e, start(e, shared, i)), i)
		}
		e.eq("steps of the heavy one under way", len(blocked), 0)
		close(release)
		for i, out := range results(e, hs) {
			e.eq("output", out, i)
		}
		for i, out := range results(e, eager) {
			e.eq("output", out, i)
		}
		e.eq("most at the same time", inside.most, limit)
	}},
	{Name: "worker/limit-wrong", Promise: "P16", Rule: "A limit that is not positive, or for a workflow that the worker does not have, is refused and named.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil }, workflow.Version("v1"))
		for _, opt := range []worker.Option{worker.Limit("wf@v1", 0), worker.Limit("wf", 2)} {
			w := worker.New(e.eng, opt)
			e.ok("register", w.Register(wf))
			e.says("run", w.Run(e.ctx), store.ErrInvalid, "limit", `"wf`)
		}
	}},
	{Name: "worker/leaves-while-it-claims", Promise: "P11", Rule: "A worker that is told to shut down while it claims releases what it has claimed: nothing waits for a lease.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			return in, workflow.Do(ctx, "step", func(context.Context) error { return nil })
		})
		hs := []workflow.Handle[int]{startBefore(e, wf)}
		hs = append(hs, startN(e, wf, 5)...)
		p := e.build(defs(wf))
		p.wire.after = func(verb string) {
			if verb == "claim" {
				p.cancel()
			}
		}
		p.run()
		<-p.done
		for _, h := range hs {
			run, err := e.eng.Get(e.ctx, h.ID())
			e.ok("get", err)
			e.check(run.Worker == "" && run.Crashes == 0, "run %s is %v, held by %q, %d crashes", run.ID, run.Status, run.Worker, run.Crashes)
		}
		e.process(defs(wf))
		e.eq("outputs", results(e, hs), []int{0, 0, 1, 2, 3, 4})
	}},
	{Name: "worker/drain-branches", Promise: "P11", Rule: "A run that is given back, or is to pause, while one branch is about to begin a step and another is in one, is left when that one is done and recorded.", Run: func(e *E) {
		var ran tally
		reached, goOn := make(chan struct{}, 1), make(chan struct{})
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			g := workflow.NewGroup(ctx)
			g.Go("long", func(ctx workflow.Context) error {
				return workflow.Do(ctx, "long", func(context.Context) error {
					ran.add("long")
					reached <- struct{}{}
					<-goOn
					return nil
				})
			})
			g.Go("short", func(ctx workflow.Context) error {
				for {
					enough, err := workflow.Step(ctx, "short", func(context.Context) (bool, error) {
						ran.add("short")
						pause(e)
						return ran.get("enough") > 0, nil
					})
					if err != nil || enough {
						return err
					}
				}
			})
			return 1, g.Wait()
		})
		for round, leave := range []func(p *proc, id store.ID){
			func(p *proc, _ store.ID) { p.cancel() },
			func(_ *proc, id store.ID) { e.ok("pause", e.eng.Pause(e.ctx, id)) },
		} {
			p := e.process(defs(wf))
			h := start(e, wf, 0)
			receive(e, "the long step", reached)
			leave(p, h.ID())
			// The short steps end: their branch is about to begin the next one.
			for seen := -1; seen < ran.get("short"); {
				seen = ran.get("short")
				pause(e)
				pause(e)
			}
			goOn <- struct{}{}
			switch round {
			case 0:
				p.stop()
				ran.add("enough")
				p = e.process(defs(wf))
			case 1:
				e.until(h.ID(), store.Paused)
				ran.add("enough")
				e.ok("resume", e.eng.Resume(e.ctx, h.ID()))
			}
			e.eq("output", result(e, h), 1)
			e.eq("executions of the long step", ran.get("long"), round+1)
			ran.drop("enough")
			p.stop()
		}
	}},
	{Name: "worker/drain-under-load", Promise: "P11", Rule: "Workers that shut down under load, one after the other, lose no step and repeat none, cancel nothing, and leave no run to wait for its lease.", Run: func(e *E) {
		const n = 150
		var mu sync.Mutex
		ran := make(map[string]int)
		var executed atomic.Int64
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			for i := range 4 {
				err := workflow.Do(ctx, fmt.Sprint("s", i), func(ctx context.Context) error {
					mu.Lock()
					ran[workflow.IdempotencyKey(ctx)]++
					mu.Unlock()
					executed.Add(1)
					timer := time.NewTimer(e.d(100 * time.Millisecond))
					<-timer.C // heeds no shutdown: it is quick
					return nil
				})
				if err != nil {
					return 0, err
				}
			}
			return in, nil
		})
		p := e.process(defs(wf))
		from := time.Now()
		hs := startN(e, wf, n)
		for round := range 8 {
			for target := int64(50 * (round + 1)); executed.Load() < target; {
				pause(e)
			}
			next := e.process(defs(wf)).healthy()
			p.stop()
			p = next
		}
		for i, out := range results(e, hs) {
			e.eq("output", out, i)
			run, err := e.eng.Get(e.ctx, hs[i].ID())
			e.ok("get", err)
			e.eq("crashes", run.Crashes, 0)
			e.eq("records", len(e.steps(hs[i].ID())), 4)
		}
		e.eq("steps", len(ran), 4*n)
		for key, times := range ran {
			e.check(times == 1, "step %s was executed %d times", key, times)
		}
		took := time.Since(from)
		e.check(!e.h.Bubble || took < leaseFor, "it took %v: a run has waited for its lease", took)
	}},
	{Name: "worker/healthy", Promise: "P2", Rule: "A worker whose leases cannot be renewed reports that it is not ready, and is ready again when the store answers.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		p := e.process(defs(wf)).healthy()
		p.wire.set(wireDown)
		for {
			err := p.worker.Healthy()
			if errors.Is(err, worker.ErrStale) {
				break
			}
			e.check(err == nil, "saw %v", err)
			pause(e)
		}
		p.wire.set(wireUp)
		p.healthy()
	}},
	{Name: "health/answers", Promise: "P16", Rule: "The health check returns the store's latency and the number of workers; an unreachable store is an error that says so, within the given time.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		p := e.process(defs(wf)).healthy()
		h, err := e.eng.Health(e.ctx)
		e.ok("health", err)
		e.eq("backend and workers", []any{h.Backend, h.Online, h.Draining}, []any{e.s.Features().Name, 1, 0})
		e.check(h.Skew.Abs() < time.Minute, "the clocks are %v apart", h.Skew)
		for _, state := range []wireState{wireDown, wireHangs} {
			p.wire.set(state)
			ctx, cancel := context.WithTimeout(e.ctx, e.d(4*time.Second))
			_, err = p.eng.Health(ctx)
			cancel()
			e.says("health of a store out of reach", err, store.ErrUnavailable, e.s.Features().Name)
			p.wire.set(wireUp)
		}
	}},
	{Name: "start/online", Promise: "P16", Rule: "A start that requires an online worker is refused at once if there is none, and one is enough.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) { return in, nil })
		eng := engine.New(newWire(e.s), engine.Namespace("engine"), engine.Logger(quiet), engine.Require(engine.RequireOnline))
		defer eng.Close()
		_, err := wf.Start(e.ctx, eng, 1)
		e.says("start of a workflow that nobody has", err, engine.ErrUnknownWorkflow, `"wf"`)
		first := e.process(defs(wf)).healthy()
		h, err := wf.Start(e.ctx, eng, 2)
		e.ok("start", err)
		e.eq("output", result(e, h), 2)
		first.stop()
		for err == nil {
			pause(e)
			_, err = wf.Start(e.ctx, eng, 3)
		}
		e.says("start without a worker", err, engine.ErrNoWorker, `"wf"`, "start a worker")
		e.process(defs(wf)).healthy()
		h, err = wf.Start(e.ctx, eng, 4)
		e.ok("start as soon as one is there", err)
		e.eq("output", result(e, h), 4)
	}},
	{Name: "start/online-in-queue", Promise: "P16", Rule: "A start that requires an online worker is refused if none takes its workflow from its queue, even if workers serve the workflow and the queue separately. The error says from which queues workers take the workflow and what to do.", Run: func(e *E) {
		a := workflow.New("a", func(ctx workflow.Context, in int) (int, error) { return in, nil }, workflow.Queue("qa"))
		b := workflow.New("b", func(ctx workflow.Context, in int) (int, error) { return in, nil }, workflow.Queue("qb"))
		eng := engine.New(newWire(e.s), engine.Namespace("engine"), engine.Logger(quiet), engine.Require(engine.RequireOnline))
		defer eng.Close()
		first := e.process(defs(a, b)).healthy()
		for _, queue := range []string{"nowhere", "qb"} { // the worker serves queue qb, and workflow a
			for what, start := range map[string]func() error{
				"start": func() error { return errOf(a.Start(e.ctx, eng, 1, engine.Queue(queue))) },
				"start of many": func() error {
					return errOf(eng.StartMany(e.ctx, "a", []engine.Item{{Input: []byte("1")}, {Input: []byte("2"), Options: []engine.StartOption{engine.Queue(queue)}}}))
				},
				"schedule": func() error {
					return errOf(a.Schedule(e.ctx, eng, "s", "@hourly", 1, engine.ScheduleRuns(engine.Queue(queue))))
				},
			} {
				e.says(what+" in queue "+queue, start(), engine.ErrNoWorker, `"a"`, fmt.Sprintf("queue %q", queue), `from "qa"`, fmt.Sprintf("worker.Queues(%q)", queue))
			}
		}
		h, err := a.Start(e.ctx, eng, 2)
		e.ok("start in its own queue", err)
		e.eq("output", result(e, h), 2)
		e.process(defs(a), worker.Queues("nowhere")).healthy()
		h, err = a.Start(e.ctx, eng, 3, engine.Queue("nowhere"))
		e.ok("start as soon as somebody serves the queue", err)
		e.eq("output", result(e, h), 3)
		_, err = b.Start(e.ctx, eng, 4, engine.Queue("nowhere"))
		e.says("start of a workflow that is not taken from there", err, engine.ErrNoWorker, `"b"`, `"nowhere"`, `from "qb"`)
		first.stop()
	}},
}

// newIdle makes a worker that is not run.
func newIdle(e *E, p *proc) *worker.Worker {
	e.Helper()
	return worker.New(p.eng)
}
