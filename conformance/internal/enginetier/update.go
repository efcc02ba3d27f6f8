package enginetier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var (
	deposit = workflow.NewUpdate[int, int]("deposit")
	closing = workflow.NewSignal[string]("closing")
)

var errOverdrawn = errors.New("the account would be overdrawn")

// account adds up deposits, and answers each with the balance, until it is closed. It refuses 0, and
// answers a deposit that would make the balance negative with an error.
func account(ran *tally) *workflow.Workflow[int, int] {
	return workflow.New("account", func(ctx workflow.Context, balance int) (int, error) {
		for {
			var req workflow.Request[int, int]
			var why string
			chosen, err := workflow.Select(ctx, "next", deposit.Into(&req, workflow.Validate(func(n int) error {
				if n == 0 {
					return errors.New("nothing to deposit")
				}
				return nil
			})), closing.Into(&why))
			if err != nil || chosen == 1 {
				return balance, err
			}
			if balance+req.In < 0 {
				if err := req.Answer(ctx, 0, workflow.Coded("overdrawn", errOverdrawn)); err != nil {
					return 0, err
				}
				continue
			}
			balance, err = workflow.Step(ctx, "book", func(context.Context) (int, error) {
				ran.add("book")
				return balance + req.In, nil
			})
			if err != nil {
				return 0, err
			}
			if err := req.Answer(ctx, balance, nil); err != nil {
				return 0, err
			}
		}
	})
}

func ask[In, Out any](e *E, u workflow.Update[In, Out], run store.ID, in In, opts ...workflow.SendOption) Out {
	e.Helper()
	out, err := u.Ask(e.ctx, workflow.ToRun(e.eng, run), in, opts...)
	e.ok("ask", err)
	return out
}

// refusal checks the error of a request that was answered with a failure.
func (e *E) refusal(what string, err error, code string, words ...string) {
	e.Helper()
	var answer *workflow.AnswerError
	if !errors.As(err, &answer) || workflow.ErrorCode(err) != code {
		e.Errorf("%s: saw %T %v, expected an AnswerError with the code %q", what, err, err, code)
		return
	}
	for _, w := range words {
		e.check(strings.Contains(err.Error(), w), "%s: saw %q, expected it to contain %q", what, err, w)
	}
}

var updateEngineCases = slices.Concat(updateBasics, updateFailures, updateCrashes)

