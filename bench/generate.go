package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// slots of the worker in these parts.
const itemSlots = 200

// generators measures a generator beside plain runs of the same number, started in
// bulk in the same process, and a map.
func (b *bench) generators(ctx context.Context, at *site) error {
	n := b.items
	plain, err := b.rate(ctx, at, func(s *subject) (float64, error) { return s.plainRuns(ctx, n) })
	if err != nil {
		return fmt.Errorf("plain runs: %w", err)
	}
	b.add(fmt.Sprintf("generator of %d: plain runs, in bulk and worker at once", n), "/s", plain)
	rate, err := b.rate(ctx, at, func(s *subject) (float64, error) { return b.generate(ctx, s, n) })
	if err != nil {
		return fmt.Errorf("generator: %w", err)
	}
	b.add(fmt.Sprintf("generator of %d: items", n), "/s", rate)
	b.add(fmt.Sprintf("generator of %d: ratio to plain runs", n), "", rate/plain)
	rate, err = b.rate(ctx, at, func(s *subject) (float64, error) { return b.fanOut(ctx, s, min(n, 10_000)) })
	if err != nil {
		return fmt.Errorf("map: %w", err)
	}
	b.add(fmt.Sprintf("map of %d: items", min(n, 10_000)), "/s", rate)
	return nil
}

// rate measures on a fresh database.
func (b *bench) rate(ctx context.Context, at *site, do func(s *subject) (float64, error)) (rate float64, err error) {
	err = b.within(ctx, at, func(_ string, s *subject) (err error) {
		rate, err = do(s)
		return err
	})
	return rate, err
}

// plainRuns starts n runs, a thousand in a write, while a worker does them, ten
// thousand at the most under way.
func (s *subject) plainRuns(ctx context.Context, n int) (rate float64, err error) {
	if err := s.work(ctx, itemSlots, noop); err != nil {
		return 0, err
	}
	from := time.Now()
	var line [][]workflow.Handle[int]
	for left := n; left > 0 || len(line) > 0; {
		if left > 0 && len(line) < 10 {
			handles, err := noop.StartMany(ctx, s.eng, make([]workflow.Each[int], min(left, 1000)))
			if err != nil {
				return 0, err
			}
			left -= len(handles)
			line = append(line, handles)
			continue
		}
		if _, err := workflow.Results(ctx, line[0]); err != nil {
			return 0, err
		}
		line = line[1:]
	}
	return float64(n) / time.Since(from).Seconds(), nil
}

// generate runs a generator of n items.
func (b *bench) generate(ctx context.Context, s *subject, n int) (rate float64, err error) {
	var last atomic.Int64
	item := workflow.New("item", func(_ workflow.Context, i int) (int, error) {
		last.Store(time.Now().UnixNano())
		return i, nil
	})
	wf := workflow.New("generator", func(ctx workflow.Context, n int) (workflow.Generated, error) {
		return workflow.Generate(ctx, "discover", func(ctx context.Context, yield func(int) error) error {
			for i := range n {
				if err := yield(i); err != nil {
					return err
				}
			}
			return nil
		}, item)
	})
	if err := s.work(ctx, itemSlots, wf, item); err != nil {
		return 0, err
	}
	early, late := new(uint64), new(uint64)
	watch, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		memory(watch, early, late)
	}()
	from := time.Now()
	h, err := wf.Start(ctx, s.eng, n)
	if err != nil {
		stop()
		return 0, err
	}
	got, err := h.Result(ctx)
	took, behind := time.Since(from), time.Since(time.Unix(0, last.Load()))
	stop()
	<-watched
	if err != nil {
		return 0, err
	}
	if got.Completed != int64(n) {
		return 0, fmt.Errorf("%+v, expected %d items", got, n)
	}
	b.add(fmt.Sprintf("generator of %d: last item handled to result seen", n), "ms", float64(behind.Microseconds())/1000)
	b.add(fmt.Sprintf("generator of %d: peak of the heap, first fifth", n), "MB", float64(*early)/1e6)
	b.add(fmt.Sprintf("generator of %d: peak of the heap, the rest", n), "MB", float64(*late)/1e6)
	return float64(n) / took.Seconds(), nil
}

// memory watches the process's heap. early is its peak in about the first fifth of
// the time, late in the rest.
func memory(ctx context.Context, early, late *uint64) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var samples []uint64
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		samples = append(samples, m.HeapAlloc)
		select {
		case <-tick.C:
		case <-ctx.Done():
			for i, v := range samples {
				if i <= len(samples)/5 {
					*early = max(*early, v)
				} else {
					*late = max(*late, v)
				}
			}
			return
		}
	}
}

// fanOut maps n items.
func (b *bench) fanOut(ctx context.Context, s *subject, n int) (rate float64, err error) {
	wf := workflow.New("map", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Reduce(ctx, "all", make([]int, n), noop, 0, func(sum, i, _ int) (int, error) { return sum + 1, nil })
	})
	if err := s.work(ctx, itemSlots, wf, noop); err != nil {
		return 0, err
	}
	from := time.Now()
	h, err := wf.Start(ctx, s.eng, n)
	if err != nil {
		return 0, err
	}
	got, err := h.Result(ctx)
	if err == nil && got != n {
		err = fmt.Errorf("%d items came back, expected %d", got, n)
	}
	if err != nil {
		return 0, err
	}
	took := time.Since(from)
	run, err := s.eng.Get(ctx, h.ID())
	b.add(fmt.Sprintf("map of %d: claims of the parent", n), "", float64(run.Epoch))
	return float64(n) / took.Seconds(), err
}
