package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// Greet is the workflow that the program serves.
var Greet = workflow.New("greet", func(ctx workflow.Context, name string) (string, error) {
	return "Hello, " + name, nil
})

// An engine starts a run, waits for its end and reads it. The typed way is to call the
// workflow's own Start; this is what lies below it, for programs that know a workflow by
// its name.
func Example() {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st)
	defer eng.Close()
	w := worker.New(eng)
	if err := w.Register(Greet); err != nil {
		log.Fatal(err)
	}

	started, err := eng.Start(ctx, "greet", []byte(`"Ann"`))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}
	end, err := eng.Wait(ctx, started.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(end.Status, string(end.Output))
	// Output:
	// completed "Hello, Ann"
}