var updateBasics = []Case{
	{Name: "update/answered", Promise: "P25", Rule: "Who asks a run gets the answer of the run's code, request by request, in the order of asking.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		e.process(defs(wf))
		h := start(e, wf, 100, engine.ExternalID("acc-1"))
		sum := 100
		for i := range 5 {
			sum += i + 1
			e.eq("balance", ask(e, deposit, h.ID(), i+1), sum)
		}
		out, err := deposit.Ask(e.ctx, h, 10)
		e.ok("ask a handle", err)
		e.eq("balance", out, sum+10)
		out, err = deposit.Ask(e.ctx, workflow.ToExternalID(e.eng, "acc-1"), 5)
		e.ok("ask an external id", err)
		e.eq("balance", out, sum+15)
		send(e, closing, h.ID(), "")
		e.eq("output", result(e, h), sum+15)
		e.eq("bookings", ran.get("book"), 7)
	}},
	{Name: "update/waits-for-a-worker", Promise: "P25", Rule: "A request may be sent before anyone can receive it, and its answer read by another process.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		e.build(defs(wf))
		h := start(e, wf, 1)
		asked, err := deposit.Send(e.ctx, h, 2)
		e.ok("send", err)
		_, ok, err := asked.Poll(e.ctx)
		e.ok("poll", err)
		e.eq("answered without a worker", ok, false)
		p := e.process(defs(wf))
		out, err := deposit.Asked(p.eng, asked.Run(), asked.ID()).Wait(e.ctx)
		e.ok("wait", err)
		e.eq("balance", out, 3)
		out, ok, err = asked.Poll(e.ctx)
		e.ok("poll", err)
		e.eq("balance and whether it is answered", []any{out, ok}, []any{3, true})
	}},
	{Name: "update/asked-again", Promise: "P25", Rule: "A request that is sent again with the same key is the same request: the run sees it once, and the answer is the same, also when the run has ended.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		e.process(defs(wf))
		h := start(e, wf, 0)
		key := workflow.SendKey("transfer-9")
		e.eq("balance", ask(e, deposit, h.ID(), 7, key), 7)
		e.eq("balance, asked again", ask(e, deposit, h.ID(), 7, key), 7)
		e.eq("balance, asked again for more", ask(e, deposit, h.ID(), 100, key), 7)
		e.eq("balance", ask(e, deposit, h.ID(), 1), 8)
		send(e, closing, h.ID(), "")
		e.eq("output", result(e, h), 8)
		e.eq("balance, asked after the end", ask(e, deposit, h.ID(), 7, key), 7)
		e.eq("bookings", ran.get("book"), 2)
	}},
	{Name: "update/many-ask", Promise: "P25", Rule: "Each of many that ask at once gets the answer to its own request.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("echo", func(ctx workflow.Context, n int) (int, error) {
			for range n {
				if err := deposit.Handle(ctx, func(_ workflow.Context, in int) (int, error) { return 2 * in, nil }); err != nil {
					return 0, err
				}
			}
			return ran.add("end"), nil
		})
		e.process(defs(wf))
		const n = 40
		h := start(e, wf, n)
		var wg sync.WaitGroup
		got := make([]int, n)
		errs := make([]error, n)
		for i := range n {
			wg.Go(func() { got[i], errs[i] = deposit.Ask(e.ctx, h, i) })
		}
		wg.Wait()
		e.ok("asks", errors.Join(errs...))
		for i := range got {
			e.eq("answer", got[i], 2*i)
		}
		result(e, h)
	}},
	{Name: "update/continued", Promise: "P25", Rule: "Requests that a run has not received go on to its next generation, and old answers stay.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, n int) (int, error) {
			if err := deposit.Handle(ctx, func(_ workflow.Context, in int) (int, error) { return n + in, nil }); err != nil {
				return 0, err
			}
			if n < 3 {
				return 0, workflow.ContinueAsNew(ctx, n+1)
			}
			return n, nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		var all []workflow.Asked[int, int]
		for range 4 {
			a, err := deposit.Send(e.ctx, h, 10)
			e.ok("send", err)
			all = append(all, a)
		}
		e.eq("output", result(e, h), 3)
		for i, a := range all {
			out, err := a.Wait(e.ctx)
			e.ok("wait", err)
			e.eq("answer", out, 10+i)
		}
	}},
	{Name: "update/exported", Promise: "P25", Rule: "Answers are exported and imported with their run.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		e.process(defs(wf))
		h := start(e, wf, 1)
		a, err := deposit.Send(e.ctx, h, 2)
		e.ok("send", err)
		_, err = a.Wait(e.ctx)
		e.ok("wait", err)
		bad, err := deposit.Send(e.ctx, h, -100)
		e.ok("send", err)
		_, err = bad.Wait(e.ctx)
		e.refusal("overdrawn", err, "overdrawn")
		send(e, closing, h.ID(), "")
		result(e, h)
		there := e.elsewhere()
		_, err = there.Import(e.ctx, bytes.NewReader(e.export(h.ID())))
		e.ok("import", err)
		out, err := deposit.Asked(there, h.ID(), a.ID()).Wait(e.ctx)
		e.ok("wait", err)
		e.eq("answer", out, 3)
		_, err = deposit.Asked(there, h.ID(), bad.ID()).Wait(e.ctx)
		e.refusal("overdrawn, where it was imported", err, "overdrawn", errOverdrawn.Error())
	}},
}

