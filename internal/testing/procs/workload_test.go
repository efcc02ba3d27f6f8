package procs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/flow"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// An order is the input of every workflow of the reference workload. It determines everything that
// a completed run must have recorded.
type order struct {
	N     int           `json:"n"`
	Kind  string        `json:"kind"` // the workflow's name
	Wait  time.Duration `json:"wait,omitempty"`
	Fails int           `json:"fails,omitempty"` // attempts that fail
	Delay time.Duration `json:"delay,omitempty"` // of the start
	ID    string        `json:"id,omitempty"`    // external id
	Pad   string        `json:"pad,omitempty"`   // makes a large input
	InTx  bool          `json:"in_tx,omitempty"` // started in a transaction of the program's own
	Pause bool          `json:"pause,omitempty"` // is paused and resumed by who has started it
}

// ownWaits limits the waits of a run of the workload itself: the longest delay of a start, and the
// longest of nap's sleep and flaky's retries.
const (
	maxDelay = time.Second
	maxWait  = 2 * time.Second
	ownWaits = maxDelay + maxWait
)

// draw draws the order with number n.
func draw(r *rand.Rand, n int) order {
	// In microseconds, because a store keeps times in microseconds.
	between := func(lo, hi time.Duration) time.Duration {
		return lo + time.Duration(r.Int64N(int64(hi-lo))).Truncate(time.Microsecond)
	}
	o := order{N: n}
	switch r.IntN(20) {
	case 0, 1:
		o.Kind = "noop"
	case 2, 3, 4:
		o.Kind = "three"
	case 5:
		o.Kind, o.Wait = "nap", between(50*time.Millisecond, maxWait)
	case 6:
		o.Kind, o.Wait = "fan", between(10*time.Millisecond, time.Second)
	case 7: // some of these waits stay in the worker, others put the run to sleep
		o.Kind, o.Fails, o.Wait = "flaky", 1+r.IntN(3), between(10*time.Millisecond, 500*time.Millisecond)
	case 8:
		o.Kind, o.Wait = "again", againWait
	case 9:
		o.Kind = "talk"
	case 10, 11, 12:
		o.Kind, o.Fails = "book", r.IntN(3)
	case 13, 14:
		o.Kind = "graph"
	case 15:
		o.Kind = "crew"
	case 16, 17:
		o.Kind = "ready"
	case 18:
		o.Kind, o.Wait = "doomed", time.Duration(r.IntN(2))
	case 19:
		switch r.IntN(8) {
		case 0:
			o.Kind = "heavy"
		case 1, 2:
			o.Kind, o.Wait = "inbox", between(10*time.Millisecond, time.Second)
		default:
			o.Kind = "crew"
		}
	}
	o.InTx, o.Pause = r.IntN(8) == 0, r.IntN(12) == 0
	if r.IntN(4) == 0 {
		o.Delay = between(10*time.Millisecond, maxDelay)
	}
	if r.IntN(5) == 0 && !o.InTx && o.Kind != "doomed" {
		o.ID = fmt.Sprint("order-", r.IntN(5))
	}
	if r.IntN(8) == 0 {
		o.Pad = strings.Repeat("x", 2000)
	}
	return o
}

func (o order) options() []engine.StartOption {
	var opts []engine.StartOption
	if o.Delay > 0 {
		opts = append(opts, engine.Delay(o.Delay))
	}
	if o.ID != "" {
		// Orders of several workflows share an id: nothing is compared.
		opts = append(opts, engine.ExternalID(o.ID, engine.WhileActive), func(r *store.NewRun) { r.Digest = []byte{} })
	}
	return opts
}

// wanted is a step that a completed run must have recorded.
type wanted struct {
	store.StepKey
	kind    store.StepKind
	attempt int
	output  string // empty: a time, or of no interest
	tx      bool   // a step in a transaction: its effect is a row, and it may take more attempts
	silent  bool   // a step without an effect
}

