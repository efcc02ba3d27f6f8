package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/workflow"
)

var (
	echoed = workflow.NewUpdate[int, int]("echoed")
	told   = workflow.NewSignal[int]("told")
	ticks  = workflow.NewStream[int64]("ticks")
)

// Runs that receive so many signals or requests. They receive nothing else.
var (
	listener = workflow.New("listener", func(ctx workflow.Context, n int) (int, error) {
		for range n {
			if _, err := told.Receive(ctx); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	answerer = workflow.New("answerer", func(ctx workflow.Context, n int) (int, error) {
		for range n {
			if err := echoed.Handle(ctx, func(_ workflow.Context, in int) (int, error) { return in, nil }); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
)

// callers makes n calls by so many callers, and returns the rate.
func (b *bench) callers(n, callers int, call func(i int) error) (float64, error) {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, callers)
	from := time.Now()
	for c := range callers {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n && errs[c] == nil; i = int(next.Add(1)) {
				errs[c] = call(i - 1)
			}
		})
	}
	wg.Wait()
	return perSecond(n, from), errors.Join(errs...)
}

// answers measures, in turns, signals that runs consume and requests that they answer, by 16 and 64
// callers to as many runs; starts, and starts with a signal; and the time from an append to its
// reader.
func (b *bench) answers(ctx context.Context, at *site) error {
	for rep := range b.reps {
		fmt.Fprintf(os.Stderr, "repetition %d of %d\n", rep+1, b.reps)
		for _, n := range []int{16, 64} {
			each := max(1, min(b.runs, 100*n)/n) // a run has its whole history to replay
			for _, one := range []struct {
				name string
				wf   *workflow.Workflow[int, int]
				call func(s *subject, h workflow.Handle[int]) (wait func() error, err error)
			}{
				{"signals consumed", listener, func(s *subject, h workflow.Handle[int]) (func() error, error) {
					return nil, told.Send(ctx, s.eng, h.ID(), 7)
				}},
				{"updates answered, sent before any answer is read", answerer, func(s *subject, h workflow.Handle[int]) (func() error, error) {
					asked, err := echoed.Send(ctx, h, 7)
					return func() error { _, err := asked.Wait(ctx); return err }, err
				}},
				{"updates answered, each caller waits for its answer", answerer, func(s *subject, h workflow.Handle[int]) (func() error, error) {
					_, err := echoed.Ask(ctx, h, 7)
					return nil, err
				}},
			} {
				err := b.within(ctx, at, func(_ string, s *subject) error {
					if err := s.work(ctx, 1000, one.wf); err != nil {
						return err
					}
					inputs := make([]workflow.Each[int], n)
					for i := range inputs {
						inputs[i].In = each
					}
					handles, err := one.wf.StartMany(ctx, s.eng, inputs)
					if err != nil {
						return err
					}
					from := time.Now()
					if _, err := b.callers(n, n, func(i int) (err error) {
						var waits []func() error
						for range each {
							wait, e := one.call(s, handles[i])
							if err = errors.Join(err, e); wait != nil {
								waits = append(waits, wait)
							}
						}
						for _, wait := range waits {
							err = errors.Join(err, wait())
						}
						return err
					}); err != nil {
						return err
					}
					if _, err := workflow.Results(ctx, handles); err != nil {
						return err
					}
					b.add(fmt.Sprintf("%s, %d callers", one.name, n), "/s", perSecond(n*each, from))
					return nil
				})
				if err != nil {
					return fmt.Errorf("%s: %w", one.name, err)
				}
			}
		}
		if err := b.signaledStarts(ctx, at); err != nil {
			return err
		}
		if err := b.appends(ctx, at); err != nil {
			return fmt.Errorf("append to reader: %w", err)
		}
	}
	return nil
}

// signaledStarts measures starts with an external id, with and without a signal, and signals with a
// start that find one of 64 runs.
func (b *bench) signaledStarts(ctx context.Context, at *site) error {
	for _, one := range []struct {
		name string
		runs int
		call func(s *subject, id engine.StartOption) error
	}{
		{"starts with an external id, 16 callers", b.runs, func(s *subject, id engine.StartOption) error {
			_, err := listener.Start(ctx, s.eng, 7, id)
			return err
		}},
		{"signals with a start, each starts a run, 16 callers", b.runs, func(s *subject, id engine.StartOption) error {
			_, err := listener.SignalWithStart(ctx, s.eng, 7, told.With(7), id)
			return err
		}},
		{"signals with a start that find one of 64 runs, 16 callers", 64, func(s *subject, id engine.StartOption) error {
			_, err := listener.SignalWithStart(ctx, s.eng, 7, told.With(7), id)
			return err
		}},
	} {
		err := b.within(ctx, at, func(_ string, s *subject) error {
			if err := s.know(ctx, listener); err != nil {
				return err
			}
			rate, err := b.callers(b.runs, 16, func(i int) error {
				return one.call(s, engine.ExternalID(fmt.Sprint("k", i%one.runs), engine.WhileActive))
			})
			b.add(one.name, "/s", rate)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// appends samples the time from an append to its reader, on another connection to the database.
func (b *bench) appends(ctx context.Context, at *site) error {
	return b.within(ctx, at, func(place string, s *subject) error {
		other, err := at.open(ctx, place)
		if err != nil {
			return err
		}
		defer other.close()
		read := make(chan time.Duration)
		writer := workflow.New("writer", func(ctx workflow.Context, n int) (int, error) {
			return n, workflow.Do(ctx, "write", func(ctx context.Context) error {
				for range n {
					if err := ticks.Append(ctx, time.Now().UnixNano()); err != nil {
						return err
					}
					select {
					case <-read:
					case <-ctx.Done():
						return ctx.Err()
					}
					pauseFor(ctx, 5*time.Millisecond) // idle again
				}
				return nil
			})
		})
		if err := s.work(ctx, 10, writer); err != nil {
			return err
		}
		h, err := writer.Start(ctx, s.eng, b.samples+10)
		if err != nil {
			return err
		}
		var took []float64
		for item, err := range ticks.Read(ctx, other.eng, h.ID(), "") {
			if err != nil {
				return err
			}
			if took = append(took, float64(time.Now().UnixNano()-item.Value)/1e6); len(took) <= b.samples+10 {
				read <- 0
			}
		}
		if took = took[min(10, len(took)):]; len(took) != b.samples {
			return fmt.Errorf("%d samples of %d", len(took), b.samples)
		}
		slices.Sort(took)
		b.add("append called to its reader, p50", "ms", took[len(took)/2])
		b.add("append called to its reader, p99", "ms", took[len(took)*99/100])
		return nil
	})
}
