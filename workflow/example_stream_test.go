package workflow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawlhq/pawl/workflow"
)

// Lines is a stream of text.
var Lines = workflow.NewStream[string]("lines")

// Recite appends to the stream while it works.
var Recite = workflow.New("recite", func(ctx workflow.Context, verses []string) (int, error) {
	if err := Lines.AppendInRun(ctx, "A poem"); err != nil {
		return 0, err
	}
	return len(verses), workflow.Do(ctx, "verses", func(ctx context.Context) error {
		for _, verse := range verses {
			if err := Lines.Append(ctx, verse); err != nil {
				return err
			}
		}
		return nil
	})
})

// A reader follows the stream of a run until the run ends.
func ExampleNewStream() {
	eng, stop := serve(Recite)
	defer stop()
	ctx := context.Background()

	h, err := Recite.Start(ctx, eng, []string{"Roses are red,", "violets are blue."})
	if err != nil {
		log.Fatal(err)
	}
	var last workflow.Cursor
	for item, err := range Lines.Read(ctx, eng, h.ID(), "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(item.Value)
		if item.Step == "append lines" {
			last = item.Cursor
		}
	}
	for item := range Lines.Read(ctx, eng, h.ID(), last) {
		fmt.Println("again:", item.Value)
	}
	// Output:
	// A poem
	// Roses are red,
	// violets are blue.
	// again: Roses are red,
	// again: violets are blue.
}
