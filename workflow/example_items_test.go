package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"log/slog"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// runWith runs a workflow to its end, on a new database in memory, with a worker that also
// has the workflows of its children.
func runWith[In, Out any](wf *workflow.Workflow[In, Out], in In, children ...workflow.Definition) (Out, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.Logger(slog.New(slog.DiscardHandler)))
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(append(children, wf)...); err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	h, err := wf.Start(ctx, eng, in)
	if err != nil {
		log.Fatal(err)
	}
	out, err := h.Result(ctx)
	cancel()
	<-stopped
	return out, err
}

// resize is the workflow of one item.
var resize = workflow.New("resize", func(ctx workflow.Context, width int) (string, error) {
	return workflow.Step(ctx, "resize", func(ctx context.Context) (string, error) {
		if width <= 0 {
			return "", workflow.Permanent(errors.New("no such width"))
		}
		return fmt.Sprintf("%dpx", width), nil
	})
})

// A child is a run of its own, which any worker takes. Its parent sleeps meanwhile.
func ExampleChild() {
	upload := workflow.New("upload", func(ctx workflow.Context, name string) (string, error) {
		small, err := workflow.Child(ctx, "thumbnail", resize, 80)
		return name + " in " + small, err
	})
	fmt.Println(runWith(upload, "cat.png", resize))
	// Output:
	// cat.png in 80px <nil>
}

// A child whose function is in another program: the parent needs its name and types only.
func ExampleCallable() {
	thumbnail := workflow.Ref[int, string]("resize")
	upload := workflow.New("upload", func(ctx workflow.Context, name string) (string, error) {
		small, err := workflow.Child(ctx, "thumbnail", thumbnail, 80)
		return name + " in " + small, err
	})
	fmt.Println(runWith(upload, "cat.png", resize)) // one worker has both here
	// Output:
	// cat.png in 80px <nil>
}

// If a child fails, its parent gets an error and decides how to continue.
func ExampleChild_failure() {
	upload := workflow.New("upload", func(ctx workflow.Context, name string) (string, error) {
		_, err := workflow.Child(ctx, "thumbnail", resize, -1)
		if errors.Is(err, engine.ErrFailed) {
			return name + " without thumbnail", nil
		}
		return name, err
	})
	fmt.Println(runWith(upload, "cat.png", resize))
	// Output:
	// cat.png without thumbnail <nil>
}

// Two children at the same time.
func ExampleStartChild() {
	upload := workflow.New("upload", func(ctx workflow.Context, name string) (string, error) {
		small, err := workflow.StartChild(ctx, "small", resize, 80)
		if err != nil {
			return "", err
		}
		large, err := workflow.StartChild(ctx, "large", resize, 800)
		if err != nil {
			return "", err
		}
		s, err := small.Get(ctx)
		if err != nil {
			return "", err
		}
		l, err := large.Get(ctx)
		return name + " in " + s + " and " + l, err
	})
	fmt.Println(runWith(upload, "cat.png", resize))
	// Output:
	// cat.png in 80px and 800px <nil>
}

// A run for each item of a slice, two of them at a time. The outputs come in the order of
// the items.
func ExampleMap() {
	sizes := workflow.New("sizes", func(ctx workflow.Context, widths []int) ([]string, error) {
		return workflow.Map(ctx, "resize", widths, resize, workflow.AtOnce(2))
	})
	fmt.Println(runWith(sizes, []int{80, 320, 800}, resize))
	// Output:
	// [80px 320px 800px] <nil>
}

// Every item runs to its end, and the workflow gets the outputs of those that completed.
func ExampleCollect() {
	sizes := workflow.New("sizes", func(ctx workflow.Context, widths []int) ([]string, error) {
		done, err := workflow.Map(ctx, "resize", widths, resize, workflow.Collect())
		var some *workflow.ItemsError
		if errors.As(err, &some) {
			for _, item := range some.Items {
				done[item.Index] = "no picture"
			}
			err = nil
		}
		return done, err
	})
	fmt.Println(runWith(sizes, []int{80, -1, 800}, resize))
	// Output:
	// [80px no picture 800px] <nil>
}

