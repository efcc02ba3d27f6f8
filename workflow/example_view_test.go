package workflow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawlhq/pawl/workflow"
)

var copied = workflow.NewView[int]("copied")

// Copy publishes how much is copied with the result of each step.
var Copy = workflow.New("copy", func(ctx workflow.Context, parts int) (int, error) {
	for i := range parts {
		err := workflow.Do(ctx, "part", func(ctx context.Context) error {
			return copied.Publish(workflow.InStep(ctx), i+1)
		})
		if err != nil {
			return i, err
		}
	}
	return parts, nil
})

// A view is read without a worker, also after the run's end.
func ExampleView() {
	eng, stop := serve(Copy)
	defer stop()
	ctx := context.Background()

	run, err := Copy.Start(ctx, eng, 5)
	if err != nil {
		log.Fatal(err)
	}
	last := 0
	for p, err := range copied.Watch(ctx, eng, run.ID()) {
		if err != nil {
			log.Fatal(err)
		}
		last = p.Value
	}
	fmt.Println(last)
	fmt.Println(copied.Get(ctx, eng, run.ID()))
	// Output:
	// 5
	// 5 true <nil>
}