func (o order) steps() []wanted {
	function := func(branch, name string, attempt int) wanted {
		return wanted{StepKey: store.StepKey{Branch: branch, Name: name, Occurrence: 1}, kind: store.KindFunction, attempt: attempt, output: fmt.Sprintf("%q", o.says(name))}
	}
	clock := func(name string) wanted {
		return wanted{StepKey: store.StepKey{Name: name, Occurrence: 1}, kind: store.KindFunction, attempt: 1}
	}
	sleep := func(branch, name string) wanted {
		return wanted{StepKey: store.StepKey{Branch: branch, Name: name, Occurrence: 1}, kind: store.KindSleep, attempt: 1}
	}
	inTx := func(branch, name string, attempt int) wanted {
		w := function(branch, name, attempt)
		w.tx = true
		return w
	}
	other := func(kind store.StepKind, branch, name string) wanted {
		return wanted{StepKey: store.StepKey{Branch: branch, Name: name, Occurrence: 1}, kind: kind, attempt: 1}
	}
	switch o.Kind {
	case "book":
		return []wanted{inTx("", "open", 1+o.Fails), function("", "between", 1), inTx("", "close", 1+o.Fails), inTx("", "note", 1)}
	case "graph":
		said := other(store.KindFunction, "said", "said")
		said.output, said.silent = strconv.Quote(o.output()), true
		return []wanted{inTx("debit", "debit", 1), inTx("credit", "credit", 1), said}
	case "crew":
		return []wanted{inTx("", "hire", 1), other(store.KindMap, "", "crew"), other(store.KindChild, "", "lead")}
	case "item":
		return []wanted{function("", "begin", 1), inTx("", "make", 1)}
	case "ready":
		return []wanted{inTx("sets", "prepare", 1), other(store.KindState, "sets", "set "+readiness.Key()), other(store.KindState, "waits", "ready"), function("", "go", 1)}
	case "heavy":
		w := function("", "load", 1)
		w.output = quote(heavyLoad(o))
		return []wanted{w, inTx("", "weigh", 1)}
	case "inbox":
		list := []wanted{function("", "flood", 1), sleep("", "rest")}
		for i := range floodWords {
			list = append(list, wanted{StepKey: store.StepKey{Name: word.Name(), Occurrence: i + 1}, kind: store.KindSignal, attempt: 1, output: quote(theFlood(i))})
		}
		return list
	case "doomed":
		return []wanted{inTx("", "pay", 1), function("", "pack", 1), other(store.KindSignal, "", word.Name())}
	case "tick":
		return []wanted{inTx("", "tick", 1)}
	case "three":
		return []wanted{function("", "one", 1), function("", "two", 1), function("", "three", 1)}
	case "nap":
		return []wanted{clock("doze"), sleep("", "nap"), clock("wake")}
	case "fan":
		return []wanted{function("left", "begin", 1), function("left", "end", 1), function("right", "begin", 1),
			sleep("right", "pause"), function("right", "end", 1), function("", "join", 1)}
	case "flaky":
		return []wanted{function("", "try", o.Fails+1), function("", "after", 1)}
	case "talk":
		list := []wanted{function("", "say", 1)}
		for i := range words + 1 { // the last one waited in vain
			w := wanted{StepKey: store.StepKey{Name: word.Name(), Occurrence: i + 1}, kind: store.KindSignal, attempt: 1}
			if i < words {
				w.output = fmt.Sprintf("%q", theWord(i))
			}
			list = append(list, w)
		}
		return list
	case "again":
		return []wanted{function("", "keep", 1), function("", "fall", 1), function("", "end", 1)}
	}
	return nil
}

// runAttempt is the one in which the run completes.
func (o order) runAttempt() int {
	if o.Kind == "again" {
		return 2
	}
	return 1
}

// kids are the inputs of the children that the run starts.
func (o order) kids() (list []order) {
	if o.Kind == "crew" {
		for i := range 4 {
			list = append(list, order{N: 100*o.N + i, Kind: "item"})
		}
	}
	return list
}

// canceled reports whether the run waits until it is canceled.
func (o order) canceled() bool { return o.Kind == "doomed" }

