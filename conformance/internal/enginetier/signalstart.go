package enginetier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// collector collects words in batches until it has that many.
func collector(e *E, most, until int, within time.Duration) *workflow.Workflow[[]string, []string] {
	return workflow.New("collector", func(ctx workflow.Context, got []string) ([]string, error) {
		first, err := word.Receive(ctx)
		if err != nil {
			return nil, err
		}
		rest, err := word.ReceiveMany(ctx, most-1, e.d(within))
		if err != nil {
			return nil, err
		}
		if got = append(append(got, first), rest...); len(got) >= until {
			return got, nil
		}
		return nil, workflow.ContinueAsNew(ctx, got)
	})
}

var withStartEngineCases = []Case{
	{Name: "with-start/signal", Promise: "P8", Rule: "The first signal with a start starts the run, which has it when its code begins; the next ones reach that run and start none, whatever their input.", Run: func(e *E) {
		wf := collector(e, 3, 3, 24*time.Hour)
		e.build(defs(wf))
		id := engine.ExternalID("k")
		first, err := wf.SignalWithStart(e.ctx, e.eng, []string{}, word.With("a"), id)
		e.ok("signal with start", err)
		e.eq("existing of the first", first.Existing(), false)
		e.process(defs(wf))
		for i, w := range []string{"b", "c"} {
			e.until(first.ID(), store.Sleeping)
			h, err := wf.SignalWithStart(e.ctx, e.eng, []string{fmt.Sprint("other input ", i)}, word.With(w), id)
			e.ok("signal with start", err)
			e.eq("the run", h.ID(), first.ID())
			e.eq("existing", h.Existing(), true)
		}
		e.eq("words", result(e, first), []string{"a", "b", "c"})
		_, err = wf.SignalWithStart(e.ctx, e.eng, nil, word.With("late"), id)
		e.says("a signal after the end of a run that keeps its id", err, store.ErrFinished, "k", "completed")
	}},
	{Name: "with-start/next-run", Promise: "P8", Rule: "When the run has ended and frees its external id, the next signal with a start starts another run; one that is repeated by its key reaches the run that had it.", Run: func(e *E) {
		wf := collector(e, 2, 1, 0)
		e.process(defs(wf))
		var before workflow.Handle[[]string]
		for i, w := range []string{"a", "b"} {
			ask := func() workflow.Handle[[]string] {
				h, err := wf.SignalWithStart(e.ctx, e.eng, nil, word.With(w, workflow.SendKey(w)), engine.ExternalID("k", engine.WhileActive))
				e.ok("signal with start", err)
				return h
			}
			h := ask()
			e.eq("existing", h.Existing(), false)
			e.check(h.ID() != before.ID(), "signal %d: saw the run that has ended, expected a new one", i)
			e.eq("words", result(e, h), []string{w})
			e.eq("the run of the repeat", ask().ID(), h.ID())
			before = h
		}
	}},
	{Name: "with-start/refused", Promise: "P16", Rule: "A signal with a start of another workflow's external id is ErrConflict; without an external id, with the policy Reject and in StartMany the store's rules hold; nothing is sent.", Run: func(e *E) {
		wf, other := collector(e, 2, 1, 0), workflow.New("other", func(ctx workflow.Context, _ int) (int, error) {
			_, err := word.ReceiveTimeout(ctx, 0)
			if errors.Is(err, workflow.ErrTimeout) {
				return 1, nil
			}
			return 0, errors.Join(err, errors.New("a signal came"))
		})
		e.build(defs(wf, other))
		h := start(e, other, 0, engine.ExternalID("k"))
		_, err := wf.SignalWithStart(e.ctx, e.eng, nil, word.With("x"), engine.ExternalID("k"))
		e.says("another workflow", err, store.ErrConflict, "other")
		_, err = wf.SignalWithStart(e.ctx, e.eng, nil, word.With("x"))
		e.says("no external id", err, store.ErrInvalid, "external id")
		_, err = wf.SignalWithStart(e.ctx, e.eng, nil, word.With("x"), engine.ExternalID("k", engine.Reject))
		e.says("policy Reject", err, store.ErrInvalid, "new")
		_, err = workflow.Ref[[]string, []string]("collector").SignalWithStart(e.ctx, e.eng, nil, word.With("x"), engine.ExternalID("k"))
		e.says("another workflow, by a reference", err, store.ErrConflict, "other")
		sig := engine.WithSignal(store.StartSignal{Name: "word", Payload: []byte(`"x"`)})
		_, err = e.eng.StartMany(e.ctx, "collector", []engine.Item{{Input: []byte("null"), Options: []engine.StartOption{engine.ExternalID("k"), sig}}})
		e.says("another workflow, of many", err, store.ErrConflict, "other")
		_, err = e.eng.PutSchedule(e.ctx, "s", "collector", "@hourly", []byte("null"), engine.ScheduleRuns(sig))
		e.says("runs of a schedule", err, store.ErrInvalid, "signal")
		e.process(defs(wf, other))
		e.eq("output", result(e, h), 1)
	}},
	{Name: "with-start/batching", Promise: "P17", Rule: "Signals with starts, collected in batches of at most n or for a time, are neither lost nor received twice, in the order of each sender, while workers die; each external id has one run.", Run: func(e *E) {
		const senders, each, keys = 4, 24, 3
		wf := collector(e, 7, senders*each/keys, 20*time.Second)
		e.build(defs(wf))
		type sent struct {
			runs map[string]store.ID
			err  error
		}
		ends := make(chan sent, senders)
		for s := range senders {
			go func() {
				out := sent{runs: map[string]store.ID{}}
				for i := range each {
					key := fmt.Sprint("k-", i%keys)
					h, err := wf.SignalWithStart(e.ctx, e.eng, nil, word.With(fmt.Sprintf("%d/%02d", s, i)), engine.ExternalID(key))
					if was, ok := out.runs[key]; err == nil && ok && was != h.ID() {
						err = fmt.Errorf("%s: saw run %s after run %s, expected one run", key, h.ID(), was)
					}
					out.runs[key], out.err = h.ID(), errors.Join(out.err, err)
				}
				ends <- out
			}()
		}
		for i := range 3 {
			p := e.process(defs(wf), worker.MaxCrashes(100))
			select {
			case <-p.wire.dieAt("commit", 1+i, i%2 == 0):
			case <-time.After(e.d(time.Minute)): // all is collected
			}
			p.kill()
		}
		e.process(defs(wf), worker.MaxCrashes(100))
		runs := map[string]store.ID{}
		for range senders {
			s := receive(e, "the end of a sender", ends)
			e.ok("signal with start", s.err)
			for key, id := range s.runs {
				if was, ok := runs[key]; ok {
					e.eq("the run of "+key, id, was)
				}
				runs[key] = id
			}
		}
		bySender := map[string][]string{}
		for key := range keys {
			for _, w := range result(e, wf.Handle(e.eng, runs[fmt.Sprint("k-", key)])) {
				s, i, _ := strings.Cut(w, "/")
				bySender[s+" of "+fmt.Sprint(key)] = append(bySender[s+" of "+fmt.Sprint(key)], i)
			}
		}
		e.eq("senders of a key", len(bySender), senders*keys)
		for s, list := range bySender {
			e.eq("number of signals of sender "+s, len(list), each/keys)
			e.check(slices.IsSorted(list), "the signals of sender %s came as %v", s, list)
		}
	}},
	{Name: "with-start/update", Promise: "P25", Rule: "The first request with a start starts the run and is answered by it; the next ones reach it. A request that is repeated by its key has the same answer, also after the run's end, and starts nothing.", Run: func(e *E) {
		var ran tally
		wf := account(&ran)
		e.process(defs(wf))
		ask := func(n int) int {
			out, err := deposit.Ask(e.ctx, wf.WithStart(e.eng, 100, engine.ExternalID("acc", engine.WhileActive)), n, workflow.SendKey(fmt.Sprint(n)))
			e.ok("ask with start", err)
			return out
		}
		e.eq("balance", ask(1), 101)
		e.eq("balance", ask(2), 103)
		e.eq("balance of the repeat", ask(1), 101)
		h, err := wf.Find(e.ctx, e.eng, "acc")
		e.ok("find", err)
		send(e, closing, h.ID(), "")
		e.eq("output", result(e, h), 103)
		e.eq("balance of the repeat after the end", ask(2), 103)
		e.eq("balance of the next account", ask(5), 105)
		byName := workflow.Ref[int, int]("account")
		out, err := deposit.Ask(e.ctx, byName.WithStart(e.eng, 100, engine.ExternalID("acc", engine.WhileActive)), 6)
		e.ok("ask with start by a reference", err)
		e.eq("balance", out, 111)
		_, err = deposit.Ask(e.ctx, wf.WithStart(e.eng, 100, engine.ExternalID("acc-2")), 0)
		e.refusal("a request that is refused by the run that it started", err, workflow.CodeRefused)
		e.eq("bookings", ran.get("book"), 4)
	}},
	{Name: "with-start/lost-answers", Promise: "P4", Rule: "A signal with a start whose answers are lost is delivered once, to one run.", Run: func(e *E) {
		wf := collector(e, 5, 4, 24*time.Hour)
		p := e.build(defs(wf))
		for i := range 4 {
			p.wire.loseNext("create", 1)
			_, err := wf.SignalWithStart(e.ctx, p.eng, nil, word.With(fmt.Sprint(i)), engine.ExternalID("k"))
			e.ok("signal with start", err)
		}
		h, err := wf.Find(e.ctx, e.eng, "k")
		e.ok("find", err)
		run, err := e.eng.Get(e.ctx, h.ID())
		e.ok("get", err)
		e.eq("signals that the run has had", run.Events, int64(4))
	}},
}
