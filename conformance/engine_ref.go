package conformance

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

var refEngineCases = []EngineCase{
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
			if h, err = ref.Start(e.ctx, client, 1, engine.ID("order-1")); !errors.Is(err, engine.ErrUnknownWorkflow) {
				break // the worker has registered it
			}
			pause(e)
		}
		e.ok("start", err)
		e.eq("output", result(e, h), "special")
		found, err := ref.Find(e.ctx, client, "order-1", "")
		e.ok("find", err)
		e.eq("the run found, its output", []any{found.ID(), result(e, found)}, []any{h.ID(), "special"})
		_, err = workflow.Ref[int, string]("another").Find(e.ctx, client, "order-1", "")
		e.says("find by another workflow", err, store.ErrConflict, `"wf@2"`, `"another"`)
		_, err = served("special").Find(e.ctx, client, "order-2", "")
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
	{Name: "signal/key", Promise: "P4", Rule: "A signal that is sent with a key arrives once, however often and to whatever address of the run it is sent; another key or name is another signal.", Run: func(e *E) {
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
		e.eng.Know(wf.Name(), wf.Name())
		h := start(e, wf, 0, engine.ID("order-1"))
		for range 2 {
			e.ok("send", sig.Send(e.ctx, e.eng, h.ID(), 1, workflow.SendKey("a")))
			e.ok("send", sig.SendTo(e.ctx, e.eng, "order-1", "", 1, workflow.SendKey("a")))
			e.ok("send", sig.SendTo(e.ctx, e.eng, "order-1", "", 10, workflow.SendKey("b")))
			e.ok("send", other.Send(e.ctx, e.eng, h.ID(), 100, workflow.SendKey("a")))
		}
		e.process(defs(wf))
		e.eq("output", result(e, h), 111)
		e.ok("send behind the end", sig.SendTo(e.ctx, e.eng, "order-1", "", 1, workflow.SendKey("a")))
		e.says("another behind the end", sig.SendTo(e.ctx, e.eng, "order-1", "", 1, workflow.SendKey("c")), store.ErrFinished, `"order-1"`)
	}},
}