// says returns what the step of that name returns.
func (o order) says(step string) string { return fmt.Sprintf("%s of %d", step, o.N) }

// output returns what the run returns.
func (o order) output() string { return o.says(o.Kind) }

// againWait is how long the workflow again waits between its attempts.
const againWait = 300 * time.Millisecond

// load is the reference workload in one process.
type load struct {
	store    store.Store
	journal  *journal
	work     time.Duration // the most that a step takes
	postgres bool          // there are transactions of pgx
}

// readiness is the state for which runs of the workflow ready wait.
var readiness = workflow.NewState[bool]("readiness")

// floodWords is how many signals runs of the workflow inbox leave unread for a while.
const floodWords = 300

func theFlood(i int) string { return strconv.Itoa(i) + floodPad }

// quote is a text as JSON that needs no escapes. There is much of it.
func quote(text string) string { return `"` + text + `"` }

var floodPad, heavyPad = strings.Repeat("x", 500), strings.Repeat("h", store.DefaultPayloadLimit-100)

// heavyLoad is an output just below the limit, as JSON.
func heavyLoad(o order) string {
	return strconv.Itoa(o.N) + heavyPad
}

// step does what all steps do: it records its effect, works for a moment, so that a process may be
// killed between the effect and the record, and returns a value that depends only on the order.
func (l *load) step(ctx workflow.Context, o order, name string, fail func(ctx context.Context) error, opts ...workflow.StepOption) (string, error) {
	return workflow.Step(ctx, name, func(ctx context.Context) (string, error) {
		if err := l.effect(ctx); err != nil {
			return "", err
		}
		return o.says(name), fail(ctx)
	}, opts...)
}

func (l *load) effect(ctx context.Context) error {
	if err := l.journal.effect(ctx); err != nil {
		return workflow.Permanent(err)
	}
	l.toil()
	return nil
}

// toil takes the time of a step, so that its process may be hit meanwhile.
func (l *load) toil() {
	if l.work > 0 {
		time.Sleep(rand.N(l.work))
	}
}

func succeed(context.Context) error { return nil }

// word is a signal that runs of the workflow talk send to themselves, so many
// times.
var word = workflow.NewSignal[string]("word")

const words = 3

func theWord(i int) string { return fmt.Sprint("word ", i) }

// say sends the words, one after the other. A repeated step sends the same signals again.
func (l *load) say(ctx context.Context, run store.ID) error {
	for i := range words {
		if err := l.send(ctx, newWord(run, theWord(i))); err != nil {
			return err
		}
	}
	return nil
}

func newWord(run store.ID, text string) store.NewSignal {
	return store.NewSignal{ID: store.DeriveID(run, text), Run: run, Name: word.Name(), Payload: []byte(quote(text))}
}

// flood sends many words at once.
func (l *load) flood(ctx context.Context, run store.ID) error {
	var list []store.NewSignal
	for i := range floodWords {
		list = append(list, newWord(run, theFlood(i)))
	}
	return l.send(ctx, list...)
}

// send sends signals until the store has taken them.
func (l *load) send(ctx context.Context, signals ...store.NewSignal) error {
	for {
		res, err := l.store.Signal(ctx, store.SignalParams{Namespace: engine.DefaultNamespace, Signals: signals})
		for i := range res {
			err = errors.Join(err, res[i].Err)
		}
		switch {
		case err == nil:
			return nil
		case !store.Retryable(err):
			return workflow.Permanent(err)
		}
	}
}

// clock is a step that records the store's time, once it is available.
func (l *load) clock(ctx workflow.Context, name string) error {
	_, err := workflow.Step(ctx, name, func(ctx context.Context) (int64, error) {
		if err := l.effect(ctx); err != nil {
			return 0, err
		}
		for {
			now, err := l.store.Clock(ctx)
			if err == nil {
				return now.UnixMicro(), nil
			}
			if !store.Retryable(err) {
				return 0, workflow.Permanent(err)
			}
		}
	})
	return err
}

// defs are workflows by name.
type defs map[string]*workflow.Workflow[order, string]

