package workflow_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/workflow"
)

var item = workflow.NewSignal[string]("item")

// Basket collects three items, or those of an hour.
var Basket = workflow.New("basket", func(ctx workflow.Context, owner string) ([]string, error) {
	return item.ReceiveMany(ctx, 3, time.Hour)
})

// The first signal starts the run of an external id, and the next ones reach it.
func ExampleWorkflow_SignalWithStart() {
	eng, stop := serve(Basket)
	defer stop()
	ctx := context.Background()

	var run workflow.Handle[[]string]
	for _, it := range []string{"lamp", "sofa", "chair"} {
		var err error
		run, err = Basket.SignalWithStart(ctx, eng, "Ann", item.With(it), engine.ExternalID("basket-of-ann"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(it, run.Existing())
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// lamp false
	// sofa true
	// chair true
	// [lamp sofa chair] <nil>
}
