package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// percent is what runs publish in this part.
var percent = workflow.NewView[int]("percent")

// publishing is threeStep, and each step publishes a value with its result.
var publishing = workflow.New("publishing", func(ctx workflow.Context, in int) (int, error) {
	for i, name := range []string{"one", "two", "three"} {
		var err error
		in, err = workflow.Step(ctx, name, func(ctx context.Context) (int, error) {
			return in + 1, percent.Publish(workflow.InStep(ctx), 33*(i+1))
		})
		if err != nil {
			return 0, err
		}
	}
	return in, nil
})

// leaf, branch and trunk are a tree of three levels below its root: branch has n leaves, trunk n branches, and the root ten trunks.
var (
	leaf   = workflow.New("leaf", func(_ workflow.Context, i int) (int, error) { return i, nil })
	branch = mapped("branch", leaf, func(n int) int { return n })
	trunk  = mapped("trunk", branch, func(n int) int { return n })
	root   = mapped("root", trunk, func(int) int { return 10 })
)

// mapped returns a workflow with children of another one, each with the same input.
func mapped(name string, of *workflow.Workflow[int, int], number func(n int) int) *workflow.Workflow[int, int] {
	return workflow.New(name, func(ctx workflow.Context, n int) (int, error) {
		return workflow.Reduce(ctx, "items", slices.Repeat([]int{n}, number(n)), of, 0, func(sum, _, _ int) (int, error) { return sum + 1, nil })
	})
}

// progress measures, in turns, runs whose steps publish a view beside runs whose steps do not, and a generator that folds the
// results of its items beside one that does not; and how long it takes to read a view, and the progress of trees.
func (b *bench) progress(ctx context.Context, at *site) error {
	for rep := range b.reps {
		fmt.Fprintf(os.Stderr, "repetition %d of %d\n", rep+1, b.reps)
		for _, one := range []struct {
			name string
			do   func(s *subject) (float64, error)
		}{
			{"three-step runs", func(s *subject) (float64, error) { return b.endToEnd(ctx, s, threeStep) }},
			{"three-step runs, each step publishes a view", func(s *subject) (float64, error) { return b.endToEnd(ctx, s, publishing) }},
			{"generator, items", func(s *subject) (float64, error) { return b.folded(ctx, s) }},
			{"generator that folds, items", func(s *subject) (float64, error) {
				sum := 0
				return b.folded(ctx, s, workflow.Fold(&sum, func(sum int, _ int64, out int) (int, error) { return sum + out, nil }))
			}},
		} {
			rate, err := b.rate(ctx, at, one.do)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			b.add(one.name, "/s", rate)
		}
		for _, n := range []int{3, 10, 30} {
			if err := b.within(ctx, at, func(_ string, s *subject) error { return b.tree(ctx, s, n) }); err != nil {
				return fmt.Errorf("tree: %w", err)
			}
		}
	}
	return nil
}

// endToEnd starts -runs runs in bulk and waits for all, and then reads the view of each.
func (b *bench) endToEnd(ctx context.Context, s *subject, wf *workflow.Workflow[int, int]) (float64, error) {
	if err := s.work(ctx, 1000, wf); err != nil {
		return 0, err
	}
	from := time.Now()
	handles, err := wf.StartMany(ctx, s.eng, make([]workflow.Each[int], b.runs))
	if err != nil {
		return 0, err
	}
	if _, err := workflow.Results(ctx, handles); err != nil {
		return 0, err
	}
	rate := perSecond(b.runs, from)
	if wf != publishing {
		return rate, nil
	}
	return rate, b.sampled("view read", func(i int) error {
		got, ok, err := percent.Get(ctx, s.eng, handles[i%len(handles)].ID())
		if err == nil && (!ok || got != 99) {
			return fmt.Errorf("%d, %v", got, ok)
		}
		return err
	})
}

// sampled measures -samples calls one after the other.
func (b *bench) sampled(name string, call func(i int) error) error {
	took := make([]float64, b.samples)
	for i := range took {
		from := time.Now()
		if err := call(i); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		took[i] = float64(time.Since(from).Microseconds()) / 1000
	}
	slices.Sort(took)
	b.add(name+", p50", "ms", took[len(took)/2])
	b.add(name+", p99", "ms", took[len(took)*99/100])
	return nil
}

// folded runs a generator of -items items.
func (b *bench) folded(ctx context.Context, s *subject, opts ...workflow.GenerateOption) (float64, error) {
	wf := workflow.New("generator", func(ctx workflow.Context, n int) (workflow.Generated, error) {
		return workflow.Generate(ctx, "discover", func(_ context.Context, yield func(int) error) error {
			for i := range n {
				if err := yield(i); err != nil {
					return err
				}
			}
			return nil
		}, leaf, opts...)
	})
	if err := s.work(ctx, itemSlots, wf, leaf); err != nil {
		return 0, err
	}
	from := time.Now()
	h, err := wf.Start(ctx, s.eng, b.items)
	if err != nil {
		return 0, err
	}
	if _, err := h.Result(ctx); err != nil {
		return 0, err
	}
	return perSecond(b.items, from), nil
}

// tree reads the progress of a tree that has ended: 10 trunks, n branches each, and n leaves each.
func (b *bench) tree(ctx context.Context, s *subject, n int) error {
	if err := s.work(ctx, 1000, root, trunk, branch, leaf); err != nil {
		return err
	}
	h, err := root.Start(ctx, s.eng, n)
	if err != nil {
		return err
	}
	if _, err := h.Result(ctx); err != nil {
		return err
	}
	all := 10 + 10*n + 10*n*n
	return b.sampled(fmt.Sprintf("progress of a tree of %d runs", all+1), func(int) error {
		p, err := s.eng.Progress(ctx, h.ID())
		if err == nil && p.Completed != int64(all) {
			return fmt.Errorf("%+v", p)
		}
		return err
	})
}
