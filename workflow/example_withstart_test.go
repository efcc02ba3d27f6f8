package workflow_test

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/workflow"
)

var add = workflow.NewUpdate[int, int]("add")

// Counter adds up what it is asked to, three times.
var Counter = workflow.New("counter", func(ctx workflow.Context, sum int) (int, error) {
	for range 3 {
		err := add.Handle(ctx, func(_ workflow.Context, n int) (int, error) {
			sum += n
			return sum, nil
		})
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
})

// The first request starts the run that answers it.
func ExampleWorkflow_WithStart() {
	eng, stop := serve(Counter)
	defer stop()
	ctx := context.Background()

	counter := Counter.WithStart(eng, 10, engine.ExternalID("counter-1"))
	for _, n := range []int{1, 2, 3} {
		fmt.Println(add.Ask(ctx, counter, n))
	}
	// Output:
	// 11 <nil>
	// 13 <nil>
	// 16 <nil>
}
