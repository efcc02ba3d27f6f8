package enginetier

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// elsewhere is an engine on another store, empty, with a worker for the workflows if
// there are any.
func (e *E) elsewhere(defs ...workflow.Definition) *engine.Engine {
	e.Helper()
	if _, ok := e.s.(store.Importer); !ok {
		e.Skip("the backend imports no runs")
	}
	w := newWire(e.h.New(e.TB))
	w.loseEvery(3) // an import takes effect once
	eng := engine.New(w, engine.Namespace("laptop"), engine.Logger(quiet))
	e.TB.Cleanup(eng.Close)
	if len(defs) > 0 {
		wk := worker.New(eng, worker.Lease(e.ofLease(leaseFor)))
		e.ok("register", wk.Register(defs...))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = wk.Run(ctx)
		}()
		e.TB.Cleanup(func() { cancel(); <-done })
	}
	return eng
}

func (e *E) export(id store.ID, opts ...engine.ExportOption) []byte {
	e.Helper()
	var b bytes.Buffer
	e.ok("export", e.eng.Export(e.ctx, &b, id, opts...))
	return b.Bytes()
}

var exportEngineCases = []Case{
	{Name: "export/shown-and-forked-elsewhere", Promise: "P4", Rule: "A run that was exported from one store and imported into another is shown there as it was, and is executed only if it is forked or resumed.", Run: func(e *E) {
		var ran tally
		fail := true
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
			for _, name := range []string{"one", "two"} {
				if err := workflow.Do(ctx, name, func(context.Context) error { ran.add(name); return nil }); err != nil {
					return "", err
				}
			}
			return workflow.Step(ctx, "three", func(context.Context) (string, error) {
				ran.add("three")
				if fail {
					return "", fmt.Errorf("<no> & never")
				}
				return fmt.Sprint("done ", in), nil
			}, workflow.Attempts(1))
		})
		p := e.process(defs(wf))
		h := start(e, wf, 7, engine.ExternalID("order-7"), engine.Priority(5))
		_, err := h.Result(e.ctx)
		e.check(err != nil, "it did not fail")
		p.stop()
		fail = false
		data := e.export(h.ID())
		there := e.elsewhere(wf)
		made, err := there.Import(e.ctx, bytes.NewReader(data))
		e.ok("import", err)
		e.eq("imported", made[0].ID, h.ID())
		e.eq("its status", made[0].Status, store.Failed)
		here, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		got, err := there.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("failure", *got.Failure, *here.Failure)
		here.Namespace, here.Failure, got.Failure = "laptop", nil, nil
		e.eq("run", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", here))
		steps, err := e.eng.Steps(e.ctx, h.ID())
		e.ok("steps", err)
		copied, err := there.Steps(e.ctx, h.ID())
		e.ok("steps", err)
		e.eq("steps", len(copied), 3)
		for i := range copied {
			copied[i].Failure, steps[i].Failure = nil, nil
		}
		e.eq("steps", fmt.Sprintf("%+v", copied), fmt.Sprintf("%+v", steps))
		f, err := there.Fork(e.ctx, h.ID(), engine.FromStep("two"))
		e.ok("fork", err)
		out, err := wf.Handle(there, f.ID).Result(e.ctx)
		e.ok("result of the fork", err)
		e.eq("output of the fork", out, "done 7")
		e.eq("executions", []int{ran.get("one"), ran.get("two"), ran.get("three")}, []int{1, 2, 2})
		again, err := there.Import(e.ctx, bytes.NewReader(data))
		e.ok("import again", err)
		e.check(again[0].Existing, "a second import made the run again")
	}},
	{Name: "export/open-run", Promise: "P1", Rule: "A waiting run is exported with its state, signals and children, and is paused where it is imported; resumed, it continues from where it was.", Run: func(e *E) {
		var ran tally
		go1 := workflow.NewSignal[string]("go")
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
			if err := workflow.Do(ctx, "one", func(context.Context) error { ran.add("one"); return nil }); err != nil {
				return "", err
			}
			if err := workflow.Sleep(ctx, "nap", e.d(2*time.Minute)); err != nil {
				return "", err
			}
			return go1.Receive(ctx)
		})
		p := e.process(defs(wf))
		h := start(e, wf, 7)
		e.until(h.ID(), store.Sleeping)
		p.stop()
		e.ok("send", go1.Send(e.ctx, e.eng, h.ID(), "\x00<&>"))
		e.ok("send", e.eng.Signal(e.ctx, store.NewSignal{Run: h.ID(), Name: "raw", Payload: []byte{0xff, 0}}))
		_, err := e.eng.SetState(e.ctx, h.ID(), store.StateWrite{Key: "k", Value: []byte("no json")}, store.StateWrite{Key: "empty", Value: []byte{}}, store.StateWrite{Key: "nil"},
			store.StateWrite{Key: "spaced", Value: []byte("{ }")}, store.StateWrite{Key: "json", Value: []byte(`{"b":1,"a":[1.50,"é"]}`)})
		e.ok("set state", err)
		data := e.export(h.ID())
		there := e.elsewhere(wf)
		made, err := there.Import(e.ctx, bytes.NewReader(data))
		e.ok("import", err)
		e.eq("status", made[0].Status, store.Paused)
		here, err := e.eng.GetState(e.ctx, h.ID())
		e.ok("state", err)
		got, err := there.GetState(e.ctx, h.ID())
		e.ok("state", err)
		e.eq("state", got, here)
		other, err := wf.Start(e.ctx, there, 0, engine.Delay(24*time.Hour))
		e.ok("start", err)
		e.ok("cancel", there.Cancel(e.ctx, other.ID(), ""))
		run, err := there.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("status before it is resumed", run.Status, store.Paused)
		e.ok("resume", there.Resume(e.ctx, h.ID()))
		out, err := wf.Handle(there, h.ID()).Result(e.ctx)
		e.ok("result", err)
		e.eq("output", out, "\x00<&>")
		e.eq("executions of the step before", ran.get("one"), 1)
		run, err = e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("status of the exported run", run.Status, store.Sleeping)
	}},
	{Name: "export/children", Promise: "P9", Rule: "A run is exported with its descendants where that is asked for, and their counts go with it.", Run: func(e *E) {
		const n = 12
		root := e.family("child", n)
		e.ok("cancel", e.eng.Cancel(e.ctx, store.DeriveID(root.Run, "child-3"), ""))
		there := e.elsewhere()
		made, err := there.Import(e.ctx, bytes.NewReader(e.export(root.Run, engine.WithChildren())))
		e.ok("import", err)
		e.eq("imported", len(made), n+1)
		page, err := there.List(e.ctx, store.RunFilter{Parent: root.Run}, "", 0)
		e.ok("list", err)
		e.eq("children", len(page.Runs), n)
		box, err := there.Store().Inbox(e.ctx, store.InboxParams{Namespace: "laptop", Run: root.Run})
		e.ok("inbox", err)
		e.eq("groups", box.Groups, []store.Group{{Name: "family", Total: n, Open: n - 1, Canceled: 1}})
		alone := e.elsewhere()
		made, err = alone.Import(e.ctx, bytes.NewReader(e.export(root.Run)))
		e.ok("import", err)
		e.eq("imported without children", len(made), 1)
	}},
	{Name: "export/carries-everything", Promise: "P4", Rule: "A run that waits for its start time waits as long where it is imported. Its unread signals, the ids of those that it has read, its state steps, the limits that it is under and its hold on its external id are imported, too.", Run: func(e *E) {
		next := workflow.NewSignal[int]("next")
		sums := workflow.NewState[int]("sum")
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			for range in {
				v, err := next.Receive(ctx)
				if err != nil {
					return 0, err
				}
				if err := sums.Set(ctx, v); err != nil {
					return 0, err
				}
			}
			return in, nil
		})
		const n = store.MaxPage + 50
		p := e.process(defs(wf))
		h := start(e, wf, n+3, engine.ExternalID("order-1"))
		for i := range 2 {
			e.ok("send", next.Send(e.ctx, e.eng, h.ID(), i, workflow.SendKey(fmt.Sprint(i))))
		}
		for len(e.steps(h.ID())) < 5 {
			pause(e) // until it waits for the third
		}
		e.until(h.ID(), store.Sleeping)
		p.stop()
		for i := range n {
			e.ok("send", next.Send(e.ctx, e.eng, h.ID(), i+2))
		}
		under := []store.LimitUse{{Limit: "tenant", Key: "acme", Tokens: 2}}
		later, err := wf.Start(e.ctx, e.eng, 0, engine.Delay(e.d(24*time.Hour)), engine.Under(under...))
		e.ok("start", err)
		there := e.elsewhere(wf)
		for _, id := range []store.ID{h.ID(), later.ID()} {
			_, err := there.Import(e.ctx, bytes.NewReader(e.export(id)))
			e.ok("import", err)
		}
		again, err := wf.Start(e.ctx, there, n+3, engine.ExternalID("order-1"))
		e.ok("start of what was imported", err)
		e.check(again.Existing() && again.ID() == h.ID(), "the imported run does not hold its external id")
		_, err = wf.Start(e.ctx, there, 1, engine.ExternalID("order-1"))
		e.says("start with another input", err, store.ErrConflict, "another input")
		e.ok("send again", next.Send(e.ctx, there, h.ID(), 0, workflow.SendKey("0")))
		e.ok("send", next.Send(e.ctx, there, h.ID(), n+2))
		e.ok("resume", there.Resume(e.ctx, h.ID()))
		out, err := wf.Handle(there, h.ID()).Result(e.ctx)
		e.ok("result", err)
		e.eq("output", out, n+3)
		e.ok("resume", there.Resume(e.ctx, later.ID()))
		here, err := e.eng.Get(e.ctx, later.ID())
		e.ok("get", err)
		run, err := there.Get(e.ctx, later.ID())
		e.ok("get", err)
		e.eq("status, start and limits of the run that waits", []any{run.Status, run.VisibleAt, run.Under}, []any{store.Pending, here.VisibleAt, under})
	}},
	{Name: "export/version-1", Promise: "P4", Rule: "An export of version 1 can be imported.", Run: func(e *E) {
		there := e.elsewhere()
		id := store.NewID()
		made, err := there.Import(e.ctx, strings.NewReader(`{"format":"pawl-runs","version":1,"exported_at":"2026-11-01T00:00:00Z","backend":"sqlite","namespace":"engine","runs":[
			{"id":"`+id.String()+`","workflow":"wf","queue":"wf","status":"sleeping","created_at":"2026-11-01T00:00:00Z","started_at":"2026-11-01T00:00:01Z","attempt":1,"epoch":2,"events":1,
			"input":{"json":7},"signals":[{"id":"`+store.NewID().String()+`","name":"go","payload":{"base64":"AAE="},"sent_at":"2026-11-01T00:00:02Z"}]}]}`))
		e.ok("import", err)
		e.eq("imported", made, []engine.Imported{{ID: id, Status: store.Paused}})
	}},
	{Name: "export/bad-input", Promise: "P16", Rule: "Data that is not an export, or cannot be imported, is refused with the reason.", Run: func(e *E) {
		there := e.elsewhere()
		for text, word := range map[string]string{
			"":                                   "not valid JSON",
			"{}":                                 `format is ""`,
			`{"format":"pawl-runs","version":3}`: "version is 3",
			`{"format":"pawl-runs","version":1,"runs":[{"id":"x"}]}`:                                                                   "x",
			`{"format":"pawl-runs","version":1,"runs":[{"id":"` + store.NewID().String() + `","status":"failed"}]}`:                    "workflow",
			`{"format":"pawl-runs","version":1,"runs":[{"id":"` + store.NewID().String() + `","steps":[{"name":"a","kind":"what"}]}]}`: `"what"`,
			`{"format":"pawl-runs","version":1,"runs":[{"id":"` + store.NewID().String() + `","input":{"text":1}}]}`:                   "base64",
		} {
			_, err := there.Import(e.ctx, strings.NewReader(text))
			e.says("import of "+text, err, store.ErrInvalid, "import", word)
		}
		e.says("export of an unknown run", e.eng.Export(e.ctx, &bytes.Buffer{}, store.NewID()), store.ErrNotFound, "export")
	}},
}
