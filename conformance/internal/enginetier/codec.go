package enginetier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/codec"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// sealed is a codec that encrypts with the first of some keys and opens what any of them
// has encrypted.
func sealed(names ...string) engine.Codec {
	ring := codec.Keyring{Current: names[0], Keys: map[string][]byte{}}
	for _, name := range names {
		ring.Keys[name] = bytes.Repeat([]byte(name[:1]), 32)
	}
	return codec.Chain(engine.JSON{}, codec.AESGCM(ring))
}

func (e *E) processWith(c engine.Codec, defs []workflow.Definition, opts ...worker.Option) *proc {
	e.Helper()
	p := e.buildWith(c, defs, opts...)
	p.run()
	return p
}

// setAside waits until a worker has given a run back because of its codec, under a later lease than
// after, and checks that no attempt counts.
func (e *E) setAside(id store.ID, after int64) (epoch int64) {
	e.Helper()
	for {
		run, err := e.eng.Get(e.ctx, id)
		e.ok("get", err)
		if run.Status.Final() {
			e.Fatalf("run is %v (%v), expected it to be set aside", run.Status, run.Failure)
		}
		if engine.SetAside(&run) && run.Epoch > after {
			e.eq("code", run.Failure.Code, workflow.CodeCodec)
			e.eq("attempt", run.Attempt, 1)
			return run.Epoch
		}
		pause(e)
	}
}

var (
	codecGo     = workflow.NewSignal[int]("go")
	codecNumber = workflow.NewSignal[int]("number")
	codecState  = workflow.NewState[int]("state")
)

// opened is a place where a run reads a payload that another worker's codec has written: the code
// before a signal arrives, and the code after it. The results are 1.
type opened struct {
	name          string
	before, after func(ctx workflow.Context) (int, error)
}

func one(workflow.Context) (int, error) { return 1, nil }

var codecChild = workflow.New("codec-child", func(ctx workflow.Context, in int) (int, error) { return in, nil })

var openedPlaces = []opened{
	{"step", func(ctx workflow.Context) (int, error) {
		return workflow.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
	}, one},
	{"value", func(ctx workflow.Context) (int, error) { return workflow.Value(ctx, "v", func() int { return 1 }) }, one},
	{"child", func(ctx workflow.Context) (int, error) { return workflow.Child(ctx, "c", codecChild, 1) }, one},
	{"map", func(ctx workflow.Context) (int, error) {
		outs, err := workflow.Map(ctx, "m", []int{0, 1}, codecChild)
		return len(outs) - 1, err
	}, one},
	{"reduce", func(ctx workflow.Context) (int, error) {
		return workflow.Reduce(ctx, "r", []int{0, 1}, codecChild, 0, func(acc, _ int, out int) (int, error) { return acc + out, nil })
	}, one},
	{"state", func(ctx workflow.Context) (int, error) { return 1, codecState.Set(ctx, 1) }, func(ctx workflow.Context) (int, error) {
		v, _, err := codecState.Get(ctx)
		return v, err
	}},
	{"state-in-step", func(ctx workflow.Context) (int, error) { return 1, codecState.Set(ctx, 1) }, func(ctx workflow.Context) (int, error) {
		return workflow.Step(ctx, "read", func(ctx context.Context) (int, error) {
			v, _, err := codecState.Get(workflow.InStep(ctx))
			return v, err
		})
	}},
	{"state-wait", func(ctx workflow.Context) (int, error) { return 1, codecState.Set(ctx, 1) }, func(ctx workflow.Context) (int, error) {
		return 1, workflow.WaitForState(ctx, "wait", func(s workflow.FlowStateReader) (bool, error) {
			v, _, err := codecState.Read(s)
			return v == 1, err
		})
	}},
	{"signal", one, codecNumber.Receive},
	{"select", one, func(ctx workflow.Context) (v int, err error) {
		_, err = workflow.Select(ctx, "select", codecNumber.Into(&v))
		return v, err
	}},
}