// workflows are the workload's, by name.
func (l *load) workflows() defs {
	list := defs{}
	add := func(name string, fn func(ctx workflow.Context, o order) error, opts ...workflow.Option) {
		list[name] = workflow.New(name, func(ctx workflow.Context, o order) (string, error) {
			if err := fn(ctx, o); err != nil {
				return "", err
			}
			return o.output(), nil
		}, opts...)
	}
	steps := func(ctx workflow.Context, o order, names ...string) error {
		for _, name := range names {
			if _, err := l.step(ctx, o, name, succeed); err != nil {
				return err
			}
		}
		return nil
	}
	add("noop", func(workflow.Context, order) error { return nil })
	l.addTransactional(list, add, steps)
	l.addCoordinated(add, steps)
	l.addRetried(add, steps)
	add("three", func(ctx workflow.Context, o order) error { return steps(ctx, o, "one", "two", "three") })
	add("nap", func(ctx workflow.Context, o order) error {
		if err := l.clock(ctx, "doze"); err != nil {
			return err
		}
		if err := workflow.Sleep(ctx, "nap", o.Wait); err != nil {
			return err
		}
		return l.clock(ctx, "wake")
	})
	add("fan", func(ctx workflow.Context, o order) error {
		g := workflow.NewGroup(ctx)
		g.Go("left", func(ctx workflow.Context) error { return steps(ctx, o, "begin", "end") })
		g.Go("right", func(ctx workflow.Context) error {
			if err := steps(ctx, o, "begin"); err != nil {
				return err
			}
			if err := workflow.Sleep(ctx, "pause", o.Wait); err != nil {
				return err
			}
			return steps(ctx, o, "end")
		})
		if err := g.Wait(); err != nil {
			return err
		}
		return steps(ctx, o, "join")
	})
	add("talk", func(ctx workflow.Context, o order) error {
		run := ctx.Info().RunID
		if _, err := l.step(ctx, o, "say", func(ctx context.Context) error { return l.say(ctx, run) }); err != nil {
			return err
		}
		for i := range words {
			if w, err := word.Receive(ctx); err != nil || w != theWord(i) {
				return fmt.Errorf("word %d is %q, %w", i, w, err)
			}
		}
		if w, err := word.ReceiveTimeout(ctx, 0); !errors.Is(err, workflow.ErrTimeout) {
			return fmt.Errorf("a word came twice: %q, %w", w, err)
		}
		return nil
	})
	return list
}

// An adder defines a workflow of the workload.
type adder func(name string, fn func(ctx workflow.Context, o order) error, opts ...workflow.Option)

// plainSteps runs steps that succeed, one after the other.
type plainSteps func(ctx workflow.Context, o order, names ...string) error

// addRetried adds the workflows whose steps or runs fail at first.
func (l *load) addRetried(add adder, steps plainSteps) {
	add("flaky", func(ctx workflow.Context, o order) error {
		_, err := l.step(ctx, o, "try", func(ctx context.Context) error {
			if workflow.Attempt(ctx) <= o.Fails {
				return errors.New("not yet")
			}
			return nil
		}, workflow.Backoff(o.Wait, 1, o.Wait))
		if err != nil {
			return err
		}
		return steps(ctx, o, "after")
	})
	add("again", func(ctx workflow.Context, o order) error {
		if err := steps(ctx, o, "keep"); err != nil {
			return err
		}
		if _, err := l.step(ctx, o, "fall", func(context.Context) error {
			if ctx.Info().Attempt == 1 {
				return errors.New("not in this life")
			}
			return nil
		}, workflow.Attempts(1)); err != nil {
			return err
		}
		return steps(ctx, o, "end")
	}, workflow.RunAttempts(3), workflow.RunBackoff(againWait, 1, againWait))
}

