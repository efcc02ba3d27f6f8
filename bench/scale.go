package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// scaling measures how Pawl grows, one repetition: what is varied is all that changes
// from one point of a curve to the next.
func (b *bench) scaling(ctx context.Context, at *site) error {
	for _, c := range []struct {
		name string
		do   func(context.Context, *site) error
	}{
		{"workers", b.byWorkers},
		{"slots", b.bySlots},
		{"payload", b.byPayload},
		{"steps", b.bySteps},
		{"table", b.byTable},
		{"queues", b.byQueues},
	} {
		if b.curve != "" && b.curve != c.name || c.name == "workers" && (b.db == "sqld" && b.curve == "") { // there it takes minutes
			continue
		}
		fmt.Fprintf(os.Stderr, "scale: %s\n", c.name)
		if err := c.do(ctx, at); err != nil {
			return fmt.Errorf("scale, %s: %w", c.name, err)
		}
	}
	return nil
}

// upTo is the list without what is over the most.
func upTo(most int, list ...int) []int {
	for i, n := range list {
		if n > most && i > 0 {
			return list[:i]
		}
	}
	return list
}

// within does something on a fresh database.
func (b *bench) within(ctx context.Context, at *site, do func(place string, s *subject) error) error {
	place, leave, err := at.place()
	if err != nil {
		return err
	}
	defer leave()
	s, err := at.open(ctx, place)
	if err != nil {
		return err
	}
	defer s.close()
	runtime.GC()
	return do(place, s)
}

func perSecond(n int, from time.Time) float64 { return float64(n) / time.Since(from).Seconds() }