var codecEngineCases = []Case{
	{Name: "codec/wrong-key", Promise: "P1", Rule: "A run that a worker's codec cannot open is given back: nothing of it is recorded, no attempt counts, no step is forgotten, and a worker with the key finishes it.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			_, err := workflow.Step(ctx, "refused", func(context.Context) (int, error) {
				ran.add("refused")
				return 0, workflow.Permanent(errFlaky)
			})
			if err == nil {
				return 0, errors.New("the step did not fail")
			}
			if err := workflow.Do(ctx, "charge", func(context.Context) error { ran.add("charge"); return nil }); err != nil {
				return 0, err
			}
			n, err := codecGo.Receive(ctx)
			return in + n, err
		}, workflow.RunAttempts(2))
		key := e.client(newWire(e.s), engine.PayloadCodec(sealed("a")))
		p := e.processWith(sealed("a"), defs(wf))
		h, err := wf.Start(e.ctx, key, 40)
		e.ok("start", err)
		e.until(h.ID(), store.Sleeping)
		p.stop()
		before, epoch := e.steps(h.ID()), int64(1)
		e.ok("send", codecGo.Send(e.ctx, key, h.ID(), 2))
		for wrong, says := range map[engine.Codec]string{&named{sealed("b")}: `key "a", but the keyring has b`, engine.JSON{}: "engine.PayloadCodec"} {
			p = e.processWith(wrong, defs(wf))
			epoch = e.setAside(h.ID(), epoch)
			p.stop()
			after := e.steps(h.ID())
			e.eq("steps", len(after), len(before))
			for name, s := range before {
				e.eq("status of "+name, after[name].Status, s.Status)
			}
			run, err := e.eng.Get(e.ctx, h.ID())
			e.ok("get", err)
			e.check(strings.Contains(run.Failure.Message, says), "the failure does not say %q: %s", says, run.Failure.Message)
			why, err := e.eng.Explain(e.ctx, h.ID())
			e.ok("explain", err)
			e.eq("reason", why.Reason, engine.ReasonSetAside)
			page, err := e.eng.List(e.ctx, store.RunFilter{FailureCode: workflow.CodeCodec}, "", 10)
			e.ok("list", err)
			e.eq("runs of the code", len(page.Runs), 1)
		}
		e.processWith(sealed("a"), defs(wf))
		end, err := key.Wait(e.ctx, h.ID())
		e.ok("wait", err)
		e.eq("status", end.Status, store.Completed)
		e.eq("charges", ran.get("charge"), 1)
		e.eq("refusals", ran.get("refused"), 1)
	}},
	{Name: "codec/rotation", Promise: "P1", Rule: "While a key is rotated, workers that do not have the new one yet give back what it has encrypted, and the others finish every run.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			n, err := workflow.Step(ctx, "s", func(context.Context) (int, error) { return in + 1, nil })
			if err != nil {
				return 0, err
			}
			return n, workflow.Sleep(ctx, "nap", e.d(20e9))
		})
		e.processWith(sealed("a"), defs(wf), worker.Lease(e.d(leaseFor/3))) // runs are given back for twice that
		e.processWith(sealed("b", "a"), defs(wf), worker.Lease(e.d(leaseFor/3)))
		for _, eng := range []*engine.Engine{e.client(newWire(e.s), engine.PayloadCodec(sealed("a"))), e.client(newWire(e.s), engine.PayloadCodec(sealed("b", "a")))} {
			var hs []workflow.Handle[int]
			for i := range 3 {
				h, err := wf.Start(e.ctx, eng, i)
				e.ok("start", err)
				hs = append(hs, workflow.Ref[int, int]("wf").Handle(e.client(newWire(e.s), engine.PayloadCodec(sealed("b", "a"))), h.ID()))
			}
			for i, n := range results(e, hs) {
				e.eq("output", n, i+1)
			}
		}
	}},
	{Name: "codec/every-payload", Promise: "P1", Rule: "Whichever payload of a run a worker's codec cannot open, the run is given back, and a worker with the key finishes it.", Run: func(e *E) {
		var wfs []*workflow.Workflow[int, int]
		all := defs(codecChild)
		for _, at := range openedPlaces {
			wf := workflow.New("wf-"+at.name, func(ctx workflow.Context, in int) (int, error) {
				n, err := at.before(ctx)
				if err != nil {
					return 0, err
				}
				if in += n; err == nil {
					_, err = codecGo.Receive(ctx)
				}
				if err != nil {
					return 0, err
				}
				n, err = at.after(ctx)
				return in + n, err
			}, workflow.RunAttempts(2))
			wfs, all = append(wfs, wf), append(all, wf)
		}
		older, newer := e.client(newWire(e.s), engine.PayloadCodec(sealed("a"))), e.client(newWire(e.s), engine.PayloadCodec(sealed("b", "a")))
		p := e.processWith(sealed("b", "a"), all)
		var ids []store.ID
		for _, wf := range wfs {
			h, err := wf.Start(e.ctx, older, 40)
			e.ok("start", err)
			e.waitsFor(h.ID(), "go")
			ids = append(ids, h.ID())
		}
		p.stop()
		e.processWith(sealed("a"), all)
		for _, id := range ids {
			e.ok("send", codecNumber.Send(e.ctx, newer, id, 1))
			e.ok("send", codecGo.Send(e.ctx, older, id, 0))
		}
		for _, id := range ids {
			e.setAside(id, 0)
		}
		e.processWith(sealed("b", "a"), all)
		for i, id := range ids {
			out, err := wfs[i].Handle(newer, id).Result(e.ctx)
			e.ok("result of "+wfs[i].Name(), err)
			e.eq("output of "+wfs[i].Name(), out, 42)
		}
	}},
	{Name: "codec/plain-signal", Promise: "P16", Rule: "An unencrypted signal to a run whose payloads are encrypted gives the code a matching error, and the run continues.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			_, err := codecGo.Receive(ctx)
			var decode *workflow.DecodeError
			if !errors.As(err, &decode) || !errors.Is(err, codec.ErrPlain) || workflow.ErrorCode(err) != workflow.CodeDecode {
				return 0, fmt.Errorf("receive: %w", err)
			}
			n, err := codecGo.Receive(ctx)
			return in + n, err
		})
		key := e.client(newWire(e.s), engine.PayloadCodec(sealed("a")))
		p := e.processWith(sealed("a"), defs(wf))
		h, err := wf.Start(e.ctx, key, 40)
		e.ok("start", err)
		e.ok("send", e.s1(store.NewSignal{ID: store.NewID(), Run: h.ID(), Name: "go", Payload: []byte("1")}))
		e.waitsFor(h.ID(), "go#2")
		p.stop()
		e.processWith(sealed("a"), defs(wf))
		e.ok("send", codecGo.Send(e.ctx, key, h.ID(), 2))
		e.eq("output", result(e, h), 42)
	}},
	{Name: "codec/plain-start", Promise: "P16", Rule: "If a workflow's workers require encryption, a start whose input is not encrypted is refused, and so is a signal that CheckPayload checks. If they do not, both are accepted.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			n, err := codecGo.Receive(ctx)
			return in + n, err
		})
		p := e.processWith(sealed("a"), defs(wf))
		h, err := wf.Start(e.ctx, e.client(newWire(e.s), engine.PayloadCodec(sealed("a"))), 40)
		e.ok("start", err)
		e.until(h.ID(), store.Sleeping)
		outside := e.client(newWire(e.s))
		_, err = wf.Start(e.ctx, outside, 1)
		e.says("start", err, engine.ErrPlain, "engine.PayloadCodec")
		_, err = wf.StartMany(e.ctx, outside, []workflow.Each[int]{{In: 1}})
		e.says("start of many", err, engine.ErrPlain, "engine.PayloadCodec")
		_, err = wf.Schedule(e.ctx, outside, "s", "@daily", 1)
		e.says("schedule", err, engine.ErrPlain, "engine.PayloadCodec")
		e.says("signal", outside.CheckPayload(e.ctx, h.ID(), []byte("2")), engine.ErrPlain, "codec")
		e.ok("an encrypted signal", outside.CheckPayload(e.ctx, h.ID(), []byte{0, 'E', 1}))
		p.stop()
		ring := codec.Keyring{Current: "a", Keys: map[string][]byte{"a": bytes.Repeat([]byte("a"), 32)}, AllowPlain: true}
		e.processWith(codec.Chain(engine.JSON{}, codec.AESGCM(ring)), defs(wf))
		for registered := engine.EncryptionRequired; registered != engine.EncryptionOptional; pause(e) {
			list, err := e.eng.Definitions(e.ctx, "wf")
			e.ok("definitions", err)
			registered = list[0].Encryption
		}
		e.ok("signal", outside.CheckPayload(e.ctx, h.ID(), []byte("2")))
		e.ok("send", codecGo.Send(e.ctx, outside, h.ID(), 2))
		second, err := wf.Start(e.ctx, e.client(newWire(e.s)), 1)
		e.ok("start", err)
		e.ok("send", codecGo.Send(e.ctx, outside, second.ID(), 2))
		for _, id := range []store.ID{h.ID(), second.ID()} {
			end, err := e.eng.Wait(e.ctx, id)
			e.ok("wait", err)
			e.eq("status", end.Status, store.Completed)
		}
	}},
	{Name: "signal/mended-type", Promise: "P16", Rule: "A signal of the wrong type stays unread: the run fails with the code decode, a restart of the same code fails alike, and one of code that takes the type receives it.", Run: func(e *E) {
		text := workflow.NewSignal[string]("n")
		for _, receive := range []func(workflow.Context) (int, error){
			workflow.NewSignal[int]("n").Receive,
			func(ctx workflow.Context) (n int, err error) {
				_, err = workflow.Select(ctx, "n", workflow.NewSignal[int]("n").Into(&n))
				return n, err
			},
		} {
			wrong := workflow.New("wf", func(ctx workflow.Context, in int) (string, error) {
				n, err := receive(ctx)
				return fmt.Sprint(n), err
			})
			p := e.process(defs(wrong))
			h := start(e, wrong, 0)
			e.ok("send", text.Send(e.ctx, e.eng, h.ID(), "text"))
			for range 2 {
				_, err := h.Result(e.ctx)
				e.says("result", err, engine.ErrFailed, `the payload of signal "n" cannot be decoded into int`)
				e.eq("code", workflow.ErrorCode(err), workflow.CodeDecode)
				e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
			}
			_, err := h.Result(e.ctx)
			e.says("result", err, engine.ErrFailed, "cannot be decoded")
			p.stop()
			mended := workflow.New("wf", func(ctx workflow.Context, in int) (s string, err error) {
				if _, err := workflow.Select(ctx, "n", text.Into(&s)); err == nil {
					return s, nil
				}
				return text.Receive(ctx)
			})
			p = e.process(defs(mended))
			e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
			e.eq("output", result(e, h), "text")
			p.stop()
		}
	}},
	{Name: "signal/wrong-types-in-number", Promise: "P16", Rule: "Signals that cannot be decoded are passed over once each, also more than a page of them, and do not hide later signals. A run that continues as new drops them.", Run: func(e *E) {
		const bad = store.MaxPage + 5
		numbers := workflow.NewSignal[int]("n")
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			for passed := 0; ; passed++ {
				n, err := numbers.Receive(ctx)
				var decode *workflow.DecodeError
				switch {
				case errors.As(err, &decode):
				case err != nil:
					return 0, err
				case in == 0:
					return 0, workflow.ContinueAsNew(ctx, n+passed)
				default:
					return in + n + passed, nil
				}
			}
		})
		p := e.build(defs(wf))
		h, err := wf.Start(e.ctx, e.client(newWire(e.s)), 0)
		e.ok("start", err)
		list := make([]store.NewSignal, bad)
		for i := range list {
			list[i] = store.NewSignal{ID: store.NewID(), Run: h.ID(), Name: "n", Payload: []byte(`"text"`)}
		}
		for part := range slices.Chunk(list, 500) {
			e.ok("signals", e.s1(part...))
		}
		p.run()
		e.waitsFor(h.ID(), fmt.Sprintf("n#%d", bad+1))
		p.stop()
		e.process(defs(wf)) // the replay takes the same path
		e.ok("send", numbers.Send(e.ctx, e.eng, h.ID(), 1))
		e.waitsFor(h.ID(), "n") // the new generation has none of them
		e.ok("send", numbers.Send(e.ctx, e.eng, h.ID(), 10))
		e.eq("output", result(e, h), bad+1+10)
	}},
	{Name: "state/mended-value", Promise: "P16", Rule: "A value of flow state that cannot be decoded fails a run that cannot go on without it; a restart reads it again.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, in int) (int, error) {
			if _, err := codecGo.Receive(ctx); err != nil {
				return 0, err
			}
			n, _, err := codecState.Get(ctx)
			return n, err
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.ok("set", workflow.NewState[string]("state").Set(workflow.OfRun(e.ctx, e.eng, h.ID()), "text"))
		e.ok("send", codecGo.Send(e.ctx, e.eng, h.ID(), 0))
		_, err := h.Result(e.ctx)
		e.says("result", err, engine.ErrFailed, `the value of state "state" cannot be decoded into int`)
		e.eq("code", workflow.ErrorCode(err), workflow.CodeDecode)
		e.ok("pause", e.eng.PauseWorkflow(e.ctx, "wf"))
		e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
		e.ok("set", codecState.Set(workflow.OfRun(e.ctx, e.eng, h.ID()), 7))
		e.ok("resume", e.eng.ResumeWorkflow(e.ctx, "wf"))
		e.eq("output", result(e, h), 7)
	}},
	{Name: "codec/changed-type", Promise: "P14", Rule: "If the code's type does not accept a recorded result or input, the run fails with the code decode, and the failure names the payload and no other step; with code that accepts it, the run continues.", Run: func(e *E) {
		steps := func(name string) (before, after workflow.Definition) {
			return workflow.New(name, func(ctx workflow.Context, in int) (int, error) {
					n, err := workflow.Step(ctx, "s", func(context.Context) (int, error) { return in, nil })
					if err == nil {
						_, err = codecGo.Receive(ctx)
					}
					return n, err
				}), workflow.New(name, func(ctx workflow.Context, in int) (int, error) {
					n, err := workflow.Step(ctx, "s", func(context.Context) ([]string, error) { return nil, nil })
					if name == "swallows" {
						return len(n), nil
					}
					return len(n), err
				})
		}
		inputBefore, _ := steps("input")
		inputAfter := workflow.New("input", func(ctx workflow.Context, in []string) (int, error) { return 0, nil })
		resultBefore, resultAfter := steps("result")
		swallowsBefore, swallowsAfter := steps("swallows")
		p := e.process(defs(inputBefore, resultBefore, swallowsBefore))
		var hs []workflow.Handle[int]
		for _, name := range []string{"input", "result", "swallows"} {
			h, err := workflow.Ref[int, int](name).Start(e.ctx, e.eng, 42)
			e.ok("start", err)
			e.waitsFor(h.ID(), "go")
			hs = append(hs, h)
		}
		p.stop()
		p = e.process(defs(inputAfter, resultAfter, swallowsAfter))
		for i, says := range []string{`the input of workflow "input" cannot be decoded into []string`, `the record of step "s" cannot be decoded into []string`, `the record of step "s" cannot be decoded into []string`} {
			e.ok("send", codecGo.Send(e.ctx, e.eng, hs[i].ID(), 0))
			_, err := hs[i].Result(e.ctx)
			e.says("result", err, engine.ErrFailed, says)
			e.eq("code", workflow.ErrorCode(err), workflow.CodeDecode)
		}
		p.stop()
		e.process(defs(inputBefore, resultBefore, swallowsBefore))
		for _, h := range hs {
			e.ok("restart", e.eng.Restart(e.ctx, h.ID()))
			e.eq("output", result(e, h), 42)
		}
	}},
}

// named makes a codec comparable.
type named struct{ engine.Codec }

// s1 sends signals as the store takes them.
func (e *E) s1(signals ...store.NewSignal) error {
	res, err := e.s.Signal(e.ctx, store.SignalParams{Namespace: "engine", Signals: signals})
	for i := range res {
		err = errors.Join(err, res[i].Err)
	}
	return err
}

// waitsFor waits until a run sleeps at an operation.
func (e *E) waitsFor(id store.ID, key string) {
	e.Helper()
	for {
		if run := e.until(id, store.Sleeping); run.Status == store.Sleeping {
			if s, there := e.steps(id)[key]; there && !s.Status.Final() {
				return
			}
		}
		pause(e)
	}
}
