package workflow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/workflow"
)

// Ship changes the tag state of its run.
var Ship = workflow.New("ship", func(ctx workflow.Context, order string) (string, error) {
	return "sent " + order, workflow.SetTags(ctx, map[string]string{"state": "sent"})
})

// A run is found by its tags.
func ExampleSetTags() {
	eng, stop := serve(Ship)
	defer stop()
	ctx := context.Background()

	h, err := Ship.Start(ctx, eng, "lamp", engine.Tags(map[string]string{"customer": "4711", "state": "new"}))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := h.Result(ctx); err != nil {
		log.Fatal(err)
	}
	page, err := eng.List(ctx, engine.WithTags(map[string]string{"customer": "4711", "state": "sent"}), "", 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page.Runs), page.Runs[0].Tags)
	// Output: 1 map[customer:4711 state:sent]
}
