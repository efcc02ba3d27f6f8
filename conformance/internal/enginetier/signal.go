package enginetier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/bridge"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var (
	word  = workflow.NewSignal[string]("word")
	other = workflow.NewSignal[int]("other")
)

// listener receives n words.
func listener(n int) *workflow.Workflow[int, []string] {
	return workflow.New("listener", func(ctx workflow.Context, _ int) ([]string, error) {
		var words []string
		for range n {
			w, err := word.Receive(ctx)
			if err != nil {
				return words, err
			}
			words = append(words, w)
		}
		return words, nil
	})
}

func send[T any](e *E, s workflow.Signal[T], run store.ID, v T) {
	e.Helper()
	e.ok("send", s.Send(e.ctx, e.eng, run, v))
}

var signalEngineCases = []Case{
	{Name: "signal/order", Promise: "P17", Rule: "Signals are received in the order of sending, once each, whether they came before or after the wait began.", Run: func(e *E) {
		wf := listener(4)
		bridge.Of(e.eng).Know(wf.Name(), wf.Name())
		h := start(e, wf, 0)
		send(e, word, h.ID(), "a")
		send(e, other, h.ID(), 1)
		send(e, word, h.ID(), "b")
		e.process(defs(wf))
		e.until(h.ID(), store.Sleeping)
		send(e, word, h.ID(), "c")
		send(e, word, h.ID(), "d")
		e.eq("words", result(e, h), []string{"a", "b", "c", "d"})
		e.check(errors.Is(word.Send(e.ctx, e.eng, h.ID(), "e"), store.ErrFinished), "a finished run took a signal")
		e.check(errors.Is(word.Send(e.ctx, e.eng, store.NewID(), "e"), store.ErrNotFound), "a run that does not exist took a signal")
		e.check(errors.Is(word.SendTo(e.ctx, e.eng, "nobody", "e"), store.ErrNotFound), "an external id that no run has took a signal")
	}},
	{Name: "signal/wakes", Promise: "P5", Rule: "A signal wakes the run that sleeps for it, at once where the store gives hints.", Run: func(e *E) {
		wf := listener(3)
		e.process(defs(wf))
		h := start(e, wf, 0, engine.ExternalID("order-7"))
		for i := range 3 {
			e.until(h.ID(), store.Sleeping)
			e.ok("send to an external id", word.SendTo(e.ctx, e.eng, "order-7", fmt.Sprint(i)))
			if i < 2 {
				for len(e.steps(h.ID())) < i+2 {
					pause(e)
				}
			}
		}
		e.eq("words", result(e, h), []string{"0", "1", "2"})
	}},
	{Name: "signal/parked", Promise: "P5", Rule: "A run that waits in memory takes a signal without being suspended.", Run: func(e *E) {
		wf := listener(20)
		e.process(defs(wf), worker.Park(e.d(10*time.Minute)))
		h := start(e, wf, 0)
		for i := range 20 {
			send(e, word, h.ID(), fmt.Sprint(i))
		}
		e.eq("number of words", len(result(e, h)), 20)
	}},
	{Name: "signal/as-the-run-suspends", Promise: "P5", Rule: "A signal that comes in the moment in which a waiting run leaves memory is not lost.", Run: func(e *E) {
		park := e.d(time.Second)
		wf := listener(3)
		e.process(defs(wf), worker.Park(park), worker.Concurrency(100))
		hs := startN(e, wf, 60)
		sent := make(chan error, 3*len(hs))
		for i := range 3 {
			timer := time.NewTimer(park)
			<-timer.C
			for _, h := range hs {
				go func() { sent <- word.Send(e.ctx, e.eng, h.ID(), fmt.Sprint(i)) }()
			}
		}
		for range 3 * len(hs) {
			e.ok("send", receive(e, "the end of a send", sent))
		}
		for _, words := range results(e, hs) {
			e.eq("number of words", len(words), 3)
		}
	}},
	{Name: "signal/while-a-branch-works", Promise: "P17", Rule: "A branch receives its signal while another branch works.", Run: func(e *E) {
		got := make(chan string, 1)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			f := workflow.Go(ctx, "ear", func(ctx workflow.Context) (string, error) {
				w, err := word.Receive(ctx)
				got <- w
				return w, err
			})
			if err := workflow.Do(ctx, "work", func(ctx context.Context) error {
				select {
				case w := <-got:
					got <- w
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}); err != nil {
				return "", err
			}
			return f.Get(ctx)
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		send(e, word, h.ID(), "now")
		e.eq("word", result(e, h), "now")
	}},
	{Name: "signal/timeout", Promise: "P13", Rule: "A wait with a timeout ends then, not before, and its end is recorded; a zero timeout takes what is there.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			var out []string
			for _, d := range []time.Duration{0, e.d(time.Minute), e.d(time.Millisecond)} {
				from, err := workflow.Now(ctx, "from")
				if err != nil {
					return nil, err
				}
				w, err := word.ReceiveTimeout(ctx, d)
				to, err2 := workflow.Now(ctx, "to")
				switch {
				case err2 != nil:
					return nil, err2
				case errors.Is(err, workflow.ErrTimeout):
					if to.Sub(from) < d {
						return nil, fmt.Errorf("a wait of %v ended after %v", d, to.Sub(from))
					}
					out = append(out, "timeout")
				case err != nil:
					return nil, err
				default:
					out = append(out, w)
				}
			}
			return out, workflow.Sleep(ctx, "nap", e.d(time.Minute))
		})
		bridge.Of(e.eng).Know("wf", "wf")
		h := start(e, wf, 0)
		send(e, word, h.ID(), "there")
		e.process(defs(wf))
		e.eq("outcomes", result(e, h), []string{"there", "timeout", "timeout"})
	}},
	{Name: "signal/through-a-crash", Promise: "P17", Rule: "A signal that a killed worker received is received once, by the worker that continues the run.", Run: func(e *E) {
		var ran tally
		blocked := make(chan struct{}, 1)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			var words []string
			for range 2 {
				w, err := word.Receive(ctx)
				if err != nil {
					return nil, err
				}
				words = append(words, w)
				if err := workflow.Do(ctx, "work", func(ctx context.Context) error {
					if ran.add("work") == 1 {
						blocked <- struct{}{}
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}); err != nil {
					return nil, err
				}
			}
			return words, nil
		})
		first := e.process(defs(wf))
		h := start(e, wf, 0)
		send(e, word, h.ID(), "one")
		receive(e, "the step", blocked)
		first.kill()
		send(e, word, h.ID(), "two")
		e.process(defs(wf))
		e.eq("words", result(e, h), []string{"one", "two"})
	}},
	{Name: "signal/many", Promise: "P17", Rule: "A run receives more signals than one read of its inbox returns.", Run: func(e *E) {
		const n = store.MaxPage + 50
		wf := listener(n)
		bridge.Of(e.eng).Know(wf.Name(), wf.Name())
		h := start(e, wf, 0)
		signals := make([]store.NewSignal, n)
		for i := range signals {
			signals[i] = store.NewSignal{ID: store.NewID(), Run: h.ID(), Name: word.Name(), Payload: fmt.Appendf(nil, "%q", fmt.Sprint(i))}
		}
		_, err := e.s.Signal(e.ctx, store.SignalParams{Namespace: "engine", Signals: signals})
		e.ok("signals", err)
		e.process(defs(wf))
		words := result(e, h)
		e.eq("words", len(words), n)
		for i, w := range words {
			if w != fmt.Sprint(i) {
				e.Fatalf("word %d is %q", i, w)
			}
		}
	}},
	{Name: "signal/select", Promise: "P17", Rule: "Of several signals and timers the first that comes is chosen, once: its place and its payload are one record.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			var seen []string
			for range 4 {
				var w string
				var n int
				chosen, err := workflow.Select(ctx, "next", word.Into(&w), other.Into(&n), workflow.Timer(e.d(30*time.Minute)), workflow.Timer(e.d(time.Minute)))
				if err != nil {
					return seen, err
				}
				seen = append(seen, fmt.Sprintf("%d %q %d", chosen, w, n))
			}
			return seen, nil
		})
		p := e.process(defs(wf))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		send(e, other, h.ID(), 7)
		e.untilStep(h.ID(), "next", store.StepCompleted)
		send(e, word, h.ID(), "a")
		e.untilStep(h.ID(), "next#3", store.StepCompleted) // by itself, after a minute
		p.stop()
		e.process(defs(wf))
		send(e, other, h.ID(), 8)
		e.eq("what was chosen", result(e, h), []string{`1 "" 7`, `0 "a" 0`, `3 "" 0`, `1 "" 8`})
		e.eq("number of records", len(e.steps(h.ID())), 4)
	}},
	{Name: "signal/select-order", Promise: "P17", Rule: "A signal that is there goes before a timer that is due, and before those of later cases, which stay unread.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			var seen []string
			for range 5 {
				var w string
				var n int
				chosen, err := workflow.Select(ctx, "next", workflow.Timer(0), other.Into(&n), word.Into(&w), workflow.Timer(0))
				if err != nil {
					return seen, err
				}
				seen = append(seen, fmt.Sprintf("%d %q %d", chosen, w, n))
			}
			return seen, nil
		})
		bridge.Of(e.eng).Know("wf", "wf")
		h := start(e, wf, 0)
		send(e, word, h.ID(), "a")
		send(e, other, h.ID(), 1)
		send(e, word, h.ID(), "b")
		send(e, other, h.ID(), 2)
		e.process(defs(wf))
		e.eq("what was chosen", result(e, h), []string{`1 "" 1`, `1 "" 2`, `2 "a" 0`, `2 "b" 0`, `0 "" 0`})
	}},
	{Name: "signal/select-late-worker", Promise: "P13", Rule: "A timer of a select counts from the first time that the run reached the select, also across a crash. A signal that arrived in the meantime comes first, however late the worker is.", Run: func(e *E) {
		d := 2 * leaseFor
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (string, error) {
			from, err := workflow.Now(ctx, "from")
			if err != nil {
				return "", err
			}
			var w string
			chosen, err := workflow.Select(ctx, "next", workflow.Timer(e.ofLease(d)), word.Into(&w))
			if err != nil {
				return "", err
			}
			to, err := workflow.Now(ctx, "to")
			if chosen == 0 && (to.Sub(from) < e.ofLease(d) || e.h.Bubble && to.Sub(from) > d+time.Minute) {
				return "", fmt.Errorf("a timer of %v fired after %v", e.ofLease(d), to.Sub(from))
			}
			return fmt.Sprint(chosen, w), err
		})
		p := e.process(defs(wf))
		silent, spoken := start(e, wf, 0), start(e, wf, 0)
		e.until(silent.ID(), store.Sleeping)
		due := e.until(spoken.ID(), store.Sleeping).VisibleAt
		p.kill()
		send(e, word, spoken.ID(), "in time")
		timer := time.NewTimer(time.Until(due))
		<-timer.C
		e.process(defs(wf))
		e.eq("with a signal", result(e, spoken), "1in time")
		e.eq("without", result(e, silent), "0")
	}},
	{Name: "signal/select-through-a-crash", Promise: "P17", Rule: "If a worker is killed after a select, the next one keeps the choice, and the signal is received once.", Run: func(e *E) {
		var ran tally
		blocked := make(chan struct{}, 1)
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			var seen []string
			for range 3 {
				var a, b string
				chosen, err := workflow.Select(ctx, "next", workflow.NewSignal[string]("none").Into(&a), word.Into(&b))
				if err != nil {
					return seen, err
				}
				seen = append(seen, fmt.Sprint(chosen, b))
				if err := workflow.Do(ctx, "work", func(ctx context.Context) error {
					if ran.add("work") == 2 {
						blocked <- struct{}{}
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}); err != nil {
					return seen, err
				}
			}
			return seen, nil
		})
		first := e.process(defs(wf))
		h := start(e, wf, 0)
		send(e, word, h.ID(), "one")
		send(e, word, h.ID(), "two")
		receive(e, "the second step", blocked)
		first.kill()
		send(e, word, h.ID(), "three")
		e.process(defs(wf))
		e.eq("what was chosen", result(e, h), []string{"1one", "1two", "1three"})
	}},
	{Name: "signal/select-at-the-limit", Promise: "P12", Rule: "A select takes any signal that could be sent, as large as it may be.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			var w string
			chosen, err := workflow.Select(ctx, "next", workflow.Timer(e.d(time.Hour)), word.Into(&w))
			if chosen != 1 {
				return 0, err
			}
			return len(w), err
		})
		e.process(defs(wf), worker.Lease(leaseFor))
		h := start(e, wf, 0)
		limit := e.s.Limits().Payload
		text := strings.Repeat("x", limit-2) // and its quotes
		e.check(errors.Is(word.Send(e.ctx, e.eng, h.ID(), text+"x"), store.ErrTooLarge), "a signal over the limit was taken")
		send(e, word, h.ID(), text)
		e.eq("size", result(e, h), limit-2)
	}},
	{Name: "signal/select-refused", Promise: "P16", Rule: "A select without cases or with an invalid case returns an error, and so does one whose cases do not fit the record.", Run: func(e *E) {
		var none *string
		var w string
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (bool, error) {
			ok := true
			for _, cases := range [][]workflow.Case{nil, {word.Into(none)}, {workflow.NewSignal[string]("").Into(&w)}} {
				_, err := workflow.Select(ctx, "next", cases...)
				ok = ok && errors.Is(err, store.ErrInvalid)
			}
			return ok, nil
		})
		changed := false
		swapped := workflow.New("swapped", func(ctx workflow.Context, _ int) (string, error) {
			cases := []workflow.Case{word.Into(&w), workflow.Timer(e.d(time.Hour))}
			if changed {
				cases[0], cases[1] = cases[1], cases[0]
			}
			if _, err := workflow.Select(ctx, "next", cases...); err != nil {
				return "", err
			}
			return word.Receive(ctx)
		})
		p := e.process(defs(wf, swapped))
		e.check(result(e, start(e, wf, 0)), "a select that makes no sense was begun")
		h := start(e, swapped, 0)
		send(e, word, h.ID(), "a")
		e.untilStep(h.ID(), "next", store.StepCompleted)
		e.until(h.ID(), store.Sleeping)
		p.stop()
		changed = true
		e.process(defs(wf, swapped))
		send(e, word, h.ID(), "b")
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrNondeterministic), "cases in another order: saw %v", err)
	}},
	{Name: "signal/select-canceled", Promise: "P11", Rule: "A select ends when the run is canceled.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) (int, error) {
			var w string
			return workflow.Select(ctx, "next", word.Into(&w), workflow.Timer(e.d(time.Hour)))
		})
		e.process(defs(wf), worker.Park(e.d(time.Minute)))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Running)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrCanceled), "saw %v", err)
	}},
	{Name: "signal/canceled-wait", Promise: "P11", Rule: "A wait for a signal ends when the run is canceled.", Run: func(e *E) {
		wf := listener(1)
		e.process(defs(wf))
		h := start(e, wf, 0)
		e.until(h.ID(), store.Sleeping)
		e.ok("cancel", e.eng.Cancel(e.ctx, h.ID(), "enough"))
		_, err := h.Result(e.ctx)
		e.check(errors.Is(err, engine.ErrCanceled), "saw %v", err)
	}},
}
