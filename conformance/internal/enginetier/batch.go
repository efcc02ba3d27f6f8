package enginetier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

var batchEngineCases = []Case{
	{Name: "batch/full-or-in-time", Promise: "P17", Rule: "A batch ends when it is full or when its time is over, not before, with the signals that have arrived, in order; live and replayed.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			var out []string
			for _, within := range []time.Duration{e.d(time.Hour), e.d(time.Minute), 0, e.d(time.Second)} {
				from, err := workflow.Now(ctx, "from")
				if err != nil {
					return nil, err
				}
				words, err := word.ReceiveMany(ctx, 3, within)
				if err != nil {
					return nil, err
				}
				to, err := workflow.Now(ctx, "to")
				if err != nil {
					return nil, err
				}
				if len(words) < 3 && to.Sub(from) < within {
					return nil, fmt.Errorf("a batch of %q ended %v early", words, within-to.Sub(from))
				}
				out = append(out, fmt.Sprint(words))
			}
			return out, again(e, ctx, "nap")
		})
		h := startBefore(e, wf)
		for _, w := range []string{"a", "b", "c", "d"} {
			send(e, word, h.ID(), w)
		}
		e.process(defs(wf))
		e.until(h.ID(), store.Sleeping)
		send(e, word, h.ID(), "e")
		e.eq("batches", result(e, h), []string{"[a b c]", "[d e]", "[]", "[]"})
	}},
	{Name: "batch/fills-while-waiting", Promise: "P5", Rule: "The signal that fills a batch ends its wait at once.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			return word.ReceiveMany(ctx, 3, e.d(24*time.Hour))
		})
		e.process(defs(wf))
		h := start(e, wf, 0)
		for _, w := range []string{"a", "b", "c"} {
			e.until(h.ID(), store.Sleeping)
			send(e, word, h.ID(), w)
		}
		e.eq("batch", result(e, h), []string{"a", "b", "c"})
	}},
	{Name: "batch/none-lost-or-doubled", Promise: "P17", Rule: "Batches take every signal once, in the order of each sender, while workers die and senders send.", Run: func(e *E) {
		const senders, each = 5, 24
		wf := workflow.New("wf", func(ctx workflow.Context, got []string) ([]string, error) {
			for range 2 {
				words, err := word.ReceiveMany(ctx, 7, e.d(30*time.Second))
				if err != nil {
					return nil, err
				}
				if got = append(got, words...); len(got) >= senders*each {
					return got, nil
				}
			}
			return nil, workflow.ContinueAsNew(ctx, got)
		})
		h := startBefore(e, wf)
		sent := make(chan error, senders)
		for s := range senders {
			go func() {
				var err error
				for i := range each {
					err = errors.Join(err, word.Send(e.ctx, e.eng, h.ID(), fmt.Sprintf("%d/%02d", s, i)))
				}
				sent <- err
			}()
		}
		for i := range 4 {
			p := e.process(defs(wf), worker.MaxCrashes(100))
			select {
			case <-p.wire.dieAt("commit", 1+i, i%2 == 0):
			case <-e.ended(h.ID()):
			}
			p.kill()
		}
		e.process(defs(wf), worker.MaxCrashes(100))
		for range senders {
			e.ok("send", receive(e, "the end of a sender", sent))
		}
		got := result(e, h)
		bySender := map[string][]string{}
		for _, w := range got {
			s, i, _ := strings.Cut(w, "/")
			bySender[s] = append(bySender[s], i)
		}
		for s := range senders {
			list := bySender[fmt.Sprint(s)]
			e.eq("number of signals of a sender", len(list), each)
			e.check(slices.IsSorted(list), "the signals of sender %d came as %v", s, list)
		}
	}},
	{Name: "batch/bounded-in-bytes", Promise: "P12", Rule: "Large signals come in batches of at most a mebibyte, or one at a time, up to the limit of a payload; none is left behind.", Run: func(e *E) {
		limit := e.s.Limits().Payload
		sizes := []int{limit / 5, limit / 5, limit / 5, limit - 2, limit / 5, 10}
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]int, error) {
			var got []int
			for len(got) < len(sizes) {
				words, err := word.ReceiveMany(ctx, 100, 0)
				if err != nil {
					return got, err
				}
				total := 0
				for _, w := range words {
					got, total = append(got, len(w)), total+len(w)
				}
				if len(words) == 0 || len(words) > 1 && total > 1<<20 {
					return got, fmt.Errorf("a batch has %d signals of %d bytes", len(words), total)
				}
			}
			return got, nil
		})
		h := startBefore(e, wf)
		for _, n := range sizes {
			send(e, word, h.ID(), strings.Repeat("x", n))
		}
		e.process(defs(wf), worker.Lease(leaseFor))
		e.eq("sizes", result(e, h), sizes)
	}},
	{Name: "batch/wrong-type", Promise: "P16", Rule: "A batch ends before a signal of the wrong type. The next one fails with a decode error, passes that signal over, and is followed by the others; live and replayed.", Run: func(e *E) {
		texts, numbers := workflow.NewSignal[string]("n"), workflow.NewSignal[int]("n")
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			var out []string
			for range 3 {
				ns, err := numbers.ReceiveMany(ctx, 2, 0)
				var decode *workflow.DecodeError
				switch {
				case errors.As(err, &decode):
					out = append(out, "wrong type")
				case err != nil:
					return nil, err
				default:
					out = append(out, fmt.Sprint(ns))
				}
			}
			return out, again(e, ctx, "nap")
		})
		h := startBefore(e, wf)
		send(e, numbers, h.ID(), 1)
		send(e, texts, h.ID(), "two")
		send(e, numbers, h.ID(), 3)
		send(e, numbers, h.ID(), 4)
		e.process(defs(wf))
		e.eq("batches", result(e, h), []string{"[1]", "wrong type", "[3 4]"})
	}},
	{Name: "batch/refused", Promise: "P16", Rule: "A batch of no signals, or of more than a thousand, is refused and takes nothing.", Run: func(e *E) {
		wf := workflow.New("wf", func(ctx workflow.Context, _ int) ([]string, error) {
			for _, n := range []int{-1, 0, store.MaxPage + 1} {
				if _, err := word.ReceiveMany(ctx, n, 0); !errors.Is(err, store.ErrInvalid) {
					return nil, fmt.Errorf("a batch of %d: saw %v", n, err)
				}
			}
			return word.ReceiveMany(ctx, store.MaxPage, 0)
		})
		h := startBefore(e, wf)
		send(e, word, h.ID(), "a")
		e.process(defs(wf))
		e.eq("batch", result(e, h), []string{"a"})
	}},
}
