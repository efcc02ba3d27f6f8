package enginetier

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

var refEngineCases = []Case{
	{Name: "start/by-reference", Promise: "P16", Rule: "A program without a workflow's function starts, finds and awaits its runs by name; they go to the queue that its workers have registered, also when that changes.", Run: func(e *E) {
		served := func(queue string) *workflow.Workflow[int, string] {
			return workflow.New("wf", func(ctx workflow.Context, in int) (string, error) { return queue, nil }, workflow.Version("2"), workflow.Queue(queue))
		}
		ref := workflow.Ref[int, string]("wf@2")
		client := engine.New(e.s, engine.Namespace("engine"), engine.Logger(quiet))
		defer client.Close()
		_, err := ref.Start(e.ctx, client, 1)
		e.says("start of what nobody has registered", err, engine.ErrUnknownWorkflow, "wf@2")
		p := e.process(defs(served("special")))
		var h workflow.Handle[string]
		for {
			if h, err = ref.Start(e.ctx, client, 1, engine.ExternalID("order-1")); !errors.Is(err, engine.ErrUnknownWorkflow) {
				break // the worker has registered it
			}
			pause(e)
		}
		e.ok("start", err)
		e.eq("output", result(e, h), "special")
		found, err := ref.Find(e.ctx, client, "order-1")
		e.ok("find", err)
		e.eq("the run found, its output", []any{found.ID(), result(e, found)}, []any{h.ID(), "special"})
		_, err = workflow.Ref[int, string]("another").Find(e.ctx, client, "order-1")
		e.says("find by another workflow", err, store.ErrConflict, `"wf@2"`, `"another"`)
		_, err = served("special").Find(e.ctx, client, "order-2")
		e.says("find of an unknown id", err, store.ErrNotFound, `"order-2"`)
		hs, err := ref.StartMany(e.ctx, client, []workflow.Each[int]{{In: 1}, {In: 2}})
		e.ok("start of many", err)
		e.eq("outputs", results(e, hs), []string{"special", "special"})
		if !e.h.Bubble {
			return // the rest takes a minute
		}
		p.stop()
		e.process(defs(served("moved")))
		for moved := time.Now(); time.Since(moved) <= time.Minute; {
			pause(e)
		}
		h, err = ref.Start(e.ctx, client, 1)
		e.ok("start", err)
		e.eq("output of a run behind the move", result(e, h), "moved")
	}},
	{Name: "child/by-reference", Promise: "P9", Rule: "A run starts children and items by a reference to a workflow of another program, and a program schedules it so. They go to the queue that its workers have registered; before any has, to the queue of its name.", Run: childByReference},
	{Name: "signal/key", Promise: "P4", Rule: "A signal that is sent with a key arrives once, however often it is sent, by the run's ID or its external id. Another key or name is another signal.", Run: func(e *E) {
		sig, other := workflow.NewSignal[int]("n"), workflow.NewSignal[int]("other")
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (sum int, err error) {
			for _, s := range []workflow.Signal[int]{sig, sig, other} {
				v, err := s.Receive(ctx)
				if err != nil {
					return 0, err
				}
				sum += v
			}
			_, err = sig.ReceiveTimeout(ctx, 0)
			if !errors.Is(err, workflow.ErrTimeout) {
				return 0, errors.New("there is another signal")
			}
			return sum, nil
		})
		bridge.Of(e.eng).Know(wf.Name(), wf.Name())
		h := start(e, wf, 0, engine.ExternalID("order-1"))
		for range 2 {
			e.ok("send", sig.Send(e.ctx, e.eng, h.ID(), 1, workflow.SendKey("a")))
			e.ok("send", sig.SendTo(e.ctx, e.eng, "order-1", 1, workflow.SendKey("a")))
			e.ok("send", sig.SendTo(e.ctx, e.eng, "order-1", 10, workflow.SendKey("b")))
			e.ok("send", other.Send(e.ctx, e.eng, h.ID(), 100, workflow.SendKey("a")))
		}
		e.process(defs(wf))
		e.eq("output", result(e, h), 111)
		e.ok("send behind the end", sig.SendTo(e.ctx, e.eng, "order-1", 1, workflow.SendKey("a")))
		e.says("another behind the end", sig.SendTo(e.ctx, e.eng, "order-1", 1, workflow.SendKey("c")), store.ErrFinished, `"order-1"`)
	}},
}

func childByReference(e *E) {
	elsewhere := workflow.New("elsewhere", func(_ workflow.Context, in int) (int, error) { return 2 * in, nil }, workflow.Queue("special"))
	late := workflow.New("late", func(_ workflow.Context, in int) (int, error) { return in, nil })
	ref, lateRef := workflow.Ref[int, int]("elsewhere"), workflow.Ref[int, int]("late")
	parent := workflow.New("parent", func(ctx workflow.Context, _ int) (outs []int, err error) {
		unregistered, err := workflow.StartChild(ctx, "late", lateRef, 1)
		if err != nil {
			return nil, err
		}
		one, err := workflow.Child(ctx, "one", ref, 1)
		if err != nil {
			return nil, err
		}
		if outs, err = workflow.Map(ctx, "map", []int{2, 3}, ref); err != nil {
			return nil, err
		}
		reduced, err := workflow.Reduce(ctx, "reduce", []int{4, 5}, ref, 0, func(sum, _, out int) (int, error) { return sum + out, nil })
		if err != nil {
			return nil, err
		}
		generated, err := workflow.Generate(ctx, "generate", func(_ context.Context, yield func(int) error) error { return yield(6) }, ref)
		if err != nil {
			return nil, err
		}
		last, err := unregistered.Get(ctx)
		return append(outs, one, reduced, int(generated.Completed), last), err
	})
	e.process(defs(elsewhere))
	e.process(defs(parent))
	for {
		workflows, err := store.AllWorkflows(e.ctx, e.s, store.ListWorkflowsParams{Namespace: "engine"})
		e.ok("list of workflows", err)
		if len(workflows) == 2 {
			break
		}
		pause(e)
	}
	h := start(e, parent, 0)
	for e.settled(h.ID())[store.Completed] < 6 {
		pause(e)
	}
	for _, child := range e.children(h.ID()) {
		want := "special"
		if child.Workflow == "late" {
			want = "late"
		}
		e.eq("queue of a child of "+child.Workflow, child.Queue, want)
	}
	e.process(defs(late))
	e.eq("outputs", result(e, h), []int{4, 6, 2, 18, 1, 1})

	s, err := ref.Schedule(e.ctx, e.eng, "hourly", "0 * * * *", 7)
	e.ok("schedule", err)
	e.eq("the schedule's workflow and queue", []any{s.Workflow, s.Queue, string(s.Input)}, []any{"elsewhere", "special", "7"})
	_, err = workflow.Ref[int, int]("nobody's").Schedule(e.ctx, e.eng, "never", "0 * * * *", 7)
	e.says("schedule of what nobody has registered", err, engine.ErrUnknownWorkflow, "nobody's")
}