// addTransactional adds the workflows with steps in transactions, and those with children.
func (l *load) addTransactional(list defs, add adder, steps plainSteps) {
	add("book", func(ctx workflow.Context, o order) error {
		if err := l.inTxStep(ctx, o, "open", true, o.Fails); err != nil {
			return err
		}
		if err := steps(ctx, o, "between"); err != nil {
			return err
		}
		if err := l.inTxStep(ctx, o, "close", false, o.Fails); err != nil {
			return err
		}
		return l.inTxStep(ctx, o, "note", true, 0)
	})
	list["graph"] = l.graph()
	add("item", func(ctx workflow.Context, o order) error {
		if err := steps(ctx, o, "begin"); err != nil {
			return err
		}
		return l.inTxStep(ctx, o, "make", o.N%2 == 0, 0)
	})
	add("crew", func(ctx workflow.Context, o order) error {
		if err := l.inTxStep(ctx, o, "hire", true, 0); err != nil {
			return err
		}
		kids := o.kids()
		outs, err := workflow.Map(ctx, "crew", kids[1:], list["item"])
		if err != nil {
			return err
		}
		lead, err := workflow.Child(ctx, "lead", list["item"], kids[0])
		for i, out := range append([]string{lead}, outs...) {
			if err == nil && out != kids[i].output() {
				err = fmt.Errorf("child %d returned %q", i, out)
			}
		}
		return err
	})
	add("heavy", func(ctx workflow.Context, o order) error {
		_, err := workflow.Step(ctx, "load", func(ctx context.Context) (string, error) { return heavyLoad(o), l.effect(ctx) })
		if err != nil {
			return err
		}
		return l.inTxStep(ctx, o, "weigh", true, 0)
	})
	add("tick", func(ctx workflow.Context, o order) error { return l.inTxStep(ctx, o, "tick", true, 0) })
}

// addCoordinated adds the workflows that wait for state and for signals.
func (l *load) addCoordinated(add adder, steps plainSteps) {
	add("ready", func(ctx workflow.Context, o order) error {
		g := workflow.NewGroup(ctx)
		g.Go("waits", func(ctx workflow.Context) error {
			return workflow.WaitForState(ctx, "ready", func(r workflow.FlowStateReader) (bool, error) {
				ready, _, err := readiness.Read(r)
				return ready, err
			})
		})
		g.Go("sets", func(ctx workflow.Context) error {
			if err := l.inTxStep(ctx, o, "prepare", false, 0); err != nil {
				return err
			}
			return readiness.Set(ctx, true)
		})
		if err := g.Wait(); err != nil {
			return err
		}
		return steps(ctx, o, "go")
	})
	add("inbox", func(ctx workflow.Context, o order) error {
		run := ctx.Info().RunID
		if _, err := l.step(ctx, o, "flood", func(ctx context.Context) error { return l.flood(ctx, run) }); err != nil {
			return err
		}
		if err := workflow.Sleep(ctx, "rest", o.Wait); err != nil {
			return err
		}
		for i := range floodWords {
			if w, err := word.Receive(ctx); err != nil || w != theFlood(i) {
				return fmt.Errorf("word %d is %q, %w", i, w, err)
			}
		}
		return nil
	})
	add("doomed", func(ctx workflow.Context, o order) error {
		if err := l.inTxStep(ctx, o, "pay", true, 0); err != nil {
			return err
		}
		if err := steps(ctx, o, "pack"); err != nil {
			return err
		}
		_, err := word.Receive(ctx)
		return err
	})
}

// graph is a flow: its debit and its credit are steps in transactions.
func (l *load) graph() *workflow.Workflow[order, string] {
	f := flow.New[order, string]("graph")
	with := flow.WithStep(txOptions...)
	debit := flow.ThenTx(f, "debit", f.Input(), func(ctx context.Context, tx *sql.Tx, o order) (string, error) {
		return l.sqlEffect(ctx, tx, o, "debit", 0)
	}, with)
	credit := flow.ThenTx(f, "credit", f.Input(), func(ctx context.Context, tx *sql.Tx, o order) (string, error) {
		return l.sqlEffect(ctx, tx, o, "credit", 0)
	}, with, flow.After(debit))
	said := flow.Join2(f, "said", f.Input(), credit, func(_ context.Context, o order, _ string) (string, error) { return o.output(), nil })
	f.Output(said)
	return f.Must()
}