// byWorkers has worker processes do runs of three steps that a further one starts.
func (b *bench) byWorkers(ctx context.Context, at *site) error {
	for _, n := range upTo(b.scale, 1, 2, 4, 8) {
		if err := b.within(ctx, at, func(place string, s *subject) error {
			for range n {
				stop, err := startWorker(at.where(place))
				if err != nil {
					return err
				}
				defer stop()
			}
			if err := s.bulk(ctx, threeStep, 10*n, true); err != nil { // all are there
				return err
			}
			from := time.Now()
			if err := s.bulk(ctx, threeStep, b.runs, true); err != nil {
				return err
			}
			b.point("workers", "worker processes", "3-step runs a second", float64(n), perSecond(b.runs, from))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// waits has a step that waits for something outside for a tenth of a second.
var waits = workflow.New("waits", func(ctx workflow.Context, in int) (int, error) {
	return workflow.Step(ctx, "call", func(ctx context.Context) (int, error) {
		return in, rest(ctx, 100*time.Millisecond)
	})
})

func (b *bench) bySlots(ctx context.Context, at *site) error {
	for _, slots := range upTo(b.scale, 1, 10, 100, 1_000, 10_000) {
		if err := b.within(ctx, at, func(_ string, s *subject) error {
			if err := s.work(ctx, slots, waits); err != nil {
				return err
			}
			n := min(max(20, 5*slots), 30_000)
			from := time.Now()
			if err := s.bulk(ctx, waits, n, true); err != nil {
				return err
			}
			b.point("slots", "runs at the same time, each with a step of 100 ms", "runs a second", float64(slots), perSecond(n, from))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// carries has a step whose result is as large as it is told.
var carries = workflow.New("carries", func(ctx workflow.Context, size int) (string, error) {
	return workflow.Step(ctx, "make", func(context.Context) (string, error) { return strings.Repeat("x", size), nil })
})

func (b *bench) byPayload(ctx context.Context, at *site) error {
	for _, size := range upTo(100*b.scale, 100, 1_000, 10_000, 100_000, 1_000_000) {
		if err := b.within(ctx, at, func(_ string, s *subject) error {
			if err := s.work(ctx, 50, carries); err != nil {
				return err
			}
			n := min(b.runs/4, max(100_000_000/size, 20))
			each := make([]workflow.Each[int], n)
			for i := range each {
				each[i].In = size
			}
			from := time.Now()
			handles, err := carries.StartMany(ctx, s.eng, each)
			if err != nil {
				return err
			}
			if _, err := workflow.Results(ctx, handles); err != nil {
				return err
			}
			b.point("payload", "bytes of a step's result, which is the run's as well", "runs a second", float64(size), perSecond(n, from))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

var goOn = workflow.NewSignal[int]("go on")

// longRun does steps, one after the other, says so, and ends when it is told to.
func longRun(done chan<- time.Time) *workflow.Workflow[int, int] {
	return workflow.New("long", func(ctx workflow.Context, steps int) (int, error) {
		for range steps {
			if _, err := workflow.Step(ctx, "step", func(context.Context) (int, error) { return 7, nil }); err != nil {
				return 0, err
			}
		}
		done <- time.Now()
		return goOn.Receive(ctx)
	})
}

func (b *bench) bySteps(ctx context.Context, at *site) error {
	for _, steps := range upTo(b.scale, 10, 100, 1_000, 10_000) {
		if err := b.within(ctx, at, func(_ string, s *subject) error {
			done := make(chan time.Time, 1)
			long := longRun(done)
			if err := s.work(ctx, 10, long); err != nil {
				return err
			}
			if _, _, err := s.sleepAndWake(ctx, long, 1, done); err != nil { // warming up
				return err
			}
			worked, woke, err := s.sleepAndWake(ctx, long, steps, done)
			if err != nil {
				return err
			}
			b.point("steps", "steps of one run, one after the other", "steps a second", float64(steps), float64(steps)/worked.Seconds())
			b.point("replay", "steps that a run has behind it", "ms from a signal that wakes it to its result", float64(steps), float64(woke.Microseconds())/1000)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// sleepAndWake has a run do its steps and sleep, wakes it, and tells how long the steps
// took, and the time from the signal to its result.
func (s *subject) sleepAndWake(ctx context.Context, long *workflow.Workflow[int, int], steps int, done <-chan time.Time) (worked, woke time.Duration, err error) {
	from := time.Now()
	h, err := long.Start(ctx, s.eng, steps)
	if err != nil {
		return 0, 0, err
	}
	select {
	case end := <-done:
		worked = end.Sub(from)
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	for { // until it sleeps
		run, err := s.eng.Get(ctx, h.ID())
		if err != nil {
			return 0, 0, err
		}
		if run.Worker == "" && run.Epoch > 0 {
			break
		}
		if err := rest(ctx, time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
	from = time.Now()
	if err := goOn.Send(ctx, s.eng, h.ID(), 1); err != nil {
		return 0, 0, err
	}
	if _, err := h.Result(ctx); err != nil {
		return 0, 0, err
	}
	woke = time.Since(from)
	<-done // of the replay
	return worked, woke, nil
}

// byTable fills a database with finished runs, and measures the last ones of each size.
func (b *bench) byTable(ctx context.Context, at *site) error {
	return b.within(ctx, at, func(place string, s *subject) error {
		if err := s.work(ctx, 1000, noop); err != nil {
			return err
		}
		have := 0
		fill := func(n int) error {
			have += n
			return at.fill(ctx, place, have-n, n)
		}
		do := func(n int) error {
			for n > 0 {
				part := min(n, 10_000)
				if err := s.bulk(ctx, noop, part, true); err != nil {
					return err
				}
				have, n = have+part, n-part
			}
			return nil
		}
		for _, size := range upTo(b.crowd, 10_000, 100_000, 1_000_000, 10_000_000) {
			last := min(b.runs, size/2)
			before := do
			if at.fill != nil {
				before = fill
			}
			if err := before(size - last - have); err != nil {
				return err
			}
			from := time.Now()
			if err := do(last); err != nil {
				return err
			}
			b.point("table", "runs in the table", "no-op runs a second", float64(size), perSecond(last, from))
		}
		return nil
	})
}

// byQueues has one worker serve many queues, each with a workflow of its own.
func (b *bench) byQueues(ctx context.Context, at *site) error {
	for _, n := range upTo(b.scale, 1, 10, 100, 1_000) {
		if err := b.within(ctx, at, func(_ string, s *subject) error {
			var defs []workflow.Definition
			var each []*workflow.Workflow[int, int]
			for i := range n {
				w := workflow.New(fmt.Sprint("queued", i), func(_ workflow.Context, in int) (int, error) { return in, nil })
				defs, each = append(defs, w), append(each, w)
			}
			runs := max(b.runs/n, 1)
			var handles []workflow.Handle[int]
			for _, w := range each {
				some, err := w.StartMany(ctx, s.eng, make([]workflow.Each[int], runs))
				if err != nil {
					return err
				}
				handles = append(handles, some...)
			}
			from := time.Now()
			if err := s.work(ctx, 1000, defs...); err != nil {
				return err
			}
			if _, err := workflow.Results(ctx, handles); err != nil {
				return err
			}
			b.point("queues", "queues of one worker", "no-op runs a second", float64(n), perSecond(runs*n, from))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