var updateFailures = []Case{
	{Name: "update/refused", Promise: "P25", Rule: "A request that the validator refuses is answered with its error and recorded by no step, and the run waits on.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		e.process(defs(wf))
		h := start(e, wf, 5)
		_, err := deposit.Ask(e.ctx, h, 0)
		e.refusal("refused", err, workflow.CodeRefused, "nothing to deposit")
		_, err = deposit.Ask(e.ctx, h, -6)
		e.refusal("answered with an error", err, "overdrawn", errOverdrawn.Error())
		e.eq("balance", ask(e, deposit, h.ID(), 2), 7)
		steps, err := e.eng.Steps(e.ctx, h.ID())
		e.ok("steps", err)
		var names []string
		for _, s := range steps {
			if s.Status == store.StepCompleted {
				names = append(names, s.String())
			}
		}
		e.eq("steps", names, []string{"next", "answer deposit", "next#2", "book", "answer deposit#2"})
	}},
	{Name: "update/wrong-type", Promise: "P25", Rule: "A request that does not fit the code's type is refused, and an answer that does not fit the caller's type is an error; the run goes on.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		e.process(defs(wf))
		h := start(e, wf, 0)
		_, err := workflow.NewUpdate[string, int]("deposit").Ask(e.ctx, h, "much")
		e.refusal("a request of another type", err, workflow.CodeDecode, "int")
		var wrong *workflow.DecodeError
		_, err = workflow.NewUpdate[int, []string]("deposit").Ask(e.ctx, h, 4)
		e.check(errors.As(err, &wrong), "an answer of another type: saw %T %v, expected a DecodeError", err, err)
		e.eq("balance", ask(e, deposit, h.ID(), 1), 5)
	}},
	{Name: "update/unanswered", Promise: "P25", Rule: "Who asks a run that ends without an answer learns that, whether the run had received the request or not; a run that has ended takes no request.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			_, err := deposit.Receive(ctx)
			if err == nil {
				_, err = closing.Receive(ctx)
			}
			return 0, err
		})
		e.process(defs(wf))
		for _, cancel := range []bool{false, true} {
			h := start(e, wf, 0)
			var all []workflow.Asked[int, int]
			for range 2 {
				a, err := deposit.Send(e.ctx, h, 1)
				e.ok("send", err)
				all = append(all, a)
			}
			waited := make(chan error, 1)
			go func() { _, err := all[0].Wait(e.ctx); waited <- err }()
			status := store.Completed
			if cancel {
				for len(e.steps(h.ID())) < 2 {
					pause(e)
				}
				e.ok("cancel", h.Cancel(e.ctx, "enough"))
				status = store.Canceled
			} else {
				send(e, closing, h.ID(), "")
			}
			err := receive(e, "the end of the wait", waited)
			var none *engine.UnansweredError
			e.check(errors.Is(err, engine.ErrUnanswered) && errors.As(err, &none) && none.Status == status, "a request that was received: saw %v, expected an UnansweredError of a run that is %v", err, status)
			_, err = all[1].Wait(e.ctx)
			e.check(errors.Is(err, engine.ErrUnanswered), "a request that was not received: saw %v, expected ErrUnanswered", err)
			_, err = deposit.Ask(e.ctx, h, 1)
			e.check(errors.Is(err, store.ErrFinished), "a request to a run that has ended: saw %v, expected ErrFinished", err)
		}
		_, err := deposit.Ask(e.ctx, workflow.ToRun(e.eng, store.NewID()), 1)
		e.check(errors.Is(err, store.ErrNotFound), "a request to no run: saw %v, expected ErrNotFound", err)
		_, err = deposit.Asked(e.eng, store.NewID(), store.NewID()).Wait(e.ctx)
		e.check(errors.Is(err, store.ErrNotFound), "a wait for no request: saw %v, expected ErrNotFound", err)
	}},
	{Name: "update/answered-twice", Promise: "P25", Rule: "A second answer to a request fails with ErrAnswered, live and replayed, and the first one stays.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			req, err := deposit.Receive(ctx)
			if err != nil {
				return "", err
			}
			first := req.Answer(ctx, 1, nil)
			second := req.Answer(ctx, 2, nil)
			zero := workflow.Request[int, int]{}.Answer(ctx, 1, nil)
			if err := workflow.Sleep(ctx, "nap", e.d(time.Minute)); err != nil {
				return "", err
			}
			third := req.Answer(ctx, 3, errOverdrawn)
			return fmt.Sprint(first, errors.Is(second, workflow.ErrAnswered), errors.Is(third, workflow.ErrAnswered), errors.Is(zero, store.ErrInvalid)), nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.eq("answer", ask(e, deposit, h.ID(), 0), 1)
		e.eq("output", result(e, h), "<nil> true true true")
		out, err := deposit.Ask(e.ctx, h, 0)
		e.check(errors.Is(err, store.ErrFinished), "a request after the end: saw %v %v", out, err)
	}},
	{Name: "update/in-a-step", Promise: "P25", Rule: "A request in a step is refused with advice, and works as the advice says: sent in one step, read in one that is tried again.", Run: func(e *E) {
		var ran tally
		acc := account(&ran)
		var h workflow.Handle[int]
		wf := workflow.New("asker", func(ctx workflow.Context, _ int) (int, error) {
			refused, err := workflow.Step(ctx, "ask", func(ctx context.Context) (string, error) {
				_, err := deposit.Ask(ctx, h, 1)
				return fmt.Sprint(err), nil
			})
			if err != nil {
				return 0, err
			}
			if !strings.Contains(refused, "Send") || !strings.Contains(refused, "Poll") {
				return 0, fmt.Errorf("it did not say what to do: %s", refused)
			}
			id, err := workflow.Step(ctx, "send", func(ctx context.Context) (store.ID, error) {
				a, err := deposit.Send(ctx, h, 3, workflow.SendKey(workflow.IdempotencyKey(ctx)))
				return a.ID(), err
			})
			if err != nil {
				return 0, err
			}
			return workflow.Step(ctx, "read", func(ctx context.Context) (int, error) {
				out, ok, err := deposit.Asked(e.eng, h.ID(), id).Poll(ctx)
				if err == nil && !ok {
					err = workflow.RetryAfter(errors.New("no answer yet"), e.d(time.Second))
				}
				return out, err
			}, workflow.Attempts(100))
		})
		e.process(defs(acc, wf))
		h = start(e, acc, 4)
		e.eq("answer", result(e, start(e, wf, 0)), 7)
	}},
	{Name: "update/timeout", Promise: "P13", Rule: "A wait for a request ends at its time; a request that is refused does not end it.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (bool, error) {
			_, err := deposit.ReceiveTimeout(ctx, e.d(time.Minute), workflow.Validate(func(int) error { return workflow.Coded("never", errors.New("no")) }))
			return errors.Is(err, workflow.ErrTimeout), nil
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		_, err := deposit.Ask(e.ctx, h, 1)
		e.refusal("refused", err, "never")
		e.eq("output", result(e, h), true)
	}},
}

