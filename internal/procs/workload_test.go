package procs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/workflow"
)

// An order is the input of every workflow of the reference workload. From it
// follows all that a run must have recorded when it is completed.
type order struct {
	N     int           `json:"n"`
	Kind  string        `json:"kind"` // the workflow's name
	Wait  time.Duration `json:"wait,omitempty"`
	Fails int           `json:"fails,omitempty"` // attempts that fail
	Delay time.Duration `json:"delay,omitempty"` // of the start
	ID    string        `json:"id,omitempty"`    // external id
	Pad   string        `json:"pad,omitempty"`   // makes a large input
}

// ownWaits bounds what a run of the workload waits of itself: the longest delay
// of a start, and the longest of nap's sleep and flaky's retries.
const (
	maxDelay = time.Second
	maxWait  = 2 * time.Second
	ownWaits = maxDelay + maxWait
)

// draw draws the order of that number.
func draw(r *rand.Rand, n int) order {
	// In microseconds, for that is how finely a store keeps times.
	between := func(lo, hi time.Duration) time.Duration {
		return lo + time.Duration(r.Int64N(int64(hi-lo))).Truncate(time.Microsecond)
	}
	o := order{N: n}
	switch r.IntN(10) {
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
	}
	if r.IntN(4) == 0 {
		o.Delay = between(10*time.Millisecond, maxDelay)
	}
	if r.IntN(5) == 0 {
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
		opts = append(opts, engine.ID(o.ID, engine.WhileActive), func(r *store.NewRun) { r.Digest = []byte{} })
	}
	return opts
}

// wanted is a step that a completed run must have recorded.
type wanted struct {
	store.StepKey
	kind    store.StepKind
	attempt int
	output  string // empty: a time
}

func (o order) steps() []wanted {
	function := func(branch, name string, attempt int) wanted {
		return wanted{store.StepKey{Branch: branch, Name: name, Occurrence: 1}, store.KindFunction, attempt, fmt.Sprintf("%q", o.says(name))}
	}
	clock := func(name string) wanted {
		return wanted{store.StepKey{Name: name, Occurrence: 1}, store.KindFunction, 1, ""}
	}
	sleep := func(branch, name string) wanted {
		return wanted{store.StepKey{Branch: branch, Name: name, Occurrence: 1}, store.KindSleep, 1, ""}
	}
	switch o.Kind {
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
			w := wanted{store.StepKey{Name: word.Name(), Occurrence: i + 1}, store.KindSignal, 1, ""}
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

// says is what the step of that name returns.
func (o order) says(step string) string { return fmt.Sprintf("%s of %d", step, o.N) }

// output is what the run returns.
func (o order) output() string { return o.says(o.Kind) }

// againWait is how long the workflow again waits between its attempts.
const againWait = 300 * time.Millisecond

// load is the reference workload in one process.
type load struct {
	store   store.Store
	journal *journal
	work    time.Duration // the most that a step takes
}

// step does what all steps do: it leaves its mark in the world, works for a
// moment, so that a process may be killed between the mark and the record, and
// returns what depends on the order alone.
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
	if l.work > 0 {
		time.Sleep(rand.N(l.work))
	}
	return nil
}

func succeed(context.Context) error { return nil }

// word is a signal that runs of the workflow talk send to themselves, so many
// times.
var word = workflow.NewSignal[string]("word")

const words = 3

func theWord(i int) string { return fmt.Sprint("word ", i) }

// say sends the words, one after the other. A step that is done again sends the same
// signals again.
func (l *load) say(ctx context.Context, run store.ID) error {
	for i := range words {
		s := store.NewSignal{ID: store.DeriveID(run, theWord(i)), Run: run, Name: word.Name(), Payload: fmt.Appendf(nil, "%q", theWord(i))}
		for {
			res, err := l.store.Signal(ctx, store.SignalParams{Namespace: engine.DefaultNamespace, Signals: []store.NewSignal{s}})
			if err == nil {
				err = res[0].Err
			}
			if err == nil {
				break
			}
			if !store.Retryable(err) {
				return workflow.Permanent(err)
			}
		}
	}
	return nil
}

// clock is a step that records the store's time, once it can be had.
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
