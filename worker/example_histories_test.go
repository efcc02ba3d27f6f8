package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Paid tells an order that it is paid.
var Paid = workflow.NewSignal[int]("paid")

// order is a workflow whose first step has this name.
func order(first string) *workflow.Workflow[int, int] {
	return workflow.New("order", func(ctx workflow.Context, _ int) (int, error) {
		if err := workflow.Do(ctx, first, func(context.Context) error { return nil }); err != nil {
			return 0, err
		}
		return Paid.Receive(ctx)
	})
}

// underWay starts orders on the old code, which wait in the database when it returns.
func underWay(ctx context.Context, eng *engine.Engine, orders int) store.ID {
	w := worker.New(eng)
	if err := w.Register(order("reserve")); err != nil {
		log.Fatal(err)
	}
	var last store.ID
	for range orders {
		h, err := order("reserve").Start(ctx, eng, 0)
		if err != nil {
			log.Fatal(err)
		}
		last = h.ID()
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	return last
}

// A program checks, before it is deployed, whether it can take over the runs of the program
// that it replaces. It does so behind a flag, and its exit code is for the pipeline.
func ExampleCheckHistories() {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.Logger(slog.New(slog.DiscardHandler)))
	defer eng.Close()
	underWay(ctx, eng, 3)

	report, err := worker.CheckHistories(ctx, eng, []workflow.Definition{order("hold")}, worker.CheckSample(100))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("checked", report.Checked, "unfit", report.Unfit, "exit code", report.ExitCode())
	for _, m := range report.Misfits {
		fmt.Println(m.Workflow, m.Step, m.Code, "and", m.More, "more")
	}
	// Output:
	// checked 3 unfit 3 exit code 1
	// order reserve nondeterministic and 2 more
}

// The same check on an export, where the database cannot be reached.
func ExampleCheckExport() {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.Logger(slog.New(slog.DiscardHandler)))
	defer eng.Close()
	var export bytes.Buffer
	if err := eng.Export(ctx, &export, underWay(ctx, eng, 1)); err != nil {
		log.Fatal(err)
	}

	report, err := worker.CheckExport(ctx, &export, engine.JSON{}, []workflow.Definition{order("reserve")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(report)
	// Output:
	// 1 unfinished run checked, 0 of them do not fit this code
}