var updateCrashes = []Case{
	{Name: "update/through-crashes", Promise: "P25", Rule: "However often workers are killed, before and after their commits, each request is booked once and its answer is that of the record.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		e.build(defs(wf))
		h := start(e, wf, 0)
		const n = 4
		var all []workflow.Asked[int, int]
		for i := range n {
			a, err := deposit.Send(e.ctx, h, i+1)
			e.ok("send", err)
			all = append(all, a)
		}
		for _, done := range []bool{false, true} {
			for nth := 1; nth <= 3; nth++ {
				p := e.build(defs(wf), worker.Park(1), worker.Lease(e.ofLease(5*time.Second)))
				died := p.wire.dieAt("commit", nth, done)
				p.run()
				select {
				case <-died:
				case <-e.ctx.Done():
					e.Fatalf("the worker made no commit %d", nth)
				}
				p.cancel()
				if a, err := deposit.Send(e.ctx, h, 1); err == nil { // so that the next worker has something to commit
					all = append(all, a)
				}
				for range 2 {
					a, err := deposit.Send(e.ctx, h, 1)
					e.ok("send", err)
					all = append(all, a)
				}
			}
		}
		e.process(defs(wf))
		sum := 0
		for i, a := range all {
			in := 1
			if i < n {
				in = i + 1
			}
			sum += in
			out, err := a.Wait(e.ctx)
			e.ok("wait", err)
			e.eq(fmt.Sprint("answer ", i), out, sum)
		}
		send(e, closing, h.ID(), "")
		e.eq("output", result(e, h), sum)
	}},
	{Name: "update/lost-answers", Promise: "P25", Rule: "While the answers to every third write are lost, each request is answered once.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		p := e.build(defs(wf))
		p.wire.loseEvery(3)
		p.run()
		h := start(e, wf, 0)
		for i := range 6 {
			e.eq("balance", ask(e, deposit, h.ID(), 1), i+1)
		}
		send(e, closing, h.ID(), "")
		e.eq("output", result(e, h), 6)
	}},
	{Name: "update/tried-again", Promise: "P25", Rule: "A run that is tried again after it has answered may answer once more: its caller keeps the first answer, and the run completes.", Run: func(e *E) {
		var ran tally
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			req, err := deposit.Receive(ctx)
			if err != nil {
				return 0, err
			}
			_, _ = workflow.Step(ctx, "fails", func(context.Context) (int, error) {
				if ran.add("fails") == 1 {
					return 0, errOverdrawn
				}
				return 0, nil
			}, workflow.Attempts(1))
			n := ran.get("fails")
			if err := req.Answer(ctx, n, nil); err != nil {
				return 0, err
			}
			if n == 1 {
				return 0, errOverdrawn
			}
			return n, nil
		}, workflow.RunAttempts(2))
		e.process(defs(wf))
		h := start(e, wf, 0)
		a, err := deposit.Send(e.ctx, h, 1)
		e.ok("send", err)
		e.eq("output", result(e, h), 2)
		out, err := a.Wait(e.ctx)
		e.ok("wait", err)
		e.eq("answer", out, 1)
	}},
	{Name: "update/outage-of-the-caller", Promise: "P25", Rule: "Who waits for an answer while the store cannot be reached gets it afterwards.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		e.process(defs(wf))
		h := start(e, wf, 0)
		caller := e.build(defs(wf))
		defer caller.eng.Close()
		a, err := deposit.Send(e.ctx, workflow.ToRun(caller.eng, h.ID()), 5)
		e.ok("send", err)
		failed := make(chan struct{})
		fail := sync.OnceFunc(func() { close(failed) })
		caller.wire.set(wireDown)
		caller.wire.hook(func(verb string) {
			if verb == "answers" {
				fail()
			}
		})
		got := make(chan int, 1)
		go func() {
			out, err := a.Wait(e.ctx)
			if err != nil {
				out = -1
			}
			got <- out
		}()
		receive(e, "a read during the outage", failed)
		caller.wire.set(wireUp)
		e.eq("answer", receive(e, "the answer", got), 5)
	}},
}