// A few items may fail; if one more fails, the rest are canceled and the map fails.
func ExampleTolerate() {
	sizes := workflow.New("sizes", func(ctx workflow.Context, widths []int) (string, error) {
		_, err := workflow.Map(ctx, "resize", widths, resize, workflow.Tolerate(1))
		var items *workflow.ItemsError
		return fmt.Sprintf("enough done: %t", !errors.As(err, &items)), nil
	})
	fmt.Println(runWith(sizes, []int{80, -1, 800}, resize))
	fmt.Println(runWith(sizes, []int{-1, -1, 800}, resize))
	// Output:
	// enough done: true <nil>
	// enough done: false <nil>
}

// A sum over the outputs of any number of items, without a list of them.
func ExampleReduce() {
	count := workflow.New("count-words", func(ctx workflow.Context, page string) (int, error) {
		return workflow.Step(ctx, "count", func(ctx context.Context) (int, error) { return len(page), nil })
	})
	book := workflow.New("count-book", func(ctx workflow.Context, pages []string) (int, error) {
		return workflow.Reduce(ctx, "pages", pages, count, 0, func(sum, _, n int) (int, error) { return sum + n, nil })
	})
	fmt.Println(runWith(book, []string{"once", "upon", "a", "time"}, count))
	// Output:
	// 13 <nil>
}

// A run for each item that a generator yields, while it yields them. At most ten items are in
// progress.
func ExampleGenerate() {
	gallery := workflow.New("gallery", func(ctx workflow.Context, pictures int) (int64, error) {
		all, err := workflow.Generate(ctx, "pictures", func(ctx context.Context, yield func(int) error) error {
			for i := range pictures {
				if err := yield(100 + i); err != nil {
					return err
				}
			}
			return nil
		}, resize, workflow.Window(10))
		return all.Completed, err
	})
	fmt.Println(runWith(gallery, 25, resize))
	// Output:
	// 25 <nil>
}

// A generator with a cursor resumes where it was when it is started again, here after an error in
// the middle of the list.
func ExampleGenerateFrom() {
	failed := false
	gallery := workflow.New("gallery", func(ctx workflow.Context, pictures int) (int64, error) {
		list := func(ctx context.Context, from int, yield func(width, next int) error) error {
			for i := from; i < pictures; i++ {
				if i == 12 && !failed {
					failed = true
					return workflow.RetryAfter(errors.New("connection reset"), 1)
				}
				if err := yield(100+i, i+1); err != nil {
					return err
				}
			}
			return nil
		}
		all, err := workflow.GenerateFrom(ctx, "pictures", list, resize, workflow.Batch(5))
		return all.Spawned, err
	})
	fmt.Println(runWith(gallery, 25, resize))
	// Output:
	// 25 <nil>
}

// Items of a sequence. Of several items with the same key, one is spawned.
func ExampleGenerateSeq() {
	gallery := workflow.New("gallery", func(ctx workflow.Context, widths []int) (int64, error) {
		seq := func(ctx context.Context) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for _, width := range widths {
					if !yield(width, nil) {
						return
					}
				}
			}
		}
		all, err := workflow.GenerateSeq(ctx, "pictures", seq, resize,
			workflow.ItemKey(func(width int) string { return fmt.Sprint(width) }))
		return all.Spawned, err
	})
	fmt.Println(runWith(gallery, []int{80, 320, 80}, resize))
	// Output:
	// 2 <nil>
}

// A generator's items are counted. A fold gives the run more: here the total of their outputs.
func ExampleFold() {
	charge := workflow.New("charge", func(_ workflow.Context, cents int) (int, error) { return cents, nil })
	billing := workflow.New("billing", func(ctx workflow.Context, customers int) (string, error) {
		invoices := func(ctx context.Context, yield func(int) error) error {
			for i := range customers {
				if err := yield(100 * (i + 1)); err != nil {
					return err
				}
			}
			return nil
		}
		var total int
		counts, err := workflow.Generate(ctx, "invoices", invoices, charge,
			workflow.Fold(&total, func(sum int, place int64, cents int) (int, error) { return sum + cents, nil }))
		return fmt.Sprintf("%d invoices, %d cents", counts.Completed, total), err
	})
	fmt.Println(runWith(billing, 4, charge))
	// Output:
	// 4 invoices, 1000 cents <nil>
}
